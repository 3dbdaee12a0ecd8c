"""Gradients that no device can compute by itself, or that waste its time: what echo learning is held against.

Everything that differentiates through time is here and in `continuous`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from devices import ArgumentError, refuse_unless_positive
from rhel_hw.integrators import Energy, Integrator, Leapfrog, flow
from rhel_hw.layers import positions
from rhel_hw.losses import Loss, When
from rhel_hw.nudging import Recorded
from rhel_hw.operations import MomentumFlip, OneSided, Operation
from rhel_hw.passes import Wanted, echo, free_pass
from rhel_hw.problem import INPUTS, STEP, Gradient, Parts, Problem, Program, on_all_cores
from rhel_hw.rhel import RHEL, assembled, wanted

Array = Any
State = tuple[Array, Array]
Theta = Mapping[str, Array]


_positions = jax.jit(positions, static_argnums=(0, 1))
DEALS = 100
"""Most times that the control deals out its credit."""


# Exact ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BPTT:
    """Backpropagation through time: the exact gradient of the discrete circuit."""

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient by reverse-mode differentiation of the free pass."""
        return Gradient(*on_all_cores(problem.shares(), self._found), passes=1)

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        given = {"theta": {k: problem.theta[k] for k in problem.keys}, "state": problem.state}
        given |= {k: getattr(problem, k) for k in (INPUTS, STEP) if k in (problem.wrt or ())}
        return Program(_through_time, (*_system(problem), *problem.run, given))

    def _found(self, problem: Problem) -> tuple[Array, Parts]:
        value, by = self.program(problem).run()
        return value, Parts(by["theta"], by.get(INPUTS), by["state"], by.get(STEP))


@dataclass(frozen=True)
class ThroughTime:
    """Backpropagation through the recurrences of a model (a `Method` of layers): exact, and keeps every state."""

    integrator: Integrator = field(default_factory=Leapfrog)

    def through(
        self, energy: Energy, theta: Mapping[str, Array], inputs: Array, step: Array, strength: Array, watch: Array
    ) -> Array:
        """Positions of a layer that is differentiated step by step."""
        return _positions(energy, self.integrator, theta, inputs, step)[0]


@dataclass(frozen=True)
class RHELLimit:
    """Echo learning in the limit ε → 0, by a derivative in ε."""

    operation: Operation = field(default_factory=MomentumFlip)

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient as the derivative of one echo by ε."""
        value, parts = self.program(problem).run()
        return Gradient(value, parts, passes=2)

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        return Program(_by_limit, (*_system(problem), self.operation, wanted(problem), problem.keys, *problem.run))


@dataclass(frozen=True)
class Adjoint:
    """The continuous adjoint method: state, sensitivity and gradient integrated backwards together, by Runge–Kutta.

    It differentiates the circuit in continuous time, not the discrete one, so it differs from backpropagation by an
    error of second order in the step.
    """

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient by the adjoint differential equation."""
        value, parts = self.program(problem).run()
        return Gradient(value, parts, passes=2)

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        return Program(_by_adjoint, (*_system(problem), wanted(problem), problem.keys, *problem.run))


# By trial ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FiniteDifferences:
    """Two runs for every parameter, moved by ± `size` of its value (of the unit, where it is zero). By theta only."""

    size: float = 1e-5

    def __post_init__(self) -> None:
        refuse_unless_positive(size=self.size)

    def gradient(self, problem: Problem) -> Gradient:
        """Centred differences, one parameter after another."""
        flat, back = _flat(problem)
        value, differences = self.program(problem).run()
        quotients = differences / (2 * self.size * _scale(flat))
        return Gradient(value, Parts(back(quotients), None, None, None), passes=1 + 2 * len(flat))

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        moves = jnp.diag(self.size * _scale(_flat(problem)[0]))
        return Program(_by_moves, (*_system(problem), problem.keys, *problem.run, moves))


@dataclass(frozen=True)
class SPSA:
    """Simultaneous perturbation: all parameters moved at once in random directions, `samples` times. By theta only."""

    size: float = 1e-4
    samples: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        refuse_unless_positive(size=self.size, samples=self.samples)

    def gradient(self, problem: Problem) -> Gradient:
        """Mean over the samples of the difference quotient along ±1 for every parameter."""
        _, back = _flat(problem)
        program = self.program(problem)
        value, differences = program.run()
        mean = jnp.mean(differences[:, None] / (2 * program.arguments[-1]), axis=0)
        return Gradient(value, Parts(back(mean), None, None, None), passes=1 + 2 * self.samples)

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        flat, _ = _flat(problem)
        signs = np.random.default_rng(self.seed).choice([-1.0, 1.0], size=(self.samples, len(flat)))
        moves = self.size * _scale(flat) * jnp.asarray(signs, flat.dtype)
        return Program(_by_moves, (*_system(problem), problem.keys, *problem.run, moves))


