"""Made-up tasks: they are what they say, and chance is what they say."""

import numpy as np
import pytest
from scipy.stats import norm

from devices import ArgumentError
from rhel_hw.data import adding_problem, delayed_recall, pulse_detection
from rhel_hw.data.synthetic import pulses


@pytest.mark.parametrize("make", [adding_problem, delayed_recall, pulse_detection])
def test_seeds(make):
    one, again, other = (make(30, 60, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one.x, again.x)
    np.testing.assert_array_equal(one.y, again.y)
    assert not np.array_equal(one.x, other.x)
    assert not np.array_equal(one.y, other.y)
    assert (one.count, one.steps) == (30, 60)
    assert one.name in ("adding", "delayed-recall", "pulse-detection")


# Delayed recall -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 7, 49, None])
def test_the_label_is_the_symbol_shown_then(delay):
    series = delayed_recall(200, 50, delay=delay, classes=5, seed=1)
    assert series.x.shape == (200, 50, 5)
    assert set(np.unique(series.x)) == {0, 1}
    np.testing.assert_array_equal(series.x.sum(axis=2), 1)
    step = 49 - (25 if delay is None else delay)
    np.testing.assert_array_equal(series.x[:, step].argmax(axis=1), series.y)


def test_chance_of_recall():
    """All labels are equally frequent, and no other step tells more than chance, within five deviations."""
    count, classes = 4000, 4
    series = delayed_recall(count, 20, delay=5, classes=classes)
    assert np.bincount(series.y).tolist() == [1000] * 4
    right = (series.x.argmax(axis=2) == series.y[:, None]).mean(axis=0)
    assert right[14] == 1
    deviation = np.sqrt((1 / classes) * (1 - 1 / classes) / count)
    assert np.abs(np.delete(right, 14) - 1 / classes).max() < 5 * deviation
    assert np.bincount(delayed_recall(10, 5, classes=4).y, minlength=4).tolist() == [3, 3, 2, 2]


# Adding -------------------------------------------------------------------------------------------------------------


def test_the_sum_of_the_marked():
    series = adding_problem(500, 31, seed=2)
    values, markers = series.x[..., 0], series.x[..., 1]
    assert set(np.unique(markers)) == {0, 1}
    np.testing.assert_array_equal(markers[:, :15].sum(axis=1), 1)
    np.testing.assert_array_equal(markers[:, 15:].sum(axis=1), 1)
    np.testing.assert_allclose(series.y, (values * markers).sum(axis=1), rtol=1e-6)
    assert values.min() >= 0
    assert values.max() < 1
    assert (markers.sum(axis=0) > 0).all()


def test_the_error_of_the_mean_is_a_sixth():
    """Variance 1/6; its estimate from n has a deviation of sqrt((m4 − 1/36)/n), with m4 = 1/15 for the triangle."""
    series = adding_problem(20_000, 10)
    error = np.mean((series.y.astype(float) - 1) ** 2)
    assert abs(error - 1 / 6) < 5 * np.sqrt((1 / 15 - 1 / 36) / 20_000)
    assert abs(series.y.mean() - 1) < 5 * np.sqrt(1 / 6 / 20_000)


# Pulses -------------------------------------------------------------------------------------------------------------


def test_shapes_have_energy_1_and_are_orthogonal():
    np.testing.assert_allclose(pulses(32, 32) @ pulses(32, 32).T, np.eye(32), atol=1e-12)


def test_without_noise_the_pulse_is_all_there_is():
    series = pulse_detection(300, 200, noise=0, classes=4, width=16, seed=3)
    assert np.bincount(series.y).tolist() == [75] * 4
    shapes = pulses(3, 16)
    begins = set()
    for x, label in zip(series.x[..., 0], series.y, strict=True):
        if not label:
            assert not x.any()
            continue
        begin = np.flatnonzero(np.abs(x) > 1e-6)[0]
        begins.add(begin)
        np.testing.assert_allclose(x[begin : begin + 16], shapes[label - 1], atol=1e-6)
        assert not x[:begin].any()
        assert not x[begin + 16 :].any()
    assert min(begins) < 20
    assert 160 < max(begins) <= 184
    assert series.classes == ("none", "1 half wave", "2 half waves", "3 half waves")


@pytest.mark.parametrize("noise", [0.3, 0.5, 1.0])
def test_no_one_beats_the_matched_filter(noise):
    """At a known place it is right in Φ(1/(2·noise)) of all cases; elsewhere there is noise of the stated size."""
    count = 20_000
    series = pulse_detection(count, 32, noise=noise)
    seen = series.x[..., 0] @ pulses(1, 32)[0]
    right = np.mean((seen > 0.5) == series.y)
    wanted = norm.cdf(1 / (2 * noise))
    assert abs(right - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / count)
    silent = series.x[series.y == 0]
    assert silent.std() == pytest.approx(noise, rel=5 / np.sqrt(2 * silent.size))


def test_where_the_pulse_is_unknown_it_can_still_be_found():
    """At the noise that is the default: the best place of a matched filter tells well, and the mean nothing."""
    series = pulse_detection(400, 1000)
    best = np.array([np.convolve(x, pulses(1, 32)[0][::-1], "valid").max() for x in series.x[..., 0]])
    threshold = np.median(best)
    assert np.mean((best > threshold) == series.y) > 0.9
    power = (series.x[..., 0] ** 2).mean(axis=1)
    assert np.mean((power > np.median(power)) == series.y) < 0.8


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (adding_problem, {"count": 0}, "`count` must be a whole number of at least 1, but is 0"),
        (adding_problem, {"steps": 1}, "`steps` must be a whole number of at least 2"),
        (adding_problem, {"seed": -1}, "`seed` must be a whole number of at least 0"),
        (adding_problem, {"seed": None}, "`seed` must be a whole number of at least 0"),
        (delayed_recall, {"delay": 200}, "`delay` must be less than the 200 steps, but is 200"),
        (delayed_recall, {"delay": -1}, "`delay` must be a whole number of at least 0"),
        (delayed_recall, {"classes": 1}, "`classes` must be a whole number of at least 2"),
        (pulse_detection, {"noise": -0.1}, "`noise` must be at least 0"),
        (pulse_detection, {"noise": np.nan}, "`noise` must be at least 0"),
        (pulse_detection, {"steps": 31}, "`steps` must be a whole number of at least 32, but is 31"),
        (pulse_detection, {"classes": 6, "width": 4}, "`classes` must be at most 5"),
    ],
)
def test_refusals(make, options, message):
    with pytest.raises(ArgumentError, match=message):
        make(**options)
