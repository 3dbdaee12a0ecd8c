"""What is done to a set before it is learnt: scaling, a channel of time, fewer steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from devices import ArgumentError
from rhel_hw.data.series import Series

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Scaling:
    """Mean 0 and deviation 1, as found in a training part.

    A channel, or a value to be learnt, that is constant there is divided by 1; `constant` and the text name them.
    """

    mean: Floats
    """(channels,)"""
    deviation: Floats
    """(channels,)"""
    target_mean: Floats | None = None
    """(values,), of a regression."""
    target_deviation: Floats | None = None
    constant: tuple[str, ...] = ()
    """Names of the channels that are constant in the training part."""

    @classmethod
    def fitted(cls, series: Series, train: ArrayLike) -> Scaling:
        """The scaling by the series of the training part, over their true lengths, and by their values to be learnt."""
        part = series.take(train)
        pieces = [x[:length] for x, length in zip(part.x, part.lengths, strict=True)]
        mean, deviation, flat = _moments(pieces)
        names = tuple(name for name, constant in zip(series.channels, flat, strict=True) if constant)
        if series.classes:
            return cls(mean, deviation, constant=names)
        target_mean, target_deviation, flat = _moments([part.y.reshape(-1, _values(part))])
        names += tuple(f"target {i}" for i in np.flatnonzero(flat))
        return cls(mean, deviation, target_mean, target_deviation, names)

    def apply(self, series: Series) -> Series:
        """The set scaled, with the values to be learnt if there are; zeros beyond a series' length stay zeros."""
        if series.width != len(self.mean) or (series.task == "regression") != (self.target_mean is not None):
            raise ArgumentError(
                f"Argument `series` must be like the set the scaling was fitted to, but {series.name} has "
                f"{series.width} channels for {series.task}"
            )
        x = np.zeros_like(series.x)
        for i, length in enumerate(series.lengths):
            x[i, :length] = (series.x[i, :length] - self.mean) / self.deviation
        if self.target_mean is None or self.target_deviation is None:
            return replace(series, x=x)
        if _values(series) != len(self.target_mean):
            raise ArgumentError(
                f"Argument `series` must have {len(self.target_mean)} values to be learnt, but has {_values(series)}"
            )
        return replace(series, x=x, y=(series.y - self.target_mean) / self.target_deviation)

    def unscaled(self, y: ArrayLike) -> Floats:
        """Predictions (…, values), or (count,) of one value a series, in the units of the source."""
        if self.target_mean is None or self.target_deviation is None:
            raise ArgumentError("Argument `y` must be predictions of a regression, but the scaling is of classes")
        found = np.asarray(y, float)
        width = len(self.target_mean)
        if width > 1 and found.shape[-1:] != (width,):
            raise ArgumentError(f"Argument `y` must have {width} values last, but has shape {found.shape}")
        return found * self.target_deviation + self.target_mean

    def rms(self, mean_square: float) -> float | None:
        """Root mean square error in the units of the source, from a mean square of scaled values, if there is one."""
        if self.target_deviation is None or len(self.target_deviation) > 1:
            return None
        return float(mean_square**0.5 * self.target_deviation[0])

    def __str__(self) -> str:
        words = f"{len(self.mean)} channels scaled to mean 0 and deviation 1 of the training part"
        return f"{words}; constant there: {', '.join(self.constant)}" if self.constant else words


def with_time(series: Series) -> Series:
    """The set with time as its first channel: step/steps, from 0 to almost 1, and zero beyond a series' length."""
    if "time" in series.channels:
        raise ArgumentError(f"Argument `series` must not have time yet, but {series.name} has")
    steps = np.arange(series.steps)
    time = np.where(steps < series.lengths[:, None], steps / series.steps, 0)
    x = np.concatenate([time[..., None].astype(np.float32), series.x], axis=2)
    return replace(series, x=x, channels=("time", *series.channels))


def decimated(series: Series, by: int) -> Series:
    """The set with the mean of every `by` steps in place of them.

    Steps after the last whole block of a series are left out. Sequences of outputs keep all of them, so the steps from
    one to the next must be a multiple of `by`.
    """
    _refuse_unless_whole("by", by)
    if by > series.lengths.min():
        raise ArgumentError(
            f"Argument `by` must be at most the {series.lengths.min()} steps of the shortest, but is {by}"
        )
    if series.every is not None and series.every % by:
        raise ArgumentError(
            f"Argument `by` must divide the {series.every} steps from one output to the next, but is {by}"
        )
    lengths = series.lengths // by
    steps = int(lengths.max())
    x = series.x[:, : steps * by].reshape(series.count, steps, by, series.width).mean(axis=2, dtype=np.float64)
    return replace(series, x=_emptied(x, lengths), lengths=lengths)


def cropped(series: Series, steps: int, at: Literal["start", "middle"] = "start") -> Series:
    """The first or the middle `steps` of every series; those that are shorter stay as they are.

    Of a sequence of outputs those that fall in are kept: `steps` must be a multiple of the steps from one to the next,
    and the middle is moved back to where an output ends.
    """
    _refuse_unless_whole("steps", steps)
    if at not in ("start", "middle"):
        raise ArgumentError(f'Argument `at` must be "start" or "middle", but is {at!r}')
    if steps > series.steps:
        raise ArgumentError(f"Argument `steps` must be at most {series.steps}, but is {steps}")
    begins = np.maximum(0, series.lengths - steps) // 2 if at == "middle" else np.zeros_like(series.lengths)
    y = series.y
    if series.every is not None:
        if steps % series.every:
            raise ArgumentError(
                f"Argument `steps` must be a multiple of the {series.every} steps from one output to the next, but is "
                f"{steps}"
            )
        begins = begins // series.every * series.every
        first = int(begins[0]) // series.every  # all series of sequences are equally long
        y = y[:, first : first + steps // series.every]
    lengths = np.minimum(series.lengths, steps)
    x = np.stack([series.x[i, b : b + steps] for i, b in enumerate(begins)])
    return replace(series, x=_emptied(x, lengths), y=y, lengths=lengths, overlap=_overlap(series, steps))


def _overlap(series: Series, steps: int) -> float:
    """What windows share after they were cropped: they are as far from each other as they were."""
    return max(0.0, 1 - (1 - series.overlap) * series.steps / steps)


def _moments(pieces: list[NDArray[Any]]) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    """Mean and deviation of columns over all pieces, and which are constant; those have deviation 1."""
    count = sum(len(piece) for piece in pieces)
    mean = sum((piece.sum(axis=0, dtype=np.float64) for piece in pieces), np.zeros(pieces[0].shape[1])) / count
    square = sum((((piece - mean) ** 2).sum(axis=0) for piece in pieces), np.zeros_like(mean)) / count
    flat = square == 0  # exactly: sums of equal values in single precision are exact in double
    return mean, np.where(flat, 1.0, np.sqrt(square)), flat


def _values(series: Series) -> int:
    """Number of values an output has."""
    return int(series.y.shape[2]) if series.y.ndim == 3 else 1


def _emptied(x: NDArray[Any], lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    """Series with zeros beyond their lengths."""
    inside = np.arange(x.shape[1]) < lengths[:, None]
    return np.where(inside[..., None], x, 0).astype(np.float32)


def _refuse_unless_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ArgumentError(f"Argument `{name}` must be a whole number of at least 1, but is {value!r}")
