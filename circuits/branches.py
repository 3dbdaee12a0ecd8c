"""Branch coordinates of elements, as their potentials take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import scipy.sparse as sp

from circuits.assemble import Assembly
from circuits.operators import Reader, lanes

Array = Any
Slices = Mapping[str, tuple[slice, ...]]
"""Rows of stacked branches per type, one slice per branch of the element."""


class Branches(NamedTuple):
    """Branches of some types of elements."""

    reader: Reader
    """From the moving coordinates."""
    inputs: Reader | None
    """What the inputs add."""
    slices: Slices

    @classmethod
    def of(cls, assembly: Assembly, names: Sequence[str]) -> Branches:
        """Of these types."""
        moving = sum(assembly.coordinates.counts[:2])
        rows = {name: assembly.branch[name][:, :moving] for name in names}
        inputs = [assembly.branch_inputs[name] for name in names]
        stacked = sp.vstack([sp.csr_array((0, moving)), *rows.values()]).tocsr()
        added = Reader.of(sp.vstack(inputs).tocsr()) if any(x.nnz for x in inputs) else None
        return cls(Reader.of(stacked), added, slices_of(assembly, rows))

    def __call__(self, c: Array, u: Array) -> Array:
        """(branches, batch…) of moving coordinates and inputs."""
        b = self.reader(c)
        return b if self.inputs is None else b + lanes(self.inputs(u), b)


def slices_of(assembly: Assembly, rows: Mapping[str, sp.csr_array]) -> dict[str, tuple[slice, ...]]:
    """Slices of stacked matrices that have the branches of every type."""
    slices, start = {}, 0
    for name, matrix in rows.items():
        count, end = len(assembly.groups[name].names), start + matrix.shape[0]
        slices[name] = tuple(slice(s, s + count) for s in range(start, end, count))
        start = end
    return slices
