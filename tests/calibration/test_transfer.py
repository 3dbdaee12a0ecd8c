"""Converters' curves and how they are undone."""

import numpy as np
import pytest

from calibration.transfer import MOST, Transfer
from devices import ArgumentError

SIGNALS = np.linspace(-3, 3, 601)[:, None] * np.ones(2)


@pytest.mark.parametrize("bow", [0.0, 0.02, -MOST, MOST])
@pytest.mark.parametrize("gain", [0.5, 1.0, np.array([0.98, 1.03])])
@pytest.mark.parametrize("offset", [0.0, -0.1])
def test_correct_undoes_embed(gain, offset, bow):
    """Beyond the full scale too, to rounding."""
    curve = Transfer(2.0, gain, offset, bow)
    np.testing.assert_allclose(curve.correct(curve.embed(SIGNALS)), SIGNALS, rtol=0, atol=1e-13)
    np.testing.assert_allclose(curve.embed(curve.correct(SIGNALS)), SIGNALS, rtol=0, atol=1e-13)


def test_an_ideal_curve_changes_no_bit():
    curve = Transfer(2.0)
    assert curve.ideal
    np.testing.assert_array_equal(curve.embed(SIGNALS), SIGNALS)
    np.testing.assert_array_equal(curve.correct(SIGNALS), SIGNALS)


def test_bow_is_the_largest_deviation_in_full_scales():
    r = np.linspace(-1, 1, 20_001)
    assert np.max(Transfer(1.0, bow=0.05).embed(r) - r) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("bad", [{"gain": 0.0}, {"gain": np.nan}, {"bow": 2 * MOST}, {"bow": -np.inf}])
def test_curves_that_cannot_be_undone_are_refused(bad):
    with pytest.raises(ArgumentError, match="must be"):
        Transfer(1.0, **bad)
