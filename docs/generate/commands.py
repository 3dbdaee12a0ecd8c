"""The command reference: help, arguments and options of every command, as its function declares them."""

from __future__ import annotations

import inspect
import types
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from typer.models import ArgumentInfo

from rhel_hw.cli import app

BEGIN = """# Commands

Written from the commands themselves; `rhel-hw COMMAND --help` prints the same. Every command exits with 0 on success,
with 2 on bad input, with one message that says what to do, and with 3 where a folder of passes waits to be measured
([how](../guides/folder.md)). DESIGN is a `.toml` design, a SPICE netlist (`.cir`, `.sp`), or the name of a built-in
design (`rhel-hw gallery`).
"""


@dataclass(frozen=True)
class Row:
    """One argument or option."""

    names: str
    value: str
    default: str
    words: str
    argument: bool


def page() -> str:
    """The page."""
    commands = {_name(info): info for info in sorted(app.registered_commands, key=_name)}
    listed = [f"- [`{name}`](#{name}): {_words(info).splitlines()[0]}" for name, info in commands.items()]
    parts = [BEGIN, "\n".join(listed)]
    for name, info in commands.items():
        rows = _rows(info.callback)
        usage = " ".join(["rhel-hw", name, *(row.names for row in rows if row.argument), "[OPTIONS]"])
        parts += [f"## {name}", _words(info), f"```text\n{usage}\n```", _table(rows)]
        examples = [line.strip() for line in (info.epilog or "").splitlines() if line.startswith("  ")]
        parts += ["\n".join(["```text", *examples, "```"])] if examples else []
    return "\n\n".join(parts) + "\n"


def _name(info: Any) -> str:
    return str(info.name or info.callback.__name__.replace("_", "-"))


def _words(info: Any) -> str:
    return inspect.cleandoc(info.help or info.callback.__doc__ or "")


def _rows(function: Any) -> list[Row]:
    parameters = inspect.signature(function, eval_str=True).parameters.values()
    return [_row(p, *get_args(p.annotation)[:2]) for p in parameters if get_origin(p.annotation) is Annotated]


def _row(parameter: inspect.Parameter, kind: Any, info: Any) -> Row:
    plain = parameter.name.rstrip("_").replace("_", "-")
    if isinstance(info, ArgumentInfo):
        return Row(info.metavar or plain.upper(), "", "", info.help or "", True)
    declared = [d for d in (info.default, *(info.param_decls or ())) if isinstance(d, str) and d.startswith("-")]
    names = [n for d in declared or [f"--{plain}"] for n in d.split("/")]
    if kind is bool and not declared:
        names.append(f"--no-{plain}")
    given = parameter.default
    default = "" if given in (None, False, inspect.Parameter.empty) else f"`{given}`"
    return Row(", ".join(f"`{n}`" for n in names), _value(kind, info), default, info.help or "", False)


def _value(kind: Any, info: Any) -> str:
    """What follows an option: its kind and limits."""
    if get_origin(kind) in (Union, types.UnionType):
        (kind,) = (part for part in get_args(kind) if part is not type(None))
    if kind is bool:
        return ""
    repeated = get_origin(kind) is list
    kind = get_args(kind)[0] if repeated else kind
    if get_origin(kind) is Literal:
        words = ", ".join(map(str, get_args(kind)))
    else:
        words = info.metavar or {int: "whole number", float: "number", str: "text"}.get(kind, "path")
    words += f" ≥ {info.min}" if info.min is not None else ""
    words += f" ≤ {info.max}" if info.max is not None else ""
    return f"{words}; may be repeated" if repeated else words


def _table(rows: list[Row]) -> str:
    lines = ["| argument or option | value | default | what it is |", "|---|---|---|---|"]
    for row in rows:
        cells = (f"`{row.names}`" if row.argument else row.names, row.value, row.default, row.words)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
