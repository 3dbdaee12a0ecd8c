"""Which Q and which coupling a lattice of silicon-nitride rings needs.

Light must cross the lattice before it is lost: the stronger the coupling, the shorter the pass, and the faster the
converters that have to follow. Nine rings with detunings as in the gallery, couplings about a quarter to twice a
gigahertz; loss as it is, or made up for by a learner that knows its rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from circuits import Netlist
from circuits.netlist import Clock
from devices import EvanescentCoupler, Ring
from devices.catalogue import CATALOGUE
from rhel_hw.dissipation import energy_rates
from studies.cases.case import Case, Found, Report, Size
from studies.imperfections import energy_rate
from studies.plots import COLOURS, canvas
from studies.sweeps import Sweep, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD = 0.99
SCALES = (0.25, 0.5, 1.0, 2.0)
"""Of the gallery's couplings, which are about 1 GHz."""
BENCH: dict[str, dict[str, Any]] = {"readout": {"bits": 8, "noise": 1e-3}, "drive": {"bits": 10}, "nudge": {"bits": 10}}
GUIDES = {"silicon-nitride-ring": "Si₃N₄", "silicon-ring": "Si"}
"""Presets whose loaded Q is drawn, and their names."""
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """One coupling: cosines over Q, as it is and made up for."""

    scale: float
    rate: float
    """Samples per second."""
    qualities: Sequence[float]
    plain: Floats
    made_up: Floats

    def least(self, cosines: Floats) -> float:
        """The smallest Q from which on all gradients are good."""
        good = np.logical_and.accumulate(cosines[::-1] >= GOOD)[::-1]
        return float(np.asarray(self.qualities)[good].min()) if good.any() else float("inf")


def scaled(netlist: Netlist, scale: float) -> Netlist:
    """The lattice with all couplings by a factor."""
    elements = [replace(e, rate=e.rate * scale) if isinstance(e, EvanescentCoupler) else e for e in netlist.elements]
    return netlist.replace(elements=tuple(elements))


def lossless(size: Size) -> Netlist:
    """The lattice of the gallery on a bench with fast converters."""
    learning = {"epsilon": 0.01, "gamma": "auto"}
    settings = {"task": {"spread": 0.1}, "learning": learning, "profile": BENCH}
    return Netlist.load("ring-lattice").replace(clock=Clock(None, size.steps), settings=settings)


def netlist(size: Size) -> Netlist:
    """The lattice of silicon-nitride rings, with a learner that makes up for their loss."""
    plain, quality = lossless(size), loaded("silicon-nitride-ring")  # what goes out by taps counts as loss
    lossy = tuple(replace(e, intrinsic_q=quality) if isinstance(e, Ring) else e for e in plain.elements)
    found = plain.replace(name="silicon-nitride ring lattice", elements=lossy)
    design = found.compile()
    decay = float(np.mean(energy_rates(design.hamiltonian))) / design.assembly.units.time
    return found.replace(settings={**plain.settings, "learning": {**plain.settings["learning"], "decay": decay}})


def loaded(preset: str) -> float:
    """Quality of a preset with its coupling to the outside."""
    own = CATALOGUE[preset].values
    return 1 / (1 / float(own["intrinsic_q"]) + 1 / float(own["external_q"]))


def look(_: Netlist, size: Size, out: Path, report: Report) -> Found:
    """Cosines to the lossy lattice's own gradient over Q, for every coupling."""
    lines = [_line(lossless(size), scale, size, out, report) for scale in SCALES]
    return Found(_says(lines), _figure(lines), _data(lines))