# Control ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShuffledCredit:
    """A control that must fail: echo learning whose credit goes to the wrong parameters, with random signs.

    It does all the work of echo learning. The credit is dealt again until it points elsewhere, |cosine| < 0.2 to what
    it was dealt from. That takes a handful of parameters: with one, it can only be right or opposite.
    """

    learner: RHEL = field(default_factory=RHEL)
    seed: int = 0

    def gradient(self, problem: Problem) -> Gradient:
        """The gradient by echoes, its parts by theta dealt out anew."""
        found = self.learner.gradient(problem)
        flat, back = ravel_pytree(dict(found.theta))
        rng, own = np.random.default_rng(self.seed), np.asarray(flat)
        for _ in range(DEALS):
            order = rng.permutation(len(own))
            dealt = np.empty_like(own)
            dealt[order] = rng.choice([-1.0, 1.0], size=len(own)) * own[np.roll(order, 1)]  # nothing stays in place
            if abs(dealt @ own) < 0.2 * own @ own:
                break
        return replace(found, parts=Parts(back(jnp.asarray(dealt, flat.dtype)), None, None, None))

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        return self.learner.program(problem)


# Programs ---------------------------------------------------------------------------------------------------------


def _system(problem: Problem) -> tuple[Energy, Integrator, Loss]:
    return problem.hamiltonian, problem.integrator, problem.loss


def _flat(problem: Problem) -> tuple[Array, Any]:
    """The parameters that are differentiated by in one array, and the way back."""
    if not problem.keys:
        raise ArgumentError("Argument `wrt` must name parameters, but has none: trials move parameters only")
    flat, back = ravel_pytree({k: problem.theta[k] for k in problem.keys})
    return flat, back


def _scale(flat: Array) -> Array:
    return jnp.where(flat == 0, 1.0, jnp.abs(flat))


def loss_of(
    energy: Energy, integrator: Integrator, loss: Loss, theta: Theta, inputs: Array, start: State, step: Array
) -> Array:
    """Mean loss of a free pass, step by step: plainer than `free_pass`, and independent of it."""
    prepared = energy.prepare(theta)
    data, running, pooled = loss.data(), loss.when is When.RUNNING, loss.when is When.POOLED

    def advance(carry: tuple[State, Any], item: Any) -> tuple[tuple[State, Any], None]:
        (q, p), seen = carry
        u, target = item
        q, p, _ = integrator.step(energy, q, p, prepared, u, step)
        if running:
            seen = seen + loss.at(q, p, target)
        if pooled:
            seen = jax.tree.map(jnp.add, seen, (q, p))
        return ((q, p), seen), None

    seen = jax.tree.map(jnp.zeros_like, start) if pooled else jnp.zeros_like(start[0][0])
    (final, seen), _ = jax.lax.scan(advance, (start, seen), (inputs, data if running else None))
    if running:
        return jnp.mean(seen)
    q, p = jax.tree.map(lambda x: x / len(inputs), seen) if pooled else final
    return jnp.mean(loss.at(q, p, data))


@partial(jax.jit, static_argnums=(0, 1))
def _through_time(
    energy: Energy, integrator: Integrator, loss: Loss, theta: Theta, inputs: Array, start: State, step: Array,
    given: dict[str, Any],
) -> tuple[Array, dict[str, Any]]:  # fmt: skip
    def of(moved: dict[str, Any]) -> Array:
        whole = {**theta, **moved["theta"]}
        run = (whole, moved.get(INPUTS, inputs), moved["state"], moved.get(STEP, step))
        return loss_of(energy, integrator, loss, *run)

    return jax.value_and_grad(of)(given)


@partial(jax.jit, static_argnums=(0, 1, 3, 4, 5))
def _by_limit(
    energy: Energy, integrator: Integrator, loss: Loss, operation: Operation, wanted: Wanted, keys: tuple[str, ...],
    theta: Theta, inputs: Array, start: State, step: Array,
) -> tuple[Array, Parts]:  # fmt: skip
    free = free_pass(energy, integrator, loss, theta, inputs, start, step)
    nudges = Recorded().nudges(loss, operation, free.errors, free.last, len(inputs))

    def sums(strength: Array) -> Any:
        return echo(
            energy, integrator, operation, OneSided(), theta, inputs, free.final, nudges, step, strength, wanted
        )

    zero = jnp.zeros((), inputs.dtype)
    _, by_strength = jax.jvp(sums, (zero,), (jnp.ones_like(zero),))
    return jnp.mean(free.loss), assembled(energy, operation, keys, theta, step, by_strength)


