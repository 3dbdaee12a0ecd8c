"""From netlist and coordinates to arrays: groups of like elements, how their branches read the coordinates, values.

Everything here is plain NumPy and SciPy in dimensionless units. The Hamiltonian evaluates these arrays with JAX; the
legality rules and the linear analysis read them directly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from circuits.netlist import Netlist
from circuits.reduce import Coordinates
from circuits.scaling import UnitSystem, choose_units
from devices import ELEMENTS, Drive, Element, Values

Theta = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Group:
    """Elements of one type: names, their parameters' keys in theta, and the constants of their energy."""

    kind: type[Element]
    names: tuple[str, ...]
    constants: Mapping[str, float]

    def key(self, parameter: str) -> str:
        """Key of a parameter of this group in theta."""
        return f"{self.kind.type}.{parameter}"

    def values(self, theta: Mapping[str, object]) -> Values:
        """Parameters and constants by name, as the element's energy takes them."""
        return Values(**{name: theta[self.key(name)] for name in self.kind.parameters}, **self.constants)


@dataclass(frozen=True, eq=False)
class Entry:
    """One named parameter: where it stands in theta, its SI scale, and what training may do to it."""

    name: str
    key: str
    index: int
    unit: str
    scale: float
    trainable: bool
    positive: bool
    bounds: tuple[float, float] | None
    """Dimensionless."""
    tolerance: float


@dataclass(frozen=True, eq=False)
class Input:
    """One channel of the energy: the drive that feeds it, which function of its waveform, and its SI scale."""

    drive: Drive
    function: str
    unit: str
    scale: float


@dataclass(frozen=True, eq=False)
class Assembly:
    """A circuit as dimensionless arrays. `A`-matrices map coordinates (dynamic, massless, cyclic) to branches."""

    netlist: Netlist
    coordinates: Coordinates
    units: UnitSystem
    groups: Mapping[str, Group]
    theta: Theta
    entries: tuple[Entry, ...]
    inputs: tuple[Input, ...]
    factors: NDArray[np.float64]
    """Position of node i in its domain's unit is (W·diag(factors)·c)_i."""
    branch: Mapping[str, sp.csr_array]
    """Per type with a potential: branch rows (all first branches, then all second ones, …)."""
    branch_inputs: Mapping[str, sp.csr_array]
    """What the inputs add to those branch coordinates."""
    inertia: Mapping[str, sp.csr_array]
    """Per type with inertia: one row per element."""
    lift: Mapping[str, sp.csr_array]
    """Per type with inertia: (element, input) coefficients of `inertia·b·u`, for capacitors on a held node."""
    momentum: Mapping[str, sp.csr_array]
    """Per type with non-quadratic kinetic energy: rows that read the dynamic momenta."""
    loss: Mapping[str, sp.csr_array]
    """Per type with conductance: branch rows."""
    injection: sp.csr_array
    """(coordinate, input): force per input."""

    @property
    def quadratic(self) -> NDArray[np.intp]:
        """Dynamic coordinates whose kinetic energy goes through the inertia matrix."""
        nonquadratic: set[int] = set()
        for rows in self.momentum.values():
            nonquadratic.update(rows.indices.tolist())
        return np.array([i for i in range(len(self.coordinates.dynamic)) if i not in nonquadratic], dtype=np.intp)


