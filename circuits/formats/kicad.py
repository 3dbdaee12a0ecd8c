"""KiCad netlists: what KiCad's board editor imports, version "E" of the S-expression that its schematic editor exports.

The form follows files that KiCad 6 and later write. Footprints are placeholders, and time stamps are made from names,
so that the same design gives the same file.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from circuits.formats.board import BoardPart, parts_of
from circuits.netlist import Netlist


def write(netlist: Netlist) -> str:
    """KiCad netlist of a board with the bought parts of a netlist, a connector per drive and a test point per probe."""
    parts = parts_of(netlist)
    return "\n".join(
        [
            '(export (version "E")',
            f"  (design (source {_quoted(netlist.name)}) (tool {_quoted('rhel-hw')}))",
            "  (components",
            *(line for part in parts for line in _component(netlist, part)),
            "  )",
            "  (nets",
            *_nets(netlist, parts),
            "  ))",
            "",
        ]
    )


def _component(netlist: Netlist, part: BoardPart) -> Iterator[str]:
    kind = part.kind
    stamp = uuid.uuid5(uuid.NAMESPACE_OID, f"{netlist.name}\n{kind.letter}\n{part.name}")
    yield f"    (comp (ref {_quoted(part.reference)})"
    yield f"      (value {_quoted(part.text)})"
    yield f"      (footprint {_quoted(kind.footprint)})"
    yield f"      (property (name {_quoted('Element')}) (value {_quoted(part.name)}))"
    if part.tolerance is not None:
        yield f"      (property (name {_quoted('Tolerance')}) (value {_quoted(f'{part.tolerance:.4g}')}))"
    described = f"(description {_quoted(kind.summary)})"
    yield f"      (libsource (lib {_quoted(kind.library)}) (part {_quoted(kind.symbol)}) {described})"
    yield f'      (sheetpath (names "/") (tstamps "/")) (tstamps "{stamp}"))'


def _nets(netlist: Netlist, parts: tuple[BoardPart, ...]) -> Iterator[str]:
    for code, node in enumerate((netlist.ground, *netlist.nodes), 1):
        pins = [(p, pin) for p in parts for pin, n in enumerate(p.pins, 1) if n == node]
        if not pins:
            continue
        yield f'    (net (code "{code}") (name {_quoted(node)})'
        for part, pin in pins:
            yield f'      (node (ref {_quoted(part.reference)}) (pin "{pin}") (pintype "passive"))'
        yield "    )"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
