"""Nonlinear least squares of everything that a model leaves open, on all chips at once.

Levenberg–Marquardt on the normal equations. Derivatives by the device's unknowns are carried along in the simulation
(forward mode: few unknowns, many samples), those by the readout's are written down. A record of many periods has many
minima, so the search begins with the first few steps of every record and goes on to longer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.model import Given, Model, slopes_of_curve

Array = Any
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LENGTHS = (1 / 16, 1 / 4, 1.0)
"""Parts of the records to which the search goes on."""
ROUNDS = 12
"""Most derivatives that are taken for any of them."""
TRIES = 8
"""Most dampings that are tried for each."""
SMALL = 0.01
"""Moves of all unknowns, in standard deviations, at which a search has ended."""
NUMBERS = 1 << 25
"""Of derivatives that are held at once."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """Passes of equal length, and what was read."""

    given: Given
    read: Floats
    """In full scales, (steps + 1, channels, runs, chips), as `Model.simulated` has it."""
    used: Flags
    """Which of it counts."""

    def cut(self, part: float) -> Experiment:
        """The first part of the passes."""
        steps = max(1, round(part * self.given.waves.shape[0]))
        used = self.used[: steps + 1].copy()
        if steps < self.given.waves.shape[0]:
            used[steps] = False  # of momenta there is one more, of the others there is none
        return Experiment(self.given._replace(waves=self.given.waves[:steps]), self.read[: steps + 1], used)


@dataclass(frozen=True, eq=False)
class Prior:
    """What is known before: mean (unknowns, chips) and standard deviation (unknowns,); zero: it stays."""

    mean: Floats
    spread: Floats

    @property
    def free(self) -> Flags:
        """Unknowns that are looked for."""
        return self.spread > 0

    @property
    def information(self) -> Floats:
        """One over the variance, (unknowns,)."""
        return np.where(self.free, 1 / np.where(self.free, self.spread, 1.0) ** 2, 0.0)

    def cost(self, x: Floats) -> Floats:
        """Squares of how far unknowns are from the mean, (chips,)."""
        return np.asarray(self.information @ (x - self.mean) ** 2)


class Sums(NamedTuple):
    """Over all samples, of every chip."""

    matrix: Floats
    """JᵀWJ, (chips, unknowns, unknowns)."""
    vector: Floats
    """JᵀW(read − expected), (chips, unknowns)."""
    squares: Floats
    """(chips, channels)."""
    counts: Floats
    """Of samples, (chips, channels)."""


@dataclass(frozen=True, eq=False)
class Fit:
    """What was found on every chip."""

    x: Floats
    """Unknowns, (unknowns, chips)."""
    covariance: Floats
    """Of them, (chips, unknowns, unknowns)."""
    information: Floats
    """The same without what was known before, inverted."""
    noise: Floats
    """That explains what is left, in full scales, (channels, chips); NaN where nothing was read."""
    excess: Floats
    """Root mean square of what is left over the noise that was expected, (channels, chips)."""
    converged: Flags

    @property
    def deviations(self) -> Floats:
        """Standard deviations of the unknowns, (unknowns, chips)."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance, axis1=1, axis2=2).T, 0.0))


def fit(
    model: Model,
    experiments: Sequence[Experiment],
    prior: Prior,
    noise: Floats,
    start: Floats | None = None,
    report: Callable[[str], None] | None = None,
) -> Fit:
    """Unknowns of all chips that explain the experiments.

    Arguments:
        model: of the design on the bench.
        experiments: what was done and read.
        prior: what is known before.
        noise: of the channels in full scales, (channels, chips).
        start: where the search begins, (unknowns, chips); None: at the mean of what is known.
        report: told how far it has come.
    """
    tell = report or (lambda _: None)
    x = (prior.mean if start is None else start).copy()
    for i, length in enumerate(LENGTHS):
        search = _Search(model, [e.cut(length) for e in experiments], prior, noise)
        x, found, _ = search.run(x, partial(_tell, tell, f"part {i + 1}/{len(LENGTHS)}"))
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.sqrt(found.squares / found.counts).T
    # Noise is known from what is left, so that deviations are true whatever was thought of it before.
    scale = np.where(np.isfinite(excess) & (excess > 0), excess, 1.0)
    final = _Search(model, list(experiments), prior, noise * scale)
    x, found, converged = final.run(x, partial(_tell, tell, "once more"))
    free = prior.free
    covariance = np.zeros_like(found.matrix)
    for chip, A in enumerate(found.matrix):
        covariance[chip][np.ix_(free, free)] = _inverse((A + np.diag(prior.information))[np.ix_(free, free)])
    return Fit(x, covariance, found.matrix, noise * excess, excess, converged)


