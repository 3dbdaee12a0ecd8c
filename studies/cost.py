"""What a gradient by echoes costs on a bench, and what backpropagation would cost a digital machine.

Passes, samples and seconds are counted as the learner makes them; energies follow from them and the `cost` section of a
profile: docs/physics.md, section 13. Whatever takes long belongs to the design and is computed once: the heat of its
losses at many quality factors, and the operations of a step of backpropagation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from math import exp, inf, log, nan
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from circuits import Design
from circuits.state import encode
from devices import ArgumentError, nearest, to_si
from rhel_hw.baselines import BPTT
from rhel_hw.bench import Kind, refuse_unknown
from rhel_hw.chips import made
from rhel_hw.choices import Choices
from rhel_hw.dissipation import bath_of
from rhel_hw.emulated import EmulatedBench
from rhel_hw.excitation import stimulus
from rhel_hw.integrators import Leapfrog
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.losses import TrajectoryMSE, targets_of
from rhel_hw.problem import Problem, Program
from rhel_hw.profile import Dynamics, Profile, ProfileError

Array = Any
State = tuple[Array, Array]
Floats = NDArray[np.float64]

STRENGTHS: Floats = np.geomspace(1e-10, 1.0, 41)
"""Losses at which heat is computed: 1/Q, α, or linewidth over ten thousand times the rate of passes."""
COUNTED_STEPS = 16
"""Steps of the program whose operations are counted: of a loop the compiler counts one turn, however many there are."""
OPERATIONS = 100.0
"""Of backpropagation per element and step, where the compiler does not tell: 30 to 430 in designs of the gallery."""
NUMBER = 8
"""Bytes of a number in double precision."""


@dataclass(frozen=True)
class Costs:
    """Costs of one gradient, in seconds and joules. A converter without a limit of bits costs NaN."""

    free_passes: int
    echoes: int
    device_seconds: float
    """On the device: passes, latencies, preparation and programming."""
    samples_read: int
    samples_played: int
    adc_energy: float
    dac_energy: float
    dissipated_energy: float
    """What the losses of the device take in all passes; 0 if it has none."""
    bptt_operations: float
    """Floating-point operations of the same gradient by backpropagation."""
    bptt_bytes: float
    """Moved to its memory and back."""
    bptt_energy: float
    counted: bool
    """Whether the compiler counted the operations; if not, they are a rule of thumb."""

    @property
    def passes(self) -> int:
        """Runs of the device."""
        return self.free_passes + self.echoes

    @property
    def energy(self) -> float:
        """Of converters and losses together."""
        return self.adc_energy + self.dac_energy + self.dissipated_energy

    def to_dict(self) -> dict[str, Any]:
        """All of it, by name."""
        return {**asdict(self), "passes": self.passes, "energy": self.energy}

    def __str__(self) -> str:
        energies = {"reading": self.adc_energy, "playing": self.dac_energy, "losses": self.dissipated_energy}
        told = ", ".join(f"{what} {value:.3g} J" for what, value in energies.items())
        operations = f"{self.bptt_operations:.3g} operations" + ("" if self.counted else " by rule of thumb")
        return (
            f"{self.passes} passes ({self.free_passes} free, {self.echoes} echoes), {self.device_seconds:.3g} s\n"
            f"{self.samples_read} samples read, {self.samples_played} played\n"
            f"{self.energy:.3g} J: {told}\n"
            f"by backpropagation {self.bptt_energy:.3g} J: {operations}, {self.bptt_bytes:.3g} bytes moved"
        )


def gradient_cost(
    design: Design,
    profile: Profile,
    learner: Choices,
    *,
    stimuli: int | None = None,
    pilots: int = 0,
    lesson: Lesson | None = None,
) -> Costs:
    """Costs of one gradient of a learner on one chip.

    Arguments:
        design: the compiled design.
        profile: of the bench, with its costs.
        learner: its stencil, protocol and number of shots.
        stimuli: how many are played; those of the lesson by default, or one.
        pilots: pairs of pilot echoes that the search for γ takes, the first one without nudges included.
        lesson: what is learnt; None for the stimulus that the design has by default, on all of its drives.
    """
    if not isinstance(design, Design):
        raise ArgumentError(f"Argument `design` must be compiled, as Netlist.compile() does it, but is {design!r}")
    if not isinstance(profile, Profile):
        raise ArgumentError(f"Argument `profile` must be a Profile, as Profile.load() makes it, but is {profile!r}")
    if not isinstance(learner, Choices):
        raise ArgumentError(f"Argument `learner` must be a learner such as EchoLearner(), but is {learner!r}")
    count = _stimuli(stimuli, lesson)
    if isinstance(pilots, bool) or not isinstance(pilots, int) or pilots < 0:
        raise ArgumentError(f"Argument `pilots` must be a whole number of at least 0, but is {pilots!r}")
    # Passes, as the learner makes them.
    points, runs = len(learner.stencil.points), learner.protocol.runs
    shots = count * (learner.shots if isinstance(learner, EchoLearner) else 1)
    free = shots * (runs(points) + (runs(2 * pilots) if pilots else 0))
    echoes = shots * (points + 2 * pilots)
    # Samples.
    steps = design.steps if lesson is None else lesson.steps
    readout, cost = profile.readout, profile.cost
    wired = _wired(design, readout.unwired)
    every = readout.decimation
    read = free * wired.targets * (steps // every)
    read += echoes * (wired.positions * -(-steps // every) + wired.momenta * -(-(steps + 1) // every))
    drives = len(design.netlist.drives) if lesson is None else len(lesson.drive)
    driven, nudged = (free + echoes) * drives * steps, echoes * wired.targets * steps
    # Seconds and joules.
    run_s, latency_s = steps * design.step_s, profile.echo.latency
    seconds = (free + echoes) * (run_s + cost.prepare) + echoes * latency_s + cost.program
    heat = _heat(design, lesson, profile.dynamics)
    by_step, once, counted = _backpropagation(design)
    operations = count * steps * by_step + once
    moved = 2 * count * steps * 2 * design.hamiltonian.size * NUMBER
    return Costs(
        free_passes=free,
        echoes=echoes,
        device_seconds=seconds,
        samples_read=read,
        samples_played=driven + nudged,
        adc_energy=_converted(cost.adc, readout.bits, read),
        dac_energy=_converted(cost.dac, profile.drive.bits, driven) + _converted(cost.dac, profile.nudge.bits, nudged),
        dissipated_energy=free * heat.free + echoes * heat.echo * (1 + latency_s / run_s),
        bptt_operations=operations,
        bptt_bytes=moved,
        bptt_energy=cost.operation * operations + cost.memory * moved,
        counted=counted,
    )


def _stimuli(given: int | None, lesson: Lesson | None) -> int:
    own = 1 if lesson is None else lesson.stimuli
    if given is None:
        return own
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise ArgumentError(f"Argument `stimuli` must be a whole number of at least 1, but is {given!r}")
    if lesson is not None and given != own:
        raise ArgumentError(f"Argument `stimuli` must be that of the lesson, {own}, or left out, but is {given}")
    return given


def _converted(step: float, bits: int | None, count: int) -> float:
    """Energy of so many conversions by Walden's law; none is defined without a limit of bits."""
    if count == 0:
        return 0.0
    return nan if bits is None else step * 2.0**bits * count


