"""Columns of measured files: numbers under a name that says its unit, such as ``v(n1) [mV]``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError, UnitError, dimension, nearest
from devices.units import Dimension, describe, named, parse

Floats = NDArray[np.float64]

_HEADER = re.compile(r"\s*(.*?)\s*(?:\[([^\[\]]*)\])?\s*", re.DOTALL)


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a file."""

    values: Floats
    """(rows,), as the file has them."""
    unit: str | None = None
    """As the file states it; ``""`` is a pure number, None says nothing."""


@dataclass(frozen=True, eq=False)
class Table:
    """The columns of a file, by name."""

    source: str
    """Path of the file, for messages."""
    columns: Mapping[str, Column]

    def __getitem__(self, name: str) -> Column:
        if name not in self.columns:
            raise ArgumentError(
                f"Argument `{self.source}` must have column {name!r}, but has not{nearest(name, self.columns)}"
            )
        return self.columns[name]


def heading(text: str) -> tuple[str, str | None]:
    """Name and unit of a heading: ``heading("v(n1) [mV]") == ("v(n1)", "mV")``."""
    match = _HEADER.fullmatch(text)
    assert match is not None  # whatever the text is
    name, unit = match.groups()
    return name, None if unit is None else "" if unit.strip() in ("", "1") else unit.strip()


def titled(name: str, unit: str) -> str:
    """The heading of a name and a unit."""
    return f"{name} [{unit or 1}]"


def factor(unit: str, due: str, scale: str | None = None) -> float:
    """What turns numbers in `unit`, times a quantity `scale`, into SI of the dimension of `due`."""
    size, powers = _size(unit)
    if scale is not None:
        more, others = parse(scale)
        size *= more
        powers = _product(powers, others or (0, 0, 0, 0))
    wanted = dimension(due)
    if powers != wanted:
        missing = named(_product(wanted, powers, -1))
        remedy = "" if scale is not None or missing is None else f": give a `scale`, which would be {missing}"
        what = f"`{unit}`" if scale is None else f"`{unit}` times `{scale}`"
        raise UnitError(f"must be {describe(due)}, but {what} is {named(powers) or 'of another dimension'}{remedy}")
    return size


def _size(unit: str) -> tuple[float, Dimension]:
    size, powers = parse(f"1 {unit}")
    return size, powers or (0, 0, 0, 0)


def _product(powers: Dimension, others: Dimension, sign: int = 1) -> Dimension:
    a, b, c, d = (x + sign * y for x, y in zip(powers, others, strict=True))
    return a, b, c, d
