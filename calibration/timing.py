"""Latency of the turn and skew of the inputs, by correlation of records that should be alike.

*Skew.* A state at rest has nothing to be turned: its echo is the response to the reversed and conjugated waveform, late
by the skew. A free pass that plays that waveform is the reference. A drive holds its value over a step, so one that is
late by a fraction f of a step gives (1 − f) of this step's impulse and f of the one before: the response of a linear
circuit is interpolated just so, and f follows by least squares. Every waveform comes with both signs, of which half the
difference counts: offsets drop out. Where only every D-th step is read, the reference is played D times, later by one
step each, so that all its samples are seen.

*Latency.* The echo of a prepared state goes back along the free pass from where the latency has taken it. The free pass
is that of the model, which goes on beyond the end. Errors of the turn disturb this: `calibration.turn` fits them
together, from here on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from calibration.excitation import LOUDEST, PEAK, Stimuli
from calibration.findings import Finding
from calibration.identify import Identified
from calibration.model import Given, Model, Start
from calibration.probe import Probe
from rhel_hw.bench import Kind, Shot

Array = Any
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STEPS = 256
"""Of a record from which skew is read, at most."""
WAVES = 4
"""Waveforms, each with both signs."""
PART = 8
"""The largest skew that is looked for is this part of the record."""
FREE = 48
"""Steps of a pass that is echoed for its latency, at most."""
STATES = 3
"""Prepared states that are echoed."""
GRID = 20
"""Latencies per step that are tried."""
SURE = 3.0
"""Deviations within which a number is that of an ideal bench."""
ROUNDING = 1e-6
"""And the same in steps, factors and radians, below which no bench is any better."""
NARROWINGS = 4
"""Rounds in which amplitudes are found."""


@dataclass(frozen=True)
class Timing:
    """When things happen at an echo: one number each, as all chips share the clock of the converters."""

    step_s: float
    latency_s: float = 0.0
    """Between the end of the free pass and the turn."""
    latency_deviation_s: float = 0.0
    skew_s: float = 0.0
    """By which reversed drives and nudges come too late."""
    skew_deviation_s: float = 0.0
    findings: tuple[Finding, ...] = ()

    @property
    def latency(self) -> float:
        """In steps."""
        return self.latency_s / self.step_s

    @property
    def skew(self) -> float:
        """In steps."""
        return self.skew_s / self.step_s

    @property
    def ideal(self) -> bool:
        """Whether nothing is late."""
        return self.latency_s == 0 and self.skew_s == 0


def measure(probe: Probe, identified: Identified, *, seed: int = 0) -> Timing:
    """Skew, and a first guess of the latency."""
    step, rng, findings = probe.model.design.step_s, np.random.default_rng(seed), []
    skew = _skew(probe, identified, rng)
    if skew is None:
        findings.append(
            Finding(
                "skew",
                "it was not measured: there is neither a target nor a drive of one parity",
                "add a target, or drive one quadrature of a resonator only",
                fatal=False,
            )
        )
        skew = 0.0, np.inf
    latency = _latency(probe, identified, rng)
    if latency is None:
        findings.append(
            Finding(
                "latency",
                "there is no first guess of it: no node can be prepared",
                "let the bench prepare at least one node",
                fatal=False,
            )
        )
        latency = 0.0, np.inf
    (late, unsure), (skewed, vague) = latency, skew
    return Timing(step, snapped(late, unsure) * step, unsure * step, snapped(skewed, vague) * step, vague * step,
                  tuple(findings))  # fmt: skip


def snapped(value: Any, deviation: Any, ideal: Any = 0.0) -> Any:
    """Values, but for those that an ideal bench could have as well."""
    off = np.abs(np.subtract(value, ideal))
    found = np.where((off < SURE * np.asarray(deviation)) | (off < ROUNDING), ideal, value)
    return float(found) if np.ndim(found) == 0 else found


def combined(values: Floats, deviations: Floats) -> tuple[float, float]:
    """One number from those of all chips, (chips,), and its deviation: more if they differ too much."""
    weights = 1 / np.maximum(deviations, 1e-12) ** 2
    mean = float(np.sum(weights * values) / np.sum(weights))
    spread = np.sum(weights * (values - mean) ** 2) / max(len(values) - 1, 1)
    return mean, float(np.sqrt(max(1.0, spread) / np.sum(weights)))


# Skew -----------------------------------------------------------------------------------------------------------------


def _skew(probe: Probe, identified: Identified, rng: np.random.Generator) -> tuple[float, float] | None:
    """In steps, with its deviation; None if nothing can be played."""
    model, every = probe.model, probe.model.bench.decimation
    steps = min(max(STEPS, 16 * every), model.design.steps)
    reach = steps // PART
    signs = _parities(model)
    nudged = not np.any(signs)
    names = tuple(t.name for t in model.design.netlist.targets) if nudged else model.drives
    if not names:
        return None
    waves = multi_sines(model, steps, reach, len(names), rng) * (1 if nudged else np.abs(signs)[:, None])
    waves = ranged(model, identified.fit.x, waves, nudged=nudged)
    waves = np.concatenate([waves, -waves], axis=2)
    if nudged:
        flipped = -1.0 if model.bench.operation == "sign-flip" else 1.0
        reference = flipped * waves
    else:
        reference = (signs[:, None] * waves)[::-1]
    later = np.concatenate([np.roll(reference, j, axis=0) for j in range(every)], axis=2)  # pads are longer than D

    def shot(what: Floats, *, echo: bool) -> Shot:
        told = {name: what[:, i] for i, name in enumerate(names)}
        return Shot(steps, nudge=told, echo=echo) if nudged else Shot(steps, told, echo=echo)

    silent = {name: np.zeros((1, waves.shape[2])) for name in model.drives}
    probe.ask("rest for the skew", Shot(1, silent, hold=True))
    echo, seen = probe.ask("echoes at rest", shot(waves, echo=True))
    free, known = probe.ask("references of the skew", shot(later, echo=False))
    noise = noise_of(identified)[:, None]
    echo, seen = _odd(echo / noise, seen)
    free, known = _odd(free / noise, known)
    if model.bench.operation == "sign-flip":
        echo *= np.where([c.kind is Kind.MOMENTUM for c in model.channels], -1.0, 1.0)[:, None, None]
    whole, there = _unfolded(free, known, WAVES, every)
    return _delay(echo, seen, whole, there, reach)


def _parities(model: Model) -> Floats:
    """By what a drive's reversed waveform is multiplied to be what the echo has, (drives,); 0: no waveform is."""
    found = []
    for drive in model.design.netlist.drives:
        own = {i.parity for i in model.lossy.assembly.inputs if i.drive.name == drive.name and abs(i.weight) > 0}
        found.append(float(drive.parity * own.pop()) if len(own) == 1 else 0.0)
    return np.array(found)


