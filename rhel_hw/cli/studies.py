"""The command that reproduces results."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli import completion
from rhel_hw.cli.common import JsonOption, OutOption, choice, named, print_json, progress
from rhel_hw.runtime import configure

STUDIES = {
    "toy": "the six-oscillator figure of the paper",
    "thermal": "what averaging shots does to thermal noise",
    "static-gradients": "six blocks, gradients by echoes against backpropagation in every layer",
    "gamma": "the same over the scale of the loss during echoes",
    "classify": "accuracies by echoes beside backpropagation",
    "regress": "errors likewise",
    "precision": "readout bits × γ, on one design of every family",
    "noise": "readout noise × shots, likewise",
    "loss": "quality factor × steps, as it is and made up for",
    "drift": "drift of parameters, by protocol",
    "echo": "gain × angle of the echo",
    "mismatch": "mismatch of parameters, calibrated or not",
    "calibration": "gradients before and after calibration, error by error",
    "lc-ring": "case: which converters and γ does a board-level LC ring at 1 MHz need",
    "nitride-lattice": "case: which Q and coupling does a lattice of silicon-nitride rings need",
    "vortex-echo": "case: is the damping of a metal curable by calibration, echoes being switches of polarity",
}
CASES = ("lc-ring", "nitride-lattice", "vortex-echo")
"""From question to hand-over."""
OWN_DATA = ("toy", "thermal", "precision", "noise", "loss", "drift", "echo", "mismatch", "calibration", *CASES)
"""Studies that take no set of series."""


class Asked(NamedTuple):
    """How much, and on which data."""

    size: Literal["quick", "full", "paper"]
    data: Path | None
    workers: int


def study(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="; ".join(f"{k}: {words}" for k, words in STUDIES.items()) + ".",
            autocompletion=completion.studies,
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full/--quick", help="Larger, longer, or within three minutes.")] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="classify, regress: sizes of the paper's table, for larger machines.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            help="classify, regress: folder with sets of series, needed by --full and --paper. static-gradients, "
            "gamma: a file, instead of the set that ships."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="classify, regress: processes, each on a core of its own.")] = 2,
    out: OutOption = Path("study"),
    as_json: JsonOption = False,
) -> None:
    """Reproduce a result: figure and data; without a name, list what there is."""
    from devices import ArgumentError

    if name is None:
        if as_json:
            print_json({"studies": STUDIES})
        else:
            Console(highlight=False).print(named(STUDIES))
        return
    known = {"toy": _toy, "thermal": _thermal, "static-gradients": _static, "gamma": _gamma, "calibration": _calibrated}
    known |= {n: partial(_case, n) for n in CASES}
    swept = {n: partial(_imperfection, n) for n in OWN_DATA if n not in known}
    run = choice("NAME", name, {**known, "classify": _classify, "regress": _regress, **swept})
    if name in OWN_DATA and data is not None:
        raise ArgumentError(f"Argument `--data` must be left out of the study {name}, which has its own")
    if paper and name not in ("classify", "regress"):
        raise ArgumentError(f"Argument `--paper` must be left out of the study {name}: it is for classify and regress")
    configure()
    from rhel_hw.files import folder

    folder(out)
    document, lines = run(Asked("paper" if paper else "full" if full else "quick", data, workers), out)
    if as_json:
        print_json({"study": name, **document})
        return
    console = Console(highlight=False)
    for line in lines:
        console.print(line)
    for file in document["files"]:
        console.print(f"wrote {file}")


def _toy(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """What machines and people are told of the six oscillators."""
    from devices import ArgumentError
    from studies import toy

    if asked.size == "full":
        raise ArgumentError("Argument `--full` must be left out of the study toy: it has one size")
    result = toy.run()
    files = [str(f) for f in toy.save(result, out)]
    lines = ["[bold]six-oscillator toy[/bold]: echo learning against the adjoint method, at all times"]
    lines += [f"  {what}: largest deviation {x:.1e} of the largest value" for what, x in result.deviations.items()]
    return {"deviations": result.deviations, "files": files}, lines


def _calibrated(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """The same of calibration."""
    from studies import calibrated

    with progress("calibrating", "cases") as report:
        rows = calibrated.run(calibrated.FULL if asked.size == "full" else calibrated.QUICK, out, report)
    files = [str(f) for f in calibrated.save(rows, out)]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("design", "errors", "cosine before", "after", "size before", "after", "what the report says"):
        table.add_column(column, overflow="fold")
    for row in calibrated.table(rows):
        table.add_row(*map(escape, row))
    return {"rows": calibrated.document(rows), "files": files}, [table]


def _case(name: str, asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """What people and machines are told of a case."""
    from studies.cases import cases
    from studies.cases.case import SIZES, close

    with progress("working on it", "steps") as report:
        closed = close(name, cases()[name], SIZES[asked.size], out, report)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(closed.budget.columns):
        table.add_column(column, no_wrap=not i)  # names of settings are whole
    for row in closed.budget.rows():
        table.add_row(*map(escape, row))
    lines = [
        f"[bold]{escape(closed.question)}[/bold]",
        f"{escape(closed.answer)}.",
        "",
        *closed.budget.head(),
        "",
        table,
    ]
    lines += ["", *map(escape, closed.budget.foot())]
    lines += ["", f"trained on its own bench: loss {closed.trained.improvement:.3g} times lower"]
    return closed.to_dict(), lines


def _thermal(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """The same of thermal noise."""
    from studies import thermal

    with progress("measuring", "conditions") as report:
        result = thermal.run(thermal.FULL if asked.size == "full" else thermal.QUICK, report)
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


def _static(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """Gradients of six blocks."""
    from studies import stack_figures, stacks

    source = _file(asked)
    with progress("comparing", "models") as report:
        result = stacks.static(source, **stacks.SIZES[asked.size], report=report)
    files = [str(f) for f in stack_figures.save_static(result, out)]
    rows = [
        {
            "units": units, "precision": precision, "parameter": name, "one_minus_cosine": near.deviation.tolist(),
            "norm_ratio": near.ratio.tolist(),
        }
        for (units, precision), found in result.likeness.items()
        for name, near in found.items()
    ]  # fmt: skip
    gammas = {f"{u}, {p}": (t.strengths / stacks.EPSILON).tolist() for (u, p), t in result.tuned.items()}
    lines: list[Any] = [f"[bold]six blocks on {escape(result.settings['linear'].series)}[/bold]"]
    lines.append("echoes with automatic γ against backpropagation in double precision; worst block of each")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("units", "precision", "parameter", "1 − cosine", "norm ratio − 1"):
        table.add_column(column, justify="right" if column[0] in "1n" else "left")
    for row in rows:
        off = max((r - 1 for r in row["norm_ratio"]), key=abs)
        table.add_row(
            row["units"], row["precision"], row["parameter"], f"{max(row['one_minus_cosine']):.1e}", f"{off:+.1e}"
        )
    return {"rows": rows, "gammas": gammas, "epsilon": stacks.EPSILON, "files": files}, [*lines, table]


def _gamma(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """The scale of the loss during echoes."""
    import numpy as np

    from studies import stack_figures, stacks

    source = _file(asked)
    with progress("scanning γ", "gradients") as report:
        result = stacks.gamma(source, **stacks.SIZES[asked.size], gammas=np.logspace(0, 8, 9), report=report)
    files = [str(f) for f in stack_figures.save_gamma(result, out)]
    document: dict[str, Any] = {"gammas": result.gammas.tolist(), "epsilon": stacks.EPSILON, "files": files}
    lines: list[Any] = [f"[bold]six blocks on {escape(result.settings['linear'].series)}[/bold], single precision"]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("units", "γ", "1 − cosine, worst block", "norm ratio, least", "largest"):
        table.add_column(column, justify="left" if column == "units" else "right")
    for units, near in result.parameters.items():
        found, best = result.automatic[units]
        document[units] = {
            "one_minus_cosine": near.deviation.tolist(), "norm_ratio": near.ratio.tolist(), "best": result.best(units),
            "auto_gammas": (found.strengths / stacks.EPSILON).tolist(),
            "auto_one_minus_cosine": best.deviation.tolist(),
        }  # fmt: skip
        for gamma, deviation, ratio in zip(result.gammas, near.deviation, near.ratio, strict=True):
            table.add_row(units, f"{gamma:.0e}", f"{deviation.max():.1e}", f"{ratio.min():.3g}", f"{ratio.max():.3g}")
        table.add_row(
            units, "auto", f"{best.deviation.max():.1e}", f"{best.ratio.min():.5g}", f"{best.ratio.max():.5g}"
        )
    return document, [*lines, table]


def _imperfection(name: str, asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """A sweep over one kind of imperfection on every family."""
    from studies import imperfections

    with progress("sweeping", "points") as report:
        found = imperfections.run_study(name, imperfections.SIZES[asked.size], out, report)
    lines = [f"[bold]{imperfections.STUDIES[name].words}[/bold]"]
    lines += [f"  {design} ({told['family']}): {told['verdict']}" for design, told in found.items()]
    return {"designs": found, "files": [f for told in found.values() for f in told["files"]]}, lines


def _file(asked: Asked) -> str | None:
    """The set of series, if one was named."""
    return None if asked.data is None else str(asked.data)


def _classify(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    return _tabled("classification", "classify", asked, out)


def _regress(asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    return _tabled("regression", "regress", asked, out)


def _tabled(task: str, name: str, asked: Asked, out: Path) -> tuple[dict[str, Any], list[Any]]:
    """A table of runs by both methods."""
    import json

    from rhel_hw.files import write_text
    from studies import stack_figures, tables
    from studies.benchmarks import machine

    chosen = tables.cells(task, asked.size, asked.data)
    with progress("training", "runs") as report:
        found = tables.run(chosen, out, workers=asked.workers, report=report)
    document = {**found, "machine": machine()}
    lines = tables.lines(document)
    files = [
        write_text(out / f"{name}.json", json.dumps(document, indent=1)),
        write_text(out / f"{name}.md", "\n".join(lines) + "\n"),
        stack_figures.save_table(document, out, name),
    ]
    return {**document, "files": [str(f) for f in files]}, [escape(line) for line in lines]
