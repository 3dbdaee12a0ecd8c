"""Number formats of the state: floating point by type, fixed point by rounding every increment.

A leapfrog step adds increments to positions and to momenta in turn. If each increment is rounded to the grid before it
is added, sums are exact, and the step that subtracts the same increments undoes it to the last bit: fixed point
retraces exactly, floating point only to rounding.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from devices import UnitError, nearest

Array = Any

FLOATS = ("float64", "float32", "bfloat16", "float16")
_FIXED = re.compile(r"Q(\d{1,2})\.(\d{1,2})")
LARGEST_WORD = 52
"""Bits of a fixed-point number that a double holds exactly, with room for one sum."""


@dataclass(frozen=True)
class Format:
    """How numbers of the state are held."""

    dtype: str
    """Type of the arrays; fixed-point numbers are held in doubles, exactly."""
    integer: int | None = None
    """Bits before the point, for fixed point."""
    fraction: int = 0
    """Bits after it."""

    @property
    def fixed(self) -> bool:
        """Whether it is fixed point."""
        return self.integer is not None

    @property
    def largest(self) -> float:
        """Magnitude from which a fixed-point number overflows."""
        assert self.integer is not None  # asked of fixed point only
        return 2.0**self.integer

    def rounded(self, x: Array) -> Array:
        """X on the grid, ties to even, so that −x goes to minus that."""
        if not self.fixed:
            return x
        import jax.numpy as jnp

        scale = 2.0**self.fraction
        return jnp.round(x * scale) / scale


def format_named(name: str) -> Format:
    """The format of a name: float64, float32, bfloat16, float16 or Qm.n."""
    if name in FLOATS:
        return Format(name)
    match = _FIXED.fullmatch(name)
    if match is None:
        raise UnitError(f"must be {', '.join(FLOATS)} or Qm.n, but is {name!r}{nearest(name, FLOATS)}")
    integer, fraction = (int(x) for x in match.groups())
    if not 1 <= integer + fraction <= LARGEST_WORD or fraction < 1:
        raise UnitError(f"must have 1 to {LARGEST_WORD} bits and at least one after the point, but is {name}")
    return Format("float64", integer, fraction)
