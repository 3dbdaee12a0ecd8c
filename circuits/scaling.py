"""Dimensionless units in which a circuit's numbers are near one, so that float32 is enough.

Four base units are free: time, energy, and the unit of position of each domain (flux, length). On top of them every
coordinate has its own factor that makes its inertia one: docs/physics.md, section 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from circuits.netlist import Netlist
from devices import ELECTRICAL, MECHANICAL
from devices.units import scale_of


@dataclass(frozen=True)
class UnitSystem:
    """A consistent system of units, each given in SI."""

    time: float
    energy: float
    flux: float
    length: float

    def scale(self, unit: str) -> float:
        """SI size of this system's unit for whatever `unit` measures."""
        base = {
            "mass": self.energy * self.time**2 / self.length**2,
            "length": self.length,
            "time": self.time,
            "current": self.energy / self.flux,
        }
        return scale_of(unit, base)


def choose_units(netlist: Netlist) -> UnitSystem:
    """Units from the circuit's own values: typical frequency, typical inertia, amplitude of its nonlinearity."""
    inertia: dict[str, float] = {}
    stiffness: dict[str, float] = {}
    amplitudes: dict[str, list[float]] = {ELECTRICAL.name: [], MECHANICAL.name: []}
    speeds: dict[str, list[float]] = {ELECTRICAL.name: [], MECHANICAL.name: []}
    for part in netlist.elements:
        values = SimpleNamespace(**part.values, **{k: v for k, (v, _) in part.constants.items()})
        for node in netlist.terminals_of(part):
            if part.inertia is not None:
                inertia[node] = inertia.get(node, 0.0) + float(part.inertia(values))
            if part.stiffness is not None:
                stiffness[node] = stiffness.get(node, 0.0) + sum(abs(k) for k in part.stiffness(values))
        if part.amplitude is not None and part.domain is not None and (natural := part.amplitude(values)) > 0:
            if part.kinetic is not None and part.inertia is not None:
                speeds[part.domain.name].append(natural / part.inertia(values))
            else:
                amplitudes[part.domain.name].append(natural)

    nodes = [n for n in inertia if n != netlist.ground]
    rates = [(stiffness[n] / inertia[n]) ** 0.5 for n in nodes if stiffness.get(n, 0) > 0]
    time = 1 / _mean(rates) if rates else 1.0
    mass, amplitude = {}, {}
    for name in amplitudes:
        own = [inertia[n] for n in nodes if netlist.domains[n].name == name]
        mass[name] = _mean(own) if own else None
        natural_sizes = amplitudes[name] + [speed * time for speed in speeds[name]]
        if natural_sizes:
            amplitude[name] = _mean(natural_sizes)
    energy = _energy(time, mass, amplitude)
    # A domain without inertia of its own only needs any unit.
    units = {name: time * (energy / m) ** 0.5 if m else 1.0 for name, m in mass.items()}
    return UnitSystem(time, energy, units[ELECTRICAL.name], units[MECHANICAL.name])


def _energy(time: float, mass: Mapping[str, float | None], amplitude: Mapping[str, float]) -> float:
    """Energy of a node moving with its natural amplitude; for linear circuits any will do, so a customary one."""
    for name in (ELECTRICAL.name, MECHANICAL.name):
        m = mass[name]
        if m and name in amplitude:
            return float(m * (amplitude[name] / time) ** 2)
    if (m := mass[ELECTRICAL.name]) is not None:
        return m  # one volt across a typical capacitor
    if (m := mass[MECHANICAL.name]) is not None:
        return float(m * (m ** (1 / 3) / time) ** 2)  # a body's size grows with the cube root of its mass
    return 1.0


def _mean(values: Iterable[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))
