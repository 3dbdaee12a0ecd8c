"""Kinds of settings: fields of a profile that check and convert what a user gives, and know unit, scope and meaning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import StrEnum
from math import inf, isinf
from typing import Any

from devices import UnitError, nearest, to_si

Read = Callable[[Any], Any]


class Scope(StrEnum):
    """When a number is drawn, or how long it holds."""

    FIXED = "always the same"
    CHIP = "once per chip, as made"
    GRADIENT = "from one programming to the next"
    PASS = "from pass to pass"
    STEP = "at every step"


def knob(default: Any, read: Read, unit: str, scope: Scope, doc: str) -> Any:
    """Field for one setting. `read` checks and converts what a user gives; `doc` says what it is."""
    metadata = {"read": read, "unit": unit, "scope": scope, "doc": doc}
    return field(default=default, metadata=metadata)


def number(*, least: float = 0.0, most: float = inf, above: float | None = None, unit: str = "") -> Read:
    """A quantity within limits."""

    def read(value: Any) -> float:
        if value in ("inf", inf) and isinf(most):
            return inf
        found = _kelvin(value) if unit == "K" else to_si(value, unit)
        if found < least or found > most or (above is not None and found <= above):
            low = f"greater than {above:g}" if above is not None else f"at least {least:g}"
            raise UnitError(
                f"must be {low}" + ("" if isinf(most) else f" and at most {most:g}") + f", but is {found:g}"
            )
        return found

    return read


def _kelvin(value: Any) -> float:
    if isinstance(value, str) and (text := value.strip()).endswith("K"):
        scale = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}.get(text[-2:-1], 1.0)
        value = text[: -1 if scale == 1.0 else -2].strip()
        return to_si(value, "") * scale
    return to_si(value, "")


def whole(*, least: int, most: int, odd: bool = False) -> Read:
    """A whole number within limits."""

    def read(value: Any) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not least <= value <= most
            or (odd and not value % 2)
        ):
            kind = "an odd whole number" if odd else "a whole number"
            raise UnitError(f"must be {kind} from {least} to {most}, but is {value!r}")
        return value

    return read


def bits() -> Read:
    """A number of bits, or None for as many as needed."""
    inner = whole(least=1, most=64)

    def read(value: Any) -> int | None:
        return None if value is None or value == "none" else inner(value)

    return read


def one_of(*names: str) -> Read:
    """One of some words."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise UnitError(f"must be {' or '.join(names)}, but is {value!r}{nearest(str(value), names)}")
        return value

    return read


def switch(value: Any) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise UnitError(f"must be true or false, but is {value!r}")
    return value


def list_of_names(value: Any) -> tuple[str, ...]:
    """A list of names."""
    given = [value] if isinstance(value, str) else value
    if not isinstance(given, (list, tuple)) or not all(isinstance(n, str) for n in given):
        raise UnitError(f"must be a list of names, but is {value!r}")
    return tuple(given)


def by_name(inner: Read, *words: str) -> Read:
    """A number for all, a table of numbers by name, or one of some words."""

    def read(value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        if isinstance(value, Mapping):
            return tuple(sorted((str(k), inner(v)) for k, v in value.items()))
        if isinstance(value, tuple) and value and isinstance(value[0], tuple):
            return tuple((k, inner(v)) for k, v in value)
        return inner(value)

    return read


def full_scale(*words: str) -> Read:
    """A multiple of the nominal peak, one of some words, or a table of SI magnitudes by channel or kind."""

    def read(value: Any) -> Any:
        return by_name(number(above=0.0), *words)(value)

    return read


def matrix_or_number(value: Any) -> Any:
    """A number, or a square matrix as rows."""
    if isinstance(value, (list, tuple)):
        rows = tuple(tuple(to_si(x, "") for x in row) for row in value if isinstance(row, (list, tuple)))
        if len(rows) != len(value) or any(len(row) != len(rows) for row in rows):
            raise UnitError("must be a number or a square matrix, as a list of rows")
        return rows
    return number(least=-1, most=1)(value)


def precision(value: Any) -> str:
    """A number format: float64, float32, bfloat16, float16, or fixed point such as Q4.20."""
    from rhel_hw.arithmetic import format_named

    if not isinstance(value, str):
        raise UnitError(f"must be a name such as float32 or Q4.20, but is {value!r}")
    format_named(value)
    return value
