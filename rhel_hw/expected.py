"""Expected error of a gradient by nudging strength, from echoes of a ladder of strengths: no device, only numbers.

An echo pair of strength s estimates the gradient g by a difference D(s) = g + b·s² + c·s⁴ + noise. The square of D − g,
as a mean over neighbouring strengths, is a U curve: falling where noise rules, rising where the echoes bend,

    e²(s) = n₂·s⁻² + n₁·s⁻¹ + b₂·s⁴ + b₄·s⁸,   no part of it negative.

Readings have the first part, codes that hardly change from echo to echo the second. The curve is that of largest
likelihood for squares that scatter in proportion to their mean, and g that of least squares with weights 1/e²: each
follows from the other, a few times over, from strong rungs downwards and from weak ones upwards: docs/physics.md, 11.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rhel_hw.operations import Centred, OneSided, Richardson, Stencil

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STENCILS: tuple[type[Stencil], ...] = (OneSided, Centred, Richardson)
NOISE = (-2, -1)
"""Powers of the strength in the square of what noise makes."""
FEWEST = 6
"""Rungs without which nothing is said."""
ABOVE = 8.0
"""Rungs that are this many times above the best say nothing of it."""
ROUNDS, UPDATES = 8, 60
"""In which curve and gradient follow from each other, and of the curve in each."""
DEEPER = 2.0
"""By how many times the error must be less in a valley that is found from weak rungs upwards."""
PLACES = 97
"""Strengths from rung to rung, all in all, among which the best is taken."""
RIDGE = 1e-3
"""Weight against bends of the gradient that are not needed, over that of all rungs."""
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
    """Rungs, (rungs, chips), that are numbers, and not far beyond a range."""
    one_sided: bool = False

    @property
    def usable(self) -> Flags:
        """Good rungs below all that are not."""
        worst = np.min(np.where(self.good, np.inf, self.strengths), axis=0)
        return np.asarray(self.good & (self.strengths < worst))

    def expected(self, kinds: Iterable[type[Stencil]] = STENCILS) -> dict[type[Stencil], Expected]:
        """By stencil, at the best strength of each, NaN where there are too few rungs."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return {kind: _expected(self, kind) for kind in kinds if kind is OneSided or not self.one_sided}


class _Law(NamedTuple):
    """How a stencil errs."""

    bends: tuple[int, ...]
    """Powers of the strength in the estimates that are no noise, beside g; the last few are felt as bias."""
    bias: tuple[int, ...]
    """Powers of it in the square of the bias."""
    kept: int
    """Bends that the stencil removes."""
    noise: tuple[float, float]
    """What it makes of the two parts of the noise."""
    factors: tuple[float, float]
    """And of the two parts of the bias."""
    reach: float
    """Strongest echo over the strength."""


_LAWS: dict[type[Stencil], _Law] = {
    OneSided: _Law((1,), (2, 4), 0, (1.0, 1.0), (1.0, 1.0), 1.0),
    Centred: _Law((2,), (4, 8), 0, (1.0, 1.0), (1.0, 1.0), 1.0),
    # (4·D(s) − D(2s))/3 of s⁻¹ and s^(−1/2), which do not add up but by their squares; of s⁴ and s⁶.
    Richardson: _Law((2, 4), (8, 12), 1, ((16 + 1 / 4) / 9, (16 + 1 / 2) / 9), (16.0, 400.0), 2.0),
}


def _expected(ladder: Ladder, kind: type[Stencil]) -> Expected:
    """The valley that is found from the strongest rung downwards, or from weak ones upwards if it is far deeper there.

    Echoes that have lost all memory of their strength agree with each other, on nothing: above the valley of a chaotic
    circuit there is another one, in which the gradient seems to be small.
    """
    used, s = ladder.usable.T, ladder.strengths.T
    strongest = np.max(np.where(used, s, 0.0), axis=1)
    ranks = np.sort(np.where(used, s, np.inf), axis=1)[:, min(FEWEST, s.shape[1]) - 1]
    down, up = (_valley(ladder, kind, start) for start in (strongest, np.where(np.isfinite(ranks), ranks, strongest)))
    deeper = up.error * DEEPER < down.error
    fields = zip((up.strengths, up.noise, up.bias), (down.strengths, down.noise, down.bias), strict=True)
    return Expected(*(np.where(deeper, mine, other) for mine, other in fields))


