"""Small oscillations of a circuit: rest point, normal modes, and a bound on the highest frequency.

Independent of the Hamiltonian's own evaluation: matrices are built from curvatures with SciPy, sparse where large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import scipy.linalg as la
import scipy.sparse as sp
import scipy.sparse.linalg as sla
from numpy.typing import NDArray

from circuits.assemble import Assembly, Group, inertia_matrix
from devices import Element, Values

DENSE_MODES = 1500
"""Largest number of coordinates whose modes are all computed."""
EDGE_TOLERANCE = 1e-3
"""Relative error of the lowest and highest squared frequency, which alone are computed beyond that."""

Vector = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Modes:
    """Normal modes about a rest point, dimensionless."""

    squares: Vector
    """Squared angular frequencies, ascending; of a large circuit only the lowest and the highest."""
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
            for block, k in zip(blocks, group.kind.stiffness(group.values(assembly.theta)), strict=True):
                total = total + block.T @ sp.diags_array(np.broadcast_to(k, (count,))) @ block
            continue
        point = np.zeros(n) if at is None else at
        hessian = curvature(group, assembly.theta, [block @ point for block in blocks])
        for i, first in enumerate(blocks):
            for j, second in enumerate(blocks):
                total = total + first.T @ sp.diags_array(hessian[:, i, j]) @ second
    return total.tocsr()


def inductance_matrix(assembly: Assembly) -> sp.csr_array:
    """Inductance matrix of all inductors, mutual inductances included."""
    index = {name: i for i, name in enumerate(assembly.groups["inductor"].names)}
    L = assembly.theta["inductor.inductance"]
    parts = [assembly.netlist.by_name[name] for name in assembly.groups["mutual"].names]
    a, b = np.array([[index[getattr(part, key)] for key in part.references] for part in parts]).T
    shared = assembly.theta["mutual.coefficient"] * np.sqrt(L[a] * L[b])
    off = sp.csr_array((shared, (a, b)), shape=(len(L), len(L)))
    return (sp.diags_array(L) + off + off.T).tocsr()


def inductance_clusters(matrix: sp.csr_array) -> list[NDArray[np.intp]]:
    """Sets of inductors that mutual inductances join: per size, an array (clusters, size) of indices."""
    _, label = sp.csgraph.connected_components(matrix, directed=False)
    order, sizes = np.argsort(label, kind="stable"), np.bincount(label)
    starts = np.cumsum(sizes) - sizes
    return [order[starts[sizes == size][:, None] + np.arange(size)] for size in np.unique(sizes)]


def inverse_inductance(assembly: Assembly) -> sp.csr_array:
    """Inverse of the inductance matrix, cluster by cluster."""
    matrix = inductance_matrix(assembly)
    rows, columns, data = [], [], []
    for clusters in inductance_clusters(matrix):
        i, j = np.broadcast_arrays(clusters[:, :, None], clusters[:, None, :])
        block = np.asarray(matrix[i.ravel(), j.ravel()]).reshape(i.shape)
        rows.append(i.ravel())
        columns.append(j.ravel())
        data.append(np.linalg.inv(block).ravel())
    return sp.csr_array((np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))), shape=matrix.shape)


def highest_rate(assembly: Assembly) -> float:
    """Bound of the angular frequency over the amplitudes that the elements' stiffness covers, dimensionless."""
    squares, complete = _squares(
        assembly, stiffness_matrix(assembly, largest=True), inertia_matrix(assembly, smallest=True), lowest=False
    )
    margin = 1.0 if complete else 1 + EDGE_TOLERANCE  # Lanczos approaches from below
    return float(np.sqrt(max(squares[-1], 0.0) * margin))


