"""Sets by name."""

from importlib.util import find_spec

import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw.data import BUILT_IN, adding_problem, load
from rhel_hw.data.sets import MAKERS


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_every_name_is_a_set(name):
    if name == "watch-gestures" and find_spec("seglearn") is None:
        pytest.skip("seglearn is not installed: pip install 'rhel-hw[data]'")
    assert load(name).name == name


def test_every_set_is_described():
    assert BUILT_IN.keys() == MAKERS.keys()
    assert all(BUILT_IN.values())


def test_options_are_passed_on():
    np.testing.assert_array_equal(load("adding", count=5, steps=8, seed=3).x, adding_problem(5, 8, seed=3).x)


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_files(tmp_path, kind):
    path = tmp_path / "mine.ts"
    path.write_text("@classLabel true a b\n@data\n1,?,3:a\n4,5,6:b\n")
    assert load(kind(path), missing="interpolate").x[0, 1, 0] == 2
    with pytest.raises(ArgumentError, match=r"`mising` must be an option .* but is not; did you mean `missing`"):
        load(kind(path), mising="interpolate")
    with pytest.raises(ArgumentError, match=r"`path` must be a file, but .*nowhere.ts is not there"):
        load(kind(tmp_path / "nowhere.ts"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("adding-problem", {}, "`name` must be a set that ships or a file .* but is 'adding-problem'.*`adding`"),
        ("delayed_recall", {}, "did you mean `delayed-recall`"),
        ("mnist", {}, "known are adding, delayed-recall, pulse-detection, watch-gestures"),
        ("adding", {"step": 5}, "`step` must be an option of adding, but is not; did you mean `steps`"),
        ("watch-gestures", {"steps": 5}, "`steps` must be an option of watch-gestures, but is not$"),
    ],
)
def test_misspelt(name, options, message):
    with pytest.raises(ArgumentError, match=message):
        load(name, **options)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("rhel_hw.data.watch.find_spec", lambda name: None)
    with pytest.raises(ArgumentError, match=r"watch-gestures is not: pip install 'rhel-hw\[data\]'"):
        load("watch-gestures")
