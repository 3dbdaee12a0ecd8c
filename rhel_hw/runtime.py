"""What JAX is told before it computes: double precision, loops left as they are, compiled programs kept on disk.

Nothing here loads JAX. What is set goes into the environment, so that processes that are started from here have it too.
"""

from __future__ import annotations

import os
import platform
import sys
from hashlib import sha256
from pathlib import Path

CACHE = "RHEL_HW_CACHE"
"""Environment variable: folder of compiled programs; empty for none. Usually rhel-hw in the user's cache folder."""
LARGEST_CACHE = 1 << 30
"""Bytes; programs that were not used for longest go first."""
ROLLED = "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling"
"""Unrolled, loops over 9 to 47 lanes are not vectorised, and take three times as long."""
WIDE = "--xla_cpu_prefer_vector_width=512"
"""Where processors have such vectors, loops over many lanes take two thirds of the time."""


def configure(*, cache: bool = True) -> None:
    """Set up JAX for this package; call it before anything is computed. Other settings of JAX that the user made stay.

    Arguments:
        cache: keep compiled programs on disk, so that what was compiled once starts at once ever after.
    """
    folder, settings = _folder() if cache else None, {}
    if folder is not None:
        settings = {
            "jax_compilation_cache_dir": str(folder),
            "jax_compilation_cache_max_size": str(LARGEST_CACHE),
            "jax_persistent_cache_min_compile_time_secs": "0.05",
            "jax_persistent_cache_enable_xla_caches": "none",
        }
    given = os.environ.get("XLA_FLAGS", "")
    flags = [ROLLED, *([WIDE] if " avx512f" in _processor() else [])]
    os.environ["XLA_FLAGS"] = " ".join([given, *(f for f in flags if f.partition("=")[0] not in given)]).strip()
    if "jax" not in sys.modules:
        os.environ["JAX_ENABLE_X64"] = "true"
        for name, value in settings.items():
            os.environ.setdefault(name.upper(), value)
    else:
        import jax

        jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
        if folder is not None and jax.config.jax_compilation_cache_dir is None:  # type: ignore[attr-defined]
            jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
            jax.config.update("jax_compilation_cache_max_size", LARGEST_CACHE)  # type: ignore[no-untyped-call]
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.05)  # type: ignore[no-untyped-call]
            jax.config.update("jax_persistent_cache_enable_xla_caches", "none")  # type: ignore[no-untyped-call]


def _folder() -> Path | None:
    """Of programs for this kind of processor, if it can be written to."""
    given = os.environ.get(CACHE)
    if given == "":
        return None
    try:
        usual = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rhel-hw"
        folder = (Path(given) if given else usual) / f"programs-{sha256(_processor().encode()).hexdigest()[:12]}"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no place for it, or no home
        return None
    return folder if os.access(folder, os.W_OK) else None


def _processor() -> str:
    """What programs are compiled for: they do not run on processors that can do less."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    kinds = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    return "\n".join([platform.machine(), *kinds])
