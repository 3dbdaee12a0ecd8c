"""By how much turns differ from echo to echo: gain, angle, and what they add, from repeats of a few echoes.

Whatever a turn does differently, the echo begins from another state. Each repeat says from which, with a covariance
that follows from the noise of the readout. What their spread has beyond that is explained by three variances: of a
gain and an angle that all nodes share, and of noise on both quadratures of every node. They are those of largest
likelihood (Fisher scoring), from states that are turned differently.
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

from calibration.echoing import EchoModel, Told
from calibration.model import Start, slopes_of_curve
from calibration.probe import Probe
from rhel_hw.bench import Kind, Shot

Array = Any
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

REPEATED = 3
"""States that are echoed again and again."""
REPEATS = 16
"""Of each."""
ROUNDS = 12
"""Of Fisher scoring."""
SURE = 3.0
"""Deviations within which a variance is none."""


@dataclass(frozen=True, eq=False)
class Scatter:
    """Standard deviations from echo to echo, (chips,) each; zero where none was seen."""

    gain: Floats
    """Relative."""
    angle: Floats
    """In rad."""
    noise: Floats
    """That the turn adds to both quadratures, in full scales of their channels."""

    @classmethod
    def none(cls, chips: int) -> Scatter:
        """All turns alike."""
        return cls(*np.zeros((3, chips)))

    @property
    def seen(self) -> Flags:
        """Whether turns of a chip differ, (chips,)."""
        return np.asarray((self.gain > 0) | (self.angle > 0) | (self.noise > 0))

    def spread(
        self, system: EchoModel, x: Floats, told: Told, used: Flags, noise: Floats, covariance: Floats
    ) -> Floats:
        """By what the covariance of a fit, (chips, unknowns, unknowns), grows as every echo has a turn of its own."""
        grown = np.zeros_like(covariance)
        for chip in np.flatnonzero(self.seen):
            own = slice(chip, chip + 1)
            states, unknowns = _slopes(system, x[:, own], told)
            weight = (used[..., chip] / noise[:, chip, None])[None]
            by_state, by_unknown = np.asarray(states)[..., 0] * weight, np.asarray(unknowns)[..., 0] * weight
            parts = _parts(system, x[:, own], told)[..., 0]
            variances = np.array([self.gain[chip], self.angle[chip], self.noise[chip]]) ** 2
            device = system.device_count
            score = np.zeros((device, device))
            for run in range(by_state.shape[-1]):
                mixed = np.einsum("iscq,jscq->ij", by_unknown[..., run, None], by_state[..., run, None])
                score += mixed @ np.einsum("k,kij->ij", variances, parts[:, :, :, run]) @ mixed.T
            # Of the readout's unknowns the same would follow; what they have to do with the turn is in the covariance.
            both = covariance[chip][:, :device]
            grown[chip] = both @ score @ both.T
        return grown


def repeated(probe: Probe, system: EchoModel, x: Floats, told: Told, starts: Sequence[Start], noise: Floats) -> Scatter:
    """Repeats of the first few echoes that `told` has, and how they differ."""
    free, steps = len(told.waves), len(told.again)
    chips = x.shape[1]
    parts = _parts(system, x, told)
    spreads, floors, counts = [], [], []
    slopes = None
    for i, start in enumerate(starts[:REPEATED]):
        read, used = _repeats(probe, start, free, steps)
        if slopes is None:
            slopes = _by_state(system, x, told)
        own = np.asarray(slopes[:, :, :, i]) / noise[:, None, :].swapaxes(0, 1)
        same = np.asarray(used.all(axis=2))
        read = np.where(same[:, :, None], read - read.mean(axis=2, keepdims=True), 0.0) / noise[:, None]
        found = [_displaced(own[..., c] * same[..., c], read[..., c]) for c in range(chips)]
        spreads.append(np.stack([f[0] for f in found]))
        floors.append(np.stack([f[1] for f in found]))
        counts.append(read.shape[2] - 1)
    values = np.stack(
        [
            _variances(
                [s[c] for s in spreads], [f[c] for f in floors], counts, [parts[..., i, c] for i in range(len(spreads))]
            )
            for c in range(chips)
        ],
        axis=1,
    )
    return Scatter(*np.sqrt(values))


def _repeats(probe: Probe, start: Start, free: int, steps: int) -> tuple[Floats, Flags]:
    """Echoes of one state, (steps + 1, channels, repeats, chips)."""
    silent = {name: np.zeros((free, REPEATS)) for name in probe.model.drives}
    found = []
    for _ in range(1 if silent else REPEATS):
        probe.ask("repeats of an echo: preparation", Shot(free, silent, start=start, hold=True))
        found.append(probe.ask("repeats of an echo", Shot(steps, echo=True)))
    read, used = zip(*found, strict=True)
    return np.concatenate(read, axis=2), np.concatenate(used, axis=2)


def _displaced(slopes: Floats, left: Floats) -> tuple[Floats, Floats]:
    """Covariance (2n, 2n) of the states that repeats (samples, channels, repeats) begin from, and that of the readout.

    Slopes are (2n, samples, channels), all in units of the noise.
    """
    J = slopes.reshape(len(slopes), -1)
    r = left.reshape(-1, left.shape[-1])
    scale = 1 / np.sqrt(np.maximum(np.sum(J**2, axis=1), 1e-30))
    C = np.linalg.pinv((J * scale[:, None]) @ (J * scale[:, None]).T, rcond=1e-10) * np.outer(scale, scale)
    states = C @ (J @ r)
    repeats = r.shape[1]
    dof = (repeats - 1) * max(int(np.count_nonzero(np.any(J, axis=0))) - len(J), 1)
    noise = np.sum((r - J.T @ states) ** 2) / dof
    return states @ states.T / (repeats - 1), C * max(noise, 1e-6)


def _variances(spreads: list[Floats], floors: list[Floats], counts: list[int], parts: list[Floats]) -> Floats:
    """Of gain, angle and noise, (3,), that explain covariances beyond their floors; zero if they are not sure."""
    found = np.zeros(3)

    def scored(at: Floats) -> tuple[Floats, Floats]:
        information, score = np.zeros((3, 3)), np.zeros(3)
        for S, C, count, M in zip(spreads, floors, counts, parts, strict=True):
            size = 1 / np.sqrt(np.maximum(np.diagonal(C), 1e-300))
            scale = np.outer(size, size)
            inverse = np.linalg.inv((C + np.einsum("k,kij->ij", at, M)) * scale)
            ways = [inverse @ (m * scale) for m in M]
            off = inverse @ ((S - C) * scale)
            information += count / 2 * np.array([[np.sum(a * b.T) for b in ways] for a in ways])
            score += count / 2 * np.array([np.sum(a * off.T) for a in ways])
        return information, score

    for _ in range(ROUNDS):
        information, score = scored(found)
        scale = 1 / np.sqrt(np.diagonal(information))
        active = np.ones(3, bool)
        for _ in range(3):  # what would be negative is none, and the others are found without it
            A = (information * np.outer(scale, scale))[np.ix_(active, active)]
            new = np.zeros(3)
            new[active] = scale[active] * np.linalg.lstsq(A, (scale * score)[active], rcond=1e-10)[0]
            if np.all(new >= 0):
                break
            active &= new >= 0
        found = np.maximum(new, 0.0)
    # How sure a variance is: against the spread that it would have if it were not there.
    for k in np.argsort(found):
        rest = found.copy()
        rest[k] = 0.0
        information, _ = scored(rest)
        if found[k] < SURE / np.sqrt(information[k, k]):
            found[k] = 0.0
    return found


@partial(jax.jit, static_argnums=0)
def _by_state(system: EchoModel, x: Array, told: Told) -> Array:
    """Derivatives of what is read by the state right after the turn, (2n, samples, channels, runs, chips)."""
    start = jnp.concatenate(system.held(x, told))

    def carried(direction: Array) -> tuple[Array, Array]:
        ways = jnp.broadcast_to(direction[:, None, None], start.shape)
        return jax.jvp(lambda z: system.after(x, (z[: system.size], z[system.size :]), told.again), (start,), (ways,))

    signals, slopes = jax.vmap(carried, out_axes=(None, 0))(jnp.eye(len(start)))
    gain, _, bow = system.readout(x)
    return slopes * slopes_of_curve(signals, gain, bow)[0]


@partial(jax.jit, static_argnums=0)
def _by_unknown(system: EchoModel, x: Array, told: Told) -> Array:
    device = system.device_count

    def carried(direction: Array) -> tuple[Array, Array]:
        ways = jnp.broadcast_to(direction[:, None], x[:device].shape)
        return jax.jvp(lambda v: system.simulated(v, told), (x[:device],), (ways,))

    signals, slopes = jax.vmap(carried, out_axes=(None, 0))(jnp.eye(device))
    gain, _, bow = system.readout(x)
    return slopes * slopes_of_curve(signals, gain, bow)[0]


def _slopes(system: EchoModel, x: Floats, told: Told) -> tuple[Array, Array]:
    return _by_state(system, x, told), _by_unknown(system, x, told)


def _parts(system: EchoModel, x: Floats, told: Told) -> Floats:
    """Covariances of the state after the turn by unit variances of gain, angle, noise: (3, 2n, 2n, runs, chips)."""
    by_gain, by_angle = (np.asarray(v) for v in _by_turn(system, x, told))
    sizes = _sizes(system) ** 2
    noise = np.broadcast_to(np.diag(sizes)[:, :, None, None], (len(sizes), *by_gain.shape))
    pairs = [np.einsum("irp,jrp->ijrp", v, v) for v in (by_gain, by_angle)]
    return np.stack([*pairs, noise])


@partial(jax.jit, static_argnums=0)
def _by_turn(system: EchoModel, x: Array, told: Told) -> tuple[Array, Array]:
    """Derivatives of the state after the turn by a gain and an angle of all nodes, (2n, runs, chips) each."""

    def moved(part: str) -> Array:
        ways = jnp.zeros_like(x).at[system.parts[part]].set(1.0)
        return jax.jvp(lambda v: jnp.concatenate(system.held(v, told)), (x,), (ways,))[1]

    return moved("gains"), moved("angles")


def _sizes(system: EchoModel) -> Floats:
    """Full scales of positions and momenta of the nodes, dimensionless, (2n,); of those not read, a mean."""
    model = system.model
    scales = {(c.kind, c.node): c.full_scale for c in model.channels}
    found = []
    ones = dict.fromkeys(system.nodes, 1.0)
    for kind, units in zip((Kind.POSITION, Kind.MOMENTUM), model.state(ones, ones, 1), strict=True):
        unit = units[:, 0]
        own = np.array([scales.get((kind, node), np.nan) for node in system.nodes]) * unit
        found.append(np.where(np.isfinite(own), own, np.nanmean(own) if np.any(np.isfinite(own)) else 1.0))
    return np.concatenate(found)
