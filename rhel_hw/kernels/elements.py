"""Single numbers of a graph in C: which of the arguments' they are made from, and how.

A number is asked for by its place, and written down once: what it needs is asked for in turn. So arrays in between
never come to be, unless they are to be stored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite, prod
from typing import Any

import numpy as np

from rhel_hw.kernels.nodes import ELEMENTWISE, Node, Unsupported
from rhel_hw.kernels.operations import LOGIC, Term, kind_of, spell
from rhel_hw.kernels.places import Along, Index, Place, linear, moved, spelled

FEW = 16
"""Most numbers that are added up one by one, rather than in a loop."""
MANY = 64
"""Longest rows of a matrix: for longer ones, products in blocks are faster."""


@dataclass(eq=False)
class Stored:
    """An array that is kept in memory."""

    name: str
    wide: bool
    rows: tuple[int, ...]


class Elements:
    """Writes lines of C; what was written is found again by node and place."""

    def __init__(self, dtype: np.dtype[Any], stored: Mapping[Node, Stored]) -> None:
        self.dtype = dtype
        self.stored = stored
        self.tables: dict[Node, int] = {}
        """Known arrays that are read by computed indices, numbered."""
        self.lines: list[str] = []
        self.before: dict[tuple[Node, Place], Term] = {}
        """Numbers that are the same in every step: read before the first one."""
        self.first: list[str] = []
        self.once: dict[Node, Term] = {}
        """Scalars of a step."""
        self.head: list[str] = []
        self.ranges: dict[str, tuple[int, int]] = {}
        self.borders: defaultdict[str, set[int]] = defaultdict(set)
        """Where along a counter something changes: it must not change within a loop."""
        self.trial = False
        """Whether only places and borders are asked for."""
        self.asked: defaultdict[Node, set[Place]] = defaultdict(set)
        self._memo: list[dict[tuple[Node, Place], Term]] = [{}]
        self._count = 0

    # Scopes ---------------------------------------------------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        """A name."""
        self._count += 1
        return f"{prefix}{self._count}"

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is written within is forgotten after."""
        self._memo.append({})
        yield
        self._memo.pop()

    def loops(self, sizes: Sequence[int], write: Callable[[Place], None]) -> None:
        """Write something for all places, in loops that are cut where something changes."""
        if not sizes:
            return write(())
        name = self.fresh("i")
        self.ranges[name] = (0, sizes[0])

        def inner(index: Index) -> None:
            self.loops(sizes[1:], lambda rest: write((index, *rest)))

        if self.trial:
            with self.scope():
                return inner(Along(name))
        with self.tried(), self.scope():
            inner(Along(name))
        cuts = sorted({0, sizes[0], *(b for b in self.borders.pop(name, ()) if 0 < b < sizes[0])})
        for low, high in pairwise(cuts):
            with self.scope():
                if high - low == 1:
                    self.lines.append("{")
                    inner(low)
                else:
                    self.ranges[name] = (low, high)
                    self.lines.append(f"for (int64_t {name} = {low}; {name} < {high}; {name}++) {{")
                    inner(Along(name))
                self.lines.append("}")
        return None

    @contextmanager
    def tried(self) -> Iterator[None]:
        """Ask only, write nothing."""
        kept = (
            self.trial,
            self.lines,
            self._count,
            dict(self.before),
            list(self.first),
            dict(self.once),
            list(self.head),
        )
        self.trial, self.lines = True, []
        yield
        self.trial, self.lines, _, self.before, self.first, self.once, self.head = kept

    def put(self, text: str, wide: bool, kind: str = "T") -> Term:
        """A number by a name of its own."""
        name = self.fresh("t")
        self.lines.append(f"const {'vec' if wide else kind} {name} = {text};")
        return Term(name, wide)

    # Numbers --------------------------------------------------------------------------------------------------------

    def at(self, node: Node, place: Place) -> Term:
        """A number of a node."""
        if node.value is not None:
            return self._known(node, place)
        if not node.lane and not node.shape:
            return self.scalar(node)
        for memo in reversed(self._memo):
            if (node, place) in memo:
                return memo[node, place]
        self.asked[node].add(place)
        found = self._stored(node, place) if node in self.stored else self._made(node, place)
        self._memo[-1][node, place] = found
        return found

    def again(self, node: Node, place: Place) -> Term:
        """A number of a node that is stored: made, not read."""
        found = self._made(node, place)
        self._memo[-1][node, place] = found
        return found

    def scalar(self, node: Node) -> Term:
        """A number of a step, or of all."""
        if node.value is not None:
            return self._known(node, ())
        if node not in self.once:
            if node.op == "row":
                lines, self.lines = self.lines, self.head
                self.once[node] = self._row(node, ())
                self.lines = lines
            elif node in self.stored:
                held = self.stored[node].name
                self.once[node] = Term(held, False) if node.op == "carry" else self._stored(node, ())
            elif node.op in ELEMENTWISE or node.op in ("reshape", "squeeze", "broadcast_in_dim"):
                lines, self.lines = self.lines, self.head
                terms = [self.scalar(n) for n in node.arguments]
                self.once[node] = terms[0] if node.op not in ELEMENTWISE else self._operation(node, terms)
                self.lines = lines
            else:
                raise Unsupported(f"{node.op} of scalars")
        return self.once[node]

    def _known(self, node: Node, place: Place) -> Term:
        assert node.value is not None
        value = node.value if node.value.ndim == 0 else None
        if value is None and all(isinstance(i, int) for i in place):
            value = node.value[place]  # type: ignore[index]
        if value is not None:
            return Term(self.number(value.item(), node.dtype), False, value.item())
        number = self.tables.setdefault(node, len(self.tables))
        return Term(f"k{number}[{linear(place, node.shape)}]", False)

    def number(self, x: Any, dtype: np.dtype[Any]) -> str:
        """A number as C has it."""
        if dtype.kind == "b":
            return str(int(x))
        if dtype.kind in "iu":
            return f"INT64_C({x})"
        if not isfinite(x):
            return f"((T){'NAN' if x != x else 'INFINITY' if x > 0 else '-INFINITY'})"
        return f"((T){float(x).hex()})"

    def _stored(self, node: Node, place: Place) -> Term:
        held = self.stored[node]
        where = linear(place, held.rows)
        self._of_one_kind(node)
        if node.op == "operand":
            if held.wide and node.dtype.kind == "b":
                raise Unsupported("decisions of lanes that are given")
            if held.wide:
                return self.put(f"LOAD({held.name} + ({where}) * LANES)", True)
            if all(isinstance(i, int) for i in place):
                if (node, place) not in self.before:
                    name = self.fresh("c")
                    self.first.append(f"const {kind_of(node)} {name} = {held.name}[{where}];")
                    self.before[node, place] = Term(name, False)
                return self.before[node, place]
            return self.put(f"{held.name}[{where}]", False, kind_of(node))
        return self.put(f"{held.name}[{where}]", held.wide)

    def _made(self, node: Node, place: Place) -> Term:
        self._of_one_kind(node)
        if node.op in ELEMENTWISE:
            return self._operation(node, [self.at(n, _within(n, node, place)) for n in node.arguments])
        maker = getattr(self, "_" + node.op.replace("-", "_"), None)
        if maker is None:
            raise Unsupported(node.op)
        found: Term = maker(node, place)
        return found

    def _of_one_kind(self, node: Node) -> None:
        """Refuse lanes, and other fractions, of another precision, and whole numbers in lanes."""
        own = node.dtype == self.dtype or node.dtype.kind == "b"
        if not own and (node.lane or node.dtype.kind not in "iu"):
            raise Unsupported(f"{node.dtype} beside {self.dtype}")

    def _row(self, node: Node, place: Place) -> Term:
        return self.at(node.arguments[0], ("step", *place))

    # Places ---------------------------------------------------------------------------------------------------------

    def _broadcast_in_dim(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        full = _full(node, place)
        where = (full[own] for own in node.parameters["broadcast_dimensions"])
        return self.at(given, _rows(given, [0 if n == 1 else i for n, i in zip(given.shape, where, strict=True)]))

    def _squeeze(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        rest = iter(_full(node, place))
        gone = node.parameters["dimensions"]
        return self.at(given, _rows(given, [0 if a in gone else next(rest) for a in range(len(given.shape))]))

    def _transpose(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        where: list[Index] = [0] * len(given.shape)
        for own, a in enumerate(node.parameters["permutation"]):
            where[a] = _full(node, place)[own]
        return self.at(given, _rows(given, where))

    def _reshape(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        before, after = given.rows, node.rows
        if [n for n in before if n > 1] == [n for n in after if n > 1]:
            rest = iter(i for i, n in zip(place, after, strict=True) if n > 1)
            return self.at(given, tuple(next(rest) if n > 1 else 0 for n in before))
        if all(isinstance(i, int) for i in place):
            known = np.unravel_index(int(linear(place, after)), before)
            return self.at(given, tuple(map(int, known)))
        flat = linear(place, after)
        strides = [prod(before[a + 1 :]) for a in range(len(before))]
        return self.at(
            given, tuple(f"(({flat}) / {s} % {n})" if n > 1 else 0 for s, n in zip(strides, before, strict=True))
        )

    def _slice(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        strides = node.parameters["strides"] or [1] * len(given.shape)
        starts = node.parameters["start_indices"]
        where = [moved(i, int(a), int(s)) for i, a, s in zip(_full(node, place), starts, strides, strict=True)]
        return self.at(given, _rows(given, where))

    def _rev(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        where = [
            moved(i, n - 1, -1) if a in node.parameters["dimensions"] else i
            for a, (i, n) in enumerate(zip(_full(node, place), node.shape, strict=True))
        ]
        return self.at(given, _rows(given, where))

    def _pad(self, node: Node, place: Place) -> Term:
        given, filler = node.arguments
        where: list[Index] = []
        for i, n, (low, _, between) in zip(
            _full(node, place), given.shape, node.parameters["padding_config"], strict=True
        ):
            if between:
                raise Unsupported("pads between numbers")
            inside = moved(i, -int(low))
            if (low or n != node.shape[len(where)]) and not self._among(inside, 0, n):
                return self.at(filler, ())
            where.append(inside)
        return self.at(given, _rows(given, where))

    def _among(self, index: Index, low: int, high: int) -> bool:
        """Whether an index is in a range; in a trial, it always is, and the borders are noted."""
        if isinstance(index, int):
            return low <= index < high
        if isinstance(index, str):
            raise Unsupported("borders of computed indices")
        self.borders[index.name] |= {low - index.offset, high - index.offset}
        first, last = (x + index.offset for x in self.ranges[index.name])
        if first >= low and last <= high:
            return True
        if first >= high or last <= low:
            return False
        if not self.trial:
            raise Unsupported("a border within a loop")
        return True

    def _concatenate(self, node: Node, place: Place) -> Term:
        along, full, start = node.parameters["dimension"], _full(node, place), 0
        parts: list[tuple[Node, list[Index]]] = []
        for given in node.arguments:
            if self._among(moved(full[along], -start), 0, given.shape[along]):
                parts.append((given, [moved(i, -start) if a == along else i for a, i in enumerate(full)]))
            start += given.shape[along]
        return self._chosen(parts)

    def _stack(self, node: Node, place: Place) -> Term:
        along, full = node.parameters["axis"], _full(node, place)
        rest = [i for a, i in enumerate(full) if a != along]
        return self._chosen([(n, rest) for k, n in enumerate(node.arguments) if self._among(full[along], k, k + 1)])

    def _chosen(self, parts: list[tuple[Node, list[Index]]]) -> Term:
        """The number of the one array that it may come from; in a trial there may be several."""
        return [self.at(given, _rows(given, where)) for given, where in parts][-1]

    def _tile(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        where = (
            i if n == size else int(i) % n if isinstance(i, int) else f"(({spelled(i)}) % {n})"
            for i, n, size in zip(_full(node, place), given.shape, node.shape, strict=True)
        )
        return self.at(given, _rows(given, list(where)))

    def _dynamic_slice(self, node: Node, place: Place) -> Term:
        given, *starts = node.arguments
        where: list[Index] = []
        for i, start, n, size in zip(_full(node, place), starts, given.shape, node.shape, strict=True):
            where.append(i if size == n else self._from(start, n - size, i))
        return self.at(given, _rows(given, where))

    def _from(self, start: Node, most: int, index: Index) -> Index:
        """An index from a start on, which is clamped as JAX does."""
        term = self.scalar(start)
        if term.value is not None:
            return moved(index, min(max(int(term.value), 0), most))
        name = f"CLAMP({term.text}, {most})"
        return name if index == 0 else f"({name} + {spelled(index)})"

    def _gather(self, node: Node, place: Place) -> Term:
        given, chosen = node.arguments
        offsets = [int(a) for a in node.parameters["dimension_numbers"].offset_dims]
        full = _full(node, place)
        batch = tuple(i for a, i in enumerate(full) if a not in offsets)
        row: Index
        if chosen.value is None:
            if chosen.shape not in ((), (1,)) or "FILL" in str(node.parameters["mode"]):
                raise Unsupported("gather by computed indices")
            row = self._from(chosen, given.shape[0] - 1, 0)
        else:
            if chosen.value.min() < 0 or chosen.value.max() >= given.shape[0]:
                raise Unsupported("gather from beyond")
            term = self.at(chosen, (*batch, 0)[: len(chosen.shape)])
            row = term.text if term.value is None else int(term.value)
        return self.at(given, _rows(given, [row, *(full[a] for a in offsets)]))

    def _scatter(self, node: Node, place: Place) -> Term:
        given, chosen, updates = node.arguments
        numbers = node.parameters["dimension_numbers"]
        if tuple(numbers.inserted_window_dims) != (0,) or tuple(numbers.scatter_dims_to_operand_dims) != (0,):
            raise Unsupported("scatter along other axes than the first")
        if chosen.value is None or len(chosen.shape) != 2:
            raise Unsupported("scatter to computed indices")
        to = np.broadcast_to(chosen.value, chosen.shape)[:, 0]
        if to.min() < 0 or to.max() >= given.shape[0]:
            raise Unsupported("scatter beyond")
        first, rest = place[0], place[1:]
        if isinstance(first, int):
            found = np.flatnonzero(to == first)
            return self.at(updates, (int(found[-1]), *rest)) if len(found) else self.at(given, place)
        if not np.array_equal(to, np.arange(to[0], to[0] + len(to))):
            raise Unsupported("scatter to scattered rows")
        start = int(to[0])
        if self.trial:
            self.at(given, place)
        inside = moved(first, -start)
        return self.at(updates, (inside, *rest)) if self._among(inside, 0, len(to)) else self.at(given, place)

    # Sums -----------------------------------------------------------------------------------------------------------

    def _reduce_sum(self, node: Node, place: Place) -> Term:
        (given,) = node.arguments
        axes = node.parameters["axes"]
        rest = _full(node, place)

        def number(summed: Place) -> Term:
            left, gone = iter(rest), iter(summed)
            return self.at(
                given, _rows(given, [next(gone) if a in axes else next(left) for a in range(len(given.shape))])
            )

        return self._sum([given.shape[a] for a in axes], given.lane, number)

    def _dot_general(self, node: Node, place: Place) -> Term:
        (contracted, _) = node.parameters["dimension_numbers"]
        sizes = [node.arguments[0].shape[a] for a in contracted[0]]
        if prod(sizes) > MANY:
            raise Unsupported("products of large matrices")
        full = _full(node, place)
        split = len(node.arguments[0].shape) - len(sizes)

        def factor(k: int, own: Sequence[Index], summed: Place) -> Term:
            given, rest = node.arguments[k], iter(own)
            where = [
                summed[contracted[k].index(a)] if a in contracted[k] else next(rest) for a in range(len(given.shape))
            ]
            return self.at(given, _rows(given, where))

        def number(summed: Place) -> Term:
            return self.product(factor(0, full[:split], summed), factor(1, full[split:], summed))

        return self._sum(sizes, node.lane, number)

    def _sum(self, sizes: Sequence[int], wide: bool, number: Callable[[Place], Term]) -> Term:
        if prod(sizes) <= FEW:
            total = Term("0", False, 0.0)
            for place in np.ndindex(*sizes):
                total = self.sum(total, number(place))
            return total
        if not wide:
            raise Unsupported("long sums of scalars")
        name = self.fresh("t")
        self.lines.append(f"vec {name} = ZERO;")

        def add(place: Place) -> None:
            self.lines.append(f"{name} += {number(place).text};")

        self.loops(sizes, add)
        return Term(name, True)

    def sum(self, a: Term, b: Term) -> Term:
        """Sum."""
        if a.value == 0 or b.value == 0:
            return b if a.value == 0 else a
        return self.put(f"{a.text} + {b.text}", a.wide or b.wide)

    def product(self, a: Term, b: Term) -> Term:
        """Product; nothing where one is nothing for sure."""
        if a.value == 0 or b.value == 0:
            return Term("((T)0)", False, 0.0)
        if a.value == 1 or b.value == 1:
            return b if a.value == 1 else a
        if a.value == -1 or b.value == -1:
            other = b if a.value == -1 else a
            return self.put(f"-{other.text}", other.wide)
        return self.put(f"{a.text} * {b.text}", a.wide or b.wide)

    # Operations -----------------------------------------------------------------------------------------------------

    def _operation(self, node: Node, terms: list[Term]) -> Term:
        op, wide = node.op, any(t.wide for t in terms)
        if wide and op in LOGIC and not all(t.wide for t in terms):
            raise Unsupported("decisions of lanes and others")
        if op == "copy":
            return terms[0]
        if op == "mul" and node.dtype.kind == "f":
            return self.product(*terms)
        if op == "add" and node.dtype.kind == "f":
            return self.sum(*terms)
        text = spell(node, terms, wide)
        return self._mask(text) if wide and node.dtype.kind == "b" else self.put(text, wide, kind_of(node))

    def _mask(self, text: str) -> Term:
        name = self.fresh("m")
        self.lines.append(f"const mask {name} = {text};")
        return Term(name, True)


def _full(node: Node, place: Place) -> list[Index]:
    """Along all axes: 0 along that of the lanes, which nobody asks for."""
    return [*place, 0] if node.lane else list(place)


def _rows(node: Node, where: Sequence[Index]) -> Place:
    """Along all but the axis of the lanes."""
    return tuple(where[:-1]) if node.lane else tuple(where)


def _within(argument: Node, node: Node, place: Place) -> Place:
    """Where an argument's number for one of a node is."""
    if not argument.shape:
        return ()
    full = _full(node, place)
    return _rows(argument, [0 if n == 1 else i for n, i in zip(argument.shape, full, strict=True)])
