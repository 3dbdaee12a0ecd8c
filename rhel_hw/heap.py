"""Memory that is used again and again.

The GNU C library gives large blocks back to the system when they are freed, and the next ones come page by page,
cleared: trajectories and records of tens of megabytes take two to five times as long as the loops that fill them.
"""

from __future__ import annotations

import ctypes
import os

ARENA_MAX, MMAP_MAX, TRIM_THRESHOLD = -8, -4, -1
"""Numbers of the settings in malloc.h."""
SETTINGS = {ARENA_MAX: 1, MMAP_MAX: 0, TRIM_THRESHOLD: 1 << 30}
"""One heap for all threads, large blocks in it as well, and a gibibyte that is kept where it ends."""


def keep_heap() -> None:
    """From now on freed memory stays with the process; not where the user set the library up, nor on other systems."""
    library = _library()
    if library is None or any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return
    for setting, value in SETTINGS.items():
        library.mallopt(setting, value)


def _library() -> ctypes.CDLL | None:
    """The C library of this process, if it is GNU's."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "gnu_get_libc_version") else None
    except (OSError, TypeError):  # no such thing on other systems
        return None
