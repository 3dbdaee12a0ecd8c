"""Figures of the concepts page and the tutorial, from their own programs and commands, and the picture of the flow.

`python -m docs.generate.figures` writes them into `docs/figures`.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from docs.generate import flow
from studies.plots import COLOURS, canvas

DOCS = Path(__file__).parents[1]
FREE, ECHO, PLUS, MINUS, WANTED = COLOURS[0], "#555555", COLOURS[1], COLOURS[2], "#b0b0b0"


def computed() -> dict[str, Any]:
    """The names that the programs of the concepts page leave."""
    names: dict[str, Any] = {}
    for program in re.findall(r"```python\n(.*?)```", (DOCS / "concepts.md").read_text(encoding="utf-8"), re.DOTALL):
        exec(program, names)
    return names


def echo(names: dict[str, Any]) -> Figure:
    """A pass, the turn, and the way back."""
    figure, axes = canvas(1, 1, (7.2, 2.6))
    axis = axes[0, 0]
    there, back = _times(names)
    axis.plot(there, names["free"] * 1e9, color=FREE, lw=1.5)
    axis.plot(back, names["echo"] * 1e9, color=ECHO, lw=1.5)
    _turn(axis, there[-1])
    _say(axis, "free pass", (0.02, 0.93), FREE)
    _say(axis, "its echo: the same, backwards", (0.55, 0.93), ECHO)
    axis.set(xlabel="time (µs)", ylabel="flux of tank b (nWb)", ylim=(-180, 250))
    return figure


def gradient(names: dict[str, Any]) -> Figure:
    """Echoes that part, and what adds up along them."""
    figure, axes = canvas(2, 1, (7.2, 4.6), sharex=True)
    there, back = _times(names)
    upper, lower = axes[:, 0]
    upper.plot(there, names["wanted"] * 1e9, color=WANTED, lw=3)
    upper.plot(there, names["free"] * 1e9, color=FREE, lw=1.5)
    upper.plot(back, names["echo"] * 1e9, color=ECHO, lw=1, ls=":")
    upper.plot(back, names["plus"] * 1e9, color=PLUS, lw=1.3)
    upper.plot(back, names["minus"] * 1e9, color=MINUS, lw=1.3)
    for axis in axes[:, 0]:
        _turn(axis, there[-1])
    for text, place, colour in (
        ("free pass", (0.02, 0.93), FREE), ("wanted", (0.16, 0.93), "#777777"),
        ("echo, nudged by +ε", (0.55, 0.93), PLUS), ("and by −ε", (0.82, 0.93), MINUS),
    ):  # fmt: skip
        _say(upper, text, place, colour)
    upper.set(ylabel="flux of tank b (nWb)", ylim=(-290, 400))
    lower.axhline(names["exact"] * 1e9, color="#b0b0b0", lw=3)
    lower.plot(back, names["gradient"] * 1e9, color=COLOURS[3], lw=1.6)
    _say(lower, "by changing the inductor a little", (0.02, 0.78), "#777777")
    _say(lower, "from the two echoes, so far", (0.55, 0.62), COLOURS[3])
    lower.set(xlabel="time (µs)", ylabel="dL/dL₁₂ (nWb²/H)", ylim=(None, 6.6))
    return figure


def valley(names: dict[str, Any]) -> Figure:
    """Error over the nudging strength."""
    figure, axes = canvas(1, 1, (7.2, 3.2))
    axis = axes[0, 0]
    first, last, count = names["axes"]["learning.gamma"]["log"]
    strengths = np.geomspace(first, last, count)
    for bits, errors, colour in zip(names["axes"]["readout.bits"], names["errors"], COLOURS, strict=False):
        axis.loglog(strengths, errors, color=colour, lw=1.6, label=f"{bits} bits")
        best = int(np.argmin(errors))
        axis.plot(strengths[best], errors[best], "o", color=colour, ms=5)
    _say(axis, "too weak: converters round it away", (0.03, 0.1), "#555555")
    _say(axis, "too strong: echoes bend", (0.68, 0.1), "#555555")
    axis.set(xlabel="γ, at ε = 0.001", ylabel="relative error of the gradient", ylim=(None, 10))
    axis.legend(frameon=False, fontsize=9, title="readout", title_fontsize=9)
    return figure


def tutorial() -> None:
    """What the commands of the tutorial write: training, and the valley of its sweep."""
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    design = re.findall(r"```toml.*?\n(.*?)```", page, re.DOTALL)[-1]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "ring.toml").write_text(design, encoding="utf-8")
        for line in re.findall(r"^rhel-hw (?:train|sweep) .*$", page, re.MULTILINE):
            subprocess.run([sys.executable, "-m", "rhel_hw.cli", *line.split()[1:]], cwd=folder, check=True)
        shutil.copy(f"{folder}/ring-training.png", DOCS / "figures/tutorial-training.png")
        shutil.copy(f"{folder}/sweep/ring-u-curve.png", DOCS / "figures/tutorial-valley.png")


def _times(names: dict[str, Any]) -> tuple[Any, Any]:
    """Ends of steps in µs, of the pass and of the echo after it."""
    there = names["design"].step_s * np.arange(1, names["steps"] + 1) * 1e6
    return there, there + there[-1]


def _turn(axis: Axes, time: float) -> None:
    axis.axvline(time, color="#222222", lw=1, ls="--")
    axis.margins(x=0.01)


def _say(axis: Axes, text: str, place: tuple[float, float], colour: str) -> None:
    axis.text(*place, text, transform=axis.transAxes, color=colour, fontsize=9, va="top",
              bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 1})  # fmt: skip


def _svg(figure: Figure) -> str:
    """Without date and maker, so that the same figure is the same file."""
    stream = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "rhel-hw"}):
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def main() -> None:
    """Write all of them."""
    names = computed()
    for what in (echo, gradient, valley):
        (DOCS / "figures" / f"concept-{what.__name__}.svg").write_text(_svg(what(names)), encoding="utf-8")
    (DOCS / "figures/flow.svg").write_text(flow.draw(names), encoding="utf-8")
    tutorial()


if __name__ == "__main__":
    main()
