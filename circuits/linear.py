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

from circuits.assemble import Assembly, Group, inertia_matrix, spread
from devices import ELEMENTS, Values

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
    detunings: Vector
    """Angular frequencies in rotating frames, with their signs, likewise."""
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
            for block, k in zip(blocks, spread(group.kind.stiffness, group, assembly.theta), strict=True):
                total = total + block.T @ sp.diags_array(k) @ block
            continue
        point = np.zeros(n) if at is None else at
        hessian = curvature("potential", group, assembly.theta, [block @ point for block in blocks])
        total = total + _quadratic_form(blocks, hessian)
    return total.tocsr()


def mobility_matrix(assembly: Assembly, *, largest: bool = False) -> sp.csr_array:
    """Second derivatives of the kinetic energy of momenta over the dynamic coordinates, at rest or a bound of them.

    Rows and columns of coordinates with an inertia of their own are zero.
    """
    n = len(assembly.coordinates.dynamic)
    total = sp.csr_array((n, n))
    for name, rows in assembly.momentum.items():
        group = assembly.groups[name]
        count = len(group.names)
        blocks = [rows[s : s + count] for s in range(0, rows.shape[0], count)]
        if group.kind.linear or largest:
            for block, k in zip(blocks, spread(group.kind.mobility, group, assembly.theta), strict=True):
                total = total + block.T @ sp.diags_array(k) @ block
        else:
            hessian = curvature("kinetic", group, assembly.theta, [np.zeros(count)] * len(blocks))
            total = total + _quadratic_form(blocks, hessian)
    return total.tocsr()


def _quadratic_form(blocks: list[sp.csr_array], hessian: NDArray[np.float64]) -> sp.csr_array:
    """Matrix of a form in the branches that the blocks read."""
    pairs = ((i, j) for i in range(len(blocks)) for j in range(len(blocks)))
    return sum(blocks[i].T @ sp.diags_array(hessian[:, i, j]) @ blocks[j] for i, j in pairs)


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
    stiffness = stiffness_matrix(assembly, largest=True)
    squares, detunings, complete = _spectrum(assembly, stiffness, mobility_matrix(assembly, largest=True), lowest=False)
    margin = 1.0 if complete else 1 + EDGE_TOLERANCE  # Lanczos approaches from below
    highest = max((squares[-1] if len(squares) else 0.0), 0.0) ** 0.5
    return float(np.sqrt(margin) * max(highest, *np.abs(detunings))) if len(detunings) else float(highest * margin**0.5)


def modes(assembly: Assembly, force: Callable[[Vector], Vector] | None) -> Modes:
    """Modes about the rest point; `force` maps moving coordinates to forces, None where zero is known to be at rest."""
    dynamic, massless, _ = assembly.coordinates.counts
    rest, converged = np.zeros(dynamic + massless), True
    if force is not None:
        rest, converged = _rest(assembly, force)
    squares, detunings, complete = _spectrum(assembly, stiffness_matrix(assembly, rest), mobility_matrix(assembly))
    return Modes(squares, detunings, complete, rest, converged)


def _rest(assembly: Assembly, force: Callable[[Vector], Vector]) -> tuple[Vector, bool]:
    """Newton's method for zero force, with steps limited so that it stays in the well it starts in."""
    point = _start(assembly)
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


def _start(assembly: Assembly) -> Vector:
    """Where the elements would have their nodes rest."""
    point = np.zeros(sum(assembly.coordinates.counts[:2]))
    column = {n: i for i, n in enumerate(assembly.coordinates.dynamic)}
    for name in assembly.momentum:
        group = assembly.groups[name]
        if group.kind.rest_guess is not None:
            values = group.values(assembly.theta)
            angles = np.broadcast_to(group.kind.rest_guess(values), (len(group.names),))
            for part, angle in zip(group.names, angles, strict=True):
                i = column[assembly.netlist.terminals_of(assembly.netlist.by_name[part])[0]]
                point[i] = angle / assembly.factors[i]
    return point


def _spectrum(
    assembly: Assembly, stiffness: sp.csr_array, mobility: sp.csr_array, *, lowest: bool = True
) -> tuple[Vector, Vector, bool]:
    """Squared frequencies of what is at rest, signed frequencies of what is in rotating frames, and whether all."""
    turning = np.flatnonzero(assembly.rotating)
    if not len(turning):
        squares, complete = _squares(assembly, stiffness, mobility, lowest=lowest)
        return squares, np.zeros(0), complete
    # No coupler joins a rotating frame to anything else, and both quadratures have one matrix: ȧ = −iKa.
    K = stiffness[turning][:, turning]
    whole = len(turning) <= DENSE_MODES
    detunings = la.eigvalsh(K.toarray()) if whole else _edges(K.tocsc())
    squares, complete = np.zeros(0), True
    if len(turning) < len(assembly.rotating):
        squares, complete = _squares(assembly, stiffness, mobility, lowest=lowest)
    return squares, detunings, whole and complete


def _edges(K: sp.csc_array) -> Vector:
    start = np.random.default_rng(0).normal(size=K.shape[0])
    options = {"k": 1, "return_eigenvectors": False, "v0": start, "tol": EDGE_TOLERANCE}
    return np.concatenate([sla.eigsh(K, which=end, **options) for end in ("SA", "LA")])


