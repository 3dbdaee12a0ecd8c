"""Dimensionless units in which a circuit's numbers are near one, so that float32 is enough.

Four base units are free: time, energy, and the units of position that have a dimension (flux, length). On top of them
every coordinate has its own factor that makes its inertia one: docs/physics.md, section 2.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from circuits.netlist import Netlist
from devices import DOMAINS, ELECTRICAL, MECHANICAL, PHOTONIC, SPIN, TEXTURE, Domain
from devices.units import scale_of


@dataclass(frozen=True)
class UnitSystem:
    """A consistent system of units, each given in SI."""

    time: float
    energy: float
    flux: float
    length: float
    quadrature: float = 1.0
    """Size of photonic positions, which are pure numbers and take no part in the system; only what is read has it."""
    azimuth: float = 1.0
    """The same of spins."""

    def position(self, domain: Domain) -> float:
        """SI size of the unit in which positions of a domain are read."""
        own = {PHOTONIC.name: self.quadrature, SPIN.name: self.azimuth}
        return own.get(domain.name) or self.scale(domain.position_unit)

    def momentum(self, domain: Domain) -> float:
        """SI size of the unit in which momenta of a domain are read: together they make the unit of action."""
        return self.energy * self.time / self.position(domain)

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
    mobility: dict[str, float] = {}
    stiffness: dict[str, float] = {}
    amplitudes: dict[str, list[float]] = {name: [] for name in DOMAINS}
    speeds: dict[str, list[float]] = {name: [] for name in DOMAINS}
    shifts: list[float] = []
    for part in netlist.elements:
        values = netlist.numbers_of(part)
        if part.domain is None:  # what it adds depends on the other end, and is small
            continue
        for node in netlist.terminals_of(part):
            if part.inertia is not None:
                inertia[node] = inertia.get(node, 0.0) + float(part.inertia(values))
            if part.mobility is not None:
                mobility[node] = mobility.get(node, 0.0) + sum(abs(float(k)) for k in part.mobility(values))
            if part.stiffness is not None:
                stiffness[node] = stiffness.get(node, 0.0) + sum(abs(float(k)) for k in part.stiffness(values))
        if part.amplitude is not None and part.domain is not None and (natural := part.amplitude(values)) > 0:
            if part.potential is None:
                speeds[part.domain.name].append(natural * float(part.mobility(values)[0]))
            else:
                amplitudes[part.domain.name].append(natural)
        if part.frequency_shift is not None and (shift := abs(float(part.frequency_shift(values)))) > 0:
            shifts.append(shift)

    inertia |= {n: 1 / m for n, m in mobility.items() if m > 0}
    nodes = [n for n in inertia if n != netlist.ground]
    rates = [(stiffness[n] / inertia[n]) ** 0.5 for n in nodes if stiffness.get(n, 0) > 0]
    time = 1 / _mean(rates) if rates else 1.0
    mass, amplitude = {}, {}
    for name in DOMAINS:
        own = [inertia[n] for n in nodes if netlist.domains[n].name == name]
        mass[name] = _mean(own) if own else None
        natural_sizes = amplitudes[name] + [speed * time for speed in speeds[name]]
        if natural_sizes:
            amplitude[name] = _mean(natural_sizes)
    # Where a frequency grows with the action, the action that shifts it by a tenth is natural.
    energy = _energy(time, mass, amplitude, 0.1 / (_mean(shifts) * time) if shifts else None)
    units = {name: time * (energy / m) ** 0.5 if m else None for name, m in mass.items()}
    length = units[MECHANICAL.name] or units[TEXTURE.name] or _length(netlist)
    flux = units[ELECTRICAL.name] or _flux(netlist, energy, length)
    return UnitSystem(time, energy, flux, length, units[PHOTONIC.name] or 1.0, units[SPIN.name] or 1.0)


def _energy(
    time: float, mass: Mapping[str, float | None], amplitude: Mapping[str, float], action: float | None
) -> float:
    """Energy of a node moving with its natural amplitude; for linear circuits any will do, so a customary one."""
    for name, m in mass.items():
        if m and name in amplitude:
            return float(m * (amplitude[name] / time) ** 2)
    if action is not None:
        return action / time
    if (m := mass[ELECTRICAL.name]) is not None:
        return m  # one volt across a typical capacitor
    if (m := mass[MECHANICAL.name]) is not None:
        return float(m * (m ** (1 / 3) / time) ** 2)  # a body's size grows with the cube root of its mass
    if (m := mass[TEXTURE.name]) is not None:
        return float(m * (1e-8 / time) ** 2)  # ten nanometres
    m = mass[PHOTONIC.name] or mass[SPIN.name]
    return float(m / time**2) if m else 1.0  # a photon, a radian


def _length(netlist: Netlist) -> float:
    """A typical size of the parts, for circuits in which nothing moves in space."""
    sizes = [
        getattr(e, k) ** (1 / power)
        for e in netlist.elements
        for k, info in e.parameters.items()
        if info.unit is not None and (power := {"m": 1, "m**3": 3}.get(info.unit, 0)) and getattr(e, k) > 0
    ]
    return _mean(sizes) if sizes else 1.0


def _flux(netlist: Netlist, energy: float, length: float) -> float:
    """A unit of flux for circuits without electrical nodes: that of typical magnetisations, if there are any."""
    found = [getattr(e, k) for e in netlist.elements for k, info in e.parameters.items() if info.unit == "A/m"]
    return energy / (_mean(found) * length) if found else 1.0


def _mean(values: Iterable[float]) -> float:
    """Geometric mean."""
    return float(np.exp(np.mean(np.log(list(values)))))
