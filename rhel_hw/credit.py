"""Credit: what samples of an echo say about parameters, by the nominal energies alone.

No dynamics here: every sample is looked at by itself, whatever device it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits.operators import Reader
from rhel_hw.operations import Operation

if TYPE_CHECKING:
    from rhel_hw.integrators import Energy

Array = Any
Theta = Mapping[str, Array]

CHUNK = 1 << 17
"""Most numbers of a state that are looked at in one go."""
ROUNDS = 8
"""Of the search for the states where rotations begin; each is closer by the square of the angle."""


def to_parameters(energy: Energy, operation: Operation, theta: Theta, sums: Mapping[str, Array]) -> Theta:
    """The chain rule from sums over weights, (count, batch) each, to theta; a weight without a sum counts nothing."""
    signs = energy.theta_parity if operation.conjugates else {}

    def weights(theta: Theta) -> dict[str, Array]:
        return energy.weights({k: signs[k] * v if k in signs else v for k, v in theta.items()})

    shapes, back = jax.vjp(weights, dict(theta))
    cotangents = {
        k: jnp.zeros_like(w) if k not in sums else sums[k] if w.ndim == 2 else sums[k].sum(-1)
        for k, w in shapes.items()
    }
    (by_theta,) = back(cotangents)
    return dict(by_theta)


class Samples(NamedTuple):
    """What some steps of echoes looked like, dimensionless: (steps, n, runs, chips) each."""

    kicks: Array
    """Positions where the force acted."""
    momenta: Array
    """At the start and at the end of every step, before the nudge there: one more of them."""
    nudges: Array
    """At the start of every step, (steps, targets, runs, chips), as they were commanded."""
    inputs: Array
    """(steps, m, runs or 1, chips or 1), as the echo has them."""


def credit(
    energy: Energy,
    operation: Operation,
    keys: tuple[str, ...],
    theta: Theta,
    targets: Reader,
    samples: Callable[[slice], Samples],
    steps: int,
    step: float,
    coefficients: Array,
    chips: int = 1,
    weights: Array | None = None,
) -> dict[str, Array]:
    """Σ coefficient·∂h/∂θ over steps and runs, by parameter: (count, chips), or (count,) if theta is the same for all.

    Arguments:
        energy: of the design as drawn.
        operation: how the echo was made.
        keys: parameters that are wanted.
        theta: programmed, (count,) or (count, chips).
        targets: reads the positions of targets.
        samples: gives those of some steps; long records are looked at piece by piece.
        steps: in all.
        step: length of a step, dimensionless.
        coefficients: (runs, chips) or (runs, 1).
        chips: side by side.
        weights: of the steps, (steps, chips) or (steps, 1); one by default.
    """
    weights = np.ones((steps, 1)) if weights is None else weights
    batched = any(jnp.ndim(v) == 2 for v in theta.values())
    rows = _rows(energy, steps, len(coefficients) * chips)
    total: dict[str, Array] | None = None
    theta = dict(theta)
    for begin in range(0, steps, rows):
        piece = _piece(samples, begin, rows)
        live = _padded(weights[begin : begin + rows], rows)
        total = _added(total, energy, operation, energy.moved_by(keys), targets, theta, piece, step, coefficients, live)
    assert total is not None  # there is at least one step
    total = total if batched else {k: v[:, None] if v.ndim == 1 else v for k, v in total.items()}
    by_theta = to_parameters(energy, operation, theta, total)
    return {k: by_theta[k] for k in keys}


def input_slopes(
    energy: Energy, operation: Operation, theta: Theta, targets: Reader, samples: Callable[[slice], Samples],
    steps: int, step: float,
) -> NDArray[np.float64]:  # fmt: skip
    """∂h/∂u at every step of every run of one chip, in the order of the samples: (steps, m, runs)."""
    found = []
    runs = samples(slice(0, 1)).kicks.shape[2]
    rows = _rows(energy, steps, runs)
    for begin in range(0, steps, rows):
        piece = _slopes(energy, operation, targets, dict(theta), _piece(samples, begin, rows), step)
        found.append(np.asarray(piece)[: steps - begin])
    return np.concatenate(found)


def _rows(energy: Energy, steps: int, lanes: int) -> int:
    """Steps that are looked at in one go."""
    return max(1, min(steps, CHUNK // (energy.size * lanes)))


def _piece(samples: Callable[[slice], Samples], begin: int, rows: int) -> Samples:
    """So many steps, padded at the end of the record."""
    found = samples(slice(begin, begin + rows))
    return Samples(*(_padded(x, rows + (x is found.momenta)) for x in found))


def _padded(x: Array, rows: int) -> Array:
    return x if x.shape[0] == rows else np.concatenate([x, np.zeros((rows - x.shape[0], *x.shape[1:]))])


@partial(jax.jit, static_argnums=(1, 2, 3, 4))
def _added(
    total: Mapping[str, Array] | None, energy: Energy, operation: Operation, wanted: tuple[str, ...], targets: Reader,
    theta: Theta, samples: Samples, step: Array, coefficients: Array, live: Array,
) -> dict[str, Array]:  # fmt: skip
    """Derivatives of the weighted energy of some steps by the wanted weights, added to what there is."""
    theta = _conjugated(energy, operation, theta)
    weights = {k: v for k, v in energy.weights(theta).items() if k in wanted}
    energies, u = _energies(energy, operation, targets, theta, samples, step)
    weight = live[:, None] * coefficients
    slopes: dict[str, Array] = jax.grad(lambda weights: jnp.sum(weight * energies(weights, u)))(weights)
    return slopes if total is None else {k: total[k] + v for k, v in slopes.items()}


@partial(jax.jit, static_argnums=(0, 1, 2))
def _slopes(
    energy: Energy, operation: Operation, targets: Reader, theta: Theta, samples: Samples, step: Array
) -> Array:
    """∂h/∂u of some steps, (steps, m, runs)."""
    theta = _conjugated(energy, operation, theta)
    energies, u = _energies(energy, operation, targets, theta, samples, step)
    slopes = jax.grad(lambda u: jnp.sum(energies({}, u)))(u)
    return jnp.moveaxis(slopes, 1, 0)[..., 0]


def _conjugated(energy: Energy, operation: Operation, theta: Theta) -> Theta:
    """Parameters as the echo has them."""
    if not operation.conjugates or not energy.theta_parity:
        return theta
    return {k: energy.theta_parity.get(k, 1.0) * v for k, v in theta.items()}


def _energies(
    energy: Energy, operation: Operation, targets: Reader, theta: Theta, samples: Samples, step: Array
) -> tuple[Callable[[Theta, Array], Array], Array]:
    """H of every step, (steps, runs, chips), as a function of weights and inputs (m, steps, runs, chips)."""
    prepared = energy.prepare(theta)
    q, p, nudges, u = (jnp.moveaxis(x, 0, 1) for x in samples)
    starts, ends = p[:, :-1] + targets.transpose(nudges), p[:, 1:]
    length = operation.time * step

    def energies(weights: Theta, u: Array) -> Array:
        values = prepared.using(weights)
        total = energy.potential(q, values, u)
        total = total + (energy.kinetic(starts, values, u) + energy.kinetic(ends, values, u)) / 2
        if energy.turning:
            for state in _before_turns(energy, prepared, q, starts, ends, length / 2):
                total = total + energy.mean_rotation(*state, prepared, values, length / 2) / 2
        return total

    return energies, jnp.broadcast_to(u, (u.shape[0], *q.shape[1:]))


def _before_turns(
    energy: Energy, prepared: Any, kick: Array, start: Array, end: Array, time: Array
) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """States where the rotations of a step begin: one ends at the kick point, the other with the last momentum."""
    q, p = kick, end
    for _ in range(ROUNDS):
        q = q + kick - energy.turn(q, start, prepared, time)[0]
        p = p + end - energy.turn(kick, p, prepared, time)[1]
    return (q, start), (kick, p)
