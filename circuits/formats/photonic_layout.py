"""The rings, couplers and buses that a photonic netlist asks for, with sizes and places in a plane.

Light goes round coupled rings in opposite senses, for where two rings touch it runs the same way in both. A loop of an
odd number of rings would therefore couple both senses of each, which is another Hamiltonian: such loops are refused.

Along a ring, every coupler sits a whole number of wavelengths from the others, as near as that comes to where the ring
touches its neighbour: the couplings are then real. A negative rate is a coupler moved by half a wavelength.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import networkx as nx
import numpy as np

from circuits.findings import DesignError, Finding, Severity, error
from circuits.formats.placement import Vector, at_distances, on_grid
from circuits.formats.waveguide import LIGHT, Waveguide, exit_power, hop_power
from circuits.lowering import lower
from circuits.netlist import Netlist
from devices import CoherentDrive, EvanescentCoupler, Homodyne, KerrRotation, PhaseShifter, Ring

DRAWN = (Ring, PhaseShifter, EvanescentCoupler, KerrRotation)
"""Elements that a layout of rings can express, once Kerr has taken its form."""
_REMEDIES = {
    "cavity": "use a `ring`, in the frame of its carrier",
    "kerr-field": "use `kerr` on a `ring`",
    "beam-splitter": "use `evanescent` with the rate angle/(2π·duration)",
    "mach-zehnder": "use `evanescent` and `phase-shifter` with its rates",
}


@dataclass(frozen=True)
class Stop:
    """Where a ring meets a coupler or its bus: half wavelengths from azimuth 0 along the light."""

    part: str
    halves: int


@dataclass(frozen=True)
class PlacedRing:
    """One ring; lengths in m, frequencies in Hz."""

    name: str
    node: str
    carrier: float
    frequency: float
    order: int
    length: float
    loss: float
    """dB/cm."""
    x: float = 0.0
    y: float = 0.0
    sense: int = 1
    """+1: light goes round counterclockwise."""
    stops: tuple[Stop, ...] = ()

    @property
    def radius(self) -> float:
        """Of the middle of the guide."""
        return self.length / (2 * math.pi)

    @property
    def arcs(self) -> tuple[tuple[Stop, Stop, float], ...]:
        """From stop to stop along the light, with the length in between."""
        if not self.stops:
            return ()
        turn = 2 * self.order
        around = (*self.stops, replace(self.stops[0], halves=self.stops[0].halves + turn))
        return tuple((a, b, self.length * (b.halves - a.halves) / turn) for a, b in pairwise(around))


@dataclass(frozen=True)
class PlacedCoupler:
    """Two rings that touch, with power coupling and gap (m)."""

    name: str
    a: str
    b: str
    rate: float
    """J/2π in Hz, with its sign."""
    power: float
    gap: float


@dataclass(frozen=True)
class PlacedBus:
    """Bus at a ring; it meets the ring at an azimuth, in the outward direction."""

    name: str
    node: str
    power: float
    gap: float
    azimuth: float
    assumed: bool
    """Whether the netlist states no external Q, and the coupling is the guide's tap."""


@dataclass(frozen=True)
class Layout:
    """Rings by node, couplers and buses."""

    rings: dict[str, PlacedRing]
    couplers: tuple[PlacedCoupler, ...]
    buses: tuple[PlacedBus, ...]
    guide: Waveguide


def lay_out(netlist: Netlist, guide: Waveguide) -> Layout:
    """Sizes and places of a photonic netlist, or `DesignError` with what cannot be drawn."""
    net = drawable(netlist)
    rings = {r.node: r for r in _sized(net, guide)}
    couplers, buses = _couplers(net, rings, guide), _buses(net, rings, guide)
    graph = nx.Graph()
    graph.add_nodes_from(rings)
    graph.add_edges_from((c.a, c.b) for c in couplers)
    _refuse(_unpaired(graph, couplers))
    rings = _placed(graph, rings, couplers, guide)
    buses = tuple(_with_sides(buses, rings, guide))
    return Layout(_stopped(rings, couplers, buses), couplers, buses, guide)


def drawable(netlist: Netlist) -> Netlist:
    """The netlist with its choices made, or `DesignError` that names whatever is no ring, coupler or light."""
    known = (*DRAWN, CoherentDrive, Homodyne)
    found: list[Finding] = [
        error(p.name, f"a layout of rings has nothing for a {p.type}", _REMEDIES.get(p.type, "remove it from the part"))
        for p in (*netlist.elements, *netlist.drives, *netlist.detectors)
        if not isinstance(p, known) and p.type != "kerr"
    ]
    _refuse(found)
    lowered, findings = lower(netlist)
    _refuse([f for f in findings if f.severity is Severity.ERROR])
    assert lowered is not None
    return lowered.netlist


