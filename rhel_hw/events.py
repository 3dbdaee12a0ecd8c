"""Curves as TensorBoard reads them: an event file, written without TensorBoard.

The file is a chain of TFRecords, each one `Event` message in the wire format of protocol buffers. The fields used are
`wall_time` (1, double), `step` (2, int64), `file_version` (3, string) and `summary` (5), which repeats `value` (1) of a
`tag` (1, string) and a `simple_value` (2, float).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from operator import index

from devices import ArgumentError

Row = tuple[int, float, Mapping[str, float]]
"""Step, wall time in seconds since 1970, and value by tag."""

VERSION = b"brain.Event:2"
_VARINT, _DOUBLE, _BYTES, _SINGLE = 0, 1, 2, 5
"""Wire types."""


def event_file(rows: Sequence[Row]) -> bytes:
    """An event file of scalar curves, whose name must contain `tfevents`, as in `events.out.tfevents.1`.

    Values are rounded to single precision, which is all that the format has; NaN and infinity are kept, and TensorBoard
    shows them as such. Steps must not go back from row to row.
    """
    if len(rows) == 0:
        raise ArgumentError("Argument `rows` must hold at least one row, but is empty")
    events, last = [], 0
    for number, (step, wall_s, values) in enumerate(rows):
        where = f"Argument `rows` must have, in row {number},"
        last = _step(where, step, last)
        events.append(_wall(where, wall_s) + _key(2, _VARINT) + _varint(last) + _framed(5, _summary(where, values)))
    head = events[0][:9] + _framed(3, VERSION)  # at the wall time of the first row
    return b"".join(_record(event) for event in (head, *events))


def crc32c(data: bytes) -> int:
    """Checksum by Castagnoli's polynomial, as in RFC 3720."""
    table, crc = _TABLE, 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _step(where: str, step: object, last: int) -> int:
    """A step that does not go back behind `last`."""
    try:
        whole = -1 if isinstance(step, bool) else index(step)  # type: ignore[arg-type]
    except TypeError:
        whole = -1
    if not 0 <= whole < 2**63:
        raise ArgumentError(f"{where} a whole number from 0 to 2**63 − 1 as step, but has {step!r}")
    if whole < last:
        raise ArgumentError(f"{where} a step of at least {last}, as the row before, but has {whole}")
    return whole


def _wall(where: str, wall_s: object) -> bytes:
    try:
        if not isinstance(wall_s, bool) and 0 <= wall_s < 2**63:  # type: ignore[operator]
            return _key(1, _DOUBLE) + struct.pack("<d", wall_s)
    except (TypeError, struct.error):
        pass
    raise ArgumentError(f"{where} a wall time from 0 to 2**63 s, but has {wall_s!r}")


def _summary(where: str, values: object) -> bytes:
    if not isinstance(values, Mapping) or not values:
        raise ArgumentError(f"{where} at least one value by tag, but has {values!r}")
    return b"".join(_framed(1, _tag(where, tag) + _value(where, tag, value)) for tag, value in values.items())


def _tag(where: str, tag: object) -> bytes:
    try:
        if isinstance(tag, str) and tag:
            return _framed(1, tag.encode())
    except UnicodeEncodeError:  # half a surrogate pair
        pass
    raise ArgumentError(f"{where} tags that are words, but has {tag!r}")


def _value(where: str, tag: str, value: object) -> bytes:
    try:
        if not isinstance(value, bool):
            return _key(2, _SINGLE) + struct.pack("<f", value)
    except OverflowError:
        raise ArgumentError(f"{where} a number that single precision can hold for {tag}, but has {value!r}") from None
    except (TypeError, struct.error):
        pass
    raise ArgumentError(f"{where} a number for {tag}, but has {value!r}")


def _framed(field: int, data: bytes) -> bytes:
    """A field of text, or of another message."""
    return _key(field, _BYTES) + _varint(len(data)) + data


def _key(field: int, wire: int) -> bytes:
    return bytes([field << 3 | wire])


def _varint(number: int) -> bytes:
    """Seven bits to a byte, lowest first; the eighth says that more follow."""
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _record(data: bytes) -> bytes:
    """A TFRecord: length, its checksum, data, their checksum."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    """A checksum that may itself be checked: turned right by 15 bits, plus a constant."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    return byte


_TABLE = tuple(_entry(byte) for byte in range(256))
