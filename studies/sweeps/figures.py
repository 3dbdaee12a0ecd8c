"""Figures of sweeps. Every function returns a matplotlib figure; nothing is shown, and nothing is saved here.

Requirements are limits by outcome, ``{"cosine": 0.99}``: a least value where more is better, else a largest one. Axes
that a figure does not show are at their middle value, or where `at` says: at a value, or `BEST` for the best of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from studies.plots import COLOURS, canvas
from studies.sweeps.drawing import MOST_LINES, Scale, colours_of, dress, edges, head, in_cells, legend, places
from studies.sweeps.optimum import UFit, fit_u
from studies.sweeps.reading import BEST, GAMMA, Axis, Numbers, Points, front, number_text, read, words

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BEST", "UFit", "fit_u", "heat", "lines", "overview", "pareto", "u_curve"]

MOST_CELLS = 120
"""Up to which number cells are annotated."""
MOST_LISTED = 12
"""Up to which number points of a front are listed."""
_LIMIT: dict[str, Any] = {"color": "0.25", "lw": 1.2, "ls": "--"}

Flags = NDArray[np.bool_]
Limits = Mapping[str, float] | None
Settings = Mapping[str, Any] | None


def heat(ds: xr.Dataset, outcome: str, x: str, y: str, require: Limits = None, *, at: Settings = None) -> Figure:
    """An outcome over two axes, median over repetitions, with the border of what is required."""
    points = read(ds)
    limits, choice = points.required(require), points.choose(_different(x, y), at)
    told, values = points.outcome(outcome), points.cells(outcome, (x, y), choice).median.T
    scale = Scale.of(told, values, limits.get(outcome))
    figure, axes = canvas(1, 1, (6.4, 4.6))
    axis: Axes = axes[0, 0]
    axis.grid(False)
    across, along = in_cells(points.axes[x]), in_cells(points.axes[y])
    mesh = _mesh(axis, across, along, scale, values)
    _bar(figure.colorbar(mesh, ax=axis, pad=0.02, label=told.title), scale)
    handles, notes = _empty_cells(axis, points, values), []
    if outcome in limits:
        met, text = told.met(values, limits[outcome]), told.requirement(limits[outcome])
        if np.any(met) and not np.all(met):
            known = np.isfinite(values) | (not points.zipped)
            handles.append(_border(axis, across, along, met, known, f"{text}, on the bright side"))
        else:
            notes.append(f"{text} is met {'everywhere' if np.all(met) else 'nowhere'}")
    if points.zipped:
        notes.append("median of all points in a cell")
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncol=2, frameon=False, fontsize=9)
    head(figure, points, f"{told.label} over {across.label} and {along.label}", outcome, choice, notes)
    return figure


def lines(
    ds: xr.Dataset, outcome: str, x: str, by: str | None = None, require: Limits = None, *, at: Settings = None
) -> Figure:
    """An outcome over one axis: median and 16 to 84 % quantiles of repetitions, a line per value of `by`."""
    points = read(ds)
    over = _different(x, by)
    limits, choice = points.required(require), points.choose(over, at)
    told, cells = points.outcome(outcome), points.cells(outcome, over, choice)
    scale = Scale.of(told, cells.median, limits.get(outcome))
    figure, axes = canvas(1, 1, (6.4, 4.0))
    axis: Axes = axes[0, 0]
    where = places(points.axes[x])
    for place, colour, label in colours_of(points.axes[by] if by else None):
        row = (slice(None), place) if by else slice(None)
        median, low, high = (scale.drawn(v[row]) for v in (cells.median, cells.low, cells.high))
        seen = np.isfinite(median)
        axis.plot(where[seen], median[seen], "o-", color=colour, ms=3.5, lw=1.4, label=label or "median")
        if cells.most > 1:
            axis.fill_between(where[seen], low[seen], high[seen], color=colour, alpha=0.18, lw=0)
    if cells.most > 1:
        label = f"16–84 % of {'points' if points.zipped else 'repetitions'}"
        axis.fill_between([], [], [], color="0.5", alpha=0.3, lw=0, label=label)
    if outcome in limits:
        axis.axhline(scale.drawn(limits[outcome]), label=told.requirement(limits[outcome]), **_LIMIT)
    scale.apply(axis)
    dress(axis, "x", points.axes[x])
    legend(axis, points.axes[by].title if by else None)
    head(figure, points, f"{told.label} over {points.axes[x].label}", outcome, choice, _how_many(points, by))
    return figure


def u_curve(ds: xr.Dataset, by: str | None = None, x: str = GAMMA, *, order: float = 2, at: Settings = None) -> Figure:
    """Relative error of the gradient over the nudging strength, with both asymptotes and the predicted optimum.

    `order` is 2 for centred echoes and 1 for one-sided ones.
    """
    points = read(ds)
    over = _different(x, by)
    choice, told = points.choose(over, at), points.outcome("error")
    if points.axes[x].values.dtype.kind not in "fiu" or not np.all(points.axes[x].values > 0):
        raise ArgumentError(f"Argument `x` must be an axis of positive numbers, but {x} is none")
    if choice.best:
        raise ArgumentError(f"Argument `at` must give values for a U curve, but has {BEST} for {choice.best[0]}")
    medians = points.cells("error", over, choice).median.reshape(len(points.axes[x].values), -1)
    figure, axes = canvas(1, 1, (6.4, 4.4))
    axis: Axes = axes[0, 0]
    axis.set(xscale="log", yscale="log", xlabel=points.axes[x].title, ylabel=told.title)
    verdicts = []
    for place, colour, label in colours_of(points.axes[by] if by else None):
        mask = choice.mask & (points.axes[by].codes == place) if by else choice.mask
        said = _u(axis, points.axes[x], medians[:, place], points, mask, order, colour)
        axis.plot([], [], "o-", color=colour, ms=4, label=f"{label}: {said}" if label else said)
        verdicts.append(said)
    seen = medians[medians > 0]
    if seen.size:
        axis.set_ylim(np.min(seen) / 3, np.max(seen) * 2)
    symbol = words(x) if len(words(x)) == 1 else "x"
    power = {1.0: "", 2.0: "²", 3.0: "³"}.get(order, f"^{order:g}")
    if any("* = " in v for v in verdicts):
        axis.plot([], [], "*", color="0.35", ms=11, mec="white", label="predicted optimum")
    axis.plot([], [], "o", mfc="none", mec="0.35", ms=8, mew=1.4, label="lowest that was found")
    axis.plot([], [], ":", color="0.35", lw=0.9, label=f"noise ∝ 1/{symbol}, bias ∝ {symbol}{power}")
    legend(axis, points.axes[by].title if by else None)
    notes = ["one branch only: no optimum in this range"] * all("branch" in v for v in verdicts)
    head(figure, points, f"{told.label} over {points.axes[x].label}", "error", choice, notes + _how_many(points, by))
    return figure


def pareto(
    ds: xr.Dataset, cost: str = "energy", outcome: str = "cosine", require: Limits = None, *, at: Settings = None
) -> Figure:
    """What quality costs: every setting by its medians over repetitions, and the front that none of them beats."""
    points = read(ds)
    limits, choice = points.required(require), points.choose([n for n in points.axes if n not in (at or {})], at)
    told, price = points.outcome(outcome), points.outcome(cost)
    if not told.better or price.better != "lower":
        raise ArgumentError(
            f"Argument `cost` must be better when lower and `outcome` have a better side, but are {cost} and {outcome}"
        )
    if choice.best:
        raise ArgumentError(f"Argument `at` must give values for a front, but has {BEST} for {choice.best[0]}")
    rows, (spent, got) = points.settings((cost, outcome), choice)
    chosen = front(spent, -got if told.better == "higher" else got)
    order = np.flatnonzero(chosen)[np.argsort(spent[chosen], kind="stable")]
    scale = Scale.of(told, got, limits.get(outcome))
    figure, axes = canvas(1, 1, (6.8, 4.4))
    axis: Axes = axes[0, 0]
    axis.plot(spent[~chosen], scale.drawn(got[~chosen]), "o", color="0.72", ms=3.5, mew=0, label="a setting")
    axis.plot(spent[order], scale.drawn(got[order]), color=COLOURS[0], lw=1.2, drawstyle="steps-post", alpha=0.6)
    label = "front: none is both\ncheaper and better"
    axis.plot(spent[order], scale.drawn(got[order]), "o", color=COLOURS[0], ms=6, label=label, zorder=3)
    if outcome in limits:
        axis.axhline(scale.drawn(limits[outcome]), label=told.requirement(limits[outcome]), **_LIMIT)
    axis.set_xlabel(price.title)
    axis.set_xscale("log" if Scale.of(price, spent).log else "linear")
    scale.apply(axis)
    if len(order) <= MOST_LISTED and points.free:
        _listed(axis, points, rows[order], spent[order], scale.drawn(got[order]))
    legend(axis)
    head(figure, points, f"{told.label} against {price.label}", outcome, choice)
    return figure


def overview(ds: xr.Dataset, require: Limits = None) -> dict[str, Figure]:
    """The figures that a data set has axes for, by names that files can have; what they do not show is at its best."""
    points = read(ds)
    hardware = [n for n in points.free if n != GAMMA] + [n for n in points.free if n == GAMMA]
    few = [n for n in hardware if len(points.axes[n].values) <= MOST_LINES and not points.zipped]
    best = {} if points.zipped else dict.fromkeys(points.free, BEST)
    found: dict[str, Figure] = {}

    def others(*shown: str | None) -> dict[str, str]:
        return {n: v for n, v in best.items() if n not in shown}

    for outcome in [n for n in (points.quality, "final_loss", "accuracy") if n in points.outcomes]:
        file = _file(outcome)
        if len(hardware) > 1:
            x, y = hardware[:2]
            found[f"{file}-map"] = heat(ds, outcome, x, y, require, at=others(x, y))
        for x in points.free:
            by = next((n for n in few if n != x), None)
            found[f"{file}-over-{_file(x)}"] = lines(ds, outcome, x, by, require, at=others(x, by))
    alone = not points.zipped or points.free == [GAMMA]
    if "error" in points.outcomes and GAMMA in points.free and alone and points.axes[GAMMA].scale != "index":
        found["u-curve"] = u_curve(ds, next((n for n in few if n != GAMMA), None))
    for cost in points.costs[:2] if points.quality in points.outcomes else ():
        found[f"{points.quality}-against-{_file(cost)}"] = pareto(ds, cost, points.quality, require)
    return found


def _different(x: str, other: str | None) -> tuple[str, ...]:
    if x == other:
        raise ArgumentError(f"Argument `x` must differ from the other axis, but both are {x}")
    return (x,) if other is None else (x, other)


def _file(name: str) -> str:
    """A name for files, without what shells read as patterns."""
    return re.sub(r"[^\w.-]+", "-", words(name).replace("γ", "gamma").replace("ε", "epsilon"))


def _how_many(points: Points, by: str | None) -> list[str]:
    """A note where not all lines are drawn, or points stand for several settings."""
    count = len(points.axes[by].values) if by else 0
    notes = [f"{MOST_LINES} of {count} values of {points.axes[by].short} drawn"] if by and count > MOST_LINES else []
    return notes + ["median of all points at a place"] * points.zipped


def _mesh(axis: Axes, x: Axis, y: Axis, scale: Scale, values: Numbers) -> Any:
    """Coloured cells, bright where better, annotated where they are few."""
    from matplotlib.colors import LogNorm, Normalize

    drawn = np.ma.masked_invalid(scale.drawn(values))
    ends = (float(drawn.min()), float(drawn.max())) if drawn.count() else (0.1, 1.0)
    norm, colours = (LogNorm if scale.log else Normalize)(*ends), "viridis" if scale.bright_high else "viridis_r"
    if scale.outcome.name == "norm_ratio" and ends[0] > 0:
        far = max(ends[1], 1 / ends[0], 1.05)
        norm, colours = LogNorm(1 / far, far), "PuOr"
    mesh = axis.pcolormesh(edges(x), edges(y), drawn, norm=norm, cmap=colours)
    dress(axis, "x", x)
    dress(axis, "y", y)
    if values.size <= MOST_CELLS:
        size = 9 if len(x.values) <= 6 else 8 if len(x.values) <= 8 else 6.5
        for (j, i), number in np.ndenumerate(scale.drawn(values)):
            if np.isfinite(number):
                dark = mesh.cmap(norm(number))[:3] @ np.array([0.299, 0.587, 0.114]) < 0.5
                style: dict[str, Any] = {"color": "white" if dark else "black", "ha": "center", "va": "center"}
                axis.text(float(places(x)[i]), float(places(y)[j]), scale.text(number), fontsize=size, **style)
    return mesh


def _empty_cells(axis: Axes, points: Points, values: Numbers) -> list[Any]:
    """Hatch what has no value; the patch for the legend."""
    from matplotlib.patches import Patch

    if not np.any(np.isnan(values)):
        return []
    axis.patch.set(facecolor="0.9", edgecolor="0.7", hatch="////")
    return [Patch(fc="0.9", ec="0.7", hatch="////", label="no point" if points.zipped else "failed")]


def _border(axis: Axes, x: Axis, y: Axis, met: Flags, known: Flags, label: str) -> Any:
    """The border between cells (y, x) that meet a requirement and those that do not."""
    from matplotlib.collections import LineCollection

    u, v = edges(x), edges(y)
    upright = (met[:, 1:] != met[:, :-1]) & known[:, 1:] & known[:, :-1]
    level = (met[1:] != met[:-1]) & known[1:] & known[:-1]
    pieces = [[(u[i + 1], v[j]), (u[i + 1], v[j + 1])] for j, i in np.argwhere(upright)]
    pieces += [[(u[i], v[j + 1]), (u[i + 1], v[j + 1])] for j, i in np.argwhere(level)]
    axis.add_collection(LineCollection(pieces, colors="white", lw=4.5, capstyle="projecting"), autolim=False)
    border = LineCollection(pieces, colors=COLOURS[1], lw=2.2, label=label, capstyle="projecting")
    axis.add_collection(border, autolim=False)
    return border


def _bar(bar: Any, scale: Scale) -> None:
    """Ticks of a colour bar: cosines, and ratios as plain numbers."""
    if scale.nines:
        scale.ticks(bar.ax)
    elif scale.outcome.name == "norm_ratio":
        bar.ax.yaxis.set_major_formatter(lambda v, _: number_text(v))
        bar.ax.yaxis.set_minor_formatter(lambda v, _: number_text(v) if f"{v:.0e}"[0] in "25" else "")


def _u(axis: Axes, x: Axis, median: Numbers, points: Points, mask: Flags, order: float, colour: Any) -> str:
    """One line of a U curve with its fit, and what to say of it."""
    where, seen = x.values.astype(np.float64), np.isfinite(median) & (median > 0)
    axis.plot(where[seen], median[seen], "o", color=colour, ms=4, zorder=3)
    if np.any(seen):
        found = int(np.nanargmin(np.where(seen, median, np.nan)))
        axis.plot(where[found], median[found], "o", mfc="none", mec=colour, ms=9, mew=1.4, zorder=4)
    try:
        fit = fit_u(x.column[mask], points.outcomes["error"].column[mask], order)
    except ArgumentError:
        return "too few points for a fit"
    dense = np.geomspace(where[0], where[-1], 200)
    axis.plot(dense, fit(dense), color=colour, lw=1.4)
    for term, power in ((fit.noise, -1.0), (fit.bias, order)):
        if term:
            axis.plot(dense, term * dense**power, color=colour, lw=0.8, ls=":", zorder=1)
    if fit.best is None or fit.error is None:
        return fit.verdict.split(":")[0]
    axis.plot(fit.best, fit.error, "*", color=colour, ms=13, mec="white", mew=0.8, zorder=5)
    return f"{words(x.name)}* = {number_text(float(f'{fit.best:.3g}'))}"


def _listed(axis: Axes, points: Points, rows: NDArray[np.int64], spent: Numbers, got: Numbers) -> None:
    """Numbers beside the points of a front, and their settings as entries of the legend."""
    names = " ·\n".join(points.axes[n].short for n in points.free)
    axis.plot([], [], " ", label=f"\n{names}:")
    for place, (row, cost, value) in enumerate(zip(rows, spent, got, strict=True), 1):
        axis.annotate(str(place), (cost, value), (0, 6), textcoords="offset points", ha="center", fontsize=8)
        values = " · ".join(number_text(points.axes[n].column[row]) for n in points.free)
        axis.plot([], [], color=COLOURS[0], marker=f"${place}$", ls="", ms=5, label=values)
