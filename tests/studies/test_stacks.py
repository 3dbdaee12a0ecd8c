"""Six-block models: gradients in every layer, and what γ does; on real series where they are there."""

from pathlib import Path

import numpy as np
import pytest

from devices import ArgumentError
from studies import stacks

DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def watch():
    path = DATA / "WatchSPAR_seglearn.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in a folder shared/data beside the repository")
    return str(path)


def test_likeness_of_gradients_that_are_known():
    a = np.array([[3.0, 4.0], [1.0, 0.0]])
    b = np.array([[6.0, 8.0], [0.0, 2.0]])
    found = stacks.likeness(a, b)
    np.testing.assert_allclose(found.deviation, [0, 1], atol=1e-15)
    np.testing.assert_allclose(found.ratio, [0.5, 0.5])
    tiny = stacks.likeness(np.array([1.0, 1e-9]), np.array([1.0, 0.0]))
    assert float(tiny.deviation) == pytest.approx(0.5e-18, rel=1e-6)  # not rounded away


@pytest.mark.slow
def test_static_gradients_of_real_gestures(watch):
    """1e-4 and 1 % in single precision, 1e-10 in double, in every layer and for both kinds."""
    result = stacks.static(watch, **stacks.SIZES["full"])
    for (_, precision), found in result.likeness.items():
        near = found["all"]
        assert near.deviation.shape == (6,)
        assert np.all(near.deviation <= (1e-4 if precision == "float32" else 1e-10))
        assert np.all(np.abs(near.ratio - 1) <= (1e-2 if precision == "float32" else 1e-5))


@pytest.mark.slow
def test_gamma_has_the_shape_of_the_paper():
    """Round-off at γ = 1, recovery, and at large γ an error of the nonlinear stack alone."""
    result = stacks.gamma(None, **stacks.SIZES["quick"], gammas=np.logspace(0, 8, 9))
    worst = {units: near.deviation.max(axis=1) for units, near in result.parameters.items()}
    ratios = {units: near.ratio.max(axis=1) for units, near in result.parameters.items()}
    for units in ("linear", "nonlinear"):
        assert worst[units][0] > 1e-2
        assert ratios[units][0] > 1.05  # noise adds to the norm
        assert worst[units].min() < 1e-4
        assert result.automatic[units][1].deviation.max() < 3 * max(worst[units].min(), 1e-9)
        assert result.inputs[units].deviation[0].mean() > 10 * result.inputs[units].deviation.mean(axis=1).min()
    assert worst["linear"][-1] < 1e-6
    assert worst["nonlinear"][-1] > 1e-2


@pytest.mark.slow
def test_gradients_of_a_small_stack_agree(monkeypatch):
    """The same machinery on two blocks of four units."""
    monkeypatch.setattr(stacks, "BLOCKS", 2)
    monkeypatch.setattr(stacks, "WIDTH", 4)
    result = stacks.static(None, batch=4, steps=60)
    for (_, precision), found in result.likeness.items():
        assert np.all(found["all"].deviation <= (1e-4 if precision == "float32" else 1e-10))


def test_bad_data_is_refused():
    with pytest.raises(ArgumentError, match="with classes"):
        stacks.setting("linear", "adding", batch=2, steps=10)


def test_the_command_refuses_what_makes_no_sense(call):
    assert "`--data` must be left out of the study toy" in call("study", "toy", "--data", "x", code=2)
    assert "`--paper` must be left out" in call("study", "gamma", "--paper", code=2)
    assert "must be a folder" in call("study", "classify", "--full", code=2)
    assert "has none" in call("study", "classify", "--full", "--data", ".", code=2)