def _refuse(found: list[Finding] | Iterator[Finding]) -> None:
    if findings := list(found):
        raise DesignError(findings)


# Sizes ------------------------------------------------------------------------------------------------------------


def _sized(net: Netlist, guide: Waveguide) -> Iterator[PlacedRing]:
    shifts: Counter[str] = Counter()
    for part in net.elements:
        if isinstance(part, PhaseShifter):
            shifts[part.node] += part.shift
    for part in net.elements:
        if isinstance(part, Ring):
            frequency = part.carrier + part.detuning + shifts[part.node]
            order = guide.order(part.carrier)
            if abs(order * LIGHT / (guide.index * part.carrier) / (2 * math.pi * guide.radius) - 1) > 0.5:
                reason = "has a carrier whose wavelength does not fit into a ring of the guide's radius"
                _refuse([error(part.name, reason, "give a waveguide with a larger `radius`")])
            loss = guide.loss(2 * math.pi * frequency / part.intrinsic_q)
            length = guide.length(order, frequency, part.carrier)
            yield PlacedRing(part.name, part.node, part.carrier, frequency, order, length, loss)


def _couplers(net: Netlist, rings: dict[str, PlacedRing], guide: Waveguide) -> tuple[PlacedCoupler, ...]:
    made, findings = [], []
    for part in net.elements:
        if not isinstance(part, EvanescentCoupler):
            continue
        ends = [rings[n] for n in net.terminals_of(part)]
        time = math.prod(guide.round_trip(r.length) for r in ends) ** 0.5
        rate = part.rate * math.cos(part.phase)
        power = hop_power(2 * math.pi * rate, time) if abs(rate) * time < 1 / 4 else 1.0
        gap = guide.gap(power, ends[0].carrier) if power > 0 else math.inf
        if not 0 < gap < math.inf:
            findings.append(
                error(part.name, "its rate needs a gap that is no gap", "use smaller rings, or a rate that is not 0")
            )
        made.append(PlacedCoupler(part.name, part.a, part.b, rate, power, gap))
    _refuse(findings)
    return tuple(made)


def _buses(net: Netlist, rings: dict[str, PlacedRing], guide: Waveguide) -> tuple[PlacedBus, ...]:
    lit = {n for p in (*net.drives, *net.detectors) for n in net.terminals_of(p)}
    made, findings = [], []
    for part in net.elements:
        if isinstance(part, Ring) and (part.node in lit or math.isfinite(part.external_q)):
            ring = rings[part.node]
            assumed = math.isinf(part.external_q)
            rate = 2 * math.pi * ring.frequency / part.external_q
            power = guide.tap if assumed else exit_power(rate, guide.round_trip(ring.length))
            gap = guide.gap(power, ring.carrier)
            if gap <= 0:
                findings.append(error(part.name, "its external Q needs a gap below zero", "raise `external_q`"))
            made.append(PlacedBus(f"bus {part.node}", part.node, power, gap, 0.0, assumed))
    _refuse(findings)
    if not made:
        _refuse([error("design", "no light gets in or out", "add a drive, a detector or an `external_q`")])
    return tuple(made)


def _unpaired(graph: nx.Graph, couplers: tuple[PlacedCoupler, ...]) -> Iterator[Finding]:
    seen: dict[frozenset[str], str] = {}
    for c in couplers:
        first = seen.setdefault(frozenset((c.a, c.b)), c.name)
        if first != c.name:
            yield error(
                c.name, f"couples the rings that {first} couples already", "keep one, with the sum of the rates"
            )
    if not nx.is_bipartite(graph):
        for part in nx.connected_components(graph):
            if not nx.is_bipartite(graph.subgraph(part)):
                loop = min((c for c in nx.minimum_cycle_basis(graph.subgraph(part)) if len(c) % 2), key=len)
                name = next(c.name for c in couplers if {c.a, c.b} <= set(loop))
                reason = f"the rings {', '.join(loop)} form an odd loop, which would couple both senses of circulation"
                yield error(name, reason, "couple rings in loops of even length")


# Places -----------------------------------------------------------------------------------------------------------


