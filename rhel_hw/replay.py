"""Benches on file: what one bench answered, recorded, and played back to whoever asks the same again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from devices import ArgumentError
from rhel_hw.bench import Bench, Description, Record, Shot
from rhel_hw.files import write_atomically
from rhel_hw.likeness import difference

VERSION = 3
"""Of the files."""
WAVEFORMS, SAMPLES = ("drive", "nudge"), ("times_s", "samples", "saturated")
FLAGS = ("steps", "echo", "hold", "paired", "channels", "amplify", "ranges")
"""What a shot is told beside arrays and its start."""


@dataclass(frozen=True, eq=False)
class Answer:
    """What came back of a shot."""

    shot: Shot
    parameters: Mapping[str, Any]
    """SI by name, as they were programmed."""
    record: Record
    passes: int
    """Runs of the bench so far, this one included."""
    seconds: float
    """Physical time that they took."""


@dataclass(eq=False)
class Recording:
    """What a bench answered to which shots: measured by a live one, or made of files that were measured elsewhere."""

    description: Description
    """As the bench was before the first of them."""
    answers: list[Answer] = field(default_factory=list)

    def add(
        self,
        shot: Shot,
        record: Record,
        parameters: Mapping[str, Any] | None = None,
        *,
        passes: int | None = None,
        seconds: float | None = None,
    ) -> None:
        """Keep one more.

        Arguments:
            shot: what the pass was told to do.
            record: what came back.
            parameters: those that were programmed by then, in SI.
            passes: runs of the bench so far; by default those of the shot are added.
            seconds: physical time so far; by default that of the runs is added.
        """
        last = self.answers[-1] if self.answers else self.description
        runs = next((s.shape[1] for s in record.samples.values()), shot.runs)
        self.answers.append(
            Answer(
                shot,
                {k: np.asarray(v, float) for k, v in (parameters or {}).items()},
                record,
                last.passes + runs if passes is None else passes,
                last.seconds + runs * shot.steps * self.description.step_s if seconds is None else seconds,
            )
        )

    def save(self, path: str | Path) -> Path:
        """Write everything to one file, whole or not at all."""
        arrays: dict[str, Any] = {}
        index = []
        for i, answer in enumerate(self.answers):
            shot, record = answer.shot, answer.record
            told = {name: getattr(shot, name) for name in FLAGS} | {"start": _plain(shot)}
            index.append(
                {"shot": told, "passes": answer.passes, "seconds": answer.seconds, "units": dict(record.units)}
            )
            parts = [(what, getattr(record, what)) for what in SAMPLES]
            parts += [(what, getattr(shot, what)) for what in WAVEFORMS]
            parts.append(("parameters", answer.parameters))
            parts.append(("trim", {k: np.stack(np.broadcast_arrays(*pair)) for k, pair in shot.trim.items()}))
            arrays |= {f"{i}/{what}/{name}": value for what, values in parts for name, value in values.items()}
        document = {"version": VERSION, "description": self.description.to_dict(), "answers": index}
        stream = BytesIO()
        np.savez_compressed(stream, document=np.array(json.dumps(document)), **arrays)
        return write_atomically(Path(path), lambda file: file.write(stream.getvalue()))

    @staticmethod
    def load(path: str | Path) -> Recording:
        """The recording in a file."""
        try:
            with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as file:
                document = json.loads(str(file["document"]))
                arrays = {name: file[name] for name in file.files if name != "document"}
            version = document.get("version")
            if version == VERSION:
                return _read(document, arrays)
        except Exception as problem:  # NumPy raises many kinds for files that are none of its own
            raise ArgumentError(
                f"Argument `path` must be a recorded bench, but {path} cannot be read ({type(problem).__name__})"
            ) from None
        raise ArgumentError(f"Argument `path` must be of version {VERSION}, but is {version!r}: record it again")


class RecordingBench:
    """A bench that passes everything on to another, and keeps what comes back until it is saved."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.recording = Recording(bench.describe())
        self._programmed: dict[str, Any] = {}

    def describe(self) -> Description:
        """That of the bench behind it."""
        return self._bench.describe()

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters."""
        self._bench.program(parameters)
        self._programmed |= parameters

    def run(self, shot: Shot) -> Record:
        """Make a pass, and keep its record."""
        record = self._bench.run(shot)
        after = self._bench.describe()
        self.recording.add(shot, record, self._programmed, passes=after.passes, seconds=after.seconds)
        return record

    def save(self, path: str | Path) -> Path:
        """Write everything to one file, whole or not at all."""
        return self.recording.save(path)


class ReplayBench:
    """A bench that answers what was recorded, in the order in which it was, and refuses everything else.

    Numbers may differ in their last digits, as they do from one computer to the next (`rhel_hw.likeness`).
    """

    def __init__(self, recording: Recording | str | Path) -> None:
        found = recording if isinstance(recording, Recording) else Recording.load(recording)
        self._description = found.description
        self._programmed: dict[str, Any] = {}
        self._left = list(found.answers)
        self._played: list[Answer] = []

    def describe(self) -> Description:
        """As the bench was when recording began, with what was used since."""
        return self._description

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters: they decide which records fit."""
        self._programmed |= {k: np.asarray(v, float) for k, v in parameters.items()}

    def run(self, shot: Shot) -> Record:
        """The record of this shot at these parameters; asked again, the next that was made of it."""
        for i, answer in enumerate(self._left):
            if self._apart(answer, shot) is None:
                self._played.append(self._left.pop(i))
                self._description = replace(self._description, passes=answer.passes, seconds=answer.seconds)
                return answer.record
        if any(self._apart(answer, shot) is None for answer in self._played):
            why = "has been played as often as it was recorded"
        else:
            why = "was not recorded"
            why += f": the next that was differs in {self._apart(self._left[0], shot)}" if self._left else ""
        raise ArgumentError(f"Argument `shot` must be one that was recorded, with the same parameters, but it {why}")

    def _apart(self, answer: Answer, shot: Shot) -> str | None:
        return difference(shot, self._programmed, answer.shot, answer.parameters)


def _read(document: Mapping[str, Any], arrays: Mapping[str, Any]) -> Recording:
    """The recording that `save` wrote."""
    found: list[dict[str, dict[str, Any]]] = [
        {what: {} for what in (*SAMPLES, *WAVEFORMS, "parameters", "trim")} for _ in document["answers"]
    ]
    for name, value in arrays.items():
        number, what, key = name.split("/", 2)
        found[int(number)][what][key] = value
    answers = []
    for entry, parts in zip(document["answers"], found, strict=True):
        told = entry["shot"] | {what: parts[what] for what in WAVEFORMS}
        start = None if told["start"] is None else tuple(told["start"])
        shot = Shot(**{**told, "start": start, "trim": {k: tuple(pair) for k, pair in parts["trim"].items()}})
        record = Record(parts["times_s"], parts["samples"], entry["units"], parts["saturated"])
        answers.append(Answer(shot, parts["parameters"], record, entry["passes"], entry["seconds"]))
    return Recording(Description.of(document["description"]), answers)


def _plain(shot: Shot) -> list[dict[str, Any]] | None:
    """Where it starts, as plain data: numbers, or quantities as text."""
    if shot.start is None:
        return None
    return [{k: float(v) if isinstance(v, (int, float)) else str(v) for k, v in half.items()} for half in shot.start]
