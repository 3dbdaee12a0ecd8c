"""Sweeps: lanes equal single benches, programs are compiled once, results stay however they come about."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from circuits import DesignError, Netlist
from circuits.generators import ladder
from circuits.netlist import Clock
from devices import ArgumentError, DuffingSpring, ForceDrive, Mass
from rhel_hw import BPTT, EchoLearner, EmulatedBench
from rhel_hw.compare import cosine, trained
from rhel_hw.device import run_pass
from rhel_hw.truth import gradients_as_made
from studies.sweeps import Sweep, engine, outcomes, run
from studies.sweeps.batch import run_batch
from studies.sweeps.setups import Plan, changed
from tests.systems import quick_or_slow

STEPS = 60


@pytest.fixture(scope="module")
def netlist():
    """A toy of few steps and one stimulus."""
    found = Netlist.load("lc-toy")
    return found.replace(clock=Clock(None, STEPS), settings={"task": {"spread": 0.1}, "learning": {"epsilon": 0.01}})


def alone(group, lane, gamma=None):
    """The gradient of one point on a bench of its own."""
    setup = group.setup
    bench = EmulatedBench(
        setup.design, lane.profile, seed=setup.seed, chips=[lane.chip], reference=setup.lesson.drive or None
    )
    learner = EchoLearner(epsilon=lane.epsilon, gamma=lane.gamma if gamma is None else gamma)
    found = learner.gradient(bench, setup.design, setup.lesson)
    return found, trained(setup.design, {k: np.asarray(v) for k, v in found.theta.items()})


def tree(folder: Path) -> dict[str, str]:
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


# Lanes --------------------------------------------------------------------------------------------------------------


LANES = (
    {"readout.bits": [5, 9], "readout.noise": [1e-4, 1e-2], "learning.gamma": [1.0, 300.0], "chip": [0, 7]},
    {"fabrication.mismatch": [0.01, 0.1], "dynamics.quality": [50.0, 5000.0], "learning.epsilon": [0.01, 1.0]},
    {"dynamics.drift": [1e-6, 1e-4], "echo.gain": [0.98, 1.03], "readout.noise": [1e-4, 1e-3]},
    {"dynamics.quality": [200.0], "dynamics.temperature": [1.0, 300.0], "chip": [0, 1]},
    {"drive.bits": [4, 8], "drive.full_scale": [1.5, 3.0], "nudge.bits": [6, 10]},
    {"readout.bits": [8, 10], "readout.full_scale": [1.1, 4.0], "drive.noise": [1e-4, 1e-3], "learning.gamma": [300.0]},
    {"echo.gain_spread": [0.01, 0.1], "echo.angle": [0.01, 0.1], "readout.gain_spread": [0.01, 0.05]},
    {"fabrication.bits": [6, 10], "fabrication.parasitic": [0.01, 0.05], "readout.offset": [0.01, 0.02]},
)


@pytest.mark.parametrize("axes", quick_or_slow(LANES, (LANES[0], LANES[2])), ids=lambda axes: "-".join(axes))
def test_a_lane_is_what_the_point_is_alone(netlist, axes):
    """To round-off: sums are ordered by shapes."""
    sweep = Sweep(axes)
    (group,) = Plan(netlist, sweep).groups
    assert len(group.lanes) == sweep.count
    found = run_batch(group, group.lanes, sweep)
    for i in (0, len(group.lanes) // 3, len(group.lanes) - 1):
        single, vector = alone(group, group.lanes[i])
        assert found["loss"][i] == pytest.approx(single.loss, rel=1e-12)
        np.testing.assert_allclose(found["gradient"][i], vector, rtol=1e-9, atol=1e-11 * np.abs(vector).max())
        assert found["saturated"][i] == sum(single.saturated.values())
        assert found["passes"][i] == single.passes
        assert found["device_seconds"][i] == pytest.approx(single.seconds)
        np.testing.assert_allclose(found["cosine"][i], cosine(vector, group.setup.exact), rtol=1e-9)
    if sweep.count > 1:
        assert len(np.unique(found["error"])) == sweep.count  # every number is felt


def test_gamma_is_found_for_every_lane(netlist):
    """As it is alone, whatever stands beside it."""
    sweep = Sweep({"learning.gamma": ["auto"], "readout.noise": [1e-5, 1e-3, 1e-2]})
    (group,) = Plan(netlist, sweep).groups
    found = run_batch(group, group.lanes, sweep)
    for i, lane in enumerate(group.lanes):
        single, _ = alone(group, lane)
        assert found["gamma"][i] == pytest.approx(single.gamma, rel=1e-9)
    assert np.ptp(np.log(found["gamma"])) < np.log(2)  # a linear circuit: as strong as can be, whatever the noise


@pytest.mark.slow
def test_echoes_that_gain_are_another_bench(netlist):
    """Gain is of all chips of a bench or of none; with it the chip's own gradient is found, at every quality."""
    qualities, frequency = [10.0, 20.0], 2 * np.pi * np.exp(np.mean(np.log(netlist.compile().frequencies_hz)))
    for quality in qualities:
        axes = {"echo.pump": [True], "dynamics.quality": [quality], "learning.decay": [0.0, frequency / quality]}
        sweep = Sweep({**axes, "learning.gamma": [1.0, "auto"]}, reference="chip")
        assert len(Plan(netlist, sweep).groups) == 4
        cosines = outcomes(netlist, sweep)["cosine"].reshape(2, 2)
        assert np.all(cosines[1] > 0.9999)
        assert np.all(cosines[0] < 0.99)


