"""The command that lists devices whose numbers are known, or at least assumed in the open."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli import completion
from rhel_hw.cli.common import JsonOption, print_json


def presets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Show one preset in full.", autocompletion=completion.presets)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List device presets with their values, and the source or assumption of each."""
    from devices import ArgumentError, nearest
    from devices.catalogue import CATALOGUE

    if name is not None and name not in CATALOGUE:
        raise ArgumentError(f"Argument `NAME` must be a preset, but is {name!r}{nearest(name, CATALOGUE)}")
    described = {key: _describe(CATALOGUE[key]) for key in (CATALOGUE if name is None else [name])}
    if as_json:
        print_json(described)
    elif name is not None:
        _print_one(name, described[name])
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("preset", "type", "looked up", "device"):
            table.add_column(column, overflow="fold")
        for key, item in described.items():
            read = sum("source" in value for value in item["parameters"].values())
            table.add_row(key, item["type"], f"{read} of {len(item['parameters'])}", escape(item["summary"]))
        Console().print(table)


def _describe(entry: Any) -> dict[str, Any]:
    return {
        "summary": entry.summary,
        "type": entry.type,
        "parameters": {
            key: {"value": value}
            | ({"source": entry.sources[key]} if key in entry.sources else {"assumption": entry.assumptions[key]})
            for key, value in entry.values.items()
        },
    }


def _print_one(name: str, item: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{name}[/bold]: {escape(item['summary'])} (type {item['type']})")
    for key, info in item["parameters"].items():
        origin = "source" if "source" in info else "assumption"
        console.print(f"  {key}: {info['value']}")
        console.print(f"    {origin}: {escape(info[origin])}")
    console.print("\n" + escape(_snippet(name, item["type"])))


def _snippet(name: str, type_name: str) -> str:
    """The preset as a design file would use it."""
    import json

    from devices import ELEMENTS

    nodes = ["n1", "gnd", "n2", "n3"][: len(ELEMENTS[type_name].terminals)]
    where = 'node = "n1"' if len(nodes) == 1 else f"nodes = {json.dumps(nodes)}"
    return "\n".join([f"[elements.{type_name}1]", f'preset = "{name}"', where])
