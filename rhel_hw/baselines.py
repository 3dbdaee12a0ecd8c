"""Gradients by automatic differentiation through time: the baselines that echo learning is held against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax

from circuits.hamiltonian import Hamiltonian, Theta
from rhel_hw.integrators import Integrator
from rhel_hw.losses import Loss
from rhel_hw.rhel import Gradient, Problem, State, free_pass

Array = Any


@dataclass(frozen=True)
class BPTT:
    """Backpropagation through time: the exact gradient of the discrete circuit."""

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient by reverse-mode differentiation of the free pass."""
        loss, gradient = _through_time(
            problem.hamiltonian, problem.integrator, problem.loss, problem.theta, problem.inputs, problem.state,
            problem.step,
        )  # fmt: skip
        return Gradient.of(loss, gradient, passes=1)


@partial(jax.jit, static_argnums=(0, 1))
def _through_time(
    hamiltonian: Hamiltonian, integrator: Integrator, loss: Loss, theta: Theta, inputs: Array, start: State, step: Array
) -> tuple[Array, tuple[Any, ...]]:
    def value(theta: Theta, inputs: Array, start: State, step: Array) -> Array:
        return free_pass(hamiltonian, integrator, loss, theta, inputs, start, step)[0]

    return jax.value_and_grad(value, argnums=(0, 1, 2, 3))(theta, inputs, start, step)
