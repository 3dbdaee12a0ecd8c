"""The emulated device: one pass of all runs on all chips, as one compiled program.

States are (n, runs, chips), signals (samples, channels, runs, chips). What is on is fixed when the program is compiled,
how strong it is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.hamiltonian import Hamiltonian
from circuits.operators import Reader
from circuits.state import encode
from devices.maths import cos, sin
from rhel_hw.arithmetic import Format
from rhel_hw.bench import Kind
from rhel_hw.converters import delayed, jittered, low_pass, mixed, play
from rhel_hw.dissipation import BOLTZMANN, Bath, Noise, bath_of
from rhel_hw.integrators import Leapfrog
from rhel_hw.noise import Words, folded
from rhel_hw.noise import normals as standard_normals
from rhel_hw.operations import Operation
from rhel_hw.readout import Readout

Array = Any
State = tuple[Array, Array]

THERMAL, DRIVEN, NUDGED, READ, TURNED = range(5)
"""Streams of random numbers of a pass."""
WAITING = 10**8
"""Index of the first step of a latency, so that its noise is none of the pass."""


@dataclass(frozen=True)
class Plan:
    """What of a pass is fixed when its program is compiled."""

    on: frozenset[str]
    """Settings of the profile that differ from ideal."""
    substeps: int
    format: Format
    operation: Operation | None
    """Of an echo."""
    parametric: bool
    latency: int
    """Steps before the turn."""
    tiles: int
    """How many runs share thermal noise."""
    drive_tiles: int
    """How many runs share the noise of drives."""
    again: int
    """Steps of the free pass whose thermal noise comes back, backwards; 0: noise of its own."""
    paired: bool
    positions: tuple[int, ...]
    momenta: tuple[int, ...]
    targets: tuple[int, ...]
    """Which of them are wired."""
    decimation: int


class Raw(NamedTuple):
    """What a pass leaves; samples are (samples, channels, runs, chips)."""

    state: State
    integrals: Array
    samples: dict[str, Array]
    flags: dict[str, Array]


@partial(jax.jit, static_argnums=(0, 1, 2))
def run_pass(
    design: Design, plan: Plan, targets: Reader | None, theta: Mapping[str, Array], waves: Array,
    nudges: Array | None, state: State, integrals: Array, knobs: Mapping[str, Array], signs: Mapping[str, Array],
    keys: Mapping[str, Any],
) -> Raw:  # fmt: skip
    """A pass of the design as made.

    Arguments:
        design: as made.
        plan: what else the program is compiled for.
        targets: reads the positions of targets.
        theta: parameters of the chips, (count,) or (count, chips).
        waves: what the drives are told to play, (steps, drives, runs, chips) in SI, in the order of the free pass.
        nudges: impulses, (steps, targets, runs, chips), dimensionless, in the order in which they act.
        state: at the start, or held.
        integrals: of voltage drives at the start, (drives, runs, chips) in SI.
        knobs: how strong everything is that is on.
        signs: factors on theta in an echo.
        keys: words of every chip, and numbers of the pass and of that whose thermal noise it has.
    """
    hamiltonian = design.hamiltonian
    shape = state[0].shape[1:]
    draw = partial(_normals, keys["chips"], shape)
    flags: dict[str, Array] = {}
    if plan.operation is not None:
        parity = jnp.asarray([d.parity for d in design.netlist.drives], float).reshape(-1, 1, 1)
        if plan.latency:
            idle = _inputs(design, jnp.zeros_like(waves[:1]), integrals)[0]
            waiting = replace(plan, again=0)
            still = _Device.of(design, waiting, theta, knobs, waiting=True)
            state = still.waited(state, idle, partial(_thermal, waiting, keys, shape))
        waves = parity * waves[::-1]
    theta = {k: (v if v.ndim == 2 else v[:, None]) * signs[k] if k in signs else v for k, v in theta.items()}
    device = _Device.of(design, plan, theta, knobs)
    played, marked = _played(plan, waves, knobs, draw, keys["pass"])
    if marked is not None:
        flags["drive"] = jnp.broadcast_to(marked, (*marked.shape[:2], *shape))
    inputs = _inputs(design, played, integrals)
    if plan.operation is not None:
        if plan.operation.conjugates:
            inputs = jnp.asarray(hamiltonian.input_parity, float).reshape(-1, 1, 1) * inputs
        state = _turned(plan, state, knobs, draw, keys["pass"])
    if nudges is not None:
        nudges, marked = _nudged(plan, nudges, knobs, draw, keys["pass"])
        if marked is not None:
            flags["nudge"] = jnp.broadcast_to(marked, (*marked.shape[:2], *shape))
    readout = Readout(
        own=_section(knobs, plan, "readout"),
        scales={str(kind): knobs[f"scale.{kind}"] for kind in Kind},
        step=knobs["time.step_s"],
        decimation=plan.decimation,
        paired=plan.paired,
        chips=len(keys["chips"][0]),
        draw=partial(draw, READ, keys["pass"]),
    )
    state, kept = device.run(state, inputs, nudges, targets, partial(_thermal, plan, keys, shape), readout)
    if kept.clipped is not None:
        flags["state"] = kept.clipped
    samples, more = (kept.samples, kept.flags) if readout.at_once else readout.record(kept.samples)
    ends = integrals + knobs["time.step_s"] * jnp.sum(played, axis=0)
    return Raw(tuple(x.astype(float) for x in state), ends, samples, flags | more)


def _normals(
    chips: Words, shape: tuple[int, int], stream: int, number: Array, index: Array | int, size: tuple[int, ...],
    tiles: int = 1, before: Array | int = 0,
) -> Array:  # fmt: skip
    """Standard normal numbers (*size, *shape) that belong to each chip, a stream, a pass and an index in it.

    The runs fall into `tiles` equal parts that have the same numbers. `before` arrays of this size come before it.
    """
    runs = shape[0] * shape[1] // len(chips[0])
    own = folded(folded(folded(chips, stream), number), index)
    count = runs // tiles
    drawn = standard_normals(own, (*size, count), before * (count * prod(size))).astype(float)
    return jnp.concatenate([drawn] * tiles, axis=-2).reshape(*size, *shape)


def _thermal(
    plan: Plan, keys: Mapping[str, Any], shape: tuple[int, int], bath: Bath, index: Array, count: int, size: int
) -> Noise | None:
    """Thermal noise of one half of a step of `count` halves; in a replay that of the mirrored half.

    A force is even under time reversal, a push of a position odd.
    """
    sign = -1.0 if plan.again else 1.0
    index = 2 * plan.substeps * plan.again - 1 - index if plan.again else index

    def draw(stream: int) -> Array:
        own = THERMAL + 10 * stream
        found = _normals(keys["chips"], shape, own, keys["thermal"], index, (size,), plan.tiles)
        return sign * found if stream == 1 else found

    return bath.drawn(draw)


def _inputs(design: Design, waves: Array, integrals: Array) -> Array:
    """Inputs (steps, m, runs, chips) of the energy from waveforms (steps, drives, runs, chips) in SI."""
    drives = design.netlist.drives
    if not drives:
        return jnp.zeros((waves.shape[0], 0, 1, 1))
    shape = jnp.broadcast_shapes(waves.shape[2:], integrals.shape[1:])
    given = {d.name: jnp.broadcast_to(waves[:, i], (waves.shape[0], *shape)) for i, d in enumerate(drives)}
    return encode(design, given, start={d.name: integrals[i] for i, d in enumerate(drives)})


def _section(knobs: Mapping[str, Array], plan: Plan, section: str) -> dict[str, Array]:
    """Knobs of a converter by their own names."""
    own = {k.removeprefix(f"{section}."): v for k, v in knobs.items() if k.startswith(f"{section}.")}
    if f"{section}.range" in plan.on:
        own["range"] = jnp.ones(())
    return own


def _played(plan: Plan, waves: Array, knobs: Mapping[str, Array], draw: Any, number: Array) -> tuple[Array, Any]:
    """What the drive's converters make of waveforms (steps, drives, runs, chips)."""
    own, step = _section(knobs, plan, "drive"), knobs["time.step_s"]
    sizes = waves.shape[:2]

    def drawn(index: int) -> Array:
        return draw(DRIVEN, number, index, sizes, plan.drive_tiles)

    if "leak" in own:
        waves = mixed(waves, own["leak"])
    waves, marked = play(waves, knobs["scale.drive"], own, drawn(0) if "noise" in own else None)
    if "jitter" in own:
        waves = jittered(waves, own["jitter"], step, drawn(1))
    if "bandwidth" in own:
        waves = low_pass(waves, own["bandwidth"], step, held=True)
    if plan.operation is not None and "echo.skew" in plan.on:
        waves = delayed(waves, knobs["echo.skew"] / step, silent=False)
    return waves, marked


