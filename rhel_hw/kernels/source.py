"""A loop over steps as a program in C."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhel_hw.cores import cores
from rhel_hw.kernels.elements import Along, Elements, Place, Stored, linear, moved, spelled
from rhel_hw.kernels.graph import Graph, Node, Unsupported
from rhel_hw.kernels.schedule import Root, compute, places, schedule

VECTOR = 64
"""Bytes of the widest vectors; the compiler makes two of them where the processor has half."""
LEAST = 16
"""Bytes of the narrowest."""
LOCAL = 512
"""Most vectors that are kept on the stack, and so perhaps in registers."""
MOST = 256
"""Most arrays that a program takes or gives."""


@dataclass(frozen=True, eq=False)
class Source:
    """What is compiled, and the arrays that it reads beside those of the graph."""

    text: str
    tables: list[NDArray[Any]]


def source_of(graph: Graph, steps: int, *, backwards: bool = False) -> Source:
    """Program of so many steps; operands are those of the graph, tables, and what is carried at the start."""
    carries = [n for n in graph.carries if n.lane]
    lanes = {n.shape[-1] for n in carries}
    dtypes = {n.dtype for n in carries}
    if len(lanes) != 1 or len(dtypes) != 1 or not {n.dtype.name for n in carries} <= {"float32", "float64"}:
        raise Unsupported("lanes of more than one kind")
    (count,), (dtype,) = lanes, dtypes
    width = min(VECTOR // dtype.itemsize, 1 << (count.bit_length() - 1))
    while width * cores() > count and width * dtype.itemsize > VECTOR // 2:
        width //= 2
    if width * dtype.itemsize < LEAST:
        raise Unsupported("few lanes")
    given: dict[Node, Stored] = {}
    for n in graph.nodes:
        if n.op == "operand":
            given[n] = Stored(f"o{n.number}", n.lane, n.rows)
        elif n.op == "carry":
            given[n] = Stored(f"s{n.number}", n.lane, n.rows)
    tables: dict[Node, int] = {}
    plan = schedule(graph, lambda stored: Elements(dtype, stored, {}), given)
    stored = given | plan.arrays
    news: dict[int, str] = {}
    for root in (r for _, members in plan.groups for r in members):
        for k in root.carried:
            news[k] = f"n{k}" if k in plan.apart else f"s{k}"
        if root.carried:
            stored[root.node] = Stored(news[root.carried[0]], True, root.node.rows)
    # Old numbers of what is carried are read where they are; new ones where they are stored.
    elements = Elements(dtype, stored, tables)
    body: list[str] = []
    for key, members in plan.groups:
        elements.lines = []

        def write(loops: Place, members: list[Root] = members) -> None:
            after: list[str] = []
            for root in members:
                for place in places(root.node.rows, loops):
                    term = compute(elements, root, place)
                    text = term.text if term.wide else f"SPREAD({term.text})"
                    after += _stores(elements, root, place, text, stored, news)
            elements.lines += after

        if key:
            elements.loops(key, write)
        else:
            elements.lines.append("{")
            with elements.scope():
                write(())
            elements.lines.append("}")
        body += elements.lines
    scalars, ends = _scalars(graph, elements)
    held = [(f"s{n.number}", prod(n.rows), n) for n in carries]
    arrays = [(name, rows) for name, rows, _ in held]
    arrays += [(f"n{k}", prod(graph.carries[k].rows)) for k in sorted(plan.apart)]
    arrays += [(a.name, prod(a.rows)) for a in plan.arrays.values()]
    room = sum(rows for _, rows in arrays)
    first_in = len(graph.operands) + len(tables)
    out: list[str] = []
    for node in graph.nodes:
        if node.op == "operand":
            out.append(_pointer(node))
    for node, k in tables.items():
        kind = "int32_t" if node.dtype.kind in "iu" else "T"
        out.append(f"const {kind} *restrict const k{k} = in[{len(graph.operands) + k}];")
    for j in range(len(graph.kept)):
        out.append(f"T *restrict const y{j} = (T *)out[{len(graph.carries) + j}] + first;")
    at = 0
    for name, rows in arrays:
        out.append(f"vec {name}[{rows}];" if room <= LOCAL else f"vec *restrict const {name} = work + {at};")
        at += rows
    for name, rows, node in held:
        out.append(f"for (int64_t i = 0; i < {rows}; i++) {name}[i] = LOAD((const T *)in[{first_in + node.number}] + first + i * LANES);")
    out += scalars
    out += elements.first
    out.append(f"for (int64_t step = 0; step < {steps}; step++) {{")
    out.append(f"const int64_t row = {f'{steps - 1} - step' if backwards else 'step'};")
    out += elements.head
    out += body
    for k in sorted(plan.apart):
        rows = prod(graph.carries[k].rows)
        out.append(f"for (int64_t i = 0; i < {rows}; i++) s{k}[i] = n{k}[i];")
    out += ends
    out.append("}")
    for name, rows, node in held:
        out.append(f"for (int64_t i = 0; i < {rows}; i++) STORE((T *)out[{node.number}] + first + i * LANES, {name}[i]);")
    for n in graph.carries:
        if not n.shape:
            kind = _kind(n)
            out.append(f"*({kind} *)out[{n.number}] = ({kind})s{n.number};")
    if first_in + len(graph.carries) > MOST or len(graph.carries) + len(graph.kept) > MOST:
        raise Unsupported("many arrays")
    defines = {
        "T": "double" if dtype.itemsize == 8 else "float", "BYTES": dtype.itemsize, "DOUBLE": int(dtype.itemsize == 8),
        "WIDTH": width, "LANES": f"INT64_C({count})", "ROOM": room if room > LOCAL else 0, "MOST": MOST,
    }  # fmt: skip
    head = "".join(f"#define {k} {v}\n" for k, v in defines.items())
    inner = "\n".join(f"    {line}" for line in out)
    text = f"{head}\n#include \"prelude.c\"\n\nstatic void tile(void *const *in, void *const *out, int64_t first, vec *work)\n{{\n{inner}\n}}\n"
    found = [np.ascontiguousarray(n.value, np.int32 if n.dtype.kind in "iu" else dtype) for n in tables]
    return Source(text, found)


def _pointer(node: Node) -> str:
    kind = _kind(node)
    start = " + first" if node.lane else ""
    return f"const {kind} *restrict const o{node.number} = (const {kind} *)in[{node.number}]{start};"


def _kind(node: Node) -> str:
    kinds = {"f8": "double", "f4": "float", "i8": "int64_t", "i4": "int32_t", "u4": "uint32_t", "b1": "uint8_t"}
    if node.dtype.str[1:] not in kinds:
        raise Unsupported(f"arrays of {node.dtype}")
    return kinds[node.dtype.str[1:]]


def _stores(elements: Elements, root: Root, place: Place, text: str, stored: dict[Node, Stored], news: dict[int, str]) -> list[str]:
    """Lines that store a number."""
    node = root.node
    where = linear(place, node.rows)
    lines = [f"{news[k]}[{where}] = {text};" for k in root.carried]
    if node in stored and not root.carried:
        lines.append(f"{stored[node].name}[{where}] = {text};")
    rows = prod(node.rows)
    lines += [f"STORE(y{j} + (row * {rows} + {where}) * LANES, {text});" for j in root.kept]
    return lines


def _scalars(graph: Graph, elements: Elements) -> tuple[list[str], list[str]]:
    """What declares the scalars that are carried, and what moves them on at the end of a step."""
    first, ends, moves = [], [], []
    count = len(graph.operands)
    for n, after in zip(graph.carries, graph.carried, strict=True):
        if n.shape:
            continue
        kind = "T" if n.dtype.kind == "f" else "int64_t"
        first.append(f"{kind} s{n.number} = *(const {_kind(n)} *)in[{{first}} + {n.number}];")
        term = elements.scalar(after)
        name = elements.fresh("e")
        ends.append(f"const {kind} {name} = {term.text};")
        moves.append(f"s{n.number} = {name};")
    first = [line.replace("{first}", str(count + len(elements.tables))) for line in first]
    return first, ends + moves


__all__ = ["Along", "Source", "source_of"]
