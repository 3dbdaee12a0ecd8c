"""From a message to what is done and answered: the whole table of commands, and its execution."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Sequence
from itertools import chain
from typing import Any

from rhel_hw.instrument import commands, standard
from rhel_hw.instrument.core import Answer, Instrument, Piece, packed, unforeseen
from rhel_hw.instrument.faults import Fault
from rhel_hw.instrument.syntax import parse
from rhel_hw.instrument.table import Command, Commands, Table

BUSY_S = 2e-4
"""For how long a message keeps all others waiting."""
_command = Commands()


@_command("SYSTem:HELP:HEADers?")
def _help(instrument: Instrument) -> Answer:
    """All commands with their arguments, as a block of text."""
    return packed("".join(f"{row.usage}\n" for row in TABLE.rows).encode())


TABLE = Table([*standard.command.rows, *_command.rows, *commands.command.rows])
"""All commands."""


async def execute(instrument: Instrument, message: bytes) -> AsyncIterator[Piece]:
    """Do what a message says; its answer in pieces, none if nothing was asked.

    A message that cannot be read does nothing. One that fails on the way stops there. Every command is answered before
    the next is done, so that answers are never held all at once.
    """
    answered, rested, clock = False, 0.0, asyncio.get_running_loop().time
    try:
        for row, values in [TABLE.find(unit) for unit in parse(message)]:
            answer = await _done(instrument, row, values)
            if row.query:
                pieces = (answer.encode(),) if isinstance(answer, str) else answer
                for piece in chain((b";",), pieces) if answered else pieces:
                    yield piece
                answered = True
            if clock() - rested > BUSY_S:  # others may want something too
                await asyncio.sleep(0)
                rested = clock()
    except Fault as fault:
        instrument.status.add(fault)
    except Exception as problem:
        instrument.status.add(unforeseen(problem))
    if answered:
        yield b"\n"


async def _done(instrument: Instrument, row: Command, values: Sequence[Any]) -> Any:
    if row.waits:
        await instrument.idle()
    found = row.run(instrument, *values)
    return await found if inspect.isawaitable(found) else found
