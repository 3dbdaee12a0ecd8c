"""Sine and cosine of energies against NumPy in long double, and their derivatives against themselves."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devices.maths import cos, sin, sinc

LAST = 2.0**-53
"""Half a unit in the last place of 1."""


@pytest.mark.parametrize("size", [1e-3, 1.0, 10.0, 1e3, 1e6])
def test_sine_and_cosine_are_right_to_two_units(size):
    """Long double has eleven more bits, so NumPy's values are exact here."""
    x = np.random.default_rng(0).uniform(-size, size, 20_000)
    x[:9] = np.arange(-4, 5) * np.pi / 4 * min(size, 1)
    for ours, numpys in ((sin, np.sin), (cos, np.cos)):
        exact = numpys(x.astype(np.longdouble))
        found = np.asarray(jax.jit(ours)(jnp.asarray(x)))
        assert np.max(np.abs(found - exact)) < 2 * 2 * LAST
        assert np.max(np.abs(found)) <= 1


def test_small_sines_keep_their_digits():
    x = np.logspace(-300, -1, 400)
    assert np.asarray(sin(jnp.asarray(x))) == pytest.approx(np.sin(x), rel=4 * LAST)
    assert float(sin(jnp.asarray(-0.0))) == 0


def test_derivatives_of_all_orders_are_those_of_circles():
    x = np.linspace(-20, 20, 41)
    first, second = (jax.vmap(f)(jnp.asarray(x)) for f in (jax.grad(sin), jax.grad(jax.grad(sin))))
    assert np.asarray(first) == pytest.approx(np.cos(x), abs=4 * LAST)
    assert np.asarray(second) == pytest.approx(-np.sin(x), abs=4 * LAST)
    assert np.asarray(jax.jvp(cos, (jnp.asarray(x),), (jnp.asarray(x),))[1]) == pytest.approx(-np.sin(x) * x, abs=1e-14)


def test_what_is_no_number_stays_none():
    assert np.isnan(np.asarray(sin(jnp.array([np.nan, np.inf, -np.inf])))).all()


def test_other_formats_are_the_librarys():
    assert sin(jnp.float32(1)).dtype == jnp.float32
    assert float(cos(0.5)) == np.cos(0.5)


def test_sinc_and_its_slope_near_zero():
    """Against series to the tenth order, on both sides of where the formula changes."""
    x = jnp.array([0.0, 1e-9, 1e-3, 0.0499999, 0.0500001, 0.1])
    z = np.asarray(x, np.longdouble) ** 2
    value = 1 - z / 6 + z**2 / 120 - z**3 / 5040 + z**4 / 362880 - z**5 / 39916800
    slope = np.asarray(x) * (-1 / 3 + z / 30 - z**2 / 840 + z**3 / 45360 - z**4 / 3991680)
    assert np.asarray(sinc(x)) == pytest.approx(value.astype(float), abs=4 * LAST)
    assert np.asarray(jax.vmap(jax.grad(sinc))(x)) == pytest.approx(slope.astype(float), abs=1e-14)
    assert float(sinc(jnp.asarray(np.pi))) == pytest.approx(0, abs=1e-16)
