"""Stimuli that tell the most: multi-sines and prepared states, chosen by what they would say of the unknowns.

Candidates are sums of lines about the modes of the circuit as drawn, each with a spectrum and phases of its own, and
states at random. They are made as large as the ranges allow, by the model; then those are taken, one after the other,
that together have the largest determinant of information (D-optimal design, greedily). Waveforms are rounded to a
coarse grid which any converter of six bits or more plays exactly, so that the resolution of drives is no error.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.fitting import Prior, informed
from calibration.model import Given, Model, Start
from rhel_hw.bench import Kind

Array = Any
Floats = NDArray[np.float64]

CANDIDATES = 24
"""Of each sort."""
LINES = (-0.04, 0.0, 0.04)
"""About every mode, relative: the modes of a chip are not where they are drawn."""
PEAK = 0.6
"""Largest response, in full scales, that is aimed at."""
LOUDEST = 0.9
"""Largest waveform, in full scales of the drive."""
GRID = 32
"""Levels of waveforms on either side of zero."""
NARROWINGS = 8
"""Rounds in which amplitudes are found."""


@dataclass(frozen=True, eq=False)
class Stimuli:
    """What passes are told, and how much of it."""

    waves: Floats
    """Of driven passes, (steps, drives, runs), in full scales of the drives."""
    starts: Floats
    """Of free passes: positions, then momenta of all nodes that can be prepared, in full scales, (2, nodes, runs)."""

    def scaled(self, factor: Any) -> Stimuli:
        """The same so many times larger, by one factor or one for each run."""
        factors = np.broadcast_to(factor, self.count)
        driven = self.waves.shape[2]
        return Stimuli(self.waves * factors[:driven], self.starts * factors[driven:])

    def chosen(self, runs: list[int]) -> Stimuli:
        """Some of them."""
        driven = self.waves.shape[2]
        first, second = [r for r in runs if r < driven], [r - driven for r in runs if r >= driven]
        return Stimuli(self.waves[:, :, first], self.starts[:, :, second])

    @property
    def count(self) -> int:
        """Number of passes."""
        return int(self.waves.shape[2] + self.starts.shape[2])

    def voiced(self, model: Model) -> Floats:
        """Waveforms in SI, on a coarse grid."""
        return np.round(self.waves * GRID) / GRID * model.drive_scales[:, None]

    def prepared(self, model: Model) -> list[Start]:
        """States in SI."""
        scales = _scales(model)
        return [
            tuple(
                {n: float(v * s) for n, v, s in zip(model.bench.nodes, half[:, run], scale, strict=True) if s > 0}
                for half, scale in zip(self.starts, scales, strict=True)
            )  # type: ignore[misc]
            for run in range(self.starts.shape[2])
        ]

    def given(self, model: Model) -> Given:
        """The same as the model takes it."""
        return model.given(self.voiced(model), self.prepared(model))


def _scales(model: Model) -> Floats:
    """Full scales of positions and momenta at the nodes that can be prepared, (2, nodes); zero where none is read."""
    found = {(c.kind, c.node): c.full_scale for c in model.channels}
    kinds = (Kind.POSITION, Kind.MOMENTUM)
    return np.array([[found.get((kind, node), 0.0) for node in model.bench.nodes] for kind in kinds])


def optimal(model: Model, prior: Prior, noise: Floats, steps: int, driven: int, free: int, seed: int = 0) -> Stimuli:
    """So many driven and free passes that tell the most, by the model of the bench as drawn.

    Arguments:
        model: of the design on the bench.
        prior: what is known before.
        noise: of the channels in full scales, (channels,).
        steps: of every pass.
        driven: how many passes are driven from rest; none if there is no drive.
        free: how many are left alone from a prepared state; none if the bench cannot prepare.
        seed: of the candidates.
    """
    candidates = _ranged(model, _candidates(model, steps, np.random.default_rng(seed)))
    used = np.ones((steps + 1, len(model.channels)), bool)
    used[-1, [c.kind is not Kind.MOMENTUM for c in model.channels]] = False
    device = model.device_count
    known = prior.information[:device]
    scale = np.where(known > 0, 1 / np.sqrt(np.where(known > 0, known, 1.0)), 0.0)
    each = informed(model, candidates.given(model), prior.mean[:, 0], noise, used) * np.outer(scale, scale)
    wanted = [driven if candidates.waves.shape[2] else 0, free if candidates.starts.shape[2] else 0]
    chosen: list[int] = []
    total = np.eye(device)
    while sum(wanted) > 0:
        gains = [np.linalg.slogdet(total + one)[1] for one in each]
        order = [int(r) for r in np.argsort(gains)[::-1] if r not in chosen]
        best = next(r for r in order if wanted[r >= candidates.waves.shape[2]] > 0)
        wanted[best >= candidates.waves.shape[2]] -= 1
        total = total + each[best]
        chosen.append(best)
    return candidates.chosen(sorted(chosen))


def _candidates(model: Model, steps: int, rng: np.random.Generator) -> Stimuli:
    times = (np.arange(steps) + 0.5) * model.design.step_s
    modes = np.abs(model.design.frequencies_hz)
    modes = modes[modes > 1e-6 * modes.max()]
    lines = np.concatenate([modes * (1 + offset) for offset in LINES])
    runs = CANDIDATES if model.drives else 0
    strengths = rng.uniform(0, 1, (len(lines), len(model.drives), runs))
    phases = rng.uniform(0, 2 * np.pi, strengths.shape)
    waves = np.zeros((steps, len(model.drives), runs))
    for line, strength, phase in zip(lines, strengths, phases, strict=True):
        waves += strength * np.sin(2 * np.pi * line * times[:, None, None] + phase)
    peaks = np.max(np.abs(waves), axis=(0, 1), initial=1e-30)
    starts = rng.uniform(-1, 1, (2, len(model.bench.nodes), CANDIDATES if model.bench.nodes else 0))
    return Stimuli(LOUDEST * waves / peaks, PEAK * starts * (_scales(model) > 0)[:, :, None])


def _ranged(model: Model, stimuli: Stimuli) -> Stimuli:
    """The same, made smaller until the circuit as drawn stays within its ranges; never larger."""
    factors = np.full(stimuli.count, 1.0)
    for _ in range(NARROWINGS):
        peaks = np.asarray(_peaks(model, stimuli.scaled(factors).given(model)))
        peaks = np.where(np.isfinite(peaks), peaks, 100 * PEAK)
        if np.all(peaks <= 1.2 * PEAK):
            break
        factors *= np.clip(PEAK / np.maximum(peaks, 1e-30), 0.01, 1.0)
    return stimuli.scaled(factors)


@partial(jax.jit, static_argnums=0)
def _peaks(model: Model, given: Given) -> Array:
    return jnp.max(jnp.abs(model.simulated(jnp.asarray(model.ideal)[:, None], given)), axis=(0, 1, 3))
