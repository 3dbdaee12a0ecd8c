"""A bench at a VISA address: the interface of a bench, spoken over an instrument's connection."""

from __future__ import annotations

import contextlib
import json
import math
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Netlist
from devices import ArgumentError, refuse_unless_positive
from rhel_hw.bench import Description, Kind, Record, Samples, Shot, Waveforms, refuse_unable, sample_times
from rhel_hw.instrument.syntax import block_header, quoted

READ = 2**20
"""Bytes asked for at a time."""
MANY = 2**16
"""Bytes from which it pays to pass PyVISA by."""
ALIGNED = 64
"""Bytes at whose multiples numbers begin that JAX reads in place."""
MAKER = "rhel-hw"
EXAMPLE = "TCPIP::127.0.0.1::5025::SOCKET"
ERRORS = "SYST:ERR:ALL?"
LONGEST_POLL_S = 2.0
"""For how long the instrument may keep us waiting for the end of a pass before it says that it is not over."""


class InstrumentError(ArgumentError):
    """An instrument that refuses something, or cannot be reached."""


class RemoteBench:
    """A bench that answers at a VISA address, such as ``"TCPIP::127.0.0.1::5025::SOCKET"``.

    Arguments:
        address: as VISA has it.
        timeout_s: for how long an answer may keep us waiting. A pass may take longer.
        library: of PyVISA; "@py" is the one written in Python.
    """

    def __init__(self, address: str, *, timeout_s: float = 10.0, library: str = "@py") -> None:
        refuse_unless_positive(timeout_s=timeout_s)
        self._address, self._met = address, False
        self._poll_s = min(LONGEST_POLL_S, timeout_s / 2)
        self._most_bytes, self._most_values = 10_000, 0  # until it says how many
        self._resource: Any = _opened(address, timeout_s, library)
        self._wire = _Wire.of(self._resource, timeout_s)
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        self._write(b"*IDN?\n")
        told = self._line()
        self._met = True
        if told.startswith("-"):
            raise InstrumentError(f"The instrument at {self._address} refuses: {told}")
        if told.split(",")[0] != MAKER:
            raise InstrumentError(f"The instrument at {self._address} is no bench of {MAKER}: it says {told!r}")
        self._await_pass()  # of whoever was here before
        self._do(b"*RST;*CLS;:FORM REAL,64;:FORM:BORD SWAP")
        self._most_bytes, self._most_values = map(int, self._ask("SYST:LIM?").split(","))
        self._description = Description.of(self._json("DES:DESC?"))

    # The interface ---------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        """Channels, ranges, clock, and what was used so far."""
        passes, seconds = self._ask("DES:USED?").split(",")
        return replace(self._description, passes=int(passes), seconds=float(seconds))

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters by name, in SI, one number or one per chip; the others stay."""
        parts: list[bytes | memoryview] = [b":PAR:CLE"]
        for name, value in parameters.items():
            parts += [f";:PAR {quoted(name)},".encode(), *_block(value)]
        self._do(b"".join([*parts, b";:PAR:APPL"]))

    def run(self, shot: Shot) -> Record:
        """Make a pass."""
        for name, wave in (*shot.drive.items(), *shot.nudge.items()):
            if wave.size > self._most_values:
                raise InstrumentError(
                    f"Argument `shot` must have waveforms of at most {self._most_values} values, but {name} has "
                    f"{wave.size}: see `rhel-hw serve --waveform-values`"
                )
        refuse_unable(shot, self._description)
        self._do(b"".join(_message(shot)))
        self._await_pass()
        self._refuse(self._ask(ERRORS))
        return self._fetched()

    def _await_pass(self) -> None:
        while self._ask(f"INIT:DONE? {self._poll_s:g}") == "0":
            pass

    # Beside the interface --------------------------------------------------------------------------------------------

    @cached_property
    def netlist(self) -> Netlist:
        """The design that is on the bench, as drawn."""
        from circuits.formats import toml

        return toml.read(bytes(self._block("DES:NETL?")).decode())

    def close(self) -> None:
        """Let another controller have it."""
        if self._resource is not None:
            with contextlib.suppress(Exception):  # it may be gone already
                self._resource.close()
            self._resource = None

    def __enter__(self) -> RemoteBench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Records ---------------------------------------------------------------------------------------------------------

    def _fetched(self) -> Record:
        header = self._json("FETC:HEAD?")
        told, clock = header["channels"], self._description
        every, step = clock.decimation, clock.step_s
        times: dict[str, Samples] = {}
        samples: dict[str, Samples] = {}
        blocks: dict[tuple[str, ...], Samples] = {}
        for kind in Kind:
            names = tuple(name for name in told if clock.channels[name].kind is kind)
            if names:
                count, *lanes = told[names[0]]["shape"]
                asked = f"FETC:BLOC? {','.join(map(quoted, names))}"
                block = blocks[names] = self._numbers(asked, (count, len(names), *lanes))
                samples |= {name: block[:, i] for i, name in enumerate(names)}
                times |= dict.fromkeys(names, sample_times(kind, count, every, step))
        return Record(
            {name: times[name] for name in told},
            {name: samples[name] for name in told},
            {name: entry["unit"] for name, entry in told.items()},
            {name: self._flags(name, entry) for name, entry in header["saturated"].items()},
            blocks,
        )

    def _numbers(self, query: str, shape: tuple[int, ...]) -> Samples:
        data = self._block(query)
        if 8 * math.prod(shape) != len(data):
            raise self._lost(f"a record of {8 * math.prod(shape)} bytes came with {len(data)}")
        return np.frombuffer(data, "<f8").reshape(shape)

    def _flags(self, name: str, entry: Mapping[str, Any]) -> NDArray[np.bool_]:
        if not entry["count"]:
            return np.zeros(entry["shape"], bool)
        bits = np.frombuffer(self._block(f"FETC:SAT? {quoted(name)}"), np.uint8)
        return np.unpackbits(bits, count=math.prod(entry["shape"])).reshape(entry["shape"]).astype(bool)

    # The wire --------------------------------------------------------------------------------------------------------

    def _ask(self, query: str) -> str:
        self._write(query.encode() + b"\n")
        return self._line()

    def _json(self, query: str) -> Any:
        return json.loads(bytes(self._block(query)))

    def _block(self, query: str) -> bytes | memoryview:
        self._write(query.encode() + b"\n")
        self._resource.read_termination = None  # or every line feed among the numbers would end a reading
        try:
            start = bytes(self._read(2))
            if start[:1] != b"#" or not start[1:].isdigit():
                raise self._lost(f"{query.split()[0]} was answered by {start!r} instead of a block")
            data = self._read(int(bytes(self._read(int(start[1:])))))
            if self._read(1) != b"\n":
                raise self._lost(f"the answer to {query.split()[0]} has no end")
            return data
        finally:
            if self._resource is not None:
                self._resource.read_termination = "\n"

    def _do(self, message: bytes) -> None:
        """Send a message that has no answer, and raise what it did wrong."""
        if len(message) > self._most_bytes:
            raise InstrumentError(
                f"The instrument at {self._address} takes messages of at most {self._most_bytes} bytes, but this one "
                f"has {len(message)}: see `rhel-hw serve --message-mib`"
            )
        self._write(b"%b\n%b\n" % (message, ERRORS.encode()))  # in one go: the second does not wait for the first
        self._refuse(self._line())

    def _refuse(self, told: str) -> None:
        """Raise the first of the errors that an instrument tells, if there are any."""
        if told.startswith("0,"):
            return
        first = told.partition('"')[2].partition('"')[0]
        raise InstrumentError(first.partition(";")[2] or f"The instrument at {self._address} says {told}")

    def _line(self) -> str:
        with self._watched():
            found: str = self._resource.read()
        return found

    def _read(self, count: int) -> bytes | memoryview:
        with self._watched():
            found: bytes | memoryview
            if count >= MANY and self._wire is not None and self._wire.free:
                found = self._wire.take(count)
            else:
                found = self._resource.read_bytes(count, chunk_size=READ)
        if len(found) != count:
            raise self._lost(f"only {len(found)} of {count} bytes came")
        return found

    def _write(self, message: bytes) -> None:
        if self._resource is None:
            raise InstrumentError(f"The connection to {self._address} is closed: make a new RemoteBench")
        with self._watched():
            if len(message) >= MANY and self._wire is not None:
                self._wire.give(message)
            else:
                self._resource.write_raw(message)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """What goes wrong on the wire, told clearly."""
        import pyvisa

        try:
            yield
        except pyvisa.errors.VisaIOError as problem:
            raise self._lost(f"it does not answer ({problem.abbreviation})") from None
        except (OSError, UnicodeDecodeError) as problem:
            raise self._lost(str(problem)) from None
        except BaseException:  # such as control-C: an answer is on its way that nobody will wait for
            self.close()
            raise

    def _lost(self, why: str) -> InstrumentError:
        """The error of a connection on which nobody knows any more what comes next: it is closed."""
        self.close()
        if not self._met:
            return InstrumentError(
                f"No instrument answers at {self._address}: {why}. Is `rhel-hw serve` running there?"
            )
        return InstrumentError(f"The instrument at {self._address} was lost: {why}. Start it again, then reconnect")


def _opened(address: str, timeout_s: float, library: str) -> Any:
    try:
        import pyvisa
    except ImportError:
        raise InstrumentError("A remote bench needs PyVISA: pip install 'rhel-hw[instrument]'") from None
    try:
        resource: Any = pyvisa.ResourceManager(library).open_resource(address)
    except Exception as problem:  # PyVISA and its libraries raise many kinds
        raise InstrumentError(
            f"Argument `address` must be that of an instrument, such as {EXAMPLE}, but {address!r} cannot be opened: "
            f"{problem}"
        ) from None
    if not isinstance(resource, pyvisa.resources.MessageBasedResource):
        resource.close()
        raise InstrumentError(
            f"Argument `address` must be that of an instrument, such as {EXAMPLE}, but is {address!r}"
        )
    resource.timeout, resource.read_termination, resource.write_termination = 1000 * timeout_s, "\n", "\n"
    return resource


@dataclass(frozen=True)
class _Wire:
    """The socket of PyVISA-py, which holds back the end of a message for 40 ms if not told otherwise.

    PyVISA-py sends 4 KiB at a time, and copies what it reads five times: what is long goes to the socket itself.
    """

    session: Any
    connection: socket.socket

    @classmethod
    def of(cls, resource: Any, timeout_s: float) -> _Wire | None:
        """That of a resource, or None if it has none of this kind."""
        session: Any = getattr(resource.visalib, "sessions", {}).get(resource.session)
        connection = getattr(session, "interface", None)
        if not isinstance(connection, socket.socket):
            return None
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(timeout_s)
        return cls(session, connection) if hasattr(session, "_pending_buffer") else None

    @property
    def free(self) -> bool:
        """Whether PyVISA has handed on all that it has read."""
        return not self.session._pending_buffer

    def take(self, count: int) -> memoryview:
        """So many bytes, or fewer if no more come; aligned as JAX likes them, which then reads them where they are."""
        room = np.empty(count + ALIGNED, np.uint8)
        found = room[-room.ctypes.data % ALIGNED :][:count].data
        done = 0
        while done < count and (came := self.connection.recv_into(found[done:])):
            done += came
        return found[:done]

    def give(self, message: bytes) -> None:
        """Send all of it."""
        self.connection.sendall(message)


def _message(shot: Shot) -> Iterator[bytes | memoryview]:
    """A shot, and the order to make it, as one message: it is done whole or not at all."""
    switches = {"ECHO": shot.echo, "HOLD": shot.hold, "PAIR": shot.paired, "AMPL": shot.amplify}
    yield f"SHOT:CLE;STEP {shot.steps}".encode()
    yield "".join(f";{name} ON" for name, on in switches.items() if on).encode()
    if shot.channels is not None:
        yield (f";CHAN {','.join(map(quoted, shot.channels))}" if shot.channels else ";CHAN:NONE").encode()
    for what, values in zip(("POS", "MOM"), shot.start or (), strict=False):
        for node, value in values.items():
            yield f";:SHOT:STAR:{what} {quoted(node)},{_number(node, value)!r}".encode()
    for name, value in shot.ranges.items():
        yield f";:SHOT:RANG {quoted(name)},{value!r}".encode()
    for node, pair in shot.trim.items():
        yield f";:SHOT:TRIM {quoted(node)},".encode()
        yield from _block(np.broadcast_arrays(*pair))
    yield from _waves("DRIV", shot.drive)
    yield from _waves("NUDG", shot.nudge)
    yield b";:INIT"


def _waves(header: str, waves: Waveforms) -> Iterator[bytes | memoryview]:
    for name, wave in waves.items():
        yield f";:{header}{':EACH' if wave.shape[2] > 1 else ''} {quoted(name)},".encode()
        yield from _block(wave)


def _block(numbers: Any) -> tuple[bytes, memoryview]:
    data = np.ascontiguousarray(np.ravel(numbers), "<f8").data.cast("B")
    return block_header(len(data)), data


def _number(node: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InstrumentError(
            f"Argument `start` must hold numbers in SI for a remote bench, but {node} is {value!r}"
        ) from None
