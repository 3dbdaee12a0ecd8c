"""Loss of resistors and dampers: ṗ = −G·M⁻¹p, solved exactly over half a step at either end of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp

from circuits.hamiltonian import Hamiltonian, Prepared
from circuits.operators import lanes, matrix_of, times

Array = Any


class Decay(NamedTuple):
    """Propagator of the momenta: a factor each where nodes lose alone, a matrix where branches join them."""

    factors: Array | None = None
    """(n, batch…)"""
    matrix: Array | None = None
    """(batch…, n, n)"""

    def __call__(self, p: Array) -> Array:
        """Momenta (n, batch…) after the decay."""
        if self.factors is not None:
            return lanes(self.factors, p) * p
        if self.matrix is not None:
            return times(self.matrix, p)
        return p


def decay_of(hamiltonian: Hamiltonian, prepared: Prepared, time: Array) -> Decay:
    """Decay over `time`; nothing without resistors and dampers."""
    assembly, n = hamiltonian.assembly, hamiltonian.size
    if not assembly.loss:
        return Decay()
    rows = sp.vstack([m[:, :n] for m in assembly.loss.values()]).tocsr()
    groups = [assembly.groups[name] for name in assembly.loss]
    conductance = jnp.concatenate([g.kind.conductance(g.values(prepared.theta)) for g in groups if g.kind.conductance])
    batch, dtype = conductance.shape[1:], conductance.dtype
    alone = np.all(np.diff(rows.indptr) == 1) and hamiltonian.inverse.diagonal
    if alone and len(hamiltonian.quadratic) == n:
        entries = lanes(jnp.asarray(rows.data**2, dtype), conductance) * conductance
        rates = jnp.zeros((n, *batch), dtype).at[rows.indices].add(entries)
        return Decay(factors=jnp.exp(-time * rates * prepared.inertia.solver[:n]))
    A = jnp.asarray(rows.toarray(), dtype)
    G = jnp.einsum("ei,e...,ej->...ij", A, conductance, A)
    speeds = matrix_of(lambda p: hamiltonian.velocity(p, prepared), n, batch, dtype)
    return Decay(matrix=jax.scipy.linalg.expm(-time * G @ speeds))
