"""Columns in text files, as oscilloscopes write them: a heading such as ``time [us], v(n1) [mV]``, then numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from csv import reader
from io import StringIO
from pathlib import Path

import numpy as np

from devices import ArgumentError
from rhel_hw.files import write_text
from rhel_hw.records.columns import Column, Floats, Table, heading, titled

SEPARATORS = (",", ";", "\t")
COMMENTS = ("#", "!", "%")
"""How lines before the heading may begin that say nothing of columns."""


def read(path: Path, skip: int = 0) -> Table:
    """Columns of a file, without its first `skip` lines, comments and empty lines before the heading."""
    try:
        lines = path.read_bytes().decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise ArgumentError(f"Argument `{path}` must be a text file, but {_reason(problem)}") from None
    first = next(
        (i for i, line in enumerate(lines) if i >= skip and line.strip() and not line.lstrip().startswith(COMMENTS)),
        None,
    )
    if first is None:
        raise ArgumentError(f"Argument `{path}` must have a heading and numbers, but has nothing after line {skip}")
    separator = max(SEPARATORS, key=lines[first].count)
    (cells,) = reader([lines[first].rstrip(separator + " ")], delimiter=separator, skipinitialspace=True)
    found = [heading(cell) for cell in cells]
    names = [name for name, _ in found]
    if any(_is_number(cell) for cell in cells):
        raise ArgumentError(
            f"Argument `{path}` must have a heading in line {first + 1}, such as `time [us], v(n1) [mV]`, but "
            f"{next(c for c in cells if _is_number(c))!r} is a number"
        )
    if "" in names or len(set(names)) < len(names):
        twice = next((name for name in names if names.count(name) > 1), "")
        raise ArgumentError(
            f"Argument `{path}` must have a heading of different names, but {twice!r} is there twice"
            if twice
            else f"Argument `{path}` must name all columns, but one has no name"
        )
    body = _numbers(path, lines[first + 1 :], first + 2, separator, len(names))
    return Table(str(path), {name: Column(column, unit) for (name, unit), column in zip(found, body.T, strict=True)})


def write(path: Path, columns: Mapping[str, Column]) -> Path:
    """Write columns so that they are read back exactly."""
    names = [titled(name, column.unit or "") for name, column in columns.items()]
    rows = np.stack([column.values for column in columns.values()], axis=1)
    lines = [", ".join(names), *(", ".join(map(repr, row)) for row in rows.tolist())]
    return write_text(path, "\n".join(lines) + "\n")


def _numbers(path: Path, lines: Sequence[str], first: int, separator: str, width: int) -> Floats:
    """(rows, columns)."""
    if not any(line.strip() for line in lines):
        raise ArgumentError(f"Argument `{path}` must have numbers below its heading, but has none")
    try:
        return np.loadtxt(StringIO("\n".join(lines)), delimiter=separator, comments=None, ndmin=2, usecols=range(width))
    except ValueError:
        for number, line in enumerate(lines, first):
            cells = line.split(separator)
            bad = next((c for c in cells[:width] if not _is_number(c)), None)
            if line.strip() and (bad is not None or len(cells) < width):
                why = f"{bad.strip()!r} is none" if bad is not None else f"there are {len(cells)}"
                raise ArgumentError(
                    f"Argument `{path}` must have {width} numbers in line {number}, but {why}"
                ) from None
        raise


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _reason(problem: Exception) -> str:
    return problem.strerror or "cannot be read" if isinstance(problem, OSError) else "its letters are not UTF-8"
