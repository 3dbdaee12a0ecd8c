"""The few functions that energies need. They load JAX only for its arrays, so that listing elements does not."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

Array = Any


def cos(x: Array) -> Array:
    """Cosine."""
    return _library(x).cos(x) if _is_known(x) else _circular()[0](x)


def sin(x: Array) -> Array:
    """Sine."""
    return _library(x).sin(x) if _is_known(x) else _circular()[1](x)


def sinc(x: Array) -> Array:
    """sin(x)/x of an array."""
    import jax.numpy as jnp

    near = jnp.abs(x) < 0.05  # where five terms of its series are exact, and the quotient's slope is a difference
    z, safe = x * x, jnp.where(near, 1.0, x)
    series = 1 - z / 6 * (1 - z / 20 * (1 - z / 42 * (1 - z / 72)))
    return jnp.where(near, series, sin(safe) / safe)


def sqrt(x: Array) -> Array:
    """Square root."""
    return _library(x).sqrt(x)


def larger(x: Array, y: Array) -> Array:
    """The larger of two, element by element."""
    return _library(x).maximum(x, y)


def _is_known(x: Array) -> bool:
    """Whether a library's sine is quick enough: XLA's, on processors, is for every format but float64."""
    return isinstance(x, (int, float, np.ndarray, np.generic)) or x.dtype != np.float64


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


# Sine and cosine in double precision, in operations that processors do on several numbers at once: a tenth of the time
# of the library's. Arguments are brought within π/4 of a multiple of π/2, which is taken off in three parts of 33 bits
# (exact up to 2²⁰ of them; beyond, the error is that of the argument's own last bit), and polynomials of least relative
# error, found by Remez' algorithm in 50 digits, do the rest to about two units in the last place.
QUARTER = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)
"""π/2 in parts."""
SINE = (
    -0.1666666666666663202749, 0.008333333333322413777408, -0.0001984126982980789709779, 2.755731369194409401479e-06,
    -2.505075811881110045058e-08, 1.589679583548512061637e-10,
)  # fmt: skip
"""(sin r − r)/r³ in powers of r²."""
COSINE = (
    0.04166666666666659947584, -0.001388888888887412393307, 2.480158728948218354330e-05, -2.755731435233150250380e-07,
    2.087572327295273258488e-09, -1.135964778520592109351e-11,
)  # fmt: skip
"""(cos r − 1 + r²/2)/r⁴ in powers of r²."""


@cache
def _circular() -> tuple[Any, Any]:
    """Cosine and sine of float64 arrays."""
    import jax
    import jax.numpy as jnp

    def polynomial(z: Array, weights: tuple[float, ...]) -> Array:
        total = jnp.full_like(z, weights[-1])
        for weight in weights[-2::-1]:
            total = total * z + weight
        return total

    def turned(x: Array, ahead: int) -> Array:
        """Sine of x + ahead·π/2."""
        quarters = jnp.round(x * (2 / np.pi))
        r = x
        for part in QUARTER:
            r = r - quarters * part
        z = r * r
        along, across = r + r * z * polynomial(z, SINE), 1 - z / 2 + z * z * polynomial(z, COSINE)
        quarters = quarters + ahead
        halves = jnp.floor(quarters / 2)
        value = jnp.where(quarters == 2 * halves, along, across)
        return jnp.where(halves == 2 * jnp.floor(halves / 2), value, -value)

    @jax.custom_jvp
    def cosine(x: Array) -> Array:
        return turned(x, 1)

    @jax.custom_jvp
    def sine(x: Array) -> Array:
        return turned(x, 0)

    cosine.defjvp(lambda x, dx: (cosine(*x), -sine(*x) * dx[0]))
    sine.defjvp(lambda x, dx: (sine(*x), cosine(*x) * dx[0]))
    return cosine, sine