def _squares(
    assembly: Assembly, stiffness: sp.csr_array, mobility: sp.csr_array, *, lowest: bool = True
) -> tuple[Vector, bool]:
    """Squared frequencies of the dynamic coordinates at rest: massless and cyclic ones eliminated."""
    dynamic, massless, cyclic = assembly.coordinates.counts
    moving, soft = np.flatnonzero(~assembly.rotating), slice(dynamic, dynamic + massless)
    K = stiffness[moving][:, moving]
    if massless:
        side = stiffness[moving][:, soft].toarray()
        K = sp.csr_array(K - side @ la.solve(stiffness[soft][:, soft].toarray(), side.T, assume_a="sym"))
    inertia = inertia_matrix(assembly)
    if cyclic:
        loose = slice(dynamic + massless, dynamic + massless + cyclic)
        side = inertia[moving][:, loose].toarray()
        own = la.solve(inertia[loose][:, loose].toarray(), side.T, assume_a="pos")
        inertia = sp.csr_array(inertia[moving][:, moving] - side @ own)
    else:
        inertia = inertia[moving][:, moving]
    if assembly.direct[moving].any():
        direct = np.flatnonzero(assembly.direct[moving])
        own = mobility[moving[direct]][:, moving[direct]]
        if not _is_positive(own):
            return _general(K.toarray(), inertia.toarray(), direct, own.toarray()), True
        # K·x = ω²·B⁻¹·x becomes B·K·B·y = ω²·B·y with x = B·y: no inverse, and sparse stays sparse.
        place = sp.csr_array((np.ones(len(direct)), (direct, range(len(direct)))), shape=(len(moving), len(direct)))
        kept = sp.diags_array((~assembly.direct[moving]).astype(float))
        spread_out = (place @ own @ place.T).tocsr()
        K = ((kept + spread_out) @ K @ (kept + spread_out)).tocsr()
        inertia = (inertia + spread_out).tocsr()
    if len(moving) <= DENSE_MODES:
        return la.eigh(K.toarray(), inertia.toarray(), eigvals_only=True), True
    K, inertia = K.tocsc(), inertia.tocsc()
    start = np.random.default_rng(0).normal(size=len(moving))
    options = {"k": 1, "M": inertia, "return_eigenvectors": False, "v0": start, "tol": EDGE_TOLERANCE}
    high = sla.eigsh(K, which="LA", **options)
    if not lowest:
        return high, False
    # Inverse iteration by conjugate gradients: factors would fill up on graphs without small separators. The shift
    # keeps the matrix regular where the circuit has a free mode.
    shifted = K + 1e-6 * high[0] * inertia
    scale = sp.diags_array(1 / shifted.diagonal())

    def solve(x: Vector) -> Vector:
        solution, failed = sla.cg(shifted, x, rtol=1e-8, M=scale, maxiter=4 * len(moving))
        if failed:
            raise np.linalg.LinAlgError("the stiffness matrix is not positive definite")
        return np.asarray(solution)

    inverse = sla.LinearOperator(K.shape, matvec=solve)
    try:
        low = sla.eigsh(K, sigma=-1e-6 * high[0], which="LM", OPinv=inverse, **options)
    except np.linalg.LinAlgError:
        low = sla.eigsh(K, which="SA", **options)
    return np.concatenate([low, high]), False


def _is_positive(matrix: sp.csr_array) -> bool:
    """Whether a symmetric matrix is positive definite."""
    if (matrix - sp.diags_array(matrix.diagonal())).count_nonzero() == 0:
        return bool(np.all(matrix.diagonal() > 0))
    if matrix.shape[0] <= DENSE_MODES:
        return bool(la.eigvalsh(matrix.toarray())[0] > 0)
    return bool(_edges(matrix.tocsc())[0] > 0)


def _general(K: Any, inertia: Any, direct: NDArray[np.intp], mobility: Any) -> Vector:
    """Squared frequencies where the kinetic energy is not positive: growing modes count as negative squares."""
    whole = np.zeros_like(K)
    rest = np.setdiff1d(np.arange(len(K)), direct)
    if len(rest):
        whole[np.ix_(rest, rest)] = la.inv(inertia[np.ix_(rest, rest)])
    whole[np.ix_(direct, direct)] = mobility
    squares = la.eigvals(whole @ K)
    growing = np.abs(squares.imag) > 1e-9 * np.abs(squares).max()
    return np.sort(np.where(growing, -np.abs(squares), squares.real))


def curvature(law: str, group: Group, theta: Mapping[str, Any], b: list[Vector]) -> NDArray[np.float64]:
    """Second derivatives of an energy of each element in its branches, (count, branches, branches)."""
    values = {k: np.broadcast_to(v, (len(group.names),)) for k, v in vars(group.values(theta)).items()}
    return np.asarray(_curvature(law, group.kind.type)(np.stack(b, axis=1), values))


@cache
def _curvature(law: str, kind: str) -> Callable[..., Any]:
    """One compiled program per type of element, however many circuits it is in."""
    import jax

    def energy(x: Any, values: Mapping[str, Any]) -> Any:
        return getattr(ELEMENTS[kind], law)(tuple(x), Values(**values))

    return jax.jit(jax.vmap(jax.hessian(energy)))
