"""A recurrence as a layer: inputs in, positions out, and its derivatives by echoes.

To automatic differentiation a layer is one function with a derivative of its own. Going back it is told what its
outputs do to the loss; that nudges its echoes, and what they measure is what its parameters and inputs do to the loss.
So stacks of layers with anything static between them learn by echoes through every layer and by the chain rule in
between (docs/physics.md, section 12). Any energy will do: rows of units, or a compiled circuit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from rhel_hw.integrators import Energy, Integrator, Leapfrog
from rhel_hw.nudging import Nudges
from rhel_hw.operations import Centred, MomentumFlip, Operation, Stencil
from rhel_hw.passes import Wanted, echo, excursion
from rhel_hw.rhel import assembled

Array = Any
Theta = Mapping[str, Array]
State = tuple[Array, Array]


@dataclass(frozen=True)
class Echoes:
    """How a layer makes its echoes."""

    stencil: Stencil = Centred()  # noqa: RUF009 (frozen)
    operation: Operation = MomentumFlip()  # noqa: RUF009
    integrator: Integrator = Leapfrog()  # noqa: RUF009
    watched: bool = False
    """Whether pilot echoes tell how far they stray: that stands in the place of the derivative by the strength."""


def positions(energy: Energy, integrator: Integrator, theta: Theta, inputs: Array, step: Array) -> tuple[Array, State]:
    """Positions at the end of every step, (steps, n, batch), and the last state; from rest, by inputs (steps, m, …)."""
    prepared = energy.prepare(theta)
    rest = jnp.zeros((energy.size, inputs.shape[-1]), inputs.dtype)

    def advance(state: State, u: Array) -> tuple[State, Array]:
        q, p, _ = integrator.step(energy, *state, prepared, u, step)
        return (q, p), q

    final, found = jax.lax.scan(advance, (rest, rest), inputs)
    return found, final


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def echoed(energy: Energy, how: Echoes, theta: Theta, inputs: Array, step: Array, strength: Array) -> Array:
    """Positions of a layer whose derivatives are found by echoes of this strength, γ·ε.

    Arguments:
        energy: of the layer.
        how: echoes are made.
        theta: parameters by name.
        inputs: (steps, m, batch).
        step: length of a step.
        strength: of the nudges; echoes are compared by what they do per strength, so it scales nothing.
    """
    return positions(energy, how.integrator, theta, inputs, step)[0]


def _forward(energy: Energy, how: Echoes, theta: Theta, inputs: Array, step: Array, strength: Array) -> Any:
    found, final = positions(energy, how.integrator, theta, inputs, step)
    return found, (theta, inputs, step, strength, final)


def _backward(energy: Energy, how: Echoes, kept: Any, slopes: Array) -> Any:
    theta, inputs, step, strength, final = kept
    steps, batch = inputs.shape[0], inputs.shape[-1]

    def displacement(i: Array | int) -> Any:
        return how.operation.nudge((slopes[i], None))

    nudges = Nudges(lambda _: displacement(-1), lambda _, i: displacement(i), every=steps > 1)
    run = (theta, inputs, final, nudges, step, strength)
    keys = tuple(theta)
    wanted = Wanted(energy.moved_by(keys), inputs=True, step=True)
    sums = echo(energy, how.integrator, how.operation, how.stencil, *run, wanted)
    sums = jax.tree.map(lambda x: x / strength, sums)
    found = assembled(energy, how.operation, keys, theta, step, sums)
    by_theta, by_inputs, by_step = jax.tree.map(lambda x: batch * x, (found.theta, found.inputs, found.step))
    strayed = jnp.zeros_like(strength)
    if how.watched:
        seen = excursion(energy, how.integrator, how.operation, *run)
        strayed = jnp.max(jnp.where(seen.spread > 0, seen.displacement / seen.spread, 0.0)).astype(strength.dtype)
    return by_theta, by_inputs, by_step, strayed


echoed.defvjp(_forward, _backward)
