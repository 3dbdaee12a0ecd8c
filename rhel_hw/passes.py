"""The passes of echo learning: one free, then echoes that are nudged.

Echoes loop from kick to kick: a step is closed, and the state at its end nudged, where the next one opens. A step is
accounted for as soon as it is opened, from numbers that are at hand: what is still to be read when the next one begins
would be copied. Inputs are read in place, never copied or reversed, so that memory grows with the number of steps only
by what a running loss records. States are (n, echoes, batch); in a free pass that all echoes share, (n, batch).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from circuits.operators import lanes
from rhel_hw.hru import NonlinearUnits
from rhel_hw.integrators import Energy, Integrator, Substeps, slopes
from rhel_hw.kernels.loops import pays, scan, scan_back
from rhel_hw.losses import Loss, When
from rhel_hw.nudging import Nudges
from rhel_hw.operations import Operation, Stencil

Array = Any
State = tuple[Array, Array]
Theta = Mapping[str, Array]


# Free -------------------------------------------------------------------------------------------------------------


class Free(NamedTuple):
    """What a free pass leaves."""

    loss: Array
    """(batch,) or (echoes, batch)."""
    final: State
    errors: Any
    """Recorded for the nudges of the states 1 … steps − 1, with that leading axis, if the loss is running."""
    last: Any
    """The same of the last state; of the mean state if the loss is pooled."""


def free_pass(
    energy: Energy, integrator: Integrator, loss: Loss, theta: Theta, inputs: Array, start: State, step: Array
) -> Free:
    """Run forward with inputs (steps, m, batch), recording what the nudges need."""
    prepared = energy.prepare(theta)
    data, running, pooled = loss.data(), loss.when is When.RUNNING, loss.when is When.POOLED
    steps = len(inputs)

    def at(i: Array) -> Array:
        return inputs[i] if start[0].ndim == 2 else inputs[i][:, None]

    def look(state: State, i: Array, seen: Any) -> tuple[Any, Any]:
        """Take the state at the end of step i into account."""
        if running:
            item = jax.tree.map(lambda x: x[i], data)
            return seen + loss.at(*state, item), loss.errors(*state, item)
        return jax.tree.map(jnp.add, seen, state) if pooled else seen, None

    def advance(carry: tuple[Array, State, Any], _: None) -> tuple[tuple[Array, State, Any], Any]:
        i, state, seen = carry
        q, p, _inside = integrator.step(energy, *state, prepared, at(i), step)
        seen, errors = look((q, p), i, seen)
        return (i + 1, (q, p), seen), errors

    seen = jax.tree.map(jnp.zeros_like, start) if pooled else jnp.zeros_like(start[0][0])
    (_, state, seen), errors = scan(
        advance, (jnp.zeros((), int), start, seen), length=steps - 1, in_c=pays(start[0].size, steps)
    )
    q, p, _inside = integrator.step(energy, state[0], state[1], prepared, at(-1), step)
    final = (q, p)
    seen, last = look(final, -1, seen)
    if running:
        return Free(seen, final, errors, last)
    q, p = jax.tree.map(lambda x: x / steps, seen) if pooled else final
    return Free(loss.at(q, p, data), final, None, loss.errors(q, p, data))


# Echoes -----------------------------------------------------------------------------------------------------------


class Wanted(NamedTuple):
    """What an echo shall sum; nothing else is computed."""

    weights: tuple[str, ...]
    inputs: bool
    step: bool


class Sums(NamedTuple):
    """Differences between echoes, summed over the steps."""

    weights: Mapping[str, Array]
    """Of ∂h/∂weight, (count, batch)."""
    inputs: Array | None
    """Of ∂h/∂u, step by step in the order of the free pass, (steps, m, batch)."""
    ends: State
    """Of the last state, (n, batch)."""
    energy: Array | None
    """Of h, (batch,)."""


def echo(
    energy: Energy, integrator: Integrator, operation: Operation, stencil: Stencil, theta: Theta, inputs: Array,
    final: State, nudges: Nudges, step: Array, strength: Array, wanted: Wanted,
) -> Sums:  # fmt: skip
    """Echoes of all strengths of the stencil at once, compared.

    `theta` and `inputs` are as the free pass sees them; `final` is its last state, (n, batch) or (n, echoes, batch).
    """
    theta, parity = _conjugated(energy, operation, theta, inputs.dtype)
    prepared = energy.prepare(theta)
    count, batch, steps = len(stencil.points), final[0].shape[-1], len(inputs)
    sizes = strength * jnp.asarray(stencil.points, inputs.dtype)[:, None]
    length = operation.time * step

    def wide(x: Array) -> Array:
        """A copy for every echo and lane, so that derivatives stay apart and need not be summed at every step."""
        return jnp.broadcast_to(lanes(x, jnp.zeros((1, 1, 1))), (x.shape[0], count, batch))

    def at(i: Array) -> Array:
        return (parity * inputs[i])[:, None]

    weights = {k: wide(v) for k, v in energy.weights(theta).items() if k in wanted.weights}

    def action(weights: Theta, u: Array, inside: Substeps) -> Array:
        """H of a step as the composition weighs it, Σ drift·T + Σ length·V, summed over echoes and lanes."""
        values = prepared.using(weights)
        kicks = zip(integrator.lengths, inside.kicks, strict=True)
        total: Array = sum(w * jnp.sum(energy.potential(q, values, u)) for w, q in kicks)
        momenta = zip(integrator.drifts, inside.momenta, strict=True)
        total = total + sum(w * jnp.sum(energy.kinetic(p, values, u)) for w, p in momenta)
        halves = zip(_halves(integrator), inside.turns, strict=False)
        means = (w * energy.mean_rotation(*state, prepared, values, w * length) for w, state in halves)
        return total + sum(jnp.sum(mean) for mean in means)

    def differences(u: Array, inside: Substeps) -> tuple[Theta, Array]:
        """Of ∂H/∂weight and ∂H/∂u between the echoes: as the energy knows them, or by differentiating it."""
        if isinstance(energy, NonlinearUnits):
            return energy.differences(stencil, integrator, inside, prepared, u)
        by, by_u = jax.grad(action, argnums=(0, 1))(weights, wide(u[:, 0]), inside)
        return {k: stencil.difference(v) for k, v in by.items()}, stencil.difference(by_u)

    def change_of_energy(u: Array, inside: Substeps) -> Array:
        """Differences of h from forces and velocities that are known: a force is a change of momentum."""
        total = jnp.zeros((), inputs.dtype)
        for i, (w, q) in enumerate(zip(integrator.lengths, inside.kicks, strict=True)):
            slope = (inside.momenta[i] - inside.momenta[i + 1]) / (w * length)
            if energy.turning:  # which changes momenta too
                slope = -energy.force(q, prepared, u)
            total = total + w * stencil.change(slope, q)
        for w, p in zip(integrator.drifts, inside.momenta, strict=True):
            total = total + w * stencil.change(energy.velocity(p, prepared, u), p)
        for w, state in zip(_halves(integrator), inside.turns, strict=False):
            for slope, x in zip(slopes(energy, *state, prepared), state, strict=True):
                total = total + w * stencil.change(slope, x)
        return total

    def account(sums: tuple[Any, Any], u: Array, inside: Substeps) -> tuple[tuple[Any, Any], Array | None]:
        """Add a step to the sums; also what of it belongs to its input."""
        by_weights, change = sums
        by_input = None
        if weights or wanted.inputs:
            by, by_u = differences(u, inside)
            by_weights = {k: v + by[k] for k, v in by_weights.items()}
            by_input = parity * by_u if wanted.inputs else None
        if wanted.step:
            change = change + change_of_energy(u, inside)
        return (by_weights, change), by_input

    def opened(i: Array, state: State, sums: Any) -> Any:
        """The echo of step i up to its last kick, accounted for; also what of it belongs to the input."""
        inside = integrator.open(energy, *state, prepared, at(i), length)
        sums, by_input = account(sums, at(i), inside)
        return (i, inside.end, sums), by_input

    def advance(carry: Any, _: None) -> Any:
        i, inside, sums = carry
        state = integrator.close(energy, inside, prepared, at(i), length)  # the state i
        if nudges.every:
            state = _nudged(state, sizes, nudges.of(state, i - 1))
        return opened(i - 1, state, sums)

    q, p = _copies(final, count)
    turned = (q, operation.flip * p)
    turned = _nudged(turned, sizes, nudges.first(turned))
    zeros = {k: jnp.zeros((v.shape[0], batch), v.dtype) for k, v in weights.items()}
    sums = (zeros, jnp.zeros_like(q[:, 0]) if wanted.step else None)
    start, latest = opened(jnp.asarray(steps - 1), turned, sums)
    (_, inside, (by_weights, change)), by_inputs = scan_back(advance, start, steps - 1, in_c=pays(q.size, steps))
    if by_inputs is not None:
        by_inputs = jax.lax.dynamic_update_index_in_dim(by_inputs, latest, steps - 1, 0)
    end = integrator.close(energy, inside, prepared, at(0), length)
    return Sums(
        by_weights,
        by_inputs,
        (stencil.difference(end[0]), stencil.difference(end[1])),
        None if change is None else jnp.sum(change, axis=0),
    )


class Excursion(NamedTuple):
    """How far echoes stray, beside how far the state moves by itself; (2,) each: positions, momenta.

    All are root mean squares over time, coordinates and lanes.
    """

    spread: Array
    """Standard deviation over time of an echo that is not nudged."""
    displacement: Array
    """Half the distance between two echoes of opposite strength: what is odd in the strength."""
    bend: Array
    """Distance of their middle from the echo that is not nudged: what is even in it, nothing in a linear circuit."""
    missed: Array
    """Distance of that echo's positions from those of the free run, (): nothing but round-off in a lossless circuit."""


