"""The command that lists what circuits are made of."""

from __future__ import annotations

import json
from math import inf
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli import completion
from rhel_hw.cli.common import JsonOption, print_json


def elements(
    kind: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="Show one type in full.", autocompletion=completion.elements)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List element, drive and detector types with their parameters, energies and limits."""
    from devices import DETECTORS, DRIVES, ELEMENTS, ArgumentError, nearest

    known: dict[str, Any] = dict(ELEMENTS)
    for what, kinds in (("drive", DRIVES), ("detector", DETECTORS)):
        known |= {f"{name} {what}": cls for name, cls in kinds.items()}
        kind = f"{kind} {what}" if kind in kinds else kind
    if kind is not None:
        if kind not in known:
            raise ArgumentError(f"Argument `TYPE` must be a type, but is {kind!r}{nearest(kind, known)}")
        known = {kind: known[kind]}
    described = {name: describe(cls) for name, cls in known.items()}
    if as_json:
        print_json(described)
    elif kind is not None:
        _print_one(kind, described[kind])
        Console(highlight=False).print("\n" + escape(snippet(kind, known[kind])))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("type", "terminals", "parameters", "energy or signal"):
            table.add_column(column, overflow="fold")
        for name, item in described.items():
            units = ", ".join(f"{k} ({p['unit']})" if p["unit"] else k for k, p in item["parameters"].items())
            ends = ", ".join([*item["terminals"], *item["references"]])
            table.add_row(name, ends, units, escape(item["energy"] or item["signal"] or f"refused: {item['refused']}"))
        Console().print(table)


def snippet(name: str, cls: Any) -> str:
    """The part as a design file would have it."""
    from devices import Element

    section = "elements" if issubclass(cls, Element) else f"{name.split()[-1]}s"
    lines = [f"[{section}.{name.split()[0]}1]", f'type = "{cls.type}"']
    nodes = ["n1", "n2", "n3", "gnd"][: len(cls.terminals)]
    if section != "elements":
        lines += [f'{key} = "n1"' for key in cls.terminals if key not in cls.optional_terminals]
    elif cls.terminals:
        lines.append('node = "n1"' if len(nodes) == 1 else f"nodes = {json.dumps(nodes)}")
    lines += [f'{key} = "{other}"' for key, other in zip(cls.references, ("L1", "L2"), strict=False)]
    lines += [f"{key} = {json.dumps(p.example)}" for key, p in cls.parameters.items() if p.default is None]
    return "\n".join(lines)


def describe(cls: Any) -> dict[str, Any]:
    """A kind of part as a table."""
    return {
        "summary": cls.summary,
        "terminals": list(cls.terminals),
        "references": list(cls.references),
        "parameters": {
            name: {
                "unit": p.unit,
                "meaning": p.doc,
                "default": "inf" if p.default == inf else p.default,
                "range": p.range_text(),
                "example": "inf" if p.example == inf else p.example,
                "typical": p.typical,
            }
            for name, p in cls.parameters.items()
        },
        "domain": cls.domain.name if cls.domain else "any",
        "energy": getattr(cls, "energy_text", ""),
        "signal": getattr(cls, "signal_text", ""),
        "loss": getattr(cls, "loss_text", ""),
        "limits": getattr(cls, "limits_text", ""),
        "watched": getattr(cls, "validity_text", ""),
        "reversal": getattr(cls, "reversal_text", "") or _parity(cls),
        "refused": "" if getattr(cls, "refusal", None) is None else cls.refusal.reason,
    }


def _parity(cls: Any) -> str:
    parity = getattr(cls, "parity", None)  # of drives alone
    return "" if parity is None else "played backwards" + (" and sign-inverted" if parity < 0 else "")


def _print_one(name: str, item: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{name}[/bold] ({item['domain']}): {item['summary']}")
    for key in ("terminals", "references"):
        if item[key]:
            console.print(f"  {key}: {', '.join(item[key])}")
    for parameter, info in item["parameters"].items():
        default = "required" if info["default"] is None else f"default {info['default']}"
        unit = f" ({info['unit']})" if info["unit"] else ""
        console.print(f"  {parameter}{unit}: {escape(info['meaning'])}; {info['range']}; {default}")
        if info["typical"]:
            console.print(f"    typical: {info['typical']}")
    for key in ("energy", "signal", "loss", "limits", "watched", "reversal", "refused"):
        if item[key]:
            console.print(f"  {key}: {escape(item[key])}")
