"""Files .npz, made up and real."""

from importlib.util import find_spec

import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw.data import leaks, read, split, watch_gestures


def arrays(**more):
    rng = np.random.default_rng(0)
    return {
        "X_train": rng.normal(size=(5, 20, 2)).astype(np.float32),
        "y_train": np.array([0, 1, 0, 1, 1]),
        "X_test": rng.normal(size=(3, 20, 2)).astype(np.float32),
        "y_test": np.array([1, 0, 0]),
        "classes": np.array(["a", "b"]),
    } | more


@pytest.fixture
def file(tmp_path):
    def write(contents):
        np.savez(tmp_path / "set.npz", **contents)
        return tmp_path / "set.npz"

    return write


def test_both_parts(file):
    more = {"subj_train": np.array([1, 2, 1, 2, 3]), "subj_test": np.array([4, 4, 5]), "channels": np.array(["u", "v"])}
    there = arrays(**more)
    series = read(file(there))
    np.testing.assert_array_equal(series.x, np.concatenate([there["X_train"], there["X_test"]]))
    assert series.y.tolist() == [0, 1, 0, 1, 1, 1, 0, 0]
    assert series.held_out.tolist() == [False] * 5 + [True] * 3
    assert (series.groups.tolist(), series.group_kind) == ([1, 2, 1, 2, 3, 4, 4, 5], "subject")
    assert (series.classes, series.channels, series.overlap) == (("a", "b"), ("u", "v"), 0)


def test_one_part_with_lengths_recordings_and_values(file):
    there = {k: v for k, v in arrays().items() if k in ("X_train",)}
    there["X_train"][1, 15:] = 0
    more = {"len_train": np.array([20, 15, 20, 20, 20]), "rec_train": np.arange(5), "y_train": np.ones(5, np.float32)}
    series = read(file(there | more))
    assert (series.held_out, series.task, series.group_kind) == (None, "regression", "recording")
    assert series.lengths.tolist() == [20, 15, 20, 20, 20]


def test_missing_values(file):
    there = arrays()
    there["X_test"][1, 3, 0] = np.nan
    with pytest.raises(ArgumentError, match="`x` must be finite, but is nan in series 6"):
        read(file(there))
    series = read(file(there), missing="interpolate")
    assert series.x[6, 3, 0] == pytest.approx(np.mean(there["X_test"][1, [2, 4], 0]), rel=1e-6)  # single precision
    there["X_test"][1, :, 0] = np.nan
    with pytest.raises(ArgumentError, match=r"series 6 of set.npz has none in one"):
        read(file(there), missing="interpolate")


@pytest.mark.parametrize("cut", [0.75, 0.5, 0.1])
def test_overlap_is_found_by_comparing(file, cut):
    """Windows of one long random recording, cut by hand; a channel that never moves does not mislead."""
    long = np.random.default_rng(1).normal(size=(4000, 3))
    long[:, 0] = 7
    stride = round(200 * (1 - cut))
    x = np.stack([long[b : b + 200] for b in range(0, 3800, stride)])
    series = read(file({"X_train": x, "y_train": np.zeros(len(x))}))
    assert series.overlap == pytest.approx(cut)
    assert read(file({"X_train": x, "y_train": np.zeros(len(x))}), overlap=0.3).overlap == 0.3


def test_overlap_is_not_made_up(file):
    rng = np.random.default_rng(2)
    few = rng.normal(size=(30, 100, 2))
    few[1:10, :50] = few[:9, 50:]  # nine of 29 neighbours
    for x in (rng.normal(size=(30, 100, 2)), few, np.ones((30, 100, 2)), rng.integers(0, 2, (30, 100, 1))):
        assert read(file({"X_train": x, "y_train": np.zeros(30)})).overlap == 0


@pytest.mark.parametrize(
    ("more", "less", "message"),
    [
        ({"lenght_train": np.ones(5)}, (), "holds 'lenght_train'; did you mean `len_train`"),
        ({}, ("X_train",), "has no X_train"),
        ({}, ("y_test",), "must hold y_… for the parts train and test"),
        ({"len_train": np.full(5, 20)}, (), "must hold len_… for the parts train and test"),
        (
            {"y_test": np.array([0, 1])},
            (),
            r"as many y_test as X_test, but .* shapes \(2,\) and \(3, 20, 2\)",
        ),
        ({"X_test": np.ones((3, 21, 2))}, (), "of the same steps and channels"),
        ({}, ("classes",), "must hold the names `classes` of its labels"),
        ({"sig_01": np.ones((2, 9))}, (), "holds long recordings: read it with recordings"),
    ],
)
def test_arrays_that_do_not_fit(file, more, less, message):
    with pytest.raises(ArgumentError, match=message):
        read(file({k: v for k, v in arrays(**more).items() if k not in less}))


def test_torn_files(tmp_path, file):
    whole = file(arrays()).read_bytes()
    torn = tmp_path / "torn.npz"
    for bad in (whole[:-200], b"garbage"):
        torn.write_bytes(bad)
        with pytest.raises(ArgumentError, match=r"must be an .npz file of plain arrays, but torn.npz cannot be read"):
            read(torn)
    with pytest.raises(ArgumentError, match=r"`both` must be True for .npz"):
        read(file(arrays()), both=False)


# Real ones ----------------------------------------------------------------------------------------------------------


def test_basic_motions(real):
    series = read(real("BasicMotions.npz"))
    assert series.x.shape == (80, 100, 6)
    assert series.classes == ("Badminton", "Running", "Standing", "Walking")
    assert np.bincount(series.y).tolist() == [20, 20, 20, 20]
    assert (series.held_out.sum(), series.overlap, series.groups) == (40, 0, None)


def test_windows_of_heart_rates(real):
    """Windows of 8 s every 2 s, of 12 recordings: a random split leaks, one by recordings does not."""
    series = read(real("TROIKA_PPG_HR.npz"))
    assert (series.overlap, series.group_kind, series.task) == (0.75, "recording", "regression")
    assert len(np.unique(series.groups)) == 12
    assert any("share 75% of their samples" in line for line in leaks(series, split(series, 0)))
    assert leaks(series, split(series, 0, "groups")) == ()
    given = leaks(series, split(series, 0, "given"))
    assert given
    assert not any("test part" in line for line in given)


def test_gestures_of_the_package_are_those_of_the_file(real):
    if find_spec("seglearn") is None:
        pytest.skip("seglearn is not installed: pip install 'rhel-hw[data]'")
    ours, file = watch_gestures(), read(real("WatchSPAR_seglearn.npz"))
    assert (ours.classes, ours.channels, ours.group_kind) == (file.classes, file.channels, file.group_kind)
    order = np.concatenate([np.flatnonzero(ours.groups < 8), np.flatnonzero(ours.groups >= 8)])
    same = ours.take(order)
    np.testing.assert_array_equal(same.x, file.x)
    for what in ("y", "lengths", "groups"):
        np.testing.assert_array_equal(getattr(same, what), getattr(file, what))
    assert ours.held_out is None
