"""Expected error of a gradient by nudging strength, from echoes of a ladder of strengths: no device, only numbers.

What an echo says of parameters is smooth in the strength s, but for noise. Half the difference of the echoes of ±s is
g·s + b·s³ + c·s⁵: g is the gradient, b and c bend it, and what is left is noise, rounding of converters included, for
neighbouring strengths round differently. Every such fit is local: of strengths from some top downwards. A top beyond
what the powers can follow, or beyond a range, leaves much, and so does not recommend itself: docs/physics.md, 11.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhel_hw.operations import Centred, OneSided, Richardson, Stencil

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ODD, EVEN, ONE_SIDED = (1, 3, 5), (0, 2, 4), (1, 2, 3, 4)
"""Powers of the strength in half the difference of ±s, in half their sum, and in the difference of s and nothing."""
GROWTHS = (0.0, 0.5, 1.0)
"""Powers with which noise of a difference may grow: that of a reading does not, that of codes that hardly change does
with the root, and errors of the nudges themselves are proportional."""
SPAN = 32.0
"""Strengths of a fit reach from its top down to this fraction of it, or further for `FEWEST`."""
FEWEST = 6
"""Strengths in a fit."""
GRID = 2.0 ** (-np.arange(0, 97) / 8)
"""Strengths that are considered, over the strongest that is good."""
HEARD, SHARE = 6.0, 1 / 3
"""A fit is heard at strengths down to its top over `HEARD`; the error there is one that this share stay below."""
STENCILS: tuple[type[Stencil], ...] = (OneSided, Centred, Richardson)
ROUNDING = 1e-10
"""Least noise of an echo that is reckoned with, over what it says: γ shall not hang on the rounding of numbers."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What is expected of a stencil at its best strength, (chips,) each; relative to the size of the gradient."""

    strengths: Floats
    noise: Floats
    bias: Floats

    @property
    def error(self) -> Floats:
        """Root of the sum of the squares."""
        return np.hypot(self.noise, self.bias)

    @property
    def snr(self) -> Floats:
        """Size of the gradient over its noise."""
        with np.errstate(divide="ignore"):
            return 1 / self.noise


