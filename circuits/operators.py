"""Linear maps of the hot loop, batch last: reading branches, and inverting the inertia and inductance matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from math import ceil, log, sqrt
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from numpy.typing import NDArray

Array = Any

DENSE_LIMIT = 1 << 16
"""Largest number of entries of a dense matrix."""
DENSE_SPEED = 3
"""How many entries of a dense product cost as much as one that is gathered."""
WIDEST = 64
"""Longest rows that are gathered: each place in a row is a piece of the compiled program."""


def lanes(value: Array, like: Array) -> Array:
    """Insert axes after the first of `value` (n, …) until it broadcasts against `like` (n, batch…)."""
    shape = jnp.shape(value)
    return jnp.reshape(value, (*shape[:1], *(1,) * (jnp.ndim(like) - len(shape)), *shape[1:]))


def times(matrix: Array, x: Array) -> Array:
    """Product of a matrix (rows, n) or (batch, rows, n) with vectors (n, …, batch)."""
    if matrix.ndim == 2:
        return jnp.tensordot(matrix, x, axes=1)
    return jnp.einsum("bij,j...b->i...b", matrix, x)


def matrix_of(linear: Callable[[Array], Array], size: int, batch: tuple[int, ...], dtype: Any) -> Array:
    """Matrix (batch…, rows, size) of a linear map on vectors (size, batch…)."""
    still = jnp.zeros((size, *batch), dtype)
    columns = jax.vmap(lambda e: linear(lanes(e, still) + still), out_axes=-1)(jnp.eye(size, dtype=dtype))
    return jnp.moveaxis(columns, 0, -2)


class Table(NamedTuple):
    """Rows of a sparse matrix, equally long, padded with zero weight: (width, rows) each."""

    places: NDArray[np.int32]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Table:
        """Table of a SciPy matrix."""
        counts = np.diff(matrix.indptr)
        shape = (int(counts.max(initial=0)), matrix.shape[0])
        places, weight = np.zeros(shape, np.int32), np.zeros(shape)
        row = np.repeat(np.arange(matrix.shape[0]), counts)
        slot = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
        places[slot, row], weight[slot, row] = matrix.indices, matrix.data
        return cls(places, weight)

    def gather(self, x: Array) -> Array:
        """The matrix times x (columns, batch…)."""
        rows = self.places.shape[1]
        straight = np.arange(rows) if rows == x.shape[0] else None
        total = jnp.zeros((rows, *x.shape[1:]), x.dtype)
        for place, weight in zip(self.places, self.weight, strict=True):
            picked = x if straight is not None and np.array_equal(place, straight) else x[place]
            total = total + lanes(jnp.asarray(weight, x.dtype), x) * picked
        return total

    def scatter(self, y: Array, columns: int) -> Array:
        """The transposed matrix times y (rows, batch…)."""
        total = jnp.zeros((columns, *y.shape[1:]), y.dtype)
        for place, weight in zip(self.places, self.weight, strict=True):
            total = total.at[place].add(lanes(jnp.asarray(weight, y.dtype), y) * y)
        return total


@dataclass(frozen=True, eq=False, repr=False)
class Reader:
    """Constant map from (columns, batch…) to (rows, batch…), by gathering where it is sparse.

    Its adjoint gathers too. Left to differentiation it would scatter, which is many times slower, so the map is a
    primitive of its own whose transpose is known.
    """

    rows: int
    columns: int
    dense: NDArray[np.float64] | None
    """The matrix, if it is small."""
    forward: Table | None
    """The matrix, if its rows are short."""
    backward: Table | None
    """The transpose, if its rows are short."""
    digest: bytes
    """Of the matrix: readers of equal matrices are equal, and compiled programs are found again."""

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Reader:
        """Reader of a SciPy matrix."""
        matrix.sum_duplicates()
        rows, columns = matrix.shape
        small = rows * columns <= DENSE_LIMIT
        forward, backward = Table.of(matrix), Table.of(matrix.T.tocsr())
        limits = [min(WIDEST, length / DENSE_SPEED) if small else WIDEST for length in (columns, rows)]
        # What is neither small nor short in either direction is gathered all the same.
        gathers = [len(t.places) <= limit for t, limit in zip((forward, backward), limits, strict=True)]
        gathers[0] |= not small and not gathers[1]
        return cls(
            rows,
            columns,
            matrix.toarray() if small else None,
            forward if gathers[0] else None,
            backward if gathers[1] else None,
            sha256(b"".join(x.tobytes() for x in (matrix.indptr, matrix.indices, matrix.data))).digest(),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reader) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, int, bytes, bool]:
        return self.rows, self.columns, self.digest, self.dense is None

    def __repr__(self) -> str:
        return f"Reader({self.rows}x{self.columns})"

    def __call__(self, x: Array) -> Array:
        """Branches (rows, batch…) of coordinates (columns, batch…)."""
        return _read.bind(x, reader=self, adjoint=False)

    def transpose(self, y: Array) -> Array:
        """The adjoint map, from (rows, batch…) to (columns, batch…)."""
        return _read.bind(y, reader=self, adjoint=True)

    def _apply(self, x: Array, *, adjoint: bool) -> Array:
        own, other = (self.backward, self.forward) if adjoint else (self.forward, self.backward)
        if own is not None:
            return own.gather(x)
        if self.dense is not None:
            return times(jnp.asarray(self.dense.T if adjoint else self.dense, x.dtype), x)
        assert other is not None  # by construction
        return other.scatter(x, self.columns if adjoint else self.rows)


_read: Any = Primitive("read")
"""Linear in x: differentiates to itself, transposes to its adjoint."""


def plain_read(x: Array, *, reader: Reader, adjoint: bool) -> Array:
    """What the primitive does, by others."""
    return reader._apply(x, adjoint=adjoint)


def _read_shape(x: Any, *, reader: Reader, adjoint: bool) -> Any:
    return x.update(shape=(reader.columns if adjoint else reader.rows, *x.shape[1:]), weak_type=False)


def _read_adjoint(ct: Array, _x: Array, *, reader: Reader, adjoint: bool) -> list[Array]:
    return [_read.bind(ct, reader=reader, adjoint=not adjoint)]


def _read_batched(arguments: Any, axes: Any, *, reader: Reader, adjoint: bool) -> tuple[Array, int]:
    moved = jnp.moveaxis(arguments[0], axes[0], -1)
    return _read.bind(moved, reader=reader, adjoint=adjoint), moved.ndim - 1


_read.def_impl(plain_read)
_read.def_abstract_eval(_read_shape)
ad.deflinear2(_read, _read_adjoint)  # type: ignore[no-untyped-call]
batching.primitive_batchers[_read] = _read_batched
mlir.register_lowering(_read, mlir.lower_fun(plain_read, multiple_results=False))


class Inverted(NamedTuple):
    """A matrix inverted once per pass."""

    weights: Array
    """(entries, batch…): what the energy depends on."""
    solver: Any
    """What `Inverse.solve` uses: the inverse matrix, or what stands for it."""


@dataclass(frozen=True, eq=False)
class Inverse:
    """Inverse of the matrix M = Aᵀ·diag(w)·A, positive definite, for weights w that may be trained.

    Diagonal and small matrices are inverted outright. A large sparse one is never built: M⁻¹ is then a fixed
    polynomial in M (Chebyshev iteration after Jacobi scaling), linear and symmetric, so that a step that uses it
    stays symplectic and reversible whatever its accuracy.
    """

    reader: Reader
    squares: Reader
    """Of the squared entries: its transpose takes weights to the diagonal of M."""
    diagonal: bool
    interval: tuple[float, float]
    sweeps: int

    @classmethod
    def of(cls, matrix: sp.csr_array, weights: NDArray[np.float64]) -> Inverse:
        """Inverse for rows `matrix` (entries, n) and nominal weights (entries,)."""
        reader, squares = Reader.of(matrix), Reader.of(matrix.power(2).tocsr())
        if np.all(np.diff(matrix.indptr) == 1):
            return cls(reader, squares, True, (1.0, 1.0), 0)
        n = matrix.shape[1]
        if n * n <= DENSE_LIMIT:
            return cls(replace(reader, dense=matrix.toarray()), squares, False, (1.0, 1.0), 0)
        low, high = _spectrum(matrix, weights)
        # Training may move the spectrum: leave room at both ends. Error falls by (√κ−1)/(√κ+1) a sweep.
        low, high = low / 1.5, high * 1.1
        ratio = sqrt(high / low)
        sweeps = ceil(log(2e16) / -log((ratio - 1) / (ratio + 1))) if ratio > 1 else 1
        return cls(reader, squares, False, (low, high), sweeps)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.reader.columns

    def prepare(self, weights: Array) -> Inverted:
        """The inverse for weights (entries,) or (entries, batch): computed once, used every step."""
        if self.diagonal:
            return Inverted(weights, 1 / self.squares.transpose(weights))
        if self.sweeps == 0:
            A = jnp.asarray(self.reader.dense, weights.dtype)
            return Inverted(weights, jnp.linalg.inv(jnp.einsum("ei,e...,ej->...ij", A, weights, A)))
        return Inverted(weights, (weights, jax.lax.rsqrt(self.squares.transpose(weights))))

    def solve(self, inverted: Inverted, x: Array) -> Array:
        """M⁻¹x for x (n, batch…)."""
        if self.diagonal:
            return lanes(inverted.solver, x) * x
        if self.sweeps == 0:
            return times(inverted.solver, x)
        weights, root = inverted.solver
        return self._chebyshev(weights, root, x)

    def energy(self, inverted: Inverted, x: Array) -> Array:
        """½·xᵀM⁻¹x for x (n, batch…), shape (batch…).

        Its derivative by a weight is −½·(A·M⁻¹x)², so that learning needs no derivative of the inverse.
        """
        return _energy(self, inverted.weights, x, self.solve(inverted, x))

    def apply(self, weights: Array, x: Array) -> Array:
        """M·x for x (n, batch…)."""
        return self.reader.transpose(lanes(weights, x) * self.reader(x))

    def _chebyshev(self, weights: Array, root: Array, x: Array) -> Array:
        root = lanes(root, x)
        low, high = self.interval
        centre, half = (high + low) / 2, (high - low) / 2
        rhs = root * x

        def sweep(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            solution, change, rho = carry
            residual = rhs - root * self.apply(weights, root * solution)
            following = 1 / (2 * centre / half - rho)
            change = following * (rho * change + 2 / half * residual)
            return solution + change, change, following

        start = rhs / centre
        rho = jnp.asarray(half / centre, x.dtype)
        solution, _, _ = jax.lax.fori_loop(0, self.sweeps, sweep, (start, start, rho))
        return root * solution


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _energy(inverse: Inverse, weights: Array, x: Array, solution: Array) -> Array:
    """½·x·solution, differentiated as if solution = M⁻¹x were known to follow from the weights."""
    return jnp.sum(x * solution, axis=0) / 2


@_energy.defjvp
def _energy_change(inverse: Inverse, primals: Any, tangents: Any) -> tuple[Array, Array]:
    (weights, x, solution), (by_weights, by_x, _) = primals, tangents
    branches = inverse.reader(solution)
    change = jnp.sum(by_x * solution, axis=0) - jnp.sum(lanes(by_weights, branches) * branches**2, axis=0) / 2
    return _energy(inverse, weights, x, solution), change


def _spectrum(matrix: sp.csr_array, weights: NDArray[np.float64]) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the Jacobi-scaled matrix."""
    M = (matrix.T @ sp.diags_array(weights) @ matrix).tocsc()
    root = sp.diags_array(1 / np.sqrt(M.diagonal()))
    scaled = (root @ M @ root).tocsc()
    start = np.random.default_rng(0).normal(size=M.shape[0])
    (high,) = sp.linalg.eigsh(scaled, k=1, which="LA", return_eigenvectors=False, v0=start, tol=1e-3)
    (low,) = sp.linalg.eigsh(scaled, k=1, sigma=0, which="LM", return_eigenvectors=False, v0=start, tol=1e-3)
    return float(low), float(high)
