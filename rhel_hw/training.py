"""Training: repeated gradients and moves of the parameters in their unconstrained form."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import optax

from circuits import Design
from devices import ArgumentError, refuse_unless_positive
from rhel_hw.problem import Estimator, Problem
from rhel_hw.rhel import RHEL

Array = Any
Report = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Trained:
    """What training came to."""

    theta: Mapping[str, Array]
    """The best parameters seen, dimensionless."""
    losses: tuple[float, ...]
    """Before every move, and of the end."""
    passes: int
    """Runs of the device in all."""
    seconds: float

    @property
    def best(self) -> float:
        """Lowest loss seen: that of `theta`."""
        return min(self.losses)

    @property
    def improvement(self) -> float:
        """First loss over the best."""
        return self.losses[0] / self.best if self.best > 0 else float("inf")


@dataclass(frozen=True)
class Training:
    """Adam on logarithms of positive parameters, logits of bounded ones and multiples of the others."""

    steps: int = 100
    rate: float = 0.03
    """Length of a move; about the relative change of a parameter."""

    def __post_init__(self) -> None:
        refuse_unless_positive(rate=self.rate)
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ArgumentError(f"Argument `steps` must be a whole number of at least 1, but is {self.steps!r}")

    def run(self, design: Design, problem: Problem, learner: Estimator, *, report: Report | None = None) -> Trained:
        """Train a design on a problem. An automatic γ is found once, at the start; the rate falls to a tenth."""
        started, pilots = time.perf_counter(), 0
        if isinstance(learner, RHEL) and learner.gamma == "auto":
            learner, pilots = learner.tuned(problem)
        optimiser = optax.adam(optax.cosine_decay_schedule(self.rate, self.steps, alpha=0.1))

        def bound(free: Any) -> Any:
            return design.parameters.bind(free, problem.theta)

        @jax.jit
        def moved(free: Any, state: Any, gradient: Any) -> tuple[Any, Any, Any]:
            theta, back = jax.vjp(bound, free)
            (slope,) = back({k: gradient.get(k, jnp.zeros_like(v)) for k, v in theta.items()})
            moves, state = optimiser.update(slope, state)
            free = optax.apply_updates(free, moves)
            return free, state, bound(free)

        free = jax.jit(design.parameters.free)(problem.theta)
        theta, state = jax.jit(bound)(free), optimiser.init(free)
        losses, passes, best = [], pilots, (float("inf"), theta)
        for step in range(self.steps + 1):
            found = learner.gradient(replace(problem, theta=theta))
            losses.append(float(found.loss))
            passes += found.passes
            if losses[-1] < best[0]:
                best = (losses[-1], theta)
            free, state, theta = moved(free, state, dict(found.theta))
            if report:
                report(step, self.steps)
        return Trained(best[1], tuple(losses), passes, time.perf_counter() - started)
