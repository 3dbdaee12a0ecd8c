"""One gradient on a bench, step by step: free passes, echoes, and what their samples say of parameters.

A session knows the design as drawn and the interface of a bench, nothing else: docs/physics.md, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from circuits import Design
from circuits.operators import lanes
from circuits.state import encode
from devices import ArgumentError, DivergedError
from rhel_hw.bench import Bench, Description, Kind, Record, Shot
from rhel_hw.credit import Samples, credit, input_slopes
from rhel_hw.lessons import Lesson
from rhel_hw.losses import targets_of
from rhel_hw.operations import Hold, MomentumFlip, Operation, SignFlip
from rhel_hw.pilots import PAIRS, Pilots, Strengths
from rhel_hw.sight import Sight

if TYPE_CHECKING:
    from rhel_hw.learner import EchoLearner

Array = Any
Theta = Mapping[str, Array]
Floats = NDArray[np.float64]


def refuse_another(bench: Description, design: Design) -> None:
    """Refuse a bench that has another design on it."""
    if abs(bench.step_s / design.step_s - 1) > 1e-9:
        raise ArgumentError(
            f"Argument `bench` must have the clock of the design, {design.step_s:g} s, but has {bench.step_s:g} s"
        )
    netlist = design.netlist
    for what, theirs, ours in (
        ("parameters", set(bench.parameters), set(design.parameters.entries)),
        ("nodes", set(bench.nodes), set(design.hamiltonian.names)),
        ("drives", set(bench.drives), {d.name for d in netlist.drives}),
        ("targets", set(bench.nudges), {t.name for t in netlist.targets}),
    ):
        if theirs - ours:
            raise ArgumentError(
                f"Argument `bench` must have the design that is learnt, but {bench.design!r} on it has {what} that "
                f"{netlist.name!r} has not: {', '.join(sorted(theirs - ours)[:4])}"
            )


@dataclass(frozen=True, eq=False)
class Free:
    """What free passes taught: loss (runs, chips), and how to nudge, (steps, targets, runs, chips), dimensionless."""

    losses: Floats
    slopes: Floats
    """In the order of the echo."""


@dataclass(frozen=True, eq=False)
class Echoes:
    """Echoes of several strengths: run e·R + r is echo e of run r."""

    positions: Array
    """By channel in SI, (steps, channels, runs, chips)."""
    momenta: Array
    """The same, and one more of them."""
    nudges: Floats
    """As commanded, (steps, targets, runs, chips), dimensionless."""
    lost: NDArray[np.bool_]
    """Chips that left the range of numbers, beside others that did not: they are not nudged."""


@dataclass(frozen=True, eq=False)
class Session:
    """A learner at a bench that is programmed."""

    learner: EchoLearner
    bench: Bench
    design: Design
    lesson: Lesson
    theta: Theta
    description: Description
    decays: Any = 0.0
    """Rates in 1/s, one or (chips,)."""
    known: Theta | None = None
    """What calibration knows the parameters to be, (count, chips)."""
    saturated: dict[str, int] = field(default_factory=dict)
    """How many values were beyond a range, by what had one."""

    @cached_property
    def clipped(self) -> NDArray[np.intp]:
        """The same by chip."""
        return np.zeros(self.description.chips, np.intp)

    @cached_property
    def worst(self) -> Floats:
        """Largest part of the values of one converter that were beyond its range in any pass, by chip."""
        return np.zeros(self.description.chips)

    @classmethod
    def begin(cls, learner: EchoLearner, bench: Bench, design: Design, lesson: Lesson, theta: Theta | None) -> Session:
        """Check that bench, design and lesson fit together, and program the bench."""
        description = bench.describe()
        refuse_another(description, design)
        if not description.holds and isinstance(learner.protocol, Hold):
            raise ArgumentError("Argument `protocol` must be Reprepare(): this bench cannot hold a state")
        names = {t.name for t in design.netlist.targets}
        if set(lesson.targets) != names:
            raise ArgumentError(
                f"Argument `lesson` must have the targets {sorted(names)}, but has {list(lesson.targets)}"
            )
        for name in names:
            if f"target.{name}" not in description.channels:
                raise ArgumentError(
                    f"Argument `bench` must have channel 'target.{name}' wired, but has not: no loss can be measured"
                )
        given = design.theta() if theta is None else theta
        parameters = {}
        for e in design.assembly.entries:
            if e.trainable and e.name in description.parameters:
                parameters[e.name] = np.asarray(given[e.key], float)[e.index] * e.scale
        bench.program(parameters)
        decays = (description.decays or 0.0) if learner.decay is None else learner.decay
        return cls(learner, bench, design, lesson, given, description, decays, _known(design, given, description))

    @cached_property
    def sight(self) -> Sight:
        """What the channels show."""
        return Sight.of(self.design, frozenset(self.description.channels))

    @cached_property
    def frozen(self) -> tuple[str, ...]:
        """Trainable parameters that the bench cannot set, or whose gradient its channels do not show."""
        dark, known = self.sight.frozen, self.description.parameters
        names = self.design.parameters.trainable_names
        return tuple(name for name in names if name in dark or name not in known)

    @cached_property
    def operation(self) -> Operation:
        """How this bench makes an echo."""
        return SignFlip() if self.description.operation == "sign-flip" else MomentumFlip()

    @property
    def _repeated(self) -> bool:
        """Whether every echo has a free pass of its own."""
        return not isinstance(self.learner.protocol, Hold)

    def free(self, echoes: int | None = None) -> Free:
        """Free passes of all stimuli and shots; as many times over as there will be echoes, if each has its own."""
        count = len(self.learner.stencil.points) if echoes is None else echoes
        repeats = self.repeats(count)
        return Free(*self._errors(self.responses(repeats), repeats))

    def repeats(self, echoes: int) -> int:
        """How many times every stimulus is played before so many echoes."""
        return self.learner.shots * (echoes if self._repeated else 1)

    def responses(self, repeats: int) -> Floats:
        """What targets do in free passes of all stimuli, so many times over: (steps, targets, runs, chips) in SI."""
        drive = {k: np.tile(v, (1, repeats)) for k, v in self.lesson.drive.items()}
        runs = repeats * self.lesson.stimuli
        # A shot learns the number of its runs from its waveforms, silent ones if there are no others.
        nudge = {} if drive else {t: np.zeros((self.lesson.steps, runs)) for t in self.lesson.targets}
        targets = tuple(f"target.{t.name}" for t in self.design.netlist.targets)
        shot = Shot(self.lesson.steps, drive, nudge, self.lesson.start, hold=True, channels=targets)
        return np.asarray(self._read(self._run(shot), targets, self.lesson.steps, 1.0))

    def echoes(self, free: Free, points: tuple[float, ...], strength: Any) -> Echoes:
        """Echoes of all strengths in `points`, in units of `strength`, one or one per chip, after free passes."""
        slopes = free.slopes if self._repeated else np.tile(free.slopes, (1, 1, len(points), 1))
        with np.errstate(over="ignore"):
            each = np.repeat(points, self.lesson.stimuli * self.learner.shots)[:, None] * strength
            nudges = slopes * each
            if self._amplified:
                nudges = nudges / self._fading(0.0)[:, None, None]
        lost = ~np.all(np.isfinite(nudges), axis=(0, 1, 2)) | ~np.all(np.isfinite(free.losses), axis=0)
        if np.all(lost):
            raise DivergedError(
                "The echoes would be nudged beyond all numbers: use a smaller γ, or drive the device less"
            )
        if np.any(lost):
            nudges = np.where(lost, 0.0, nudges)
        netlist, units = self.design.netlist, self.design.assembly.units
        commanded = {
            t.name: nudges[:, i] * units.momentum(netlist.domains[t.node]) for i, t in enumerate(netlist.targets)
        }
        steps, _, runs, _ = nudges.shape
        drive = {k: self._faded(np.tile(v, (1, runs // v.shape[1]))) for k, v in self.lesson.drive.items()}
        positions, momenta = self.sight.names(Kind.POSITION), self.sight.names(Kind.MOMENTUM)
        shot = Shot(
            steps, drive, commanded, echo=True, paired=True, channels=positions + momenta, amplify=self._amplified
        )
        record = self._run(shot)
        return Echoes(
            self._read(record, positions, steps, 0.5), self._read(record, momenta, steps + 1, 0.0), nudges, lost
        )

    # Loss: docs/physics.md, section 11.4 ------------------------------------------------------------------------------

    @cached_property
    def _rates(self) -> Floats:
        """What the learner makes up for in a step, (chips or 1,)."""
        return np.atleast_1d(np.asarray(self.decays, float)) * self.description.step_s

    @cached_property
    def _amplified(self) -> bool:
        """Whether the device makes up for its loss itself, by gain in the echoes."""
        if not self.description.amplifies or not np.any(self._rates):
            return False
        if not np.all(self._rates):
            raise ArgumentError(
                "Argument `decays` must be greater than 0 on all chips of a bench that amplifies, or 0 on all: its "
                "echoes gain on all chips"
            )
        return True

    @property
    def _faint(self) -> bool:
        """Whether echoes that go on losing are made up for."""
        return not self._amplified and bool(np.any(self._rates))

    def _fading(self, at: float) -> Floats:
        """e^(−Γt), from the turn, at this place in every step: (steps, chips or 1)."""
        return np.exp(-self._rates * (np.arange(self.lesson.steps)[:, None] + at))

    def _faded(self, wave: Floats) -> Floats:
        """A drive (steps, runs), in the order of the free pass, as weak as the echo is when it meets it."""
        return wave[:, :, None] * self._fading(0.5)[::-1, None] if self._faint else wave

    @property
    def _weights(self) -> Floats:
        """Of the steps of an echo, (steps, chips or 1)."""
        return self._fading(0.5) if self._amplified else 1 / self._fading(0.5)

    @property
    def _halves(self) -> Floats | None:
        """By what gain at either end of a step multiplies momenta, (n, chips or 1).

        Friction takes all energy from momenta; what an element lets decay as a whole goes half from positions.
        """
        if not self._amplified:
            return None
        netlist = self.design.netlist
        whole = {netlist.terminals_of(part)[0] for part in netlist.elements if part.decay is not None}
        shares = np.array([0.25 if name in whole else 0.5 for name in self.design.hamiltonian.names])
        return np.exp(shares[:, None] * self._rates)

    def _errors(self, read: Floats, repeats: int) -> tuple[Floats, Floats]:
        """Losses (runs, chips), and the slopes by which the echo is nudged, in its order."""
        lesson, netlist = self.lesson, self.design.netlist
        units = self.design.assembly.units
        sizes = np.array([units.position(netlist.domains[t.node]) for t in netlist.targets])[:, None, None]
        wanted = np.stack([np.tile(lesson.targets[t.name], (1, repeats)) for t in netlist.targets], axis=1)
        distance = ((read[-1:] if lesson.final else read) - wanted[..., None]) / sizes
        count = distance.shape[0] * distance.shape[1]
        # A chip that left the range of numbers, beside others that did not, is not nudged; its loss says so.
        slopes = np.where(np.isfinite(distance), distance, 0.0) / count
        if lesson.final:
            still = np.zeros((lesson.steps - 1, *slopes.shape[1:]))
            slopes = np.concatenate([still, slopes])
        with np.errstate(over="ignore", invalid="ignore"):
            losses = np.sum(distance**2, axis=(0, 1)) / (2 * count)
        return losses, slopes[::-1]

    def _run(self, shot: Shot) -> Record:
        """A pass, whose saturated values are counted."""
        record = self.bench.run(shot)
        for name, count in record.clipped.items():
            self.saturated[name] = self.saturated.get(name, 0) + count
            self.clipped[:] += np.count_nonzero(record.saturated[name], axis=(0, 1))
            self.worst[:] = np.maximum(self.worst, np.mean(record.saturated[name], axis=(0, 1)))
        return record

    def _read(self, record: Record, channels: tuple[str, ...], count: int, first: float) -> Array:
        """So many samples of some channels, (count, channels, runs, chips); the first is at this step."""
        if not channels:
            some = next(iter(record.samples.values()), np.zeros((0, 1, self.description.chips)))
            return np.zeros((count, 0, *some.shape[1:]))
        found = record.stacked(channels)
        if len(found) == count:
            return found
        # A decimated record is filled in by cubic splines; whether that is good enough is for the gradient to show.
        if len(found) == 1:
            return np.broadcast_to(found, (count, *found.shape[1:])).copy()
        times = (first + np.arange(count)) * self.description.step_s
        return np.asarray(CubicSpline(record.times_s[channels[0]], found)(times))

    # From samples to parameters --------------------------------------------------------------------------------------

    def credit(self, echoes: Echoes, strength: Any) -> dict[str, Array]:
        """dL/dθ from echoes of the stencil, of one strength or of one per chip."""
        weights, count = self.learner.stencil.weights, self.lesson.stimuli * self.learner.shots
        return self.credited(echoes, np.repeat([*weights, *(-w for w in weights)], count)[:, None] / strength)

    def credited(self, echoes: Echoes, coefficients: Floats) -> dict[str, Array]:
        """What echoes say of parameters, summed with coefficients (runs, chips or 1); the mean over stimuli."""
        design, operation, count = self.design, self.operation, self.lesson.stimuli * self.learner.shots
        chips = self.description.chips
        keys = tuple(k for k, mask in design.parameters.trainable.items() if mask.any())
        theta = {k: jnp.asarray(v) for k, v in (self.theta if self.known is None else self.known).items()}
        if chips > 1:
            theta = {k: v if v.ndim == 2 else jnp.repeat(v[:, None], chips, axis=1) for k, v in theta.items()}
        found = credit(
            design.hamiltonian, operation, keys, theta, targets_of(design), self.sight.view, self._samples(echoes),
            design.step, coefficients, self._weights, self._halves,
        )  # fmt: skip
        by_theta = {k: -operation.time * design.step / count * v for k, v in found.items()}
        if self.known is not None:  # what is programmed comes out times a factor that is known; of zero it is not
            told = {k: lanes(jnp.asarray(self.theta[k]), theta[k]) for k in by_theta}
            by_theta = {
                k: v * jnp.where(told[k] == 0, 1.0, theta[k] / jnp.where(told[k] == 0, 1.0, told[k]))
                for k, v in by_theta.items()
            }
        if np.any(echoes.lost):
            by_theta = {k: jnp.where(echoes.lost, jnp.nan, v) for k, v in by_theta.items()}
        for name in self.frozen:
            entry = design.parameters.entries[name]
            by_theta[entry.key] = by_theta[entry.key].at[entry.index].set(0.0)
        return by_theta

    def by_inputs(self, echoes: Echoes, strength: float) -> Array:
        """dL/du from echoes of the stencil, by the inputs of the energy in the order of the free pass.

        (steps, m, stimuli), of one chip; the mean over shots.
        """
        shots, stimuli, weights = self.learner.shots, self.lesson.stimuli, self.learner.stencil.weights
        theta = {k: jnp.asarray(v) for k, v in (self.theta if self.known is None else self.known).items()}
        slopes = input_slopes(
            self.design.hamiltonian, self.operation, theta, targets_of(self.design), self.sight.view,
            self._samples(echoes), self.design.step, self._halves,
        )  # fmt: skip
        if self._amplified:  # an echo that goes on losing strays by what it should, only its path is weaker
            slopes = slopes * self._weights[:, None]
        coefficients = np.repeat([*weights, *(-w for w in weights)], shots) / (shots * strength)
        steps, width, _ = slopes.shape
        found = np.einsum("kmes,e->kms", slopes.reshape(steps, width, -1, stimuli), coefficients)
        parity = self.design.hamiltonian.input_parity if self.operation.conjugates else np.ones(width)
        return -self.operation.time * self.design.step * np.asarray(parity)[:, None] * found[::-1]

    def _samples(self, echoes: Echoes) -> Samples:
        return Samples(echoes.positions, echoes.momenta, echoes.nudges, self._inputs(echoes.nudges.shape[2]))

    def _inputs(self, runs: int) -> Array:
        """Inputs of the energy in the echo, (steps, m, runs, chips or 1)."""
        lesson, drives = self.lesson, self.design.netlist.drives
        silent = np.zeros((lesson.steps, lesson.stimuli))
        waves = {d.name: lesson.drive.get(d.name, silent) for d in drives}
        inputs = encode(self.design, waves)[::-1] if drives else jnp.zeros((lesson.steps, 0, lesson.stimuli))
        if self.operation.conjugates:
            inputs = jnp.asarray(self.design.hamiltonian.input_parity)[:, None] * inputs
        inputs = jnp.tile(inputs, (1, 1, runs // lesson.stimuli))[..., None]
        return inputs * self._fading(0.5)[:, None, None] if self._faint else inputs

    # How strongly to nudge -------------------------------------------------------------------------------------------

    def pilots(self, epsilons: Any = None) -> Strengths:
        """γ of every chip, NaN where none was found, by pilot echoes; `epsilons`, one for every chip, replace ε."""
        return Pilots(self).search(epsilons)

    def tuned(self) -> Strengths:
        """The same, or a refusal that says what to do."""
        found = self.pilots()
        if not np.all(found.moving):
            raise ArgumentError(
                "Argument `gamma` must be a number here, but is 'auto': the state never moves, so it has no spread to "
                "compare the echoes with"
            )
        if not np.all(np.isfinite(found.gammas)):
            raise ArgumentError(
                f"Argument `gamma` must be a number here, but is 'auto': in {PAIRS} pairs of pilots the echoes are not "
                "seen to stray from each other; another `displacement` to begin with may do, or a wider range"
            )
        return found

    def automatic(self) -> Floats:
        """γ of every chip: as calibration has chosen it, or by pilots."""
        chosen = self.description.strengths
        return np.asarray(chosen) / self.learner.epsilon if chosen else self.tuned().gammas


def _known(design: Design, theta: Theta, bench: Description) -> Theta | None:
    """Parameters of chips of which a calibrated bench knows some, as `theta` has them; None if it knows nothing."""
    if not bench.values:
        return None
    tables = {k: np.asarray(v, float).reshape(len(v), -1) for k, v in theta.items()}
    known = {k: np.array(np.broadcast_to(v, (len(v), bench.chips))) for k, v in tables.items()}
    for e in design.assembly.entries:
        if e.name in bench.values:
            known[e.key][e.index] *= bench.values[e.name]
    return known if bench.chips > 1 else {k: v[:, 0] for k, v in known.items()}
