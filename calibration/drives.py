"""Drive converters: noise floor and effective bits, from what identified chips read beside what they should.

Gain, offset and bow of drives are unknowns of the identification. What is left is noise and resolution: an error of its
own in every step, of variance σ_d² in full scales of drive d. Waveforms at random, off the grid of any converter, make
the resolution white. Such errors shake the chip, and the spectrum of what is read is off by

    variance(f, channel) = noise(channel)² + Σ_d σ_d²·G_d(f, channel),

where G_d is the sum over all steps of the squared response to an impulse of d. That of the readout is white, that of
the drives has the resonances of the chip, so that both are told apart, by least squares with no negative variances.
Lines of a spectrum are nearly independent of each other, while samples of a chip that goes on ringing are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from calibration.converters import LEVELS
from calibration.model import Given, Model
from calibration.probe import Probe
from devices import ArgumentError
from rhel_hw.bench import Kind

Array = Any
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RUNS = 16
"""Passes, all at once; deviations come from how they differ."""
LOUDEST = 0.5
"""Largest value of the waveforms, in full scales of the drive."""
PEAK = 0.8
"""Largest response, in full scales, that is aimed at."""
NARROWINGS = 4
"""Rounds in which that is found."""
PROBES = 8
"""Random signs, for every run its own, by which sums of squared responses are found."""
ROUNDS = 5
"""Of the search for weights, which follow from the variances that they lead to."""
LEAST = 1e-6
"""Variance of a line that is believed, over the mean of all."""
BOUND = 2.0
"""Deviations that a variance is below, for all we know; a drive whose variance is smaller than that is hidden."""


@dataclass(frozen=True, eq=False)
class Drives:
    """What is known of the drives, (drives, chips) each, σ in full scales."""

    names: tuple[str, ...]
    variance: Floats
    """σ², noise and resolution together; zero where nothing is seen of it."""
    deviation: Floats
    """Of σ²."""

    @property
    def noise(self) -> Floats:
        """σ."""
        return np.sqrt(self.variance)

    @property
    def most(self) -> Floats:
        """Upper bound of σ."""
        return np.sqrt(self.variance + BOUND * self.deviation)

    @property
    def hidden(self) -> Flags:
        """Where the readout hides it, and only the bound is known."""
        return np.asarray(self.variance < BOUND * self.deviation)

    @property
    def effective_bits(self) -> Floats:
        """Of an ideal converter with the same error; where it is hidden, there are at least so many."""
        return bits_of(np.where(self.hidden, self.most, self.noise))

    def __str__(self) -> str:
        lines = []
        for name, bits, hidden, noise in zip(self.names, self.effective_bits, self.hidden, self.noise, strict=True):
            for chip, (value, unseen, sigma) in enumerate(zip(bits, hidden, noise, strict=True)):
                text = f"at least {value:.1f} bits" if unseen else f"{value:.1f} bits, σ = {sigma:.2g} full scales"
                lines.append(f"drive {name} of chip {chip}: {text}")
        return "\n".join(lines)


def bits_of(noise: Any) -> Floats:
    """Bits of an ideal converter whose rounding has this deviation in full scales: log₂(2/(σ·√12))."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log2(2 / (np.asarray(noise) * np.sqrt(12))))


