"""Linear maps of the hot loop, batch last: reading branches, and inverting the inertia and inductance matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = Any

DENSE_LIMIT = 1 << 16
"""Largest number of entries for which a dense matrix is used: below it a product beats gathering."""


def lanes(value: Array, like: Array) -> Array:
    """Append axes to `value` (n, …) until it broadcasts against `like` (n, batch…)."""
    return jnp.reshape(value, (*jnp.shape(value), *(1,) * (jnp.ndim(like) - jnp.ndim(value))))


def times(matrix: Array, x: Array) -> Array:
    """Product of a matrix (batch…, rows, n) with vectors (n, batch…)."""
    return matrix @ x if matrix.ndim == 2 else jnp.einsum("bij,jb->ib", matrix, x)


def matrix_of(linear: Callable[[Array], Array], size: int, batch: tuple[int, ...], dtype: Any) -> Array:
    """Matrix (batch…, rows, size) of a linear map on vectors (size, batch…)."""
    still = jnp.zeros((size, *batch), dtype)
    columns = jax.vmap(lambda e: linear(lanes(e, still) + still), out_axes=-1)(jnp.eye(size, dtype=dtype))
    return jnp.moveaxis(columns, 0, -2)


@dataclass(frozen=True, eq=False)
class Reader:
    """Constant sparse map from (columns, batch…) to (rows, batch…), dense if small."""

    rows: int
    columns: int
    dense: NDArray[np.float64] | None
    index: NDArray[np.int32]
    weight: NDArray[np.float64]

    @classmethod
    def of(cls, matrix: sp.csr_array) -> Reader:
        """Reader of a SciPy matrix. Sparse ones are stored as equally long rows, padded with zero weight."""
        rows, columns = matrix.shape
        if rows * columns <= DENSE_LIMIT:
            return cls(rows, columns, matrix.toarray(), np.zeros((0, 0), np.int32), np.zeros((0, 0)))
        counts = np.diff(matrix.indptr)
        width = int(counts.max(initial=0))
        index, weight = np.zeros((width, rows), np.int32), np.zeros((width, rows))
        slot = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
        row = np.repeat(np.arange(rows), counts)
        index[slot, row], weight[slot, row] = matrix.indices, matrix.data
        return cls(rows, columns, None, index, weight)

    def __call__(self, x: Array) -> Array:
        """Branches (rows, batch…) of coordinates (columns, batch…)."""
        if self.dense is not None:
            return jnp.asarray(self.dense, x.dtype) @ x
        total = jnp.zeros((self.rows, *x.shape[1:]), x.dtype)
        for index, weight in zip(self.index, self.weight, strict=True):
            total = total + lanes(jnp.asarray(weight, x.dtype), x) * x[index]
        return total

    def transpose(self, y: Array) -> Array:
        """The adjoint map, from (rows, batch…) to (columns, batch…)."""
        if self.dense is not None:
            return jnp.asarray(self.dense.T, y.dtype) @ y
        total = jnp.zeros((self.columns, *y.shape[1:]), y.dtype)
        for index, weight in zip(self.index, self.weight, strict=True):
            total = total.at[index].add(lanes(jnp.asarray(weight, y.dtype), y) * y)
        return total


@dataclass(frozen=True, eq=False)
class Inverse:
    """Inverse of the matrix M = Aᵀ·diag(w)·A, positive definite, for weights w that may be trained.

    Diagonal and small matrices are inverted outright. A large sparse one is never built: M⁻¹ is then a fixed
    polynomial in M (Chebyshev iteration after Jacobi scaling), linear and symmetric, so that a step that uses it
    stays symplectic and reversible whatever its accuracy.
    """

    reader: Reader
    diagonal: NDArray[np.float64] | None
    """Squares of the single entry of each row, where every row has one: M is then diagonal."""
    column: NDArray[np.int32]
    interval: tuple[float, float]
    sweeps: int

    @classmethod
    def of(cls, matrix: sp.csr_array, weights: NDArray[np.float64]) -> Inverse:
        """Inverse for rows `matrix` (entries, n) and nominal weights (entries,)."""
        reader = Reader.of(matrix)
        single = np.all(np.diff(matrix.indptr) == 1)
        column = matrix.indices.astype(np.int32)
        if single:
            return cls(reader, matrix.data**2, column, (1.0, 1.0), 0)
        n = matrix.shape[1]
        if n * n <= DENSE_LIMIT:
            return cls(replace(reader, dense=matrix.toarray()), None, column, (1.0, 1.0), 0)
        low, high = _spectrum(matrix, weights)
        # Training may move the spectrum: leave room at both ends. Error falls by (√κ−1)/(√κ+1) a sweep.
        low, high = low / 1.5, high * 1.1
        ratio = sqrt(high / low)
        sweeps = ceil(log(2e16) / -log((ratio - 1) / (ratio + 1))) if ratio > 1 else 1
        return cls(reader, None, column, (low, high), sweeps)

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return self.reader.columns

    def prepare(self, weights: Array) -> Array:
        """What `solve` needs of the weights (entries,) or (entries, batch): computed once, used every step."""
        if self.diagonal is not None:
            entries = lanes(jnp.asarray(self.diagonal, weights.dtype), weights) * weights
            return 1 / jnp.zeros((self.size, *weights.shape[1:]), weights.dtype).at[self.column].add(entries)
        if self.sweeps == 0:
            A = jnp.asarray(self.reader.dense, weights.dtype)
            return jnp.linalg.inv(jnp.einsum("ei,e...,ej->...ij", A, weights, A))
        return weights

    def solve(self, prepared: Array, x: Array) -> Array:
        """M⁻¹x for x (n, batch…)."""
        if self.diagonal is not None:
            return lanes(prepared, x) * x
        if self.sweeps == 0:
            return times(prepared, x)
        return self._chebyshev(prepared, x)

    def apply(self, weights: Array, x: Array) -> Array:
        """M·x for x (n, batch…)."""
        return self.reader.transpose(lanes(weights, x) * self.reader(x))

    def _chebyshev(self, weights: Array, x: Array) -> Array:
        squares = self.reader.weight**2
        diagonal = jnp.zeros((self.size, *weights.shape[1:]), weights.dtype)
        for index, square in zip(self.reader.index, squares, strict=True):
            diagonal = diagonal.at[index].add(lanes(jnp.asarray(square, weights.dtype), weights) * weights)
        root = lanes(jax.lax.rsqrt(diagonal), x)
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


def _spectrum(matrix: sp.csr_array, weights: NDArray[np.float64]) -> tuple[float, float]:
    """Smallest and largest eigenvalue of the Jacobi-scaled matrix."""
    M = (matrix.T @ sp.diags_array(weights) @ matrix).tocsc()
    root = sp.diags_array(1 / np.sqrt(M.diagonal()))
    scaled = (root @ M @ root).tocsc()
    start = np.random.default_rng(0).normal(size=M.shape[0])
    (high,) = sp.linalg.eigsh(scaled, k=1, which="LA", return_eigenvectors=False, v0=start, tol=1e-3)
    (low,) = sp.linalg.eigsh(scaled, k=1, sigma=0, which="LM", return_eigenvectors=False, v0=start, tol=1e-3)
    return float(low), float(high)
