"""Reversible integrators: palindromes of drifts along ∂T/∂p and kicks along −∂V/∂q.

A step of size δ drifts by a₀δ, kicks by b₀δ, drifts by a₁δ, … and ends with the drift it began with. Read backwards
it is the same, so flipping the momenta retraces it exactly: docs/physics.md, section 1.2. Where part of the energy is a
rotation, half of it goes on before every kick and half after it, which is a palindrome again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp

Array = Any


class Energy(Protocol):
    """An energy T(p) + V(q), perhaps with rotations R, batch last, as integrators and learning use it."""

    @property
    def size(self) -> int:
        """Number of coordinates, n."""
        ...

    @property
    def inputs(self) -> int:
        """Number of input channels, m."""
        ...

    def theta(self, dtype: Any = None) -> dict[str, Array]:
        """Nominal parameters by name."""
        ...

    @property
    def lossy(self) -> tuple[str, ...]:
        """What in it dissipates, if anything does."""
        ...

    @property
    def input_parity(self) -> Array:
        """±1 by input channel, (m,): what becomes of it when time is reversed."""
        ...

    @property
    def theta_parity(self) -> Mapping[str, float]:
        """−1 by name for parameters that change sign when time is reversed."""
        ...

    def weights(self, theta: Mapping[str, Array]) -> dict[str, Array]:
        """What T and V at given q and p depend on, by name, (count,) each; (count, batch) if theta is batched."""
        ...

    def moved_by(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Names of the weights that depend on these parameters."""
        ...

    def inverse_error(self, theta: Mapping[str, Array]) -> float:
        """How inexact whatever is inverted would be at these parameters."""
        ...

    def prepare(self, theta: Mapping[str, Array]) -> Any:
        """Whatever is computed from the parameters once per pass; `using(weights)` puts weights in their place."""
        ...

    def kinetic(self, p: Array, prepared: Any, u: Array | None = None) -> Array:
        """T."""
        ...

    def velocity(self, p: Array, prepared: Any, u: Array | None = None) -> Array:
        """∂T/∂p."""
        ...

    def potential(self, q: Array, prepared: Any, u: Array) -> Array:
        """V."""
        ...

    def force(self, q: Array, prepared: Any, u: Array) -> Array:
        """−∂V/∂q."""
        ...

    @property
    def turning(self) -> bool:
        """Whether there is an R; otherwise the rest is never called."""
        ...

    def rotation(self, q: Array, p: Array, prepared: Any) -> Array:
        """R."""
        ...

    def turn(self, q: Array, p: Array, prepared: Any, time: Array) -> tuple[Array, Array]:
        """The flow of R."""
        ...

    def mean_rotation(self, q: Array, p: Array, prepared: Any, values: Any, time: Array) -> Array:
        """R with other values of the parameters, averaged along its flow with those that are prepared."""
        ...


class Substeps(NamedTuple):
    """Inside a step: positions where the kicks acted, and momenta during the drifts, one more of them."""

    kicks: tuple[Array, ...]
    momenta: tuple[Array, ...]
    turns: tuple[tuple[Array, Array], ...] = ()
    """States where rotations began, one before and one after every kick."""
    last: Array | None = None
    """Position before the last drift, where rotations have moved it."""
    forces: tuple[Array, ...] = ()
    """With which the kicks acted."""

    @property
    def end(self) -> Substeps:
        """What a step is closed from."""
        return Substeps(self.kicks[-1:], self.momenta[-1:], last=self.last)


def flow(energy: Energy, q: Array, p: Array, prepared: Any, u: Array) -> tuple[Array, Array]:
    """dq/dt and dp/dt."""
    speed, push = energy.velocity(p, prepared, u), energy.force(q, prepared, u)
    if energy.turning:
        by_q, by_p = slopes(energy, q, p, prepared)
        speed, push = speed + by_p, push - by_q
    return speed, push


def slopes(energy: Energy, q: Array, p: Array, prepared: Any) -> tuple[Array, Array]:
    """∂R/∂q and ∂R/∂p."""
    by_q, by_p = jax.grad(lambda a, b: jnp.sum(energy.rotation(a, b, prepared)), argnums=(0, 1))(q, p)
    return by_q, by_p


@dataclass(frozen=True)
class Integrator:
    """Symmetric composition of leapfrog steps whose lengths are given as fractions of the whole step."""

    order: ClassVar[int]
    limit: ClassVar[float]
    """Stable for step·ω below this."""
    lengths: ClassVar[tuple[float, ...]]

    @cached_property
    def drifts(self) -> tuple[float, ...]:
        """Fractions of the drifts: half of the first length, the means of neighbours, half of the last."""
        padded = (0.0, *self.lengths, 0.0)
        return tuple((a + b) / 2 for a, b in pairwise(padded))

    def step(
        self, energy: Energy, q: Array, p: Array, prepared: Any, u: Array, step: Array
    ) -> tuple[Array, Array, Substeps]:
        """State after one step with input u held constant, and where it was on the way."""
        inside = self.open(energy, q, p, prepared, u, step)
        return *self.close(energy, inside, prepared, u, step), inside

    def open(self, energy: Energy, q: Array, p: Array, prepared: Any, u: Array, step: Array) -> Substeps:
        """A step up to and including its last kick."""
        kicks, momenta, turns, forces = [], [p], [], []
        for drift, length in zip(self.drifts, self.lengths, strict=False):
            q = q + drift * step * energy.velocity(p, prepared, u)
            if energy.turning:
                turns.append((q, p))
                q, p = energy.turn(q, p, prepared, length * step / 2)
            kicks.append(q)
            forces.append(energy.force(q, prepared, u))
            p = p + length * step * forces[-1]
            if energy.turning:
                turns.append((q, p))
                q, p = energy.turn(q, p, prepared, length * step / 2)
            momenta.append(p)
        last = q if energy.turning else None
        return Substeps(tuple(kicks), tuple(momenta), tuple(turns), last, tuple(forces))

    def close(self, energy: Energy, inside: Substeps, prepared: Any, u: Array, step: Array) -> tuple[Array, Array]:
        """State at the end of a step that was opened."""
        p = inside.momenta[-1]
        q = inside.kicks[-1] if inside.last is None else inside.last
        return q + self.drifts[-1] * step * energy.velocity(p, prepared, u), p


@dataclass(frozen=True)
class Leapfrog(Integrator):
    """Drift, kick, drift: second order, stable for step·ω < 2."""

    order = 2
    limit = 2.0
    lengths = (1.0,)


_Y4 = 1 / (2 - 2 ** (1 / 3))


@dataclass(frozen=True)
class Yoshida4(Integrator):
    """Three leapfrog steps, the middle one backwards: fourth order."""

    order = 4
    limit = 1.573
    lengths = (_Y4, 1 - 2 * _Y4, _Y4)


# Solution A of Yoshida, Physics Letters A 150 (1990) 262, sixth order with seven stages.
_Y6 = (0.784513610477560, 0.235573213359357, -1.17767998417887)


@dataclass(frozen=True)
class Yoshida6(Integrator):
    """Seven leapfrog steps: sixth order."""

    order = 6
    limit = 2.269
    lengths = (*_Y6, 1 - 2 * sum(_Y6), *reversed(_Y6))
