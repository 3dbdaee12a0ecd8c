"""Programs in C: compiled by the compiler that is here, kept on disk, and made known to XLA."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

FLAGS = ("-O3", "-march=native", "-shared", "-fPIC")
LOOSE = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-w")
"""Of loops: nobody asks for errors of functions, and vectors are wider than some processors'."""
VECTORS = (("-DLIBMVEC=1", "-lmvec"), ("-DLIBMVEC=0", "-lm"))
"""Functions of vectors are those of the C library, where it has them."""
MOST_KEPT = 1000
"""Programs on disk, of a few ten kB each."""
KERNELS = "RHEL_HW_KERNELS"
"""Environment variable: 0 leaves all loops to XLA."""


def compiler() -> str | None:
    """Path of the C compiler, if there is one: `CC`, or cc."""
    return shutil.which(os.environ.get("CC", "cc"))


def usable() -> bool:
    """Whether there is a compiler, and loops may be made by it."""
    return os.environ.get(KERNELS) != "0" and compiler() is not None


def loops_by() -> str:
    """What makes loops."""
    return version() if usable() else "XLA"


def version() -> str:
    """First line of what the compiler says of itself."""
    path = compiler()
    return "none" if path is None else _version(path)


@cache
def _version(path: str) -> str:
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def compiled(path: str, source: Path, library: Path, flags: Sequence[str]) -> str | None:
    """Compile a shared library; what the compiler has to say if it cannot."""
    done = subprocess.run(
        [path, *FLAGS, "-o", str(library), str(source), *flags], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() or f"code {done.returncode}" if done.returncode else None


def registered(text: str) -> str | None:
    """Name under which XLA knows a program, or none if it cannot be compiled here; each is made once."""
    with _making:
        return _registered(text)


_making = Lock()


@cache
def _registered(text: str) -> str | None:
    import jax
    from jaxlib import version as jaxlib_version

    path = compiler()
    if path is None:
        return None
    prelude = (files(__package__) / "prelude.c").read_text()
    parts = (text, prelude, jaxlib_version.__version__, path, version(), *FLAGS, *LOOSE)
    name = f"rhel_hw_{sha256(chr(0).join(parts).encode()).hexdigest()[:24]}"
    with TemporaryDirectory(prefix="rhel-hw-kernel-") as folder:
        library = _kept(name)
        handler = None if library is None else _handler(library)
        if handler is None:
            made = Path(folder) / f"{name}.so"
            (Path(folder) / "prelude.c").write_text(prelude, encoding="utf-8")
            (Path(folder) / "loop.c").write_text(text, encoding="utf-8")
            if not _built(path, Path(folder) / "loop.c", made, jax.ffi.include_dir()):
                return None
            handler = _handler(_keep(made, library))
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")  # type: ignore[no-untyped-call]
    return name


def _handler(library: Path) -> Any:
    """What XLA calls, which stays when the file goes; none of a file that is not there, or is broken."""
    try:
        return ctypes.CDLL(str(library)).run
    except OSError:
        return None


def _built(path: str, source: Path, library: Path, headers: str) -> bool:
    for vectors in VECTORS:
        fault = compiled(path, source, library, (f"-I{headers}", *LOOSE, *vectors, "-lm"))
        if fault is None:
            return True
    logging.getLogger(__name__).warning("%s does not compile a loop, which is left to XLA: %s", path, fault)
    return False


def _kept(name: str) -> Path | None:
    """Where a program is kept: beside those of JAX, if it keeps any."""
    import jax

    folder = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return Path(folder) / "loops" / f"{name}.so" if folder else None


def _keep(made: Path, library: Path | None) -> Path:
    """Put a program in its place, whole, and let go of the oldest if there are many; where it is now."""
    if library is None:
        return made
    beside = library.with_suffix(f".{os.getpid()}")
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(made, beside)
        beside.replace(library)
        for old in sorted(library.parent.glob("*.so"), key=lambda p: p.stat().st_mtime)[:-MOST_KEPT]:
            old.unlink(missing_ok=True)
    except OSError:  # no room left, or a file that another process let go of: it can be used all the same
        beside.unlink(missing_ok=True)
        return made
    return library