def test_repeats_tell_signal_from_noise(netlist):
    """Twice the readout noise halves the ratio; without noise it is infinite."""
    sweep = Sweep({"readout.noise": [1e-4, 2e-4], "chip": list(range(40)), "learning.gamma": [1e4]}, repeats=4)
    ratios = outcomes(netlist, sweep)["snr"].reshape(2, 40)
    # Of 21 parameters and 4 repeats over 40 chips the noise is known to a few per cent.
    noise = np.sqrt(np.mean((1 / ratios) ** 2, axis=1))
    assert noise[1] / noise[0] == pytest.approx(2, rel=0.15)
    assert np.all(np.isinf(outcomes(netlist, Sweep({"chip": [0]}, repeats=2))["snr"]))


def test_chips_can_be_compared_with_themselves(netlist):
    """With mismatch echoes find the chip's own gradient, not that of the ideal circuit; calibrated, exactly."""
    axes = {"fabrication.mismatch": [0.1], "chip": [0, 1, 2], "learning.gamma": [100.0]}
    ideal, chip = (outcomes(netlist, Sweep(axes, reference=r)) for r in ("ideal", "chip"))
    assert np.mean(1 - chip["cosine"]) < 0.05 * np.mean(1 - ideal["cosine"])
    np.testing.assert_array_equal(ideal["gradient"], chip["gradient"])
    known = outcomes(netlist, Sweep(axes, reference="chip", calibrated=True))
    assert np.all(known["error"] < 1e-9)  # the circuit is linear: no bias


def test_gradients_as_made_of_an_ideal_chip_are_those_of_backpropagation(netlist):
    setup = Plan(netlist, Sweep({"seed": [3]})).groups[0].setup
    profile = Plan(netlist, Sweep({"seed": [3]})).groups[0].lanes[0].profile
    losses, by_theta = gradients_as_made(setup.design, profile, setup.lesson, chips=(0, 5))
    exact = BPTT().gradient(setup.task.problem(setup.design))
    np.testing.assert_allclose(losses, float(exact.loss), rtol=1e-12)
    ours = np.array([by_theta[e.key][e.index] for e in setup.design.assembly.entries if e.trainable])
    np.testing.assert_allclose(ours, np.stack([setup.exact] * 2, axis=1), rtol=1e-9, atol=1e-13)


