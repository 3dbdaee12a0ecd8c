"""Where a SPICE deck starts: fluxes and voltages of nodes, charges behind the voltages, currents behind the fluxes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits.compile import Design
from circuits.netlist import Netlist
from devices import Element

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """Fluxes (Wb) and voltages (V) of nodes; those that are not named are zero."""

    fluxes: Mapping[str, float]
    voltages: Mapping[str, float]

    @staticmethod
    def of(design: Design, q: Any = None, p: Any = None) -> State:
        """State of dimensionless positions and momenta (n,), by default those that the design starts from."""
        rest = design.initial_state()
        q, p = (r if given is None else given for given, r in zip((q, p), rest, strict=True))
        energy, units, domains = design.hamiltonian, design.assembly.units, design.netlist.domains
        nodes = design.assembly.coordinates.nodes
        positions, momenta = (np.asarray(x, float) for x in _by_node(energy, design.theta(), q, p))
        fluxes = {n: float(x) * units.position(domains[n]) for n, x in zip(nodes, positions, strict=True)}
        charges = np.array([x * units.momentum(domains[n]) for n, x in zip(nodes, momenta, strict=True)])
        plates = Plates.of(design.netlist)
        order = [nodes.index(n) for n in plates.nodes]
        return State(fluxes, dict(zip(plates.nodes, plates.voltages(charges[order]).tolist(), strict=True)))

    def flipped(self) -> State:
        """The same with all charges, and so all voltages, turned round."""
        return State(self.fluxes, {node: -value for node, value in self.voltages.items()})

    def kicked(self, netlist: Netlist, charges: Mapping[str, float]) -> State:
        """The same with charges (C) added to nodes."""
        plates = Plates.of(netlist)
        held = plates.charges(np.array([self.voltages.get(n, 0.0) for n in plates.nodes]))
        moved = held + np.array([charges.get(n, 0.0) for n in plates.nodes])
        found = dict(zip(plates.nodes, plates.voltages(moved).tolist(), strict=True))
        return State(self.fluxes, {**self.voltages, **found})


@dataclass(frozen=True, eq=False)
class Plates:
    """All that is charged: node charges q = C·v, and those of varactors (docs/physics.md, 2.1 and 2.2).

    At a node with a capacitor to a voltage source q is the canonical charge, as in the Hamiltonian.
    """

    nodes: tuple[str, ...]
    """Nodes that no source holds."""
    matrix: Floats
    """C (n, n) in farad, over these nodes."""
    varactors: tuple[NDArray[np.intp], Floats, Floats]
    """Places of varactors, their capacitances and their scales of charge."""

    @staticmethod
    def of(netlist: Netlist) -> Plates:
        """Those of a netlist, with the values that it has."""
        nodes = tuple(n for n in netlist.nodes if n not in netlist.held)
        place = {n: i for i, n in enumerate(nodes)}
        matrix = np.zeros((len(nodes), len(nodes)))
        varactors = []
        for part in netlist.elements:
            ends = [place[n] for n in netlist.terminals_of(part) if n in place]
            if part.type == "varactor":
                varactors.append((ends[0], part.values["capacitance"], part.values["charge_scale"]))
            elif part.inertia is not None:
                value = part.values["capacitance"]
                matrix[ends, ends] += value
                if len(ends) == 2:
                    matrix[ends, ends[::-1]] -= value
        places, values, scales = zip(*varactors, strict=True) if varactors else ((), (), ())
        return Plates(nodes, matrix, (np.array(places, np.intp), np.array(values), np.array(scales)))

    def charges(self, voltages: Floats) -> Floats:
        """(n, …) in coulomb from (n, …) in volt."""
        found = np.asarray(np.tensordot(self.matrix, voltages, axes=1))
        places, values, scales = self._shaped(voltages)
        # v = (q/C)(1 + q²/Q²) is a cubic with one real root.
        root = np.sinh(np.arcsinh(1.5 * np.sqrt(3.0) * values / scales * voltages[places]) / 3)
        found[places] += scales * 2 / np.sqrt(3.0) * root
        return found

    def voltages(self, charges: Floats) -> Floats:
        """The inverse; where a set of nodes has no capacitance to anything else, its mean voltage is zero."""
        found = np.asarray(np.linalg.lstsq(self.matrix, charges, rcond=1e-12)[0])
        places, values, scales = self._shaped(charges)
        q = charges[places]
        found[places] = q / values * (1 + (q / scales) ** 2)
        return found

    def _shaped(self, like: Floats) -> tuple[NDArray[np.intp], Floats, Floats]:
        """The varactors' numbers as columns that fit an array (n, …)."""
        places, *numbers = self.varactors
        values, scales = (x.reshape(-1, *(1,) * (like.ndim - 1)) for x in numbers)
        return places, values, scales


@partial(jax.jit, static_argnums=0)
def _by_node(energy: Any, theta: Any, q: Any, p: Any) -> tuple[Any, Any]:
    """Positions and momenta of all nodes, of coordinates in silence."""
    silent = jnp.zeros((energy.inputs, *q.shape[1:]), q.dtype)
    return energy.node_positions(q, energy.prepare(theta), silent), energy.node_momenta(p)


def coil_currents(netlist: Netlist, state: State) -> dict[str, float]:
    """Current (A) through every inductor by name, 𝓛⁻¹ of their fluxes: coupled coils share theirs."""
    coils = [e for e in netlist.elements if e.type == "inductor"]
    place = {e.name: i for i, e in enumerate(coils)}
    own = np.array([e.values["inductance"] for e in coils])
    linked = np.array([flux_across(netlist, state, e) - e.values["flux"] for e in coils])
    currents = linked / own if coils else linked
    pairs = [e for e in netlist.elements if e.type == "mutual"]
    if pairs:
        matrix = np.diag(own)
        for pair in pairs:
            i, j = (place[getattr(pair, key)] for key in pair.references)
            matrix[i, j] = matrix[j, i] = pair.values["coefficient"] * np.sqrt(own[i] * own[j])
        currents = np.linalg.solve(matrix, linked)
    return dict(zip(place, currents.tolist(), strict=True))


def flux_across(netlist: Netlist, state: State, part: Element) -> float:
    """Flux of a branch, from its first node to its second or to ground."""
    ends = [state.fluxes.get(n, 0.0) for n in netlist.terminals_of(part)]
    return float(ends[0] - (ends[1] if len(ends) == 2 else 0.0))


def voltage_across(netlist: Netlist, state: State, part: Element) -> float:
    """Voltage of a branch, in the same sense."""
    ends = [state.voltages.get(n, 0.0) for n in netlist.terminals_of(part)]
    return float(ends[0] - (ends[1] if len(ends) == 2 else 0.0))
