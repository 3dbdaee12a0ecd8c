"""Echoes of linear units without a loop over every step: blocks of steps side by side, then from block to block.

A step of a linear unit is z → M·z + f with the same M at every step, and such maps compose to one of their kind. So
the steps are cut into blocks; all blocks run at once from rest, one loop carries the state from block to block, and
what was carried in is added as powers of M (docs/physics.md, section 12). About 2√K turns of a loop do what K did.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp

from circuits.operators import lanes
from rhel_hw.hru import DELTA, STIFFNESS, LinearUnits
from rhel_hw.integrators import Energy, Integrator, Leapfrog
from rhel_hw.kernels import loops
from rhel_hw.operations import Operation, Stencil
from rhel_hw.passes import Sums

Array = Any
State = tuple[Array, Array]
Theta = Mapping[str, Array]

FEWEST_STEPS = 4096
"""Blocks were measured to be faster from here on (`rhel-hw benchmark scan`),"""
MOST_LANES = 32
"""if a step has no more numbers, units × batch: others are too much for the caches."""
LANES_IN_C = 4
"""Lanes that a loop in C has at least."""


def pays(energy: Energy, integrator: Integrator, steps: int, batch: int) -> bool:
    """Whether echoes by blocks are possible here, and were measured to be faster than a loop over the steps.

    Powers of a step need double precision, whatever that of the run; and no blocks are as fast as a loop in C.
    """
    double = jnp.result_type(jnp.float64) == jnp.float64
    own = isinstance(energy, LinearUnits) and not energy.features and isinstance(integrator, Leapfrog)
    in_c = batch >= LANES_IN_C and loops.pays(energy.size * batch, steps)
    few = energy.size * batch <= MOST_LANES
    return own and double and few and steps >= FEWEST_STEPS and not in_c


def echo(
    operation: Operation, stencil: Stencil, theta: Theta, inputs: Array, final: State, slopes: Array, step: Array,
    strength: Array,
) -> Sums:  # fmt: skip
    """What `passes.echo` sums, for linear units that are nudged by `slopes` (steps, n, batch) of their positions."""
    sizes = (strength * jnp.asarray(stencil.points, inputs.dtype))[:, None]
    _, by_p = operation.nudge((slopes[::-1, :, None], None))  # slopes of positions nudge momenta
    nudges = sizes * by_p
    turned = (final[0][:, None] + 0 * sizes, operation.flip * final[1][:, None] + nudges[0])
    later = jnp.concatenate([nudges[1:], jnp.zeros_like(nudges[:1])])
    played = inputs[::-1, :, None]
    q, p = _evolve(theta, operation.time * step, turned, jnp.broadcast_to(played, nudges.shape), later)
    # Inside every step: momenta before and after the kick, and the position where it acted.
    before = [jnp.concatenate([a[None], b[:-1]]) for a, b in zip(turned, (q, p), strict=True)]
    kick = before[0] + lanes(operation.time * step * theta[DELTA], before[0][0]) / 2 * before[1]
    signs = jnp.asarray([*stencil.weights, *(-w for w in stencil.weights)], kick.dtype)

    def difference(x: Array) -> Array:
        return jnp.einsum("...eb,e->...b", x, signs)

    delta, stiffness = (lanes(theta[k], final[0]) for k in (DELTA, STIFFNESS))
    moved, square = difference(kick), difference(kick**2)
    kinetic = difference(before[1] ** 2 + (p - later) ** 2) / 4
    over_delta = kinetic + stiffness * square / 2 - inputs[::-1] * moved
    return Sums(
        {STIFFNESS: jnp.sum(delta * square / 2, axis=0), DELTA: jnp.sum(over_delta, axis=0)},
        (-delta * moved)[::-1],
        (difference(q[-1]), difference(p[-1])),
        jnp.sum(delta * over_delta, axis=(0, 1)),
    )


def _evolve(theta: Theta, step: Array, start: State, forces: Array, nudges: Array) -> State:
    """States after every step and the nudge that follows it, (steps, n, …) each."""
    steps, size, *more = forces.shape
    inside = max(1, round(steps**0.5))
    blocks = ceil(steps / inside)

    def cut(x: Array) -> Array:
        """(inside, n, blocks, …)."""
        padded = jnp.pad(x, ((0, blocks * inside - steps), *[(0, 0)] * (x.ndim - 1)))
        return jnp.moveaxis(padded.reshape(blocks, inside, size, *more), 0, 2)

    def joined(x: Array) -> Array:
        return jnp.moveaxis(x, 2, 0).reshape(blocks * inside, size, *more)[:steps]

    def advance(state: State, given: tuple[Array, Array]) -> tuple[State, State]:
        q, p = _step(theta, step, *state, given[0])
        state = (q, p + given[1])
        return state, state

    still = jnp.zeros((size, blocks, *more), forces.dtype)
    _, alone = jax.lax.scan(advance, (still, still), (cut(forces), cut(nudges)))
    powers = _powers(theta, step, inside)

    def carry_on(state: State, ends: State) -> tuple[State, State]:
        q, p = _times(powers[-1].astype(forces.dtype), *state)
        return (q + ends[0], p + ends[1]), state

    ends = (jnp.moveaxis(alone[0][-1], 1, 0), jnp.moveaxis(alone[1][-1], 1, 0))
    _, carried = jax.lax.scan(carry_on, start, ends)
    into = (jnp.moveaxis(carried[0], 0, 1), jnp.moveaxis(carried[1], 0, 1))
    added = jax.vmap(lambda power: _times(power, *into))(powers.astype(forces.dtype))
    return joined(alone[0] + added[0]), joined(alone[1] + added[1])


def _step(theta: Theta, step: Array, q: Array, p: Array, force: Array | float) -> State:
    """A leapfrog step, written as the loop over steps computes it, so that both round alike."""
    length, stiffness = lanes(step * theta[DELTA], q), lanes(theta[STIFFNESS], q)
    q = q + length / 2 * p
    p = p + length * (force - stiffness * q)
    return q + length / 2 * p, p


def _powers(theta: Theta, step: Array, count: int) -> Array:
    """M¹ … M^count, (count, 2, 2, n), in double precision: their errors add up over the blocks."""
    wide = {k: v.astype(jnp.float64) for k, v in theta.items()}
    length = jnp.asarray(step).astype(wide[DELTA].dtype)
    one, none = jnp.ones_like(wide[DELTA]), jnp.zeros_like(wide[DELTA])

    def advance(state: State, _: None) -> tuple[State, Array]:
        state = _step(wide, length, *state, 0.0)
        return state, jnp.stack(state)

    start = (jnp.stack([one, none], axis=-1), jnp.stack([none, one], axis=-1))
    _, found = jax.lax.scan(advance, start, None, count)
    return jnp.moveaxis(found, 3, 2)


def _times(power: Array, q: Array, p: Array) -> State:
    """M^k (2, 2, n) on a state (n, …)."""
    (a, b), (c, d) = ([lanes(x, q) for x in row] for row in power)
    return a * q + b * p, c * q + d * p
