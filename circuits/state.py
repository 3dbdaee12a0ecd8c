"""Initial states and inputs: from SI by node and drive to the dimensionless arrays of the Hamiltonian."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse.linalg as sla

from circuits.assemble import inertia_matrix
from circuits.compile import Design
from circuits.linear import mobility_matrix
from devices import ArgumentError, nearest

Array = Any


def initial_state(design: Design, dtype: Any = None) -> tuple[Array, Array]:
    """Positions and momenta (n,) that the netlist asks for; positions start from rest where none is given."""
    assembly, initial = design.assembly, design.assembly.netlist.initial
    coordinates, units, domains = assembly.coordinates, assembly.units, design.netlist.domains
    dynamic = len(coordinates.dynamic)
    place = {n: i for i, n in enumerate(coordinates.nodes)}
    x, v, p = (np.zeros(len(place)) for _ in range(3))
    for node, value in initial.positions.items():
        x[place[node]] = value / units.scale(domains[node].position_unit)
    for node, value in initial.velocities.items():
        v[place[node]] = value / units.scale(domains[node].velocity_unit)
    for node, value in initial.momenta.items():
        p[place[node]] = value / units.scale(domains[node].momentum_unit)
    inverse = sla.splu(coordinates.W.tocsc())
    q = inverse.solve(x)[:dynamic] / assembly.factors[:dynamic]
    speeds = inverse.solve(v) / assembly.factors
    momenta = (inertia_matrix(assembly) @ speeds + assembly.factors * (coordinates.W.T @ p))[:dynamic]
    if initial.velocities and assembly.direct.any():
        charged = np.flatnonzero(assembly.direct & (speeds[:dynamic] != 0))  # varactors, at their small-signal values
        momenta[charged] += speeds[charged] / mobility_matrix(assembly).diagonal()[charged]
    if not initial.positions:
        q = design.modes.rest[:dynamic]
    return jnp.asarray(q, dtype), jnp.asarray(momenta, dtype)


def state_in_si(design: Design, q: Array, p: Array) -> tuple[dict[str, float], dict[str, float]]:
    """Positions and momenta by node of dimensionless ones (n,), where coordinates are nodes."""
    units, factors, names = design.assembly.units, design.assembly.factors, design.hamiltonian.names
    domains = [design.netlist.domains[n] for n in names]
    sizes = [(units.scale(d.position_unit), units.scale(d.momentum_unit)) for d in domains]
    positions = (float(x) * f * size for x, f, (size, _) in zip(q, factors, sizes, strict=False))
    momenta = (float(x) / f * size for x, f, (_, size) in zip(p, factors, sizes, strict=False))
    return dict(zip(names, positions, strict=True)), dict(zip(names, momenta, strict=True))


def encode(design: Design, waveforms: Mapping[str, Any], *, start: Mapping[str, float] | None = None) -> Array:
    """Inputs (steps, channels, batch…) of the energy from waveforms in SI, one value per step at mid-step.

    Waveforms are (steps,) or (steps, batch…) by drive name; drives that are not named stay silent. `start` gives the
    integral of a voltage at the beginning (Wb), for a pass that continues another one.
    """
    names = {d.name for d in design.netlist.drives}
    for name in waveforms:
        if name not in names:
            raise ArgumentError(f"Argument `waveforms` must name drives, but has {name!r}{nearest(name, names)}")
    given = {k: jnp.asarray(v) for k, v in waveforms.items()}
    shapes = {v.shape for v in given.values()}
    if len(shapes) > 1:
        raise ArgumentError(f"Argument `waveforms` must be equally long arrays, but they have shapes {sorted(shapes)}")
    shape = shapes.pop() if shapes else (design.steps,)
    if not shape or shape[0] == 0:
        raise ArgumentError("Argument `waveforms` must have one value per step, but is empty or a single number")
    silent = jnp.zeros(shape)
    columns = []
    for item in design.assembly.inputs:
        wave = given.get(item.drive.name, silent)
        offset = (start or {}).get(item.drive.name, 0.0)
        columns.append(_FUNCTIONS[item.function](wave, design.step_s, offset) * (item.weight / item.scale))
    return jnp.stack(columns, axis=1) if columns else jnp.zeros((shape[0], 0, *shape[1:]))


def _value(wave: Array, _step: float, _start: float) -> Array:
    return wave


def _integral(wave: Array, step: float, start: float) -> Array:
    """Integral up to mid-step of a waveform that is constant over each step."""
    return start + step * (jnp.cumsum(wave, axis=0) - wave / 2)


def _slope(wave: Array, step: float, _start: float) -> Array:
    """Central difference; one-sided at the ends, so that a reversed and negated waveform has the reversed slope."""
    if wave.shape[0] == 1:
        return jnp.zeros_like(wave)
    return jnp.gradient(wave, step, axis=0)


_FUNCTIONS = {"value": _value, "integral": _integral, "slope": _slope}


def sample_drives(design: Design, steps: int | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Waveforms of the netlist's own drives at mid-step, in SI."""
    times = np.asarray((np.arange(design.steps if steps is None else steps) + 0.5) * design.step_s)
    return {d.name: d.waveform.sample(times) for d in design.netlist.drives if d.waveform is not None}
