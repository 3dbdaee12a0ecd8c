"""The command that writes a design to begin with."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from rhel_hw.cli import completion
from rhel_hw.cli.common import JsonOption, OutOption, choice, print_json

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Of the design, and of its file without .toml.")],
    family: Annotated[
        str, typer.Option(help="lc, josephson, photonic or spin.", autocompletion=completion.families)
    ] = "lc",
    out: OutOption = Path("."),
    as_json: JsonOption = False,
) -> None:
    """Write a commented design to begin with: it is legal, trains and can be handed over as it is."""
    from circuits.starters import STARTERS
    from devices import ArgumentError
    from rhel_hw.files import folder, write_text

    source: Path = choice("--family", family, dict(STARTERS))
    name = name.removesuffix(".toml")
    if not NAME.fullmatch(name):
        raise ArgumentError(
            f"Argument `NAME` must be letters, digits, dots, dashes and underscores, such as my-ring, but is {name!r}"
        )
    path = folder(out) / f"{name}.toml"
    if path.exists() or path.is_symlink():
        raise ArgumentError(f"Argument `NAME` must be one that is free, but {path} is there: choose another or move it")
    write_text(path, source.read_text(encoding="utf-8").replace("NAME", name))
    if as_json:
        print_json({"design": name, "family": family, "file": str(path)})
        return
    print(f"wrote {path}\nnext: rhel-hw check {path}")
