"""What all commands share: options, progress, printing, and writing files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rhel_hw.cli import completion
from rhel_hw.cli.voice import Voice, voice

if TYPE_CHECKING:
    from circuits import Netlist
    from rhel_hw.bench import Bench
    from rhel_hw.tasks import Teacher

DesignArgument = Annotated[
    str,
    typer.Argument(
        metavar="DESIGN",
        help="A .toml, .cir, .sp or .yml (sax) file, or a built-in design.",
        autocompletion=completion.designs,
    ),
]
OptionalDesignArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[DESIGN]",
        help="A .toml, .cir, .sp or .yml (sax) file, or a built-in design; that of the bench with --bench.",
        autocompletion=completion.designs,
    ),
]
BenchOption = Annotated[
    str | None,
    typer.Option(
        "--bench",
        metavar="ADDRESS",
        help="VISA address, such as TCPIP::127.0.0.1::5025::SOCKET; ngspice; a recorded bench, such as bench.npz; or a "
        "folder, such as lab/, of passes that you play and measure.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document for machines.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for files; made if need be.")]
ProfileOption = Annotated[
    str | None,
    typer.Option(
        "--profile",
        help="Profile of the bench: a .toml or .json file, or a preset.",
        autocompletion=completion.profiles,
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="One setting of the profile, such as readout.bits=6; may be repeated.",
        autocompletion=completion.settings,
    ),
]
CalibrationOption = Annotated[
    Path | None, typer.Option("--calibration", help="File of `rhel-hw calibrate` by which the bench is put right.")
]
PrecisionOption = Annotated[str, typer.Option(help="float64 or float32.")]


def usual_integrator(address: str | None) -> str:
    """Of what a bench is compared with and taught by: that of emulated devices, or one as good as continuous time.

    Circuits of ngspice and of laboratories move on between samples; a bench at an address may be of either kind.
    """
    return "yoshida6" if address is not None and (address == "ngspice" or on_file(address)) else "leapfrog"


def integrator_named(name: str, *, runs: bool = False) -> Any:
    """The integrator of this name; of what only runs, and does not learn, also normal modes."""
    from rhel_hw.exact import Exact
    from rhel_hw.integrators import Leapfrog, Yoshida4, Yoshida6

    known: dict[str, Any] = {"leapfrog": Leapfrog(), "yoshida4": Yoshida4(), "yoshida6": Yoshida6()}
    return choice("--integrator", name, known | ({"exact": Exact()} if runs else {}))


def precision_named(name: str) -> Any:
    """The number format of this name."""
    import numpy as np

    return choice("--precision", name, {"float64": np.float64, "float32": np.float32})


def named(things: dict[str, str]) -> Any:
    """A table of names and what they stand for."""
    from rich.table import Table

    listed = Table.grid(padding=(0, 2))
    for name, words in things.items():
        listed.add_row(f"[bold]{name}[/bold]", words)
    return listed


def choice(option: str, name: str, choices: dict[str, Any]) -> Any:
    """What a name stands for, or an error that lists the names."""
    from devices import ArgumentError, nearest

    if name not in choices:
        raise ArgumentError(
            f"Argument `{option}` must be one of {', '.join(choices)}, but is {name!r}"
            f"{nearest(name, choices, listed=True)}"
        )
    return choices[name]


class progress:  # noqa: N801 (a function to its users)
    """A progress bar on a terminal, lines elsewhere if commands are verbose: a context that gives a report.

    It is called with what is done and how much there is, and perhaps a loss or words.
    """

    def __init__(self, what: str, unit: str = "steps") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._what, self._unit, self._told = what, unit, -1
        self._shown = sys.stderr.isatty() and voice() is not Voice.QUIET
        columns = (
            TextColumn(what),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(unit),
            TextColumn("{task.description}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> Callable[..., None] | None:
        if not self._shown:
            return self._line if voice() is Voice.VERBOSE else None
        self._bar.start()
        task = self._bar.add_task("", total=None, speed="")

        def report(done: int, total: int, told: float | str | None = None) -> None:
            words = "" if told is None else told if isinstance(told, str) else f"loss {told:.3g}"
            speed = self._bar.tasks[task].speed
            per_second = "" if not speed else f"{speed:.3g}/s" if speed >= 1 else f"{1 / speed:.3g} s each"
            self._bar.update(task, completed=done, total=total, description=words, speed=per_second)

        return report

    def _line(self, done: int, total: int, told: float | str | None = None) -> None:
        """Say how far it has come, at every tenth of the way."""
        tenth = 10 * done // total if total else 10
        if tenth > self._told:
            self._told = tenth
            words = "" if told is None else f", {told}" if isinstance(told, str) else f", loss {told:.3g}"
            print(f"{self._what}: {done} of {total} {self._unit}{words}", file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        if self._shown:
            self._bar.stop()


def netlist_and_bench(design: str | None, address: str | None, **emulated: object) -> tuple[Netlist, Bench | None]:
    """The design that is meant, and the bench at an address; what makes sense on an emulated one only is refused."""
    from circuits import Netlist
    from devices import ArgumentError

    if address is None:
        if design is None:
            raise ArgumentError("Argument `DESIGN` must be given, unless --bench says where a bench with one is")
        return Netlist.load(design), None
    for name, value in emulated.items():
        if value:
            raise ArgumentError(f"Argument `--{name}` must be left out with --bench, which is as it is")
    netlist = None if design is None else Netlist.load(design)
    if address == "ngspice" or on_file(address):
        if netlist is None:
            raise ArgumentError(f"Argument `DESIGN` must be given with --bench {address}, which has none of its own")
        return netlist, _local(netlist, address)
    from rhel_hw.instrument.remote import InstrumentError, RemoteBench

    try:
        bench = RemoteBench(address)
    except InstrumentError as problem:
        if "::" in address:
            raise
        raise InstrumentError(f"{problem}; a folder that is not there yet is written {address}/") from None
    return netlist or bench.netlist, bench


def on_file(address: str) -> bool:
    """Whether a bench is a file or a folder."""
    return address.endswith((".npz", "/", os.sep)) or Path(address).is_dir()


def _local(netlist: Netlist, address: str) -> Bench:
    """A bench on this computer."""
    if address == "ngspice":
        from rhel_hw.ngspice import NgspiceBench

        return NgspiceBench(netlist.compile())
    if address.endswith(".npz"):
        from rhel_hw.replay import ReplayBench

        return ReplayBench(address)
    from rhel_hw.records.folder import FolderBench

    return FolderBench(netlist.compile(), address)


def put_right(
    bench: Bench, calibration: Path, netlist: Netlist, task: Teacher, chips: tuple[int, Sequence[int]] | None
) -> Bench:
    """A bench by a calibration file; of an emulated one, the seed and numbers of its chips."""
    from dataclasses import asdict

    from calibration.file import Calibration

    seed, numbers = chips or (None, None)
    found = Calibration.load(calibration)
    return found.around(bench, netlist, seed=seed, numbers=numbers, task={"type": "teacher", **asdict(task)})


def changes_of(settings: list[str] | None) -> dict[str, str]:
    """Changes of a profile from `path=value` texts."""
    from devices import ArgumentError

    changes = {}
    for text in settings or ():
        path, equals, value = text.partition("=")
        if not equals or not path.strip():
            raise ArgumentError(f"Argument `--set` must read like readout.bits=6, but is {text!r}")
        changes[path.strip()] = value.strip()
    return changes


def save(figure: Any, out: Path, name: str) -> Path:
    """Write a figure as PNG, or as the ending of its name says, whole or not at all."""
    from rhel_hw.files import folder, write_atomically

    kind = Path(name).suffix.removeprefix(".") or "png"
    return write_atomically(folder(out) / name, lambda stream: figure.savefig(stream, format=kind))


def stem(design: str) -> str:
    """Name of a design's file without its ending."""
    return Path(design).stem


def print_json(document: Any) -> None:
    """Print one JSON document."""
    print(json.dumps(document, indent=2, allow_nan=False))


def size_text(count: int) -> str:
    """A number of bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
