"""The language of instruments: cutting bytes into program messages, and messages into commands with their arguments.

Nothing here knows what a command means. A message is read whole before anything is done, so that one with an error in
it does nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite

from rhel_hw.instrument.faults import Fault

MOST_TEXT = 2**20
"""Bytes of a message outside of its blocks."""
LONGEST_MNEMONIC = 12

_SPECIAL = re.compile(rb"[#\"'\n]")
_END_OF_STRING = {quote: re.compile(re.escape(quote) + rb"|\n") for quote in (b'"', b"'")}
_SPACE = re.compile(rb"[\x00-\x09\x0b-\x20]*")
_HEADER = re.compile(rb"(\*[A-Za-z]+|:?[A-Za-z]\w*(?::[A-Za-z]\w*)*)(\?)?", re.ASCII)
_WORD = re.compile(rb"[A-Za-z]\w*", re.ASCII)
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_OTHER_BASE = re.compile(rb"#(?:[hH]([0-9a-fA-F]+)|[qQ]([0-7]+)|[bB]([01]+))")


class LostError(Exception):
    """Where a message ends cannot be told any more: the connection is of no use."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(str(fault))
        self.fault = fault


class Framer:
    """Cuts a stream of bytes into messages: a line feed ends one, unless it is inside a block."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._at = 0
        self._text = 0
        self._quote: bytes | None = None

    @property
    def begun(self) -> bool:
        """Whether a part of a message is here."""
        return bool(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[bytes]:
        """Messages that these bytes complete, without their ends."""
        self._buffer += data
        while (end := self._end()) is not None:
            message = bytes(memoryview(self._buffer)[:end])
            del self._buffer[: end + 1]
            self._at, self._text, self._quote = 0, 0, None
            yield message

    def _end(self) -> int | None:
        """Where the first message ends; None if that is not here yet."""
        buffer = self._buffer
        while self._at < len(buffer):
            pattern = _SPECIAL if self._quote is None else _END_OF_STRING[self._quote]
            found = pattern.search(buffer, self._at)
            stop = len(buffer) if found is None else found.start()
            self._read(stop - self._at)
            if found is None:
                self._at = stop
                break
            mark = found.group()
            if mark == b"\n":
                return stop
            if mark == b"#":
                length = self._block(stop)
                if length is None:
                    self._at = stop
                    break
                self._at = stop + length
                self._read(length == 1)  # none at all
            else:
                self._quote = mark if self._quote is None else None
                self._at = stop + 1
                self._read(1)
        return None

    def _read(self, count: int) -> None:
        self._text += count
        if self._text > MOST_TEXT:
            raise LostError(Fault(-363, f"a message has at most {MOST_TEXT} bytes outside of its blocks"))

    def _block(self, at: int) -> int | None:
        """Bytes of the block that begins here, with its header, 1 if there is none; None if its header is not here."""
        digits = bytes(self._buffer[at + 1 : at + 2])
        if not digits:
            return None
        if digits == b"0":
            raise LostError(Fault(-161, "a block of indefinite length has no end on a socket"))
        if not digits.isdigit():
            return 1
        header = bytes(self._buffer[at + 2 : at + 2 + int(digits)])
        if not (header or b"0").isdigit():
            return 1
        if len(header) < int(digits):
            return None
        if at + int(header) > self._most:
            raise LostError(Fault(-223, f"a message has at most {self._most} bytes, but a block says {int(header)}"))
        self._read(2 + len(header))
        return 2 + len(header) + int(header)


@dataclass(frozen=True)
class Word:
    """A bare word, such as ON."""

    text: str


@dataclass(frozen=True)
class Block:
    """Bytes as they are."""

    data: memoryview


Argument = Word | Block | float | str
"""A string stands for itself."""


@dataclass(frozen=True)
class Unit:
    """One command of a message."""

    path: tuple[str, ...]
    """Mnemonics in upper case, from the root."""
    query: bool
    arguments: tuple[Argument, ...]


def parse(message: bytes) -> list[Unit]:
    """The commands of a message; a fault if there is anything wrong with any of them."""
    units: list[Unit] = []
    where: tuple[str, ...] = ()
    at = _skip(message, 0)
    while at < len(message):
        if message[at : at + 1] == b";":  # an empty command does nothing
            at = _skip(message, at + 1)
            continue
        header = _HEADER.match(message, at)
        if header is None:
            raise Fault(-101, f"a command cannot begin with {_shown(message, at)}")
        path = _path(header.group(1).decode(), where)
        if not path[0].startswith("*"):
            where = path[:-1]
        spaced = _skip(message, header.end())
        if spaced == header.end() and spaced < len(message) and message[spaced : spaced + 1] != b";":
            raise Fault(-111, f"a blank must follow {header.group().decode()}, not {_shown(message, spaced)}")
        arguments, at = _arguments(message, spaced)
        units.append(Unit(path, header.group(2) is not None, arguments))
    return units


def _path(header: str, where: tuple[str, ...]) -> tuple[str, ...]:
    parts = tuple(part.upper() for part in header.lstrip(":").split(":"))
    for part in parts:
        if len(part.lstrip("*")) > LONGEST_MNEMONIC:
            raise Fault(-112, part[:40])
    return parts if header[0] in ":*" else (*where, *parts)


def _arguments(message: bytes, at: int) -> tuple[tuple[Argument, ...], int]:
    """Arguments, and where the next command begins."""
    found: list[Argument] = []
    while at < len(message) and message[at : at + 1] != b";":
        if found:
            if message[at : at + 1] != b",":
                raise Fault(-103, f"a comma or a semicolon must come before {_shown(message, at)}")
            at = _skip(message, at + 1)
        argument, at = _argument(message, at)
        found.append(argument)
        at = _skip(message, at)
    return tuple(found), at + 1 if at < len(message) else at


def _argument(message: bytes, at: int) -> tuple[Argument, int]:
    first = message[at : at + 1]
    if first in (b'"', b"'") and first:
        return _string(message, at, first)
    if first == b"#":
        return _block(message, at)
    if (number := _NUMBER.match(message, at)) is not None:
        value = float(number.group())
        if not isfinite(value):
            raise Fault(-123, number.group()[:40].decode())
        return value, number.end()
    if (word := _WORD.match(message, at)) is not None:
        return Word(word.group().decode().upper()), word.end()
    if not first or first in b",;":
        raise Fault(-109, "nothing stands between two separators")
    raise Fault(-101, f"an argument cannot begin with {_shown(message, at)}")


def _string(message: bytes, at: int, quote: bytes) -> tuple[str, int]:
    """A string; a doubled quote stands for one."""
    parts, start = [], at + 1
    while True:
        end = message.find(quote, start)
        if end < 0:
            raise Fault(-151, "a string has no end")
        parts.append(message[start:end])
        if message[end + 1 : end + 2] != quote:
            break
        parts.append(quote)
        start = end + 2
    try:
        return b"".join(parts).decode(), end + 1
    except UnicodeDecodeError:
        raise Fault(-151, "a string is no text") from None


def _block(message: bytes, at: int) -> tuple[Block | float, int]:
    other = _OTHER_BASE.match(message, at)
    if other is not None:
        base, digits = next((b, d) for b, d in zip((16, 8, 2), other.groups(), strict=True) if d)
        if len(digits) > 64:
            raise Fault(-124, f"a number has {len(digits)} digits")
        return float(int(digits, base)), other.end()
    count = message[at + 1 : at + 2]
    length = message[at + 2 : at + 2 + int(count)] if count.isdigit() and count != b"0" else b""
    if not length.isdigit() or len(length) != int(count):
        raise Fault(-161, f"{_shown(message, at)} is no header of a block")
    start = at + 2 + len(length)
    end = start + int(length)
    if end > len(message):
        raise Fault(-161, f"a block of {int(length)} bytes has only {len(message) - start}")
    return Block(memoryview(message)[start:end]), end


def _skip(message: bytes, at: int) -> int:
    blank = _SPACE.match(message, at)
    return at if blank is None else blank.end()


def _shown(message: bytes, at: int) -> str:
    return ascii(message[at : at + 12].decode("latin-1"))


def block_header(count: int) -> bytes:
    """What comes before so many bytes of a block."""
    return f"#{len(str(count))}{count}".encode()


def quoted(text: str) -> str:
    """A string as the language has it."""
    return '"' + text.replace('"', '""') + '"'
