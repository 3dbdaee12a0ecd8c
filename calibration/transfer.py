"""What a converter does to a signal, and how that is undone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.converters import BOW

Floats = NDArray[np.float64]

MOST = 0.09
"""Largest bow of a converter, in full scales."""
ROUNDS = 60
"""Of the search for what a bent converter was given; each halves the interval at least."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """Gain, bow and offset of a converter, one number or one for every chip.

    ``embed`` is what the converter does, y/FS = r + bow·B·(r − r³) + offset with r = g·x/FS, where B makes one the
    largest of r − r³; beyond the full scale the curve goes on straight. ``correct`` undoes it.
    """

    full_scale: float
    gain: Any = 1.0
    offset: Any = 0.0
    """In full scales."""
    bow: Any = 0.0
    """In full scales."""

    def __post_init__(self) -> None:
        if not np.all(np.asarray(self.gain) > 0) or not np.all(np.isfinite(self.gain)):
            raise ArgumentError(f"Argument `gain` must be positive, but is {self.gain!r}")
        # With twice as much the curve would turn round inside the range, and signals would share their readings.
        if not np.all(np.abs(self.bow) <= MOST):
            raise ArgumentError(f"Argument `bow` must be at most {MOST} full scales, but is {self.bow!r}")

    @property
    def ideal(self) -> bool:
        """Whether it changes nothing."""
        return bool(np.all(np.asarray(self.gain) == 1) and not np.any(self.offset) and not np.any(self.bow))

    def embed(self, x: Any) -> Floats:
        """What comes out for a signal (…, chips)."""
        y = np.multiply(x, self.gain)
        if np.any(self.bow):
            y = self._bent(y / self.full_scale)[0] * self.full_scale
        return np.asarray(y + np.multiply(self.offset, self.full_scale), np.float64)

    def correct(self, y: Any) -> Floats:
        """What went in, (…, chips)."""
        straight = np.asarray(np.subtract(y, np.multiply(self.offset, self.full_scale)), np.float64)
        if not np.any(self.bow):
            return np.asarray(straight / self.gain, np.float64)
        wanted = straight / self.full_scale
        r, low, high = wanted, np.minimum(3 * wanted, -2.0), np.maximum(3 * wanted, 2.0)
        for _ in range(ROUNDS):
            value, slope = self._bent(r)
            off = value - wanted
            low, high = np.where(off < 0, r, low), np.where(off > 0, r, high)
            newton = r - off / slope
            new = np.where((newton > low) & (newton < high), newton, (low + high) / 2)
            if np.array_equal(new, r):
                break
            r = new
        return np.asarray(r * self.full_scale / self.gain, np.float64)

    def _bent(self, r: Floats) -> tuple[Floats, Floats]:
        """Reading without offset over full scale, and its slope."""
        inside = np.clip(r, -1.0, 1.0)
        slope = 1 + np.multiply(self.bow, BOW * (1 - 3 * inside**2))
        value = inside + np.multiply(self.bow, BOW * (inside - inside**3))
        return value + slope * (r - inside), slope
