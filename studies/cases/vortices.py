"""Whether the damping of a metal is curable by calibration, in vortices whose echo is a switch of polarities.

Vortex cores in permalloy lose their energy within a few turns. A learner that knows the rate can make up for it: by
drives that are weaker and readings that count more during the echo, which is right for linear circuits, or, where a
spin torque can turn loss into gain during the echo, exactly. The rate is what calibration finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from calibration.chain import calibrate
from circuits import Netlist
from circuits.netlist import Clock
from devices import Vortex
from devices.catalogue import CATALOGUE
from rhel_hw import settings
from rhel_hw.chips import made
from rhel_hw.dissipation import energy_rates
from rhel_hw.emulated import EmulatedBench
from rhel_hw.profile import Profile
from studies.cases.case import Case, Found, Report, Size
from studies.plots import COLOURS, canvas
from studies.sweeps import Sweep, run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GOOD = 0.99
CURES = {"as it is": (0.0, False), "weaker drives": (1.0, False), "spin torque": (1.0, True)}
"""Decay that the learner makes up for, over the true one, and whether the echo gains."""
BENCH: dict[str, dict[str, Any]] = {
    "readout": {"bits": 10}, "drive": {"bits": 12}, "nudge": {"bits": 12}, "echo": {"operation": "polarity-switch"},
}  # fmt: skip
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Looked:
    """Cosines to the damped array's own gradient."""

    dampings: list[float]
    cosines: Mapping[str, Floats]
    """Over damping, by cure."""
    factors: list[float]
    """Rate that the learner believes in, over the true one."""
    misjudged: Mapping[str, Floats]
    """Over those factors at the damping of the metal, by cure."""
    found: Mapping[str, float]
    """What calibration found, over the true rate, by cure, if it was asked; NaN where it could not tell."""
    turns: float
    """Periods of a pass."""


def metal() -> float:
    """Damping of vortex cores in permalloy, by the catalogue."""
    return float(CATALOGUE["permalloy-vortex"].values["damping"])


def undamped(size: Size) -> Netlist:
    """The array of the gallery."""
    own = {"task": {"spread": 0.1, "amplitude": 0.01}, "learning": {"epsilon": 0.01, "gamma": "auto"}, "profile": BENCH}
    return Netlist.load("vortex-array").replace(clock=Clock(None, size.steps), settings=own)


def netlist(size: Size) -> Netlist:
    """The array in permalloy, with spin torques for its echoes and a learner that knows its loss."""
    plain = undamped(size)
    lossy = tuple(replace(e, damping=metal()) if isinstance(e, Vortex) else e for e in plain.elements)
    own = {
        **plain.settings,
        "learning": {**plain.settings["learning"], "decay": rate(plain, metal())},
        "profile": {**BENCH, "echo": {**BENCH["echo"], "pump": True}},
    }
    return plain.replace(name="permalloy vortex array", elements=lossy, settings=own)


def rate(plain: Netlist, damping: float) -> float:
    """Rate in 1/s at which the damped array loses energy, the mean over its cores."""
    design = plain.compile()
    lossy = made(design, Profile.of({"dynamics": {"damping": damping}}))
    return float(np.mean(energy_rates(lossy.hamiltonian))) / lossy.assembly.units.time


def look(_own: Netlist, size: Size, out: Path, report: Report) -> Found:
    """Damping by cure; then how well the rate must be known, and how well calibration knows it."""
    plain, seeds = undamped(size), range(max(3, size.seeds))
    dampings = sorted({*(float(f"{x:.3g}") for x in np.geomspace(1e-4, 0.03, size.fine)), metal()})
    factors = [0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1, 1.2, 1.4]
    points = [(a, cure, 1.0, s) for cure in CURES for a in dampings for s in seeds]
    points += [(metal(), cure, f, s) for cure in CURES if CURES[cure][0] for f in factors for s in seeds]
    sweep = Sweep(
        {
            "dynamics.damping": [a for a, _, _, _ in points],
            "learning.decay": [f * CURES[cure][0] * rate(plain, a) for a, cure, f, _ in points],
            "echo.pump": [CURES[cure][1] for _, cure, _, _ in points],
            "seed": [s for _, _, _, s in points],
        },
        mode="zip", reference="chip",
    )  # fmt: skip
    found, _ = run(plain, sweep, out / "damping.zarr", report=lambda d, n: report(d, n, "damping"))
    cosines = np.nan_to_num(np.asarray(found["cosine"]), nan=-1.0).reshape(-1, len(seeds)).min(-1)
    split = len(CURES) * len(dampings)
    by_cure = dict(zip(CURES, cosines[:split].reshape(len(CURES), -1), strict=True))
    cured = [cure for cure in CURES if CURES[cure][0]]
    misjudged = dict(zip(cured, cosines[split:].reshape(len(cured), -1), strict=True))
    calibrated = {}
    for done, cure in enumerate(cured if size.thorough else ()):
        report(done, len(cured), "calibration")
        calibrated[cure] = _calibrated(plain, CURES[cure][1])
    design = plain.compile()
    turns = float(np.mean(np.abs(design.frequencies_hz))) * design.steps * design.step_s
    looked = Looked(dampings, by_cure, factors, misjudged, calibrated, turns)
    return Found(_says(looked), _figure(looked), _data(looked))


