"""Places of numbers in arrays: indices that are known, counted by a loop, or computed in C."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple


class Along(NamedTuple):
    """Index that a loop counts, and an offset."""

    name: str
    offset: int = 0


Index = int | Along | str
"""Along an axis: a number, a counter, or C."""
Place = tuple[Index, ...]


def moved(index: Index, offset: int, stride: int = 1) -> Index:
    """Index that is `stride` times another, and an offset."""
    if isinstance(index, int):
        return offset + stride * index
    if stride != 1:
        return f"({offset} + {stride} * {spelled(index)})"
    if isinstance(index, Along):
        return Along(index.name, index.offset + offset)
    return f"({index} + {offset})" if offset else index


def spelled(index: Index) -> str:
    """An index in C."""
    if isinstance(index, Along):
        return f"({index.name} + {index.offset})" if index.offset else index.name
    return str(index)


def linear(place: Sequence[Index], shape: Sequence[int]) -> str:
    """Where in memory, counted in rows."""
    known, parts = 0, []
    for a, index in enumerate(place):
        stride = prod(shape[a + 1 :])
        if isinstance(index, int):
            known += index * stride
        elif isinstance(index, Along):
            known += index.offset * stride
            parts.append(f"{index.name} * {stride}" if stride != 1 else index.name)
        else:
            parts.append(f"{index} * {stride}" if stride != 1 else index)
    return " + ".join([*parts, str(known)] if known or not parts else parts)