# Channels ---------------------------------------------------------------------------------------------------------


class _Wired(NamedTuple):
    """How many channels of each kind are read."""

    positions: int
    momenta: int
    targets: int


@lru_cache(maxsize=64)
def _kinds(design: Design) -> Mapping[str, Kind]:
    """Channels of a bench on which everything is wired."""
    return {name: channel.kind for name, channel in EmulatedBench(design).describe().channels.items()}


@lru_cache(maxsize=1024)
def _wired(design: Design, unwired: tuple[str, ...]) -> _Wired:
    kinds = _kinds(design)
    for name in unwired:
        if name not in kinds:
            raise ProfileError("readout.unwired", f"must name channels, but has {name!r}{nearest(name, kinds)}")
        if kinds[name] is Kind.TARGET:
            raise ProfileError(
                "readout.unwired", f"must leave targets wired, but has {name!r}: no loss can be measured"
            )
    left = [kind for name, kind in kinds.items() if name not in unwired]
    if Kind.TARGET not in left:
        raise ArgumentError("Argument `design` must have targets, but has none: no loss can be measured")
    return _Wired(*(left.count(kind) for kind in (Kind.POSITION, Kind.MOMENTUM, Kind.TARGET)))


# Heat -------------------------------------------------------------------------------------------------------------


