"""Recurrent Hamiltonian Echo Learning on a compiled Hamiltonian.

A free pass, then the same circuit run backwards with small nudges towards and away from lower loss. Differences of
∂H/∂θ between the echoes are the gradient: docs/physics.md, section 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from devices import ArgumentError, DivergedError
from rhel_hw.choices import PILOTS, Choices, next_strength, refuse_unless_one_of
from rhel_hw.credit import to_parameters
from rhel_hw.integrators import Energy, Integrator
from rhel_hw.kernels.loops import pays
from rhel_hw.losses import Loss
from rhel_hw.nudging import Nudging, Recorded
from rhel_hw.operations import MomentumFlip, Operation, Protocol, Stencil
from rhel_hw.passes import Sums, Wanted, echo, excursion, free_pass
from rhel_hw.problem import INPUTS, STEP, Gradient, Parts, Problem, Program, on_all_cores

Array = Any
State = tuple[Array, Array]
Theta = Mapping[str, Array]


@dataclass(frozen=True)
class RHEL(Choices):
    """Echo learning on the ideal circuit."""

    operation: Operation = field(default_factory=MomentumFlip)
    nudging: Nudging = field(default_factory=Recorded)

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse_unless_one_of(self, operation=Operation, nudging=Nudging)

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient of the loss from differences between echoes."""
        self.nudging.check(problem.loss, self.operation, problem.state[0].shape[0])
        gamma, pilots = self._tuned(problem) if self.gamma == "auto" else (self.gamma, 0)
        tuned = replace(self, gamma=gamma)
        loss, parts = tuned.found(problem)
        _refuse_unresolved(problem, loss, parts, self.epsilon * gamma)
        echoes = 2 * pilots + len(self.stencil.points)
        return Gradient(loss, parts, self.protocol.runs(echoes) + echoes, self.epsilon, gamma)

    def tuned(self, problem: Problem) -> tuple[RHEL, int]:
        """The same with a number for an automatic γ, and the passes that it took to find it."""
        if self.gamma != "auto":
            return self, 0
        gamma, pilots = self._tuned(problem)
        return replace(self, gamma=gamma), self.protocol.runs(2 * pilots) + 2 * pilots

    def found(self, problem: Problem) -> tuple[Array, Parts]:
        """Loss and derivatives: by loops in C, which go to all cores by themselves, or of every share of the lanes."""
        steps, _, batch = problem.inputs.shape
        whole = pays(problem.state[0].shape[0] * batch, steps)
        return on_all_cores([problem] if whole else problem.shares(), lambda share: self.program(share).run())

    def program(self, problem: Problem) -> Program:
        """The compiled part of it; an automatic γ counts as 1."""
        gamma = 1.0 if self.gamma == "auto" else self.gamma
        dtype = problem.inputs.dtype
        strength = jnp.asarray(self.held(self.epsilon * gamma, dtype), dtype)
        choices = (self.stencil, self.operation, self.nudging, self.protocol, wanted(problem), problem.keys)
        given = (*problem.run, strength)
        return Program(_by_echoes, (problem.hamiltonian, problem.integrator, problem.loss, *choices, *given))

    def _tuned(self, problem: Problem) -> tuple[float, int]:
        """γ for the wanted displacement, and the number of pilot pairs that it took to find it."""
        strength = self.epsilon
        for pilot in range(1, PILOTS + 1):
            spread, displaced, error = (np.asarray(x, float) for x in _pilot(*self._pilot_of(problem, strength)))
            if not np.all(np.isfinite(spread)):
                raise DivergedError("The run left the range of floating point: use a smaller step or weaker inputs")
            if np.all(spread == 0):
                raise ArgumentError(
                    "Argument `gamma` must be a number here, but is 'auto': the state never moves, so it has no spread "
                    "to compare the echoes with"
                )
            round_off = np.finfo(problem.inputs.dtype).eps * len(problem.inputs) ** 0.5 * np.max(spread)
            if error <= 10 * round_off:  # the loss is at its minimum
                return 1.0, pilot
            ratio = float(np.max(displaced[spread > 0] / spread[spread > 0]))
            following = next_strength(strength, ratio, self.displacement)
            if following is None:
                return strength / self.epsilon, pilot
            strength = following
        raise ArgumentError(
            f"Argument `gamma` must be a number here, but is 'auto': after {PILOTS} pilots the echoes do not stray by "
            f"{self.displacement:g} of the spread of the state; another `displacement` may do"
        )

    def _pilot_of(self, problem: Problem, strength: float) -> tuple[Any, ...]:
        system = (problem.hamiltonian, problem.integrator, problem.loss, self.operation, self.nudging)
        return (*system, *problem.run, jnp.asarray(strength, problem.inputs.dtype))


