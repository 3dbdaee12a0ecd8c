"""The command that puts a design on a bench, and the bench on a socket."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Annotated, Any

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

MEBIBYTE = 2**20


def serve(
    design: DesignArgument,
    profile: ProfileOption = None,
    settings_: SetOption = None,
    chip: Annotated[int, typer.Option(min=0, help="Number of the first chip, and seed of the noise.")] = 0,
    chips: Annotated[int, typer.Option(min=1, help="Number of chips, side by side; training takes one.")] = 1,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 for one that is free.")] = 5025,
    second: Annotated[str, typer.Option(help="What becomes of a second controller: refuse or queue.")] = "refuse",
    message_mib: Annotated[float, typer.Option(help="Longest message, in mebibytes.")] = 64.0,
    waveform_values: Annotated[int, typer.Option(help="Longest waveform, in values.")] = 4 * MEBIBYTE,
    idle_s: Annotated[float, typer.Option(help="Seconds without a message before a controller is let go.")] = 3600.0,
    message_s: Annotated[float, typer.Option(help="Seconds within which a message that is begun must end.")] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Put a design on an emulated bench that answers as an instrument, by SCPI over a socket; control-C ends it."""
    from circuits import Netlist
    from rhel_hw import settings
    from rhel_hw.emulated import EmulatedBench
    from rhel_hw.instrument.server import Limits, Server, is_loopback

    configure()
    netlist = Netlist.load(design)
    used = settings.profile(netlist, profile, changes_of(settings_))
    limits = Limits(int(message_mib * MEBIBYTE), waveform_values, idle_s, message_s)
    compiled = netlist.compile()
    # The ranges of converters are those for the task that is trained by default, where there is one.
    taught = compiled.parameters.trainable_names and netlist.targets and netlist.drives
    reference = settings.task(netlist).lesson(compiled).drive if taught else None
    bench = EmulatedBench(compiled, used, seed=chip, chips=range(chip, chip + chips), reference=reference)
    server = Server(bench, netlist.to_toml(), second=second, limits=limits)
    if host and not is_loopback(host):
        print(
            f"rhel-hw: warning: {host} can be reached from other machines, and nobody is asked who they are",
            file=sys.stderr,
        )

    def ready(host: str, port: int) -> None:
        address = f"TCPIP::{host}::{port}::SOCKET"
        if as_json:
            print_json({"design": netlist.name, "address": address, "host": host, "port": port})
        else:
            print(f"{netlist.name}\nlistening at {address} until control-C")
        sys.stdout.flush()

    asyncio.run(_until_told(server.run(host, port, ready)))
    if server.busy:
        print("rhel-hw: waiting for the pass that is under way", file=sys.stderr)


async def _until_told(server: Coroutine[Any, Any, None]) -> None:
    """Run until the process is asked to end."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(server)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        return
