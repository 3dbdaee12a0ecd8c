"""Benches on file: what one bench answered, recorded, and played back to whoever asks the same again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from devices import ArgumentError
from rhel_hw.bench import Bench, Description, Record, Shot
from rhel_hw.files import write_atomically

VERSION = 2
"""Of the files."""


class RecordingBench:
    """A bench that passes everything on to another, and keeps what comes back until it is saved."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._first = bench.describe()
        self._programmed: dict[str, Any] = {}
        self._answers: list[tuple[str, Record, int, float]] = []

    def describe(self) -> Description:
        """That of the bench behind it."""
        return self._bench.describe()

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters."""
        self._bench.program(parameters)
        self._programmed |= {k: np.asarray(v, float) for k, v in parameters.items()}

    def run(self, shot: Shot) -> Record:
        """Make a pass, and keep its record."""
        record = self._bench.run(shot)
        after = self._bench.describe()
        self._answers.append((digest(shot, self._programmed), record, after.passes, after.seconds))
        return record

    def save(self, path: str | Path) -> Path:
        """Write everything to one file, whole or not at all."""
        arrays: dict[str, Any] = {}
        index = []
        for i, (key, record, passes, seconds) in enumerate(self._answers):
            index.append({"shot": key, "passes": passes, "seconds": seconds, "units": dict(record.units)})
            for what in ("times_s", "samples", "saturated"):
                arrays |= {f"{i}/{what}/{name}": value for name, value in getattr(record, what).items()}
        document = {"version": VERSION, "description": self._first.to_dict(), "answers": index}
        stream = BytesIO()
        np.savez_compressed(stream, document=np.array(json.dumps(document)), **arrays)
        return write_atomically(Path(path), lambda file: file.write(stream.getvalue()))


class ReplayBench:
    """A bench that answers what was recorded, in the order in which it was, and refuses everything else."""

    def __init__(self, path: str | Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                document = json.loads(str(file["document"]))
                arrays = {name: file[name] for name in file.files if name != "document"}
        except Exception as problem:  # NumPy raises many kinds for files that are none of its own
            raise ArgumentError(
                f"Argument `path` must be a recorded bench, but {path} cannot be read ({type(problem).__name__})"
            ) from None
        if document.get("version") != VERSION:
            raise ArgumentError(f"Argument `path` must be of version {VERSION}, but is {document.get('version')!r}")
        self._description = Description.of(document["description"])
        self._programmed: dict[str, Any] = {}
        self._answers: dict[str, list[tuple[Record, int, float]]] = {}
        found: list[dict[str, dict[str, Any]]] = [
            {"times_s": {}, "samples": {}, "saturated": {}} for _ in document["answers"]
        ]
        for name, value in arrays.items():
            number, what, key = name.split("/", 2)
            found[int(number)][what][key] = value
        for entry, parts in zip(document["answers"], found, strict=True):
            record = Record(parts["times_s"], parts["samples"], entry["units"], parts["saturated"])
            self._answers.setdefault(entry["shot"], []).append((record, entry["passes"], entry["seconds"]))

    def describe(self) -> Description:
        """As the bench was when recording began, with what was used since."""
        return self._description

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters: they decide which records fit."""
        self._programmed |= {k: np.asarray(v, float) for k, v in parameters.items()}

    def run(self, shot: Shot) -> Record:
        """The record of this shot at these parameters; asked again, the next that was made of it."""
        left = self._answers.get(digest(shot, self._programmed))
        if not left:
            why = "has been played as often as it was recorded" if left is not None else "was not recorded"
            raise ArgumentError(
                f"Argument `shot` must be one that was recorded, with the same parameters, but it {why}"
            )
        record, passes, seconds = left.pop(0)
        self._description = replace(self._description, passes=passes, seconds=seconds)
        return record


def digest(shot: Shot, programmed: Mapping[str, Any]) -> str:
    """What tells shots apart: all that they are told, and the parameters they meet."""
    found = sha256()
    flags = (shot.steps, shot.echo, shot.hold, shot.paired, shot.start, shot.channels)
    found.update(repr(flags).encode())
    if shot.amplify:  # told only where it is, so that older recordings play on
        found.update(b"amplify")
    trim = {node: np.stack(np.broadcast_arrays(*pair)) for node, pair in shot.trim.items()}
    told = (
        ("drive", shot.drive), ("nudge", shot.nudge), ("parameters", programmed), ("trim", trim),
        ("ranges", shot.ranges),
    )  # fmt: skip
    for what, arrays in told:
        for name in sorted(arrays):
            value = np.ascontiguousarray(arrays[name], float)
            found.update(f"{what}.{name}{value.shape}".encode())
            found.update(value.tobytes())
    return found.hexdigest()
