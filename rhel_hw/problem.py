"""What every gradient estimator is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from devices import ArgumentError, DivergedError, nearest, refuse_unless_positive
from rhel_hw.bench import Limits
from rhel_hw.cores import shares, side_by_side
from rhel_hw.integrators import Energy, Integrator, Leapfrog
from rhel_hw.losses import Loss
from rhel_hw.simulation import conform, method_of
from rhel_hw.training import Found

Array = Any
State = tuple[Array, Array]

INPUTS, STEP = "inputs", "step"
PASSES = 5
"""Free passes that a gradient takes the time of."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A loss on a run. Dimensionless, batch last; arrays without a batch are given one of a single lane."""

    hamiltonian: Energy
    theta: Mapping[str, Array]
    inputs: Array
    """(steps, m[, batch])"""
    step: Array
    state: State
    """Positions and momenta, (n[, batch]) each."""
    loss: Loss
    integrator: Integrator = field(default_factory=Leapfrog)
    wrt: tuple[str, ...] | None = None
    """What to differentiate by: names of theta, "inputs", "step". The initial state comes with it. None: all."""

    def __post_init__(self) -> None:
        if self.hamiltonian.lossy:
            raise ArgumentError(
                f"The ideal circuit must be without loss, but has {', '.join(self.hamiltonian.lossy)}: an echo does "
                "not retrace what is lost. Remove them, or learn on a bench, as `rhel-hw train` does"
            )
        if not isinstance(self.loss, Loss):
            raise ArgumentError(f"Argument `loss` must be a loss such as TrajectoryMSE, but is {self.loss!r}")
        theta = {k: jnp.asarray(v) for k, v in self.theta.items()}
        steps = np.shape(self.inputs)[0] if np.ndim(self.inputs) else 0
        if steps == 0:
            raise ArgumentError("Argument `inputs` must have at least one step, but has none")
        refuse_unless_positive(step=self.step)
        if isinstance(self.wrt, str):
            raise ArgumentError(f"Argument `wrt` must be a tuple of names, but is the text {self.wrt!r}")
        moved, inputs, state = conform(self.hamiltonian, theta, self.inputs, steps, self.state)
        if inputs.ndim == 2:
            inputs, state = inputs[:, :, None], tuple(x[:, None] for x in state)
        known = (*theta, INPUTS, STEP)
        for name in self.wrt or ():
            if name not in known:
                raise ArgumentError(
                    f"Argument `wrt` must name parameters, {INPUTS!r} or {STEP!r}, but has {name!r}"
                    f"{nearest(name, known)}"
                )
        loss = _in_precision(self.loss, inputs.dtype)
        loss.check(steps, state[0].shape[0], inputs.shape[-1])
        for key, value in (
            ("theta", moved),
            ("loss", loss),
            ("integrator", method_of(self.integrator)),
            ("inputs", inputs),
            ("state", state),
            ("step", jnp.asarray(self.step, inputs.dtype)),
            ("wrt", known if self.wrt is None else tuple(self.wrt)),
        ):
            object.__setattr__(self, key, value)

    @property
    def run(self) -> tuple[Any, Any, Any, Any]:
        """Parameters, inputs, state and step: what a compiled program is given of it."""
        return self.theta, self.inputs, self.state, self.step

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the parameters that are differentiated by."""
        return tuple(k for k in self.theta if k in (self.wrt or ()))

    def at(self, theta: Mapping[str, Array]) -> Problem:
        """The same with other parameters, which alone are checked again."""
        values = {k: jnp.asarray(v) for k, v in theta.items()}
        if any(v.dtype != self.inputs.dtype for v in values.values()):
            return replace(self, theta=values)
        moved, _, _ = conform(self.hamiltonian, values, self.inputs[:1], 1, self.state)
        return self._with(theta=moved)

    def shares(self) -> list[Problem]:
        """The same for a share of the lanes each, as many as are computed side by side."""
        return [
            self._with(theta={k: v[:, lanes] if v.ndim == 2 else v for k, v in self.theta.items()}, **rest)
            for lanes, rest in self._cuts
        ] or [self]

    @cached_property
    def _cuts(self) -> list[tuple[slice, dict[str, Any]]]:
        """Lanes of every share, and what it has of all but the parameters; none if there is but one share."""
        steps, _, batch = self.inputs.shape
        parts = shares(self.state[0].shape[0], batch, PASSES * steps)
        losses = [self.loss.part(lanes) for lanes in parts]
        if len(parts) == 1 or None in losses:
            return []
        return [
            (lanes, {"inputs": self.inputs[..., lanes], "state": tuple(x[:, lanes] for x in self.state), "loss": loss})
            for lanes, loss in zip(parts, losses, strict=True)
        ]

    def _with(self, **changes: Any) -> Problem:
        """The same but for these, which were checked before."""
        other = copy(self)
        if changes.keys() - {"theta"}:
            other.__dict__.pop("_cuts", None)
        other.__dict__.update(changes)
        return other


class Program(NamedTuple):
    """A compiled function and what it is called with, so that it can be measured as well as run."""

    function: Any
    arguments: tuple[Any, ...]

    def run(self) -> Any:
        """What the function returns."""
        return self.function(*self.arguments)

    def temporary_bytes(self) -> int:
        """Peak of the memory that it needs beside its arguments and results."""
        return int(self.function.lower(*self.arguments).compile().memory_analysis().temp_size_in_bytes)


class Estimator(Protocol):
    """Whatever finds gradients."""

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient of the loss."""
        ...

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        ...


