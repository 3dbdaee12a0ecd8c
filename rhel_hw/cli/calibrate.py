"""The command that finds out what a bench really is."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli.common import (
    BenchOption,
    JsonOption,
    OptionalDesignArgument,
    OutOption,
    ProfileOption,
    SetOption,
    changes_of,
    netlist_and_bench,
    print_json,
    progress,
    stem,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    from calibration.file import Calibration
    from rhel_hw.bench import Bench

MOST_ROWS = 12
"""Values listed on a terminal; the file has all."""


def calibrate(
    design: OptionalDesignArgument = None,
    profile: ProfileOption = None,
    settings_: SetOption = None,
    address: BenchOption = None,
    chip: Annotated[int, typer.Option(min=0, help="Number of the first chip, and seed of the noise.")] = 0,
    chips: Annotated[int, typer.Option(min=1, help="Number of chips, side by side.")] = 1,
    held: Annotated[
        list[str] | None,
        typer.Option("--held", help="A value that is taken as drawn, such as C1.capacitance; may be repeated."),
    ] = None,
    anchors: Annotated[int, typer.Option(min=0, help="Repetitions of passes that show drift; 0: none.")] = 24,
    seed: Annotated[int | None, typer.Option(help="Seed of teacher and stimulus.")] = None,
    out: OutOption = Path("calibration"),
    as_json: JsonOption = False,
) -> None:
    """Find out what a bench really is: converters, clock, values, losses, echoes, drift; and what to do about it.

    Writes a calibration file for `gradient`, `train` and `sweep --calibration`, and a report with figures.
    """
    from calibration.chain import STAGES
    from calibration.chain import calibrate as run
    from rhel_hw import settings
    from rhel_hw.emulated import EmulatedBench
    from rhel_hw.files import folder
    from studies.calibration_report import write

    configure()
    netlist, remote = netlist_and_bench(design, address, profile=profile, set=settings_, chip=chip, chips=chips > 1)
    used = None if remote else settings.profile(netlist, profile, changes_of(settings_))
    task = settings.task(netlist, {"seed": seed})
    compiled = netlist.compile()
    lesson = task.lesson(compiled)
    folder(out)
    numbers = tuple(range(chip, chip + chips))
    bench: Bench = remote or EmulatedBench(compiled, used, seed=chip, chips=numbers, reference=lesson.drive or None)
    learner = settings.bench_learning(netlist, bench.describe(), {})
    with progress("calibrating", "stages") as report:
        found = run(
            bench,
            compiled,
            lesson,
            learner,
            task={"type": "teacher", **asdict(task)},
            held=held or (),
            anchors=anchors,
            numbers=None if remote else numbers,
            seed=None if remote else chip,
            profile=None if used is None else used.to_dict(),
            report=None if report is None else lambda done, what: report(done, len(STAGES), what),
        )
    name = stem(design or netlist.name)
    files = [found.save(out / f"{name}.json"), write(found, out / f"{name}.html")]
    if as_json:
        print_json({**found.to_dict(), "files": [str(f) for f in files]})
        return
    _print(found, files)


def _print(found: Calibration, files: list[Path]) -> None:
    from studies.calibration_report import summary

    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(found.design)}[/bold]: {len(found.numbers)} chip{'s' * (len(found.numbers) > 1)}, "
        f"{found.passes} passes and {found.seconds:.3g} s on each"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("what", "found", "what is done about it"):
        table.add_column(column, overflow="fold")
    for row in summary(found):
        table.add_row(*map(escape, row))
    console.print(table)
    for finding in found.findings:
        console.print(f"[yellow]warning[/]: {escape(str(finding))}")
    for file in files:
        console.print(f"wrote {escape(str(file))}")
