"""Drives: how a waveform from outside enters the energy, and what becomes of it in the echo.

The echo plays every waveform backwards. One that is odd under time reversal (`parity` −1) is played backwards *and*
sign-inverted. What enters the energy are the drive's `channels`, functions of the waveform. Those that push positions
are themselves even; those that push momenta, as the in-phase part of coherent light does, are odd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import cos, sin
from typing import ClassVar, dataclass_transform

from devices.element import (
    ELECTRICAL,
    GROUND,
    MECHANICAL,
    PHOTONIC,
    SPIN,
    TEXTURE,
    ElementError,
    P,
    Part,
    complete,
    parameter,
    reference,
    terminal,
)
from devices.photonic import HBAR
from devices.units import Quantity, UnitError
from devices.waveforms import Waveform


@dataclass(frozen=True)
class Channel:
    """One input of the energy that a drive feeds: which function of the waveform it is, and its unit."""

    function: str
    """"value", "integral" or "slope" of the waveform."""
    unit: str
    parity: int = 1
    """+1: a force −x·u in the potential; −1: a velocity +p·u in the kinetic energy, sign-inverted in the echo."""


@dataclass(frozen=True, repr=False)
class Drive(Part):
    """A part that brings a waveform into the circuit. Final subclasses are made with `@drive`."""

    waveform: Waveform | None = field(default=None, kw_only=True)

    unit: ClassVar[str]
    parity: ClassVar[int] = 1
    """+1: replayed reversed; −1: replayed reversed and sign-inverted."""
    action: ClassVar[str] = "inject"
    """`inject` a force at a node, `prescribe` the velocity of a node, or `thread` a branch of an element."""
    row: ClassVar[int] = 0
    """Which branch of the element is threaded; the first is lowered by the input, others are raised."""
    feeds: ClassVar[tuple[str, ...]] = ()
    """Types of elements that can be threaded; none: whatever has a potential in the drive's domain."""
    channels: ClassVar[tuple[Channel, ...]]
    energy_text: ClassVar[str] = ""
    reversal_text: ClassVar[str] = ""

    @property
    def weights(self) -> tuple[float, ...]:
        """Factor of every channel, in SI."""
        return (1.0,) * len(self.channels)

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


@drive("coherent")
class CoherentDrive(Drive):
    """Coherent light of fixed phase into a resonator: ȧ = … + F(t)·e^(i·angle).

    In the laboratory frame a wave needs two, a quarter turn apart: F·cos ωt at 0 and F·sin ωt at −π/2.
    """

    node: str = terminal()
    angle: Quantity = parameter(
        "rad", "0 drives √2·Re a, which is odd under time reversal; π/2 drives √2·Im a", default=0.0
    )
    unit = "Hz"
    channels = (Channel("value", "Hz", parity=-1), Channel("value", "J"))
    energy_text = "√2·F(t)·(m·cos angle − ħx·sin angle); F = √(κ_e·P/ħω), see devices.photonic.drive_rate"
    reversal_text = "played backwards and conjugated: the part that drives √2·Re a sign-inverted"
    domain = PHOTONIC

    @property
    def weights(self) -> tuple[float, ...]:
        """Of the odd quadrature, then of the even one."""
        return 2**0.5 * cos(self.angle), 2**0.5 * HBAR * sin(self.angle)


@drive("field")
class FieldDrive(Drive):
    """Field of a field line, by its current."""

    element: str = reference()
    unit = "T"
    action = "thread"
    row = 1
    feeds = ("field-line",)
    channels = (Channel("value", "T"),)
    energy_text = "−M_sV·B(t)·cos(φ − angle of the line)"
    domain = SPIN


@drive("torque")
class TorqueDrive(Drive):
    """Torque on the azimuth of a spin."""

    node: str = terminal()
    unit = "J"
    channels = (Channel("value", "J"),)
    energy_text = "−φ·τ(t)"
    domain = SPIN


@drive("core-force")
class CoreForceDrive(Drive):
    """Force on a vortex or skyrmion core; an in-plane field B makes one of σB on a vortex."""

    node: str = terminal()
    unit = "N"
    channels = (Channel("value", "N"),)
    energy_text = "−X·F(t)"
    domain = TEXTURE
