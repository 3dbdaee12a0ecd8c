"""A sweep's data set as columns of points: axes and outcomes in people's words, requirements, statistics.

Axes are what was swept; `seed` and `chip` are repetitions, over which medians and quantiles are taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError, nearest

if TYPE_CHECKING:
    import xarray as xr

GAMMA = "learning.gamma"
REPETITIONS = ("seed", "chip")
BEST = "best"
"""Instead of a value of an axis: for every cell, the value at which the outcome is best."""
BAND = (0.16, 0.84)
"""Quantiles over repetitions that are drawn as a band: one standard deviation, were they normal."""
HIGHER = ("cosine", "snr", "accuracy", "improvement")
LOWER = ("error", "loss", "energy", "seconds", "passes", "saturated")
"""Last words of outcomes of which less is better."""

COSTS = ("energy", "device_seconds", "adc_energy", "dac_energy", "dissipated_energy", "passes")
"""Outcomes that quality is paid with."""

LOGARITHMS = (-708.0, 709.0)
"""Of normal numbers in float64, least and largest."""

_FIRST = ("cosine", "error", "norm_ratio", "snr", "accuracy", "loss", "final_loss", "improvement", *COSTS)
"""Outcomes in the order in which they are told; others follow."""
_POINT, _EXTRAS = "point", ("parameter", "kind")
_SECTIONS = ("profile.", "learning.", "training.", "task.", "elements.")
_GREEK = {"gamma": "γ", "epsilon": "ε"}
_MOST_VALUES = 12
_IDLE = {
    "chip": "chips differ if something is drawn for each, such as fabrication.mismatch",
    "tolerance": 'chips have tolerances with fabrication.mismatch = "tolerance"',
}
"""Why an axis, by the end of its path, may have done nothing."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Axis:
    """One swept setting; sampled at random, its values are the middles of bins."""

    name: str
    label: str
    unit: str
    column: NDArray[Any]
    """What it was at every point."""
    values: NDArray[Any]
    """Its values, numbers in ascending order."""
    codes: NDArray[np.int64]
    """Places in `values`, one per point."""
    scale: str
    """"linear", "log", or "index" where values are texts, infinite or hold a zero among powers."""
    binned: bool

    @property
    def repeated(self) -> bool:
        """Whether it counts repetitions."""
        return self.name in REPETITIONS

    @property
    def short(self) -> str:
        """A few words for lists and titles."""
        return words(self.name)

    @property
    def title(self) -> str:
        """Words for the axis of a figure, with its unit."""
        return with_unit(self.label, self.unit)

    @property
    def texts(self) -> list[str]:
        """The values as texts, with as many digits as tell them apart, and where they are between others."""
        found = [[number_text(v, digits) for v in self.values] for digits in (2 if self.binned else 3, 4, 6, 17)]
        return next(t for t in found if self._tells(t) or t is found[-1])

    def _tells(self, texts: list[str]) -> bool:
        """Whether texts are all different, and none is off by more than a tenth of the way to the next value."""
        apart = len(set(texts)) == len(texts)
        if self.binned or len(texts) < 2 or self.values.dtype.kind != "f" or not np.all(np.isfinite(self.values)):
            return apart
        gaps = np.abs(np.diff(self.values))
        off = np.abs([float(t) for t in texts] - self.values)
        return apart and bool(np.all(off <= 0.1 * np.minimum(np.append(gaps, np.inf), np.insert(gaps, 0, np.inf))))

    def code(self, value: Any) -> int:
        """Place of a value."""
        for place, own in enumerate(self.values):
            if own == value or (_is_number(value) and _is_number(own) and np.isclose(own, value, rtol=1e-9, atol=0)):
                return place
        raise ArgumentError(
            f"Argument `at` must give a value of {self.name}, but {value!r} is none: {', '.join(self.texts)}"
        )


