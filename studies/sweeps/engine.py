"""Runs a sweep: chunks of points on threads of this process, or as tasks of a cluster, into one store.

What a chunk is depends on the design, the sweep and the number of lanes alone, never on what is done already or who
does it, so that results are the same bit for bit however often a sweep was killed and wherever it ran.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from hashlib import sha256
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import xarray as xr

from circuits import Netlist
from circuits.formats.toml import read
from devices import ArgumentError
from rhel_hw import settings
from rhel_hw.emulated import likeness
from rhel_hw.learner import EchoLearner
from rhel_hw.runtime import configure
from studies.provenance import code, versions
from studies.sweeps.axes import Sweep
from studies.sweeps.batch import run_batch, shapes
from studies.sweeps.layout import Coord, Layout
from studies.sweeps.quantities import OUTCOMES, words
from studies.sweeps.setups import Group, Lane, Plan
from studies.sweeps.store import Store

Report = Callable[[int, int], None]
"""Called with the numbers of points that are done and of all."""

MEMORY = 2 << 30
"""Bytes that the lanes of all chunks under way may take, by default."""
GOOD_BYTES = 1 << 29
"""Of a chunk: smaller ones are mostly overhead, larger ones no faster."""
FEWEST_LANES, MOST_LANES = 100, 2000
"""Of a chunk, whatever that says, as far as they fit."""
PATIENCE = "10s"
"""How long a scheduler may take to answer."""
LARGEST = 0.9
"""Share of the memory that is planned with."""


@dataclass(frozen=True)
class Job:
    """All that a worker must be told."""

    design: str
    """The design file, with what it says of profile, learning and task."""
    sweep: str
    """As JSON."""
    lanes: int
    """Most points of a chunk."""
    out: str
    """Folder of the store; empty if nothing is kept."""

    @classmethod
    def of(cls, netlist: Netlist, sweep: Sweep, lanes: int, out: Path | None) -> Job:
        """Job for a sweep."""
        kept = {k: v for k, v in netlist.settings.items() if k != "sweep"}
        text = netlist.replace(settings=kept).to_toml()
        return cls(text, json.dumps(sweep.to_dict()), lanes, "" if out is None else str(out.absolute()))


@dataclass(frozen=True, eq=False)
class Chunk:
    """Points that are computed at once, as so many lanes: the last of a group are filled up with copies."""

    group: Group
    lanes: tuple[Lane, ...]
    width: int

    @property
    def program(self) -> Any:
        """Chunks with the same are computed by the same compiled programs."""
        setup, learner = self.group.setup, self.group.learner
        return id(setup.design), setup.task.batch, setup.task.loss, learner, self.width, likeness(self.lanes[0].profile)

    def run(self, sweep: Sweep) -> dict[str, Any]:
        """Outcomes by name, a row for every point."""
        filled = (*self.lanes, *(self.lanes[-1:] * (self.width - len(self.lanes))))
        return {k: v[: len(self.lanes)] for k, v in run_batch(self.group, filled, sweep).items()}


@dataclass(frozen=True, eq=False)
class Course:
    """A job with everything that follows from it."""

    job: Job
    _compiling: dict[Any, Lock] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def sweep(self) -> Sweep:
        """What is asked for."""
        return Sweep.of(json.loads(self.job.sweep))

    @cached_property
    def plan(self) -> Plan:
        """Its points, in groups."""
        return _plan(self.job.design, self.job.sweep)

    @cached_property
    def chunks(self) -> tuple[Chunk, ...]:
        """All of them, in the order in which they are computed."""
        return tuple(c for group in self.plan.groups for c in _cut(group, self.job.lanes))

    @cached_property
    def layout(self) -> Layout:
        """What the store is told."""
        plan, table = self.plan, self.plan.table
        names = {tuple(d.parameters.trainable_names) for d in plan.designs}
        known = shapes(plan.groups[0], self.sweep)
        variables = {n: OUTCOMES[n] for n in known if len(names) == 1 or not OUTCOMES[n].extra}
        extra: dict[str, list[str]] = {}
        if len(names) == 1:
            entries = [e for e in plan.designs[0].assembly.entries if e.trainable]
            extra = {"parameter": [e.name for e in entries], "kind": list(dict.fromkeys(e.key for e in entries))}
        coords = {}
        for path, values in table.columns.items():
            unit, name = words(path)
            own = self.sweep.axes[path].values if path in table.dims else values
            coords[path] = Coord(
                (path,) if path in table.dims else table.dims, _alike(own), {"units": unit, "long_name": name}
            )
        chunks = tuple(np.array([lane.point for lane in c.lanes], np.int64) for c in self.chunks)
        whole = [
            self.job.design,
            self.job.sweep,
            self.job.lanes,
            self._attrs,
            [d.netlist.to_toml() for d in plan.designs],
        ]
        fingerprint = sha256(json.dumps(whole).encode()).hexdigest()
        return Layout(table.dims, coords, variables, extra, chunks, self._attrs, fingerprint)

    @cached_property
    def _attrs(self) -> dict[str, Any]:
        netlist = self.plan.netlist
        setup = self.plan.groups[0].setup
        return {
            "name": netlist.name,
            "design": netlist.replace(settings={**netlist.settings, "sweep": self.sweep.to_dict()}).to_toml(),
            "profile": settings.profile(netlist).to_dict(),
            "axes": {p: _alike(a.values) for p, a in self.sweep.axes.items()},
            "sweep": {k: v for k, v in self.sweep.to_dict().items() if k != "axes"},
            "task": repr(setup.task),
            "seeds": sorted({g.setup.seed for g in self.plan.groups}),
            "lanes": self.job.lanes,
            "versions": versions(),
            "code": code(),
        }

    def run(self, number: int) -> dict[str, Any]:
        """Outcomes of a chunk. The first of those that share programs compiles them; the others wait for it."""
        chunk = self.chunks[number]
        with self._lock:
            first = chunk.program not in self._compiling
            own = self._compiling.setdefault(chunk.program, Lock())
            if first:
                own.acquire()
        if first:
            try:
                found = chunk.run(self.sweep)
            finally:
                own.release()
        else:
            with own:
                pass
            found = chunk.run(self.sweep)
        return {name: found[name] for name in self.layout.variables}


@lru_cache(maxsize=4)
def _plan(design: str, sweep: str) -> Plan:
    return Plan(read(design), Sweep.of(json.loads(sweep)))


@lru_cache(maxsize=4)
def course(job: Job) -> Course:
    """What follows from a job, found once in every process."""
    return Course(job)


def _cut(group: Group, most: int) -> Iterator[Chunk]:
    count = ceil(len(group.lanes) / most)
    width = ceil(len(group.lanes) / count)
    for i in range(0, len(group.lanes), width):
        yield Chunk(group, group.lanes[i : i + width], width)


def _alike(values: Any) -> list[Any]:
    """Values of one kind: texts, if any is one."""
    found = ["inf" if v == float("inf") and any(isinstance(w, str) for w in values) else v for v in values]
    return [str(v) for v in found] if any(isinstance(v, str) for v in found) else found


# Running ------------------------------------------------------------------------------------------------------------


def run(
    netlist: Netlist,
    sweep: Sweep,
    out: Path | str,
    *,
    memory: int = MEMORY,
    workers: int = 2,
    scheduler: str | None = None,
    report: Report | None = None,
) -> tuple[xr.Dataset, Store]:
    """Compute what is missing of a sweep, and give all of it.

    Arguments:
        netlist: the design, with what it says of profile, learning and task.
        sweep: which points, and what to find out.
        out: folder of the store; if it has some of this sweep already, the rest is computed.
        memory: bytes that chunks under way may take.
        workers: threads.
        scheduler: address of a Dask cluster, whose workers compute and write instead.
        report: is told the progress.
    """
    out = Path(out)
    fit, each = _lanes(netlist, sweep, memory, workers)
    lanes = _told_lanes(out) or fit
    found = course(Job.of(netlist, sweep, lanes, out))
    store = Store.open(out, found.layout)
    missing = store.missing()
    widest = max(chunk.width for chunk in found.chunks)
    if missing and widest * each > memory:
        raise ArgumentError(
            f"Argument `memory` must be at least {size_text(widest * each)} to go on with {out}, which was begun with "
            f"chunks of {widest} points, but is {size_text(memory)}: use fewer workers, or begin in another folder"
        )
    counts = [len(points) for points in found.layout.chunks]
    total, done = sum(counts), sum(counts) - sum(counts[n] for n in missing)
    finished = _remotely(scheduler, found.job, missing) if scheduler else _here(found, store, missing, workers)
    if report:
        report(done, total)
    for number in finished:
        done += counts[number]
        if report:
            report(done, total)
    return store.finish(), store


def outcomes(
    netlist: Netlist, sweep: Sweep, *, memory: int = MEMORY, workers: int = 2, report: Report | None = None
) -> dict[str, Any]:
    """Outcomes of all points by name, in their order, without keeping them anywhere."""
    found = course(Job.of(netlist, sweep, _lanes(netlist, sweep, memory, workers)[0], None))
    results: dict[int, dict[str, Any]] = {}

    def keep(number: int) -> None:
        results[number] = found.run(number)

    done, total = 0, len(found.plan.table)
    for number in _threads(keep, list(range(len(found.chunks))), workers):
        done += len(found.chunks[number].lanes)
        if report:
            report(done, total)
    order = np.argsort(np.concatenate(found.layout.chunks))
    rows = [results[n] for n in range(len(found.chunks))]
    return {name: np.concatenate([r[name] for r in rows])[order] for name in found.layout.variables}


def _here(found: Course, store: Store, missing: list[int], workers: int) -> Iterator[int]:
    """Numbers of chunks as they are done and written."""
    return _threads(lambda number: store.write(number, found.run(number)), missing, workers)


def _threads(do: Callable[[int], None], numbers: list[int], workers: int) -> Iterator[int]:
    """Numbers as they are done."""

    def one(number: int) -> int:
        do(number)
        return number

    with ThreadPoolExecutor(workers) as pool:
        pending = {pool.submit(one, number) for number in numbers}
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:  # after an error, what has not begun is not begun
            pool.shutdown(wait=True, cancel_futures=True)


def _remotely(scheduler: str, job: Job, missing: list[int]) -> Iterator[int]:
    """The same on a cluster."""
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise ArgumentError(
            f"Argument `scheduler` must be left out without Dask, but is {scheduler}: pip install 'rhel-hw[cluster]'"
        ) from None
    try:
        client = Client(scheduler, timeout=PATIENCE)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as problem:
        raise ArgumentError(
            f"Argument `scheduler` must be the address of a Dask scheduler, but {scheduler} does not answer: {problem}"
        ) from None
    with client:
        futures = client.map(compute, missing, job=job, retries=3, pure=False)
        for future in as_completed(futures):  # type: ignore[no-untyped-call]
            yield future.result()


def compute(number: int, job: Job) -> int:
    """Compute a chunk and write it, on a worker."""
    configure()
    found = course(job)
    Store(Path(job.out), found.layout).write(number, found.run(number))
    return number


# Memory -------------------------------------------------------------------------------------------------------------


def _lanes(netlist: Netlist, sweep: Sweep, memory: int, workers: int) -> tuple[int, int]:
    """How many points a chunk may have, and the memory that each of them takes."""
    job = Job.of(netlist, sweep, MOST_LANES, None)
    plan = _plan(job.design, job.sweep)
    largest = max(lane_bytes(group) for group in plan.groups)
    each = ceil(workers * largest / LARGEST)
    if memory < each:
        raise ArgumentError(
            f"Argument `memory` must be at least {size_text(each)} for this design, but is {size_text(memory)}: use "
            "fewer steps, stimuli or shots, or fewer workers"
        )
    return min(memory // each, max(GOOD_BYTES // largest, FEWEST_LANES), MOST_LANES), each


def _told_lanes(out: Path) -> int | None:
    """How many a store there was begun with."""
    try:
        lanes = json.loads((out / "zarr.json").read_bytes())["attributes"]["lanes"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return lanes if isinstance(lanes, int) and 1 <= lanes <= MOST_LANES else None


def size_text(count: int) -> str:
    """Bytes as `--memory` takes them, never fewer than these."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{ceil(count / size * 10) / 10:g} {unit}"
    return f"{count} B"


def lane_bytes(group: Group) -> int:
    """Memory that one point takes while it is computed: signals, noise and codes of all channels, waveforms, nudges."""
    design, lesson = group.setup.design, group.setup.lesson
    learner: EchoLearner = group.learner
    runs = len(learner.stencil.points) * learner.shots * lesson.stimuli
    channels = 2 * len(design.assembly.coordinates.nodes)
    others = len(design.netlist.drives) + len(design.netlist.targets)
    return 8 * lesson.steps * runs * (5 * channels + 4 * others)
