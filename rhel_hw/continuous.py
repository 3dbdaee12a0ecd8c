"""Echo learning and the adjoint method in continuous time: sensitivities at every moment, not only their sums.

With ℓ = ½|read(q) − y(t)|² and L = ∫ℓ dt over a run of length T, the sensitivity λ(t) = ∂L/∂(q(t), p(t)) obeys

    −dλ/dt = (∂f/∂(q, p))ᵀ·λ + ∂ℓ/∂(q, p),   λ(T) = 0,   f = (∂T/∂p, −∂V/∂q),   dL/dθ = ∫g dt,   g(t) = λᵀ·∂f/∂θ.

`ContinuousAdjoint` integrates that backwards. `ContinuousRHEL` runs the circuit itself: momenta flipped, inputs
reversed, pushed by ±ε·∂ℓ/∂q as recorded. With D[X] = (X(ε) − X(−ε))/2ε at echo time T − t and ε → 0,

    λ(t) = (D[p], D[q]),   g(t) = −D[∂H/∂θ]:

docs/physics.md, section 6, for steps that go to zero. Everything is dimensionless and in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from circuits.hamiltonian import Hamiltonian, Prepared, Theta
from circuits.operators import Reader
from devices import ArgumentError, DivergedError, refuse_unless_positive
from rhel_hw.integrators import flow
from rhel_hw.simulation import conform

Array = Any
Floats = NDArray[np.float64]
Waveform = Callable[[float], Any]
Solution = Any
"""What SciPy returns: state (size,) or (size, k) as a function of one or k times, with the steps it took as `ts`."""

TOLERANCE = 1e-12
"""Of the solver, relative to each component and to the size of the whole state."""
LONGEST = 1.0
"""Longest step, in the design's unit of time: about a radian, so that a pulse after a rest is not stepped over."""
SAMPLES = 33
"""Times at which waveforms and rates are looked at before a pass."""
NODES, LANES = 8, 256
"""Gauss points between steps of the solver, and how many times are evaluated at once."""


@dataclass(frozen=True, eq=False)
class ContinuousProblem:
    """A running loss ∫½|reader(q) − target|² dt on a run in continuous time.

    `drive` and `target` are called with one time as a float and return what `numpy.asarray` takes; they are not
    traced. They should be smooth: the solver pays for kinks.
    """

    hamiltonian: Hamiltonian
    theta: Theta
    drive: Waveform
    """From time to inputs of the energy, (m,)."""
    duration: float
    state: tuple[Array, Array]
    """Positions and momenta at the start, (n,) each."""
    reader: Reader
    """From coordinates to targets, as `targets_of` makes it."""
    target: Waveform
    """From time to wanted positions, (targets,)."""

    def __post_init__(self) -> None:
        n = self.hamiltonian.size
        if jnp.zeros(()).dtype != np.float64:
            raise ArgumentError(
                "Argument `state` must be in double precision, but JAX is in single: set jax_enable_x64"
            )
        if self.hamiltonian.lossy:
            lossy = ", ".join(self.hamiltonian.lossy)
            raise ArgumentError(f"Argument `hamiltonian` must be without loss, but has {lossy}: remove them")
        refuse_unless_positive(duration=self.duration)
        if self.reader.columns != n:
            read = self.reader.columns
            raise ArgumentError(
                f"Argument `reader` must read {n} coordinates, but reads {read}: use targets_of(design)"
            )
        theta = {k: jnp.asarray(v, np.float64) for k, v in self.theta.items()}
        _, _, state = conform(self.hamiltonian, theta, None, 1, self.state)
        if state[0].ndim != 1:
            raise ArgumentError(f"Arguments `state` and `theta` must have no batch, but have {state[0].shape[1]} lanes")
        for name, size in (("drive", self.hamiltonian.inputs), ("target", self.reader.rows)):
            for t in np.linspace(0, self.duration, SAMPLES):
                value = np.asarray(getattr(self, name)(float(t)), float)
                if value.shape != (size,) or not np.all(np.isfinite(value)):
                    raise ArgumentError(
                        f"Argument `{name}` must give finite values of shape ({size},), but at {t:g} gives {value}"
                    )
        object.__setattr__(self, "theta", theta)
        object.__setattr__(self, "state", state)

    @cached_property
    def matrix(self) -> Floats:
        """What the reader does, (targets, n)."""
        return np.asarray(self.reader(jnp.eye(self.reader.columns)), float)

    def slope(self, t: float, q: Floats) -> Floats:
        """∂ℓ/∂q at positions q (n,)."""
        return np.asarray(self.matrix.T @ (self.matrix @ q - np.asarray(self.target(t), float)))


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """How much the loss depends on the state and on the parameters at each moment."""

    times: Floats
    """(k,)"""
    state: tuple[Floats, Floats]
    """λ(t): derivatives of the loss by positions and momenta at time t, (k, n) each."""
    theta: Mapping[str, Floats]
    """g(t) by name, (k, count): its integral over the run is the gradient."""
    loss: float
    gradient: Mapping[str, Floats]
    """dL/dθ by name, (count,)."""