@dataclass(frozen=True, eq=False)
class _Search:
    """Steps towards the least sum of squares of some experiments."""

    model: Model
    experiments: list[Experiment]
    prior: Prior
    noise: Floats

    def run(self, x: Floats, report: Callable[[str], Any]) -> tuple[Floats, Sums, Flags]:
        """The end of the search from x on, sums there, and which chips got there."""
        chips = x.shape[1]
        x, damping, done = x.copy(), np.full(chips, 1e-3), np.zeros(chips, bool)
        cost = self.cost(x)
        sums = self.sums(x)
        for turn in range(ROUNDS):
            report(f"round {turn + 1}, {np.count_nonzero(done)} of {chips} chips done")
            waiting, moved = ~done, np.zeros(chips, bool)
            for _ in range(TRIES):
                moves, sizes = self._moves(x, sums, damping, waiting)
                reached = self.cost(x + moves)
                better = waiting & (reached <= cost)  # of NaN it is not
                ended = waiting & (sizes < SMALL)
                x[:, better] += moves[:, better]
                cost = np.where(better, reached, cost)
                damping = np.clip(np.where(better, damping / 10, np.where(waiting, damping * 10, damping)), 1e-12, 1e12)
                done |= ended
                moved |= better
                waiting &= ~better & ~ended
                if not np.any(waiting):
                    break
            done |= waiting  # no damping helps: it is where it can get
            if np.any(moved):
                sums = self.sums(x)
            if np.all(done):
                break
        return x, sums, done & np.isfinite(cost)

    def cost(self, x: Floats) -> Floats:
        """Sum of squares with what was known before, (chips,)."""
        found = sum(_by_blocks(_cost, self.model, e, x, self.noise)[0] for e in self.experiments)
        total = np.asarray(found) + self.prior.cost(x)
        return np.where(np.isfinite(total), total, np.inf)

    def sums(self, x: Floats) -> Sums:
        """Normal equations."""
        parts = [_by_blocks(_sums, self.model, e, x, self.noise) for e in self.experiments]
        return Sums(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))

    def _moves(self, x: Floats, sums: Sums, damping: Floats, waiting: Flags) -> tuple[Floats, Floats]:
        """How chips that wait should move, and how far that is in standard deviations."""
        free, known = self.prior.free, self.prior.information
        moves, sizes = np.zeros_like(x), np.zeros(x.shape[1])
        for chip in np.flatnonzero(waiting):
            A = (sums.matrix[chip] + np.diag(known))[np.ix_(free, free)]
            b = (sums.vector[chip] + known * (self.prior.mean - x)[:, chip])[free]
            scale = 1 / np.sqrt(np.diagonal(A))
            step = scale * np.linalg.solve(A * np.outer(scale, scale) + damping[chip] * np.eye(len(b)), scale * b)
            moves[free, chip] = np.clip(step, -0.5, 0.5) if np.all(np.isfinite(step)) else 0.0
            sizes[chip] = np.sqrt(max(step @ A @ step, 0.0) / len(b))
        return moves, sizes


def _tell(report: Callable[[str], None], part: str, words: str) -> None:
    report(f"{part}, {words}")


def _inverse(A: Floats) -> Floats:
    scale = 1 / np.sqrt(np.diagonal(A))
    return np.asarray(np.outer(scale, scale) * np.linalg.inv(A * np.outer(scale, scale)))


