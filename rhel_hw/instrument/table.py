"""The table of commands: what the parser dispatches on, and what the protocol page is written from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from typing import Any, Protocol

from rhel_hw.instrument.faults import Fault
from rhel_hw.instrument.syntax import Argument, Block, Unit, Word

# Arguments --------------------------------------------------------------------------------------------------------


class Parameter(Protocol):
    """What a command takes at one place."""

    @property
    def shown(self) -> str:
        """As documentation has it."""
        ...

    def read(self, given: Sequence[Argument], at: int) -> tuple[Any, int]:
        """Its value, and how many of the arguments from `at` on it took."""
        ...


def _given(given: Sequence[Argument], at: int, what: str) -> Argument:
    if at >= len(given):
        raise Fault(-109, f"{what} is missing")
    return given[at]


@dataclass(frozen=True)
class Text:
    """A string in quotes."""

    name: str

    @property
    def shown(self) -> str:
        """As documentation has it."""
        return f'"{self.name}"'

    def read(self, given: Sequence[Argument], at: int) -> tuple[str, int]:
        """The string."""
        found = _given(given, at, self.name)
        if not isinstance(found, str):
            raise Fault(-104, f"{self.name} must be a string in quotes")
        return found, 1


@dataclass(frozen=True)
class Number:
    """A number, whole if it says so."""

    name: str
    least: float = float("-inf")
    most: float = float("inf")
    whole: bool = False
    default: float | None = None

    @property
    def shown(self) -> str:
        """As documentation has it."""
        return f"<{self.name}>" if self.default is None else f"[<{self.name}>]"

    def read(self, given: Sequence[Argument], at: int) -> tuple[float, int]:
        """The number."""
        if at >= len(given) and self.default is not None:
            return self.default, 0
        found = _given(given, at, self.name)
        if not isinstance(found, float):
            raise Fault(-104, f"{self.name} must be a number")
        if not self.least <= found <= self.most or (self.whole and found != int(found)):
            kind = "a whole number" if self.whole else "a number"
            raise Fault(-222, f"{self.name} must be {kind} from {self.least:g} to {self.most:g}, not {found:g}")
        return (int(found) if self.whole else found), 1


@dataclass(frozen=True)
class Switch:
    """ON or OFF, 1 or 0."""

    name: str

    @property
    def shown(self) -> str:
        """As documentation has it."""
        return "ON|OFF"

    def read(self, given: Sequence[Argument], at: int) -> tuple[bool, int]:
        """Whether it is on."""
        found = _given(given, at, self.name)
        known: dict[Argument, bool] = {Word("ON"): True, Word("OFF"): False, 1.0: True, 0.0: False}
        if isinstance(found, Block) or found not in known:
            raise Fault(-224, f"{self.name} must be ON or OFF")
        return known[found], 1


@dataclass(frozen=True)
class Choice:
    """One of some words, long or short."""

    name: str
    words: tuple[str, ...]

    @property
    def shown(self) -> str:
        """As documentation has it."""
        return "|".join(self.words)

    def read(self, given: Sequence[Argument], at: int) -> tuple[str, int]:
        """The word in its short form."""
        found = _given(given, at, self.name)
        for word in self.words:
            if isinstance(found, Word) and found.text in forms(word):
                return forms(word)[0], 1
        raise Fault(-224, f"{self.name} must be one of {', '.join(self.words)}")


@dataclass(frozen=True)
class Several:
    """One or more of the same."""

    of: Text

    @property
    def shown(self) -> str:
        """As documentation has it."""
        return f"{self.of.shown}{{,{self.of.shown}}}"

    def read(self, given: Sequence[Argument], at: int) -> tuple[tuple[str, ...], int]:
        """All that are left."""
        count = max(len(given) - at, 1)
        return tuple(self.of.read(given, at + i)[0] for i in range(count)), count


@dataclass(frozen=True)
class Values:
    """Numbers, as a block in the format that `FORMat` says, or one by one with commas between."""

    name: str

    @property
    def shown(self) -> str:
        """As documentation has it."""
        return f"<{self.name}>"

    def read(self, given: Sequence[Argument], at: int) -> tuple[memoryview | list[float], int]:
        """The bytes of a block, or all numbers that are left."""
        first = _given(given, at, self.name)
        if isinstance(first, Block):
            return first.data, 1
        numbers = [x for x in given[at:] if isinstance(x, float)]
        if len(numbers) != len(given) - at:
            raise Fault(-104, f"{self.name} must be a block, or numbers alone")
        return numbers, len(numbers)


# Commands ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Command:
    """One row of the table."""

    header: str
    """With the short form in capitals, and what may be left out in brackets; a question mark makes it a query."""
    parameters: tuple[Parameter, ...]
    run: Callable[..., Any]
    """Called with the instrument and the values; a query gives text, or pieces of bytes."""
    does: str
    waits: bool = False
    """Whether it waits for a pass that is under way."""

    @property
    def query(self) -> bool:
        """Whether it is answered."""
        return self.header.endswith("?")

    @property
    def usage(self) -> str:
        """Header and arguments."""
        return " ".join((self.header, ",".join(p.shown for p in self.parameters))).strip().replace(",[", "[,")


class Commands:
    """Commands that are written down one after the other."""

    def __init__(self) -> None:
        self.rows: list[Command] = []

    def __call__(self, header: str, *parameters: Parameter, waits: bool = False) -> Callable[[Any], Any]:
        """Make a function a command; its docstring tells what it does."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            does = " ".join((function.__doc__ or "").split())
            self.rows.append(Command(header, parameters, function, does, waits))
            return function

        return add

    def setting(self, header: str, parameter: Parameter, attribute: str, does: str) -> None:
        """Add a command that sets an attribute of the instrument, such as `status.service`, and the query for it."""
        path, _, name = attribute.rpartition(".")

        def put(instrument: Any, value: Any) -> None:
            setattr(attrgetter(path)(instrument), name, value)

        def get(instrument: Any) -> str:
            return str(int(attrgetter(attribute)(instrument) or 0))

        self.rows += [Command(header, (parameter,), put, does), Command(f"{header}?", (), get, "That setting.")]