def test_gradients_as_made_against_finite_differences(netlist):
    """Mismatch, losses and coarse programming included."""
    plan = Plan(netlist, Sweep({"fabrication.mismatch": [0.1], "dynamics.quality": [30.0]}))
    setup, profile = plan.groups[0].setup, plan.groups[0].lanes[0].profile
    design = setup.design
    _, by_theta = gradients_as_made(design, profile, setup.lesson, chips=(4,))
    for entry in [e for e in design.assembly.entries if e.trainable][::7]:
        losses = []
        for change in (1e-5, -1e-5):
            moved = {k: np.array(v) for k, v in design.theta().items()}
            moved[entry.key][entry.index] *= 1 + change
            losses.append(gradients_as_made(design, profile, setup.lesson, chips=(4,), theta=moved)[0][0])
        value = float(design.theta()[entry.key][entry.index])
        slope = (losses[0] - losses[1]) / (2e-5 * value)
        assert by_theta[entry.key][entry.index, 0] == pytest.approx(slope, rel=1e-5, abs=1e-9)


@pytest.mark.slow
def test_training_in_lanes(netlist):
    """Better converters train further, and each lane as it would alone."""
    sweep = Sweep({"readout.bits": [3, 12], "learning.gamma": [300.0]}, moves=6)
    found = outcomes(netlist, sweep)
    assert found["improvement"][1] > found["improvement"][0] > 0.99
    only = outcomes(netlist, Sweep({"readout.bits": [12], "learning.gamma": [300.0]}, moves=6))
    assert found["final_loss"][1] == pytest.approx(only["final_loss"][0], rel=1e-6)


@pytest.mark.slow
def test_a_point_that_diverges_takes_no_other_with_it():
    """A hardening spring that is nudged far beyond its stable steps runs away, and is told as not a number."""
    spring = DuffingSpring("k", "a", "gnd", 1.0, 0.5, trainable=True)
    hard = Netlist("hard", [Mass("m", "a", 1.0), spring], drives=[ForceDrive("u", "a")], targets=["a"])
    hard = hard.replace(clock=Clock(None, 100))
    found = outcomes(hard, Sweep({"learning.gamma": [1.0, 1e15], "readout.noise": [1e-6]}))
    assert np.isfinite(found["cosine"][0])
    assert np.isnan(found["cosine"][1])


# Designs and programs -----------------------------------------------------------------------------------------------


def test_programs_are_compiled_once(netlist):
    """Three seeds and two chunks each by one free pass and one echo; bits and noise compile nothing anew."""
    sweep = Sweep({"readout.bits": [4, 5, 6, 7], "readout.noise": [1e-3, 1e-2], "seed": [0, 1, 2]})
    found = engine.course(engine.Job.of(netlist, sweep, 4, None))
    assert len(found.chunks) == 6
    before = run_pass._cache_size()
    for number in range(6):
        found.run(number)
    assert run_pass._cache_size() - before == 2


def test_what_cannot_be_one_program_is_another(netlist):
    """Steps change shapes, a choice changes the program, absence of noise is another program than little of it."""
    for axes, groups in (
        ({"time.steps": [50, 60]}, 2),
        ({"readout.digitise": ["separate", "sum-difference"]}, 2),
        ({"readout.noise": [0.0, 1e-3, 1e-2]}, 2),
        ({"learning.stencil": ["centred", "richardson"]}, 2),
        ({"learning.gamma": ["auto", 1.0, 2.0]}, 2),
        ({"seed": [0, 1]}, 2),
        ({"task.seed": [0, 1], "seed": [5]}, 2),
        ({"chip": [0, 1]}, 1),
        ({"design": ["toy", "lc-toy"]}, 2),
    ):
        assert len(Plan(netlist, Sweep(axes)).groups) == groups, axes


