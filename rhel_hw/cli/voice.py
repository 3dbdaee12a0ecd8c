"""How much commands say, by options that all of them have: results as usual, nothing but errors, or more than that."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, redirect_stdout
from contextvars import ContextVar
from enum import Enum
from functools import wraps
from io import StringIO
from typing import Annotated, Any

import typer

QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but errors, and what --json asks for; files are written.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say more on stderr: progress, every finding, versions and times.")
]


class Voice(Enum):
    """How much is said."""

    QUIET = "nothing but errors"
    USUAL = "results"
    VERBOSE = "results, and how they come about"

    @staticmethod
    def of(quiet: bool, verbose: bool) -> Voice:
        """What two options ask for."""
        from devices import ArgumentError

        if quiet and verbose:
            raise ArgumentError("Arguments `--quiet` and `--verbose` must not both be given")
        return Voice.QUIET if quiet else Voice.VERBOSE if verbose else Voice.USUAL


_VOICE: ContextVar[Voice] = ContextVar("voice", default=Voice.USUAL)


def voice() -> Voice:
    """That of the command which runs."""
    return _VOICE.get()


def spoken(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the two options, which may stand before its name as well."""

    @wraps(command)
    def run(ctx: typer.Context, quiet: bool, verbose: bool, **arguments: Any) -> None:
        before: Voice = ctx.obj if isinstance(ctx.obj, Voice) else Voice.USUAL
        own = Voice.of(quiet or before is Voice.QUIET, verbose or before is Voice.VERBOSE)
        token, begun = _VOICE.set(own), (time.perf_counter(), time.process_time())
        silent = own is Voice.QUIET and not arguments.get("as_json", False)
        kept: AbstractContextManager[Any] = redirect_stdout(StringIO()) if silent else nullcontext()
        try:
            with kept:
                command(**arguments)
        except ValueError as problem:
            if own is Voice.VERBOSE:
                _tell_all(problem)
            raise
        finally:
            _VOICE.reset(token)
            if own is Voice.VERBOSE:
                _tell_costs(*begun)

    own = inspect.signature(command, eval_str=True)
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        for name, option in (("quiet", QuietOption), ("verbose", VerboseOption))
    ]
    context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [context, *own.parameters.values(), *shared]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def _tell_all(problem: ValueError) -> None:
    """Every finding of a design that is refused, where the message has the first."""
    legality = getattr(problem, "legality", None)
    for finding in () if legality is None else legality.findings:
        print(f"{finding.severity}: {finding}", file=sys.stderr)


def _tell_costs(wall: float, processor: float) -> None:
    from studies.provenance import versions

    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    told = ", ".join(f"{name} {version}" for name, version in versions().items())
    print(f"{wall:.1f} s, {processor:.1f} s of processor time; {told}", file=sys.stderr)
