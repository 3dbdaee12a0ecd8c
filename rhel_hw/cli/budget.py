"""What `rhel-hw sweep --require` does: find the budget of a design, print the contract and write it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli.common import print_json, progress, save

if TYPE_CHECKING:
    from circuits import Netlist
    from studies.sweeps.contract import Budget

COLUMNS = 100
"""Of a terminal that the table must fit."""


def find(
    netlist: Netlist,
    axes: dict[str, Any],
    require: list[str],
    out: Path,
    changes: dict[str, Any],
    as_json: bool,
    *,
    name: str | None = None,
    workers: int = 2,
    memory: int | None = None,
) -> None:
    """Find a budget, print it, and write it as JSON, as a page and as a figure, named after the design by default."""
    from rhel_hw.files import folder, write_text
    from studies.sweeps.budget import find_budget
    from studies.sweeps.engine import MEMORY

    axes = dict(axes)
    own = {"seeds": axes.pop("seed")} if "seed" in axes else {}
    sweep = {k: v for k, v in changes.items() if v is not None}
    folder(out)
    with progress("finding the budget", "gradients") as report:
        found = find_budget(
            netlist, require, axes=axes or None, sweep=sweep, workers=workers, memory=memory or MEMORY, report=report,
            **own,
        )  # fmt: skip
    figure = found.figure()
    stem = f"{name or slug(netlist.name)}-budget"
    files = [
        write_text(out / f"{stem}.json", json.dumps(found.to_dict(), indent=2, allow_nan=False) + "\n"),
        write_text(out / f"{stem}.md", found.to_markdown()),
        save(figure, out, f"{stem}.png"),
    ]
    if as_json:
        print_json({**found.to_dict(), "files": [str(f) for f in files]})
        return
    console = Console(highlight=False)
    told(console, found)
    for file in files:
        console.print(f"wrote {escape(str(file))}")


def told(console: Console, found: Budget) -> None:
    """The contract for people."""
    title, *head = found.head()
    width = min(console.width, COLUMNS)
    console.print(f"[bold]{escape(title)}[/bold]", width=width)
    for line in head:
        console.print(escape(line), width=width)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for i, column in enumerate(found.columns):
        table.add_column(column, no_wrap=not i)  # names of settings are whole
    for row in found.rows():
        table.add_row(*map(escape, row))
    console.print()
    console.print(table, width=width)
    console.print()
    for line in found.foot():
        console.print(escape(line), width=width)


def slug(name: str) -> str:
    """A name for files."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "design"