@partial(jax.jit, static_argnums=(0, 1, 3, 4))
def _by_adjoint(
    energy: Energy, integrator: Integrator, loss: Loss, wanted: Wanted, keys: tuple[str, ...], theta: Theta,
    inputs: Array, start: State, step: Array,
) -> tuple[Array, Parts]:  # fmt: skip
    free = free_pass(energy, integrator, loss, theta, inputs, start, step)
    batch, steps = inputs.shape[-1], len(inputs)
    trained = {k: theta[k] for k in keys}

    def moved(state: State, trained: Theta, u: Array) -> State:
        prepared = energy.prepare({**theta, **trained})
        return flow(energy, *state, prepared, u)

    def rates(y: tuple[Any, ...], u: Array) -> tuple[Any, ...]:
        """Of state, sensitivity λ, and the quadratures of λ·∂f/∂θ, λ·∂f/∂u and λ·f, all in reversed time."""
        state, adjoint, *_ = y
        speed, back = jax.vjp(moved, state, trained, u)
        by_state, by_theta, by_input = back(adjoint)
        work = sum(jnp.sum(a * f, axis=0) for a, f in zip(adjoint, speed, strict=True))
        return jax.tree.map(jnp.negative, speed), by_state, by_theta, by_input, work

    def plus(y: Any, size: Array, slope: Any) -> Any:
        return jax.tree.map(lambda a, b: a + size * b, y, slope)

    def slopes(recorded: Any) -> State:
        q, p = (jnp.zeros_like(x) if s is None else s for x, s in zip(start, loss.slopes(recorded), strict=True))
        return q, p

    def backwards(y: Any, u: Array) -> tuple[Any, Array]:
        y = (*y[:3], jnp.zeros_like(u), y[4])
        first = rates(y, u)
        second = rates(plus(y, step / 2, first), u)
        third = rates(plus(y, step / 2, second), u)
        fourth = rates(plus(y, step, third), u)
        total = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, first, second, third, fourth)
        y = plus(y, step, total)
        return y, y[3]

    def advance(carry: Any, _: None) -> Any:
        i, y = carry
        y, by_input = backwards(y, inputs[i])
        if loss.when is When.RUNNING and steps > 1:
            y = (y[0], jax.tree.map(jnp.add, y[1], slopes(jax.tree.map(lambda x: x[i - 1], free.errors))), *y[2:])
        elif loss.when is When.POOLED:
            y = (y[0], jax.tree.map(jnp.add, y[1], pooled), *y[2:])
        return (i - 1, y), by_input if wanted.inputs else None

    share = jax.tree.map(lambda x: x / steps if loss.when is When.POOLED else x, free.last)
    pooled = slopes(share)
    zeros = (
        jax.tree.map(jnp.zeros_like, trained),
        jnp.zeros_like(inputs[0]),
        jnp.zeros_like(inputs[0, 0], shape=batch),
    )
    y = (free.final, pooled, *zeros)
    (_, y), by_inputs = jax.lax.scan(advance, (jnp.asarray(steps - 1), y), None, steps - 1, reverse=True)
    y, by_input = backwards(y, inputs[0])
    parts = Parts(
        jax.tree.map(lambda x: x / batch, y[2]),
        jnp.concatenate([by_input[None], by_inputs]) / batch if wanted.inputs else None,
        jax.tree.map(lambda x: x / batch, y[1]),
        jnp.mean(y[4]) / step if wanted.step else None,
    )
    return jnp.mean(free.loss), parts


@partial(jax.jit, static_argnums=(0, 1, 3))
def _by_moves(
    energy: Energy, integrator: Integrator, loss: Loss, keys: tuple[str, ...], theta: Theta, inputs: Array,
    start: State, step: Array, moves: Array,
) -> tuple[Array, Array]:  # fmt: skip
    """Loss, and its differences L(θ + move) − L(θ − move) for moves (count, parameters)."""
    flat, back = ravel_pytree({k: theta[k] for k in keys})

    def moved(move: Array) -> Array:
        return loss_of(energy, integrator, loss, {**theta, **back(flat + move)}, inputs, start, step)

    differences = jax.lax.map(lambda move: moved(move) - moved(-move), moves)
    return moved(jnp.zeros_like(flat)), differences
