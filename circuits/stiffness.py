"""What linear elements pull with: a sparse symmetric matrix whose entries are computed once per pass.

A step then reads the neighbours of every coordinate once, instead of its branches, and the coordinates of those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from circuits.operators import DENSE_SPEED, WIDEST, Reader, lanes, times

Array = Any

FEW = 16
"""Coordinates whose full matrix is applied column by column, within the loop over steps."""
MANY = 1024
"""Most coordinates of a full matrix."""


@dataclass(frozen=True, eq=False)
class Stiffness:
    """K = Aᵀ·diag(k)·A for rows A (branches, n): by its diagonals, by neighbours, or as a full matrix."""

    size: int
    entries: Reader
    """From the curvatures k to the entries of K, one row of the matrix after another in every slot."""
    diagonals: tuple[int, ...] | None
    """Distances of columns from rows, one for every slot."""
    neighbours: tuple[Reader, ...] | None
    """What picks a neighbour of every coordinate, one for every slot."""

    @classmethod
    def of(cls, rows: sp.csr_array) -> Stiffness | None:
        """Of such rows, or None if a coordinate has too many neighbours."""
        rows.sum_duplicates()
        rows.eliminate_zeros()
        n = rows.shape[1]
        pattern = (abs(rows).T @ abs(rows)).tocsr()
        pattern.sort_indices()
        row, column = np.repeat(np.arange(n), np.diff(pattern.indptr)), pattern.indices
        shifts, width = np.unique(column - row), int(np.diff(pattern.indptr).max(initial=0))
        if len(shifts) <= 2 * width and len(shifts) < n and width <= WIDEST:
            places = np.searchsorted(shifts, column - row) * n + row
            return cls(n, _entries(rows, pattern, places, len(shifts) * n), tuple(map(int, shifts)), None)
        if n <= FEW or (n <= MANY and pattern.nnz > n * n / DENSE_SPEED):
            return cls(n, _entries(rows, pattern, column * n + row, n * n), None, None)
        if width > WIDEST:
            return None
        slot = np.arange(pattern.nnz) - np.repeat(pattern.indptr[:-1], np.diff(pattern.indptr))
        chosen = [(np.ones(np.sum(slot == k)), (row[slot == k], column[slot == k])) for k in range(width)]
        pickers = tuple(Reader.of(sp.csr_array(entries, shape=(n, n))) for entries in chosen)
        return cls(n, _entries(rows, pattern, slot * n + row, width * n), None, pickers)

    def prepare(self, curvatures: Array) -> Array:
        """Entries (slots, n, batch…) for curvatures (branches, batch…); of a full matrix (batch…, n, n)."""
        found = self.entries(curvatures).reshape(-1, self.size, *curvatures.shape[1:])
        full = self.diagonals is None and self.neighbours is None and self.size > FEW
        return jnp.moveaxis(found, -1, 0) if full and found.ndim == 3 else found

    def apply(self, entries: Array, x: Array) -> Array:
        """K·x for x (n, batch…)."""
        if self.diagonals is not None:
            parts = [self._shifted(own, shift, x) for own, shift in zip(entries, self.diagonals, strict=True)]
        elif self.neighbours is not None:
            parts = [lanes(own, x) * pick(x) for own, pick in zip(entries, self.neighbours, strict=True)]
        elif self.size <= FEW:
            parts = [lanes(own, x) * one for own, one in zip(entries, x, strict=True)]
        else:
            return times(entries, x)
        return sum(parts[1:], start=parts[0])

    def _shifted(self, own: Array, shift: int, x: Array) -> Array:
        """What one diagonal does."""
        first, last = max(0, -shift), self.size - max(0, shift)
        part = lanes(own[first:last], x) * x[first + shift : last + shift]
        return jnp.pad(part, ((first, self.size - last), *[(0, 0)] * (x.ndim - 1)))


def _entries(rows: sp.csr_array, pattern: sp.csr_array, places: NDArray[np.int_], count: int) -> Reader:
    """Reader from curvatures to the entries of the pattern, which have these places among so many."""
    where = sp.csr_array((places + 1, pattern.indices, pattern.indptr), shape=pattern.shape)
    lengths = np.diff(rows.indptr)
    branch = np.repeat(np.arange(rows.shape[0]), lengths)
    # All pairs of entries in the same branch.
    counts = lengths[branch]
    left = np.repeat(np.arange(rows.nnz), counts)
    right = rows.indptr[branch[left]] + np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    to = np.asarray(where[rows.indices[left], rows.indices[right]]).ravel() - 1
    weights = (rows.data[left] * rows.data[right], (to, branch[left]))
    return Reader.of(sp.csr_array(sp.coo_array(weights, shape=(count, rows.shape[0]))))