def _line(plain: Netlist, scale: float, size: Size, out: Path, report: Report) -> Line:
    own = scaled(plain, scale)
    design = own.compile()
    qualities = [float(f"{q:.3g}") for q in np.geomspace(1e5, 1e8, 2 * size.fine - 1)]
    seeds = range(max(3, size.seeds))
    points = [(q, made_up, seed) for made_up in (False, True) for q in qualities for seed in seeds]
    sweep = Sweep(
        {
            "dynamics.quality": [q for q, _, _ in points],
            "learning.decay": [energy_rate(design, q) if made_up else 0.0 for q, made_up, _ in points],
            "seed": [seed for _, _, seed in points],
        },
        mode="zip", reference="chip",
    )  # fmt: skip
    found, _ = run(
        own, sweep, out / f"coupling-{scale:g}.zarr", report=lambda d, n: report(d, n, f"couplings × {scale:g}")
    )
    cosines = np.nan_to_num(np.asarray(found["cosine"]).reshape(2, len(qualities), len(seeds)), nan=-1.0).min(-1)
    return Line(scale, 1 / design.step_s, qualities, cosines[0], cosines[1])


def _says(lines: Sequence[Line]) -> str:
    parts = []
    for line in lines:
        plain, made_up = (_quality(line.least(x), line) for x in (line.plain, line.made_up))
        parts.append(f"{line.scale:g} GHz: Q of {plain} as it is, {made_up} made up for, {line.rate / 1e9:.0f} GS/s")
    return f"a cosine of {GOOD} at every seed needs, with couplings of about {'; '.join(parts)}"


def _quality(value: float, line: Line) -> str:
    if not np.isfinite(value):
        return f"more than {max(line.qualities):.2g}"
    return f"{value:.2g}" + (" or less" if value == min(line.qualities) else "")


def _figure(lines: Sequence[Line]) -> Figure:
    figure, axes = canvas(1, 1, (7.6, 4.4))
    axis = axes[0, 0]
    for line, colour in zip(lines, COLOURS, strict=False):
        label = f"{line.scale:g} GHz, read at {line.rate / 1e9:.0f} GS/s"
        for cosines, style, words in ((line.made_up, "o-", label), (line.plain, "o:", None)):
            axis.loglog(line.qualities, np.clip(1 - cosines, 1e-6, 2), style, ms=3, lw=1.5, color=colour, label=words)
    axis.plot([], [], "k-", label="loss made up for")
    axis.plot([], [], "k:", label="as it is")
    axis.axhline(1 - GOOD, color="0.3", lw=1, ls="--")
    axis.text(1.0, 1 - GOOD, "cosine 0.99 ", transform=axis.get_yaxis_transform(), ha="right", va="bottom", fontsize=8)
    for preset, name in GUIDES.items():
        axis.axvline(loaded(preset), color="0.6", lw=5, alpha=0.35, zorder=0)
        axis.text(loaded(preset), 2.3, name, ha="center", va="bottom", fontsize=9, color="0.3")
    axis.set(xlabel="quality factor of the rings, loaded", ylabel="1 − cosine, worst seed", ylim=(1e-6, 2))
    axis.legend(frameon=False, fontsize=8, loc="lower left", title="couplings of about", title_fontsize=8)
    figure.suptitle("Silicon-nitride ring lattice: which Q, which coupling", fontsize=11)
    return figure


def _data(lines: Sequence[Line]) -> dict[str, Any]:
    return {
        "couplings": [
            {
                "scale": line.scale, "samples_per_second": line.rate, "quality": list(line.qualities),
                "cosine": line.plain.tolist(), "cosine_made_up": line.made_up.tolist(),
            }
            for line in lines
        ]
    }  # fmt: skip


CASE = Case(
    "which Q and coupling does a lattice of silicon-nitride rings need?",
    netlist,
    look,
    lambda _: {
        "readout.bits": {"whole": [2, 16]}, "drive.bits": {"whole": [2, 16]}, "nudge.bits": {"whole": [2, 16]},
        "readout.noise": {"log": [1e-6, 0.1]}, "echo.noise": {"log": [1e-6, 1.0]},
        "dynamics.drift": {"log": [1e-9, 1e-3]},
    },
    sweep={"reference": "chip"},
    formats=("sax", "touchstone", "gds", "schematic"),
)  # fmt: skip
