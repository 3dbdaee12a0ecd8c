"""The command that trains a state-space model on a set of series."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from rhel_hw.cli.common import JsonOption, OutOption, choice, print_json, progress
from rhel_hw.cli.learning import number_or_auto
from rhel_hw.runtime import configure

DOUBTFUL = 0.1
"""Relative error of gradients from which a training is warned of."""


def fit(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A .npz, .ts or .arff file, or delayed-recall, adding, pulse-detection, watch-gestures.",
        ),
    ] = "pulse-detection",
    recipe: Annotated[
        str | None,
        typer.Option(help="Sizes by name, such as watch-gestures or paper:EigenWorms; that of DATA by default."),
    ] = None,
    units: Annotated[str, typer.Option(help="linear or nonlinear.")] = "linear",
    method: Annotated[str, typer.Option(help="rhel: by echoes; bptt: by backpropagation.")] = "rhel",
    split: Annotated[
        str, typer.Option(help="random, groups (whole subjects or recordings) or given (the source's own test part).")
    ] = "random",
    epsilon: Annotated[float, typer.Option(help="Nudging strength.")] = 0.1,
    gamma: Annotated[str, typer.Option(help="Scale of the loss during echoes, or auto: one for every block.")] = "auto",
    hidden: Annotated[int | None, typer.Option(min=1, help="Features between blocks.")] = None,
    state: Annotated[int | None, typer.Option(min=1, help="Units of a block.")] = None,
    blocks: Annotated[int | None, typer.Option(min=1)] = None,
    rate: Annotated[float | None, typer.Option(help="Of Adam.")] = None,
    batch: Annotated[int | None, typer.Option(min=1)] = None,
    moves: Annotated[int | None, typer.Option(min=1, help="Most moves of the parameters.")] = None,
    evaluate: Annotated[int | None, typer.Option(min=1, help="Moves between evaluations.")] = None,
    patience: Annotated[int | None, typer.Option(min=1, help="Evaluations without a better one to stop after.")] = None,
    decimate: Annotated[int | None, typer.Option(min=1, help="Steps that are averaged into one.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of split, start, batches and dropout.")] = 0,
    compare: Annotated[bool, typer.Option(help="Compare gradients with backpropagation at every evaluation.")] = False,
    out: OutOption = Path("fit"),
    as_json: JsonOption = False,
) -> None:
    """Train a Hamiltonian state-space model by echoes; a run that was killed goes on from its checkpoint."""
    choice("--method", method, {"rhel": None, "bptt": None})
    choice("--split", split, {"random": None, "groups": None, "given": None})
    configure()
    from devices import ArgumentError
    from rhel_hw.data import leaks, load, shifted_copies
    from rhel_hw.data import split as split_of
    from rhel_hw.recipes import SMALL, Recipe, changed
    from rhel_hw.recipes import recipe as recipe_of

    series = load(data)
    sizes = {"hidden": hidden, "state": state, "blocks": blocks, "rate": rate, "batch": batch, "moves": moves}
    more = {"evaluate": evaluate, "patience": patience, "decimate": decimate}
    base = recipe_of(recipe) if recipe else SMALL.get(data, SMALL.get(series.name, Recipe()))
    used = changed(base, **sizes, **more)
    warnings = [str(shift) for shift in [shifted_copies(series)] if shift is not None]
    prepared = used.prepare(series)
    parted = split_of(prepared, seed, by=split)  # type: ignore[arg-type]
    warnings += leaks(prepared, parted)
    parts, scaling = used.parts(prepared, parted)
    model = used.model(prepared, units)
    from rhel_hw.baselines import ThroughTime
    from rhel_hw.fitting import EchoChaining

    value: Any = number_or_auto(gamma)
    learning = EchoChaining(epsilon, value) if method == "rhel" else ThroughTime()
    if method == "bptt" and compare:
        raise ArgumentError("Argument `--compare` must be left out with --method bptt, which is what it compares with")
    fitting = used.fitting(seed=seed, compared=compare)
    console = Console(highlight=False)
    if not as_json:
        console.print(f"[bold]{escape(str(prepared))}[/bold]")
        console.print(
            f"{used.blocks} blocks of {used.state} {units} units, {used.hidden} features; split {split}: {parted}"
        )
        for warning in warnings:
            console.print(f"[yellow]warning[/]: {escape(warning)}")
    with progress("training", "moves") as report:
        fitted = fitting.run(model, parts, learning, out=out, report=report)
    if fitted.expected_error > DOUBTFUL:
        warnings.append(
            f"gradients of a block may have been off by {min(fitted.expected_error, 1.0):.0%} or more, as its pilot "
            "echoes say: use shorter series or a smaller rate"
        )
    scores = dict(fitted.test)
    if (rms := scaling.rms(scores["loss"])) is not None:
        scores["rms"] = rms
    files = [str(out / name) for name in ("checkpoint.npz", "curves.csv", "events.out.tfevents.0.rhel-hw")]
    if as_json:
        history = [{k: v if isfinite(v) else None for k, v in row.items()} for row in fitted.history]
        document = {
            "data": prepared.name, "method": method, "units": units, "split": split, "seed": seed,
            "test": scores, "ended": fitted.ended, "moves": fitted.history[-1]["move"], "seconds": fitted.seconds,
            "history": history, "warnings": warnings, "files": files,
        }  # fmt: skip
        print_json(document)
        return
    console.print(f"{fitted.ended} after {fitted.history[-1]['move']:.0f} moves, {fitted.seconds:.0f} s")
    last = fitted.history[-1]
    if "gamma_1" in last:
        gammas = ", ".join(f"{v:.3g}" for k, v in last.items() if k.startswith("gamma_"))
        console.print(f"nudging: ε = {epsilon:g}, γ by block = {gammas}")
    if compare:
        console.print(f"gradients by echoes and by backpropagation: least cosine {fitted.cosine:.6f}")
    if fitted.expected_error > DOUBTFUL:
        console.print(f"[yellow]warning[/]: {escape(warnings[-1])}")
    console.print("test part: " + ", ".join(f"{k} {v:.4g}" for k, v in scores.items()))
    for file in files:
        console.print(f"wrote {file}")
