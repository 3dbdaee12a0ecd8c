"""Recurrent Hamiltonian Echo Learning on a compiled Hamiltonian.

A free pass records the nudges y = ∂ℓ/∂(q, p); the momenta are flipped, the inputs played backwards, and the state is
nudged by ±ε·y after every step. Differences of ∂H/∂θ between the echoes are the gradient: docs/physics.md, section 6.
Echoes of all signs run as one batch, and sums are accumulated, so that nothing is stored per step but the nudges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from circuits.hamiltonian import Hamiltonian, Theta
from rhel_hw.integrators import Integrator, Leapfrog
from rhel_hw.losses import Loss

Array = Any
State = tuple[Array, Array]


# What is asked ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """A loss on a run: what every gradient estimator is given. Dimensionless, batch last."""

    hamiltonian: Hamiltonian
    theta: Theta
    inputs: Array
    """(steps, channels, batch)"""
    step: Array
    state: State
    """Positions and momenta, (n, batch) each."""
    loss: Loss
    integrator: Integrator = field(default_factory=Leapfrog)


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of the loss, averaged over the batch; inputs and state keep their shapes."""

    loss: Array
    theta: Mapping[str, Array]
    inputs: Array
    state: State
    step: Array
    passes: int

    @classmethod
    def of(cls, loss: Array, parts: tuple[Any, ...], *, passes: int) -> Gradient:
        """Gradient from its parts by theta, inputs, state and step."""
        theta, inputs, state, step = parts
        return cls(loss, theta, inputs, state, step, passes)


# How it is answered -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stencil:
    """A difference quotient in ε: Σ weights·X(points·ε)/ε ≈ dX/dε with an error of order `order`."""

    points: ClassVar[tuple[float, ...]]
    weights: ClassVar[tuple[float, ...]]
    order: ClassVar[int]


@dataclass(frozen=True)
class Centred(Stencil):
    """Two echoes of opposite sign."""

    points = (1.0, -1.0)
    weights = (1 / 2, -1 / 2)
    order = 2


@dataclass(frozen=True)
class OneSided(Stencil):
    """One nudged echo, one free."""

    points = (1.0, 0.0)
    weights = (1.0, -1.0)
    order = 1


@dataclass(frozen=True)
class Richardson(Stencil):
    """Four echoes, (4D(ε) − D(2ε))/3 of the centred quotient D."""

    points = (1.0, -1.0, 2.0, -2.0)
    weights = (2 / 3, -2 / 3, -1 / 12, 1 / 12)
    order = 4


@dataclass(frozen=True)
class Operation(ABC):
    """How an echo is made: what happens to the momenta and to time, and the signs that follow."""

    flip: ClassVar[float]
    """Factor on the momenta at the start of the echo."""
    time: ClassVar[float]
    """Factor on the time step: −1 runs with −H."""

    @staticmethod
    @abstractmethod
    def nudge(slope: State) -> State:
        """Displacement of (q, p) per ε."""

    @staticmethod
    @abstractmethod
    def sensitivity(displacement: State) -> State:
        """dL/d(q, p) at the start of the run from the displacement per ε at the end of the echo."""


@dataclass(frozen=True)
class MomentumFlip(Operation):
    """Flip the momenta and let the same circuit run: needs H even in momentum."""

    flip = -1.0
    time = 1.0

    @staticmethod
    def nudge(slope: State) -> State:
        """(∂ℓ/∂p, ∂ℓ/∂q)."""
        return slope[1], slope[0]

    @staticmethod
    def sensitivity(displacement: State) -> State:
        """Positions answer for momenta and momenta for positions."""
        return displacement[1], displacement[0]


@dataclass(frozen=True)
class SignFlip(Operation):
    """Run with −H instead: needs hardware that can invert every sign, but no evenness."""

    flip = 1.0
    time = -1.0

    @staticmethod
    def nudge(slope: State) -> State:
        """(−∂ℓ/∂p, ∂ℓ/∂q)."""
        return -slope[1], slope[0]

    @staticmethod
    def sensitivity(displacement: State) -> State:
        """J applied to the displacement."""
        return displacement[1], -displacement[0]


