"""What a printed circuit board takes of a netlist: bought parts with reference designators, pins and footprints.

A tank becomes a capacitor and an inductor, a drive a two-pin connector, and a probed node a test point.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from circuits.findings import DesignError, Finding, error
from circuits.formats.spice_write import SUBCIRCUITS
from circuits.netlist import Netlist
from devices import Element, to_text


@dataclass(frozen=True)
class Kind:
    """A kind of part, as board tools know it."""

    letter: str
    """Of reference designators."""
    library: str
    symbol: str
    footprint: str
    """A placeholder, to be chosen by what the part has to bear."""
    summary: str


CAPACITOR = Kind("C", "Device", "C", "Capacitor_SMD:C_0603_1608Metric", "Capacitor")
INDUCTOR = Kind("L", "Device", "L", "Inductor_SMD:L_0805_2012Metric", "Inductor")
RESISTOR = Kind("R", "Device", "R", "Resistor_SMD:R_0603_1608Metric", "Resistor")
CONNECTOR = Kind(
    "J",
    "Connector_Generic",
    "Conn_01x02",
    "Connector_PinHeader_2.54mm:PinHeader_1x02_P2.54mm_Vertical",
    "Connector of a drive",
)
TEST_POINT = Kind("TP", "Connector", "TestPoint", "TestPoint:TestPoint_Pad_D1.0mm", "Test point")
_KINDS = {"capacitance": CAPACITOR, "inductance": INDUCTOR, "resistance": RESISTOR}
_PARTS = {
    "capacitor": ("capacitance",),
    "inductor": ("inductance",),
    "saturable": ("inductance",),
    "resistor": ("resistance",),
    "tank": ("capacitance", "inductance"),
}


@dataclass(frozen=True)
class BoardPart:
    """One part of the board."""

    reference: str
    kind: Kind
    name: str
    """Of the element, the drive or the probed node that it stands for."""
    pins: tuple[str, ...]
    """Node of every pin, pin 1 first."""
    text: str
    """Its value, as printed."""
    value: float | None = None
    tolerance: float | None = None

    @property
    def unit(self) -> str:
        """Of its value."""
        return {"C": "F", "L": "H", "R": "ohm"}.get(self.kind.letter, "")


def parts_of(netlist: Netlist) -> tuple[BoardPart, ...]:
    """Parts of the board, or a refusal that names every element that is none."""
    refused = [found for element in netlist.elements for found in _refused(element)]
    refused += [
        error(d.name, f"a {d.type} drive has no pair of pins on a board", "drive by a current or a voltage")
        for d in netlist.drives
        if d.type not in ("current", "voltage")
    ]
    if refused:
        raise DesignError(refused)
    wanted = [*_bought(netlist), *_outside(netlist)]
    taken = {name for kind, name, *_ in wanted if re.fullmatch(kind.letter + r"[1-9]\d{0,3}", name)}
    found: list[BoardPart] = []
    for kind, name, pins, text, value, tolerance in wanted:
        reference = name if name in taken and re.fullmatch(kind.letter + r"[1-9]\d{0,3}", name) else ""
        if not reference or any(p.reference == reference for p in found):
            number = 1
            while (reference := f"{kind.letter}{number}") in taken:
                number += 1
            taken.add(reference)
        found.append(BoardPart(reference, kind, name, pins, text, value, tolerance))
    return tuple(found)


_Wanted = tuple[Kind, str, tuple[str, ...], str, float | None, float | None]


def _bought(netlist: Netlist) -> Iterator[_Wanted]:
    for element in netlist.elements:
        ends = netlist.terminals_of(element)
        for key in _PARTS[element.type]:
            value = element.values[key]
            text = to_text(float(f"{value:.5g}"), element.parameters[key].unit or "")
            if element.type == "saturable":
                limit = to_text(float(f"{element.values['saturation_current']:.5g}"), "A")
                text += f", saturates at {limit}"
            yield (
                _KINDS[key],
                element.name,
                ends,
                text,
                value,
                element.tolerance.get(key) if element.tolerance else None,
            )


def _outside(netlist: Netlist) -> Iterator[_Wanted]:
    for drive in netlist.drives:
        ends = (*netlist.terminals_of(drive), netlist.ground)[:2]
        yield CONNECTOR, drive.name, ends, f"{drive.type} drive {drive.name}", None, None
    for node in netlist.nodes:
        if netlist.probes.sees_position(node) or netlist.probes.sees_momentum(node):
            yield TEST_POINT, node, (node,), f"probe of {node}", None, None


def _refused(element: Element) -> Iterator[Finding]:
    if element.type == "mutual":
        reason = "coupled windings are one part, and a board's netlist has no coupling between two"
        yield error(element.name, reason, "export as SPICE, and draw the transformer by hand")
    elif element.type not in _PARTS:
        spice = "SPICE or as " if element.type in SUBCIRCUITS else ""
        yield error(element.name, f"a {element.type} is no part of a board", f"export as {spice}a TOML design file")
    elif element.values.get("flux"):
        yield error(element.name, "a static external flux is no part of a board", "set its flux to 0")
