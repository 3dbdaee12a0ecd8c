"""The commands that reproduce results and measure speed."""

from __future__ import annotations

from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rhel_hw.cli.common import JsonOption, OutOption, choice, print_json, progress, size_text, use_float64


def study(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="toy: the six-oscillator figure of the paper; thermal: what averaging shots does to thermal noise.",
        ),
    ],
    full: Annotated[
        bool, typer.Option("--full/--quick", help="thermal: more shots and longer runs, or fewer.")
    ] = False,
    out: OutOption = Path("study"),
    as_json: JsonOption = False,
) -> None:
    """Reproduce a result: figure and data."""
    run = choice("NAME", name, {"toy": _toy, "thermal": _thermal})
    use_float64()
    from rhel_hw.files import folder

    folder(out)
    document, lines = run(full, out)
    if as_json:
        print_json({"study": name, **document})
        return
    console = Console(highlight=False)
    for line in lines:
        console.print(line)
    for file in document["files"]:
        console.print(f"wrote {file}")


def _toy(full: bool, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """What machines and people are told of the six oscillators."""
    from devices import ArgumentError
    from studies import toy

    if full:
        raise ArgumentError("Argument `--full` must be left out of the study toy: it has one size")
    result = toy.run()
    files = [str(f) for f in toy.save(result, out)]
    lines = ["[bold]six-oscillator toy[/bold]: echo learning against the adjoint method, at all times"]
    lines += [f"  {what}: largest deviation {x:.1e} of the largest value" for what, x in result.deviations.items()]
    return {"deviations": result.deviations, "files": files}, lines


def _thermal(full: bool, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """The same of thermal noise."""
    from studies import thermal

    with progress("measuring", "conditions") as report:
        result = thermal.run(thermal.FULL if full else thermal.QUICK, report)
    files = [str(f) for f in thermal.save(result, out)]
    document = thermal.document(result)
    lines: list[Any] = ["[bold]thermal noise and averaging[/bold]: biases and noise over the noiseless gradient"]
    for circuit, (target, words) in product(thermal.CIRCUITS, thermal.TARGETS.items()):
        table = Table(box=None, pad_edge=False, collapse_padding=True, header_style="bold")
        for column in ("noise", "protocol"):
            table.add_column(column)
        for column in ("a shot", *map(str, document["shots"]), "norm", "bias"):
            table.add_column(column, justify="right", no_wrap=True)
        for row in (r for r in document["averages"] if r["circuit"] == circuit):
            found = row[target]
            table.add_row(
                row["noise"], row["protocol"], f"{row['noise_of_one_shot']:.2f}",
                *(f"{x:.3f}" for x in found["cosines"]), f"{found['norm_ratios'][-1]:.2f}",
                f"{found['bias']:.3f}±{found['error']:.3f}",
            )  # fmt: skip
        lines += ["", f"{circuit} circuit, to {words}: cosines by shots; of the last, norm and bias", table]
    scans = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("circuit", "noise", "protocol", "bias to", "per kelvin", "slope in T", "slope in K"):
        scans.add_column(column)
    for row in document["scans"]:
        slopes = ("–" if row[k] is None else f"{row[k]:.2f}" for k in ("exponent_of_temperature", "exponent_of_steps"))
        scans.add_row(
            row["circuit"], row["noise"], row["protocol"], row["target"], f"{row['bias_per_kelvin']:.5f}", *slopes
        )
    return {**document, "files": files}, [*lines, "", scans, "", result.verdict]


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
