"""Every imperfection of the device by itself follows its law, as made and as it moves; see `test_knobs`."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ring_lattice, spin_wave_chain
from circuits.netlist import Clock
from rhel_hw import BPTT, EmulatedBench, Teacher
from rhel_hw.bench import Shot
from rhel_hw.chips import Chips, made
from rhel_hw.dissipation import energy_rates
from rhel_hw.learner import EchoLearner
from rhel_hw.truth import gradients_as_made
from tests.rhel_hw.knobs import (
    CHIPS,
    STEPS,
    Case,
    by_strength,
    by_value,
    distance,
    flat,
    junctions,
    linear_case,
    profile,
    slope,
    springs,
    through_time,
)

pytestmark = pytest.mark.usefixtures("quick_compiler")
HALVES = 0.5 ** np.arange(4)
SMALL = (0.001, 0.01, 0.1)


@pytest.fixture(scope="module")
def linear():
    return linear_case()


# As made ----------------------------------------------------------------------------------------------------------


def test_mismatch(linear):
    """E ∝ spread whatever ε is: it is the gradient of another circuit."""
    assert by_value(linear, "fabrication.mismatch", 0.01 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, SMALL, ("fabrication.mismatch", 0.01), chips=CHIPS) == pytest.approx(0, abs=0.01)


def test_programmed_bits(linear):
    """E ∝ 2^−bits: the gradient of the circuit that could be programmed. Values are off by up to half an LSB."""
    bits, rounding = np.array([5, 7, 9, 11]), ("fabrication.rounding", "stochastic")
    found = [linear.error(("fabrication.bits", int(b)), rounding, chips=CHIPS) for b in bits]
    assert slope(2.0**-bits, found) == pytest.approx(1, abs=0.1)
    for factor in (1.5, 4.0):
        settings = [("fabrication.bits", 5), ("fabrication.range", factor)]
        chips = Chips(linear.design, profile(*settings), 0, (0,))
        programmed = {name: 1.13 * _nominal(linear, name) for name in chips.limits}
        for name, limits in chips.limits.items():
            assert limits.high / limits.low == pytest.approx(factor**2)
            off = chips.resolved(name, programmed[name], 0) - programmed[name]
            assert 0 < abs(off) <= (limits.high - limits.low) / 31 / 2 * (1 + 1e-9)


def _nominal(case, name):
    e = case.design.parameters.entries[name]
    return float(case.design.theta()[e.key][e.index]) * e.scale


def test_stochastic_rounding_is_unbiased(linear):
    """Its mean over chips and programmings is what was programmed; it is one of the two neighbours every time."""
    settings = [("fabrication.bits", 4), ("fabrication.rounding", "stochastic")]
    chips = Chips(linear.design, profile(*settings), 0, tuple(range(400)))
    programmed = {name: 1.13 * _nominal(linear, name) for name in chips.limits}
    tables = [chips.theta({k: chips.resolved(k, v, n) for k, v in programmed.items()}) for n in range(5)]
    for name, limits in chips.limits.items():
        e, step = linear.design.parameters.entries[name], (limits.high - limits.low) / 15
        found = np.concatenate([t[e.key][e.index] * e.scale for t in tables])
        assert np.ptp(found) == pytest.approx(step)
        assert abs(found.mean() - programmed[name]) < 4 * step / 2 / len(found) ** 0.5


def test_programming_one_parameter_leaves_the_others(linear):
    bench = linear.bench(("fabrication.bits", 4), ("fabrication.rounding", "stochastic"))
    first, *others = bench.describe().parameters
    bench.program({name: 1.13 * _nominal(linear, name) for name in (first, *others)})
    before = dict(bench._programmed)
    for _ in range(8):
        bench.program({first: 1.13 * _nominal(linear, first)})
    assert {name: bench._programmed[name] for name in others} == {name: before[name] for name in others}


def test_dead_elements(linear):
    """The gradient of what is left is that of the netlist without them."""
    left = springs().replace(elements=[e for e in springs().elements if e.name != "kx2"])
    design = left.compile(step=linear.design.step_s, steps=STEPS)
    found, exact = linear.gradient(("fabrication.dead", ["kx2"]), epsilon=1.0), through_time(design, linear)
    alive = exact != 0
    assert alive.sum() == len(alive) - 1
    assert found[alive] == pytest.approx(exact[alive], rel=1e-9)


def test_stuck_elements(linear):
    """They stay at their nominal value whatever is programmed; the gradient is the one there."""
    theta = {k: np.array(v) for k, v in linear.design.theta().items()}
    stuck = linear.design.parameters.entries["k12.constant"]
    theta[stuck.key] = 1.2 * theta[stuck.key]
    actual = {k: np.array(v) for k, v in theta.items()}
    actual[stuck.key][stuck.index] /= 1.2
    exact = flat(BPTT().gradient(replace(linear.problem, theta=actual)).theta)
    for name in ("k12", "k12.constant"):
        found = linear.gradient(("fabrication.stuck", [name]), theta=theta, epsilon=1.0)
        assert distance(found, exact) < 1e-12


def test_parasitic_couplings(linear):
    """E ∝ strength whatever ε is."""
    assert by_value(linear, "fabrication.parasitic", 0.01 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, SMALL, ("fabrication.parasitic", 0.01), chips=CHIPS) == pytest.approx(0, abs=0.01)


# Loss and heat ----------------------------------------------------------------------------------------------------


def test_quality(linear):
    """E ∝ ωT/Q against the true gradient of the lossy circuit; the constant is about one, and differs by circuit."""
    values = 2000 / np.array([1, 4])
    lossy = [made(linear.design, profile(("dynamics.quality", q))) for q in values]
    found = [
        linear.error(("dynamics.quality", q), exact=through_time(design, linear))
        for q, design in zip(values, lossy, strict=True)
    ]
    assert slope(1 / values, found) == pytest.approx(1, abs=0.1)
    angle = 2 * np.pi * np.exp(np.mean(np.log(linear.design.frequencies_hz))) * STEPS * linear.design.step_s
    assert 0.2 < found[0] * values[0] / angle < 2


@pytest.mark.slow
def test_damping():
    """E ∝ α of magnets, against the circuit without loss."""
    case = Case(spin_wave_chain(1).compile(steps=96), Teacher(amplitude=0.02))
    values = np.array([1e-4, 4e-4])
    assert by_value(case, "dynamics.damping", values, epsilon=0.001) == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_linewidth():
    """E ∝ linewidth of resonators, against the circuit without loss."""
    case = Case(ring_lattice(nx.path_graph(2)).compile(steps=96), Teacher())
    values = np.array([1e5, 4e5])
    assert by_value(case, "dynamics.linewidth", values, epsilon=0.001) == pytest.approx(1, abs=0.1)


def made_up_for(netlist, quality):
    """Errors of echoes in a lossy circuit, as they are and with loss made up for."""
    design = netlist.replace(clock=Clock(None, 300)).compile()
    lesson, own = Teacher(spread=0.1).lesson(design), profile(("dynamics.quality", quality))
    _, by_theta = gradients_as_made(design, own, lesson)
    exact = flat({k: v[:, 0] for k, v in by_theta.items() if design.parameters.trainable[k].any()})
    lossy = made(design, own)
    rate = float(np.mean(energy_rates(lossy.hamiltonian))) / lossy.assembly.units.time
    found = []
    for decay in (0.0, rate):
        device = EmulatedBench(design, own, reference=lesson.drive or None)
        gradient = EchoLearner(epsilon=1.0, decay=decay).gradient(device, design, lesson)
        found.append(distance(flat(gradient.theta), exact))
    return found, rate * 300 * design.step_s


@pytest.mark.slow
def test_loss_that_is_made_up_for():
    """Where both quadratures of a linear circuit decay alike, to (Γδ)²: momenta are read at the ends of steps, where
    half a step's loss has passed or is yet to come. Friction leaves a part of the order Γ/ω."""
    (naive, mended), lost = made_up_for(ring_lattice(nx.path_graph(3)), 8e6)
    assert 0.3 < lost < 3
    assert naive > 0.1
    assert mended < 10 * (lost / 300) ** 2
    (naive, mended), lost = made_up_for(Netlist.load("lc-toy"), 100.0)
    assert 0.3 < lost < 3
    assert naive > 0.1
    assert mended < 0.1 * naive


