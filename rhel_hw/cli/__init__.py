"""The command line. Heavy imports happen inside the commands, so that help and listings start at once."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated, NoReturn

import typer

from rhel_hw.cli.benches import profiles, train
from rhel_hw.cli.benchmarks import benchmark
from rhel_hw.cli.calibrate import calibrate
from rhel_hw.cli.common import print_json
from rhel_hw.cli.demo import demo, gallery
from rhel_hw.cli.designs import check, simulate
from rhel_hw.cli.elements import elements
from rhel_hw.cli.examples import epilog
from rhel_hw.cli.export import export
from rhel_hw.cli.fit import fit
from rhel_hw.cli.learning import gradient
from rhel_hw.cli.new import new
from rhel_hw.cli.presets import presets
from rhel_hw.cli.record import record
from rhel_hw.cli.serve import serve
from rhel_hw.cli.show import show
from rhel_hw.cli.studies import study
from rhel_hw.cli.sweep import sweep
from rhel_hw.cli.voice import QuietOption, VerboseOption, Voice, spoken

app = typer.Typer(
    no_args_is_help=True, pretty_exceptions_enable=False, invoke_without_command=True, rich_markup_mode="rich"
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
    app.command(epilog=epilog(command.__name__))(spoken(command))


def main() -> None:
    """Run the command line; what a user can mend ends with exit code 2 and one message."""
    from devices import ArgumentError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # of terminals that have no γ
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except ArgumentError as problem:
        _refuse(str(problem), problem.exit_code)
    except OSError as problem:  # of files that nobody looked at before, full disks and the like
        where = "" if problem.filename is None else f"{problem.filename}: "
        _refuse(f"{where}{problem.strerror or problem}", ArgumentError.exit_code)


def _refuse(message: str, code: int) -> NoReturn:
    """One printable line on stderr, and for machines a document."""
    arguments = sys.argv[1:]
    if "--json" in arguments and arguments[0] != "check":  # which has printed its findings
        print_json({"error": message})
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)
    print(f"rhel-hw: {line}", file=sys.stderr)
    sys.exit(code)


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print versions of what matters.", is_eager=True)] = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Prototype self-learning analog circuits: netlists become Hamiltonians, Hamiltonians learn by echo."""
    if version:
        from rhel_hw.cli.installed import table

        print(table())
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        from devices import ArgumentError

        raise ArgumentError("Argument `COMMAND` must be given: see `rhel-hw --help`")
    ctx.obj = Voice.of(quiet, verbose)
