"""Which coordinates a circuit really has.

Node fluxes and displacements x are too many where the energy does not care: a set of nodes tied to the rest only by
springs has no inertia of its own (*massless*, its position follows from the balance of forces), and a set tied to the
rest only by masses feels no force (*cyclic*, its momentum stays zero). Both sets follow from the graph alone, and so
does a change of coordinates x = W·c that sets them apart: docs/physics.md, section 2.4.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx
import numpy as np
import scipy.linalg as la
import scipy.sparse as sp

from circuits.findings import Finding, error, note
from circuits.netlist import Netlist

_FIXED = object()
"""Stands for ground and for nodes that a source holds."""


@dataclass(frozen=True)
class Coordinates:
    """The change of coordinates x = W·c; columns of W are dynamic, then massless, then cyclic."""

    nodes: tuple[str, ...]
    """Nodes with a position of their own: neither ground nor held by a source."""
    dynamic: tuple[str, ...]
    """Nodes that name the coordinates that move."""
    massless: tuple[tuple[str, ...], ...]
    """Sets of nodes whose common position the forces fix."""
    cyclic: tuple[tuple[str, ...], ...]
    """Sets of nodes whose common momentum stays zero."""
    W: sp.csr_array

    @property
    def momenta(self) -> sp.csr_array:
        """Node momenta of the dynamic ones, the first columns of W⁻ᵀ: every loose set has none in all."""
        size = len(self.dynamic)
        place = {n: i for i, n in enumerate(self.nodes)}
        kept = [place[n] for n in self.dynamic]
        given_up = np.setdiff1d(np.arange(len(self.nodes)), kept)
        rows = [sp.csr_array((np.ones(size), (kept, range(size))), shape=(len(self.nodes), size))]
        if len(given_up):
            sets = self.W[:, size:].T.tocsr()
            balance = la.solve(sets[:, given_up].toarray(), -sets[:, kept].toarray())
            spread = sp.csr_array(
                (np.ones(len(given_up)), (given_up, range(len(given_up)))), shape=(len(self.nodes), len(given_up))
            )
            rows.append(spread @ sp.csr_array(balance))
        return sum(rows[1:], rows[0]).tocsr()

    @property
    def counts(self) -> tuple[int, int, int]:
        """Numbers of dynamic, massless and cyclic coordinates."""
        return len(self.dynamic), len(self.massless), len(self.cyclic)


def reduce(netlist: Netlist) -> tuple[Coordinates | None, list[Finding]]:
    """Coordinates of a netlist, or the findings that say why there are none."""
    fixed = {netlist.ground, *netlist.held}
    nodes = tuple(n for n in netlist.nodes if n not in fixed)
    inertial, elastic = _graphs(netlist, nodes, fixed)

    findings = list(_floating(netlist, nodes, inertial, elastic))
    if findings:
        return None, findings

    massless = _loose_sets(inertial)
    driven = _driven(netlist, fixed)
    cyclic: list[tuple[str, ...]] = []
    free: list[tuple[str, ...]] = []
    for group in _loose_sets(elastic):
        (free if any(set(group) & nodes_driven != set() for nodes_driven in driven) else cyclic).append(group)
    for group in free:
        findings.append(
            note(
                f"node {group[0]}",
                _names(group) + " can move without a restoring force and is kept: "
                "its position grows with the net momentum it receives",
            )
        )
    dropped = _references(nodes, massless, cyclic)
    dynamic = tuple(n for n in nodes if n not in dropped)
    for group in massless:
        findings.append(
            note(f"node {group[0]}", _names(group) + " has no inertia of its own: eliminated by the balance of forces")
        )
    for group in cyclic:
        findings.append(
            note(f"node {group[0]}", _names(group) + " feels no restoring force: eliminated with zero net momentum")
        )
    if not dynamic:
        findings.append(
            error(
                "design",
                "no coordinate is left that can oscillate",
                "add capacitors or masses, and inductors or springs",
            )
        )
        return None, findings
    row = {n: i for i, n in enumerate(nodes)}
    entries = [(row[n], j) for j, n in enumerate(dynamic)]
    entries += [(row[n], len(dynamic) + j) for j, group in enumerate((*massless, *cyclic)) for n in group]
    i, j = np.array(entries).T
    W = sp.csr_array((np.ones(len(entries)), (i, j)), shape=(len(nodes), len(nodes)))
    return Coordinates(nodes, dynamic, tuple(massless), tuple(cyclic), W), findings


def _graphs(netlist: Netlist, nodes: tuple[str, ...], fixed: set[str]) -> tuple[nx.Graph, nx.Graph]:
    """Graphs of what inertia joins and of what forces join, with everything fixed as one node."""
    inertial, elastic = nx.Graph(), nx.Graph()
    for graph in (inertial, elastic):
        graph.add_node(_FIXED)
        graph.add_nodes_from(nodes)
    for part in netlist.elements:
        ends = [_FIXED if n in fixed else n for n in netlist.terminals_of(part)]
        if part.inertia is not None:
            inertial.add_edge(ends[0], ends[1] if len(ends) == 2 else _FIXED)
        if part.kinetic is not None:
            inertial.add_edges_from((end, _FIXED) for end in ends)
        if part.potential is not None:
            if all(sum(row) == 0 for row in part.branches):
                nx.add_path(elastic, ends)
            else:
                elastic.add_edges_from((end, _FIXED) for end in ends)
    return inertial, elastic


def _loose_sets(graph: nx.Graph) -> list[tuple[str, ...]]:
    """Connected sets that are not tied to anything fixed, in a stable order."""
    order = {n: i for i, n in enumerate(graph)}
    sets = (tuple(sorted(c, key=order.__getitem__)) for c in nx.connected_components(graph) if _FIXED not in c)
    return sorted(sets, key=lambda group: order[group[0]])


def _floating(netlist: Netlist, nodes: tuple[str, ...], inertial: nx.Graph, elastic: nx.Graph) -> Iterable[Finding]:
    whole = nx.compose(inertial, elastic)
    for group in _loose_sets(whole):
        yield error(
            f"node {group[0]}",
            _names(group) + " floats: no capacitor, inductor, mass or spring leads to ground",
            f'tie it to `{netlist.ground}`, or name one of its nodes as ground: ground = "{group[0]}" under [design]',
        )


def _driven(netlist: Netlist, fixed: set[str]) -> list[set[str]]:
    """Nodes by which a loose set receives net momentum, or has a kinetic energy that zero momentum does not settle."""
    driven = []
    for drive in netlist.drives:
        if drive.action == "inject":
            driven.append(set(netlist.terminals_of(drive)) - fixed)
    for part in netlist.elements:
        ends = set(netlist.terminals_of(part))
        implicit = part.lossy or part.kinetic is not None
        if implicit or (part.inertia is not None and ends & netlist.held):
            driven.append(ends - fixed)
    driven.append({*netlist.initial.momenta, *netlist.initial.velocities})
    return driven


def _references(nodes: tuple[str, ...], massless: list[tuple[str, ...]], cyclic: list[tuple[str, ...]]) -> set[str]:
    """One node per loose set whose own coordinate is given up for that of the set.

    Every node is an edge between the massless set and the cyclic set that hold it (or the root); W is invertible
    exactly if the nodes given up form a spanning tree of that graph.
    """
    member: dict[str, list[object]] = {n: [] for n in nodes}
    for kind, groups in (("massless", massless), ("cyclic", cyclic)):
        for j, group in enumerate(groups):
            for n in group:
                member[n].append((kind, j))
    graph = nx.MultiGraph()
    graph.add_node(_FIXED)
    for n, sets in member.items():
        if sets:
            graph.add_edge(sets[0], sets[1] if len(sets) == 2 else _FIXED, node=n)
    tree = nx.minimum_spanning_edges(graph, keys=True, data=True)
    return {data["node"] for *_, data in tree}


def _names(group: tuple[str, ...]) -> str:
    shown = ", ".join(group[:4]) + (f" and {len(group) - 4} more" if len(group) > 4 else "")
    return f"node {shown}" if len(group) == 1 else f"the set of nodes {shown}"
