"""Recurrences of a state-space model: rows of units, or any compiled circuit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.state import encode
from devices import ArgumentError, refuse_unless_positive
from rhel_hw.hru import DELTA, GAIN, STIFFNESS, LinearUnits, NonlinearUnits
from rhel_hw.layers import Method
from rhel_hw.losses import targets_of

Array = Any
Raw = Mapping[str, Array]

SMALLEST_GAIN = 0.05
"""Of a nonlinear unit, whose energy log cosh(A·q + u)/A has no limit at A = 0."""


@dataclass(frozen=True, eq=False)
class Recurrence(ABC):
    """What turns inputs (steps, m, batch) into outputs (steps, k, batch); training may move its parameters freely."""

    biased: ClassVar[bool] = False
    """Whether its inputs have a bias of their own."""
    traced: ClassVar[bool] = True
    """Whether it can be part of a compiled program."""

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
    """A compiled circuit from rest: what goes in are its drives, what comes out are the positions of its targets.

    Both are numbers in the design's own units; inputs are multiplied by `amplitude` on their way in, and outputs
    divided by it. With a bench (`rhel_hw.bench_recurrence`) it is the same to a model.
    """

    design: Design
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        refuse_unless_positive(amplitude=self.amplitude)
        if self.design.hamiltonian.lossy:
            raise ArgumentError(
                f"A circuit in a model must be without loss, but has {', '.join(self.design.hamiltonian.lossy)}: an "
                "echo does not retrace what is lost; put it on a bench"
            )
        wired(self.design)

    @property
    def inputs(self) -> int:
        """Its drives."""
        return len(self.design.netlist.drives)

    @property
    def outputs(self) -> int:
        """Its targets."""
        return len(self.design.netlist.targets)

    def start(self, rng: np.random.Generator) -> dict[str, Any]:
        """As the design has them."""
        return free_parameters(self.design)

    def __call__(self, raw: Raw, u: Array, method: Method, strength: Array, watch: Array) -> Array:
        """Run it from rest."""
        design, dtype = self.design, u.dtype
        inputs = encode(design, waveforms(design, self.amplitude * u)).astype(dtype)
        theta = {k: v.astype(dtype) for k, v in bound_parameters(design, raw).items()}
        step = jnp.asarray(design.step, dtype)
        q = method.through(design.hamiltonian, theta, inputs, step, strength, watch)
        read = targets_of(design)(jnp.moveaxis(q, 1, 0))
        return (jnp.moveaxis(read, 0, 1) / self.amplitude).astype(dtype)


# Circuits as recurrences --------------------------------------------------------------------------------------------


def wired(design: Design) -> None:
    """Refuse a design into which nothing goes, from which nothing comes, or that does not start from rest."""
    for what, found in (("drives", design.netlist.drives), ("targets", design.netlist.targets)):
        if not found:
            raise ArgumentError(f"Argument `design` must have {what} to be a recurrence, but has none: add [{what}.x]")
    if any(np.any(np.asarray(x) != 0) for x in design.initial_state()):
        raise ArgumentError("Argument `design` must start from rest to be a recurrence, but starts elsewhere")


def free_parameters(design: Design) -> dict[str, Any]:
    """Unconstrained trainable parameters, as the design has them."""
    return {k: np.asarray(v) for k, v in design.parameters.free(design.theta()).items()}


def bound_parameters(design: Design, raw: Raw) -> dict[str, Array]:
    """Theta from unconstrained parameters."""
    return design.parameters.bind(raw, design.theta())


def waveforms(design: Design, u: Array) -> dict[str, Array]:
    """SI waveforms by drive from numbers (steps, drives, batch) in the design's own units."""
    return {
        d.name: u[:, i] * scale for i, (d, scale) in enumerate(zip(design.netlist.drives, _scales(design), strict=True))
    }


def _scales(design: Design) -> list[float]:
    """What 1 stands for at every drive: a wave that, over a unit of time, moves the energy's input by about 1."""
    time = {"value": 1.0, "integral": 1 / design.assembly.units.time, "slope": design.assembly.units.time}
    first = {item.drive.name: item for item in reversed(design.assembly.inputs)}
    return [
        float(first[d.name].scale / abs(first[d.name].weight) * time[first[d.name].function])
        for d in design.netlist.drives
    ]