def excursion(
    energy: Energy, integrator: Integrator, operation: Operation, theta: Theta, inputs: Array, final: State,
    nudges: Nudges, step: Array, strength: Array, path: Array | None = None,
) -> Excursion:  # fmt: skip
    """Pilot echoes of ± `strength` and of none that only watch how far they go.

    `path` are positions at the end of every step of the free run, from rest; what is missed is NaN without them.
    """
    theta, parity = _conjugated(energy, operation, theta, inputs.dtype)
    prepared = energy.prepare(theta)
    sizes = strength * jnp.asarray([1.0, -1.0, 0.0], inputs.dtype)[:, None]
    steps = len(inputs)

    def advance(carry: Any, _: None) -> Any:
        i, state, sums = carry
        q, p, _inside = integrator.step(
            energy, state[0], state[1], prepared, (parity * inputs[i])[:, None], operation.time * step
        )
        seen = [
            [x[:, 2] for x in (q, p)],
            [x[:, 2] ** 2 for x in (q, p)],
            [((x[:, 0] - x[:, 1]) / 2) ** 2 for x in (q, p)],
            [((x[:, 0] - x[:, 2] + x[:, 1] - x[:, 2]) / 2) ** 2 for x in (q, p)],
            [] if path is None else [(q[:, 2] - jnp.where(i > 0, path[i - 1], 0.0)) ** 2],
        ]
        sums = jax.tree.map(jnp.add, sums, seen)
        state = (q, p)
        if nudges.every:  # the state 0, which closes the echo, is no longer nudged, but that moves nothing here
            state = _nudged(state, sizes, nudges.of(state, i - 1))
        return (i - 1, state, sums), None

    q, p = _copies(final, 3)
    turned = (q, operation.flip * p)
    turned = _nudged(turned, sizes, nudges.first(turned))
    sums = [[jnp.zeros_like(q[:, 0])] * 2] * 4 + [[jnp.zeros_like(q[:, 0])] * (path is not None)]
    (_, _, sums), _ = jax.lax.scan(advance, (jnp.asarray(steps - 1), turned, sums), None, steps)
    mean, square, *others = jax.tree.map(lambda x: x / steps, sums)
    variances = [jnp.maximum(s - m**2, 0) for m, s in zip(mean, square, strict=True)]
    spread, apart, bent = (jnp.sqrt(jnp.stack([jnp.mean(x) for x in pair])) for pair in (variances, *others[:2]))
    return Excursion(spread, apart, bent, jnp.nan if path is None else jnp.sqrt(jnp.mean(others[2][0])))


def _halves(integrator: Integrator) -> list[float]:
    """Fractions of the rotations, two for every kick."""
    return [length / 2 for length in integrator.lengths for _ in range(2)]


def _conjugated(energy: Energy, operation: Operation, theta: Theta, dtype: Any) -> tuple[Theta, Array]:
    """Parameters, and signs (m, 1) of the inputs, in the echo: what is odd under time reversal is inverted."""
    signs = energy.theta_parity if operation.conjugates else {}
    parity = energy.input_parity if operation.conjugates else jnp.ones_like(energy.input_parity)
    return {k: signs[k] * v if k in signs else v for k, v in theta.items()}, jnp.asarray(parity, dtype)[:, None]


def _copies(state: State, count: int) -> State:
    """A state (n, batch) once for every echo; one that has that axis stays as it is."""
    q, p = (jnp.broadcast_to(x if x.ndim == 3 else x[:, None], (x.shape[0], count, x.shape[-1])) for x in state)
    return q, p


def _nudged(state: State, sizes: Array, displacement: tuple[Array | None, Array | None]) -> State:
    q, p = (
        x if dx is None else x + sizes * (dx if dx.ndim == 3 else dx[:, None])
        for x, dx in zip(state, displacement, strict=True)
    )
    return q, p
