"""Rows of text files of series: one line is one series, and whatever is wrong with it is refused with its number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError, nearest
from rhel_hw.data.series import Series

Floats = NDArray[np.float64]
Missing = Literal["refuse", "interpolate"]
"""What to do about values that are not there: straight lines between those that are, level at the ends."""


@dataclass(frozen=True)
class Place:
    """A line of a file."""

    path: Path
    line: int

    def refusal(self, why: str) -> ArgumentError:
        """The error that this line causes."""
        kind = self.path.suffix.lower()
        return ArgumentError(
            f"Argument `path` must be a correct {kind} file, but line {self.line} of {self.path.name} {why}"
        )


@dataclass(frozen=True, eq=False)
class Row:
    """One series as it stands in a file."""

    place: Place
    values: Floats
    """(steps, channels), NaN where they are missing."""
    label: str


def lines(path: Path) -> Iterator[tuple[Place, str]]:
    """The lines of a text file that are not empty, stripped."""
    # Bytes that are no text show up in a line, which is then refused with its number.
    with path.open(encoding="utf-8-sig", errors="replace") as stream:
        for number, line in enumerate(stream, 1):
            if line.strip():
                yield Place(path, number), line.strip()


def numbers(text: str, place: Place) -> Floats:
    """Values separated by commas; NaN for those that are missing, written as ? or NaN."""
    words = text.split(",")
    try:
        values = np.array(words, np.float64)
    except ValueError:
        values = np.array([_number(word.strip(), place) for word in words])
    if np.any(np.abs(values) > np.finfo(np.float32).max):
        raise place.refusal("has an infinite value, or one beyond single precision")
    return values


def _number(word: str, place: Place) -> float:
    try:
        return float("nan" if word == "?" else word)
    except ValueError:
        raise place.refusal(f"has {word[:20]!r} where a number should be") from None


def channels_of(parts: Sequence[str], place: Place) -> Floats:
    """Dimensions of a series, one text each, as (steps, channels)."""
    values = [numbers(part, place) for part in parts]
    for i, channel in enumerate(values):
        if len(channel) != len(values[0]):
            raise place.refusal(
                f"has {len(channel)} values in dimension {i + 1} and {len(values[0])} in dimension 1: bring them to "
                "one rate first"
            )
    return np.stack(values, axis=1)


def complete(row: Row, missing: Missing) -> Row:
    """The row without missing values: refused, or put in between their neighbours."""
    gaps = np.isnan(row.values)
    if not gaps.any():
        return row
    if missing == "refuse":
        raise row.place.refusal(f'has {gaps.sum()} missing values: read it with missing="interpolate", or leave it out')
    try:
        return replace(row, values=interpolated(row.values))
    except ArgumentError:
        raise row.place.refusal("has a dimension without any value") from None


def interpolated(values: Floats) -> Floats:
    """Values (steps, channels) with straight lines where they are NaN, level before the first and after the last."""
    steps = np.arange(len(values))
    filled = values.copy()
    for channel in filled.T:
        known = ~np.isnan(channel)
        if not known.any():
            raise ArgumentError("Argument `values` must have a number in every channel, but one is missing throughout")
        channel[:] = np.interp(steps, steps[known], channel[known])
    return filled


def assembled(name: str, path: Path, rows: Sequence[Row], classes: tuple[str, ...], width: int | None = None) -> Series:
    """Rows as a set; shorter ones are followed by zeros. Without classes the labels are numbers.

    All must have `width` dimensions, or as many as the first.
    """
    if not rows:
        raise ArgumentError(f"Argument `path` must hold at least one series, but {path.name} has none after @data")
    lengths = np.array([len(row.values) for row in rows])
    width = width or rows[0].values.shape[1]
    x = np.zeros((len(rows), lengths.max(), width), np.float32)
    for i, row in enumerate(rows):
        if row.values.shape[1] != width:
            raise row.place.refusal(f"has {row.values.shape[1]} dimensions where {width} are expected")
        x[i, : lengths[i]] = row.values
    if classes:
        known = {label: i for i, label in enumerate(classes)}
        y = np.array([_label(row, known) for row in rows])
    else:
        y = np.array([_target(row) for row in rows], np.float32)
    return Series(name, x, y, classes, lengths=lengths)


def _label(row: Row, known: dict[str, int]) -> int:
    if row.label not in known:
        raise row.place.refusal(f"has the unknown label {row.label[:20]!r}{nearest(row.label, known)}")
    return known[row.label]


def _target(row: Row) -> float:
    values = numbers(row.label, row.place)
    if len(values) != 1 or np.isnan(values[0]):
        raise row.place.refusal(f"has {row.label[:20]!r} where the one value to be learnt should be")
    return float(values[0])
