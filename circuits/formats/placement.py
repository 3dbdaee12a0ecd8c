"""Places in a plane for what is coupled: on a square grid, or at given distances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

TRIES = 200_000
"""Places tried before a grid is given up."""
SIDES = ((1, 0), (0, 1), (-1, 0), (0, -1))

Place = tuple[int, int]
Node = Any
Vector = NDArray[np.float64]


def on_grid(graph: nx.Graph, *, apart: bool) -> dict[Node, Place] | None:
    """Whole coordinates with coupled nodes next to each other, or None where none were found.

    With `apart`, nodes that are not coupled are not next to each other either. Chains come out straight. Connected
    parts stand in rows, two lines apart.
    """
    places: dict[Node, Place] = {}
    row = 0
    for part in nx.connected_components(graph):
        found = _connected(graph.subgraph(part), apart)
        if found is None:
            return None
        left, low = (min(p[i] for p in found.values()) for i in (0, 1))
        places |= {n: (x - left, y - low + row) for n, (x, y) in found.items()}
        row = max(y for _, y in places.values()) + 3
    return places


def _connected(graph: nx.Graph, apart: bool) -> dict[Node, Place] | None:
    """Depth-first search in the order of a walk from a node of lowest degree."""
    start = min(graph, key=lambda n: (graph.degree[n], str(n)))
    order = [start, *(b for _, b in nx.bfs_edges(graph, start))]
    places: dict[Node, Place] = {start: (0, 0)}
    taken: dict[Place, Node] = {(0, 0): start}
    choices = [iter(_candidates(graph, order[1], places, taken, apart))] if len(order) > 1 else []
    tries = 0
    while choices:
        node = order[len(choices)]
        if node in places:
            del taken[places.pop(node)]
        place = next(choices[-1], None)
        tries += 1
        if tries > TRIES:
            return None
        if place is None:
            choices.pop()
            continue
        places[node], taken[place] = place, node
        if len(places) == len(order):
            return places
        choices.append(iter(_candidates(graph, order[len(choices) + 1], places, taken, apart)))
    return places if len(order) == 1 else None


def _candidates(
    graph: nx.Graph, node: Node, places: Mapping[Node, Place], taken: Mapping[Place, Node], apart: bool
) -> list[Place]:
    """Free places next to every placed neighbour, those straight ahead first."""
    friends = [n for n in graph[node] if n in places]
    x, y = places[friends[0]]
    found: list[tuple[bool, int, Place]] = []
    for dx, dy in SIDES:
        place = (x + dx, y + dy)
        around = {taken[p] for sx, sy in SIDES if (p := (place[0] + sx, place[1] + sy)) in taken}
        if place not in taken and around >= set(friends) and not (apart and around - set(friends)):
            straight = taken.get((x - dx, y - dy)) in graph[friends[0]]
            found.append((not straight, len(found), place))
    return [place for *_, place in sorted(found)]


def at_distances(start: Mapping[Node, Any], distances: Mapping[tuple[Node, Node], float]) -> dict[Node, Vector]:
    """Positions near `start` whose given pairs are at their distances, by Gauss and Newton with the least moves."""
    nodes = list(start)
    index = {n: i for i, n in enumerate(nodes)}
    points = np.array([start[n] for n in nodes], float)
    if not distances:
        return dict(zip(nodes, points, strict=True))
    first, second = (np.array([index[pair[i]] for pair in distances]) for i in (0, 1))
    wanted, rows = np.array(list(distances.values())), np.arange(len(distances))
    for _ in range(50):
        apart = points[first] - points[second]
        found = np.linalg.norm(apart, axis=1)
        if np.abs(found - wanted).max() <= 1e-12 * wanted.max():
            break
        jacobian = np.zeros((len(wanted), len(nodes), 2))
        jacobian[rows, first] = apart / found[:, None]
        jacobian[rows, second] = -apart / found[:, None]
        move = np.linalg.lstsq(jacobian.reshape(len(wanted), -1), wanted - found, rcond=1e-9)[0]
        points = points + move.reshape(points.shape)
    return dict(zip(nodes, points, strict=True))
