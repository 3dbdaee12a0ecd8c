"""Commands of a bench: its design and parameters, the next shot, passes and records."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from devices import ArgumentError
from rhel_hw.bench import Description
from rhel_hw.instrument.core import Answer, Given, Instrument, Settings, packed, refuse
from rhel_hw.instrument.faults import Fault
from rhel_hw.instrument.syntax import quoted
from rhel_hw.instrument.table import Commands, Number, Several, Switch, Text, Values

LONGEST_WAIT_S = 60.0

command = Commands()


def _json(document: Any) -> Answer:
    return packed(json.dumps(document, separators=(",", ":")).encode())


def _listed(names: Any) -> str:
    return ",".join(map(quoted, names))


# Design and parameters --------------------------------------------------------------------------------------------


@command("DESign:DESCription?")
def description(instrument: Instrument) -> Answer:
    """What the bench says of itself, as a block of JSON.

    Channels with units and ranges, drives, nudges, parameters with limits, the clock in seconds, and what its maker
    recommends to a learner.
    """
    return _json(instrument.description.to_dict())


@command("DESign:NETList?")
def netlist(instrument: Instrument) -> Answer:
    """The design as drawn, as a block of TOML."""
    return packed(instrument.netlist.encode())


@command("DESign:USED?", waits=True)
async def used(instrument: Instrument) -> str:
    """Passes made so far, and the physical seconds that they took."""
    now: Description = await instrument.on_bench(instrument.bench.describe)
    return f"{now.passes},{now.seconds!r}"


@command("PARameter[:SET]", Text("name"), Values("values"))
def stage(instrument: Instrument, name: str, values: Given) -> None:
    """Get a parameter ready to be programmed, in SI: one number, or one for every chip."""
    refuse("parameter", name, instrument.description.parameters)
    numbers, chips = instrument.format.numbers(values), instrument.description.chips
    if len(numbers) not in (1, chips):
        raise Fault(-221, f"{name} must have one value, or one for each of {chips} chips")
    known = instrument.description.parameters[name]
    slack = 1e-9 * (known.high - known.low)  # of rounding
    if np.any(numbers < known.low - slack) or np.any(numbers > known.high + slack):
        limits = f"{known.low:g} and {known.high:g} {known.unit}"
        raise Fault(-222, f"Argument `parameters` must keep `{name}` between {limits}")
    instrument.staged[name] = numbers[0] if len(numbers) == 1 else numbers


@command("PARameter:CLEar")
def unstage(instrument: Instrument) -> None:
    """Forget parameters that are ready, and not programmed yet."""
    instrument.staged = {}


@command("PARameter:APPLy", waits=True)
async def apply(instrument: Instrument) -> None:
    """Program all parameters that are ready, at once."""
    staged, instrument.staged = instrument.staged, {}
    try:
        await instrument.on_bench(lambda: instrument.bench.program(staged))
    except ArgumentError as problem:
        raise Fault(-222, str(problem)) from None
    instrument.applied |= staged


@command("PARameter[:SET]?", Text("name"))
def parameter(instrument: Instrument, name: str) -> Answer:
    """What a parameter was last programmed to."""
    refuse("parameter", name, instrument.description.parameters)
    if name not in instrument.applied:
        raise Fault(-230, f"{name} was not programmed since this instrument was switched on")
    return instrument.format.data(np.atleast_1d(instrument.applied[name]))


@command("PARameter:CATalog?")
def parameters(instrument: Instrument) -> str:
    """Names of all parameters that can be programmed."""
    return _listed(instrument.description.parameters)


@command("PARameter:LIMits?", Text("name"))
def limits(instrument: Instrument, name: str) -> str:
    """Lowest and highest value of a parameter, in SI."""
    refuse("parameter", name, instrument.description.parameters)
    found = instrument.description.parameters[name]
    return f"{found.low!r},{found.high!r}"


# The next shot ----------------------------------------------------------------------------------------------------


@command("SHOT:CLEar")
def forget(instrument: Instrument) -> None:
    """Shot as after *RST: no steps, no waveforms, neither hold nor echo, no trim, all channels, the design's start.

    Ranges are those of the description.
    """
    instrument.settings = Settings()


command.setting(
    "SHOT:STEPs",
    Number("steps", 1, 2**40, whole=True),
    "settings.steps",
    "Number of steps of the next pass.",
)
command.setting(
    "SHOT:ECHO",
    Switch("echo"),
    "settings.echo",
    "Whether the pass begins by turning the held state round; drives are then played backwards and conjugated.",
)
command.setting(
    "SHOT:HOLD",
    Switch("hold"),
    "settings.hold",
    "Whether the state at its end is held for an echo.",
)
command.setting(
    "SHOT:PAIRed",
    Switch("paired"),
    "settings.paired",
    "Whether the second half of the runs are partners of the first, which may be read as sum and difference.",
)
command.setting(
    "SHOT:AMPLify",
    Switch("amplify"),
    "settings.amplify",
    "Whether an echo gains at every rate at which the device otherwise loses, if the bench can.",
)


@command("SHOT:TRIM", Text("node"), Values("trim"))
def trim(instrument: Instrument, node: str, values: Given) -> None:
    """Angle in rad by which an echo rotates a node after its turn, and factor on its momentum; 0 and 1, if not said.

    Of several chips one of each, or all angles and then all factors.
    """
    refuse("node", node, dict.fromkeys(instrument.description.nodes))
    numbers, chips = instrument.format.numbers(values), instrument.description.chips
    if len(numbers) not in (2, 2 * chips):
        raise Fault(-221, f"{node} must have an angle and a factor, or these for each of {chips} chips")
    instrument.settings.trim[node] = numbers.reshape(2, -1)


@command("SHOT:RANGe", Text("channel"), Number("range"))
def set_range(instrument: Instrument, name: str, value: float) -> None:
    """Full scale of a channel for the pass, in SI, if the bench can; that of its description, if not said."""
    refuse("channel", name, instrument.description.channels)
    instrument.settings.ranges[name] = value


@command("SHOT:CHANnels", Several(Text("channel")))
def channels(instrument: Instrument, names: tuple[str, ...]) -> None:
    """Channels that are read; all, if this is not said."""
    for name in names:
        refuse("channel", name, instrument.description.channels)
    instrument.settings.channels = names


@command("SHOT:CHANnels:NONE")
def no_channels(instrument: Instrument) -> None:
    """Read no channel."""
    instrument.settings.channels = ()


@command("SHOT:STARt:POSition", Text("node"), Number("value"))
def position(instrument: Instrument, node: str, value: float) -> None:
    """Position of a node at the start, in SI; the design's own, if this is not said."""
    refuse("node", node, dict.fromkeys(instrument.description.nodes))
    instrument.settings.positions[node] = value


