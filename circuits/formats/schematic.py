"""Schematics in SVG: every element of a netlist with its symbol, name and values.

Three manners of drawing, chosen by how nodes are joined: a chain of electrical or mechanical nodes is a ladder, with
grounded elements hanging down; resonators and magnets in a chain or lattice are bodies with links between them; and
whatever else is drawn on rails, one wire across the sheet per node. Symbols of grounded elements and of branches never
share a place, so labels cannot overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from circuits.findings import DesignError, error
from circuits.formats.schematic_layouts import draw_bodies, draw_ladder, draw_rails
from circuits.formats.schematic_symbols import BODIES, LEARNS, MUTED, Canvas
from circuits.formats.wording import quantity_text, values_text
from circuits.netlist import Netlist
from devices import PHOTONIC, SPIN, TEXTURE, Constant, Drive, Element, Sine

_TOP = 64


@dataclass(frozen=True)
class Item:
    """One symbol: what it shows, and the nodes it is tied to."""

    name: str
    kind: str
    nodes: tuple[str, ...]
    """Without ground: one node for what hangs, two for what joins."""
    lines: tuple[str, ...]
    learns: bool = False
    wall: bool = False
    """Whether ground is something solid."""
    body: bool = False
    grounded: bool = True
    reversed: bool = False
    """Whether its second terminal comes first."""


@dataclass(frozen=True)
class Sheet:
    """A netlist as symbols."""

    nodes: tuple[str, ...]
    items: tuple[Item, ...]
    drives: tuple[Item, ...]
    marks: dict[str, tuple[str, ...]]
    """Targets and detectors by node."""

    def hanging(self, node: str) -> list[Item]:
        """What is tied to one node only, sources first."""
        return [i for i in (*self.drives, *self.items) if i.nodes == (node,)]

    @property
    def joining(self) -> list[Item]:
        """What joins two nodes."""
        return [i for i in (*self.items, *self.drives) if len(i.nodes) == 2]


def write(netlist: Netlist) -> str:
    """The netlist as a drawing in SVG."""
    refused = [
        error(e.name, f"a {e.type} joins more than two nodes, which is not drawn", "export as a TOML design file")
        for e in netlist.elements
        if len(e.terminals) > 2
    ]
    if refused:
        raise DesignError(refused)
    canvas = Canvas()
    canvas.text(24, 34, netlist.name, size=17, bold=True)
    sheet = _sheet(netlist)
    order = _lattice(sheet, netlist)
    if order is not None and all(any(i.body for i in sheet.hanging(n)) for n in sheet.nodes):
        bottom = draw_bodies(canvas, sheet, order, _TOP)
    elif order is not None and len(order) == 1 and not any(i.body for i in sheet.items):
        bottom = draw_ladder(canvas, sheet, order[0], _TOP)
    else:
        bottom = draw_rails(canvas, sheet, _TOP)
    for line in _notes(netlist):
        bottom += 18
        canvas.text(24, bottom, line, colour=MUTED)
    if any(i.learns for i in sheet.items):
        bottom += 18
        canvas.text(24, bottom, "Diagonal arrow: value that learning may change.", colour=LEARNS)
    return canvas.svg(netlist.name)


def _sheet(netlist: Netlist) -> Sheet:
    fed: dict[str, list[str]] = {}
    for drive in netlist.drives:
        for key in drive.references:
            fed.setdefault(getattr(drive, key), []).append(f"fed by {drive.name}")
    items = [_item(netlist, e, fed.get(e.name, ())) for e in netlist.elements if e.terminals]
    drives = [_source(netlist, d) for d in netlist.drives if d.terminals]
    marks: dict[str, tuple[str, ...]] = {}
    for target in netlist.targets:
        marks[target.node] = (*marks.get(target.node, ()), f"target {target.name}")
    for detector in netlist.detectors:
        for node in detector.nodes:
            marks[node] = (*marks.get(node, ()), f"{detector.type} {detector.name}")
    return Sheet(netlist.nodes, tuple(items), tuple(drives), marks)


def _item(netlist: Netlist, element: Element, fed: Iterable[str]) -> Item:
    ends = netlist.terminals_of(element)
    live = tuple(n for n in ends if n != netlist.ground)
    mechanical = element.domain is not None and element.domain.name == "mechanical"
    body = element.type in BODIES
    return Item(
        element.name,
        element.type,
        live,
        (element.name, *values_text(netlist, element), *fed),
        bool(element.trainable),
        wall=mechanical,
        body=body,
        grounded=len(ends) == 2 or element.type == "varactor",
        reversed=ends[0] == netlist.ground,
    )


def _source(netlist: Netlist, drive: Drive) -> Item:
    ends = netlist.terminals_of(drive)
    live = tuple(n for n in ends if n != netlist.ground)
    wave = drive.waveform
    lines = [drive.name]
    if isinstance(wave, Sine):
        amplitude, frequency = (
            quantity_text(float(x), u) for x, u in ((wave.amplitude, drive.unit), (wave.frequency, "Hz"))
        )
        lines += [f"sine {amplitude}", frequency]
    elif isinstance(wave, Constant):
        lines.append(f"{quantity_text(float(wave.level), drive.unit)} constant")
    else:
        lines.append(drive.type if wave is None else wave.type)
    kind = "voltage" if drive.type == "voltage" else "current"
    wall = drive.domain is not None and drive.domain.name == "mechanical"
    return Item(drive.name, kind, live, tuple(lines), wall=wall, reversed=ends[0] == netlist.ground)


def _notes(netlist: Netlist) -> list[str]:
    """What joins elements, not nodes."""
    return [
        f"{e.name} couples {' and '.join(str(getattr(e, key)) for key in e.references)}: "
        + ", ".join(f"{key} {value:.4g}" for key, value in e.values.items())
        for e in netlist.elements
        if not e.terminals
    ]


def _lattice(sheet: Sheet, netlist: Netlist) -> list[list[str]] | None:
    """Rows of nodes if they are strung in a chain, or joined as neighbours of a lattice that is listed row by row."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(sheet.nodes)
    graph.add_edges_from(i.nodes for i in sheet.joining)
    count = len(sheet.nodes)
    chain = _chain(graph, sheet.nodes)
    if chain is not None:
        return [chain]
    bodies = all(netlist.domains[n] in (PHOTONIC, SPIN, TEXTURE) for n in sheet.nodes)
    hung = any(not i.body and len(i.nodes) == 1 for i in sheet.items)
    if not bodies or hung or len(sheet.joining) != graph.number_of_edges():
        return None
    joined = {frozenset(edge) for edge in graph.edges}
    for columns in range(2, count // 2 + 1):
        if count % columns == 0:
            rows = [list(sheet.nodes[k : k + columns]) for k in range(0, count, columns)]
            pairs = [pair for row in rows for pair in pairwise(row)]
            pairs += [pair for above, below in pairwise(rows) for pair in zip(above, below, strict=True)]
            if {frozenset(pair) for pair in pairs} == joined:
                return rows
    return None


def _chain(graph: Any, nodes: Sequence[str]) -> list[str] | None:
    """Nodes in the order in which they are strung, if they form one chain."""
    degree = dict(graph.degree)
    ends = [n for n in nodes if degree[n] <= 1]
    if len(nodes) == 1:
        return list(nodes)
    if len(ends) != 2 or max(degree.values()) > 2 or graph.number_of_edges() != len(nodes) - 1:
        return None
    walk, before = [ends[0]], None
    while len(walk) < len(nodes):
        step = [n for n in graph[walk[-1]] if n != before]
        if len(step) != 1:
            return None
        before = walk[-1]
        walk.append(step[0])
    return walk
