"""Loops over steps: in C where that is worth while and possible, and by XLA.

Both come to the same but for round-off. Derivatives and batches of such loops are always made by XLA.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir

from rhel_hw.kernels.compiler import registered, usable
from rhel_hw.kernels.graph import graph_of
from rhel_hw.kernels.nodes import Unsupported
from rhel_hw.kernels.source import source_of

Array = Any
Body = Callable[[Any, Any], tuple[Any, Any]]

TURN = 1000
"""Numbers of a state that take XLA as long as the turn of its loop."""
LEAST_WORK = 2_000_000
"""Numbers × steps, a turn among them: a shorter loop is over before a program in C is compiled or found."""


def pays(size: int, steps: int) -> bool:
    """Whether a loop over a state of so many numbers is worth a program in C, and may be one."""
    return (size + TURN) * steps >= LEAST_WORK and usable()


def scan(body: Body, start: Any, xs: Any = None, length: int | None = None, *, in_c: bool) -> tuple[Any, Any]:
    """As `jax.lax.scan`; in C if that is wanted and possible, for arrays whose last axis are lanes."""
    count = len(jax.tree.leaves(xs)[0]) if length is None else length
    found = _in_c(body, start, xs, count, backwards=False) if in_c and count else None
    return jax.lax.scan(body, start, xs, length) if found is None else found


def scan_back(body: Body, start: Any, length: int, *, in_c: bool) -> tuple[Any, Any]:
    """The same from the last step to the first: what is kept of step k is in row length − 1 − k.

    There is a row more than steps, the last one, for what came before them: whoever calls writes it.
    """
    found = _in_c(body, start, None, length, backwards=True) if in_c and length else None
    return _by_xla(body, start, length) if found is None else found


def _by_xla(body: Body, start: Any, length: int) -> tuple[Any, Any]:
    """`scan_back`: kept rows are written where they belong as they come."""

    def advance(carry: tuple[Array, Any, Any], _: None) -> tuple[tuple[Array, Any, Any], None]:
        row, state, rows = carry
        state, kept = body(state, None)
        rows = jax.tree.map(lambda all_, x: jax.lax.dynamic_update_index_in_dim(all_, x, row, 0), rows, kept)
        return (row - 1, state, rows), None

    _, like = jax.eval_shape(body, start, None)
    rows = jax.tree.map(lambda x: jnp.zeros((length + 1, *x.shape), x.dtype), like)
    (_, state, rows), _ = jax.lax.scan(advance, (jnp.asarray(length - 1), start, rows), None, length)
    return state, rows


# In C ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Loop:
    """A loop that can be run either way: of constants, what is carried, and what it goes through step by step."""

    name: str
    """Of its program."""
    jaxpr: Any
    length: int
    backwards: bool
    counts: tuple[int, int, int]
    """Operands of the program in C; constants of the body; arrays that are carried."""

    @property
    def results(self) -> list[jax.ShapeDtypeStruct]:
        """What is carried at the end, and what is kept."""
        carried, rows = self.counts[2], self.length + self.backwards
        shapes = [(a.shape, a.dtype) for a in (v.aval for v in self.jaxpr.outvars)]
        return [_shape(shape if k < carried else (rows, *shape), dtype) for k, (shape, dtype) in enumerate(shapes)]

    def in_c(self, *given: Array) -> list[Array]:
        """By its program."""
        operands, consts, carried = self.counts
        start = operands + consts
        call = jax.ffi.ffi_call(self.name, self.results)
        return list(call(*given[:operands], *given[start : start + carried]))

    def by_xla(self, *given: Array) -> list[Array]:
        """By a loop of XLA."""
        operands, consts, carried = self.counts
        start = operands + consts
        step = jaxpr_as_fun(ClosedJaxpr(self.jaxpr, list(given[operands:start])))

        def body(state: Sequence[Array], x: Any) -> tuple[list[Array], list[Array]]:
            found = step(*state, *(() if x is None else x))
            return list(found[:carried]), list(found[carried:])

        state, xs = list(given[start : start + carried]), list(given[start + carried :])
        if self.backwards:
            end, kept = _by_xla(body, state, self.length)
        else:
            end, kept = jax.lax.scan(body, state, xs or None, self.length)
        return [*end, *kept]


def _in_c(body: Body, start: Any, xs: Any, length: int, *, backwards: bool) -> tuple[Any, Any] | None:
    """The loop in C, if it can be said in it and be compiled."""
    state, tree = jax.tree.flatten(jax.tree.map(jnp.asarray, start))
    series, branches = jax.tree.flatten(xs)
    kept_tree: Any = None

    def opened(*given: Array) -> list[Array]:
        nonlocal kept_tree
        x = jax.tree.unflatten(branches, given[len(state) :])
        end, kept = body(jax.tree.unflatten(tree, given[: len(state)]), x)
        kept, kept_tree = jax.tree.flatten(kept)
        return [*jax.tree.leaves(end), *kept]

    body_of = jax.make_jaxpr(opened)(*state, *(_shape(x.shape[1:], x.dtype) for x in series))
    try:
        graph = graph_of(body_of, len(state), series)
        source = source_of(graph, length, backwards=backwards)
    except Unsupported as reason:
        logging.getLogger(__name__).info("a loop of %d steps is left to XLA: %s", length, reason)
        return None
    except Exception:  # losses may be anybody's; XLA can do all of them
        words = "a loop of %d steps is left to XLA, though nothing should be in the way: please report this"
        logging.getLogger(__name__).warning(words, length, exc_info=True)
        return None
    name = registered(source.text)
    if name is None:
        return None
    operands = [*graph.operands, *source.tables]
    loop = _Loop(name, body_of.jaxpr, length, backwards, (len(operands), len(body_of.consts), len(state)))
    found = _loop.bind(*map(jnp.asarray, (*operands, *body_of.consts)), *state, *series, loop=loop)
    return jax.tree.unflatten(tree, found[: len(state)]), jax.tree.unflatten(kept_tree, found[len(state) :])


def _shape(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


_loop: Any = Primitive("loop")
"""A loop in C; to derivatives, batches and other devices than processors, a loop of XLA."""
_loop.multiple_results = True


def _shapes(*_given: Any, loop: _Loop) -> list[Any]:
    return [jax.core.ShapedArray(x.shape, x.dtype) for x in loop.results]


def _slope(given: Sequence[Array], tangents: Sequence[Any], *, loop: _Loop) -> Any:
    tangents = [ad.instantiate_zeros(t) for t in tangents]  # type: ignore[no-untyped-call]
    return jax.jvp(loop.by_xla, tuple(given), tuple(tangents))


def _batched(given: Sequence[Array], axes: Sequence[Any], *, loop: _Loop) -> Any:
    found = jax.vmap(loop.by_xla, in_axes=tuple(axes))(*given)
    return found, [0] * len(found)


_loop.def_impl(lambda *given, loop: jax.jit(loop.in_c)(*given))
_loop.def_abstract_eval(_shapes)
ad.primitive_jvps[_loop] = _slope
batching.primitive_batchers[_loop] = _batched
mlir.register_lowering(_loop, mlir.lower_fun(lambda *given, loop: loop.by_xla(*given), multiple_results=True))
mlir.register_lowering(
    _loop, mlir.lower_fun(lambda *given, loop: loop.in_c(*given), multiple_results=True), platform="cpu"
)
