"""Parts of a set: their sizes, whole groups, the source's own test part, and what leaks."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices import ArgumentError
from rhel_hw.data import Series, Split, leaks, split


def a_set(count, **options):
    return Series("toy", np.ones((count, 4, 1)), np.zeros(count, int), ("a",), **options)


def parts(found):
    return [found.train.tolist(), found.validation.tolist(), found.test.tolist()]


@pytest.mark.parametrize(("count", "sizes"), [(20, [14, 3, 3]), (10, [7, 1, 2]), (378, [264, 57, 57]), (7, [4, 1, 2])])
def test_random_parts_are_cut_where_the_fractions_say(count, sizes):
    """Cuts at int(0.7·count) and int(0.85·count), as in the literature."""
    found = split(a_set(count), 3)
    assert [len(p) for p in parts(found)] == sizes
    assert sorted(np.concatenate(parts(found))) == list(range(count))
    assert str(found) == "{} to train, {} to validate, {} to test".format(*sizes)


@pytest.mark.parametrize("by", ["random", "groups", "given"])
def test_seeds(by):
    series = a_set(60, groups=np.arange(60) // 3, held_out=np.arange(60) >= 50)
    assert parts(split(series, 5, by)) == parts(split(series, 5, by))
    assert parts(split(series, 5, by)) != parts(split(series, 6, by))


@given(st.lists(st.integers(1, 20), min_size=3, max_size=15), st.integers(0, 100))
def test_groups_stay_whole(sizes, seed):
    series = a_set(sum(sizes), groups=np.repeat(np.arange(len(sizes)), sizes))
    found = split(series, seed, "groups")
    assert sorted(np.concatenate(parts(found))) == list(range(series.count))
    of = [set(series.groups[p]) for p in parts(found)]
    assert all(of)
    assert sum(len(groups) for groups in of) == len(sizes)
    assert leaks(series, found) == ()


def test_groups_come_near_the_fractions():
    """Ten equal groups: 7, 1 or 2, 2 or 1. One of half the set must be in the training part, whatever the seed."""
    even = a_set(100, groups=np.arange(100) % 10)
    uneven = a_set(100, groups=np.concatenate([np.zeros(50, int), 1 + np.arange(50) // 5]))
    for seed in range(20):
        assert len(split(even, seed, "groups").train) == 70
        sizes = [len(p) for p in parts(split(uneven, seed, "groups"))]
        assert np.abs(np.array(sizes) - [70, 15, 15]).max() <= 5
    other = split(even, 0, "groups", (0.2, 0.2, 0.6))
    assert [len(p) for p in parts(other)] == [20, 20, 60]


def test_the_given_test_part():
    held = np.arange(100) % 5 == 0
    found = split(a_set(100, held_out=held), 1, "given")
    assert found.test.tolist() == np.flatnonzero(held).tolist()
    assert len(found.train) == int(80 * 0.7 / 0.85)
    assert sorted(np.concatenate(parts(found))) == list(range(100))


def test_leaks():
    series = a_set(12, groups=np.arange(12) // 4, group_kind="recording")
    mixed, clean = Split([0, 1, 4, 8], [2, 5], [3, 6, 9]), Split([0, 1, 2, 3], [4, 5], [8, 9])
    assert leaks(series, clean) == ()
    found = leaks(series, mixed)
    assert len(found) == 2
    assert found[0].startswith("2 of the 2 recordings of the validation part are also in the training part")
    assert found[1].startswith("3 of the 3 recordings of the test part are also in the training part: results")
    assert "nothing about new recordings" in found[1]
    only_test = Split([0, 1], [4, 5], [2, 8])
    assert leaks(series, only_test) == (
        "1 of the 2 recordings of the test part are also in the training part: results on it say nothing about new "
        'recordings. Use split(…, by="groups") for those.',
    )
    windows = replace(series, overlap=0.75)
    assert leaks(windows, clean) == ()
    assert [("share 75%" in line) for line in leaks(windows, mixed)] == [True, False, True, False]
    unknown = leaks(replace(windows, groups=None), clean)
    assert len(unknown) == 2
    assert all("not known which recordings" in line for line in unknown)
    assert leaks(a_set(12), mixed) == ()
    with pytest.raises(ArgumentError, match="`split` must be of this set of 5 series, but has series 9"):
        leaks(a_set(5), clean)


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        (a_set(20), {"by": "randm"}, "`by` must be known, but is 'randm'; did you mean `random`"),
        (a_set(20), {"by": "groups"}, '`by` must be "random" or "given" for toy'),
        (a_set(20), {"by": "given"}, "its source names no test part"),
        (a_set(20, groups=np.arange(20) % 2, group_kind="subject"), {"by": "groups"}, "at least 3 subjects .* has 2"),
        (a_set(2), {}, "must be enough for three parts, but 2 series make parts of 1, 0, 1"),
        (a_set(20), {"seed": -1}, "`seed` must be a whole number of at least 0"),
        (a_set(20), {"fractions": (0.5, 0.5, 0.5)}, "`fractions` must be three numbers above 0 that add up to 1"),
        (a_set(20), {"fractions": (0.8, 0.0, 0.2)}, "`fractions` must be three numbers above 0"),
    ],
)
def test_refusals(series, options, message):
    with pytest.raises(ArgumentError, match=message):
        split(series, **({"seed": 0} | options))


def test_parts_that_share_series_are_refused():
    with pytest.raises(ArgumentError, match="`test` must share no series with `train`, but both have 1"):
        Split([0, 1], [2], [1])
    with pytest.raises(ArgumentError, match="`validation` must be a list of numbers"):
        Split([0, 1], [], [2])