@dataclass(frozen=True, eq=False)
class Outcome:
    """One outcome, with a value per point; NaN where the point failed or the value is infinite."""

    name: str
    label: str
    unit: str
    better: str
    """"higher", "lower", or nothing."""
    column: Numbers

    @property
    def title(self) -> str:
        """Words for the axis of a figure, with its unit."""
        return with_unit(self.label, self.unit)

    def requirement(self, limit: float) -> str:
        """A requirement in words."""
        sign = "≥" if self.better == "higher" else "≤"
        return (
            f"{words(self.name)} {sign} {number_text(limit, 6)}{'' if self.unit == self.name else _spaced(self.unit)}"
        )

    def met(self, values: Numbers, limit: float) -> NDArray[np.bool_]:
        """Which values do what is required; what failed does not."""
        found: NDArray[np.bool_] = values >= limit if self.better == "higher" else values <= limit
        return found


@dataclass(frozen=True, eq=False)
class Choice:
    """Points that are looked at, and how the axes that are not shown were dealt with."""

    mask: NDArray[np.bool_]
    best: tuple[str, ...]
    text: str


@dataclass(frozen=True, eq=False)
class Cells:
    """Median and band of an outcome over repetitions, an entry per combination of values; NaN where all failed."""

    median: Numbers
    low: Numbers
    high: Numbers
    most: int
    """Largest number of points in a cell."""


