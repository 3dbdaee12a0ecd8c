"""Channels that are shifted copies: found, undone, and not seen where there are none."""

from dataclasses import replace

import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw.data import Series, Shift, adding_problem, delayed_recall, read, shifted_copies, unshifted


def faulty(electrodes, lag, width):
    """What a file with the fault would hold of (count, steps, electrodes)."""
    count, steps, _ = electrodes.shape
    long = electrodes.transpose(0, 2, 1).reshape(count, -1)
    x = np.stack([long[:, lag * j : lag * j + steps] for j in range(width)], axis=2)
    return Series("faulty", x, np.zeros(count, int), ("a",))


def noise(count=20, steps=300, electrodes=4, seed=0):
    return np.random.default_rng(seed).normal(size=(count, steps, electrodes)).astype(np.float32)


@pytest.mark.parametrize(
    ("steps", "lag", "width", "whole"),
    [(300, 16, 16, 1), (300, 16, 40, 3), (50, 28, 5, 3), (300, 1, 2, 1), (100, 84, 3, 2)],
)
def test_the_fault_is_found_and_undone(steps, lag, width, whole):
    """`whole` = (steps + lag·(width − 1)) // steps; 50 steps and a lag of 28 are those of FingerMovements."""
    true = noise(steps=steps)
    series = faulty(true, lag, width)
    shift = shifted_copies(series)
    assert shift == Shift(lag, width - 1, width, steps)
    assert shift.electrodes == whole
    right = unshifted(series, shift)
    np.testing.assert_array_equal(right.x, true[:, :, :whole])
    assert right.channels == tuple(f"electrode {i + 1}" for i in range(whole))
    assert shifted_copies(right) is None


def test_the_warning():
    assert str(Shift(64, 63, 64, 3000)) == (
        "63 of 63 pairs of neighbouring channels are copies of one another, shifted by 64 steps: the 64 channels are "
        "2 electrodes and 1032 of 3000 steps of another. Undo it with unshifted(series, shift)."
    )
    assert "are 3 electrodes. Undo" in str(Shift(100, 2, 3, 100))


def test_a_few_spoilt_samples_and_channels_do_not_hide_it():
    series = faulty(noise(), 16, 16)
    x = series.x.copy()
    x[:, :, 3] = noise(seed=1)[..., 0]
    x[::3, 0, 7] += 1
    spoilt = replace(series, x=x)
    assert shifted_copies(spoilt) == Shift(16, 13, 16, 300)
    with pytest.raises(
        ArgumentError, match=r"shifted by 16 in all channels and samples to be put right, but is so in 12 of 15"
    ):
        unshifted(spoilt, shifted_copies(spoilt))


def test_level_beginnings_do_not_hide_it():
    true = noise()
    true[:, :265, 0] = 0  # the last channel begins at 240
    assert shifted_copies(faulty(true, 16, 16)).lag == 16


def test_it_is_found_among_rare_spikes():
    """Most samples are zero, and equal at any lag."""
    spikes = (noise(count=200) > 2.5).astype(np.float32)
    assert shifted_copies(faulty(spikes, 16, 16)) == Shift(16, 15, 16, 300)


def periodic(period, phase, count=20, steps=300):
    """The same wave in two channels, `phase` steps apart, with a start of its own in every series."""
    start = np.random.default_rng(3).integers(0, 100, (count, 1))
    t = np.arange(steps) + start
    return np.stack([np.sin(2 * np.pi * (t + d) / period) for d in (0, phase)], axis=2)


HONEST = {
    "noise": noise(),
    "few levels": np.round(noise()),
    "two levels": noise() > 1,
    "rare spikes": noise(200) > 3,
    "constants": np.ones((20, 300, 4)),
    "copies that are not shifted": np.repeat(noise()[..., :1], 4, axis=2),
    "no sample changes": np.repeat(noise()[:, :1], 300, axis=1),
    "sines, ten steps apart": periodic(50, 10),
    "sines, half a step apart": periodic(17.3, 2.5),
    "square waves": np.sign(periodic(50, 10)),
    "rounded sines": np.round(periodic(37, 9) * 3),
    "too little": faulty(noise(1, 60), 16, 3).x,
    "one channel": noise(20, 300, 1),
    "one of four": delayed_recall(20, 300).x,
    "markers": adding_problem(20, 300).x,
    "padding": np.pad(noise(steps=30), ((0, 0), (0, 270), (0, 0))),
}


@pytest.mark.parametrize("name", HONEST)
def test_no_false_alarm(name):
    x = HONEST[name].astype(np.float32)
    assert shifted_copies(Series("toy", x, np.zeros(len(x), int), ("a",))) is None


def test_copies_among_padding_are_found_by_their_true_lengths():
    whole = faulty(noise(), 16, 16)
    lengths = np.array([*range(10, 15), *range(225, 300, 5)])
    x = np.where(np.arange(300)[:, None] < lengths[:, None, None], whole.x, 0)
    shorter = replace(whole, x=x, lengths=lengths)
    assert shifted_copies(shorter) == Shift(16, 15, 16, 300)
    with pytest.raises(ArgumentError, match="its shortest series has 10 steps"):
        unshifted(shorter, Shift(16, 15, 16, 300))


def test_a_shift_of_some_pairs_only_is_none():
    """Two of five pairs are copies: not most."""
    x = noise(electrodes=6)
    x[:, :-16, 1], x[:, :-16, 4] = x[:, 16:, 0], x[:, 16:, 3]
    assert shifted_copies(Series("toy", x, np.zeros(20, int), ("a",))) is None


def test_refusals():
    series = faulty(noise(), 16, 16)
    with pytest.raises(ArgumentError, match="must be of this set, 16 channels of 300 steps, but is of 16 of 200"):
        unshifted(series, Shift(16, 15, 16, 200))
    with pytest.raises(ArgumentError, match=r"must be shifted by 15 in all channels and samples .* in 0 of 15 pairs"):
        unshifted(series, Shift(15, 15, 16, 300))


# Real ones ----------------------------------------------------------------------------------------------------------


def test_motor_imagery_has_it(real):
    """Electrodes end where the long series jumps: after 3,000 steps each."""
    series = read(real("MotorImagery.npz")).take(np.arange(0, 378, 4))
    assert (series.steps, series.width, series.groups) == (3000, 64, None)
    shift = shifted_copies(series)
    assert shift == Shift(64, 63, 64, 3000)
    right = unshifted(series, shift)
    assert right.x.shape == (95, 3000, 2)
    np.testing.assert_array_equal(right.x[:, :, 0], series.x[:, :, 0])
    np.testing.assert_array_equal(right.x[:, 64:2000, 1], series.x[:, 3064 - 64 * 46 : 5000 - 64 * 46, 46])
    inside = np.abs(np.diff(right.x, axis=1)).mean()
    between = np.abs(right.x[:, 0, 1] - right.x[:, -1, 0]).mean()
    assert between > 10 * inside
    assert shifted_copies(right) is None


@pytest.mark.parametrize("name", ["BasicMotions", "TROIKA_PPG_HR", "WatchSPAR_seglearn"])
def test_other_real_sets_do_not(real, name):
    assert shifted_copies(read(real(f"{name}.npz"))) is None
