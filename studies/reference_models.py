"""What simple models reach on a set of series: linear ones on hand-made features, and those that ignore the series.

Penalties are chosen on the validation part; no fit sees the test part. Features are standardised by the training part
and divided by √(their number), so that one grid of penalties suits any number of features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.special import log_softmax

from devices import ArgumentError
from studies.features import Floats, Part, flat, spectra, statistics

__all__ = [
    "Linear",
    "Part",
    "Score",
    "Three",
    "Two",
    "baselines",
    "cross_entropy",
    "flat",
    "logistic",
    "logistic_fit",
    "mean_predictor",
    "most_common",
    "ridge",
    "ridge_fit",
    "ridge_weights",
    "spectra",
    "statistics",
]

Two = tuple[NDArray[Any], NDArray[Any]]
"""Features (count, features), or labels or values (count,), of the training and validation part."""
Three = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""The same of the training, validation and test part."""

LOGISTIC_PENALTIES = tuple(10.0**k for k in range(1, -7, -1))
"""Of the mean cross-entropy; the strongest first, as each fit starts where the last one ended."""
RIDGE_PENALTIES = tuple(10.0 ** (k / 2) for k in range(4, -17, -1))
"""Of the mean squared error."""
MOST_ITERATIONS = 10_000
SAME = 1e-12
"""What varies less than this in training, relative to its size, is constant and has no say. See also `_principal`."""
_NAMES = ("training", "validation", "test")


