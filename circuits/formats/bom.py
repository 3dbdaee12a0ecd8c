"""Bills of materials in CSV: equal parts on one line, with their preferred value and what they have to bear."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass

from circuits.eseries import nearest as nearest_value
from circuits.formats.board import BoardPart, parts_of
from circuits.netlist import Netlist
from devices import ArgumentError, nearest, to_text

COLUMNS = (
    "References", "Elements", "Quantity", "Part", "Value", "Value (SI)", "Tolerance", "Series", "Preferred value",
    "Shift", "Peak voltage (V)", "Peak current (A)", "Footprint",
)  # fmt: skip


@dataclass(frozen=True)
class Stress:
    """What a part bears at most, as a simulation or a measurement has it."""

    voltage: float
    """Largest magnitude across it, in V."""
    current: float
    """Largest magnitude through it, in A."""


def write(netlist: Netlist, series: str = "E24", stress: Mapping[str, Stress] | None = None) -> str:
    """Bill of materials of a board; `stress` by element name fills the columns of peaks, the worst of equal parts.

    Elements are names in the design, beside the reference designators of the board. Columns of peaks are empty where no
    stress is given. A tank is two parts, and each bears the whole voltage and, at most, the whole current.
    """
    stress = stress or {}
    for name in stress:
        if name not in netlist.by_name:
            raise ArgumentError(
                f"Argument `stress` names {name!r}, which is no element{nearest(name, netlist.by_name)}"
            )
    groups: dict[tuple[object, ...], list[BoardPart]] = {}
    for part in parts_of(netlist):
        groups.setdefault((part.kind, part.value, "" if part.value is None else part.text, part.tolerance), []).append(
            part
        )
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for parts in groups.values():
        table.writerow(_row(parts, series, [stress[p.name] for p in parts if p.value is not None and p.name in stress]))
    return text.getvalue()


def _row(parts: list[BoardPart], series: str, borne: list[Stress]) -> list[str]:
    one = parts[0]
    preferred, shift, shown = "", "", one.text if len(parts) == 1 or one.value is not None else one.kind.summary
    if one.value is not None:
        bought = nearest_value(one.value, series)
        preferred, shift = to_text(bought, one.unit), f"{bought / one.value - 1:+.2%}"
    return [
        " ".join(p.reference for p in parts),
        " ".join(dict.fromkeys(p.name for p in parts)),
        str(len(parts)),
        one.kind.summary,
        shown,
        "" if one.value is None else repr(one.value),
        "" if one.tolerance is None else f"{one.tolerance:.4g}",
        series if one.value is not None else "",
        preferred,
        shift,
        f"{max(s.voltage for s in borne):.4g}" if borne else "",
        f"{max(s.current for s in borne):.4g}" if borne else "",
        one.kind.footprint,
    ]
