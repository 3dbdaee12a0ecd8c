"""Magnetisation on a rectangular mesh as text in OOMMF's vector field format, version 2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray


def write(m: NDArray[np.float64], cell: tuple[float, float, float], title: str) -> str:
    """Text of one segment: `m` (nz, ny, nx, 3) in cells of that size (m), x fastest; empty cells are zero."""
    return "\n".join(_lines(m, cell, title)) + "\n"


def _lines(m: NDArray[np.float64], cell: tuple[float, float, float], title: str) -> Iterator[str]:
    counts = m.shape[2::-1]
    yield from ("# OOMMF OVF 2.0", "# Segment count: 1", "# Begin: Segment", "# Begin: Header")
    yield f"# Title: {title}"
    yield from ("# meshtype: rectangular", "# meshunit: m", "# valuedim: 3", "# valuelabels: m_x m_y m_z")
    yield "# valueunits: 1 1 1"
    for axis, count, size in zip("xyz", counts, cell, strict=True):
        yield f"# {axis}min: 0"
        yield f"# {axis}max: {count * size!r}"
        yield f"# {axis}base: {size / 2!r}"
        yield f"# {axis}nodes: {count}"
        yield f"# {axis}stepsize: {size!r}"
    yield from ("# End: Header", "# Begin: Data Text")
    yield from (f"{x:.9g} {y:.9g} {z:.9g}" for x, y, z in (m.reshape(-1, 3) + 0.0).tolist())
    yield from ("# End: Data Text", "# End: Segment")
