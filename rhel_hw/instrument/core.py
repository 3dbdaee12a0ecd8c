"""What an instrument is between two commands: its bench, its formats, the next shot, the last record, its status.

A pass runs beside the commands: it is begun and looked after here, and whatever needs its end waits for it. All of this
outlives a connection.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.bench import Bench, Record, Samples, Shot, refuse_unable, refuse_unknown
from rhel_hw.instrument.faults import COMPLETE, MEASURING, SATURATED, Fault, Status
from rhel_hw.instrument.syntax import block_header

Piece = bytes | memoryview
Answer = str | Iterable[Piece]
"""What a query is answered by: text, or bytes in pieces."""
Given = memoryview | list[float]
"""Numbers of an argument: bytes of a block, or one by one."""
WRITTEN = 4096
"""Numbers that are written as text at a time."""


@dataclass
class Format:
    """How numbers are written."""

    real: bool = True
    """As bytes; else as text."""
    bits: int = 32
    swapped: bool = True
    """Whether the lowest byte comes first."""

    @property
    def type(self) -> str:
        """As NumPy has it."""
        return f"{'<' if self.swapped else '>'}f{self.bits // 8}"

    def data(self, *arrays: Samples) -> Answer:
        """Numbers of arrays, one after the other, as they are sent."""
        # One piece at a time: the first is on its way before the last is written.
        if not self.real:
            flat = chain.from_iterable(np.array_split(a.ravel(), -(-a.size // WRITTEN) or 1) for a in arrays)
            texts = (",".join(map(repr, part.tolist())) for part in flat if part.size)
            return ((text if first else f",{text}").encode() for first, text in _marked(texts))
        if self.bits == 32:
            for array in arrays:
                _refuse_unless_single(array)
        kind = self.type
        pieces = (np.ascontiguousarray(a, kind).reshape(-1).view(np.uint8).data for a in arrays)
        return chain([block_header(sum(a.size for a in arrays) * self.bits // 8)], pieces)

    def numbers(self, values: Given) -> Samples:
        """Numbers that were sent."""
        if isinstance(values, list):
            return np.array(values, np.float64)
        if not self.real:
            raise Fault(-221, "a block has no meaning in format ASCii: say FORMat REAL,64 first")
        if len(values) % (self.bits // 8):
            raise Fault(-161, f"a block of {len(values)} bytes has no whole number of {self.bits}-bit numbers")
        found = np.frombuffer(values, self.type).astype(np.float64)
        if not np.all(np.isfinite(found)):
            raise Fault(-222, "numbers must be finite")
        return found


def _marked(texts: Iterable[str]) -> Iterator[tuple[bool, str]]:
    """Texts, and whether each is the first."""
    return zip(chain([True], repeat(False)), texts, strict=False)


def _refuse_unless_single(array: Samples) -> None:
    """Refuse numbers that single precision has not."""
    size = np.abs(array)
    limits = np.finfo(np.float32)
    if np.any(size > limits.max) or np.any((size > 0) & (size < limits.tiny)):
        raise Fault(-222, "the numbers are beyond what 32 bits can hold: say FORMat REAL,64 first")


def packed(data: bytes | memoryview) -> Answer:
    """Bytes as a block."""
    return (block_header(len(data)), data)


@dataclass
class Wave:
    """A waveform as it was sent: numbers in a row, for every chip its own or the same for all."""

    values: Samples
    each: bool


@dataclass
class Settings:
    """What the next pass is told to do."""

    steps: int | None = None
    echo: bool = False
    hold: bool = False
    paired: bool = False
    channels: tuple[str, ...] | None = None
    drive: dict[str, Wave] = field(default_factory=dict)
    nudge: dict[str, Wave] = field(default_factory=dict)
    positions: dict[str, float] = field(default_factory=dict)
    momenta: dict[str, float] = field(default_factory=dict)
    trim: dict[str, Samples] = field(default_factory=dict)
    """Angles and factors by node, (2, 1 or chips)."""
    amplify: bool = False
    ranges: dict[str, float] = field(default_factory=dict)

    def shot(self, chips: int) -> Shot:
        """The shot that this comes to."""
        if self.steps is None:
            raise Fault(-221, "SHOT:STEPs must be set before a pass")
        waves = {
            what: {name: self._shaped(f"{what} {name}", wave, chips) for name, wave in given.items()}
            for what, given in (("drive", self.drive), ("nudge", self.nudge))
        }
        start = (self.positions, self.momenta) if self.positions or self.momenta else None
        try:
            return Shot(
                self.steps, waves["drive"], waves["nudge"], start, self.echo, self.hold, self.paired, self.channels,
                {node: (pair[0], pair[1]) for node, pair in self.trim.items()}, self.amplify, self.ranges,
            )  # fmt: skip
        except ArgumentError as problem:
            raise Fault(-221, str(problem)) from None

    def _shaped(self, name: str, wave: Wave, chips: int) -> Samples:
        assert self.steps is not None  # asked for before
        chips = chips if wave.each else 1
        runs, rest = divmod(len(wave.values), self.steps * chips)
        if rest or not runs:
            per = f"{self.steps} steps" + (f" and {chips} chips" if wave.each else "")
            raise Fault(-221, f"{name} has {len(wave.values)} values, which is no multiple of {per}")
        return wave.values.reshape(self.steps, runs, chips)


class Instrument:
    """A bench behind commands.

    Arguments:
        bench: whatever answers to the interface.
        netlist: the design as a file, for controllers that do not have it.
        pool: where the bench works, one thing at a time.
        most_bytes: of one message.
        most_values: of one waveform.
    """

    def __init__(self, bench: Bench, netlist: str, pool: Executor, most_bytes: int, most_values: int) -> None:
        self.bench, self.netlist = bench, netlist
        self.most_bytes, self.most_values = most_bytes, most_values
        self._pool = pool
        self.description = bench.describe()
        self.status = Status()
        self.staged: dict[str, NDArray[np.float64]] = {}
        self.applied: dict[str, NDArray[np.float64]] = {}
        self.tells = False
        """Whether the end of the pass is an event."""
        self.passes = 0
        self._pending: asyncio.Task[None] | None = None
        self._kept = True
        self.reset()

    def reset(self) -> None:
        """Shot, formats and record as after switching on."""
        self.settings, self.format, self.staged = Settings(), Format(), {}
        self._record: Record | None = None
        self.status.questionable.change(SATURATED, False)

    # The bench -------------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether a pass is under way."""
        return self._pending is not None and not self._pending.done()

    async def idle(self, seconds: float | None = None) -> None:
        """Wait until no pass is under way, at most so long."""
        if self._pending is not None and self.busy:
            await asyncio.wait([self._pending], timeout=seconds)

    async def on_bench(self, work: Callable[[], Any]) -> Any:
        """Let the bench do something, beside which connections are looked after."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def start(self) -> None:
        """Begin a pass, and go on at once."""
        if self.busy:
            raise Fault(-213, "a pass is under way")
        shot = self.settings.shot(self.description.chips)
        try:
            refuse_unable(shot, self.description)
        except ArgumentError as problem:
            raise Fault(-221, str(problem)) from None
        self._record, self._kept = None, True
        self.status.questionable.change(SATURATED, False)
        self.status.operation.change(MEASURING, True)
        self._pending = asyncio.get_running_loop().create_task(self._pass(shot))

    async def _pass(self, shot: Shot) -> None:
        try:
            record = await self.on_bench(lambda: self.bench.run(shot))
        except ArgumentError as problem:
            self.status.add(Fault(-200, str(problem)))
        except Exception as problem:
            self.status.add(unforeseen(problem))
        else:
            self.passes += 1
            self._record = record if self._kept else None
            self.status.questionable.change(SATURATED, self._kept and bool(record.clipped))
        self.status.operation.change(MEASURING, False)
        if self.tells:
            self.tells = False
            self.status.events.event |= COMPLETE

    def abort(self) -> None:
        """Keep no record of the pass that is under way."""
        self._kept = False

    def record(self, *names: str) -> Record:
        """The record, if it has these channels."""
        if self._record is None:
            raise Fault(-230, "there is no record: begin a pass by INITiate")
        for name in names:
            refuse("channel", name, self.description.channels)
            if name not in self._record.samples:
                raise Fault(-221, f"channel {name} was not read: see SHOT:CHANnels")
        return self._record

    def keep_wave(self, what: str, name: str, values: Given, *, each: bool) -> None:
        """Keep a waveform of a drive or a nudge for the next pass."""
        known = {"drive": self.description.drives, "nudge": self.description.nudges}
        refuse(what, name, known[what])
        numbers = self.format.numbers(values)
        if len(numbers) > self.most_values:
            raise Fault(-223, f"a waveform has at most {self.most_values} values, not {len(numbers)}")
        getattr(self.settings, what)[name] = Wave(numbers, each)


def refuse(what: str, name: str, known: Mapping[str, Any]) -> None:
    """Refuse a name that is not known."""
    try:
        refuse_unknown(what, {name: None}, known)
    except ArgumentError as problem:
        raise Fault(-224, str(problem)) from None


def unforeseen(problem: Exception) -> Fault:
    """An error of ours, which must not take the instrument down: told to the controller, and in full to the log."""
    traceback.print_exception(problem, file=sys.stderr)
    return Fault(-310, f"{type(problem).__name__}: {problem}")