def measure(probe: Probe, x: Floats, noise: Floats, *, runs: int = RUNS, seed: int = 0) -> Drives:
    """Play waveforms at random, and see by how much more they are off than the readout is.

    Arguments:
        probe: the bench, with its model.
        x: unknowns of all chips as identified, (unknowns, chips).
        noise: of the channels in full scales as levels told it, (channels, chips); NaN where they told nothing.
        runs: passes.
        seed: of the waveforms.
    """
    if runs < 4:
        raise ArgumentError(f"Argument `runs` must be at least 4, for deviations to be known, but is {runs}")
    model, rng = probe.model, np.random.default_rng(seed)
    shape = (len(model.drives), model.bench.chips)
    if not model.drives:
        return Drives((), np.zeros(shape), np.zeros(shape))
    steps = min(model.design.steps, model.bench.longest * model.bench.decimation // runs - 1)
    waves = LOUDEST * rng.uniform(-1, 1, (steps, shape[0], runs)) * model.drive_scales[:, None]
    for _ in range(NARROWINGS):
        peak = float(np.max(np.abs(_expected(model, model.given(waves), x))))
        if peak <= 1.1 * PEAK:
            break
        waves = waves * (PEAK / peak if np.isfinite(peak) else 0.1)
    found, rows = probe.records("drive noise", waves), _rows(model, steps)
    left = found.read - np.asarray(_expected(model, found.given, x))
    used = np.asarray(np.all(found.used[rows, np.arange(len(model.channels))], axis=0))
    squares = np.where(used, np.asarray(_spectra(left, rows)), 0.0)
    signs = rng.choice([-1.0, 1.0], (PROBES, steps, runs))
    shaken = np.asarray(_shaken(model, found.given, x, signs, rows))
    variance, deviation = np.zeros(shape), np.zeros(shape)
    for chip in range(shape[1]):
        own = _Chip.of(squares[..., chip], used[..., chip], shaken[..., chip], noise[:, chip])
        variance[:, chip], deviation[:, chip] = own.solved()
    return Drives(model.drives, variance, deviation)


@dataclass(frozen=True, eq=False)
class _Chip:
    """Equations of one chip: variances of its channels come first, then those of its drives."""

    matrix: Floats
    """(rows, unknowns); rows are lines of the spectra of channels."""
    squares: Floats
    """Of what is left, (rows, runs)."""
    used: Floats
    """One where it counts."""
    known: Floats
    """Variances of the channels as levels told them, (unknowns,); zero where they did not."""
    channels: int

    @classmethod
    def of(cls, squares: Floats, used: Flags, shaken: Floats, noise: Floats) -> _Chip:
        """Of squares (lines, channels, runs), flags (channels, runs), and responses (drives, lines, channels)."""
        lines, channels, runs = squares.shape
        matrix = np.concatenate([np.tile(np.eye(channels), (lines, 1)), shaken.reshape(len(shaken), -1).T], axis=1)
        known = np.concatenate([np.where(np.isfinite(noise), noise, 0.0) ** 2, np.zeros(len(shaken))])
        each = np.tile(used.astype(float), (lines, 1))
        return cls(matrix, squares.reshape(-1, runs), each, known, channels)

    def solved(self) -> tuple[Floats, Floats]:
        """Variances of the drives, and their deviations by how runs differ."""
        runs, channels = self.squares.shape[1], self.channels
        sure = np.where(self.known > 0, (LEVELS - 3) / (2 * np.where(self.known > 0, self.known, 1.0) ** 2), 0.0)
        shaken = self.matrix[:, channels:]
        mean = np.sum(self.squares) / np.sum(self.used)
        found = self.known.copy()
        found[channels:] = mean / np.maximum(shaken.mean(axis=0), 1e-300) / len(shaken.T)
        for _ in range(ROUNDS):
            # The square of a line of variance v has the variance v². Channels keep some, or they would rule.
            expected = self.matrix @ np.maximum(found, self.known / 4)
            weight = self.used / np.maximum(expected, LEAST * mean)[:, None] ** 2
            normal = self.matrix.T @ (np.sum(weight, axis=1)[:, None] * self.matrix) + np.diag(sure)
            each = self.matrix.T @ (weight * self.squares)
            scale = 1 / np.sqrt(np.maximum(np.diagonal(normal), 1e-300))
            root = np.linalg.cholesky(normal * np.outer(scale, scale) + 1e-12 * np.eye(len(scale))).T
            wanted = np.linalg.solve(root.T, scale * (np.sum(each, axis=1) + sure * self.known))
            found = scale * nnls(root, wanted)[0]
        inverse = np.outer(scale, scale) * np.linalg.inv(root.T @ root)
        apart = np.std(runs * inverse @ each, axis=1, ddof=1) / np.sqrt(runs)
        levels = np.sum(inverse**2 * sure, axis=1)
        return found[channels:], np.sqrt(apart**2 + levels)[channels:]


@partial(jax.jit, static_argnums=0)
def _expected(model: Model, given: Given, x: Array) -> Array:
    return model.read(x, model.simulated(x, given))


def _rows(model: Model, steps: int) -> NDArray[np.intp]:
    """Which samples of every channel are read, (samples, channels), equally many of all."""
    every = model.bench.decimation
    first = np.array([every - 1 if c.kind is Kind.TARGET else 0 for c in model.channels])
    return np.asarray(first + every * np.arange(steps // every)[:, None])


@jax.jit
def _spectra(signals: Array, rows: Array) -> Array:
    """Squared lines of signals (samples, channels, …), of what is white with the variance of a sample each.

    The window keeps what a resonance has from spreading over all lines.
    """
    count, channels = rows.shape
    window = jnp.sin(jnp.pi * (jnp.arange(count) + 0.5) / count) ** 2
    window = (window / jnp.sqrt(jnp.sum(window**2))).reshape(-1, *(1,) * (signals.ndim - 1))
    lines = jnp.fft.rfft(window * signals[rows, jnp.arange(channels)], axis=0)
    return jnp.abs(lines[1 : (count + 1) // 2]) ** 2  # those at either end are real, and have other statistics


@partial(jax.jit, static_argnums=0)
def _shaken(model: Model, given: Given, x: Array, signs: Array, rows: Array) -> Array:
    """Sums of squared responses to impulses of one full scale, mean over runs, (drives, lines, channels, chips).

    The square of the response to random signs has that sum as its mean: all else has a random sign.
    """
    scales, count = jnp.asarray(model.drive_scales), len(model.drives)

    def squared(signs: Array) -> Array:
        def one(drive: Array) -> Array:
            ways = signs[:, None] * (scales * (jnp.arange(count) == drive))[:, None]
            still = Given(ways, jnp.zeros_like(given.positions), jnp.zeros_like(given.momenta))
            moved = jax.jvp(lambda g: _expected(model, g, x), (given,), (still,))[1]
            return jnp.mean(_spectra(moved, rows), axis=2)

        return jax.lax.map(one, jnp.arange(count))

    return jnp.mean(jax.lax.map(squared, signs), axis=0)
