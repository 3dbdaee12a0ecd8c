"""Benches with errors that are known, and unknowns of the model that describe them."""

from dataclasses import replace
from typing import Any

import numpy as np

from calibration.excitation import Stimuli
from calibration.fitting import Fit
from calibration.identify import Identified, prior_of
from calibration.model import QUALITY, Model
from calibration.timing import multi_sines
from circuits import Design
from rhel_hw import EmulatedBench, Lesson, Profile
from rhel_hw.bench import Shot
from rhel_hw.truth import gradients_as_made

ERRORS: dict[str, Any] = {
    "fabrication": {"mismatch": 0.05},
    "dynamics": {"quality": 1000.0},
    "readout": {"bits": 8, "gain_spread": 0.02, "offset": 0.01},
    "drive": {"bits": 8, "gain": 1.02, "offset": 0.01},
}
IDEAL: dict[str, Any] = {"fabrication": {}, "dynamics": {}, "readout": {}, "drive": {}}
"""None of them."""


def bench_of(design: Design, chips: int = 2, seed: int = 1, **changes: Any) -> EmulatedBench:
    return EmulatedBench(design, Profile.of({**ERRORS, **changes}), seed=seed, chips=chips)


def true_values(bench: EmulatedBench, model: Model):
    """Over the size of what is drawn, (values, chips)."""
    true, drawn = bench.true_theta(), model.design.assembly
    by_name = {e.name: e for e in drawn.entries}
    entries = [by_name[v.name] for v in model.values]
    return np.array([true[e.key][e.index] / abs(drawn.theta[e.key][e.index]) for e in entries])


def true_unknowns(bench: EmulatedBench, model: Model, losses: Any = 0.0, drive: Any = (1.0, 0.0, 0.0)):
    """Unknowns of the model for a bench with an ideal readout, (unknowns, chips); losses in those at `QUALITY`."""
    x = np.repeat(model.ideal[:, None], bench.describe().chips, axis=1)
    true, drawn = true_values(bench, model), np.array([model.scale(i, 0.0) for i in range(len(model.values))])
    signed = np.array([model.scale(i, 1.0) != np.exp(1.0) for i in range(len(model.values))])[:, None]
    with np.errstate(invalid="ignore"):
        x[model.parts["values"]] = np.where(signed, true - drawn[:, None], np.log(true))
    x[model.parts["losses"]] = losses
    x[model.parts["drives"]] = np.repeat(drive, len(model.drives))[:, None]
    return x


def known_of(bench: EmulatedBench, model: Model, spread: float = 3e-4, seed: int = 5) -> Identified:
    """What identification would have found of a bench with `ERRORS`, if it were right within a spread: much sooner."""
    chips = bench.describe().chips
    x = np.repeat(model.ideal[:, None], chips, axis=1)
    true, drawn = true_values(bench, model), np.array([model.scale(i, 0.0) for i in range(len(model.values))])
    signed = np.array([model.scale(i, 1.0) != np.exp(1.0) for i in range(len(model.values))])[:, None]
    with np.errstate(invalid="ignore"):
        x[model.parts["values"]] = np.where(signed, true - drawn[:, None], np.log(true))
    profile = bench.profile
    x[model.parts["losses"]] = QUALITY / profile.dynamics.quality
    count = len(model.drives)
    x[model.parts["drives"]] = np.repeat([profile.drive.gain, profile.drive.offset, 0.0], count)[:, None]
    gains = 1 + bench._front.knobs(Shot(1)).get("readout.gain_spread", np.zeros((1, 1, 1)))[:, 0]
    order = [list(bench.describe().channels).index(c.name) for c in model.channels] if len(gains) > 1 else [0]
    own = x[model.parts["readout"]].reshape(3, len(model.channels), chips)
    own[0], own[1] = gains[order], profile.readout.offset
    wide = np.full(len(model.names), spread)
    wide[model.parts["losses"]] = 100 * spread
    rng = np.random.default_rng(seed)
    x = x + wide[:, None] * rng.normal(size=x.shape)
    covariance = np.repeat(np.diag(wide**2)[None], chips, axis=0)
    information = np.repeat(np.diag(1 / np.maximum(wide, 1e-12) ** 2)[None], chips, axis=0)
    bits = profile.readout.bits
    coded = 0.0 if bits is None else 2 / 2**bits / np.sqrt(12)
    noise = np.full((len(model.channels), chips), np.hypot(coded, profile.readout.noise))
    fit = Fit(x, covariance, information, noise, np.ones_like(noise), np.ones(chips, bool))
    steps = model.design.steps
    waves = 0.5 * multi_sines(model, steps, 0, count, rng)[:, :, :2] if count else np.zeros((steps, 0, 2))
    stimuli = Stimuli(waves, rng.uniform(-0.5, 0.5, (2, len(model.bench.nodes), 2)))
    return Identified(model, fit, prior_of(model, None), stimuli, ())


def true_turn(bench: EmulatedBench):
    """Gains and angles of the turn, (nodes, chips)."""
    echo, chips = bench.profile.echo, bench.describe().chips
    knobs = bench._front.knobs(Shot(1, echo=True))
    spreads = [
        knobs.get(f"echo.{k}_spread", np.zeros((len(bench.describe().nodes), 1, chips)))[:, 0]
        for k in ("gain", "angle")
    ]
    return echo.gain * (1 + spreads[0]), echo.angle + spreads[1]


class Broken:
    """A bench with channels that read something else."""

    def __init__(self, bench, change):
        self.bench, self.change = bench, change
        self.describe, self.program = bench.describe, bench.program

    def run(self, shot):
        record = self.bench.run(shot)
        samples, saturated = dict(record.samples), dict(record.saturated)
        self.change(samples, saturated)
        return replace(record, samples=samples, saturated=saturated, blocks={})


def trained(design: Design, by_theta: Any):
    """Of the trainable parameters, (parameters, chips)."""
    entries = [e for e in design.assembly.entries if e.trainable]
    return np.array([np.atleast_1d(np.asarray(by_theta[e.key], float)[e.index]) for e in entries])


def true_gradient(bench: EmulatedBench, design: Design, lesson: Lesson, values: Any = None):
    """By backpropagation through chips as made, by their true parameters: (parameters, chips).

    `values` are those by which a calibrated bench divides what it programs.
    """
    chips = bench.describe().chips
    theta = {k: np.repeat(np.asarray(v, float)[:, None], chips, axis=1) for k, v in design.theta().items()}
    entries = [e for e in design.assembly.entries if e.trainable]
    factors = np.array([np.broadcast_to((values or {}).get(e.name, 1.0), (chips,)) for e in entries])
    for e, factor in zip(entries, factors, strict=True):
        theta[e.key][e.index] /= factor
    numbers = bench._chips.numbers
    _, found = gradients_as_made(design, bench.profile, lesson, seed=bench.seed, chips=numbers, theta=theta)
    return trained(design, found) / factors
