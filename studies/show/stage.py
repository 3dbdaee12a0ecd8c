"""A design on an emulated bench as sliders set it: a pass, its echo and a gradient, as the converters read them.

What sliders move are numbers of the profile and the strength of nudges, which no program is compiled anew for; only
whether noise and rounding are there at all makes another program, and each of the four is compiled once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite
from threading import Event, Lock
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design
from circuits.state import state_in_si
from devices import ArgumentError
from rhel_hw import settings
from rhel_hw.bench import Channel, Kind, Record, Shot
from rhel_hw.compare import cosine, trained
from rhel_hw.emulated import EmulatedBench
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.operations import MomentumFlip, Operation, SignFlip
from rhel_hw.profile import Profile
from rhel_hw.ranges import Peaks, nominal_peaks
from rhel_hw.replay import RecordingBench
from rhel_hw.truth import gradients_as_made

Floats = NDArray[np.float64]

MOST_BITS = 64
"""Of the readout."""
MOST_NOISE = 1.0
"""In full scales."""


@dataclass(frozen=True)
class Dials:
    """Where the sliders stand."""

    bits: int | None
    """Of the readout; None: no limit."""
    noise: float
    """Of the readout, in full scales."""
    gamma: float | None
    """None: found by pilot echoes."""

    def __post_init__(self) -> None:
        if self.bits is not None and not 1 <= self.bits <= MOST_BITS:
            raise ArgumentError(f"Argument `bits` must be from 1 to {MOST_BITS}, or none, but is {self.bits!r}")
        if not 0 <= self.noise <= MOST_NOISE:
            raise ArgumentError(f"Argument `noise` must be from 0 to {MOST_NOISE:g} full scales, but is {self.noise!r}")
        if self.gamma is not None and not (isfinite(self.gamma) and self.gamma > 0):
            raise ArgumentError(f"Argument `gamma` must be greater than 0 and finite, or auto, but is {self.gamma!r}")


@dataclass(frozen=True, eq=False)
class Compared:
    """A gradient beside that of the chip as it was made."""

    measured: Floats
    true: Floats
    loss: float
    passes: int
    saturated: int
    """Values beyond the range of a converter, in all of its passes."""
    nudged: Record
    """Echoes with nudges of all signs and strengths of the stencil."""
    runs: tuple[int, int]
    """Which of them are nudged one way and the other."""

    sizes: Floats
    """Magnitudes of the parameters, one for those that are zero."""

    @property
    def cosine(self) -> float | None:
        """Cosine of the two, None where one vanishes."""
        return cosine(self.measured, self.true)

    @property
    def relative(self) -> float | None:
        """The same of derivatives by relative changes, where values of different kinds are of one measure."""
        return cosine(self.measured * self.sizes, self.true * self.sizes)

    @property
    def ratio(self) -> float | None:
        """Norm of the measured one over the norm of the true one."""
        size = float(np.linalg.norm(self.true))
        return float(np.linalg.norm(self.measured)) / size if size > 0 else None


@dataclass(frozen=True, eq=False)
class Heard:
    """What the bench read with the sliders where they stood."""

    dials: Dials
    """With the γ that was used."""
    forward: Record
    echo: Record
    """Without nudges."""
    gradient: Compared | None
    """None of a design that has nothing to learn."""
    seconds: float
    """Of computing."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A compiled design on a bench of one chip, ready to be moved by sliders."""

    design: Design
    profile: Profile
    seed: int | None = None
    """Of teacher and stimulus; that of the design if None."""
    chip: int = 0
    """Number of the chip, and seed of the noise."""
    _locks: dict[tuple[bool, bool], Lock] = field(default_factory=lambda: defaultdict(Lock))
    _ended: Event = field(default_factory=Event)

    def __post_init__(self) -> None:
        self._bench(self.first)  # which refuses what the profile cannot be here

    @cached_property
    def first(self) -> Dials:
        """Where the sliders stand at first: as design and profile have it."""
        return Dials(self.profile.readout.bits, self.profile.readout.noise, None)

    @cached_property
    def _lesson(self) -> tuple[Lesson | None, str]:
        """What is learnt, or why nothing is."""
        try:
            return settings.task(self.design.netlist, {"seed": self.seed}).lesson(self.design), ""
        except ArgumentError as problem:
            return None, str(problem)

    @property
    def why_not(self) -> str:
        """Why nothing is learnt; empty if something is."""
        return self._lesson[1]

    @cached_property
    def _played(self) -> tuple[Mapping[str, Floats], Any]:
        """Drives and start of the pass that is shown: of the task, or of the stimulus that it would have."""
        lesson, _ = self._lesson
        if lesson is not None:
            return {k: v[:, 0] for k, v in lesson.drive.items()}, lesson.start
        moved = settings.task(self.design.netlist, {"seed": self.seed}).stimulus(self.design)
        return moved.waveforms, None if moved.waveforms else state_in_si(self.design, *moved.state)

    @cached_property
    def _peaks(self) -> Peaks:
        lesson, _ = self._lesson
        return nominal_peaks(self.design, (lesson.drive if lesson is not None else self._played[0]) or None)

    @cached_property
    def _learner(self) -> EchoLearner:
        return settings.bench_learning(self.design.netlist, self.profile, {"gamma": "auto"})

    @cached_property
    def epsilon(self) -> float:
        """The nudging strength that γ scales."""
        return self._learner.epsilon

    @cached_property
    def _true(self) -> Floats:
        """Gradient of the chip as made."""
        lesson, _ = self._lesson
        assert lesson is not None  # asked for only where there is something to learn
        _, by_theta = gradients_as_made(self.design, self.profile, lesson, seed=self.chip, chips=(self.chip,))
        return trained(self.design, {k: v[:, 0] for k, v in by_theta.items()})

    def _bench(self, dials: Dials) -> EmulatedBench:
        readout = replace(self.profile.readout, bits=dials.bits, noise=float(dials.noise))
        profile = replace(self.profile, readout=readout)
        return EmulatedBench(self.design, profile, seed=self.chip, chips=(self.chip,), reference=self._peaks)

    @cached_property
    def operation(self) -> Operation:
        """How the bench makes its echo."""
        return SignFlip() if self.profile.echo.operation == "sign-flip" else MomentumFlip()

    # Measuring -------------------------------------------------------------------------------------------------------

    def measure(self, dials: Dials) -> Heard:
        """A pass, its echo and a gradient with the sliders there; the same numbers for the same sliders."""
        with self._locks[dials.bits is None, dials.noise == 0]:  # the first of a kind compiles its programs
            begun = perf_counter()
            bench, (drive, start) = self._bench(dials), self._played
            steps = self.design.steps
            forward = bench.run(Shot(steps, drive, start=start, hold=True))
            echo = bench.run(Shot(steps, drive, echo=True))
            gradient, gamma = self._gradient(dials)
            return Heard(replace(dials, gamma=gamma), forward, echo, gradient, perf_counter() - begun)

    def _gradient(self, dials: Dials) -> tuple[Compared | None, float | None]:
        """A gradient on a fresh bench, and its γ."""
        lesson, _ = self._lesson
        if lesson is None:
            return None, dials.gamma
        learner, design = self._learner, self.design
        gamma = dials.gamma
        if gamma is None:
            gamma = float(learner.pilots(self._bench(dials), design, lesson).gammas[0])
        recorder = RecordingBench(self._bench(dials))
        found = learner.gradient(recorder, design, lesson, gammas=np.array([gamma]))
        runs = (0, len(learner.stencil.weights) * lesson.stimuli * learner.shots)
        nudged = recorder.recording.answers[-1].record
        sizes = np.abs(trained(design, design.theta()))
        own = Compared(
            trained(design, found.theta), self._true, found.loss, found.passes, sum(found.saturated.values()), nudged,
            runs, np.where(sizes > 0, sizes, 1.0),
        )  # fmt: skip
        return own, gamma

    def warm(self) -> None:
        """Compile what sliders may ask for: with and without noise, with and without a limit of bits."""
        for bits in (self.first.bits or 8, None):
            for noise in (self.first.noise or 1e-3, 0.0):
                if not self._ended.is_set():
                    self.measure(Dials(bits, noise, 1.0))

    def end(self) -> None:
        """Warm up no more, from the next kind on."""
        self._ended.set()

    # Reading ---------------------------------------------------------------------------------------------------------

    @cached_property
    def channels(self) -> dict[str, Channel]:
        """Those of positions and momenta, by name."""
        found = self._bench(self.first).describe().channels
        return {name: channel for name, channel in found.items() if channel.kind is not Kind.TARGET}

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Those whose positions or momenta are read."""
        return tuple(dict.fromkeys(c.node for c in self.channels.values()))

    def laid_over(self, record: Record, channel: str, run: int = 0) -> tuple[Floats, Floats]:
        """Times and samples of an echo in the order of the forward pass, momenta as they were before the turn."""
        sign = self.operation.flip if channel.startswith(Kind.MOMENTUM) else 1.0
        duration = self.design.steps * self.design.step_s
        return duration - record.times_s[channel][::-1], sign * record[channel][::-1, run, 0]

    def missed(self, heard: Heard) -> float | None:
        """Distance of the echo from the forward pass, over that pass: root mean squares of all channels in full scales.

        None if nothing moves, or where a decimated echo is not read at the instants of the forward pass.
        """
        apart, size = 0.0, 0.0
        for name, channel in self.channels.items():
            own = heard.forward[name][:, 0, 0]
            times, back = self.laid_over(heard.echo, name)
            if not np.allclose(times, heard.forward.times_s[name], rtol=0, atol=1e-6 * self.design.step_s):
                return None
            apart += float(np.mean(((back - own) / channel.full_scale) ** 2))
            size += float(np.mean((own / channel.full_scale) ** 2))
        return float(np.sqrt(apart / size)) if size > 0 else None
