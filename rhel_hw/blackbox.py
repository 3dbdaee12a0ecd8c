"""Echo learning without a model: parameters as slow knobs that feel the energy they move in.

Every trained parameter is a coordinate with a large mass, and its momentum P integrates −∂H/∂θ by the physics itself:
H + Σ P²/2M. After free pass and echoes the difference of the knobs' momenta is the gradient, so the learner computes no
∂H/∂θ and records no trajectory: docs/physics.md, section 7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from devices import ArgumentError, refuse_unless_positive
from rhel_hw.integrators import Energy, Integrator
from rhel_hw.losses import Loss, When
from rhel_hw.operations import Centred, Hold, MomentumFlip, Protocol, Stencil
from rhel_hw.problem import Gradient, Parts, Problem, Program

Array = Any
Theta = Mapping[str, Array]


@dataclass(frozen=True)
class Readout(ABC):
    """How a knob is read when the echo is over."""

    @abstractmethod
    def check(self) -> None:
        """Refuse what cannot be measured."""

    @abstractmethod
    def momenta(self, knobs: Theta, momenta: Theta, mass: Array) -> dict[str, Array]:
        """Momenta of the knobs as this readout sees them."""


@dataclass(frozen=True)
class KnobMomentum(Readout):
    """The momentum itself."""

    def check(self) -> None:
        """Nothing to refuse."""

    def momenta(self, knobs: Theta, momenta: Theta, mass: Array) -> dict[str, Array]:
        """As it is."""
        return dict(momenta)


@dataclass(frozen=True)
class FreeFlight(Readout):
    """The displacement over a time in which the knob flies alone, times M over that time.

    Two readings of each knob. One reading after the echo would not do: where a knob stands then is not the gradient.
    """

    time: float = 1.0
    """Dimensionless, as the step is."""

    def check(self) -> None:
        """Refuse a flight that takes no time."""
        refuse_unless_positive(time=self.time)

    def momenta(self, knobs: Theta, momenta: Theta, mass: Array) -> dict[str, Array]:
        """From where each knob stands at the two ends of its flight."""
        later = {k: v + self.time * momenta[k] / mass for k, v in knobs.items()}
        return {k: (later[k] - v) * mass / self.time for k, v in knobs.items()}


@dataclass(frozen=True)
class BlackBox:
    """Echo learning by knobs of the given mass, in the design's own units.

    Infinitely heavy knobs stand still, and their momenta are exact. Of finite mass they move, by about T²/mass in a run
    of length T, and so does the error. All is conjugated for the echo, knobs too; nudges are recorded on the free pass.
    """

    epsilon: float = 1e-3
    gamma: float = 1.0
    mass: float = inf
    stencil: Stencil = field(default_factory=Centred)
    readout: Readout = field(default_factory=KnobMomentum)
    protocol: Protocol = field(default_factory=Hold)

    def __post_init__(self) -> None:
        refuse_unless_positive(epsilon=self.epsilon, gamma=self.gamma)
        if self.mass != inf or isinstance(self.readout, FreeFlight):
            refuse_unless_positive(mass=self.mass)
        if not isinstance(self.readout, Readout) or not isinstance(self.stencil, Stencil):
            raise ArgumentError(
                "Arguments `readout` and `stencil` must be objects such as KnobMomentum() and Centred()"
            )
        self.readout.check()

    def gradient(self, problem: Problem) -> Gradient:
        """Gradient by theta and initial state, read from the knobs and the returned state."""
        if not problem.keys:
            raise ArgumentError("Argument `wrt` must name parameters, but has none: a knob is a parameter")
        if any(jnp.ndim(v) != 1 for v in problem.theta.values()):
            raise ArgumentError("Argument `theta` must not be batched: knobs belong to one device")
        if problem.hamiltonian.theta_parity or np.any(np.asarray(problem.hamiltonian.input_parity) < 0):
            raise ArgumentError("Argument `problem` must be even under time reversal, but has odd inputs or parameters")
        echoes = len(self.stencil.points)
        value, parts = self.program(problem).run()
        return Gradient(value, parts, self.protocol.runs(echoes) + echoes, self.epsilon, self.gamma)

    def program(self, problem: Problem) -> Program:
        """The compiled part of it."""
        strength, mass = (jnp.asarray(x, problem.inputs.dtype) for x in (self.epsilon * self.gamma, self.mass))
        system = (problem.hamiltonian, problem.integrator, problem.loss)
        return Program(_by_knobs, (*system, self.stencil, self.readout, problem.keys, *problem.run, strength, mass))


class Whole(NamedTuple):
    """State of circuit and knobs, lanes last: (n, lanes), and by name (count, lanes)."""

    q: Array
    p: Array
    knobs: dict[str, Array]
    momenta: dict[str, Array]


def whole_step(
    energy: Energy, integrator: Integrator, theta: Theta, whole: Whole, u: Array, step: Array, mass: Array
) -> Whole:
    """One step of circuit and knobs: a palindrome that begins and ends with half a drift of the knobs."""
    q, p, knobs, momenta = whole

    def drifted(knobs: Theta, momenta: Theta) -> dict[str, Array]:
        return {k: v + step / 2 * momenta[k] / mass for k, v in knobs.items()}

    def pushed(momenta: Theta, time: Array, slope: Theta) -> dict[str, Array]:
        return {k: v - time * slope[k] for k, v in momenta.items()}

    def prepared(knobs: Theta) -> Any:
        return energy.prepare({**theta, **knobs})

    def kinetic(knobs: Theta, p: Array) -> Array:
        return jnp.sum(energy.kinetic(p, prepared(knobs), u))

    def potential(knobs: Theta, q: Array) -> Array:
        return jnp.sum(energy.potential(q, prepared(knobs), u))

    def drift(q: Array, momenta: Theta, fraction: float) -> tuple[Array, dict[str, Array]]:
        slope = jax.grad(kinetic)(knobs, p)
        return q + fraction * step * energy.velocity(p, prepared(knobs), u), pushed(momenta, fraction * step, slope)

    def turned(q: Array, p: Array, momenta: Theta, time: Array) -> tuple[Array, Array, dict[str, Array]]:
        held = prepared(knobs)
        slope = jax.grad(lambda k: jnp.sum(energy.mean_rotation(q, p, held, prepared(k), time)))(knobs)
        return *energy.turn(q, p, held, time), pushed(momenta, time, slope)

    knobs = drifted(knobs, momenta)
    for fraction, length in zip(integrator.drifts, integrator.lengths, strict=False):
        q, momenta = drift(q, momenta, fraction)
        if energy.turning:
            q, p, momenta = turned(q, p, momenta, length * step / 2)
        slope = jax.grad(potential)(knobs, q)
        p, momenta = p + length * step * energy.force(q, prepared(knobs), u), pushed(momenta, length * step, slope)
        if energy.turning:
            q, p, momenta = turned(q, p, momenta, length * step / 2)
    q, momenta = drift(q, momenta, integrator.drifts[-1])
    return Whole(q, p, drifted(knobs, momenta), momenta)


@partial(jax.jit, static_argnums=(0, 1, 3, 4, 5))
def _by_knobs(
    energy: Energy, integrator: Integrator, loss: Loss, stencil: Stencil, readout: Readout, keys: tuple[str, ...],
    theta: Theta, inputs: Array, start: Any, step: Array, strength: Array, mass: Array,
) -> tuple[Array, Parts]:  # fmt: skip
    lanes, echoes, steps = inputs.shape[-1], len(stencil.points), len(inputs)
    data, when, operation = loss.data(), loss.when, MomentumFlip()

    def advance(carry: tuple[Array, Whole, Any], _: None) -> Any:
        i, whole, seen = carry
        whole = whole_step(energy, integrator, theta, whole, inputs[i], step, mass)
        if when is When.RUNNING:
            item = jax.tree.map(lambda x: x[i], data)
            return (i + 1, whole, seen + loss.at(whole.q, whole.p, item)), loss.errors(whole.q, whole.p, item)
        return (i + 1, whole, jax.tree.map(jnp.add, seen, (whole.q, whole.p)) if when is When.POOLED else seen), None

    def spread(x: Array, count: int) -> Array:
        """Copies of the lanes (…, lanes), one after another: (…, count·lanes)."""
        return jnp.tile(x, (1,) * (x.ndim - 1) + (count,))

    knobs = {k: jnp.broadcast_to(theta[k][:, None], (len(theta[k]), lanes)) for k in keys}
    at_rest = Whole(start[0], start[1], knobs, jax.tree.map(jnp.zeros_like, knobs))
    seen = jax.tree.map(jnp.zeros_like, start) if when is When.POOLED else jnp.zeros_like(start[0][0])
    (_, whole, seen), errors = jax.lax.scan(advance, (jnp.zeros((), int), at_rest, seen), None, steps)
    if when is When.RUNNING:
        value, last = seen, jax.tree.map(lambda x: x[-1], errors)
    else:
        q, p = jax.tree.map(lambda x: x / steps, seen) if when is When.POOLED else (whole.q, whole.p)
        value, last = loss.at(q, p, data), loss.errors(q, p, data)
    if when is When.POOLED:
        last = jax.tree.map(lambda x: x / steps, last)

    sizes = jnp.repeat(strength * jnp.asarray(stencil.points, inputs.dtype), lanes)

    def nudged(whole: Whole, recorded: Any) -> Whole:
        by_p, by_q = operation.nudge(loss.slopes(recorded))
        q, p = (
            x if dx is None else x + sizes * spread(dx, echoes)
            for x, dx in zip((whole.q, whole.p), (by_p, by_q), strict=True)
        )
        return whole._replace(q=q, p=p)

    def retreat(carry: tuple[Array, Whole], _: None) -> tuple[tuple[Array, Whole], None]:
        i, whole = carry
        whole = whole_step(energy, integrator, theta, whole, spread(inputs[i], echoes), step, mass)
        if when is When.RUNNING:
            # The state at the start is not nudged; its index would be −1.
            size = jnp.where(i > 0, 1.0, 0.0)
            whole = nudged(whole, jax.tree.map(lambda x: size * x[i - 1], errors))
        elif when is When.POOLED:
            whole = nudged(whole, jax.tree.map(lambda x: jnp.where(i > 0, x, 0), last))
        return (i - 1, whole), None

    turned = whole._replace(p=-whole.p, momenta=jax.tree.map(jnp.negative, whole.momenta))
    turned = nudged(jax.tree.map(lambda x: spread(x, echoes), turned), last)
    (_, end), _ = jax.lax.scan(retreat, (jnp.asarray(steps - 1), turned), None, steps)

    def difference(x: Array) -> Array:
        return stencil.difference(x.reshape(x.shape[0], echoes, lanes)) / strength / lanes

    read = readout.momenta(end.knobs, end.momenta, mass)
    by_theta = {k: jnp.sum(difference(v), axis=-1) for k, v in read.items()}
    by_state = operation.sensitivity((difference(end.q), difference(end.p)))
    return jnp.mean(value), Parts(by_theta, None, by_state, None)
