"""A design as it is handed over: trained, moved to preferred parts, and put through one pass of its task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Clock, Design, Initial, Netlist
from circuits.eseries import Shift, shifts, snapped
from circuits.formats import bom
from circuits.formats.spice_decks import with_values
from circuits.formats.spice_state import Plates, State
from circuits.state import state_in_si
from devices import Element
from rhel_hw import BPTT, Gradient, Profile, Yoshida6, settings, simulate_design
from rhel_hw.bench import Description, Record, Shot
from rhel_hw.compare import cosine, trained
from rhel_hw.emulated import EmulatedBench
from rhel_hw.learner import EchoLearner
from rhel_hw.propagation import Keep
from rhel_hw.simulation import Trajectory
from rhel_hw.tasks import Teacher
from studies.sweeps.limits import Requirement

Floats = NDArray[np.float64]
Report = Callable[[int, int], None]
BOARD = ("capacitor", "inductor", "saturable", "tank", "resistor")
"""Types of elements that are bought."""
SINGLE = 1.05
"""A gradient of no more values than this is one of a single value."""


@dataclass(frozen=True, eq=False)
class Handed:
    """A design as it is handed over, with a pass of its task."""

    drawn: Netlist
    values: Mapping[str, float] = field(default_factory=dict)
    """Trained, in SI, by name such as `L12.inductance`."""
    series: str | None = None
    """Of preferred values to which board parts are moved; None leaves them."""
    seed: int = 0
    """Of the stimulus."""
    wanted: Requirement | None = None
    """What the bits, noise and losses that a data sheet lists must allow; None: `requirement` decides."""
    seeds: int = 3
    """At how many seeds that must hold."""
    report: Report | None = None
    """Is told how many gradients of how many are done, where many are needed."""

    @cached_property
    def task(self) -> Teacher:
        """Of the design as drawn: what is handed over is asked what it has learnt, whatever became of its values."""
        return settings.task(self.drawn, {"seed": self.seed})

    @cached_property
    def school(self) -> Design:
        """The design in which the task is set; what neither a drive nor a state of its own moves starts with a kick."""
        design, initial = self.drawn.compile(), self.drawn.initial
        if self.drawn.drives or initial.positions or initial.momenta or initial.velocities:
            return design
        kicked = Initial(*state_in_si(design, *self.task.stimulus(design).state))
        return self.drawn.replace(initial=kicked).compile()

    @cached_property
    def learnt(self) -> Netlist:
        """With the trained values, and the sample clock by which they were trained."""
        if not self.values:
            return self.drawn
        moved = with_values(self.drawn, self.values).elements
        within = tuple(replace(e, bounds=old.bounds) for e, old in zip(moved, self.drawn.elements, strict=True))
        return self.drawn.replace(elements=within, clock=Clock(self.school.step_s, self.school.steps))

    @cached_property
    def netlist(self) -> Netlist:
        """With the parts that are bought."""
        if not self.series:
            return self.learnt
        return snapped(self.learnt, self.series).replace(clock=Clock(self.school.step_s, self.school.steps))

    @cached_property
    def design(self) -> Design:
        """Compiled."""
        return self.netlist.replace(initial=self.school.netlist.initial).compile()

    @cached_property
    def moves(self) -> tuple[Shift, ...]:
        """What becomes of the values of all parts for a series."""
        return shifts(self.learnt, self.series) if self.series else ()

    @property
    def moved(self) -> tuple[Shift, ...]:
        """Those that had no such value before."""
        return tuple(m for m in self.moves if abs(m.relative) > 1e-9)

    @cached_property
    def stages(self) -> dict[str, Gradient]:
        """Gradients of the task with the values as drawn, trained, and bought, as far as there are such, and a task."""
        if not self.school.parameters.trainable_names or self.school.hamiltonian.lossy:
            return {}  # the gradient of what loses is a bench's to tell
        problem, parameters = self.task.problem(self.school), self.school.parameters
        found = {"drawn": problem.theta}
        if self.values:
            found["trained"] = parameters.set(problem.theta, self.values)
        if self.series:
            last = list(found.values())[-1]
            found["bought"] = parameters.set(last, {f"{m.element}.{m.parameter}": m.after for m in self.moves})
        return {name: BPTT().gradient(replace(problem, theta=theta)) for name, theta in found.items()}

    @property
    def losses(self) -> dict[str, float]:
        """Of the task, at the same stages."""
        return {name: float(gradient.loss) for name, gradient in self.stages.items()}

    @property
    def agreement(self) -> float | None:
        """Cosine between gradients of the task before and after parts were moved; None where one vanishes."""
        last = [trained(self.school, gradient.theta) for gradient in list(self.stages.values())[-2:]]
        return cosine(*last) if len(last) == 2 else None

    @cached_property
    def requirement(self) -> Requirement:
        """Usually a cosine of 0.99; of a single value, whose cosine is a sign, the error that has this angle.

        So it is where one value outweighs all others in the gradient.
        """
        single = self.school.parameters.trainable_names and self.weighing <= SINGLE
        return self.wanted or (Requirement("error", 0.14) if single else Requirement("cosine", 0.99))

    @cached_property
    def weighing(self) -> float:
        """How many values make up the gradient of the task: (Σg²)²/Σg⁴, from 1 to their number."""
        if not self.stages:
            return float(len(self.school.parameters.trainable_names))
        squares = np.square(trained(self.school, self.stages.get("trained", self.stages["drawn"]).theta))
        return float(np.sum(squares) ** 2 / np.sum(squares**2)) if np.any(squares) else float(squares.size)

    @cached_property
    def waves(self) -> dict[str, Floats]:
        """Of the first stimulus, (steps,) in SI by drive."""
        return self.task.stimulus(self.school).waveforms

    @property
    def start(self) -> State:
        """Where the forward pass begins."""
        return State.of(self.design)

    @cached_property
    def run(self) -> Trajectory:
        """The forward pass, of sixth order: simulators of circuits shall end, and their echoes begin, where it does."""
        return simulate_design(self.design, self.waves, keep=Keep.ALL, integrator=Yoshida6())

    @cached_property
    def final(self) -> State:
        """Where it ends."""
        return State.of(self.design, *self.run.final)

    @cached_property
    def learner(self) -> EchoLearner:
        """Of the nudged echoes: with γ as the design has it, else so that they stray by the learner's displacement."""
        asked = settings.bench_learning(self.netlist, Profile())
        if isinstance(self.netlist.settings.get("learning", {}).get("gamma"), (int, float)):
            return asked
        weak = replace(asked, gamma=1.0)
        strays = [
            np.max(np.abs(x[:, 0] - x[:, -1])) / 2 / np.std(x)
            for x in self._asked(weak).read.samples.values()
            if np.std(x) > 0
        ]
        most = max(strays, default=0.0)
        return replace(weak, gamma=float(f"{asked.displacement / most:.2g}")) if most > 0 else weak

    @cached_property
    def nudges(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Of the two echoes that the learner asks for, (steps,) in SI by target."""
        told = self._asked(self.learner).last.nudge
        return tuple({k: v[:, i, 0] for k, v in told.items()} for i in (0, -1))  # type: ignore[return-value]

    def _asked(self, learner: EchoLearner) -> _Overheard:
        """The bench after a gradient of the first stimulus."""
        bench = _Overheard(EmulatedBench(self.design, reference=self.waves or None))
        learner.gradient(bench, self.design, replace(self.task, batch=1).lesson(self.school))
        return bench

    @cached_property
    def stress(self) -> dict[str, bom.Stress]:
        """Peaks of voltage and current of every board part, in the forward pass."""
        parts = [e for e in self.netlist.elements if e.type in BOARD]
        if len(parts) < len(self.netlist.elements):
            return {}  # what shares the nodes is no part of a board, which the format will say
        fluxes, volts, step = self.run.positions_si(), self._voltages(), self.design.step_s
        fluxes |= {n: step * np.cumsum(wave) for n, wave in self._held.items()}
        return {e.name: _stress(e, volts, fluxes, step) for e in parts}

    def _voltages(self) -> dict[str, Floats]:
        """Of every node, at the ends of steps: charges say it, but not where a node has no capacitance or a source.

        There it is the slope of the flux, which is right to second order in the step.
        """
        momenta, plates, step = self.run.momenta_si(), Plates.of(self.netlist), self.design.step_s
        found = {n: np.gradient(x, step) if len(x) > 1 else x / step for n, x in self.run.positions_si().items()}
        if not self.netlist.held:
            charges = np.stack([momenta.get(n, np.zeros(self.design.steps)) for n in plates.nodes])
            charged = zip(plates.nodes, plates.voltages(charges), np.diag(plates.matrix), strict=True)
            found |= {n: volts for n, volts, capacitance in charged if capacitance > 0}
        return found | self._held

    @property
    def _held(self) -> dict[str, Floats]:
        """Voltages that sources hold over every step, by node."""
        drives = [d for d in self.netlist.drives if d.action == "prescribe"]
        return {n: self.waves[d.name] for d in drives for n in d.nodes}


class _Overheard:
    """A bench that remembers the last shot, and what was read."""

    read: Record

    def __init__(self, bench: EmulatedBench) -> None:
        self._bench = bench
        self.last = Shot(1)

    def describe(self) -> Description:
        return self._bench.describe()

    def program(self, parameters: Mapping[str, Any]) -> None:
        self._bench.program(parameters)

    def run(self, shot: Shot) -> Record:
        self.last = shot
        self.read = self._bench.run(shot)
        return self.read


def losses_text(losses: Mapping[str, float]) -> str:
    """Losses by stage in words; a gradient turns anywhere near its minimum, where the loss still tells."""
    words = {"drawn": "as drawn", "trained": "trained", "bought": "with the parts that are bought"}
    return ", ".join(f"{loss:.4g} {words[stage]}" for stage, loss in losses.items())


def _stress(e: Element, volts: Mapping[str, Floats], fluxes: Mapping[str, Floats], step_s: float) -> bom.Stress:
    """Largest voltage across and current through an element."""

    def across(of: Mapping[str, Floats]) -> Floats:
        a, b = [*e.nodes, ""][:2]
        return np.asarray(of.get(a, 0.0) - of.get(b, np.zeros(1)))

    voltage, values = across(volts), e.values
    currents = []
    if "capacitance" in values and len(voltage) > 1:
        currents.append(np.max(np.abs(np.diff(voltage))) * values["capacitance"] / step_s)
    if "inductance" in values:
        linear = np.max(np.abs(across(fluxes))) / values["inductance"]
        most = values.get("saturation_current", np.inf)
        currents.append(most * np.tanh(linear / most) if np.isfinite(most) else linear)
    if "resistance" in values:
        currents.append(np.max(np.abs(voltage)) / values["resistance"])
    return bom.Stress(float(np.max(np.abs(voltage))), float(max(currents, default=0.0)))