def modes(assembly: Assembly, force: Callable[[Vector], Vector] | None) -> Modes:
    """Modes about the rest point; `force` maps moving coordinates to forces, None where zero is known to be at rest."""
    dynamic, massless, _ = assembly.coordinates.counts
    rest, converged = np.zeros(dynamic + massless), True
    if force is not None:
        rest, converged = _rest(assembly, force)
    squares, complete = _squares(assembly, stiffness_matrix(assembly, rest), inertia_matrix(assembly))
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
        # A trace of stiffness everywhere keeps the factors regular where the circuit has a free mode.
        regular = stiffness + 1e-12 * size * sp.eye_array(len(point))
        try:
            move = sla.splu(regular.tocsc()).solve(push)
        except RuntimeError:  # exactly singular
            return point, False
        if not np.all(np.isfinite(move)):
            return point, False
        point = point + move * min(1.0, scale / np.abs(move).max())
    return point, False


def _squares(
    assembly: Assembly, stiffness: sp.csr_array, inertia: sp.csr_array, *, lowest: bool = True
) -> tuple[Vector, bool]:
    """Squared frequencies of the dynamic coordinates: massless and cyclic ones eliminated."""
    dynamic, massless, cyclic = assembly.coordinates.counts
    moving, soft = slice(0, dynamic), slice(dynamic, dynamic + massless)
    massive = np.r_[0:dynamic, dynamic + massless : dynamic + massless + cyclic]
    inertia = inertia[massive][:, massive]
    K = stiffness[moving][:, moving]
    if massless:
        side = stiffness[moving][:, soft].toarray()
        K = sp.csr_array(K - side @ la.solve(stiffness[soft][:, soft].toarray(), side.T, assume_a="sym"))
    if cyclic:
        side = inertia[:dynamic][:, dynamic:].toarray()
        inertia = sp.csr_array(
            inertia[:dynamic][:, :dynamic]
            - side @ la.solve(inertia[dynamic:][:, dynamic:].toarray(), side.T, assume_a="pos")
        )
    if dynamic <= DENSE_MODES:
        return la.eigh(K.toarray(), inertia.toarray(), eigvals_only=True), True
    K, inertia = K.tocsc(), inertia.tocsc()
    start = np.random.default_rng(0).normal(size=dynamic)
    options = {"k": 1, "M": inertia, "return_eigenvectors": False, "v0": start, "tol": EDGE_TOLERANCE}
    high = sla.eigsh(K, which="LA", **options)
    if not lowest:
        return high, False
    # Inverse iteration by conjugate gradients: factors would fill up on graphs without small separators. The shift
    # keeps the matrix regular where the circuit has a free mode.
    shifted = K + 1e-6 * high[0] * inertia
    scale = sp.diags_array(1 / shifted.diagonal())

    def solve(x: Vector) -> Vector:
        solution, failed = sla.cg(shifted, x, rtol=1e-8, M=scale, maxiter=4 * dynamic)
        if failed:
            raise np.linalg.LinAlgError("the stiffness matrix is not positive definite")
        return np.asarray(solution)

    inverse = sla.LinearOperator(K.shape, matvec=solve)
    try:
        low = sla.eigsh(K, sigma=-1e-6 * high[0], which="LM", OPinv=inverse, **options)
    except np.linalg.LinAlgError:
        low = sla.eigsh(K, which="SA", **options)
    return np.concatenate([low, high]), False


def curvature(group: Group, theta: Mapping[str, Any], b: list[Vector]) -> NDArray[np.float64]:
    """Second derivatives of each element's energy in its branches, (count, branches, branches)."""
    parameters = {k: np.asarray(theta[group.key(k)]) for k in group.kind.parameters}
    return np.asarray(_curvature(group.kind)(np.stack(b, axis=1), parameters, dict(group.constants)))  # type: ignore[arg-type]


@cache
def _curvature(kind: type[Element]) -> Callable[..., Any]:
    """One compiled program per type of element, however many circuits it is in."""
    import jax

    def energy(x: Any, parameters: Mapping[str, Any], constants: Mapping[str, Any]) -> Any:
        return kind.potential(tuple(x), Values(**parameters, **constants))

    return jax.jit(jax.vmap(jax.hessian(energy), in_axes=(0, 0, None)))
