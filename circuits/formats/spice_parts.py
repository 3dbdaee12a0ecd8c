"""Parts of a SPICE deck that is read, and the elements and drives that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from circuits.formats.spice_values import SpiceError, negated
from circuits.formats.spice_write import SUBCIRCUITS
from devices import DRIVES, ELEMENTS, GROUND, Drive, Element, nearest

TERMINALS = {terminal for kind in ("capacitor", "resistor", *SUBCIRCUITS) for terminal in ELEMENTS[kind].terminals}
"""Keys that hold nodes."""


@dataclass(frozen=True)
class Found:
    """A part as the deck has it: deck names for nodes and elements."""

    line: int
    name: str
    type: str
    fields: Mapping[str, Any]


def build(
    found: Found, settings: dict[str, Any], nodes: Mapping[str, str], names: Mapping[str, str]
) -> Element | Drive:
    """Make the part, with original names for those of the deck."""
    fields: dict[str, Any] = {k: nodes[v] if k in TERMINALS else v for k, v in found.fields.items()}
    if found.type in DRIVES:
        if found.type == "current":
            fields = _current(found.fields, settings, nodes)
        if extra := set(settings) - {"name"}:
            raise SpiceError(f"`{min(extra)}` of the *rhel lines does not fit the line", "remove it")
        return DRIVES[found.type](**fields, **settings)
    for key in ELEMENTS[found.type].references:
        if fields[key] not in names:
            raise SpiceError(
                f"`{fields[key][:64]}` is no inductor{nearest(fields[key][:64], names)}", "name an inductor"
            )
        fields[key] = names[fields[key]]
    return ELEMENTS[found.type](**fields, **settings)


def _current(found: Mapping[str, Any], settings: dict[str, Any], nodes: Mapping[str, str]) -> dict[str, Any]:
    """Terminals and waveform of a current source, whose current leaves it at n- and so is injected there.

    Open terminals are at ground; `node` or `back` of the settings name ground where the design does so.
    """
    plus, minus, wave = found["plus"], found["minus"], found["waveform"]
    if minus == "0" and plus != "0" and settings.get("node") == nodes["0"]:
        return {"node": settings.pop("node"), "back": nodes[plus], "waveform": wave}
    if minus == "0":
        plus, minus, wave = "0", plus, negated(wave)
    back = GROUND if plus == "0" else nodes[plus]
    if plus == "0" and settings.get("back") == nodes["0"]:
        back = settings.pop("back")
    return {"node": nodes[minus], "back": back, "waveform": wave}
