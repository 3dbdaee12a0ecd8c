"""Converters between numbers and the world: gain, offset, bow, noise, resolution, range, bandwidth, jitter, delay.

Signals are (samples, channels, runs, chips) and in SI. Every imperfection is a number or one per chip, and is not there
at all if its name is not among the `knobs`: programs are compiled for what is on, not for how much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

Array = Any
Knobs = Mapping[str, Array]

BOW = 3 * 3**0.5 / 2
"""Makes the largest deviation of x − x³ on [−1, 1] one."""


def read(x: Array, scale: Array, knobs: Knobs, normals: Array | None) -> tuple[Array, Array | None]:
    """What an analog-to-digital converter makes of a signal, and where it was beyond the range; None without one."""
    return _coded(_bent(x, scale, knobs, normals), scale, knobs)


def play(x: Array, scale: Array, knobs: Knobs, normals: Array | None) -> tuple[Array, Array | None]:
    """The same of a digital-to-analog converter: the code comes first, then what the amplifier does to it."""
    x, beyond = _coded(x, scale, knobs)
    return _bent(x, scale, knobs, normals), beyond


def _bent(x: Array, scale: Array, knobs: Knobs, normals: Array | None) -> Array:
    """A signal with gain, bow, offset and noise."""
    if "gain" in knobs:
        x = knobs["gain"] * x
    if "inl" in knobs:
        relative = x / scale
        x = x + knobs["inl"] * scale * BOW * (relative - relative**3)
    if "offset" in knobs:
        x = x + knobs["offset"] * scale
    if "noise" in knobs and normals is not None:
        x = x + knobs["noise"] * scale * normals
    return x


def _coded(x: Array, scale: Array, knobs: Knobs) -> tuple[Array, Array | None]:
    """A signal within the range and resolution, and where it was beyond."""
    if "levels" in knobs:
        step = 2 * scale / knobs["levels"]
        codes = jnp.round(x / step)
        half = knobs["levels"] / 2
        return jnp.clip(codes, -half, half - 1) * step, (codes > half - 1) | (codes < -half)
    if "range" in knobs:
        return jnp.clip(x, -scale, scale), jnp.abs(x) > scale
    return x, None


def low_pass(x: Array, corner: Array, step: Array, *, held: bool) -> Array:
    """First-order low pass along time, settled at the first value, exact between samples.

    A signal that is held over every step, as a drive is, comes out as its mean over the step; one that goes straight
    from sample to sample, as what is read does, as what it is at each sample.
    """
    delay = 1 / (2 * jnp.pi * corner * step)
    kept = jnp.exp(-1 / delay)

    def follow(carry: tuple[Array, Array], value: Array) -> tuple[tuple[Array, Array], Array]:
        y, before = carry
        if held:
            return (value + kept * (y - value), value), value + delay * (1 - kept) * (y - value)
        behind = delay * (value - before)
        y = value - behind + kept * (y - before + behind)
        return (y, value), y

    start = x[0] + jnp.zeros_like(kept * x[0])
    return jax.lax.scan(follow, (start, start), x)[1]


def jittered(x: Array, spread: Array, step: Array, normals: Array) -> Array:
    """A signal whose instants are off by a normal spread, to first order: its slope times the delay."""
    if x.shape[0] == 1:
        return x
    return x + jnp.gradient(x, axis=0) / step * spread * normals


def delayed(x: Array, steps: Array, *, silent: bool) -> Array:
    """A signal that comes later by some steps, not always whole; before its start it is zero, or as at its start."""
    whole = jnp.floor(steps).astype(int)
    part = steps - whole
    places = jnp.arange(x.shape[0]) - whole

    def at(i: Array) -> Array:
        inside = (i >= 0) & (i < x.shape[0])
        found = x[jnp.clip(i, 0, x.shape[0] - 1)]
        return jnp.where(inside.reshape(-1, *(1,) * (x.ndim - 1)), found, 0) if silent else found

    return (1 - part) * at(places) + part * at(places - 1)


def mixed(x: Array, leak: Array) -> Array:
    """Channels (samples, channels, …) with what leaks between them, by a matrix (channels, channels) beside one."""
    return x + jnp.einsum("ij,kj...->ki...", leak, x)


def of_sum_and_difference(
    x: Array, scale: Array, knobs: Knobs, normals: tuple[Array | None, Array | None]
) -> tuple[Array, Array | None]:
    """Partners (first and second half of the runs) read as half sum and half difference.

    The amplifier of the difference takes the next power of two above its peak as its range.
    """
    first, second = jnp.split(x, 2, axis=2)
    apart = (first - second) / 2
    peak = jnp.max(jnp.abs(apart), axis=0, keepdims=True)
    # Partners that do not differ at all leave it at the range of the sum.
    own = 2.0 ** jnp.ceil(jnp.log2(jnp.where(peak > 0, peak, scale)) + 1e-9)
    middle, flags = read((first + second) / 2, scale, knobs, normals[0])
    half, more = read(apart, own, {k: v for k, v in knobs.items() if k != "offset"}, normals[1])
    both = jnp.concatenate([middle + half, middle - half], axis=2)
    if flags is None or more is None:
        return both, None
    return both, jnp.tile(flags | more, (1, 1, 2, 1))
