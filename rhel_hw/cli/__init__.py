"""The command line. Heavy imports happen inside the commands, so that help and listings start at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rhel_hw.cli.benches import profiles, train
from rhel_hw.cli.calibrate import calibrate
from rhel_hw.cli.common import print_json
from rhel_hw.cli.demo import demo, gallery
from rhel_hw.cli.designs import check, simulate
from rhel_hw.cli.elements import elements
from rhel_hw.cli.export import export
from rhel_hw.cli.fit import fit
from rhel_hw.cli.learning import gradient
from rhel_hw.cli.new import new
from rhel_hw.cli.presets import presets
from rhel_hw.cli.record import record
from rhel_hw.cli.serve import serve
from rhel_hw.cli.show import show
from rhel_hw.cli.studies import benchmark, study
from rhel_hw.cli.sweep import sweep

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, invoke_without_command=True
)
for command in (
    demo,
    gallery,
    new,
    elements,
    presets,
    profiles,
    check,
    simulate,
    show,
    gradient,
    train,
    fit,
    calibrate,
    record,
    export,
    serve,
    sweep,
    study,
    benchmark,
):
    app.command()(command)


def main() -> None:
    """Run the command line; what a user can mend ends with exit code 2 and one message."""
    from devices import ArgumentError

    try:
        app()
    except ArgumentError as problem:
        arguments = sys.argv[1:]
        if "--json" in arguments and arguments[0] != "check":  # which has printed its findings
            print_json({"error": str(problem)})
        print(f"rhel-hw: {problem}", file=sys.stderr)
        sys.exit(problem.exit_code)


@app.callback()
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", is_eager=True)] = False,
) -> None:
    """Prototype self-learning analog circuits: netlists become Hamiltonians, Hamiltonians learn by echo."""
    if version:
        from importlib.metadata import version as installed

        print(installed("rhel-hw"))
        raise typer.Exit
