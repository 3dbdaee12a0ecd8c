"""What the body of a loop computes, as a graph: calls opened, what is known taken out, lanes told from other axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import frexp
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from numpy.typing import NDArray

from circuits.operators import plain_read

Array = Any

ELEMENTWISE = frozenset(
    "abs add and copy cos div eq exp expm1 floor ge gt integer_pow le log log1p logistic lt max min mul ne neg not or pow round rsqrt "
    "select_n sign sin sqrt square sub tan tanh xor convert_element_type".split()
)
"""Primitives whose numbers come from the same place of all arguments."""
VIEWS = frozenset("broadcast_in_dim reshape squeeze slice transpose neg".split())
"""Primitives that factors may be drawn out of."""
INSIDE = ("call_jaxpr", "jaxpr", "fun_jaxpr")
"""Parameters in which primitives that call something keep it."""
CALLS = frozenset("jit pjit closed_call core_call custom_jvp_call custom_vjp_call remat checkpoint".split())
SAME = frozenset("copy_p optimization_barrier stop_gradient reduce_precision".split())
"""Primitives that change nothing."""


class Unsupported(Exception):  # noqa: N818 (it is caught where there is another way)
    """What is computed cannot be said in C; the reason."""


@dataclass(eq=False)
class Node:
    """An array that one step of the loop computes, or is given."""

    op: str
    """Name of a primitive; or "operand", "carry", "known", "row" of an operand, one for every step."""
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    arguments: tuple[Node, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    value: NDArray[Any] | None = None
    """If it is known."""
    number: int = 0
    """Of operands and what is carried: which."""
    lane: bool = False
    """Whether its last axis is that of the lanes."""
    order: int = 0

    @property
    def rows(self) -> tuple[int, ...]:
        """Its axes but for the lanes."""
        return self.shape[:-1] if self.lane else self.shape

    @property
    def constant(self) -> float | None:
        """The number that it is all over."""
        return None if self.value is None or self.value.size != 1 else self.value.item()


@dataclass(eq=False)
class Graph:
    """A step: what is carried comes out as `carried`, and leaves `kept` behind."""

    nodes: list[Node]
    operands: list[Array]
    """What the loop reads, known outside of it."""
    carries: list[Node]
    carried: list[Node]
    kept: list[Node]


def graph_of(body: ClosedJaxpr, carries: int, series: Sequence[Array] = ()) -> Graph:
    """Graph of a body that takes and returns so many carried arrays, and returns more that are kept of every step.

    What else it takes is a row of these series.
    """
    jaxpr = body.jaxpr
    builder = _Builder({v.aval.shape[-1] for v in jaxpr.invars if v.aval.shape})  # type: ignore[attr-defined]
    given = [builder.node("carry", v.aval.shape, v.aval.dtype, number=k) for k, v in enumerate(jaxpr.invars[:carries])]
    rows = [
        builder.node("row", x.shape[1:], x.dtype, arguments=(builder.as_node(x, embed=False),)) for x in series
    ]
    found = builder.run(jaxpr, list(body.consts), [*given, *rows])
    out = [builder.as_node(x) for x in found]
    needed = reached([*given, *out])
    nodes = [n for n in builder.nodes if n in needed]
    graph = Graph(nodes, builder.operands, given, out[:carries], out[carries:])
    _tell_lanes(graph)
    return graph


def reached(nodes: Iterable[Node]) -> set[Node]:
    """Some nodes, and all that they are computed from."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += node.arguments
    return found


# Building -----------------------------------------------------------------------------------------------------------


