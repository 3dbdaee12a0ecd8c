"""The commands that look at one design: whether it is legal, and how it moves."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from rhel_hw.cli.common import (
    DesignArgument,
    JsonOption,
    OutOption,
    PrecisionOption,
    integrator_named,
    precision_named,
    print_json,
    progress,
    save,
    stem,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    from circuits import Design, Legality, Netlist
    from circuits.findings import Finding

COARSE = 0.05
"""Energy error of a run, relative to its largest energy, from which the step is called too coarse."""


def check(design: DesignArgument, as_json: JsonOption = False) -> None:
    """Say whether a design can be trained by echo, and if not, why and how to mend it."""
    from circuits import DesignError, Legality, Netlist

    configure()
    try:
        netlist = Netlist.load(design)
        from circuits import examine

        legality, compiled = examine(netlist)
        legality = Legality((*legality.findings, *_of_settings(netlist)))
    except DesignError as problem:
        legality, compiled = problem.legality, None
    if as_json:
        print_json(_check_report(legality, compiled))
    else:
        _print_check(legality, compiled)
    if not legality.legal:
        raise DesignError(legality.findings)


def simulate(
    design: DesignArgument,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of steps; the design's own by default.")] = None,
    step: Annotated[str | None, typer.Option(help='Time step such as "5 ps"; the design\'s own by default.')] = None,
    integrator: Annotated[
        str, typer.Option(help="leapfrog, yoshida4 or yoshida6; of linear circuits without loss also exact.")
    ] = "leapfrog",
    precision: PrecisionOption = "float64",
    seed: Annotated[int, typer.Option(help="Seed of the stimulus, where the design has none of its own.")] = 0,
    plot: Annotated[bool, typer.Option("--plot", help="Write a figure into the --out folder.")] = False,
    out: OutOption = Path("."),
    as_json: JsonOption = False,
) -> None:
    """Run a design forward and audit its energy."""
    from circuits import Netlist
    from circuits.formats.wording import quantity_text
    from rhel_hw.excitation import stimulus
    from rhel_hw.propagation import Keep
    from rhel_hw.simulation import refuse_too_large, simulate_design

    configure()
    method, dtype = integrator_named(integrator, runs=True), precision_named(precision)
    compiled = Netlist.load(design).compile(step=step, steps=steps)
    refuse_too_large(compiled.hamiltonian.size, compiled.steps, method, Keep.ENDS)
    moved = stimulus(compiled, seed=seed)
    with progress("simulating") as report:
        run = simulate_design(
            compiled, moved.waveforms, state=moved.state, integrator=method, dtype=dtype, report=report
        )
    files = []
    if plot:
        from studies.plots import trajectory

        files.append(save(trajectory(compiled, run), out, f"{stem(design)}-simulation.png"))
    if as_json:
        print_json(
            {
                "design": compiled.netlist.name,
                "stimulus": moved.words,
                "times_s": run.times_s.tolist(),
                "positions": {k: v.tolist() for k, v in run.positions_si().items()},
                "momenta": {k: v.tolist() for k, v in run.momenta_si().items()},
                "units": _units(compiled),
                "energies_j": run.audit.ends.tolist(),
                "relative_energy_error": run.audit.relative_error,
                "signals": {k: v.tolist() for k, v in run.signals_si().items()},
                "validity": [asdict(v) for v in run.validity],
                "files": [str(f) for f in files],
            }
        )
        return
    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(compiled.netlist.name)}[/bold]: {run.steps} steps of {quantity_text(compiled.step_s, 's')}, "
        f"{method}"
    )
    console.print(f"stimulus: {escape(moved.words)}")
    error = run.audit.relative_error
    console.print(f"energy: {run.audit.ends[-1]:.6g} J at the end; unexplained {error:.2e} of the largest energy")
    for left in (v for v in run.validity if not v.valid):
        console.print(f"[yellow]warning[/]: {escape(str(left))}: its model is left, see `rhel-hw elements`")
    if error > COARSE:
        console.print(
            f"[yellow]warning[/]: an energy error above {COARSE:.0%}: the step is too coarse for this amplitude"
        )
    for file in files:
        console.print(f"wrote {file}")


def _of_settings(netlist: Netlist) -> list[Finding]:
    """What is wrong with the sections for learning, if there are any."""
    from circuits import DesignError

    findings: list[Finding] = []
    if netlist.settings:
        from rhel_hw import settings

        for read in (settings.profile, settings.learning, settings.task, settings.training):
            try:
                read(netlist)
            except DesignError as problem:
                findings += problem.legality.findings
    return findings


def _units(design: Design) -> dict[str, dict[str, str]]:
    domains = design.netlist.domains
    nodes = design.assembly.coordinates.nodes
    return {
        "positions": {n: domains[n].position_unit for n in nodes},
        "momenta": {n: domains[n].momentum_unit for n in nodes},
        "signals": {d.name: d.unit for d in design.netlist.detectors},
    }


def _check_report(legality: Legality, design: Design | None) -> dict[str, Any]:
    return {
        "legal": legality.legal,
        "findings": legality.to_json(),
        "coordinates": [] if design is None else list(design.hamiltonian.names),
        "trainable": [] if design is None else list(design.parameters.trainable_names),
        "frequencies_hz": [] if design is None else design.frequencies_hz.tolist(),
        "step_s": None if design is None else design.step_s,
    }


def _print_check(legality: Legality, design: Design | None) -> None:
    from circuits.formats.wording import quantity_text

    console = Console(highlight=False)
    if design is not None:
        f = design.frequencies_hz
        console.print(f"[bold green]legal[/bold green]: {escape(design.netlist.name)}")
        console.print(
            f"  {design.hamiltonian.size} coordinates, {len(design.parameters.trainable_names)} trainable parameters"
        )
        what = "modes" if f[0] >= 0 else "detunings of modes"
        console.print(
            f"  {what} from {quantity_text(f[0], 'Hz')} to {quantity_text(f[-1], 'Hz')}; "
            f"{design.steps} steps of {quantity_text(design.step_s, 's')}"
        )
    else:
        console.print("[bold red]not legal[/bold red]")
    style = {"error": "red", "warning": "yellow", "note": "dim"}
    told = legality.errors[:1]  # the first error is the command's own message
    for finding in legality.findings:
        if finding in told:
            continue
        what = escape(f"{finding.element}: {finding.reason}")
        console.print(f"  [{style[finding.severity]}]{finding.severity}[/]  {what}")
        if finding.remedy:
            console.print(f"         remedy: {escape(finding.remedy)}")
