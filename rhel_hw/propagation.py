"""The compiled loop of a free run, on one core or on all."""

from __future__ import annotations

from enum import Enum
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from circuits.hamiltonian import Hamiltonian, Theta
from rhel_hw.cores import shares, side_by_side
from rhel_hw.dissipation import Bath, Noise, bath_of
from rhel_hw.integrators import Energy, Integrator

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


@partial(jax.jit, static_argnums=(0, 1, 2))
def propagate(
    hamiltonian: Energy, integrator: Integrator, keep: Keep, theta: Theta, inputs: Array, start: State,
    step: Array, noise: tuple[Array, Array] | None = None,
) -> tuple[State, Kept]:  # fmt: skip
    """The compiled loop: final state, and the positions, momenta and kick points that are kept.

    `noise` is the thermal energy and a random key.
    """
    prepared = hamiltonian.prepare(theta)
    thermal, key = (None, None) if noise is None else noise
    bath = bath_of(hamiltonian, prepared, step / 2, thermal) if isinstance(hamiltonian, Hamiltonian) else Bath()

    def advance(state: State, given: tuple[Array, Array | None]) -> Any:
        u, keys = given
        first, second = (None, None) if keys is None else (_normals(bath, k, state[0]) for k in keys)
        q, p = bath(state, first)
        q, p, inside = integrator.step(hamiltonian, q, p, prepared, u, step)
        q, p = bath((q, p), second)
        kicks = jnp.stack(inside.kicks) if keep is Keep.ALL else None
        return (q, p), (None if keep is Keep.FINAL else q, p if keep in (Keep.ENDS, Keep.ALL) else None, kicks)

    keys = None if key is None else jax.random.split(key, (len(inputs), 2))
    final, kept = jax.lax.scan(advance, start, (inputs, keys))
    return final, kept


def _normals(bath: Bath, key: Array, like: Array) -> Noise | None:
    keys = jax.random.split(key, 3)
    return bath.drawn(lambda stream: jax.random.normal(keys[stream], like.shape, like.dtype))


def run(
    hamiltonian: Energy, integrator: Integrator, keep: Keep, theta: Theta, inputs: Array, start: State,
    step: Array, noise: tuple[Array, Array] | None = None,
) -> tuple[State, Kept]:  # fmt: skip
    """`propagate`, with the lanes on all cores where that pays. Noise is drawn for all lanes at once, and stays so."""
    size, *batch = start[0].shape
    parts = shares(size, batch[0], len(inputs)) if batch and noise is None else [slice(None)]
    if len(parts) == 1:
        return propagate(hamiltonian, integrator, keep, theta, inputs, start, step, noise)  # type: ignore[no-any-return]

    def of(lanes: slice) -> tuple[State, Kept]:
        values = {k: v[:, lanes] if v.ndim == 2 else v for k, v in theta.items()}
        state = tuple(x[:, lanes] for x in start)
        return propagate(hamiltonian, integrator, keep, values, inputs[..., lanes], state, step)  # type: ignore[no-any-return]

    found = side_by_side([partial(of, lanes) for lanes in parts])
    return jax.tree.map(lambda *x: jnp.concatenate(x, axis=-1), *found)  # type: ignore[no-any-return]