def _placed(
    graph: nx.Graph, rings: dict[str, PlacedRing], couplers: tuple[PlacedCoupler, ...], guide: Waveguide
) -> dict[str, PlacedRing]:
    """Rings where coupled ones are at their gap, and others well apart."""
    distances = {(c.a, c.b): rings[c.a].radius + rings[c.b].radius + guide.width + c.gap for c in couplers}
    pitch = max(distances.values(), default=4 * max(r.radius for r in rings.values()))
    grid = on_grid(graph, apart=True)
    start = {n: np.array(p, float) for n, p in (grid or nx.kamada_kawai_layout(graph)).items()}
    unit = 1.0 if grid else np.mean([math.dist(start[a], start[b]) for a, b in graph.edges])
    points = at_distances({n: p * (pitch / unit) for n, p in start.items()}, distances)
    findings = []
    for i, a in enumerate(rings):
        for b in list(rings)[i + 1 :]:
            space = math.dist(points[a], points[b]) - rings[a].radius - rings[b].radius - guide.width
            gap = next((c.gap for c in couplers if {c.a, c.b} == {a, b}), None)
            if gap is None and space < guide.clearance:
                findings.append(
                    error(rings[a].name, f"is too close to {rings[b].name}, to which it is not coupled", _UNFOLD)
                )
            elif gap is not None and abs(space - gap) > 1e-11:
                name = next(c.name for c in couplers if {c.a, c.b} == {a, b})
                findings.append(error(name, "no place in a plane has its gap and those of the others", _UNFOLD))
    _refuse(findings)
    senses = {
        n: 1 - 2 * s
        for part in nx.connected_components(graph)
        for n, s in nx.bipartite.color(graph.subgraph(part)).items()
    }
    return {n: replace(r, x=float(points[n][0]), y=float(points[n][1]), sense=senses[n]) for n, r in rings.items()}


_UNFOLD = "couple rings along chains, trees of up to three branches, or square lattices"


def bus_path(ring: PlacedRing, bus: PlacedBus, guide: Waveguide, points: int = 33) -> Vector:
    """Middle of a bus (n, 2) in m: in along the outward direction, half a turn that touches the ring, and out.

    The half turn has half the ring's radius. It runs with the light of the ring where the two touch.
    """
    bend = ring.radius / 2
    apex = ring.radius + guide.width + bus.gap
    # In the frame whose x axis points outwards: light of a ring with sense +1 goes towards +y at the apex.
    turn = np.linspace(-math.pi / 2, math.pi / 2, points)
    far = apex + bend + 2 * ring.radius
    x = np.concatenate([[far], apex + bend - bend * np.cos(turn), [far]])
    y = np.concatenate([[-bend], bend * np.sin(turn), [bend]]) * ring.sense
    cos, sin = math.cos(bus.azimuth), math.sin(bus.azimuth)
    return np.column_stack([ring.x + cos * x - sin * y, ring.y + sin * x + cos * y])


def _with_sides(buses: tuple[PlacedBus, ...], rings: dict[str, PlacedRing], guide: Waveguide) -> Iterator[PlacedBus]:
    """Buses at the azimuths that keep them clearest of other rings and buses; compass directions win ties."""
    lines: list[Vector] = []
    for bus in buses:
        best, clearest, line = bus, -math.inf, np.zeros((0, 2))
        for step in (*range(0, 16, 4), *range(2, 16, 4), *range(1, 16, 2)):
            tried = replace(bus, azimuth=step * math.pi / 8)
            path = _dense(bus_path(rings[bus.node], tried, guide))
            spaces = [
                np.abs(np.hypot(*(path - (r.x, r.y)).T) - r.radius).min() for r in rings.values() if r.node != bus.node
            ]
            spaces += [np.hypot(*(path[:, None] - other).T).min() for other in lines]
            space = float(min(spaces, default=math.inf))
            if space > clearest + 1e-9:
                best, clearest, line = tried, space, path
        if clearest - guide.width < guide.clearance:
            _refuse([error(rings[bus.node].name, "has no free side for a bus", "drive and read rings at the rim")])
        lines.append(line)
        yield best


def _dense(path: Vector) -> Vector:
    """The same line with points in between."""
    return np.concatenate([np.linspace(a, b, 9) for a, b in pairwise(path)])


def _stopped(
    rings: dict[str, PlacedRing], couplers: tuple[PlacedCoupler, ...], buses: tuple[PlacedBus, ...]
) -> dict[str, PlacedRing]:
    """Rings with their stops in the order of the light."""
    stops: dict[str, list[tuple[str, float, int]]] = {n: [] for n in rings}
    for c in couplers:
        a, b = rings[c.a], rings[c.b]
        azimuth = math.atan2(b.y - a.y, b.x - a.x)
        stops[c.a].append((c.name, azimuth, int(c.rate < 0)))
        stops[c.b].append((c.name, azimuth + math.pi, 0))
    for bus in buses:
        stops[bus.node].append((bus.name, bus.azimuth, 0))
    lonely = [
        error(rings[n].name, "has no coupler and no bus", "couple it, or remove it") for n, s in stops.items() if not s
    ]
    _refuse(lonely)
    made = {}
    for node, ring in rings.items():
        places = [
            Stop(part, 2 * round(ring.sense * azimuth / (2 * math.pi) * ring.order) % (2 * ring.order) + odd)
            for part, azimuth, odd in stops[node]
        ]
        made[node] = replace(ring, stops=tuple(sorted(places, key=lambda s: s.halves)))
    return made