def _by_blocks(program: Any, model: Model, e: Experiment, x: Floats, noise: Floats) -> tuple[Floats, ...]:
    """What a program makes of as many chips at a time as memory allows; all blocks are of one size."""
    chips = x.shape[1]
    block = int(np.clip(NUMBERS // (e.read[..., 0].size * (model.device_count + 4)), 1, chips))
    parts = []
    for first in range(0, chips, block):
        own = np.minimum(np.arange(first, first + block), chips - 1)
        given = (x[:, own], noise[:, own], e.read[..., own], e.used[..., own])
        parts.append([np.asarray(v)[: chips - first] for v in program(model, e.given, *given)])
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


@partial(jax.jit, static_argnums=0)
def _cost(model: Model, given: Given, x: Array, noise: Array, read: Array, used: Array) -> tuple[Array, ...]:
    left = jnp.where(used, (read - model.read(x, model.simulated(x, given))) / noise[:, None], 0.0)
    return (jnp.sum(left**2, axis=(0, 1, 2)),)


@partial(jax.jit, static_argnums=0)
def _sums(model: Model, given: Given, x: Array, noise: Array, read: Array, used: Array) -> tuple[Array, ...]:
    device = model.device_count

    def carried(direction: Array) -> tuple[Array, Array]:
        ways = jnp.broadcast_to(direction[:, None], x[:device].shape)
        return jax.jvp(lambda v: model.simulated(v, given), (x[:device],), (ways,))

    signals, slopes = jax.vmap(carried, out_axes=(None, 0))(jnp.eye(device))
    weight = used / noise[:, None]
    gain, _, bow = model.readout(x)
    left = jnp.where(used, (read - model.read(x, signals)) / noise[:, None], 0.0)
    by_signal, by_curve = slopes_of_curve(signals, gain, bow)
    slopes, curves = slopes * (by_signal * weight), by_curve * weight
    names, channels, chips = len(model.names), len(model.channels), x.shape[-1]
    matrix, own = jnp.zeros((chips, names, names)), jnp.arange(channels)
    mixed = jnp.einsum("iscrp,kscrp->pikc", slopes, curves)  # of a channel only its own curve
    local = jnp.einsum("jscrp,kscrp->pjkc", curves, curves)
    corner = jnp.zeros((chips, 3, channels, 3, channels)).at[:, :, own, :, own].set(jnp.moveaxis(local, -1, 0))
    mixed = mixed.reshape(chips, device, 3 * channels)
    matrix = matrix.at[:, :device, :device].set(jnp.einsum("iscrp,jscrp->pij", slopes, slopes))
    matrix = matrix.at[:, :device, device:].set(mixed).at[:, device:, :device].set(jnp.swapaxes(mixed, 1, 2))
    matrix = matrix.at[:, device:, device:].set(corner.reshape(chips, 3 * channels, 3 * channels))
    of_curves = jnp.einsum("kscrp,scrp->pkc", curves, left).reshape(chips, 3 * channels)
    vector = [jnp.einsum("iscrp,scrp->pi", slopes, left), of_curves]
    squares, counts = (jnp.sum(v, axis=(0, 2)).T for v in (left**2, used.astype(x.dtype)))
    return matrix, jnp.concatenate(vector, axis=1), squares, counts


def informed(model: Model, given: Given, x: Floats, noise: Floats, used: Flags) -> Floats:
    """Information that every run by itself would have about the device's unknowns, (runs, device, device).

    Arguments:
        model: of the design on the bench.
        given: what the runs would be told.
        x: unknowns of one chip, (unknowns,).
        noise: of the channels in full scales, (channels,).
        used: which samples would count, (steps + 1, channels).
    """
    return np.asarray(_informed(model, given, x[:, None], noise, used))


@partial(jax.jit, static_argnums=0)
def _informed(model: Model, given: Given, x: Array, noise: Array, used: Array) -> Array:
    device = model.device_count

    def carried(direction: Array) -> Array:
        return jax.jvp(lambda v: model.simulated(v, given), (x[:device],), (direction[:, None],))[1]

    slopes = jax.vmap(carried)(jnp.eye(device))[..., 0] * (used / noise)[:, :, None]
    return jnp.einsum("iscr,jscr->rij", slopes, slopes)
