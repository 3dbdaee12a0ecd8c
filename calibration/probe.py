"""Passes that calibration asks of a bench, and what was read as the model has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibration.fitting import Experiment
from calibration.model import Model, Start
from rhel_hw.bench import Bench, Kind, Record, Shot

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Asked(NamedTuple):
    """Passes that were made for one purpose."""

    purpose: str
    steps: int
    shots: int
    passes: int


@dataclass(eq=False)
class Probe:
    """A bench that is asked, and a log of it."""

    bench: Bench
    model: Model
    log: list[Asked] = field(default_factory=list)

    def levels(self, kind: Kind, levels: Sequence[float]) -> Experiment:
        """Passes of one step from prepared positions or momenta of all nodes, in full scales of their channels.

        What counts is the first sample, of positions also at the target: nothing has happened yet.
        """
        model, scales = self.model, self._scales(kind)
        starts = [self._start(kind, {node: level * scale for node, scale in scales.items()}) for level in levels]
        found = self.records(f"{kind} levels", np.zeros((1, len(model.drives), 0)), starts)
        seen = [c.node in scales and (c.kind is Kind.MOMENTUM) == (kind is Kind.MOMENTUM) for c in model.channels]
        first = np.zeros(found.used.shape, bool)
        first[0, seen] = True
        return Experiment(found.given, found.read, found.used & first)

    def _scales(self, kind: Kind) -> dict[str, float]:
        """Full scales by node, of what can be prepared and is read."""
        nodes = self.model.bench.nodes
        return {c.node: c.full_scale for c in self.model.channels if c.kind is kind and c.node in nodes}

    def _start(self, kind: Kind, values: Mapping[str, float]) -> Start:
        rest = dict.fromkeys(self.model.bench.nodes, 0.0)
        return (rest, values) if kind is Kind.MOMENTUM else (values, rest)

    def records(self, purpose: str, waves: Floats, starts: Sequence[Start] = ()) -> Experiment:
        """Driven passes, (steps, drives, runs) in SI from rest, then free ones from prepared states."""
        model, (steps, _, runs) = self.model, waves.shape
        found = []
        if runs:
            drive = {name: waves[:, i] for i, name in enumerate(model.drives)}
            found.append(self.bench.run(Shot(steps, drive)))
        found += [self.bench.run(Shot(steps, start=start)) for start in starts]
        self.log.append(Asked(purpose, steps, len(found), runs + len(starts)))
        read, used = zip(*(self._laid(record, steps) for record in found), strict=True)
        return Experiment(model.given(waves, starts), np.concatenate(read, axis=2), np.concatenate(used, axis=2))

    def ask(self, purpose: str, shot: Shot) -> tuple[Floats, Flags]:
        """A shot: samples over full scale where the model has them, and which count."""
        before = self.bench.describe().passes
        record = self.bench.run(shot)
        self.log.append(Asked(purpose, shot.steps, 1, self.bench.describe().passes - before))
        return self._laid(record, shot.steps)

    def _laid(self, record: Record, steps: int) -> tuple[Floats, Flags]:
        """Samples over full scale where the model has them, and which there are; those beyond a range do not count."""
        model, every = self.model, self.model.bench.decimation
        runs, chips = next(iter(record.samples.values())).shape[1:]
        read = np.zeros((steps + 1, len(model.channels), runs, chips))
        used = np.zeros(read.shape, bool)
        for i, channel in enumerate(model.channels):
            samples = record[channel.name]
            first = every - 1 if channel.kind is Kind.TARGET else 0
            rows = first + every * np.arange(len(samples))
            read[rows, i] = samples / channel.full_scale
            beyond = record.saturated.get(channel.name)
            used[rows, i] = True if beyond is None else ~beyond
        return read, used
