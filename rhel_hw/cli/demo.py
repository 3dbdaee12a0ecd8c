"""The command that does the main job end to end on a built-in design, and the list of those designs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rhel_hw.cli import completion
from rhel_hw.cli.common import (
    JsonOption,
    OutOption,
    ProfileOption,
    choice,
    print_json,
    progress,
    save,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    from circuits import Design
    from rhel_hw.compare import BenchCompared
    from rhel_hw.profile import Profile
    from rhel_hw.simulation import Trajectory
    from rhel_hw.tasks import Teacher
    from rhel_hw.training import Trained

ON_BENCH, IDEAL, CONTROL = "echo, on bench", "BPTT, ideal", "shuffled control"


@dataclass(frozen=True, eq=False)
class _Shown:
    """What the demo found."""

    design: Design
    profile: Profile
    forward: Trajectory
    return_error: float
    gradient: BenchCompared
    trained: dict[str, Trained]
    ideal_losses: dict[str, float]
    """Of the trained parameters on the ideal circuit."""


def demo(
    design: Annotated[
        str, typer.Option(help="A built-in design: see `rhel-hw gallery`.", autocompletion=completion.gallery)
    ] = "lc-toy",
    profile: ProfileOption = "bench-8bit",
    out: OutOption = Path("demo"),
    as_json: JsonOption = False,
) -> None:
    """Put a built-in design on a bench, let it learn by echo what a hidden circuit does, and report."""
    from circuits import Netlist
    from circuits.gallery import GALLERY
    from rhel_hw import settings
    from rhel_hw.excitation import band_limited
    from rhel_hw.files import folder
    from rhel_hw.simulation import return_error, reverse, simulate_design
    from studies.plots import learning, losses, reversal

    configure()
    choice("--design", design, dict.fromkeys(GALLERY))
    netlist = Netlist.load(design)
    used, task = settings.profile(netlist, profile), settings.task(netlist)
    folder(out)
    compiled = netlist.compile()
    forward = simulate_design(compiled, band_limited(compiled, seed=task.seed, amplitude=task.amplitude))
    backward = reverse(forward)
    gradient, trained = _learnt(compiled, used, task)
    problem = task.problem(compiled)
    shown = _Shown(
        compiled,
        used,
        forward,
        return_error(forward, backward),
        gradient,
        trained,
        {name: _ideal_loss(problem, t.theta) for name, t in trained.items()},
    )
    pictures = {
        "echo": reversal(compiled, forward, backward),
        "learning": learning(compiled, problem, trained[ON_BENCH]),
        "losses": losses({name: t.losses for name, t in trained.items()}),
    }
    files = [save(figure, out, f"{design}-{name}.png") for name, figure in pictures.items()]
    files.append(_report(shown, pictures, out / "report.html"))
    if as_json:
        print_json(_document(shown, files))
        return
    _print(shown, files)


def _learnt(design: Design, profile: Profile, task: Teacher) -> tuple[BenchCompared, dict[str, Trained]]:
    """The first gradient on the bench, and three ways to train."""
    from rhel_hw import settings
    from rhel_hw.baselines import BPTT, ShuffledCredit
    from rhel_hw.compare import compare_on_bench
    from rhel_hw.emulated import EmulatedBench
    from rhel_hw.learner import OnBench
    from rhel_hw.problem import OnProblem

    netlist, problem, lesson = design.netlist, task.problem(design), task.lesson(design)
    training = settings.training(netlist)
    learner = settings.bench_learning(netlist, profile, {"gamma": "auto"})
    ideal = settings.learning(netlist, {"gamma": "auto"}).tuned(problem)[0]

    def bench() -> EmulatedBench:
        return EmulatedBench(design, profile, reference=lesson.drive or None)

    measures: dict[str, Any] = {
        ON_BENCH: OnBench(bench(), design, lesson, learner),
        IDEAL: OnProblem(problem, BPTT()),
        CONTROL: OnProblem(problem, ShuffledCredit(ideal)),
    }
    trained = {}
    for name, measure in measures.items():
        with progress(name, "moves") as report:
            trained[name] = training.run(design, problem.theta, measure, report=report)
    return compare_on_bench(design, problem, lesson, bench(), measures[ON_BENCH].learner), trained


def _ideal_loss(problem: Any, theta: Any) -> float:
    from rhel_hw.baselines import BPTT

    return float(BPTT().gradient(replace(problem, theta=theta)).loss)


def _document(shown: _Shown, files: list[Path]) -> dict[str, Any]:
    design, gradient = shown.design, shown.gradient
    return {
        "design": design.netlist.name,
        "coordinates": list(design.hamiltonian.names),
        "elements": len(design.netlist.elements),
        "trainable": len(design.parameters.trainable_names),
        "frequencies_hz": design.frequencies_hz.tolist(),
        "step_s": design.step_s,
        "steps": shown.forward.steps,
        "profile": shown.profile.to_dict(),
        "relative_energy_error": shown.forward.audit.relative_error,
        "return_error": shown.return_error,
        "range_used": {v.element: v.used for v in shown.forward.validity},
        "gradient": {
            "cosine_to_bptt": gradient.cosines[0],
            "norm_ratio": gradient.norm_ratios[0],
            "passes": gradient.passes,
            "gamma": gradient.gamma,
            "saturated": gradient.saturated,
        },
        "training": {
            name: {
                "losses": list(t.losses),
                "ideal_loss": shown.ideal_losses[name],
                "improvement": t.improvement,
                "passes": t.passes,
                "device_seconds": t.device_seconds,
                "seconds": t.seconds,
                "ended": t.ended,
                "saturated": dict(t.saturated),
            }
            for name, t in shown.trained.items()
        },
        "files": [str(file) for file in files],
    }


def _rows(shown: _Shown) -> list[tuple[str, ...]]:
    """One row for each way to train."""
    first = next(iter(shown.trained.values())).losses[0]
    return [
        (
            name,
            f"{t.losses[0]:.3g}",
            f"{t.best:.3g}",
            f"{shown.ideal_losses[name]:.3g}",
            _factor(first / shown.ideal_losses[name]),
            f"{t.passes}",
            f"{t.device_seconds * 1e3:.3g} ms" if t.device_seconds else "–",
            f"{t.seconds:.1f} s",
        )
        for name, t in shown.trained.items()
    ]


COLUMNS = ("trained by", "loss", "best read", "on ideal", "lower", "passes", "device", "computing")


def _facts(shown: _Shown) -> list[tuple[str, str]]:
    from circuits.formats.wording import quantity_text

    design, gradient = shown.design, shown.gradient
    lines = [
        (
            "design",
            f"{design.netlist.name}: {len(design.netlist.elements)} elements, "
            f"{len(design.parameters.trainable_names)} trainable",
        ),
        ("modes", _band(design.frequencies_hz.tolist())),
        ("run", f"{shown.forward.steps} steps of {quantity_text(design.step_s, 's')}, driven by band-limited noise"),
        ("echo", f"ideal, flipped and run back, it returns to its start within {shown.return_error:.1e}"),
    ]
    if shown.forward.validity:
        used = shown.forward.validity[0]
        lines.append(("validity", f"{used.element} uses most of its range: {used.used:.2g}"))
    lines += [
        ("bench", ", ".join(f"{k} = {v}" for k, v in shown.profile.differences().items()) or "ideal"),
        (
            "gradient",
            f"on the bench, {gradient.passes} passes: cosine to backpropagation {gradient.cosines[0] or 0:.4f}, "
            f"norm {gradient.norm_ratios[0] or 0:.3f} of it",
        ),
    ]
    counts = {k: v for t in shown.trained.values() for k, v in t.saturated.items()}
    if counts:
        lines.append(("beyond range", ", ".join(f"{k} {v} times" for k, v in counts.items())))
    return lines


def _print(shown: _Shown, files: list[Path]) -> None:
    console = Console(highlight=False)
    facts = Table(box=None, show_header=False, pad_edge=False)
    for key, value in _facts(shown):
        facts.add_row(f"[bold]{key}[/bold]  ", value)
    console.print(facts)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for i, column in enumerate(COLUMNS):
        table.add_column(column, justify="right" if i else "left")
    for row in _rows(shown):
        table.add_row(*row)
    console.print(table)
    for file in files:
        console.print(f"wrote {file}")


def _report(shown: _Shown, pictures: dict[str, Any], path: Path) -> Path:
    from importlib.metadata import version

    from rhel_hw.profile import shown as told
    from studies.report import Numbers, Paragraph, Picture, Section, write
    from studies.report import Table as Rows

    bench, gradient, name = shown.trained[ON_BENCH], shown.gradient, shown.design.netlist.name
    lower = bench.losses[0] / shown.ideal_losses[ON_BENCH]
    numbers = Numbers(
        [
            (_factor(lower), "lower loss of the ideal circuit, with what the bench learnt"),
            (f"{gradient.cosines[0] or 0:.4f}", "cosine of its first gradient to backpropagation"),
            (f"{bench.passes}", "passes of the device"),
            (f"{bench.device_seconds * 1e3:.3g} ms", "physical time of those"),
        ]
    )
    imperfections = Rows(
        ["setting", "value", "drawn", "what it is"],
        [(s.path, f"{told(s.value)} {s.unit}".strip(), str(s.scope), s.doc) for s in shown.profile.describe()],
    )
    sections = [
        Section("", [numbers]),
        Section(
            "What was done",
            [
                Paragraph(
                    "A netlist was compiled into a Hamiltonian and put on an emulated bench. A hidden circuit of the "
                    "same topology, with other values, gave the answers to learn. The learner played drives, had the "
                    "state turned round, nudged the echo, and saw nothing but what the converters read."
                ),
                Rows(["", ""], _facts(shown)),
            ],
        ),
        Section(
            "What it came to",
            [
                Rows(COLUMNS, _rows(shown), numeric=range(1, len(COLUMNS))),
                Picture(pictures["losses"], "Loss on the bench, by exact gradients, and by the control."),
                Picture(
                    pictures["learning"],
                    "What the targets should do, did before training, and do after it; losses are those that the bench "
                    "reads.",
                ),
            ],
        ),
        Section(
            "The bench",
            [imperfections if shown.profile.describe() else Paragraph("Nothing differs from ideal.")],
        ),
        Section("The echo", [Picture(pictures["echo"], "The ideal circuit, run forward, and back after the flip.")]),
    ]
    lead = f"{name}, trained by echo learning on an emulated bench, from what it reads."
    return write(path, "A circuit that learns by echo", lead, sections, f"rhel-hw {version('rhel-hw')}")


def _factor(value: float) -> str:
    return f"{value:,.0f}×" if value >= 100 else f"{value:.3g}×"


def _band(frequencies: list[float]) -> str:
    from circuits.formats.wording import quantity_text

    told = [quantity_text(f, "Hz") for f in frequencies]
    return ", ".join(told) if len(told) <= 8 else f"{len(told)} from {told[0]} to {told[-1]}"


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
