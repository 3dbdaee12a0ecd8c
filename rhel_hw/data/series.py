"""A data set of time series: what goes in, what should come out, and who was recorded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from devices import ArgumentError, nearest

Task = Literal["classification", "regression"]
GROUP_KINDS = ("group", "recording", "session", "subject")
"""What the groups of a set can be."""


@dataclass(frozen=True, eq=False)
class Series:
    """Time series of one kind with a label, a value or a sequence of values each."""

    name: str
    x: NDArray[np.float32]
    """(count, steps, channels), zero beyond a series' length."""
    y: NDArray[Any]
    """Labels (count,) int64; or values (count,) float32, one a series; or (count, outputs, values) float32: output i
    is due after (i + 1)·steps/outputs steps."""
    classes: tuple[str, ...] = ()
    """Names of the labels; empty: regression."""
    channels: tuple[str, ...] = ()
    """Names of the channels; where none are given they become x0, x1…"""
    lengths: NDArray[np.int64] = None  # type: ignore[assignment]
    """(count,) true numbers of steps; None: all of them."""
    groups: NDArray[np.int64] | None = None
    """(count,) number of the subject, recording or session of every series, where it is known."""
    group_kind: str = "group"
    """What a group is: "subject", "recording", "session", or "group" where that is not known."""
    held_out: NDArray[np.bool_] | None = None
    """(count,) whether a series is of the source's own test part, where it has one."""
    overlap: float = 0.0
    """Fraction of its samples that a window shares with the next one of the same recording."""

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "x", _floats("x", self.x))
        if self.x.ndim != 3 or 0 in self.x.shape:
            raise ArgumentError(f"Argument `x` must have shape (count, steps, channels), but has {self.x.shape}")
        set_(self, "classes", tuple(self.classes))
        set_(self, "channels", tuple(self.channels) or tuple(f"x{i}" for i in range(self.width)))
        lengths = np.full(self.count, self.steps) if self.lengths is None else self.lengths
        set_(self, "lengths", self._integers("lengths", lengths))
        if self.groups is not None:
            set_(self, "groups", self._integers("groups", self.groups))
        if self.held_out is not None:
            set_(self, "held_out", self._held_out())
        set_(self, "y", self._integers("y", self.y) if self.classes else _floats("y", self.y))
        self._check_lengths()
        self._check_targets()
        self._check_names()

    @property
    def count(self) -> int:
        """Number of series."""
        return int(self.x.shape[0])

    @property
    def steps(self) -> int:
        """Number of steps of the longest."""
        return int(self.x.shape[1])

    @property
    def width(self) -> int:
        """Number of channels."""
        return int(self.x.shape[2])

    @property
    def task(self) -> Task:
        """What is to be learnt."""
        return "classification" if self.classes else "regression"

    @property
    def every(self) -> int | None:
        """Steps from one output to the next, where the target is a sequence."""
        return self.steps // self.y.shape[1] if self.y.ndim == 3 else None

    def take(self, index: ArrayLike) -> Series:
        """The series with these numbers, in this order."""
        found = np.asarray(index)
        whole = np.issubdtype(found.dtype, np.integer)
        if found.ndim != 1 or not found.size or not whole or found.min() < 0 or found.max() >= self.count:
            raise ArgumentError(
                f"Argument `index` must be a list of whole numbers from 0 to {self.count - 1}, but is {index!r}"
            )
        parts: dict[str, Any] = {name: getattr(self, name) for name in ("x", "y", "lengths", "groups", "held_out")}
        return replace(self, **{name: part[found] for name, part in parts.items() if part is not None})

    def __str__(self) -> str:
        words = [f"{self.name}: {self.count} series of {self.steps} steps × {self.width} channels"]
        if self.lengths.min() < self.steps:
            words.append(f"{self.lengths.min()} to {self.lengths.max()} steps long")
        if self.classes:
            words.append(f"{len(self.classes)} classes")
        else:
            words.append("one value each" if self.every is None else f"an output every {self.every} steps")
        if self.groups is not None:
            words.append(f"{len(np.unique(self.groups))} {self.group_kind}s")
        if self.held_out is not None:
            words.append(f"{self.held_out.sum()} held out")
        if self.overlap:
            words.append(f"windows overlap by {self.overlap:.0%}")
        return ", ".join(words)

    def _integers(self, name: str, values: Any) -> NDArray[np.int64]:
        found = np.asarray(values)
        if found.shape != (self.count,) or not np.issubdtype(found.dtype, np.integer):
            raise ArgumentError(
                f"Argument `{name}` must be {self.count} whole numbers, one a series, but has shape {found.shape} and "
                f"type {found.dtype}"
            )
        return found.astype(np.int64)

    def _held_out(self) -> NDArray[np.bool_]:
        found = np.asarray(self.held_out)
        if found.shape != (self.count,) or found.dtype != np.bool_:
            raise ArgumentError(
                f"Argument `held_out` must be {self.count} truth values, one a series, but has shape {found.shape} and "
                f"type {found.dtype}"
            )
        return found

    def _check_lengths(self) -> None:
        if self.lengths.min() < 1 or self.lengths.max() > self.steps:
            raise ArgumentError(
                f"Argument `lengths` must be from 1 to {self.steps}, but is {self.lengths.min()} to "
                f"{self.lengths.max()}"
            )
        for i in np.flatnonzero(self.lengths < self.steps):
            if self.x[i, self.lengths[i] :].any():
                raise ArgumentError(
                    f"Argument `x` must be zero beyond a series' length, but series {i} is not after its "
                    f"{self.lengths[i]} steps"
                )

    def _check_targets(self) -> None:
        if self.classes:
            wrong = np.flatnonzero((self.y < 0) | (self.y >= len(self.classes)))
            if wrong.size:
                raise ArgumentError(
                    f"Argument `y` must be labels from 0 to {len(self.classes) - 1}, but that of series {wrong[0]} is "
                    f"{self.y[wrong[0]]}"
                )
        elif self.y.shape != (self.count,):
            if self.y.ndim != 3 or self.y.shape[0] != self.count or 0 in self.y.shape or self.steps % self.y.shape[1]:
                raise ArgumentError(
                    f"Argument `y` must have shape ({self.count},), or ({self.count}, outputs, values) with a number "
                    f"of outputs that divides {self.steps} steps, but has {self.y.shape}"
                )
            if self.lengths.min() < self.steps:
                raise ArgumentError(
                    "Argument `lengths` must be all steps where the target is a sequence, but some series are shorter"
                )

    def _check_names(self) -> None:
        if len(set(self.classes)) != len(self.classes):
            raise ArgumentError(f"Argument `classes` must be different names, but is {self.classes}")
        if len(self.channels) != self.width:
            raise ArgumentError(f"Argument `channels` must be {self.width} names, but is {self.channels}")
        if self.group_kind not in GROUP_KINDS:
            raise ArgumentError(
                f"Argument `group_kind` must be known, but is {self.group_kind!r}"
                f"{nearest(self.group_kind, GROUP_KINDS)}"
            )
        if not 0 <= self.overlap < 1:
            raise ArgumentError(f"Argument `overlap` must be at least 0 and less than 1, but is {self.overlap}")


def _floats(name: str, values: Any) -> NDArray[np.float32]:
    """The values in single precision; refused where they are no finite numbers."""
    found = np.asarray(values)
    if not np.issubdtype(found.dtype, np.number) or np.issubdtype(found.dtype, np.complexfloating):
        raise ArgumentError(f"Argument `{name}` must be real numbers, but is of type {found.dtype}")
    with np.errstate(over="ignore"):
        single = found.astype(np.float32, copy=False)
    bad = ~np.isfinite(single)
    if bad.any():
        where = np.argwhere(np.atleast_1d(bad))[0][0]
        raise ArgumentError(
            f"Argument `{name}` must be finite, but is {found[bad][0]} in series {where}, with {bad.sum()} such values "
            "in all"
        )
    return single
