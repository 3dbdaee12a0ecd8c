"""All cores for runs of many lanes: one program for a share of the lanes, called from a thread for every share.

Lanes know nothing of each other, and a compiled program leaves Python alone while it runs, so nothing is exchanged.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import jax

Found = TypeVar("Found")

CORES = "RHEL_HW_CORES"
"""Environment variable: how many cores a run may use; usually all that the process has."""
LEAST_LANES = 64
"""Of a share: fewer take as long as twice as many."""
LEAST_WORK = 8_000_000
"""Coordinates × lanes × steps of a run: a shorter one takes no longer on one core."""
MOST_NUMBERS = 8192
"""Coordinates × lanes of a share: with more, what a step goes through does not stay in the nearest cache."""


def cores() -> int:
    """How many there are for a run."""
    given = os.environ.get(CORES, "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def shares(size: int, lanes: int, steps: int) -> list[slice]:
    """Lanes of every share of a run with this many coordinates: equally many, so that one program does for all."""
    wanted = max(cores(), -(-size * lanes // MOST_NUMBERS)) if size * lanes * steps >= LEAST_WORK else 1
    most = min(wanted, max(lanes // LEAST_LANES, 1))
    count = next(n for n in range(most, 0, -1) if lanes % n == 0)
    width = lanes // count
    return [slice(i * width, (i + 1) * width) for i in range(count)]


def side_by_side(calls: Sequence[Callable[[], Found]]) -> list[Found]:
    """What calls of compiled programs return, as many at a time as there are cores."""
    if len(calls) == 1:
        return [calls[0]()]
    threads = _threads(os.getpid(), cores())
    return list(threads.map(lambda call: jax.block_until_ready(call()), calls))  # type: ignore[no-untyped-call]


@cache
def _threads(process: int, count: int) -> ThreadPoolExecutor:
    """Kept, as making them takes as long as a short run; those of a process are lost to one that is forked from it."""
    return ThreadPoolExecutor(count, "share")
