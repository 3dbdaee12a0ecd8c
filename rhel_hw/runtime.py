"""What is set before JAX computes: double precision, loops left as they are, programs kept on disk, memory kept.

Nothing here loads JAX. What is set goes into the environment, so that processes that are started from here have it too.
"""

from __future__ import annotations

import os
import platform
import sys
from hashlib import sha256
from pathlib import Path

from rhel_hw.heap import keep_heap

CACHE = "RHEL_HW_CACHE"
"""Environment variable: folder of compiled programs; empty for none. Usually rhel-hw in the user's cache folder."""
KEPT: dict[str, str | int | float] = {
    "jax_compilation_cache_max_size": 1 << 30,  # bytes; programs that were not used for longest go first
    "jax_persistent_cache_min_compile_time_secs": 0.05,
    "jax_persistent_cache_enable_xla_caches": "none",
}
"""How JAX keeps programs on disk."""
ROLLED = "--xla_backend_extra_options=xla_cpu_disable_loop_unrolling"
"""Unrolled, loops over 9 to 47 lanes are not vectorised, and take three times as long."""
WIDE = "--xla_cpu_prefer_vector_width=512"
"""Where processors have such vectors, loops over many lanes take two thirds of the time."""


def configure(*, cache: bool = True) -> None:
    """Set up JAX for this package; call it before anything is computed. Other settings of JAX that the user made stay.

    Arguments:
        cache: keep compiled programs on disk, so that what was compiled once starts at once ever after.
    """
    keep_heap()
    given = os.environ.get("XLA_FLAGS", "")
    flags = [ROLLED, *([WIDE] if " avx512f" in _processor() else [])]
    os.environ["XLA_FLAGS"] = " ".join([given, *(f for f in flags if f.partition("=")[0] not in given)]).strip()
    folder = _folder() if cache else None
    kept = KEPT | {"jax_compilation_cache_dir": str(folder)} if folder else {}
    if "jax" not in sys.modules:
        os.environ["JAX_ENABLE_X64"] = "true"
        for name, value in kept.items():
            os.environ.setdefault(name.upper(), str(value))
        return
    import jax

    own = jax.config.jax_compilation_cache_dir is not None  # type: ignore[attr-defined]
    for name, value in {"jax_enable_x64": True, **({} if own else kept)}.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


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
