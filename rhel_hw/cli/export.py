"""The command that hands a design over to a hardware team."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from rhel_hw.cli import completion
from rhel_hw.cli.common import DesignArgument, JsonOption, print_json, progress
from rhel_hw.runtime import configure


def export(
    design: DesignArgument,
    to: Annotated[
        list[str] | None,
        typer.Option(
            "--to",
            help="spice, kicad, bom, schematic, verilog-a, vectors, josim, wrspice, sax, touchstone, gds, mumax3, "
            "datasheet or all; may be repeated. All that fit by default.",
            autocompletion=completion.formats,
        ),
    ] = None,
    trained: Annotated[
        Path | None, typer.Option(help="Checkpoint of `rhel-hw train` whose best values are handed over.")
    ] = None,
    series: Annotated[
        str | None,
        typer.Option(help="Preferred values to which parts are moved: E24, E96 or another, or none, which is usual."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the stimulus.")] = 0,
    require: Annotated[
        str | None,
        typer.Option(
            help="What the data sheet's limits must allow; usually cosine=0.99, of what one value decides error=0.14."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds at each of which that must hold.")] = 3,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a bundle that is there.")] = False,
    out: Annotated[Path, typer.Option(help="New folder for the bundle.")] = Path("export"),
    as_json: JsonOption = False,
) -> None:
    """Hand a design over: SPICE decks, schematic, bill of materials, layouts, vectors, a data sheet; and a manifest."""
    configure()
    from circuits import Netlist
    from circuits.handover import refuse_taken
    from rhel_hw.training import trained_values
    from studies.export import bundle
    from studies.handed import losses_text

    netlist = Netlist.load(design)
    refuse_taken(out, overwrite=overwrite)
    series = None if series == "none" else series
    values = None if trained is None else trained_values(trained, netlist)
    with progress("computing the data sheet", "gradients") as report:
        made = bundle(
            netlist, to or ["all"], values=values, series=series, seed=seed, requirement=require, seeds=seeds,
            report=report,
        )  # fmt: skip
    made.save(out, overwrite=overwrite)
    if as_json:
        print_json({**made.manifest(), "folder": str(out)})
        return
    console = Console(highlight=False)
    for name, data in made.files.items():
        console.print(f"wrote {escape(str(out / name))}, {len(data):,} bytes")
    if series:
        told = made.about["series"]
        agreement = told["gradient_cosine"]
        console.print(
            f"{len(told['moves'])} parts moved to {series}"
            + ("" if agreement is None else f"; cosine of the gradient to that before: {agreement:.6f}")
        )
    if losses := made.about.get("losses"):
        console.print(f"loss of the task: {losses_text(losses)}")
    if made.about["left_out"]:
        names = ", ".join(made.about["left_out"])
        console.print(f"left out, as they cannot express this design: {names} (manifest.json says why)")
