"""Gains and angles of the turn, its latency and its scatter, and converters of nudges, against those of benches."""

import numpy as np
import pytest

from calibration import nudges, timing, turn
from calibration.converters import measure as read_levels
from calibration.echoing import EchoModel, Told
from calibration.identify import identify
from calibration.model import Model
from calibration.probe import Probe
from circuits import Netlist
from circuits.generators import ladder
from rhel_hw.bench import Shot
from tests.calibration.chips import IDEAL, bench_of, known_of, true_turn
from tests.systems import quick_or_slow

LATE, SKEWED = 2.3, 1.3
"""Steps."""
SPREADS = {"gain": 1.03, "gain_spread": 0.02, "angle": -0.01, "angle_spread": 0.02}


def bench_and_model(netlist, steps=100, *, late=LATE, echo=None, **changes):
    design = netlist.compile(steps=steps)
    late = {"latency": late * design.step_s, "skew": SKEWED * design.step_s} if late else {}
    bench = bench_of(design, echo={**late, **(echo or {})}, **changes)
    return bench, Model.of(design, bench.describe())


def measured(netlist, *, spread=3e-4, **options):
    bench, model = bench_and_model(netlist, **options)
    probe, known = Probe(bench, model), known_of(bench, model, spread)
    guess = timing.Timing(model.design.step_s, 1.1 * bench.profile.echo.latency, 0.0, bench.profile.echo.skew)
    return bench, turn.measure(probe, known, guess)


CASES = {"momentum-flip": ladder(2), "sign-flip": ladder(2), "parametric": ladder(2), "mixed": Netlist.load("mixed")}
CASES |= {name: Netlist.load(name) for name in ("kerr-chain", "ring-lattice", "spin-chain", "lc-toy")}


@pytest.mark.parametrize("name", quick_or_slow(CASES, {"momentum-flip"}))
def test_with_the_true_turn_the_model_reads_what_the_bench_reads(name):
    """Driven echoes with latency, skew, gains and angles; without converters of the readout, to rounding."""
    operation = name if "flip" in name or name == "parametric" else "momentum-flip"
    drive = {"bits": 8, "full_scale": 2.0, "gain": 1.02, "offset": 0.01}
    echo = {**SPREADS, "operation": operation}
    bench, model = bench_and_model(CASES[name], 40, echo=echo, readout={}, dynamics={}, drive=drive)
    x = known_of(bench, model, 0.0).fit.x
    system = EchoModel(model, 3)
    late = np.repeat([[LATE], [SKEWED]], 2, axis=1)
    gain, angle = true_turn(bench)
    unknowns = system.joined(x, np.concatenate([np.log(gain), angle, late]))
    waves = np.random.default_rng(0).integers(-10, 11, (40, len(model.drives), 2)) / 32 * model.drive_scales[:, None]
    told = Told.of(model, waves, [], waves, both=operation == "parametric")
    drives = {name: waves[:, i] for i, name in enumerate(model.drives)}
    probe = Probe(bench, model)
    records = [probe.ask("free", Shot(40, drives, hold=True)), probe.ask("echo", Shot(40, drives, echo=True))]
    for signals, (read, used) in zip(system.echoed(unknowns, told), records, strict=True):
        assert np.max(np.abs(read)) > 0.05
        np.testing.assert_allclose(np.where(used, signals, 0.0), np.where(used, read, 0.0), atol=1e-11)


@pytest.fixture(scope="module")
def found():
    return measured(ladder(2), echo=SPREADS)


def assert_true(bench, result, late=LATE):
    gain, angle = true_turn(bench)
    by_gain = np.abs(result.gain - gain) / result.gain_deviation
    by_angle = np.abs(result.angle - angle) / result.angle_deviation
    step = result.timing.step_s
    off = result.timing.latency - late
    print(
        f"gains off by {np.max(by_gain):.1f} deviations of {np.median(result.gain_deviation):.1e}, angles by "
        f"{np.max(by_angle):.1f} of {np.median(result.angle_deviation):.1e}, latency by {off:.4f} ± "
        f"{result.timing.latency_deviation_s / step:.4f} steps"
    )
    assert np.max(by_gain) < 4
    assert np.max(by_angle) < 4
    assert abs(off) < 4 * result.timing.latency_deviation_s / step


