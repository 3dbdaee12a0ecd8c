"""Columns in HDF5 files: every one-dimensional dataset is one, its attribute `units` says in what."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from devices import ArgumentError
from rhel_hw.files import write_atomically
from rhel_hw.records.columns import Column, Table, heading

ATTRIBUTES = ("units", "unit")


def read(path: Path) -> Table:
    """Columns of a file, by the paths of its datasets."""
    h5py = _h5py(path)
    found: dict[str, Column] = {}

    def visit(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and item.ndim == 1 and item.dtype.kind in "fiu":
            told = next((item.attrs[a] for a in ATTRIBUTES if a in item.attrs), None)
            text = told.decode() if isinstance(told, bytes) else told
            own, unit = heading(name if text is None else f"{name} [{text}]")
            found[own] = Column(np.asarray(item[()], float), unit)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, ValueError, UnicodeDecodeError) as problem:
        raise ArgumentError(f"Argument `{path}` must be an HDF5 file, but {str(problem)[:120]}") from None
    if not found:
        raise ArgumentError(f"Argument `{path}` must have one-dimensional datasets of numbers, but has none")
    return Table(str(path), found)


def write(path: Path, columns: Mapping[str, Column]) -> Path:
    """Write columns so that they are read back exactly."""
    h5py = _h5py(path)
    stream = BytesIO()
    with h5py.File(stream, "w") as file:
        for name, column in columns.items():
            file[name] = column.values
            if column.unit is not None:
                file[name].attrs["units"] = column.unit
    return write_atomically(path, lambda target: target.write(stream.getvalue()))


def _h5py(path: Path) -> Any:
    try:
        import h5py
    except ImportError:
        raise ArgumentError(
            f"Argument `{path}` must be opened by h5py, but that cannot be imported: pip install 'rhel-hw[netcdf]'"
        ) from None
    return h5py