def wanted(problem: Problem) -> Wanted:
    """What the echoes of a problem shall sum."""
    wrt = problem.wrt or ()
    return Wanted(problem.hamiltonian.moved_by(problem.keys), INPUTS in wrt, STEP in wrt)


def assembled(
    energy: Energy, operation: Operation, keys: tuple[str, ...], theta: Theta, step: Array, sums: Sums
) -> Parts:
    """Derivatives from sums over echoes: signs, and the chain rule from weights to theta."""
    batch = sums.ends[0].shape[-1]
    by_theta = to_parameters(energy, operation, theta, sums.weights)
    scale = -operation.time * step / batch
    return Parts(
        {k: scale * by_theta[k] for k in keys},
        None if sums.inputs is None else scale * sums.inputs,
        operation.sensitivity(jax.tree.map(lambda x: x / batch, sums.ends)),
        None if sums.energy is None else -operation.time * jnp.mean(sums.energy),
    )


def _refuse_unresolved(problem: Problem, loss: Array, parts: Parts, strength: float) -> None:
    """Refuse echoes that came back no further apart than round-off: their difference is noise."""
    eps = float(np.finfo(problem.inputs.dtype).eps)
    size = max(float(jnp.max(jnp.abs(x))) for x in problem.state) or 1.0
    assert parts.state is not None  # echoes always give it
    apart = strength * problem.inputs.shape[-1] * max(float(jnp.max(jnp.abs(x))) for x in parts.state)
    if apart < 10 * eps * size and float(loss) > (10 * eps * size) ** 2:
        raise ArgumentError(
            f"Arguments `epsilon` and `gamma` must have a larger product than {strength:g}: the echoes differ by no "
            f'more than {problem.inputs.dtype.name} resolves; gamma = "auto" finds one'
        )


@partial(jax.jit, static_argnums=(0, 1, 3, 4, 5, 6, 7, 8))
def _by_echoes(
    energy: Energy, integrator: Integrator, loss: Loss, stencil: Stencil, operation: Operation, nudging: Nudging,
    protocol: Protocol, wanted: Wanted, keys: tuple[str, ...], theta: Theta, inputs: Array, start: State, step: Array,
    strength: Array,
) -> tuple[Array, Parts]:  # fmt: skip
    if (runs := protocol.runs(len(stencil.points))) > 1:
        q, p = start
        start = tuple(jnp.broadcast_to(x[:, None], (x.shape[0], runs, x.shape[1])) for x in (q, p))  # type: ignore[assignment]
    free = free_pass(energy, integrator, loss, theta, inputs, start, step)
    nudges = nudging.nudges(loss, operation, free.errors, free.last, len(inputs))
    sums = echo(
        energy, integrator, operation, stencil, theta, inputs, free.final, nudges, step, strength, wanted
    )  # fmt: skip
    sums = jax.tree.map(lambda x: x / strength, sums)
    return jnp.mean(free.loss), assembled(energy, operation, keys, theta, step, sums)


@partial(jax.jit, static_argnums=(0, 1, 3, 4))
def _pilot(
    energy: Energy, integrator: Integrator, loss: Loss, operation: Operation, nudging: Nudging, theta: Theta,
    inputs: Array, start: State, step: Array, strength: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """How far pilot echoes stray, and the largest recorded error."""
    free = free_pass(energy, integrator, loss, theta, inputs, start, step)
    nudges = nudging.nudges(loss, operation, free.errors, free.last, len(inputs))
    seen = excursion(energy, integrator, operation, theta, inputs, free.final, nudges, step, strength)
    error = jnp.max(jnp.stack([jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves((free.errors, free.last))]))
    return seen.spread, seen.displacement, error
