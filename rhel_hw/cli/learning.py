"""The commands that learn."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli.common import (
    BenchOption,
    CalibrationOption,
    JsonOption,
    OptionalDesignArgument,
    PrecisionOption,
    ProfileOption,
    SetOption,
    changes_of,
    integrator_named,
    netlist_and_bench,
    on_file,
    precision_named,
    print_json,
    progress,
    put_right,
    size_text,
    usual_integrator,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    from circuits import Design
    from rhel_hw.bench import Bench
    from rhel_hw.compare import BenchCompared, Compared
    from rhel_hw.tasks import Teacher

MOST_PARAMETERS = 40
"""Parameters listed on a terminal; `--json` has all."""


def gradient(
    design: OptionalDesignArgument = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Comma-separated: rhel, rhel-richardson, rhel-limit, blackbox, bptt, adjoint, finite-differences, "
            "spsa, shuffled."
        ),
    ] = "rhel,bptt",
    epsilon: Annotated[float | None, typer.Option(help="Nudging strength; the design's own by default.")] = None,
    gamma: Annotated[str | None, typer.Option(help='Loss scale during the echo: a number, or "auto".')] = None,
    stencil: Annotated[str | None, typer.Option(help="centred, one-sided or richardson.")] = None,
    operation: Annotated[str | None, typer.Option(help="momentum-flip or sign-flip.")] = None,
    nudging: Annotated[str | None, typer.Option(help="recorded or self-consistent.")] = None,
    protocol: Annotated[str | None, typer.Option(help="hold or re-prepare.")] = None,
    spread: Annotated[float | None, typer.Option(help="How far the hidden circuit is moved; 0.2 by default.")] = None,
    drive: Annotated[str | None, typer.Option(help='band-limited noise, or "own" waveforms of the design.')] = None,
    loss: Annotated[str | None, typer.Option(help="trajectory or final.")] = None,
    batch: Annotated[int | None, typer.Option(help="Number of stimuli.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of teacher and stimulus.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of steps; the design's own by default.")] = None,
    step: Annotated[str | None, typer.Option(help='Time step such as "5 ps"; the design\'s own by default.')] = None,
    profile: ProfileOption = None,
    settings_: SetOption = None,
    address: BenchOption = None,
    chips: Annotated[int, typer.Option(min=1, help="Number of chips of a bench, side by side.")] = 1,
    shots: Annotated[int | None, typer.Option(min=1, help="Repetitions averaged on a bench.")] = None,
    calibration: CalibrationOption = None,
    integrator: Annotated[
        str | None,
        typer.Option(
            help="leapfrog, yoshida4 or yoshida6; by default the first, or the last beside ngspice and records."
        ),
    ] = None,
    precision: PrecisionOption = "float64",
    as_json: JsonOption = False,
) -> None:
    """Find the gradient of a design's task by echo learning, beside other methods; also on a bench, if one is meant."""
    from rhel_hw import settings
    from rhel_hw.compare import compare, compare_on_bench
    from rhel_hw.emulated import EmulatedBench

    configure()
    integrator = integrator or usual_integrator(address)
    method, dtype = integrator_named(integrator), precision_named(precision)
    netlist, remote = netlist_and_bench(design, address, profile=profile, set=settings_, chips=chips > 1)
    choices = {"stencil": stencil, "operation": operation, "nudging": nudging, "protocol": protocol}
    changes = {"epsilon": epsilon, "gamma": number_or_auto(gamma), **choices}
    learner = settings.learning(netlist, changes)
    task = settings.task(netlist, {"spread": spread, "drive": drive, "loss": loss, "batch": batch, "seed": seed})
    on_some_bench = profile is not None or settings_ or "profile" in netlist.settings or chips > 1 or shots is not None
    emulated = remote is None and (on_some_bench or calibration is not None)
    used = settings.profile(netlist, profile, changes_of(settings_)) if emulated else None
    compiled = netlist.compile(step=step, steps=steps)
    names = [m.strip() for m in methods.split(",") if m.strip()]
    with progress("comparing", "methods") as report:
        problem = task.problem(compiled, integrator=method, dtype=dtype)
        results = compare(compiled, problem, names, learner, report=report)
        own = {**{k: v for k, v in changes.items() if k not in settings.IDEAL_ONLY}, "shots": shots}
        on_bench: BenchCompared | None = None
        if remote is not None or emulated:
            lesson = task.lesson(compiled, integrator=None if remote is None else method)
            bench: Bench = remote or EmulatedBench(
                compiled, used, seed=task.seed, chips=chips, reference=lesson.drive or None
            )
            if calibration is not None:
                bench = put_right(bench, calibration, netlist, task, None if remote else (task.seed, range(chips)))
            chosen = settings.bench_learning(netlist, bench.describe(), own)
            on_bench = compare_on_bench(
                compiled, problem, lesson, bench, chosen, twice=address is None or not on_file(address)
            )
    if as_json:
        print_json(
            {
                "design": compiled.netlist.name,
                "task": {"type": "teacher", **asdict(task)},
                "learning": settings.described(learner),
                "integrator": integrator,
                "precision": precision,
                "steps": compiled.steps,
                "step_s": compiled.step_s,
                "units": {e.name: _per(e.unit) or "1" for e in compiled.assembly.entries if e.trainable},
                "methods": {name: asdict(result) for name, result in results.items()},
                "bench": None
                if on_bench is None
                else {
                    "address": address,
                    "profile": None if used is None else used.to_dict(),
                    "chips": len(on_bench.cosines),
                    **asdict(on_bench),
                },
            }
        )
        return
    _print(compiled, task, results)
    if on_bench is not None:
        _print_bench(f"at {address}" if used is None else str(used), on_bench)


