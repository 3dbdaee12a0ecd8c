"""What the body of a loop computes, as a graph: calls are opened, and what does not change in the loop is taken out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import frexp
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal
from numpy.typing import NDArray

from circuits.operators import plain_read
from rhel_hw.kernels.lanes import tell_lanes
from rhel_hw.kernels.nodes import ELEMENTWISE, VIEWS, Graph, Node, Unsupported, reached

Array = Any

INSIDE = ("call_jaxpr", "jaxpr", "fun_jaxpr")
"""Parameters in which primitives that call something keep it."""
CALLS = frozenset(("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint"))
SAME = frozenset(("copy", "copy_p", "optimization_barrier", "stop_gradient"))
"""Primitives that change nothing."""


def graph_of(body: ClosedJaxpr, carries: int, series: Sequence[Array] = ()) -> Graph:
    """Graph of a body that takes and returns so many carried arrays, and returns more that are kept of every step.

    What else it takes is a row of these series.
    """
    jaxpr = body.jaxpr
    avals: list[Any] = [v.aval for v in jaxpr.invars]
    _refuse_keys(avals)
    builder = _Builder({a.shape[-1] for a in avals if a.shape})
    given = [builder.node("carry", a.shape, a.dtype, number=k) for k, a in enumerate(avals[:carries])]
    rows = [builder.node("row", x.shape[1:], x.dtype, arguments=(builder.as_node(x, embed=False),)) for x in series]
    found = builder.run(jaxpr, list(body.consts), [*given, *rows])
    out = [builder.as_node(x) for x in found]
    needed = reached([*given, *out])
    nodes = [n for n in builder.nodes if n in needed]
    operands = [n for n in nodes if n.op == "operand"]
    arrays = [builder.operands[n.number] for n in operands]
    for k, node in enumerate(operands):
        node.number = k
    graph = Graph(nodes, arrays, given, out[:carries], out[carries:])
    tell_lanes(graph)
    return graph


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
            aval = v.aval
            return np.asarray(v.val, aval.dtype) if isinstance(v, Literal) else known[v]

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
        if name in SAME:
            return given
        out = equation.outvars[0]
        if not any(isinstance(x, Node) for x in given) and not self._spreads(name, out.aval.shape):
            return self._outside(equation, given)
        if len(equation.outvars) > 1:
            raise Unsupported(name)
        nodes = [self.as_node(x) for x in given]
        return [self._simple(name, nodes, parameters, out.aval)]

    def _outside(self, equation: Any, given: list[Any]) -> list[Any]:
        """What is known before the loop: by JAX, and as numbers if all are numbers."""
        _refuse_keys(v.aval for v in (*equation.invars, *equation.outvars))

        def found(*given: Array) -> list[Array]:
            results = equation.primitive.bind(*given, **equation.params)
            return list(results) if equation.primitive.multiple_results else [results]

        if any(isinstance(x, jax.core.Tracer) for x in given):
            return found(*given)
        with jax.ensure_compile_time_eval():
            return [np.asarray(x) for x in found(*map(jax.numpy.asarray, given))]

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
            shape = _like(aval)
            whole = self._simple(name, list(inner), parameters, shape) if name != "mul" else inner[0]
            return self._simple("mul", [self.constant(factor, (), aval.dtype), whole], {}, shape)

        if name == "mul":
            for k in (0, 1):
                if (
                    (outer := nodes[k].constant) is not None
                    and split[1 - k][0] != 1
                    and split[1 - k][1].shape == aval.shape
                ):
                    return times(outer * split[1 - k][0], split[1 - k][1])
            return self._merged(nodes, aval)
        if name == "div" and nodes[1].constant is not None and frexp(nodes[1].constant)[0] == 0.5:  # a power of two
            shape = _like(aval)
            return self._simple("mul", [self.constant(1 / nodes[1].constant, (), aval.dtype), nodes[0]], {}, shape)
        if name == "div" and nodes[1].constant is None and (divisor := self._outside_of(nodes[1])):
            key = ("inverse", nodes[1].order)
            if key not in self._seen:
                self._seen[key] = self.as_node(1 / divisor[0])
            return self._simple("mul", [self._seen[key], nodes[0]], {}, _like(aval))
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
                    shape = _like(aval)
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


def _refuse_keys(avals: Iterable[Any]) -> None:
    """Of random numbers: they are no numbers."""
    if any(not isinstance(a.dtype, np.dtype) for a in avals):
        raise Unsupported("random numbers")


def _like(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(x.shape, x.dtype)  # type: ignore[no-untyped-call]


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
        function = {"and": "bitwise_and", "or": "bitwise_or", "not": "bitwise_not", "xor": "bitwise_xor"}.get(
            name, name
        )
        return np.asarray(getattr(lax, "select_n" if name == "select_n" else function)(*values))
