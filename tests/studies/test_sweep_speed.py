"""Ten thousand points at once against one after another, and the memory that they take."""

import json
import statistics
import subprocess
import sys
import time

import numpy as np
import pytest

from circuits import Netlist
from circuits.netlist import Clock
from rhel_hw import EchoLearner, EmulatedBench
from studies.sweeps import Sweep, outcomes, run
from studies.sweeps.setups import Plan

AXES = {
    "readout.bits": list(range(4, 14)),
    "readout.noise": {"log": [1e-5, 1e-2, 10]},
    "learning.gamma": {"log": [1.0, 1e4, 10]},
    "seed": list(range(10)),
}
TIMES = 50


@pytest.fixture(scope="module")
def netlist():
    """Six nodes, a thousand steps."""
    found = Netlist.load("lc-toy")
    return found.replace(clock=Clock(None, 1000), settings={"task": {"spread": 0.1}, "learning": {"epsilon": 0.01}})


@pytest.mark.slow
@pytest.mark.speed
def test_ten_thousand_points_are_fifty_times_faster_than_a_loop(netlist, tmp_path):
    """All programs compiled before: the whole sweep with its store, against its points, each on a bench of its own."""
    sweep = Sweep(AXES)
    outcomes(netlist, Sweep({**AXES, "seed": [0]}))  # compiles
    plan, drawn = Plan(netlist, sweep), np.random.default_rng(0)
    ratios = []
    for attempt in range(3):
        singles = []
        for _ in range(40):
            group = plan.groups[drawn.integers(len(plan.groups))]
            setup, lane = group.setup, group.lanes[drawn.integers(len(group.lanes))]
            lesson = setup.lesson
            start = time.perf_counter()
            bench = EmulatedBench(setup.design, lane.profile, seed=setup.seed, reference=lesson.drive)
            EchoLearner(epsilon=lane.epsilon, gamma=lane.gamma).gradient(bench, setup.design, lesson)
            singles.append(time.perf_counter() - start)
        start = time.perf_counter()
        run(netlist, sweep, tmp_path / f"s{attempt}")
        whole = time.perf_counter() - start
        single = statistics.median(singles[10:])
        ratios.append(sweep.count * single / whole)
        print(f"{sweep.count} points: {whole:.2f} s; one alone {1e3 * single:.1f} ms; {ratios[-1]:.0f} times faster")
    assert statistics.median(ratios) >= TIMES


MEMORY = """
import json, resource, sys
import jax
jax.config.update("jax_enable_x64", True)
from circuits import Netlist
from studies.sweeps import Sweep, outcomes
netlist = Netlist.load(sys.argv[1])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
axes = {"readout.noise": [1e-3], "chip": list(range(4)), "learning.gamma": [100.0]}
outcomes(netlist, Sweep(axes))
before = peak()
outcomes(netlist, Sweep({**axes, "chip": list(range(2000))}), memory=int(sys.argv[2]))
print(json.dumps(peak() - before))
"""


@pytest.mark.slow
@pytest.mark.parametrize("megabytes", [300, 1000])
def test_memory_stays_within_what_is_allowed(netlist, tmp_path, megabytes):
    """Beyond what compiled programs and libraries take, which the first points show."""
    (tmp_path / "design.toml").write_text(netlist.to_toml())
    ran = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path / "design.toml"), str(megabytes * 10**6)],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    taken = json.loads(ran.stdout)
    print(f"{taken / 1e6:.0f} MB of {megabytes} MB")
    assert taken <= megabytes * 10**6
