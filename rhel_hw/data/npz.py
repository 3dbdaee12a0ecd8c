"""Files of NumPy arrays: X_train, y_train and what else is known of the series.

| array | meaning |
|---|---|
| X_train, X_test | (count, steps, channels) |
| y_train, y_test | labels with `classes`, else values |
| classes, channels | names |
| len_train, len_test | true lengths |
| subj_train, subj_test | subjects |
| rec_train, rec_test | recordings |
| recordings | names of the recordings |

The test arrays may be absent. Of subjects and recordings, subjects are the groups if both are there.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from devices import ArgumentError, nearest
from rhel_hw.data.rows import Missing, interpolated
from rhel_hw.data.series import Series

PARTS = ("train", "test")
BY_SERIES = ("X", "y", "len", "subj", "rec")
"""Arrays with one entry a series, in either part."""
NAMES = ("classes", "channels", "recordings")
KNOWN = (*(f"{what}_{part}" for part in PARTS for what in BY_SERIES), *NAMES)


def arrays_of(path: Path) -> dict[str, Any]:
    """All arrays of a file."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except Exception as problem:  # NumPy raises many kinds for files that are none of its own
        raise ArgumentError(
            f"Argument `path` must be an .npz file of plain arrays, but {path.name} cannot be read "
            f"({type(problem).__name__})"
        ) from None


def read_npz(path: Path, missing: Missing = "refuse") -> Series:
    """The set in one .npz file; its test part is held out."""
    arrays = arrays_of(path)
    if any(name.startswith("sig_") for name in arrays):
        raise ArgumentError(
            f"Argument `path` must hold series, but {path.name} holds long recordings: read it with "
            "recordings(path, window=…, stride=…, every=…)"
        )
    for name in arrays:
        if name not in KNOWN:
            raise ArgumentError(
                f"Argument `path` must hold known arrays, but {path.name} holds {name!r}{nearest(name, KNOWN)}"
            )
    parts = [part for part in PARTS if f"X_{part}" in arrays]
    if "train" not in parts:
        raise ArgumentError(f"Argument `path` must hold X_train and y_train, but {path.name} has no X_train")
    _check(path, arrays, parts)

    def both(what: str) -> Any:
        return np.concatenate([arrays[f"{what}_{part}"] for part in parts]) if f"{what}_train" in arrays else None

    x, kind = both("X"), "subject" if "subj_train" in arrays else "recording" if "rec_train" in arrays else "group"
    if missing == "interpolate" and np.isnan(x).any():
        x = _interpolated(path, x, both("len"))
    return Series(
        path.stem,
        x,
        both("y"),
        tuple(str(c) for c in arrays.get("classes", ())),
        tuple(str(c) for c in arrays.get("channels", ())),
        both("len"),
        both("subj" if kind == "subject" else "rec"),
        kind,
        np.repeat([False, True], [len(arrays["X_train"]), len(arrays["X_test"])]) if "test" in parts else None,
    )


def _interpolated(path: Path, x: Any, lengths: Any) -> Any:
    """Series without missing values."""
    filled = np.array(x, np.float64)
    for i, series in enumerate(filled):
        there = series[: None if lengths is None else lengths[i]]
        try:
            there[:] = interpolated(there)
        except ArgumentError:
            raise ArgumentError(
                f"Argument `path` must have values in every channel, but series {i} of {path.name} has none in one"
            ) from None
    return filled


def _check(path: Path, arrays: Mapping[str, Any], parts: list[str]) -> None:
    """Refuse arrays that do not fit together."""
    for what in BY_SERIES:
        here = [f"{what}_{part}" in arrays for part in PARTS]
        wanted = [part in parts for part in PARTS]
        if here != wanted and (any(here) or what in ("X", "y")):
            raise ArgumentError(
                f"Argument `path` must hold {what}_… for the parts {' and '.join(parts)}, but {path.name} does not"
            )
        for part in parts:
            if f"{what}_{part}" in arrays and arrays[f"{what}_{part}"].shape[:1] != arrays[f"X_{part}"].shape[:1]:
                raise ArgumentError(
                    f"Argument `path` must hold as many {what}_{part} as X_{part}, but {path.name} holds shapes "
                    f"{arrays[f'{what}_{part}'].shape} and {arrays[f'X_{part}'].shape}"
                )
    shapes = {arrays[f"X_{part}"].shape[1:] for part in parts}
    if len(shapes) > 1:
        raise ArgumentError(
            f"Argument `path` must hold X_train and X_test of the same steps and channels, but {path.name} holds "
            f"{arrays['X_train'].shape} and {arrays['X_test'].shape}"
        )
    if "classes" not in arrays and np.issubdtype(arrays["y_train"].dtype, np.integer):
        raise ArgumentError(
            f"Argument `path` must hold the names `classes` of its labels, but {path.name} does not: add them, or make "
            "y floats if they are values to be learnt"
        )
