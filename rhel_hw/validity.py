"""The validity monitor: by how much a run left the range in which each element's model holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits.hamiltonian import Hamiltonian, Theta
from circuits.operators import lanes

Array = Any


@dataclass(frozen=True)
class Validity:
    """What one element used of its range, at worst."""

    element: str
    used: float
    """Above one, its model is left."""
    time_s: float
    what: str
    """Which quantity is compared with which limit."""

    @property
    def valid(self) -> bool:
        """Whether the range was kept."""
        return self.used <= 1

    def __str__(self) -> str:
        return f"{self.element}: {self.used:.3g} of its range ({self.what}), at {self.time_s:.4g} s"


def validity_of(
    hamiltonian: Hamiltonian, theta: Theta, times_s: NDArray[np.float64], q: Array, p: Array, u: Array
) -> tuple[Validity, ...]:
    """Every element that has a range, the worst first; states are (steps, n, batch…), the worst lane counts."""
    found = []
    for name, (worst, when) in _worst(hamiltonian, theta, q, p, u).items():
        group = hamiltonian.assembly.groups[name]
        for element, used, step in zip(group.names, np.asarray(worst, float), np.asarray(when), strict=True):
            found.append(Validity(element, float(used), float(times_s[step]), group.kind.validity_text))
    return tuple(sorted(found, key=lambda v: -v.used))


@partial(jax.jit, static_argnums=0)
def _worst(hamiltonian: Hamiltonian, theta: Theta, q: Array, p: Array, u: Array) -> dict[str, tuple[Array, Array]]:
    """Largest use of every element's range and the step where it occurs, (count,) each, by type."""
    assembly, prepared = hamiltonian.assembly, hamiltonian.prepare(theta)
    kinds = [name for name, group in assembly.groups.items() if group.kind.validity is not None]

    def watch(carry: Any, given: Any) -> Any:
        worst, when = carry
        i, x, y, v = given
        for name, used in used_at(x, y, v).items():
            larger = used > worst[name]
            worst = {**worst, name: jnp.where(larger, used, worst[name])}
            when = {**when, name: jnp.where(larger, i, when[name])}
        return (worst, when), None

    def used_at(x: Array, y: Array, v: Array) -> dict[str, Array]:
        found = {}
        for name in kinds:
            group = assembly.groups[name]
            b, m = hamiltonian.branches_of(name, x, y, prepared, v)
            values = group.values(prepared.theta, partial(lanes, like=(b or m)[0]))
            used = group.kind.validity(b, m, values)
            found[name] = jnp.max(used.reshape(used.shape[0], -1), axis=1)
        return found

    zero = {name: jnp.zeros(len(assembly.groups[name].names), q.dtype) for name in kinds}
    first = {name: jnp.zeros(len(assembly.groups[name].names), int) for name in kinds}
    (worst, when), _ = jax.lax.scan(watch, (zero, first), (jnp.arange(len(q)), q, p, u))
    return {name: (worst[name], when[name]) for name in kinds}
