"""A circuit on a bench as a recurrence of a model: what its converters read, and echoes that it is told to make.

Nothing differentiates through it, and nothing of it can be compiled: going forward it plays inputs and reads targets,
going back it plays echoes that are nudged by what the model above says of its outputs. From their records follow what
its parameters and its inputs do to the loss, by nominal energies alone, as `rhel_hw.learner` has it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.state import encode
from devices import ArgumentError, refuse_unless_positive
from rhel_hw.bench import Bench, Kind
from rhel_hw.layers import Echoes, Method
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.recurrences import Raw, Recurrence, bound_parameters, free_parameters, waveforms, wired
from rhel_hw.session import Free, Session
from rhel_hw.sight import Sight

Array = Any


@dataclass(frozen=True, eq=False)
class BenchCircuit(Recurrence):
    """A design on a bench of one chip; to a model what `Circuit` is. Every recurrence needs a bench of its own.

    `learner` says how each echo comes to its start, over how many shots is averaged, and what is known of readout
    channels; ε, γ and stencil are those of the model. Parameters are programmed within the limits of the bench.
    """

    design: Design
    bench: Bench = field(repr=False)
    amplitude: float = 1.0
    learner: EchoLearner = field(default_factory=EchoLearner)
    saturated: dict[str, int] = field(default_factory=dict, repr=False)
    """How many values were beyond a range so far, by channel, drive, nudge or parameter."""

    traced = False

    def __post_init__(self) -> None:
        refuse_unless_positive(amplitude=self.amplitude)
        wired(self.design)
        told = self.bench.describe()
        if told.chips != 1:
            raise ArgumentError(f"Argument `bench` must have one chip to be a recurrence, but has {told.chips}")
        if dark := Sight.of(self.design, frozenset(told.channels)).dark_drives:
            raise ArgumentError(
                f"Argument `bench` must have channels wired that show what its drives do, but has none for "
                f"{', '.join(dark)}: what lies below the bench could not learn"
            )

    @property
    def inputs(self) -> int:
        """Drives of the design."""
        return len(self.design.netlist.drives)

    @property
    def outputs(self) -> int:
        """Targets of the design."""
        return len(self.design.netlist.targets)

    def start(self, rng: np.random.Generator) -> dict[str, Any]:
        """As the design has them."""
        return free_parameters(self.design)

    def __call__(self, raw: Raw, u: Array, method: Method, strength: Array, watch: Array) -> Array:
        """Play the inputs, and read the targets."""
        watched = isinstance(method, Echoes) and method.watched
        learner = replace(self.learner, stencil=method.stencil) if isinstance(method, Echoes) else self.learner
        held: list[Session] = []  # the bench holds a state from here on

        @jax.custom_vjp
        def run(raw: Raw, u: Array, strength: Array, watch: Array) -> Array:
            session = self._session(learner, raw, u)
            found = self._outputs(session, u)
            self._count(session)
            return found

        def forward(raw: Raw, u: Array, strength: Array, watch: Array) -> Any:
            if not isinstance(method, Echoes):
                raise ArgumentError(
                    "Argument `method` must be Echoes() for a model with a bench: nothing differentiates through one"
                )
            held.append(self._session(learner, raw, u))
            return self._outputs(held[-1], u), (raw, u, strength, watch)

        def backward(kept: Any, slopes: Array) -> Any:
            raw, u, strength, watch = kept
            found = self._learnt(held[-1], raw, u, np.asarray(slopes, float), float(strength))
            report = self._report(held[-1], np.asarray(slopes, float), float(strength)) if watched else np.zeros(3)
            self._count(held[-1])
            return *found, jnp.zeros_like(strength), jnp.asarray(report, watch.dtype)

        run.defvjp(forward, backward)
        return run(raw, u, strength, watch)

    def _count(self, session: Session) -> None:
        for name, count in session.saturated.items():
            self.saturated[name] = self.saturated.get(name, 0) + count

    def _session(self, learner: EchoLearner, raw: Raw, u: Array) -> Session:
        """The bench, programmed, with waveforms to play."""
        if isinstance(u, jax.core.Tracer):
            raise ArgumentError("A model with a bench must not be compiled: leave out jax.jit")
        waves = waveforms(self.design, self.amplitude * np.asarray(u, float))
        still = {t.name: np.zeros((u.shape[0], u.shape[2])) for t in self.design.netlist.targets}
        lesson = Lesson({k: np.asarray(v) for k, v in waves.items()}, still, u.shape[0])
        return Session.begin(learner, self.bench, self.design, lesson, self._programmable(raw))

    def _programmable(self, raw: Raw) -> dict[str, Any]:
        """Theta within the limits of the bench; what is beyond is counted."""
        theta = {k: np.array(v, float) for k, v in bound_parameters(self.design, raw).items()}
        for name, limits in self.bench.describe().parameters.items():
            e = self.design.parameters.entries[name]
            value = theta[e.key][e.index] * e.scale
            inside = min(max(value, limits.low), limits.high)
            theta[e.key][e.index] = inside / e.scale
            if abs(inside - value) > 1e-9 * (limits.high - limits.low):
                self.saturated[f"parameter.{name}"] = self.saturated.get(f"parameter.{name}", 0) + 1
        return theta

    def _outputs(self, session: Session, u: Array) -> Array:
        """Positions of targets, averaged over shots, (steps, targets, batch)."""
        netlist, units = self.design.netlist, self.design.assembly.units
        repeats = session.repeats(len(session.learner.stencil.points))
        read = session.responses(repeats)
        found = read[..., 0] / np.array([units.position(netlist.domains[t.node]) for t in netlist.targets])[:, None]
        mean = found.reshape(*found.shape[:2], repeats, -1).mean(axis=2)
        return jnp.asarray(mean / self.amplitude, u.dtype)

    def _free(self, slopes: Any, echoes: int, session: Session) -> Free:
        """What echoes are nudged by, (steps, targets, runs, 1) in their order: slopes by outputs of the model."""
        wide = np.tile(slopes[::-1] / self.amplitude, (1, 1, session.repeats(echoes)))[..., None]
        return Free(np.zeros(wide.shape[2:]), wide)

    def _learnt(self, session: Session, raw: Raw, u: Array, slopes: Any, strength: float) -> tuple[Any, Any]:
        """Derivatives by the free parameters and by the inputs."""
        points, batch = session.learner.stencil.points, u.shape[2]
        echoes = session.echoes(self._free(slopes, len(points), session), points, strength)
        by_theta = session.credit(echoes, strength)
        by_inputs = session.by_inputs(echoes, strength)
        theta, back = jax.vjp(lambda raw: bound_parameters(self.design, raw), dict(raw))
        # The learner has means over stimuli; the model's slopes are of the whole batch.
        (by_raw,) = back({k: _like(by_theta.get(k), v, batch) for k, v in theta.items()})

        def inputs(u: Array) -> Array:
            return encode(self.design, waveforms(self.design, self.amplitude * u))

        found, back = jax.vjp(inputs, jnp.asarray(u))
        (by_u,) = back(jnp.asarray(by_inputs, found.dtype))
        return {k: v.astype(raw[k].dtype) for k, v in by_raw.items()}, by_u.astype(u.dtype)

    def _report(self, session: Session, slopes: Any, strength: float) -> Any:
        """What a watched layer tells (`rhel_hw.layers.WATCHED`).

        Two echoes without nudges tell the noise, and the smallest difference between two readings the resolution.
        """
        points = (1.0, -1.0, 0.0, 0.0)
        if session.repeats(2) > session.repeats(1):
            session.responses(session.repeats(len(points)))
        echoes = session.echoes(self._free(slopes, len(points), session), points, strength)
        blocks = {Kind.POSITION: np.asarray(echoes.positions), Kind.MOMENTUM: np.asarray(echoes.momenta)}
        read = [x for block in blocks.values() for x in np.moveaxis(block, 1, 0)]
        steps, found = max((_step(x) / (np.std(x) or np.inf) for x in read), default=0.0), []
        for kind, block in blocks.items():
            x = session.sight.coordinates(block, kind)
            if x is not None:
                plus, minus, one, other = np.split(x, 4, axis=2)
                still = (one + other) / 2
                spread = np.sqrt(np.mean(np.var(still, axis=0)))
                strayed = _rms((plus - minus) / 2)
                if spread > 0 and strayed > 0:
                    bent = _rms((plus + minus) / 2 - still) / strayed
                    found.append([strayed / spread, bent, max(_rms(one - other) / spread, steps / 12**0.5)])
        return np.max(found, axis=0) if found else np.zeros(3)


def _step(x: Any) -> float:
    """Smallest difference between two readings, which of a coarse converter is its step."""
    gaps = np.diff(np.unique(x))
    return float(gaps.min()) if len(gaps) else 0.0


def _rms(x: Any) -> float:
    return float(np.sqrt(np.mean(x**2)))


def _like(found: Array | None, value: Array, batch: int) -> Array:
    return jnp.zeros_like(value) if found is None else jnp.asarray(found, value.dtype) * batch
