"""The converters that nudge targets: gain and offset of each, from free passes that are nudged from rest.

An offset acts at every step, relative to the largest nudge of its run, as amplifiers adapt, or to the range if the
bench says that there is one. Runs of different sizes and of either sign tell it from everything that the drives leave.
What is known of the circuit goes in with its covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.fitting import Experiment, fit, widened
from calibration.identify import CONVERTER, Identified
from calibration.model import Given, Model, curved
from calibration.probe import Probe
from calibration.timing import multi_sines, noise_of, ranged, snapped
from rhel_hw.bench import Channel, Shot

Array = Any
Floats = NDArray[np.float64]

STEPS = 96
"""Of a pass, at most; more where not every step is read."""


@dataclass(frozen=True, eq=False)
class Nudges:
    """What the converters of targets do, (targets, chips) each; exactly ideal where it could as well be."""

    targets: tuple[str, ...]
    gain: Floats
    gain_deviation: Floats
    offset: Floats
    """In units of the range, or of the largest nudge of a run."""
    offset_deviation: Floats

    @property
    def ideal(self) -> bool:
        """Whether nudges are as commanded."""
        return bool(np.all(self.gain == 1) and not np.any(self.offset))


@dataclass(frozen=True)
class NudgeModel:
    """A model of passes whose nudges have gains and offsets, before the unknowns of the readout."""

    model: Model

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of what is nudged."""
        return tuple(t.name for t in self.model.design.netlist.targets)

    @cached_property
    def own(self) -> slice:
        """Where gains are, then offsets."""
        device = self.model.device_count
        return slice(device, device + 2 * len(self.targets))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all unknowns, in their order."""
        device = self.model.device_count
        mine = [f"nudge.{name}.{what}" for what in ("gain", "offset") for name in self.targets]
        return (*self.model.names[:device], *mine, *self.model.names[device:])

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Wired channels."""
        return self.model.channels

    @property
    def device_count(self) -> int:
        """Number of unknowns that a simulation depends on."""
        return int(self.own.stop)

    def readout(self, x: Array) -> Array:
        """Gains, offsets and bows, (3, channels, 1, chips)."""
        return x[self.device_count :].reshape(3, len(self.channels), 1, -1)

    def read(self, x: Array, signals: Array) -> Array:
        """What channels read, in full scales, of signals (samples, channels, runs, chips) in full scales."""
        return curved(signals, *self.readout(x))

    def simulated(self, x: Array, given: Given) -> Array:
        """Signals at all channels over their full scales, (steps + 1, channels, runs, chips)."""
        model = self.model
        assert given.nudges is not None  # that is what it is for
        waves = model.played(x, given.waves) if model.drives else given.waves[..., None]
        gain, offset = x[self.own].reshape(2, len(self.targets), 1, -1)
        ranges = [model.bench.ranges.get(f"nudge.{name}", 0.0) for name in self.targets]
        peaks = jnp.max(jnp.abs(given.nudges), axis=0)
        scale = jnp.where(jnp.asarray(ranges)[:, None] > 0, jnp.asarray(ranges)[:, None], peaks)[..., None]
        nudges = gain * given.nudges[..., None] + offset * scale
        return model.passed(x, model.started(given, x.shape[-1]), model.inputs(waves), nudges)[1]


def measure(probe: Probe, identified: Identified, *, seed: int = 0) -> Nudges | None:
    """Nudged passes, and what explains them; None if there is no target."""
    model, every = probe.model, probe.model.bench.decimation
    system = NudgeModel(model)
    if not system.targets:
        return None
    rng = np.random.default_rng([seed, 2])
    steps = min(max(STEPS, 12 * every), max(model.design.steps, every))
    waves = multi_sines(model, steps, 0, len(system.targets), rng)
    waves = ranged(model, identified.fit.x, waves, nudged=True)
    waves = np.concatenate([waves, -0.5 * waves], axis=2)
    read, used = probe.ask("nudges", Shot(steps, nudge={name: waves[:, i] for i, name in enumerate(system.targets)}))
    silent = np.zeros((steps, len(model.drives), waves.shape[2]))
    given = model.given(silent)._replace(nudges=waves)
    count, x = len(system.targets), identified.fit.x
    ideal = np.repeat([1.0] * count + [0.0] * count, x.shape[1]).reshape(2 * count, -1)
    spread = np.full(2 * count, CONVERTER)
    known = widened(x, identified.information, identified.prior.free, system.own.start, ideal, spread)
    found = fit(system, [Experiment(given, read, used)], known, noise_of(identified), lengths=(1.0,))
    gain, offset = np.split(found.x[system.own], 2)
    unsure, vague = np.split(found.deviations[system.own], 2)
    return Nudges(system.targets, snapped(gain, unsure, 1.0), unsure, snapped(offset, vague), vague)
