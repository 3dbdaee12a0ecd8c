"""Credit: what samples of an echo say about parameters, by the nominal energies alone.

No dynamics here: every sample is looked at by itself, whatever device it came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from rhel_hw.operations import Operation

if TYPE_CHECKING:
    from rhel_hw.integrators import Energy

Array = Any
Theta = Mapping[str, Array]

CHUNK = 1 << 19
"""Most numbers of a state that are looked at in one go."""
ROUNDS = 8
"""Of the search for the states where rotations begin; each is closer by the square of the angle."""


def to_parameters(energy: Energy, operation: Operation, theta: Theta, sums: Mapping[str, Array]) -> Theta:
    """The chain rule from sums over weights, (count, batch) each, to theta; a weight without a sum counts nothing."""
    signs = energy.theta_parity if operation.conjugates else {}

    def weights(theta: Theta) -> dict[str, Array]:
        return energy.weights({k: signs[k] * v if k in signs else v for k, v in theta.items()})

    shapes, back = jax.vjp(weights, dict(theta))
    cotangents = {
        k: jnp.zeros_like(w) if k not in sums else sums[k] if w.ndim == 2 else sums[k].sum(-1)
        for k, w in shapes.items()
    }
    (by_theta,) = back(cotangents)
    return dict(by_theta)


def credit(
    energy: Energy, operation: Operation, keys: tuple[str, ...], theta: Theta, q: Array, p: Array, u: Array,
    step: float, coefficients: Array,
) -> dict[str, Array]:  # fmt: skip
    """Σ coefficient·∂h/∂θ over steps and runs, by parameter: (count, chips), or (count,) if theta is the same for all.

    Arguments:
        energy: of the design as drawn.
        operation: how the echo was made.
        keys: parameters that are wanted.
        theta: programmed, (count,) or (count, chips).
        q: kick points, (steps, n, runs, chips).
        p: momenta at the start and at the end of every step, a pair of (steps, n, runs, chips): nudges act in between.
        u: inputs as the echo has them, (steps, m, runs or 1, chips or 1).
        step: dimensionless.
        coefficients: (runs,).
    """
    batched = any(jnp.ndim(v) == 2 for v in theta.values())
    steps, size, runs, chips = q.shape
    rows = max(1, min(steps, CHUNK // (size * runs * chips)))
    total: dict[str, Array] = {}
    for begin in range(0, steps, rows):
        piece = slice(begin, begin + rows)
        taken = [_padded(x[piece], rows) for x in (q, *p, u)]
        live = jnp.arange(rows) < steps - begin
        found = _slopes(energy, operation, energy.moved_by(keys), dict(theta), *taken, step, coefficients, live)
        total = found if not total else {k: v + found[k] for k, v in total.items()}
    sums = total if batched else {k: v[:, None] if v.ndim == 1 else v for k, v in total.items()}
    by_theta = to_parameters(energy, operation, theta, sums)
    return {k: by_theta[k] for k in keys}


def _padded(x: Array, rows: int) -> Array:
    x = jnp.asarray(x)
    return x if x.shape[0] == rows else jnp.concatenate([x, jnp.zeros((rows - x.shape[0], *x.shape[1:]), x.dtype)])


@partial(jax.jit, static_argnums=(0, 1, 2))
def _slopes(
    energy: Energy, operation: Operation, wanted: tuple[str, ...], theta: Theta, q: Array, starts: Array, ends: Array,
    u: Array, step: Array, coefficients: Array, live: Array,
) -> dict[str, Array]:  # fmt: skip
    """Derivatives of the weighted energy of some steps by the wanted weights."""
    if operation.conjugates:
        theta = {k: energy.theta_parity.get(k, 1.0) * v for k, v in theta.items()} if energy.theta_parity else theta
    prepared = energy.prepare(theta)
    weights = {k: v for k, v in energy.weights(theta).items() if k in wanted}
    q, starts, ends, u = (jnp.moveaxis(x, 0, 1) for x in (q, starts, ends, u))
    u = jnp.broadcast_to(u, (u.shape[0], *q.shape[1:]))
    weight = (live[:, None] * coefficients)[:, :, None]
    length = operation.time * step

    def action(weights: Theta) -> Array:
        values = prepared.using(weights)
        total = energy.potential(q, values, u)
        total = total + (energy.kinetic(starts, values, u) + energy.kinetic(ends, values, u)) / 2
        if energy.turning:
            for state in _before_turns(energy, prepared, q, starts, ends, length / 2):
                total = total + energy.mean_rotation(*state, prepared, values, length / 2) / 2
        return jnp.sum(weight * total)

    slopes: dict[str, Array] = jax.grad(action)(weights)
    return slopes


def _before_turns(
    energy: Energy, prepared: Any, kick: Array, start: Array, end: Array, time: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """States where the rotations of a step begin: one ends at the kick point, the other with the last momentum."""
    q, p = kick, end
    for _ in range(ROUNDS):
        q = q + kick - energy.turn(q, start, prepared, time)[0]
        p = p + end - energy.turn(kick, p, prepared, time)[1]
    return (q, start), (kick, p)
