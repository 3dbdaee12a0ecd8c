"""Memory of training on very long series: echoes beside backpropagation.

Every case trains in a process of its own, so that the peak of its resident memory is its own.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from math import isfinite
from multiprocessing import get_context
from time import perf_counter

Report = Callable[[int, int], None]

STEPS, BATCH, MOVES = 50_000, 4, 4
KIBIBYTE = 1024


@dataclass(frozen=True)
class Row:
    """The paper's model for pulses, two blocks of 16 units with 64 features, on the adding problem."""

    units: str
    method: str
    steps: int
    batch: int
    temporary_bytes: int
    """Of one move, as the compiler plans them."""
    peak_bytes: int
    """Most resident memory of a process that trains, evaluates, and finds its strengths."""
    move_seconds: float
    """Of the fastest move."""
    losses: tuple[float | None, ...]
    """Before every move; None where the gradient was none, as backpropagation's may be in chaotic recurrences."""


def run(*, steps: int = STEPS, report: Report | None = None) -> list[Row]:
    """Train a few moves by either method with either kind of units."""
    cases = [(units, method) for units in ("linear", "nonlinear") for method in ("rhel", "bptt")]
    rows = []
    for done, case in enumerate(cases):
        if report:
            report(done, len(cases))
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            rows.append(pool.submit(measure, *case, steps).result())
    return rows


def measure(units: str, method: str, steps: int) -> Row:
    """One case, in a process that did nothing else."""
    import numpy as np

    from rhel_hw.baselines import ThroughTime
    from rhel_hw.data import Scaling, adding_problem
    from rhel_hw.fitting import EchoChaining, Fitting, Parts, program
    from rhel_hw.objectives import Batch
    from rhel_hw.recipes import PAPER
    from rhel_hw.runtime import configure

    configure()
    series = adding_problem(2 * BATCH, steps)
    series = Scaling.fitted(series, np.arange(2 * BATCH)).apply(series)
    model = PAPER["PPG-DaLiA"].model(series, units)
    learning = EchoChaining() if method == "rhel" else ThroughTime()
    how = learning.echoes if isinstance(learning, EchoChaining) else learning
    temporary = program(model, how, Batch.of(series, np.arange(BATCH))).temporary_bytes()
    parts = Parts(series, series.take(np.arange(BATCH)), series.take(np.arange(BATCH)))
    times = [perf_counter()]
    losses = []

    def report(done: int, total: int, loss: float) -> None:
        times.append(perf_counter())
        losses.append(loss)

    Fitting(moves=MOVES, batch=BATCH, rate=1e-3, evaluate=MOVES).run(model, parts, learning, report=report)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE
    return Row(
        units,
        method,
        steps,
        BATCH,
        temporary,
        peak,
        float(min(np.diff(times))),
        tuple(x if isfinite(x) else None for x in losses),
    )
