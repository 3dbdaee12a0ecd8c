"""Drives: how a waveform from outside enters the energy, and what becomes of it in the echo.

The echo plays every waveform backwards. One that is odd under time reversal (`parity` −1) is played backwards *and*
sign-inverted. What enters the energy are the drive's `channels`, functions of the waveform that are themselves even.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, dataclass_transform

from devices.element import (
    ELECTRICAL,
    GROUND,
    MECHANICAL,
    ElementError,
    P,
    Part,
    complete,
    parameter,
    reference,
    terminal,
)
from devices.units import UnitError
from devices.waveforms import Waveform


@dataclass(frozen=True)
class Channel:
    """One input of the energy that a drive feeds: which function of the waveform it is, and its unit."""

    function: str
    """"value", "integral" or "slope" of the waveform."""
    unit: str


@dataclass(frozen=True, repr=False)
class Drive(Part):
    """A part that brings a waveform into the circuit. Final subclasses are made with `@drive`."""

    waveform: Waveform | None = field(default=None, kw_only=True)

    unit: ClassVar[str]
    parity: ClassVar[int] = 1
    """+1: replayed reversed; −1: replayed reversed and sign-inverted."""
    action: ClassVar[str] = "inject"
    """`inject` a force at a node, `prescribe` the velocity of a node, or `thread` a branch with flux."""
    channels: ClassVar[tuple[Channel, ...]]
    energy_text: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.waveform is None:
            return
        label = f"{self.type} drive {self.name!r}"
        if not isinstance(self.waveform, Waveform):
            raise ElementError(label, "waveform", "must be a waveform such as Sine('1 uA', '1 MHz')")
        try:
            object.__setattr__(self, "waveform", self.waveform.resolve(self.unit))
        except UnitError as error:
            raise ElementError(label, "waveform", f"is refused: {error}") from None


DRIVES: dict[str, type[Drive]] = {}
"""Every drive type by the name that design files use."""


@dataclass_transform(field_specifiers=(terminal, reference, parameter), frozen_default=True)
def drive(type_name: str) -> Callable[[type[P]], type[P]]:
    """Make a class a drive and register it under its design-file name."""

    def finish(cls: type[P]) -> type[P]:
        made = complete(cls, type_name)
        assert issubclass(made, Drive)
        DRIVES[type_name] = made
        return made

    return finish


@drive("current")
class CurrentDrive(Drive):
    """Current source into a node."""

    node: str = terminal()
    back: str = terminal(default=GROUND)
    unit = "A"
    channels = (Channel("value", "A"),)
    energy_text = "−φ·I(t)"
    domain = ELECTRICAL


@drive("force")
class ForceDrive(Drive):
    """Force on a mass."""

    node: str = terminal()
    back: str = terminal(default=GROUND)
    unit = "N"
    channels = (Channel("value", "N"),)
    energy_text = "−x·F(t)"
    domain = MECHANICAL


@drive("voltage")
class VoltageDrive(Drive):
    """Voltage source that holds a node; capacitors and inductors couple it to the rest."""

    node: str = terminal()
    unit = "V"
    parity = -1
    action = "prescribe"
    # Inductive branches see the source's flux ∫V dt, capacitive ones inject C·dV/dt; both are even.
    channels = (Channel("integral", "Wb"), Channel("slope", "V/s"))
    energy_text = "through L: (φ − ∫V dt)²/2L; through C: C joins the node and injects C·dV/dt"
    domain = ELECTRICAL


@drive("flux")
class FluxDrive(Drive):
    """Flux threaded through the loop of an inductive branch."""

    element: str = reference()
    unit = "Wb"
    action = "thread"
    channels = (Channel("value", "Wb"),)
    energy_text = "branch flux φ becomes φ − Φ(t)"
    domain = ELECTRICAL
