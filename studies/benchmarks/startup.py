"""How long one waits for a first result, every time in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter

Report = Callable[[int, int], None]

COMMANDS = {
    "import rhel_hw": ("-c", "import rhel_hw"),
    "rhel-hw --help": ("-m", "rhel_hw.cli", "--help"),
    "rhel-hw simulate lc-toy": ("-m", "rhel_hw.cli", "simulate", "lc-toy", "--json"),
    "rhel-hw gradient lc-toy": ("-m", "rhel_hw.cli", "gradient", "lc-toy", "--json"),
}
COMPILES = ("rhel-hw simulate lc-toy", "rhel-hw gradient lc-toy")


@dataclass(frozen=True)
class Row:
    """One command, from the start of Python to its end."""

    command: str
    first_seconds: float
    """With an empty compilation cache."""
    second_seconds: float | None
    """The same again; None where nothing is compiled."""
    kept_programs: int
    """Programs in the compilation cache afterwards."""


def run(*, commands: tuple[str, ...] = tuple(COMMANDS), rounds: int = 5, report: Report | None = None) -> list[Row]:
    """Time every command in turns, with a cache of its own in every round."""
    times: dict[str, list[list[float]]] = {name: [] for name in commands}
    kept = dict.fromkeys(commands, 0)
    cases = [name for _ in range(rounds) for name in commands]
    for done, name in enumerate(cases):
        if report:
            report(done, len(cases))
        with TemporaryDirectory(prefix="rhel-hw-startup-") as folder:
            cache = Path(folder, "cache")
            cache.mkdir()
            times[name].append([seconds(name, Path(folder)) for _ in range(2 if name in COMPILES else 1)])
            kept[name] = sum(1 for _ in cache.rglob("*-cache"))
    found = {name: [median(column) for column in zip(*rows, strict=True)] for name, rows in times.items()}
    return [Row(name, took[0], took[1] if len(took) > 1 else None, kept[name]) for name, took in found.items()]


def seconds(name: str, folder: Path) -> float:
    """Wall time of a command in a folder whose compilation cache is `cache`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    environment = {**own, "RHEL_HW_CACHE": str(folder / "cache")}
    start = perf_counter()
    subprocess.run([sys.executable, *COMMANDS[name]], cwd=folder, env=environment, check=True, capture_output=True)
    return perf_counter() - start