def test_fields_of_the_design_by_pattern(netlist):
    found = changed(netlist, {"elements.L1?.inductance": "50 uH", "elements.C1.capacitance": "3 nF", "time.steps": 7})
    assert {e.inductance for e in found.elements if e.name.startswith("L1") and len(e.name) == 3} == {50e-6}
    assert found.by_name["C1"].capacitance == 3e-9
    assert found.clock.steps == 7
    assert found.by_name["C2"] == netlist.by_name["C2"]
    with pytest.raises(DesignError, match="none of elements"):
        changed(netlist, {"elements.X*.inductance": 1.0})
    with pytest.raises(DesignError, match="inductance"):
        changed(netlist, {"elements.L12.inductance": "5 pF"})


def test_bad_points_are_refused_before_anything_runs(netlist, tmp_path):
    for axes, words in (
        ({"readout.bits": [0]}, "from 1 to 64"),
        ({"readout.bots": [1]}, "no setting of"),
        ({"learning.gamma": [-1.0]}, "gamma"),
        ({"learning.speed": [1.0]}, "no key of"),
        ({"elements.L12.tolerance": ["5 nH"]}, "tolerance"),
        ({"design": ["no-such-design"]}, "no-such-design"),
    ):
        with pytest.raises(ArgumentError, match=words):
            run(netlist, Sweep(axes), tmp_path / "x")
        assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_designs_of_different_size_share_a_data_set(netlist, tmp_path):
    for n in (3, 4):
        (tmp_path / f"ladder{n}.toml").write_text(ladder(n).replace(clock=Clock(None, 200)).to_toml())
    axes = {
        "design": [str(tmp_path / f"ladder{n}.toml") for n in (3, 4)],
        "readout.bits": [6, 10],
        "learning.gamma": [1e4],
    }
    found, _ = run(netlist, Sweep(axes), tmp_path / "s")
    assert found["cosine"].dims == ("design", "profile.readout.bits", "learning.gamma")
    assert np.all(np.isfinite(found["cosine"]))
    assert "gradient" not in found


# The store ----------------------------------------------------------------------------------------------------------

QUICK = {"profile.readout.bits": [4, 6, 8], "profile.readout.noise": [1e-3, 1e-2], "seed": [0, 1]}
SCRIPT = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
from circuits import Netlist
from studies.sweeps import Sweep, run, engine
engine.MOST_LANES = 2
netlist = Netlist.load(sys.argv[1])
run(netlist, Sweep({axes}), sys.argv[2], report=lambda done, total: print(done, total, flush=True))
"""


@pytest.fixture(scope="module")
def whole(netlist, tmp_path_factory):
    """A sweep that nobody interrupts, in chunks of two."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "design.toml").write_text(netlist.to_toml())
    (folder / "script.py").write_text(SCRIPT.replace("{axes}", json.dumps(QUICK)))
    subprocess.run(
        [sys.executable, str(folder / "script.py"), str(folder / "design.toml"), str(folder / "store")],
        check=True, capture_output=True,
    )  # fmt: skip
    return folder


def test_results_are_labelled(whole, netlist):
    found = xr.open_zarr(whole / "store").load()
    assert found["cosine"].dims == tuple(QUICK)
    assert found["profile.readout.bits"].attrs == {"units": "bits", "long_name": "readout resolution"}
    assert found["device_seconds"].attrs["units"] == "s"
    assert found["gradient"].dims == (*QUICK, "parameter")
    assert found.attrs["complete"] == 12
    assert set(found.attrs["versions"]) >= {"jax", "numpy", "rhel-hw"}
    assert Netlist.load("lc-toy").name in found.attrs["design"]
    assert found.attrs["seeds"] == [0, 1]
    # The same numbers as without a store, and chunks of another size give them to round-off.
    again = outcomes(netlist, Sweep(QUICK))
    np.testing.assert_allclose(np.asarray(found["cosine"]).ravel(), again["cosine"], rtol=1e-9)
    np.testing.assert_allclose(np.asarray(found["loss"]).ravel(), again["loss"], rtol=1e-12)


