"""The best nudging strength: noise falls with the strength, bias grows with a power of it, and one fit tells both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from devices import ArgumentError

RISE = 1.25
"""By how much an error must rise towards an end of the range before a branch is said to be there."""
WORTH = 10.0
"""How much better, as a difference of n log(squares), a fit must be for a floor to be believed."""
_SPREAD = 0.1
"""Deviations of log(error) beyond which a point counts as an outlier."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class UFit:
    """error ≈ noise / x + floor + bias · x^order, lowest at x = (noise / (order · bias))^(1 / (order + 1))."""

    noise: float
    """Zero if the error does not rise towards small x."""
    bias: float
    """Zero if the error does not rise towards large x."""
    order: float
    best: float | None
    """Where the error is lowest; None where only one branch was seen."""
    error: float | None
    """The error there."""
    floor: float = 0.0
    """Error that x has no part in."""

    def __call__(self, x: ArrayLike) -> Numbers:
        """Error at x."""
        at = np.asarray(x, np.float64)
        return self.noise / at + self.floor + self.bias * at**self.order

    @property
    def verdict(self) -> str:
        """What was seen, in words."""
        if self.best is not None:
            return f"predicted optimum {self.best:.3g}"
        if self.noise:
            return "noise branch only: no optimum in this range, larger is better"
        if self.bias:
            return "bias branch only: no optimum in this range, smaller is better"
        return "no branch: the error hardly depends on it"


def fit_u(x: ArrayLike, error: ArrayLike, order: float = 2) -> UFit:
    """Fit noise and bias to relative errors at strengths `x`, both (points,), by robust least squares of logarithms.

    `order` is 2 for centred echoes and 1 for one-sided ones. Low errors weigh most, since high ones saturate. Points
    that are not finite or not positive are left out.
    """
    at, found = np.asarray(x, np.float64), np.asarray(error, np.float64)
    if at.ndim != 1 or at.shape != found.shape:
        raise ArgumentError(
            f"Argument `error` must have the shape of `x`, (points,), but {found.shape} is not {at.shape}"
        )
    if not order > 0:
        raise ArgumentError(f"Argument `order` must be positive, but is {order}")
    good = np.isfinite(at) & np.isfinite(found) & (at > 0) & (found > 0)
    at, found = at[good], found[good]
    places = np.unique(at)
    if len(places) < 3:
        raise ArgumentError(f"Argument `x` must have three strengths with an error, but has {len(places)}")
    medians = np.array([np.median(found[at == p]) for p in places])
    lowest = float(np.min(medians))
    weights = (lowest / medians[np.searchsorted(places, at)]) ** 0.5
    left, right = bool(medians[0] >= RISE * lowest), bool(medians[-1] >= RISE * lowest)
    while left or right:
        fit = _fit(at, found, weights, order, left, right)
        ends = fit(places[[0, -1]])
        rises = ends >= RISE * (fit.error or np.min(ends))
        # A minimum at an end of the range is a guess about what was not measured.
        still_left = left and bool(rises[0]) and (fit.best is None or bool(fit.best > places[0]))
        still_right = right and bool(rises[1]) and (fit.best is None or bool(fit.best < places[-1]))
        if (still_left, still_right) == (left, right):
            return fit
        left, right = still_left, still_right
    return _fit(at, found, weights, order, left, right)


def _fit(x: Numbers, error: Numbers, weights: Numbers, order: float, left: bool, right: bool) -> UFit:
    powers = [-1.0] * left + [float(order)] * right
    terms, squares = _coefficients(x, error, weights, powers) if powers else (np.zeros(0), np.inf)
    floor = 0.0
    if len(np.unique(x)) > len(powers) + 2 or not powers:
        more, fewer_squares = _coefficients(x, error, weights, [*powers, 0.0])
        if len(x) * np.log(squares / fewer_squares) > WORTH:
            terms, floor = more[:-1], float(more[-1])
    noise = float(terms[0]) if left else 0.0
    bias = float(terms[-1]) if right else 0.0
    fit = UFit(noise, bias, order, None, None, floor)
    if not (left and right):
        return fit
    best = (noise / (order * bias)) ** (1 / (order + 1))
    return UFit(noise, bias, order, float(best), float(fit(best)), floor)


def _coefficients(x: Numbers, error: Numbers, weights: Numbers, powers: Sequence[float]) -> tuple[Numbers, float]:
    """Positive factors of powers of x whose sum is the error, and the sum of squares."""
    from scipy.optimize import least_squares

    columns = np.stack([x**p for p in powers])
    # No term alone is more than the error anywhere.
    start = np.array([np.min(error / c) for c in columns]) * np.where(np.array(powers) == 0, 0.3, 0.9)

    def residuals(logs: Numbers) -> Any:
        return weights * (np.log(np.exp(logs) @ columns) - np.log(error))

    limits = np.log(start) - 30, np.log(start) + 30
    solved = least_squares(
        residuals, np.log(start), bounds=limits, loss="soft_l1", f_scale=_SPREAD, xtol=1e-14, ftol=1e-14, gtol=1e-14
    )
    # Rounding is no misfit: squares below that of six digits are as good as none.
    return np.exp(solved.x), float(solved.cost + len(x) * 1e-12)
