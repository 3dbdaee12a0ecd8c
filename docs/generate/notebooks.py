"""Notebooks: they are run, and become pages that show what came out.

A cell tagged `parameters` holds the sizes; tests run the same notebook with smaller ones. Lines that are for Jupyter
alone (`%matplotlib inline`) are left out.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure


@dataclass
class Cell:
    """A cell, and what came out of it."""

    source: str
    is_code: bool
    has_parameters: bool
    text: str = ""
    figures: list[Figure] = field(default_factory=list)


def run(path: Path, **parameters: Any) -> list[Cell]:
    """All cells of a notebook, run in an empty folder; `parameters` replace what the cell of that tag says."""
    cells = [
        Cell(
            "".join(line for line in c["source"] if not line.startswith("%")),
            c["cell_type"] == "code",
            "parameters" in c["metadata"].get("tags", ()),
        )
        for c in json.loads(path.read_text(encoding="utf-8"))["cells"]
    ]
    names: dict[str, Any] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for number, cell in enumerate(cells, 1):
            if cell.is_code:
                _execute(cell, names, f"{path.name}, cell {number}")
            if cell.has_parameters:
                unknown = parameters.keys() - names.keys()
                assert not unknown, f"{path.name} has no parameter {', '.join(unknown)}"
                names |= parameters
    return cells


def _execute(cell: Cell, names: dict[str, Any], label: str) -> None:
    """Run a cell; the value of a last expression comes out, as notebooks have it."""
    tree = ast.parse(cell.source, label)
    last = tree.body[-1] if tree.body else None
    tree.body = tree.body[:-1] if isinstance(last, ast.Expr) else tree.body
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, label, "exec"), names)
        value = eval(compile(ast.Expression(last.value), label, "eval"), names) if isinstance(last, ast.Expr) else None
        if isinstance(value, Figure):
            cell.figures.append(value)
        elif value is not None:
            print(repr(value))
    cell.text = printed.getvalue()


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """The notebook as Markdown, and its figures by name."""
    parts: list[str] = []
    figures: dict[str, bytes] = {}
    for cell in run(path):
        parts.append(f"```python\n{cell.source}\n```" if cell.is_code else cell.source)
        if cell.text:
            parts.append(f"```text\n{cell.text.rstrip()}\n```")
        for figure in cell.figures:
            name = f"{path.stem}-{len(figures) + 1}.png"
            stream = io.BytesIO()
            figure.savefig(stream, format="png")
            figures[name] = stream.getvalue()
            parts.append(f"![{_words(figure)}]({name})")
    parts.insert(1, f"[The notebook]({path.name}); what it prints below came out when this site was built.")
    return "\n\n".join(parts) + "\n", figures


def _words(figure: Figure) -> str:
    """What a figure shows, for those who do not see it."""
    labels = [axis.get_ylabel().replace("\n", " ") for axis in figure.axes if axis.get_ylabel()]
    return ", ".join(dict.fromkeys(labels)) or "figure"
