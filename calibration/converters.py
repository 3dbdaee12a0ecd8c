"""Readout channels: gain, offset, bow, noise floor and effective bits, from states that the bench prepares.

Passes of one step start from levels that go through whole periods of a sine, so that every channel reads a sine of
known size: a sine fit with four parameters has amplitude, offset and what is no sine, a histogram over the levels has
the integral nonlinearity. What follows is where the identification of the whole bench begins.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.findings import Finding
from calibration.fitting import Experiment
from calibration.model import Model
from calibration.probe import Probe
from calibration.sinefit import deviation, sine_fit
from rhel_hw.bench import Kind
from rhel_hw.converters import BOW

Floats = NDArray[np.float64]

LEVELS, PERIODS = 64, 13
"""Of the sine: they have no common factor, so that all levels differ."""
REACH = 0.9
"""Amplitude in full scales: errors of gain and offset do not bring it out of the range."""
DEAD = 0.2
"""Gain below which a channel reads nothing."""
BINS = 16
"""Of the histogram."""


@dataclass(frozen=True, eq=False)
class Readout:
    """What every channel makes of known levels, (channels, chips) each; NaN where none could be prepared."""

    gain: Floats
    offset: Floats
    """In full scales, as all that follows."""
    bow: Floats
    noise: Floats
    """Root mean square of what is neither gain, offset nor bow: noise and resolution together."""
    effective_bits: Floats
    """Of the sine fit, in which bow counts as error."""
    nonlinearity: Floats
    """Deviation from a straight line, by level: (bins, channels, chips)."""
    experiments: tuple[Experiment, ...]

    def findings(self, model: Model) -> list[Finding]:
        """Channels that do not read."""
        found = []
        for i, channel in enumerate(model.channels):
            for chip in np.flatnonzero(self.gain[i] < DEAD):
                found.append(
                    Finding(
                        f"channel {channel.name} of chip {chip}",
                        f"it reads {self.gain[i, chip]:.2g} times what was prepared, so it is dead",
                        "check its probe and its wiring, or leave it out of the bench's channels",
                    )
                )
        return found


def measure(probe: Probe) -> Readout:
    """Prepare levels, and see what is read."""
    model = probe.model
    turns = (PERIODS * np.arange(LEVELS) + 0.37) / LEVELS
    levels = [float(level) for level in REACH * np.sin(2 * np.pi * turns)]
    shape = (len(model.channels), model.bench.chips)
    found = {name: np.full(shape, np.nan) for name in ("gain", "offset", "bow", "noise", "effective_bits")}
    bent = np.full((BINS, *shape), np.nan)
    experiments = []
    for kind in (Kind.POSITION, Kind.MOMENTUM):
        if not any(c.kind is kind and c.node in model.bench.nodes for c in model.channels):
            continue
        experiment = probe.levels(kind, levels)
        experiments.append(experiment)
        signals = np.asarray(model.simulated(jnp.asarray(model.ideal)[:, None], experiment.given))[0, :, :, 0]
        for i in np.flatnonzero(experiment.used[0].any(axis=(1, 2))):
            read, used = experiment.read[0, i], experiment.used[0, i]
            for chip in range(shape[1]):
                own = used[:, chip]
                if np.count_nonzero(own) < LEVELS // 2:
                    continue
                values = _curve(signals[i, own], read[own, chip])
                fitted = sine_fit(np.arange(LEVELS)[own], read[own, chip], PERIODS / LEVELS)
                values["effective_bits"] = float(fitted.effective_bits(1.0))
                for name, value in values.items():
                    found[name][i, chip] = value
                bent[:, i, chip] = deviation(signals[i, own], read[own, chip], BINS)
    return Readout(**found, nonlinearity=bent, experiments=tuple(experiments))


def _curve(levels: Floats, read: Floats) -> dict[str, float]:
    """Gain, offset and bow by least squares, and what is left."""
    columns = np.stack([levels, np.ones_like(levels), BOW * (levels - levels**3)], axis=1)
    found = np.linalg.lstsq(columns, read, rcond=None)[0]
    left = np.sqrt(np.sum((read - columns @ found) ** 2) / (len(read) - 3))
    return dict(zip(("gain", "offset", "bow", "noise"), (*map(float, found), float(left)), strict=True))
