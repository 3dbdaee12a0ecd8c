"""What a bench should read in an echo: the model of its passes, and between them a turn that is not ideal.

A held state goes on undriven for the latency. Then every node's momentum is flipped with a gain (of a parametric echo
both quadratures are), (q, p) is rotated by an angle, and drives come back reversed, conjugated, and late by the skew:
docs/physics.md, section 11.2. Unknowns of the turn stand between those of the device and those of the readout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.model import Given, Model, Start, State, curved
from rhel_hw.bench import Channel
from rhel_hw.converters import delayed
from rhel_hw.dissipation import bath_of
from rhel_hw.integrators import Leapfrog

Array = Any
Floats = NDArray[np.float64]


class Told(NamedTuple):
    """What passes and their echoes were told."""

    waves: Array
    """Of the free pass, (steps, drives, runs) in SI."""
    positions: Array
    """At its start, (n, runs), dimensionless."""
    momenta: Array
    again: Array
    """Of the echo, (steps, drives, runs), as a free pass would have them: they are played backwards and conjugated."""
    both: Array
    """Whether the gain is that of both quadratures, 0 or 1."""

    @classmethod
    def of(cls, model: Model, waves: Floats, starts: Sequence[Start], again: Floats, *, both: bool = False) -> Told:
        """Of driven passes from rest, then of free ones from prepared states, which are echoed undriven."""
        given = model.given(waves, starts)
        silent = np.zeros((*again.shape[:2], len(starts)))
        return cls(*given[:3], np.concatenate([again, silent], axis=2), np.asarray(float(both)))


@dataclass(frozen=True)
class EchoModel:
    """A model of passes with the turn that follows them."""

    model: Model
    waiting: int
    """Steps that make up the latency."""

    @property
    def size(self) -> int:
        """Number of coordinates that are turned, n."""
        return int(self.model.lossy.hamiltonian.size)

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.model.lossy.hamiltonian.names)

    @cached_property
    def parts(self) -> dict[str, slice]:
        """Where unknowns of the turn are: logarithms of gains, angles, latency and skew in steps."""
        ends = np.cumsum((self.model.device_count, self.size, self.size, 1, 1))
        keys = ("gains", "angles", "latency", "skew")
        return {key: slice(int(a), int(b)) for key, a, b in zip(keys, ends, ends[1:], strict=False)}

    @property
    def turn(self) -> slice:
        """Where all unknowns of the turn are."""
        return slice(self.parts["gains"].start, self.parts["skew"].stop)

    @property
    def flips(self) -> bool:
        """Whether momenta are flipped; otherwise all signs of the energy are."""
        return self.model.bench.operation != "sign-flip"

    def joined(self, x: Array, turn: Array) -> Array:
        """Unknowns of the model, (…, chips), with those of the turn, (2n + 2, chips), among them."""
        device = self.model.device_count
        return np.concatenate([x[:device], turn, x[device:]])

    # As `calibration.fitting` wants it -------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        """Of all unknowns, in their order."""
        device, nodes = self.model.device_count, self.nodes
        turn = [f"turn.{node}.{what}" for what in ("gain", "angle") for node in nodes]
        return (*self.model.names[:device], *turn, "turn.latency", "turn.skew", *self.model.names[device:])

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Wired channels."""
        return self.model.channels

    @property
    def device_count(self) -> int:
        """Number of unknowns that a simulation depends on."""
        return int(self.turn.stop)

    def readout(self, x: Array) -> Array:
        """Gains, offsets and bows, (3, channels, 1, chips)."""
        return x[self.device_count :].reshape(3, len(self.channels), 1, -1)

    def read(self, x: Array, signals: Array) -> Array:
        """What channels read, in full scales, of signals (samples, channels, runs, chips) in full scales."""
        return curved(signals, *self.readout(x))

    def simulated(self, x: Array, given: Told) -> Array:
        """Signals of the echo at all channels over their full scales, (steps + 1, channels, runs, chips)."""
        return self.echoed(x, given)[1]

    # Passes ----------------------------------------------------------------------------------------------------------

    def echoed(self, x: Array, told: Told, trim: Array | None = None) -> tuple[Array, Array]:
        """Signals of the free pass and of its echo; a trim (2, n, chips) has angles and factors."""
        model, chips = self.model, x.shape[-1]
        waves = model.played(x, told.waves) if model.drives else told.waves[..., None]
        start = model.started(Given(told.waves, told.positions, told.momenta), chips)
        state, free = model.passed(x, start, model.inputs(waves))
        integrals = model.design.step_s * jnp.sum(waves, axis=0)
        state = self.turned(x, self._waited(x, state, integrals), told.both, trim)
        return free, self._after(x, state, told.again, integrals)

    def held(self, x: Array, told: Told) -> State:
        """The state right after the turn."""
        model = self.model
        waves = model.played(x, told.waves) if model.drives else told.waves[..., None]
        start = model.started(Given(told.waves, told.positions, told.momenta), x.shape[-1])
        state, _ = model.passed(x, start, model.inputs(waves))
        integrals = model.design.step_s * jnp.sum(waves, axis=0)
        return self.turned(x, self._waited(x, state, integrals), told.both)

    def turned(self, x: Array, state: State, both: Array, trim: Array | None = None) -> State:
        """A state (n, runs, chips) turned round, and trimmed."""
        q, p = state
        gain = jnp.exp(x[self.parts["gains"]])[:, None]
        q, p = jnp.where(both > 0, gain * q, q), (-gain if self.flips else gain) * p
        q, p = _rotated(q, p, x[self.parts["angles"]][:, None])
        if trim is not None:
            angle, factor = trim[:, :, None]
            q, p = _rotated(q, p, angle)
            q, p = jnp.where(both > 0, factor * q, q), factor * p
        return q, p

    def after(self, x: Array, state: State, again: Array) -> Array:
        """Signals of an echo from the state right after the turn, if nothing was driven before."""
        return self._after(x, state, again, jnp.zeros((again.shape[1], 1, 1)))

    def _after(self, x: Array, state: State, again: Array, integrals: Array) -> Array:
        model, energy = self.model, self.model.lossy.hamiltonian
        if not model.drives:
            inputs = jnp.zeros((again.shape[0], 0, 1, 1))
        else:
            parity = jnp.asarray([d.parity for d in model.design.netlist.drives], float).reshape(-1, 1)
            waves = _late(model.played(x, parity * again[::-1]), x[self.parts["skew"]][0])
            inputs = model.inputs(waves, jnp.broadcast_to(integrals, waves.shape[1:]))
            if self.flips:
                inputs = jnp.asarray(energy.input_parity, float).reshape(-1, 1, 1) * inputs
        return model.passed(x, state, inputs, time=1.0 if self.flips else -1.0)[1]

    def _waited(self, x: Array, state: State, integrals: Array) -> State:
        """A state after the latency, undriven but for what voltages have left and drives play when they are silent."""
        model, energy = self.model, self.model.lossy.hamiltonian
        prepared = energy.prepare(model.theta(x))
        step = model.lossy.step * x[self.parts["latency"]][0] / self.waiting
        bath = bath_of(energy, prepared, step / 2) if energy.lossy else lambda state: state
        idle = model.inputs(jnp.zeros((1, *jnp.broadcast_shapes(integrals.shape))), integrals)[0]
        idle = jnp.broadcast_to(idle, (idle.shape[0], *state[0].shape[1:]))

        def advance(state: State, _: None) -> tuple[State, None]:
            q, p = bath(state)
            q, p, _inside = Leapfrog().step(energy, q, p, prepared, idle, step)
            return bath((q, p)), None

        return jax.lax.scan(advance, state, None, length=self.waiting)[0]


def _rotated(q: Array, p: Array, angle: Array) -> State:
    c, s = jnp.cos(angle), jnp.sin(angle)
    return c * q + s * p, c * p - s * q


def _late(waves: Array, steps: Array) -> Array:
    """Waveforms (steps, drives, runs, chips) that come later on every chip by its own number of steps."""
    shift = jax.vmap(partial(delayed, silent=False), in_axes=(-1, 0), out_axes=-1)
    return shift(waves, jnp.broadcast_to(steps, waves.shape[-1:]))
