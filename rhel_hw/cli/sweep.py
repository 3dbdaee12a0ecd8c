"""The command that sweeps a design over anything, and finds what it needs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rhel_hw.cli.common import (
    CalibrationOption,
    DesignArgument,
    JsonOption,
    OutOption,
    ProfileOption,
    SetOption,
    changes_of,
    print_json,
    progress,
    save,
    stem,
)
from rhel_hw.runtime import configure

if TYPE_CHECKING:
    import xarray as xr

    from circuits import Netlist
    from studies.sweeps import Sweep

MOST_ROWS = 12
"""Points listed on a terminal; files have all."""
STATISTICS = ("median", "least", "greatest")


def sweep(
    design: DesignArgument,
    axes: Annotated[
        list[str] | None,
        typer.Option(
            "--axis",
            metavar="PATH=VALUES",
            help="An axis: readout.bits=4,6,8, learning.gamma=log:1:1e6:13, drive.bits=whole:4:12:9, seed=0..9; may be "
            "repeated. Those of section sweep.axes of the design by default.",
        ),
    ] = None,
    mode: Annotated[str | None, typer.Option(help="grid, zip, latin-hypercube or sobol.")] = None,
    points: Annotated[int | None, typer.Option(min=1, help="Number of samples.")] = None,
    repeats: Annotated[
        int | None, typer.Option(min=1, help="Gradients per point; from 2 on their noise is told.")
    ] = None,
    moves: Annotated[int | None, typer.Option(min=0, help="Train with so many moves at every point.")] = None,
    reference: Annotated[
        str | None, typer.Option(help="Compare with backpropagation through the ideal circuit, or the chip.")
    ] = None,
    require: Annotated[
        list[str] | None,
        typer.Option(
            help="What must hold, such as cosine=0.99: the budget of every axis is found, or of the usual ones."
        ),
    ] = None,
    calibration: CalibrationOption = None,
    profile: ProfileOption = None,
    settings_: SetOption = None,
    memory: Annotated[str, typer.Option(help='Memory for chunks under way, such as "2 GB".')] = "2 GB",
    workers: Annotated[int, typer.Option(min=1, help="Threads that compute chunks.")] = 2,
    scheduler: Annotated[str | None, typer.Option(help="Address of a Dask cluster that computes instead.")] = None,
    netcdf: Annotated[Path | None, typer.Option(help="Write the results to this netCDF file as well.")] = None,
    out: OutOption = Path("sweep"),
    as_json: JsonOption = False,
) -> None:
    """Sweep a design over precision, noise, γ or any other field; killed, it goes on where it was."""
    configure()
    from circuits import Netlist
    from devices import ArgumentError

    netlist = with_profile(Netlist.load(design), profile, changes_of(settings_))
    calibrated = None if calibration is None else str(calibration)
    changes = {
        "calibration": calibrated,
        "mode": mode,
        "points": points,
        "repeats": repeats,
        "moves": moves,
        "reference": reference,
    }
    budget = bytes_of(memory)
    if require:
        from rhel_hw.cli.budget import find

        if scheduler is not None or netcdf is not None:
            raise ArgumentError("Arguments `--scheduler` and `--netcdf` must be left out with --require")
        find(netlist, axes_of(axes), require, out, changes, as_json, name=stem(design), workers=workers, memory=budget)
        return
    asked = sweep_of(netlist, axes_of(axes), changes)
    from rhel_hw.files import folder
    from studies.sweeps import figures, page, run
    from studies.sweeps.store import refuse_netcdf

    folder(out)
    if netcdf is not None:
        refuse_netcdf(netcdf)
    name = stem(design)
    try:
        with progress("sweeping", "points") as report:
            found, store = run(
                netlist, asked, out / f"{name}.zarr", memory=budget, workers=workers, scheduler=scheduler, report=report
            )
    except KeyboardInterrupt:
        print(
            "rhel-hw: interrupted; finished points are kept, and the same command goes on from there", file=sys.stderr
        )
        raise
    files = [store.path]
    for what, figure in figures.overview(found).items():
        files += [save(figure, out, f"{name}-{what}.{ending}") for ending in ("png", "svg")]
    try:
        files.append(page.write(found, out / f"{name}.html"))
        missing = ""
    except ArgumentError as problem:  # without plotly there are figures still
        missing = str(problem)
    if netcdf is not None:
        files.append(store.to_netcdf(netcdf))
    if as_json:
        print_json(
            {"design": netlist.name, **document(found), "corrupt": store.corrupt, "files": [str(f) for f in files]}
        )
        return
    console = Console(highlight=False)
    told(console, found)
    if "learning.gamma" not in asked.axes and "gamma" not in netlist.settings.get("learning", {}):
        console.print(
            "[yellow]note[/]: all points nudge with γ = 1, which coarse or noisy readout may not see; "
            "--axis learning.gamma=auto lets pilot echoes choose it for every point"
        )
    if store.corrupt:
        console.print(f"[yellow]warning[/]: {len(store.corrupt)} damaged chunks were found, and computed again")
    if missing:
        console.print(f"[yellow]warning[/]: no interactive report: {escape(missing)}")
    for file in files:
        console.print(f"wrote {escape(str(file))}")


# What is asked for --------------------------------------------------------------------------------------------------


def with_profile(netlist: Netlist, profile: str | None, changes: dict[str, str]) -> Netlist:
    """A netlist whose own profile is the one that is meant."""
    from rhel_hw import settings

    if profile is None and not changes:
        return netlist
    found = settings.profile(netlist, profile, changes)
    return netlist.replace(settings={**netlist.settings, "profile": found.to_dict()})


def sweep_of(netlist: Netlist, axes: dict[str, Any], changes: dict[str, Any]) -> Sweep:
    """The sweep of a design, with axes and settings of the command line instead of its own."""
    from devices import ArgumentError
    from studies.sweeps import Sweep

    own = dict(netlist.settings.get("sweep", {}))
    given = {**own, **{k: v for k, v in changes.items() if v is not None}, "axes": axes or own.get("axes", {})}
    if not given["axes"]:
        raise ArgumentError(
            "Argument `--axis` must name what to sweep over, such as --axis readout.bits=4,6,8, as the design has no "
            "[sweep.axes]"
        )
    return Sweep.of(given)


def axes_of(texts: list[str] | None) -> dict[str, Any]:
    """Axes of options such as ``readout.bits=4,6,8``."""
    from devices import ArgumentError

    found: dict[str, Any] = {}
    for text in texts or ():
        path, equals, values = text.partition("=")
        if not equals or not values.strip():
            raise ArgumentError(f"Argument `--axis` must be PATH=VALUES, such as readout.bits=4,6,8, but is {text!r}")
        if path.strip() in found:
            raise ArgumentError(f"Argument `--axis` must name every field once, but has {path.strip()} twice")
        found[path.strip()] = _values(values.strip())
    return found


def _values(text: str) -> Any:
    from devices import ArgumentError
    from rhel_hw.profile import literal
    from studies.sweeps.axes import MOST_POINTS

    if span := re.fullmatch(r"(\d+)\.\.(\d+)", text):
        first, last = int(span[1]), int(span[2])
        if not 0 <= last - first < MOST_POINTS:
            raise ArgumentError(
                f"Argument `--axis` must go up from first to last, with at most {MOST_POINTS:,} values, but is {text}"
            )
        return list(range(first, last + 1))
    kind, colon, rest = text.partition(":")
    if colon and kind in ("log", "linear", "whole"):
        return {kind: [literal(x) for x in rest.split(":")]}
    return [literal(x.strip()) for x in text.split(",")]


def bytes_of(text: str) -> int:
    """Bytes of a text such as "2 GB" or "512 MiB"."""
    from devices import ArgumentError

    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kMGT]?)(i?)B?\s*", text)
    if not found:
        raise ArgumentError(f'Argument `--memory` must be a size such as "2 GB", but is {text!r}')
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** " kMGT".index(found[2] or " "))


# What is told -------------------------------------------------------------------------------------------------------


def document(found: xr.Dataset) -> dict[str, Any]:
    """The most important numbers, for machines; the store has all."""
    import numpy as np

    def plain(values: Any) -> Any:
        array = np.asarray(values, object)
        array[~np.isfinite(np.asarray(values, float))] = None
        return array.tolist()

    outcomes = {n: plain(v) for n, v in found.data_vars.items() if not {"parameter", "kind"} & set(v.dims)}
    return {
        "dims": {d: int(found.sizes[d]) for d in found["cosine"].dims},
        "axes": {p: np.asarray(found.coords[p]).tolist() for p in found.attrs["axes"]},
        "points": int(found.attrs["points"]),
        "failed": int(np.isnan(np.asarray(found["cosine"])).sum()),
        "outcomes": outcomes,
    }


def told(console: Console, found: xr.Dataset) -> None:
    """The same for people: median, best and worst along every axis."""
    import numpy as np

    from studies.sweeps.reading import read

    points = read(found)
    failed = int(points.failed.sum())
    console.print(
        f"[bold]{escape(found.attrs['name'])}[/bold]: {points.count} point{'s' * (points.count > 1)}"
        + (f", {failed} failed" if failed else "")
    )
    saturated = int((points.outcomes["saturated"].column > 0).sum())
    warnings = [f"at {saturated} points values were beyond a converter's range"] * bool(saturated) + points.warnings
    for warning in warnings:
        console.print(f"[yellow]warning[/]: {escape(warning)}")
    outcomes = [points.outcomes[n] for n in (points.quality, "final_loss") if n in points.outcomes]
    shown = [a for a in points.axes.values() if not a.repeated]
    for axis in shown or list(points.axes.values())[:1]:
        alone = axis.repeated  # nothing but repetitions: one row for all
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column(escape(axis.name) + (", in bins around" if axis.binned else ""))
        for column in [f"{o.name}: median" if i == 0 else w for o in outcomes for i, w in enumerate(STATISTICS)]:
            table.add_column(column, justify="right")
        labels = [f"all {len(axis.values)}"] if alone else axis.texts
        for place, label in enumerate(labels[:MOST_ROWS]):
            chosen = np.ones(points.count, bool) if alone else axis.codes == place
            table.add_row(escape(label), *(x for o in outcomes for x in _statistics(o.name, o.column[chosen])))
        console.print(table)
        if len(labels) > MOST_ROWS:
            console.print(f"… and {len(labels) - MOST_ROWS} more")


def _statistics(name: str, values: Any) -> list[str]:
    """Median, least and greatest of an outcome."""
    import numpy as np

    known = values[np.isfinite(values)]
    if not known.size:
        return ["–"] * len(STATISTICS)
    return [f"{x:.6f}" if name == "cosine" else f"{x:.3g}" for x in (np.median(known), np.min(known), np.max(known))]
