"""Recurrences of a state-space model: rows of units, or any compiled circuit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.operators import Reader
from devices import ArgumentError, refuse_unless_positive
from rhel_hw.hru import DELTA, GAIN, STIFFNESS, LinearUnits, NonlinearUnits
from rhel_hw.layers import Method
from rhel_hw.losses import targets_of

Array = Any
Raw = Mapping[str, Array]

SMALLEST_GAIN = 0.05
"""Of a nonlinear unit, whose energy log cosh(A·q + u)/A has no limit at A = 0."""


@dataclass(frozen=True)
class Recurrence(ABC):
    """What turns inputs (steps, m, batch) into outputs (steps, k, batch); training may move its parameters freely."""

    biased = False
    """Whether its inputs have a bias of their own."""

    @property
    @abstractmethod
    def inputs(self) -> int:
        """Input channels."""

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Output channels."""

    @abstractmethod
    def start(self, rng: np.random.Generator) -> dict[str, Any]:
        """Free parameters at the start of training."""

    def reach(self, width: int) -> float:
        """Largest weight at the start of its inputs, which come from this many features."""
        return float(width**-0.5)

    @abstractmethod
    def __call__(self, raw: Raw, u: Array, method: Method, strength: Array, watch: Array) -> Array:
        """Run it."""


@dataclass(frozen=True)
class _Units(Recurrence):
    size: int

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise ArgumentError(f"Argument `size` must be a whole number of at least 1, but is {self.size!r}")

    @property
    def inputs(self) -> int:
        """One for every unit."""
        return self.size

    @property
    def outputs(self) -> int:
        """One of every unit."""
        return self.size

    @abstractmethod
    def theta(self, raw: Raw) -> dict[str, Array]:
        """Parameters of the energy from free ones."""

    @abstractmethod
    def energy(self) -> LinearUnits | NonlinearUnits:
        """Of the row."""

    def __call__(self, raw: Raw, u: Array, method: Method, strength: Array, watch: Array) -> Array:
        """Run the row from rest; a step has length 1, as every unit has its own δ."""
        return method.through(self.energy(), self.theta(raw), u, jnp.ones((), u.dtype), strength, watch)


@dataclass(frozen=True)
class LinearRow(_Units):
    """Linear units: A = max(raw, 0), δ = σ(raw)."""

    def energy(self) -> LinearUnits:
        """Of the row."""
        return LinearUnits(self.size)

    def start(self, rng: np.random.Generator) -> dict[str, Any]:
        """Both uniform from 0 to 1."""
        return {STIFFNESS: rng.uniform(0, 1, self.size), DELTA: rng.uniform(0, 1, self.size)}

    def theta(self, raw: Raw) -> dict[str, Array]:
        """Parameters of the energy from free ones."""
        return {STIFFNESS: jax.nn.relu(raw[STIFFNESS]), DELTA: jax.nn.sigmoid(raw[DELTA])}


@dataclass(frozen=True)
class NonlinearRow(_Units):
    """Nonlinear units: A = max(raw, 0.05), δ = σ(raw), and one α = max(raw, 0) for the row."""

    biased = True

    def energy(self) -> NonlinearUnits:
        """Of the row."""
        return NonlinearUnits(self.size)

    def start(self, rng: np.random.Generator) -> dict[str, Any]:
        """A from 0.5 to 1, δ from σ(−1) to σ(1), α from 0.1 to 1, all uniform."""
        return {
            GAIN: rng.uniform(0.5, 1, self.size),
            DELTA: rng.uniform(-1, 1, self.size),
            STIFFNESS: rng.uniform(0.1, 1, 1),
        }

    def reach(self, width: int) -> float:
        """As the paper has it; driven by more, many units are chaotic."""
        return 1 / width

    def theta(self, raw: Raw) -> dict[str, Array]:
        """Parameters of the energy from free ones."""
        return {
            GAIN: jnp.maximum(raw[GAIN], SMALLEST_GAIN),
            STIFFNESS: jnp.broadcast_to(jax.nn.relu(raw[STIFFNESS]), (self.size,)),
            DELTA: jax.nn.sigmoid(raw[DELTA]),
        }


@dataclass(frozen=True, eq=False)
class Circuit(Recurrence):
    """A compiled circuit: what goes in are its drives, what comes out are the positions of its targets.

    Both are in the design's own units; inputs are multiplied by `amplitude` on their way in, and outputs divided by it.
    """

    design: Design
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        refuse_unless_positive(amplitude=self.amplitude)
        if self.design.hamiltonian.lossy:
            raise ArgumentError(
                f"A circuit in a model must be without loss, but has {', '.join(self.design.hamiltonian.lossy)}: an "
                "echo does not retrace what is lost; use a bench"
            )
        if not self.inputs:
            raise ArgumentError("Argument `design` must have drives, but has none: nothing goes in")

    @property
    def inputs(self) -> int:
        """Its drives, as the energy has them."""
        return self.design.hamiltonian.inputs

    @property
    def outputs(self) -> int:
        """Its targets."""
        return self.reader.rows

    @cached_property
    def reader(self) -> Reader:
        """Reads targets."""
        return targets_of(self.design)

    def start(self, rng: np.random.Generator) -> dict[str, Any]:
        """As the design has them."""
        return {k: np.asarray(v) for k, v in self.design.parameters.free(self.design.theta()).items()}

    def theta(self, raw: Raw, dtype: Any) -> dict[str, Array]:
        """Parameters of the energy from free ones."""
        nominal = {k: jnp.asarray(v, dtype) for k, v in self.design.theta().items()}
        return {k: v.astype(dtype) for k, v in self.design.parameters.bind(raw, nominal).items()}

    def __call__(self, raw: Raw, u: Array, method: Method, strength: Array, watch: Array) -> Array:
        """Run it from rest."""
        theta, step = self.theta(raw, u.dtype), jnp.asarray(self.design.step, u.dtype)
        q = method.through(self.design.hamiltonian, theta, self.amplitude * u, step, strength, watch)
        read = self.reader(jnp.moveaxis(q, 1, 0))
        return jnp.moveaxis(read, 0, 1) / self.amplitude