@dataclass(frozen=True, eq=False)
class OnProblem:
    """Gradients for training, by any estimator on a problem; an automatic γ is found once, at the start."""

    problem: Problem
    estimator: Estimator
    limits: Mapping[str, Limits] = field(default_factory=dict)
    found: dict[str, Any] = field(default_factory=dict)
    """The estimator with its γ, once there is one."""

    def __call__(self, theta: Mapping[str, Array]) -> Found:
        """Loss and gradient at these parameters."""
        problem, pilots = self.problem.at(theta), 0
        if "estimator" not in self.found:
            tune = getattr(self.estimator, "tuned", None)
            self.found["estimator"], pilots = (self.estimator, 0) if tune is None else tune(problem)
        gradient = self.found["estimator"].gradient(problem)
        return Found(float(gradient.loss), gradient.theta, gradient.passes + pilots)

    def state(self) -> dict[str, Any]:
        """γ, as far as it was found."""
        return {"gamma": getattr(self.found.get("estimator"), "gamma", None)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the γ that was found."""
        if state["gamma"] is not None:
            self.found["estimator"] = replace(self.estimator, gamma=state["gamma"])  # type: ignore[type-var]


class Parts(NamedTuple):
    """Derivatives of the loss, averaged over the batch; None for what was not asked for."""

    theta: Mapping[str, Array]
    inputs: Array | None
    """(steps, m, batch)"""
    state: State | None
    """By positions and momenta at the start, (n, batch) each."""
    step: Array | None


def on_all_cores(shares: Sequence[Problem], found: Callable[[Problem], tuple[Array, Parts]]) -> tuple[Array, Parts]:
    """Loss and derivatives, which a compiled program finds of every share of the lanes: averages over the batch."""
    each = side_by_side([partial(found, share) for share in shares])
    if len(each) == 1:
        return each[0]
    losses, parts = zip(*each, strict=True)

    def mean(*x: Array) -> Array:
        return jnp.mean(jnp.stack(x), axis=0)

    def joined(*x: Array) -> Array:
        return jnp.concatenate(x, axis=-1) / len(x)

    theta, inputs, state, step = zip(*parts, strict=True)
    by_theta = {k: (mean if theta[0][k].ndim == 1 else joined)(*(part[k] for part in theta)) for k in theta[0]}
    by_inputs, by_state = jax.tree.map(joined, *zip(inputs, state, strict=True))
    return mean(*losses), Parts(by_theta, by_inputs, by_state, None if step[0] is None else mean(*step))


@dataclass(frozen=True, eq=False)
class Gradient:
    """Derivatives of the loss as `Parts` has them, and what they cost."""

    loss: Array
    parts: Parts
    passes: int
    """Runs of the device that it took."""
    epsilon: float | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        if not bool(_finite((self.loss, self.parts))):
            raise DivergedError(
                "The gradient left the range of floating point: use a smaller step, weaker inputs, targets nearer to "
                "the response, or a smaller epsilon·gamma"
            )

    @property
    def theta(self) -> Mapping[str, Array]:
        """By the parameters."""
        return self.parts.theta

    @property
    def inputs(self) -> Array | None:
        """By the inputs, (steps, m, batch)."""
        return self.parts.inputs

    @property
    def state(self) -> State | None:
        """By positions and momenta at the start, (n, batch) each."""
        return self.parts.state

    @property
    def step(self) -> Array | None:
        """By the time step."""
        return self.parts.step


def _in_precision(loss: Loss, dtype: Any) -> Loss:
    """The loss with its numbers in the precision of the run; whole numbers stay."""
    if jax.tree_util.all_leaves([loss]):
        raise ArgumentError(
            f"Argument `loss` must be known to JAX, but {type(loss).__name__} is not: decorate it with "
            "jax.tree_util.register_dataclass"
        )
    arrays = jax.tree.map(jnp.asarray, loss)
    cast: Loss = jax.tree.map(lambda x: x.astype(dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x, arrays)
    return cast


@jax.jit
def _finite(tree: Any) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(tree)]))
