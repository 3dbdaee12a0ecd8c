"""Losses over a trajectory: what an echo is nudged by.

A loss is a sum over steps of ℓ(q, p, data) of the state at the end of the step, averaged over the batch. `final` ones
have a single term, at the end. All are dimensionless functions of dimensionless states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Design
from devices import ArgumentError

Array = Any


@dataclass(frozen=True, eq=False)
class Loss(ABC):
    """Base of all losses."""

    even: ClassVar[bool] = True
    """Whether ℓ does not change when the momenta are flipped; only self-consistent nudging needs that."""
    final: ClassVar[bool] = False
    """Whether only the last state counts."""

    @abstractmethod
    def data(self) -> Array:
        """What `at` takes beside the state: (steps, …) for running losses, (…) for final ones."""

    @abstractmethod
    def at(self, q: Array, p: Array, data: Array) -> Array:
        """ℓ of a state (n, batch…), shape (batch…)."""

    def slope(self, q: Array, p: Array, data: Array) -> tuple[Array, Array]:
        """∂ℓ/∂q and ∂ℓ/∂p, each (n, batch…): the nudges."""
        by_q, by_p = jax.grad(lambda a, b: jnp.sum(self.at(a, b, data)), argnums=(0, 1))(q, p)
        return by_q, by_p


@dataclass(frozen=True, eq=False)
class _Read(Loss):
    """A loss of the positions of some nodes, as rows of coordinates."""

    rows: Array
    """(targets, n)"""
    targets: Array

    def data(self) -> Array:
        """The wanted positions."""
        return self.targets

    def read(self, q: Array) -> Array:
        """Positions of the targets, (targets, batch…)."""
        return jnp.asarray(self.rows, q.dtype) @ q


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TrajectoryMSE(_Read):
    """½·mean over steps and targets of the squared distance from wanted positions (steps, targets[, batch])."""

    def at(self, q: Array, p: Array, data: Array) -> Array:
        """ℓ of a state."""
        wanted = jnp.reshape(data, data.shape + (1,) * (q.ndim - data.ndim))
        steps, count = self.targets.shape[:2]
        return jnp.sum((self.read(q) - wanted) ** 2, axis=0) / (2 * steps * count)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class FinalMSE(_Read):
    """½·mean over targets of the squared distance from wanted positions (targets[, batch]) at the end."""

    final = True

    def at(self, q: Array, p: Array, data: Array) -> Array:
        """ℓ of a state."""
        wanted = jnp.reshape(data, data.shape + (1,) * (q.ndim - data.ndim))
        return jnp.sum((self.read(q) - wanted) ** 2, axis=0) / (2 * self.targets.shape[0])


def target_rows(design: Design) -> np.ndarray[Any, Any]:
    """Rows that read the positions of the design's targets from its coordinates, in units of their domain."""
    coordinates = design.assembly.coordinates
    rows = (coordinates.W.toarray() * design.assembly.factors)[:, : len(coordinates.dynamic)]
    place = {n: i for i, n in enumerate(coordinates.nodes)}
    loose = {n for group in (*coordinates.massless, *coordinates.cyclic) for n in group}
    for target in design.netlist.targets:
        if target.node in loose:
            raise ArgumentError(
                f"Argument `design` must have targets at nodes that move by themselves, but {target.node} does not"
            )
    return np.array([rows[place[t.node]] for t in design.netlist.targets])
