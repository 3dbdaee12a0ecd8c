"""A circuit under thermal noise: gradients by echoes on a bench, by differentiation, and to first order in T."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from itertools import combinations
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design, Netlist
from circuits.operators import Reader
from circuits.state import encode
from devices import Capacitor, CurrentDrive, Element, Inductor, JosephsonJunction
from rhel_hw.chips import made
from rhel_hw.dissipation import BOLTZMANN, bath_of
from rhel_hw.emulated import EmulatedBench
from rhel_hw.integrators import Leapfrog
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.losses import targets_of
from rhel_hw.operations import Hold, Protocol, Reprepare
from rhel_hw.profile import Profile
from rhel_hw.session import Session
from rhel_hw.tasks import Teacher

Array = Any
State = tuple[Array, Array]
Floats = NDArray[np.float64]

PROTOCOLS: dict[str, Protocol] = {"hold": Hold(), "re-prepare": Reprepare(), "crossed": Hold()}
"""Crossed: a state is held, and nudged by what the free pass before it recorded."""
NODES, QUALITY, CURRENT_A, EPSILON = 4, 1e4, 1.2e-9, 1.0
FLUX_WB = 3.2910597847e-16
"""Flux quantum over 2π."""
COLDEST_K = 1e-30
"""As good as zero, without another program."""
LANES = 1024


def netlist(circuit: str) -> Netlist:
    """Oscillators of about 160 MHz, all pairs joined by inductors. All that is trained is in the potential."""
    rng = np.random.default_rng(1)
    parts: list[Element] = []
    for i in range(NODES):
        capacitance, inductance = (float(x) for x in rng.uniform(0.8, 1.2, 2) * (10e-12, 100e-9))
        parts.append(Capacitor(f"C{i}", f"n{i}", "gnd", capacitance))
        if circuit == "linear":
            parts.append(Inductor(f"L{i}", f"n{i}", "gnd", inductance, trainable=True))
        else:
            parts.append(JosephsonJunction(f"J{i}", f"n{i}", "gnd", FLUX_WB / inductance, trainable=True))
    for i, j in combinations(range(NODES), 2):
        parts.append(Inductor(f"L{i}{j}", f"n{i}", f"n{j}", float(rng.uniform(320e-9, 480e-9)), trainable=True))
    drives = (CurrentDrive("u0", "n0"),)
    return Netlist(f"{circuit} circuit of {NODES}", tuple(parts), drives=drives, targets=(f"n{NODES - 1}",))


@dataclass(frozen=True, eq=False)
class Rig:
    """A circuit and its task. Gradients are by the relative change of each parameter."""

    design: Design
    lesson: Lesson
    quality: float = QUALITY

    def echoes(self, temperature_k: float, kind: str, protocol: str, shots: int, epsilon: float = EPSILON) -> Floats:
        """Gradients of single shots on an emulated bench, (shots, parameters)."""
        settings = {"quality": self.quality, "temperature": max(temperature_k, COLDEST_K), "thermal": kind}
        profile = Profile().changed({"dynamics": settings})
        learner = EchoLearner(epsilon=epsilon, protocol=PROTOCOLS[protocol])
        found = []
        for begin in range(0, shots, LANES):
            chips = range(begin, begin + LANES)  # all alike, but for their noise
            bench = EmulatedBench(self.design, profile, chips=chips, reference=self.lesson.drive)
            session = Session.begin(learner, bench, self.design, self.lesson, None)
            recorded = session.free()
            if protocol == "crossed":
                session.free()  # which is what is held now
            echoes = session.echoes(recorded, learner.stencil.points, epsilon)
            found.append(self._by_change(session.credit(echoes, epsilon)))
        return np.concatenate(found)[:shots]

    def expected(self, temperature_k: float, draws: int, seed: int = 1) -> Floats:
        """dL/dθ of noisy runs by differentiation, (draws/2, parameters): means of two runs with opposite noise."""
        task, found = self._task(temperature_k), []
        for begin in range(0, draws, LANES):
            key = jax.random.fold_in(jax.random.key(seed), begin)
            half = jax.random.normal(key, (self.design.steps, 2, self.design.hamiltonian.size, LANES // 2))
            slopes = _differentiated(*self._system, task, jnp.concatenate([half, -half], axis=-1))
            found.append(self._by_change(slopes).reshape(2, LANES // 2, -1).mean(axis=0))
        return np.concatenate(found)

    def noiseless(self) -> Floats:
        """Gradient at T = 0, by differentiation."""
        return np.asarray(self.expected(0.0, LANES)[0])

    def per_kelvin(self, steps: int | None = None) -> dict[str, Floats]:
        """Change of mean gradients per kelvin, (parameters,) each, exact to first order; also the noiseless gradient.

        The mean of a function of many normal numbers is, to this order, its value at zero plus half the sum of its
        second derivatives by each of them. `of` is a run's own gradient, the others are what echoes measure if noise
        is in the free pass, replayed; in the free pass; in what is held; in what is recorded; or in the echo.
        """
        count, n, small = steps or self.design.steps, self.design.hamiltonian.size, 1e-3
        task, lanes = self._task(1.0, count), LANES // 2 - 1
        sums: dict[str, Floats] = {}
        for begin in range(0, 2 * count * n, lanes):
            which = begin + np.arange(lanes) - np.arange(2 * self.design.steps * n)[:, None]
            which[2 * count * n :] = 1
            one = small * (which == 0).reshape(-1, 2, n, lanes)
            push = jnp.asarray(np.concatenate([one, -one, np.zeros_like(one[..., :2])], axis=-1))
            back, none = push[::-1, ::-1], jnp.zeros_like(push)
            given = {
                "replayed": (push, push, back),
                "pass": (push, push, none),
                "held": (none, push, none),
                "recorded": (push, none, none),
                "echo": (none, none, back),
            }
            found = {k: self._by_change(_echoed(*self._system, task, *noise)) for k, noise in given.items()}
            found["of"] = self._by_change(_differentiated(*self._system, task, push))
            for name, values in found.items():
                sums[name] = sums.get(name, 0.0) + np.sum(values - values[-1], axis=0) / (2 * small**2)
            sums["noiseless"] = found["of"][-1]
        return sums

    @cached_property
    def made(self) -> Design:
        """The circuit with its losses."""
        return made(self.design, Profile().changed({"dynamics": {"quality": self.quality}}))

    @cached_property
    def _system(self) -> tuple[Design, Reader]:
        return self.made, targets_of(self.made)

    def _task(self, temperature_k: float, steps: int | None = None) -> Task:
        design = self.made
        target = design.netlist.targets[0]
        own, nominal = (d.assembly.units.position(design.netlist.domains[target.node]) for d in (design, self.design))
        return Task(
            {k: jnp.asarray(v) for k, v in design.theta().items()},
            encode(design, self.lesson.drive),
            jnp.asarray(self.lesson.targets[target.name] / nominal),
            jnp.asarray(own / nominal),
            jnp.asarray(BOLTZMANN / design.assembly.units.energy * temperature_k),
            (jnp.arange(design.steps) < (steps or design.steps)).astype(float),
        )

    def _by_change(self, slopes: Mapping[str, Array]) -> Floats:
        theta, entries = self.design.assembly.theta, self.design.assembly.entries
        rows = [np.asarray(slopes[e.key])[e.index] * theta[e.key][e.index] for e in entries if e.trainable]
        return np.asarray(np.stack(rows, axis=-1), np.float64)


@lru_cache(maxsize=32)
def rig(circuit: str, steps: int) -> Rig:
    """The task to imitate a hidden circuit; kept, so that compiled programs are found again."""
    design = netlist(circuit).compile(steps=steps)
    teacher = Teacher(spread=0.2, amplitude=CURRENT_A / design.assembly.units.scale("A"))
    return Rig(design, teacher.lesson(design))


class Task(NamedTuple):
    """What a run is computed from."""

    theta: Mapping[str, Array]
    inputs: Array
    """(steps, m, 1)"""
    wanted: Array
    """(steps, 1)"""
    scale: Array
    """From coordinates to units of the loss."""
    energy: Array
    """k_BT, dimensionless."""
    live: Array
    """(steps,) 1 for steps that are made, 0 for those after the end."""


def _forward(design: Design, reader: Reader, theta: Mapping[str, Array], task: Task, normals: Array) -> Any:
    """The last state, and what the target reads, (steps, lanes)."""
    advance = _stepper(design, theta, task)

    def one(state: State, given: Any) -> Any:
        u, noise, live = given
        state, _ = advance(state, u, noise, live)
        return state, task.scale * reader(state[0])[0]

    start = tuple(jnp.repeat(x[:, None], normals.shape[-1], axis=1) for x in design.initial_state())
    return jax.lax.scan(one, start, (task.inputs, normals, task.live))


def _stepper(design: Design, theta: Mapping[str, Array], task: Task) -> Callable[..., tuple[State, Array]]:
    """A step as the emulated device makes it, with standard normal numbers (halves, n, lanes) as its noise."""
    hamiltonian, step = design.hamiltonian, jnp.asarray(design.step)
    prepared = hamiltonian.prepare(theta)
    bath = bath_of(hamiltonian, prepared, step / 2, task.energy)

    def advance(state: State, u: Array, noise: Array, live: Array) -> tuple[State, Array]:
        q, p = bath(state, (noise[0], None, None))
        q, p, inside = Leapfrog().step(hamiltonian, q, p, prepared, u, step)
        q, p = bath((q, p), (noise[1], None, None))
        return (jnp.where(live > 0, q, state[0]), jnp.where(live > 0, p, state[1])), inside.kicks[0]

    return advance


@partial(jax.jit, static_argnums=(0, 1))
def _differentiated(design: Design, reader: Reader, task: Task, normals: Array) -> Mapping[str, Array]:
    """Derivatives (count, lanes) of the loss of noisy runs by parameters; normals are (steps, halves, n, lanes)."""

    def losses(theta: Mapping[str, Array]) -> Array:
        _, read = _forward(design, reader, theta, task, normals)
        return jnp.sum(task.live[:, None] * (read - task.wanted) ** 2) / (2 * jnp.sum(task.live))

    slopes: Mapping[str, Array] = jax.grad(losses)(_repeated(task.theta, normals.shape[-1]))
    return slopes


@partial(jax.jit, static_argnums=(0, 1))
def _echoed(
    design: Design, reader: Reader, task: Task, recorded: Array, held: Array, echo: Array
) -> Mapping[str, Array]:
    """What echoes measure for weak nudges, (count, lanes), with this noise in the passes that are recorded and held."""
    hamiltonian, theta = design.hamiltonian, _repeated(task.theta, held.shape[-1])
    advance = _stepper(design, theta, task)
    _, read = _forward(design, reader, theta, task, recorded)
    (q, p), _ = _forward(design, reader, theta, task, held)
    slopes = task.live[:, None] * task.scale * (read - task.wanted) / jnp.sum(task.live)
    inputs, live = task.inputs[::-1], task.live[::-1]

    def credit(epsilon: Array) -> Mapping[str, Array]:
        def one(state: State, given: Any) -> Any:
            u, noise, slope, live = given
            return advance((state[0], state[1] + epsilon * reader.transpose(slope[None])), u, noise, live)

        _, kicks = jax.lax.scan(one, (q, -p), (inputs, echo, slopes[::-1], live))
        kicks = jnp.moveaxis(kicks, 0, 1)
        u = jnp.broadcast_to(jnp.moveaxis(inputs, 0, 1), (inputs.shape[1], *kicks.shape[1:]))

        def action(theta: Mapping[str, Array]) -> Array:
            return jnp.sum(live[:, None] * hamiltonian.potential(kicks, hamiltonian.prepare(theta), u))

        by_theta: Mapping[str, Array] = jax.grad(action)(theta)
        return by_theta

    _, slope = jax.jvp(credit, (jnp.zeros(()),), (jnp.ones(()),))
    return {k: -design.step * v for k, v in slope.items()}


def _repeated(theta: Mapping[str, Array], lanes: int) -> dict[str, Array]:
    return {k: jnp.repeat(v[:, None], lanes, axis=1) for k, v in theta.items()}