def kill(whole: Path, times: int, rng: random.Random, seconds: tuple[float, float], reports: int = 1) -> None:
    """Kill a sweep so many times, after the start-up that its first report ends, or later ones; then let it finish."""
    store = whole / f"killed{times}"
    command = [sys.executable, str(whole / "script.py"), str(whole / "design.toml"), str(store)]
    for _ in range(times):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for _ in range(reports):
            process.stdout.readline()
        time.sleep(rng.uniform(*seconds))
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    subprocess.run(command, check=True, capture_output=True)
    assert tree(store) == tree(whole / "store")


def test_a_killed_sweep_goes_on(whole):
    kill(whole, 1, random.Random(0), (0, 0.1), reports=2)


@pytest.mark.slow
def test_a_sweep_killed_at_twenty_moments_is_the_same(whole):
    kill(whole, 20, random.Random(1), (0, 20))


def test_another_design_is_refused(whole, netlist):
    other = netlist.replace(name="another")
    with pytest.raises(ArgumentError, match=r"another design or other settings: .*design"):
        run(other, Sweep(QUICK), whole / "store")
    with pytest.raises(ArgumentError, match="axes"):
        run(netlist, Sweep({**QUICK, "seed": [0, 2]}), whole / "store")
    assert xr.open_zarr(whole / "store").attrs["complete"] == 12


def test_memory_is_bounded_by_refusal(netlist, tmp_path):
    with pytest.raises(ArgumentError, match="`memory` must be at least"):
        run(netlist, Sweep(QUICK), tmp_path / "s", memory=1000)


def test_with_less_memory_results_are_read_but_not_gone_on_with(whole, netlist, monkeypatch, tmp_path):
    """Chunks are as large as they were begun with; the message says how much they need, and nothing is lost."""
    least = engine._lanes(netlist, Sweep(QUICK), engine.MEMORY, 2)[1]
    found, _ = run(Netlist.load(whole / "design.toml"), Sweep(QUICK), whole / "store", memory=least)
    assert found.attrs["lanes"] > 1
    monkeypatch.setattr(engine, "_threads", lambda *_: (_ for _ in ()).throw(InterruptedError))
    with pytest.raises(InterruptedError):
        run(netlist, Sweep(QUICK), tmp_path / "s")
    with pytest.raises(ArgumentError, match=r"to go on with .* chunks of"):
        run(netlist, Sweep(QUICK), tmp_path / "s", memory=least)


# Clusters -----------------------------------------------------------------------------------------------------------


def test_a_cluster_gives_the_same_bits_though_a_worker_is_killed(whole, monkeypatch):
    """Two worker processes; one is killed while it computes, and its chunks are computed by the other."""
    distributed = pytest.importorskip("distributed", reason="pip install 'rhel-hw[cluster]'")
    monkeypatch.setattr(engine, "MOST_LANES", 2)
    folder = whole / "cluster"
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    ) as cluster:
        victims = [w.pid for w in cluster.workers.values()]
        killed = []

        def report(done, total):
            if done >= 4 and not killed:
                killed.append(victims[0])
                os.kill(victims[0], signal.SIGKILL)

        design = Netlist.load(whole / "design.toml")
        run(design, Sweep(QUICK), folder, scheduler=cluster.scheduler_address, report=report)
    assert killed
    assert tree(folder) == tree(whole / "store")


def test_a_scheduler_that_is_not_there(netlist, tmp_path, monkeypatch):
    monkeypatch.setattr(engine, "PATIENCE", "1s")
    with pytest.raises(ArgumentError, match="does not answer"):
        run(netlist, Sweep(QUICK), tmp_path / "s", scheduler="tcp://127.0.0.1:9")
