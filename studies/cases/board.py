"""Which converters does a board-level LC ring at 1 MHz need, and how strongly must its echoes be nudged.

Six tanks of E24 parts, joined by inductors that can be set, and trained; tolerances and quality are left to the
contract. Readout, drives and nudges have converters of their own; all read and play once a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from circuits import Netlist
from circuits.netlist import Clock
from devices import CurrentDrive, Inductor, Tank
from studies.cases.case import Case, Found, Report, Size
from studies.plots import COLOURS, canvas
from studies.sweeps import Sweep, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD = 0.99
GAMMA = "learning.gamma"
CONVERTERS = {"readout": "readout (ADC)", "drive": "drives (DAC)", "nudge": "nudges (DAC)"}
FINE = 12
"""Bits of the converters that are not looked at."""
NOISE = 3e-4
"""Of readout, of full scale; a twelfth of a step of eight bits."""
COILS = ("22 uH", "27 uH", "24 uH", "20 uH", "30 uH", "22 uH")
COUPLINGS = ("47 uH", "68 uH", "56 uH", "82 uH", "51 uH", "75 uH")


def netlist(size: Size) -> Netlist:
    """The ring with the converters of a good bench."""
    nodes = [f"n{i}" for i in range(1, len(COILS) + 1)]
    tanks = [Tank(f"T{i}", n, "gnd", "1 nF", c) for i, (n, c) in enumerate(zip(nodes, COILS, strict=True), 1)]
    joined = zip(nodes, [*nodes[1:], nodes[0]], COUPLINGS, strict=True)
    couplings = [
        Inductor(f"L{a[1]}{b[1]}", a, b, value, trainable=True, bounds=("10 uH", "330 uH")) for a, b, value in joined
    ]
    bits = {kind: {"bits": FINE} for kind in CONVERTERS}
    return Netlist(
        "LC ring at 1 MHz", (*tanks, *couplings), drives=(CurrentDrive("u0", "n1"),), targets=("n3", "n4"),
        clock=Clock(None, size.steps),
        settings={
            "task": {"batch": 2}, "learning": {"gamma": "auto"},
            "profile": {**bits, "readout": {"bits": FINE, "noise": NOISE}},
        },
    )  # fmt: skip


def look(netlist: Netlist, size: Size, out: Path, report: Report) -> Found:
    """Readout bits over γ; then every converter by itself, with γ by pilots."""
    seeds = list(range(max(3, size.seeds)))
    grid = Sweep({
        "readout.bits": list(range(4, 13, 2)), GAMMA: {"log": [1.0, 1e7, 2 * size.fine - 1]}, "seed": seeds,
    })  # fmt: skip
    by_strength, _ = run(netlist, grid, out / "strength.zarr", report=lambda d, n: report(d, n, "bits and γ"))
    bits = list(range(2, FINE + 1))
    alone = {}
    for kind in CONVERTERS:
        sweep = Sweep({f"{kind}.bits": bits, "seed": seeds})
        found, _ = run(netlist, sweep, out / f"{kind}.zarr", report=lambda d, n: report(d, n, "converters"))
        alone[kind] = np.asarray(found["cosine"].min("seed").squeeze(drop=True))
    answer = _says(netlist, by_strength, bits, alone)
    return Found(answer, _figure(by_strength, bits, alone), _data(by_strength, bits, alone))


def _says(netlist: Netlist, grid: xr.Dataset, bits: list[int], alone: Mapping[str, Any]) -> str:
    design = netlist.compile()
    needs = [f"{_fewest(bits, alone[kind])} bits for {words}" for kind, words in CONVERTERS.items()]
    cosine = grid["cosine"].min("seed").sel({"profile.readout.bits": 8})
    good = cosine[GAMMA].values[np.asarray(cosine) >= GOOD]
    span = f"γ from {good.min():.2g} to {good.max():.2g}" if len(good) else "no γ"
    return (
        f"a cosine of {GOOD} at every seed needs {', '.join(needs)}, each alone, at {1 / design.step_s / 1e6:.0f} "
        f"million samples a second; with 8-bit readout it allows {span} at ε = 0.001"
    )


def _fewest(bits: list[int], cosines: Any) -> str:
    """The fewest bits from which on all do."""
    good = [b for i, b in enumerate(bits) if np.all(cosines[i:] >= GOOD)]
    return str(good[0]) if good else f"more than {bits[-1]}"


def _figure(grid: xr.Dataset, bits: list[int], alone: Mapping[str, Any]) -> Figure:
    figure, axes = canvas(1, 2, (9.6, 3.9))
    left, right = axes[0]
    for b, colour in zip(grid["profile.readout.bits"].values, COLOURS, strict=False):
        off = 1 - grid["cosine"].sel({"profile.readout.bits": b}).min("seed")
        left.loglog(grid[GAMMA].values, np.maximum(off, 1e-8), "o-", ms=3, lw=1.3, color=colour, label=f"{b} bits")
    left.set(xlabel="loss scale γ, at ε = 0.001", ylabel="1 − cosine, worst seed", ylim=(1e-8, 3))
    left.legend(frameon=False, fontsize=8, title="readout", title_fontsize=8, loc="lower left")
    for (kind, words), colour in zip(CONVERTERS.items(), COLOURS, strict=False):
        right.semilogy(bits, np.maximum(1 - alone[kind], 1e-8), "o-", ms=4, lw=1.5, color=colour, label=words)
    right.set(xlabel=f"bits, the others {FINE}; γ by pilots", ylim=(1e-8, 3))
    right.legend(frameon=False, fontsize=8, loc="lower left")
    for axis in (left, right):
        axis.axhline(1 - GOOD, color="0.3", lw=1, ls="--")
    left.text(0.98, 1 - GOOD, "cosine 0.99 ", transform=left.get_yaxis_transform(), ha="right", va="bottom", fontsize=8)
    figure.suptitle("LC ring at 1 MHz: which converters, and how strongly to nudge", fontsize=11)
    return figure


def _data(grid: xr.Dataset, bits: list[int], alone: Mapping[str, Any]) -> dict[str, Any]:
    cosine = grid["cosine"].min("seed").transpose("profile.readout.bits", GAMMA)
    return {
        "gamma": grid[GAMMA].values.tolist(), "readout_bits": grid["profile.readout.bits"].values.tolist(),
        "least_cosine": np.asarray(cosine.squeeze(drop=True)).tolist(),
        "bits": bits, "least_cosine_alone": {kind: np.asarray(x).tolist() for kind, x in alone.items()},
    }  # fmt: skip


CASE = Case(
    "which converters and γ does a board-level LC ring at 1 MHz need?",
    netlist,
    look,
    lambda _: {
        "readout.bits": {"whole": [2, 16]}, "drive.bits": {"whole": [2, 16]}, "nudge.bits": {"whole": [2, 16]},
        "readout.noise": {"log": [1e-6, 0.1]}, "dynamics.quality": {"log": [10.0, 1e6]},
        "fabrication.mismatch": {"log": [1e-5, 0.2]},
    },
    formats=("spice", "kicad", "bom", "schematic", "vectors"),
)  # fmt: skip