class _Builder:
    """Reads equations one after another; what depends on nothing that is carried is computed at once."""

    def __init__(self, lanes: set[int]) -> None:
        self.lanes = lanes
        """What may be the number of lanes."""
        self.nodes: list[Node] = []
        self.operands: list[Array] = []
        self._seen: dict[Any, Node] = {}
        self._outer: dict[int, tuple[Any, Node]] = {}
        self._known_outside: dict[Node, tuple[Any]] = {}

    def run(self, jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        """What a jaxpr returns: nodes, or arrays that are known outside."""
        known: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
        known.update(zip(jaxpr.invars, arguments, strict=True))

        def read(v: Any) -> Any:
            return np.asarray(v.val, v.aval.dtype) if isinstance(v, Literal) else known[v]

        for equation in jaxpr.eqns:
            found = self._equation(equation, [read(v) for v in equation.invars])
            known.update(zip(equation.outvars, found, strict=True))
        return [read(v) for v in jaxpr.outvars]

    def _equation(self, equation: Any, given: list[Any]) -> list[Any]:
        name, parameters = equation.primitive.name, equation.params
        name = "add" if name == "add_any" else name
        if name in CALLS:
            inside = next(parameters[k] for k in INSIDE if k in parameters)
            consts = inside.consts if hasattr(inside, "consts") else ()
            return self.run(getattr(inside, "jaxpr", inside), consts, given)
        if name == "read":
            inside = jax.make_jaxpr(lambda x: plain_read(x, **parameters))(_like(given[0]))
            return self.run(inside.jaxpr, inside.consts, given)
        if name in SAME or name == "copy":
            return given
        (out,) = equation.outvars
        if not any(isinstance(x, Node) for x in given) and not self._spreads(name, out.aval.shape):
            return self._outside(equation, given)
        nodes = [self.as_node(x) for x in given]
        return [self._simple(name, nodes, parameters, out.aval)]

    def _outside(self, equation: Any, given: list[Any]) -> list[Any]:
        """What is known before the loop: by JAX, and as numbers if all are numbers."""
        if any(isinstance(x, jax.core.Tracer) for x in given):
            return [equation.primitive.bind(*given, **equation.params)]
        with jax.ensure_compile_time_eval():
            return [np.asarray(equation.primitive.bind(*map(jax.numpy.asarray, given), **equation.params))]

    def _spreads(self, name: str, shape: tuple[int, ...]) -> bool:
        """Whether an array is copied for all lanes by it, which is better read where it was."""
        return name == "broadcast_in_dim" and bool(shape) and shape[-1] in self.lanes

    def as_node(self, x: Any, *, embed: bool = True) -> Node:
        """Of what is known outside, too; its numbers become part of the program unless told otherwise."""
        if isinstance(x, Node):
            return x
        if id(x) not in self._outer:  # which lives on with its node, so that no other array has its place in memory
            self._outer[id(x)] = x, self._known(x, embed)
            self._known_outside[self._outer[id(x)][1]] = (x,)
        return self._outer[id(x)][1]

    def _known(self, x: Any, embed: bool) -> Node:
        if embed and not isinstance(x, jax.core.Tracer):
            value = np.asarray(x)
            if value.size and np.all(value == value.flat[0]):
                return self.constant(value.flat[0], value.shape, value.dtype)
            if value.size <= 1 << 16:
                return self.node("known", value.shape, value.dtype, value=value)
        self.operands.append(x)
        return self.node("operand", np.shape(x), np.dtype(x.dtype), number=len(self.operands) - 1)

    def constant(self, value: Any, shape: Sequence[int], dtype: Any) -> Node:
        """An array that is the same number all over."""
        number = np.asarray(value).astype(dtype).reshape(())
        key = (number.item(), tuple(map(int, shape)), str(dtype))
        if key not in self._seen:
            self._seen[key] = self.node("known", shape, dtype, value=number)
        return self._seen[key]

    def node(self, op: str, shape: Sequence[int], dtype: Any, **more: Any) -> Node:
        """A new one."""
        found = Node(op, tuple(map(int, shape)), np.dtype(dtype), order=len(self.nodes), **more)
        self.nodes.append(found)
        return found

    def _simple(self, name: str, nodes: list[Node], parameters: Mapping[str, Any], aval: Any) -> Node:
        """A node for an equation: one that there is, or something simpler, if it comes to the same."""
        if name in ("sub", "add", "mul", "div") and (same := _unchanged(name, nodes, aval.shape)) is not None:
            return same
        constants = [n.constant for n in nodes]
        if name in ("broadcast_in_dim", "reshape", "squeeze", "slice", "transpose") and constants[0] is not None:
            return self.constant(nodes[0].value, aval.shape, aval.dtype)
        if name in ELEMENTWISE and None not in constants:
            value = _computed(name, [n.value for n in nodes], parameters)
            return self.constant(value, aval.shape, aval.dtype)
        if name == "convert_element_type" and nodes[0].dtype == aval.dtype:
            return nodes[0]
        if aval.dtype.kind == "f" and (found := self._factored(name, nodes, parameters, aval)) is not None:
            return found
        key = (name, tuple(n.order for n in nodes), str(sorted(parameters.items(), key=lambda item: item[0])))
        if key not in self._seen:
            self._seen[key] = self.node(name, aval.shape, aval.dtype, arguments=tuple(nodes), parameters=parameters)
        return self._seen[key]


    def _factored(self, name: str, nodes: list[Node], parameters: Mapping[str, Any], aval: Any) -> Node | None:
        """The same with factors that do not change brought together, so that they multiply once, at the end."""
        split = [_split(n) for n in nodes]

        def times(factor: Any, *inner: Node) -> Node:
            shape = jax.ShapeDtypeStruct(aval.shape, aval.dtype)
            whole = self._simple(name, list(inner), parameters, shape) if name != "mul" else inner[0]
            return self._simple("mul", [self.constant(factor, (), aval.dtype), whole], {}, shape)

        if name == "mul":
            for k in (0, 1):
                if (outer := nodes[k].constant) is not None and split[1 - k][0] != 1 and split[1 - k][1].shape == aval.shape:
                    return times(outer * split[1 - k][0], split[1 - k][1])
            return self._merged(nodes, aval)
        if name == "div" and nodes[1].constant is not None and frexp(nodes[1].constant)[0] == 0.5:  # a power of two
            shape = jax.ShapeDtypeStruct(aval.shape, aval.dtype)
            return self._simple("mul", [self.constant(1 / nodes[1].constant, (), aval.dtype), nodes[0]], {}, shape)
        if name == "div" and nodes[1].constant is None and (divisor := self._outside_of(nodes[1])):
            key = ("inverse", nodes[1].order)
            if key not in self._seen:
                self._seen[key] = self.as_node(1 / divisor[0])
            return self._simple("mul", [self._seen[key], nodes[0]], {}, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
        if name in VIEWS and split[0][0] != 1:
            return times(split[0][0], split[0][1])
        if name in ("add", "sub") and split[0][0] == split[1][0] != 1 and split[0][1].shape == split[1][1].shape:
            return times(split[0][0], split[0][1], split[1][1])
        return None

    def _merged(self, nodes: list[Node], aval: Any) -> Node | None:
        """U·(W·x) as (U·W)·x, where U and W are known outside."""
        for k in (0, 1):
            outer, inner = nodes[k], nodes[1 - k]
            if inner.op != "mul" or not self._outside_of(outer) or inner.shape != aval.shape:
                continue
            for j in (0, 1):
                other, rest = inner.arguments[j], inner.arguments[1 - j]
                if self._outside_of(other) and rest.shape == aval.shape:
                    product = self._outside_of(outer)[0] * self._outside_of(other)[0]
                    key = ("product", outer.order, other.order)
                    if key not in self._seen:
                        self._seen[key] = self.as_node(product)
                    shape = jax.ShapeDtypeStruct(aval.shape, aval.dtype)
                    return self._simple("mul", [self._seen[key], rest], {}, shape)
        return None

    def _outside_of(self, node: Node) -> tuple[Any, ...]:
        """What a node is outside of the loop, if it is known there."""
        if node.constant is not None:
            return (jax.numpy.asarray(node.value, node.dtype),)
        return self._known_outside.get(node, ())


def _split(node: Node) -> tuple[float, Node]:
    """A node as a number times another."""
    if node.op == "mul":
        for k in (0, 1):
            factor, rest = node.arguments[k].constant, node.arguments[1 - k]
            if factor is not None and rest.shape == node.shape:
                return factor, rest
    return 1.0, node


def _like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def _unchanged(name: str, nodes: list[Node], shape: tuple[int, ...]) -> Node | None:
    """The argument that adding nothing, or multiplying by one, leaves as it is."""
    nothing = 0.0 if name in ("add", "sub") else 1.0
    for other, same in ((1, 0), (0, 1)):
        if nodes[other].constant == nothing and nodes[same].shape == shape and (other or name in ("add", "mul")):
            return nodes[same]
    return None


def _computed(name: str, values: list[Any], parameters: Mapping[str, Any]) -> NDArray[Any]:
    from jax import lax

    with jax.ensure_compile_time_eval():
        if name == "convert_element_type":
            return np.asarray(lax.convert_element_type(values[0], parameters["new_dtype"]))
        if name == "integer_pow":
            return np.asarray(lax.integer_pow(values[0], parameters["y"]))
        if name == "round":
            return np.asarray(lax.round(values[0], parameters["rounding_method"]))
        function = {"and": "bitwise_and", "or": "bitwise_or", "not": "bitwise_not", "xor": "bitwise_xor"}.get(name, name)
        return np.asarray(getattr(lax, "select_n" if name == "select_n" else function)(*values))


# Lanes --------------------------------------------------------------------------------------------------------------


def _tell_lanes(graph: Graph) -> None:
    """Find which arrays have lanes: the last axes of what is carried, and all axes that go along with them."""
    group: dict[tuple[int, int], tuple[int, int]] = {}

    def root(a: tuple[int, int]) -> tuple[int, int]:
        while (b := group.get(a, a)) != a:
            a = b
        return a

    def join(a: tuple[int, int], b: tuple[int, int]) -> None:
        group[root(a)] = root(b)

    for node in graph.nodes:
        for argument, axis, own in _together(node):
            join((node.arguments[argument].order, axis), (node.order, own))
    for before, after in zip(graph.carries, graph.carried, strict=True):
        for axis in range(len(before.shape)):
            join((before.order, axis), (after.order, axis))
    seeds = {root((n.order, len(n.shape) - 1)) for n in graph.carries if n.shape}
    for node in graph.nodes:
        axes = [axis for axis in range(len(node.shape)) if node.shape[axis] > 1 and root((node.order, axis)) in seeds]
        if axes and axes != [len(node.shape) - 1]:
            raise Unsupported(f"lanes of {node.op} are not its last axis")
        node.lane = bool(axes)
        if node.constant is None:
            for k, argument in enumerate(node.arguments):
                last = len(argument.shape) - 1
                if argument.lane and (k, last) not in {(a, x) for a, x, _ in _together(node)}:
                    raise Unsupported(f"{node.op} mixes lanes")
        if node.lane and node.value is not None and node.constant is None:
            graph.operands.append(node.value)
            node.op, node.value, node.number = "operand", None, len(graph.operands) - 1


def _together(node: Node) -> Iterator[tuple[int, int, int]]:
    """Axes that go along: (argument, its axis, axis of the node)."""
    op, parameters, shape = node.op, node.parameters, node.shape
    shapes = [n.shape for n in node.arguments]
    if op == "row":
        yield from ((0, a + 1, a) for a in range(len(shape)))
    elif op in ELEMENTWISE:
        for k, given in enumerate(shapes):
            if len(given) == len(shape):
                yield from ((k, axis, axis) for axis, size in enumerate(given) if size == shape[axis])
    elif op == "broadcast_in_dim":
        for axis, own in enumerate(parameters["broadcast_dimensions"]):
            if shapes[0][axis] == shape[own]:
                yield 0, axis, int(own)
    elif op == "reshape":
        yield from ((0, a, b) for a, b in _kept_axes(shapes[0], shape))
    elif op == "squeeze":
        left = [a for a in range(len(shapes[0])) if a not in parameters["dimensions"]]
        yield from ((0, a, own) for own, a in enumerate(left))
    elif op == "reduce_sum":
        left = [a for a in range(len(shapes[0])) if a not in parameters["axes"]]
        yield from ((0, a, own) for own, a in enumerate(left))
    elif op == "transpose":
        yield from ((0, int(a), own) for own, a in enumerate(parameters["permutation"]))
    elif op in ("slice", "dynamic_slice", "pad", "rev"):
        turned = parameters.get("dimensions", ()) if op == "rev" else ()
        yield from ((0, a, a) for a, size in enumerate(shapes[0]) if size == shape[a] and a not in turned)
    elif op == "concatenate":
        along = parameters["dimension"]
        yield from ((k, a, a) for k, given in enumerate(shapes) for a in range(len(given)) if a != along)
    elif op == "gather":
        yield from ((0, a, own) for own, a in zip(*gathered_axes(node), strict=True))
    elif op in ("scatter", "scatter-add"):
        yield from ((k, a, a) for k in (0, 2) for a in range(1, len(shape)))
    elif op == "dot_general":
        yield from product_axes(node)


def gathered_axes(node: Node) -> tuple[list[int], list[int]]:
    """Axes of what is gathered from that are taken whole, and which they become."""
    numbers = node.parameters["dimension_numbers"]
    if tuple(numbers.collapsed_slice_dims) != (0,) or tuple(numbers.start_index_map) != (0,) or numbers.operand_batching_dims:
        raise Unsupported("gather along other axes than the first")
    return list(range(1, len(node.arguments[0].shape))), [int(a) for a in numbers.offset_dims]


def product_axes(node: Node) -> Iterator[tuple[int, int, int]]:
    """Axes of factors that are in their product."""
    (contracted, batched) = node.parameters["dimension_numbers"]
    if batched[0] or batched[1]:
        raise Unsupported("products in batches")
    own = 0
    for k, argument in enumerate(node.arguments):
        for axis in range(len(argument.shape)):
            if axis not in contracted[k]:
                yield k, axis, own
                own += 1


def _kept_axes(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Axes that a reshape leaves whole."""
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            yield i, j
            i, j = i + 1, j + 1
        elif before[i] == 1:
            i += 1
        elif after[j] == 1:
            j += 1
        else:
            a, b = before[i], after[j]
            i, j = i + 1, j + 1
            while a != b:
                if a < b:
                    a, i = a * before[i], i + 1
                else:
                    b, j = b * after[j], j + 1
