"""The compiled loop of a free run, on one core or on all."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from circuits.hamiltonian import Hamiltonian, Theta
from rhel_hw.cores import MOST_NUMBERS, shares, side_by_side
from rhel_hw.dissipation import Bath, Noise, bath_of
from rhel_hw.integrators import Energy, Integrator
from rhel_hw.kernels.compiler import usable
from rhel_hw.kernels.loops import scan

Array = Any
State = tuple[Array, Array]
Kept = tuple[Array | None, Array | None, Array | None]
"""Positions, momenta and kick points, as far as they are kept."""


class Keep(Enum):
    """How much of a run is kept."""

    FINAL = "final state only"
    POSITIONS = "positions at the end of every step"
    ENDS = "positions and momenta at the end of every step"
    ALL = "those, and the kick points inside every step"


def run(
    hamiltonian: Energy, integrator: Integrator, keep: Keep, theta: Theta, inputs: Array, start: State,
    step: Array, noise: tuple[Array, Array] | None = None,
) -> tuple[State, Kept]:  # fmt: skip
    """`propagate`, with the lanes on all cores where that pays: not where what is kept takes longer to join.

    Noise is drawn for all lanes at once, and stays so. A state that is larger than the nearest cache goes in C, some
    lanes at a time, whatever is kept and however many steps there are.
    """
    size, *batch = start[0].shape
    if noise is None and start[0].size > MOST_NUMBERS and batch and usable():
        return propagate(hamiltonian, integrator, keep, theta, inputs, start, step, in_c=True)  # type: ignore[no-any-return]
    alone = keep is not Keep.FINAL or noise is not None or not batch
    parts = [slice(0, 1)] if alone else shares(size, batch[0], len(inputs))
    if len(parts) == 1:
        return propagate(hamiltonian, integrator, keep, theta, inputs, start, step, noise)  # type: ignore[no-any-return]
    width, given = parts[0].stop, (theta, inputs, start, step)
    ends = side_by_side([partial(_share, hamiltonian, integrator, width, *given, lanes.start) for lanes in parts])
    return jax.tree.map(lambda *x: jnp.concatenate(x, axis=-1), *ends), (None, None, None)


@partial(jax.jit, static_argnums=(0, 1, 2), static_argnames="in_c")
def propagate(
    hamiltonian: Energy, integrator: Integrator, keep: Keep, theta: Theta, inputs: Array, start: State,
    step: Array, noise: tuple[Array, Array] | None = None, *, in_c: bool = False,
) -> tuple[State, Kept]:  # fmt: skip
    """The compiled loop: final state, and the positions, momenta and kick points that are kept.

    `noise` is the thermal energy and a random key.
    """
    return _loop(hamiltonian, integrator, keep, theta, inputs, start, step, noise, lambda u: u, in_c)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _share(
    hamiltonian: Energy, integrator: Integrator, width: int, theta: Theta, inputs: Array, start: State, step: Array,
    first: Array,
) -> State:  # fmt: skip
    """Final state of so many lanes from one on; inputs are read where they are, and never copied."""

    def cut(x: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(x, first, width, axis=x.ndim - 1)

    values = {k: cut(v) if v.ndim == 2 else v for k, v in theta.items()}
    state = (cut(start[0]), cut(start[1]))
    return _loop(hamiltonian, integrator, Keep.FINAL, values, inputs, state, step, None, cut, False)[0]


def _loop(
    hamiltonian: Energy, integrator: Integrator, keep: Keep, theta: Theta, inputs: Array, start: State, step: Array,
    noise: tuple[Array, Array] | None, cut: Callable[[Array], Array], in_c: bool,
) -> tuple[State, Kept]:  # fmt: skip
    prepared = hamiltonian.prepare(theta)
    thermal, key = (None, None) if noise is None else noise
    bath = bath_of(hamiltonian, prepared, step / 2, thermal) if isinstance(hamiltonian, Hamiltonian) else Bath()

    def advance(state: State, given: tuple[Array, Array | None]) -> Any:
        u, keys = given
        first, second = (None, None) if keys is None else (_normals(bath, k, state[0]) for k in keys)
        q, p = bath(state, first)
        q, p, inside = integrator.step(hamiltonian, q, p, prepared, cut(u), step)
        q, p = bath((q, p), second)
        kicks = jnp.stack(inside.kicks) if keep is Keep.ALL else None
        return (q, p), (None if keep is Keep.FINAL else q, p if keep in (Keep.ENDS, Keep.ALL) else None, kicks)

    keys = None if key is None else jax.random.split(key, (len(inputs), 2))
    final, kept = scan(advance, start, (inputs, keys), in_c=in_c)
    return final, kept


def _normals(bath: Bath, key: Array, like: Array) -> Noise | None:
    keys = jax.random.split(key, 3)
    return bath.drawn(lambda stream: jax.random.normal(keys[stream], like.shape, like.dtype))
