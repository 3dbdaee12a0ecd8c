"""What imperfections cost on one design of every family: precision, noise, loss, drift, echo, mismatch.

Each study is a sweep that anybody could write; here they are sized, drawn and summed up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from circuits import Netlist
from circuits.netlist import Clock
from rhel_hw.chips import made
from rhel_hw.dissipation import energy_rates
from rhel_hw.files import folder, write_atomically
from rhel_hw.profile import Profile
from studies.sweeps import Sweep, run
from studies.sweeps import figures as draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from circuits import Design

Report = Callable[[int, int], None]

FAMILIES = {"lc-toy": "LC", "ring-lattice": "photonic", "spin-chain": "spintronic"}
"""Designs, one of each family."""
GOOD = 0.99
"""Cosine from which a gradient counts as good."""
AUTO = {"learning.gamma": ["auto"]}
BITS, GAMMA, NOISE, SHOTS = "profile.readout.bits", "learning.gamma", "profile.readout.noise", "learning.shots"
QUALITY, STEPS, DRIFT, PROTOCOL = (
    "profile.dynamics.quality",
    "time.steps",
    "profile.dynamics.drift",
    "learning.protocol",
)
GAIN, ANGLE, MISMATCH, LEARNER = "profile.echo.gain", "profile.echo.angle", "profile.fabrication.mismatch", "learner"


@dataclass(frozen=True)
class Size:
    """How much is computed."""

    steps: int
    fine: int
    """Values along the finest axis."""
    chips: int
    lengths: tuple[int, ...]
    """Numbers of steps that are compared."""


SIZES = {"quick": Size(150, 7, 4, (75, 150)), "full": Size(600, 13, 10, (150, 300, 600))}


@dataclass(frozen=True)
class Study:
    """One study: its sweep of a design, a figure of the result, and what that says."""

    words: str
    results: Callable[[Netlist, Size, Path, Report | None], xr.Dataset]
    figure: Callable[[xr.Dataset], Figure]
    verdict: Callable[[xr.Dataset], str]


def run_study(name: str, size: Size, out: Path, report: Report | None = None) -> dict[str, Any]:
    """Compute, draw and sum up a study on every family; what is in the folder already is not computed again."""
    study, found = STUDIES[name], {}
    for place, design in enumerate(FAMILIES):
        kept = folder(out) / f"{name}-{design}.zarr"
        result = study.results(prepared(design, size), size, kept, _part(report, place))
        path = _saved(study.figure(result), out / f"{name}-{design}.png")
        found[design] = {"family": FAMILIES[design], "verdict": study.verdict(result), "files": [str(path)]}
    return found


def prepared(design: str, size: Size) -> Netlist:
    """A design with so many steps, one stimulus and a small ε."""
    netlist = Netlist.load(design)
    task = {**netlist.settings.get("task", {}), "batch": 1}
    task = {"spread": 0.1} if task.get("drive") == "own" else task
    clock = Clock(netlist.clock.step, size.steps)
    return netlist.replace(clock=clock, settings={"task": task, "learning": {"epsilon": 0.01}})


def _saved(figure: Figure, path: Path) -> Path:
    return write_atomically(path, lambda stream: figure.savefig(stream, format="png"))


def _part(report: Report | None, place: int) -> Report | None:
    """Progress of one family among all."""
    if report is None:
        return None
    return lambda done, total: report(place * total + done, len(FAMILIES) * total)


def _swept(axes: Callable[[Size], Mapping[str, Any]], **settings: Any) -> Any:
    """Results of one sweep."""

    def results(netlist: Netlist, size: Size, out: Path, report: Report | None) -> xr.Dataset:
        return run(netlist, Sweep(dict(axes(size)), **settings), out, report=report)[0]

    return results


def _median(found: xr.Dataset, outcome: str = "cosine") -> xr.DataArray:
    """Over chips, without axes of one value."""
    return (
        found[outcome].median("chip").squeeze(drop=True) if "chip" in found.dims else found[outcome].squeeze(drop=True)
    )


# Precision ----------------------------------------------------------------------------------------------------------


def _precision(size: Size) -> dict[str, Any]:
    gammas = {"log": [1.0, 1e6, 2 * size.fine - 1]}
    return {BITS: list(range(4, 15, 2)), GAMMA: gammas, "chip": list(range(size.chips)), NOISE: [1e-5]}


def _precision_says(found: xr.Dataset) -> str:
    cosine = _median(found)
    best = cosine.max(GAMMA)
    enough = [int(b) for b in best[BITS] if float(best.sel({BITS: b})) >= GOOD]
    if not enough:
        return f"no number of bits up to {int(cosine[BITS].max())} reaches a cosine of {GOOD} at any γ"
    good = cosine.sel({BITS: enough[0]})
    span = good[GAMMA].values[np.asarray(good) >= GOOD]
    fewest = " (the fewest tried)" if enough[0] == int(cosine[BITS].min()) else ""
    where = f"at γ = {span[0]:.3g}" if len(span) == 1 else f"with γ from {span.min():.3g} to {span.max():.3g}"
    return f"a cosine of {GOOD} needs {enough[0]} bits{fewest}, {where}"


def _most(cosine: xr.DataArray, axis: str, unit: str = "") -> str:
    """The largest value of an axis at which gradients are good."""
    tried = cosine[axis].values
    good = tried[np.asarray(cosine) >= GOOD]
    if not len(good):
        return f"less than {tried.min():.2g}{unit}"
    return f"{good.max():.2g}{unit}{' (the largest tried)' if good.max() == tried.max() else ''}"


# Noise --------------------------------------------------------------------------------------------------------------


def _noise(size: Size) -> dict[str, Any]:
    noises = {"log": [1e-5, 1e-1, size.fine]}
    return {NOISE: noises, SHOTS: [1, 16], "chip": list(range(size.chips)), **AUTO}


def _noise_says(found: xr.Dataset) -> str:
    cosine = _median(found)
    told = [
        f"{_most(cosine.sel({SHOTS: shots}), NOISE, ' of full scale')} with {shots} shot{'s' if shots > 1 else ''}"
        for shots in cosine[SHOTS].values
    ]
    return f"a cosine of {GOOD} allows readout noise of {', '.join(told)}"


# Loss ---------------------------------------------------------------------------------------------------------------


def _loss(netlist: Netlist, size: Size, out: Path, report: Report | None) -> xr.Dataset:
    """Points one after another, as what is made up for follows from the quality factor; then a grid again."""
    design = netlist.compile()
    lengths = list(size.lengths)
    turns = np.geomspace(3e-3, 3.0, size.fine)[::-1]  # energy lost in the longest pass, in e-folds
    unit = energy_rate(design, 1e6) * 1e6 * size.steps * design.step_s
    qualities = [float(f"{unit / x:.4g}") for x in turns]
    points = [(q, k, made_up) for q in qualities for k in lengths for made_up in (False, True)]
    rates = {q: energy_rate(design, q) for q in qualities}
    axes = {
        QUALITY: [q for q, _, _ in points],
        STEPS: [k for _, k, _ in points],
        "learning.decay": [rates[q] if made_up else 0.0 for q, _, made_up in points],
    }
    sweep = Sweep({**axes, GAMMA: ["auto"] * len(points)}, mode="zip", reference="chip")
    found = run(netlist, sweep, out, report=report)[0]
    shape = (len(qualities), len(lengths), 2)
    dims = (QUALITY, STEPS, LEARNER)
    return xr.Dataset(
        {name: (dims, np.asarray(found[name]).reshape(shape), found[name].attrs) for name in ("cosine", "error")},
        {
            QUALITY: (QUALITY, qualities, {"units": "", "long_name": "quality factor Q"}),
            STEPS: (STEPS, lengths, {"units": "steps", "long_name": "steps"}),
            LEARNER: (LEARNER, ["as it is", "made up for"], {"units": "", "long_name": "loss"}),
        },
        found.attrs,
    )


def _side_by_side(found: xr.Dataset) -> xr.Dataset:
    """Lengths and learners along one axis, a line each."""
    cases = [(k, learner) for learner in found[LEARNER].values for k in found[STEPS].values]
    parts = [found.sel({STEPS: k, LEARNER: learner}, drop=True) for k, learner in cases]
    labels = xr.DataArray([f"{learner}, {k} steps" for k, learner in cases], dims=LEARNER, name=LEARNER)
    joined = xr.concat(parts, labels, combine_attrs="override")
    joined[LEARNER].attrs = found[LEARNER].attrs
    return joined


def energy_rate(design: Design, quality: float) -> float:
    """Rate in 1/s at which a design of this quality factor loses energy, the mean over its coordinates."""
    lossy = made(design, Profile.of({"dynamics": {"quality": quality}}))
    return float(np.mean(energy_rates(lossy.hamiltonian))) / lossy.assembly.units.time


def _loss_says(found: xr.Dataset) -> str:
    told = []
    for learner in found[LEARNER].values:
        own = found["cosine"].isel({STEPS: -1}).sel({LEARNER: learner})
        good = own[QUALITY].values[np.asarray(own) >= GOOD]
        least = " (the smallest tried)" if len(good) and good.min() == own[QUALITY].values.min() else ""
        told.append(f"Q ≥ {good.min():.3g}{least} {learner}" if len(good) else f"more than was tried {learner}")
    return f"a cosine of {GOOD} to the chip's own gradient over {int(found[STEPS].max())} steps needs {', '.join(told)}"


# Drift, echo, mismatch ----------------------------------------------------------------------------------------------


def _drift(size: Size) -> dict[str, Any]:
    drifts = {"log": [1e-8, 1e-2, size.fine]}
    return {DRIFT: drifts, PROTOCOL: ["hold", "re-prepare"], "chip": list(range(size.chips)), **AUTO}


def _limit_says(axis: str, what: str, by: str, case: str) -> Callable[[xr.Dataset], str]:
    def says(found: xr.Dataset) -> str:
        cosine = _median(found)
        told = [f"{_most(cosine.sel({by: label}), axis)} {case} {label}" for label in cosine[by].values]
        return f"a cosine of {GOOD} allows {what} of {', '.join(told)}"

    return says


def _echo(size: Size) -> dict[str, Any]:
    """Values beside the ideal ones, 1 and 0, which would be a program of their own."""
    half = np.geomspace(3e-3, 0.3, (size.fine + 1) // 2)
    gains = [round(float(1 + x), 6) for x in (*-half[::-1], *half)]
    return {GAIN: gains, ANGLE: [round(float(x), 6) for x in (*-half[::-1], *half)], **AUTO}


def _echo_says(found: xr.Dataset) -> str:
    cosine = _median(found)
    met = np.asarray(cosine) >= GOOD
    if not met.any():
        return f"no error of the echo that was tried leaves a cosine of {GOOD}"
    gains, angles = np.meshgrid(cosine[GAIN].values, cosine[ANGLE].values, indexing="ij")
    return (
        f"a cosine of {GOOD} allows gains from {gains[met].min():.3g} to {gains[met].max():.3g} and angles from "
        f"{angles[met].min():.3g} to {angles[met].max():.3g} rad, not all at once"
    )


def _mismatch(netlist: Netlist, size: Size, out: Path, report: Report | None) -> xr.Dataset:
    """Against the ideal circuit, against the chip itself, and the latter if the chip is known."""
    axes = {MISMATCH: {"log": [1e-3, 0.2, size.fine]}, "chip": list(range(2 * size.chips)), **AUTO}
    parts = {
        "of the ideal circuit": Sweep(axes),
        "of the chip": Sweep(axes, reference="chip"),
        "of the chip, calibrated": Sweep(axes, reference="chip", calibrated=True),
    }
    found = [
        run(netlist, sweep, out.with_name(f"{out.stem}-{i}.zarr"), report=report)[0][["cosine", "error"]]
        for i, sweep in enumerate(parts.values())
    ]
    joined = xr.concat(found, xr.DataArray(list(parts), dims=LEARNER, name=LEARNER), combine_attrs="override")
    joined[LEARNER].attrs = {"units": "", "long_name": "gradient"}
    return joined


STUDIES: Mapping[str, Study] = {
    "precision": Study(
        "readout bits × γ", _swept(_precision), lambda ds: draw.heat(ds, "cosine", GAMMA, BITS, {"cosine": GOOD}),
        _precision_says,
    ),
    "noise": Study(
        "readout noise × shots", _swept(_noise), lambda ds: draw.lines(ds, "error", NOISE, SHOTS), _noise_says
    ),
    "loss": Study(
        "quality factor × steps, as it is and made up for", _loss,
        lambda ds: draw.lines(_side_by_side(ds), "error", QUALITY, LEARNER), _loss_says,
    ),
    "drift": Study(
        "drift of parameters per pass, by protocol", _swept(_drift),
        lambda ds: draw.lines(ds, "error", DRIFT, PROTOCOL), _limit_says(DRIFT, "drift per pass", PROTOCOL, "with"),
    ),
    "echo": Study(
        "gain × angle of the echo", _swept(_echo), lambda ds: draw.heat(ds, "cosine", GAIN, ANGLE, {"cosine": GOOD}),
        _echo_says,
    ),
    "mismatch": Study(
        "mismatch, calibrated or not", _mismatch, lambda ds: draw.lines(ds, "error", MISMATCH, LEARNER),
        _limit_says(MISMATCH, "mismatch", LEARNER, "for the gradient"),
    ),
}  # fmt: skip
