"""Speed, measured as ratios of interleaved runs: machines are noisy, ratios less so."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from rhel_hw.kernels.compiler import loops_by


def machine() -> dict[str, str]:
    """Where the numbers come from."""
    return {
        "processor": f"{_model()} ({platform.machine()})",
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "jax": version("jax"),
        "rhel-hw": version("rhel-hw"),
        "loops by": loops_by(),
    }


def _model() -> str:
    """What the processor is called, where the system tells."""
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.exists() else []
    found = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(found, platform.processor() or "unknown")


def interleaved(functions: Mapping[str, Callable[[], Any]], rounds: int, *, settled: bool = False) -> dict[str, float]:
    """Median seconds of each function, all timed once per round after a first call that compiles.

    Those that are called over and over in use are timed when they are `settled`: at the second of two calls, so that
    none pays for the memory and caches that another left behind.
    """
    import jax

    times: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        jax.block_until_ready(function())  # type: ignore[no-untyped-call]
    for _ in range(rounds):
        for name, function in functions.items():
            if settled:
                jax.block_until_ready(function())  # type: ignore[no-untyped-call]
            start = time.perf_counter()
            jax.block_until_ready(function())  # type: ignore[no-untyped-call]
            times[name].append(time.perf_counter() - start)
    return {name: median(found) for name, found in times.items()}
