"""Small oscillations of a circuit: rest point, normal modes, and a bound on the highest frequency.

Independent of the Hamiltonian's own evaluation: matrices are built from curvatures with SciPy, sparse where large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from circuits.assemble import Assembly, Group, inertia_matrix
from devices import Values

DENSE_MODES = 1500
"""Largest number of coordinates whose modes are all computed."""
EDGE_MODES = 8
"""Modes computed at either end of the spectrum beyond that."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Modes:
    """Normal modes about a rest point, dimensionless."""

    squares: Vector
    """Squared angular frequencies, ascending; all of them, or the ends of the spectrum of a large circuit."""
    complete: bool
    rest: Vector
    """Rest point in all moving coordinates."""
    converged: bool


def stiffness_matrix(assembly: Assembly, at: Vector | None = None, *, largest: bool = False) -> sp.csr_array:
    """Stiffness over dynamic and massless coordinates at a point, or an upper bound of it at any point."""
    dynamic, massless, _ = assembly.coordinates.counts
    n = dynamic + massless
    total = sp.csr_array((n, n))
    for name, rows in assembly.branch.items():
        rows = rows[:, :n]
        group = assembly.groups[name]
        count = len(group.names)
        blocks = [rows[s : s + count] for s in range(0, rows.shape[0], count)]
        if name == "inductor" and "mutual" in assembly.groups:
            total = total + blocks[0].T @ inverse_inductance(assembly) @ blocks[0]
            continue
        if group.kind.linear or largest:
            assert group.kind.stiffness is not None
            for block, k in zip(blocks, group.kind.stiffness(group.values(assembly.theta)), strict=True):
                total = total + block.T @ sp.diags_array(np.broadcast_to(k, (count,))) @ block
            continue
        point = np.zeros(n) if at is None else at
        hessian = _hessian(group, assembly.theta, [block @ point for block in blocks])
        for i, first in enumerate(blocks):
            for j, second in enumerate(blocks):
                total = total + first.T @ sp.diags_array(hessian[:, i, j]) @ second
    return total.tocsr()


def inductance_matrix(assembly: Assembly) -> sp.csr_array:
    """Inductance matrix of all inductors, mutual inductances included."""
    index = {name: i for i, name in enumerate(assembly.groups["inductor"].names)}
    L = assembly.theta["inductor.inductance"]
    matrix = sp.lil_array(sp.diags_array(L))
    coefficients = assembly.theta["mutual.coefficient"]
    for name, k in zip(assembly.groups["mutual"].names, coefficients, strict=True):
        part = assembly.netlist.by_name[name]
        a, b = (index[getattr(part, key)] for key in part.references)
        matrix[a, b] = matrix[b, a] = k * np.sqrt(L[a] * L[b])
    return matrix.tocsr()


def inductance_clusters(assembly: Assembly) -> list[NDArray[np.intp]]:
    """Sets of inductors that mutual inductances join."""
    count, label = sp.csgraph.connected_components(inductance_matrix(assembly), directed=False)
    order = np.argsort(label, kind="stable")
    return np.split(order, np.cumsum(np.bincount(label, minlength=count))[:-1])


