"""The commands that put a design on a bench: training, and what profiles there are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli import completion
from rhel_hw.cli.common import (
    BenchOption,
    CalibrationOption,
    JsonOption,
    OptionalDesignArgument,
    OutOption,
    ProfileOption,
    SetOption,
    changes_of,
    integrator_named,
    netlist_and_bench,
    print_json,
    progress,
    put_right,
    save,
    stem,
    usual_integrator,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    from circuits import Design
    from rhel_hw.bench import Bench
    from rhel_hw.profile import Profile, Setting
    from rhel_hw.training import Trained

MOST_PARAMETERS = 40
"""Parameters listed on a terminal; `--json` has all."""


def train(
    design: OptionalDesignArgument = None,
    profile: ProfileOption = None,
    settings_: SetOption = None,
    address: BenchOption = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Moves of the parameters; the design's own by default.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Length of a move, about the relative change.")] = None,
    patience: Annotated[int | None, typer.Option(min=1, help="Stop after so many moves without a lower loss.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Nudging strength.")] = None,
    gamma: Annotated[str | None, typer.Option(help='Loss scale during the echo: a number, or "auto".')] = None,
    stencil: Annotated[str | None, typer.Option(help="centred, one-sided or richardson.")] = None,
    protocol: Annotated[str | None, typer.Option(help="hold or re-prepare.")] = None,
    shots: Annotated[int | None, typer.Option(min=1, help="Repetitions over which a gradient is averaged.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of teacher and stimulus.")] = None,
    chip: Annotated[int, typer.Option(min=0, help="Number of the chip, and seed of the noise.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="File that keeps the progress; if it is there, training goes on from it.")
    ] = None,
    calibration: CalibrationOption = None,
    plot: Annotated[bool, typer.Option("--plot", help="Write a figure into the --out folder.")] = False,
    out: OutOption = Path("."),
    as_json: JsonOption = False,
) -> None:
    """Train a design by echo learning, on an emulated bench or on the one at an address."""
    from rhel_hw import settings
    from rhel_hw.cli.learning import number_or_auto
    from rhel_hw.emulated import EmulatedBench
    from rhel_hw.instrument.remote import InstrumentError
    from rhel_hw.learner import OnBench

    configure()
    netlist, remote = netlist_and_bench(design, address, profile=profile, set=settings_, chip=chip)
    used = None if remote else settings.profile(netlist, profile, changes_of(settings_))
    task = settings.task(netlist, {"seed": seed})
    training = settings.training(netlist, {"steps": steps, "rate": rate, "patience": patience})
    compiled = netlist.compile()
    lesson = task.lesson(compiled, integrator=integrator_named(usual_integrator(address)))
    bench: Bench = remote or EmulatedBench(compiled, used, seed=chip, chips=[chip], reference=lesson.drive or None)
    if calibration is not None:
        bench = put_right(bench, calibration, netlist, task, None if remote else (chip, [chip]))
    choices = {"stencil": stencil, "protocol": protocol, "shots": shots}
    learner = settings.bench_learning(
        netlist, bench.describe(), {"epsilon": epsilon, "gamma": number_or_auto(gamma), **choices}
    )
    label = f"{used or address}|{settings.described(learner)}|{task}|{chip}|{calibration and calibration.read_text()}"
    measure = OnBench(bench, compiled, lesson, learner)
    with progress("training", "moves") as report:
        try:
            trained = training.run(
                compiled, compiled.theta(), measure, report=report, checkpoint=checkpoint, label=label
            )
        except InstrumentError as problem:
            if checkpoint is None or not checkpoint.exists():
                raise
            raise InstrumentError(
                f"{problem}. Progress is in {checkpoint}: the same command goes on from there"
            ) from None
    files = []
    if plot:
        from studies.plots import learning

        figure = learning(compiled, task.problem(compiled), trained)
        files.append(save(figure, out, f"{stem(design or netlist.name)}-training.png"))
    hidden = task.teacher(compiled)
    if as_json:
        print_json(
            {
                "design": netlist.name,
                "profile": None if used is None else used.to_dict(),
                "bench": address,
                "learning": settings.described(measure.learner),
                "task": {"type": "teacher", **asdict(task)},
                "training": asdict(training),
                "losses": list(trained.losses),
                "improvement": trained.improvement,
                "ended": trained.ended,
                "passes": trained.passes,
                "device_seconds": trained.device_seconds,
                "seconds": trained.seconds,
                "saturated": dict(trained.saturated),
                "frozen": list(trained.frozen),
                "at_limits": list(trained.at_limits),
                "parameters": _values(compiled, trained.theta),
                "hidden": _values(compiled, hidden),
                "files": [str(f) for f in files],
            }
        )
        return
    _print_training(compiled, f"the bench at {address}" if used is None else _in_short(used), trained, hidden, files)


def _values(design: Design, theta: Any) -> dict[str, float]:
    found = design.parameters.to_si(theta)
    return {name: found[name][0] for name in design.parameters.trainable_names}


def _print_training(design: Design, bench: str, trained: Trained, hidden: Any, files: list[Path]) -> None:
    console = Console(highlight=False)
    console.print(f"[bold]{escape(design.netlist.name)}[/bold] on {escape(bench)}")
    better = f"{trained.improvement:.3g} times lower" if trained.improvement > 1 else "not lowered"
    losses = f"loss {trained.losses[0]:.4g} to {trained.best:.4g}, {better}"
    console.print(f"{losses}, {len(trained.losses) - 1} moves; ended: {escape(trained.ended)}")
    console.print(
        f"{trained.passes} passes, {trained.device_seconds:.3g} s on the device, {trained.seconds:.1f} s of computing"
    )
    for name, count in trained.saturated.items():
        console.print(f"[yellow]warning[/]: {escape(name)} was beyond its range {count} times")
    if trained.frozen:
        console.print(
            f"[yellow]warning[/]: frozen, as the wired channels do not show them: {', '.join(trained.frozen)}"
        )
    if trained.at_limits:
        console.print(f"[yellow]warning[/]: at the end of the programmable range: {', '.join(trained.at_limits)}")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("parameter", "before", "after", "hidden"):
        table.add_column(column, justify="left" if column == "parameter" else "right")
    from devices import to_text

    before, after, target = (design.parameters.to_si(t) for t in (design.theta(), trained.theta, hidden))
    for name in design.parameters.trainable_names[:MOST_PARAMETERS]:
        unit = before[name][1]
        values = (to_text(float(f"{x[name][0]:.4g}"), unit) for x in (before, after, target))
        table.add_row(escape(name), *values)
    console.print(table)
    if len(design.parameters.trainable_names) > MOST_PARAMETERS:
        console.print("… and more: see --json")
    for file in files:
        console.print(f"wrote {file}")


def _in_short(profile: Profile) -> str:
    told = [f"{path} = {value}" for path, value in profile.differences().items()]
    return "a bench that is " + ("ideal" if not told else f"not ideal: {', '.join(told)}")


def profiles(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE", help="A preset or a file; all presets if left out.", autocompletion=completion.profiles
        ),
    ] = None,
    settings_: SetOption = None,
    every: Annotated[bool, typer.Option("--settings", help="List every setting there is.")] = False,
    as_json: JsonOption = False,
) -> None:
    """List profiles of benches: what differs from ideal, and where the numbers come from."""
    from devices import ArgumentError
    from rhel_hw.profile import Profile, settings
    from rhel_hw.profiles import PROFILES

    changes = changes_of(settings_)
    if every and (name is not None or changes):
        raise ArgumentError("Arguments `PROFILE` and `--set` must be left out with --settings, which lists all")
    if name is None and changes:
        raise ArgumentError("Argument `PROFILE` must be given with --set: ideal is one that differs in nothing else")
    if every:
        _print_settings(settings(), as_json)
        return
    if name is None:
        found = {key: preset.summary for key, preset in PROFILES.items()}
        if as_json:
            print_json(found)
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("profile")
        table.add_column("what it is", overflow="fold")
        for key, summary in found.items():
            table.add_row(key, escape(summary))
        Console(highlight=False).print(table)
        return
    profile = Profile.load(name)
    for path, value in changes.items():
        profile = profile.set(path, value)
    origins = {}
    if name in PROFILES:
        preset = PROFILES[name]
        origins = {**{k: f"source: {v}" for k, v in preset.sources.items()}}
        origins |= {k: f"assumption: {v}" for k, v in preset.assumptions.items()}
    if as_json:
        print_json({"profile": profile.to_dict(), "origins": origins})
        return
    console = Console(highlight=False)
    console.print(f"[bold]{escape(name)}[/bold]" + (f": {escape(PROFILES[name].summary)}" if name in PROFILES else ""))
    if profile.ideal:
        console.print("nothing differs from ideal")
    for setting in (*profile.describe(), *profile.costs()):
        _print_setting(console, setting, origins.get(setting.path, ""))


def _print_setting(console: Console, setting: Setting, origin: str) -> None:
    from rhel_hw.profile import shown

    unit = f" {setting.unit}" if setting.unit else ""
    console.print(f"[bold]{setting.path}[/bold] = {escape(shown(setting.value))}{escape(unit)}, {setting.scope}")
    console.print(f"  {escape(setting.doc)}")
    if origin:
        console.print(f"  [dim]{escape(origin)}[/]")


def _print_settings(found: list[Setting], as_json: bool) -> None:
    from rhel_hw.profile import shown

    if as_json:
        print_json([{**asdict(s), "value": shown(s.value), "scope": str(s.scope)} for s in found])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("setting", "default", "unit", "drawn", "what it is"):
        table.add_column(column, overflow="fold", no_wrap=column == "setting")
    for s in found:
        table.add_row(s.path, escape(shown(s.value)), s.unit, str(s.scope), escape(s.doc))
    Console(highlight=False).print(table)
