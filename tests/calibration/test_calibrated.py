"""A bench around a bench: with errors that are known exactly, it is as good as an ideal one."""

import json

import numpy as np
import pytest

from calibration.calibrated import CalibratedBench
from calibration.corrections import Clock, Corrections
from calibration.transfer import Delay, Impulses, Transfer
from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import EchoLearner, EmulatedBench, Profile, Shot, Teacher
from tests.calibration.chips import trained, true_gradient

STEPS = 120
GAIN, OFFSET, BOW = np.array([1.1, 0.95]), 0.02, 0.03


@pytest.fixture(scope="module")
def design():
    return ladder(3).compile(steps=STEPS)


@pytest.fixture(scope="module")
def lesson(design):
    return Teacher().lesson(design)


def bench_with(design, lesson, *settings, chips=2):
    profile = Profile()
    for path, value in settings:
        profile = profile.set(path, value)
    return EmulatedBench(design, profile, seed=1, chips=chips, reference=lesson.drive)


def gradient(bench, design, lesson):
    return trained(design, EchoLearner(epsilon=0.01).gradient(bench, design, lesson).theta)


def error(found, wanted):
    return np.max(np.linalg.norm(found - wanted, axis=0) / np.linalg.norm(wanted, axis=0))


@pytest.fixture(scope="module")
def ideal(design, lesson):
    return gradient(bench_with(design, lesson), design, lesson)


def curves(bench, names, *, section):
    scales = bench.describe().ranges if section == "drive" else {}
    told = bench.describe().channels
    return {n: Transfer(scales.get(f"drive.{n}") or told[n].full_scale, 1.1, OFFSET, BOW) for n in names}


@pytest.fixture(scope="module")
def wrong(design, lesson):
    """Errors by name: the settings of a bench, and the corrections that fit."""
    scale = {"drive.full_scale": 2.0}

    def of(name):
        bench = bench_with(design, lesson, *cases[name][0])
        return bench, Corrections(2, **cases[name][1](bench))

    curve = (("gain", 1.1), ("offset", OFFSET), ("inl", BOW))
    target = design.netlist.targets[0].name
    nodes = design.hamiltonian.names
    cases = {
        "readout": (
            [(f"readout.{k}", v) for k, v in curve],
            lambda b: {"readout": curves(b, b.describe().channels, section="readout")},
        ),
        "drive": (
            [*scale.items(), ("drive.bits", 24), *((f"drive.{k}", v) for k, v in curve)],
            lambda b: {"drives": curves(b, b.describe().drives, section="drive")},
        ),
        "nudge": (
            [("nudge.gain", 0.9), ("nudge.offset", 0.1)],
            lambda b: {"nudges": {target: Impulses(0.9, 0.1)}},
        ),
        "turn": (
            [("echo.gain", 1.2), ("echo.angle", 0.3)],
            lambda b: {"turn": {n: (np.full(2, 0.3), np.full(2, 1.2)) for n in nodes}},
        ),
        "latency": (
            [("echo.latency", 3 * design.step_s)],
            lambda b: {"clock": Clock(latency=3.0)},
        ),
        "skew": (
            [("echo.skew", 2 * design.step_s)],
            lambda b: {"clock": Clock(skew=2.0)},
        ),
        "early": (
            [("echo.skew", -2 * design.step_s)],
            lambda b: {"clock": Clock(skew=-2.0)},
        ),
        "skew and latency": (
            [("echo.skew", 0.3 * design.step_s), ("echo.latency", 2.0 * design.step_s)],
            lambda b: {"clock": Clock(latency=2.0, skew=0.3)},
        ),
        "fractions": (
            [("echo.skew", 0.7 * design.step_s), ("echo.latency", 4.6 * design.step_s)],
            lambda b: {"clock": Clock(latency=4.6, skew=0.7)},
        ),
    }
    return of


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("readout", 1e-9),
        ("drive", 1e-5),  # of its resolution
        ("nudge", 1e-9),
        ("turn", 1e-9),
        ("latency", 1e-9),
        ("skew", 1e-9),
        ("early", 1e-9),
        ("skew and latency", 2e-3),  # a fraction of a step mixes neighbours
        ("fractions", 2e-2),  # and samples lie between those that are wanted
    ],
)
def test_errors_that_are_known_leave_nothing(design, lesson, ideal, wrong, name, left):
    bench, corrections = wrong(name)
    assert error(gradient(bench, design, lesson), ideal) > max(0.01, 5 * left)
    assert error(gradient(CalibratedBench(bench, corrections), design, lesson), ideal) < left


def test_parameters_come_out_as_they_are_programmed(design, lesson):
    """Those that are trained by another code; of the others the learner is told."""
    bench = bench_with(design, lesson, ("fabrication.mismatch", 0.1))
    true, drawn = bench.true_theta(), design.assembly
    values = {e.name: true[e.key][e.index] / drawn.theta[e.key][e.index] for e in drawn.entries if e.positive}
    known = CalibratedBench(bench, Corrections(2, values=values))
    found = gradient(known, design, lesson)
    names, programmed = design.parameters.trainable_names, bench.true_theta()
    assert not set(names) & set(known.describe().values)
    for name in names:
        e = design.parameters.entries[name]
        np.testing.assert_allclose(programmed[e.key][e.index], drawn.theta[e.key][e.index], rtol=1e-12)
    assert error(found, true_gradient(bench, design, lesson, values)) < 1e-3  # of ε