class _Heat(NamedTuple):
    """Energy that losses take in a pass, in J; mean over stimuli."""

    free: float
    echo: float


_SETTINGS: Mapping[str, Callable[[float], float]] = {
    "quality": lambda strength: 1 / strength,
    "damping": lambda strength: strength,
    "linewidth": lambda strength: strength,
}
"""Settings of losses, from a strength in proportion to them."""


def _heat(design: Design, lesson: Lesson | None, dynamics: Dynamics) -> _Heat:
    """Heat of a pass. One number for all that is lossy is looked up in a table, anything else simulated, once."""
    given = {name: getattr(dynamics, name) for name in _SETTINGS}
    on = {name: value for name, value in given.items() if value not in (0.0, inf)}
    if len(on) == 1:
        ((name, value),) = on.items()
        if not isinstance(value, tuple):
            table = _table(design, lesson, name)
            strength = _SETTINGS[name](value)
            if strength in table:
                return table(strength)
    return _exact(design, lesson, **given)


@lru_cache(maxsize=1024)
def _exact(design: Design, lesson: Lesson | None, **losses: Any) -> _Heat:
    lossy = _lossy(design, **losses)
    if not lossy.hamiltonian.lossy:
        return _Heat(0.0, 0.0)
    theta = {k: v[None] for k, v in lossy.theta().items()}
    free, echo = _simulated(design, lossy, lesson, theta)[0]
    return _Heat(float(free), float(echo))


def _lossy(design: Design, **losses: Any) -> Design:
    """The circuit with these losses, as the emulator makes it."""
    return made(design, Profile(dynamics=replace(Dynamics(), **losses)))


class _Table:
    """Heat by the strength of one kind of loss: a spline of logarithms.

    If nothing else is lost, it goes on in proportion below the least strength.
    """

    def __init__(self, strengths: Floats, heat: Floats, *, alone: bool) -> None:
        self.least, self.most, self.alone = float(strengths[0]), float(strengths[-1]), alone
        self.first = _Heat(*(float(x) for x in heat[0]))
        self.still = not np.all(heat > 0)
        self.start, self.width = log(self.least), log(self.most / self.least) / (len(strengths) - 1)
        if not self.still:
            spline = CubicSpline(np.log(strengths), np.log(heat))
            self.cubics: list[list[list[float]]] = np.moveaxis(spline.c, 0, -1).tolist()

    def __contains__(self, strength: float) -> bool:
        return strength <= self.most and (self.alone or strength >= self.least)

    def __call__(self, strength: float) -> _Heat:
        if self.still or strength <= self.least:
            ratio = strength / self.least
            return _Heat(self.first.free * ratio, self.first.echo * ratio)
        place = log(strength) - self.start
        i = min(int(place / self.width), len(self.cubics) - 1)
        x = place - i * self.width
        free, echo = (exp(((a * x + b) * x + c) * x + d) for a, b, c, d in self.cubics[i])
        return _Heat(free, echo)