def _calibrated(plain: Netlist, pump: bool) -> float:
    """Decay that the chain of calibration finds on a chip in permalloy, over the true one."""
    design, task = plain.compile(), settings.task(plain)
    echo = {**BENCH["echo"], "pump": pump}
    profile = Profile.of({**BENCH, "echo": echo, "dynamics": {"damping": metal()}})
    lesson = task.lesson(design)
    bench = EmulatedBench(design, profile, reference=lesson.drive)
    learner = settings.bench_learning(plain, profile)
    hidden = [f"{e.name}.stiffening" for e in plain.elements if isinstance(e, Vortex)]  # too little motion shows them
    known = calibrate(
        bench, design, lesson, learner, task={"type": "teacher", **asdict(task)}, held=hidden, anchors=0, seed=0
    )
    (decay,) = known.around(bench, plain, seed=0).describe().decays or (float("nan"),)
    return float(decay) / rate(plain, metal())


def _says(looked: Looked) -> str:
    limits = {cure: _most(looked.dampings, cosines) for cure, cosines in looked.cosines.items()}
    told = ", ".join(f"α up to {limit} {_with(cure)}" for cure, limit in limits.items())
    at = looked.dampings.index(metal())
    in_metal = ", ".join(f"{cosines[at]:.4f} {_with(cure)}" for cure, cosines in looked.cosines.items())
    told = (
        f"over {looked.turns:.1f} turns a cosine of {GOOD} at every seed allows {told}; in permalloy (α = {metal():g}) "
        f"the cosine is {in_metal}"
    )
    known = ", ".join(f"{100 * (x - 1):+.1g} % {_with(cure)}" for cure, x in looked.found.items() if np.isfinite(x))
    return f"{told}; calibration misses the rate by {known}" if known else told


def _with(cure: str) -> str:
    return cure if cure == "as it is" else f"with {cure}"


def _most(dampings: list[float], cosines: Floats) -> str:
    """The largest damping up to which all are good."""
    good = np.logical_and.accumulate(np.asarray(cosines) >= GOOD)
    if not good.any():
        return f"less than {dampings[0]:.2g}"
    return f"{np.asarray(dampings)[good].max():.2g}" + (" (the largest tried)" if good.all() else "")


def _figure(looked: Looked) -> Figure:
    figure, axes = canvas(1, 2, (9.6, 4.0))
    left, right = axes[0]
    colours = dict(zip(CURES, (COLOURS[1], COLOURS[0], COLOURS[2]), strict=True))
    for cure, cosines in looked.cosines.items():
        off = np.clip(1 - np.asarray(cosines), 1e-7, 2)
        left.loglog(looked.dampings, off, "o-", ms=3, lw=1.5, color=colours[cure], label=_with(cure))
    for cure, cosines in looked.misjudged.items():
        wrong = 100 * (np.asarray(looked.factors) - 1)
        right.semilogy(wrong, np.clip(1 - np.asarray(cosines), 1e-7, 2), "o-", ms=3, lw=1.5, color=colours[cure])
        if np.isfinite(found := looked.found.get(cure, np.nan)):
            right.axvline(100 * (found - 1), color=colours[cure], lw=4, alpha=0.3)
    left.axvline(metal(), color="0.6", lw=5, alpha=0.35, zorder=0)
    left.text(metal(), 2.3, "permalloy", ha="center", va="bottom", fontsize=9, color="0.3")
    left.set(xlabel="damping of the cores, α", ylabel="1 − cosine, worst seed")
    left.legend(frameon=False, fontsize=8, loc="upper left")
    right.set(
        xlabel="error of the rate that is made up for (%), in permalloy"
        + "\nbands: what calibration found" * bool(looked.found)
    )
    for axis in (left, right):
        axis.axhline(1 - GOOD, color="0.3", lw=1, ls="--")
        axis.set_ylim(1e-7, 2)
    beside = right.get_yaxis_transform()
    right.text(0.02, 1 - GOOD, "cosine 0.99", transform=beside, va="bottom", fontsize=8)
    figure.suptitle("Vortex array with polarity-switch echo: is damping curable?", fontsize=11)
    return figure


def _data(looked: Looked) -> dict[str, Any]:
    return {
        "turns": looked.turns, "dampings": looked.dampings,
        "cosines": {k: v.tolist() for k, v in looked.cosines.items()},
        "factors": looked.factors, "misjudged": {k: v.tolist() for k, v in looked.misjudged.items()},
        "found_over_true": {k: v if np.isfinite(v) else None for k, v in looked.found.items()},
    }  # fmt: skip


CASE = Case(
    "is the damping of a metal curable by calibration in a vortex array with polarity-switch echo?",
    netlist,
    look,
    lambda _: {
        "readout.bits": {"whole": [2, 16]}, "drive.bits": {"whole": [2, 16]}, "nudge.bits": {"whole": [2, 16]},
        "readout.noise": {"log": [1e-6, 0.1]}, "echo.pump_error": {"log": [1e-4, 1.0]},
    },
    sweep={"reference": "chip"},
    formats=("mumax3", "schematic"),
)  # fmt: skip
