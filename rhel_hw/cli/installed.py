"""What `rhel-hw --version` says: versions of what results depend on, and of tools that some commands call."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from rhel_hw.kernels.compiler import loops_by

OF_NUMBERS = ("jax", "jaxlib", "numpy", "scipy", "optax", "xarray", "zarr")
OF_EXTRAS = ("plotly", "dask", "h5netcdf", "gdstk", "pyvisa", "seglearn")
MISSING = "not installed"
PATIENCE_S = 5.0


def table() -> str:
    """One line for each, also for what is not there."""
    lines = [f"rhel-hw {version('rhel-hw')}", f"python {platform.python_version()}"]
    lines += [f"{name} {_installed(name)}" for name in (*OF_NUMBERS, *OF_EXTRAS)]
    return "\n".join([*lines, f"loops by {loops_by()}", f"ngspice {_ngspice()}"])


def _installed(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return MISSING


def _ngspice() -> str:
    path = shutil.which("ngspice")
    if path is None:
        return MISSING
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return f"at {path} does not answer"
    told = re.search(r"ngspice-([\w.+-]+)", done.stdout)
    return told[1] if told else f"at {path} does not say which"
