"""Programs in C: compiled by the compiler that is here, kept on disk, and made known to XLA."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import subprocess
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

import jax
import jaxlib

from rhel_hw.runtime import program_folder

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
    """Path of the C compiler, if there is one, and if it may be used: `CC`, or cc."""
    return None if os.environ.get(KERNELS) == "0" else shutil.which(os.environ.get("CC", "cc"))


def version() -> str:
    """First line of what the compiler says of itself."""
    path = compiler()
    if path is None:
        return "none"
    return subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout.partition("\n")[0]


def compiled(path: str, source: Path, library: Path, flags: tuple[str, ...] = ()) -> str | None:
    """Compile a shared library, and return what the compiler has to say if it cannot."""
    done = subprocess.run(
        [path, *FLAGS, "-o", str(library), str(source), *flags], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() or f"code {done.returncode}" if done.returncode else None


@cache
def registered(text: str) -> str | None:
    """Name under which XLA knows a program, or none if it cannot be compiled here."""
    path = compiler()
    if path is None:
        return None
    prelude = (files(__package__) / "prelude.c").read_text()
    parts = (text, prelude, jaxlib.__version__, path, version(), *FLAGS, *LOOSE)
    name = f"rhel_hw_{sha256(chr(0).join(parts).encode()).hexdigest()[:24]}"
    with TemporaryDirectory(prefix="rhel-hw-kernel-") as folder:
        library = _kept(name) or Path(folder) / f"{name}.so"
        if not library.exists():
            made = Path(folder) / "made.so"
            (Path(folder) / "prelude.c").write_text(prelude, encoding="utf-8")
            (Path(folder) / "loop.c").write_text(text, encoding="utf-8")
            if not _built(path, Path(folder) / "loop.c", made):
                return None
            _keep(made, library)
        try:
            handler = ctypes.CDLL(str(library)).run
        except OSError as fault:
            logging.getLogger(__name__).warning("%s cannot be loaded, so loops are left to XLA: %s", library, fault)
            return None
    jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(handler), platform="cpu")
    return name


def _built(path: str, source: Path, library: Path) -> bool:
    for vectors in VECTORS:
        fault = compiled(path, source, library, (f"-I{jax.ffi.include_dir()}", *LOOSE, *vectors, "-lm"))
        if fault is None:
            return True
    logging.getLogger(__name__).warning("%s does not compile a loop, which is left to XLA: %s", path, fault)
    return False


def _kept(name: str) -> Path | None:
    """Where a program is kept, if there is a place for it."""
    folder = program_folder()
    return None if folder is None else folder / "kernels" / f"{name}.so"


def _keep(made: Path, library: Path) -> None:
    """Put a program in its place at once, and let go of the oldest if there are many."""
    library.parent.mkdir(exist_ok=True)
    beside = library.with_suffix(f".{os.getpid()}")
    shutil.move(made, beside)
    beside.replace(library)
    kept = sorted(library.parent.glob("*.so"), key=lambda p: p.stat().st_mtime)
    for old in kept[:-MOST_KEPT]:
        old.unlink(missing_ok=True)
