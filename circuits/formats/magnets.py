"""Where the magnets of a spintronic design stand, in what state they start, and which fields they feel."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from circuits.findings import DesignError, Finding, error
from circuits.formats.placement import on_grid
from circuits.netlist import Netlist
from devices import (
    ArgumentError,
    Constant,
    CoreForceDrive,
    Element,
    Exchange,
    FieldDrive,
    FieldLine,
    Macrospin,
    Magnetoresistive,
    MagnonMode,
    PillarCoupler,
    Points,
    Sine,
    Vortex,
    refuse_unless_positive,
)

SPINS, DISCS = (Macrospin, MagnonMode), (Vortex,)
MOST = 255
"""Regions that mumax3 has, beside the first."""
_REMEDIES = {
    "dipole": "use `exchange`; with its stray fields mumax3 would couple every pair, not this one alone",
    "skyrmion": "simulate it from its exchange, anisotropy and DMI, which its spring constant does not tell",
    "torque": "use a `field` drive",
    "pulse": "sample it as `Points`",
}


@dataclass(frozen=True)
class Material:
    """What micromagnetics needs and the elements do not tell. All defaults are assumptions, none is measured."""

    exchange: float = 13e-12
    """Exchange stiffness of vortex discs in J/m; assumed, order of magnitude of permalloy."""
    core: float = 10e-9
    """Radius in m of a vortex core; assumed."""
    cell: float = 5e-9
    """Edge of the mesh in the plane in m, at most the exchange length; assumed."""

    def __post_init__(self) -> None:
        refuse_unless_positive(**asdict(self))
        if self.cell > self.core:
            raise ArgumentError("Argument `cell` must be at most `core`, but is not: the mesh would miss the core")

    def gilbert(self, disc: Vortex) -> float:
        """Gilbert damping of a disc from the damping d = α(1 + ½·ln R/R_c) of its gyration."""
        return float(disc.damping) / (1 + max(math.log(disc.radius / self.core), 0.0) / 2)


@dataclass(frozen=True)
class Field:
    """A field (T) by its components as text in t, constant or not."""

    x: str
    y: str


def refuse(netlist: Netlist) -> None:
    """`DesignError` that names whatever mumax3 cannot express."""
    if findings := [*_kinds(netlist), *_mixture(netlist)]:
        raise DesignError(findings)


def _kinds(netlist: Netlist) -> Iterator[Finding]:
    known = (*SPINS, *DISCS, Exchange, FieldLine, PillarCoupler, FieldDrive, CoreForceDrive, Magnetoresistive)
    for part in (*netlist.elements, *netlist.drives, *netlist.detectors):
        if not isinstance(part, known):
            remedy = _REMEDIES.get(part.type, "remove it from the part that is simulated there")
            yield error(part.name, f"mumax3 has nothing for a {part.type}", remedy)
    for drive in netlist.drives:
        if drive.waveform is not None and not isinstance(drive.waveform, (Constant, Sine, Points)):
            yield error(drive.name, f"mumax3 has no {drive.waveform.type} waveform", _REMEDIES["pulse"])


def _mixture(netlist: Netlist) -> Iterator[Finding]:
    """One script has one mesh, one gyromagnetic ratio and 255 regions."""
    bodies = [e for e in netlist.elements if isinstance(e, (*SPINS, *DISCS))]
    for body in bodies:
        if isinstance(body, SPINS) != isinstance(bodies[0], SPINS):
            yield error(body.name, f"needs another mesh than {bodies[0].name}", "export macrospins and vortices apart")
        elif body.values["gyromagnetic_ratio"] != bodies[0].values["gyromagnetic_ratio"]:
            yield error(body.name, f"has another gyromagnetic ratio than {bodies[0].name}", "mumax3 has one for all")
        elif isinstance(body, Vortex) and body.thickness != bodies[0].values["thickness"]:
            yield error(body.name, f"is not as thick as {bodies[0].name}", "use one thickness: the mesh has one layer")
    for body in bodies[MOST:]:
        yield error(
            body.name, f"is one of more than {MOST} magnets, which mumax3 cannot tell apart", "split the design"
        )


# Places -----------------------------------------------------------------------------------------------------------


def grid_of_spins(netlist: Netlist) -> dict[str, tuple[int, int]]:
    """Cell of every macrospin: those joined by exchange are next to each other."""
    bonds = [e for e in netlist.elements if isinstance(e, Exchange)]
    graph = nx.Graph()
    graph.add_nodes_from(e.node for e in netlist.elements if isinstance(e, SPINS))
    seen: dict[frozenset[str], str] = {}
    for bond in bonds:
        first = seen.setdefault(frozenset((bond.a, bond.b)), bond.name)
        if first != bond.name:
            reason = f"couples the magnets that {first} couples already"
            raise DesignError([error(bond.name, reason, "keep one, with the sum of the energies")])
        graph.add_edge(bond.a, bond.b)
    places = on_grid(graph, apart=False)
    if places is None:
        crowded = max(bonds, key=lambda e: graph.degree[e.a] + graph.degree[e.b])
        reason = "no square grid has all coupled magnets next to each other, as exchange in mumax3 needs them"
        raise DesignError([error(crowded.name, reason, "couple magnets along chains, trees or square lattices")])
    return places


def rows_of_discs(netlist: Netlist, material: Material) -> tuple[dict[str, tuple[float, float]], dict[str, int]]:
    """Centres (m) and circulations of vortex discs: coupled ones in a row along x, rows far apart.

    The coupling η(X₁X₂ − 2Y₁Y₂) is that of discs side by side along x. Where the product of two chiralities is −1, the
    circulation changes.
    """
    graph = nx.Graph()
    discs = {e.node: e for e in netlist.elements if isinstance(e, Vortex)}
    graph.add_nodes_from(discs)
    for part in netlist.elements:
        if isinstance(part, PillarCoupler):
            if graph.has_edge(part.a, part.b) or max(graph.degree[part.a], graph.degree[part.b]) == 2:
                reason = "its discs cannot all stand in one row along x, for which the coupling holds"
                raise DesignError([error(part.name, reason, "couple pillars along chains")])
            if part.distance < discs[part.a].radius + discs[part.b].radius + 2 * material.cell:
                remedy = "make `distance` larger than the sum of radii by two cells"
                raise DesignError([error(part.name, "its discs touch", remedy)])
            graph.add_edge(part.a, part.b, part=part)
    places: dict[str, tuple[float, float]] = {}
    turns: dict[str, int] = {}
    spacing = 10 * max((d.radius for d in discs.values()), default=0.0)
    for row, component in enumerate(nx.connected_components(graph)):
        ends = [n for n in component if graph.degree[n] < 2]
        if not ends:
            name = next(iter(graph.subgraph(component).edges(data="part")))[2].name
            raise DesignError([error(name, "closes a loop of discs, which cannot stand in one row", "open the loop")])
        start = min(ends, key=list(discs).index)
        places[start], turns[start] = (0.0, row * spacing), 1
        for a, b in nx.bfs_edges(graph, start):
            part = graph[a][b]["part"]
            places[b] = (places[a][0] + part.distance, places[a][1])
            turns[b] = turns[a] * int(part.chirality)
    return places, turns


# State and fields -------------------------------------------------------------------------------------------------


def start(netlist: Netlist) -> tuple[dict[str, float], dict[str, float], float]:
    """Positions and momenta by node in SI at the start, and how long the netlist's clock runs (s)."""
    design = netlist.compile()
    assembly = design.assembly
    q = np.asarray(design.modes.rest)
    nodes = assembly.coordinates.nodes
    rest = dict(zip(nodes, assembly.coordinates.W @ (assembly.factors * _filled(q, len(nodes))), strict=True))
    units = {n: assembly.units.scale(netlist.domains[n].position_unit) for n in nodes}
    given = netlist.initial.positions
    positions = {n: float(given.get(n, 0.0) if given else rest[n] * units[n]) for n in netlist.nodes}
    return positions, dict(netlist.initial.momenta), design.step_s * design.steps