def _print_bench(bench: str, found: BenchCompared) -> None:
    console = Console(highlight=False)
    known = [c for c in found.cosines if c is not None]
    spread = "none, the gradient vanishes"
    if known:
        several = f"{min(known):.4f} to {max(known):.4f} over {len(known)} chips"
        spread = f"{known[0]:.6f}" if len(known) == 1 else several
    console.print("\n[bold]on a bench[/bold]")
    for line in bench.splitlines():
        console.print(f"  {escape(line)}")
    console.print(f"nudging: ε = {found.epsilon:g}, γ = {found.gamma:.4g}; loss {found.loss:.6g}")
    console.print(f"cosine to BPTT of the ideal circuit: {spread}")
    console.print(
        f"{found.passes} passes and {found.device_seconds:.3g} s on every chip, {found.seconds:.3g} s of computing"
    )
    for name, value in list(found.parameters.items())[:MOST_PARAMETERS]:
        console.print(f"  {escape(name)}: {value:.5g}" + (" on average" if len(known) > 1 else ""))
    for name, count in found.saturated.items():
        console.print(f"[yellow]warning[/]: {escape(name)} was beyond its range {count} times")
    if found.frozen:
        console.print(f"[yellow]warning[/]: not shown by any wired channel: {', '.join(found.frozen)}")


def number_or_auto(text: str | None) -> float | str | None:
    """γ from an option."""
    from devices import ArgumentError

    if text is None or text == "auto":
        return text
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f'Argument `--gamma` must be a number or "auto", but is {text!r}') from None


def _print(design: Design, task: Teacher, results: dict[str, Compared]) -> None:
    from circuits.formats.wording import quantity_text

    console = Console(highlight=False)
    first = next(iter(results.values()))
    step = quantity_text(design.step_s, "s")
    console.print(f"[bold]{escape(design.netlist.name)}[/bold]: {design.steps} steps of {step}")
    noise = "the design's own waveforms" if task.drive == "own" else f"band-limited noise, seed {task.seed}"
    moved = f"{task.batch} × {noise}" if design.netlist.drives else "its own motion"
    console.print(f"task: a teacher moved by ±{task.spread:.0%}, {task.loss} loss, {moved}")
    domains = {design.netlist.domains[t.node] for t in design.netlist.targets}
    units = sorted({f"{design.assembly.units.position(d):.3g} {d.position_unit}".strip() for d in domains})
    console.print(f"loss: {first.loss:.6g} before training, half a mean square in units of {', '.join(units)}")
    if first.gamma is not None:
        console.print(f"nudging: ε = {first.epsilon:g}, γ = {first.gamma:.4g}")
    costs = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("method", "cosine to BPTT", "norm ratio", "passes", "seconds", "temporary memory"):
        costs.add_column(column, justify="left" if column == "method" else "right")
    for name, r in results.items():
        costs.add_row(
            name, _number(r.cosine_to_bptt, ".9f"), _number(r.norm_ratio, ".6f"), str(r.passes), f"{r.seconds:.3g}",
            size_text(r.peak_temporary_bytes),
        )  # fmt: skip
    console.print(costs)
    entries = [e for e in design.assembly.entries if e.trainable]
    widest = max(len(e.name) + len(e.unit) + 5 for e in entries)
    fits = max(1, (console.width - widest) // (2 + max(12, *map(len, results))))
    shown = dict(list(results.items())[:fits])
    values = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("dL/d(parameter)", *shown):
        values.add_column(column, justify="right" if column in shown else "left", no_wrap=True)
    for e in entries[:MOST_PARAMETERS]:
        name = f"{escape(e.name)} [dim]{escape(_per(e.unit))}[/]" if e.unit else escape(e.name)
        values.add_row(name, *(f"{r.parameters[e.name] + 0.0:.5g}" for r in shown.values()))
    console.print()
    console.print(values)
    if len(entries) > MOST_PARAMETERS or len(results) > fits:
        console.print("… and more: see --json")


def _per(unit: str) -> str:
    """One over a unit."""
    return f"1/{unit}" if unit.isalpha() else f"1/({unit})" if unit else ""


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
