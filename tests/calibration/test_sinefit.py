"""Sine fits against sines that are known, and effective bits against converters that have them."""

import numpy as np
import pytest

from calibration.sinefit import deviation, sine_fit
from devices import ArgumentError

TIMES = np.arange(256.0)


def test_a_pure_sine_is_found_exactly():
    y = 0.3 + 0.8 * np.sin(2 * np.pi * 0.0913 * TIMES + 0.7)
    found = sine_fit(TIMES, y, 0.0905)
    assert found.frequency == pytest.approx(0.0913, rel=1e-12)
    assert found.amplitude == pytest.approx(0.8, rel=1e-12)
    assert found.phase == pytest.approx(0.7, rel=1e-10)
    assert found.offset == pytest.approx(0.3, rel=1e-12)
    assert found.residual < 1e-13


@pytest.mark.parametrize("bits", [6, 8, 10, 12])
def test_an_ideal_converter_has_its_bits(bits):
    """Its residual is a step over √12; within the scatter of 4096 samples."""
    step, times = 2 / 2**bits, np.arange(4096.0)
    y = np.round(0.99 * np.sin(2 * np.pi * 0.1037 * times + 0.1) / step) * step
    assert sine_fit(times, y, 0.1037).effective_bits(1.0) == pytest.approx(bits, abs=0.1)


def test_noise_is_what_is_left():
    rng = np.random.default_rng(3)
    y = np.sin(2 * np.pi * 0.21 * TIMES)[:, None] + 0.02 * rng.normal(size=(256, 50))
    found = sine_fit(TIMES, y, 0.21)
    assert np.sqrt(np.mean(found.residual**2)) == pytest.approx(0.02, rel=0.03)  # 12,600 degrees of freedom
    assert np.std(found.amplitude) == pytest.approx(0.02 * np.sqrt(2 / 256), rel=0.3)  # of 50


def test_a_histogram_shows_the_bow():
    """r − r³ less the straight line through it, of levels that are equally dense."""
    r = np.linspace(-1, 1, 4001)
    found = deviation(r, 1.1 * r + 0.2 + 0.03 * (r - r**3), bins=10)
    middle = np.linspace(-0.9, 0.9, 10)
    np.testing.assert_allclose(found, 0.03 * (3 / 5 * middle - middle**3), atol=4e-4)  # width of the bins


def test_too_few_samples_are_refused():
    with pytest.raises(ArgumentError, match="at least 5"):
        sine_fit(np.arange(4.0), np.zeros(4), 0.1)
