"""Losses over a trajectory: what an echo is nudged by.

Most are sums over steps of ℓ(q, p, data) of the state at the end of the step; `When` says which states count. All are
averaged over the batch, and are dimensionless functions of dimensionless states (n, batch…).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.operators import Reader, lanes
from devices import ArgumentError, refuse_unless_positive

Array = Any
Slopes = tuple[Array | None, Array | None]
"""∂ℓ/∂q and ∂ℓ/∂p, each (n, batch…), None where ℓ does not depend on it."""


class When(Enum):
    """Which states a loss looks at."""

    RUNNING = "the end of every step"
    FINAL = "the last state"
    POOLED = "the mean over all steps"


@dataclass(frozen=True, eq=False)
class Loss(ABC):
    """Base of all losses. A new one defines `data`, `check` and `at`, and is registered with JAX as those here are."""

    when: ClassVar[When] = When.RUNNING

    @abstractmethod
    def data(self) -> Any:
        """What `at` takes beside the state: arrays, with a leading axis of steps if the loss is running."""

    @abstractmethod
    def check(self, steps: int, size: int, batch: int) -> None:
        """Refuse a run of this many steps, coordinates and lanes that the loss does not fit."""

    @abstractmethod
    def at(self, q: Array, p: Array, data: Any) -> Array:
        """ℓ of a state (n, batch…), or of the mean state, shape (batch…)."""

    def part(self, lanes: slice) -> Loss | None:
        """The loss of some of the lanes; None if it does not say, and the lanes stay together."""
        return None

    def errors(self, q: Array, p: Array, data: Any) -> Any:
        """What is recorded on the free pass so that `slopes` can nudge the echo."""
        return jax.grad(lambda a, b: jnp.sum(self.at(a, b, data)), argnums=(0, 1))(q, p)

    def slopes(self, errors: Any) -> Slopes:
        """Nudges from recorded errors."""
        by_q, by_p = errors
        return by_q, by_p


@dataclass(frozen=True, eq=False)
class _Read(Loss):
    """A loss of the positions of some nodes: only their errors are recorded, not a slope for every coordinate."""

    reader: Reader = field(metadata={"static": True})
    """From coordinates to targets."""
    targets: Array

    def __post_init__(self) -> None:
        if isinstance(self.targets, (list, tuple)):
            object.__setattr__(self, "targets", np.asarray(self.targets))

    def data(self) -> Array:
        """The wanted positions."""
        return self.targets

    def check(self, steps: int, size: int, batch: int) -> None:
        """Refuse targets of another shape."""
        lead = (steps,) if self.when is When.RUNNING else ()
        shape = (*lead, self.reader.rows)
        if not isinstance(self.reader, Reader) or self.reader.columns != size:
            raise ArgumentError(
                f"Argument `reader` must read {size} coordinates, but is {self.reader!r}: "
                "make it with targets_of(design)"
            )
        if jnp.shape(self.targets) not in (shape, (*shape, batch)):
            raise ArgumentError(
                f"Argument `targets` must have shape {shape} or {(*shape, batch)}, but has {jnp.shape(self.targets)}"
            )
        if not bool(jnp.all(jnp.isfinite(jnp.asarray(self.targets)))):
            raise ArgumentError("Argument `targets` must be finite, but holds NaN or infinity")

    def part(self, lanes: slice) -> Loss | None:
        """Targets of these lanes, or those that all have in common."""
        common = jnp.ndim(self.targets) == (2 if self.when is When.RUNNING else 1)
        return self if common else replace(self, targets=self.targets[..., lanes])

    def distance(self, q: Array, data: Array) -> Array:
        """Read positions minus wanted ones, (targets, batch…)."""
        read = self.reader(q)
        return read - lanes(data, read)

    def slopes(self, errors: Array) -> Slopes:
        """Errors of targets, spread over the coordinates they are read from."""
        return self.reader.transpose(errors), None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TrajectoryMSE(_Read):
    """½·mean over steps and targets of the squared distance from wanted positions (steps, targets[, batch])."""

    def at(self, q: Array, p: Array, data: Array) -> Array:
        """ℓ of a state."""
        return jnp.sum(self.distance(q, data) ** 2, axis=0) / (2 * self._count)

    def errors(self, q: Array, p: Array, data: Array) -> Array:
        """Weighted distances, (targets, batch…)."""
        return self.distance(q, data) / self._count

    @property
    def _count(self) -> int:
        return int(np.prod(self.targets.shape[:2]))


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FinalMSE(_Read):
    """½·mean over targets of the squared distance from wanted positions (targets[, batch]) at the end."""

    when = When.FINAL

    def at(self, q: Array, p: Array, data: Array) -> Array:
        """ℓ of the last state."""
        return jnp.sum(self.distance(q, data) ** 2, axis=0) / (2 * self.reader.rows)

    def errors(self, q: Array, p: Array, data: Array) -> Array:
        """Weighted distances, (targets, batch…)."""
        return self.distance(q, data) / self.reader.rows


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class PooledCrossEntropy(_Read):
    """Cross-entropy of softmax(sharpness · mean position): one target per class, `targets` are labels (batch,)."""

    sharpness: Array = 1.0
    when = When.POOLED

    def check(self, steps: int, size: int, batch: int) -> None:
        """Refuse labels that are not classes."""
        labels = np.asarray(self.targets)
        if self.reader.columns != size or self.reader.rows < 2:
            raise ArgumentError(
                f"Argument `reader` must read at least 2 classes from {size} coordinates, but reads {self.reader.rows} "
                f"from {self.reader.columns}"
            )
        if labels.shape != (batch,):
            raise ArgumentError(f"Argument `targets` must have shape {(batch,)}, but has {labels.shape}")
        if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= self.reader.rows:
            raise ArgumentError(f"Argument `targets` must be whole numbers from 0 to {self.reader.rows - 1}")
        refuse_unless_positive(sharpness=self.sharpness)

    def part(self, lanes: slice) -> Loss | None:
        """Labels of these lanes."""
        return replace(self, targets=self.targets[lanes])

    def at(self, q: Array, p: Array, data: Array) -> Array:
        """ℓ of the mean state."""
        read = self.sharpness * self.reader(q)
        return -jnp.sum(self._wanted(data, read) * jax.nn.log_softmax(read, axis=0), axis=0)

    def errors(self, q: Array, p: Array, data: Array) -> Array:
        """Probabilities minus what they should be, (classes, batch…)."""
        read = self.sharpness * self.reader(q)
        return self.sharpness * (jax.nn.softmax(read, axis=0) - self._wanted(data, read))

    def _wanted(self, labels: Array, like: Array) -> Array:
        """One at the label, zero elsewhere."""
        classes = jnp.arange(self.reader.rows)[:, None]
        return lanes((classes == labels).astype(like.dtype), like)


@lru_cache(maxsize=64)
def targets_of(design: Design) -> Reader:
    """What reads the positions of the design's targets from its coordinates, in units of their domain."""
    if not design.netlist.targets:
        raise ArgumentError("Argument `design` must have targets, but has none: add [targets.y] with a node")
    coordinates = design.assembly.coordinates
    rows = design.assembly.readout[:, : len(coordinates.dynamic)]
    place = {n: i for i, n in enumerate(coordinates.nodes)}
    loose = {n for group in (*coordinates.massless, *coordinates.cyclic) for n in group}
    for target in design.netlist.targets:
        if target.node in loose or target.node not in place:
            raise ArgumentError(
                f"Argument `design` must have targets at nodes that move by themselves, but {target.node} does not"
            )
    return Reader.of(rows[[place[t.node] for t in design.netlist.targets]].tocsr())
