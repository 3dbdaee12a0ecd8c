"""Netlists to and from NetworkX multigraphs: a node per circuit node, an edge per element."""

from __future__ import annotations

import networkx as nx

from circuits.findings import DesignError, error
from circuits.netlist import Netlist


def to_graph(netlist: Netlist) -> nx.MultiGraph:
    """Multigraph of a netlist.

    Nodes carry their `domain`. An element with one terminal is an edge to ground, one with two an edge between them;
    edges are keyed by element name and carry the `element`. Elements that join other elements, or more than two
    nodes, are listed in the graph's attribute `others`. Drives, probes and the rest are attributes too.
    """
    graph = nx.MultiGraph(
        name=netlist.name,
        ground=netlist.ground,
        drives=netlist.drives,
        detectors=netlist.detectors,
        probes=netlist.probes,
        targets=netlist.targets,
        initial=netlist.initial,
        clock=netlist.clock,
        settings=netlist.settings,
        order=tuple(e.name for e in netlist.elements),
    )
    graph.add_node(netlist.ground, domain=None)
    graph.add_nodes_from((node, {"domain": netlist.domains[node].name}) for node in netlist.nodes)
    others = []
    for part in netlist.elements:
        ends = netlist.terminals_of(part)
        if 1 <= len(ends) <= 2:
            graph.add_edge(ends[0], ends[1] if len(ends) == 2 else netlist.ground, key=part.name, element=part)
        else:
            others.append(part)
    graph.graph["others"] = tuple(others)
    return graph


def from_graph(graph: nx.MultiGraph) -> Netlist:
    """Netlist of a multigraph in the manner of `to_graph`. Only the elements on the edges are required."""
    given = graph.graph
    try:
        elements = [data["element"] for *_, data in graph.edges(data=True)]
    except KeyError:
        raise DesignError(
            [error("graph", "an edge has no attribute `element`", "give every edge its element")]
        ) from None
    elements += given.get("others", ())
    rank = {name: i for i, name in enumerate(given.get("order", ()))}
    elements.sort(key=lambda e: rank.get(e.name, len(rank)))
    fields = ("drives", "detectors", "probes", "targets", "ground", "initial", "clock", "settings")
    keep = {k: given[k] for k in fields if k in given}
    return Netlist(given.get("name") or "graph", elements, **keep)
