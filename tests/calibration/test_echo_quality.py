"""Return errors against closed forms, and what they are made of against benches."""

import numpy as np
import pytest

from calibration import timing, turn
from calibration.echo import measure
from calibration.model import Model
from calibration.probe import Probe
from calibration.scatter import Scatter
from circuits.generators import ladder
from rhel_hw.lossy import typical_rate
from tests.calibration.chips import IDEAL, bench_of, known_of, true_turn

SPREADS = {"gain_spread": 0.02, "angle_spread": 0.02}


def turn_of(bench, model):
    """What would be found of the bench's turn, if nothing were unsure."""
    gain, angle = true_turn(bench)
    nothing, chips = np.zeros_like(gain), gain.shape[1]
    late = timing.Timing(model.design.step_s, bench.profile.echo.latency, 0.0, bench.profile.echo.skew)
    both = bench.profile.echo.operation == "parametric"
    excess = np.ones((len(model.channels), chips))
    nodes = bench.describe().nodes
    return turn.Turn(nodes, gain, nothing, angle, nothing, both, late, Scatter.none(chips), excess)


def quality_of(netlist, steps=64, lengths=(0.25, 1.0), *, spread=0.0, **changes):
    bench = bench_of(netlist.compile(steps=steps), **changes)
    model = Model.of(bench.design, bench.describe())
    return bench, measure(Probe(bench, model), known_of(bench, model, spread), turn_of(bench, model), lengths=lengths)


@pytest.mark.slow
def test_the_model_returns_as_the_bench_does():
    """Spread of gains and angles, loss and eight bits: within four deviations of what is measured, trimmed or not."""
    _, found = quality_of(ladder(2), echo=SPREADS)
    assert np.max(np.abs(found.measured - found.expected) / found.deviations) < 4
    assert np.max(np.abs(found.trimmed - found.expected_trimmed) / found.deviations) < 4
    assert np.all(found.trimmed[0] < found.measured[0])
    # What is trimmed leaves the loss and the readout, which have nothing to do with each other.
    rest = np.hypot(found.contributions["loss"], found.contributions["readout"])
    np.testing.assert_allclose(found.expected_trimmed, rest, rtol=0.05)
    total = np.sqrt(sum(c**2 for c in found.contributions.values()))
    np.testing.assert_allclose(total, found.expected, rtol=0.3)  # gain, angle and loss may add or cancel
    assert np.max(found.contributions["timing"]) < 1e-9


def test_loss_returns_as_it_decays():
    """An undriven circuit that loses all modes alike, at Γ = ω₀/Q, comes back smaller by e^(−ΓT) after 2T."""
    loss = {"quality": 50.0}
    bench, found = quality_of(ladder(2).replace(drives=()), lengths=(0.5, 1.0), **{**IDEAL, "dynamics": loss})
    closed = 1 - np.exp(-typical_rate(bench.design) / 50 * found.times_s)
    np.testing.assert_allclose(
        found.measured, np.repeat(closed[:, None], 2, axis=1), rtol=0.05
    )  # but for parts of periods
    np.testing.assert_allclose(found.contributions["loss"], found.measured, rtol=1e-6)
    assert found.trimmed is None
    assert found.dominant == ["loss", "loss"]
    (finding,) = found.findings()
    assert "most of it by loss" in finding.problem
    assert "Shot.amplify" in finding.remedy


@pytest.mark.slow
def test_a_gain_of_both_quadratures_is_all_that_an_undriven_linear_circuit_misses():
    """g − 1, at any length, and nothing once it is trimmed."""
    changes = {**IDEAL, "echo": {"operation": "parametric", "gain": 1.04}}
    _, found = quality_of(ladder(2).replace(drives=()), **changes)
    np.testing.assert_allclose(found.measured, 0.04, rtol=1e-9)
    np.testing.assert_allclose(found.contributions["gain"], 0.04, rtol=1e-9)
    assert np.max(found.trimmed) < 1e-12
    assert found.dominant == ["gain", "gain"]


@pytest.mark.slow
def test_an_ideal_bench_returns():
    _, found = quality_of(ladder(2), **IDEAL)
    assert np.max(found.measured) < 1e-12
    assert not found.findings()


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["momentum-flip", "sign-flip"])
def test_after_all_stages_the_trim_reaches_the_floor(operation):
    """2 % and 20 mrad, measured with eight bits; what is left is the readout, and the loss at Q = 10,000."""
    design = ladder(2).compile(steps=128)
    late = {"latency": 0.4 * design.step_s, "skew": 0.7 * design.step_s}
    for name, echo in (("late", {**SPREADS, **late}), ("in time", SPREADS)):
        bench = bench_of(design, echo={**echo, "operation": operation}, dynamics={"quality": 1e4})
        model = Model.of(design, bench.describe())
        probe, known = Probe(bench, model), known_of(bench, model, 3e-4)
        found = measure(probe, known, turn.measure(probe, known, timing.measure(probe, known)))
        off = np.abs(found.measured - found.expected) / found.deviations
        print(
            f"{name}: measured {found.measured[-1]}, trimmed {found.trimmed[-1]}, off by {np.max(off):.1f} deviations"
        )
        print({k: np.round(v[-1], 4) for k, v in found.contributions.items()})
        assert np.max(off) < 5
        if name == "in time":
            floor = np.hypot(found.contributions["readout"], found.contributions["loss"])
            assert np.max((found.trimmed - floor) / found.deviations) < 4
            assert np.mean(found.measured) > 1.3 * np.mean(found.trimmed)
        else:
            assert found.dominant == ["timing", "timing"]
