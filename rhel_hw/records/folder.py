"""A bench without an instrument server: a folder in which passes wait for somebody to play and measure them.

Every pass that is asked for has a folder of its own (`rhel_hw.records.sheet`). If what was measured of it is there, it
is the answer; if not, what to play is written, and the message says what to do. Asked again from the beginning, the
bench answers what is known and comes one pass further.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from circuits import Design
from devices import ArgumentError, nearest
from rhel_hw.bench import Description, Record, Shot, programmable, runs_of
from rhel_hw.emulated import EmulatedBench
from rhel_hw.files import folder, write_text
from rhel_hw.profile import Profile
from rhel_hw.records.columns import Table
from rhel_hw.records.sheet import SHEET, Sheet, Stage, tables
from rhel_hw.records.wiring import HDF5, TEXTS, Wiring
from rhel_hw.replay import Recording

LAB = "lab.toml"
OPERATIONS = ("momentum-flip", "sign-flip")

TEMPLATE = """\
# How passes are played and measured here. `rhel-hw gradient DESIGN --bench FOLDER` writes a folder for every pass that
# it needs; put what was measured of its runs there as measured-1.csv, measured-2.csv, … (or .h5), and run it again.

[bench]
operation = "momentum-flip"     # how the device is turned round for an echo; or "sign-flip"

[measured]                      # a shot.toml may have one of its own, which counts more
begins = "0 s"                  # time stamp at which a pass begins, as play-RUN.csv has it at 0 s
pulse = "0 s"                   # how long the impulse of a nudge lasts: momenta sampled meanwhile are left out
skip = 0                        # lines of a text file before its heading
# units = "SI"                  # of columns that state none

