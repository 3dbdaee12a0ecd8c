"""Nonlinear least squares of everything that a model leaves open, on all chips at once.

Levenberg–Marquardt on the normal equations. For their matrix, derivatives by the device's unknowns are carried along
in the simulation, those by the readout's are written down. That is a simulation for every unknown, and the matrix
hardly changes near the end: it is taken anew only where the search comes closer too slowly. Slopes of the squares
are found backwards, at the price of a few simulations. A record of many periods has many minima, so the search
begins with the first few steps of every record and goes on to longer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.model import Given, Model, slopes_of_curve
from rhel_hw.bench import Channel

Array = Any
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LENGTHS = (1 / 16, 1 / 4, 1.0)
"""Parts of the records to which the search goes on."""
ROUNDS = 30
"""Most moves that are made for any of them."""
CLOSER = 0.3
"""Part of the last move that the next one is at most, or else the matrix is taken anew."""
TRIES = 8
"""Most dampings that are tried for each."""
SMALL = 0.01
"""Moves of all unknowns, in standard deviations, at which a search has ended."""
NUMBERS = 1 << 25
"""Of derivatives that are held at once."""


@dataclass(frozen=True, eq=False)
class Experiment:
    """Passes of equal length, and what was read."""

    given: Any
    """What they were told, as `System.simulated` takes it."""
    read: Floats
    """In full scales, (steps + 1, channels, runs, chips), as `Model.simulated` has it."""
    used: Flags
    """Which of it counts."""

    def cut(self, part: float) -> Experiment:
        """The first part of the passes."""
        if part == 1:
            return self
        steps = max(1, round(part * self.given.waves.shape[0]))
        used = self.used[: steps + 1].copy()
        if steps < self.given.waves.shape[0]:
            used[steps] = False  # of momenta there is one more, of the others there is none
        nudges = None if self.given.nudges is None else self.given.nudges[:steps]
        given = self.given._replace(waves=self.given.waves[:steps], nudges=nudges)
        return Experiment(given, self.read[: steps + 1], used)


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

    def weight(self, _chip: int) -> Floats:
        """Information about a chip, (unknowns, unknowns)."""
        return np.diag(self.information)

    def cost(self, x: Floats, chips: NDArray[np.intp] | None = None) -> Floats:
        """Squares of how far unknowns of some chips, or of all, are from the mean, (chips,)."""
        mean = self.mean if chips is None else self.mean[:, chips]
        return np.asarray(self.information @ (x - mean) ** 2)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known from another fit: mean (unknowns, chips) and information (chips, unknowns, unknowns)."""

    mean: Floats
    information: Floats
    free: Flags
    """Unknowns that are looked for."""

    def weight(self, chip: int) -> Floats:
        """Information about a chip, (unknowns, unknowns)."""
        return np.asarray(self.information[chip])

    def cost(self, x: Floats, chips: NDArray[np.intp] | None = None) -> Floats:
        """How far unknowns of some chips, or of all, are from the mean, in squares of deviations, (chips,)."""
        own = np.arange(x.shape[1]) if chips is None else chips
        off = x - self.mean[:, own]
        return np.asarray(np.einsum("ip,pij,jp->p", off, self.information[own], off))


def widened(x: Floats, information: Floats, free: Flags, place: int, mean: Floats, spread: Floats) -> Known:
    """What is known of unknowns (…, chips), and of more of them, (more, chips), that stand at a place among them.

    `spread` (more,) is that of the new ones, by themselves; zero: they stay.
    """
    chips, count = x.shape[1], len(x) + len(mean)
    new = np.arange(place, place + len(mean))
    old = np.delete(np.arange(count), new)
    both, wide, looked = np.zeros((count, chips)), np.zeros((chips, count, count)), np.ones(count, bool)
    both[old], both[new] = x, mean
    wide[np.ix_(np.arange(chips), old, old)] = information
    wide[:, new, new] = 1 / np.where(spread > 0, spread, 1.0) ** 2
    looked[old], looked[new] = free, spread > 0
    return Known(both, wide, looked)


