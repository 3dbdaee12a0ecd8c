"""Figures and files of the studies of six-block models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rhel_hw.files import folder, write_atomically
from rhel_hw.recipes import UNITS
from studies.plots import canvas
from studies.stacks import BLOCKS, EPSILON, INPUTS_OF, GammaResult, Likeness, StaticResult, save_arrays

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NAMES = {"stiffness": "A", "delta": "δ", "B": "B", "all": "all"}
"""Letters of the paper, linear units."""
NONLINEAR_NAMES = {"gain": "A", "stiffness": "α", "delta": "δ", "B": "B", "b": "b", "all": "all"}
FLOOR = 1e-17
"""Smallest deviation that is drawn."""


def static_figure(result: StaticResult) -> Figure:
    """1 − cosine and norm ratio of every parameter in every block, by units."""
    drawing, axes = canvas(2, 2, (8.6, 5.4), sharey="row")
    colours = _colours(BLOCKS)
    for column, units in enumerate(UNITS):
        names = NAMES if units == "linear" else NONLINEAR_NAMES
        for precision, face in (("float32", True), ("float64", False)):
            found = result.likeness[units, precision]
            for place, parameter in enumerate(names):
                near = found[parameter]
                for block in range(BLOCKS):
                    x = place + (block - (BLOCKS - 1) / 2) * 0.11
                    style = {"color": colours[block], "mfc": colours[block] if face else "white", "ms": 4.5}
                    axes[0, column].semilogy(x, max(near.deviation[block], FLOOR), "o", **style)
                    axes[1, column].semilogy(x, max(abs(near.ratio[block] - 1), FLOOR), "o", **style)
        for row in (0, 1):
            axes[row, column].set_xticks(range(len(names)), names.values())
        axes[0, column].set_title(f"{units} units", fontsize=10)
        axes[0, column].axhline(1e-4, color="0.5", lw=0.8, ls="--")
        axes[1, column].axhline(1e-2, color="0.5", lw=0.8, ls="--")
    axes[0, 0].set_ylabel("1 − cosine")
    axes[1, 0].set_ylabel("|norm ratio − 1|")
    axes[1, 0].set_xlabel("parameter of the recurrence")
    axes[1, 1].set_xlabel("parameter of the recurrence")
    handles = [axes[0, 1].plot([], [], "o", color=c, ms=4.5)[0] for c in colours]
    labels = [f"block {i + 1}" for i in range(BLOCKS)]
    handles += [axes[0, 1].plot([], [], "o", color="0.3", mfc=f, ms=4.5)[0] for f in ("0.3", "white")]
    drawing.legend(
        handles, [*labels, "single precision", "double precision"], loc="outside right upper", frameon=False, fontsize=8
    )
    drawing.suptitle("Gradients by echoes against backpropagation in double precision", fontsize=11)
    return drawing


def gamma_figure(result: GammaResult, units: str) -> Figure:
    """Parameters by block (A) and inputs of the third block over time (B), for every γ, as the paper has them."""
    drawing, axes = canvas(2, 4, (12.2, 5.6), sharey="row", width_ratios=(1, 0.8, 1.6, 0.8))
    colours = _colours(len(result.gammas))
    parameters, inputs = result.parameters[units], result.inputs[units]
    steps = np.arange(1, inputs.deviation.shape[1] + 1)
    for i, colour in enumerate(colours):
        label = f"$10^{{{np.log10(result.gammas[i]):.0f}}}$"
        _pair(axes[:, 0], np.arange(1, BLOCKS + 1), parameters, i, colour, marker="o", ms=3.5, label=label)
        _pair(axes[:, 2], steps, inputs, i, colour, lw=0.7)
        for column, near in ((1, parameters), (3, inputs)):
            axes[0, column].plot(result.gammas[i], _mean(near.deviation[i]), "s", color=colour, ms=6)
            axes[1, column].plot(result.gammas[i], _mean(near.ratio[i]), "s", color=colour, ms=6)
    tuned, near = result.automatic[units]
    axes[0, 0].semilogy(np.arange(1, BLOCKS + 1), near.deviation, "k--", lw=1.2, label="auto")
    axes[1, 0].semilogy(np.arange(1, BLOCKS + 1), near.ratio, "k--", lw=1.2)
    for column in (1, 3):
        axes[0, column].set_xscale("log")
        axes[1, column].set_xscale("log")
        axes[1, column].set_xlabel("γ")
    for row, words in ((0, "1 − cosine"), (1, "norm ratio")):
        axes[row, 0].set_yscale("log")
        axes[row, 0].set_ylabel(words)
    axes[1, 0].set_xlabel("block")
    axes[1, 2].set_xlabel(f"time step of the inputs of block {INPUTS_OF + 1}")
    for column, words in ((0, "A  parameters"), (1, "mean over blocks"), (2, "B  inputs"), (3, "mean over time")):
        axes[0, column].set_title(words, loc="left", fontsize=10)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    drawing.legend(handles, labels, title="γ", loc="outside right upper", frameon=False, fontsize=8)
    choices = ", ".join(f"{s / EPSILON:.2g}" for s in tuned.strengths)
    drawing.suptitle(
        f"{units} units, single precision, ε = {EPSILON:g}: what γ does (auto, by block: {choices})", fontsize=11
    )
    return drawing


def _pair(axes: Any, x: Any, near: Likeness, i: int, colour: Any, **style: Any) -> None:
    axes[0].plot(x, near.deviation[i], color=colour, **style)
    axes[1].plot(x, near.ratio[i], color=colour, **style)


def _mean(values: Any) -> float:
    return float(np.mean(values[np.isfinite(values)])) if np.any(np.isfinite(values)) else float("nan")


def _colours(count: int) -> Any:
    """From purple to yellow-green, as the paper has layers; told apart by colour-blind readers and in grey."""
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0, 0.9, count))


def save_static(result: StaticResult, out: Path) -> list[Path]:
    """Write ``static-gradients.npz`` and ``static-gradients.png``."""
    arrays: dict[str, Any] = {}
    for (units, precision), found in result.likeness.items():
        for name, near in found.items():
            arrays[f"{units}_{precision}_{name}_deviation"] = near.deviation
            arrays[f"{units}_{precision}_{name}_ratio"] = near.ratio
        arrays[f"{units}_{precision}_strengths"] = result.tuned[units, precision].strengths
    return [save_arrays(out, "static-gradients.npz", arrays), _png(static_figure(result), out, "static-gradients.png")]


def save_gamma(result: GammaResult, out: Path) -> list[Path]:
    """Write ``gamma.npz``, ``gamma-linear.png`` and ``gamma-nonlinear.png``."""
    arrays: dict[str, Any] = {"gammas": result.gammas}
    for units in UNITS:
        for what, near in (("parameters", result.parameters[units]), ("inputs", result.inputs[units])):
            arrays |= {f"{units}_{what}_deviation": near.deviation, f"{units}_{what}_ratio": near.ratio}
        tuned, near = result.automatic[units]
        arrays |= {f"{units}_auto_strengths": tuned.strengths, f"{units}_auto_deviation": near.deviation}
    figures = [_png(gamma_figure(result, units), out, f"gamma-{units}.png") for units in UNITS]
    return [save_arrays(out, "gamma.npz", arrays), *figures]


def _png(figure: Figure, out: Path, name: str) -> Path:
    return write_atomically(folder(out) / name, lambda stream: figure.savefig(stream, format="png"))


def table_figure(document: dict[str, Any]) -> Figure:
    """Every pair of runs, row by row, with the baselines of its data."""
    rows = document["rows"]
    drawing, axes = canvas(1, 1, (8.4, 1.4 + 0.5 * len(rows)))
    axis: Axes = axes[0, 0]
    names = list(dict.fromkeys(n for r in rows for n in r["baselines"]))
    markers = dict(zip(names, ("|", "x", "+", "1"), strict=False))
    for place, row in enumerate(reversed(rows)):
        for a, b in zip(row["values"]["bptt"], row["values"]["rhel"], strict=True):
            axis.plot([a, b], [place + 0.13, place - 0.13], color="0.7", lw=0.8, zorder=1)
        axis.plot(row["values"]["bptt"], [place + 0.13] * len(row["seeds"]), "o", color="0.35", ms=4.5, zorder=2)
        axis.plot(row["values"]["rhel"], [place - 0.13] * len(row["seeds"]), "o", color="#0072B2", ms=4.5, zorder=2)
        for name, (mean, _) in row["baselines"].items():
            axis.plot(mean, place, markers[name], color="#D55E00", ms=9, mew=1.6, zorder=3)
    axis.set_yticks(range(len(rows)), [f"{r['data']}, {r['split']}, {r['units']}" for r in reversed(rows)])
    axis.plot([], [], "o", color="0.35", ms=4.5, label="BPTT")
    axis.plot([], [], "o", color="#0072B2", ms=4.5, label="RHEL, paired by seed")
    for name in names:
        axis.plot([], [], markers[name], color="#D55E00", ms=9, mew=1.6, label=name)
    axis.set_xlabel(f"{rows[0]['metric']} on the test part")
    axis.legend(
        loc="upper center", bbox_to_anchor=(0.35, -0.75 / (0.6 + 0.5 * len(rows))), ncol=3, frameon=False, fontsize=8
    )
    return drawing


def save_table(document: dict[str, Any], out: Path, name: str) -> Path:
    """Write ``NAME.png``."""
    return _png(table_figure(document), out, f"{name}.png")
