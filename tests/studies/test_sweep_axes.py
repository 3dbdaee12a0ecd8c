"""What a sweep asks for: axes, combinations, samples, and refusals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices import ArgumentError
from studies.sweeps import Sweep
from studies.sweeps.axes import Axis


def test_a_grid_has_all_combinations_in_order():
    table = Sweep({"readout.bits": [4, 6], "learning.gamma": {"log": [1, 100, 3]}, "seed": [0, 1]}).table()
    assert table.dims == ("profile.readout.bits", "learning.gamma", "seed")
    assert table.shape == (2, 3, 2)
    assert table.point(0) == {"profile.readout.bits": 4, "learning.gamma": 1.0, "seed": 0}
    assert table.point(3) == {"profile.readout.bits": 4, "learning.gamma": pytest.approx(10.0), "seed": 1}
    assert len(table) == 12


def test_zipped_axes_go_together():
    table = Sweep({"readout.bits": [4, 6], "drive.bits": [8, 9]}, mode="zip").table()
    assert table.dims == ("point",)
    assert [table.point(i) for i in range(2)] == [
        {"profile.readout.bits": 4, "profile.drive.bits": 8},
        {"profile.readout.bits": 6, "profile.drive.bits": 9},
    ]


@pytest.mark.parametrize("mode", ["sobol", "latin-hypercube"])
def test_samples_fill_their_ranges(mode):
    """Every eighth of a range has its share of 64 samples: exactly in a Latin hypercube, nearly by Sobol."""
    axes = {
        "readout.noise": {"log": [1e-6, 1e-2]},
        "readout.bits": {"whole": [4, 11]},
        "echo.gain": {"linear": [0.9, 1.1]},
    }
    sweep = Sweep(axes, mode=mode, points=64)
    table = sweep.table()
    noise = np.log10(table.columns["profile.readout.noise"])
    assert np.array_equal(np.histogram(noise, 8, (-6, -2))[0], [8] * 8)
    bits = table.columns["profile.readout.bits"]
    assert all(isinstance(b, int) for b in bits)
    assert np.array_equal(np.bincount(bits)[4:], [8] * 8)
    assert np.histogram(table.columns["profile.echo.gain"], 8, (0.9, 1.1))[0].tolist() == [8] * 8
    assert Sweep(axes, mode=mode, points=64).table() == table
    assert Sweep(axes, mode=mode, points=64, sampling=1).table() != table


def test_plain_data_make_the_same_sweep():
    for sweep in (
        Sweep({"readout.bits": [4, "none"], "learning.gamma": {"log": [1, 100, 3]}}, repeats=2),
        Sweep({"readout.noise": {"log": [1e-6, 1e-2]}}, mode="sobol", points=8, sampling=3),
    ):
        assert Sweep.of(sweep.to_dict()) == sweep


@given(st.floats(1e-9, 1e9), st.floats(1.1, 1e6), st.lists(st.floats(0, 1, exclude_max=True), min_size=1))
def test_draws_stay_inside_their_range(low, factor, uniform):
    for spacing in ("log", "linear"):
        drawn = Axis("x", (low, low * factor), spacing).drawn(uniform)
        assert all(low * (1 - 1e-12) <= x <= low * factor * (1 + 1e-12) for x in drawn)
    assert set(Axis("x", (3, 5), "whole").drawn(uniform)) <= {3, 4, 5}


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({}, "at least one field"),
        ({"axes": {"bits": [1]}}, "must be seed, chip, design"),
        ({"axes": {"readout.bits": []}}, "at least one value"),
        ({"axes": {"readout.bits": [4, 4]}}, "every value once"),
        ({"axes": {"readout.bits": 4}}, "a list of values or a range"),
        ({"axes": {"readout.bits": {"log": [0, 1, 3]}}}, "start above 0"),
        ({"axes": {"readout.bits": {"log": [2, 1, 3]}}}, "first below last"),
        ({"axes": {"readout.bits": {"geometric": [1, 2, 3]}}}, "one of log, linear, whole"),
        ({"axes": {"readout.bits": {"linear": [1, 2]}}}, "a count as its third number"),
        ({"axes": {"readout.bits": [4], "profile.readout.bits": [5]}}, "every field once"),
        ({"axes": {"readout.bits": [4, 5], "seed": [1]}, "mode": "zip"}, "equally long"),
        ({"axes": {"seed": [-1]}}, "whole numbers from 0 on"),
        ({"axes": {"seed": [0]}, "mode": "sobol"}, "must be given for the mode sobol"),
        ({"axes": {"seed": [0]}, "points": 3}, "must be left out for the mode grid"),
        ({"axes": {"seed": [0]}, "mode": "gird"}, "did you mean"),
        ({"axes": {"seed": [0]}, "repeats": 0}, "at least 1"),
        ({"axes": {"seed": {"whole": [0, 4000, 4001]}, "chip": {"whole": [0, 4000, 4001]}}}, "at most 10,000,000"),
        ({"axes": {"seed": [0]}, "step": 3}, "no key of"),
        ({"axes": {"readot.bits": [4]}}, "did you mean `readout`"),
        ({"axes": {"profile": {"readout": {"bits": [4, 6]}}}}, "in quotes"),
        ({"axes": {"training.rate": [0.1, 0.2]}}, "`moves` must be at least 1"),
        ({"axes": {"training.steps": [1, 2]}, "moves": 3}, "as `moves` says"),
    ],
)
def test_refusals(given_, words):
    with pytest.raises(ArgumentError, match=words):
        Sweep.of(given_)