WARM = [("dynamics.quality", 1e9), ("dynamics.temperature", 1e30)]
"""Noise without loss, or nearly so: it has the size of √(temperature/quality)."""


def test_temperature(linear):
    """E ∝ √T/ε if every echo has its own noise, and √T whatever ε is if they share it."""
    values = 1e29 * HALVES
    own = by_value(linear, "dynamics.temperature", values, WARM[0], chips=CHIPS, epsilon=0.01)
    assert own == pytest.approx(0.5, abs=0.05)
    warm = (WARM[0], ("dynamics.temperature", 1e29))
    assert by_strength(linear, SMALL, *warm, chips=CHIPS) == pytest.approx(-1, abs=0.05)
    assert by_strength(linear, SMALL, *warm, ("dynamics.thermal", "common"), chips=CHIPS) == pytest.approx(0, abs=0.01)
    # Drives that share their noise leave that of the device alone.
    settings = (*warm, ("drive.noise", 1e-9), ("drive.shared_noise", True))
    apart = [linear.error(*settings, epsilon=e, chips=CHIPS) for e in (0.001, 0.1)]
    assert apart[0] / apart[1] == pytest.approx(100, rel=0.1)


def test_replayed_noise_is_retraced(linear):
    """An echo that meets the noise of its free pass again goes back to where that began."""
    bench = linear.bench(WARM[0], ("dynamics.temperature", 1e29), ("dynamics.thermal", "replayed"), chips=2)
    free = bench.run(Shot(STEPS, linear.lesson.drive, hold=True))
    back = bench.run(Shot(STEPS, linear.lesson.drive, echo=True))
    for node in ("x1", "x2", "x3"):
        there = free[f"position.{node}"]
        assert np.ptp(there[-1]) > 1e-6 * np.ptp(there)  # the chips differ
        assert back[f"position.{node}"][::-1] == pytest.approx(there, abs=1e-6 * np.ptp(there))
    # So does one that ends before it is all the way back.
    half = {k: v[STEPS // 2 :] for k, v in linear.lesson.drive.items()}
    bench.run(Shot(STEPS, linear.lesson.drive, hold=True))
    free = bench.run(Shot(STEPS, linear.lesson.drive, hold=True))["position.x1"]
    back = bench.run(Shot(STEPS - STEPS // 2, half, echo=True))["position.x1"]
    assert back[::-1] == pytest.approx(free[STEPS // 2 :], abs=1e-6 * np.ptp(free))


# Wandering parameters ---------------------------------------------------------------------------------------------


def test_drift(linear):
    """E ∝ η, and of ε: d/ε from what changes between the echoes, c from what changed since the free pass, and b·ε.

    The last is that of echoes whose responses to the nudges differ, by the square of those.
    """
    assert by_value(linear, "dynamics.drift", 1e-4 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    assert by_value(linear, "dynamics.drift", 1e-4 * HALVES, chips=CHIPS, epsilon=8.0) == pytest.approx(1, abs=0.05)
    drift = ("dynamics.drift", 1e-4)
    assert by_strength(linear, SMALL, drift, chips=CHIPS) == pytest.approx(-1, abs=0.05)
    assert by_strength(linear, (1e3, 1e4), drift, chips=CHIPS) == pytest.approx(1, abs=0.05)
    small, middle, large = (linear.error(drift, epsilon=e, chips=CHIPS) for e in (0.01, 8.0, 1e4))
    branches = small * 0.01 / 8 + large * 8 / 1e4
    assert middle > 2 * branches


def test_gradient_drift(linear):
    """E ∝ η·(programmings) whatever ε is: parameters hold still while a gradient is measured."""
    assert by_value(linear, "dynamics.gradient_drift", 0.001 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    drift = ("dynamics.gradient_drift", 1e-3)
    assert by_strength(linear, SMALL, drift, chips=CHIPS) == pytest.approx(0, abs=0.01)
    bench, learner = linear.bench(drift, chips=CHIPS), EchoLearner(epsilon=0.1)
    found = [
        distance(flat(learner.gradient(bench, linear.design, linear.lesson).theta), linear.exact) for _ in range(4)
    ]
    assert slope((1, 2, 3, 4), found) == pytest.approx(1, abs=0.05)


def test_flicker(linear):
    """E ∝ η/ε; over passes the parameters have a spectrum 1/f and the root mean square that was asked for."""
    assert by_value(linear, "dynamics.flicker", 1e-4 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, SMALL, ("dynamics.flicker", 1e-4), chips=CHIPS) == pytest.approx(-1, abs=0.1)
    chips = Chips(linear.design, profile(("dynamics.flicker", 0.01)), 0, (0, 1, 2, 3))
    count = 512
    (key,) = {e.key for e in linear.design.assembly.entries if e.name == "k12.constant"}
    nominal = linear.design.theta()[key]
    found = chips.theta({}, passes=np.arange(count))[key] / np.asarray(nominal)[:, None] - 1
    series = np.moveaxis(found.reshape(len(nominal), count, 4), 1, 0).reshape(count, -1)
    power = np.mean(np.abs(np.fft.rfft(series - series.mean(axis=0), axis=0)) ** 2, axis=1)
    lines = np.arange(1, count // 4)
    octaves = [power[lines[(lines >= 2**m) & (lines < 2 ** (m + 1))]].mean() for m in range(7)]
    assert slope(2.0 ** np.arange(7), octaves) == pytest.approx(-1, abs=0.15)
    assert np.sqrt(np.mean(found**2)) == pytest.approx(0.01, rel=0.25)  # its slow octaves are few numbers


# State ------------------------------------------------------------------------------------------------------------


def test_saturation(linear):
    """No error until the state touches its limit; then a large one, and the record tells which node."""
    assert linear.error(("dynamics.saturation", 1.01), epsilon=0.001) < 1e-10
    bench = linear.bench(("dynamics.saturation", 0.9))
    measured = EchoLearner(epsilon=0.001).gradient(bench, linear.design, linear.lesson)
    assert any(name.startswith("state.") for name in measured.saturated)
    assert distance(flat(measured.theta), linear.exact) > 0.05
    fixed = linear.bench(("dynamics.saturation", 0.9), ("dynamics.precision", "Q6.40"))
    assert any(n.startswith("state.") for n in fixed.run(Shot(STEPS, linear.lesson.drive)).clipped)


@pytest.mark.slow
def test_substeps():
    """A continuous device has more steps than samples, whose sum is a quadrature: E ∝ step²."""
    span, counts, found = 16.0, (192, 384), []
    for count in counts:
        case = Case(springs().compile(step=span / count, steps=count), Teacher(amplitude=0.3))
        exact = through_time(case.design, case, substeps=3)
        found.append(case.error(("dynamics.substeps", 3), exact=exact, epsilon=1.0))
    assert slope(1 / np.array(counts), found) == pytest.approx(2, abs=0.1)


def test_precision(linear):
    """E ∝ u/ε, of floating point as of fixed point."""
    found = [linear.rounding(("dynamics.precision", "float32"), epsilon=e) for e in SMALL]
    assert slope(SMALL, found) == pytest.approx(-1, abs=0.15)
    fractions = np.array([14, 22])
    found = [linear.rounding(("dynamics.precision", f"Q4.{n}"), epsilon=0.1) for n in fractions]
    assert slope(2.0**-fractions, found) == pytest.approx(1, abs=0.15)


def test_fixed_point_retraces_bit_for_bit():
    """Over 100,000 steps of a nonlinear circuit: the whole way back in fixed point; float32 only nearly so."""
    steps = 100_000
    design = junctions().compile(steps=STEPS)
    case = Case(design, Teacher(amplitude=0.3))
    wave = 3e-7 * np.sin(2 * np.pi * 3e9 * design.step_s * (np.arange(steps) + 0.5))
    for name in ("Q4.20", "float32"):
        bench = case.bench(("dynamics.precision", name))
        free = bench.run(Shot(steps, {"u1": wave}, hold=True))
        back = bench.run(Shot(steps, {"u1": wave}, echo=True))
        size = np.ptp(free["position.n1"])
        lost = max(
            np.max(np.abs(back[f"position.{n}"][::-1] - free[f"position.{n}"])) for n in ("n1", "n2", "n3", "n4")
        )
        if name == "float32":
            assert lost > 1e-7 * size
        else:
            assert lost == 0
            assert np.array_equal(back["momentum.n1"][::-1], -free["momentum.n1"])
            assert not free.clipped
