"""The command that shows a design on a page, with a bench behind its sliders."""

from __future__ import annotations

import contextlib
import signal
import sys
import webbrowser
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated

import typer

from rhel_hw.cli.common import (
    DesignArgument,
    JsonOption,
    ProfileOption,
    SetOption,
    changes_of,
    print_json,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    from circuits import Design, Netlist
    from studies.show import Stage

USUAL = "bench-8bit"
"""Profile of a design that says nothing of one."""


def show(
    design: DesignArgument,
    profile: ProfileOption = None,
    settings_: SetOption = None,
    chip: Annotated[int, typer.Option(min=0, help="Number of the chip, and seed of the noise.")] = 0,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of teacher and stimulus.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of 127.0.0.1; 0 for one that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Write the page to this file instead, as it is at first; sliders rest.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show a design in a browser: schematic, parts, modes, findings, and its pass, echo and gradient on a bench.

    Sliders move resolution and noise of the readout and γ, and everything is measured anew. Control-C ends it.
    """
    from circuits import Netlist, examine
    from rhel_hw.files import refuse_unwritable, write_text
    from studies.show import Server, render

    configure()
    netlist = Netlist.load(design)
    if out is not None:
        refuse_unwritable(out, "--out")
    legality, compiled = examine(netlist)
    stage = None if compiled is None else _staged(netlist, compiled, profile, changes_of(settings_), chip, seed)
    if out is not None:
        heard = None if stage is None else stage.measure(stage.first)
        write_text(out, render(netlist, legality, stage, heard))
        print_json({"design": netlist.name, "file": str(out)}) if as_json else print(f"wrote {out}")
        return
    server = Server(render(netlist, legality, stage), stage, port)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: server.end())
    if as_json:
        print_json({"design": netlist.name, "address": server.address})
    else:
        print(f"{netlist.name}\nshown at {server.address} until control-C")
    sys.stdout.flush()
    warming = Thread(target=_warm, args=(stage,), daemon=True)
    warming.start()
    if browser and sys.stderr.isatty():
        webbrowser.open(server.address)
    server.run()
    if stage is not None:
        stage.end()
    if warming.is_alive():
        print("rhel-hw: waiting for what is being compiled", file=sys.stderr)
    warming.join()


def _staged(
    netlist: Netlist, compiled: Design, profile: str | None, changes: dict[str, str], chip: int, seed: int | None
) -> Stage:
    """The design on its bench; on a usual one if nobody says which."""
    from rhel_hw import settings
    from studies.show import Stage

    usual = USUAL if profile is None and "profile" not in netlist.settings else profile
    return Stage(compiled, settings.profile(netlist, usual, changes), seed, chip)


def _warm(stage: Stage | None) -> None:
    """Compile what sliders may ask for, while the page is looked at; what fails is told where it is asked for."""
    from devices import ArgumentError

    with contextlib.suppress(ArgumentError):
        if stage is not None:
            stage.warm()
