"""Where a training stands, as one file that is written whole: arrays, and plain data beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from devices import ArgumentError
from rhel_hw.files import write_atomically

VERSION = 2


def save(path: Path, fingerprint: str, document: Mapping[str, Any], arrays: Any) -> None:
    """Write a tree of arrays and plain data; `fingerprint` stands for all that must be the same to go on from it."""
    whole = {"version": VERSION, "fingerprint": fingerprint, **document}
    stream, named = BytesIO(), {f"a{i}": np.asarray(x) for i, x in enumerate(jax.tree.leaves(arrays))}
    np.savez(stream, document=np.array(json.dumps(whole)), **named)  # type: ignore[arg-type]
    write_atomically(path, lambda file: file.write(stream.getvalue()))


def read(path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Plain data and arrays of a file, whatever it is of."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            return json.loads(str(file["document"])), [file[f"a{i}"] for i in range(len(file.files) - 1)]
    except Exception as problem:  # NumPy raises many kinds for files that are none of its own
        raise ArgumentError(
            f"Argument `checkpoint` must be one of rhel-hw, but {path} cannot be read ({type(problem).__name__})"
        ) from None


def load(path: Path, fingerprint: str, like: Any, what: str) -> tuple[dict[str, Any], Any]:
    """Plain data and a tree of arrays as `like` is one; refused if it is of another `what`."""
    document, arrays = read(path)
    if document.get("version") != VERSION or document.get("fingerprint") != fingerprint:
        raise ArgumentError(
            f"Argument `checkpoint` must belong to this training, but {path} is of another {what}: name another file, "
            "or remove it"
        )
    leaves, structure = jax.tree.flatten(like)
    # What NumPy held before is held by NumPy again: JAX might round it to single precision.
    found = [x if isinstance(y, np.ndarray) else jnp.asarray(x) for x, y in zip(arrays, leaves, strict=True)]
    return document, jax.tree.unflatten(structure, found)