[measured.columns]              # where a column is not named as the channel; what is not measured is no probe
# time = "TIME [us]"
"""
EXAMPLES = {
    "C": '{ column = "CH1 [mV]", scale = "1 nF", full_scale = "500 mV" }',
    "Wb": '{ column = "CH2 [mA]", scale = "25 uH" }',
}
"""Columns that are read as something else, by the unit of the channel."""


class AwaitedError(ArgumentError):
    """A pass that has to be measured before anything can go on."""

    exit_code = 3


class FolderBench:
    """A bench whose passes are played and measured by hand, or by a script, and lie in a folder.

    Arguments:
        design: the compiled design; channels and ranges are those of its ideal bench.
        path: the folder; made when the first pass is asked for.
    """

    def __init__(self, design: Design, path: str | Path) -> None:
        self._path = Path(path)
        lab = tables(self._path / LAB, ("bench", "measured")) if (self._path / LAB).exists() else {}
        own = lab.get("bench", {})
        for key in own:
            if key != "operation":
                raise ArgumentError(
                    f"Argument `{self._path / LAB}: bench.{key}` must be one of its keys{nearest(key, ('operation',))}"
                )
        operation = own.get("operation", OPERATIONS[0])
        if operation not in OPERATIONS:
            raise ArgumentError(
                f"Argument `{self._path / LAB}: bench.operation` must be one of {', '.join(OPERATIONS)}, but is "
                f"{operation!r}"
            )
        profile = Profile() if operation == OPERATIONS[0] else Profile().set("echo.operation", operation)
        told = replace(EmulatedBench(design, profile).describe(), trims=False, amplifies=False)
        self._stage = Stage(told, design.netlist)
        self._measured: Mapping[str, Any] = lab.get("measured", {})
        Wiring.of(self._measured, told, str(self._path / LAB))  # refused before anything is played
        places = sorted((file.parent for file in self._path.glob(f"*/{SHEET}")), key=lambda p: (_number(p), p.name))
        self._sheets = {place: Sheet.read(place, self._stage) for place in places}
        for place, sheet in self._sheets.items():
            Wiring.of(sheet.measured, told, str(place / SHEET))
        self._programmed: dict[str, float] = {}
        self._held: Shot | None = None
        self._passes, self._seconds = 0, 0.0

    # The interface ---------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        """That of the ideal bench of the design, and what was used so far."""
        return replace(self._stage.bench, passes=self._passes, seconds=self._seconds)

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters by name, in SI: they are on the sheets of passes that follow."""
        self._programmed |= programmable(parameters, self._stage.bench.parameters)

    def run(self, shot: Shot) -> Record:
        """What was measured of a pass, or `AwaitedError` with what to play."""
        asked = self._asked(shot)
        place = next((place for place, sheet in self._sheets.items() if sheet.same(asked)), None)
        if place is None:
            place = self._write(asked)
        record = self._record(place)
        self._passes += asked.shot.runs
        self._seconds += asked.shot.runs * shot.steps * self._stage.bench.step_s
        if shot.hold or not shot.echo:
            self._held = asked.shot if shot.hold else None
        return record

    # What is there ---------------------------------------------------------------------------------------------------

    def recording(self) -> Recording:
        """All passes of the folder, to be saved as one file; refused while some are not measured."""
        if not self._sheets:
            raise ArgumentError(f"Argument `{self._path}` must have folders with a {SHEET} each, but has none")
        records = [(sheet, self._record(place)) for place, sheet in self._sheets.items()]
        found = Recording(self._stage.bench)
        for sheet, record in records:
            found.add(sheet.shot, record, sheet.parameters)
        return found

    def _record(self, place: Path) -> Record:
        """What was measured of a pass."""
        sheet = self._sheets[place]
        files = [_measured(place, run + 1) for run in range(sheet.shot.runs)]
        if missing := [f"measured-{run}.csv" for run, file in enumerate(files, 1) if file is None]:
            played = [name.replace("measured", "play") for name in missing]
            kind = "echo" if sheet.shot.echo else "free pass"
            raise AwaitedError(
                f"The {kind} in {place} is not measured yet: play {_listed(played)} as its {SHEET} says, put what is "
                f"measured there as {_listed(missing)} (or .h5), and run this again"
            )
        given = {**self._measured, **sheet.measured}
        given["columns"] = {**self._measured.get("columns", {}), **sheet.measured.get("columns", {})}
        wiring = Wiring.of(given, self._stage.bench, str(place / SHEET))
        read: list[Table] = []
        for file in files:
            assert file is not None
            read.append(wiring.read(file))
        return wiring.record(read, sheet.shot, self._stage.bench)

    # What is asked ---------------------------------------------------------------------------------------------------

    def _asked(self, shot: Shot) -> Sheet:
        """The sheet of a shot, all of whose runs have their own waveforms."""
        bench, held = self._stage.bench, self._held if shot.echo else None
        runs = runs_of(shot, bench, None if held is None else held.runs)
        channels = tuple(bench.channels if shot.channels is None else shot.channels)
        asked = _spread(replace(shot, channels=channels), runs)
        return Sheet(asked, dict(self._programmed), None if held is None else _spread(held, runs))

    def _write(self, sheet: Sheet) -> Path:
        folder(self._path, "--bench")
        if not (self._path / LAB).exists():
            write_text(self._path / LAB, TEMPLATE + "\n".join(_examples(self._stage.bench)) + "\n")
        number = 1 + max(map(_number, self._sheets), default=0)
        place = folder(self._path / f"{number:03d}-{'echo' if sheet.shot.echo else 'free'}", "--bench")
        sheet.write(place, self._stage)
        self._sheets[place] = Sheet.read(place, self._stage)
        return place


def _examples(bench: Description) -> Iterator[str]:
    """One line for every unit that channels have."""
    for unit, channel in {c.unit: c for c in bench.channels.values()}.items():
        yield f'# "{channel.name}" = ' + EXAMPLES.get(unit, f'"CH1 [{unit or 1}]"')


def _number(place: Path) -> int:
    """By which passes are counted; 0 of one that somebody named."""
    number = place.name.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def _measured(place: Path, run: int) -> Path | None:
    """The file of a run, if it is there."""
    found = [file for kind in (*TEXTS, *HDF5) if (file := place / f"measured-{run}{kind}").exists()]
    if len(found) > 1:
        raise ArgumentError(f"Argument `{place}` must have one file of run {run}, but has {_listed(map(str, found))}")
    return found[0] if found else None


def _spread(shot: Shot, runs: int) -> Shot:
    """The same with waveforms of all runs; silent ones, if it has none."""

    def tiled(waves: Mapping[str, Any]) -> dict[str, Any]:
        return {name: np.tile(wave, (1, runs // wave.shape[1], 1)) for name, wave in waves.items()}

    return replace(shot, drive=tiled(shot.drive), nudge=tiled(shot.nudge))


def _listed(names: Any) -> str:
    *most, last = list(names)
    return f"{', '.join(most)} and {last}" if most else last
