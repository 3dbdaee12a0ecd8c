"""From netlist and coordinates to arrays: groups of like elements, how their branches read the coordinates, values.

Everything here is plain NumPy and SciPy in dimensionless units. The Hamiltonian evaluates these arrays with JAX; the
legality rules and the linear analysis read them directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from circuits.lowering import Lowered
from circuits.netlist import Netlist, coupling_unit
from circuits.reduce import Coordinates
from circuits.scaling import UnitSystem, choose_units
from devices import ELEMENTS, PHOTONIC, SPIN, Domain, Drive, Element, Values

Theta = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Group:
    """Elements of one type: names, their parameters' keys in theta, and the constants of their energy."""

    kind: type[Element]
    names: tuple[str, ...]
    constants: Mapping[str, float]
    loans: Mapping[str, Loan]

    def key(self, parameter: str) -> str:
        """Key of a parameter of this group in theta."""
        return f"{self.kind.type}.{parameter}"

    def values(self, theta: Mapping[str, Any], fit: Callable[[Any], Any] = lambda x: x) -> Values:
        """Parameters, constants and loans by name, as the element's energy takes them; `fit` shapes each parameter."""
        own = {name: fit(theta[self.key(name)]) for name in self.kind.parameters}
        borrowed = {name: loan.value(theta, fit) for name, loan in self.loans.items()}
        return Values(**own, **self.constants, **borrowed)


@dataclass(frozen=True, eq=False)
class Loan:
    """What the elements of one group take from those of another: see `Element.borrows`."""

    lender: Group
    wanted: str
    places: NDArray[np.intp]
    """Which element of the lender, for every one that borrows."""

    def value(self, theta: Mapping[str, Any], fit: Callable[[Any], Any]) -> Any:
        """(count, …) as the borrower takes it."""
        return self.lender.kind.lent(self.lender.values(theta, fit), self.wanted)[self.places]


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
    weight: float
    """Factor between the waveform's function and the input, in SI."""
    parity: int
    """−1: it enters the kinetic energy, and is sign-inverted in the echo."""

    @property
    def reach(self) -> float:
        """Dimensionless input per unit (SI) of the drive's waveform, where it is proportional to that."""
        return abs(self.weight) / self.scale


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
    """Per type with a kinetic energy of momenta: rows that read the dynamic momenta, as in `branch`."""
    turning: Mapping[str, NDArray[np.intp]]
    """Per type with a rotation: the dynamic coordinate that each element turns."""
    loss: Mapping[str, sp.csr_array]
    """Per type with conductance: branch rows."""
    injection: sp.csr_array
    """(coordinate, input): force per input."""
    momentum_injection: sp.csr_array
    """(dynamic coordinate, input): velocity per input."""
    rotating: NDArray[np.bool_]
    """Which dynamic coordinates are in a rotating frame; there both quadratures have the same matrix."""

    @cached_property
    def readout(self) -> sp.csr_array:
        """(node, coordinate): positions of nodes in the units in which they are read."""
        sizes = [self.units.scale(d.position_unit) / self.units.position(d) for d in self._domains]
        return (sp.diags_array(sizes) @ self.coordinates.W @ sp.diags_array(self.factors)).tocsr()

    @cached_property
    def momentum_readout(self) -> sp.csr_array:
        """(node, dynamic coordinate): the same of momenta."""
        sizes = [self.units.scale(d.momentum_unit) / self.units.momentum(d) for d in self._domains]
        factors = 1 / self.factors[: len(self.coordinates.dynamic)]
        return (sp.diags_array(sizes) @ self.coordinates.momenta @ sp.diags_array(factors)).tocsr()

    @property
    def _domains(self) -> list[Domain]:
        return [self.netlist.domains[n] for n in self.coordinates.nodes]

    @cached_property
    def direct(self) -> NDArray[np.bool_]:
        """Which dynamic coordinates have a kinetic energy of momenta, and not one through the inertia matrix."""
        found = np.zeros(len(self.coordinates.dynamic), bool)
        for rows in self.momentum.values():
            found[rows.indices] = True
        return found

    @property
    def quadratic(self) -> NDArray[np.intp]:
        """Dynamic coordinates whose kinetic energy goes through the inertia matrix."""
        return np.flatnonzero(~self.direct)


