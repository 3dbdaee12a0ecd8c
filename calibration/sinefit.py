"""Sine fits with four parameters, and what they say of a converter: noise floor, effective bits, code histogram.

The fit is that of the standards for digitisers (the names of the four are amplitude, phase, offset and frequency): a
Gauss–Newton search in the frequency around linear least squares in the other three. Its residual is everything that is
no sine: noise, resolution and bow together. Effective bits are those of an ideal converter with the same residual,
log₂(2·FS/(σ·√12)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError

Floats = NDArray[np.float64]

ROUNDS = 30


@dataclass(frozen=True, eq=False)
class SineFit:
    """y ≈ offset + amplitude·sin(2π·frequency·t + phase), for every column of y."""

    frequency: Floats
    """In cycles per unit of t."""
    amplitude: Floats
    phase: Floats
    """In rad, between −π and π."""
    offset: Floats
    residual: Floats
    """Standard deviation of what is left, for as many degrees of freedom as there are."""

    def effective_bits(self, full_scale: Floats | float) -> Floats:
        """Bits of an ideal converter of this range that leaves the same residual; infinite if there is none."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log2(2 * np.asarray(full_scale) / (self.residual * np.sqrt(12))))


def sine_fit(times: Floats, y: Floats, frequency: float) -> SineFit:
    """Fit a sine to every column of y (samples, …), from a first guess of the frequency on.

    The guess must be within about half a cycle over the record; the fit refuses to leave that interval.
    """
    times, y = np.asarray(times, float), np.asarray(y, float)
    if len(times) < 5 or y.shape[:1] != times.shape:
        raise ArgumentError(
            f"Argument `y` must have a row for each of at least 5 times, but has shape {y.shape} for {len(times)}"
        )
    columns = y.reshape(len(times), -1)
    found = np.array([_fitted(times, column, frequency) for column in columns.T]).T
    return SineFit(*(part.reshape(y.shape[1:]) for part in found))


def _fitted(times: Floats, y: Floats, guess: float) -> tuple[float, ...]:
    frequency, reach = guess, 0.5 / (times[-1] - times[0])
    middle = times.mean()
    t = times - middle  # so that frequency and phase are told apart best
    for _ in range(ROUNDS):
        a, b, c = _three(t, y, frequency)
        s, k = np.sin(2 * np.pi * frequency * t), np.cos(2 * np.pi * frequency * t)
        slope = 2 * np.pi * t * (a * k - b * s)
        design = np.stack([s, k, np.ones_like(t), slope], axis=1)
        step = np.linalg.lstsq(design, y, rcond=None)[0][3]
        new = float(np.clip(frequency + step, guess - reach, guess + reach))
        if abs(new - frequency) <= 1e-14 * abs(guess):
            break
        frequency = new
    a, b, c = _three(t, y, frequency)
    left = y - (a * np.sin(2 * np.pi * frequency * t) + b * np.cos(2 * np.pi * frequency * t) + c)
    residual = np.sqrt(np.sum(left**2) / (len(y) - 4))
    phase = np.angle(np.exp(1j * (np.arctan2(b, a) - 2 * np.pi * frequency * middle)))
    return frequency, float(np.hypot(a, b)), float(phase), float(c), float(residual)


def _three(t: Floats, y: Floats, frequency: float) -> Floats:
    """Amplitudes of sine and cosine, and offset, at a frequency."""
    columns = [np.sin(2 * np.pi * frequency * t), np.cos(2 * np.pi * frequency * t), np.ones_like(t)]
    return np.asarray(np.linalg.lstsq(np.stack(columns, axis=1), y, rcond=None)[0])


def deviation(levels: Floats, read: Floats, bins: int = 16) -> Floats:
    """Integral nonlinearity by a histogram of levels: deviation from the straight line through all, (bins,).

    Readings are gathered by the level that they belong to, and averaged, which takes resolution and noise out; bins
    that nothing fell into are NaN.
    """
    straight = np.polyval(np.polyfit(levels, read, 1), levels)
    edges = np.linspace(levels.min(), levels.max(), bins + 1)
    place = np.clip(np.digitize(levels, edges) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    sums = np.bincount(place, read - straight, minlength=bins)
    return np.asarray(np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0))