def assemble(netlist: Netlist, coordinates: Coordinates) -> Assembly:
    """Arrays of a netlist in coordinates that `reduce` found."""
    units = choose_units(netlist)
    by_type: dict[str, list[Element]] = {}
    for part in netlist.elements:
        by_type.setdefault(part.type, []).append(part)

    groups, theta, entries = {}, {}, []
    for name, parts in by_type.items():
        kind = ELEMENTS[name]
        constants = {k: v / units.scale(u) for k, (v, u) in kind.constants.items()}
        groups[name] = Group(kind, tuple(p.name for p in parts), constants)
        for parameter in kind.parameters:
            made = [_entry(netlist, units, part, parameter, i) for i, part in enumerate(parts)]
            entries += made
            theta[f"{name}.{parameter}"] = np.array(
                [getattr(p, parameter) / e.scale for p, e in zip(parts, made, strict=True)]
            )

    inputs = tuple(Input(d, c.function, c.unit, units.scale(c.unit)) for d in netlist.drives for c in d.channels)
    reader = _Reader(netlist, coordinates, inputs)
    branch, branch_inputs, inertia, lift, loss, momentum = {}, {}, {}, {}, {}, {}
    for name, parts in by_type.items():
        kind = ELEMENTS[name]
        if kind.potential is not None:
            branch[name] = reader.rows(parts, kind.branches)
            branch_inputs[name] = reader.held(parts, kind.branches, "integral") + reader.threads(
                parts, len(kind.branches)
            )
        if kind.kinetic is not None:
            momentum[name] = reader.rows(parts, kind.branches)
        elif kind.inertia is not None:
            inertia[name] = reader.rows(parts, kind.branches)
            lift[name] = reader.held(parts, kind.branches, "slope")
        if kind.conductance is not None:
            loss[name] = reader.rows(parts, kind.branches)

    factors = _factors(coordinates, groups, theta, branch, inertia, momentum)
    scaled = sp.diags_array(factors)
    dynamic = slice(0, len(coordinates.dynamic))
    # Momenta scale inversely to positions, so that their product keeps the unit of action.
    unscaled = sp.diags_array(1 / factors[dynamic])
    return Assembly(
        netlist,
        coordinates,
        units,
        groups,
        theta,
        tuple(entries),
        inputs,
        factors,
        branch={k: (m @ scaled).tocsr() for k, m in branch.items()},
        branch_inputs=branch_inputs,
        inertia={k: (m @ scaled).tocsr() for k, m in inertia.items()},
        lift=lift,
        momentum={k: (m[:, dynamic] @ unscaled).tocsr() for k, m in momentum.items()},
        loss={k: (m @ scaled).tocsr() for k, m in loss.items()},
        injection=(scaled @ reader.injection()).tocsr(),
    )


def inertia_matrix(assembly: Assembly, *, smallest: bool = False) -> sp.csr_array:
    """Inertia matrix over all coordinates; rows and columns of massless ones are zero.

    Non-quadratic kinetic energies enter with their small-signal inertia, or, for a bound, with half of it: the
    varactor's falls to that at the charge Q/√3.
    """
    n = len(assembly.factors)
    total = sp.csr_array((n, n))
    for name, rows in assembly.inertia.items():
        weights = inertias(assembly.groups[name], assembly.theta)
        total = total + rows.T @ sp.diags_array(weights) @ rows
    for name, rows in assembly.momentum.items():
        weights = inertias(assembly.groups[name], assembly.theta) / rows.data**2 / (2 if smallest else 1)
        total = total + sp.csr_array((weights, (rows.indices, rows.indices)), shape=(n, n))
    return total.tocsr()


def inertias(group: Group, theta: Theta) -> NDArray[np.float64]:
    """Inertia of every element of a group."""
    return np.asarray(group.kind.inertia(group.values(theta)))


def _entry(netlist: Netlist, units: UnitSystem, part: Element, parameter: str, index: int) -> Entry:
    info = part.parameters[parameter]
    if info.unit is not None:
        unit, scale = info.unit, units.scale(info.unit)
    else:
        ends = [netlist.domains[n].position_unit for n in netlist.terminals_of(part)]
        unit = "J/" + "/".join(ends)
        scale = units.energy / float(np.prod([units.scale(u) for u in ends]))
    bounds = part.bounds.get(parameter)
    if bounds is None and np.isfinite(info.above) and np.isfinite(info.below):
        bounds = (info.above, info.below)
    positive = info.positive or (info.at_least >= 0 and getattr(part, parameter) > 0)
    return Entry(
        f"{part.name}.{parameter}",
        f"{part.type}.{parameter}",
        index,
        unit,
        scale,
        parameter in part.trainable,
        positive,
        None if bounds is None else (bounds[0] / scale, bounds[1] / scale),
        part.tolerance.get(parameter, 0.0),
    )


