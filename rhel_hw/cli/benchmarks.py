"""The command that measures speed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rhel_hw.cli import completion
from rhel_hw.cli.common import JsonOption, choice, named, print_json, progress, size_text
from rhel_hw.runtime import configure

BENCHMARKS = {
    "forward": "a free pass against C by hand; simulations against SciPy, ngspice and diffrax at equal error",
    "gradient": "echo learning against a free pass and backpropagation; time and memory over the length of series",
    "sweep": "points of a sweep per second against a loop, by points and threads",
    "graph": "cost of a step over nodes and edges",
    "startup": "what one waits for a first result, and for a second",
    "scan": "linear units by blocks of steps or by a loop",
    "memory": "training on 50,000 steps",
}
WIDTH = 120
"""Of tables that do not go to a terminal."""


@dataclass(frozen=True)
class Measured:
    """Rows by what they are of, for machines; tables and words for people; versions of other tools."""

    rows: dict[str, Any]
    shown: Sequence[Any]
    tools: dict[str, str] = field(default_factory=dict)
    skipped: Sequence[str] = ()


def benchmark(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="; ".join(f"{k}: {words}" for k, words in BENCHMARKS.items()) + ".",
            autocompletion=completion.benchmarks,
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Interleaved repetitions; medians are reported.")] = 9,
    as_json: JsonOption = False,
) -> None:
    """Measure speed as ratios in one run; without a name, list what can be measured."""
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    if name is None:
        if as_json:
            print_json({"benchmarks": BENCHMARKS})
            return
        console.print(named(BENCHMARKS))
        return
    run = choice("NAME", name, RUNS)
    configure()
    from studies.benchmarks import machine

    found = run(rounds)
    told = {**machine(), **found.tools}
    if as_json:
        rows = {
            what: [asdict(r) for r in rows] if isinstance(rows, list) else rows for what, rows in found.rows.items()
        }
        print_json({"benchmark": name, "machine": told, **rows, "skipped": list(found.skipped)})
        return
    console.print(", ".join(f"{k} {v}" for k, v in told.items()))
    for item in found.shown:
        console.print(item)
    for words in found.skipped:
        console.print(f"[yellow]skipped[/]: {words}")


def _table(*columns: str, left: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        words = column in left
        table.add_column(column, justify="left" if words else "right", no_wrap=not words)
    return table


def _forward(rounds: int) -> Measured:
    from rhel_hw.kernels.compiler import FLAGS, compiler, version
    from studies.benchmarks import forward, kernel, rivals

    with progress("measuring loops", "sizes") as report:
        rows = forward.run(rounds=rounds, report=report)
    with progress("measuring rivals", "rivals") as report:
        others, skipped = rivals.run(rounds=rounds, report=report)
    loops = _table("energy", "size", "steps", "kept", "ours", "C", "ours\nover C", "apart", left=("energy", "kept"))
    for r in rows:
        by_hand = ("–",) * 3 if r.c_ns is None else (f"{r.c_ns:.2f} ns", f"{r.over_c:.2f}×", f"{r.apart:.0e}")
        kept = "trajectory" if r.trajectory else "end"
        loops.add_row(r.energy, f"{r.coordinates}×{r.lanes}", f"{r.steps}", kept, f"{r.own_ns:.2f} ns", *by_hand)
    names = ("rival", "task", "rival's", "ours")
    table = _table("rival", "task", "error", "rival's", "time", "ours", "steps", "time", "rival\nover ours", left=names)
    for other in others:
        table.add_row(
            other.rival, other.task, "same steps" if other.wanted is None else f"{other.wanted:.0e}",
            other.rival_method, f"{1e3 * other.rival_seconds:.2f} ms", other.own_method, f"{other.own_steps}",
            f"{1e3 * other.own_seconds:.2f} ms", f"{other.over_own:.2f}×",
        )  # fmt: skip
    words = (
        "size: coordinates × lanes; times per coordinate and step, single precision, one thread of C; apart: distance "
        "after 200 steps\n"
    )
    compiled = compiler() is not None
    tools = {"C by": f"{version()} {' '.join((*FLAGS, *kernel.FAST))}"} if compiled else {}
    tools |= rivals.versions()
    return Measured(
        {"rows": rows, "rivals": others},
        [loops, words, table],
        tools,
        [*([] if compiled else [kernel.MISSING]), *skipped],
    )


def _gradient(rounds: int) -> Measured:
    from studies.benchmarks import gradient

    with progress("measuring sizes", "sizes") as report:
        rows = gradient.run(rounds=rounds, report=report)
    with progress("measuring layers", "layers") as report:
        rows += gradient.run(sizes=gradient.LAYERS, rounds=rounds, report=report)
    with progress("measuring lengths", "lengths") as report:
        lengths = gradient.run(sizes=gradient.LENGTHS, rounds=rounds, report=report)
    tables = []
    for found in (rows, lengths):
        table = _table(
            "of", "size", "steps", "loss", "free pass", "own", "RHEL", "BPTT", "RHEL\nmemory", "BPTT\nmemory", "inputs",
            left=("of", "loss"),
        )  # fmt: skip
        for r in found:
            table.add_row(
                r.circuit, f"{r.coordinates}×{r.batch}", f"{r.steps}", r.loss, f"{1e3 * r.free_seconds:.1f} ms",
                "" if r.forward_over_free is None else f"{r.forward_over_free:.2f}×",
                f"{r.rhel_over_free:.2f}×", f"{r.bptt_over_free:.2f}×", size_text(r.rhel_bytes),
                size_text(r.bptt_bytes), size_text(r.input_bytes),
            )  # fmt: skip
        tables.append(table)
    words = (
        "size: coordinates × lanes; RHEL (centred, hold) and BPTT in free passes of `simulate`; own: the forward pass "
        "of a layer; memory: peak of temporaries"
    )
    return Measured({"rows": rows, "lengths": lengths}, [tables[0], "", tables[1], words])


def _sweep(rounds: int) -> Measured:
    from studies.benchmarks import sweep

    with progress("sweeping", "sizes") as report:
        rows = sweep.run(rounds=rounds, report=report)
    table = _table("points", "threads", "seconds", "points\na second", "of a\nloop", "over\nthe loop")
    for r in rows:
        table.add_row(
            f"{r.points}", f"{r.workers}", f"{r.seconds:.3f}", f"{r.points_per_second:.0f}",
            f"{r.loop_points_per_second:.1f}", f"{r.over_loop:.1f}×",
        )  # fmt: skip
    return Measured({"rows": rows}, [table, f"six LC oscillators, {rows[0].steps} steps, a gradient at every point"])


def _graph(rounds: int) -> Measured:
    from studies.benchmarks import graph

    with progress("measuring", "graphs") as report:
        rows, exponents = graph.run(rounds=rounds, report=report)
    table = _table("graph", "nodes", "edges", "a step", "per edge\nand lane", "compiled in", left=("graph",))
    for r in rows:
        table.add_row(
            r.topology, f"{r.nodes}", f"{r.edges}", f"{r.step_us:.2f} µs", f"{r.edge_ns:.2f} ns",
            f"{r.compile_seconds:.2f} s",
        )  # fmt: skip
    slopes = ", ".join(f"{topology} {slope:.2f}" for topology, slope in exponents.items())
    words = f"{rows[0].batch} lanes, double precision; edges: inductors; time of a step by edges to the power: {slopes}"
    return Measured({"rows": rows, "exponents": exponents}, [table, words])


def _startup(rounds: int) -> Measured:
    from studies.benchmarks import startup

    with progress("starting", "processes") as report:
        rows = startup.run(rounds=rounds, report=report)
    table = _table("command", "first", "again", "programs\nkept", left=("command",))
    for r in rows:
        again = "" if r.second_seconds is None else f"{r.second_seconds:.2f} s"
        table.add_row(r.command, f"{r.first_seconds:.2f} s", again, f"{r.kept_programs}")
    return Measured({"rows": rows}, [table, "first: with an empty compilation cache; again: with what that left"])


def _scan(rounds: int) -> Measured:
    from studies.benchmarks import scan

    with progress("measuring", "sizes") as report:
        rows = scan.run(rounds=rounds, report=report)
    table = _table("steps", "lanes", "free pass", "echoes", "by blocks", "used")
    for r in rows:
        table.add_row(
            f"{r.steps}", f"{r.lanes}", f"{1e3 * r.free_seconds:.2f} ms", f"{1e3 * r.echo_seconds:.2f} ms",
            f"{r.ratio:.2f}×", "yes" if r.by_blocks else "",
        )  # fmt: skip
    words = "lanes: units × batch; times by a loop over all steps, and of echoes by blocks over that"
    return Measured({"rows": rows}, [table, words])


def _memory(rounds: int) -> Measured:
    from studies.benchmarks import memory

    with progress("training", "cases") as report:
        rows = memory.run(report=report)
    table = _table(
        "units", "method", "steps", "batch", "temporaries", "peak of\nthe process", "s a move", "losses",
        left=("units", "method"),
    )  # fmt: skip
    for r in rows:
        table.add_row(
            r.units, r.method, f"{r.steps}", f"{r.batch}", size_text(r.temporary_bytes), size_text(r.peak_bytes),
            f"{r.move_seconds:.1f}", ", ".join("–" if x is None else f"{x:.3g}" for x in r.losses),
        )  # fmt: skip
    words = "temporaries: of a move, as the compiler plans them; peak: resident memory while training"
    return Measured({"rows": rows}, [table, words])


RUNS: dict[str, Callable[[int], Measured]] = {
    "forward": _forward,
    "gradient": _gradient,
    "sweep": _sweep,
    "graph": _graph,
    "startup": _startup,
    "scan": _scan,
    "memory": _memory,
}
