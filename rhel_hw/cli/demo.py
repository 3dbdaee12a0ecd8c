"""The command that shows what this is about, on a built-in design."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rhel_hw.cli.common import JsonOption, OutOption, choice, print_json, progress, save, use_float64

if TYPE_CHECKING:
    from circuits import Design


def demo(
    design: Annotated[str, typer.Option(help="A built-in design: see `rhel-hw gallery`.")] = "toy",
    out: OutOption = Path("demo"),
    as_json: JsonOption = False,
) -> None:
    """Compile a built-in design, run it, flip the momenta, watch it come back, and let it learn by echo."""
    from circuits import Netlist
    from circuits.gallery import GALLERY
    from rhel_hw import settings
    from rhel_hw.compare import compare
    from rhel_hw.excitation import band_limited
    from rhel_hw.simulation import return_error, reverse, simulate_design
    from studies.output import folder
    from studies.plots import learning, reversal

    use_float64()
    choice("--design", design, dict.fromkeys(GALLERY))
    folder(out)
    netlist = Netlist.load(design)
    compiled = netlist.compile()
    learner, task = settings.learning(netlist, {"gamma": "auto"}), settings.task(netlist)
    forward = simulate_design(compiled, band_limited(compiled, seed=task.seed, amplitude=task.amplitude))
    backward = reverse(forward)
    problem = task.problem(compiled)
    found = compare(compiled, problem, ["rhel"], learner)["rhel"]
    with progress("training", "moves") as report:
        trained = settings.training(netlist).run(compiled, problem, learner, report=report)
    files = [
        save(reversal(compiled, forward, backward), out, f"{design}.png"),
        save(learning(compiled, problem, trained), out, f"{design}-learning.png"),
    ]
    result: dict[str, Any] = {
        "design": netlist.name,
        "coordinates": list(compiled.hamiltonian.names),
        "elements": len(netlist.elements),
        "trainable": len(compiled.parameters.trainable_names),
        "frequencies_hz": compiled.frequencies_hz.tolist(),
        "step_s": compiled.step_s,
        "steps": forward.steps,
        "relative_energy_error": forward.audit.relative_error,
        "return_error": return_error(forward, backward),
        "range_used": {v.element: v.used for v in forward.validity},
        "gradient": {"cosine_to_bptt": found.cosine_to_bptt, "passes": found.passes},
        "training": {
            "losses": list(trained.losses),
            "improvement": trained.improvement,
            "passes": trained.passes,
            "seconds": trained.seconds,
        },
        "files": [str(file) for file in files],
    }
    if as_json:
        print_json(result)
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    for key, value in _lines(compiled, result):
        table.add_row(f"[bold]{key}[/bold]  ", value)
    Console(highlight=False).print(table)


def _lines(design: Design, result: dict[str, Any]) -> list[tuple[str, str]]:
    """What the demo found, for people."""
    lines = [
        ("design", f"{result['design']}: {result['elements']} elements, {result['trainable']} trainable"),
        ("modes", _band(result["frequencies_hz"])),
        ("run", f"{result['steps']} steps of {result['step_s']:.3g} s, driven by band-limited noise"),
        (
            "energy audit",
            f"change that the drive does not explain: {result['relative_energy_error']:.1e} of the largest energy",
        ),
        ("echo", f"flipped and run back, it returns to its start within {result['return_error']:.1e}"),
    ]
    if result["range_used"]:
        element, used = next(iter(result["range_used"].items()))
        lines.append(("validity", f"{element} uses most of its range: {used:.2g}"))
    gradient, training = result["gradient"], result["training"]
    lines += [
        (
            "gradient",
            f"by echoes, {gradient['passes']} passes: cosine to backpropagation {gradient['cosine_to_bptt']:.9f}",
        ),
        (
            "learning",
            f"{len(training['losses']) - 1} moves, {training['seconds']:.1f} s: loss {training['losses'][0]:.3g} to "
            f"{min(training['losses']):.3g}, {training['improvement']:.3g} times lower",
        ),
        *(("figure", file) for file in result["files"]),
    ]
    return lines


def _band(frequencies: list[float]) -> str:
    if len(frequencies) <= 8:
        return ", ".join(f"{f:.4g}" for f in frequencies) + " Hz"
    return f"{len(frequencies)} from {frequencies[0]:.4g} to {frequencies[-1]:.4g} Hz"


def gallery(as_json: JsonOption = False) -> None:
    """List the built-in designs."""
    from circuits.gallery import GALLERY

    known = {name: _summary(path) for name, path in GALLERY.items()}
    if as_json:
        print_json(known)
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, summary in known.items():
        table.add_row(f"[bold]{name}[/bold]  ", summary)
    Console(highlight=False).print(table)


def _summary(path: Path) -> str:
    """The comment at the top of a design file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    end = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    return " ".join(line.removeprefix("#").strip() for line in lines[:end])
