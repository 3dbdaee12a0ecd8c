"""Searching for limits: how far one setting, or all of them together, may go before a requirement fails.

Nothing is emulated here. Outcomes come from a function of points, which is asked for many at once: searches along
several axes go in step, so that each round of all of them is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError, nearest

Floats = NDArray[np.float64]
Point = Mapping[str, Any]
"""Values by path."""
Evaluate = Callable[[Sequence[Point]], Mapping[str, Floats]]
"""Outcomes of points by name, (points, seeds)."""

AT_LEAST = ("cosine", "snr", "improvement")
AT_MOST = ("error", "loss", "final_loss")
NEAR = 1.1
"""Ratio of the next worse value to a limit that is near enough."""
DIGITS = 3
"""Of continuous values that are tried, so that what is printed is what was tried."""


# What must hold -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Requirement:
    """An outcome that must be at least, or at most, a value, at every seed."""

    outcome: str
    value: float

    def __post_init__(self) -> None:
        known = (*AT_LEAST, *AT_MOST)
        if self.outcome == "norm_ratio":
            raise ArgumentError(
                "Argument `require` must name an outcome of which more or less is better, but norm_ratio is best near "
                "1: require an error instead, such as error=0.1"
            )
        if self.outcome not in known:
            raise ArgumentError(
                f"Argument `require` must be one of {', '.join(known)}, but is {self.outcome!r}"
                f"{nearest(self.outcome, known)}"
            )
        if not isfinite(self.value) or (self.outcome != "cosine" and self.value <= 0) or abs(self.value) >= self._most:
            limits = "above -1 and below 1" if self.outcome == "cosine" else "greater than 0"
            raise ArgumentError(
                f"Argument `require` must give {self.outcome} a number {limits}, but gives {self.value:g}"
            )

    @classmethod
    def of(cls, given: str | Requirement) -> Requirement:
        """Requirement of a text such as ``cosine=0.99``."""
        if isinstance(given, Requirement):
            return given
        name, equals, value = given.partition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ArgumentError(f"Argument `require` must read like cosine=0.99, but is {given!r}")
        return cls(name.strip(), number)

    @property
    def _most(self) -> float:
        return 1.0 if self.outcome == "cosine" else np.inf

    @property
    def at_least(self) -> bool:
        """Whether more is better."""
        return self.outcome in AT_LEAST

    def __str__(self) -> str:
        return f"{self.outcome} {'≥' if self.at_least else '≤'} {self.value:.15g}"

    def slack(self, value: float) -> float:
        """By how much of the requirement a value is better than it; −∞ for what failed."""
        scale = abs(self.value) or 1.0
        gap = (value - self.value if self.at_least else self.value - value) / scale
        return gap if gap == gap else -np.inf


@dataclass(frozen=True)
class Trial:
    """A point that was tried: the worst and the median seed of every outcome that matters; NaN where one failed."""

    point: Point
    worst: Mapping[str, float]
    median: Mapping[str, float]
    slack: float
    """Of the worst seed; of several requirements the least."""
    blind: int = 0
    """Seeds at which pilot echoes found no γ."""

    @property
    def met(self) -> bool:
        """Whether all requirements hold at every seed."""
        return self.slack >= 0


@dataclass(eq=False)
class Trials:
    """Tries points, each of them once."""

    evaluate: Evaluate
    requirements: tuple[Requirement, ...]
    known: dict[Any, Trial] = field(default_factory=dict)

    def __call__(self, points: Sequence[Point]) -> list[Trial]:
        """What came of some points."""
        keys = [tuple(sorted(p.items())) for p in points]
        new = {k: p for k, p in zip(keys, points, strict=True) if k not in self.known}
        if new:
            found = self.evaluate(list(new.values()))
            for i, (key, point) in enumerate(new.items()):
                self.known[key] = self._judged(point, {name: values[i] for name, values in found.items()})
        return [self.known[k] for k in keys]

    def _judged(self, point: Point, seeds: Mapping[str, Floats]) -> Trial:
        worst, median, slack = {}, {}, np.inf
        for r in self.requirements:
            values = np.asarray(seeds[r.outcome], float)
            worst[r.outcome] = float(values.min() if r.at_least else values.max())  # NaN if any is
            median[r.outcome] = float(np.median(values))
            slack = min(slack, r.slack(worst[r.outcome]))
        blind = np.count_nonzero(np.isnan(seeds.get("gamma", 1.0)))
        return Trial(dict(point), worst, median, float(slack), int(blind))


# Axes ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Range:
    """Values of one axis, from the best to the worst if it has a direction, else from the lowest to the highest."""

    path: str
    best: Any
    worst: Any
    spacing: str
    """"log", "linear" or "whole"."""
    ordered: bool = True
    """Whether outcomes are expected to become worse all the way."""
    listed: tuple[Any, ...] = ()
    """Only these are tried, in this order."""

    @property
    def grows(self) -> bool:
        """Whether values grow on the way."""
        return bool(self.worst > self.best)

    def place(self, value: Any) -> float:
        """Where a value is, 0 at one end and 1 at the other."""
        if self.best == self.worst:
            return 0.0
        if self.spacing == "log":
            return float(np.log(value / self.best) / np.log(self.worst / self.best))
        return float((value - self.best) / (self.worst - self.best))

    def at(self, place: float) -> Any:
        """The value at a place, as it is tried."""
        if place in (0.0, 1.0):
            return self.worst if place else self.best
        if self.spacing == "log":
            return rounded(float(self.best * (self.worst / self.best) ** place))
        value = self.best + place * (self.worst - self.best)
        return round(value) if self.spacing == "whole" else rounded(float(value))

    def spread(self, count: int) -> list[Any]:
        """Values over all of it, both ends included."""
        if self.listed:
            return list(self.listed)
        if self.spacing == "whole":
            count = min(count, abs(self.worst - self.best) + 1)
        return list(dict.fromkeys(self.at(u) for u in np.linspace(0, 1, max(count, 2))))

    def between(self, first: Any, second: Any, count: int) -> list[Any]:
        """Values between two that were tried; none if those are near enough to each other."""
        if self.listed or self._near(first, second):
            return []
        part = Range(self.path, first, second, self.spacing)
        if self.spacing == "whole":
            count = min(count, abs(second - first) - 1)
        found = dict.fromkeys(part.at(u) for u in np.linspace(0, 1, count + 2)[1:-1])
        return [v for v in found if v not in (first, second)]

    def _near(self, a: Any, b: Any) -> bool:
        low, high = sorted((a, b))
        if self.spacing == "whole":
            return bool(high - low <= 1)
        if self.spacing == "log":
            return bool(high <= NEAR * low)
        return bool(high - low <= max((NEAR - 1) * abs(low), 1e-3 * abs(self.worst - self.best)))

    def part(self, first: Any, second: Any) -> Range:
        """What lies between two of its values."""
        ends = sorted((self.place(first), self.place(second)))
        listed = tuple(v for v in self.listed if ends[0] <= self.place(v) <= ends[1])
        return Range(self.path, first, second, self.spacing, self.ordered, listed)

    def backed_off(self, limit: Any, scale: float) -> Any:
        """A limit made stricter: by so many bits, or by that factor."""
        if scale == 1:
            return limit
        value = limit * scale if self.grows else limit / scale
        if self.path.endswith("bits") and not self.grows:
            value = limit - log2(scale)
        if self.listed:
            stricter = [v for v in self.listed if (v <= value) == self.grows or v == value]
            return stricter[-1] if stricter else self.listed[0]
        if self.spacing == "whole":
            return max(floor(value + 1e-9), self.best) if self.grows else ceil(value - 1e-9)
        return rounded(float(value))

    def worse(self, value: Any) -> Any:
        """The next value worth telling apart, towards the worst."""
        if self.listed:
            return self.listed[min(self.listed.index(value) + 1, len(self.listed) - 1)]
        if self.spacing == "whole":
            return value + (1 if self.grows else -1)
        if self.spacing == "log":
            return rounded(value * NEAR if self.grows else value / NEAR)
        return rounded(value + (NEAR - 1) * (abs(value) if self.grows else -abs(value)))


def rounded(value: float) -> float:
    """The nearest number of a few digits."""
    return float(f"{value:.{DIGITS}g}")


# Along one axis -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Along:
    """What was found along one axis, all else held."""

    range: Range
    trials: tuple[Trial, ...]
    """In the order of the axis."""
    good: Trial | None
    """The last that does, before any that does not; without direction the best one, if it does."""
    bad: Trial | None
    """The first that does not."""
    orderly: bool = True
    """Whether nothing did beyond the first that does not."""
    interval: tuple[Any, Any] | None = None
    """Without direction: between which values, on either side of the best, all that were tried do."""

    def value(self, trial: Trial | None) -> Any:
        """Where on this axis a trial was."""
        return None if trial is None else trial.point[self.range.path]


Search = Generator[list[Any], list[Trial], Along]
"""Asks for values of its axis, is sent what came of them, and gives what it found."""


def limit(axis: Range, width: int, first: Iterable[Any] | None = None) -> Search:
    """The worst value that does, by sections: `width` values at once, then as many between the last two that differ."""
    path, seen = axis.path, dict[Any, Trial]()
    values = axis.spread(width) if first is None else list(first)
    while True:
        seen |= {t.point[path]: t for t in (yield values)}
        trials = sorted(seen.values(), key=lambda t: axis.place(t.point[path]))
        met = [t.met for t in trials]
        edge = met.index(False) if False in met else len(met)
        good, bad = (trials[edge - 1] if edge else None), (trials[edge] if edge < len(met) else None)
        values = [] if good is None or bad is None else axis.between(good.point[path], bad.point[path], width)
        if not values:
            return Along(axis, tuple(trials), good, bad, orderly=not any(met[edge:]))


def around(axis: Range, width: int) -> Search:
    """The best value of an axis without direction, and how far one can go from it to either side.

    Sobol's samples come first, then values about the best of them, then sections at both ends of where it does.
    """
    path, seen = axis.path, dict[Any, Trial]()
    values, first = axis.spread(width) if axis.listed else _sampled(axis, width), True
    while True:
        seen |= {t.point[path]: t for t in (yield values)}
        trials = sorted(seen.values(), key=lambda t: axis.place(t.point[path]))
        at = [t.point[path] for t in trials]
        low = high = best = max(range(len(at)), key=lambda i: trials[i].slack)
        while low > 0 and trials[low - 1].met:
            low -= 1
        while high + 1 < len(at) and trials[high + 1].met:
            high += 1
        outside = [i for i in (low - 1, high + 1) if 0 <= i < len(at)]
        beside = [i for i in (best - 1, best + 1) if 0 <= i < len(at)]
        ends = [(best, i) for i in beside] if first else []
        if trials[best].met and not any(axis.between(at[a], at[b], 1) for a, b in ends):
            ends = [(low if i < low else high, i) for i in outside]
        values = [v for a, b in ends for v in axis.between(at[a], at[b], width // 2)]
        first = False
        if not values:
            break
    if not trials[best].met:
        return Along(axis, tuple(trials), None, trials[best])
    bad = trials[outside[0]] if outside else None
    return Along(axis, tuple(trials), trials[best], bad, interval=(at[low], at[high]))


def _sampled(axis: Range, count: int) -> list[Any]:
    """Both ends, and Sobol's samples between them."""
    from scipy.stats import qmc

    sampler = qmc.Sobol(1, rng=np.random.default_rng(0))
    uniform = sampler.random_base2(ceil(log2(count)))[: max(count - 2, 1), 0]
    return list(dict.fromkeys([axis.best, *(axis.at(float(u)) for u in uniform), axis.worst]))


def in_step(
    tried: Callable[[Sequence[Point]], list[Trial]], searches: Mapping[str, Search], at: Point
) -> dict[str, Along]:
    """Several searches, by path, round by round; what none of them moves is as `at` has it."""
    found: dict[str, Along] = {}
    asked = {path: next(search) for path, search in searches.items()}
    while asked:
        trials = iter(tried([{**at, path: v} for path, values in asked.items() for v in values]))
        for path, values in list(asked.items()):
            try:
                asked[path] = searches[path].send([next(trials) for _ in values])
            except StopIteration as end:
                found[path] = end.value
                del asked[path]
    return {path: found[path] for path in searches}
