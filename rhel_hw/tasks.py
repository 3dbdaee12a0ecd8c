"""What a circuit shall learn, if nobody says: to do as a hidden circuit of the same topology does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.assemble import Entry
from circuits.state import encode, state_in_si
from devices import ArgumentError, refuse_unless_positive
from rhel_hw.excitation import AMPLITUDE, Stimulus, stimulus
from rhel_hw.integrators import Integrator
from rhel_hw.lessons import Lesson
from rhel_hw.losses import FinalMSE, TrajectoryMSE, targets_of
from rhel_hw.problem import Problem
from rhel_hw.propagation import Keep
from rhel_hw.simulation import method_of, refuse_bytes, refuse_too_large, refuse_unstable, simulate

Array = Any


@dataclass(frozen=True)
class Teacher:
    """Imitate, at the targets, a circuit whose trainable parameters are moved by up to ± `spread` of their value.

    A parameter that is zero is moved by up to ± `spread` of its unit. The stimulus are the design's own waveforms, or
    seeded noise inside the band of its modes.
    """

    spread: float = 0.2
    drive: str = "band-limited"
    """"band-limited", or "own" for the waveforms of the design file."""
    loss: str = "trajectory"
    """"trajectory" or "final"."""
    amplitude: float = AMPLITUDE
    """Root mean square of the noise, in the design's own units."""
    batch: int = 1
    """Number of different stimuli; one is all there is with the design's own."""
    seed: int = 0

    def __post_init__(self) -> None:
        choices = {"drive": ("band-limited", "own"), "loss": ("trajectory", "final")}
        for name, allowed in choices.items():
            if not isinstance(getattr(self, name), str) or getattr(self, name) not in allowed:
                raise ArgumentError(
                    f"Argument `{name}` must be {' or '.join(map(repr, allowed))}, but is {getattr(self, name)!r}"
                )
        refuse_unless_positive(spread=self.spread, amplitude=self.amplitude)
        if self.spread >= 1:
            raise ArgumentError(f"Argument `spread` must be less than 1, but is {self.spread!r}")
        for name, least in (("batch", 1), ("seed", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(f"Argument `{name}` must be a whole number of at least {least}, but is {value!r}")

    def teacher(self, design: Design, dtype: Any = None) -> dict[str, Array]:
        """Parameters of the hidden circuit, within the bounds of the design."""
        rng = np.random.default_rng([self.seed, 0, 1])  # apart from those of the stimuli, [seed, lane]
        theta = {k: np.array(v, float) for k, v in design.theta().items()}
        for entry in design.assembly.entries:
            if entry.trainable:
                value = theta[entry.key][entry.index]
                reach = self.spread * (abs(value) or 1.0)
                low, high = entry.bounds or _range(design, entry)
                theta[entry.key][entry.index] = rng.uniform(max(value - reach, low), min(value + reach, high))
        return {k: jnp.asarray(v, dtype) for k, v in theta.items()}

    def problem(self, design: Design, *, integrator: Integrator | None = None, dtype: Any = None) -> Problem:
        """The design's own parameters before the task, with respect to the trainable ones."""
        method = method_of(integrator)
        answer, inputs, start = self._answer(design, method, dtype)
        trainable = tuple(k for k, mask in design.parameters.trainable.items() if mask.any())
        reader = targets_of(design)
        loss = TrajectoryMSE(reader, answer) if self.loss == "trajectory" else FinalMSE(reader, answer[-1])
        return Problem(design.hamiltonian, design.theta(dtype), inputs, design.step, start, loss, method, trainable)

    def lesson(self, design: Design, *, integrator: Integrator | None = None) -> Lesson:
        """The same for a bench: waveforms to play and what the targets should do, in SI. The teacher is ideal.

        By default it moves in steps of leapfrog, as emulated benches do. Where time is continuous, a teacher by
        `Yoshida6()` asks for nothing that the bench cannot do.
        """
        answer, _, _ = self._answer(design, method_of(integrator), None)
        netlist, units = design.netlist, design.assembly.units
        found = [self.stimulus(design, lane) for lane in range(self._lanes(design))]
        drive = {k: np.stack([s.waveforms[k] for s in found], axis=1) for k in found[0].waveforms}
        sizes = {t.name: units.position(netlist.domains[t.node]) for t in netlist.targets}
        targets = {name: np.asarray(answer[:, i]) * size for i, (name, size) in enumerate(sizes.items())}
        return Lesson(drive, targets, design.steps, None if drive else state_in_si(design, *found[0].state))

    def stimulus(self, design: Design, lane: int = 0) -> Stimulus:
        """What is played to a design, whether it can learn or not."""
        return stimulus(design, lane=lane, **self._kind(design))

    def _answer(self, design: Design, method: Integrator, dtype: Any) -> tuple[Array, Array, tuple[Array, Array]]:
        """What the teacher's targets do, (steps or 1, targets, batch), under inputs and from a state."""
        if not isinstance(design, Design):
            raise ArgumentError(f"Argument `design` must be compiled, as Netlist.compile() does it, but is {design!r}")
        if not design.parameters.trainable_names:
            raise ArgumentError(
                "Argument `design` must have trainable parameters, but has none: write `trainable = true` in an element"
            )
        reader = targets_of(design)
        refuse_unstable(design, method)
        keep = Keep.POSITIONS if self.loss == "trajectory" else Keep.FINAL
        lanes, channels = self._lanes(design), max(design.hamiltonian.inputs, 1)
        refuse_bytes(8 * design.steps * lanes * channels, "steps", "the inputs", "use a smaller batch")
        refuse_too_large(design.hamiltonian.size * lanes, design.steps, method, keep)
        inputs, start = self._stimuli(design)
        run = simulate(
            design.hamiltonian, self.teacher(design, dtype), inputs, inputs.shape[0], design.step,
            state=start, integrator=method, keep=keep,
        )  # fmt: skip
        if run.positions is None:
            return reader(run.final[0])[None], inputs, start
        return jnp.moveaxis(reader(jnp.moveaxis(run.positions, 1, 0)), 0, 1), inputs, start

    def _lanes(self, design: Design) -> int:
        alone = "the design's own waveforms" if self.drive == "own" else "a design without drives"
        if self.batch > 1 and (self.drive == "own" or not design.netlist.drives):
            raise ArgumentError(f"Argument `batch` must be 1 with {alone}, but is {self.batch}: there is one stimulus")
        return self.batch

    def _stimuli(self, design: Design) -> tuple[Array, tuple[Array, Array]]:
        """Inputs (steps, m, batch) and state (n, batch)."""
        found = [self.stimulus(design, lane) for lane in range(self._lanes(design))]
        q, p = (jnp.stack([s.state[i] for s in found], axis=-1) for i in (0, 1))
        return jnp.stack([encode(design, s.waveforms) for s in found], axis=-1), (q, p)

    def _kind(self, design: Design) -> dict[str, Any]:
        own = self.drive == "own"
        if own and not any(d.waveform for d in design.netlist.drives):
            raise ArgumentError('Argument `drive` must be "band-limited" here, but is "own": no drive has a waveform')
        return {"seed": self.seed, "own": own, "amplitude": self.amplitude}


def _range(design: Design, entry: Entry) -> tuple[float, float]:
    """Where a parameter makes sense at all, dimensionless; a little inside, for the ends may be singular."""
    element, name = entry.name.rsplit(".", 1)
    info = design.netlist.by_name[element].parameters[name]
    low, high = max(info.above, info.at_least) / entry.scale, info.below / entry.scale
    return (low, high - 0.01 * abs(high)) if np.isfinite(high) else (low, high)
