"""Preferred values of bought parts: the E series of IEC 60063, and netlists moved to them.

E24 and its subsets are a list that no formula gives: 2.7 to 4.7 and 8.2 lie beside the rounded powers of ten. From E48
on, values are powers of ten rounded to three digits, with one exception: E192 has 9.20 where rounding gives 9.19.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from circuits.findings import DesignError, error
from circuits.netlist import Netlist
from devices import ArgumentError, Element, refuse_unless_positive, to_text
from devices import nearest as nearest_name

_E24 = (10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91)


def _rounded(count: int) -> tuple[int, ...]:
    return tuple(920 if (count, k) == (192, 185) else round(100 * 10 ** (k / count)) for k in range(count))


SERIES: Mapping[str, tuple[int, ...]] = {
    "E3": tuple(10 * v for v in _E24[::8]),
    "E6": tuple(10 * v for v in _E24[::4]),
    "E12": tuple(10 * v for v in _E24[::2]),
    "E24": tuple(10 * v for v in _E24),
    "E48": _rounded(48),
    "E96": _rounded(96),
    "E192": _rounded(192),
}
"""Values of one decade in hundredths: 100 to 999."""
TOLERANCES: Mapping[str, float] = {
    "E3": 0.4, "E6": 0.2, "E12": 0.1, "E24": 0.05, "E48": 0.02, "E96": 0.01, "E192": 0.005,
}  # fmt: skip
"""Tolerance of the parts that each series is meant for."""
BOUGHT: Mapping[str, tuple[str, ...]] = {
    "capacitor": ("capacitance",),
    "inductor": ("inductance",),
    "resistor": ("resistance",),
    "tank": ("capacitance", "inductance"),
}
"""Parameters by element type that are values of bought parts; junctions and films are made to measure."""


def nearest(value: float, series: str) -> float:
    """Preferred value with the least difference from `value`: ``nearest(4.9e-9, "E24") == 4.7e-9``."""
    return _within(value, series, 0.0, math.inf)[0]


@dataclass(frozen=True)
class Shift:
    """How far a value is moved to become a preferred one."""

    element: str
    parameter: str
    before: float
    after: float
    unit: str

    @property
    def relative(self) -> float:
        """Change over the value before."""
        return self.after / self.before - 1

    def __str__(self) -> str:
        before, after = (to_text(float(f"{x:.6g}"), self.unit) for x in (self.before, self.after))
        return f"{self.element}: {self.parameter} {before} becomes {after} ({self.relative:+.2%})"


def shifts(netlist: Netlist, series: str) -> tuple[Shift, ...]:
    """Where every bought part of a netlist would go; preferred values outside of a part's bounds are passed over."""
    return tuple(shift for element in netlist.elements for shift in _shifts(element, series))


def snapped(netlist: Netlist, series: str) -> Netlist:
    """The netlist with every bought part at its nearest preferred value; `shifts` says by how much."""
    moved: dict[str, dict[str, Any]] = {}
    for shift in shifts(netlist, series):
        moved.setdefault(shift.element, {})[shift.parameter] = shift.after
    return netlist.replace(elements=tuple(dataclasses.replace(e, **moved.get(e.name, {})) for e in netlist.elements))


def _shifts(element: Element, series: str) -> Iterator[Shift]:
    for key in BOUGHT.get(element.type, ()):
        before = element.values[key]
        low, high = element.bounds.get(key, (0.0, math.inf))
        found = _within(before, series, low, high)
        unit = element.parameters[key].unit or ""
        if not found:
            reason = f"no {series} value lies between its bounds {to_text(low, unit)} and {to_text(high, unit)}"
            raise DesignError([error(element.name, reason, "widen the bounds, or take a finer series")])
        yield Shift(element.name, key, before, found[0], unit)


def _within(value: float, series: str, low: float, high: float) -> list[float]:
    """Preferred values near `value` inside an interval, the nearest first."""
    refuse_unless_positive(value=value)
    if series not in SERIES:
        raise ArgumentError(f"Argument `series` must be an E series, but is {series!r}{nearest_name(series, SERIES)}")
    decade = math.floor(math.log10(value))
    known = [float(Decimal(v).scaleb(decade + d - 2)) for d in (-1, 0, 1) for v in SERIES[series]]
    inside = [v for v in known if low <= v <= high]
    return sorted(inside, key=lambda v: (round(abs(v / value - 1), 12), v))  # halfway, the smaller one