class System(Protocol):
    """What is fitted: `Model`, or one that has more unknowns of the device before those of the readout."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all unknowns, in their order."""
        ...

    @property
    def channels(self) -> tuple[Channel, ...]:
        """Wired channels."""
        ...

    @property
    def device_count(self) -> int:
        """Number of unknowns that a simulation depends on."""
        ...

    def simulated(self, x: Array, given: Any) -> Array:
        """Signals at all channels over their full scales, (steps + 1, channels, runs, chips)."""
        ...

    def read(self, x: Array, signals: Array) -> Array:
        """What channels read of signals."""
        ...

    def readout(self, x: Array) -> Array:
        """Gains, offsets and bows, (3, channels, 1, chips)."""
        ...


class Squares(NamedTuple):
    """Of what is left over the noise, summed over all samples, of every chip."""

    squares: Floats
    """(chips, channels)."""
    vector: Floats
    """JᵀW(read − expected), that is half the slopes downwards, (chips, unknowns)."""


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
    model: System,
    experiments: Sequence[Experiment],
    prior: Prior | Known,
    noise: Floats,
    start: Floats | None = None,
    report: Callable[[str], None] | None = None,
    lengths: Sequence[float] | None = None,
) -> Fit:
    """Unknowns of all chips that explain the experiments.

    Arguments:
        model: of the design on the bench.
        experiments: what was done and read.
        prior: what is known before.
        noise: of the channels in full scales, (channels, chips).
        start: where the search begins, (unknowns, chips); None: at the mean of what is known.
        report: told how far it has come.
        lengths: parts of the records to which the search goes on, the last of them one; None: `LENGTHS`.
    """
    tell = report or (lambda _: None)
    x = (prior.mean if start is None else start).copy()
    lengths = LENGTHS if lengths is None else lengths
    counts = np.sum([np.sum(e.used, axis=(0, 2)) for e in experiments], axis=0)
    for i, length in enumerate(lengths):
        search = _Search(model, [e.cut(length) for e in experiments], prior, noise)
        x, found, _, _ = search.run(x, partial(_tell, tell, f"part {i + 1}/{len(lengths)}"))
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.sqrt(found.squares.T / counts)
    # Noise is known from what is left, so that deviations are true whatever was thought of it before.
    scale = np.where(np.isfinite(excess) & (excess > 0), excess, 1.0)
    final = _Search(model, list(experiments), prior, noise * scale)
    x, _, matrix, converged = final.run(x, partial(_tell, tell, "once more"))
    free = prior.free
    covariance = np.zeros_like(matrix)
    for chip, A in enumerate(matrix):
        covariance[chip][np.ix_(free, free)] = _inverse((A + prior.weight(chip))[np.ix_(free, free)])
    return Fit(x, covariance, matrix, noise * excess, excess, converged)