def multi_sines(model: Model, steps: int, pad: int, count: int, rng: np.random.Generator) -> Floats:
    """Multi-sines about the modes, silent for `pad` steps at either end, (steps, count, waves), at most one."""
    modes = np.abs(model.design.frequencies_hz)
    modes = modes[modes > 1e-6 * modes.max()]
    lines = (modes * rng.uniform(0.8, 1.25, (WAVES, len(modes)))).T[:, None]
    phases = rng.uniform(0, 2 * np.pi, (len(modes), count, WAVES))
    times = (np.arange(steps) + 0.5)[:, None, None, None] * model.design.step_s
    waves = np.sum(np.sin(2 * np.pi * lines * times + phases), axis=1)
    inside = np.clip((np.arange(steps) + 0.5 - pad) / (steps - 2 * pad), 0, 1)
    waves *= np.sin(np.pi * inside)[:, None, None] ** 2
    return np.asarray(waves / np.max(np.abs(waves), axis=(0, 1)))


def ranged(model: Model, x: Floats, waves: Floats, *, nudged: bool) -> Floats:
    """Waveforms in SI as large as the ranges allow, by the model."""
    scales = 0.1 * model.impulses if nudged else LOUDEST * model.drive_scales
    waves = waves * scales[:, None]
    for _ in range(NARROWINGS):
        given = model.given(np.zeros((len(waves), len(model.drives), waves.shape[2])) if nudged else waves)
        peaks = np.asarray(_peaks(model, given._replace(nudges=waves if nudged else None), x))
        factor = PEAK / np.maximum(np.where(np.isfinite(peaks), peaks, 100 * PEAK), 1e-30)
        if np.all(np.abs(np.where(nudged, factor, np.minimum(factor, 1)) - 1) < 0.2):
            break
        waves = waves * np.clip(factor, 0.01, 100.0 if nudged else 1.0)
    return np.asarray(waves)


