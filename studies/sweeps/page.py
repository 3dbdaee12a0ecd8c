"""A sweep as one interactive HTML file: charts, a table and how it was made, with everything inside."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devices import ArgumentError, to_text
from rhel_hw.files import refuse_unwritable, write_atomically
from studies import report
from studies.sweeps.drawing import FLOOR, cosine_text
from studies.sweeps.reading import GAMMA, Axis, Outcome, Points, number_text, read, words

if TYPE_CHECKING:
    import xarray as xr

_LONGEST = 500
"""Characters of an attribute."""
_TOLD = ("design", "profile", "versions", "command", "name")
_STYLE = """
:root { --front: #0072B2; --field: #f6f8fa; }
@media (prefers-color-scheme: dark) { :root { --front: #56B4E9; --field: #1e242b; } }
body { max-width: 74rem; }
.fields { display: grid; grid-template-columns: repeat(auto-fill, minmax(11.5rem, 1fr)); gap: .7rem 1rem; }
.fields label { display: block; min-width: 0; }
.fields [hidden], [hidden] { display: none; }
.fields span { display: block; color: var(--dim); font-size: .85rem; margin-bottom: .15rem; }
select, button { font: inherit; color: inherit; }
select { width: 100%; padding: .35rem .5rem; border: 1px solid var(--line); border-radius: 6px;
         background: var(--field); }
.panel { border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0; }
.panel h3 { font-size: .9rem; font-weight: 600; margin: 1rem 0 .5rem; }
.chart { height: 30rem; }
#csv { padding: .4rem .9rem; border: 1px solid var(--line); border-radius: 6px; background: var(--field);
       cursor: pointer; }
.bar { display: flex; flex-wrap: wrap; align-items: center; gap: .6rem 1rem; color: var(--dim); font-size: .9rem; }
#points { font-size: .85rem; }
#points th button { border: 0; background: none; padding: 0; font-weight: 600; cursor: pointer; text-align: inherit; }
#points th { min-width: 5rem; max-width: 11rem; vertical-align: bottom; }
#points td { white-space: nowrap; }
summary { cursor: pointer; font-weight: 600; }
details { margin-top: 2.4rem; padding-top: .9rem; border-top: 1px solid var(--line); }
details h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
pre { background: var(--field); border: 1px solid var(--line); border-radius: 6px; padding: .8rem; overflow-x: auto;
      font-size: .85rem; line-height: 1.4; }
"""
_CHARTS = """
<h2>Explore</h2>
<p class="lead">Medians over repetitions; bands and hover texts tell the 16 to 84 % quantiles.</p>
<div class="panel"><div class="fields" id="main"></div>
<div id="others-part"><h3>Other settings</h3><div class="fields" id="others"></div></div></div>
<div class="chart" id="chart"></div><p id="empty" hidden>No point of this choice has a value.</p>
"""
_PARETO = """
<h2>What quality costs</h2>
<p class="lead">Every setting by its medians, of the choice made above.</p>
<div class="fields" id="prices"></div><div class="chart" id="pareto"></div>
"""
_TABLE = """
<h2>Points</h2>
<p class="bar"><button id="csv" type="button">Download as CSV</button><span id="told"></span></p>
<div class="wide"><table id="points"><thead></thead><tbody></tbody></table></div>
"""


def write(
    ds: xr.Dataset,
    path: Path,
    *,
    require: Mapping[str, float] | None = None,
    title: str | None = None,
    notes: Sequence[str] = (),
) -> Path:
    """Write the page, whole or not at all; `require` is as for figures, and `notes` stand below the key numbers."""
    refuse_unwritable(path)
    points = read(ds)
    limits = points.required(require)
    name = title or str(ds.attrs.get("name") or "Sweep")
    scripts = (files("studies") / "words.js", files("studies.sweeps") / "page.js")
    told = (*_answer(points, limits), *(f"{w[:1].upper()}{w[1:]}." for w in points.warnings), *notes)
    blocks: list[report.Block] = [_numbers(points, limits), *map(report.Paragraph, told)]
    data = _data(points, limits, _file(name))
    blocks += [report.Markup(m) for m in (_CHARTS, _PARETO if data["costs"] else "", _TABLE, _made(ds, points))]
    live = report.Live(data, (_plotly(), *(s.read_text("utf-8") for s in scripts)), _STYLE)
    text = report.page(name, _lead(points, limits), [report.Section("", blocks)], live=live)
    return write_atomically(path, lambda stream: stream.write(text.encode()))


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise ArgumentError(
            "Argument `path` must be a page that can be written, but plotly is not installed: "
            "pip install 'rhel-hw[report]'"
        ) from None
    return str(get_plotlyjs())


def _data(points: Points, limits: Mapping[str, float], file: str) -> dict[str, Any]:
    """All that the script draws from."""
    told = [n for n in (points.quality, "final_loss", "accuracy", "error") if n in points.outcomes]
    first = told[0] if told else next((n for n, o in points.outcomes.items() if o.better), next(iter(points.outcomes)))
    shown = sorted(points.free, key=lambda n: n == GAMMA) or list(points.axes)[:1]
    costs = [n for n in points.costs if n != first] if points.outcomes[first].better else []
    return {
        "file": file,
        "count": points.count,
        "zipped": points.zipped,
        "first": first,
        "shown": shown,
        "costs": costs,
        "require": dict(limits),
        "setting": points.setting.tolist(),
        "axes": [_axis(a) for a in points.axes.values()],
        "outcomes": [_outcome(o) for o in points.outcomes.values()],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {
        "name": axis.name,
        "title": axis.title,
        "short": axis.short,
        "unit": axis.unit,
        "repeated": axis.repeated,
        "binned": axis.binned,
        "scale": axis.scale,
        "texts": axis.texts,
        "values": [_plain(v) for v in axis.values.tolist()],
        "codes": axis.codes.tolist(),
        "cells": [_plain(v) for v in axis.column.tolist()],
    }


def _outcome(outcome: Outcome) -> dict[str, Any]:
    return {
        "name": outcome.name,
        "title": outcome.title,
        "short": words(outcome.name),
        "unit": outcome.unit,
        "better": outcome.better,
        "empty": bool(np.all(np.isnan(outcome.column))),
        "column": [None if np.isnan(v) else v for v in outcome.column.tolist()],
    }


def _plain(value: Any) -> Any:
    """A number or text that JSON has."""
    return number_text(value) if isinstance(value, float) and not np.isfinite(value) else value


def _file(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "sweep"


def _lead(points: Points, limits: Mapping[str, float]) -> str:
    """What was swept, and what is required."""
    swept = [f"{points.axes[n].short} ({_range(points.axes[n])})" for n in points.free]
    text = f"A sweep over {_and(swept)}" if swept else "A sweep"
    if points.repetitions > 1:
        text += f", {points.repetitions} repetitions each"
    wanted = [points.outcomes[n].requirement(limit) for n, limit in limits.items()]
    return f"{text}. Required: {_and(wanted)}." if wanted else f"{text}."


def _range(axis: Axis) -> str:
    texts = axis.texts
    if axis.column.dtype.kind not in "fiu" or len(texts) <= 2:
        return ", ".join(texts[:6]) + (", …" if len(texts) > 6 else "")
    first, last = number_text(np.min(axis.column)), number_text(np.max(axis.column))
    return f"{first} to {last}" + ("" if axis.binned else f", {len(texts)} values")


def _and(parts: Sequence[str]) -> str:
    return ", ".join(parts[:-1]) + " and " + parts[-1] if len(parts) > 1 else "".join(parts)


def _numbers(points: Points, limits: Mapping[str, float]) -> report.Numbers:
    """The numbers that matter."""
    failed = int(points.failed.sum())
    items = [(f"{points.count:,}", "points"), (f"{points.count - failed:,}", "computed"), (f"{failed:,}", "failed")]
    if points.quality == "error" and failed < points.count:
        least = float(np.nanmin(points.outcomes["error"].column))
        items.append((number_text(least), "least relative error of the gradient"))
    elif "cosine" in points.outcomes and failed < points.count:
        best = float(np.nanmax(points.outcomes["cosine"].column))
        items.append((cosine_text(max(1 - best, FLOOR)), "best cosine to the exact gradient"))
    if limits:
        wanted = _and([points.outcomes[n].requirement(limit) for n, limit in limits.items()])
        items.append((f"{int(points.met(limits).sum()):,} of {points.count:,}", f"points meet {wanted}"))
    return report.Numbers(items)


def _answer(points: Points, limits: Mapping[str, float]) -> list[str]:
    """The cheapest setting that does what is required, in a sentence."""
    cost = next(iter(points.costs), None)
    if not limits or cost is None:
        return []
    rows, (spent, *got) = points.settings((cost, *limits), points.choose(list(points.axes)))
    met = np.all([points.outcomes[n].met(v, limits[n]) for n, v in zip(limits, got, strict=True)], axis=0)
    if not np.any(met):
        return ["No setting does what is required in its median over repetitions."]
    first = points.outcomes[next(iter(limits))]
    merit = -got[0] if first.better == "higher" else got[0]
    place = int(np.lexsort((merit, np.where(met, spent, np.inf)))[0])  # of equally cheap ones, the best
    setting = _and([f"{points.axes[n].short} {number_text(points.axes[n].column[rows[place]])}" for n in points.free])
    price = points.outcomes[cost]
    paid = to_text(float(f"{spent[place]:.3g}"), price.unit) if price.unit.isalpha() else number_text(spent[place])
    return [f"The cheapest setting that does what is required, by medians: {setting}, for {paid} ({price.label})."]


def _made(ds: xr.Dataset, points: Points) -> str:
    """A folded part that tells how the numbers were made."""
    attrs = {str(k): _read(v) for k, v in ds.attrs.items()}
    design = str(attrs.get("design") or "")
    parts = [("Command", _text(str(attrs.get("command") or "rhel-hw sweep design.toml")))]
    repeated = [a for a in points.axes.values() if a.repeated]
    if repeated:
        parts.append(("Seeds and chips", _pairs({a.short: ", ".join(a.texts) for a in repeated})))
    if attrs.get("versions"):
        parts.append(("Versions", _pairs(attrs["versions"])))
    parts.append(("Profile", _pairs(attrs.get("profile") or _profile(design) or "ideal, apart from what was swept")))
    more = {k: v for k, v in attrs.items() if k not in _TOLD}
    if more:
        parts.append(("More", _pairs(more)))
    if design:
        parts.append(("Design file (design.toml)", _text(design)))
    body = "".join(f"<h3>{escape(head)}</h3>{content}" for head, content in parts)
    return f"<details><summary>How this was made</summary>{body}</details>"


def _read(value: Any) -> Any:
    """An attribute; texts of JSON are read."""
    if isinstance(value, str) and value[:1] in "{[":
        try:
            return json.loads(value)
        except json.JSONDecodeError:
            return value
    return value


def _profile(design: str) -> dict[str, Any]:
    """The section `[profile]` of a design file."""
    try:
        found = tomllib.loads(design).get("profile", {})
    except tomllib.TOMLDecodeError:
        return {}
    return dict(found) if isinstance(found, dict) else {}


def _pairs(value: Any) -> str:
    """A mapping as a table, anything else as text."""
    if not isinstance(value, Mapping):
        return _text(str(value))
    return report.Table(("setting", "value"), list(_flat(value))).html()


def _flat(value: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, own in value.items():
        rows += _flat(own, f"{before}{key}.") if isinstance(own, Mapping) else [(f"{before}{key}", _short(str(own)))]
    return rows


def _short(value: str) -> str:
    return value if len(value) <= _LONGEST else f"{value[:_LONGEST]}… ({len(value):,} characters)"


def _text(value: str) -> str:
    return f"<pre>{escape(value)}</pre>"
