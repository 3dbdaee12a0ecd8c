"""Commands that every instrument has: those of IEEE 488.2, SYSTem, STATus and FORMat."""

from __future__ import annotations

from importlib.metadata import version

from rhel_hw.instrument.core import Instrument
from rhel_hw.instrument.faults import COMPLETE, Fault, plain
from rhel_hw.instrument.table import Choice, Commands, Number

SCPI_VERSION = "1999.0"
VERSION = version("rhel-hw")

command = Commands()


@command("*IDN?")
def identity(instrument: Instrument) -> str:
    """Maker, design, serial number and version."""
    design = plain(instrument.description.design).replace(",", " ").replace(";", " ")
    return f"rhel-hw,{design},0,{VERSION}"


@command("*RST", waits=True)
def reset(instrument: Instrument) -> None:
    """Shot, formats and record as after switching on.

    Programmed parameters and a held state are the device's: they stay.
    """
    instrument.reset()


@command("*CLS")
def clear(instrument: Instrument) -> None:
    """Forget all events and errors."""
    instrument.tells = False
    instrument.status.clear()


@command("*OPC")
def tell(instrument: Instrument) -> None:
    """Set bit 0 of the event register when the pass that is under way is over."""
    if instrument.busy:
        instrument.tells = True
    else:
        instrument.status.events.event |= COMPLETE


@command("*OPC?", waits=True)
def complete(instrument: Instrument) -> str:
    """1, when the pass that is under way is over."""
    return "1"


@command("*WAI", waits=True)
def wait(instrument: Instrument) -> None:
    """Go on only when the pass that is under way is over."""


@command("*TRG")
def trigger(instrument: Instrument) -> None:
    """The same as INITiate."""
    instrument.start()


@command("*TST?")
def test(instrument: Instrument) -> str:
    """0: nothing wrong was found."""
    return "0"


@command("*STB?")
def status_byte(instrument: Instrument) -> str:
    """Status byte: 4 errors wait, 8 questionable, 32 standard events, 64 service, 128 operation."""
    return str(instrument.status.byte())


@command("*SRE", Number("mask", 0, 255, whole=True))
def service(instrument: Instrument, mask: int) -> None:
    """Which bits of the status byte set bit 6."""
    instrument.status.service = mask & ~64  # which is none of them


@command("*SRE?")
def service_told(instrument: Instrument) -> str:
    """That setting."""
    return str(instrument.status.service)


@command("*ESR?")
def events(instrument: Instrument) -> str:
    """Standard events since last asked.

    1 complete, 4 query error, 8 device error, 16 execution error, 32 command error, 128 power on.
    """
    return str(instrument.status.events.read())


command.setting(
    "*ESE",
    Number("mask", 0, 255, whole=True),
    "status.events.enable",
    "Which standard events set bit 5 of the status byte.",
)


@command("SYSTem:ERRor[:NEXT]?")
def error(instrument: Instrument) -> str:
    """The oldest error, as number and text; 0,"No error" if there is none."""
    return instrument.status.next()


@command("SYSTem:ERRor:COUNt?")
def errors(instrument: Instrument) -> str:
    """How many errors wait."""
    return str(len(instrument.status.queue))


@command("SYSTem:ERRor:ALL?")
def all_errors(instrument: Instrument) -> str:
    """All errors, oldest first."""
    return instrument.status.everything()


@command("SYSTem:VERSion?")
def scpi(instrument: Instrument) -> str:
    """Version of SCPI."""
    return SCPI_VERSION


@command("SYSTem:LIMits?")
def limits(instrument: Instrument) -> str:
    """Most bytes of a message, and most values of a waveform."""
    return f"{instrument.most_bytes},{instrument.most_values}"


@command("STATus:OPERation[:EVENt]?")
def operation_events(instrument: Instrument) -> str:
    """Events of operation since last asked: 16 a pass was begun."""
    return str(instrument.status.operation.read())


@command("STATus:OPERation:CONDition?")
def operation(instrument: Instrument) -> str:
    """Operation as it is: 16 a pass is under way."""
    return str(instrument.status.operation.condition)


command.setting(
    "STATus:OPERation:ENABle",
    Number("mask", 0, 65535, whole=True),
    "status.operation.enable",
    "Which of these set bit 7 of the status byte.",
)


@command("STATus:QUEStionable[:EVENt]?")
def questionable_events(instrument: Instrument) -> str:
    """Doubts since last asked: 512 a record had values beyond a converter's range."""
    return str(instrument.status.questionable.read())


@command("STATus:QUEStionable:CONDition?")
def questionable(instrument: Instrument) -> str:
    """Doubts about the record that is there."""
    return str(instrument.status.questionable.condition)


command.setting(
    "STATus:QUEStionable:ENABle",
    Number("mask", 0, 65535, whole=True),
    "status.questionable.enable",
    "Which of these set bit 3 of the status byte.",
)


@command("STATus:PRESet")
def preset(instrument: Instrument) -> None:
    """Clear both masks."""
    instrument.status.preset()


@command("FORMat[:DATA]", Choice("format", ("REAL", "ASCii")), Number("bits", 0, 64, whole=True, default=32))
def form(instrument: Instrument, kind: str, bits: int) -> None:
    """How numbers are sent, and read from blocks.

    REAL,32 (as after *RST) or REAL,64 in blocks, or ASCii with commas between.
    """
    if kind == "REAL" and bits not in (32, 64):
        raise Fault(-224, f"REAL has 32 or 64 bits, not {bits}")
    instrument.format.real = kind == "REAL"
    if kind == "REAL":
        instrument.format.bits = bits


@command("FORMat[:DATA]?")
def form_told(instrument: Instrument) -> str:
    """That format."""
    return f"REAL,{instrument.format.bits}" if instrument.format.real else "ASC,0"


@command("FORMat:BORDer", Choice("order", ("NORMal", "SWAPped")))
def border(instrument: Instrument, order: str) -> None:
    """Order of bytes in blocks: SWAPped is little-endian (as after *RST), NORMal is big-endian."""
    instrument.format.swapped = order == "SWAP"


@command("FORMat:BORDer?")
def border_told(instrument: Instrument) -> str:
    """That order."""
    return "SWAP" if instrument.format.swapped else "NORM"
