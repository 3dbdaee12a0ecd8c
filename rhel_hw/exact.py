"""Runs of linear circuits without an error of the step: every normal mode turns by what its frequency says.

Inputs are constant over a step, and within it the equations are solved as they stand: docs/physics.md, section 1.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg as la
from numpy.typing import NDArray

from circuits.hamiltonian import Hamiltonian, Theta
from circuits.linear import DENSE_MODES
from circuits.operators import lanes, times
from devices import ArgumentError
from rhel_hw.propagation import Keep, Kept

Array = Any
State = tuple[Array, Array]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Exact:
    """Normal modes: no error and no limit of the step, for linear circuits without loss; for runs, not for learning."""

    limit: ClassVar[float] = inf


class Modes(NamedTuple):
    """How amplitudes q = shapes·a, p = momenta·b move over one step; (n,) each, and (n, inputs + 1) for what drives."""

    shapes: Array
    momenta: Array
    cosine: Array
    by_momentum: Array
    by_position: Array
    drive: tuple[Array, Array]
    """What inputs, and a last one that is always 1, add to a and b in a step."""


def runner(
    hamiltonian: Hamiltonian, keep: Keep, theta: Theta, step: Array
) -> Callable[[Array, State], tuple[State, Kept]]:
    """What runs from a state by inputs, as `propagation.run` does; the modes are found once."""
    _refuse_unfit(hamiltonian, keep, theta)
    found = modes_of(hamiltonian, theta, float(step))
    return partial(_turned, keep, jax.tree.map(lambda x: x.astype(step.dtype), found))


def _refuse_unfit(hamiltonian: Hamiltonian, keep: Keep, theta: Theta) -> None:
    """Refuse what has no normal modes, or nothing that `keep` asks for."""
    if odd := (*hamiltonian.nonlinear, *hamiltonian.lossy):
        raise ArgumentError(
            f"Argument `integrator` must not be Exact() here: it is for linear circuits without loss, and {odd[0]} is "
            "not. Yoshida6() comes near to it"
        )
    if hamiltonian.size > DENSE_MODES:
        raise ArgumentError(
            f"Argument `integrator` must not be Exact() here: it finds all modes of up to {DENSE_MODES} coordinates, "
            f"and there are {hamiltonian.size}. Yoshida6() comes near to it"
        )
    if any(np.ndim(v) > 1 for v in theta.values()):
        raise ArgumentError("Argument `theta` must be the same for all lanes with Exact(): its modes are found once")
    if keep is Keep.ALL:
        raise ArgumentError("Argument `keep` must not be Keep.ALL with Exact(): it has no kicks")


def modes_of(hamiltonian: Hamiltonian, theta: Theta, step: float) -> Modes:
    """Normal modes, and what a step of this length does to them."""
    mobility, stiffness, drift, push = (np.asarray(x, float) for x in _linear(hamiltonian, theta))
    n = hamiltonian.size
    shapes, momenta, light, stiff = np.zeros((n, n)), np.zeros((n, n)), np.ones(n), np.zeros(n)
    framed = hamiltonian.assembly.rotating
    if (still := np.flatnonzero(~framed)).size:
        # With a root of the mobility, B = L·Lᵀ, the modes are those of Lᵀ·K·L; each then has the mobility 1.
        try:
            root = la.cholesky(mobility[np.ix_(still, still)], lower=True)
        except la.LinAlgError:
            raise ArgumentError(
                "Argument `integrator` must not be Exact() here: not all inertias are positive. Yoshida6() comes near"
            ) from None
        stiff[still], turn = la.eigh(root.T @ stiffness[np.ix_(still, still)] @ root)
        shapes[np.ix_(still, still)] = root @ turn
        momenta[np.ix_(still, still)] = la.solve_triangular(root, turn, lower=True, trans="T")
    if (turning := np.flatnonzero(framed)).size:  # where both quadratures have one matrix
        stiff[turning], turn = la.eigh(stiffness[np.ix_(turning, turning)])
        light[turning] = stiff[turning]
        shapes[np.ix_(turning, turning)] = momenta[np.ix_(turning, turning)] = turn
    rate = np.emath.sqrt(light * stiff)  # imaginary where a mode runs away
    cosine = np.cos(rate * step).real
    swept = step * _sinc(rate * step)
    twice = step**2 / 2 * _sinc(rate * step / 2) ** 2
    pushes, drifts = shapes.T @ push, momenta.T @ drift
    drive = (
        swept[:, None] * drifts + (light * twice)[:, None] * pushes,
        swept[:, None] * pushes - (stiff * twice)[:, None] * drifts,
    )
    return Modes(shapes, momenta, cosine, light * swept, -stiff * swept, drive)


def _sinc(x: Any) -> Floats:
    """sin(x)/x of real or imaginary numbers."""
    safe = np.where(x == 0, 1.0, x)
    return np.asarray(np.where(x == 0, 1.0, (np.sin(safe) / safe).real))


@partial(jax.jit, static_argnums=0)
def _linear(hamiltonian: Hamiltonian, theta: Theta) -> tuple[Array, Array, Array, Array]:
    """∂²T/∂p², ∂²V/∂q², and what inputs, and nothing at all, add to dq/dt and dp/dt."""
    prepared, (n, m) = hamiltonian.prepare(theta), (hamiltonian.size, hamiltonian.inputs)
    dtype = jnp.result_type(*theta.values())
    every, none = jnp.eye(n, dtype=dtype), jnp.zeros((n, m + 1), dtype)
    channels, silent = jnp.eye(m, m + 1, dtype=dtype), jnp.zeros((m, n), dtype)
    push, drift = hamiltonian.force(none, prepared, channels), hamiltonian.velocity(none, prepared, channels)
    stiffness = push[:, -1:] - hamiltonian.force(every, prepared, silent)
    mobility = hamiltonian.velocity(every, prepared, silent) - drift[:, -1:]
    apart = jnp.arange(m + 1) < m  # what is there without any input counts once
    return mobility, stiffness, drift - apart * drift[:, -1:], push - apart * push[:, -1:]


@partial(jax.jit, static_argnums=0)
def _turned(keep: Keep, modes: Modes, inputs: Array, start: State) -> tuple[State, Kept]:
    """All steps, amplitude by amplitude, and back to coordinates."""
    q, p = start
    forth, back = (modes.shapes, modes.momenta), (modes.momenta.T, modes.shapes.T)  # each the other's inverse
    a, b = (times(x, y) for x, y in zip(back, (q, p), strict=True))
    cosine, by_momentum, by_position = (lanes(x, a) for x in modes[2:5])

    def advance(state: State, u: Array) -> tuple[State, tuple[Array | None, Array | None]]:
        a, b = state
        to_a, to_b = (_driven(x, u, a) for x in modes.drive)
        a, b = cosine * a + by_momentum * b + to_a, cosine * b + by_position * a + to_b
        return (a, b), (None if keep is Keep.FINAL else a, b if keep is Keep.ENDS else None)

    (a, b), kept = jax.lax.scan(advance, (a, b), inputs)
    positions, momenta = (
        None if x is None else jnp.moveaxis(jnp.tensordot(m, x, axes=(1, 1)), 0, 1)
        for m, x in zip(forth, kept, strict=True)
    )
    return (times(forth[0], a), times(forth[1], b)), (positions, momenta, None)


def _driven(weights: Array, u: Array, like: Array) -> Array:
    """Weights by inputs and by 1, added up without a product of matrices, which takes longer than all else."""
    total = lanes(weights[:, -1], like)
    for i in range(len(u)):
        total = total + lanes(weights[:, i], like) * u[i]
    return total
