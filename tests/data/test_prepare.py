"""Scaling, time, and fewer steps."""

import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw.data import Scaling, Series, cropped, decimated, with_time

RNG = np.random.default_rng(0)


def uneven():
    """Six series of 5 to 10 steps in two channels far from zero."""
    lengths = np.array([10, 7, 5, 9, 10, 6])
    x = RNG.normal([100, -3], [5, 0.1], (6, 10, 2))
    x[np.arange(10) >= lengths[:, None]] = 0
    return Series("toy", x, [0, 1, 0, 1, 0, 1], ("a", "b"), ("u", "v"), lengths)


def sequences():
    return Series("toy", RNG.normal(size=(4, 24, 1)), np.arange(16.0).reshape(4, 4, 1), overlap=0.5)


# Scaling ------------------------------------------------------------------------------------------------------------


def test_the_training_part_gets_mean_0_and_deviation_1():
    series, train = uneven(), [0, 1, 2, 5]
    scaled = Scaling.fitted(series, train).apply(series)
    values = np.concatenate([scaled.x[i, : series.lengths[i]] for i in train])
    np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-5)  # single precision of values near 100
    np.testing.assert_allclose(values.std(axis=0), 1, rtol=1e-5)
    for i, length in enumerate(series.lengths):
        assert not scaled.x[i, length:].any()
    assert scaled.x[3, 0, 0] == pytest.approx((series.x[3, 0, 0] - 100) / 5, abs=1)
    assert scaled.y.tolist() == series.y.tolist()


def test_other_parts_do_not_matter():
    series = uneven()
    x = series.x.copy()
    x[3:5, :5] += 1000
    other = Series("other", x, series.y, series.classes, lengths=series.lengths)
    one, two = Scaling.fitted(series, [0, 1, 2, 5]), Scaling.fitted(other, [0, 1, 2, 5])
    np.testing.assert_array_equal(one.mean, two.mean)
    np.testing.assert_array_equal(one.deviation, two.deviation)


@pytest.mark.parametrize("shape", [(50,), (50, 2, 3)])
def test_values_to_be_learnt_come_back(shape):
    y = RNG.normal(120, 30, shape)
    series = Series("toy", RNG.normal(size=(50, 4, 1)), y)
    scaling = Scaling.fitted(series, np.arange(40))
    scaled = scaling.apply(series)
    axes = 0 if len(shape) == 1 else (0, 1)
    np.testing.assert_allclose(scaled.y[:40].mean(axis=axes), 0, atol=1e-5)
    np.testing.assert_allclose(scaled.y[:40].std(axis=axes), 1, rtol=1e-5)
    np.testing.assert_allclose(scaling.unscaled(scaled.y), y, rtol=1e-5)


def test_constant_channels_are_named_and_not_blown_up():
    """0.1 is no binary fraction: were the mean of 33,000 off by a rounding, the deviation would be no scale."""
    x = np.full((30, 1100, 2), 0.1)
    x[..., 1] = RNG.normal(size=(30, 1100))
    scaling = Scaling.fitted(Series("toy", x, np.full(30, 0.7), channels=("still", "moving")), np.arange(30))
    assert scaling.constant == ("still", "target 0")
    assert (scaling.deviation[0], scaling.target_deviation[0]) == (1, 1)
    assert str(scaling).endswith("constant there: still, target 0")
    x[0, 0, 0] = 2.1
    scaled = scaling.apply(Series("toy", x, np.full(30, 0.7)))
    assert scaled.x[0, 0, 0] == pytest.approx(2)
    assert not scaled.x[1:, :, 0].any()
    assert not scaled.y.any()


def test_refusals_of_scalings():
    series = uneven()
    scaling = Scaling.fitted(series, [0, 1])
    with pytest.raises(ArgumentError, match="must be like the set the scaling was fitted to, but toy has 3 channels"):
        scaling.apply(with_time(series))
    with pytest.raises(ArgumentError, match="has 2 channels for regression"):
        scaling.apply(Series("toy", np.ones((2, 3, 2)), [0.0, 1.0]))
    with pytest.raises(ArgumentError, match="the scaling is of classes"):
        scaling.unscaled([1.0])
    of_sequences = Scaling.fitted(Series("toy", np.ones((2, 4, 1)), np.ones((2, 2, 3))), [0, 1])
    with pytest.raises(ArgumentError, match=r"`y` must have 3 values last, but has shape \(2,\)"):
        of_sequences.unscaled([1.0, 2.0])
    with pytest.raises(ArgumentError, match="must have 3 values to be learnt, but has 1"):
        of_sequences.apply(Series("toy", np.ones((2, 4, 1)), np.ones(2)))
    with pytest.raises(ArgumentError, match="`index` must be a list"):
        Scaling.fitted(series, [])


