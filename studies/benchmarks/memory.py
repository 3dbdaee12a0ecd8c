"""Memory of training on very long series: echoes beside backpropagation.

Every case trains in a process of its own, so that the peak of its resident memory is its own.
"""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from time import perf_counter
from typing import Any

Report = Callable[[int, int], None]

STEPS, BATCH, MOVES = 50_000, 4, 3
KIBIBYTE = 1024


@dataclass(frozen=True)
class Row:
    """Sizes of the paper's PPG model: two blocks, 64 features, 16 units."""

    units: str
    method: str
    steps: int
    batch: int
    temporary_bytes: int
    """Of one move, as the compiler plans them."""
    peak_bytes: int | None
    """Resident memory of the process while it trains."""
    move_seconds: float | None


def run(*, steps: int = STEPS, report: Report | None = None) -> list[Row]:
    """Train a few moves by either method with either kind of units."""
    cases = [(units, method) for units in ("linear", "nonlinear") for method in ("rhel", "bptt")]
    rows = []
    for done, case in enumerate(cases):
        if report:
            report(done, len(cases))
        with get_context("spawn").Pool(1) as pool:
            rows.append(pool.apply(measure, (*case, steps)))
    return rows


def measure(units: str, method: str, steps: int) -> Row:
    """One case, in a process that did nothing else."""
    import jax
    import numpy as np

    from rhel_hw.baselines import ThroughTime
    from rhel_hw.data import adding_problem
    from rhel_hw.fitting import program
    from rhel_hw.hssm import HSSM
    from rhel_hw.layers import Echoes, Method
    from rhel_hw.objectives import Batch
    from rhel_hw.recipes import PAPER, UNITS

    recipe = PAPER["PPG-DaLiA"]
    series = adding_problem(BATCH, steps)
    model = HSSM(series.width, 1, recipe.hidden, (UNITS[units](recipe.state),) * recipe.blocks, frugal=True)
    how: Method = Echoes() if method == "rhel" else ThroughTime()
    batch = Batch.of(series, np.arange(BATCH))
    move = program(model, how, batch)
    temporary = move.temporary_bytes()
    times = []
    state: Any = None
    for _ in range(MOVES):
        began = perf_counter()
        state = jax.block_until_ready(move.run())  # type: ignore[no-untyped-call]
        times.append(perf_counter() - began)
    assert np.isfinite(float(state[0]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIBIBYTE
    return Row(units, method, steps, BATCH, temporary, peak, min(times))
