"""A fault of public files: channels that are shifted copies of one another.

In the public MotorImagery, and by report FingerMovements, x[n, t, j] = s[n, t + lag·j]: s is all electrodes end to end,
and a channel begins after `lag` samples of the one before in place of after all its steps. The lag is the number of
channels, as if rows had been taken for columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.data.series import Series
from rhel_hw.data.windows import lags

LOOKED_AT = 16
"""Number of series that vote on the lag."""
ALIKE = 0.99
"""Fraction of the samples that are equal in a pair of channels that are copies."""
PERIODIC = 0.9
"""Fraction of equal samples at another lag too, from which on series are periodic: rounding may spoil some."""
LEAST = 64
"""Number of samples that change, below which equality may be chance."""


@dataclass(frozen=True)
class Shift:
    """Channel j + 1 is channel j, `lag` steps later."""

    lag: int
    pairs: int
    """Number of pairs of neighbouring channels that are copies."""
    channels: int
    steps: int

    @property
    def electrodes(self) -> int:
        """Number of whole electrodes in the file."""
        return (self.steps + self.lag * (self.channels - 1)) // self.steps

    def __str__(self) -> str:
        partly = (self.steps + self.lag * (self.channels - 1)) % self.steps
        rest = f" and {partly} of {self.steps} steps of another" if partly else ""
        return (
            f"{self.pairs} of {self.channels - 1} pairs of neighbouring channels are copies of one another, shifted by "
            f"{self.lag} steps: the {self.channels} channels are {self.electrodes} electrodes{rest}. "
            "Undo it with unshifted(series, shift)."
        )


def shifted_copies(series: Series) -> Shift | None:
    """The lag by which every channel runs ahead of the one before it, if most do, sample for sample; else None.

    Periodic series, whose shifted copies cannot be told from later periods, are never reported.
    """
    if series.width < 2:
        return None
    votes = _votes(series)
    lag, *others = (int(found) for found in np.argsort(-votes, kind="stable")[:4])
    pairs = _copies(series, lag) if votes[lag] else 0
    if 2 * pairs <= series.width - 1:
        return None
    if any(votes[other] and 2 * _copies(series, other, PERIODIC) > series.width - 1 for other in others):
        return None
    return Shift(lag, pairs, series.width, series.steps)


def unshifted(series: Series, shift: Shift) -> Series:
    """The set with its whole electrodes as channels, (count, steps, electrodes).

    The channels are laid over one another to the long series s, which is cut after every `steps` samples. Its rest,
    the beginning of one more electrode, is left out: of MotorImagery, 1,032 of the 3,000 steps of the third. All other
    electrodes are not in the file.
    """
    if (series.width, series.steps) != (shift.channels, shift.steps):
        raise ArgumentError(
            f"Argument `shift` must be of this set, {series.width} channels of {series.steps} steps, but is of "
            f"{shift.channels} of {shift.steps}"
        )
    copies = _copies(series, shift.lag, alike=1, least=0)
    if series.lengths.min() < series.steps or copies != series.width - 1:
        raise ArgumentError(
            f"Argument `series` must be shifted by {shift.lag} in all channels and samples to be put right, but is so "
            f"in {copies} of {series.width - 1} pairs, and its shortest series has {series.lengths.min()} steps"
        )
    long = np.zeros((series.count, series.steps + shift.lag * (series.width - 1)), np.float32)
    for j in range(series.width):
        long[:, shift.lag * j : shift.lag * j + series.steps] = series.x[:, :, j]
    whole = long[:, : shift.electrodes * series.steps].reshape(series.count, shift.electrodes, series.steps)
    names = tuple(f"electrode {i + 1}" for i in range(shift.electrodes))
    return replace(series, x=np.ascontiguousarray(whole.transpose(0, 2, 1)), channels=names)


def _votes(series: Series) -> NDArray[np.int64]:
    """How often the beginning of a channel is found at each lag in the one before it."""
    votes = np.zeros(series.steps, np.int64)
    for x, length in zip(series.x[:LOOKED_AT], series.lengths[:LOOKED_AT], strict=True):
        for before, after in pairwise(x[:length].T):
            votes[lags(before, after)] += 1
    return votes


def _copies(series: Series, lag: int, alike: float = ALIKE, least: int = LEAST) -> int:
    """Number of pairs of channels of which this fraction is equal at a lag, of all samples and of those that change."""
    pairs = series.width - 1
    total, equal, changes, followed = 0, np.zeros(pairs), np.zeros(pairs), np.zeros(pairs)
    for x, length in zip(series.x, series.lengths, strict=True):
        if length <= lag + 1:
            continue
        after = x[: length - lag, 1:]
        same = x[lag:length, :-1] == after
        moves = np.diff(after, axis=0) != 0
        total += len(same)
        equal += same.sum(axis=0)
        changes += moves.sum(axis=0)
        followed += (moves & same[1:]).sum(axis=0)
    return int(np.sum((equal >= alike * total) & (changes >= least) & (followed >= alike * changes)))