def _filled(values: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    return np.concatenate([values, np.zeros(count - len(values))])


def fields(netlist: Netlist, circulations: dict[str, int]) -> dict[str, Field]:
    """Field at every node that feels one: static ones, and those of drives by their waveforms."""
    terms: dict[str, list[tuple[float, float, str]]] = {}
    for part in netlist.elements:
        if isinstance(part, Macrospin) and part.field != 0:
            push = (part.field * math.cos(part.field_angle), part.field * math.sin(part.field_angle), "1")
            terms.setdefault(part.node, []).append(push)
        elif isinstance(part, MagnonMode):
            terms.setdefault(part.node, []).append((part.field, 0.0, "1"))
    for drive in netlist.drives:
        if drive.waveform is None:
            continue
        if isinstance(drive, FieldDrive):
            line = netlist.by_name[drive.element]
            assert isinstance(line, FieldLine)
            node, unit = line.node, (math.cos(line.angle), math.sin(line.angle))
        else:
            (node,) = netlist.terminals_of(drive)
            disc = next(e for e in netlist.elements if isinstance(e, Vortex) and e.node == node)
            # A core at X leaves the moment −σX along y where the circulation is counterclockwise.
            unit = (0.0, -circulations[node] / float(Vortex.moment(disc.numbers)))
        terms.setdefault(node, []).append((*unit, _in_time(drive.waveform)))
    return {
        n: Field(_sum([(x, wave) for x, _, wave in given]), _sum([(y, wave) for _, y, wave in given]))
        for n, given in terms.items()
    }


def _sum(terms: list[tuple[float, str]]) -> str:
    shown = [f"{k!r}" if wave == "1" else f"{k!r}*({wave})" for k, wave in terms if k != 0]
    return " + ".join(shown) or "0"


def _in_time(wave: object) -> str:
    """A waveform as an expression in t."""
    match wave:
        case Constant():
            return repr(wave.level)
        case Sine():
            return (
                f"{wave.offset!r} + {wave.amplitude!r}*sin({2 * math.pi * wave.frequency!r}*max(t - {wave.delay!r}, 0))"
            )
        case Points():
            slopes = np.diff(wave.values) / np.diff(wave.times)
            kinks = np.diff([0.0, *slopes, 0.0])
            ramps = [f"{float(k)!r}*max(t - {at!r}, 0)" for at, k in zip(wave.times, kinks, strict=True) if k != 0]
            return " + ".join([repr(wave.values[0]), *ramps])
    raise AssertionError(wave)


def bodies(netlist: Netlist) -> list[Element]:
    """The magnets, in the order of their regions."""
    return [e for e in netlist.elements if isinstance(e, (*SPINS, *DISCS))]
