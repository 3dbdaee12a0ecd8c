"""What converters and clocks do to a signal, and how that is undone: classes have `embed`, and `correct` for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.converters import BOW

Floats = NDArray[np.float64]

MOST = 0.09
"""Largest bow of a converter, in full scales."""
ROUNDS = 60
"""Of the search for what a bent converter was given; each halves the interval at least."""
SMOOTH = 3e-5
"""Weight of fourth differences in waveforms that undo a delay. What is far slower than a step does not feel it; the
fastest there is, which a delay by half a step wipes out, is made at most six times larger."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """Gain, bow and offset of a converter, one number or an array that goes with the signals, such as one per chip.

    ``embed`` is what the converter does, y/FS = r + bow·B·(r − r³) + offset with r = g·x/FS, where B makes one the
    largest of r − r³; beyond the full scale the curve goes on straight. ``correct`` undoes it.
    """

    full_scale: Any
    gain: Any = 1.0
    offset: Any = 0.0
    """In full scales."""
    bow: Any = 0.0
    """In full scales."""

    def __post_init__(self) -> None:
        refuse_gain(self.gain)
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


@dataclass(frozen=True, eq=False)
class Impulses:
    """Gain and offset of what nudges a target; without a full scale the range is that of the waveform itself.

    y = g·x + offset·FS, where FS is the largest magnitude that the converter is told, of every run by itself.
    """

    gain: Any = 1.0
    """One, or one for every chip."""
    offset: Any = 0.0
    full_scale: float | None = None

    def __post_init__(self) -> None:
        refuse_gain(self.gain)
        if not np.all(np.abs(self.offset) < 0.5):
            raise ArgumentError(f"Argument `offset` must be below half a full scale, but is {self.offset!r}")

    @property
    def ideal(self) -> bool:
        """Whether it changes nothing."""
        return bool(np.all(np.asarray(self.gain) == 1) and not np.any(self.offset))

    def embed(self, x: Any) -> Floats:
        """What the target gets for impulses (steps, runs, chips)."""
        return np.asarray(np.multiply(x, self.gain) + self.offset * self._range(np.asarray(x)), np.float64)

    def correct(self, y: Any) -> Floats:
        """What the converter must be told for it."""
        y = np.asarray(y, np.float64)
        x = y / self.gain
        for _ in range(ROUNDS):  # the range is that of what is told: each round is closer by the offset
            new = (y - self.offset * self._range(x)) / self.gain
            if np.array_equal(new, x):
                break
            x = new
        return np.asarray(x)

    def _range(self, x: Floats) -> Any:
        return np.max(np.abs(x), axis=0, keepdims=True) if self.full_scale is None else self.full_scale


@dataclass(frozen=True)
class Delay:
    """Waveforms that come late by some steps, not always whole; early, if they are negative.

    Values are held over a step, so a fraction of a step mixes neighbours. Before its start a waveform is as at its
    start, or silent; what would have to come before the start cannot be made up for.
    """

    steps: float
    silent: bool = False

    @property
    def ideal(self) -> bool:
        """Whether it changes nothing."""
        return self.steps == 0

    def embed(self, x: Any) -> Floats:
        """What comes for a waveform (steps, …)."""
        return np.asarray(x, np.float64) if self.ideal else self._through(_matrix(len(x), self.steps, self.silent), x)

    def correct(self, y: Any) -> Floats:
        """The smoothest waveform for which this comes."""
        if self.ideal:
            return np.asarray(y, np.float64)
        case = len(y), self.steps, self.silent
        return self._through(_solver(*case), self._through(_matrix(*case).T, y))

    @staticmethod
    def _through(matrix: Any, x: Any) -> Floats:
        x = np.asarray(x, np.float64)
        return np.asarray(matrix @ x.reshape(len(x), -1), np.float64).reshape(x.shape)


@lru_cache(maxsize=32)
def _matrix(count: int, steps: float, silent: bool) -> sp.csr_array:
    """(count, count): every value is a mean of two earlier ones."""
    whole = int(np.floor(steps))
    part = steps - whole
    rows, columns, values = [], [], []
    for weight, shift in ((1 - part, whole), (part, whole + 1)):
        places = np.arange(count) - shift
        kept = (places >= 0) & (places < count) if silent else np.ones(count, bool)
        rows.append(np.arange(count)[kept])
        columns.append(np.clip(places, 0, count - 1)[kept])
        values.append(np.full(np.count_nonzero(kept), weight))
    triple = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return sp.coo_array(triple, shape=(count, count)).tocsr()


@lru_cache(maxsize=32)
def _solver(count: int, steps: float, silent: bool) -> sla.LinearOperator:
    """Inverse of the normal equations of that with a weight on fourth differences."""
    late = _matrix(count, steps, silent)
    normal = late.T @ late
    unheard = sp.diags_array(np.where(normal.diagonal() < 1e-9, 1.0, 0.0))  # stays silent
    if steps != np.floor(steps) and count > 4:
        rough = sp.diags_array([1.0, -4.0, 6.0, -4.0, 1.0], offsets=range(5), shape=(count - 4, count)).tocsr()
        normal = normal + SMOOTH * (rough.T @ rough)
    solve = sla.splu((normal + unheard).tocsc()).solve
    return sla.LinearOperator((count, count), matvec=solve, matmat=solve, dtype=np.float64)


def refuse_gain(gain: Any) -> None:
    """Refuse a gain that cannot be undone."""
    if not np.all(np.asarray(gain) > 0) or not np.all(np.isfinite(gain)):
        raise ArgumentError(f"Argument `gain` must be positive, but is {gain!r}")
