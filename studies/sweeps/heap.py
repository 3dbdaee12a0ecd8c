"""Memory that is used again and again.

The GNU C library gives large blocks back to the system when they are freed, and the next ones come page by page: with
records of tens of megabytes, from several threads at once, that takes a third of the time of a sweep.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""Numbers of the settings in malloc.h."""
USUAL_TRIM, USUAL_MAPS = 128 << 10, 65536
"""What they are otherwise."""

_lock = Lock()
_users = 0


@contextmanager
def kept_heap() -> Iterator[None]:
    """While it lasts, freed memory stays with the process; at the end it is given back. Elsewhere it does nothing."""
    global _users
    library = _library()
    if library is None:
        yield
        return
    with _lock:
        _users += 1
        if _users == 1:
            library.mallopt(MMAP_MAX, 0)
            library.mallopt(TRIM_THRESHOLD, 2**31 - 1)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                library.mallopt(MMAP_MAX, USUAL_MAPS)
                library.mallopt(TRIM_THRESHOLD, USUAL_TRIM)
                library.malloc_trim(0)


def _library() -> ctypes.CDLL | None:
    """The C library of this process, if it is GNU's."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "gnu_get_libc_version") else None
    except (OSError, TypeError):  # no such thing on other systems
        return None
