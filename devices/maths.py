"""The few functions that energies need. They load JAX only for its arrays, so that listing elements does not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = Any


def cos(x: Array) -> Array:
    """Cosine."""
    return _library(x).cos(x)


def sin(x: Array) -> Array:
    """Sine."""
    return _library(x).sin(x)


def sqrt(x: Array) -> Array:
    """Square root."""
    return _library(x).sqrt(x)


def larger(x: Array, y: Array) -> Array:
    """The larger of two, element by element."""
    return _library(x).maximum(x, y)


def _library(x: Array) -> Any:
    if isinstance(x, (int, float, np.ndarray, np.generic)):
        return np
    import jax.numpy as jnp

    return jnp


def log_cosh(x: Array) -> Array:
    """Logarithm of cosh without overflow; its derivative is computed as tanh."""
    return _log_cosh()(x)


@cache
def _log_cosh() -> Any:
    import jax
    import jax.numpy as jnp

    @jax.custom_jvp
    def value(x: Array) -> Array:
        size = jnp.abs(x)
        return size + jnp.log1p(jnp.exp(-2 * size)) - jnp.log(jnp.asarray(2, x.dtype))

    @value.defjvp
    def slope(primals: Any, tangents: Any) -> Any:
        (x,), (dx,) = primals, tangents
        return value(x), jnp.tanh(x) * dx

    return value