def test_without_corrections_it_is_the_bench_itself(design, lesson):
    bench = bench_with(design, lesson, ("readout.bits", 8), ("readout.noise", 1e-3))
    same = CalibratedBench(bench_with(design, lesson, ("readout.bits", 8), ("readout.noise", 1e-3)), Corrections(2))
    shot = Shot(STEPS, lesson.drive, hold=True)
    first, second = bench.run(shot), same.run(shot)
    assert bench.describe() == same.describe()
    for name, samples in first.samples.items():
        np.testing.assert_array_equal(samples, second[name])
    assert same.progress() == bench.progress()


def test_records_have_their_own_length_and_times(design, lesson, wrong):
    """An echo that takes longer comes back as long as it was asked for."""
    bench, corrections = wrong("fractions")
    around = CalibratedBench(bench, corrections)
    ideal = bench_with(design, lesson)
    for shot in (Shot(STEPS, lesson.drive, hold=True), Shot(STEPS, lesson.drive, echo=True)):
        found, wanted = around.run(shot), ideal.run(shot)
        for name, samples in wanted.samples.items():
            assert found[name].shape == samples.shape
            np.testing.assert_allclose(found.times_s[name], wanted.times_s[name])
            np.testing.assert_allclose(found[name], samples, atol=0.02 * np.max(np.abs(samples)))


CORRECTIONS = Corrections(
    2,
    ranges={"position.n1": 0.5},
    readout={"position.n1": Transfer(2.0, np.array([1.0, 1.1]), OFFSET)},
    drives={"u0": Transfer(1.0, 1.1, BOW)},
    parities={"u0": -1},
    nudges={"y0": Impulses(np.array([0.9, 1.0]))},
    clock=Clock(1.5, 0.25),
    turn={"n1": (np.array([0.1, 0.2]), np.array([1.0, 1.1]))},
    values={"L1.inductance": np.array([0.95, 1.02])},
    decays=(1e3, 2e3),
    strengths=(0.1, 0.2),
)


def test_corrections_survive_a_file():
    text = json.dumps(CORRECTIONS.to_dict(), allow_nan=False)
    assert json.dumps(Corrections.of(json.loads(text)).to_dict()) == text


def test_chips_are_chosen_by_their_places():
    found = CORRECTIONS.chosen([1, 1, 0])
    assert found.chips == 3
    np.testing.assert_array_equal(found.values["L1.inductance"], [1.02, 1.02, 0.95])
    np.testing.assert_array_equal(found.readout["position.n1"].gain, [1.1, 1.1, 1.0])
    assert found.decays == (2e3, 2e3, 1e3)


def test_what_does_not_fit_is_refused(design, lesson):
    bench = bench_with(design, lesson)
    with pytest.raises(ArgumentError, match="2 chips of the bench, but is for 1"):
        CalibratedBench(bench, Corrections(1))
    with pytest.raises(ArgumentError, match=r"has 'position\.x'"):
        CalibratedBench(bench, Corrections(2, readout={"position.x": Transfer(1.0)}))
    with pytest.raises(ArgumentError, match="keys"):
        Corrections.of({"chips": 1, "unknown": 2})
    with pytest.raises(ArgumentError, match="`decays` must have"):
        Corrections(2, decays=(1.0,))
    turned = CalibratedBench(bench, Corrections(2, turn={"n1": (np.zeros(2), np.full(2, 1.1))}))
    turned.run(Shot(5, hold=True))
    with pytest.raises(ArgumentError, match="calibration has trimmed"):
        turned.run(Shot(5, echo=True, trim={"n1": (0.1, 1.0)}))


# Delays and impulses ------------------------------------------------------------------------------------------------

WAVES = np.sin(0.3 * np.arange(200))[:, None] * np.array([1.0, 2.0])


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("steps", [0.0, 0.3, 0.5, 0.8, 2.0, 2.4, -0.6, -1.0])
def test_delays_are_undone(steps, silent):
    """But for what went over the edges; half a step is worst, as it wipes out the fastest there is."""
    delay, edge = Delay(steps, silent), 25 if steps % 1 else int(abs(steps))
    found = delay.correct(delay.embed(WAVES))
    np.testing.assert_allclose(found[edge : 200 - edge], WAVES[edge : 200 - edge], atol=1e-4 if steps % 1 else 1e-10)
    assert np.max(np.abs(delay.correct(np.random.default_rng(0).normal(size=(200, 1))))) < 30


@pytest.mark.parametrize("scale", [None, 3.0])
def test_impulses_are_undone(scale):
    curve = Impulses(np.array([1.02, 0.9]), np.array([0.1, -0.05]), scale)
    np.testing.assert_allclose(curve.correct(curve.embed(WAVES)), WAVES, atol=1e-14)
    np.testing.assert_allclose(curve.embed(curve.correct(WAVES)), WAVES, atol=1e-14)
    assert Impulses().ideal
    np.testing.assert_array_equal(Impulses().correct(WAVES), WAVES)


def test_ranges_are_set_for_every_pass(design, lesson):
    bench = bench_with(design, lesson, ("readout.bits", 8), ("readout.zoom", 16), chips=1)
    widest = bench.describe().channels
    names = [name for name in widest if name.startswith("position")]
    close = CalibratedBench(bench, Corrections(1, ranges={name: widest[name].full_scale / 8 for name in names}))
    shot = Shot(20, {k: 0.01 * v[:20] for k, v in lesson.drive.items()})
    steps = {name: np.diff(np.unique(np.abs(close.run(shot)[name]))).min(initial=np.inf) for name in names}
    for name in names:
        assert close.describe().channels[name].full_scale == widest[name].full_scale / 8
    assert min(steps[n] / (2 * widest[n].full_scale / 8 / 256) for n in names) == pytest.approx(1, rel=1e-6)
