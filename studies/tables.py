"""Tables of accuracies and errors: echo learning beside backpropagation on the same splits, starts and batches.

A cell is a data set, a way to split it and a kind of units. All its runs are made in one process that is bound to one
core, so that they share compiled programs and give the same numbers however many processes there are. Every run is
written as soon as it is done, and not made again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import date
from hashlib import sha256
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median, stdev
from time import perf_counter, sleep
from typing import Any, Literal

import numpy as np

from devices import ArgumentError
from rhel_hw.data import Series, Split, leaks, load, split
from rhel_hw.files import folder, write_text
from rhel_hw.fitting import Parts
from rhel_hw.recipes import PAPER, SMALL, Recipe
from rhel_hw.runtime import configure
from studies.provenance import code, versions

Report = Callable[[int, int], None]
Method = Literal["rhel", "bptt", "moved"]

METHODS: tuple[Method, ...] = ("bptt", "rhel", "moved")
"""The last is a control: backpropagation again, from a start that is moved a little. It shows how far two trainings
come apart that differ in nothing else."""
MOVED = 1e-6
WAIT_S = 0.5
"""Between looks at what is done."""


@dataclass(frozen=True)
class Cell:
    """What is trained: on which data, split how, with which units."""

    source: str
    """Name of a set, or path of a file."""
    name: str
    by: str
    """How it is split: random, groups or given."""
    units: str
    recipe: Recipe
    seeds: tuple[int, ...]

    @property
    def key(self) -> str:
        """A name that changes with anything that changes its runs, but for the seeds and the folder of its file."""
        same = replace(self, seeds=(), source=Path(self.source).name)
        what = json.dumps(asdict(same), sort_keys=True)
        return f"{self.name}-{self.by}-{self.units}-{sha256(what.encode()).hexdigest()[:8]}"

    def run_file(self, out: Path, seed: int, method: Method) -> Path:
        """Where a run is kept."""
        return out / "runs" / f"{self.key}-{method}-{seed}.json"


@dataclass(frozen=True)
class Source:
    """A set that a table can have, how it is found, and the splits that make sense."""

    name: str
    files: tuple[str, ...]
    """Names of its file; none if it ships."""
    task: Literal["classification", "regression"]
    splits: tuple[str, ...]


SOURCES = (
    Source("watch-gestures", ("WatchSPAR_seglearn.npz",), "classification", ("random", "groups")),
    Source("MotorImagery", ("MotorImagery.npz",), "classification", ("random", "given")),
    Source("TROIKA_PPG_HR", ("TROIKA_PPG_HR.npz",), "regression", ("random", "groups")),
)
"""Of `--full`."""
SHIPPED = (
    Source("delayed-recall", (), "classification", ("random",)),
    Source("pulse-detection", (), "classification", ("random",)),
    Source("adding", (), "regression", ("random",)),
)
"""Of `--quick`, without any file."""
QUICK_SEEDS, FULL_SEEDS = (0, 1), tuple(range(5))


def cells(task: str, size: Literal["quick", "full", "paper"], data: Path | None) -> list[Cell]:
    """Cells of a table. Quick needs no files; full and paper take from the folder `data` whatever is there."""
    if size == "quick":
        found = [(s.name, s, replace(SMALL[s.name], moves=150)) for s in SHIPPED if s.task == task]
        return [
            Cell(where, s.name, by, units, recipe, QUICK_SEEDS)
            for where, s, recipe in found
            for by in s.splits
            for units in ("linear", "nonlinear")
        ]
    if data is None or not data.is_dir():
        raise ArgumentError(f"Argument `--data` must be a folder with sets of series for --{size}, but is {data}")
    if size == "paper":
        endings = (".npz", "_TRAIN.ts", "_TRAIN.arff", ".ts", ".arff")
        kinds = {"PPG-DaLiA": "regression"}
        listed = [
            (next((data / f"{n}{e}" for e in endings if (data / f"{n}{e}").is_file()), None), n, recipe)
            for n, recipe in PAPER.items()
            if kinds.get(n, "classification") == task
        ]
        found = [(str(p), Source(n, (), "classification", ("random",)), recipe) for p, n, recipe in listed if p]
    else:
        found = [
            (str(data / file), s, SMALL[s.name])
            for s in SOURCES
            for file in s.files
            if s.task == task and (data / file).is_file()
        ]
    if not found:
        wanted = PAPER if size == "paper" else [f for s in SOURCES if s.task == task for f in s.files]
        raise ArgumentError(
            f"Argument `--data` must be a folder with at least one of {', '.join(wanted)}, but {data} has none"
        )
    return [
        Cell(where, s.name, by, units, recipe, FULL_SEEDS)
        for where, s, recipe in found
        for by in s.splits
        for units in ("linear", "nonlinear")
    ]


# Runs -------------------------------------------------------------------------------------------------------------


def run(chosen: Sequence[Cell], out: Path, *, workers: int = 2, report: Report | None = None) -> dict[str, Any]:
    """Make all runs that are not there yet, and the table of all."""
    folder(out / "runs")
    files = [c.run_file(out, seed, m) for c in chosen for seed in c.seeds for m in METHODS]
    context = get_context("spawn")
    numbers = context.Value("i", 0)
    began = perf_counter()
    with ProcessPoolExecutor(workers, mp_context=context, initializer=_bind, initargs=(numbers,)) as pool:
        pending = {pool.submit(_cell, cell, out) for cell in chosen}
        while pending:
            done = {f for f in pending if f.done()}
            for future in done:
                future.result()
            pending -= done
            if report:
                report(sum(f.exists() for f in files), len(files))
            if pending:
                sleep(WAIT_S)
    return {**table(chosen, out), "seconds": perf_counter() - began}


def _bind(numbers: Any) -> None:
    """Bind a worker to a core of its own, before any library asks how many there are."""
    with numbers.get_lock():
        number, numbers.value = numbers.value, numbers.value + 1
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})


def _cell(cell: Cell, out: Path) -> None:
    """All runs of a cell: for every seed both methods on one split, from one start, with one order of batches."""
    configure()
    prepared = cell.recipe.prepare(load(cell.source))
    for seed in cell.seeds:
        missing: list[Method] = [m for m in METHODS if not cell.run_file(out, seed, m).exists()]
        for method in missing:
            found = one_run(cell, prepared, seed, method)
            write_text(cell.run_file(out, seed, method), json.dumps(found, indent=1))


def one_run(cell: Cell, prepared: Series, seed: int, method: Method) -> dict[str, Any]:
    """Train once, and say how it went."""
    from rhel_hw.baselines import ThroughTime
    from rhel_hw.fitting import EchoChaining

    found = split(prepared, seed, by=cell.by)  # type: ignore[arg-type]
    parts, scaling = cell.recipe.parts(prepared, found)
    known = of_split(parts, prepared, found) if method == "bptt" else {}
    learning = EchoChaining() if method == "rhel" else ThroughTime()
    fitting = cell.recipe.fitting(seed=seed, compared=True, moved=MOVED if method == "moved" else 0.0)
    fitted = fitting.run(cell.recipe.model(prepared, cell.units), parts, learning)
    scores = dict(fitted.test)
    if (rms := scaling.rms(scores["loss"])) is not None:
        scores["rms"] = rms
    # A gradient that vanished points nowhere.
    cosines = [row["cosine"] if isfinite(row["cosine"]) else 0.0 for row in fitted.history if "cosine" in row]
    document: dict[str, Any] = {
        "seed": seed,
        "scores": scores,
        "seconds": fitted.seconds,
        "moves": fitted.history[-1]["move"],
        "ended": fitted.ended,
        "cosines": cosines,
        "date": date.today().isoformat(),
        "versions": versions(),
        "code": code(),
    }
    if method == "bptt":  # what depends on the split alone is told once
        document |= known
    return document


def of_split(parts: Parts, prepared: Series, found: Split) -> dict[str, Any]:
    """Baselines, leaks and sizes. Of sequences of values the only baseline is their mean, 0 on this scale."""
    from studies.reference_models import Part, baselines

    three = (parts.train, parts.validation, parts.test)
    if parts.train.y.ndim > 1:
        scores = {"mean predictor": {"mse_normalised": float(np.mean(parts.test.y**2))}}
    else:
        train, validation, test = (Part(p.x, p.y, p.lengths) for p in three)
        scored = baselines(train, validation, test, len(prepared.classes) or None)
        scores = {name: dict(score.metrics) for name, score in scored.items()}
    return {
        "baselines": scores,
        "leaks": list(leaks(prepared, found)),
        "counts": [p.count for p in three],
        "series": str(prepared),
    }


# The table ----------------------------------------------------------------------------------------------------------


def table(chosen: Sequence[Cell], out: Path) -> dict[str, Any]:
    """Rows of cells whose runs are all there."""
    rows = []
    for cell in chosen:
        runs = {m: [_read(cell.run_file(out, seed, m)) for seed in cell.seeds] for m in METHODS}
        if any(r is None for found in runs.values() for r in found):
            continue
        rows.append(row(cell, runs))
    return {"rows": rows, "cells": len(chosen)}


def row(cell: Cell, runs: dict[Method, list[Any]]) -> dict[str, Any]:
    """Means and deviations over seeds, the mean distance of pairs, and cosines between gradients during training."""
    scores = runs["bptt"][0]["scores"]
    metric = "accuracy" if "accuracy" in scores else "loss"
    values = {m: [r["scores"][metric] for r in found] for m, found in runs.items()}
    apart, control = (
        fmean(abs(a - b) for a, b in zip(values[m], values["bptt"], strict=True)) for m in ("rhel", "moved")
    )
    cosines = [x for r in runs["rhel"] for x in r["cosines"]]
    first = runs["bptt"][0]
    names = list(first["baselines"])
    measure = "accuracy" if metric == "accuracy" else "mse_normalised"
    return {
        "data": cell.name,
        "series": first["series"],
        "split": cell.by,
        "units": cell.units,
        "seeds": list(cell.seeds),
        "metric": "accuracy" if metric == "accuracy" else "mean square over the variance",
        "values": values,
        **{m: _mean(v) for m, v in values.items()},
        **({f"{m}_rms": _mean([r["scores"]["rms"] for r in runs[m]]) for m in METHODS} if "rms" in scores else {}),
        "apart": apart,
        "control": control,
        "within_one_deviation": apart <= _mean(values["bptt"])[1],
        "cosine_least": min(cosines, default=0.0),
        "cosine_median": median(cosines) if cosines else 0.0,
        "cosines_below_099": fmean(c < 0.99 for c in cosines) if cosines else 1.0,
        "baselines": {n: _mean([r["baselines"][n][measure] for r in runs["bptt"]]) for n in names},
        "leaks": first["leaks"],
        "longest_s": max(r["seconds"] for found in runs.values() for r in found),
        "seconds": {m: fmean(r["seconds"] for r in runs[m]) for m in METHODS},
        "dates": sorted({r["date"] for found in runs.values() for r in found}),
        "codes": sorted({r["code"] for found in runs.values() for r in found}),
    }


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def _read(path: Path) -> Any:
    return json.loads(path.read_text()) if path.exists() else None


def lines(document: dict[str, Any]) -> list[str]:
    """The table as Markdown."""
    rows = document["rows"]
    text = [
        "| data | split | units | BPTT | RHEL | RHEL − BPTT | control "
        "| cosine: median, least, below 0.99 | longest run |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        (a, b), (c, d) = r["bptt"], r["rhel"]
        verdict = "≤" if r["within_one_deviation"] else ">"
        text.append(
            f"| {r['data']} | {r['split']} | {r['units']} | {a:.3f} ± {b:.3f} | {c:.3f} ± {d:.3f} "
            f"| {r['apart']:.4f} ({verdict} {b:.4f}) | {r['control']:.4f} | {r['cosine_median']:.6f}, "
            f"{r['cosine_least']:.3f}, {r['cosines_below_099']:.0%} | {r['longest_s']:.0f} s |"
        )
    text += ["", "| data | split | baseline | |", "|---|---|---|---|"]
    seen: set[tuple[str, str]] = set()
    for r in rows:
        if (r["data"], r["split"]) in seen:
            continue
        seen.add((r["data"], r["split"]))
        for name, (mean, deviation) in r["baselines"].items():
            text.append(f"| {r['data']} | {r['split']} | {name} | {mean:.3f} ± {deviation:.3f} |")
    notes = dict.fromkeys((r["data"], r["split"], leak) for r in rows for leak in r["leaks"])
    text += ["", *(f"- {data}, split {by}: {leak}" for data, by, leak in notes)] if notes else []
    codes = {c for r in rows for c in r["codes"]}
    if len(codes) > 1:
        text += ["", f"- runs are of {len(codes)} versions of the code: remove the folder `runs` to make them all anew"]
    return text
