"""The command that makes a bench on file of what was measured elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from rhel_hw.cli.common import DesignArgument, JsonOption, print_json
from rhel_hw.runtime import configure


def record(
    design: DesignArgument,
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="A folder of passes, as `--bench FOLDER` writes them, with what was measured; or a Touchstone file of "
            "a linear photonic design.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="File to write.")] = Path("bench.npz"),
    as_json: JsonOption = False,
) -> None:
    """Make measured records a bench on file, which `--bench FILE` plays back: of CSV, HDF5 or Touchstone files."""
    configure()
    from circuits import Netlist
    from devices import ArgumentError
    from rhel_hw.files import refuse_unwritable
    from rhel_hw.records import touchstone
    from rhel_hw.records.folder import FolderBench

    if out.suffix != ".npz":
        raise ArgumentError(f"Argument `--out` must be a file such as bench.npz, but is {out}")
    refuse_unwritable(out, "--out")
    compiled = Netlist.load(design).compile()
    if source.is_dir():
        found = FolderBench(compiled, source).recording()
    elif touchstone.is_touchstone(source):
        found = touchstone.recording(compiled, touchstone.load(source))
    else:
        raise ArgumentError(f"Argument `SOURCE` must be a folder of passes or a Touchstone file, but is {source}")
    found.save(out)
    told = [
        {
            "pass": "echo" if answer.shot.echo else "free",
            "steps": answer.shot.steps,
            "runs": next(iter(answer.record.samples.values())).shape[1],
            "channels": list(answer.record.samples),
            "saturated": answer.record.clipped,
        }
        for answer in found.answers
    ]
    if as_json:
        print_json({"design": compiled.netlist.name, "passes": told, "file": str(out)})
        return
    console = Console(highlight=False)
    for entry in told:
        console.print(f"{entry['pass']}: {entry['runs']} × {entry['steps']} steps of {', '.join(entry['channels'])}")
        for name, count in entry["saturated"].items():
            console.print(f"[yellow]warning[/]: {escape(name)} was beyond its range {count} times")
    console.print(f"wrote {escape(str(out))}")
