"""Errors with the numbers that SCPI gives them, the queue they wait in, and the registers of IEEE 488.2."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

MEANINGS = {
    0: "No error",
    -101: "Invalid character",
    -103: "Invalid separator",
    -104: "Data type error",
    -108: "Parameter not allowed",
    -109: "Missing parameter",
    -111: "Header separator error",
    -112: "Program mnemonic too long",
    -113: "Undefined header",
    -123: "Exponent too large",
    -124: "Too many digits",
    -151: "Invalid string data",
    -161: "Invalid block data",
    -200: "Execution error",
    -203: "Command protected",
    -213: "Init ignored",
    -221: "Settings conflict",
    -222: "Data out of range",
    -223: "Too much data",
    -224: "Illegal parameter value",
    -230: "Data corrupt or stale",
    -240: "Hardware error",
    -310: "System error",
    -350: "Queue overflow",
    -363: "Input buffer overrun",
    -365: "Time out error",
    -400: "Query error",
}
LONGEST = 255
"""Characters of an error's text."""
MOST_WAITING = 32
"""Errors that the queue holds."""


def plain(text: str) -> str:
    """A text in the characters that every controller can read."""
    return "".join(c if " " <= c <= "~" else " " if c.isspace() else "?" for c in text)


class Fault(Exception):  # noqa: N818 (the language's own word is an error's number)
    """Something that the controller got wrong, or the device, as `SYSTem:ERRor?` tells it."""

    def __init__(self, number: int, detail: str = "") -> None:
        self.number = number
        self.detail = detail
        super().__init__(str(self))

    def __str__(self) -> str:
        text = MEANINGS[self.number] + (f";{self.detail}" if self.detail else "")
        text = plain(text.replace('"', "'"))
        return f'{self.number},"{text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."}"'


@dataclass
class Register:
    """A status register: conditions as they are, events since it was read, and which of them are summed up."""

    condition: int = 0
    event: int = 0
    enable: int = 0

    def change(self, bit: int, on: bool) -> None:
        """Set or clear a condition; a new one is an event."""
        if on and not self.condition & bit:
            self.event |= bit
        self.condition = self.condition | bit if on else self.condition & ~bit

    def read(self) -> int:
        """Events, which are forgotten by it."""
        event, self.event = self.event, 0
        return event

    @property
    def summary(self) -> bool:
        """Whether an event is there that counts."""
        return bool(self.event & self.enable)


COMPLETE, QUERY_ERROR, DEVICE_ERROR, EXECUTION_ERROR, COMMAND_ERROR, POWER_ON = 1, 4, 8, 16, 32, 128
"""Bits of the event register of IEEE 488.2."""
MEASURING = 16
"""Condition of operation: a pass is under way."""
SATURATED = 512
"""Condition of what is questionable: the record has values beyond a converter's range."""


@dataclass
class Status:
    """All that an instrument says of itself by `*STB?`, `*ESR?`, `STATus` and `SYSTem:ERRor?`."""

    events: Register = field(default_factory=lambda: Register(event=POWER_ON))
    operation: Register = field(default_factory=Register)
    questionable: Register = field(default_factory=Register)
    service: int = 0
    """Which bits of the status byte ask for service."""
    queue: deque[Fault] = field(default_factory=deque)

    def add(self, fault: Fault) -> None:
        """Put an error into the queue."""
        classes = {1: COMMAND_ERROR, 2: EXECUTION_ERROR, 3: DEVICE_ERROR, 4: QUERY_ERROR}
        self.events.event |= classes[-fault.number // 100]
        if len(self.queue) < MOST_WAITING:
            self.queue.append(fault)
        else:
            self.queue[-1] = Fault(-350)

    def next(self) -> str:
        """The oldest error, which leaves the queue."""
        return str(self.queue.popleft() if self.queue else Fault(0))

    def everything(self) -> str:
        """All errors, oldest first; the queue is empty then."""
        found = ",".join(map(str, self.queue)) or str(Fault(0))
        self.queue.clear()
        return found

    def byte(self) -> int:
        """The status byte."""
        bits = 4 * bool(self.queue) + 8 * self.questionable.summary + 32 * self.events.summary
        bits += 128 * self.operation.summary
        return bits + 64 * bool(bits & self.service)

    def clear(self) -> None:
        """Forget all events and errors."""
        self.queue.clear()
        for register in (self.events, self.operation, self.questionable):
            register.event = 0

    def preset(self) -> None:
        """Let no condition count."""
        self.operation.enable = self.questionable.enable = 0