@dataclass(frozen=True)
class RHEL:
    """Echo learning with recorded nudges; γ·ε is what the physics sees."""

    epsilon: float = 1e-3
    gamma: float = 1.0
    stencil: Stencil = field(default_factory=Centred)
    operation: Operation = field(default_factory=MomentumFlip)

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient by echoes of both signs."""
        loss, gradient = _by_echoes(
            problem.hamiltonian, problem.integrator, problem.loss, self.stencil, self.operation, problem.theta,
            problem.inputs, problem.state, problem.step, jnp.asarray(self.epsilon * self.gamma, problem.inputs.dtype),
        )  # fmt: skip
        return Gradient.of(loss, gradient, passes=1 + len(self.stencil.points))


@dataclass(frozen=True)
class RHELLimit:
    """The limit ε → 0 by a derivative in ε: a reference that no device can compute."""

    operation: Operation = field(default_factory=MomentumFlip)

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient as the derivative of one echo by ε."""
        loss, gradient = _by_limit(
            problem.hamiltonian, problem.integrator, problem.loss, self.operation, problem.theta, problem.inputs,
            problem.state, problem.step,
        )  # fmt: skip
        return Gradient.of(loss, gradient, passes=2)


# Passes -----------------------------------------------------------------------------------------------------------


def free_pass(
    hamiltonian: Hamiltonian, integrator: Integrator, loss: Loss, theta: Theta, inputs: Array, start: State, step: Array
) -> tuple[Array, State, Any]:
    """Mean loss, final state, and recorded slopes: (steps, n, batch) for running losses, (n, batch) for final ones."""
    prepared = hamiltonian.prepare(theta)
    lanes = start[0].shape[-1]

    def advance(carry: tuple[State, Array], item: Any) -> tuple[tuple[State, Array], State | None]:
        (q, p), total = carry
        u, data = item
        q, p, _ = integrator.step(hamiltonian, q, p, prepared, u, step)
        if loss.final:
            return ((q, p), total), None
        return ((q, p), total + jnp.sum(loss.at(q, p, data))), loss.slope(q, p, data)

    data = loss.data()
    items = (inputs, None if loss.final else data)
    (final, total), slopes = jax.lax.scan(advance, (start, jnp.zeros((), inputs.dtype)), items)
    if loss.final:
        total, slopes = jnp.sum(loss.at(*final, data)), loss.slope(*final, data)
    return total / lanes, final, slopes


