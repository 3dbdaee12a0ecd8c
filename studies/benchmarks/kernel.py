"""The loop that a patient programmer would write in C: built by the compiler that is here, called through ctypes."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.hru import DELTA, GAIN, STIFFNESS
from rhel_hw.kernels.compiler import compiled, compiler

Floats = NDArray[np.float32]

FAST = ("-ffast-math",)
MISSING = "no C compiler: apt-get install gcc, or set CC"


@dataclass(frozen=True)
class Kernel:
    """`leapfrog.c`, built for units with so many inputs. All arrays are float32, C order, lanes last."""

    library: Any

    def units(
        self, theta: dict[str, Floats], B: Floats, x: Floats, q: Floats, p: Floats, path: Floats | None = None
    ) -> None:
        """Move a row of nonlinear units, q and p (n, lanes), through x (steps, features, lanes)."""
        parameters = (_pointer(theta[k]) for k in (DELTA, GAIN, STIFFNESS))
        self.library.units(*_sizes(x, q), *parameters, *map(_pointer, (B, x, q, p, path)))

    def ladder(
        self, step: float, chain: tuple[Floats, Floats, Floats, float], u: Floats, q: Floats, p: Floats,
        paths: tuple[Floats, Floats] | None = None,
    ) -> None:  # fmt: skip
        """Move a chain, q and p (n, lanes), through u (steps, lanes); `chain` as `tridiagonal` gives it."""
        *arrays, inject = chain
        self.library.ladder(
            *_sizes(u, q), ctypes.c_float(step), *map(_pointer, arrays), ctypes.c_float(inject),
            *map(_pointer, (u, q, p, *(paths or (None, None)))),
        )  # fmt: skip


def built(features: int) -> Kernel | None:
    """The kernel, or none where there is no compiler."""
    path = compiler()
    return None if path is None else _built(path, features)


@cache
def _built(path: str, features: int) -> Kernel:
    with TemporaryDirectory(prefix="rhel-hw-kernel-") as folder, as_file(files(__package__) / "leapfrog.c") as source:
        library = Path(folder) / "leapfrog.so"
        fault = compiled(path, source, library, (*FAST, f"-DFEATURES={features}"))
        if fault is not None:
            raise ArgumentError(f"Argument `CC` must be a C compiler, but {path} does not compile leapfrog.c: {fault}")
        return Kernel(ctypes.CDLL(str(library)))


def _sizes(inputs: Floats, q: Floats) -> tuple[ctypes.c_size_t, ...]:
    """Steps, coordinates, lanes."""
    return tuple(map(ctypes.c_size_t, (len(inputs), *q.shape)))


def _pointer(array: Floats | None) -> ctypes.c_void_p | None:
    if array is None:
        return None
    if array.dtype != np.float32 or not array.flags.c_contiguous:
        raise AssertionError("kernels take float32 in C order")
    return ctypes.c_void_p(array.ctypes.data)
