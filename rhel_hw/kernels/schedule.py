"""What is stored of a step, and in which loops it is computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from re import findall
from typing import NamedTuple

import numpy as np

from rhel_hw.kernels.elements import Elements, Stored
from rhel_hw.kernels.nodes import FUNCTIONS, VIEWS, Graph, Node, Unsupported
from rhel_hw.kernels.places import Along, Place, spelled

UNROLLED = 32
"""Most rows that are written out one by one."""
SHORT = 4
"""Longest axis that is written out within a loop."""
WORTH = 3.0
"""Operations from which on a number is stored rather than computed again."""
COSTS = dict.fromkeys(FUNCTIONS, 15) | {"div": 4, "sqrt": 4, "rsqrt": 5, "pow": 30}
FREE = VIEWS - {"neg"} | {"concatenate", "dynamic_slice", "gather", "pad", "rev", "row", "scatter"}
"""Primitives that only tell where a number is."""


@dataclass(eq=False)
class Root:
    """A node whose numbers are stored, and where."""

    node: Node
    carried: list[int] = field(default_factory=list)
    """Which of the carried arrays it becomes."""
    kept: list[int] = field(default_factory=list)
    """Which of those that are kept of every step."""

    @property
    def key(self) -> tuple[int, ...]:
        """Sizes of the loops over its rows."""
        return looped(self.node.rows)


@dataclass(eq=False)
class Schedule:
    """Loops one after another, each with what it stores."""

    groups: list[tuple[tuple[int, ...], list[Root]]]
    apart: set[int]
    """Carried arrays whose new numbers are stored apart until the step is over, as the old ones are still read."""
    arrays: dict[Node, Stored]
    """Of what is stored in memory beside what is carried."""


def looped(rows: tuple[int, ...]) -> tuple[int, ...]:
    """Sizes of the loops over rows; those that are not in it are written out."""
    return () if prod(rows) <= UNROLLED else tuple(n for n in rows if n > SHORT)


def places(rows: tuple[int, ...], loops: Place) -> list[Place]:
    """Of all rows, given the indices of the loops over them."""
    if prod(rows) <= UNROLLED:
        return [tuple(map(int, p)) for p in np.ndindex(*rows)]
    written = [n for n in rows if n <= SHORT]
    found = []
    for p in np.ndindex(*written):
        short, long = iter(p), iter(loops)
        found.append(tuple(int(next(short)) if n <= SHORT else next(long) for n in rows))
    return found


def schedule(graph: Graph, elements: Callable[[dict[Node, Stored]], Elements], given: dict[Node, Stored]) -> Schedule:
    """Loops of a step; `given` are the arrays that there are before it."""
    roots = _roots(graph)
    while True:
        stored = given | {r.node: Stored("new", True, r.node.rows) for r in roots}
        asked = {r: _asked(elements(stored), [r]) for r in roots}
        groups = _grouped(roots, asked)
        again = _again(groups, elements, stored)
        if again is None:
            break
        roots = sorted([*roots, Root(again)], key=lambda r: r.node.order)
    level = {r: k for k, (_, members) in enumerate(groups) for r in members}
    apart = set()
    for r in roots:
        for k in r.carried:
            for other in roots:
                read = asked[other].places.get(graph.carries[k], set())
                if read and (
                    level[other] > level[r] or (level[other] == level[r] and not _same(read, asked[other].counters))
                ):
                    apart.add(k)
    arrays = {
        r.node: Stored(f"a{k}", True, r.node.rows)
        for k, r in enumerate(roots)
        if not r.carried and (not r.kept or _read_elsewhere(r, asked, level))
    }
    return Schedule(groups, apart, arrays)


def _roots(graph: Graph) -> list[Root]:
    """What must be stored."""
    found: dict[Node, Root] = {}
    for k, (before, after) in enumerate(zip(graph.carries, graph.carried, strict=True)):
        if before is after or not before.shape:
            continue
        if not before.lane:
            raise Unsupported("an array without lanes is carried")
        own = _own(after)
        found.setdefault(own, Root(own)).carried.append(k)
    for j, node in enumerate(graph.kept):
        if not node.lane or node.dtype.kind != "f":
            raise Unsupported("an array without lanes, or not of fractions, is kept")
        own = _own(node)
        found.setdefault(own, Root(own)).kept.append(j)
    return sorted(found.values(), key=lambda r: r.node.order)


def _own(node: Node) -> Node:
    """A node that can be stored: a copy of what is given."""
    if node.op not in ("operand", "carry", "known"):
        return node
    return Node("copy", node.shape, node.dtype, (node,), lane=node.lane, order=node.order)


class _Asked(NamedTuple):
    """What is read to compute some roots in one loop."""

    places: Mapping[Node, set[Place]]
    counters: Sequence[str]
    """Of the loops over rows."""
    ranges: Mapping[str, tuple[int, int]]
    """Of all counters, those of sums among them."""

    def turns(self, place: Place) -> int:
        """How often a place is asked for: in every turn of the loops over rows, and of sums that go along it."""
        others = set(findall(r"\bi\d+\b", " ".join(map(spelled, place)))) - {*self.counters}
        return prod(self.ranges[name][1] for name in (*self.counters, *others))


def _asked(elements: Elements, roots: list[Root]) -> _Asked:
    with elements.tried():
        key = roots[0].key

        def write(loops: Place) -> None:
            for root in roots:
                for place in places(root.node.rows, loops):
                    elements.again(root.node, place)

        elements.loops(key, write)
    return _Asked(elements.asked, list(elements.ranges)[: len(key)], elements.ranges)


def _grouped(roots: list[Root], asked: Mapping[Root, _Asked]) -> list[tuple[tuple[int, ...], list[Root]]]:
    groups: list[tuple[tuple[int, ...], list[Root]]] = []
    level: dict[Node, tuple[int, Root]] = {}
    for root in roots:
        first = 0
        for node, read in asked[root].places.items():
            if node in level and node is not root.node:
                found, other = level[node]
                together = other.key == root.key and _same(read, asked[root].counters)
                first = max(first, found if together else found + 1)
        at = next((k for k in range(first, len(groups)) if groups[k][0] == root.key), None)
        if at is None:
            groups.append((root.key, []))
            at = len(groups) - 1
        groups[at][1].append(root)
        level[root.node] = at, root
    return groups


def _same(read: set[Place], counters: Sequence[str]) -> bool:
    """Whether all is read from where the loops over rows are, and by no other counter."""
    here = [Along(name) for name in counters]
    return all([i for i in place if not isinstance(i, int)] == here for place in read)


def _read_elsewhere(root: Root, asked: Mapping[Root, _Asked], level: Mapping[Root, int]) -> bool:
    return any(root.node in found.places and level[other] != level[root] for other, found in asked.items())


def _again(
    groups: list[tuple[tuple[int, ...], list[Root]]], elements: Callable[[dict[Node, Stored]], Elements],
    stored: dict[Node, Stored],
) -> Node | None:  # fmt: skip
    """The last node that is computed more often than it should be."""
    times: defaultdict[Node, float] = defaultdict(float)
    for _, members in groups:
        found = _asked(elements(stored), members)
        for node, read in found.places.items():
            times[node] += sum(map(found.turns, read))
    costs: dict[Node, float] = {}
    worst = None
    for node in sorted(times, key=lambda n: n.order):
        more = times[node] / max(prod(node.rows), 1) - 1
        if node not in stored and node.lane and more * _cost(node, stored, costs) >= WORTH:
            worst = node
    return worst


def _cost(node: Node, stored: dict[Node, Stored], costs: dict[Node, float]) -> float:
    """Operations that a number takes."""
    if node in stored or node.value is not None or not node.lane:
        return 0.0
    if node not in costs:
        own = 0.0 if node.op in FREE else float(COSTS.get(node.op, 1))
        each = 1
        if node.op in ("reduce_sum", "dot_general"):
            each = max(prod(node.arguments[0].rows) // max(prod(node.rows), 1), 1)
        costs[node] = each * (own + sum(_cost(n, stored, costs) for n in node.arguments))
    return costs[node]
