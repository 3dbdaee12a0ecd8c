"""What a sweep has as results: dimensions, labels, variables with units, and the chunks in which they are computed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError

OWN = ("fingerprint", "points", "complete", "digests")
"""Attributes that the store itself gives to a group."""
_NAME = re.compile(r"(?!zarr\.json$)[^\W_][^/\s]*")
"""Folders of arrays; no blanks, which separate names in attributes of netCDF."""


@dataclass(frozen=True, eq=False)
class Coord:
    """Numbers or texts along one or more dimensions, with units and long_name as attributes."""

    dims: tuple[str, ...]
    values: Any
    attrs: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def array(self) -> NDArray[Any]:
        """Its values, all of one kind."""
        array = np.asarray(self.values)
        texts = sum(isinstance(v, str) for v in np.asarray(self.values, dtype=object).flat)
        if array.dtype.kind not in "biufU" or texts not in (0, array.size):
            raise ArgumentError(f"Argument `coords` must have numbers or texts as values, but has {self.values!r}")
        return array


@dataclass(frozen=True)
class Variable:
    """One outcome of every point: a number, or an array along extra dimensions."""

    extra: tuple[str, ...] = ()
    units: str = "1"
    long_name: str = ""


@dataclass(frozen=True, eq=False)
class Layout:
    """What a sweep has as results, and in which chunks it is computed."""

    dims: tuple[str, ...]
    """Axes of the grid, whose points are numbered in C order; or one dimension for a list of points."""
    coords: Mapping[str, Coord]
    variables: Mapping[str, Variable]
    extra: Mapping[str, Sequence[str]]
    """Labels along extra dimensions."""
    chunks: tuple[NDArray[np.int64], ...]
    """Numbers of the points of each chunk; together every point once."""
    attrs: Mapping[str, Any]
    """Plain data (as JSON has them) that go with the results: the design, versions, seeds."""
    fingerprint: str
    """Stands for everything that the numbers depend on."""

    def __post_init__(self) -> None:
        names = [*self.variables, *self.labels, *(d for d in self.dims if d not in self.labels)]
        if wrong := sorted({name for name in names if names.count(name) > 1 or not _NAME.fullmatch(name)}):
            raise ArgumentError(f"Argument `layout` must have different names, fit for folders, but has {wrong}")
        used = (*self.dims, *self.extra, *(d for v in self.variables.values() for d in v.extra))
        if lacking := sorted(d for d in used if not self.sizes.get(d)):
            raise ArgumentError(f"Argument `layout` must have values along all dimensions, but none along {lacking}")
        for name, coord in self.labels.items():
            own = name not in self.sizes or coord.dims == (name,)
            if not own or coord.array.shape != tuple(self.sizes.get(d) for d in coord.dims):
                raise ArgumentError(f"Argument `coords` must fit the dimensions, but `{name}` does not")
        numbers = np.sort(np.concatenate([[], *self.chunks]))
        if not np.array_equal(numbers, np.arange(self.points)) or not all(len(c) for c in self.chunks):
            raise ArgumentError(f"Argument `chunks` must have each of {self.points} points once, but have not")
        object.__setattr__(self, "chunks", tuple(np.asarray(c, dtype=np.int64) for c in self.chunks))
        if taken := sorted(set(OWN) & set(self.attrs)):
            raise ArgumentError(f"Argument `attrs` must leave names to the store, but has {taken}")
        try:
            object.__setattr__(self, "attrs", json.loads(json.dumps(dict(self.attrs), allow_nan=False)))
        except (TypeError, ValueError) as problem:
            raise ArgumentError(f"Argument `attrs` must be plain data as JSON has them, but: {problem}") from None

    @cached_property
    def labels(self) -> dict[str, Coord]:
        """All coordinates, those of extra dimensions too."""
        return {**self.coords, **{name: Coord((name,), list(found)) for name, found in self.extra.items()}}

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Lengths of all dimensions: those of their own coordinates, or the count of points in a list."""
        listed = {self.dims[0]: sum(len(c) for c in self.chunks)} if len(self.dims) == 1 else {}
        return listed | {d: self.labels[d].array.size for d in (*self.dims, *self.extra) if d in self.labels}

    @property
    def points(self) -> int:
        """How many there are."""
        return prod(self.sizes[d] for d in self.dims)

    def shape(self, name: str) -> tuple[int, ...]:
        """Of a variable at one point."""
        return tuple(self.sizes[d] for d in self.variables[name].extra)
