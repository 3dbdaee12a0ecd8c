"""The report of a calibration: what the bench is, what is done about it, and figures that show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from devices import to_text
from studies import report
from studies.plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from calibration.file import Calibration

Floats = NDArray[np.float64]
Row = tuple[str, str, str]

MOST_NAMES = 24
"""Bars and rows of one figure or table; the file has all."""
MOST_CHIPS = 4
"""Chips that are drawn one by one."""
MOST_CHANNELS = 4
"""Channels whose nonlinearity is drawn."""
STENCILS = {"OneSided": "one-sided", "Centred": "centred", "Richardson": "Richardson"}
ORDERS = {"OneSided": 1, "Centred": 2, "Richardson": 4}


def _numbers(value: Any) -> Floats:
    """An array; what is None is NaN."""
    return np.array(value, float)


def _span(values: Any, text: str = ".4g", unit: str = "") -> str:
    """Least to greatest."""
    known = _numbers(values)
    known = known[np.isfinite(known)]
    if not known.size:
        return "unknown"
    low, high = f"{known.min():{text}}", f"{known.max():{text}}"
    return (low if low == high else f"{low} to {high}") + unit


def _seconds(value: float) -> str:
    return to_text(float(f"{value:.3g}"), "s")


def _typical(values: Any) -> str:
    known = _numbers(values)
    known = known[np.isfinite(known)]
    return f"{np.median(known):.2g}" if known.size else "unknown"


# Words --------------------------------------------------------------------------------------------------------------


def summary(found: Calibration) -> list[Row]:
    """What was found, and what is done about it, a row for every stage."""
    own, fixed = found.results, found.corrections
    rows = [_ranges(own["ranges"]), _converters("readout", own["converters"], bool(fixed.readout))]
    if own["drives"]["names"]:
        rows.append(_converters("drives", own["drives"], bool(fixed.drives)))
    rows += [_values(own["values"], bool(fixed.values)), *_turn(own["turn"], found), _nudges(own["nudges"], found)]
    rows += [_loss(own["loss"]), _strength(own["strength"])]
    return rows + ([_drift(own["drift"])] if own.get("drift") else [])


def _ranges(own: Mapping[str, Any]) -> Row:
    if not own["full_scales"]:
        return "ranges", "fixed", "nothing can be done"
    ratios = [own["full_scales"][n] / max(own["peaks"][n], 1e-300) for n in own["full_scales"]]
    return "ranges", f"{len(ratios)} channels can be set", f"set to {_span(ratios, '.2f')} times what they read"


def _converters(what: str, own: Mapping[str, Any], off: bool) -> Row:
    text = f"gain {_span(own['gain'])} (±{_typical(own['gain_deviation'])}), "
    text += f"offset {_span(own['offset'], '.2g')} full scales"
    if "effective_bits" in own:
        text += f", {_span(own['effective_bits'], '.1f')} effective bits"
        text += " at least" if np.any(own.get("hidden", False)) else ""
    done = {"readout": "readings are put right", "drives": "waveforms are told so that they come out right"}[what]
    return what, text, done if off else "nothing is off for sure"


def _values(own: Mapping[str, Any], off: bool) -> Row:
    known = np.array(own["identified"], bool)
    values = _numbers(own["values"])
    text = f"{np.count_nonzero(known)} of {known.size} identified: {_span(100 * (values[known] - 1), '+.2f', ' %')} off"
    text += f" (±{_typical(100 * _numbers(own['deviations'])[known])} %)"
    return "element values", text, "programmed so that they come out, or told to the learner" if off else "as drawn"


def _turn(own: Mapping[str, Any], found: Calibration) -> list[Row]:
    step, fixed = own["step_s"], found.corrections
    late = ", ".join(
        f"{what} {own[f'{what}_s'] / step:.3f}"
        + ("" if own[f"{what}_deviation_s"] is None else f" ± {own[f'{what}_deviation_s'] / step:.1g}")
        for what in ("latency", "skew")
    )
    clock = "nothing is late" if fixed.clock.ideal else "passes go on for a while, inputs are told earlier"
    turned = f"gain {_span(own['gain'])}, angle {_span(1e3 * _numbers(own['angle']), '.3g', ' mrad')}"
    ideal = np.all(_numbers(own["gain"]) == 1) and not np.any(_numbers(own["angle"]))
    done = "turns as it should" if ideal else "trimmed by node" if fixed.turn else "cannot be trimmed on this bench"
    return [("clock, in steps", late, clock), ("turn", turned, done)]


def _nudges(own: Mapping[str, Any], found: Calibration) -> Row:
    if not own["names"]:
        return "nudges", "there is no target", "nothing is done"
    text = f"gain {_span(own['gain'])} (±{_typical(own['gain_deviation'])}), offset {_span(own['offset'], '.2g')}"
    return "nudges", text, "told so that they come out right" if found.corrections.nudges else "nothing is off for sure"


def _loss(own: Mapping[str, Any]) -> Row:
    if not own["missed"]:
        return "loss", "none was seen", "nothing is done"
    text = f"a pass loses {_span(100 * (1 - np.exp(-_numbers(own['lost']))), '.3g', ' %')} of its energy"
    ways = {way: f"{100 * np.sqrt(np.mean(_numbers(v) ** 2)):.2g} %" for way, v in own["missed"].items()}
    missed = ", ".join(f"{size} by {way}" for way, size in ways.items())
    done = "nothing" if own["best"] == "plain echo" else f"made up for by {own['best']}"
    return "loss", f"{text}; echoes miss the way back by {missed}", done


def _strength(own: Mapping[str, Any]) -> Row:
    strength = own["epsilon"] * _numbers(own["gamma"])
    noise, bias = _numbers(own["noise"]), _numbers(own["bias"])
    with np.errstate(divide="ignore"):
        text = f"expected signal to noise {_span(1 / noise, '.3g')}, bias {_span(100 * bias, '.2g', ' %')}"
    return "nudging strength", text, f'γ·ε = {_span(strength, ".3g")} for gamma = "auto"'


def _drift(own: Mapping[str, Any]) -> Row:
    limit, soon = f"{100 * own['tolerance']:.2g} %", own["interval"]
    text = f"scatter up to {100 * np.max(_numbers(own['scatter'])):.2g} %"
    if soon["passes"] is None:
        return "drift", f"no trend, {text}", "nothing is done"
    when = f"{soon['passes']:,.0f} passes ({_seconds(soon['seconds'])})"
    if not soon["seen"] and soon["passes"] < own["passes"][-1] - own["passes"][0]:
        return "drift", f"no trend was seen, {text}", f"too few anchors for a bound of {limit}: repeat more of them"
    if not soon["seen"]:
        return "drift", f"no trend was seen, {text}", f"values stay within {limit} for at least {when}"
    rate = np.max(np.abs(_numbers(own["rates"])))
    return "drift", f"up to {rate:.2g} per pass, {text}", f"calibrate again every {when} to stay within {limit}"


# Figures ------------------------------------------------------------------------------------------------------------


def _axes(count: int = 1, height: float = 3.2) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.0, height), dpi=130, layout="constrained")
    axes = figure.subplots(1, count, squeeze=False)[0]
    for axis in axes:
        axis.grid(alpha=0.25, lw=0.6)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes if count > 1 else axes[0]


def _by_name(axis: Axes, names: Sequence[str], values: Floats, deviations: Floats, numbers: Sequence[int]) -> None:
    """Values with three deviations, by name; a few chips one by one, many as a cloud."""
    names, values, deviations = names[:MOST_NAMES], values[:MOST_NAMES], deviations[:MOST_NAMES]
    places, chips = np.arange(len(names)), values.shape[1]
    if chips <= MOST_CHIPS:
        for i in range(chips):
            shift = 0.16 * (i - (chips - 1) / 2)
            axis.errorbar(
                places + shift, values[:, i], 3 * deviations[:, i], fmt="o", ms=4, lw=1.2, capsize=2,
                color=COLOURS[i], label=f"chip {numbers[i]}",
            )  # fmt: skip
        if chips > 1:
            low, high = axis.get_ylim()
            axis.set_ylim(low, high + 0.15 * (high - low))
            axis.legend(fontsize=8, frameon=False, ncols=chips, loc="upper right")
    else:
        axis.boxplot(values.T, positions=places, widths=0.5, showfliers=False, medianprops={"color": COLOURS[1]})
    axis.axhline(0, color="#5b6570", lw=0.8)
    axis.set_xticks(places, names, rotation=45 if len(names) > 6 else 0, ha="right" if len(names) > 6 else "center")
    axis.tick_params(axis="x", labelsize=8)


def values_figure(found: Calibration) -> Figure:
    """Element values against what is drawn."""
    own = found.results["values"]
    figure, axis = _axes()
    off, deviations = 100 * (_numbers(own["values"]) - 1), 100 * _numbers(own["deviations"])
    _by_name(axis, [_short(n, own["names"]) for n in own["names"]], off, deviations, found.numbers)
    axis.set_ylabel("off by (%)")
    axis.set_title("Element values against the drawing, with three standard deviations", fontsize=10)
    return figure


def _short(name: str, names: Sequence[str]) -> str:
    """An element without its parameter, where that says it all."""
    element = name.rsplit(".", 1)[0]
    return element if sum(n.rsplit(".", 1)[0] == element for n in names) == 1 else name


def converters_figure(found: Calibration) -> Figure:
    """Integral nonlinearity by level, and gains."""
    own = found.results["converters"]
    figure, (left, right) = _axes(2)
    bent = 100 * _numbers(own["nonlinearity"])[:, :, 0]
    levels = np.linspace(-0.9, 0.9, len(bent))
    for i, name in enumerate(own["names"][:MOST_CHANNELS]):
        if np.any(np.isfinite(bent[:, i])):
            left.plot(levels, bent[:, i], color=COLOURS[i], lw=1.3, marker="o", ms=2.5, label=name)
    left.set_xticks([-0.8, -0.4, 0, 0.4, 0.8])
    left.set_xlabel("level (full scales)")
    left.set_ylabel("deviation (% of full scale)")
    left.set_title(f"Integral nonlinearity, chip {found.numbers[0]}", fontsize=10)
    low, high = left.get_ylim()
    left.set_ylim(low, high + 0.35 * (high - low))  # room for the legend
    left.legend(fontsize=7, frameon=False, ncols=2, loc="upper center")
    off, deviations = 100 * (_numbers(own["gain"]) - 1), 100 * _numbers(own["gain_deviation"])
    _by_name(right, own["names"], off, deviations, found.numbers)
    right.tick_params(axis="x", rotation=60, labelsize=7)
    right.set_ylabel("gain off by (%)")
    right.set_title("Readout gains", fontsize=10)
    return figure


def echoes_figure(found: Calibration) -> Figure:
    """Return error against echo time, and where it comes from."""
    own = found.results["echoes"]
    figure, axis = _axes(height=3.6)
    times = _numbers(own["times_s"])
    scale = float(10 ** (3 * np.floor(np.log10(times.max()) / 3)))
    unit = to_text(scale, "s").split(" ")[-1]
    for key, colour, label in (("measured", "#1b1f24", "measured"), ("trimmed", COLOURS[2], "measured, trimmed")):
        if own.get(key):
            axis.loglog(times / scale, _middle(own[key]), "o-", color=colour, lw=1.8, ms=4, label=label)
    for i, (name, value) in enumerate(own["contributions"].items()):
        line = _middle(value)
        if np.any(line > 0):
            axis.loglog(times / scale, line, "--", color=COLOURS[(i + 3) % len(COLOURS)], lw=1.2, label=name)
    top = axis.get_ylim()[1]
    axis.set_ylim(max(axis.get_ylim()[0], 1e-5 * top), top)  # what is less by that much does not matter
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xticks(times / scale)
    axis.minorticks_off()
    axis.set_xlabel(f"echo time ({unit})")
    axis.set_ylabel("return error (relative)")
    axis.set_title("How far echoes without nudges miss their start, and why", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    return figure


def _middle(values: Any) -> Floats:
    """Root mean square over chips, by length; what is nothing is left out of a logarithmic axis."""
    found = np.sqrt(np.nanmean(_numbers(values) ** 2, axis=-1))
    return np.where(found > 0, found, np.nan)


def strength_figure(found: Calibration) -> Figure:
    """Expected error of the gradient against nudging strength, by stencil."""
    own = found.results["strength"]
    figure, axis = _axes()
    for i, (name, e) in enumerate(own["by_stencil"].items()):
        best, noise, bias = (_numbers(e[k])[0] for k in ("strengths", "noise", "bias"))
        if not np.isfinite([best, noise, bias]).all() or best <= 0:
            continue
        s = best * np.logspace(-1.5, 1.5, 61)
        error = np.hypot(noise * best / s, bias * (s / best) ** ORDERS[name])
        axis.loglog(s, error, color=COLOURS[i], lw=1.4, label=STENCILS[name])
        axis.loglog(best, np.hypot(noise, bias), "o", color=COLOURS[i], ms=6)
    chosen = own["epsilon"] * _numbers(own["gamma"])[0]
    if np.isfinite(chosen):
        axis.axvline(chosen, color="#5b6570", lw=1, ls=":", label="chosen")
    axis.set_xlabel("nudging strength γ·ε")
    axis.set_ylabel("expected error of the gradient")
    axis.set_title(f"What pilots expect, chip {found.numbers[0]}", fontsize=10)
    axis.legend(fontsize=8, frameon=False)
    return figure


def drift_figure(found: Calibration) -> Figure:
    """Values over time."""
    own = found.results["drift"]
    names = own["names"]
    figure, axis = _axes()
    tracks = 100 * _numbers(own["track"])[:, :, 0]
    tracks = tracks - tracks[0]
    order = np.argsort(-np.nanmax(np.abs(tracks), axis=0))[: len(COLOURS)]
    for colour, i in zip(COLOURS, order, strict=False):
        axis.plot(own["passes"], tracks[:, i], "o-", ms=3, lw=1.2, color=colour, label=_short(names[i], names))
    axis.set_xlabel("passes")
    axis.set_ylabel("moved by (%)")
    axis.set_title(f"Anchors, chip {found.numbers[0]}: the values that moved most", fontsize=10)
    axis.legend(fontsize=8, frameon=False, ncols=2)
    return figure


# The page -----------------------------------------------------------------------------------------------------------


def write(found: Calibration, path: Path) -> Path:
    """Write the report as one HTML page."""
    chips = f"{len(found.numbers)} chip{'s' * (len(found.numbers) > 1)}"
    rows = summary(found)
    warnings = [
        report.Section(
            "To be mended",
            [report.Table(("what", "why", "what to do"), [(f.subject, f.problem, f.remedy) for f in found.findings])],
        )
    ]
    sections = [
        report.Section(
            "",
            [
                report.Numbers(
                    [
                        (f"{found.passes:,}", "passes on every chip"),
                        (_seconds(found.seconds), "of device time"),
                        (_typical(100 * _numbers(found.results["values"]["deviations"])) + " %", "typical uncertainty"),
                        (str(len(found.findings)), "things to be mended"),
                    ]
                ),
                report.Table(("what", "found", "what is done about it"), rows),
            ],
        ),
        *(warnings if found.findings else []),
        report.Section("Element values", [_picture(values_figure(found), "Error bars are three standard deviations.")]),
        report.Section(
            "Converters",
            [_picture(converters_figure(found), "From levels that go through a sine; the curves are what is undone.")],
        ),
        report.Section(
            "Echoes",
            [_picture(echoes_figure(found), "Dashed: what the model says each error alone would come to.")],
        ),
        report.Section(
            "Nudging strength",
            [
                _picture(
                    strength_figure(found), "Noise falls with the strength, bias grows: dots are where both are least."
                ),
                report.Table(("stencil", "γ·ε", "signal to noise", "bias"), _stencils(found), numeric=(1, 2, 3)),
            ],
        ),
    ]
    if found.results.get("drift"):
        sections.append(
            report.Section("Drift", [_picture(drift_figure(found), "Each point is one set of anchor passes.")])
        )
    shots = _purposes(found)
    sections.append(
        report.Section("Passes", [report.Table(("purpose", "steps", "shots", "passes"), shots, numeric=(1, 2, 3))])
    )
    footer = f"rhel-hw {found.versions['rhel-hw']}; the numbers are in the calibration file beside this page."
    return report.write(path, f"Calibration of {found.design}", f"{chips}; what the bench really is", sections, footer)


def _picture(figure: Figure, caption: str) -> report.Picture:
    return report.Picture(figure, caption)


def _purposes(found: Calibration) -> list[tuple[str, str, str, str]]:
    """Passes by purpose, in the order in which they were first made."""
    rows: dict[tuple[str, int], list[int]] = {}
    for shot in found.shots:
        own = rows.setdefault((shot["purpose"], shot["steps"]), [0, 0])
        own[0], own[1] = own[0] + shot["shots"], own[1] + shot["passes"]
    return [(purpose, str(steps), str(count), str(passes)) for (purpose, steps), (count, passes) in rows.items()]


def _stencils(found: Calibration) -> list[tuple[str, str, str, str]]:
    rows = []
    for name, e in found.results["strength"]["by_stencil"].items():
        with np.errstate(divide="ignore"):
            snr = _span(1 / _numbers(e["noise"]), ".3g")
        rows.append((STENCILS[name], _span(e["strengths"], ".3g"), snr, _span(100 * _numbers(e["bias"]), ".2g", " %")))
    return rows
