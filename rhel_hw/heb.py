"""Hamiltonian echo backpropagation: a loss at the final time, and the gradient of the initial state."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from devices import ArgumentError
from rhel_hw.losses import When
from rhel_hw.operations import Centred, Hold, MomentumFlip, Operation, Protocol, Stencil
from rhel_hw.problem import Gradient, Problem, Program
from rhel_hw.rhel import RHEL


@dataclass(frozen=True)
class HEB:
    """One nudge at the turning point; the displacement with which the echo returns is the gradient of the start.

    No trajectory is recorded. What shall be learnt has to be part of the initial state.
    """

    epsilon: float = 1e-3
    gamma: float = 1.0
    stencil: Stencil = field(default_factory=Centred)
    operation: Operation = field(default_factory=MomentumFlip)
    protocol: Protocol = field(default_factory=Hold)

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient of the initial state alone."""
        return self._learner.gradient(self._of_state(problem))

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        return self._learner.program(self._of_state(problem))

    @property
    def _learner(self) -> RHEL:
        return RHEL(self.epsilon, self.gamma, self.stencil, self.protocol, operation=self.operation)

    @staticmethod
    def _of_state(problem: Problem) -> Problem:
        if problem.loss.when is not When.FINAL:
            raise ArgumentError(
                f"Argument `loss` must look at {When.FINAL.value} only, but {type(problem.loss).__name__} looks at "
                f"{problem.loss.when.value}: use RHEL"
            )
        return replace(problem, wrt=())