@partial(jax.jit, static_argnums=0)
def _peaks(model: Model, given: Given, x: Array) -> Array:
    return jnp.max(jnp.abs(model.simulated(x, given)), axis=(0, 1, 3))


def noise_of(identified: Identified) -> Floats:
    """Of the channels in full scales, (channels, chips): as identified, but never nothing."""
    return np.maximum(np.nan_to_num(identified.fit.noise, nan=1e-2), 1e-9)


def _odd(records: Floats, used: Flags) -> tuple[Floats, Flags]:
    """Half the difference of runs of either sign; shifted copies come in the same order."""
    samples, channels, runs, chips = records.shape
    pairs = records.reshape(samples, channels, -1, 2, WAVES, chips)
    both = used.reshape(pairs.shape).all(axis=3)
    half = (pairs[:, :, :, 0] - pairs[:, :, :, 1]) / 2
    shape = (samples, channels, runs // 2, chips)
    return half.reshape(shape), both.reshape(shape)


def _unfolded(records: Floats, used: Flags, waves: int, every: int) -> tuple[Floats, Flags]:
    """All samples of references that were read every so many steps, later by a step each."""
    samples, channels, _, chips = records.shape
    whole = np.zeros((samples, channels, waves, chips))
    there = np.zeros(whole.shape, bool)
    for j in range(every):
        own = slice(j * waves, (j + 1) * waves)
        late = used[j:, :, own]
        whole[: samples - j] = np.where(late, records[j:, :, own], whole[: samples - j])
        there[: samples - j] |= late
    return whole, there


def _delay(echo: Floats, seen: Flags, free: Floats, known: Flags, reach: int) -> tuple[float, float]:
    """By how many steps one record comes later than the other, and the deviation of that.

    Records are (samples, channels, runs, chips), in units of their noise; before its start there is nothing.
    """
    samples = len(echo)

    def later(m: int) -> tuple[Floats, Flags]:
        places = np.arange(samples) - m
        inside = np.clip(places, 0, samples - 1)
        before = (places < 0).reshape(-1, 1, 1, 1)
        return np.where(before, 0.0, free[inside]), np.where(before, True, known[inside])

    # Samples that every delay has: the last ones may come from beyond the reference.
    shifted = {m: later(m) for m in range(-reach - 1, reach + 3)}
    counted = seen & np.all([there for _, there in shifted.values()], axis=0)
    counted[samples - reach - 2 :] = False
    best, found = np.inf, (0.0, np.inf)
    for m in range(-reach, reach + 1):
        left = np.where(counted, echo - shifted[m][0], 0.0)
        slope = np.where(counted, shifted[m + 1][0] - shifted[m][0], 0.0)
        power = np.maximum(np.sum(slope**2, axis=(0, 1, 2)), 1e-300)
        parts = np.sum(left * slope, axis=(0, 1, 2)) / power
        common = float(np.clip(np.sum(parts * power) / np.sum(power), 0, 1))
        cost = float(np.sum((left - common * slope) ** 2))
        if cost < best:
            squares = np.sum((left - parts * slope) ** 2, axis=(0, 1, 2))
            count = np.maximum(np.sum(counted, axis=(0, 1, 2)) - 1, 1)
            # The reference is as noisy as the echo, and is in both factors of the sums: that much is no slope.
            noise = squares / (1 + (1 - parts) ** 2 + parts**2)
            parts = (parts * power - noise) / np.maximum(power - 2 * noise, power / 2)
            best, found = cost, combined(m + parts, np.sqrt(squares / count / power))
    return found


# Latency --------------------------------------------------------------------------------------------------------------


def random_states(model: Model, count: int, size: float, rng: np.random.Generator) -> list[Start]:
    """States in SI with every position and momentum that can be prepared and is read within so many full scales."""
    starts = size * rng.uniform(-1, 1, (2, len(model.bench.nodes), count))
    return Stimuli(np.zeros((1, len(model.drives), 0)), starts).prepared(model)


def echoes(
    probe: Probe, purpose: str, starts: Sequence[Start], free: int, steps: int, **options: Any
) -> tuple[Floats, Flags]:
    """Undriven echoes of prepared states, one after the other: (steps + 1, channels, states, chips)."""
    found = []
    for start in starts:
        probe.ask(f"{purpose}: preparation", Shot(free, start=start, hold=True))
        found.append(probe.ask(purpose, Shot(steps, echo=True, **options)))
    read, used = zip(*found, strict=True)
    return np.concatenate(read, axis=2), np.concatenate(used, axis=2)


def _latency(probe: Probe, identified: Identified, rng: np.random.Generator) -> tuple[float, float] | None:
    """In steps, with its deviation; None if no state can be prepared."""
    model, every = probe.model, probe.model.bench.decimation
    if not model.bench.nodes:
        return None
    free = min(max(FREE, 8 * every), model.design.steps)
    reach = free
    starts = random_states(model, STATES, PEAK, rng)
    read, used = echoes(probe, "echoes for the latency", starts, free, free)
    silent = np.zeros((free + reach + 2, len(model.drives), 0))
    signals, x = _signals(model, model.given(silent, starts), identified.fit.x), identified.fit.x
    path = CubicSpline(np.arange(len(signals) - 1), np.asarray(model.read(x, signals))[:-1])
    offset = np.asarray(model.readout(x)[1])
    flipped = np.array([c.kind is Kind.MOMENTUM and model.bench.operation != "sign-flip" for c in model.channels])
    first = np.array([{Kind.POSITION: 1, Kind.MOMENTUM: 0, Kind.TARGET: 2}[c.kind] for c in model.channels])
    rows, noise = np.arange(free - 1), noise_of(identified)[:, None]

    def mirrored(late: float, derivative: int = 0) -> Floats:
        """What the echo reads if it turns so many steps late."""
        found = np.zeros((len(rows), *read.shape[1:]))
        for i, back in enumerate(first):
            own = path(np.maximum(free + late - back - rows, 0.0), derivative)[:, i]
            found[:, i] = (own if derivative else own - offset[i]) * (-1 if flipped[i] else 1)
        return found / noise

    counted = used[: len(rows)]
    seen = np.where(counted, (read[: len(rows)] - offset) / noise, 0.0)

    def fitted(late: float) -> tuple[Floats, Floats]:
        """Amplitude on every chip, and what is left."""
        expected = np.where(counted, mirrored(late), 0.0)
        size = np.sum(expected * seen, axis=(0, 1, 2)) / np.maximum(np.sum(expected**2, axis=(0, 1, 2)), 1e-300)
        return size, np.sum((seen - size * expected) ** 2, axis=(0, 1, 2))

    grid = np.arange(0, reach * GRID + 1) / GRID
    costs = np.array([np.sum(fitted(late)[1]) for late in grid])
    best = int(np.argmin(costs))
    late = float(grid[best])
    size, squares = fitted(late)
    slope = np.where(counted, size * mirrored(late, 1), 0.0)
    power = np.maximum(np.sum(slope**2, axis=(0, 1, 2)), 1e-300)
    left = np.where(counted, seen - size * mirrored(late), 0.0)
    count = np.maximum(np.sum(counted, axis=(0, 1, 2)), 1)
    return combined(late + np.sum(left * slope, axis=(0, 1, 2)) / power, np.sqrt(squares / count / power))


@partial(jax.jit, static_argnums=0)
def _signals(model: Model, given: Given, x: Array) -> Array:
    return model.simulated(x, given)