@lru_cache(maxsize=64)
def _table(design: Design, lesson: Lesson | None, name: str) -> _Table:
    steps = design.steps if lesson is None else lesson.steps
    strengths = STRENGTHS * (1e4 / (steps * design.step_s) if name == "linewidth" else 1.0)
    # How parameters follow the strength is read off two circuits: losses do, as a power, and nothing else does.
    middle = float(strengths[len(strengths) // 2])
    pair = [_lossy(design, **{name: _SETTINGS[name](s)}) for s in (middle, 2 * middle)]
    theta = {}
    for key, first in pair[0].theta().items():
        one, two = (np.asarray(x, float) for x in (first, pair[1].theta()[key]))
        moved = np.isfinite(one) & np.isfinite(two) & (one != two)
        power = np.log2(np.where(moved, two, 1.0) / np.where(moved, one, 1.0))
        theta[key] = one * (strengths[:, None] / middle) ** power
    return _Table(strengths, _simulated(design, pair[0], lesson, theta), alone=not design.hamiltonian.lossy)


def _simulated(design: Design, lossy: Design, lesson: Lesson | None, theta: Mapping[str, Array]) -> Floats:
    """Heat of a free pass and of its echo without nudges, (lanes, 2) in J, for parameters (lanes, count)."""
    if lesson is None:
        moved = stimulus(design)
        waves: Mapping[str, Array] = {k: np.reshape(v, (len(v), 1)) for k, v in moved.waveforms.items()}
        steps, state = design.steps, moved.state
    else:
        waves, steps, state = lesson.drive, lesson.steps, _start(design, lesson)
    lanes = next((np.shape(w)[1] for w in waves.values()), 1)
    inputs = encode(lossy, waves) if waves else jnp.zeros((steps, lossy.hamiltonian.inputs, 1))
    q, p = (jnp.broadcast_to(x[:, None], (len(x), lanes)) for x in state)
    given = {k: jnp.asarray(v) for k, v in theta.items()}
    found = _heats(lossy, given, inputs, (q, p), _carried(lossy))
    return np.asarray(found, np.float64)


def _start(design: Design, lesson: Lesson) -> State:
    """Positions and momenta at the start of a lesson, (n,) each."""
    state = design.initial_state()
    if lesson.start is None:
        return state
    names = design.hamiltonian.names
    halves = [np.array(x, float) for x in state]
    for half, values, momentum in zip(halves, lesson.start, (0, 1), strict=True):
        refuse_unknown("start", values, dict.fromkeys(names))
        for node, value in values.items():
            domain, i = design.netlist.domains[node], names.index(node)
            unit = domain.momentum_unit if momentum else domain.position_unit
            half[i] = to_si(value, unit) / _sizes(design, node)[momentum]
    return jnp.asarray(halves[0]), jnp.asarray(halves[1])


def _sizes(design: Design, node: str) -> tuple[float, float]:
    """Position and momentum in SI of a coordinate that is one."""
    assembly, domain = design.assembly, design.netlist.domains[node]
    factor = float(assembly.factors[assembly.coordinates.dynamic.index(node)])
    return assembly.units.scale(domain.position_unit) * factor, assembly.units.scale(domain.momentum_unit) / factor


def _carried(design: Design) -> tuple[Floats, Floats]:
    """Energy in J per square of positions and of momenta that a rotating frame leaves out: its ω times the action."""
    assembly = design.assembly
    by_q, by_p = (np.zeros((design.hamiltonian.size, 1)) for _ in range(2))
    for part in assembly.netlist.elements:
        if part.frame is not None:
            node = assembly.netlist.terminals_of(part)[0]
            i = assembly.coordinates.dynamic.index(node)
            rate, aspect = 2 * np.pi * float(part.frame(part.numbers)), float(part.aspect(part.numbers))
            x, y = _sizes(design, node)
            by_q[i], by_p[i] = rate * aspect * x**2 / 2, rate / aspect * y**2 / 2
    return by_q, by_p


@partial(jax.jit, static_argnums=0)
def _heats(design: Design, theta: Mapping[str, Array], inputs: Array, start: State, carried: State) -> Array:
    """(lanes, 2): heat of a free pass and of its echo, mean over stimuli, for parameters of every lane."""
    hamiltonian, unit, step = design.hamiltonian, design.assembly.units.energy, design.step
    parity = jnp.asarray(hamiltonian.input_parity).reshape(-1, 1)

    def of_lane(own: Mapping[str, Array]) -> Array:
        prepared = hamiltonian.prepare(own)
        bath = bath_of(hamiltonian, prepared, jnp.asarray(step / 2))

        def stored(state: State, u: Array) -> Array:
            q, p = state
            total = hamiltonian.kinetic(p, prepared, u) + hamiltonian.potential(q, prepared, u)
            total = total + hamiltonian.rotation(q, p, prepared) if hamiltonian.turning else total
            return unit * total + jnp.sum(carried[0] * q**2 + carried[1] * p**2, axis=0)

        def advance(carry: tuple[State, Array], u: Array) -> tuple[tuple[State, Array], None]:
            before, heat = carry
            first = bath(before)
            q, p, _ = Leapfrog().step(hamiltonian, *first, prepared, u, step)
            after = bath((q, p))
            heat = heat + stored(before, u) - stored(first, u) + stored((q, p), u) - stored(after, u)
            return (after, heat), None

        cold = jnp.zeros_like(start[0][0])
        ((q, p), free), _ = jax.lax.scan(advance, (start, cold), inputs)
        (_, echo), _ = jax.lax.scan(advance, ((q, -p), cold), parity * inputs[::-1])
        return jnp.stack([jnp.mean(free), jnp.mean(echo)])

    return jax.vmap(of_lane)(theta)


# Backpropagation --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Lossless:
    """An energy as it would be without its losses, whose gradient an echo is after."""

    energy: Any
    lossy: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.energy, name)


@lru_cache(maxsize=64)
def _backpropagation(design: Design) -> tuple[float, float, bool]:
    """Operations of every step, those that are done once, and whether they were counted."""
    energy: Any = design.hamiltonian
    if energy.lossy:
        energy = _Lossless(energy)
    reader, steps = targets_of(design), COUNTED_STEPS
    loss = TrajectoryMSE(reader, jnp.zeros((steps, reader.rows)))
    inputs, rest = jnp.zeros((steps, energy.inputs)), jnp.zeros(energy.size)
    wrt = tuple(k for k, mask in design.parameters.trainable.items() if mask.any())
    problem = Problem(energy, design.theta(), inputs, design.step, (rest, rest), loss, wrt=wrt)
    whole = _operations(BPTT().program(problem))
    prepared = energy.prepare(problem.theta)
    given = (prepared, problem.state, problem.inputs[0], problem.step)
    step = _operations(Program(jax.jit(_step, static_argnums=(0, 1)), (energy, reader, *given)))
    if whole is None or step is None:
        return OPERATIONS * len(design.netlist.elements), 0.0, False
    step = min(step, whole)  # parameters that are not asked for count in the step alone
    return step, whole - step, True


def _step(energy: Any, reader: Any, prepared: Any, state: State, u: Array, length: Array) -> Any:
    """One step and what its end does to a loss, and the pull-back."""

    def advance(prepared: Any, state: State) -> tuple[State, Array]:
        q, p, _ = Leapfrog().step(energy, *state, prepared, u, length)
        return (q, p), jnp.sum(reader(q) ** 2)

    found, back = jax.vjp(advance, prepared, state)
    return found, back(found)


def _operations(program: Program) -> float | None:
    """Floating-point operations as the compiler counts them; None if it does not."""
    found = program.function.lower(*program.arguments).compile().cost_analysis()
    costs = found[0] if isinstance(found, list) else found
    total = (costs or {}).get("flops", 0.0) + max((costs or {}).get("transcendentals", 0.0), 0.0)
    return float(total) if total >= 0 else None
