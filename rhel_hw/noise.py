"""Random numbers by counting: each is a hash of its key and its place, so that it depends on nothing else.

Which lanes stand beside it, in which order passes are made and on how many machines changes no number. A key is two
words of 32 bits, arrays of them are keys side by side. The hash is made of the last rounds of MurmurHash3: good enough
to shake circuits and to drop features by, and five times as fast as JAX's own generator, a cipher.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Array = Any
Words = tuple[Array, Array]

GOLDEN = 0x9E3779B9


def words(key: Array) -> Words:
    """Words of JAX's keys, of one or of several side by side."""
    data = jax.random.key_data(key)
    return data[..., 0], data[..., 1]


def folded(key: Words, number: Array | int) -> Words:
    """Another key for every number."""
    first, second = key
    first = _mixed(first + jnp.asarray(number).astype(jnp.uint32) * jnp.uint32(GOLDEN))
    return first, _mixed(second ^ first)


def bits(key: Words, shape: tuple[int, ...], before: Array | int = 0) -> Array:
    """Uniform numbers of 32 bits, (*shape, keys…), `before` others of this key."""
    first, second = key
    place = jnp.asarray(before).astype(jnp.uint32) + jnp.arange(np.prod(shape), dtype=jnp.uint32)
    place = place.reshape(*shape, *(1,) * jnp.ndim(first))
    return _mixed(_mixed(place * jnp.uint32(GOLDEN) + first) ^ second)


def normals(key: Words, shape: tuple[int, ...], before: Array | int = 0) -> Array:
    """Standard normal numbers, (*shape, keys…): in single precision, up to 5.3 deviations, on 2²³ levels."""
    odd = (bits(key, shape, before) >> 9 << 1).astype(jnp.int32) + (1 - 2**23)  # odd, so never 0 and never the end
    return jnp.float32(2**0.5) * jax.lax.erf_inv(odd.astype(jnp.float32) * jnp.float32(2.0**-23))


def _mixed(x: Array) -> Array:
    """Every bit of the result depends on every bit of x."""
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        x = (x ^ (x >> shift)) * jnp.uint32(factor)
    return x ^ (x >> 16)
