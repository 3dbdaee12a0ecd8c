"""Detectors: how the motion at a node becomes a signal that can be recorded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import pi
from typing import ClassVar, dataclass_transform

from devices.element import PHOTONIC, SPIN, Array, Law, P, Part, Values, complete, parameter, reference, terminal
from devices.maths import cos, sin
from devices.photonic import HBAR
from devices.units import Quantity


@dataclass(frozen=True, repr=False)
class Detector(Part):
    """A part that reads one node. Final subclasses are made with `@detector`."""

    unit: ClassVar[str]
    signal: ClassVar[Law]
    """(position, momentum, parameters) in SI → signal in SI."""
    signal_text: ClassVar[str] = ""

    def read(self, position: Array, momentum: Array) -> Array:
        """Signal for the position and momentum of the node, in SI."""
        return type(self).signal(position, momentum, Values(**self.values))


DETECTORS: dict[str, type[Detector]] = {}
"""Every detector type by the name that design files use."""


@dataclass_transform(field_specifiers=(terminal, reference, parameter), frozen_default=True)
def detector(type_name: str) -> Callable[[type[P]], type[P]]:
    """Make a class a detector and register it under its design-file name."""

    def finish(cls: type[P]) -> type[P]:
        made = complete(cls, type_name)
        assert issubclass(made, Detector)
        DETECTORS[type_name] = made
        return made

    return finish


@detector("homodyne")
class Homodyne(Detector):
    """Homodyne detector: the quadrature of a mode at a chosen angle."""

    node: str = terminal()
    angle: Quantity = parameter("rad", "0 reads √2·Re a, π/2 reads √2·Im a", default=0.0)
    unit = ""
    signal_text = "√2·Re(a·e^(−i·angle))"
    domain = PHOTONIC

    @staticmethod
    def signal(position: Array, momentum: Array, p: Values) -> Array:
        """Position and momentum, mixed."""
        return position * cos(p.angle) + momentum / HBAR * sin(p.angle)


@detector("magnetoresistive")
class Magnetoresistive(Detector):
    """Magnetoresistive junction on a macrospin: resistance by the angle to a fixed layer."""

    node: str = terminal()
    resistance: Quantity = parameter("ohm", "resistance when parallel", default=1000.0, above=0)
    ratio: Quantity = parameter("", "relative increase when antiparallel", default=1.0, above=0)
    reference_angle: Quantity = parameter(
        "rad", "azimuth of the fixed layer; at π/2 small swings read linearly", default=pi / 2
    )
    unit = "ohm"
    signal_text = "R(1 + ratio·(1 − cos(φ − reference))/2)"
    domain = SPIN

    @staticmethod
    def signal(position: Array, momentum: Array, p: Values) -> Array:
        """Resistance."""
        return p.resistance * (1 + p.ratio * (1 - cos(position - p.reference_angle)) / 2)
