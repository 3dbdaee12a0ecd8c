"""Stimuli for circuits that nobody told what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design
from circuits.state import sample_drives
from devices import ArgumentError, Drive

LINES = 32
"""Number of spectral lines of a band-limited stimulus."""


AMPLITUDE = 0.1
"""Root mean square of band-limited noise, in the design's own units."""
KICK = 0.3
"""Momentum given to the first coordinate of a circuit that nothing else moves, dimensionless."""


@dataclass(frozen=True, eq=False)
class Stimulus:
    """What makes a circuit move."""

    waveforms: dict[str, NDArray[np.float64]]
    """In SI by drive, one value per step; a drive that is not named is silent."""
    state: tuple[Any, Any]
    """Positions and momenta at the start, dimensionless."""
    words: str


def stimulus(
    design: Design, *, seed: int = 0, lane: int = 0, own: bool = True, amplitude: float = AMPLITUDE
) -> Stimulus:
    """The design's own stimulus, or one that makes it move; `own = False` prefers noise on the drives.

    Noise of the same seed differs from lane to lane.
    """
    state = design.initial_state()
    initial, drives = design.netlist.initial, design.netlist.drives
    if own and any(d.waveform for d in drives):
        return Stimulus(sample_drives(design), state, "the design's own waveforms")
    moving = initial.positions or initial.momenta or initial.velocities
    if moving and (own or not drives):
        return Stimulus({}, state, "the design's own initial state")
    if drives:
        words = f"band-limited noise on every drive, seed {seed}"
        return Stimulus(band_limited(design, seed=seed, lane=lane, amplitude=amplitude), state, words)
    q, p = state
    words = f"a kick to {design.hamiltonian.names[0]} (the design has neither drive nor initial state)"
    return Stimulus({}, (q, p.at[0].add(KICK)), words)


def band_limited(
    design: Design, *, seed: int = 0, lane: int = 0, amplitude: float = AMPLITUDE
) -> dict[str, NDArray[np.float64]]:
    """Seeded noise on every drive inside the band of the circuit's modes, in SI: (steps,) by drive name.

    `amplitude` is the root mean square in the design's own units; each waveform is a sum of equally strong lines with
    random phases. Lanes of one seed are independent.
    """
    if seed < 0:
        raise ArgumentError(f"Argument `seed` must be at least 0, but is {seed}")
    rng = np.random.default_rng([seed, lane] if lane else seed)
    rates = np.abs(design.frequencies_hz)
    band = rates[rates > 1e-9 * rates.max()]
    low, high = float(band.min()), float(band.max())
    times = (np.arange(design.steps) + 0.5) * design.step_s
    waves = {}
    for drive in design.netlist.drives:
        lines = rng.uniform(low, high, LINES)
        phases = rng.uniform(0, 2 * np.pi, LINES)
        wave = np.zeros(design.steps)
        for line, phase in zip(lines, phases, strict=True):
            wave += np.sin(2 * np.pi * line * times + phase)
        waves[drive.name] = amplitude * natural(design, drive) * wave * np.sqrt(2 / LINES)
    return waves


def natural(design: Design, drive: Drive) -> float:
    """Size of a waveform, in SI, that is one in the design's own units."""
    reach = [i.reach for i in design.assembly.inputs if i.drive.name == drive.name and i.function == "value"]
    return 1 / max(reach) if reach else design.assembly.units.scale(drive.unit)
