"""One run of ngspice: a deck in, waveforms out, nothing left behind."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError

Floats = NDArray[np.float64]


class NgspiceError(ArgumentError):
    """ngspice did not do what a deck asked for."""


def found(executable: str = "ngspice") -> str:
    """Path of ngspice, or how to get it."""
    path = shutil.which(executable)
    if path is None:
        raise ArgumentError(
            f"Argument `executable` must be ngspice, but there is no {executable!r} here: apt-get install ngspice, or "
            "get it from https://ngspice.sourceforge.io"
        )
    return path


def run_deck(deck: str, *, executable: str = "ngspice", timeout_s: float = 60.0) -> dict[str, Floats]:
    """Waveforms of a deck's transient run by lower-case name, with ``"time"`` among them: (points,) each."""
    path = found(executable)
    with TemporaryDirectory(prefix="rhel-hw-ngspice-") as name:
        folder = Path(name)
        (folder / "deck.cir").write_text(deck, encoding="ascii")
        command = [path, "-b", "-r", "out.raw", "deck.cir"]
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise NgspiceError(
                f"ngspice took longer than {timeout_s:g} s: give it more time, fewer steps or a larger cap"
            ) from None
        raw = folder / "out.raw"
        said = _last_lines(done.stdout + done.stderr)
        if done.returncode != 0 or not raw.exists():
            raise NgspiceError(f"ngspice ended with code {done.returncode}; it said last: {said}")
        try:
            return read_raw(raw.read_bytes())
        except ValueError as problem:
            raise NgspiceError(f"ngspice wrote no waveforms ({problem}); it said last: {said}") from None


def read_raw(data: bytes) -> dict[str, Floats]:
    """Columns of a binary raw file by lower-case name; `ValueError` if it is none."""
    head, mark, body = data.partition(b"Binary:\n")
    lines = head.decode("ascii", "replace").splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("Variables:")]
    counts = [line.split(":")[1] for line in lines if line.startswith(("No. Variables:", "No. Points:"))]
    if not mark or not starts or len(counts) != 2:
        raise ValueError("no header")
    variables, points = (int(count) for count in counts)
    names = [line.split()[1].lower() for line in lines[starts[0] + 1 : starts[0] + 1 + variables]]
    if len(names) != variables or len(body) < 8 * variables * points or not points:
        raise ValueError("the file is cut off")
    table = np.frombuffer(body, "<f8", variables * points).reshape(points, variables)
    return dict(zip(names, np.ascontiguousarray(table.T), strict=True))


def _last_lines(text: str, count: int = 8) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and "memory" not in line.lower()]
    talk = [line for line in lines if not line.endswith(("MB.", "bytes."))]
    return " / ".join(talk[-count:])[:600] or "nothing"