def _valley(ladder: Ladder, kind: type[Stencil], start: Floats) -> Expected:
    """The best strength near a start, which moves on as the curve becomes known."""
    law, s, used = _LAWS[kind], ladder.strengths.T, ladder.usable.T
    plus, minus = (np.where(used[..., None], np.moveaxis(x, 2, 0), 0.0) for x in (ladder.plus, ladder.minus))
    floor = ROUNDING**2 * np.max(np.sum(plus**2, axis=2), axis=1, keepdims=True)
    safe = np.where(used, s, 1.0)
    best = start
    halves = 1.0
    if kind is not OneSided:
        estimates = (plus - minus) / 2 / safe[..., None]
    elif ladder.one_sided:
        estimates = (plus - minus) / safe[..., None]
    else:  # the echo that is not nudged is what both have in common where they are weak, and as noisy as each
        halves, common = 2.0, (plus + minus) / 2
        still, _ = _lines(safe / best[:, None], common, used / (1e-6 + (safe / best[:, None]) ** 4), (2,))
        estimates = (plus - still[:, :1]) / safe[..., None]
    powers = np.array([*NOISE, *law.bias])
    known_curve: _Curve | None = None
    for _ in range(ROUNDS):
        x = np.where(used, safe / best[:, None], 1.0)
        near = used & (x < ABOVE)
        curve = x ** NOISE[0] + x ** law.bias[0] if known_curve is None else known_curve(safe)
        lines, columns = _lines(x, estimates, np.where(near, 1 / curve, 0.0), law.bends)
        kept = columns[..., : 1 + law.kept] @ lines[:, : 1 + law.kept]
        size = np.sum(lines[:, 0] ** 2, axis=1)
        squares = np.sum((estimates - kept) ** 2, axis=2) + floor / safe**2
        parts = _parts(x, squares, near, powers)
        known_curve = _Curve(best, parts, powers)
        low = np.min(np.where(near, safe, np.inf), axis=1)
        high = np.max(np.where(near, safe, 0.0), axis=1) / law.reach
        places = low[:, None] * np.exp(np.log(high / low)[:, None] * np.linspace(0, 1, PLACES))
        factors = np.array([halves * law.noise[0], halves * law.noise[1], *law.factors])
        terms = factors * parts[:, None] * (places / best[:, None])[..., None] ** powers
        which = np.argmin(terms.sum(axis=2), axis=1)
        best = np.take_along_axis(places, which[:, None], 1)[:, 0]
    own = np.take_along_axis(terms, which[:, None, None], 1)[:, 0]
    told = (used.sum(axis=1) >= FEWEST) & np.isfinite(own).all(axis=1) & (size > 0)
    found = best, np.sqrt(own[:, :2].sum(axis=1) / size), np.sqrt(own[:, 2:].sum(axis=1) / size)
    return Expected(*(np.where(told, v, np.nan) for v in found))


class _Curve(NamedTuple):
    """Parts of a U curve about a strength of every chip."""

    about: Floats
    parts: Floats
    powers: NDArray[np.intp]

    def __call__(self, s: Floats) -> Floats:
        return np.asarray(np.sum(self.parts[:, None] * (s / self.about[:, None])[..., None] ** self.powers, axis=2))


def _lines(x: Floats, y: Floats, weights: Floats, powers: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Weighted least squares of y (chips, rungs, P) in 1 and powers of x (chips, rungs): coefficients and columns."""
    columns = np.stack([np.ones_like(x), *(x**n for n in powers)], axis=2)
    matrix = np.einsum("cri,cr,crj->cij", columns, weights, columns)
    ridge = RIDGE * weights.sum(axis=1)
    for i in range(1, columns.shape[2]):
        matrix[:, i, i] += ridge
    fine = np.isfinite(matrix).all(axis=(1, 2)) & (ridge > 0)
    matrix = np.where(fine[:, None, None], matrix, np.eye(columns.shape[2]))
    return np.linalg.solve(matrix, np.einsum("cri,cr,crp->cip", columns, weights, y)), columns


def _parts(x: Floats, squares: Floats, used: Flags, powers: Any) -> Floats:
    """Parts of the curve of largest likelihood, (chips, powers): updates that multiply, so that none turns negative."""
    basis = np.where(used[..., None], x[..., None] ** powers, 0.0)
    squares = np.where(used, squares, 0.0)
    parts = np.repeat((squares.sum(axis=1) / basis.sum(axis=(1, 2)))[:, None], len(powers), axis=1)
    for _ in range(UPDATES):
        curve = np.where(used, np.einsum("crk,ck->cr", basis, parts), 1.0)
        more, less = (np.einsum("crk,cr->ck", basis, v) for v in (squares / curve**2, used / curve))
        parts = parts * np.sqrt(more / less)
    return parts
