"""A loop over steps as a program in C."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhel_hw.cores import cores
from rhel_hw.kernels.elements import Elements, Stored
from rhel_hw.kernels.nodes import Graph, Node, Unsupported
from rhel_hw.kernels.places import Place, linear
from rhel_hw.kernels.schedule import Root, Schedule, places, schedule

WIDEST, NARROWEST = 64, 16
"""Bytes of vectors; where the processor has none so wide, the compiler makes them of several."""
LOCAL = 512
"""Most vectors of a tile that are on the stack, and so perhaps in registers."""
MOST = 256
"""Most arrays that a program takes or gives."""
KINDS = {"f8": "double", "f4": "float", "i8": "int64_t", "i4": "int32_t", "u4": "uint32_t", "b1": "uint8_t"}


@dataclass(frozen=True, eq=False)
class Source:
    """What is compiled. It takes the operands of the graph, these tables, and what is carried at the start."""

    text: str
    tables: list[NDArray[Any]]


def source_of(graph: Graph, steps: int, *, backwards: bool = False) -> Source:
    """Program of so many steps, which keeps rows in their order or, `backwards`, from the last one on."""
    dtype, lanes = _lanes(graph)
    given = {n: Stored(f"o{n.number}", n.lane, n.rows) for n in graph.nodes if n.op == "operand"}
    given |= {n: Stored(f"s{n.number}", n.lane, n.rows) for n in graph.carries}
    plan = schedule(graph, lambda stored: Elements(dtype, stored), given)
    return _Writer(graph, plan, given, dtype, lanes).written(steps, backwards)


def _lanes(graph: Graph) -> tuple[np.dtype[Any], int]:
    """Of what number, and how many."""
    carried = [n for n in graph.carries if n.lane]
    dtypes, counts = {n.dtype for n in carried}, {n.shape[-1] for n in carried}
    if len(counts) != 1 or len(dtypes) != 1 or not dtypes <= {np.dtype(np.float32), np.dtype(np.float64)}:
        raise Unsupported("lanes of several kinds, or of none")
    return dtypes.pop(), counts.pop()


def width_of(dtype: np.dtype[Any], lanes: int) -> int:
    """Lanes of a vector: a power of two, half as wide if cores had none otherwise."""
    width = min(WIDEST // dtype.itemsize, 1 << (lanes.bit_length() - 1))
    if width * cores() > lanes and width * dtype.itemsize == WIDEST:
        width //= 2
    if width * dtype.itemsize < NARROWEST:
        raise Unsupported("few lanes")
    return width


class _Writer:
    """Names, declarations and lines of one program."""

    def __init__(
        self, graph: Graph, plan: Schedule, given: Mapping[Node, Stored], dtype: np.dtype[Any], lanes: int
    ) -> None:
        self.graph, self.plan, self.dtype, self.lanes = graph, plan, dtype, lanes
        self.news = {
            k: f"n{k}" if k in plan.apart else f"s{k}" for _, members in plan.groups for r in members for k in r.carried
        }
        """Where what is carried is stored, by number."""
        stored = {**given, **plan.arrays}
        for root in (r for _, members in plan.groups for r in members if r.carried):
            stored[root.node] = Stored(self.news[root.carried[0]], True, root.node.rows)
        self.elements = Elements(dtype, stored)
        self.held = {f"s{n.number}": n for n in graph.carries if n.lane}
        arrays = {name: prod(n.rows) for name, n in self.held.items()}
        arrays |= {f"n{k}": prod(graph.carries[k].rows) for k in sorted(plan.apart)}
        self.arrays = arrays | {a.name: prod(a.rows) for a in plan.arrays.values()}
        """Vectors of every array of a tile."""

    def written(self, steps: int, backwards: bool) -> Source:
        """The program."""
        body = list(self._body())
        moves = list(self._moves())
        tables = list(self.elements.tables)
        start = len(self.graph.operands) + len(tables)  # of what is carried among what is given
        if start + len(self.graph.carries) > MOST or len(self.graph.carries) + len(self.graph.kept) > MOST:
            raise Unsupported("many arrays")
        lines = [
            *self._pointers(tables),
            *self._room(),
            *self._loads(start),
            *self.elements.first,
            f"for (int64_t step = 0; step < {steps}; step++) {{",
            f"const int64_t row = {f'{steps - 1} - step' if backwards else 'step'};",
            *self.elements.head,
            *body,
            *moves,
            "}",
            *self._ends(),
        ]
        room = sum(self.arrays.values())
        defines = {
            "T": KINDS[self.dtype.str[1:]],
            "BYTES": self.dtype.itemsize,
            "DOUBLE": int(self.dtype == np.float64),
            "WIDTH": width_of(self.dtype, self.lanes),
            "LANES": f"INT64_C({self.lanes})",
            "ROOM": room if room > LOCAL else 0,
            "MOST": MOST,
        }
        head = "".join(f"#define {k} {v}\n" for k, v in defines.items())
        inner = "".join(f"    {line}\n" for line in lines)
        tile = f"static void tile(void *const *in, void *const *out, int64_t first, vec *work)\n{{\n{inner}}}\n"
        values = [np.ascontiguousarray(n.value, np.int32 if n.dtype.kind in "iu" else self.dtype) for n in tables]
        return Source(f'{head}\n#include "prelude.c"\n\n{tile}', values)

    # A step ---------------------------------------------------------------------------------------------------------

    def _body(self) -> Iterator[str]:
        """All loops over rows."""
        for key, members in self.plan.groups:
            self.elements.lines = ["{"]
            with self.elements.scope():
                self.elements.loops(key, partial(self._rows, members))
            yield from self.elements.lines
            yield "}"

    def _rows(self, members: Sequence[Root], loops: Place) -> None:
        """What is stored at some rows: all is computed before, as it may be read."""
        after: list[str] = []
        for root in members:
            for place in places(root.node.rows, loops):
                term = self.elements.again(root.node, place)
                text = term.text if term.wide else f"SPREAD({term.text})"
                after += self._stores(root, place, text)
        self.elements.lines += after

    def _stores(self, root: Root, place: Place, text: str) -> Iterator[str]:
        where, rows = linear(place, root.node.rows), prod(root.node.rows)
        yield from (f"{self.news[k]}[{where}] = {text};" for k in root.carried)
        if root.node in self.plan.arrays:
            yield f"{self.plan.arrays[root.node].name}[{where}] = {text};"
        yield from (f"STORE(y{j} + (row * {rows} + {where}) * LANES, {text});" for j in root.kept)

    def _moves(self) -> Iterator[str]:
        """What is carried from a step to the next."""
        for k in sorted(self.plan.apart):
            yield from self._each(f"s{k}", "{0}[i] = n" + str(k) + "[i];")
        scalars = [(n, after) for n, after in zip(self.graph.carries, self.graph.carried, strict=True) if not n.shape]
        found = [(n, self.elements.scalar(after).text) for n, after in scalars]
        yield from (f"const {_type(n)} e{n.number} = {text};" for n, text in found)
        yield from (f"s{n.number} = e{n.number};" for n, _ in found)

    # Before and after -----------------------------------------------------------------------------------------------

    def _pointers(self, tables: Sequence[Node]) -> Iterator[str]:
        for node in self.graph.nodes:
            if node.op == "operand":
                kind, start = _kind(node), " + first" if node.lane else ""
                yield f"const {kind} *restrict const o{node.number} = (const {kind} *)in[{node.number}]{start};"
        for k, node in enumerate(tables):
            kind = "int32_t" if node.dtype.kind in "iu" else "T"
            yield f"const {kind} *restrict const k{k} = in[{len(self.graph.operands) + k}];"
        for j in range(len(self.graph.kept)):
            yield f"T *restrict const y{j} = (T *)out[{len(self.graph.carries) + j}] + first;"

    def _room(self) -> Iterator[str]:
        at, local = 0, sum(self.arrays.values()) <= LOCAL
        for name, rows in self.arrays.items():
            yield f"vec {name}[{rows}];" if local else f"vec *restrict const {name} = work + {at};"
            at += rows

    def _loads(self, start: int) -> Iterator[str]:
        for name, node in self.held.items():
            yield from self._each(name, f"{{0}}[i] = LOAD((const T *)in[{start + node.number}] + first + i * LANES);")
        for n in self.graph.carries:
            if not n.shape:
                yield f"{_type(n)} s{n.number} = *(const {_kind(n)} *)in[{start + n.number}];"

    def _ends(self) -> Iterator[str]:
        for name, node in self.held.items():
            yield from self._each(name, f"STORE((T *)out[{node.number}] + first + i * LANES, {{0}}[i]);")
        for n in self.graph.carries:
            if not n.shape:
                yield f"*({_kind(n)} *)out[{n.number}] = ({_kind(n)})s{n.number};"

    def _each(self, name: str, line: str) -> Iterator[str]:
        """A line for all vectors of an array."""
        yield f"for (int64_t i = 0; i < {self.arrays[name]}; i++)"
        yield "    " + line.format(name)


def _kind(node: Node) -> str:
    """Type of its numbers in memory."""
    if node.dtype.str[1:] not in KINDS:
        raise Unsupported(f"arrays of {node.dtype}")
    return KINDS[node.dtype.str[1:]]


def _type(node: Node) -> str:
    """Type of a scalar that is computed with."""
    return "T" if node.dtype.kind == "f" else "int64_t"
