"""The sheet of a pass: what it is told to do, as files that a laboratory can play and people can read or write.

A folder has `shot.toml` and, for every run, `play-RUN.csv` with a line for every step: time stamp of its start, drives
as they are played, nudges as impulses there. That of an echo begins at negative times, with the pass that prepares what
is turned round at 0 s; from there on its drives are backwards and conjugated.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from circuits import Netlist
from devices import ArgumentError, CoherentDrive, UnitError, nearest, to_si, to_text
from rhel_hw.bench import Description, Samples, Shot, refuse_unknown
from rhel_hw.files import write_text
from rhel_hw.likeness import difference
from rhel_hw.records import csv
from rhel_hw.records.columns import Column, Table, factor

SHEET = "shot.toml"
KEYS = ("design", "step", "steps", "runs", "prepared", "echo", "hold", "paired", "channels")
SECTIONS = ("shot", "parameters", "start", "measured")
EARLY = 1e-6
"""Of a step: how far a time stamp of a played file may be from the start of its step."""


@dataclass(frozen=True)
class Stage:
    """What sheets are about: a design on a bench."""

    bench: Description
    netlist: Netlist

    @property
    def signs(self) -> dict[str, int]:
        """By what a drive is multiplied in an echo, beside being played backwards."""
        turned = self.bench.operation == "momentum-flip"
        # Light is conjugated: F·e^(iα) becomes −F·e^(−iα) (docs/physics.md, 9.4).
        return {
            d.name: (-1 if isinstance(d, CoherentDrive) else d.parity) if turned else 1 for d in self.netlist.drives
        }

    @property
    def columns(self) -> dict[str, str]:
        """Units of the columns that can be played, in their order."""
        drives = {f"drive.{name}": unit for name, unit in self.bench.drives.items()}
        return drives | {f"nudge.{name}": unit for name, unit in self.bench.nudges.items()}


@dataclass(frozen=True, eq=False)
class Sheet:
    """One pass: a shot, the parameters that it meets and, of an echo, the pass that prepares its start."""

    shot: Shot
    parameters: Mapping[str, float]
    """SI by name."""
    prepared: Shot | None = None
    measured: Mapping[str, Any] = field(default_factory=dict)
    """What section `[measured]` says of its files, over what the folder's own sheet says."""

    def same(self, other: Sheet) -> bool:
        """Whether both say the same."""
        if (self.prepared is None) != (other.prepared is None):
            return False
        if self.prepared is not None and other.prepared is not None:
            a, b = self.prepared, other.prepared
            if difference(_alone(a), {}, _alone(b), {}) is not None:
                return False
        return difference(self.shot, self.parameters, other.shot, other.parameters) is None

    # Writing ---------------------------------------------------------------------------------------------------------

    def write(self, folder: Path, stage: Stage) -> list[Path]:
        """Write what is to be played, `shot.toml` last; the files of the runs."""
        played = [csv.write(folder / f"play-{run + 1}.csv", self._columns(run, stage)) for run in range(self.shot.runs)]
        write_text(folder / SHEET, self._text(stage))
        return played

    def _columns(self, run: int, stage: Stage) -> dict[str, Column]:
        shot, step_s = self.shot, stage.bench.step_s
        early = 0 if self.prepared is None else self.prepared.steps
        found = {"time": Column(np.asarray(step_s * np.arange(-early, shot.steps), np.float64), "s")}
        for name, unit in stage.columns.items():
            what, _, key = name.partition(".")
            before = [] if self.prepared is None else [_column(self.prepared, what, key, run)]
            now = _column(shot, what, key, run)
            if shot.echo and what == "drive":
                now = stage.signs[key] * now[::-1]
            found[name] = Column(np.asarray(np.concatenate([*before, now]) + 0.0, np.float64), unit)  # −0 looks odd
        return found

    def _text(self, stage: Stage) -> str:
        shot, bench = self.shot, stage.bench
        told = {
            "design": bench.design, "step": to_text(bench.step_s, "s"), "steps": shot.steps, "runs": shot.runs,
            "prepared": 0 if self.prepared is None else self.prepared.steps,
            "echo": shot.echo, "hold": shot.hold, "paired": shot.paired,
            "channels": list(bench.channels if shot.channels is None else shot.channels),
        }  # fmt: skip
        lines = [f"# {line}" for line in self._guide(stage)]
        lines += ["", "[shot]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in told.items())]
        lines += ["", "[parameters]"]
        lines += [
            f"{json.dumps(name)} = {json.dumps(to_text(value, bench.parameters[name].unit), ensure_ascii=False)}"
            for name, value in self.parameters.items()
        ]
        begun = self.prepared or shot
        for title, half in zip(("positions", "momenta"), begun.start or ({}, {}), strict=True):
            if begun.start is not None:
                lines += ["", f"[start.{title}]"]
                lines += [f"{json.dumps(node)} = {json.dumps(value)}" for node, value in half.items()]
        return "\n".join(lines) + "\n"

    def _guide(self, stage: Stage) -> list[str]:
        lines = [
            f"Play {'play-1.csv' if self.shot.runs == 1 else f'play-1.csv to play-{self.shot.runs}.csv'} with the "
            "parameters below: a line for every step, at its start.",
            "Drives hold until the next line; a nudge is an impulse at the start of its step, as short as can be.",
        ]
        if self.prepared is not None:
            lines.append(
                f"Times before 0 s prepare the state. At 0 s the device is turned round by {stage.bench.operation}, "
                "then nudged."
            )
            lines += [
                f"In the echo, light of {drive.name} comes at an angle of {-drive.angle:g} rad."
                for drive in stage.netlist.drives
                if isinstance(drive, CoherentDrive) and drive.angle and stage.signs[drive.name] < 0
            ]
        return [
            *lines,
            "Put what is measured of each run at measured-RUN.csv (or .h5): `time`, 0 at 0 s of what is played, and",
            "the channels below. The folder's lab.toml says how columns are named, in what unit, when passes begin.",
        ]

    # Reading ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def read(folder: Path, stage: Stage) -> Sheet:
        """The sheet in a folder."""
        path = folder / SHEET
        data = tables(path, SECTIONS)
        told = _checked(path, data.get("shot", {}), stage.bench)
        limits = stage.bench.parameters
        refuse_unknown(f"{path}: parameters", data.get("parameters", {}), limits)
        parameters = {
            name: _quantity(value, limits[name].unit, f"{path}: parameters.{name}")
            for name, value in data.get("parameters", {}).items()
        }
        start = None
        if "start" in data:
            refuse_unknown(f"{path}: start", data["start"], ("positions", "momenta"))
            positions, momenta = (dict(data["start"].get(half, {})) for half in ("positions", "momenta"))
            refuse_unknown(f"{path}: start", {**positions, **momenta}, stage.bench.nodes)
            start = positions, momenta
        steps, early = told["steps"], told["prepared"]
        drive, nudge = _played(folder, stage, told["runs"], steps, early)
        prepared = None
        if early:
            before, pushed = ({k: w[:early] for k, w in waves.items()} for waves in (drive, nudge))
            prepared = Shot(early, before, pushed, start, hold=True)
            drive = {k: stage.signs[k] * w[early:][::-1] for k, w in drive.items()}
            nudge = {k: w[early:] for k, w in nudge.items()}
        shot = Shot(
            steps, drive, nudge, None if early else start, told["echo"], told["hold"], told["paired"], told["channels"]
        )
        return Sheet(shot, parameters, prepared, data.get("measured", {}))


def _checked(path: Path, told: Mapping[str, Any], bench: Description) -> dict[str, Any]:
    """Section `[shot]`, complete."""
    refuse_unknown(f"{path}: shot", told, KEYS)
    found: dict[str, Any] = {
        "runs": 1, "prepared": 0, "echo": False, "hold": False, "paired": False,
        "channels": list(bench.channels), **told,
    }  # fmt: skip
    for key, least in (("steps", 1), ("runs", 1), ("prepared", 0)):
        value = found.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ArgumentError(
                f"Argument `{path}: shot.{key}` must be a whole number of at least {least}, but is {value!r}"
            )
    for key in ("echo", "hold", "paired"):
        if not isinstance(found[key], bool):
            raise ArgumentError(f"Argument `{path}: shot.{key}` must be true or false, but is {found[key]!r}")
    if found["echo"] != (found["prepared"] > 0):
        raise ArgumentError(
            f"Argument `{path}: shot.prepared` must be the number of steps before the turn of an echo, and 0 of any "
            f"other pass, but is {found['prepared']}"
        )
    if told.get("design", bench.design) != bench.design:
        raise ArgumentError(
            f"Argument `{path}: shot.design` must be {bench.design!r}, but is {told['design']!r}: use another folder"
        )
    if "step" in told and abs(_quantity(told["step"], "s", f"{path}: shot.step") / bench.step_s - 1) > 1e-9:
        raise ArgumentError(
            f"Argument `{path}: shot.step` must be that of the design, {to_text(bench.step_s, 's')}, but is "
            f"{told['step']}"
        )
    if not isinstance(found["channels"], list):
        raise ArgumentError(f"Argument `{path}: shot.channels` must be a list of names, but is {found['channels']!r}")
    refuse_unknown(f"{path}: shot.channels", found["channels"], bench.channels)
    return found


def tables(path: Path, sections: tuple[str, ...]) -> dict[str, Any]:
    """Sections of a sheet."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ArgumentError(f"Argument `{path}` must be a sheet in TOML, but {str(problem)[:160]}") from None
    for section, table in data.items():
        if section not in sections or not isinstance(table, dict):
            raise ArgumentError(
                f"Argument `{path}` must have sections {', '.join(sections)}, but has {section!r}"
                f"{nearest(section, sections)}"
            )
    return data


def _played(
    folder: Path, stage: Stage, runs: int, steps: int, early: int
) -> tuple[dict[str, Samples], dict[str, Samples]]:
    """Drives and nudges (steps, runs) as they are played, from the files of all runs."""
    files = [csv.read(folder / f"play-{run + 1}.csv") for run in range(runs)]
    known = stage.columns
    starts = stage.bench.step_s * np.arange(-early, steps)
    found: dict[str, list[Samples]] = {}
    for file in files:
        where = file.source
        times = _si(file, "time", "s", where)
        if len(times) != len(starts) or np.max(np.abs(times - starts)) > EARLY * stage.bench.step_s:
            raise ArgumentError(
                f"Argument `{where}` must have a line for every step, from {starts[0]:g} s to {starts[-1]:g} s, but "
                f"has {len(times)} from {times[0]:g} s to {times[-1]:g} s"
            )
        refuse_unknown(where, file.columns, ("time", *known))
        for name, unit in known.items():
            wave = _si(file, name, unit, where) if name in file.columns else np.zeros(len(starts))
            found.setdefault(name, []).append(wave)
    halves: dict[str, dict[str, Samples]] = {"drive": {}, "nudge": {}}
    for name, waves in found.items():
        what, _, key = name.partition(".")
        halves[what][key] = np.stack(waves, axis=1)
    return halves["drive"], halves["nudge"]


def _si(table: Table, name: str, due: str, where: str) -> Samples:
    column = table[name]
    if column.unit is None:
        raise ArgumentError(f"Argument `{where}: {name}` must state its unit, as in `{name} [{due or 1}]`")
    try:
        return np.asarray(factor(column.unit, due) * column.values)
    except UnitError as problem:
        raise ArgumentError(f"Argument `{where}: {name}` is refused: it {problem}") from None


def _column(shot: Shot, what: str, key: str, run: int) -> Samples:
    """(steps,) of one run of a waveform, or silence."""
    wave = getattr(shot, what).get(key)
    return np.zeros(shot.steps) if wave is None else wave[:, run % wave.shape[1], 0]


def _alone(shot: Shot) -> Shot:
    """What counts of a pass that prepares another: what is played, not what is read."""
    return Shot(shot.steps, shot.drive, shot.nudge, shot.start)


def _quantity(value: Any, unit: str, where: str) -> float:
    try:
        return to_si(value, unit)
    except UnitError as problem:
        raise ArgumentError(f"Argument `{where}` is refused: it {problem}") from None
