"""Tables of what a design is made of and how it rings, for data sheets and pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from circuits import Design, Netlist
from circuits.formats.bom import Stress
from circuits.formats.wording import quantity_text, values_text
from devices import Element
from studies.report import Block, Paragraph, Table

MOST_ROWS = 60
"""Of a table; the design file has all."""
NOTHING = "–"


def fitted(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Block]:
    """Yield a table without the columns in which nothing stands, and without what would be too long."""
    if not rows:
        return
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows)]
    shown = [tuple(row[i] or NOTHING for i in kept) for row in rows[:MOST_ROWS]]
    yield Table(tuple(columns[i] for i in kept), shown)
    if len(rows) > MOST_ROWS:
        yield Paragraph(f"And {len(rows) - MOST_ROWS} more.")


def elements(netlist: Netlist, stress: Mapping[str, Stress] | None = None) -> Iterator[Block]:
    """Yield all elements with their values, tolerances and what may be learnt; with peaks, where some are known."""
    rows = [_element(netlist, e, (stress or {}).get(e.name)) for e in netlist.elements]
    yield from fitted(("name", "type", "nodes", "values", "tolerance", "learns within", "peaks"), rows)


def _element(netlist: Netlist, e: Element, stress: Stress | None) -> tuple[str, ...]:
    joined = [*netlist.terminals_of(e), *(getattr(e, key) for key in e.references)]
    tolerance = [f"±{100 * spread:.3g} %" for spread in e.tolerance.values()]
    peaks = [] if stress is None else [quantity_text(stress.voltage, "V"), quantity_text(stress.current, "A")]
    return (
        e.name, e.type, " – ".join(joined), ", ".join(values_text(netlist, e, every=True)),
        ", ".join(tolerance), ", ".join(_reach(e, key) for key in e.trainable), ", ".join(peaks),
    )  # fmt: skip


def _reach(e: Element, key: str) -> str:
    unit, pair = e.parameters[key].unit or "", e.bounds.get(key)
    words = "" if len(e.trainable) == 1 else f"{key.replace('_', ' ')} "
    return words + ("any" if pair is None else f"{quantity_text(pair[0], unit)} … {quantity_text(pair[1], unit)}")


def modes(design: Design) -> Iterator[Block]:
    """Yield normal modes, or detunings of modes in rotating frames, against the step."""
    found = design.frequencies_hz
    rotating = bool(np.any(found < 0))
    yield Table(
        ("mode", "detuning" if rotating else "frequency", "period", "steps a period"),
        [
            (
                str(i + 1), quantity_text(f, "Hz"), quantity_text(1 / abs(f), "s") if f else "∞",
                f"{1 / abs(f) / design.step_s:.1f}" if f else "∞",
            )
            for i, f in enumerate(found[:MOST_ROWS].tolist())
        ],
        numeric=(0, 1, 2, 3),
    )  # fmt: skip
    if not design.modes.complete:
        yield Paragraph("Of so large a circuit only the lowest and the highest mode are computed.")
