"""Hamiltonian recurrent units: oscillators that stand alone, each with an input of its own or a mixture of common ones.

The two kinds of the RHEL paper (definitions `linear-hru`, `nonlinear-hru`). Every unit has a time step of its own, δ,
as a parameter of its energy, so that a step of the integrator has length 1. Since a unit is coupled to nothing, δ may
multiply its whole energy (docs/physics.md, section 12).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits.operators import lanes, times
from devices.maths import log_cosh

if TYPE_CHECKING:
    from rhel_hw.integrators import Integrator, Substeps
    from rhel_hw.operations import Stencil

Array = Any
Theta = Mapping[str, Array]

DELTA, STIFFNESS, GAIN, INJECTION = "delta", "stiffness", "gain", "injection"


class Values(NamedTuple):
    """Parameters of units, ready to be used."""

    theta: dict[str, Array]

    def using(self, weights: Mapping[str, Array]) -> Values:
        """The same with some of them replaced."""
        return Values({**self.theta, **weights})


@dataclass(frozen=True)
class Units(ABC):
    """Units of one kind, as an energy that integrators and learning use; each has parameters (n,)."""

    size: int
    features: int = 0
    """Inputs that all units share, mixed by an injection B of their own, (n·features,); 0: an input for every unit."""
    keys: ClassVar[tuple[str, ...]]
    turning: ClassVar[bool] = False
    lossy: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def well(self, q: Array, u: Array, theta: Theta) -> Array:
        """Potential of every unit over δ."""

    @abstractmethod
    def push(self, q: Array, u: Array, theta: Theta) -> Array:
        """Force on every unit over δ."""

    @property
    def inputs(self) -> int:
        """One for every unit, or the features."""
        return self.features or self.size

    @property
    def input_parity(self) -> NDArray[np.float64]:
        """Forces and biases stay when time is reversed."""
        return np.ones(self.inputs)

    @property
    def theta_parity(self) -> Mapping[str, float]:
        """So do all parameters."""
        return {}

    def theta(self, dtype: Any = None) -> dict[str, Array]:
        """All ones."""
        found = {key: jnp.ones(self.size, dtype) for key in self.keys}
        return found | ({INJECTION: jnp.ones(self.size * self.features, dtype)} if self.features else {})

    def weights(self, theta: Theta) -> dict[str, Array]:
        """Parameters enter as they are."""
        return dict(theta)

    def moved_by(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Each moves itself."""
        return tuple(keys)

    def inverse_error(self, theta: Theta) -> float:
        """Nothing is inverted."""
        return 0.0

    def prepare(self, theta: Theta) -> Values:
        """Nothing to prepare."""
        return Values(dict(theta))

    def kinetic(self, p: Array, prepared: Values, u: Array | None = None) -> Array:
        """½Σδp²."""
        return jnp.sum(lanes(prepared.theta[DELTA], p) * p**2, axis=0) / 2

    def velocity(self, p: Array, prepared: Values, u: Array | None = None) -> Array:
        """δp."""
        return lanes(prepared.theta[DELTA], p) * p

    def potential(self, q: Array, prepared: Values, u: Array) -> Array:
        """Σδ·well."""
        u = self._mixed(q, u, prepared.theta)
        return jnp.sum(lanes(prepared.theta[DELTA], q) * self.well(q, u, prepared.theta), axis=0)

    def force(self, q: Array, prepared: Values, u: Array) -> Array:
        """δ·push."""
        u = self._mixed(q, u, prepared.theta)
        return lanes(prepared.theta[DELTA], q) * self.push(q, u, prepared.theta)

    def _mixed(self, q: Array, u: Array, theta: Theta) -> Array:
        """B·u, added up inside the loop over steps: as a product before it, it takes longer than the loop."""
        if not self.features:
            return u
        weights = theta[INJECTION].reshape(self.size, self.features, *theta[INJECTION].shape[1:])
        if weights.ndim == 2:
            return times(weights, u)
        return jnp.sum(jax.vmap(lanes, (1, None), 1)(weights, q) * u, axis=1)

    def rotation(self, q: Array, p: Array, prepared: Values) -> Array:
        """There is none, so nobody asks."""
        raise AssertionError("units do not turn")

    def turn(self, q: Array, p: Array, prepared: Values, time: Array) -> tuple[Array, Array]:
        """Nor here."""
        raise AssertionError("units do not turn")

    def mean_rotation(self, q: Array, p: Array, prepared: Values, values: Values, time: Array) -> Array:
        """Nor here."""
        raise AssertionError("units do not turn")


