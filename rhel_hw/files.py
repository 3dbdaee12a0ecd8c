"""Files written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from devices import ArgumentError


def folder(path: Path, argument: str = "--out") -> Path:
    """The folder `path`, made if need be; refused where a file is in the way or writing is forbidden."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise ArgumentError(
            f"Argument `{argument}` must be a folder, but {path} cannot be used: {problem.strerror}"
        ) from None
    if not os.access(path, os.W_OK):
        raise ArgumentError(f"Argument `{argument}` must be a folder that can be written, but {path} cannot")
    return path


def refuse_unwritable(path: Path, argument: str = "path") -> None:
    """Refuse a file that could not be written."""
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK) or path.is_dir():
        raise ArgumentError(f"Argument `{argument}` must be a file in a folder that can be written, but is {path}")


def write_atomically(path: Path, write: Callable[[Any], object]) -> Path:
    """Call `write` with a binary file beside `path`, and move it there when it is complete."""
    refuse_unwritable(path)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            write(stream)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


def write_text(path: Path, text: str) -> Path:
    """Write a text, whole or not at all."""
    return write_atomically(path, lambda stream: stream.write(text.encode()))