@command("SHOT:STARt:MOMentum", Text("node"), Number("value"))
def momentum(instrument: Instrument, node: str, value: float) -> None:
    """Momentum of a node at the start, in SI."""
    refuse("node", node, dict.fromkeys(instrument.description.nodes))
    instrument.settings.momenta[node] = value


@command("DRIVe[:DATA]", Text("drive"), Values("waveform"))
def drive(instrument: Instrument, name: str, values: Given) -> None:
    """Waveform of a drive in SI, one value per step, as the free pass has it; without one a drive is silent.

    Of several runs, the values of a step stand side by side.
    """
    instrument.keep_wave("drive", name, values, each=False)


@command("DRIVe:EACH", Text("drive"), Values("waveform"))
def drive_each(instrument: Instrument, name: str, values: Given) -> None:
    """The same with one for every chip, chips side by side in every run."""
    instrument.keep_wave("drive", name, values, each=True)


@command("DRIVe:CATalog?")
def drives(instrument: Instrument) -> str:
    """Names of all drives."""
    return _listed(instrument.description.drives)


@command("NUDGe[:DATA]", Text("target"), Values("waveform"))
def nudge(instrument: Instrument, name: str, values: Given) -> None:
    """Impulses on a target in SI, one at the start of every step, in the order in which they act."""
    instrument.keep_wave("nudge", name, values, each=False)