@dataclass(frozen=True)
class LinearUnits(Units):
    """H = ½δp² + δ(½A·q² − u·q), the unit of LinOSS."""

    keys = (STIFFNESS, DELTA)

    def well(self, q: Array, u: Array, theta: Theta) -> Array:
        """½A·q² − u·q."""
        return lanes(theta[STIFFNESS], q) * q**2 / 2 - u * q

    def push(self, q: Array, u: Array, theta: Theta) -> Array:
        """−A·q + u."""
        return u - lanes(theta[STIFFNESS], q) * q


@dataclass(frozen=True)
class NonlinearUnits(Units):
    """H = ½δp² + δ(½α·q² + log cosh(A·q + u)/A), the unit of UnICORNN."""

    keys = (GAIN, STIFFNESS, DELTA)

    def well(self, q: Array, u: Array, theta: Theta) -> Array:
        """½α·q² + log cosh(A·q + u)/A."""
        gain = lanes(theta[GAIN], q)
        x = gain * q + u
        return lanes(theta[STIFFNESS], q) * q**2 / 2 + log_cosh(x) / gain

    def push(self, q: Array, u: Array, theta: Theta) -> Array:
        """−tanh(A·q + u) − α·q."""
        return -jnp.tanh(lanes(theta[GAIN], q) * q + u) - lanes(theta[STIFFNESS], q) * q

    def differences(
        self, stencil: Stencil, integrator: Integrator, inside: Substeps, prepared: Values, u: Array
    ) -> tuple[dict[str, Array], Array]:
        """Of ∂H/∂parameter, (count, batch), and ∂H/∂u between echoes that came through a step: nothing but products.

        tanh is known from the forces, and log cosh differs by the mean tanh of two echoes times their distance, which
        is exact to the order of the stencil (docs/physics.md, section 12).
        """
        theta, still = prepared.theta, inside.kicks[0][:, 0]
        gain, stiffness, delta = (lanes(theta[k], still) for k in self.keys)
        slower, bend = (lanes(x, inside.kicks[0]) for x in (1 / theta[DELTA], theta[STIFFNESS]))
        by_gain, by_stiffness, by_delta, by_push = (jnp.zeros_like(still) for _ in range(4))
        for w, q, force in zip(integrator.lengths, inside.kicks, inside.forces, strict=True):
            push = -slower * force - bend * q  # tanh(A·q + u)
            squares = stencil.difference(q**2) / 2
            by_gain = by_gain + w * stencil.change(q, push)
            by_stiffness = by_stiffness + w * squares
            by_push = by_push + w * stencil.difference(push)
            by_delta = by_delta + w * (stiffness * squares + stencil.change(push, q))
        for w, p in zip(integrator.drifts, inside.momenta, strict=True):
            by_delta = by_delta + w * stencil.difference(p**2) / 2
        by_push = delta / gain * by_push
        found = {GAIN: delta / gain * by_gain, STIFFNESS: delta * by_stiffness, DELTA: by_delta}
        if not self.features:
            return found, by_push
        injection = theta[INJECTION].reshape(self.size, self.features, -1)
        mixed = by_push[:, None] * jnp.broadcast_to(u[:, 0], (self.features, still.shape[-1]))
        found[INJECTION] = mixed.reshape(-1, still.shape[-1])
        return found, jnp.sum(injection * by_push[:, None], axis=0)