def _nudged(plan: Plan, nudges: Array, knobs: Mapping[str, Array], draw: Any, number: Array) -> tuple[Array, Any]:
    own = _section(knobs, plan, "nudge")
    peak = jnp.max(jnp.abs(nudges), axis=0, keepdims=True)
    scale = knobs.get("scale.nudge", jnp.where(peak > 0, peak, 1.0))
    if "levels" in own and "scale.nudge" not in knobs:
        # The largest code of an even number of levels is one below the range.
        scale = scale * own["levels"] / (own["levels"] - 2 * (own["levels"] > 2))
    normals = draw(NUDGED, number, 0, nudges.shape[:2]) if "noise" in own else None
    nudges, marked = play(nudges, scale, own, normals)
    if "echo.skew" in plan.on:
        nudges = delayed(nudges, knobs["echo.skew"] / knobs["time.step_s"], silent=True)
    return nudges, marked


def _turned(plan: Plan, state: State, knobs: Mapping[str, Array], draw: Any, number: Array) -> State:
    """The held state turned round, as well as the echo does it."""
    q, p = state
    n = (q.shape[0],)
    operation = plan.operation
    assert operation is not None  # of an echo
    gain = knobs.get("echo.gain", 1.0) * (1 + knobs.get("echo.gain_spread", 0.0))
    if "echo.gain_noise" in plan.on:
        gain = gain * (1 + knobs["echo.gain_noise"] * draw(TURNED, number, 0, (1,)))
    flipped = operation.flip * p * gain
    if "echo.missed" in plan.on:
        lost = jax.scipy.stats.norm.cdf(draw(TURNED, number, 1, n)) < knobs["echo.missed"]
        flipped = jnp.where(lost, p, flipped)
    q, p = (gain * q if plan.parametric else q), flipped
    if {"echo.angle", "echo.angle_spread", "echo.angle_noise"} & plan.on:
        angle = knobs.get("echo.angle", 0.0) + knobs.get("echo.angle_spread", 0.0)
        if "echo.angle_noise" in plan.on:
            angle = angle + knobs["echo.angle_noise"] * draw(TURNED, number, 2, (1,))
        q, p = _rotated((q, p), angle)
    if "echo.noise" in plan.on:
        q = q + knobs["echo.noise"] * knobs["peak.position"] * draw(TURNED, number, 3, n)
        p = p + knobs["echo.noise"] * knobs["peak.momentum"] * draw(TURNED, number, 4, n)
    if "trim.angle" in knobs:
        q, p = _rotated((q, p), knobs["trim.angle"])
        p = knobs["trim.factor"] * p
        q = knobs["trim.factor"] * q if plan.parametric else q
    return q, p