@command("NUDGe:EACH", Text("target"), Values("waveform"))
def nudge_each(instrument: Instrument, name: str, values: Given) -> None:
    """The same with one for every chip."""
    instrument.keep_wave("nudge", name, values, each=True)


@command("NUDGe:CATalog?")
def nudges(instrument: Instrument) -> str:
    """Names of all targets."""
    return _listed(instrument.description.nudges)


# Passes -----------------------------------------------------------------------------------------------------------


@command("INITiate[:IMMediate]")
def start(instrument: Instrument) -> None:
    """Begin a pass, and go on at once; the last record is gone."""
    instrument.start()


@command("INITiate:DONE?", Number("seconds", 0, LONGEST_WAIT_S, default=0))
async def done(instrument: Instrument, seconds: float) -> str:
    """1 if no pass is under way; waits for that up to so many seconds, then 0."""
    await instrument.idle(seconds)
    return str(int(not instrument.busy))


@command("ABORt")
def abort(instrument: Instrument) -> None:
    """Keep no record of the pass that is under way; the device itself runs to its end."""
    instrument.abort()


# Records ----------------------------------------------------------------------------------------------------------


@command("FETCh[:SAMPles]?", Several(Text("channel")), waits=True)
def samples(instrument: Instrument, names: tuple[str, ...]) -> Answer:
    """Samples of channels, one channel after the other.

    Of several runs and chips, those of a sample stand side by side.
    """
    record = instrument.record(*names)
    return instrument.format.data(*(record.samples[name] for name in names))


@command("FETCh:BLOCk?", Several(Text("channel")), waits=True)
def block(instrument: Instrument, names: tuple[str, ...]) -> Answer:
    """Samples of channels of one kind, side by side: first those of all channels at the first instant, and so on.

    Of several runs and chips, those of a sample stand side by side.
    """
    record = instrument.record(*names)
    if len({len(record.samples[name]) for name in names}) > 1:
        raise Fault(-221, "channels of a block must have equally many samples: fetch each kind by itself")
    return instrument.format.data(np.asarray(record.stacked(names)))


@command("FETCh:TIMes?", Text("channel"), waits=True)
def times(instrument: Instrument, name: str) -> Answer:
    """When a channel's samples were taken, in seconds from the start of the pass."""
    return instrument.format.data(instrument.record(name).times_s[name])


@command("FETCh:SHAPe?", Text("channel"), waits=True)
def shape(instrument: Instrument, name: str) -> str:
    """Numbers of samples, runs and chips of a channel."""
    return ",".join(map(str, instrument.record(name).samples[name].shape))


@command("FETCh:CATalog?", waits=True)
def catalogue(instrument: Instrument) -> str:
    """Channels of the record."""
    return _listed(instrument.record().samples)


@command("FETCh:SATurated?", Text("name"), waits=True)
def saturated(instrument: Instrument, name: str) -> Answer:
    """Where values of a channel, a drive, a nudge or the state were beyond the range.

    In REAL formats a block of bits, the first in the highest place of the first byte; in ASCii 0 and 1.
    """
    known = instrument.record().saturated
    refuse("name", name, known)
    if instrument.format.real:
        return packed(np.packbits(known[name]).data)
    return ",".join("01"[int(flag)] for flag in known[name].ravel())


@command("FETCh:HEADer?", waits=True)
def header(instrument: Instrument) -> Answer:
    """The record but for its samples, as a block of JSON.

    Shapes and units by channel; of all that has a range, the shape of its flags and how many of them are set.
    """
    record = instrument.record()
    read = {k: {"shape": v.shape, "unit": record.units[k]} for k, v in record.samples.items()}
    flags = {k: {"shape": v.shape, "count": int(np.count_nonzero(v))} for k, v in record.saturated.items()}
    return _json({"pass": instrument.passes, "channels": read, "saturated": flags})
