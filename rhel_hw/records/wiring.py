"""Which column of a measured file is which channel of a bench, in what unit, and when the pass begins in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from devices import ArgumentError, UnitError, nearest, to_si
from devices.units import parse
from rhel_hw.bench import Channel, Description, Kind, Record, Samples, Shot, sample_count, sample_times
from rhel_hw.records import csv, hdf5
from rhel_hw.records.columns import Table, factor, heading, titled
from rhel_hw.records.traces import Trace

TEXTS, HDF5 = (".csv", ".txt", ".tsv"), (".h5", ".hdf5")
"""Endings of the names of files that can be read."""

TIME = "time"


@dataclass(frozen=True)
class Wire:
    """One column, as what it is taken for."""

    column: str
    unit: str | None = None
    """Of its numbers, where the file does not state one."""
    scale: str | None = None
    """Quantity by which they are multiplied: a capacitance turns volts into the charge of a node."""
    full_scale: str | None = None
    """Largest magnitude that the instrument could read, before `scale`: what reaches it is flagged as saturated."""


@dataclass(frozen=True)
class Wiring:
    """How measured files are read."""

    wires: Mapping[str, Wire] = field(default_factory=dict)
    """By channel, and `time`; columns that are named as the channel need none."""
    begins_s: float = 0.0
    """Time stamp at which the pass begins."""
    pulse_s: float = 0.0
    """How long the impulse of a nudge lasts: momenta that were sampled meanwhile are left out."""
    si: bool = False
    """Whether columns that state no unit are in SI."""
    skip: int = 0
    """Lines of a text file before its heading."""

    @staticmethod
    def of(table: Mapping[str, Any], bench: Description, source: str) -> Wiring:
        """Wiring of section `[measured]` of a sheet."""
        known = ("columns", "begins", "pulse", "units", "skip")
        for key in table:
            if key not in known:
                raise ArgumentError(f"Argument `{source}: measured.{key}` must be one of its keys{nearest(key, known)}")
        times = {}
        for key in ("begins", "pulse"):
            try:
                times[key] = to_si(table.get(key, 0.0), "s")
            except UnitError as problem:
                raise ArgumentError(f"Argument `{source}: measured.{key}` is refused: it {problem}") from None
        if not 0 <= times["pulse"] < bench.step_s:
            raise ArgumentError(
                f"Argument `{source}: measured.pulse` must be shorter than a step of {bench.step_s:g} s, but is "
                f"{times['pulse']:g} s"
            )
        skip, units = table.get("skip", 0), table.get("units")
        if isinstance(skip, bool) or not isinstance(skip, int) or skip < 0:
            raise ArgumentError(f"Argument `{source}: measured.skip` must be a number of lines, but is {skip!r}")
        if units not in (None, "SI"):
            raise ArgumentError(f'Argument `{source}: measured.units` must be "SI" or left out, but is {units!r}')
        columns = table.get("columns", {})
        if not isinstance(columns, Mapping):
            raise ArgumentError(f"Argument `{source}: measured.columns` must be a table, but is {columns!r}")
        names = (TIME, *bench.channels)
        for name in columns:
            if name not in names:
                raise ArgumentError(
                    f"Argument `{source}: measured.columns` must name channels, but has {name!r}{nearest(name, names)}"
                )
        wires = {name: _wire(given, f"{source}: measured.columns.{name}") for name, given in columns.items()}
        return Wiring(wires, times["begins"], times["pulse"], units == "SI", skip)

    def read(self, path: Path) -> Table:
        """The columns of a file."""
        if path.suffix.lower() in TEXTS:
            return csv.read(path, self.skip)
        if self.skip:
            raise ArgumentError(f"Argument `measured.skip` must be 0 where {path} has no lines, but is {self.skip}")
        return hdf5.read(path)

    def record(self, tables: Sequence[Table], shot: Shot, bench: Description) -> Record:
        """The record of a shot, of which every run has a table."""
        times: dict[str, Samples] = {}
        samples: dict[str, Samples] = {}
        flags: dict[str, Any] = {}
        read = [bench.channels[name] for name in (bench.channels if shot.channels is None else shot.channels)]
        for channel in read:
            count = sample_count(channel.kind, shot.steps, bench.decimation)
            times[channel.name] = sample_times(channel.kind, count, bench.decimation, bench.step_s)
            runs = [
                self._run(table, channel, times[channel.name], _impulses(shot, channel, bench, i), bench.step_s)
                for i, table in enumerate(tables)
            ]
            samples[channel.name] = np.stack([values for values, _ in runs], axis=1)[:, :, None]
            if any(over is not None for _, over in runs):
                flags[channel.name] = np.stack([over for _, over in runs], axis=1)[:, :, None]
        return Record(times, samples, {channel.name: channel.unit for channel in read}, flags)

    def _run(
        self, table: Table, channel: Channel, instants: Samples, impulses: Samples, step_s: float
    ) -> tuple[Samples, Any]:
        """Samples of one run, and which of them are saturated, if its range is known."""
        wire = self.wires.get(channel.name, Wire(channel.name))
        stamps = self._si(table, self.wires.get(TIME, Wire(TIME)), "s") - self.begins_s
        trace = Trace(f"{table.source}: {wire.column}", stamps, self._si(table, wire, channel.unit))
        found = trace.at(instants, step_s, impulses, self.pulse_s)
        if wire.full_scale is None:
            return found, None
        raw, unit = table[wire.column].values, self._unit(table, wire)
        return found, trace.near(np.abs(raw) >= _range(wire.full_scale, unit, trace.name), instants)

    def _unit(self, table: Table, wire: Wire) -> str | None:
        """In what the numbers of a column are; None if nobody says so."""
        stated = table[wire.column].unit
        if stated is not None and wire.unit is not None and stated != wire.unit:
            raise ArgumentError(
                f"Argument `{table.source}: {wire.column}` must be in the unit that the sheet states, `{wire.unit}`, "
                f"but is in `{stated}`"
            )
        return wire.unit if stated is None else stated

    def _si(self, table: Table, wire: Wire, due: str) -> Samples:
        """Numbers of a column in SI."""
        unit = self._unit(table, wire)
        if unit is None and not self.si:
            example = titled(wire.column, "ms" if due == "s" else f"m{due}" if due.isalpha() else due)
            raise ArgumentError(
                f"Argument `{table.source}: {wire.column}` must state its unit, as in `{example}`, in the file or in "
                '[measured.columns]; or state `units = "SI"` there for all that do not'
            )
        try:
            if unit is None:
                size = 1.0 if wire.scale is None else parse(wire.scale)[0]
            else:
                size = factor(unit, due, wire.scale)
        except UnitError as problem:
            raise ArgumentError(f"Argument `{table.source}: {wire.column}` is refused: it {problem}") from None
        return np.asarray(size * table[wire.column].values)


def _impulses(shot: Shot, channel: Channel, bench: Description, run: int) -> Samples:
    """(steps,) by which nudges make a channel jump."""
    found = np.zeros(shot.steps)
    for name, wave in shot.nudge.items():
        if channel.kind is Kind.MOMENTUM and bench.channels[f"target.{name}"].node == channel.node:
            found += wave[:, run if wave.shape[1] > 1 else 0, 0]
    return found


def _range(text: str, unit: str | None, name: str) -> float:
    """Full scale in the unit of the column."""
    size, powers = parse(text)
    per, due = parse(f"1 {unit or ''}")
    if size <= 0 or (powers is not None and powers != (due or (0, 0, 0, 0))):
        raise ArgumentError(f"Argument `{name}` must have a `full_scale` in its own unit, but has {text!r}")
    return (1 - 1e-9) * (size if powers is None else size / per)


def _wire(given: Any, where: str) -> Wire:
    known = [f.name for f in fields(Wire)]
    table = {"column": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("column"), str):
        raise ArgumentError(
            f'Argument `{where}` must be a column such as "CH1 [mV]", or a table with one, but is {given!r}'
        )
    for key, value in table.items():
        if key not in known:
            raise ArgumentError(f"Argument `{where}.{key}` must be one of its keys{nearest(key, known)}")
        if not isinstance(value, str):
            raise ArgumentError(f"Argument `{where}.{key}` must be text, but is {value!r}")
    name, unit = heading(table["column"])
    if unit is not None and table.get("unit", unit) != unit:
        raise ArgumentError(f"Argument `{where}` must state one unit, but states `{unit}` and `{table['unit']}`")
    for key in sorted({"unit", "scale", "full_scale"} & set(table)):
        try:
            parse(f"1 {table[key]}" if key == "unit" else table[key])
        except UnitError as problem:
            raise ArgumentError(f"Argument `{where}.{key}` is refused: {problem}") from None
    return Wire(**{**table, "column": name, "unit": unit if unit is not None else table.get("unit")})
