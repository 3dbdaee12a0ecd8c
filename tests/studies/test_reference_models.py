"""Reference models: features by hand, gradients by differences, fits by other solvers, and a test part no fit sees."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize

from devices import ArgumentError
from studies.features import BANDS, BINS, FLOOR, _edges
from studies.reference_models import (
    Part,
    baselines,
    cross_entropy,
    flat,
    logistic,
    logistic_fit,
    mean_predictor,
    most_common,
    ridge,
    ridge_fit,
    ridge_weights,
    spectra,
    statistics,
)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


def split(array, *sizes):
    """Rows of an array as training, validation and test part."""
    return tuple(np.split(array, np.cumsum(sizes)[:-1]))


# Features -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [2, 7, 64, 401])
def test_statistics_are_what_they_are_called(rng, steps):
    x = rng.normal(size=(3, steps, 2))
    found = statistics(Part(x, np.zeros(3))).reshape(3, 16, 2)
    for row, series in zip(found, x, strict=True):
        for channel in range(2):
            s, f = series[:, channel], row[:, channel]
            expected = [s.mean(), s.std(), s.min(), *np.percentile(s, [25, 50, 75]), s.max(), np.abs(np.diff(s)).mean()]
            np.testing.assert_allclose(f[:8], expected, rtol=1e-12)
            # By Parseval the energies sum up to the variance; FLOOR is taken off again, with its rounding.
            assert np.sum(np.exp(f[8:]) - FLOOR) == pytest.approx(s.var(), rel=1e-9)


def test_the_energy_of_a_sine_is_in_its_band():
    """Amplitude²/2, at a whole number of periods, in the band that is open below and closed above."""
    steps, n = 1024, np.arange(1024)
    for band, (low, high) in enumerate(pairwise(BANDS)):
        cycles = high * steps if high < 0.5 else (low + high) / 2 * steps
        x = 5 + 0.6 * np.sin(2 * np.pi * cycles * n / steps)
        energies = np.exp(statistics(Part(x[None, :, None], [0.0]))[0, 8:]) - FLOOR
        np.testing.assert_allclose(energies, 0.18 * (np.arange(8) == band), atol=1e-12)


def test_padding_changes_no_statistics(rng):
    lengths = np.array([5, 40, 33, 64, 40])
    x = rng.normal(size=(5, 64, 3))
    x[np.arange(64) >= lengths[:, None]] = np.nan
    padded = statistics(Part(x, np.zeros(5), lengths))
    for row, length, series in zip(padded, lengths, x, strict=True):
        # Bit for bit but for the order of sums over one or several series.
        np.testing.assert_allclose(row, statistics(Part(series[None, :length], [0.0]))[0], rtol=1e-12, atol=1e-12)


def test_what_follows_the_end_of_a_series_is_never_seen(rng):
    lengths, y = np.array([5, 40, 33]), np.zeros(3)
    x = rng.normal(size=(3, 64, 2))
    other = np.where((np.arange(64) >= lengths[:, None])[:, :, None], np.nan, x)
    for feature in (flat, statistics, spectra):
        np.testing.assert_array_equal(feature(Part(x, y, lengths)), feature(Part(other, y, lengths)))
    series = flat(Part(x, y, lengths)).reshape(x.shape)
    np.testing.assert_array_equal(series[0, :5], x[0, :5])
    assert not series[0, 5:].any()


@pytest.mark.parametrize("steps", [2, 3, 50, 128, 131, 5000])
def test_bins_cover_every_frequency_once(steps):
    lines = steps // 2
    edges = _edges(lines)
    assert edges[0] == 1
    assert edges[-1] == lines + 1
    assert len(edges) - 1 == min(lines, BINS)
    widths = np.diff(edges)
    assert widths.min() >= 1
    if lines > BINS:  # the widest: a constant fraction of its frequency, but for rounding
        assert widths[-1] / edges[-2] == pytest.approx(widths[-9] / edges[-10], abs=1.5 / edges[-10])


def test_spectra_of_noise_are_flat_and_those_of_a_sine_are_not(rng):
    noise = np.exp(spectra(Part(rng.normal(size=(4000, 90, 1)), np.zeros(4000)))) - FLOOR
    # Powers of noise have an exponential distribution: 5 standard errors. The mean takes from the lowest line.
    np.testing.assert_allclose(noise.mean(axis=0)[1:], 1, atol=5 * 2**0.5 / 4000**0.5)
    n = np.arange(300)
    short = np.sin(2 * np.pi * 0.1 * n + 0.3) * (n < 200)
    whole = np.sin(2 * np.pi * 0.1 * n + 0.3)
    found = spectra(Part(np.stack([short, whole])[:, :, None], np.zeros(2), [200, 300]))
    line = 0.1 * 300
    bin_of_it = np.searchsorted(_edges(150), line, side="right") - 1
    np.testing.assert_array_equal(found.argmax(axis=1), bin_of_it)


# Logistic regression ------------------------------------------------------------------------------------------------


def test_slopes_of_the_cross_entropy_are_its_differences(rng):
    x, labels = rng.normal(size=(12, 5)), rng.integers(0, 3, 12)
    weights = rng.normal(size=18)
    _, slopes = cross_entropy(weights, x, labels, 0.3)
    up, down = (approx_fprime(weights, lambda w: cross_entropy(w, x, labels, 0.3)[0], s) for s in (1e-5, -1e-5))
    np.testing.assert_allclose(slopes, (up + down) / 2, atol=1e-9)  # central: step² and rounding/step


@pytest.mark.parametrize("features", [4, 50])
def test_the_fit_is_the_minimum_over_all_features(rng, features):
    """Found by another solver without principal directions, also where features outnumber series."""
    x = rng.normal(size=(80, features)) * np.geomspace(1, 100, features) + 3
    labels = (x[:, :3] / x[:, :3].std(axis=0) + rng.normal(size=(80, 3))).argmax(axis=1)
    model = logistic_fit((x[:40], x[40:]), (labels[:40], labels[40:]), 3)
    z = (x[:40] - x[:40].mean(axis=0)) / x[:40].std(axis=0) / features**0.5
    start = np.zeros((features + 1) * 3)
    other = minimize(cross_entropy, start, (z, labels[:40], model.penalty), "BFGS", jac=True, options={"gtol": 1e-9})
    mine = np.concatenate([model.weights, model.intercept[None]]).ravel()
    losses = [cross_entropy(w, z, labels[:40], model.penalty)[0] for w in (mine, other.x)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    weights = other.x.reshape(-1, 3)
    np.testing.assert_allclose(model(x[:40]), z @ weights[:-1] + weights[-1], atol=2e-3)  # √ of the gap / penalty


def test_what_can_be_separated_is(rng):
    labels = np.arange(150) % 3
    x = rng.normal(size=(150, 10)) + 12 * np.eye(3, 10)[labels]
    score = logistic(split(x, 60, 45, 45), split(labels, 60, 45, 45), 3)
    assert score.metrics == {"accuracy": 1.0}


def test_random_labels_are_told_by_chance(rng):
    x, labels = rng.normal(size=(700, 30)), rng.integers(0, 4, 700)
    score = logistic(split(x, 200, 100, 400), split(labels, 200, 100, 400), 4)
    assert score.metrics["accuracy"] == pytest.approx(0.25, abs=4 * (0.25 * 0.75 / 400) ** 0.5)  # 4 standard errors


def test_twenty_thousand_features_of_three_hundred_series(rng):
    """One direction of very many tells the classes, and is sought in the span of the series: it takes a second."""
    labels = rng.integers(0, 2, 400)
    x = rng.normal(size=(400, 20_000))
    x[:, :400] += 0.6 * (2 * labels[:, None] - 1)
    score = logistic(split(x, 300, 50, 50), split(labels, 300, 50, 50), 2)
    assert score.metrics["accuracy"] > 0.9


def test_a_class_may_be_missing_in_training_and_a_feature_constant(rng):
    x = rng.normal(size=(60, 4))
    x[:, 3] = 7.0
    labels = (x[:, 0] > 0).astype(int)
    labels[50:] = 2
    x[50:, 3] = 1e9  # what was constant in training has no say, however far off it is
    score = logistic(split(x, 30, 10, 20), split(labels, 30, 10, 20), 3)
    assert 0.4 <= score.metrics["accuracy"] <= 0.5


# Ridge regression ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "features"), [(40, 15), (15, 40), (20, 20)])
def test_dual_and_primal_ridge_are_equal(rng, count, features):
    x, y = rng.normal(size=(count, features)) / features**0.5, rng.normal(size=count)
    penalties = [10.0, 0.1, 1e-3, 1e-5]
    primal, dual = (ridge_weights(x, y, penalties, dual=dual) for dual in (False, True))
    np.testing.assert_allclose(primal, dual, atol=1e-10 * np.abs(dual).max())
    for weights, penalty in zip(primal.T, penalties, strict=True):  # least squares with penalties as further rows
        rows = np.concatenate([x, (penalty * count) ** 0.5 * np.eye(features)])
        expected = np.linalg.lstsq(rows, np.concatenate([y, np.zeros(features)]))[0]
        np.testing.assert_allclose(weights, expected, atol=1e-9 * np.abs(expected).max())


def test_a_linear_law_is_found_in_units_of_y(rng):
    x = 50 + 20 * rng.normal(size=(300, 6))
    y = x @ rng.normal(size=6) + 1000 + 0.5 * rng.normal(size=300)
    score = ridge(split(x, 150, 50, 100), split(y, 150, 50, 100))
    assert score.metrics["rms"] == pytest.approx(0.5, rel=0.25)  # the noise; 3.5 standard errors of 100 draws
    assert score.metrics["mae"] == pytest.approx(0.5 * (2 / np.pi) ** 0.5, rel=0.3)
    assert score.metrics["mse_normalised"] == pytest.approx(score.metrics["rms"] ** 2 / y[:150].var(), rel=1e-12)


def sines(rng, count):
    """Sines of random phase whose frequency, in cycles per 200 steps, is what is to be told."""
    cycles = rng.uniform(5, 30, count)
    phase = 2 * np.pi * (cycles[:, None] * np.arange(200) / 200 + rng.uniform(size=(count, 1)))
    return Part(2**0.5 * np.sin(phase)[:, :, None], cycles)


def test_spectra_tell_frequencies_that_the_series_itself_does_not(rng):
    scores = baselines(sines(rng, 300), sines(rng, 100), sines(rng, 100), None)
    rms = {name: score.metrics["rms"] for name, score in scores.items()}
    assert list(rms) == ["mean predictor", "ridge, flat series", "ridge, summary statistics", "ridge, spectra"]
    assert rms["mean predictor"] == pytest.approx(25 / 12**0.5, rel=0.2)  # uniform over 25 cycles
    assert rms["ridge, spectra"] < 0.1 * rms["mean predictor"]
    assert rms["ridge, flat series"] > 0.8 * rms["mean predictor"]


# Choice of penalties ------------------------------------------------------------------------------------------------


def test_test_labels_change_nothing_but_the_score(rng):
    x, sizes = rng.normal(size=(140, 6)), (60, 40, 40)
    y = x[:, 0] + rng.normal(size=140)
    features, labels = split(x, *sizes), split((y > 0).astype(int), *sizes)
    model = logistic_fit(features[:2], labels[:2], 2)
    for told in (labels[2], rng.permutation(labels[2]), 1 - labels[2]):
        score = logistic(features, (*labels[:2], told), 2)
        assert score.penalty == model.penalty
        assert score.metrics["accuracy"] == np.mean(model(features[2]).argmax(axis=1) == told)
    values = split(y, *sizes)
    line = ridge_fit(features[:2], values[:2])
    for told in (values[2], rng.permutation(values[2]), -values[2]):
        score = ridge(features, (*values[:2], told))
        assert score.penalty == line.penalty
        assert score.metrics["mae"] == np.mean(np.abs(line(features[2])[:, 0] - told))


def test_the_validation_part_chooses_the_penalty(rng):
    """If it follows the training part a weak one is best; if it contradicts it, the strongest."""
    x = rng.normal(size=(80, 10))
    y = x @ rng.normal(size=10)
    labels = (y > 0).astype(int)
    weak, strong = (ridge_fit((x[:40], x[40:]), (y[:40], s * y[40:])).penalty for s in (1, -1))
    assert weak < 1e-6 < 10 < strong
    parts = ((labels[:40], one) for one in (labels[40:], 1 - labels[40:]))
    weak, strong = (logistic_fit((x[:40], x[40:]), y, 2).penalty for y in parts)
    assert weak < 1e-2 < strong


# Those that ignore the series, and all together ---------------------------------------------------------------------


def test_models_that_ignore_the_series():
    labels = (np.array([2, 1, 2, 0]), np.array([0]), np.array([2, 2, 1, 0, 2]))
    assert most_common(labels, 3).metrics == {"accuracy": 0.6}
    values = (np.array([1.0, 3.0]), np.array([0.0]), np.array([2.0, 5.0, -2.0]))
    assert mean_predictor(values).metrics == pytest.approx(
        {"rms": (25 / 3) ** 0.5, "mae": 7 / 3, "mse_normalised": 25 / 3}
    )


def test_all_models_of_classification(rng):
    """Classes differ by frequency at random phase: statistics tell them, and the flat series does not."""

    def part(count):
        labels, lengths = np.arange(count) % 2, rng.integers(60, 101, count)
        turns = np.where(labels, 0.02, 0.2)[:, None] * np.arange(100) + rng.uniform(size=(count, 1))
        return Part(np.sin(2 * np.pi * turns)[:, :, None].astype(np.float32), labels, lengths)

    scores = baselines(part(80), part(40), part(60), 2)
    accuracies = {name: score.metrics["accuracy"] for name, score in scores.items()}
    assert list(accuracies) == ["most common class", "logistic, flat series", "logistic, summary statistics"]
    assert accuracies["most common class"] == 0.5
    assert accuracies["logistic, flat series"] < 0.8
    assert accuracies["logistic, summary statistics"] == 1.0
    assert scores["most common class"].penalty is None


# Refused ------------------------------------------------------------------------------------------------------------


def test_bad_series_are_refused(rng):
    x, y = rng.normal(size=(4, 6, 2)), np.zeros(4)
    holed = x.copy()
    holed[2, 4, 1] = np.nan
    for arguments, words in (
        ((x[0], y), r"`x` must be real, of shape \(count, steps, channels\).*has shape \(6, 2\)"),
        ((x[:, :1], y), "at least 2 steps"),
        ((x[:0], y[:0]), r"has shape \(0, 6, 2\)"),
        ((x * 1j, y), "type complex128"),
        ((holed, y), "`x` must be finite, but series 2 holds NaN"),
        ((holed, y, [6, 6, 5, 6]), "series 2 holds NaN"),
        ((x, y[:3]), "`y` must be 4 whole numbers or floats"),
        ((x, y > 0), "type bool"),
        ((x, y + np.inf), "`y` must be finite"),
        ((x, y, [6, 6, 6]), "`lengths` must be 4 whole numbers"),
        ((x, y, [6, 6, 6, 6.0]), "type float64"),
        ((x, y, [6, 6, 6, 7]), "`lengths` must be from 2 to 6, but is from 6 to 7"),
        ((x, y, [6, 6, 6, 1]), "but is from 1 to 6"),
    ):
        with pytest.raises(ArgumentError, match=words):
            Part(*arguments)
    Part(holed, y, [6, 6, 4, 6])


def test_bad_parts_are_refused(rng):
    x, labels, values = rng.normal(size=(4, 6, 2)), np.array([0, 1, 0, 2]), np.arange(4.0)
    named, valued = Part(x, labels), Part(x, values)
    for arguments, words in (
        (
            (named, named, named, 2),
            "`labels` must be whole numbers from 0 to 1, but those of the training part are int64",
        ),
        ((named, named, named, 1), "`classes` must be at least 2, but is 1"),
        ((named, valued, named, 3), "those of the validation part are float64"),
        ((named, named, Part(x, labels - 1), 3), "those of the test part are int64 of shape .* from -1 to 1"),
        ((named, named, named, None), "`values` must be finite floats, .* give `classes` if they are labels"),
        ((valued, valued, named, None), "those of the test part"),
        ((Part(x, values * 0), valued, valued, None), "`values` must differ in the training part, but all are 0.0"),
        ((valued, Part(x[:, :5], values), valued, None), "`validation` must have 6 steps and 2 channels.*has 5 and 2"),
        ((valued, valued, Part(x[:, :, :1], values), None), "`test` must have 6 steps"),
    ):
        with pytest.raises(ArgumentError, match=words):
            baselines(*arguments)


def test_bad_features_are_refused(rng):
    f, labels, values = rng.normal(size=(4, 3)), np.array([0, 1, 0, 1]), np.arange(4.0)
    for bad in (f[:3], f[:, :2], f[0], f + np.nan, f.astype(int)):
        with pytest.raises(ArgumentError, match=r"`features` must be finite floats of shape \(4, 3\) in the test part"):
            logistic((f, f, bad), (labels,) * 3, 2)
        with pytest.raises(ArgumentError, match=r"of shape \(4, 3\) in the validation part"):
            ridge((f, bad, f), (values,) * 3)
