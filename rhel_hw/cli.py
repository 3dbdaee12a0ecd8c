"""The command line. Heavy imports happen inside the commands, so that help and listings start at once."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from circuits import Design, Legality

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, invoke_without_command=True
)
DesignArgument = Annotated[
    str, typer.Argument(metavar="DESIGN", help="A .toml, .cir or .sp file, or a built-in design.")
]
COARSE = 0.05
"""Energy error of a run, relative to its largest energy, from which the step is called too coarse."""
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for files; made if need be.")]


def main() -> None:
    """Run the command line; what a user can mend ends with exit code 2 and one message."""
    from devices import ArgumentError

    try:
        app()
    except ArgumentError as problem:
        arguments = sys.argv[1:]
        if "--json" in arguments and arguments[0] != "check":  # which has printed its findings
            _print_json({"error": str(problem)})
        print(f"rhel-hw: {problem}", file=sys.stderr)
        sys.exit(2)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Prototype self-learning analog circuits: netlists become Hamiltonians, Hamiltonians learn by echo."""
    if version:
        from importlib.metadata import version as installed

        print(installed("rhel-hw"))
        raise typer.Exit


@app.command()
def elements(
    kind: Annotated[str | None, typer.Argument(metavar="[TYPE]", help="Show one type in full.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List element and drive types with their parameters, energies and limits."""
    from devices import DRIVES, ELEMENTS, ArgumentError, nearest

    known: dict[str, Any] = {**ELEMENTS, **{f"{k} drive": v for k, v in DRIVES.items()}}
    kind = f"{kind} drive" if kind in DRIVES else kind
    if kind is not None:
        if kind not in known:
            raise ArgumentError(f"Argument `TYPE` must be a type, but is {kind!r}{nearest(kind, known)}")
        known = {kind: known[kind]}
    described = {name: _describe(cls) for name, cls in known.items()}
    if as_json:
        _print_json(described)
    elif kind is not None:
        _print_one(kind, described[kind])
        Console(highlight=False).print("\n" + escape(_snippet(kind, known[kind])))
    else:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in ("type", "terminals", "parameters", "energy"):
            table.add_column(column, overflow="fold")
        for name, item in described.items():
            units = ", ".join(f"{k} ({p['unit']})" if p["unit"] else k for k, p in item["parameters"].items())
            ends = ", ".join([*item["terminals"], *item["references"]])
            table.add_row(name, ends, units, item["energy"] or f"refused: {item['refused']}")
        Console().print(table)


@app.command()
def check(design: DesignArgument, as_json: JsonOption = False) -> None:
    """Say whether a design can be trained by echo, and if not, why and how to mend it."""
    from circuits import DesignError, Netlist

    _use_float64()
    try:
        netlist = Netlist.load(design)
        from circuits import examine

        legality, compiled = examine(netlist)
    except DesignError as problem:
        legality, compiled = problem.legality, None
    if as_json:
        _print_json(_check_report(legality, compiled))
    else:
        _print_check(legality, compiled)
    if not legality.legal:
        raise DesignError(legality.findings)


@app.command()
def simulate(
    design: DesignArgument,
    steps: Annotated[int | None, typer.Option(min=1, help="Number of steps; the design's own by default.")] = None,
    step: Annotated[str | None, typer.Option(help='Time step such as "5 ps"; the design\'s own by default.')] = None,
    integrator: Annotated[str, typer.Option(help="leapfrog, yoshida4 or yoshida6.")] = "leapfrog",
    precision: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    seed: Annotated[int, typer.Option(help="Seed of the stimulus, where the design has none of its own.")] = 0,
    plot: Annotated[bool, typer.Option("--plot", help="Write a figure into the --out folder.")] = False,
    out: OutOption = Path("."),
    as_json: JsonOption = False,
) -> None:
    """Run a design forward and audit its energy."""
    from circuits import Netlist
    from rhel_hw.simulation import Keep, refuse_too_large, simulate_design

    _use_float64()
    method, dtype = _integrator(integrator), _precision(precision)
    compiled = Netlist.load(design).compile(step=step, steps=steps)
    refuse_too_large(compiled.hamiltonian.size, compiled.steps, method, Keep.ENDS)
    waveforms, state, stimulus = _stimulus(compiled, seed)
    with _progress("simulating") as report:
        run = simulate_design(compiled, waveforms, state=state, integrator=method, dtype=dtype, report=report)
    files = []
    if plot:
        from studies.plots import trajectory

        files.append(_save(trajectory(compiled, run), out, f"{_stem(design)}-simulation.png"))
    if as_json:
        _print_json(
            {
                "design": compiled.netlist.name,
                "stimulus": stimulus,
                "times_s": run.times_s.tolist(),
                "positions": {k: v.tolist() for k, v in run.positions_si().items()},
                "momenta": {k: v.tolist() for k, v in run.momenta_si().items()},
                "units": _units(compiled),
                "energies_j": run.audit.ends.tolist(),
                "relative_energy_error": run.audit.relative_error,
                "files": [str(f) for f in files],
            }
        )
        return
    console = Console(highlight=False)
    console.print(
        f"[bold]{escape(compiled.netlist.name)}[/bold]: {run.steps} steps of {compiled.step_s:.4g} s, {method}"
    )
    console.print(f"stimulus: {stimulus}")
    error = run.audit.relative_error
    console.print(f"energy: {run.audit.ends[-1]:.6g} J at the end; unexplained {error:.2e} of the largest energy")
    if error > COARSE:
        console.print(
            f"[yellow]warning[/]: an energy error above {COARSE:.0%}: the step is too coarse for this amplitude"
        )
    for file in files:
        console.print(f"wrote {file}")


@app.command()
def demo(out: OutOption = Path("demo"), as_json: JsonOption = False) -> None:
    """Compile the paper's six-oscillator toy, run it, flip the momenta, and watch it come back."""
    from circuits import Netlist
    from rhel_hw.excitation import band_limited
    from rhel_hw.simulation import return_error, reverse, simulate_design
    from studies.plots import reversal

    _use_float64()
    design = Netlist.load("toy").compile()
    with _progress("simulating") as report:
        forward = simulate_design(design, band_limited(design, amplitude=0.3), report=report)
    backward = reverse(forward)
    error = return_error(forward, backward)
    file = _save(reversal(design, forward, backward), out, "toy.png")
    result = {
        "design": design.netlist.name,
        "coordinates": list(design.hamiltonian.names),
        "trainable": len(design.parameters.trainable_names),
        "frequencies_hz": design.frequencies_hz.tolist(),
        "step_s": design.step_s,
        "steps": forward.steps,
        "relative_energy_error": forward.audit.relative_error,
        "return_error": error,
        "files": [str(file)],
    }
    if as_json:
        _print_json(result)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in (
        ("design", f"{design.netlist.name}: {len(design.netlist.elements)} elements, {result['trainable']} trainable"),
        ("modes", ", ".join(f"{f:.4g}" for f in design.frequencies_hz) + " Hz"),
        ("run", f"{forward.steps} steps of {design.step_s:.3g} s, driven by band-limited noise"),
        (
            "energy audit",
            f"change that the drive does not explain: {forward.audit.relative_error:.1e} of the largest energy",
        ),
        ("echo", f"flipped and run back, it returns to its start within {error:.1e}"),
        ("figure", str(file)),
    ):
        table.add_row(f"[bold]{key}[/bold]  ", value)
    Console(highlight=False).print(table)


# Pieces ----------------------------------------------------------------------------------------------------------


def _use_float64() -> None:
    """Double precision from here on, without loading JAX before it is needed."""
    if "jax" not in sys.modules:
        os.environ["JAX_ENABLE_X64"] = "true"
        return
    import jax

    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]


def _integrator(name: str) -> Any:
    from rhel_hw.integrators import Leapfrog, Yoshida4, Yoshida6

    return _choice("--integrator", name, {"leapfrog": Leapfrog(), "yoshida4": Yoshida4(), "yoshida6": Yoshida6()})


def _precision(name: str) -> Any:
    import numpy as np

    return _choice("--precision", name, {"float64": np.float64, "float32": np.float32})


def _choice(option: str, name: str, choices: dict[str, Any]) -> Any:
    from devices import ArgumentError, nearest

    if name not in choices:
        raise ArgumentError(
            f"Argument `{option}` must be one of {', '.join(choices)}, but is {name!r}{nearest(name, choices)}"
        )
    return choices[name]


def _stimulus(design: Design, seed: int) -> tuple[dict[str, Any] | None, Any, str]:
    """The design's own stimulus, or one that makes it move, and what it is in words."""
    from rhel_hw.excitation import band_limited

    initial = design.netlist.initial
    if any(d.waveform for d in design.netlist.drives):
        return None, None, "the design's own waveforms"
    if initial.positions or initial.momenta or initial.velocities:
        return None, None, "the design's own initial state"
    if design.netlist.drives:
        return (
            band_limited(design, seed=seed),
            None,
            f"band-limited noise on every drive, seed {seed} (the design has no waveform)",
        )
    import numpy as np

    q, p = design.initial_state()
    kick = np.zeros(len(p))
    kick[0] = 0.3
    return (
        None,
        (q, p + kick),
        f"a kick to {design.hamiltonian.names[0]} (the design has neither drive nor initial state)",
    )


def _units(design: Design) -> dict[str, dict[str, str]]:
    domains = design.netlist.domains
    nodes = design.assembly.coordinates.nodes
    return {
        "positions": {n: domains[n].position_unit for n in nodes},
        "momenta": {n: domains[n].momentum_unit for n in nodes},
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
    console = Console(highlight=False)
    if design is not None:
        f = design.frequencies_hz
        console.print(f"[bold green]legal[/bold green]: {escape(design.netlist.name)}")
        console.print(
            f"  {design.hamiltonian.size} coordinates, {len(design.parameters.trainable_names)} trainable parameters"
        )
        console.print(f"  modes from {f[0]:.4g} to {f[-1]:.4g} Hz; {design.steps} steps of {design.step_s:.4g} s")
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _snippet(name: str, cls: Any) -> str:
    """The part as a design file would have it."""
    from devices import DRIVES

    drive = cls in DRIVES.values()
    lines = [f"[{'drives' if drive else 'elements'}.{name.split()[0]}1]", f'type = "{cls.type}"']
    nodes = ["n1", "n2", "n3", "gnd"][: len(cls.terminals)]
    if drive:
        lines += [f'{key} = "n1"' for key in cls.terminals if key not in cls.optional_terminals]
    elif cls.terminals:
        lines.append('node = "n1"' if len(nodes) == 1 else f"nodes = {json.dumps(nodes)}")
    lines += [f'{key} = "{other}"' for key, other in zip(cls.references, ("L1", "L2"), strict=False)]
    lines += [f"{key} = {json.dumps(p.example)}" for key, p in cls.parameters.items() if p.default is None]
    return "\n".join(lines)


def _describe(cls: Any) -> dict[str, Any]:
    return {
        "summary": cls.summary,
        "terminals": list(cls.terminals),
        "references": list(cls.references),
        "parameters": {
            name: {
                "unit": p.unit,
                "meaning": p.doc,
                "default": p.default,
                "range": p.range_text(),
                "example": p.example,
                "typical": p.typical,
            }
            for name, p in cls.parameters.items()
        },
        "energy": cls.energy_text,
        "loss": getattr(cls, "loss_text", ""),
        "limits": getattr(cls, "limits_text", ""),
        "reversal": getattr(cls, "reversal_text", "") or _parity(cls),
        "refused": "" if getattr(cls, "refusal", None) is None else cls.refusal.reason,
    }


def _parity(cls: Any) -> str:
    parity = getattr(cls, "parity", None)
    return "" if parity is None else "played backwards" + (" and sign-inverted" if parity < 0 else "")


def _print_one(name: str, item: dict[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{name}[/bold]: {item['summary']}")
    for key in ("terminals", "references"):
        if item[key]:
            console.print(f"  {key}: {', '.join(item[key])}")
    for parameter, info in item["parameters"].items():
        default = "required" if info["default"] is None else f"default {info['default']:g}"
        console.print(f"  {parameter} ({info['unit']}): {info['meaning']}; {info['range']}; {default}")
        if info["typical"]:
            console.print(f"    typical: {info['typical']}")
    for key in ("energy", "loss", "limits", "reversal", "refused"):
        if item[key]:
            console.print(f"  {key}: {item[key]}")


class _progress:  # noqa: N801 (a function to its users)
    """A progress bar on a terminal, nothing elsewhere: a context that gives a report(done, total)."""

    def __init__(self, what: str) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._shown = sys.stderr.isatty()
        columns = (
            TextColumn(what),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Callable[[int, int], None] | None:
        if not self._shown:
            return None
        self._bar.start()
        task = self._bar.add_task("", total=None)
        return lambda done, total: self._bar.update(task, completed=done, total=total)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()


def _save(figure: Any, out: Path, name: str) -> Path:
    from studies.output import folder, write_atomically

    return write_atomically(folder(out) / name, lambda stream: figure.savefig(stream, format="png"))


def _stem(design: str) -> str:
    return Path(design).stem


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=2, allow_nan=False))