@dataclass(frozen=True, eq=False)
class _Reader:
    """Builds the sparse rows with which branches read coordinates and inputs."""

    netlist: Netlist
    coordinates: Coordinates
    inputs: tuple[Input, ...]

    def rows(self, parts: list[Element], branches: tuple[tuple[int, ...], ...]) -> sp.csr_array:
        index = {n: i for i, n in enumerate(self.coordinates.nodes)}
        return (self._terminals(parts, branches, index) @ self.coordinates.W).tocsr()

    def held(self, parts: list[Element], branches: tuple[tuple[int, ...], ...], function: str) -> sp.csr_array:
        index = {
            self.netlist.terminals_of(item.drive)[0]: i
            for i, item in enumerate(self.inputs)
            if item.drive.action == "prescribe" and item.function == function
        }
        return self._terminals(parts, branches, index, len(self.inputs))

    def threads(self, parts: list[Element], branches: int) -> sp.csr_array:
        row = {p.name: i for i, p in enumerate(parts)}
        matrix = sp.lil_array((len(parts) * branches, len(self.inputs)))
        for i, item in enumerate(self.inputs):
            wanted = [getattr(item.drive, key) for key in item.drive.references]
            if item.drive.action == "thread" and wanted[0] in row:
                matrix[row[wanted[0]], i] = -1.0
        return matrix.tocsr()

    def injection(self) -> sp.csr_array:
        index = {n: i for i, n in enumerate(self.coordinates.nodes)}
        matrix = sp.lil_array((len(index), len(self.inputs)))
        for i, item in enumerate(self.inputs):
            if item.drive.action == "inject":
                for node, sign in zip(self.netlist.terminals_of(item.drive), (1.0, -1.0), strict=False):
                    if node in index:
                        matrix[index[node], i] = sign
        return (self.coordinates.W.T @ matrix.tocsr()).tocsr()

    def _terminals(
        self,
        parts: list[Element],
        branches: tuple[tuple[int, ...], ...],
        index: Mapping[str, int],
        width: int | None = None,
    ) -> sp.csr_array:
        data, row, column = [], [], []
        for r, coefficients in enumerate(branches):
            for i, part in enumerate(parts):
                for node, coefficient in zip(self.netlist.terminals_of(part), coefficients, strict=True):
                    if node in index:
                        data.append(float(coefficient))
                        row.append(r * len(parts) + i)
                        column.append(index[node])
        shape = (len(parts) * len(branches), len(index) if width is None else width)
        return sp.csr_array((data, (row, column)), shape=shape)


def _factors(
    coordinates: Coordinates,
    groups: Mapping[str, Group],
    theta: Theta,
    branch: Mapping[str, sp.csr_array],
    inertia: Mapping[str, sp.csr_array],
    momentum: Mapping[str, sp.csr_array],
) -> NDArray[np.float64]:
    """Factor per coordinate that makes its inertia one; for massless coordinates its stiffness."""
    size = np.zeros(sum(coordinates.counts))
    for name, rows in (*inertia.items(), *momentum.items()):
        kind = groups[name].kind
        size += rows.power(2).T @ np.asarray(kind.inertia(groups[name].values(theta)))
    dynamic, massless, _ = coordinates.counts
    soft = slice(dynamic, dynamic + massless)
    for name, rows in branch.items():
        kind = groups[name].kind
        weights = np.abs(np.concatenate([np.asarray(k) for k in kind.stiffness(groups[name].values(theta))]))
        size[soft] += (rows.power(2).T @ weights)[soft]
    return np.where(size > 0, 1 / np.sqrt(np.where(size > 0, size, 1.0)), 1.0)