# Time ---------------------------------------------------------------------------------------------------------------


def test_time_goes_from_0_to_1():
    series = uneven()
    timed = with_time(series)
    assert timed.channels == ("time", "u", "v")
    np.testing.assert_allclose(timed.x[0, :, 0], np.arange(10) / 10, rtol=1e-6)
    np.testing.assert_allclose(timed.x[2, :, 0], [0, 0.1, 0.2, 0.3, 0.4, 0, 0, 0, 0, 0], rtol=1e-6)
    np.testing.assert_array_equal(timed.x[..., 1:], series.x)
    with pytest.raises(ArgumentError, match="must not have time yet"):
        with_time(timed)


# Fewer steps --------------------------------------------------------------------------------------------------------


def test_means_of_blocks():
    series = uneven()
    fewer = decimated(series, 3)
    assert fewer.lengths.tolist() == [3, 2, 1, 3, 3, 2]
    assert fewer.x.shape == (6, 3, 2)
    np.testing.assert_allclose(fewer.x[0, 2], series.x[0, 6:9].mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(fewer.x[2, 0], series.x[2, :3].mean(axis=0), rtol=1e-6)
    assert not fewer.x[2, 1:].any()  # the block of steps 3 and 4 is not whole
    np.testing.assert_array_equal(decimated(series, 1).x, series.x)


def test_no_alias_of_a_fast_oscillation():
    """A sine of three steps a period, of which every third sample alone would be a constant, is averaged away."""
    x = np.sin(2 * np.pi * np.arange(60) / 3 + 1)[None, :, None]
    np.testing.assert_allclose(decimated(Series("toy", x, [0.0]), 3).x, 0, atol=1e-6)


def test_sequences_keep_their_outputs():
    series = sequences()
    fewer = decimated(series, 3)
    assert (fewer.steps, fewer.every, fewer.overlap) == (8, 2, 0.5)
    np.testing.assert_array_equal(fewer.y, series.y)
    with pytest.raises(ArgumentError, match="`by` must divide the 6 steps from one output to the next, but is 4"):
        decimated(series, 4)


def test_crops():
    series = uneven()
    start, middle = cropped(series, 6), cropped(series, 6, "middle")
    assert start.lengths.tolist() == middle.lengths.tolist() == [6, 6, 5, 6, 6, 6]
    np.testing.assert_array_equal(start.x[0], series.x[0, :6])
    np.testing.assert_array_equal(middle.x[0], series.x[0, 2:8])
    np.testing.assert_array_equal(middle.x[3], series.x[3, 1:7])
    np.testing.assert_array_equal(middle.x[2], series.x[2, :6])


def test_crops_of_sequences():
    series = sequences()
    start, middle = cropped(series, 12), cropped(series, 12, "middle")
    np.testing.assert_array_equal(start.y, series.y[:, :2])
    np.testing.assert_array_equal(middle.x, series.x[:, 6:18])
    np.testing.assert_array_equal(middle.y, series.y[:, 1:3])
    assert middle.overlap == 0  # windows were 12 steps apart
    assert cropped(series, 18).overlap == pytest.approx(1 / 3)
    odd = cropped(series, 18, "middle")
    np.testing.assert_array_equal(odd.x, series.x[:, :18])
    np.testing.assert_array_equal(odd.y, series.y[:, :3])
    with pytest.raises(ArgumentError, match="`steps` must be a multiple of the 6 steps"):
        cropped(series, 10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: decimated(s, 0), "`by` must be a whole number of at least 1"),
        (lambda s: decimated(s, 2.0), "`by` must be a whole number of at least 1"),
        (lambda s: decimated(s, 6), "`by` must be at most the 5 steps of the shortest"),
        (lambda s: cropped(s, 11), "`steps` must be at most 10, but is 11"),
        (lambda s: cropped(s, True), "`steps` must be a whole number"),
        (lambda s: cropped(s, 5, "end"), '`at` must be "start" or "middle", but is \'end\''),
    ],
)
def test_refusals(call, message):
    with pytest.raises(ArgumentError, match=message):
        call(uneven())