@dataclass(frozen=True)
class Score:
    """How well a model does on the test part."""

    metrics: Mapping[str, float]
    """Accuracy; or rms and mae in units of y, and mse_normalised: mean squared error over the variance in training."""
    penalty: float | None = None
    """Chosen on the validation part; None for models without one."""


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model of features (count, features) as they come: it standardises them itself."""

    mean: Floats
    scale: Floats
    """Both (features,), by the training part; the scale is infinite where a feature is constant there."""
    weights: Floats
    """(features, outputs)"""
    intercept: Floats
    """(outputs,)"""
    penalty: float

    def __call__(self, features: NDArray[Any]) -> Floats:
        """Scores of classes, or values, (count, outputs)."""
        outputs: Floats = (features - self.mean) / self.scale @ self.weights + self.intercept
        return outputs


def baselines(train: Part, validation: Part, test: Part, classes: int | None) -> dict[str, Score]:
    """Scores of all reference models by name: of classification, or of regression if `classes` is None."""
    parts = (train, validation, test)
    for name, part in zip(("validation", "test"), parts[1:], strict=True):
        if part.x.shape[1:] != train.x.shape[1:]:
            raise ArgumentError(
                f"Argument `{name}` must have {train.x.shape[1]} steps and {train.x.shape[2]} channels, as in "
                f"training, but has {part.x.shape[1]} and {part.x.shape[2]}"
            )
    y = (train.y, validation.y, test.y)
    if classes is not None:
        _refuse_labels(y, classes)
        return {
            "most common class": most_common(y, classes),
            "logistic, flat series": logistic(_of(flat, parts), y, classes),
            "logistic, summary statistics": logistic(_of(statistics, parts), y, classes),
        }
    _refuse_values(y)
    return {
        "mean predictor": mean_predictor(y),
        "ridge, flat series": ridge(_of(flat, parts), y),
        "ridge, summary statistics": ridge(_of(statistics, parts), y),
        "ridge, spectra": ridge(_of(spectra, parts), y),
    }


def most_common(labels: Three, classes: int) -> Score:
    """The most common class of the training part, whatever the series; the first of several."""
    _refuse_labels(labels, classes)
    return Score({"accuracy": float(np.mean(labels[2] == np.bincount(labels[0]).argmax()))})


def mean_predictor(values: Three) -> Score:
    """The mean of the training part, whatever the series."""
    _refuse_values(values)
    return _errors(np.full(len(values[2]), np.mean(values[0])), values, None)


def logistic(features: Three, labels: Three, classes: int) -> Score:
    """Accuracy of multinomial logistic regression on the test part."""
    _refuse_labels(labels, classes)
    _refuse_features(features, labels)
    model = logistic_fit(features[:2], labels[:2], classes)
    return Score({"accuracy": float(np.mean(model(features[2]).argmax(axis=1) == labels[2]))}, model.penalty)


def ridge(features: Three, values: Three) -> Score:
    """Errors of ridge regression on the test part."""
    _refuse_values(values)
    _refuse_features(features, values)
    model = ridge_fit(features[:2], values[:2])
    return _errors(model(features[2])[:, 0], values, model.penalty)


def logistic_fit(features: Two, labels: Two, classes: int) -> Linear:
    """Least mean cross-entropy + penalty/2 · ‖weights‖²; of `LOGISTIC_PENALTIES`, the one that validates best.

    Best is the highest accuracy, then the lowest cross-entropy. Where features outnumber series, the weights are sought
    in the span of the series, which holds the optimum: the cost of a step is that of series², not of the features.
    """
    _refuse_labels(labels, classes)
    _refuse_features(features, labels)
    mean, scale = _standard(features[0])
    x, checked = ((f - mean) / scale for f in features)
    basis, spread = _principal(x)
    x, checked = x @ basis, checked @ basis
    weights, candidates = np.zeros((len(spread) + 1) * classes), []
    for penalty in LOGISTIC_PENALTIES:
        weights = _least(weights, x, labels[0], penalty, spread)
        by_class = weights.reshape(-1, classes)
        scores = _scores(by_class, checked)
        merit = float(np.mean(scores.argmax(axis=1) == labels[1])), float(_at_labels(scores, labels[1]).mean())
        candidates.append((merit, penalty, by_class))
    _, penalty, by_class = max(candidates, key=itemgetter(0))  # the strongest penalty of several
    return Linear(mean, scale, basis @ by_class[:-1], by_class[-1], penalty)


def cross_entropy(weights: Floats, x: Floats, labels: NDArray[Any], penalty: float) -> tuple[float, Floats]:
    """Mean cross-entropy + penalty/2 · ‖weights‖² and its gradient.

    `weights` are ((features + 1) · classes,) for `x` (count, features); the last `classes` are the intercept, which is
    not penalised.
    """
    by_class = weights.reshape(x.shape[1] + 1, -1)
    scores = _scores(by_class, x)
    excess = np.exp(scores)
    excess[np.arange(len(x)), labels] -= 1
    loss = penalty / 2 * np.sum(by_class[:-1] ** 2) - _at_labels(scores, labels).mean()
    slopes = np.concatenate([x.T @ excess / len(x) + penalty * by_class[:-1], excess.mean(axis=0)[None]])
    return float(loss), slopes.ravel()


def ridge_fit(features: Two, values: Two) -> Linear:
    """Least mean squared error + penalty · ‖weights‖²; of `RIDGE_PENALTIES`, the one with least error in validation."""
    _refuse_values(values)
    _refuse_features(features, values)
    mean, scale = _standard(features[0])
    x, checked = ((f - mean) / scale for f in features)
    intercept = float(np.mean(values[0]))
    weights = ridge_weights(x, values[0] - intercept, RIDGE_PENALTIES, dual=x.shape[1] > len(x))
    errors = np.mean((checked @ weights + intercept - values[1][:, None]) ** 2, axis=0)
    best = int(errors.argmin())
    return Linear(mean, scale, weights[:, [best]], np.array([intercept]), RIDGE_PENALTIES[best])


def ridge_weights(x: Floats, y: Floats, penalties: Sequence[float], *, dual: bool) -> Floats:
    """Weights (features, penalties) in closed form, by one eigendecomposition for all penalties.

    (XᵀX/n + λ)⁻¹ Xᵀy/n, or its dual Xᵀ (XXᵀ/n + λ)⁻¹ y/n, which is the smaller system if features outnumber series.
    """
    values, vectors = eigh((x @ x.T if dual else x.T @ x) / len(x), check_finite=False)
    parts = vectors.T @ (y if dual else x.T @ y) / len(x)
    solved = vectors @ (parts[:, None] / (values[:, None] + np.asarray(penalties)))
    weights: Floats = x.T @ solved if dual else solved
    return weights


def _of(feature: Callable[[Part], Floats], parts: tuple[Part, Part, Part]) -> Three:
    train, validation, test = parts
    return feature(train), feature(validation), feature(test)


def _standard(features: NDArray[Any]) -> tuple[Floats, Floats]:
    """Mean and scale of every feature: standard deviation · √(features), infinite where that is as good as zero."""
    mean, spread = features.mean(axis=0, dtype=np.float64), features.std(axis=0, dtype=np.float64)
    varies = spread > SAME * np.abs(features).max(axis=0)
    return mean, np.where(varies, spread * features.shape[1] ** 0.5, np.inf)


def _principal(x: Floats) -> tuple[Floats, Floats]:
    """Principal directions that span the series, (features, directions), and the mean square along each.

    Where features outnumber series, those with less than `SAME` of the largest mean square are left out: at the weakest
    penalty they could change a score by a millionth.
    """
    if x.shape[1] <= len(x):
        squares, directions = eigh(x.T @ x / len(x), check_finite=False)
        return directions, np.maximum(squares, 0)  # below 0 by rounding alone
    squares, mixtures = eigh(x @ x.T / len(x), check_finite=False)
    kept = squares > SAME * squares[-1]
    squares = squares[kept]
    return x.T @ (mixtures[:, kept] / (len(x) * squares) ** 0.5), squares


def _least(start: Floats, x: Floats, labels: NDArray[Any], penalty: float, spread: Floats) -> Floats:
    """The minimum of `cross_entropy`, sought in units in which its curvature is about 1 in every direction.

    Along a principal direction of mean square s it is ⟨p (1 − p)⟩ s + penalty, nearly; p are the probabilities at the
    start. Slopes in these units are steps, and half their squares sum up to what the loss is above its minimum.
    """
    by_class = start.reshape(len(spread) + 1, -1)
    p = np.exp(_scores(by_class, x))
    bend = float(np.mean(p * (1 - p)))
    unit = np.repeat(np.append(bend * spread + penalty, bend + penalty) ** -0.5, by_class.shape[1])

    def loss(steps: Floats) -> tuple[float, Floats]:
        value, slopes = cross_entropy(steps * unit, x, labels, penalty)
        return value, slopes * unit

    options = {"maxiter": MOST_ITERATIONS, "maxfun": 2 * MOST_ITERATIONS, "ftol": 1e-11, "gtol": 1e-5}
    found = minimize(loss, start / unit, jac=True, method="L-BFGS-B", options=options)
    slope = float(np.abs(found.jac).max())
    if not found.success and slope > 1e-3:
        raise RuntimeError(
            f"Logistic regression with penalty {penalty:.1e} has not converged: {found.message}, "
            f"at a largest slope of {slope:.1e}"
        )
    weights: Floats = found.x * unit
    return weights


def _scores(by_class: Floats, x: Floats) -> Floats:
    """Logarithms of the probabilities of classes, (count, classes)."""
    scores: Floats = log_softmax(x @ by_class[:-1] + by_class[-1], axis=1)
    return scores


def _at_labels(scores: Floats, labels: NDArray[Any]) -> Floats:
    picked: Floats = scores[np.arange(len(labels)), labels]
    return picked


def _errors(predicted: Floats, values: Three, penalty: float | None) -> Score:
    gap = predicted - values[2]
    square = float(np.mean(gap**2))
    metrics = {
        "rms": square**0.5,
        "mae": float(np.mean(np.abs(gap))),
        "mse_normalised": square / float(np.var(values[0])),
    }
    return Score(metrics, penalty)


def _refuse_labels(labels: Two | Three, classes: int) -> None:
    if isinstance(classes, bool) or classes < 2:
        raise ArgumentError(f"Argument `classes` must be at least 2, but is {classes}")
    for name, y in zip(_NAMES, labels, strict=False):
        if y.dtype.kind not in "iu" or y.ndim != 1 or y.size == 0 or y.min() < 0 or y.max() >= classes:
            raise ArgumentError(
                f"Argument `labels` must be whole numbers from 0 to {classes - 1}, but those of the {name} part are "
                f"{_shown(y)}"
            )


def _refuse_values(values: Two | Three) -> None:
    for name, y in zip(_NAMES, values, strict=False):
        if y.dtype.kind != "f" or y.ndim != 1 or y.size == 0 or not np.isfinite(y).all():
            raise ArgumentError(
                f"Argument `values` must be finite floats, but those of the {name} part are {_shown(y)}: "
                "give `classes` if they are labels"
            )
    if np.ptp(values[0]) == 0:
        raise ArgumentError(f"Argument `values` must differ in the training part, but all are {values[0][0]}")


def _refuse_features(features: Two | Three, y: Two | Three) -> None:
    for name, f, wanted in zip(_NAMES, features, y, strict=False):
        shape = (len(wanted), features[0].shape[-1])
        if f.dtype.kind != "f" or f.shape != shape or f.size == 0 or not np.isfinite(f).all():
            raise ArgumentError(
                f"Argument `features` must be finite floats of shape {shape} in the {name} part, but are {_shown(f)}"
            )


def _shown(array: NDArray[Any]) -> str:
    span = f" from {array.min()} to {array.max()}" if array.size else ""
    return f"{array.dtype} of shape {array.shape}{span}"
