"""The paper's check of continuous-time echo learning: six coupled oscillators, panels B and C of its first figure.

The paper names the driven mass (1) and the target (4) but neither force, target nor values. Here the values are those
of the gallery's toy. It starts at rest; the force on mass 1 is two tones inside the band of the modes, 0.15 to 0.30
Hz, the wanted position of mass 4 one tone below it:

    u(t) = 1 N · (sin 2π·0.18 Hz·t + ½ sin 2π·0.26 Hz·t),   y(t) = 0.5 m · sin 2π·0.12 Hz·t.

The loss is ∫½(x4 − y)² dt in m²·s.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from circuits import Design, Netlist
from devices import ArgumentError
from rhel_hw.continuous import ContinuousAdjoint, ContinuousProblem, ContinuousRHEL, Sensitivities
from rhel_hw.files import folder, write_atomically
from rhel_hw.losses import targets_of
from studies.plots import COLOURS, _figure, _legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

SHOWN_PARAMETERS = {"k14.constant": ("k14 (spring)", COLOURS[2]), "m4.mass": ("m4 (mass)", COLOURS[3])}
SHOWN_NODES = {"x1": ("x1 (driven)", COLOURS[4]), "x4": ("x4 (target)", COLOURS[5])}
"""Labels, and colours on which a black dotted line shows."""


@dataclass(frozen=True, eq=False)
class Curves:
    """What one method finds, in SI."""

    positions: Floats
    """∂L/∂x(t) in m·s, (k, nodes)."""
    momenta: Floats
    """∂L/∂p(t) in m·s²/kg, (k, nodes)."""
    parameters: Floats
    """Gradient density g(t) in m² per unit of the parameter, (k, parameters)."""


@dataclass(frozen=True, eq=False)
class ToyResult:
    """Sensitivities and gradients over time by both methods."""

    times_s: Floats
    nodes: tuple[str, ...]
    parameters: tuple[str, ...]
    values: Floats
    """Of the parameters in SI."""
    epsilon: float
    loss: float
    """In m²·s."""
    rhel: Curves
    adjoint: Curves
    deviations: Mapping[str, float]
    """Largest |RHEL − adjoint| over the largest |adjoint|, by family."""

    def __str__(self) -> str:
        found = ", ".join(f"{family} {value:.1e}" for family, value in self.deviations.items())
        return f"RHEL at epsilon {self.epsilon:g} against the adjoint method: {found}"


def run(
    duration_s: float = 30.0, epsilon: float = 0.1, points: int = 601, *, design: Design | None = None
) -> ToyResult:
    """Both methods at `points` evenly spaced times. `design` is the toy, if it is compiled already.

    JAX must be in double precision.
    """
    if points < 2:
        raise ArgumentError(f"Argument `points` must be at least 2, but is {points}")
    if design is None:
        design = Netlist.load("toy").compile()
    method = ContinuousRHEL(epsilon)
    problem = problem_of(design, duration_s)
    times = np.linspace(0, problem.duration, points)
    by_echo, by_adjoint = method.sensitivities(problem, times), ContinuousAdjoint().sensitivities(problem, times)
    rhel, adjoint = _in_si(design, by_echo), _in_si(design, by_adjoint)
    units, entries = design.assembly.units, design.assembly.entries
    return ToyResult(
        times * units.time,
        design.assembly.coordinates.nodes,
        tuple(e.name for e in entries),
        np.array([design.assembly.theta[e.key][e.index] * e.scale for e in entries]),
        epsilon,
        by_echo.loss * units.length**2 * units.time,
        rhel,
        adjoint,
        _deviations(design, rhel, adjoint),
    )


def problem_of(design: Design, duration_s: float) -> ContinuousProblem:
    """The task of this study on the toy."""
    units, force = design.assembly.units, design.assembly.inputs[0].scale

    def drive(t: float) -> list[float]:
        turn = 2 * np.pi * t * units.time
        return [(np.sin(0.18 * turn) + 0.5 * np.sin(0.26 * turn)) / force]

    def target(t: float) -> list[float]:
        return [0.5 * np.sin(2 * np.pi * 0.12 * t * units.time) / units.length]

    return ContinuousProblem(
        design.hamiltonian,
        design.theta(),
        drive,
        duration_s / units.time,
        design.initial_state(),
        targets_of(design),
        target,
    )


def _in_si(design: Design, found: Sensitivities) -> Curves:
    """Derivatives by coordinates change like momenta, those by momenta like coordinates; the loss is in m²·s."""
    units, h = design.assembly.units, design.hamiltonian
    by_q, by_p = (x.T for x in found.state)
    loss = units.length**2 * units.time
    still = np.zeros((h.inputs, len(found.times)))
    by_position = np.asarray(h.node_momenta(by_q)) * loss / units.scale("m")
    prepared = h.prepare(design.theta())
    by_momentum = np.asarray(h.node_positions(by_p, prepared, still)) * loss / units.scale("kg*m/s")
    density = [found.theta[e.key][:, e.index] / e.scale for e in design.assembly.entries]
    return Curves(by_position.T, by_momentum.T, np.stack(density, axis=1) * loss / units.time)


def _deviations(design: Design, rhel: Curves, adjoint: Curves) -> dict[str, float]:
    grounded = {e.name for e in design.netlist.elements if design.netlist.ground in design.netlist.terminals_of(e)}
    entries = design.assembly.entries
    families = {
        "masses": [e.key == "mass.mass" for e in entries],
        "springs": [e.key == "spring.constant" and e.name.split(".")[0] in grounded for e in entries],
        "couplings": [e.key == "spring.constant" and e.name.split(".")[0] not in grounded for e in entries],
    }
    result = {
        "positions": _deviation(rhel.positions, adjoint.positions),
        "momenta": _deviation(rhel.momenta, adjoint.momenta),
    }
    return result | {k: _deviation(rhel.parameters[:, v], adjoint.parameters[:, v]) for k, v in families.items()}


def _deviation(ours: Floats, exact: Floats) -> float:
    return float(np.max(np.abs(ours - exact)) / np.max(np.abs(exact)))


def figure(result: ToyResult) -> Figure:
    """Gradients of a coupling and a mass (B) and sensitivities of the driven and the target mass (C) over time."""
    drawing, (upper, lower) = _figure(2)
    drawing.set_size_inches(5.2, 4.4)
    # Times its parameter a gradient is by relative change, so that springs and masses share one axis.
    for name, style in SHOWN_PARAMETERS.items():
        i = result.parameters.index(name)
        ours, exact = (c.parameters[:, i] * result.values[i] for c in (result.rhel, result.adjoint))
        _pair(upper, result.times_s, ours, exact, *style)
    upper.set_ylabel("gradient θ·g(t) (m²)")
    for name, style in SHOWN_NODES.items():
        i = result.nodes.index(name)
        ours, exact = (c.positions[:, i] for c in (result.rhel, result.adjoint))
        _pair(lower, result.times_s, ours, exact, *style)
    lower.set_ylabel("sensitivity ∂L/∂x(t) (m·s)")
    lower.set_xlabel("time (s)")
    lower.set_xlim(0, result.times_s[-1])
    worst = result.deviations
    for axis, letter, families in (
        (upper, "B", ("masses", "springs", "couplings")),
        (lower, "C", ("positions", "momenta")),
    ):
        axis.set_title(letter, loc="left", fontweight="bold", fontsize=12)
        most = max(worst[f] for f in families)
        axis.set_title(f"largest deviation {most:.0e} of the largest value", loc="right", fontsize=8.5)
        axis.axhline(0, color="0.6", lw=0.6, zorder=0)
        axis.plot([], [], color="0.5", lw=2.6, label="RHEL")
        axis.plot([], [], ":", color="black", lw=1.4, label="adjoint")
        _legend(axis)
    return drawing


def _pair(axis: Axes, time: Floats, ours: Floats, exact: Floats, label: str, colour: str) -> None:
    """Echo learning solid, the adjoint method dotted on top of it."""
    axis.plot(time, ours, color=colour, lw=2.6, label=label, solid_capstyle="round")
    axis.plot(time, exact, ":", color="black", lw=1.4)


def save(result: ToyResult, out: Path) -> list[Path]:
    """Write ``toy.npz`` and ``toy.png`` to a folder."""
    arrays = {
        f"{method}_{name}": value
        for method in ("rhel", "adjoint")
        for name, value in vars(getattr(result, method)).items()
    }
    arrays |= {
        k: np.asarray(getattr(result, k)) for k in ("times_s", "nodes", "parameters", "values", "epsilon", "loss")
    }
    arrays |= {f"deviation_{k}": np.asarray(v) for k, v in result.deviations.items()}
    place = folder(out)
    return [
        write_atomically(place / "toy.npz", lambda stream: np.savez_compressed(stream, **arrays)),
        write_atomically(place / "toy.png", lambda stream: figure(result).savefig(stream, format="png")),
    ]