def assemble(lowered: Lowered, coordinates: Coordinates) -> Assembly:
    """Arrays of a netlist in coordinates that `reduce` found."""
    netlist = lowered.netlist
    units = choose_units(netlist)
    by_type: dict[str, list[Element]] = {}
    for part in netlist.elements:
        by_type.setdefault(part.type, []).append(part)

    groups, theta, entries = {}, {}, []
    for name, parts in by_type.items():
        kind = ELEMENTS[name]
        constants = {k: v / units.scale(u) for k, (v, u) in kind.constants.items()}
        groups[name] = Group(kind, tuple(p.name for p in parts), constants, {})
        for parameter in kind.parameters:
            made = [_entry(netlist, units, part, parameter, i) for i, part in enumerate(parts)]
            entries += made
            theta[f"{name}.{parameter}"] = np.array(
                [getattr(p, parameter) / e.scale for p, e in zip(parts, made, strict=True)]
            )

    for name, parts in by_type.items():
        if ELEMENTS[name].borrows:
            groups[name] = replace(groups[name], loans=_loans(netlist, groups, parts))

    inputs = tuple(
        Input(d, c.function, c.unit, units.scale(c.unit), weight, c.parity)
        for d in netlist.drives
        for c, weight in zip(d.channels, d.weights, strict=True)
    )
    reader = _Reader(netlist, coordinates, inputs)
    branch, branch_inputs, inertia, lift, loss, momentum, turning = {}, {}, {}, {}, {}, {}, {}
    for name, parts in by_type.items():
        kind = ELEMENTS[name]
        if kind.potential is not None:
            branch[name] = reader.rows(parts, kind.branches)
            branch_inputs[name] = reader.held(parts, kind.branches, "integral") + reader.threads(
                parts, len(kind.branches)
            )
        if kind.kinetic is not None:
            momentum[name] = reader.rows(parts, kind.momentum_branches or kind.branches)
        elif kind.inertia is not None:
            inertia[name] = reader.rows(parts, kind.branches)
            lift[name] = reader.held(parts, kind.branches, "slope")
        if kind.conductance is not None and any(part.lossy for part in parts):
            loss[name] = reader.rows(parts, kind.branches)
        if kind.rotation is not None:
            turning[name] = reader.rows(parts, ((1,),)).indices.astype(np.intp)

    factors = _factors(coordinates, groups, theta, branch, inertia, momentum, reader.aspects(groups, theta))
    scaled = sp.diags_array(factors)
    dynamic = slice(0, len(coordinates.dynamic))
    # Momenta scale inversely to positions, so that their product keeps the unit of action.
    unscaled = sp.diags_array(1 / factors[dynamic])
    injection, momentum_injection = scaled @ reader.injection(1), unscaled @ reader.injection(-1)[dynamic]
    # Pure numbers cannot be scaled by a unit: there the inputs are, so that one of them is a unit force.
    reach = np.asarray(abs(injection).sum(axis=0) + abs(momentum_injection).sum(axis=0))
    free = np.array([item.drive.domain in (PHOTONIC, SPIN) for item in inputs], bool) & (reach > 0)
    sizes = 1 / np.where(free, reach, 1.0)
    inputs = tuple(replace(item, scale=item.scale * float(size)) for item, size in zip(inputs, sizes, strict=True))
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
        injection=(injection @ sp.diags_array(sizes)).tocsr(),
        momentum_injection=(momentum_injection @ sp.diags_array(sizes)).tocsr(),
        turning=turning,
        rotating=np.array([n in lowered.rotating for n in coordinates.dynamic]),
    )


