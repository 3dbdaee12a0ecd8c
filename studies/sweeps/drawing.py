"""What the figures of sweeps share: scales of outcomes, places and ticks of axes, titles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.plots import COLOURS
from studies.sweeps.reading import Axis, Choice, Numbers, Outcome, Points, number_text, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FLOOR = 1e-16
"""Smallest distance of a cosine from one that is drawn."""
UNEVEN = 4
"""How many times larger than another a cell of a map may be."""
MOST_LINES = 10
_MOST_TICKS = 8
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Scale:
    """How an outcome is drawn: cosines near one by their distance from it, what spans decades by its logarithm."""

    outcome: Outcome
    nines: bool
    log: bool

    @staticmethod
    def of(outcome: Outcome, values: Numbers, limit: float | None = None) -> Scale:
        """The scale for some values and a requirement."""
        seen = np.append(values[np.isfinite(values)], [] if limit is None else limit)
        nines = outcome.name == "cosine"
        sizes = np.maximum(1 - seen, FLOOR) if nines else seen
        log = bool(sizes.size and np.min(sizes) > 0 and np.max(sizes) > 10 * np.min(sizes))
        return Scale(outcome, nines and log, log)

    def drawn(self, values: Any) -> Any:
        """The numbers that are drawn for values."""
        return np.maximum(1 - np.asarray(values), FLOOR) if self.nines else np.asarray(values)

    def text(self, drawn: float) -> str:
        """What a drawn number stands for, in few characters."""
        return short_text(drawn) if self.nines else number_text(drawn, 2 if self.log else 3)

    def apply(self, axis: Axes) -> None:
        """Scale, direction and ticks of the vertical axis; better cosines stand higher."""
        axis.set_ylabel(self.outcome.title)
        if self.log:
            axis.set_yscale("log")
        if self.nines:
            self.ticks(axis)

    def ticks(self, axis: Axes) -> None:
        """Cosines at the ticks of a vertical axis of their distances from one."""
        axis.yaxis.set_major_formatter(lambda v, _: cosine_text(v))
        axis.yaxis.set_minor_formatter(lambda v, _: "")
        axis.invert_yaxis()

    @property
    def bright_high(self) -> bool:
        """Whether large drawn numbers are the good ones."""
        return (self.outcome.better != "lower") != self.nines


def cosine_text(distance: float) -> str:
    """A cosine by its distance from one, with as many nines as it has, never rounded up: 0.9993, later 1−2·10⁻⁷."""
    if distance <= FLOOR:
        return "1"
    steps, exponent = _leading(distance)
    if _nines(distance) <= 5:
        return _decimal(distance)
    return f"1−{f'{steps}·' if steps > 1 else ''}10{str(exponent).translate(_SUPERSCRIPTS)}"


def short_text(distance: float) -> str:
    """The same in at most six characters, for cells of maps: 0.9993, later 1−2e-7."""
    if distance <= FLOOR:
        return "1"
    steps, exponent = _leading(distance)
    return _decimal(distance) if _nines(distance) <= 4 else f"1−{steps}e{exponent}"


def _nines(distance: float) -> int:
    """How many decimals a cosine needs."""
    return -int(np.floor(np.log10(distance) + 1e-9))


def _decimal(distance: float) -> str:
    digits = 10 ** max(2, _nines(distance))
    return number_text(np.floor((1 - distance) * digits + 1e-6) / digits, 6)


def _leading(distance: float) -> tuple[int, int]:
    """The first digit of a distance, rounded up, and its power of ten."""
    exponent = -_nines(distance)
    steps = int(np.ceil(distance / 10.0**exponent - 1e-6))
    return (1, exponent + 1) if steps == 10 else (steps, exponent)


def places(axis: Axis) -> Numbers:
    """Where the values of an axis are drawn."""
    return np.arange(len(axis.values), dtype=np.float64) if axis.scale == "index" else axis.values.astype(np.float64)


def in_cells(axis: Axis) -> Axis:
    """The axis as cells of a map are laid out by: side by side, if their sizes would differ too much or overflow."""
    if axis.scale == "index" or len(axis.values) < 2:
        return axis
    at = np.log(places(axis)) if axis.scale == "log" else places(axis)
    gaps = np.diff(at)
    return replace(axis, scale="index") if np.max(gaps) > UNEVEN * np.min(gaps) else axis


def edges(axis: Axis) -> Numbers:
    """Borders between the values, and beyond both ends."""
    at = np.log(places(axis)) if axis.scale == "log" else places(axis)
    gaps = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    found = np.concatenate([[at[0] - gaps[0]], at[:-1] + gaps[: len(at) - 1], [at[-1] + gaps[-1]]])
    return np.exp(found) if axis.scale == "log" else found


def dress(axis: Axes, side: str, swept: Axis) -> None:
    """Scale, ticks and words of the side "x" or "y" of a figure."""
    from matplotlib.ticker import NullLocator

    getattr(axis, f"set_{side}label")(swept.title + (", in bins" if swept.binned else ""))
    getattr(axis, f"set_{side}scale")("log" if swept.scale == "log" else "linear")
    count, at = len(swept.values), places(swept)
    decades = swept.scale == "log" and at[-1] >= 999 * at[0]
    if count > _MOST_TICKS and (decades or swept.scale == "linear") and not swept.binned:
        return
    every = -(-count // _MOST_TICKS)
    getattr(axis, f"set_{side}ticks")(at[::every], swept.texts[::every])
    getattr(axis, f"{side}axis").set_minor_locator(NullLocator())


def colours_of(axis: Axis | None) -> list[tuple[int, Any, str]]:
    """Place, colour and label of every line; numbers go from dark to bright, and at most `MOST_LINES` are drawn."""
    from matplotlib import colormaps

    if axis is None:
        return [(0, COLOURS[0], "")]
    count = len(axis.values)
    shown = np.unique(np.linspace(0, count - 1, min(count, MOST_LINES)).round().astype(int))
    ordered = axis.values.dtype.kind in "fiu" or len(shown) > len(COLOURS)
    colours = colormaps["viridis"](np.linspace(0, 0.85, len(shown))) if ordered else COLOURS
    return [(int(p), c, axis.texts[p]) for p, c in zip(shown, colours, strict=False)]


def legend(axis: Axes, title: str | None = None) -> None:
    """A legend to the right of a figure."""
    style: dict[str, Any] = {"frameon": False, "fontsize": 8, "title_fontsize": 8, "handlelength": 1.6}
    axis.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0, title=title, alignment="left", **style)


def head(figure: Figure, points: Points, text: str, outcome: str, choice: Choice, notes: Sequence[str] = ()) -> None:
    """A title, and below it what else one must know: settings, repetitions, points without a value."""
    from matplotlib.transforms import blended_transform_factory

    said = [f"at {choice.text}"] * bool(choice.text)
    if points.repetitions > 1:
        said.append(f"median of {points.repetitions} repetitions")
    lost = choice.mask & np.isnan(points.outcomes[outcome].column)
    what = "failed" if np.array_equal(lost, choice.mask & points.failed) else f"have no {words(outcome)}"
    said += [*notes, *[f"{lost.sum()} of {choice.mask.sum()} points {what}"] * bool(lost.any())]
    lower = fill("; ".join(said), 104)
    axis = figure.axes[0]
    corner = blended_transform_factory(figure.transFigure, axis.transAxes)
    below = axis.text(0.012, 1.025, lower, transform=corner, fontsize=8.5, color="0.35", va="bottom")
    below.set_in_layout(False)
    axis.set_title("\n".join([" "] * (lower.count("\n") + 1)), fontsize=8.5)
    figure.suptitle(text[:1].upper() + text[1:], fontsize=11, x=0.012, ha="left")
