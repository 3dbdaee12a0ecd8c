"""From a message to what is done and answered: the whole table of commands, and its execution."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from rhel_hw.instrument import commands, standard
from rhel_hw.instrument.core import Answer, Instrument, Piece, packed, unforeseen
from rhel_hw.instrument.faults import Fault
from rhel_hw.instrument.syntax import parse
from rhel_hw.instrument.table import Command, Commands, Table

_command = Commands()


@_command("SYSTem:HELP:HEADers?")
def _help(instrument: Instrument) -> Answer:
    """All commands with their arguments, as a block of text."""
    return packed("".join(f"{row.usage}\n" for row in TABLE.rows).encode())


TABLE = Table([*standard.command.rows, *_command.rows, *commands.command.rows])
"""All commands."""


async def execute(instrument: Instrument, message: bytes) -> Iterable[Piece]:
    """Do what a message says; its answer in pieces, none if nothing was asked.

    A message that cannot be read does nothing. One that fails on the way stops there.
    """
    answers: list[Iterable[Piece]] = []
    try:
        for row, values in [TABLE.find(unit) for unit in parse(message)]:
            answer = await _done(instrument, row, values)
            if row.query:
                answers.append([answer.encode()] if isinstance(answer, str) else answer)
    except Fault as fault:
        instrument.status.add(fault)
    except Exception as problem:
        instrument.status.add(unforeseen(problem))
    ends = (*(b";" for _ in answers[1:]), b"\n")
    return chain.from_iterable(chain(answer, (end,)) for answer, end in zip(answers, ends, strict=False))


async def _done(instrument: Instrument, row: Command, values: Sequence[Any]) -> Any:
    if row.waits:
        await instrument.idle()
    found = row.run(instrument, *values)
    return await found if inspect.isawaitable(found) else found
