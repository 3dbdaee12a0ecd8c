"""The figure of a contract: a small panel for every axis, with the requirement and the limits that were found."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from studies.plots import COLOURS, canvas
from studies.sweeps.contract import Budget, short
from studies.sweeps.drawing import Scale
from studies.sweeps.limits import Along, Requirement, Trial
from studies.sweeps.quantities import OUTCOMES, words
from studies.sweeps.reading import Numbers, Outcome, number_text, with_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 2
LOWEST = -0.5
"""Cosines below this are drawn here."""
SHOWN = 1e4
"""How much better than required an outcome may be to be drawn."""


def figure(budget: Budget) -> Figure:
    """The first required outcome along every axis: worst seed and median, requirement, single and joint limits."""
    required = budget.requirements[0]
    name, meaning = required.outcome, OUTCOMES[required.outcome]
    trials = [t for s in budget.singles for t in s.trials]
    values = np.array([_drawn(name, v) for t in trials for v in (t.worst[name], t.median[name])])
    better = "higher" if required.at_least else "lower"
    scale = Scale.of(Outcome(name, meaning.long_name, meaning.units, better, values), values, required.value)
    rows = max(1, ceil(len(budget.singles) / COLUMNS))
    made, axes = canvas(rows, COLUMNS, (7.2, 0.7 + 2.0 * rows), sharey=True)
    for panel, single in zip(axes.flat, budget.singles, strict=False):
        _panel(panel, budget, single, scale)
    scale.apply(axes[0, 0])
    _cut(axes[0, 0], scale, values[np.isfinite(values)], required)
    for row in axes[:, 0]:
        row.set_ylabel(name)
    found = [panel.get_legend_handles_labels() for panel in axes.flat]
    known = {label: handle for handles, labels in found for handle, label in zip(handles, labels, strict=True)}
    handles, labels = list(known.values()), list(known)
    empty = list(axes.flat[len(budget.singles) :])
    for panel in empty:
        panel.axis("off")
    style: dict[str, Any] = {"frameon": False, "fontsize": 9}
    if empty:
        empty[0].legend(handles, labels, loc="center", **style)
    else:
        made.legend(handles, labels, loc="outside lower center", ncols=len(handles), **style)
    made.suptitle(
        f"{budget.name}\n{' and '.join(map(str, budget.requirements))} at each of {len(budget.seeds)} seeds",
        fontsize=11,
    )
    return made


def _cut(panel: Axes, scale: Scale, values: Numbers, required: Requirement) -> None:
    """Leave out what is far better than required."""
    if not scale.log:
        return
    drawn, line = scale.drawn(values), float(scale.drawn(required.value))
    low, high = float(drawn.min()), float(drawn.max())
    if scale.bright_high:
        high = min(high, line * SHOWN)
    else:
        low = max(low, line / SHOWN)
    low, high = min(low, line) / 1.5, max(high, line) * 1.5
    panel.set_ylim((high, low) if scale.nines else (low, high))


def _panel(panel: Axes, budget: Budget, single: Along, scale: Scale) -> None:
    axis, name = single.range, budget.requirements[0].outcome
    places = [single.value(t) for t in single.trials]
    median, worst = ([_drawn(name, getattr(t, what)[name]) for t in single.trials] for what in ("median", "worst"))
    panel.plot(places, scale.drawn(median), color="0.6", lw=1.1, label="median seed")
    panel.plot(places, scale.drawn(worst), "o-", color=COLOURS[0], ms=3, lw=1.1, label="worst seed")
    panel.axhline(scale.drawn(budget.requirements[0].value), color="0.2", lw=0.9, ls=":", label="required")
    if single.good is not None:
        panel.axvline(single.value(single.good), color=COLOURS[1], lw=1.4, label="limit alone")
    title = f"{short(axis.path)}\n{_said(single.good, single)} alone"
    if budget.joint is not None and axis.ordered:
        value = budget.joint.contract.point[axis.path]
        panel.axvline(value, color=COLOURS[2], lw=1.6, ls="--", label="limit jointly")
        title += f", {number_text(value)} jointly"
    if axis.spacing == "log":
        panel.set_xscale("log")
    panel.set_xlabel(with_unit(*reversed(words(axis.path))), fontsize=8.5)
    panel.set_title(title, fontsize=9, loc="left")
    panel.tick_params(labelsize=8)


def _said(good: Trial | None, single: Along) -> str:
    return "no value" if good is None else number_text(single.value(good))


def _drawn(name: str, value: float) -> float:
    return max(value, LOWEST) if name == "cosine" else value