@dataclass(frozen=True, eq=False)
class Ladder:
    """What echoes of several strengths said of parameters: strengths (rungs, chips), the rest (rungs, P, chips)."""

    strengths: Floats
    plus: Floats
    minus: Floats
    """Of the opposite strength, or of none at all if one-sided."""
    good: Flags
    """Rungs, (rungs, chips), that are numbers, and beyond no range."""
    one_sided: bool = False

    @property
    def usable(self) -> Flags:
        """Good rungs below all that are not."""
        worst = np.min(np.where(self.good, np.inf, self.strengths), axis=0)
        return np.asarray(self.good & (self.strengths < worst))

    def expected(self) -> dict[type[Stencil], Expected]:
        """By stencil, at the best strength of each, NaN where there are too few rungs."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return _expected(self)


class _Fit(NamedTuple):
    """Powers of s/T that were fitted below a top T, by chip."""

    coefficients: Floats
    """(chips, powers, P), zero for those that are not needed."""
    spread: Floats
    """(chips, powers, powers): covariance over the variance of the noise."""
    variance: Floats
    """(chips,), of the noise at T, summed over parameters."""
    growth: Floats
    """(chips,)."""


def _expected(ladder: Ladder) -> dict[type[Stencil], Expected]:
    order = np.argsort(ladder.strengths, axis=0)
    s: Floats = np.take_along_axis(ladder.strengths, order, 0).T
    good: Flags = np.take_along_axis(ladder.usable, order, 0).T
    plus, minus = (np.moveaxis(np.take_along_axis(x, order[:, None], 0), 2, 0) for x in (ladder.plus, ladder.minus))
    plus, minus = (np.where(good[..., None], x, 0.0) for x in (plus, minus))
    floor = ROUNDING**2 * np.max(np.sum(plus**2, axis=2), axis=1)
    grid = np.max(np.where(good, s, 0.0), axis=1)[:, None] * GRID
    claims: dict[type[Stencil], list[Floats]] = {kind: [] for kind in STENCILS}
    for top in range(FEWEST - 1, s.shape[1]):
        used = _used(s, good, top)
        known = used.sum(axis=1) >= FEWEST
        if not np.any(known):
            continue
        ends = s[:, top : top + 1]
        x = np.where(used, s / ends, 0.0)
        fits: dict[tuple[int, ...], _Fit]
        if ladder.one_sided:
            fits = {ONE_SIDED: _fit(x, plus - minus, used, ONE_SIDED, 2 * floor)}
        else:
            fits = {
                ODD: _fit(x, (plus - minus) / 2, used, ODD, floor / 2),
                EVEN: _fit(x, (plus + minus) / 2, used, EVEN, floor / 2),
            }
        for kind, found in claims.items():
            reach = max(map(abs, kind().points)) * grid / ends
            within = known[:, None] & (reach <= 1 + 1e-9) & (reach * HEARD >= 1)
            found.append(np.where(within, _errors(kind(), fits, grid, ends), np.inf))
    return {kind: _best(grid, found) for kind, found in claims.items()}


def _best(grid: Floats, claims: list[Floats]) -> Expected:
    """Where the error is least that a good part of the fits claim, (3, chips, places) each."""
    chips = np.arange(len(grid))
    if not claims:
        return Expected(*np.full((3, len(grid)), np.nan))
    noise, bias, size = np.moveaxis(np.stack(claims), 1, 0)
    error = noise + bias
    rank = np.ceil(SHARE * np.sum(np.isfinite(error), axis=0)).astype(int) - 1
    which = np.take_along_axis(np.argsort(error, axis=0), np.maximum(rank, 0)[None], 0)
    noise, bias, size, error = (np.take_along_axis(v, which, 0)[0] for v in (noise, bias, size, error))
    place = np.argmin(error, axis=1)
    lost = ~np.isfinite(error[chips, place])
    found = [grid[chips, place], *(np.sqrt(v[chips, place] / size[chips, place]) for v in (noise, bias))]
    return Expected(*(np.where(lost, np.nan, v) for v in found))


def _used(s: Floats, good: Flags, top: int) -> Flags:
    """Rungs of the fit below a top, (chips, rungs): the span, or as many more as it takes."""
    below = good & (np.arange(s.shape[1]) <= top)
    near = s > s[:, top : top + 1] / SPAN
    rank = np.cumsum(below[:, ::-1], axis=1)[:, ::-1]  # 1 for the strongest
    return below & (near | (rank <= FEWEST)) & good[:, top : top + 1]


def _fit(x: Floats, y: Floats, used: Flags, powers: tuple[int, ...], floor: Floats) -> _Fit:
    """Least squares of y (chips, rungs, P) in powers of x (chips, rungs), with as few as will do."""
    chips, _, width = y.shape
    count = used.sum(axis=1).astype(float)
    best: list[Any] = []
    lowest = np.full(chips, np.inf)
    for growth in GROWTHS:
        weights = np.where(used, np.where(used, x, 1.0) ** -growth, 0.0)
        logs = 2 * np.sum(np.log(np.where(used, weights, 1.0)), axis=1)
        for size in range(1 + (powers[0] == 0), len(powers) + 1):
            columns = weights[..., None] * x[..., None] ** np.array(powers[:size])
            enough = count > size + 1
            q, r = np.linalg.qr(columns)
            r = np.where(enough[:, None, None], r, np.eye(size))
            inverse = np.linalg.inv(r)
            values = weights[..., None] * y
            found = inverse @ (np.swapaxes(q, 1, 2) @ values)
            left = np.sum((values - columns @ found) ** 2, axis=(1, 2)) + (count - size) * floor
            # Akaike's criterion, corrected for few rungs; parameters may err together, so they count as one.
            score = count * np.log(left / count) - logs + 2 * size + 2 * size * (size + 1) / (count - size - 1)
            score = np.where(enough & np.isfinite(score), score, np.inf)
            spread = np.zeros((chips, len(powers), len(powers)))
            spread[:, :size, :size] = inverse @ np.swapaxes(inverse, 1, 2)
            coefficients = np.zeros((chips, len(powers), width))
            coefficients[:, :size] = found
            now = [coefficients, spread, left / (count - size), np.full(chips, growth)]
            better = score < lowest
            lowest = np.where(better, score, lowest)
            best = now if not best else [_where(better, a, b) for a, b in zip(now, best, strict=True)]
    return _Fit(*best)


def _where(which: Flags, a: Floats, b: Floats) -> Floats:
    return np.where(which.reshape(-1, *(1,) * (a.ndim - 1)), a, b)


def _errors(stencil: Stencil, fits: Mapping[tuple[int, ...], _Fit], s: Floats, ends: Floats) -> Floats:
    """Squares of noise and bias by a fit at strengths s (chips, places), and of the gradient: (3, chips, places)."""
    pairs = list(zip(stencil.plus, stencil.minus, stencil.weights, strict=True))
    x, first = s / ends, next(iter(fits.values()))
    size = np.sum((first.coefficients[:, 0] / ends) ** 2, axis=1)[:, None]
    bias, noise = np.zeros_like(s), np.zeros_like(s)
    for powers, fit in fits.items():
        factors = np.array([sum(w * (a**n - b**n) for a, b, w in pairs) for n in powers])
        shape = np.where(np.array(powers) > 1, factors, 0.0) * x[..., None] ** np.array(powers)
        moved = np.einsum("cgk,ckp->cgp", shape, fit.coefficients)
        doubt = np.einsum("cgk,ckl,cgl->cg", shape, fit.spread, shape) * fit.variance[:, None]
        bias += np.maximum(np.sum(moved**2, axis=2) - doubt, 0.0)
        # An echo has twice the variance of half a difference, half of that of a whole one; what echoes of ± have in
        # common is in their sum, and is felt where one of them stands alone.
        share = 0.5 if powers == ONE_SIDED else 1.0 if 0.0 in stencil.minus else 2.0 if powers == ODD else 0.0
        for a, b, w in pairs:
            for point in (a, b or a):
                noise += w**2 * share * fit.variance[:, None] * (abs(point) * x) ** (2 * fit.growth[:, None])
    return np.array([noise / s**2, bias / s**2, np.broadcast_to(size, s.shape)])