@dataclass(frozen=True)
class ContinuousRHEL:
    """Echo learning: a run, and two echoes nudged by ±ε times the slopes that were recorded on it."""

    epsilon: float = 0.1

    def __post_init__(self) -> None:
        refuse_unless_positive(epsilon=self.epsilon)

    def sensitivities(self, problem: ContinuousProblem, times: Any) -> Sensitivities:
        """λ and g at increasing `times` (k,) from differences between the echoes."""
        times = _checked(problem, times)
        energy, end, n = problem.hamiltonian, problem.duration, problem.hamiltonian.size
        free, prepared = _free_run(problem), energy.prepare(problem.theta)
        flipped = free(end) * np.repeat([1.0, -1.0], n)

        def nudged(strength: float) -> Solution:
            def rates(elapsed: float, z: Floats) -> Array:
                t = end - elapsed
                return _rates(energy, prepared, z, _at(problem.drive, t), strength * problem.slope(t, free(t)[:n]))

            return _solve(rates, flipped, end)

        echoes = nudged(self.epsilon), nudged(-self.epsilon)

        def density(t: Floats) -> dict[str, Floats]:
            up, down = (_over(t, _by_theta, problem, echo(end - t)) for echo in echoes)
            return {k: -(up[k] - down[k]) / (2 * self.epsilon) for k in up}

        by_p, by_q = np.split((echoes[0](end - times) - echoes[1](end - times)).T / (2 * self.epsilon), 2, axis=1)
        return _assembled(problem, times, (by_q, by_p), density, free, *echoes)


@dataclass(frozen=True)
class ContinuousAdjoint:
    """The adjoint method: what echo learning is held against. It differentiates f, which no device does."""

    def sensitivities(self, problem: ContinuousProblem, times: Any) -> Sensitivities:
        """λ and g at increasing `times` (k,) from the adjoint equation."""
        times = _checked(problem, times)
        energy, end, n = problem.hamiltonian, problem.duration, problem.hamiltonian.size
        free, prepared = _free_run(problem), energy.prepare(problem.theta)

        def rates(elapsed: float, costate: Floats) -> Array:
            t = end - elapsed
            z = free(t)
            return _adjoint_rates(energy, prepared, z, _at(problem.drive, t), costate, problem.slope(t, z[:n]))

        adjoint = _solve(rates, np.zeros(2 * n), end)

        def density(t: Floats) -> dict[str, Floats]:
            return _over(t, _adjoint_by_theta, problem, free(t), adjoint(end - t))

        by_q, by_p = np.split(adjoint(end - times).T, 2, axis=1)
        return _assembled(problem, times, (by_q, by_p), density, free, adjoint)


# Equations, compiled once per Hamiltonian --------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0)
def _rates(energy: Hamiltonian, prepared: Prepared, z: Array, u: Array, push: Array) -> Array:
    """f, with a further force (n,)."""
    q, p = jnp.split(z, 2)
    speed, force = flow(energy, q, p, prepared, u)
    return jnp.concatenate([speed, force + push])


@partial(jax.jit, static_argnums=0)
def _adjoint_rates(energy: Hamiltonian, prepared: Prepared, z: Array, u: Array, costate: Array, slope: Array) -> Array:
    """(∂f/∂(q, p))ᵀ·λ + ∂ℓ/∂(q, p), where ℓ has a slope by q alone."""
    _, back = jax.vjp(lambda x: _rates(energy, prepared, x, u, 0.0), z)
    return back(costate)[0].at[: energy.size].add(slope)


@partial(jax.jit, static_argnums=0)
def _by_theta(energy: Hamiltonian, theta: Theta, u: Array, z: Array) -> dict[str, Array]:
    """∂H/∂θ, (lanes, count)."""
    n = energy.size
    by = jax.grad(lambda th, v, x: energy.energy(x[:n], x[n:], th, v))
    lanes: dict[str, Array] = jax.vmap(by, in_axes=(None, 1, 1))(theta, u, z)
    return lanes