def _rotated(state: State, angle: Array) -> State:
    q, p = state
    c, s = cos(angle), sin(angle)
    return c * q + s * p, c * p - s * q


class _Kept(NamedTuple):
    """What the loop keeps, (steps, …, runs, chips) each."""

    samples: dict[str, Array]
    """By kind: what was read, or signals in SI that are still to be read."""
    flags: dict[str, Array]
    clipped: Array | None
    """Where the state was beyond its range."""


class _Device(NamedTuple):
    """The device as the loop needs it."""

    hamiltonian: Hamiltonian
    plan: Plan
    prepared: Any
    bath: Bath | None
    step: Array
    limit: Array | None
    units: Mapping[Kind, Array]
    """Of the channels in SI, by kind; given, so that the compiler does not fold them into other factors."""

    @classmethod
    def of(
        cls, design: Design, plan: Plan, theta: Mapping[str, Array], knobs: Mapping[str, Array], *,
        waiting: bool = False,
    ) -> _Device:  # fmt: skip
        """As a pass has it, or as it waits before the turn: in steps that make up the latency, and time runs on."""
        hamiltonian, dtype = design.hamiltonian, plan.format.dtype
        prepared = hamiltonian.prepare(theta)
        time = plan.operation.time if plan.operation is not None and not waiting else 1.0
        step = jnp.asarray(design.step, float) / plan.substeps
        if waiting:
            step = step * knobs["echo.latency"] / knobs["time.step_s"] / plan.latency
        bath = None
        if hamiltonian.lossy:
            energy = None
            if "dynamics.temperature" in plan.on:
                energy = BOLTZMANN / design.assembly.units.energy * knobs["dynamics.temperature"]
                energy = jnp.reshape(energy, jnp.shape(energy)[-1:])
            gain = None
            if "echo.pump" in plan.on and not waiting:
                error = knobs.get("echo.pump_error", jnp.zeros(()))
                gain = 1 + jnp.reshape(error, jnp.shape(error)[-1:])
            bath = bath_of(hamiltonian, prepared, step / 2, energy, gain)
            bath = Bath(*(_cast(x, dtype) for x in bath))
        limit = None
        if "dynamics.saturation" in plan.on:
            limit = _cast(knobs["dynamics.saturation"] * knobs["peak.position"], dtype)
        units = {kind: knobs[f"unit.{kind}"] for kind in Kind}
        return cls(hamiltonian, plan, _cast(prepared, dtype), bath, _cast(time * step, dtype), limit, units)

    def run(
        self, state: State, inputs: Array, nudges: Array | None, targets: Reader | None, thermal: Any,
        readout: Readout,
    ) -> tuple[State, _Kept]:  # fmt: skip
        """The state at the end, and what was kept on the way."""
        plan, dtype = self.plan, self.plan.format.dtype
        steps = inputs.shape[0]
        inputs, nudges = _cast(inputs, dtype), None if nudges is None else _cast(nudges, dtype)
        rounded = plan.format.rounded

        def seen(kick: Array, u: Array, p: Array, q: Array, noise: Array | None) -> Any:
            """What is seen of a step, read while it is at hand: a long record is not gone through again."""
            signals = {str(Kind.POSITION): self._positions(kick, u), str(Kind.MOMENTUM): self._momenta(p)}
            if targets is not None:
                signals[str(Kind.TARGET)] = self._targets(targets, q)
            signals = {kind: x for kind, x in signals.items() if len(x)}
            return readout.read(signals, noise) if readout.at_once else (signals, {})

        def advance(carry: Any, given: Any) -> Any:
            (q, p), noise, room = carry
            i, u, nudge = given
            before = p
            if nudge is not None and targets is not None:
                p = p + rounded(targets.transpose(jnp.broadcast_to(nudge, (nudge.shape[0], *p.shape[1:]))))
            (q, p), kick = self._step((q, p), u, i, steps, thermal)
            clipped = None
            if self.limit is not None:
                clipped = jnp.abs(q) > self.limit
                q = jnp.clip(q, -self.limit, self.limit)
            if plan.format.fixed:
                beyond = (jnp.abs(q) >= plan.format.largest) | (jnp.abs(p) >= plan.format.largest)
                clipped = beyond if clipped is None else clipped | beyond
                top = plan.format.largest - 2.0**-plan.format.fraction
                q, p = jnp.clip(q, -top, top), jnp.clip(p, -top, top)
            room, others = _written(room, seen(kick, u, before, q, noise), i)
            # Drawn one step ahead, so that the compiler does not draw once more for every use.
            return ((q, p), readout.noise(channels, i + 1), room), (others, clipped)

        q, p = (rounded(_cast(x, dtype)) for x in state)
        given = (jnp.arange(steps), inputs, nudges)
        channels = len(plan.positions) + len(plan.momenta) + (0 if targets is None else len(plan.targets))
        noise = readout.noise(channels, 0)
        row = jax.eval_shape(seen, q, inputs[0], p, q, noise)
        # There is one more momentum than steps: they are written where the last one fits too.
        room = [
            {kind: jnp.zeros((steps + 1, *x.shape), x.dtype) for kind, x in part.items() if kind == Kind.MOMENTUM}
            for part in row
        ]
        ((q, p), noise, room), (others, clipped) = jax.lax.scan(advance, ((q, p), noise, room), given)
        room, _ = _written(room, seen(q, inputs[-1], p, q, noise), steps)
        samples, flags = ({kind: room[i].get(kind, others[i].get(kind)) for kind in row[i]} for i in (0, 1))
        return (q, p), _Kept(samples, flags, clipped)

    def _positions(self, q: Array, u: Array) -> Array:
        """Positions of the nodes that are read, in SI."""
        u = jnp.broadcast_to(u, (u.shape[0], *q.shape[1:]))
        found = self.hamiltonian.node_positions(q.astype(float), _cast(self.prepared, "float64"), u.astype(float))
        return found[np.array(self.plan.positions, int)] * self.units[Kind.POSITION]

    def _momenta(self, p: Array) -> Array:
        found = self.hamiltonian.node_momenta(p.astype(float))
        return found[np.array(self.plan.momenta, int)] * self.units[Kind.MOMENTUM]

    def _targets(self, targets: Reader, q: Array) -> Array:
        return targets(q).astype(float)[np.array(self.plan.targets, int)] * self.units[Kind.TARGET]

    def waited(self, state: State, idle: Array, thermal: Any) -> State:
        """The state after the latency, undriven."""
        steps, dtype = self.plan.latency, self.plan.format.dtype
        idle = _cast(idle, dtype)

        def advance(carry: State, i: Array) -> tuple[State, None]:
            return self._step(carry, idle, i, steps, thermal)[0], None  # noise of its own: indices go on from there

        start = tuple(_cast(x, dtype) for x in state)
        return jax.lax.scan(advance, start, WAITING + jnp.arange(steps))[0]

    def _step(self, state: State, u: Array, i: Array, steps: int, thermal: Any) -> tuple[State, Array]:
        """A step, and the position in its middle."""
        count = self.plan.substeps

        def sub(carry: State, k: Array) -> tuple[State, Array]:
            return self._substep(carry, u, i * count + k, steps * count, thermal)

        if count == 1:
            return sub(state, jnp.zeros((), int))
        side = count // 2
        state, _ = jax.lax.scan(sub, state, jnp.arange(side))
        state, kick = sub(state, jnp.asarray(side))
        state, _ = jax.lax.scan(sub, state, jnp.arange(side + 1, count))
        return state, kick

    def _substep(self, state: State, u: Array, k: Array, steps: int, thermal: Any) -> tuple[State, Array]:
        size, rounded = self.hamiltonian.size, self.plan.format.rounded
        if self.bath is not None:
            state = tuple(rounded(x) for x in self.bath(state, thermal(self.bath, 2 * k, 2 * steps, size)))
        q, p = state
        if self.plan.format.fixed:
            q = q + rounded(self.step / 2 * self.hamiltonian.velocity(p, self.prepared, u))
            kick = q
            p = p + rounded(self.step * self.hamiltonian.force(q, self.prepared, u))
            q = q + rounded(self.step / 2 * self.hamiltonian.velocity(p, self.prepared, u))
        else:
            q, p, inside = Leapfrog().step(self.hamiltonian, q, p, self.prepared, u, self.step)
            kick = inside.kicks[0]
        if self.bath is not None:
            q, p = (rounded(x) for x in self.bath((q, p), thermal(self.bath, 2 * k + 1, 2 * steps, size)))
        return (q, p), kick


def _written(room: Any, row: Any, k: Array | int) -> Any:
    """Samples and flags of a step written into the room that there is for their kind, and those that have none."""
    room = [{kind: x.at[k].set(part[kind]) for kind, x in mine.items()} for mine, part in zip(room, row, strict=True)]
    return room, [{kind: x for kind, x in part.items() if kind not in room[0]} for part in row]


def _cast(tree: Any, dtype: str) -> Any:
    def one(x: Any) -> Any:
        return x.astype(dtype) if hasattr(x, "dtype") and jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(one, tree)
