"""The one root of all errors that a user can cause and mend."""

from __future__ import annotations

from math import isfinite
from numbers import Real


class ArgumentError(ValueError):
    """An argument, a file or a design that is refused before any computing; the message says what to do."""

    exit_code = 2
    """Of the command line."""


class DivergedError(ArgumentError):
    """A run whose state became NaN or infinite."""


def refuse_unless_positive(**values: object) -> None:
    """Refuse arguments, given by name, that are not finite numbers greater than 0."""
    for name, value in values.items():
        number = getattr(value, "item", lambda value=value: value)() if getattr(value, "ndim", 0) == 0 else value
        if isinstance(number, bool) or not isinstance(number, Real) or not isfinite(number) or number <= 0:
            raise ArgumentError(f"Argument `{name}` must be a finite number greater than 0, but is {value!r}")
