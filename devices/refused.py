"""Parts that a netlist may well contain but echo learning cannot use, known so that a finding can name them."""

from __future__ import annotations

from typing import ClassVar

from devices.element import Element, Refusal, element, parameter, terminal
from devices.units import Quantity


@element("gyrator")
class Gyrator(Element):
    """Ideal gyrator: couples fluxes to charges of another port."""

    a: str = terminal()
    b: str = terminal()
    c: str = terminal()
    d: str = terminal()
    conductance_ratio: Quantity = parameter("A/V", "gyration conductance", example="1 mA/V")
    branches: ClassVar = ()
    refusal = Refusal(
        "a gyrator mixes positions and momenta (energy not separable) and breaks time reversal",
        "couple the two nodes by an inductor, a capacitor or a bilinear coupler",
    )


@element("offset-charge")
class OffsetCharge(Element):
    """Static gate charge on an island."""

    node: str = terminal()
    charge: Quantity = parameter("C", "offset charge", example="0.1 aC")
    branches: ClassVar = ()
    refusal = Refusal(
        "an offset charge makes the kinetic energy (q − q_g)²/2C, which is not even in momentum",
        "remove it, shunt the island by an inductor, or use the sign-flip echo on hardware that can invert H",
    )


@element("diode")
class DiodeVaractor(Element):
    """Single junction diode used as a varactor."""

    a: str = terminal()
    b: str = terminal()
    capacitance: Quantity = parameter("F", "zero-bias capacitance", above=0, example="1 pF")
    branches: ClassVar = ()
    refusal = Refusal(
        "the charge energy of a single diode is not even in momentum",
        "use a symmetric pair: a `varactor`, or a `capacitor` for an anti-series abrupt pair, which is linear",
    )
