"""Points of a sweep per second, against a bench and a learner for every point, one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any

from circuits import Netlist
from circuits.netlist import Clock
from rhel_hw.emulated import EmulatedBench
from rhel_hw.learner import EchoLearner
from studies.benchmarks import interleaved
from studies.sweeps import Sweep, outcomes
from studies.sweeps.setups import Plan

Report = Callable[[int, int], None]

STEPS = 1000
POINTS = (10, 100, 1000, 10_000)
"""Bits, noise, γ, and seeds: ten of each, as many axes as it takes."""
WORKERS = (1, 2)
ALONE = 10
"""Points that the loop takes to tell its pace."""


@dataclass(frozen=True)
class Row:
    """One sweep of six LC oscillators: a gradient by echoes at every point, compared with the exact one."""

    points: int
    workers: int
    steps: int
    seconds: float
    points_per_second: float
    loop_points_per_second: float
    """Gradients alone, nothing compared."""
    over_loop: float
    """Points per second over those of the loop."""


def run(
    *, points: tuple[int, ...] = POINTS, workers: tuple[int, ...] = WORKERS, steps: int = STEPS, rounds: int = 9,
    report: Report | None = None,
) -> list[Row]:  # fmt: skip
    """Measure sweeps of so many points by so many threads."""
    rows = []
    for done, number in enumerate(points):
        if report:
            report(done, len(points))
        rows += measure(number, workers, steps, rounds)
    return rows


def measure(points: int, workers: tuple[int, ...], steps: int, rounds: int) -> list[Row]:
    """Sweeps of one size, timed in turns with the loop; every sweep has seeds of its own, so that none is known."""
    netlist = Netlist.load("lc-toy").replace(
        clock=Clock(None, steps), settings={"task": {"spread": 0.1}, "learning": {"epsilon": 0.01}}
    )
    fresh = count()

    def swept(threads: int) -> Any:
        return outcomes(netlist, Sweep(axes(points, next(fresh))), workers=threads)

    functions: dict[str, Callable[[], Any]] = {str(w): partial(swept, w) for w in workers}
    functions["loop"] = partial(one_by_one, Plan(netlist, Sweep(axes(ALONE, 0))))
    seconds = interleaved(functions, rounds)
    pace = ALONE / seconds["loop"]
    found = ((w, seconds[str(w)]) for w in workers)
    return [Row(points, w, steps, taken, points / taken, pace, points / taken / pace) for w, taken in found]


def axes(points: int, number: int) -> dict[str, Any]:
    """Axes of so many points, a power of ten up to 10,000."""
    found: dict[str, Any] = {"readout.bits": list(range(4, 14))}
    if points >= 100:
        found["readout.noise"] = {"log": [1e-5, 1e-2, 10]}
    if points >= 1000:
        found["learning.gamma"] = {"log": [1.0, 1e4, 10]}
    return found | {"seed": [10 * number + i for i in range(10 if points >= 10_000 else 1)]}


def one_by_one(plan: Plan) -> None:
    """The loop that one would write."""
    for group in plan.groups:
        setup = group.setup
        for lane in group.lanes:
            bench = EmulatedBench(setup.design, lane.profile, seed=setup.seed, reference=setup.peaks)
            learner = EchoLearner(epsilon=lane.epsilon, gamma=float(lane.gamma))
            learner.gradient(bench, setup.design, setup.lesson)
