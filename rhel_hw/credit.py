"""Credit: what samples of an echo say about parameters, by the nominal energies alone.

No dynamics here: every sample is looked at by itself, whatever device it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
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


class View(NamedTuple):
    """How coordinates and momenta follow from channels; what no channel shows is zero."""

    positions: Reader
    momenta: Reader


class Samples(NamedTuple):
    """What echoes looked like, (steps, channels, runs, chips) each."""

    positions: Array
    """In SI by channel, where the force acted."""
    momenta: Array
    """In SI by channel, at the start and at the end of every step, before the nudge there: one more of them."""
    nudges: Array
    """At the start of every step, (steps, targets, runs, chips), dimensionless, as they were commanded."""
    inputs: Array
    """(steps, m, runs or 1, chips or 1), dimensionless, as the echo has them."""


@partial(jax.jit, static_argnums=(0, 1))
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


def credit(
    energy: Energy,
    operation: Operation,
    keys: tuple[str, ...],
    theta: Theta,
    targets: Reader,
    view: View,
    samples: Samples,
    step: float,
    coefficients: Array,
    weights: Array | None = None,
    halves: Array | None = None,
) -> dict[str, Array]:
    """Σ coefficient·∂h/∂θ over steps and runs, by parameter: (count, chips), or (count,) if theta is the same for all.

    Arguments:
        energy: of the design as drawn.
        operation: how the echo was made.
        keys: parameters that are wanted.
        theta: programmed, (count,) or (count, chips).
        targets: reads the positions of targets.
        view: what the channels show.
        samples: of all steps.
        step: length of a step, dimensionless.
        coefficients: (runs, chips) or (runs, 1).
        weights: of the steps, (steps, chips) or (steps, 1); one by default.
        halves: by what momenta grow in the gain at either end of a step, (n, chips) or (n, 1), if there is any: the
            energy is that between the two.
    """
    theta, samples = dict(theta), Samples(*jax.device_put(tuple(samples)))  # in place, if they are aligned
    live = jnp.ones((len(samples.nudges), 1)) if weights is None else jnp.asarray(weights)
    total: dict[str, Array] | None = None
    rows = _rows(energy, samples)
    for begin in range(0, len(samples.nudges), rows):
        total = _program()(
            total, energy, operation, energy.moved_by(keys), targets, view, rows, theta, samples, begin, step,
            coefficients, live, halves,
        )  # fmt: skip
    assert total is not None  # there is at least one step
    by_theta = to_parameters(energy, operation, theta, total)
    return {k: by_theta[k] for k in keys}


def input_slopes(
    energy: Energy, operation: Operation, theta: Theta, targets: Reader, view: View, samples: Samples, step: float,
    halves: Array | None = None,
) -> NDArray[np.float64]:  # fmt: skip
    """∂h/∂u at every step of every run of one chip, in the order of the samples: (steps, m, runs)."""
    samples = Samples(*jax.device_put(tuple(samples)))
    found = np.zeros((len(samples.nudges), samples.inputs.shape[1], samples.nudges.shape[2]))
    rows = _rows(energy, samples)
    for begin in range(0, len(found), rows):
        first = min(begin, len(found) - rows)
        found[first : first + rows] = _slopes(
            energy, operation, targets, view, rows, dict(theta), samples, first, step, halves
        )
    return found


def _added(
    total: Theta | None, energy: Energy, operation: Operation, wanted: tuple[str, ...], targets: Reader, view: View,
    rows: int, theta: Theta, samples: Samples, begin: Array, step: Array, coefficients: Array, live: Array,
    halves: Array | None,
) -> dict[str, Array]:  # fmt: skip
    """Derivatives of the weighted energy of some steps by the wanted weights, (count, chips or 1), added to others."""
    theta = _conjugated(energy, operation, theta)
    weights = {k: v for k, v in energy.weights(theta).items() if k in wanted}
    first = jnp.minimum(begin, len(live) - rows)  # the last piece begins earlier; what was counted counts nothing
    own = jax.lax.dynamic_slice_in_dim(live, first, rows)
    own = jnp.where((first + jnp.arange(rows) >= begin)[:, None], own, 0.0)
    energies, u = _energies(energy, operation, targets, view, theta, _piece(samples, first, rows), step, halves)
    slopes = jax.grad(lambda weights: jnp.sum(own[:, None] * coefficients * energies(weights, u)))(weights)
    slopes = {k: v[:, None] if v.ndim == 1 else v for k, v in slopes.items()}
    return slopes if total is None else {k: total[k] + v for k, v in slopes.items()}


@lru_cache(maxsize=1)
def _program() -> Any:
    """`_added`, compiled. What it does is sums: XLA's own loops are three times faster than those of its library."""
    options: dict[str, Any] = {"xla_cpu_experimental_ynn_fusion_type": ""}
    try:
        jax.jit(lambda: jnp.zeros(()), compiler_options=options)()
    except Exception:  # of a compiler that knows no such option
        options = {}
    return jax.jit(_added, static_argnums=(1, 2, 3, 4, 5, 6), compiler_options=options or None)


@partial(jax.jit, static_argnums=(0, 1, 2, 3, 4))
def _slopes(
    energy: Energy, operation: Operation, targets: Reader, view: View, rows: int, theta: Theta, samples: Samples,
    first: Array, step: Array, halves: Array | None,
) -> Array:  # fmt: skip
    """∂h/∂u of some steps, (steps, m, runs)."""
    theta = _conjugated(energy, operation, theta)
    energies, u = _energies(energy, operation, targets, view, theta, _piece(samples, first, rows), step, halves)
    slopes = jax.grad(lambda u: jnp.sum(energies({}, u)))(u)
    return jnp.moveaxis(slopes, 1, 0)[..., 0]


def _rows(energy: Energy, samples: Samples) -> int:
    """Steps that are looked at in one go."""
    steps, _, runs, chips = map(int, samples.nudges.shape)
    return max(1, min(steps, CHUNK // (energy.size * runs * chips)))


def _piece(samples: Samples, first: Array, rows: int) -> Samples:
    """So many steps, from one on."""
    counts = Samples(rows, rows + 1, rows, rows)
    return Samples(*(jax.lax.dynamic_slice_in_dim(x, first, n) for x, n in zip(samples, counts, strict=True)))


def _conjugated(energy: Energy, operation: Operation, theta: Theta) -> Theta:
    """Parameters as the echo has them."""
    if not operation.conjugates or not energy.theta_parity:
        return theta
    return {k: energy.theta_parity.get(k, 1.0) * v for k, v in theta.items()}


def _energies(
    energy: Energy, operation: Operation, targets: Reader, view: View, theta: Theta, samples: Samples, step: Array,
    halves: Array | None,
) -> tuple[Callable[[Theta, Array], Array], Array]:  # fmt: skip
    """H of every step, (steps, runs, chips), as a function of weights and inputs (m, steps, runs, chips)."""
    prepared = energy.prepare(theta)
    positions, momenta, nudges, u = (jnp.moveaxis(x, 0, 1) for x in samples)
    q, p = view.positions(positions), view.momenta(momenta)
    starts, ends = p[:, :-1] + targets.transpose(nudges), p[:, 1:]
    if halves is not None:
        starts, ends = starts * halves[:, None, None], ends / halves[:, None, None]
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
