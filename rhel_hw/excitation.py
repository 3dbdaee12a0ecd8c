"""Stimuli for circuits that nobody told what to do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circuits import Design
from devices import ArgumentError

LINES = 32
"""Number of spectral lines of a band-limited stimulus."""


def band_limited(design: Design, *, seed: int = 0, amplitude: float = 0.1) -> dict[str, NDArray[np.float64]]:
    """Seeded noise on every drive inside the band of the circuit's modes, in SI: (steps,) by drive name.

    `amplitude` is the root mean square in the design's own units; each waveform is a sum of equally strong lines with
    random phases.
    """
    if seed < 0:
        raise ArgumentError(f"Argument `seed` must be at least 0, but is {seed}")
    rng = np.random.default_rng(seed)
    band = design.frequencies_hz[design.frequencies_hz > 0]
    low, high = float(band[0]), float(band[-1])
    times = (np.arange(design.steps) + 0.5) * design.step_s
    waves = {}
    for drive in design.netlist.drives:
        lines = rng.uniform(low, high, LINES)
        phases = rng.uniform(0, 2 * np.pi, LINES)
        wave = np.sum(np.sin(2 * np.pi * lines[:, None] * times + phases[:, None]), axis=0)
        waves[drive.name] = amplitude * design.assembly.units.scale(drive.unit) * wave * np.sqrt(2 / LINES)
    return waves
