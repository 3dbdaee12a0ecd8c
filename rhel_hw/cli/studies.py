"""The commands that reproduce results and measure speed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from rhel_hw.cli.common import JsonOption, OutOption, choice, print_json, progress, size_text, use_float64


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="toy: the six-oscillator figure of the paper.")],
    out: OutOption = Path("study"),
    as_json: JsonOption = False,
) -> None:
    """Reproduce a result of the paper: figure and data."""
    choice("NAME", name, {"toy": None})
    use_float64()
    from studies import toy
    from studies.output import folder

    folder(out)
    result = toy.run()
    files = toy.save(result, out)
    if as_json:
        print_json({"study": name, "deviations": result.deviations, "files": [str(f) for f in files]})
        return
    console = Console(highlight=False)
    console.print("[bold]six-oscillator toy[/bold]: echo learning against the adjoint method, at all times")
    for what, deviation in result.deviations.items():
        console.print(f"  {what}: largest deviation {deviation:.1e} of the largest value")
    for file in files:
        console.print(f"wrote {file}")


def benchmark(
    name: Annotated[str, typer.Argument(metavar="NAME", help="gradient: echo learning against a free pass and BPTT.")],
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 9,
    as_json: JsonOption = False,
) -> None:
    """Measure speed as ratios in one run."""
    choice("NAME", name, {"gradient": None})
    use_float64()
    from studies.benchmarks import gradient, machine

    with progress("measuring", "sizes") as report:
        rows = gradient.run(rounds=rounds, report=report)
    if as_json:
        print_json({"benchmark": name, "machine": machine(), "rows": [asdict(r) for r in rows]})
        return
    console = Console(highlight=False)
    console.print(", ".join(f"{k} {v}" for k, v in machine().items()))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("size", "steps", "loss", "free pass", "RHEL", "BPTT", "RHEL memory", "BPTT memory"):
        table.add_column(column, justify="left" if column == "loss" else "right")
    for r in rows:
        table.add_row(
            f"{r.coordinates}×{r.batch}", f"{r.steps}", r.loss, f"{1e3 * r.free_seconds:.1f} ms",
            f"{r.rhel_over_free:.2f}×", f"{r.bptt_over_free:.2f}×", size_text(r.rhel_bytes), size_text(r.bptt_bytes),
        )  # fmt: skip
    console.print(table)
    console.print(
        "size: coordinates × lanes; RHEL (centred, hold) and BPTT in free passes; memory: peak of temporaries"
    )