def inertia_matrix(assembly: Assembly) -> sp.csr_array:
    """Inertia matrix over all coordinates; rows and columns of those that have none of their own are zero."""
    n = len(assembly.factors)
    total = sp.csr_array((n, n))
    for name, rows in assembly.inertia.items():
        weights = inertias(assembly.groups[name], assembly.theta)
        total = total + rows.T @ sp.diags_array(weights) @ rows
    return total.tocsr()


def inertias(group: Group, theta: Theta) -> NDArray[np.float64]:
    """Inertia of every element of a group."""
    return np.asarray(group.kind.inertia(group.values(theta)))


def spread(law: Callable[[Values], tuple[Any, ...]], group: Group, theta: Theta) -> list[NDArray[np.float64]]:
    """One coefficient per branch and element, from a law such as `stiffness`."""
    return [np.broadcast_to(np.asarray(x, float), (len(group.names),)) for x in law(group.values(theta))]


def _loans(netlist: Netlist, groups: Mapping[str, Group], parts: list[Element]) -> dict[str, Loan]:
    loans = {}
    for name, (_, wanted) in parts[0].borrows.items():
        lenders = [netlist.lender(part, name) for part in parts]
        group = groups[next(e.type for e in lenders if e is not None)]
        place = {n: i for i, n in enumerate(group.names)}
        loans[name] = Loan(group, wanted, np.array([place[e.name] for e in lenders if e is not None], np.intp))
    return loans


def _entry(netlist: Netlist, units: UnitSystem, part: Element, parameter: str, index: int) -> Entry:
    info = part.parameters[parameter]
    if info.unit is not None:
        unit, scale = info.unit, units.scale(info.unit)
    else:
        ends = [netlist.domains[n].position_unit for n in netlist.terminals_of(part)]
        unit = coupling_unit(ends)
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
                matrix[row[wanted[0]] + item.drive.row * len(parts), i] = 1.0 if item.drive.row else -1.0
        return matrix.tocsr()

    def aspects(self, groups: Mapping[str, Group], theta: Theta) -> dict[int, float]:
        """Momentum over position on a circular orbit, by node."""
        index = {n: i for i, n in enumerate(self.coordinates.nodes)}
        found = {}
        for group in groups.values():
            if group.kind.aspect is not None:
                sizes = np.broadcast_to(group.kind.aspect(group.values(theta)), (len(group.names),))
                for name, size in zip(group.names, sizes, strict=True):
                    found[index[self.netlist.terminals_of(self.netlist.by_name[name])[0]]] = float(size)
        return found

    def injection(self, parity: int) -> sp.csr_array:
        index = {n: i for i, n in enumerate(self.coordinates.nodes)}
        matrix = sp.lil_array((len(index), len(self.inputs)))
        for i, item in enumerate(self.inputs):
            if item.drive.action == "inject" and item.parity == parity:
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
    aspects: Mapping[int, float],
) -> NDArray[np.float64]:
    """Factor per coordinate that makes its inertia one, its orbits circles, or, if massless, its stiffness one."""
    size = np.zeros(sum(coordinates.counts))
    for name, rows in inertia.items():
        size += rows.power(2).T @ inertias(groups[name], theta)
    dynamic, massless, _ = coordinates.counts
    soft = slice(dynamic, dynamic + massless)
    for name, rows in branch.items():
        weights = np.abs(np.concatenate(spread(groups[name].kind.stiffness, groups[name], theta)))
        size[soft] += (rows.power(2).T @ weights)[soft]
    mobility = np.zeros(dynamic)
    for name, rows in momentum.items():
        weights = np.abs(np.concatenate(spread(groups[name].kind.mobility, groups[name], theta)))
        mobility += (rows.power(2).T @ weights)[:dynamic]
    with np.errstate(divide="ignore"):
        size[:dynamic] = np.where(mobility > 0, 1 / mobility, size[:dynamic])
    # Nodes with a body are coordinates of their own: no other column of W reads them.
    column = coordinates.W.tocsr().indices
    for node, aspect in aspects.items():
        size[column[coordinates.W.indptr[node]]] = aspect
    return np.where(size > 0, 1 / np.sqrt(np.where(size > 0, size, 1.0)), 1.0)
