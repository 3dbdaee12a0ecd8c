"""Files of series: .ts and .arff of the UEA and UCR archives, and .npz."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np

from devices import ArgumentError
from rhel_hw.data.arff import read_arff
from rhel_hw.data.npz import read_npz
from rhel_hw.data.rows import Missing
from rhel_hw.data.series import Series
from rhel_hw.data.ts import read_ts
from rhel_hw.data.windows import overlap_of

READERS: dict[str, Callable[[Path, Missing], Series]] = {".ts": read_ts, ".arff": read_arff, ".npz": read_npz}
"""By the ending of a file."""
PART = re.compile(r"(?P<name>.+)_(?P<part>TRAIN|TEST)", re.IGNORECASE)


def read(path: str | Path, *, both: bool = True, missing: Missing = "refuse", overlap: float | None = None) -> Series:
    """The set in a file that ends in .ts, .arff or .npz.

    Of NAME_TRAIN and NAME_TEST (.ts, .arff) both are read if they lie side by side, whichever is asked for, and the
    test part is held out; `both = False` reads the one alone. Missing values are refused, or put on straight lines
    between their neighbours by `missing = "interpolate"`. `overlap` of neighbouring windows is found by comparing them
    sample for sample unless it is given, as it must be where windows were scaled one by one.
    """
    source = Path(path)
    reader = READERS.get(source.suffix.lower())
    if reader is None:
        raise ArgumentError(
            f"Argument `path` must end in {', '.join(READERS)}, but is {source.name}: convert it to one of these"
        )
    if not source.is_file():
        raise ArgumentError(f"Argument `path` must be a file, but {source} is not there")
    if missing not in get_args(Missing):
        raise ArgumentError(f"Argument `missing` must be one of {', '.join(get_args(Missing))}, but is {missing!r}")
    if not both and reader is read_npz:
        raise ArgumentError("Argument `both` must be True for .npz files, which hold both parts, but is False")
    pair = _pair(source) if both else None
    series = _joined(*pair, reader, missing) if pair else reader(source, missing)
    found = overlap_of(series) if overlap is None else overlap
    return replace(series, overlap=found) if found else series


def _pair(source: Path) -> tuple[Path, Path] | None:
    """The train and test files that one of them belongs to, if both are there."""
    match = PART.fullmatch(source.stem)
    if match is None or source.suffix.lower() == ".npz":
        return None
    train = match["part"].lower() == "train"
    wanted = f"{match['name']}_{'test' if train else 'train'}".lower()
    for other in sorted(source.parent.iterdir()):
        if other.suffix == source.suffix and other.stem.lower() == wanted:
            return (source, other) if train else (other, source)
    return None


def _joined(train: Path, test: Path, reader: Callable[[Path, Missing], Series], missing: Missing) -> Series:
    """Both parts as one set; the shorter series are followed by zeros."""
    parts = [reader(train, missing), reader(test, missing)]
    for what in ("task", "classes", "width"):
        one, other = (getattr(part, what) for part in parts)
        if one != other:
            raise ArgumentError(
                f"Argument `path` must be one of two files that fit together, but {train.name} has {what} {one} and "
                f"{test.name} {other}: read one alone with both=False"
            )
    steps = max(part.steps for part in parts)
    return replace(
        parts[0],
        name=train.stem[: -len("_train")],
        x=np.concatenate([np.pad(part.x, ((0, 0), (0, steps - part.steps), (0, 0))) for part in parts]),
        y=np.concatenate([part.y for part in parts]),
        lengths=np.concatenate([part.lengths for part in parts]),
        held_out=np.repeat([False, True], [part.count for part in parts]),
    )