@partial(jax.jit, static_argnums=0)
def _adjoint_by_theta(energy: Hamiltonian, theta: Theta, u: Array, z: Array, costate: Array) -> dict[str, Array]:
    """λᵀ·∂f/∂θ, (lanes, count)."""
    by = jax.grad(lambda th, v, x, c: c @ _rates(energy, energy.prepare(th), x, v, 0.0))
    lanes: dict[str, Array] = jax.vmap(by, in_axes=(None, 1, 1, 1))(theta, u, z, costate)
    return lanes


# Passes ------------------------------------------------------------------------------------------------------------


def _free_run(problem: ContinuousProblem) -> Solution:
    energy, prepared = problem.hamiltonian, problem.hamiltonian.prepare(problem.theta)
    still = np.zeros(energy.size)
    start = np.concatenate([np.asarray(x) for x in problem.state])
    return _solve(lambda t, z: _rates(energy, prepared, z, _at(problem.drive, t), still), start, problem.duration)


def _solve(rates: Callable[[float, Floats], Array], start: Floats, duration: float) -> Solution:
    def on_host(t: float, z: Floats) -> Floats:
        return np.asarray(rates(t, z))

    # A state at rest has no size yet: what it would gain in a unit of time stands in for it.
    gains = [np.max(np.abs(on_host(float(t), start))) for t in np.linspace(0, duration, SAMPLES)]
    settings = {"rtol": TOLERANCE, "atol": TOLERANCE * (max(np.max(np.abs(start)), *gains) or 1.0)}
    run = solve_ivp(on_host, (0.0, duration), start, "DOP853", dense_output=True, max_step=LONGEST, **settings)
    if not run.success or not np.all(np.isfinite(run.y)):
        raise DivergedError(
            f"The run cannot be followed beyond time {run.t[-1]:g} of {duration:g}: use weaker inputs, a smaller state "
            "or a smaller epsilon"
        )
    return run.sol


def _assembled(
    problem: ContinuousProblem, times: Floats, state: tuple[Floats, Floats],
    density: Callable[[Floats], dict[str, Floats]], free: Solution, *backward: Solution,
) -> Sensitivities:  # fmt: skip
    """Result with the integrals of g and of the loss, by Gauss's rule between the steps that any pass took."""
    edges = np.unique(np.concatenate([free.ts, *(problem.duration - s.ts for s in backward)]))
    points, weights = np.polynomial.legendre.leggauss(NODES)
    half = np.diff(edges)[:, None] / 2
    nodes, weights = (edges[:-1, None] + half * (1 + points)).ravel(), (half * weights).ravel()
    errors = problem.matrix @ free(nodes)[: problem.hamiltonian.size] - _at(problem.target, nodes)
    g = density(np.concatenate([times, nodes]))
    gradient = {k: weights @ v[len(times) :] for k, v in g.items()}
    loss = float(np.sum(errors**2, axis=0) @ weights / 2)
    return Sensitivities(times, state, {k: v[: len(times)] for k, v in g.items()}, loss, gradient)


def _over(
    times: Floats, function: Callable[..., Any], problem: ContinuousProblem, *states: Floats
) -> dict[str, Floats]:
    """`function` of states (2n, k) at all times, in blocks of one size, so that it is compiled once."""
    columns, blocks = (_at(problem.drive, times), *states), []
    for first in range(0, len(times), LANES):
        chosen = np.minimum(np.arange(first, first + LANES), len(times) - 1)
        blocks.append(function(problem.hamiltonian, problem.theta, *(x[:, chosen] for x in columns)))
    return {k: np.concatenate([np.asarray(b[k]) for b in blocks])[: len(times)] for k in problem.theta}


def _at(waveform: Waveform, times: Any) -> Floats:
    """Values (rows,) of a waveform at one time, or (rows, k) at k of them."""
    if np.ndim(times) == 0:
        return np.asarray(waveform(float(times)), float)
    return np.stack([_at(waveform, t) for t in times], axis=-1)


# Refusals ----------------------------------------------------------------------------------------------------------


def _checked(problem: ContinuousProblem, times: Any) -> Floats:
    given = np.asarray(times, float)
    if given.ndim != 1 or given.size == 0 or not np.all(np.isfinite(given)):
        raise ArgumentError(f"Argument `times` must be a row of finite numbers, but is {times!r}")
    if np.any(np.diff(given) <= 0):
        raise ArgumentError("Argument `times` must increase, but does not")
    if given[0] < 0 or given[-1] > problem.duration:
        raise ArgumentError(
            f"Argument `times` must lie between 0 and the duration {problem.duration:g}, but runs from {given[0]:g} to "
            f"{given[-1]:g}"
        )
    return given