def test_gains_angles_and_latency_within_their_deviations(found):
    bench, result = found
    assert_true(bench, result)
    assert np.max(result.gain_deviation) < 2e-3
    assert np.max(result.angle_deviation) < 4e-3
    assert not result.both
    assert not np.any(result.scatter.seen)
    assert not result.findings()


def test_the_trim_undoes_the_turn(found):
    """Rotating back and dividing by the gain: what is left of the true errors is within four deviations of nothing."""
    bench, result = found
    gain, angle = true_turn(bench)
    trim = result.trim()
    assert set(trim) == set(result.nodes)
    for i, node in enumerate(result.nodes):
        assert np.all(np.abs(trim[node][0] + angle[i]) < 4 * result.angle_deviation[i])
        assert np.all(np.abs(trim[node][1] * gain[i] - 1) < 4 * result.gain_deviation[i])
    assert set(result.trim(nodes=("n1",))) == {"n1"}


@pytest.mark.slow
def test_an_ideal_bench_is_found_ideal():
    _, result = measured(ladder(2), late=0, spread=0.0, **IDEAL)
    assert result.ideal
    assert result.timing.latency_s == 0.0
    assert np.all(result.gain == 1.0)
    assert not np.any(result.angle)
    assert result.trim() == {}


OTHERS = {
    "parametric": {"echo": {**SPREADS, "operation": "parametric"}},
    "sign-flip": {"echo": {**SPREADS, "operation": "sign-flip"}},
    "every fourth step": {"echo": SPREADS, "readout": {"bits": 8, "decimation": 4}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_turns(name):
    bench, result = measured(ladder(2), chips=4, **OTHERS[name])
    assert_true(bench, result)
    assert result.both == (name == "parametric")


@pytest.mark.slow
def test_turns_that_differ_from_echo_to_echo():
    """Gain 1 %, angle 5 mrad, noise 0.4 % of nominal peaks, which are half of the full scales."""
    echo = {**SPREADS, "gain_noise": 0.01, "angle_noise": 0.005, "noise": 0.004}
    readout = {"noise": 0.002, "gain_spread": 0.02, "offset": 0.01}
    bench, result = measured(ladder(2), chips=8, seed=2, echo=echo, readout=readout)
    scatter = result.scatter
    print(f"gain {scatter.gain}, angle {scatter.angle}, noise {scatter.noise}")
    assert_true(bench, result)
    for found, true in ((scatter.gain, 0.01), (scatter.angle, 0.005), (scatter.noise, 0.002)):
        np.testing.assert_allclose(found, true, rtol=0.5)  # a standard deviation from 45 repeats is ± 11 %
        assert np.sqrt(np.mean(found**2)) == pytest.approx(true, rel=0.15)


@pytest.mark.slow
def test_after_identification():
    """All stages one after the other on the six oscillators: 2 % and 20 mrad."""
    design = Netlist.load("lc-toy").compile(steps=200)
    echo = {"gain_spread": 0.02, "angle_spread": 0.02, "latency": 1.4 * design.step_s}
    bench = bench_of(design, chips=4, echo=echo)
    probe = Probe(bench, Model.of(design, bench.describe()))
    known = identify(probe, read_levels(probe))
    result = turn.measure(probe, known, timing.measure(probe, known))
    assert_true(bench, result, 1.4)


def test_converters_of_nudges():
    bench, model = bench_and_model(ladder(2), late=0, nudge={"gain": 1.05, "offset": 0.02, "bits": 8})
    found = nudges.measure(Probe(bench, model), known_of(bench, model))
    assert np.all(np.abs(found.gain - 1.05) < 4 * found.gain_deviation)
    assert np.all(np.abs(found.offset - 0.02) < 4 * found.offset_deviation + 0.01 * 0.02)  # of 254 codes, not 256
    assert np.max(found.gain_deviation) < 5e-3
    assert np.max(found.offset_deviation) < 5e-3


@pytest.mark.slow
def test_ideal_nudges_are_found_ideal():
    bench, model = bench_and_model(ladder(2), late=0, **IDEAL)
    assert nudges.measure(Probe(bench, model), known_of(bench, model, 0.0)).ideal
