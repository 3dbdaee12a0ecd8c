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
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from rhel_hw import parallel
from rhel_hw.integrators import Energy, Integrator, Leapfrog
from rhel_hw.kernels.loops import pays, scan
from rhel_hw.nudging import Nudges
from rhel_hw.operations import Centred, MomentumFlip, Operation, Stencil
from rhel_hw.passes import Wanted, echo, excursion
from rhel_hw.rhel import assembled

Array = Any
Theta = Mapping[str, Array]
State = tuple[Array, Array]


class Method(Protocol):
    """How the derivatives of layers are found: by `Echoes`, or by backpropagation (`rhel_hw.baselines`)."""

    def through(self, energy: Energy, theta: Theta, inputs: Array, step: Array, strength: Array, watch: Array) -> Array:
        """Positions of a layer, as `echoed` has them."""
        ...


@dataclass(frozen=True)
class Echoes:
    """How a layer makes its echoes."""

    stencil: Stencil = Centred()  # noqa: RUF009 (frozen)
    operation: Operation = MomentumFlip()  # noqa: RUF009
    integrator: Integrator = Leapfrog()  # noqa: RUF009
    watched: bool = False
    """Whether pilot echoes tell how far they stray."""

    def through(self, energy: Energy, theta: Theta, inputs: Array, step: Array, strength: Array, watch: Array) -> Array:
        """Positions of a layer that learns by echoes."""
        found: Array = _compiled(energy, self, theta, inputs, step, strength, watch)
        return found


WATCHED = 3
"""Numbers that a watched layer reports: how far its echoes stray over the spread of the state, their bend over how far
they stray, and by how much an echo that is not nudged misses the way it came, over that spread (`Excursion`)."""


def positions(energy: Energy, integrator: Integrator, theta: Theta, inputs: Array, step: Array) -> tuple[Array, State]:
    """Positions at the end of every step, (steps, n, batch), and the last state; from rest, by inputs (steps, m, …)."""
    prepared = energy.prepare(theta)
    rest = _rest(energy, inputs)

    def advance(state: State, u: Array) -> tuple[State, Array]:
        q, p, _ = integrator.step(energy, *state, prepared, u, step)
        return (q, p), q

    final, found = scan(advance, (rest, rest), inputs, in_c=pays(rest.size, len(inputs)))
    return found, final


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def echoed(
    energy: Energy, how: Echoes, theta: Theta, inputs: Array, step: Array, strength: Array, watch: Array
) -> Array:
    """Positions of a layer whose derivatives are found by echoes of this strength, γ·ε.

    Arguments:
        energy: of the layer.
        how: echoes are made.
        theta: parameters by name.
        inputs: (steps, m, batch).
        step: length of a step.
        strength: of the nudges; echoes are compared by what they do per strength, so it scales nothing.
        watch: (3,), of no effect; in the place of its derivative a watched layer reports on its echoes.
    """
    return positions(energy, how.integrator, theta, inputs, step)[0]


def _forward(energy: Energy, how: Echoes, theta: Theta, inputs: Any, step: Any, strength: Any, watch: Any) -> Any:
    """Positions, and what the way back needs; arguments come with whether anybody differentiates by them."""
    timed = () if step.perturbed else None
    theta, inputs, step, strength, watch = jax.tree.map(lambda x: x.value, (theta, inputs, step, strength, watch))
    found, final = positions(energy, how.integrator, theta, inputs, step)
    return found, (theta, inputs, step, strength, watch, final, found if how.watched else None, timed)


def _backward(energy: Energy, how: Echoes, kept: Any, slopes: Array) -> Any:
    theta, inputs, step, strength, watch, final, path, timed = kept
    steps, batch = inputs.shape[0], inputs.shape[-1]

    def displacement(i: Array | int) -> Any:
        return how.operation.nudge((slopes[i], None))

    nudges = Nudges(lambda _: displacement(-1), lambda _, i: displacement(i), every=steps > 1)
    keys = tuple(theta)
    if parallel.pays(energy, how.integrator, steps, batch):
        sums = parallel.echo(how.operation, how.stencil, theta, inputs, final, slopes, step, strength)
    else:
        wanted = Wanted(energy.moved_by(keys), inputs=True, step=timed is not None)
        run = (theta, inputs, final, nudges, step, strength)
        sums = echo(energy, how.integrator, how.operation, how.stencil, *run, wanted)
    sums = jax.tree.map(lambda x: x / strength, sums)
    found = assembled(energy, how.operation, keys, theta, step, sums)
    by_theta, by_inputs, by_step = jax.tree.map(lambda x: batch * x, (found.theta, found.inputs, found.step))
    report = jnp.zeros_like(watch)
    if how.watched:
        seen = excursion(energy, how.integrator, how.operation, theta, inputs, final, nudges, step, strength, path)
        report = jnp.stack(
            [
                _largest(seen.displacement, seen.spread),
                _largest(seen.bend, seen.displacement),
                _largest(seen.missed, seen.spread[0]),
            ]
        ).astype(watch.dtype)
    return by_theta, by_inputs, jnp.zeros_like(step) if by_step is None else by_step, jnp.zeros_like(strength), report


def _rest(energy: Energy, inputs: Array) -> Array:
    return jnp.zeros((energy.size, inputs.shape[-1]), inputs.dtype)


def _largest(part: Array, whole: Array) -> Array:
    """Of positions or momenta, where there are any."""
    return jnp.max(jnp.where(whole > 0, part / jnp.where(whole > 0, whole, 1.0), 0.0))


echoed.defvjp(_forward, _backward, symbolic_zeros=True)
# Models with a bench are not compiled as a whole; a loop that is not compiled at all would be compiled at every call.
_compiled = jax.jit(echoed, static_argnums=(0, 1))