def forms(mnemonic: str) -> tuple[str, str]:
    """Short and long form of a mnemonic, in upper case."""
    return re.sub(r"[a-z]", "", mnemonic), mnemonic.upper()


class Table:
    """Commands by their headers."""

    def __init__(self, rows: Sequence[Command]) -> None:
        self.rows = tuple(rows)
        self._short: dict[str, str] = {}
        self._found: dict[tuple[tuple[str, ...], bool], Command] = {}
        for row in self.rows:
            for path in _paths(row.header.rstrip("?")):
                for mnemonic in path:
                    short, long = forms(mnemonic)
                    self._short[short] = self._short[long] = short
                key = (tuple(forms(mnemonic)[0] for mnemonic in path), row.query)
                assert key not in self._found, f"{row.header} is there twice"
                self._found[key] = row

    def find(self, unit: Unit) -> tuple[Command, list[Any]]:
        """The command that is meant, and the values of its parameters."""
        path = tuple(self._short.get(mnemonic, mnemonic) for mnemonic in unit.path)
        row = self._found.get((path, unit.query))
        if row is None:
            raise Fault(-113, ":".join(unit.path)[:80] + "?" * unit.query)
        values, at = [], 0
        for parameter in row.parameters:
            value, taken = parameter.read(unit.arguments, at)
            values.append(value)
            at += taken
        if at < len(unit.arguments):
            raise Fault(-108, f"{row.header} takes no more than {row.usage.partition(' ')[2] or 'nothing'}")
        return row, values

    def sections(self) -> Mapping[str, list[Command]]:
        """Commands by the first part of their headers."""
        found: dict[str, list[Command]] = {}
        for row in self.rows:
            name = "Common commands" if row.header[0] == "*" else re.split(r"[:\[?]", row.header)[0]
            found.setdefault(name, []).append(row)
        return found


def _paths(header: str) -> list[tuple[str, ...]]:
    """All ways to write a header, with or without what is in brackets."""
    parts = re.findall(r"\[:(\w+)\]|:?(\*?\w+)", header)
    ways = [((), (optional,)) if optional else ((needed,),) for optional, needed in parts]
    return [tuple(m for group in chosen for m in group) for chosen in product(*ways)]
