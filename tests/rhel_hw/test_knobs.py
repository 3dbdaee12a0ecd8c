"""Every imperfection by itself follows its law: finite strength, readout, drives and nudges.

Slopes are exponents of power laws, fitted over octaves or decades. Errors are relative, over all trainable parameters,
root mean square over chips. What differs between the echoes +ε and −ε is divided by ε; what both have in common is not.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from devices import ArgumentError
from rhel_hw import Keep, reverse, simulate_design
from rhel_hw.bench import Shot
from rhel_hw.converters import BOW
from rhel_hw.device import run_pass
from rhel_hw.learner import EchoLearner
from rhel_hw.operations import Centred, OneSided, Richardson
from rhel_hw.profile import settings
from tests.rhel_hw.knobs import (
    CHIPS,
    STEPS,
    by_strength,
    by_value,
    distance,
    flat,
    linear_case,
    nonlinear_case,
    slope,
)

pytestmark = pytest.mark.usefixtures("quick_compiler")
HALVES = 0.5 ** np.arange(4)
"""Values of a knob, over the largest."""


@pytest.fixture(scope="module")
def linear():
    return linear_case()


@pytest.fixture(scope="module")
def nonlinear():
    return nonlinear_case()


@pytest.mark.parametrize("path", [s.path for s in settings()])
def test_every_setting_is_tested(path):
    texts = [file.read_text(encoding="utf-8") for file in Path(__file__).parent.glob("test_knobs*.py")]
    assert any(f'"{path}"' in text for text in texts)


# Nothing, and finite strength -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "rounding"), [("linear", 0.0), ("nonlinear", 1e-14)])
def test_an_ideal_bench_is_the_simulation(kind, rounding, request):
    """Kick points, momenta at the ends and targets, of a free pass and of its echo without nudges: bit for bit.

    A sine's polynomial is rounded as the compiler fuses it, which differs between the two programs.
    """
    case = request.getfixturevalue(kind)
    design, bench = case.design, case.bench()
    target = design.netlist.targets[0].name
    run = simulate_design(design, case.waves(), keep=Keep.ALL)
    back = reverse(run, keep=Keep.ALL)
    units, domains = design.assembly.units, design.netlist.domains

    def same(found, expected):
        return np.max(np.abs(found - expected)) <= rounding * np.max(np.abs(expected))

    for shot, ideal, starts in (
        (Shot(STEPS, case.lesson.drive, hold=True), run, dict.fromkeys(domains, 0.0)),
        (Shot(STEPS, case.lesson.drive, echo=True), back, {k: -v[-1] for k, v in run.momenta_si().items()}),
    ):
        record, momenta = bench.run(shot), ideal.momenta_si()
        for i, node in enumerate(design.hamiltonian.names):
            kicks = np.asarray(ideal.kicks[:, 0, i]) * design.assembly.factors[i] * units.position(domains[node])
            assert same(record[f"position.{node}"][:, 0, 0], kicks)
            assert same(record[f"momentum.{node}"][:, 0, 0], np.array([starts[node], *momenta[node]]))
        assert same(record[f"target.{target}"][:, 0, 0], ideal.positions_si()[target])


@pytest.mark.parametrize(
    ("stencil", "sizes"), [(OneSided(), (0.01, 0.1)), (Centred(), (0.01, 0.1, 1.0)), (Richardson(), (0.2, 0.4, 0.8))]
)
def test_bias_of_a_finite_strength_has_the_order_of_the_stencil(nonlinear, stencil, sizes):
    """E ∝ ε one-sided, ε² centred, ε⁴ by Richardson."""
    assert by_strength(nonlinear, sizes, stencil=stencil) == pytest.approx(stencil.order, abs=0.1)


def test_a_quadratic_energy_has_no_bias_on_the_bench(linear):
    assert max(linear.error(epsilon=e) for e in (0.1, 100.0)) < 1e-12


# Readout ----------------------------------------------------------------------------------------------------------


def _curvatures(case):
    """√Σ‖∂²H/∂θ∂Φ‖² over the free run, for every trainable parameter, Φ in units of the nodes."""
    design = case.design
    energy, run = design.hamiltonian, simulate_design(design, case.waves(), keep=Keep.ALL)
    keys = [k for k, mask in design.parameters.trainable.items() if mask.any()]

    def total(theta, q, p, u):
        prepared = energy.prepare(design.theta() | theta)
        return energy.potential(q, prepared, u) + energy.kinetic(p, prepared, u)

    theta = {k: design.theta()[k] for k in keys}
    by_state = jax.jacfwd(jax.grad(total), argnums=(1, 2))
    rows = jax.jit(jax.vmap(by_state, in_axes=(None, 0, 0, 0)))(theta, run.kicks[:, 0], run.momenta, run.inputs)
    factors = design.assembly.factors[: energy.size]
    sizes = (1 / factors, factors)
    return np.sqrt(
        flat({k: sum(jnp.sum((x * s) ** 2, axis=(0, 2)) for x, s in zip(rows[k], sizes, strict=True)) for k in keys})
    )


def test_readout_noise(nonlinear):
    """std(dL/dθ) = (δσ/√2ε)·√Σ‖∂²H/∂θ∂Φ‖²: +1 in σ, −1 in γε, and the constant, parameter by parameter."""
    design, noise = nonlinear.design, "readout.noise"
    # Ranges of a hundred units on all channels, so that all have the same σ in the design's own units.
    units, domain = design.assembly.units, design.netlist.domains["n1"]
    ranges = {"position": 100 * units.position(domain), "momentum": 100 * units.momentum(domain)}
    settings = [(noise, 1e-5), ("readout.full_scale", ranges)]
    assert by_value(nonlinear, noise, 1e-5 * HALVES, settings[1], chips=CHIPS) == pytest.approx(1, abs=0.05)
    assert by_strength(nonlinear, (0.005, 0.02, 0.08), *settings, chips=CHIPS) == pytest.approx(-1, abs=0.05)
    same = nonlinear.error(*settings, epsilon=0.02, chips=CHIPS)
    only = nonlinear.error(*settings, epsilon=0.002, gamma=10.0, chips=CHIPS)  # the product matters
    assert only == pytest.approx(same, rel=1e-6)
    found = [nonlinear.gradient(*settings, epsilon=0.02, chips=CHIPS, seed=s) for s in range(16)]
    found = np.concatenate(found, axis=1)
    law = design.step * 1e-3 / (2**0.5 * 0.02) * _curvatures(nonlinear)
    ratios = found.std(axis=1) / law[:, 0]
    assert ratios == pytest.approx(1, abs=0.15)  # 512 chips know a deviation to 3 %


def test_readout_bits(linear):
    """E ∝ LSB/ε while the echoes are more than a third of an LSB apart, and (LSB/ε)^½ when they are far closer."""
    bits = np.array([8, 10, 12, 14])
    fine = [linear.rounding(("readout.bits", int(b)), epsilon=2.0) for b in bits]
    assert slope(2.0**-bits, fine) == pytest.approx(1, abs=0.15)
    sizes = (0.2, 0.6, 2.0)
    assert slope(sizes, [linear.rounding(("readout.bits", 14), epsilon=e) for e in sizes]) == pytest.approx(
        -1, abs=0.15
    )
    sizes, coarse = (0.01, 0.03, 0.1), ("readout.bits", 6)
    found = [linear.rounding(coarse, epsilon=e) for e in sizes]
    assert slope(sizes, found) == pytest.approx(-0.5, abs=0.15)


def test_readout_of_sum_and_difference(linear):
    """E ∝ 2^−bits whatever ε is, since the difference has a range of its own."""
    own = ("readout.digitise", "sum-difference")
    bits = np.array([6, 8, 10, 12])
    found = [linear.rounding(("readout.bits", int(b)), own, epsilon=0.01) for b in bits]
    assert slope(2.0**-bits, found) == pytest.approx(1, abs=0.15)
    sizes = (1e-4, 1e-2, 1.0)
    assert slope(sizes, [linear.rounding(("readout.bits", 8), own, epsilon=e) for e in sizes]) == pytest.approx(
        0, abs=0.05
    )
    # Also on chips that wander from pass to pass, whose runs the program has side by side.
    wandering = linear.rounding(("readout.bits", 12), own, ("dynamics.drift", 1e-12), epsilon=0.01)
    assert wandering == pytest.approx(found[-1], rel=0.01)


def test_readout_range(linear):
    """No error until the range is touched; then a large one, and the record tells."""
    bench = linear.bench(("readout.full_scale", 0.7))
    assert linear.error(("readout.full_scale", 1.1), epsilon=0.01) < 1e-10
    measured = EchoLearner(epsilon=0.01).gradient(bench, linear.design, linear.lesson)
    assert measured.saturated
    assert distance(flat(measured.theta), linear.exact) > 0.01


def test_readout_gain(linear):
    """E ∝ g − 1 whatever ε is."""
    gains = 1 + 0.1 * HALVES
    found = [linear.error(("readout.gain", float(g))) for g in gains]
    assert slope(gains - 1, found) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, (0.01, 1.0), ("readout.gain", 1.1)) == pytest.approx(0, abs=1e-3)


def test_readout_offset(linear):
    """E ∝ offset whatever ε is: ∂H/∂θ is quadratic, and its difference (q₊ − q₋)·(q̄ + offset) keeps the offset.

    It would drop out only of a ∂H/∂θ that is linear in the state.
    """
    assert by_value(linear, "readout.offset", 0.02 * HALVES) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, (0.01, 1.0), ("readout.offset", 0.02)) == pytest.approx(0, abs=1e-3)


def test_readout_nonlinearity(linear):
    """E ∝ bow whatever ε is."""
    assert by_value(linear, "readout.inl", 0.01 * HALVES) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, (0.01, 0.1), ("readout.inl", 0.01)) == pytest.approx(0, abs=0.02)


def test_readout_gain_spread(linear):
    """E ∝ spread whatever ε is, and chips differ."""
    assert by_value(linear, "readout.gain_spread", 0.04 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.1)
    spread = ("readout.gain_spread", 0.01)
    assert by_strength(linear, (0.01, 1.0), spread, chips=CHIPS) == pytest.approx(0, abs=1e-3)
    assert np.ptp(linear.gradient(spread, chips=CHIPS), axis=1).min() > 0


def test_readout_jitter(linear):
    """E ∝ τ/ε: noise of the slope times τ."""
    step = linear.design.step_s
    assert by_value(linear, "readout.jitter", 0.01 * step * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    jitter = ("readout.jitter", 0.01 * step)
    assert by_strength(linear, (0.01, 0.1, 1.0), jitter, chips=CHIPS) == pytest.approx(-1, abs=0.05)


def test_readout_bandwidth(linear):
    """E ∝ 1/corner whatever ε is: a delay, common to both echoes."""
    corners = 1 / (2 * np.pi * linear.design.step_s * HALVES)
    assert by_value(linear, "readout.bandwidth", corners) == pytest.approx(-1, abs=0.1)
    assert by_strength(linear, (0.01, 1.0), ("readout.bandwidth", float(corners[0]))) == pytest.approx(0, abs=1e-3)


def test_readout_decimation(linear):
    """E ∝ d⁵ whatever ε is: splines are off by d⁴, mostly over the d steps at either end that they extrapolate to."""
    every = np.array([2, 4])
    found = [linear.error(("readout.decimation", int(n))) for n in every]
    assert slope(every, found) == pytest.approx(5, abs=0.5)
    assert by_strength(linear, (0.01, 1.0), ("readout.decimation", 4)) == pytest.approx(0, abs=1e-3)


def test_readout_memory(linear):
    """Both echoes have to fit."""
    with pytest.raises(ArgumentError, match="memory"):
        linear.gradient(("readout.memory", STEPS + 1))
    assert linear.error(("readout.memory", 2 * (STEPS + 1)), epsilon=1.0) < 1e-12


def _zoomed(linear, *settings, factor=1.0, zoom=1.0, **choices):
    """Record of a drive that is so many times smaller, at ranges that are; and the bench."""
    bench = linear.bench(*settings, **choices)
    ranges = {name: c.full_scale / zoom for name, c in bench.describe().channels.items()} if zoom > 1 else {}
    drive = {name: wave / factor for name, wave in linear.lesson.drive.items()}
    return bench.run(Shot(STEPS, drive, ranges=ranges)), bench


def test_readout_zoom(linear):
    """The error of a small signal ∝ the range that is set, and the ranges are numbers to one program."""
    own = ("readout.bits", 8), ("readout.zoom", 16.0)
    exact, _ = _zoomed(linear, factor=16.0)
    plain, _ = _zoomed(linear, own[0], factor=16.0)
    programs, zooms, found = run_pass._cache_size(), (1.0, 2.0, 4.0, 8.0, 16.0), []
    for zoom in zooms:
        record, _ = _zoomed(linear, *own, factor=16.0, zoom=zoom)
        errors = [(record[n] - exact[n]) / c.full_scale for n, c in linear.bench().describe().channels.items()]
        found.append(np.sqrt(np.mean(np.concatenate(errors) ** 2)))
        if zoom == 1:  # nothing was asked for, and nothing is different
            assert all(np.array_equal(record[n], plain[n]) for n in record.samples)
    assert run_pass._cache_size() == programs
    assert slope(1 / np.array(zooms), found) == pytest.approx(1, abs=0.1)


def test_whatever_a_channel_does_is_in_full_scales_of_its_range(linear):
    """A linear circuit that moves eight times less, read at ranges eight times smaller: the same codes, bit for bit."""
    own = ("readout.noise", 1e-2), ("readout.offset", 0.02), ("readout.inl", 0.03), ("readout.bits", 9)
    own += (("readout.gain_spread", 0.02), ("readout.zoom", 8.0))
    large, bench = _zoomed(linear, *own, chips=2)
    small, _ = _zoomed(linear, *own, chips=2, factor=8.0, zoom=8.0)
    assert bench.describe().zoom == 8
    for name in large.samples:
        assert np.array_equal(8 * small[name], large[name])
    assert large.clipped == small.clipped


def test_an_amplifier_that_is_set_has_a_range(linear):
    """Also before a converter without one: what is beyond is told."""
    own = ("readout.zoom", 4.0)
    plain, _ = _zoomed(linear, own)
    close, bench = _zoomed(linear, own, zoom=4.0)
    for name, channel in bench.describe().channels.items():
        assert np.max(np.abs(close[name])) == pytest.approx(channel.full_scale / 4)
        assert np.array_equal(np.abs(plain[name]) > channel.full_scale / 4, close.saturated[name])
    assert not plain.saturated


def test_unwired_channels(linear):
    """What is not seen is not learnt; everything else is exact."""
    bench = linear.bench(("readout.unwired", ["momentum.x1"]))
    measured = EchoLearner(epsilon=1.0).gradient(bench, linear.design, linear.lesson)
    assert measured.frozen == ("mx1.mass",)
    names = [e.name for e in linear.design.assembly.entries if e.trainable]
    found, seen = flat(measured.theta), np.array([n != "mx1.mass" for n in names])
    assert found[seen] == pytest.approx(linear.exact[seen], rel=1e-9)
    assert found[~seen] == 0


# Drives -----------------------------------------------------------------------------------------------------------


def _played(case, change):
    """Waveforms changed by a function of (waveform, full scale)."""
    return {k: change(w, 2 * np.max(np.abs(w))) for k, w in case.waves().items()}


@pytest.mark.parametrize(
    ("path", "value", "change"),
    [
        ("drive.bits", 6, lambda w, s: np.round(w * 32 / s) * s / 32),
        ("drive.gain", 1.3, lambda w, s: 1.3 * w),
        ("drive.offset", 0.1, lambda w, s: w + 0.1 * s),
        ("drive.inl", 0.05, lambda w, s: w + 0.05 * s * BOW * (w / s - (w / s) ** 3)),
        ("drive.full_scale", 0.7, lambda w, s: np.clip(w, -0.35 * s, 0.35 * s)),
    ],
)
def test_what_drives_do_in_all_passes_alike_makes_no_error(linear, path, value, change):
    """The gradient is exactly that of the circuit as it is really driven."""
    exact = linear.driven(_played(linear, change))
    assert distance(exact, linear.exact) > 1e-3
    assert linear.error((path, value), exact=exact, epsilon=1.0) < 1e-12


def test_drive_crosstalk(linear):
    """As above: neighbours leak by a factor, or as a matrix says."""
    waves = linear.waves()
    both = {"u1": waves["u1"] + 0.2 * waves["u2"], "u2": waves["u2"] + 0.2 * waves["u1"]}
    assert linear.error(("drive.crosstalk", 0.2), exact=linear.driven(both), epsilon=1.0) < 1e-12
    one = {"u1": waves["u1"] + 0.2 * waves["u2"], "u2": waves["u2"]}
    matrix = ("drive.crosstalk", [[0.0, 0.2], [0.0, 0.0]])
    assert linear.error(matrix, exact=linear.driven(one), epsilon=1.0) < 1e-12


def test_drive_noise(linear):
    """E ∝ σ/ε if every echo has its own, and σ if they share it."""
    assert by_value(linear, "drive.noise", 0.01 * HALVES, chips=CHIPS, epsilon=0.01) == pytest.approx(1, abs=0.05)
    noise, sizes = ("drive.noise", 0.01), (0.001, 0.01, 0.1)
    assert by_strength(linear, sizes, noise, chips=CHIPS) == pytest.approx(-1, abs=0.05)
    shared = ("drive.shared_noise", True)
    assert by_strength(linear, sizes, noise, shared, chips=CHIPS) == pytest.approx(0, abs=0.01)


def test_drive_jitter(linear):
    """E ∝ τ/ε: every echo has its own."""
    step = linear.design.step_s
    values = 0.1 * step * HALVES
    assert by_value(linear, "drive.jitter", values, chips=CHIPS, epsilon=0.01) == pytest.approx(1, abs=0.05)
    jitter = ("drive.jitter", 0.1 * step)
    assert by_strength(linear, (0.001, 0.01, 0.1), jitter, chips=CHIPS) == pytest.approx(-1, abs=0.1)


def test_drive_bandwidth(linear):
    """E ∝ 1/corner whatever ε is: the echo plays backwards what should come late, and so it comes early."""
    corners = 1 / (2 * np.pi * linear.design.step_s * HALVES)
    assert by_value(linear, "drive.bandwidth", corners) == pytest.approx(-1, abs=0.1)
    assert by_strength(linear, (0.01, 1.0), ("drive.bandwidth", float(corners[0]))) == pytest.approx(0, abs=1e-3)


# Nudges -----------------------------------------------------------------------------------------------------------


def test_nudge_bits(linear):
    """E ∝ 2^−bits whatever ε is, if the range follows the nudges; a fixed one leaves LSB/ε."""
    bits = np.array([6, 8, 10, 12])
    found = [linear.rounding(("nudge.bits", int(b)), epsilon=0.1) for b in bits]
    assert slope(2.0**-bits, found) == pytest.approx(1, abs=0.15)
    sizes = (1e-3, 1e-2, 1e-1, 1.0)
    assert by_strength(linear, sizes, ("nudge.bits", 8)) == pytest.approx(0, abs=1e-3)
    fixed = ("nudge.full_scale", {"x3": 0.1})
    found = [linear.rounding(("nudge.bits", 14), fixed, epsilon=e) for e in sizes[1:]]
    assert slope(sizes[1:], found) == pytest.approx(-1, abs=0.15)


def test_nudge_gain(linear):
    """E ∝ g − 1 whatever ε is; gradients by stiffnesses are multiplied by g."""
    gains = 1 + 0.1 * HALVES
    found = [linear.error(("nudge.gain", float(g))) for g in gains]
    assert slope(gains - 1, found) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, (0.01, 1.0), ("nudge.gain", 1.1)) == pytest.approx(0, abs=1e-3)
    names = [e.name for e in linear.design.assembly.entries if e.trainable]
    stiff = np.array([n.endswith("constant") for n in names])
    assert linear.gradient(("nudge.gain", 1.1))[stiff] == pytest.approx(1.1 * linear.exact[stiff], rel=1e-9)


def test_nudge_offset(linear):
    """E ∝ offset·ε: both echoes are pushed alike, so that only their middle moves, by as little as the nudges are."""
    assert by_value(linear, "nudge.offset", 0.1 * HALVES, epsilon=1.0) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, (0.1, 1.0, 10.0), ("nudge.offset", 0.1)) == pytest.approx(1, abs=0.05)


def test_nudge_nonlinearity(linear):
    """E ∝ bow whatever ε is."""
    assert by_value(linear, "nudge.inl", 0.1 * HALVES) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, (0.01, 1.0), ("nudge.inl", 0.1)) == pytest.approx(0, abs=1e-3)


def test_nudge_noise(linear):
    """E ∝ σ whatever ε is, for it is measured by the nudges themselves."""
    assert by_value(linear, "nudge.noise", 0.1 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, (0.01, 0.1, 1.0), ("nudge.noise", 0.1), chips=CHIPS) == pytest.approx(0, abs=0.05)


# Both branches ----------------------------------------------------------------------------------------------------


def test_the_best_strength_is_where_noise_and_bias_cross(nonlinear):
    """E = √((n/ε)² + (bε²)²) is least near ε* = (n/2b)^⅓, with n and b fitted far from it on either side."""
    settings = [("readout.noise", 1e-4), ("readout.bits", 12)]
    sizes = np.geomspace(0.01, 3, 16)
    errors = np.array([nonlinear.error(*settings, epsilon=e, chips=CHIPS) for e in sizes])
    noise = np.exp(np.mean(np.log(errors[:4] * sizes[:4])))
    bias = np.exp(np.mean(np.log(errors[-3:] / sizes[-3:] ** 2)))
    best, predicted = sizes[np.argmin(errors)], (noise / (2 * bias)) ** (1 / 3)
    assert 0.5 < best / predicted < 2
    assert errors[0] > 3 * errors.min() < errors[-1]
