"""Physical quantities at the edges: text, numbers and pint quantities in, SI floats out.

Everything past this module is a float in SI base units. Unit strings are checked against a small grammar before
pint sees them, so that a string from a file can neither run for long nor mean more than a unit.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from decimal import Decimal, DecimalException
from functools import cache
from typing import TYPE_CHECKING, Any

from devices.errors import ArgumentError

if TYPE_CHECKING:
    import pint

Quantity = Any
"""What a parameter accepts: a number in SI, text such as ``"10 nH"``, or a pint quantity."""

Dimension = tuple[int, int, int, int]
"""Exponents of (kilogram, metre, second, ampere)."""

_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,12})?)\s*(.*?)\s*", re.DOTALL)
_UNIT = re.compile(r"[A-Za-zµμΩ°%]+(?:(?:\*\*|\^)-?\d)?(?:\s*[*/·]\s*[A-Za-zµμΩ°]+(?:(?:\*\*|\^)-?\d)?){0,5}")
_TERM = re.compile(r"\s*([*/·]?)\s*([A-Za-zµμΩ°%]+)(?:(?:\*\*|\^)(-?\d))?")
_PREFIXES = {
    -24: "y",
    -21: "z",
    -18: "a",
    -15: "f",
    -12: "p",
    -9: "n",
    -6: "u",
    -3: "m",
    0: "",
    3: "k",
    6: "M",
    9: "G",
    12: "T",
}
_POWERS = {prefix: power for power, prefix in _PREFIXES.items()} | {"µ": -6, "μ": -6}
_SYMBOLS: dict[str, tuple[int, Dimension]] = {
    "A": (0, (0, 0, 0, 1)),
    "C": (0, (0, 0, 1, 1)),
    "F": (0, (-1, -2, 4, 2)),
    "H": (0, (1, 2, -2, -2)),
    "Hz": (0, (0, 0, -1, 0)),
    "J": (0, (1, 2, -2, 0)),
    "N": (0, (1, 1, -2, 0)),
    "T": (0, (1, 0, -2, -1)),
    "V": (0, (1, 2, -3, -1)),
    "W": (0, (1, 2, -3, 0)),
    "Wb": (0, (1, 2, -2, -1)),
    "g": (-3, (1, 0, 0, 0)),
    "m": (0, (0, 1, 0, 0)),
    "ohm": (0, (1, 2, -3, -2)),
    "rad": (0, (0, 0, 0, 0)),
    "s": (0, (0, 0, 1, 0)),
    "Ω": (0, (1, 2, -3, -2)),
}
"""Power of ten and dimension of the units that design files use."""
_NAMES = {
    "A": "a current",
    "A/m": "a magnetisation",
    "C": "a charge",
    "F": "a capacitance",
    "H": "an inductance",
    "Hz": "a frequency",
    "Hz/T": "a gyromagnetic ratio",
    "J": "an energy",
    "J*s": "an action",
    "J/m**3": "an energy density",
    "N": "a force",
    "N/m": "a spring constant",
    "N/m**3": "a cubic spring constant",
    "T": "a magnetic field",
    "V": "a voltage",
    "V/s": "a voltage slope",
    "Wb": "a magnetic flux",
    "": "a pure number",
    "kg": "a mass",
    "kg*m/s": "a momentum",
    "kg/s": "a damping constant",
    "m": "a length",
    "m**3": "a volume",
    "m/s": "a velocity",
    "ohm": "a resistance",
    "rad": "an angle",
    "s": "a time",
}


class UnitError(ArgumentError):
    """A quantity that cannot be read, or that has the wrong dimension."""


@cache
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    return pint.UnitRegistry(autoconvert_offset_to_baseunit=False, cache_folder=None)


@cache
def _unit(text: str) -> tuple[Decimal, Dimension]:
    """Factor to SI and dimension of a unit string."""
    if not text:
        return Decimal(1), (0, 0, 0, 0)
    if len(text) > 64 or not _UNIT.fullmatch(text):
        raise UnitError(f"`{text[:40]}` is not a unit such as nH, pF or N/m**3")
    return _common_unit(text) or _rare_unit(text)


def _common_unit(text: str) -> tuple[Decimal, Dimension] | None:
    """Products of SI units with prefixes, without loading pint; None for anything else."""
    factor, total, sign = Decimal(1), (0, 0, 0, 0), 1
    for operator, name, power in _TERM.findall(text):
        for split in (0, 1):
            scale, found = _SYMBOLS.get(name[split:], (0, None))
            if found is not None and name[:split] in _POWERS:
                break
        else:
            return None
        sign = -1 if operator == "/" else 1
        times = sign * int(power or 1)
        factor *= Decimal(1).scaleb((_POWERS[name[:split]] + scale) * times)
        a, b, c, d = (t + times * f for t, f in zip(total, found, strict=True))
        total = (a, b, c, d)
    return factor, total


def _rare_unit(text: str) -> tuple[Decimal, Dimension]:
    """Any other unit, by pint."""
    try:
        base = _registry().Quantity(1.0, text.replace("%", "percent").replace("·", "*")).to_base_units()
    except Exception as error:  # pint raises many kinds, some of them not its own
        raise UnitError(f"`{text}` is not a known unit; units are case-sensitive, such as pF") from error
    powers: dict[str, Any] = {str(k): v for k, v in base.unit_items() if str(k) != "radian"}
    known = ("kilogram", "meter", "second", "ampere")
    if set(powers) - set(known) or any(v != int(v) for v in powers.values()):
        raise UnitError(f"`{text}` is not made of kilogram, metre, second and ampere")
    a, b, c, d = (int(powers.get(k, 0)) for k in known)
    # Twelve digits identify every decimal factor exactly and leave measured ones as pint has them.
    exact = Decimal(f"{float(base.magnitude):.11e}")
    decimal = math.isclose(float(exact), base.magnitude, rel_tol=1e-15)
    return (exact if decimal else Decimal(base.magnitude)), (a, b, c, d)


@cache
def dimension(unit: str) -> Dimension:
    """Exponents of (kilogram, metre, second, ampere) of a unit string."""
    return _unit(unit)[1]


def describe(unit: str) -> str:
    """Name of what a unit measures, for messages: ``describe("F") == "a capacitance (F)"``."""
    name = _NAMES.get(unit, "a quantity")
    return f"{name} ({unit})" if unit else name


def named(powers: Dimension) -> str | None:
    """The same of a dimension; None if it has no name."""
    return next((describe(unit) for unit in _NAMES if dimension(unit) == powers), None)


def parse(value: Quantity) -> tuple[float, Dimension | None]:
    """SI value and dimension; the dimension is None for a bare number, which counts as SI of whatever is due."""
    if isinstance(value, bool):
        raise UnitError(f"a quantity must be a number or text such as '10 nH', but is {value!r}")
    if hasattr(value, "magnitude") and hasattr(value, "units"):
        factor, powers = _unit(_plain(str(value.units)))
        return _finite(float(Decimal(float(value.magnitude)) * factor), value), powers
    if isinstance(value, (int, float)) or (hasattr(value, "__float__") and not isinstance(value, str)):
        try:
            return _finite(float(value), value), None
        except OverflowError as error:
            raise UnitError("a quantity must be finite, but is too large for a float") from error
    if not isinstance(value, str):
        raise UnitError(f"a quantity must be a number or text such as '10 nH', but is of type {type(value).__name__}")
    match = _NUMBER.fullmatch(value) if len(value) <= 128 else None
    if match is None:
        raise UnitError(f"a quantity must read like '10 nH', but is {value[:40]!r}")
    number, unit = match.groups()
    factor, powers = _unit(unit)
    try:
        return _finite(float(Decimal(number) * factor), value), (powers if unit else None)
    except DecimalException:
        raise UnitError(f"a quantity must be finite, but is {value[:40]!r}") from None


def to_si(value: Quantity, unit: str) -> float:
    """SI value of a quantity that must have the dimension of `unit`."""
    number, powers = parse(value)
    if powers is not None and powers != dimension(unit):
        raise UnitError(f"must be {describe(unit)}, but {str(value)!r} is {named(powers) or 'of another dimension'}")
    return number


def to_text(value: float, unit: str) -> str:
    """Shortest text that `to_si` reads back as exactly `value`: ``to_text(1e-12, "F") == "1 pF"``."""
    if not unit:
        return repr(value)
    exact = Decimal(repr(value))
    prefixable = unit.isalpha() and unit != "kg"
    if value == 0 or not prefixable:
        return f"{value!r} {unit}"
    power = 3 * math.floor(exact.adjusted() / 3)
    if power not in _PREFIXES:
        return f"{value!r} {unit}"
    number = exact.scaleb(-power).normalize()
    return f"{number:f} {_PREFIXES[power]}{unit}"


def scale_of(unit: str, base: Mapping[str, float]) -> float:
    """Size of `unit`'s dimension in a system whose base units are given in SI: mass, length, time, current."""
    a, b, c, d = dimension(unit)
    return float(base["mass"] ** a * base["length"] ** b * base["time"] ** c * base["current"] ** d)


def _plain(unit: str) -> str:
    """Pint's long form of a unit as this module's grammar has it."""
    text = "" if unit in ("dimensionless", "") else unit
    return text.replace(" ** ", "**").replace(" / ", "/").replace(" * ", "*")


def _finite(number: float, value: object) -> float:
    if not math.isfinite(number):
        raise UnitError(f"a quantity must be finite, but is {str(value)[:40]!r}")
    return number
