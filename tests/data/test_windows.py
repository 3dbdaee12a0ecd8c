"""Windows of long recordings: which samples and which values are in them."""

import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw.data import read, recordings, sliding_windows, windowed

TROIKA = {"ppg1": 1, "ppg2": 2, "accx": 3, "accy": 4, "accz": 5}


def test_values_are_due_when_their_seconds_are_over():
    """At 10 samples a second value i, of the seconds 2i to 2i + 8, is due at sample 80 + 20i."""
    signal = np.arange(400.0)[:, None]
    x, y = sliding_windows(signal, np.arange(17.0), window=100, stride=40, every=20, rate=10)
    assert x.shape == (7, 100, 1)
    assert y.shape == (7, 5, 1)
    for i in range(7):
        begin = 60 + 40 * i  # the first output, 20 samples on, is the first value
        np.testing.assert_array_equal(x[i, :, 0], np.arange(begin, begin + 100))
        np.testing.assert_array_equal(y[i, :, 0], 2 * i + np.arange(5))


def test_values_in_between_are_on_straight_lines():
    signal, values = np.zeros((100, 2)), np.array([[0.0, 5.0], [10.0, 5.0], [30.0, 4.0]])
    _, y = sliding_windows(signal, values, window=40, stride=40, every=10, rate=10, first=2, spacing=2)
    np.testing.assert_allclose(y[0], [[0, 5], [5, 5], [10, 5], [20, 4.5]])


def test_values_may_be_due_at_once():
    """A value at second 0 cannot be had: the first output is due one stretch later."""
    _, y = sliding_windows(
        np.zeros((50, 1)), np.arange(6.0), window=20, stride=20, every=10, rate=10, first=0, spacing=1
    )
    np.testing.assert_array_equal(y[..., 0], [[1, 2], [3, 4]])


def test_no_window_goes_beyond_the_last_value():
    x, y = sliding_windows(np.zeros((900, 1)), np.arange(17.0), window=100, stride=40, every=20, rate=10)
    assert len(x) == 7
    assert y.max() == 16


def test_lengths_of_the_ppg_dalia_set():
    """As the literature has it: 49,920 steps, one window every 4,992, an output every 128 (2 s at 64 Hz)."""
    steps = 60_000
    signal, values = np.zeros((steps, 1)), np.arange((steps - 512) // 128 + 1)
    series = windowed("ppg", {"s1": (signal, values)}, window=49_920, stride=4_992, every=128, rate=64)
    assert series.x.shape == (2, 49_920, 1)
    assert (series.y.shape, series.every) == ((2, 390, 1), 128)
    assert series.overlap == pytest.approx(0.9)
    assert series.y[1, 0, 0] == 39  # 4,992 = 39·128


def test_recordings_are_groups():
    rng = np.random.default_rng(0)
    recorded = {k: (rng.normal(size=(n, 2)), np.arange(n // 20 - 3)) for k, n in (("a", 200), ("b", 300))}
    series = windowed("toy", recorded, window=40, stride=50, every=20, rate=10, channels=("u", "v"))
    assert (series.groups.tolist(), series.group_kind) == ([0, 0, 0, 1, 1, 1, 1, 1], "recording")
    assert (series.overlap, series.channels) == (0, ("u", "v"))


GOOD = {"window": 40, "stride": 20, "every": 20, "rate": 10}


@pytest.mark.parametrize(
    ("signal", "values", "options", "message"),
    [
        (np.zeros(200), np.zeros(7), {}, r"`signal` must have shape \(steps, channels\)"),
        (np.full((200, 1), np.nan), np.zeros(7), {}, "`signal` must be finite"),
        (np.zeros((200, 1)), np.zeros((7, 1, 1)), {}, "`values` must have shape"),
        (np.zeros((200, 1)), np.full(7, np.inf), {}, "`values` must be finite"),
        (np.zeros((200, 1)), np.zeros(7), {"window": 50}, "`window` must be a multiple of `every`, 20 steps"),
        (np.zeros((200, 1)), np.zeros(7), {"window": 160}, "`window` must be at most the 140 steps that have outputs"),
        (np.zeros((200, 1)), np.zeros(7), {"stride": 0}, "`stride` must be a finite number greater than 0"),
        (np.zeros((200, 1)), np.zeros(7), {"stride": 2.5}, "`stride` must be a whole number"),
        (np.zeros((200, 1)), np.zeros(7), {"first": -1}, "`first` must be at least 0"),
    ],
)
def test_refusals(signal, values, options, message):
    with pytest.raises(ArgumentError, match=message):
        sliding_windows(signal, values, **(GOOD | options))
    with pytest.raises(ArgumentError, match=rf"{message}.*\(recording r1\)"):
        windowed("toy", {"r1": (signal, values)}, **(GOOD | options))


def test_refusals_of_sets():
    with pytest.raises(ArgumentError, match="`recorded` must hold at least one"):
        windowed("toy", {}, **GOOD)
    mixed = {"a": (np.zeros((200, 1)), np.zeros(7)), "b": (np.zeros((200, 2)), np.zeros(7))}
    with pytest.raises(ArgumentError, match="must have as many channels"):
        windowed("toy", mixed, **GOOD)


def test_refusals_of_files(tmp_path):
    file = tmp_path / "raw.npz"
    with pytest.raises(ArgumentError, match="`path` must be a file"):
        recordings(file, **GOOD)
    np.savez(file, other=np.ones(3))
    with pytest.raises(ArgumentError, match=r"must hold recordings sig_NAME, but raw.npz holds none"):
        recordings(file, **GOOD)
    np.savez(file, sig_1=np.ones((2, 300)))
    with pytest.raises(ArgumentError, match=r"must hold sig_1 of shape \(channels, samples\) and bpm_1"):
        recordings(file, **GOOD)
    np.savez(file, sig_1=np.ones((2, 300)), bpm_1=np.ones(10))
    with pytest.raises(ArgumentError, match=r"`channels` must be rows from 0 to 1 of sig_1, but is \[2\]"):
        recordings(file, channels={"u": 2}, **GOOD)
    assert recordings(file, channels={"u": 1}, **GOOD).channels == ("u",)


def test_real_recordings_give_the_real_windows(real):
    """Windows of 8 s every 2 s with one output are the set that was cut by its source, but for the 8 s before it."""
    cut = read(real("TROIKA_PPG_HR.npz"))
    series = recordings(real("TROIKA_raw.npz"), window=1000, stride=250, every=1000, channels=TROIKA)
    assert series.channels == cut.channels
    assert series.overlap == cut.overlap
    np.testing.assert_array_equal(series.groups, cut.groups)
    np.testing.assert_array_equal(series.x, cut.x)
    np.testing.assert_allclose(series.y[:, 0, 0], cut.y, rtol=1e-6)  # interpolated at a value, in double precision


def test_real_recordings_as_long_sequences(real):
    series = recordings(real("TROIKA_raw.npz"), window=25_000, stride=2_500, every=250, channels=TROIKA)
    assert series.y.shape == (series.count, 100, 1)
    assert series.overlap == pytest.approx(0.9)
    with np.load(real("TROIKA_raw.npz")) as file:
        np.testing.assert_allclose(series.y[0, :, 0], file["bpm_01_TYPE01"][:100], rtol=1e-6)
        np.testing.assert_array_equal(series.x[0], file["sig_01_TYPE01"][1:, 750:25_750].T)
