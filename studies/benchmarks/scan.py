"""Echoes of linear units by blocks of steps against the loop over every step: where blocks pay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from rhel_hw import parallel
from rhel_hw.hru import LinearUnits
from rhel_hw.integrators import Leapfrog
from rhel_hw.layers import positions
from rhel_hw.nudging import Nudges
from rhel_hw.operations import Centred, MomentumFlip
from rhel_hw.passes import Wanted, echo
from studies.benchmarks import interleaved

Report = Callable[[int, int], None]

SIZES = tuple((steps, lanes) for steps in (256, 1024, 4096, 16_384, 50_000) for lanes in (8, 32, 64, 128, 512))
"""Steps, and units × batch."""
BATCH = 4


@dataclass(frozen=True)
class Row:
    """One size in single precision; ratios are times of echoes by blocks over those by the loop."""

    steps: int
    lanes: int
    free_seconds: float
    echo_seconds: float
    """By the loop."""
    ratio: float
    by_blocks: bool
    """Whether models use blocks here."""


def run(*, sizes: tuple[tuple[int, int], ...] = SIZES, rounds: int = 9, report: Report | None = None) -> list[Row]:
    """Measure every size."""
    rows = []
    for done, (steps, lanes) in enumerate(sizes):
        if report:
            report(done, len(sizes))
        rows.append(measure(steps, lanes, rounds))
    return rows


def measure(steps: int, lanes: int, rounds: int) -> Row:
    """One size."""
    units, rng = LinearUnits(lanes // BATCH), np.random.default_rng(0)
    theta = {k: jnp.asarray(rng.uniform(0.3, 0.9, units.size), jnp.float32) for k in units.keys}
    u, slopes = (jnp.asarray(rng.normal(size=(steps, units.size, BATCH)), jnp.float32) for _ in range(2))
    one = jnp.ones((), jnp.float32)
    free = jax.jit(lambda theta, u: positions(units, Leapfrog(), theta, u, one))
    final = free(theta, u)[1]
    found = interleaved(
        {
            "free": lambda: free(theta, u),
            "looped": lambda: _echo(theta, u, final, slopes),
            "blocks": lambda: _echo_by_blocks(theta, u, final, slopes),
        },
        rounds,
    )
    used = parallel.pays(units, Leapfrog(), steps, BATCH)
    return Row(steps, lanes, found["free"], found["looped"], found["blocks"] / found["looped"], used)


@jax.jit
def _echo(theta: Any, u: Any, final: Any, slopes: Any) -> Any:
    units, one = LinearUnits(u.shape[1]), jnp.ones((), u.dtype)

    def displacement(i: Any) -> Any:
        return MomentumFlip.nudge((slopes[i], None))

    nudges = Nudges(lambda _: displacement(-1), lambda _, i: displacement(i), every=True)
    wanted = Wanted(units.keys, inputs=True, step=True)
    return echo(units, Leapfrog(), MomentumFlip(), Centred(), theta, u, final, nudges, one, one, wanted)


@jax.jit
def _echo_by_blocks(theta: Any, u: Any, final: Any, slopes: Any) -> Any:
    one = jnp.ones((), u.dtype)
    return parallel.echo(MomentumFlip(), Centred(), theta, u, final, slopes, one, one)
