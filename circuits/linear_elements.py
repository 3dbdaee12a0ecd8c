"""Elements whose potentials are quadratic forms: forces by a stiffness matrix, energies and credit by branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.custom_derivatives import SymbolicZero
from numpy.typing import NDArray

from circuits.assemble import Assembly, Group
from circuits.branches import Branches
from circuits.operators import lanes
from circuits.stiffness import Stiffness

Array = Any
Floats = NDArray[np.float64]


NOTHING = 1e-6
"""A relative change by a parameter that is round-off."""


class Lines(NamedTuple):
    """Potentials ½k·(b − o)² of branches b, (branches, batch…) each, and the energy where b = o, (batch…)."""

    curvatures: Array
    origins: Array
    level: Array

    @property
    def slopes(self) -> Array:
        """At zero."""
        return -self.curvatures * self.origins


class Pulled(NamedTuple):
    """What is computed once per pass."""

    lines: Lines
    entries: Array
    """Of the stiffness matrix."""
    rest: Array
    """Slope of the potential where all coordinates and inputs are zero, (n, batch…)."""


@dataclass(frozen=True, eq=False)
class Linear:
    """Elements whose potentials are quadratic forms, diagonal in their branches."""

    groups: tuple[Group, ...]
    branches: Branches
    stiffness: Stiffness
    bending: frozenset[str]
    """Keys of parameters that curvatures depend on."""
    moving: frozenset[str]
    """Keys of parameters that origins depend on."""

    @classmethod
    def of(cls, assembly: Assembly) -> Linear | None:
        """Of a circuit, if it has any, and if no coordinate has too many neighbours; not inductors that are coupled."""
        coupled = "mutual" in assembly.groups
        names = [k for k in assembly.branch if assembly.groups[k].kind.linear and not (coupled and k == "inductor")]
        moving = slice(0, sum(assembly.coordinates.counts[:2]))
        rows = [assembly.branch[name][:, moving] for name in names]
        stiffness = Stiffness.of(sp.vstack(rows).tocsr()) if rows else None
        if stiffness is None:
            return None
        groups = tuple(assembly.groups[k] for k in names)
        return cls(groups, Branches.of(assembly, names), stiffness, *_felt(groups, assembly.theta))

    def lines(self, theta: Mapping[str, Array]) -> Lines:
        """For parameters that are all (count,) or all (count, batch)."""
        return _lines(self.groups, theta)

    def prepare(self, lines: Lines) -> Pulled:
        """What steps use; slopes are differentiated by curvatures, not by entries."""
        entries = jax.lax.stop_gradient(self.stiffness.prepare(lines.curvatures))
        return Pulled(lines, entries, self.branches.reader.transpose(lines.slopes))

    def potential(self, pulled: Pulled, c: Array, u: Array) -> Array:
        """V of these elements, (batch…)."""
        b, (curvatures, origins, level) = self.branches(c, u), pulled.lines
        away = b - lanes(origins, b) if self.moving else b
        return jnp.sum(lanes(curvatures, b) * away**2, axis=0) / 2 + level

    def slope(self, pulled: Pulled, c: Array, u: Array) -> Array:
        """∂V/∂c of these elements, (n, batch…)."""
        found: Array = _slope(self, pulled, c, u)
        return found

    def pull(self, curvatures: Array, b: Array) -> Array:
        """Slopes, by coordinate, that branches b of these curvatures have."""
        return self.branches.reader.transpose(lanes(curvatures, b) * b)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _slope(linear: Linear, pulled: Pulled, c: Array, u: Array) -> Array:
    total = linear.stiffness.apply(pulled.entries, c)
    if linear.moving:
        total = total + lanes(pulled.rest, c)
    if linear.branches.inputs is not None:
        total = total + lanes(linear.pull(pulled.lines.curvatures, linear.branches.inputs(u)), c)
    return total


def _slope_change(linear: Linear, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """By curvatures rather than by entries of the matrix, of which there are more."""
    (pulled, c, u), (by_pulled, by_c, by_u) = primals, tangents
    total = _slope(linear, pulled, c, u)
    change = jnp.zeros_like(total)
    if not _is_zero(by_c):
        change = change + linear.stiffness.apply(pulled.entries, by_c)
    if not _is_zero(by_pulled.lines.curvatures):
        change = change + linear.pull(by_pulled.lines.curvatures, linear.branches(c, u))
    if linear.moving and not _is_zero(by_pulled.rest):
        change = change + lanes(by_pulled.rest, c)
    if linear.branches.inputs is not None and not _is_zero(by_u):
        change = change + lanes(linear.pull(pulled.lines.curvatures, linear.branches.inputs(by_u)), c)
    return total, change


_slope.defjvp(_slope_change, symbolic_zeros=True)


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


def _lines(groups: Sequence[Group], theta: Mapping[str, Array]) -> Lines:
    like = next(iter(theta.values()))
    curvatures, origins, level = [], [], jnp.zeros(like.shape[1:], like.dtype)
    for group in groups:
        zeros = tuple(jnp.zeros((len(group.names), *like.shape[1:]), like.dtype) for _ in group.kind.branches)
        (_, energy), at_rest = _potential(zeros, group, theta)
        _, at_one = _potential(tuple(x + 1 for x in zeros), group, theta)
        for first, second in zip(at_rest, at_one, strict=True):
            bend = second - first
            origin = jnp.where(bend == 0, 0.0, -first / jnp.where(bend == 0, 1.0, bend))
            curvatures.append(bend)
            origins.append(origin)
            energy = energy - jnp.sum(bend * origin**2, axis=0) / 2
        level = level + energy
    return Lines(jnp.concatenate(curvatures), jnp.concatenate(origins), level)


@partial(jax.value_and_grad, has_aux=True)
def _potential(b: tuple[Array, ...], group: Group, theta: Mapping[str, Array]) -> tuple[Array, Array]:
    """Of all lanes together, and of each."""
    each = jnp.sum(group.kind.potential(b, group.values(theta)), axis=0)
    return jnp.sum(each), each


def _felt(groups: Sequence[Group], theta: Mapping[str, Floats]) -> tuple[frozenset[str], frozenset[str]]:
    """Keys of parameters that curvatures depend on, and origins, found by trying: anywhere, then with each moved."""
    rng = np.random.default_rng(0)
    anywhere = {k: rng.uniform(0.5, 1.5, v.shape) for k, v in theta.items()}
    before = _tried(groups, anywhere)
    bending: set[str] = set()
    moving: set[str] = set()
    for key, value in anywhere.items():
        after = _tried(groups, anywhere | {key: value * rng.uniform(1.1, 1.3, value.shape)})
        for found, a, b in zip((bending, moving), before, after, strict=True):
            if np.any(np.abs(b - a) > NOTHING * np.maximum(np.abs(a), np.abs(b))):
                found.add(key)
    return frozenset(bending), frozenset(moving)


def _tried(groups: Sequence[Group], theta: Mapping[str, Floats]) -> tuple[Floats, Floats]:
    """Curvatures and origins by values of the potential at three places."""
    curvatures, origins = [], []
    for group in groups:
        values, zeros = group.values(theta), [np.zeros(len(group.names)) for _ in group.kind.branches]
        for i in range(len(zeros)):
            low, middle, high = (
                group.kind.potential((*zeros[:i], zeros[i] + x, *zeros[i + 1 :]), values) for x in (-1.0, 0.0, 1.0)
            )
            bend = high - 2 * middle + low
            curvatures.append(bend)
            origins.append(np.where(bend == 0, 0.0, (low - high) / 2 / np.where(bend == 0, 1.0, bend)))
    return np.concatenate(curvatures), np.concatenate(origins)
