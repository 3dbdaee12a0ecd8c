"""What a bench should read if its chips had these values: the circuit as drawn, with unknown values, losses and drives.

Unknowns are rows of one array, chips its last axis. First come those of the device: logarithms of element values over
nominal (differences in units of their size where they may be of either sign), then losses in units of those at
`QUALITY`, then gain, offset and bow of the drives. Those of the readout follow, and need no simulation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from circuits.assemble import Entry
from circuits.state import encode
from rhel_hw.bench import Channel, Description, Kind
from rhel_hw.converters import BOW
from rhel_hw.dissipation import bath_of
from rhel_hw.excitation import natural
from rhel_hw.integrators import Leapfrog
from rhel_hw.losses import targets_of
from rhel_hw.lossy import lossy_elements, typical_rate
from rhel_hw.profile import Dynamics, ProfileError

Array = Any
State = tuple[Array, Array]
Floats = NDArray[np.float64]
Start = tuple[Mapping[str, float], Mapping[str, float]]
"""Positions and momenta by node, in SI; those that are not named are as the design has them."""

QUALITY = 1000.0
"""Losses are counted in those that give this quality factor, by the typical rate of the circuit."""
INVERSE = ("resistance", "intrinsic_q")
"""Parameters of losses that are larger, the less is lost."""
SMALLEST = 1e-9
"""Loss in that unit below which there is none."""
CURVE = ("gain", "offset", "bow")
"""Unknowns of a converter."""


class Given(NamedTuple):
    """What passes were told."""

    waves: Array
    """(steps, drives, runs) in SI."""
    positions: Array
    """At the start, (n, runs), dimensionless."""
    momenta: Array
    nudges: Array | None = None
    """Impulses at the starts of the steps, (steps, targets, runs) in SI; None: there are none."""


class _How(IntEnum):
    """How a parameter follows from its unknown."""

    KNOWN = 0
    VALUE = 1
    SIGNED = 2
    LOSS = 3
    INVERSE = 4


class _Law(NamedTuple):
    """How the parameters of one key follow from unknowns."""

    places: NDArray[np.intp]
    """Which unknown each has."""
    how: NDArray[np.intp]
    sizes: Floats
    """Of steps of what may be of either sign."""


@dataclass(frozen=True, eq=False)
class Model:
    """A design on a bench, with everything that calibration does not take for granted."""

    design: Design
    """As drawn."""
    bench: Description
    lossy: Design
    """The same with a loss wherever there can be one."""

    @staticmethod
    def of(design: Design, bench: Description) -> Model:
        """The model of a design on a bench; one of before is found again, and with it what was compiled for it."""
        same = replace(bench, passes=0, seconds=0.0)
        return _made(design, json.dumps(same.to_dict(), default=str))

    @classmethod
    def new(cls, design: Design, bench: Description) -> Model:
        """The same, made anew."""
        elements = {e.name: e for e in design.netlist.elements}
        # That of a resonator for light is by its carrier; here it is by the rates at which the circuit moves.
        light = any("intrinsic_q" in e.parameters for e in elements.values())
        linewidth = typical_rate(design) / (2 * np.pi * QUALITY) if light else 0.0
        try:
            found = lossy_elements(design, elements, replace(Dynamics(), quality=QUALITY, linewidth=linewidth))
        except ProfileError:  # nothing in it has a quality
            return cls(design, bench, design)
        netlist = design.netlist.replace(elements=tuple(found.values()))
        return cls(design, bench, netlist.compile(step=design.step_s, steps=design.steps))

    # Unknowns --------------------------------------------------------------------------------------------------------

    @cached_property
    def values(self) -> tuple[Entry, ...]:
        """Element values that are identified: those with a usual knob, and what is trained."""
        by_name = self.design.assembly.netlist.by_name
        lost = {e.name for e in self.losses}

        def is_usual(e: Entry) -> bool:
            element, parameter = e.name.rsplit(".", 1)
            info = by_name[element].parameters[parameter]
            return info.stored and (info.knob or e.trainable)

        wanted = {e.name for e in self.design.assembly.entries if is_usual(e)}
        return tuple(e for e in self.lossy.assembly.entries if e.name in wanted and e.name not in lost)

    @cached_property
    def losses(self) -> tuple[Entry, ...]:
        """Parameters of losses that are identified: what the lossy circuit has, and the drawn one has not."""
        drawn = {e.name: self.design.assembly.theta[e.key][e.index] * e.scale for e in self.design.assembly.entries}

        def is_new(e: Entry) -> bool:
            value = self.lossy.assembly.theta[e.key][e.index] * e.scale
            return e.name.rsplit(".", 1)[1] in (*INVERSE, "damping") and not np.isclose(
                drawn.get(e.name, np.inf), value, rtol=1e-12
            )

        return tuple(e for e in self.lossy.assembly.entries if is_new(e))

    @property
    def drives(self) -> tuple[str, ...]:
        """Names of the drives."""
        return tuple(d.name for d in self.design.netlist.drives)

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Wired channels, kind by kind."""
        return tuple(c for kind in Kind for c in self.bench.channels.values() if c.kind is kind)

    @cached_property
    def blocks(self) -> dict[Kind, slice]:
        """Which of the channels are of a kind."""
        kinds = [c.kind for c in self.channels]
        return {kind: slice(kinds.index(kind), kinds.index(kind) + kinds.count(kind)) for kind in Kind if kind in kinds}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all unknowns, in their order."""
        device = [e.name for e in (*self.values, *self.losses)]
        driven = [f"drive.{name}.{what}" for what in CURVE for name in self.drives]
        read = [f"{c.name}.{what}" for what in CURVE for c in self.channels]
        return (*device, *driven, *read)

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Where unknowns of each sort are; gains, offsets and bows follow each other."""
        sizes = (len(self.values), len(self.losses), 3 * len(self.drives), 3 * len(self.channels))
        ends = np.cumsum((0, *sizes))
        keys = ("values", "losses", "drives", "readout")
        return {key: slice(int(a), int(b)) for key, a, b in zip(keys, ends, ends[1:], strict=False)}

    @property
    def device_count(self) -> int:
        """Number of unknowns that a simulation depends on."""
        return int(self.parts["readout"].start)

    @cached_property
    def ideal(self) -> Floats:
        """Unknowns of a bench that is as drawn."""
        found = np.zeros(len(self.names))
        for part, count in (("drives", len(self.drives)), ("readout", len(self.channels))):
            found[self.parts[part].start :][:count] = 1.0
        return found

    @cached_property
    def full_scales(self) -> Floats:
        """Of the channels."""
        return np.array([c.full_scale for c in self.channels])

    @cached_property
    def drive_scales(self) -> Floats:
        """Full scales of the drives; those without one have the size that is one in the design's own units."""
        ranges, design = self.bench.ranges, self.design
        return np.array([ranges.get(f"drive.{d.name}") or natural(design, d) for d in design.netlist.drives])

    # What follows from them ------------------------------------------------------------------------------------------

    def theta(self, x: Array) -> dict[str, Array]:
        """Parameters of the lossy circuit, (count, chips) each, for unknowns (…, chips)."""
        theta = {}
        for key, nominal in self.lossy.assembly.theta.items():
            law, v = self._laws[key], x[self._laws[key].places]
            safe = jnp.where(jnp.abs(v) < SMALLEST, SMALLEST, v)
            factor = jnp.select(
                [law.how == _How.VALUE, law.how == _How.LOSS, law.how == _How.INVERSE], [jnp.exp(v), v, 1 / safe], 1.0
            )
            step = jnp.where(law.how == _How.SIGNED, v, 0.0) * law.sizes
            fixed = jnp.asarray(nominal, float)[:, None]  # which may be infinite, and has no derivative
            known = law.how == _How.KNOWN
            theta[key] = jnp.where(known, fixed, jnp.where(known, 0.0, fixed) * factor + step)
        return theta

    @cached_property
    def _laws(self) -> dict[str, _Law]:
        """How each parameter of the lossy circuit follows from unknowns."""
        found = {}
        for key, nominal in self.lossy.assembly.theta.items():
            size = np.abs(np.asarray(nominal, float))[:, None]
            size = np.where(np.isfinite(size) & (size > 0), size, 1.0)
            found[key] = _Law(np.zeros(len(size), np.intp), np.zeros((len(size), 1), np.intp), size)
        for i, e in enumerate((*self.values, *self.losses)):
            law, positive = found[e.key], e.positive and self.lossy.assembly.theta[e.key][e.index] > 0
            value, loss = _How.VALUE if positive else _How.SIGNED, _How.LOSS
            law.places[e.index] = i
            law.how[e.index] = value if i < len(self.values) else _How.INVERSE if e.name.endswith(INVERSE) else loss
        return found

    def scale(self, i: int, x: Array) -> Array:
        """Value of an element over nominal, for its unknown; where it may be of either sign, over its size."""
        e = self.values[i]
        nominal = self.lossy.assembly.theta[e.key][e.index]
        return np.exp(x) if e.positive and nominal > 0 else np.sign(nominal) + x

    def played(self, x: Array, waves: Array) -> Array:
        """What the drives play, (steps, drives, runs, chips), if they are told to play waves (steps, drives, runs)."""
        gain, offset, bow = x[self.parts["drives"]].reshape(3, len(self.drives), 1, -1)
        scale = jnp.asarray(self.drive_scales)[:, None, None]
        return scale * curved(waves[..., None] / scale, gain, offset, bow)

    def read(self, x: Array, signals: Array) -> Array:
        """What channels read, in full scales, of signals (samples, channels, runs, chips) in full scales."""
        gain, offset, bow = self.readout(x)
        return curved(signals, gain, offset, bow)

    def readout(self, x: Array) -> Array:
        """Gains, offsets and bows, (3, channels, 1, chips)."""
        return x[self.parts["readout"]].reshape(3, len(self.channels), 1, -1)

    def simulated(self, x: Array, given: Given) -> Array:
        """Signals at all channels over their full scales, (steps + 1, channels, runs, chips).

        Positions and targets have one sample less than momenta: their last row is zero.
        """
        waves = self.played(x, given.waves) if self.drives else given.waves[..., None]
        nudges = None if given.nudges is None else given.nudges[..., None]
        return self.passed(x, self.started(given, x.shape[-1]), self.inputs(waves), nudges)[1]

    def started(self, given: Given, chips: int) -> State:
        """The state at the start, (n, runs, chips) each."""
        q, p = (jnp.broadcast_to(v[..., None], (*v.shape, chips)) for v in (given.positions, given.momenta))
        return q, p

    def passed(
        self, x: Array, state: State, inputs: Array, nudges: Array | None = None, time: float = 1.0
    ) -> tuple[State, Array]:
        """The state at the end of a pass, and the signals of `simulated`.

        Arguments:
            x: unknowns, (…, chips).
            state: at the start, (n, runs, chips) each.
            inputs: of the energy, (steps, m, runs, chips), as `inputs` makes them.
            nudges: impulses in SI, (steps, targets, runs, chips), or None.
            time: −1 runs with −H.
        """
        energy, step = self.lossy.hamiltonian, self.lossy.step
        prepared = energy.prepare(self.theta(x))
        bath = bath_of(energy, prepared, step / 2) if energy.lossy else lambda state: state
        targets = targets_of(self.lossy) if self.design.netlist.targets else None
        lanes = state[0].shape[1:]

        def advance(state: Any, given: Any) -> Any:
            u, nudge = given
            q, p = state
            before = energy.node_momenta(p)
            if nudge is not None and targets is not None:
                p = p + targets.transpose(jnp.broadcast_to(nudge, (nudge.shape[0], *lanes)))
            q, p = bath((q, p))
            q, p, inside = Leapfrog().step(energy, q, p, prepared, u, time * step)
            q, p = bath((q, p))
            middle = energy.node_positions(inside.kicks[0], prepared, u)
            seen = {Kind.POSITION: middle, Kind.MOMENTUM: before}
            if targets is not None:
                seen[Kind.TARGET] = targets(q)
            return (q, p), self._seen(seen)

        if nudges is not None:
            nudges = nudges / self.impulses[:, None, None]
        inputs = jnp.broadcast_to(inputs, (*inputs.shape[:2], *lanes))
        (q, p), found = jax.lax.scan(advance, state, (inputs, nudges))
        nothing = {kind: jnp.zeros((self._rows[kind], *lanes)) for kind in (Kind.POSITION, Kind.TARGET)}
        last = self._seen({**nothing, Kind.MOMENTUM: energy.node_momenta(p)})
        return (q, p), jnp.concatenate([found, last[None]])

    def inputs(self, waves: Array, integrals: Array | None = None) -> Array:
        """Inputs of the energy, (steps, m, runs, chips), of what the drives play, (steps, drives, runs, chips) in SI.

        `integrals` (drives, runs, chips) are those of the waveforms before, which voltages leave as flux.
        """
        if not self.drives:
            return jnp.zeros((waves.shape[0], 0, 1, 1))
        start = None if integrals is None else {name: integrals[i] for i, name in enumerate(self.drives)}
        return encode(self.lossy, {name: waves[:, i] for i, name in enumerate(self.drives)}, start=start)

    @cached_property
    def impulses(self) -> Floats:
        """Sizes of impulses at the targets that are one in the design's own units, in SI."""
        units, domains = self.lossy.assembly.units, self.design.netlist.domains
        return np.array([units.momentum(domains[t.node]) for t in self.design.netlist.targets])

    def _seen(self, by_kind: Mapping[Kind, Array]) -> Array:
        """Of all nodes and targets, (…, runs, chips) by kind, what the channels see, over full scale."""
        found = [by_kind[kind][self._places[kind]] for kind in self.blocks]
        return jnp.concatenate(found) * (self._sizes / self.full_scales)[:, None, None]

    @cached_property
    def _rows(self) -> dict[Kind, int]:
        nodes = len(self.lossy.assembly.coordinates.nodes)
        return {Kind.POSITION: nodes, Kind.MOMENTUM: nodes, Kind.TARGET: len(self.design.netlist.targets)}

    @cached_property
    def _places(self) -> dict[Kind, NDArray[np.intp]]:
        nodes = {n: i for i, n in enumerate(self.lossy.assembly.coordinates.nodes)}
        aims = {f"target.{t.name}": i for i, t in enumerate(self.design.netlist.targets)}
        return {
            kind: np.array([aims[c.name] if kind is Kind.TARGET else nodes[c.node] for c in self.channels[own]])
            for kind, own in self.blocks.items()
        }

    @cached_property
    def _sizes(self) -> Floats:
        units, domains = self.lossy.assembly.units, self.design.netlist.domains
        size = {Kind.MOMENTUM: units.momentum, Kind.POSITION: units.position, Kind.TARGET: units.position}
        return np.array([size[c.kind](domains[c.node]) for c in self.channels])

    def given(self, waves: Floats, starts: Sequence[Start] = ()) -> Given:
        """Driven passes, (steps, drives, runs) in SI from rest, then free ones from prepared states."""
        states = [self.state({}, {}, waves.shape[2]), *(self.state(*start, 1) for start in starts)]
        silent = np.zeros((*waves.shape[:2], len(starts)))
        q, p = (np.concatenate(half, axis=1) for half in zip(*states, strict=True))
        return Given(np.concatenate([waves, silent], axis=2), q, p)

    def state(self, positions: Mapping[str, Any], momenta: Mapping[str, Any], runs: int) -> tuple[Floats, Floats]:
        """Dimensionless state (n, runs) of a start in SI by node; the others are as the design has them."""
        units, domains, factors = self.lossy.assembly.units, self.design.netlist.domains, self.lossy.assembly.factors
        q, p = (np.repeat(np.asarray(x, float)[:, None], runs, axis=1) for x in self.lossy.initial_state())
        for i, node in enumerate(self.lossy.hamiltonian.names):
            domain = domains[node]
            if node in positions:
                q[i] = positions[node] / (units.scale(domain.position_unit) * factors[i])
            if node in momenta:
                p[i] = momenta[node] / (units.scale(domain.momentum_unit) / factors[i])
        return q, p


@lru_cache(maxsize=16)
def _made(design: Design, bench: str) -> Model:
    return Model.new(design, Description.of(json.loads(bench)))


def curved(signal: Array, gain: Array, offset: Array, bow: Array) -> Array:
    """What a converter makes of a signal, both in full scales."""
    r = gain * signal
    return r + bow * BOW * (r - r**3) + offset


def slopes_of_curve(signal: Array, gain: Array, bow: Array) -> tuple[Array, Array]:
    """Derivatives of that by the signal, (…), and by gain, offset and bow, (3, …)."""
    r = gain * signal
    bent = 1 + bow * BOW * (1 - 3 * r**2)
    return bent * gain, jnp.stack([bent * signal, jnp.ones_like(r), BOW * (r - r**3)])
