"""Series and what is computed from them for reference models: the whole series, summary statistics, spectra."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import rfft

from devices import ArgumentError

Floats = NDArray[np.float64]

BANDS = (0.0, 1 / 256, 1 / 128, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2)
"""Edges of the frequency bands of `statistics`, in cycles per step: seven octaves, and all that is slower."""
BINS = 64
"""Most bins of a spectrum, per channel."""
FLOOR = 1e-8
"""Added to powers before their logarithm. Series are normalised: a power of 1 is as much as there is."""


@dataclass(frozen=True, eq=False)
class Part:
    """Series of the training, validation or test part, normalised, and what is to be told about each."""

    x: NDArray[Any]
    """(count, steps, channels)"""
    y: NDArray[Any]
    """Labels (whole numbers) or values (floats), (count,)."""
    lengths: NDArray[Any] | None = None
    """Steps that each series truly has, (count,); what `x` holds after them is never looked at. None: all."""

    def __post_init__(self) -> None:
        x, y = np.asarray(self.x), np.asarray(self.y)
        if x.dtype.kind not in "fiu" or x.ndim != 3 or 0 in x.shape or x.shape[1] < 2:
            raise ArgumentError(
                "Argument `x` must be real, of shape (count, steps, channels) and at least 2 steps, "
                f"but has shape {x.shape} and type {x.dtype}"
            )
        if y.dtype.kind not in "fiu" or y.shape != x.shape[:1]:
            raise ArgumentError(
                f"Argument `y` must be {len(x)} whole numbers or floats, one per series, "
                f"but has shape {y.shape} and type {y.dtype}"
            )
        lengths = np.full(len(x), x.shape[1]) if self.lengths is None else np.asarray(self.lengths)
        if lengths.dtype.kind not in "iu" or lengths.shape != y.shape:
            raise ArgumentError(
                f"Argument `lengths` must be {len(x)} whole numbers, one per series, "
                f"but has shape {lengths.shape} and type {lengths.dtype}"
            )
        if lengths.min() < 2 or lengths.max() > x.shape[1]:
            raise ArgumentError(
                f"Argument `lengths` must be from 2 to {x.shape[1]}, but is from {lengths.min()} to {lengths.max()}"
            )
        object.__setattr__(self, "x", x if x.dtype.kind == "f" else x.astype(np.float64))
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "lengths", lengths)
        wrong = ~(np.isfinite(self.x).all(axis=2) | self.after).all(axis=1)
        if wrong.any():
            raise ArgumentError(f"Argument `x` must be finite, but series {wrong.argmax()} holds NaN or infinity")
        if not np.isfinite(y).all():
            raise ArgumentError("Argument `y` must be finite, but holds NaN or infinity")

    @property
    def after(self) -> NDArray[np.bool_]:
        """Whether a series has ended before a step, (count, steps)."""
        return np.arange(self.x.shape[1]) >= np.asarray(self.lengths)[:, None]


def flat(part: Part) -> Floats:
    """The whole series as one vector, (count, steps · channels): zero, the mean of normalised series, after its end."""
    return np.where(part.after[:, :, None], 0.0, part.x.astype(np.float64)).reshape(len(part.x), -1)


def statistics(part: Part) -> Floats:
    """Summary of every channel over the true length L, (count, 16 · channels).

    Mean, standard deviation, minimum, quartiles, maximum, mean |xₙ₊₁ − xₙ|, and ln(energy + `FLOOR`) of eight frequency
    bands. The energy of a band is the part of the variance in it: the sum of 2|X_k|²/L² (half of that at k = L/2) over
    the frequencies k/L with `BANDS[i]` < k/L ≤ `BANDS[i + 1]`, where X is the Fourier transform of the series without
    its mean, and without a window.
    """
    found = np.empty((len(part.x), 8 + len(BANDS) - 1, part.x.shape[2]))
    lengths = np.asarray(part.lengths)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        x = part.x[rows, :length].astype(np.float64)
        found[rows, 0] = x.mean(axis=1)
        found[rows, 1] = x.std(axis=1)
        found[rows, 2:7] = np.quantile(x, (0, 0.25, 0.5, 0.75, 1), axis=1).swapaxes(0, 1)
        found[rows, 7] = np.abs(np.diff(x, axis=1)).mean(axis=1)
        power = 2 * np.abs(rfft(x - x.mean(axis=1, keepdims=True), axis=1)) ** 2 / float(length) ** 2
        if length % 2 == 0:
            power[:, -1] /= 2
        band = np.searchsorted(BANDS, np.arange(power.shape[1]) / length) - 1  # −1 at k = 0, where nothing is left
        for i in range(len(BANDS) - 1):
            found[rows, 8 + i] = np.log(power[:, band == i].sum(axis=1) + FLOOR)
    return found.reshape(len(part.x), -1)


def spectra(part: Part) -> Floats:
    """Logarithmic power spectrum of every channel, (count, bins · channels).

    ln(P + `FLOOR`), where P is the mean of |X_k|²/Σw² over the frequencies of a bin. X is the Fourier transform over
    `steps` of the series without its mean, times a Hann window w over its true length, and zero after it, so that
    frequencies are the same for all: k/steps with 0 < k ≤ steps/2, in at most `BINS` bins whose widths grow with k.
    """
    count, steps, channels = part.x.shape
    edges = _edges(steps // 2)
    found = np.empty((count, len(edges) - 1, channels))
    lengths = np.asarray(part.lengths)
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        window = np.sin(np.pi * (np.arange(length) + 0.5) / length) ** 2
        x = part.x[rows, :length].astype(np.float64)
        x = (x - x.mean(axis=1, keepdims=True)) * window[:, None]
        power = np.abs(rfft(x, n=steps, axis=1)) ** 2 / np.sum(window**2)
        sums = np.add.reduceat(power, edges[:-1], axis=1)
        found[rows] = np.log(sums / np.diff(edges)[:, None] + FLOOR)
    return found.reshape(count, -1)


def _edges(lines: int) -> NDArray[np.int64]:
    """Edges of bins, from 1 to lines + 1: one line to a bin while there are few, then widths in proportion to k."""
    edges = [1]
    for left in range(min(BINS, lines), 0, -1):
        k = edges[-1]
        edges.append(max(k + 1, round(k * ((lines + 1) / k) ** (1 / left))))
    return np.array(edges)
