"""Where numbers come from: versions of what computed them, and a digest of this project's own code."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("devices", "circuits", "rhel_hw", "calibration", "studies")
NUMERICAL = ("rhel-hw", "jax", "jaxlib", "numpy", "scipy")
UNINVOLVED = ("cli", "instrument", "benchmarks")
"""Folders that compute nothing."""


def versions(names: Sequence[str] = NUMERICAL) -> dict[str, str]:
    """Versions of packages that numbers depend on."""
    return {name: version(name) for name in names}


@lru_cache
def code() -> str:
    """Digest of all code of this project that computes: it changes whenever a number might."""
    found = sha256()
    for package in PACKAGES:
        root = Path(str(import_module(package).__file__)).parent
        for path in sorted(p for p in root.rglob("*.py") if not set(p.relative_to(root).parts) & set(UNINVOLVED)):
            found.update(f"{package}/{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes())
    return found.hexdigest()[:16]
