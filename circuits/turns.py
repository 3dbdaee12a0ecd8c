"""Rotations in the plane of a position and a momentum, by a function of the action alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits.assemble import Group
from devices import Values
from devices.maths import cos, sin

Array = Any


class Turn(NamedTuple):
    """Rotations of all elements of a group, (count, batch…) each."""

    group: Group
    values: Values
    place: NDArray[np.intp]
    aspect: Array
    x: Array
    y: Array

    @property
    def action(self) -> Array:
        """What a rotation keeps."""
        return action(self.aspect, self.x, self.y)

    @property
    def rate(self) -> Array:
        """Angular frequency, the slope of the energy in the action."""
        return jax.grad(lambda n: jnp.sum(self.energy(n)))(self.action)

    def energy(self, action: Array) -> Array:
        """R of an action."""
        return self.group.kind.rotation(action, self.values)

    def after(self, time: Array) -> tuple[Array, Array]:
        """State after so long."""
        angle = self.rate * time
        c, s = cos(angle), sin(angle)
        return self.x * c + self.y / self.aspect * s, self.y * c - self.aspect * self.x * s


def action(aspect: Array, x: Array, y: Array) -> Array:
    """Of a state, on circles of this aspect."""
    return (aspect * x**2 + y**2 / aspect) / 2