@dataclass(frozen=True, eq=False)
class Points:
    """All points of a sweep, as columns."""

    axes: dict[str, Axis]
    outcomes: dict[str, Outcome]
    zipped: bool
    """Whether axes moved together or were sampled, and are no grid."""
    lone: bool = False
    """Whether one parameter alone is trained."""

    @property
    def quality(self) -> str:
        """The outcome that tells how good gradients are; of one parameter a cosine is only the sign."""
        return "error" if self.lone and "error" in self.outcomes else "cosine"

    @property
    def idle(self) -> list[str]:
        """Axes of a grid along which no outcome changes."""
        shape = [len(a.values) for a in self.axes.values()]
        if self.zipped or np.prod(shape) != self.count:
            return []
        columns = [o.column.reshape(shape) for o in self.outcomes.values()]
        return [
            name
            for place, name in enumerate(self.axes)
            if shape[place] > 1 and all(np.array_equal(c, c.take([0] * shape[place], place), True) for c in columns)
        ]

    @property
    def warnings(self) -> list[str]:
        """What one must know before one believes the numbers."""
        found = [
            f"no outcome depends on {words(n)}{next((f': {why}' for k, why in _IDLE.items() if n.endswith(k)), '')}"
            for n in self.idle
        ]
        if self.quality != "cosine" and "cosine" in self.outcomes:
            found.append("one parameter alone is trained, so that a cosine is only its sign: see the relative error")
        return found

    @property
    def count(self) -> int:
        """Number of points."""
        return len(next(iter(self.outcomes.values())).column)

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Points of which the gradient, or else every outcome, is missing."""
        told = [self.outcomes[n] for n in ("cosine", "error") if n in self.outcomes] or list(self.outcomes.values())
        found: NDArray[np.bool_] = np.all([~np.isfinite(o.column) for o in told], axis=0)
        return found

    @property
    def free(self) -> list[str]:
        """Axes with several values that are no repetitions."""
        return [n for n, a in self.axes.items() if not a.repeated and len(a.values) > 1]

    @property
    def costs(self) -> list[str]:
        """Costs that differ from point to point."""
        known = {n: self.outcomes[n].column for n in COSTS if n in self.outcomes}
        return [n for n, column in known.items() if np.unique(column[np.isfinite(column)]).size > 1]

    @property
    def repetitions(self) -> int:
        """How often every setting was repeated."""
        return int(np.prod([len(a.values) for a in self.axes.values() if a.repeated], dtype=np.int64))

    def axis(self, name: str) -> Axis:
        """An axis by its path."""
        if name not in self.axes:
            raise ArgumentError(
                f"Argument `axis` must be one of the sweep, but {name!r} is none{nearest(name, self.axes)}"
            )
        return self.axes[name]

    def outcome(self, name: str, argument: str = "outcome") -> Outcome:
        """An outcome by its name."""
        if name not in self.outcomes:
            raise ArgumentError(
                f"Argument `{argument}` must name an outcome, but {name!r} is none{nearest(name, self.outcomes)}"
            )
        return self.outcomes[name]

    def required(self, require: Mapping[str, float] | None) -> dict[str, float]:
        """Requirements, checked."""
        for name, limit in (require or {}).items():
            if not self.outcome(name, "require").better:
                raise ArgumentError(
                    f"Argument `require` must name outcomes of which more or less is better, but {name} is none"
                )
            if not np.isfinite(limit):
                raise ArgumentError(f"Argument `require` must give finite limits, but {name} has {limit}")
        return dict(require or {})

    def met(self, require: Mapping[str, float]) -> NDArray[np.bool_]:
        """Points that do all that is required."""
        met = [self.outcomes[n].met(self.outcomes[n].column, limit) for n, limit in require.items()]
        return np.all(met, axis=0) if met else np.ones(self.count, bool)

    def choose(self, shown: Sequence[str], at: Mapping[str, Any] | None = None) -> Choice:
        """Points for a figure over the axes `shown`.

        `at` gives values of other axes, or `BEST`; what it does not name is at its middle value in a grid, and left as
        it is where axes were zipped or sampled.
        """
        at = dict(at or {})
        for name in (*shown, *at):
            if self.axis(name).name in shown and name in at:
                raise ArgumentError(f"Argument `at` must name axes that are not drawn, but has {name}")
        mask, best, said = np.ones(self.count, bool), [], []
        for name, axis in self.axes.items():
            if name in shown or (name not in at and (axis.repeated or self.zipped)):
                continue
            place = len(axis.values) // 2
            if name in at:
                if isinstance(at[name], str) and at[name] == BEST and BEST not in axis.values:
                    best.append(name)
                    said.append(f"best {axis.short}")
                    continue
                place = axis.code(at[name])
            mask &= axis.codes == place
            said.append(
                f"{axis.short} {axis.texts[place]}{_spaced(axis.unit) if axis.unit in ('s', 'K', 'Hz') else ''}"
            )
        return Choice(mask, tuple(best), ", ".join(said))

    def cells(self, outcome: str, over: Sequence[str], choice: Choice) -> Cells:
        """Statistics of an outcome over all but the axes `over`, shape: their numbers of values."""
        told, names = self.outcome(outcome), (*over, *choice.best)
        shape = tuple(len(self.axis(n).values) for n in names)
        kept = choice.mask & np.isfinite(told.column)
        keys = _keys([self.axes[n].codes for n in names], shape, self.count)[kept]
        places, values, most = _grouped(keys, told.column[kept], (0.5, *BAND))
        found = np.full((3, int(np.prod(shape, dtype=np.int64))), np.nan)
        found[:, places] = values
        if choice.best and not told.better:
            raise ArgumentError(
                f"Argument `at` must give values, but asks for the best {outcome}, of which there is none"
            )
        if choice.best:
            several = found.reshape(3, int(np.prod(shape[: len(over)], dtype=np.int64)), -1)
            merit = several[0] if told.better == "higher" else -several[0]
            place = np.argmax(np.where(np.isnan(merit), -np.inf, merit), axis=-1)
            found = np.take_along_axis(several, place[None, :, None], axis=-1)[..., 0]
        median, low, high = found.reshape(3, *shape[: len(over)])
        return Cells(median, low, high, most)

    @property
    def setting(self) -> NDArray[np.int64]:
        """A number per point, the same for repetitions of one setting."""
        whole = [np.unique(a.column, return_inverse=True) for a in self.axes.values() if not a.repeated]
        keys = _keys([c.reshape(-1) for _, c in whole], [len(v) for v, _ in whole], self.count)
        return np.unique(keys, return_inverse=True)[1].reshape(-1)

    def settings(self, outcomes: Sequence[str], choice: Choice) -> tuple[NDArray[np.int64], list[Numbers]]:
        """One point of every setting that has a value, and medians of outcomes over its repetitions."""
        kept = choice.mask & np.all([np.isfinite(self.outcome(n).column) for n in outcomes], axis=0)
        own = self.setting[kept]
        rows = np.flatnonzero(kept)[np.unique(own, return_index=True)[1]]
        return rows, [_grouped(own, self.outcomes[n].column[kept], (0.5,))[1][0] for n in outcomes]


def read(ds: xr.Dataset) -> Points:
    """The points of a data set."""
    dims = [str(d) for d in ds.sizes if d not in _EXTRAS]
    names = [str(n) for n, v in ds.data_vars.items() if set(v.dims) <= set(dims) and v.dtype.kind in "fiu"]
    paths = [str(n) for n, c in ds.coords.items() if c.ndim == 1 and c.dims[0] in dims and n != _POINT]
    if not names or not paths or not all(ds.sizes[d] for d in dims):
        raise ArgumentError("Argument `ds` must hold outcomes over axes of a sweep, but has none")
    like = np.empty(tuple(ds.sizes[d] for d in dims))

    def column(name: str) -> NDArray[Any]:
        own = ds[name].transpose(*[d for d in dims if d in ds[name].dims])
        shape = [ds.sizes[d] if d in own.dims else 1 for d in dims]
        return np.broadcast_to(own.to_numpy().reshape(shape), like.shape).ravel()

    ordered = [d for d in dims if d in paths] + [n for n in paths if n not in dims]
    names.sort(key=lambda n: _FIRST.index(n) if n in _FIRST else len(_FIRST))
    axes = {n: _axis(n, ds[n].attrs, column(n), sampled=_POINT in ds[n].dims) for n in ordered}
    outcomes = {n: _outcome(n, ds[n].attrs, column(n).astype(np.float64)) for n in names}
    return Points(axes, outcomes, zipped=_POINT in dims, lone=ds.sizes.get("parameter") == 1)


def _keys(codes: Sequence[NDArray[np.int64]], sizes: Sequence[int], count: int) -> NDArray[np.int64]:
    """One number per combination of codes."""
    found = np.zeros(count, np.int64)
    for own, size in zip(codes, sizes, strict=True):
        found = found * size + own
    return found


def _grouped(
    keys: NDArray[np.int64], column: Numbers, quantiles: Sequence[float]
) -> tuple[NDArray[np.int64], Numbers, int]:
    """Keys that occur, quantiles (quantiles, keys) of the values under them, and the size of the largest group."""
    order = np.argsort(keys, kind="stable")
    places, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    groups = np.split(column[order], starts[1:])
    found = np.array([np.quantile(g, quantiles) for g in groups if len(g)]).reshape(-1, len(quantiles))
    return places, found.T, int(np.max(counts, initial=0))


def front(cost: Numbers, badness: Numbers) -> NDArray[np.bool_]:
    """Points that no other beats: none is at most as dear and at most as bad, and better in one of the two."""
    found = np.zeros(len(cost), bool)
    best, dear = np.inf, np.nan
    for place in np.lexsort((badness, cost)):
        if np.isfinite(cost[place]) and (badness[place] < best or (badness[place] == best and cost[place] == dear)):
            found[place], best, dear = True, badness[place], cost[place]
    return found


def number_text(value: Any, digits: int = 3) -> str:
    """A value as a short text."""
    if not _is_number(value):
        return str(value)
    value = float(value)
    if np.isnan(value):
        return "none"
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    if (value == round(value) and abs(value) < 1e5) or 10**digits <= abs(value) < 1e4:
        return f"{value:.0f}"
    if 1e-3 <= abs(value) < 10**digits:
        return f"{value:.{digits}g}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa.rstrip('0').rstrip('.') if '.' in mantissa else mantissa}e{int(exponent)}"


def words(name: str) -> str:
    """A path as words: ``words("profile.readout.bits") == "readout bits"``."""
    for section in _SECTIONS:
        name = name.removeprefix(section)
    return " ".join(_GREEK.get(part, part) for part in name.replace(".", " ").replace("_", " ").split())


def with_unit(label: str, unit: str) -> str:
    """Words and their unit."""
    return label if not unit or label.split()[-1] == unit else f"{label} ({unit})"


def _axis(name: str, attrs: Mapping[Any, Any], column: NDArray[Any], *, sampled: bool) -> Axis:
    label, unit = _told(name, attrs)
    if column.dtype == object:
        column = np.asarray(column.tolist())
    if column.dtype.kind not in "fiu":
        texts = [str(v) for v in column]
        order = list(dict.fromkeys(texts))
        codes = np.array([order.index(t) for t in texts], np.int64)
        return Axis(name, label, unit, np.array(texts), np.array(order), codes, "index", False)
    values, codes = np.unique(column, return_inverse=True)
    scale = _scale(values)
    rises, falls = np.any(column[1:] > column[:-1]), np.any(column[1:] < column[:-1])
    mixed = sampled and name not in REPETITIONS and rises and falls  # what is zipped goes one way
    if not mixed or len(values) <= _MOST_VALUES or scale == "index":
        return Axis(name, label, unit, column, values, codes.reshape(-1), scale, False)
    count = int(np.clip(round((len(column) / 3) ** 0.5), 4, 20))
    first, last = np.log(values[[0, -1]]) if scale == "log" else values[[0, -1]]
    edges = np.linspace(first, last, count + 1)
    middles = (edges[1:] + edges[:-1]) / 2
    places = np.searchsorted(edges[1:-1], np.log(column) if scale == "log" else column, side="right")
    return Axis(name, label, unit, column, np.exp(middles) if scale == "log" else middles, places, scale, True)


def _told(name: str, attrs: Mapping[Any, Any]) -> tuple[str, str]:
    """Words and unit of an axis or outcome; pure numbers have none."""
    unit = str(attrs.get("units") or "")
    return str(attrs.get("long_name") or words(name)), "" if unit in ("1", "dimensionless") else unit


def _outcome(name: str, attrs: Mapping[Any, Any], column: Numbers) -> Outcome:
    ends = name.replace("_", " ").split()[-1]
    better = "higher" if name in HIGHER else "lower" if ends in LOWER else ""
    label, unit = _told(name, attrs)
    return Outcome(name, label, unit, str(attrs.get("better", better)), np.where(np.isfinite(column), column, np.nan))


def _scale(values: NDArray[Any]) -> str:
    """How an axis is drawn: by whichever of values and logarithms is more even; powers with a zero by their places."""
    if not np.all(np.isfinite(values)):
        return "index"
    if len(values) < 2 or values[-1] <= 0:
        return "linear"
    positive = values[values > 0].astype(np.float64)
    if len(positive) < 2 or positive[-1] < 8 * positive[0]:
        return "linear"

    def unevenness(x: Numbers) -> float:
        gaps = np.diff(x)
        return float(np.std(gaps / np.max(gaps)) / np.mean(gaps / np.max(gaps)))  # large ones have no square

    at = np.log(positive)
    if len(values) == 2 or unevenness(at) < unevenness(values.astype(np.float64)):
        room = max(at[1] - at[0], at[-1] - at[-2], (at[-1] - at[0]) / 8) / 2  # of cells and margins
        held = LOGARITHMS[0] < at[0] - room and at[-1] + room < LOGARITHMS[1]
        return "log" if held and len(positive) == len(values) else "index"
    return "linear"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def _spaced(unit: str) -> str:
    return f" {unit}" if unit else ""
