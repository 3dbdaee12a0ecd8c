"""Sets of series: what is kept, what is derived, and what is refused."""

import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw.data import Series

X = np.arange(24.0).reshape(3, 4, 2) + 1
LABELS = np.array([0, 1, 0])


def padded():
    x = X.copy()
    x[1, 3:] = 0
    return x


def test_classification():
    series = Series("toy", X, LABELS, ("a", "b"), groups=[5, 5, 7], group_kind="subject", held_out=[False, True, True])
    assert (series.count, series.steps, series.width, series.task) == (3, 4, 2, "classification")
    assert series.x.dtype == np.float32
    assert series.y.dtype == series.lengths.dtype == series.groups.dtype == np.int64
    assert series.lengths.tolist() == [4, 4, 4]
    assert series.channels == ("x0", "x1")
    assert series.every is None
    assert str(series) == "toy: 3 series of 4 steps × 2 channels, 2 classes, 2 subjects, 2 held out"


def test_regression_of_one_value_and_of_sequences():
    one = Series("toy", X, [0.5, 1, 2], channels=("u", "v"))
    assert (one.task, one.every, one.y.dtype) == ("regression", None, np.float32)
    many = Series("toy", X, np.ones((3, 2, 1)), overlap=0.75)
    assert many.every == 2
    assert str(many) == "toy: 3 series of 4 steps × 2 channels, an output every 2 steps, windows overlap by 75%"


def test_taking_some():
    series = Series("toy", padded(), LABELS, ("a", "b"), (), [4, 3, 4], [5, 6, 7], "subject", [False, True, False], 0.5)
    some = series.take([2, 1])
    np.testing.assert_array_equal(some.x, series.x[[2, 1]])
    assert some.y.tolist() == [0, 1]
    assert some.lengths.tolist() == [4, 3]
    assert some.groups.tolist() == [7, 6]
    assert some.held_out.tolist() == [False, True]
    assert (some.overlap, some.group_kind, some.classes) == (0.5, "subject", ("a", "b"))
    assert str(series).startswith("toy: 3 series of 4 steps × 2 channels, 3 to 4 steps long")
    for index in ([3], [-1], [], [[0]], [0.5]):
        with pytest.raises(ArgumentError, match="`index` must be a list of whole numbers from 0 to 2"):
            series.take(index)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": X[0]}, r"`x` must have shape \(count, steps, channels\), but has \(4, 2\)"),
        ({"x": X[:, :0]}, "`x` must have shape"),
        ({"x": X.astype(str)}, "`x` must be real numbers"),
        ({"x": np.where(X == 9, np.nan, X)}, "`x` must be finite, but is nan in series 1, with 1 such values"),
        ({"x": np.where(X == 9, 1e39, X)}, r"`x` must be finite, but is 1e\+39 in series 1"),
        ({"y": [0, 1]}, "`y` must be 3 whole numbers"),
        ({"y": [0.0, 1.0, 0.0]}, "`y` must be 3 whole numbers"),
        ({"y": [0, 1, 2]}, "`y` must be labels from 0 to 1, but that of series 2 is 2"),
        ({"y": [0, -1, 1]}, "but that of series 1 is -1"),
        ({"y": [1.0, np.inf, 2.0], "classes": ()}, "`y` must be finite, but is inf in series 1"),
        ({"y": np.ones((3, 3, 1)), "classes": ()}, "number of outputs that divides 4 steps"),
        ({"y": np.ones((3, 2)), "classes": ()}, r"`y` must have shape \(3,\), or \(3, outputs, values\)"),
        ({"y": np.ones((3, 2, 1)), "classes": (), "x": padded(), "lengths": [4, 3, 4]}, "all steps where the target"),
        ({"lengths": [4, 5, 4]}, "`lengths` must be from 1 to 4, but is 4 to 5"),
        ({"lengths": [4, 0, 4]}, "`lengths` must be from 1 to 4"),
        ({"lengths": [4, 3, 4]}, "must be zero beyond a series' length, but series 1 is not after its 3 steps"),
        ({"groups": [0, 1]}, "`groups` must be 3 whole numbers"),
        ({"group_kind": "subjct"}, "did you mean `subject`"),
        ({"held_out": [0, 1, 0]}, "`held_out` must be 3 truth values"),
        ({"classes": ("a", "a")}, "`classes` must be different names"),
        ({"channels": ("u",)}, "`channels` must be 2 names"),
        ({"overlap": 1.0}, "`overlap` must be at least 0 and less than 1"),
    ],
)
def test_refusals(changes, message):
    with pytest.raises(ArgumentError, match=message):
        Series(**({"name": "toy", "x": X, "y": LABELS, "classes": ("a", "b")} | changes))