def _echo(
    hamiltonian: Hamiltonian, integrator: Integrator, loss: Loss, operation: Operation, theta: Theta, inputs: Array,
    final: State, slopes: State, step: Array, strength: Array, weights: Array,
) -> tuple[Any, Array, State, Array]:  # fmt: skip
    """Weighted sums over echoes: of ∂H/∂prepared and ∂H/∂u and H over the steps, and of the last states.

    `strength` and `weights` have one entry per echo; echoes and batch share the last axis.
    """
    prepared = hamiltonian.prepare(theta)
    echoes, lanes = strength.shape[0], final[0].shape[-1]
    size = jnp.repeat(strength, lanes)
    weight = jnp.repeat(weights, lanes) / lanes

    def tiled(x: Array) -> Array:
        return jnp.tile(x, (1,) * (x.ndim - 1) + (echoes,))

    def nudged(q: Array, p: Array, slope: State) -> State:
        dq, dp = operation.nudge(slope)
        return q + size * tiled(dq), p + size * tiled(dp)

    def action(values: Any, u: Array, kicks: Array, momenta: Array) -> Array:
        """H of the step, as the composition weighs it: Σ drift·T + Σ length·V, summed over the weighted echoes."""
        total = sum(
            length * hamiltonian.potential(q, values, u) for length, q in zip(integrator.lengths, kicks, strict=True)
        )
        total += sum(
            drift * hamiltonian.kinetic(p, values) for drift, p in zip(integrator.drifts, momenta, strict=True)
        )
        return jnp.sum(weight * total)

    def advance(carry: Any, item: Any) -> Any:
        (q, p), sums, energy = carry
        u, slope = item
        u = tiled(u)
        q, p, (kicks, momenta) = integrator.step(hamiltonian, q, p, prepared, u, operation.time * step)
        value, (by_values, by_input) = jax.value_and_grad(action, argnums=(0, 1))(prepared, u, kicks, momenta)
        sums = jax.tree.map(jnp.add, sums, by_values)
        if slope is not None:
            q, p = nudged(q, p, slope)
        by_input = jnp.sum(by_input.reshape(by_input.shape[0], echoes, lanes), axis=1)
        return ((q, p), sums, energy + value), by_input

    q, p = tiled(final[0]), operation.flip * tiled(final[1])
    last = slopes if loss.final else jax.tree.map(lambda y: y[-1], slopes)
    start = (nudged(q, p, last), jax.tree.map(jnp.zeros_like, prepared), jnp.zeros((), inputs.dtype))
    later = None if loss.final else jax.tree.map(lambda y: jnp.concatenate([y[-2::-1], jnp.zeros_like(y[:1])]), slopes)
    (end, sums, energy), by_inputs = jax.lax.scan(advance, start, (inputs[::-1], later))
    ends = jax.tree.map(lambda x: jnp.sum((weight * x).reshape(x.shape[0], echoes, lanes), axis=1), end)
    return sums, by_inputs[::-1], ends, energy


def _assembled(hamiltonian: Hamiltonian, operation: Operation, theta: Theta, step: Array, sums: Any) -> tuple[Any, ...]:
    """Gradient from the sums of an echo: signs of the operation, and the chain rule back to theta."""
    by_values, by_inputs, ends, energy = sums
    sign = -operation.time
    _, back = jax.vjp(hamiltonian.prepare, theta)
    (by_theta,) = back(by_values)
    scale = sign * step
    gradient = {k: scale * v for k, v in by_theta.items()}
    return gradient, scale * by_inputs, operation.sensitivity(ends), sign * energy


@partial(jax.jit, static_argnums=(0, 1, 3, 4))
def _by_echoes(
    hamiltonian: Hamiltonian, integrator: Integrator, loss: Loss, stencil: Stencil, operation: Operation, theta: Theta,
    inputs: Array, start: State, step: Array, strength: Array,
) -> tuple[Array, tuple[Any, ...]]:  # fmt: skip
    value, final, slopes = free_pass(hamiltonian, integrator, loss, theta, inputs, start, step)
    points, weights = (jnp.asarray(x, inputs.dtype) for x in (stencil.points, stencil.weights))
    sums = _echo(
        hamiltonian,
        integrator,
        loss,
        operation,
        theta,
        inputs,
        final,
        slopes,
        step,
        points * strength,
        weights / strength,
    )
    return value, _assembled(hamiltonian, operation, theta, step, sums)


@partial(jax.jit, static_argnums=(0, 1, 3))
def _by_limit(
    hamiltonian: Hamiltonian, integrator: Integrator, loss: Loss, operation: Operation, theta: Theta, inputs: Array,
    start: State, step: Array,
) -> tuple[Array, tuple[Any, ...]]:  # fmt: skip
    value, final, slopes = free_pass(hamiltonian, integrator, loss, theta, inputs, start, step)

    def echo(strength: Array) -> Any:
        one = jnp.ones((1,), inputs.dtype)
        return _echo(hamiltonian, integrator, loss, operation, theta, inputs, final, slopes, step, strength * one, one)

    zero = jnp.zeros((), inputs.dtype)
    _, sums = jax.jvp(echo, (zero,), (jnp.ones_like(zero),))
    return value, _assembled(hamiltonian, operation, theta, step, sums)