@dataclass(frozen=True, eq=False)
class _Search:
    """Steps towards the least sum of squares of some experiments."""

    model: System
    experiments: list[Experiment]
    prior: Prior | Known
    noise: Floats

    def run(self, x: Floats, report: Callable[[str], Any]) -> tuple[Floats, Squares, Floats, Flags]:
        """The end of the search from x on, squares and the matrix JᵀWJ there, and which chips got there."""
        chips = x.shape[1]
        x, damping, done = x.copy(), np.full(chips, 1e-3), np.zeros(chips, bool)
        here, matrix = self.squares(x), self.matrix(x)
        cost, before = self._cost(x, here), np.full(chips, np.inf)
        for turn in range(ROUNDS):
            report(f"round {turn + 1}, {np.count_nonzero(done)} of {chips} chips done")
            waiting, moved, first = ~done, np.zeros(chips, bool), np.zeros(chips)
            for again in range(TRIES):
                moves, sizes = self._moves(x, matrix, here.vector, damping, waiting)
                first = first if again else sizes
                own = np.flatnonzero(waiting)
                there = self.squares((x + moves)[:, own], own)
                reached = np.full(chips, np.inf)
                reached[own] = self._cost((x + moves)[:, own], there, own)
                better = waiting & (reached <= cost)
                ended = waiting & (sizes < SMALL)
                x[:, better] += moves[:, better]
                cost = np.where(better, reached, cost)
                for old, new in zip(here, there, strict=True):
                    old[better] = new[better[own]]
                damping = np.clip(np.where(better, damping / 10, np.where(waiting, damping * 10, damping)), 1e-12, 1e12)
                done |= ended
                moved |= better
                waiting &= ~better & ~ended
                if not np.any(waiting):
                    break
            # No damping helps: it is where it can get, if the matrix was that of the place.
            fresh = before == np.inf
            done |= waiting & fresh
            if np.all(done):
                break
            slow = np.flatnonzero(~done & ((first > CLOSER * before) | waiting))
            if len(slow):
                matrix[slow], damping[slow] = self.matrix(x[:, slow], slow), 1e-3
            before = first
            before[slow] = np.inf
        return x, here, matrix, done & np.isfinite(cost)

    def _cost(self, x: Floats, found: Squares, chips: NDArray[np.intp] | None = None) -> Floats:
        """Sum of squares with what was known before, (chips,); that of what is no number is infinite."""
        total = np.sum(found.squares, axis=1) + self.prior.cost(x, chips)
        usual = np.isfinite(total) & np.all(np.isfinite(found.vector), axis=1)
        return np.where(usual, total, np.inf)

    def squares(self, x: Floats, chips: NDArray[np.intp] | None = None) -> Squares:
        """Squares and slopes of some chips, or of all."""
        own = np.arange(x.shape[1]) if chips is None else chips
        parts = [_by_blocks(_squares, self.model, e, x, self.noise, own) for e in self.experiments]
        return Squares(*(np.sum(part, axis=0) for part in zip(*parts, strict=True)))

    def matrix(self, x: Floats, chips: NDArray[np.intp] | None = None) -> Floats:
        """JᵀWJ of some chips, or of all, (chips, unknowns, unknowns)."""
        own = np.arange(x.shape[1]) if chips is None else chips
        parts = [_by_blocks(_matrix, self.model, e, x, self.noise, own)[0] for e in self.experiments]
        return np.asarray(np.sum(parts, axis=0))

    def _moves(
        self, x: Floats, matrix: Floats, vector: Floats, damping: Floats, waiting: Flags
    ) -> tuple[Floats, Floats]:
        """How chips that wait should move, and how far that is in standard deviations."""
        free = self.prior.free
        moves, sizes = np.zeros_like(x), np.zeros(x.shape[1])
        for chip in map(int, np.flatnonzero(waiting)):
            known = self.prior.weight(chip)
            A = (matrix[chip] + known)[np.ix_(free, free)]
            b = (vector[chip] + known @ (self.prior.mean - x)[:, chip])[free]
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


def _by_blocks(
    program: Any, model: System, e: Experiment, x: Floats, noise: Floats, chips: NDArray[np.intp]
) -> tuple[Floats, ...]:
    """What a program makes of some chips at x, as many at a time as memory allows; all blocks are of one size."""
    block = int(np.clip(NUMBERS // (e.read[..., 0].size * (model.device_count + 4)), 1, e.read.shape[-1]))
    parts = []
    for first in range(0, len(chips), block):
        place = np.minimum(np.arange(first, first + block), len(chips) - 1)
        own = chips[place]
        given = (x[:, place], noise[:, own], e.read[..., own], e.used[..., own])
        parts.append([np.asarray(v)[: len(chips) - first] for v in program(model, e.given, *given)])
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


@partial(jax.jit, static_argnums=0)
def _squares(model: System, given: Any, x: Array, noise: Array, read: Array, used: Array) -> tuple[Array, ...]:
    def total(x: Array) -> tuple[Array, Array]:
        left = jnp.where(used, (read - model.read(x, model.simulated(x, given))) / noise[:, None], 0.0)
        squares = jnp.sum(left**2, axis=(0, 2))
        return jnp.sum(squares), squares

    slopes, squares = jax.grad(total, has_aux=True)(x)
    return squares.T, -slopes.T / 2


@partial(jax.jit, static_argnums=0)
def _matrix(model: System, given: Any, x: Array, noise: Array, read: Array, used: Array) -> tuple[Array, ...]:
    device = model.device_count

    def carried(direction: Array) -> tuple[Array, Array]:
        ways = jnp.broadcast_to(direction[:, None], x[:device].shape)
        return jax.jvp(lambda v: model.simulated(v, given), (x[:device],), (ways,))

    signals, slopes = jax.vmap(carried, out_axes=(None, 0))(jnp.eye(device))
    weight = used / noise[:, None]
    gain, _, bow = model.readout(x)
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
    return (matrix,)


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