def inverse_inductance(assembly: Assembly) -> sp.csr_array:
    """Inverse of the inductance matrix, cluster by cluster."""
    matrix = inductance_matrix(assembly)
    rows, columns, data = [], [], []
    for cluster in inductance_clusters(assembly):
        block = np.linalg.inv(matrix[cluster][:, cluster].toarray())
        rows.append(np.repeat(cluster, len(cluster)))
        columns.append(np.tile(cluster, len(cluster)))
        data.append(block.ravel())
    return sp.csr_array((np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=matrix.shape)


def highest_rate(assembly: Assembly) -> float:
    """Upper bound of the linearised angular frequency at any amplitude in the elements' range, dimensionless."""
    squares, _ = _squares(assembly, stiffness_matrix(assembly, largest=True), ends=1)
    return float(np.sqrt(max(squares[-1], 0.0)))


def modes(assembly: Assembly, force: Callable[[Vector], Vector] | None) -> Modes:
    """Modes about the rest point; `force` maps moving coordinates to forces, None where zero is known to be at rest."""
    dynamic, massless, _ = assembly.coordinates.counts
    rest, converged = np.zeros(dynamic + massless), True
    if force is not None:
        rest, converged = _rest(assembly, force)
    squares, complete = _squares(assembly, stiffness_matrix(assembly, rest), ends=EDGE_MODES)
    return Modes(squares, complete, rest, converged)


def _rest(assembly: Assembly, force: Callable[[Vector], Vector]) -> tuple[Vector, bool]:
    """Newton's method for zero force, with steps limited so that it stays in the well it starts in."""
    point = np.zeros(sum(assembly.coordinates.counts[:2]))
    scale = 1.0
    for _ in range(60):
        push = force(point)
        stiffness = stiffness_matrix(assembly, point).tocsc()
        size = float(abs(stiffness).max()) or 1.0
        if np.abs(push).max() <= 1e-12 * size * max(scale, np.abs(point).max()):
            return point, True
        try:
            move = sla.spsolve(stiffness, push)
        except RuntimeError:
            return point, False
        if not np.all(np.isfinite(move)):
            return point, False
        point = point + move * min(1.0, scale / np.abs(move).max())
    return point, False


def _squares(assembly: Assembly, stiffness: sp.csr_array, *, ends: int) -> tuple[Vector, bool]:
    """Squared frequencies of the dynamic coordinates: massless and cyclic ones eliminated."""
    dynamic, massless, cyclic = assembly.coordinates.counts
    inertia = inertia_matrix(assembly)
    moving, soft = slice(0, dynamic), slice(dynamic, dynamic + massless)
    massive = np.r_[0:dynamic, dynamic + massless : dynamic + massless + cyclic]
    inertia = inertia[massive][:, massive]
    K = stiffness[moving][:, moving]
    if massless:
        side = stiffness[moving][:, soft].toarray()
        K = sp.csr_array(K - side @ la.solve(stiffness[soft][:, soft].toarray(), side.T, assume_a="sym"))
    if cyclic:
        side = inertia[:dynamic][:, dynamic:].toarray()
        inertia = sp.csr_array(inertia[:dynamic][:, :dynamic] - side @ la.solve(inertia[dynamic:][:, dynamic:].toarray(), side.T, assume_a="pos"))
    if dynamic <= DENSE_MODES:
        return la.eigh(K.toarray(), inertia.toarray(), eigvals_only=True), True
    K, inertia = K.tocsc(), inertia.tocsc()
    start = np.random.default_rng(0).normal(size=dynamic)
    high = sla.eigsh(K, k=ends, M=inertia, which="LA", return_eigenvectors=False, v0=start, tol=1e-4)
    if ends == 1:
        return high * 1.001, False  # Lanczos approaches from below
    # A small shift keeps the factorisation regular where the circuit has a free mode.
    low = sla.eigsh(K, k=ends, M=inertia, sigma=-1e-6 * high.max(), which="LM", return_eigenvectors=False, v0=start)
    return np.concatenate([np.sort(low), np.sort(high)]), False


def _hessian(group: Group, theta: Mapping[str, Any], b: list[Vector]) -> NDArray[np.float64]:
    """Second derivatives of each element's energy in its branches, (count, branches, branches)."""
    import jax
    import jax.numpy as jnp

    assert group.kind.potential is not None
    potential = group.kind.potential

    def energy(x: Any, parameters: Mapping[str, Any]) -> Any:
        return potential(tuple(x), Values(**parameters, **group.constants))

    parameters = {k: jnp.asarray(theta[group.key(k)]) for k in group.kind.parameters}
    return np.asarray(jax.vmap(jax.hessian(energy))(jnp.stack([jnp.asarray(x) for x in b], axis=1), parameters))
