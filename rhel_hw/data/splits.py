"""Training, validation and test parts of a set, and what leaks from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError, nearest
from rhel_hw.data.series import Series

Index = NDArray[np.int64]
By = Literal["random", "groups", "given"]
ORDERS = 32
"""Number of orders of the groups that are tried, for parts nearer to the wanted sizes."""


@dataclass(frozen=True, eq=False)
class Split:
    """Numbers of the series of each part, none in two of them."""

    train: Index
    validation: Index
    test: Index

    def __post_init__(self) -> None:
        for name, part in self.parts.items():
            found = np.asarray(part)
            if found.ndim != 1 or not found.size or not np.issubdtype(found.dtype, np.integer) or found.min() < 0:
                raise ArgumentError(f"Argument `{name}` must be a list of numbers of series, but is {part!r}")
            object.__setattr__(self, name, found.astype(np.int64))
        for (one, a), (other, b) in combinations(self.parts.items(), 2):
            if np.intersect1d(a, b).size:
                raise ArgumentError(
                    f"Argument `{other}` must share no series with `{one}`, but both have {np.intersect1d(a, b)[0]}"
                )

    @property
    def parts(self) -> dict[str, Index]:
        """All three by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}

    def __str__(self) -> str:
        return f"{len(self.train)} to train, {len(self.validation)} to validate, {len(self.test)} to test"


def split(
    series: Series, seed: int, by: By = "random", fractions: tuple[float, float, float] = (0.7, 0.15, 0.15)
) -> Split:
    """The three parts of a set; the same seed gives the same parts.

    "random": a shuffled set, cut at the fractions, rounded down. "groups": whole groups, shuffled and cut where the
    parts come nearest to the fractions, the best of 32 shuffles. "given": the source's own test part, and the rest
    shuffled and cut in the proportion of the first two fractions.
    """
    if by not in get_args(By):
        raise ArgumentError(f"Argument `by` must be known, but is {by!r}{nearest(str(by), get_args(By))}")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise ArgumentError(f"Argument `seed` must be a whole number of at least 0, but is {seed!r}")
    if len(fractions) != 3 or min(fractions) <= 0 or abs(sum(fractions) - 1) > 1e-9:
        raise ArgumentError(f"Argument `fractions` must be three numbers above 0 that add up to 1, but is {fractions}")
    rng = np.random.default_rng(seed)
    if by == "groups":
        return _by_groups(series, rng, fractions)
    if by == "given":
        return _given(series, rng, fractions)
    order = rng.permutation(series.count)
    parts = np.split(order, [_cut(series.count, fractions[0]), _cut(series.count, fractions[0] + fractions[1])])
    return _whole(series, parts)


def leaks(series: Series, split: Split) -> tuple[str, ...]:
    """Sentences on what the training part tells of the others; none if nothing is known to leak."""
    top = max(int(part.max()) for part in split.parts.values())
    if top >= series.count:
        raise ArgumentError(f"Argument `split` must be of this set of {series.count} series, but has series {top}")
    found = []
    for name in ("validation", "test"):
        part, kind = split.parts[name], series.group_kind
        share = f"neighbouring windows share {series.overlap:.0%} of their samples"
        if series.groups is None:
            if series.overlap:
                found.append(
                    f"{share.capitalize()}, and it is not known which recordings they are of: the {name} part may hold "
                    "samples that were trained on. Give `groups`, and split by them."
                )
            continue
        both = np.intersect1d(series.groups[split.train], series.groups[part])
        if not both.size:
            continue
        total = len(np.unique(series.groups[part]))
        where = f"{both.size} of the {total} {kind}s of the {name} part are also in the training part"
        if series.overlap:
            found.append(
                f"{where}, and {share}: the {name} part can hold samples that were trained on. "
                'Use split(…, by="groups").'
            )
        found.append(f'{where}: results on it say nothing about new {kind}s. Use split(…, by="groups") for those.')
    return tuple(found)


def _cut(count: int, fraction: float) -> int:
    # Rounded first, so that 0.7·10 is 7 whatever the last bit says.
    return int(round(count * fraction, 6))


def _whole(series: Series, parts: list[NDArray[np.int64]]) -> Split:
    if any(not part.size for part in parts):
        sizes = ", ".join(str(part.size) for part in parts)
        raise ArgumentError(
            f"Argument `series` must be enough for three parts, but {series.count} series make parts of {sizes}: "
            "give other `fractions`, or more series"
        )
    return Split(*parts)


def _given(series: Series, rng: np.random.Generator, fractions: tuple[float, float, float]) -> Split:
    if series.held_out is None:
        raise ArgumentError(
            f'Argument `by` must be "random" or "groups" for {series.name}, but is "given", and its source names no '
            "test part"
        )
    rest = rng.permutation(np.flatnonzero(~series.held_out))
    cut = _cut(rest.size, fractions[0] / (fractions[0] + fractions[1]))
    return _whole(series, [rest[:cut], rest[cut:], np.flatnonzero(series.held_out)])


def _by_groups(series: Series, rng: np.random.Generator, fractions: tuple[float, float, float]) -> Split:
    if series.groups is None:
        raise ArgumentError(
            f'Argument `by` must be "random" or "given" for {series.name}, but is "groups", and none are known'
        )
    groups, sizes = np.unique(series.groups, return_counts=True)
    if len(groups) < 3:
        raise ArgumentError(
            f"Argument `series` must have at least 3 {series.group_kind}s to be split by them, but has {len(groups)}: "
            'use by="random"'
        )
    best, nearest_yet = None, np.inf
    for _ in range(ORDERS):
        order = rng.permutation(len(groups))
        ends = np.cumsum(sizes[order]) / series.count
        first = 1 + int(np.argmin(np.abs(ends[:-2] - fractions[0])))
        second = first + 1 + int(np.argmin(np.abs(ends[first:-1] - fractions[0] - fractions[1])))
        got = np.diff([0.0, ends[first - 1], ends[second - 1], 1.0])
        distance = float(np.max(np.abs(got - fractions)))
        if distance < nearest_yet - 1e-12:
            best, nearest_yet = np.split(groups[order], [first, second]), distance
    assert best is not None
    return Split(*(np.flatnonzero(np.isin(series.groups, part)) for part in best))
