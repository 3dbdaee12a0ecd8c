"""Spintronic elements against the equations they stand for, solved apart from the package: SciPy, in SI.

The reference of a macrospin is the Landau–Lifshitz(–Gilbert) equation of a unit vector in Cartesian components, that of
a core is the Thiele equation: docs/physics.md, 10. The rotor keeps the former up to second order in m_z, so its errors
have closed forms of their own, and those are tested too.
"""

from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.constants
from scipy.integrate import solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import root

from circuits import DesignError, Initial, Netlist
from circuits.generators import spin_wave_chain
from devices import (
    DipoleCoupler,
    ElementError,
    Exchange,
    FieldDrive,
    FieldLine,
    Macrospin,
    Magnetoresistive,
    MagnonMode,
    PillarCoupler,
    Skyrmion,
    Vortex,
)
from rhel_hw import Leapfrog, Yoshida4, Yoshida6, return_error, reverse, simulate, simulate_design

MU_0, GAMMA, BOLTZMANN = 1.25663706212e-6, 1.76085963023e11, 1.380649e-23
M, VOLUME, EASY = 8e5, 2.5e-23, 0.9  # permalloy, 100 nm × 50 nm × 5 nm
MOMENT, S = M * VOLUME, M * VOLUME / GAMMA
B_HARD = MU_0 * M * EASY
"""μ₀M_eff, the field that keeps the moment in the plane."""


def spin(name, node, **options):
    return Macrospin(name, node, M, VOLUME, **({"demagnetisation": EASY} | options))


# The reference: Landau and Lifshitz in Cartesian components ---------------------------------------------------------


def cross(a, b):
    return np.stack([a[:, i - 2] * b[:, i - 1] - a[:, i - 1] * b[:, i - 2] for i in range(3)], axis=1)


def in_plane(angle):
    return np.stack([np.cos(angle), np.sin(angle), 0 * np.asarray(angle, float)], axis=-1)


def body(m, bias=0.0, axis=0.0, hard=B_HARD):
    """Effective field of magnets with a field along x, an easy axis 2K_∥/M_s along x and a hard axis z, (n, 3)."""
    return np.stack([bias + axis * m[:, 0], 0 * m[:, 1], -hard * m[:, 2]], axis=1)


def precession(field, damping=0.0):
    """dm/dt = −γ/(1 + α²)·(m × B + α·m × (m × B)), `field` a function of time and of the unit vectors (n, 3)."""

    def rate(t, y):
        m = y.reshape(-1, 3)
        torque = cross(m, field(t, m))
        return (-GAMMA / (1 + damping**2) * (torque + damping * cross(m, torque))).ravel()

    return rate


def solve(rate, start, times, **options):
    """Solution (components, times) by DOP853; the first step is given, as SciPy's own guess overflows in SI."""
    given = {"rtol": 1e-9, "atol": 1e-11, "first_step": 1e-3 * times[-1]} | options
    return solve_ivp(rate, (0, times[-1] * (1 + 1e-12)), np.ravel(start), "DOP853", t_eval=times, **given)


def linearised(field, angles):
    """Frequencies (Hz) of small motions about a rest point in the plane, by differences of the precession rate."""
    rest, along = in_plane(angles), in_plane(np.asarray(angles) + np.pi / 2)
    count, h, columns = len(angles), 1e-5, []
    for i in range(count):
        for direction in (along[i], np.array([0.0, 0.0, 1.0])):
            moved = np.zeros((count, 3))
            moved[i] = h * direction
            both = [(rest + s * moved) / np.linalg.norm(rest + s * moved, axis=1)[:, None] for s in (1, -1)]
            first, second = (precession(field)(0.0, m.ravel()).reshape(-1, 3) for m in both)
            slope = (first - second) / (2 * h)
            columns.append(np.stack([np.sum(slope * along, axis=1), slope[:, 2]], axis=1).ravel())
    values = np.linalg.eigvals(np.array(columns).T)
    assert np.max(np.abs(values.real)) < 1e-9 * np.max(np.abs(values))
    return np.sort(values.imag[values.imag > 0]) / (2 * np.pi)


def dipole_field(m, moments, distance, angle):
    """Field of each of two dipoles at the other, μ₀/4πd³·(3n(n·m) − m)."""
    n, others = in_plane(angle), (m * moments[:, None])[::-1]
    return MU_0 / (4 * np.pi * distance**3) * (3 * np.outer(others @ n, n) - others)


# How runs are started and measured ----------------------------------------------------------------------------------


def compiled(parts, nodes, **clock):
    """Design whose initial state is one in every coordinate, SI, so that multiples of it are states."""
    initial = Initial(positions=dict.fromkeys(nodes, 1.0), momenta=dict.fromkeys(nodes, 1.0))
    return Netlist("spins", parts, initial=initial).compile(**clock)


def state(design, positions, momenta=0.0):
    """Dimensionless state (n, lanes) from SI, nodes in the order of the design."""
    q, p = (np.asarray(x)[:, None] for x in design.initial_state())
    lanes = np.broadcast_arrays(positions, momenta)
    return q * lanes[0], p * lanes[1]


def frequency(times, signal):
    """Mean frequency between the first and the last crossing of zero; a cubic spline finds them."""
    roots = CubicSpline(times, signal).roots(extrapolate=False)
    return (len(roots) - 1) / (roots[-1] - roots[0]) / 2


def decay_rate(times, signal):
    """Slope of the logarithm of successive extrema, from densely sampled oscillations."""
    ends = np.flatnonzero(signal[:-1] * signal[1:] < 0)
    peaks = [a + 1 + np.argmax(np.abs(signal[a + 1 : b + 1])) for a, b in pairwise(ends)]
    return -np.polyfit(times[peaks], np.log(np.abs(signal[peaks])), 1)[0]


def test_constants_are_those_of_codata():
    """Adjustments since change the ninth digit."""
    assert pytest.approx(scipy.constants.mu_0, rel=1e-8, abs=0) == MU_0
    assert pytest.approx(scipy.constants.physical_constants["electron gyromag. ratio"][0], rel=1e-8) == GAMMA


# Macrospins ---------------------------------------------------------------------------------------------------------

CASES = ((1e-3, 0.0), (5e-3, 0.0), (20e-3, 0.0), (50e-3, 0.0), (100e-3, 0.0), (5e-3, 2e3), (5e-3, 1e4), (0.0, 1e4))
"""Field in T and in-plane anisotropy in J/m³."""
SWINGS = np.array([0.1, 0.2, 0.4])


@pytest.fixture(scope="module")
def swings():
    """All cases at once, bare and renormalised, lanes of different swing, against as many Landau–Lifshitz runs.

    Yoshida4 at step·ω = 0.015 of the fastest spin: the integrator's own frequency error is below 1e-8, a thousandth of
    what is measured. A free swing is periodic, so the reference needs a few periods only.
    """
    kinds = [(r, i) for r in (0, 1) for i in range(len(CASES))]
    parts = tuple(
        spin(f"M{r}{i}", f"s{r}{i}", field=CASES[i][0], anisotropy=CASES[i][1], renormalisation=r) for r, i in kinds
    )
    design = compiled(parts, tuple(f"s{r}{i}" for r, i in kinds), step=0.015 / (2 * np.pi * 8.9e9), steps=14000)
    run = simulate_design(design, state=state(design, SWINGS), integrator=Yoshida4())
    x, p = run.positions_si(), run.momenta_si()
    found = []
    for i, (bias, anisotropy) in enumerate(CASES):
        axis = 2 * anisotropy / M
        period = 2 * np.pi / (GAMMA * np.sqrt((bias + axis) * (bias + axis + B_HARD)))
        times = run.times_s[run.times_s < 3.6 * period]
        events = [lambda t, y, k=k: y[3 * k + 1] for k in range(len(SWINGS))]
        exact = solve(
            precession(lambda t, m, b=bias, a=axis: body(m, b, a)),
            in_plane(SWINGS),
            times,
            events=events,
            rtol=1e-11,
            atol=1e-13,
        )
        m = exact.y.reshape(len(SWINGS), 3, -1)
        f = np.array([(len(t) - 1) / (t[-1] - t[0]) / 2 for t in exact.t_events])
        measured = [
            np.array([frequency(times, x[f"s{r}{i}"][: len(times), k]) for k in range(len(SWINGS))]) for r in (0, 1)
        ]
        tilt = -p[f"s1{i}"][: len(times)].T / S
        found.append(
            SimpleNamespace(
                bias=bias,
                axis=axis,
                top=np.max(np.abs(m[:, 2]), axis=1),
                bare=measured[0] / f - 1,
                renormalised=measured[1] / f - 1,
                tilt=np.max(np.abs(tilt - m[:, 2]), axis=1),
            )
        )
    return found


def residual(case):
    """How much too fast the renormalised rotor is, over m_z²: docs/physics.md, 10.1."""
    bias, axis = case.bias, case.axis
    return (bias + 2 * axis) / (8 * (bias + axis)) - 3 * bias / (16 * (bias + axis + B_HARD))


def test_bare_rotor_is_slow_by_the_field_over_the_hard_field(swings):
    """Without the share of m_z in the in-plane energies ω² lacks the factor 1 + (B + 2K_∥/M_s)/μ₀M_eff."""
    for case in swings:
        lacking = (case.bias + case.axis) / B_HARD
        expected = (1 + lacking) ** -0.5 * (1 + residual(case) * case.top**2) - 1
        assert np.all(np.abs(case.bare - expected) < 0.02 * case.top**2)
        assert case.bare[0] == pytest.approx(-lacking / 2, rel=lacking + 0.01)  # to first order, as docs say


def test_renormalised_rotor_errs_by_the_square_of_the_tilt(swings):
    """Residual c·m_z² with c = (B + 2B_k)/(8(B + B_k)) − 3B/(16(B + B_k + μ₀M_eff)), B_k = 2K_∥/M_s: 10.1."""
    for case in swings:
        slope = np.polyfit(np.log(case.top), np.log(case.renormalised), 1)[0]
        assert slope == pytest.approx(2, abs=0.03)
        # Next order in the swing, 0.4 rad at most, is below 3 %.
        np.testing.assert_allclose(case.renormalised / case.top**2, residual(case), rtol=0.03)
        if case.axis == 0:
            np.testing.assert_allclose(case.renormalised / case.top**2, 1 / 8, rtol=0.15)
        if case.bias == 0:
            np.testing.assert_allclose(case.renormalised / case.top**2, 1 / 4, rtol=0.15)


def test_momentum_is_minus_the_spin_times_the_tilt(swings):
    """Sign and size of p = −S·m_z over 3.6 periods, up to the phase that the residual has by then."""
    for case in swings:
        phase = 2 * np.pi * 3.6 * case.renormalised
        assert np.all(case.tilt / case.top < 1.5 * phase + 0.5 * case.top**2)


@pytest.mark.parametrize("bias", [0.0, 20e-3])
def test_elliptical_body_has_kittels_frequency(bias):
    """ω = γ√((B + μ₀M(N_y − N_x))(B + μ₀M(N_z − N_x) − 2K_u/M)): `demagnetisation` is N_z − N_y, not N_z − N_x."""
    n_x, n_y, n_z, lift = 0.019, 0.052, 0.929, 2e4
    shape = MU_0 * M**2 * (n_y - n_x) / 2
    own = spin("M", "s", field=bias, anisotropy=shape, demagnetisation=n_z - n_y, perpendicular_anisotropy=lift)
    in_and_out = bias + MU_0 * M * (n_y - n_x), bias + MU_0 * M * (n_z - n_x) - 2 * lift / M
    expected = GAMMA * np.sqrt(np.prod(in_and_out)) / (2 * np.pi)
    assert Netlist("e", [own]).compile().frequencies_hz[0] == pytest.approx(expected, rel=1e-9)


# Couplers -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_exchange_pair_follows_landau_and_lifshitz():
    """4 ns, some 27 periods of the fast mode: phase errors accumulate, in the bare rotor until nothing is left."""
    J, bias, swing = 2e4 * VOLUME, 10e-3, np.array([0.1, 0.4])
    parts, nodes = [], [f"s{r}{i}" for r in (0, 1) for i in (0, 1)]
    for r in (0, 1):
        parts += [spin(f"M{r}{i}", f"s{r}{i}", field=bias, renormalisation=r) for i in (0, 1)]
        parts.append(Exchange(f"J{r}", f"s{r}0", f"s{r}1", J))
    design = compiled(tuple(parts), tuple(nodes), step=4e-13, steps=10000)
    start = np.array([swing, 0 * swing, swing, 0 * swing])
    run = simulate_design(design, state=state(design, start), integrator=Yoshida4())  # own error below 1e-5
    times, partner = run.times_s[99::100], [1, 0, 3, 2]
    field = precession(lambda t, m: body(m, bias) + J / MOMENT * m[partner])
    m = solve(field, in_plane([swing[0], 0, swing[1], 0]), times).y.reshape(2, 2, 3, -1)
    azimuth, top = np.arctan2(m[:, 0, 1], m[:, 0, 0]), np.max(np.abs(m[:, :, 2]), axis=(1, 2))
    np.testing.assert_allclose(top, [0.0177, 0.0702], rtol=0.01)
    x, p = run.positions_si(), run.momenta_si()
    bare, renormalised = (np.max(np.abs(x[f"s{r}0"][99::100].T - azimuth), axis=1) / swing for r in (0, 1))
    np.testing.assert_allclose(renormalised, [0.005, 0.08], rtol=0.1)  # sixteen times: m_z² again
    assert np.all(bare > 1)
    assert np.all(np.max(np.abs(-p["s10"][99::100].T / S - m[:, 0, 2]), axis=1) / top < 1.5 * renormalised)


@pytest.mark.slow
def test_spin_waves_of_a_closed_chain():
    count, bias, J = 8, 20e-3, 4e-19
    x = MOMENT * bias + 2 * J * (1 - np.cos(2 * np.pi * np.arange(count) / count))
    stiff = MOMENT * B_HARD
    renormalised = np.sort(np.sqrt(x * (stiff + x)) / S) / (2 * np.pi)
    bare = np.sort(np.sqrt(x * stiff) / S) / (2 * np.pi)
    options = {"closed": True, "field": bias, "exchange": J, "demagnetisation": EASY}
    np.testing.assert_allclose(spin_wave_chain(count, **options).compile().frequencies_hz, renormalised, rtol=1e-9)
    design = spin_wave_chain(count, **options, renormalisation=0.0).compile()
    np.testing.assert_allclose(design.frequencies_hz, bare, rtol=1e-9)

    def field(t, m):
        return body(m, bias) + J / MOMENT * (np.roll(m, 1, axis=0) + np.roll(m, -1, axis=0))

    np.testing.assert_allclose(linearised(field, np.zeros(count)), renormalised, rtol=1e-8)  # differences in h


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bias", "anisotropy", "rest"),
    [(0.0, 5e3, (0.0, np.pi)), (5e-3, 5e3, (0.0, np.pi)), (20e-3, 0.0, (np.pi / 3, -np.pi / 3))],
    ids=["antiparallel", "antiparallel in a field", "canted"],
)
def test_antiferromagnetic_pair(bias, anisotropy, rest):
    """J < 0. Without anisotropy the pair flops and cants until cos φ = B·M_sV/2|J| = ½."""
    J = -4e-19
    parts = [spin(f"M{i}", f"s{i}", field=bias, anisotropy=anisotropy, rest=rest[i]) for i in (0, 1)]
    design = Netlist("afm", [*parts, Exchange("J", "s0", "s1", J)]).compile()
    expected = linearised(lambda t, m: body(m, bias, 2 * anisotropy / M) + J / MOMENT * m[::-1], rest)
    np.testing.assert_allclose(design.frequencies_hz, expected, rtol=1e-8)  # differences in h
    at_rest = simulate_design(design).positions_si()
    np.testing.assert_allclose([at_rest[f"s{i}"][-1] for i in (0, 1)], rest, atol=1e-9)


@pytest.mark.parametrize("renormalisation", [1.0, 0.0])
@pytest.mark.parametrize("angle", [0.0, np.pi / 2, 0.6], ids=["along", "across", "oblique"])
def test_dipole_pair_against_the_full_dipole_field(angle, renormalisation):
    """Unlike moments, and an exchange beside: also what couplers take from either spin must be right."""
    bias, distance, J, moments = 30e-3, 150e-9, 3e-19, MOMENT * np.array([1, 1.56])
    hard = B_HARD * np.array([1, 1.3])

    def field(t, m):
        return body(m, bias, hard=hard) + dipole_field(m, moments, distance, angle) + J / moments[:, None] * m[::-1]

    rest = root(lambda a: cross(in_plane(a), field(0, in_plane(a)))[:, 2], [0.0, 0.0], tol=1e-15).x
    options = {"demagnetisation": EASY, "field": bias, "renormalisation": renormalisation}
    parts = [
        Macrospin("M0", "s0", M, VOLUME, rest=rest[0], **options),
        Macrospin("M1", "s1", 1.3 * M, 1.2 * VOLUME, rest=rest[1], **options),
        DipoleCoupler("D", "s0", "s1", distance, bond_angle=angle),
        Exchange("J", "s0", "s1", J),
    ]
    ratio = Netlist("d", parts).compile().frequencies_hz / linearised(field, rest)
    if renormalisation:
        np.testing.assert_allclose(ratio, 1, atol=1e-8)
    else:
        assert np.all((ratio < 0.99) & (ratio > 0.95))


def test_energies_of_couplers_in_the_plane_are_the_textbook_ones():
    rng = np.random.default_rng(0)
    first, second = rng.uniform(-4, 4, (2, 20))
    distance, angle, own, other = 180e-9, 0.7, 2e-17, 3e-17
    values = SimpleNamespace(distance=distance, bond_angle=angle, mu_0=MU_0, moment_a=own, moment_b=other)
    a, b, n = in_plane(first), in_plane(second), in_plane(angle)
    aligned = np.sum(a * b, axis=1)
    dipole = MU_0 * own * other / (4 * np.pi * distance**3) * (aligned - 3 * (a @ n) * (b @ n))
    np.testing.assert_allclose(DipoleCoupler.potential((first, second), values), dipole, rtol=1e-12)
    exchange = Exchange.potential((first - second,), SimpleNamespace(energy=4e-19))
    np.testing.assert_allclose(exchange, 4e-19 * (1 - aligned), rtol=0, atol=1e-33)


def test_field_line_drives_as_the_field_does():
    """A pulse at an oblique angle: off by the phase ωT·m_z²/8 at most, and in proportion to m_z²."""
    bias, angle, duration, steps = 20e-3, 0.7, 2e-9, 2000
    peaks = np.array([2.5e-4, 5e-4, 1e-3])
    parts = (spin("M", "s", field=bias), FieldLine("F", "s", angle))
    design = Netlist("f", parts, drives=[FieldDrive("u", "F")]).compile(step=duration / steps, steps=steps)

    def pulse(t):
        return peaks * np.sin(2 * np.pi * 3.5e9 * t)[..., None] * np.sin(np.pi * t / duration)[..., None] ** 2

    mid = (np.arange(steps) + 0.5) * duration / steps
    run = simulate_design(design, {"u": pulse(mid)}, integrator=Yoshida4())  # held inputs err by (ωδ)²/24, below 3e-5

    def field(t, m):
        return body(m, bias) + pulse(np.asarray(t))[:, None] * in_plane(angle)

    m = solve(precession(field), in_plane(np.zeros(3)), run.times_s).y.reshape(3, 3, -1)
    azimuth, top = np.arctan2(m[:, 1], m[:, 0]), np.max(np.abs(m[:, 2]), axis=1)
    errors = np.max(np.abs(run.positions_si()["s"].T - azimuth), axis=1) / np.max(np.abs(azimuth), axis=1)
    tilts = np.max(np.abs(-run.momenta_si()["s"].T / S - m[:, 2]), axis=1) / top
    allowed = 2 * np.pi * 3.8e9 * duration * top**2 / 8
    assert np.all(errors < allowed)
    assert np.all(tilts < allowed)
    assert np.polyfit(np.log(top), np.log(errors), 1)[0] == pytest.approx(2, abs=0.1)
    assert return_error(run, reverse(run)) < 1e-12  # the field is even


def test_magnon_mode_precesses_on_an_ellipse():
    bias, magnetisation, volume = 0.1, 140e3, 1e-22
    slow, fast = GAMMA * bias, GAMMA * (bias + MU_0 * magnetisation)
    design = compiled((MagnonMode("G", "s", magnetisation, volume, bias),), ("s",), step=1e-12, steps=500)
    assert 2 * np.pi * design.frequencies_hz[0] == pytest.approx(np.sqrt(slow * fast), rel=1e-12)
    run = simulate_design(design, state=state(design, 1e-3), integrator=Yoshida6())
    x, z = run.positions_si()["s"], -run.momenta_si()["s"] / (magnetisation * volume / GAMMA)
    times = run.times_s
    m = solve(precession(lambda t, m: body(m, bias, hard=MU_0 * magnetisation)), in_plane([1e-3]), times).y
    np.testing.assert_allclose(x[:, 0], m[1], atol=1e-8)  # the next order of the angle is its cube
    np.testing.assert_allclose(z[:, 0], m[2], atol=1e-8)
    aspect = np.sqrt(slow / fast)
    np.testing.assert_allclose(x**2 + (z / aspect) ** 2, 1e-6, rtol=1e-6)  # the ellipse of that axis ratio
    assert np.max(z) / np.max(x) == pytest.approx(aspect, rel=1e-3)  # peaks fall between samples


# Vortices and skyrmions ---------------------------------------------------------------------------------------------

R, THICK = 200e-9, 20e-9
G = 2 * np.pi * M * THICK / GAMMA
KAPPA = 10 / 9 * MU_0 * (M * THICK) ** 2 / R
ETA = MU_0 * (2 / 3 * np.pi * R * THICK * M) ** 2 / (4 * np.pi * (3 * R) ** 3)
"""Coupling of two such discs at a distance of three radii."""


def vortex(name, node, **options):
    return Vortex(name, node, M, R, THICK, **options)


def thiele(G, cubic, coupling):
    """G·ẑ × dR/dt = ∇W of two cores: y = (X₁, X₂, Y₁, Y₂), W = Σ κr²/2 + κ′r⁴/4 + η(X₁X₂ − 2Y₁Y₂)."""

    def rate(t, y):
        X, Y = y[:2], y[2:]
        stiff = KAPPA + cubic * (X**2 + Y**2)
        return np.concatenate([(stiff * Y - 2 * coupling * Y[::-1]) / G, -(stiff * X + coupling * X[::-1]) / G])

    return rate


def test_cores_gyrate_at_the_thiele_frequency_and_the_quartic_shifts_it():
    """ω = (κ + κ′a²)/G exactly, measured by the phase of X + iY; Yoshida6 at step·ω = 0.1 errs by 6e-9.

    The sense is that of G·ẑ × dR/dt = ∇W: with G > 0 from X towards −Y. A skyrmion has twice the gyrovector.
    """
    np.testing.assert_allclose(KAPPA / G, 5 / (9 * np.pi) * GAMMA * MU_0 * M * THICK / R, rtol=1e-12)
    kinds = {"up": (1, 0.0), "down": (-1, 0.0), "stiff": (1, 0.25), "soft": (-1, -0.2)}
    parts = [vortex(f"V{n}", n, polarity=p, stiffening=s) for n, (p, s) in kinds.items()]
    cores = [(n, p * G, KAPPA, s * KAPPA / R**2) for n, (p, s) in kinds.items()]
    parts.append(Skyrmion("K", "skyrmion", 580e3, 1e-9, 1e-4, cubic=1e9, charge=-1))
    cores.append(("skyrmion", -4 * np.pi * 580e3 * 1e-9 / GAMMA, 1e-4, 1e9))
    design = compiled(parts, [core[0] for core in cores], step=0.1 * G / KAPPA, steps=1000)
    small = np.sort([stiff / abs(vector) for _, vector, stiff, _ in cores])
    np.testing.assert_allclose(2 * np.pi * design.frequencies_hz, small, rtol=1e-12)
    a = R * np.array([0.1, 0.3])
    run = simulate_design(design, state=state(design, a), integrator=Yoshida6())
    for node, vector, stiff, cubic in cores:
        X, Y = run.positions_si()[node], run.momenta_si()[node] / vector
        np.testing.assert_allclose(np.hypot(X, Y), np.broadcast_to(a, X.shape), rtol=1e-7)
        turned = np.unwrap(np.arctan2(Y, X), axis=0)[-1] / run.times_s[-1]
        np.testing.assert_allclose(turned, -(stiff + cubic * a**2) / vector, rtol=1e-8)


PAIRS = {"like": (1, 1, 1), "unlike": (1, -1, 1), "opposed": (1, -1, -1)}
"""Two polarities, and the product of chiralities."""
START = R * np.array([0.3, -0.2, 0.1, 0.15])
PERIODS = 10 * 2 * np.pi * G / KAPPA


@cache
def pillars():
    """Three pairs of coupled pillars, with a quartic confinement, in one design."""
    parts, nodes = [], []
    for name, (a, b, chirality) in PAIRS.items():
        for end, polarity in enumerate((a, b)):
            nodes.append(f"{name}{end}")
            parts.append(vortex(f"V{nodes[-1]}", nodes[-1], polarity=polarity, stiffening=0.25))
        parts.append(PillarCoupler(f"P{name}", *nodes[-2:], 3 * R, chirality=chirality))
    return compiled(tuple(parts), tuple(nodes), step=PERIODS / 1000, steps=1000)


def gyrovectors(name):
    return G * np.array(PAIRS[name][:2])


def from_start(step, integrator):
    """A thousand steps of all pairs, each `step` times as long as the design's."""
    design, vectors = pillars(), np.concatenate([gyrovectors(name) for name in PAIRS])
    start = state(design, np.tile(START[:2], 3)[:, None], (vectors * np.tile(START[2:], 3))[:, None])
    h, length = design.hamiltonian, step * design.step
    return simulate(h, design.theta(), None, 1000, length, state=start, integrator=integrator)


def cores(run, name, sign=1):
    """(X₁, X₂, Y₁, Y₂) over time, (4, steps); the momenta of an echo have the other sign."""
    x, p, vectors = run.positions_si(), run.momenta_si(), gyrovectors(name)
    both = [f"{name}{end}" for end in (0, 1)]
    return np.stack([*(x[n][:, 0] for n in both), *(sign * p[n][:, 0] / v for n, v in zip(both, vectors, strict=True))])


def thiele_run(name, start, times, sign=1):
    rate = thiele(sign * gyrovectors(name), 0.25 * KAPPA / R**2, PAIRS[name][2] * ETA)
    return solve(rate, start, times, rtol=1e-12, atol=1e-21).y


@pytest.fixture(scope="module")
def gyrating():
    """A run of all pairs over ten periods with Yoshida6, whose own error is below 1e-7 of the radius, and its echo."""
    run = from_start(1, Yoshida6())
    return run, reverse(run)


@pytest.mark.slow
def test_coupled_pillars_follow_thiele_with_the_square_of_the_step(gyrating):
    run, _ = gyrating
    rough, fine = from_start(2, Leapfrog()), from_start(1, Leapfrog())
    for name in PAIRS:
        exact = thiele_run(name, START, run.times_s)
        np.testing.assert_allclose(cores(run, name), exact, atol=1e-7 * R)
        ends = cores(rough, name)[:, 499], cores(fine, name)[:, 999]
        errors = [np.max(np.abs(end - exact[:, -1])) for end in ends]
        assert np.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.1)
    assert ETA / KAPPA > 0.01  # or there would be little to see


@pytest.mark.slow
def test_polarity_switch_is_the_echo(gyrating):
    """G → −G at fixed X, Y: the switched Thiele equation runs where the echo with flipped momenta runs."""
    run, echo = gyrating
    assert return_error(run, echo) < 1e-12
    for name in PAIRS:
        end = cores(run, name)[:, -1]
        switched = thiele_run(name, end, echo.times_s, sign=-1)
        np.testing.assert_allclose(cores(echo, name, sign=-1), switched, atol=1e-7 * R)
        np.testing.assert_allclose(switched[:, -1], START, atol=1e-7 * R)
    # The same with the elements' own polarities: all switched, X and Y kept, so that G·Y changes sign.
    theta = {k: -v if k == "vortex.polarity" else v for k, v in run.theta.items()}
    turned = (run.final[0], -run.final[1])
    again = simulate(run.hamiltonian, theta, None, 1000, float(run.step), state=turned, integrator=Yoshida6())
    for ours, theirs in zip(again.final, echo.final, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-12 * float(np.max(np.abs(ours))))


# Loss and noise -----------------------------------------------------------------------------------------------------


ALPHA, MODE_ALPHA, CORE_DAMPING = 8e-3, 0.01, 0.02
FIELDS = (1e-3, 10e-3)
OFF_CENTRE = R * np.array([0.4, 0.15])


@pytest.fixture(scope="module")
def decaying():
    """Rotors in two fields, bare and renormalised, a magnon and a vortex, all damped: 4 ns in steps of 0.5 ps."""
    kinds = {f"s{r}{i}": (r, FIELDS[i]) for r in (0, 1) for i in (0, 1)}
    parts = [spin(f"M{n}", n, field=b, damping=ALPHA, renormalisation=r) for n, (r, b) in kinds.items()]
    parts.append(MagnonMode("G", "g", 140e3, 1e-22, 0.1, damping=MODE_ALPHA))
    parts.append(vortex("V", "v", damping=CORE_DAMPING, stiffening=0.25))
    design = compiled(parts, (*kinds, "g", "v"), step=5e-13, steps=8000)
    positions = np.array([*[0.01] * 4, 1e-3, OFF_CENTRE[0]])[:, None]
    start = state(design, positions, np.array([*[0.0] * 5, G * OFF_CENTRE[1]])[:, None])
    run = simulate_design(design, state=start, integrator=Yoshida4())
    x, p = ({n: v[:, 0] for n, v in each.items()} for each in (run.positions_si(), run.momenta_si()))
    return run.times_s, x, p


@pytest.mark.slow
def test_gilbert_damping_of_the_rotor_and_of_the_full_equation(decaying):
    """Amplitudes decay at α·γ·(μ₀M_eff + r·B)/2, r the renormalisation; the full equation has 2B instead of r·B."""
    times, x, _ = decaying
    for i, bias in enumerate(FIELDS):
        full = solve(precession(lambda t, m, b=bias: body(m, b), ALPHA), in_plane([0.01]), times).y
        rate = decay_rate(times, full[1])
        assert rate == pytest.approx(ALPHA * GAMMA * (2 * bias + B_HARD) / 2, rel=2e-4)  # α² and sampled peaks
        for r in (0, 1):
            rotor = decay_rate(times, x[f"s{r}{i}"])
            assert rotor == pytest.approx(ALPHA * GAMMA * (B_HARD + r * bias) / 2, rel=1e-4)
            lacking = (2 - r) * bias / (2 * bias + B_HARD)
            assert rotor / rate == pytest.approx(1 - lacking, abs=3e-4)


def test_magnons_decay_in_both_quadratures(decaying):
    times, x, p = decaying
    field = precession(lambda t, m: body(m, 0.1, hard=MU_0 * 140e3), MODE_ALPHA)
    full = solve(field, in_plane([1e-3]), times).y
    expected = MODE_ALPHA * GAMMA * (0.2 + MU_0 * 140e3) / 2
    for own, reference in ((x["g"], full[1]), (-p["g"] / (140e3 * 1e-22 / GAMMA), full[2])):
        assert decay_rate(times, own) == pytest.approx(expected, rel=2e-4)
        assert decay_rate(times, reference) == pytest.approx(expected, rel=2e-4)  # α², sampled peaks


def test_cores_decay_in_both_coordinates(decaying):
    """On a spiral r(t) = r₀·e^(−dω₀t), whose angle turns by ∫(κ + κ′r²)/G dt."""
    times, x, p = decaying
    size = np.hypot(*OFF_CENTRE) * np.exp(-CORE_DAMPING * KAPPA / G * times)
    turned = KAPPA / G * times + 0.25 * (np.hypot(*OFF_CENTRE) ** 2 - size**2) / R**2 / (2 * CORE_DAMPING)
    angle = np.arctan2(OFF_CENTRE[1], OFF_CENTRE[0]) - turned
    exact = size * np.stack([np.cos(angle), np.sin(angle)])
    # Splitting errs by the square of step·ω = 1.6e-3.
    np.testing.assert_allclose(np.stack([x["v"], p["v"] / G]), exact, atol=1e-9 * R)


@pytest.mark.slow
def test_equipartition():
    """⟨p·∂T/∂p⟩ = ⟨φ·∂V/∂φ⟩ = k_BT for a spin alone, for two with exchange, a magnon and a vortex, all at 300 K.

    Leapfrog between two half-steps of an exact Ornstein–Uhlenbeck process keeps ⟨p²⟩ exactly and shrinks the potential
    part by (ωδ)²/4. Tolerance: four standard errors of the mean, estimated from the spread over independent lanes. The
    vortex is run at twice the thickness it was compiled with, so that its orbits are not circles in scaled units.
    """
    bias, J, alpha, thermal = 50e-3, 4e-19, 0.2, BOLTZMANN * 300
    small = {"radius": 100e-9, "thickness": 50e-9}
    parts = (
        *(spin(f"M{n}", n, field=bias, damping=alpha) for n in ("lone", "a", "b")),
        Exchange("J", "a", "b", J),
        MagnonMode("G", "magnon", M, VOLUME, bias, EASY, damping=alpha),
        Vortex("V", "vortex", M, small["radius"], small["thickness"] / 2, damping=0.3),
    )
    nodes = ("lone", "a", "b", "magnon", "vortex")
    design = compiled(parts, nodes)
    lanes, steps, begin = 500, 1500, 300
    theta = {k: 2 * v if k == "vortex.thickness" else v for k, v in design.theta().items()}
    run = simulate(
        design.hamiltonian, theta, None, steps, design.step, state=state(design, np.zeros((5, lanes))),
        temperature=300.0, seed=7,
    )  # fmt: skip
    x, p = ({n: v[begin:] for n, v in each.items()} for each in (run.positions_si(), run.momenta_si()))
    pull = {n: MOMENT * bias * np.sin(x[n]) for n in nodes[:3]}
    speed = {n: MOMENT * (B_HARD + bias) / S**2 * p[n] for n in nodes[:3]}
    for own, other in (("a", "b"), ("b", "a")):
        pull[own] = pull[own] + J * np.sin(x[own] - x[other])
        speed[own] = speed[own] + J / S**2 * (p[own] - p[other])
    pull["magnon"], speed["magnon"] = MOMENT * bias * x["magnon"], GAMMA * (bias + B_HARD) / S * p["magnon"]
    stiff = 10 / 9 * MU_0 * (M * small["thickness"]) ** 2 / small["radius"]
    vector = 2 * np.pi * M * small["thickness"] / GAMMA
    pull["vortex"], speed["vortex"] = stiff * x["vortex"], stiff / vector**2 * p["vortex"]

    kittel = np.sqrt(MOMENT * bias * MOMENT * (B_HARD + bias)) / S
    soft = MOMENT * bias + 2 * J
    fast = np.sqrt(soft * (soft + MOMENT * B_HARD)) / S
    shrunk = dict.fromkeys(nodes, 0.0)  # of magnons and cores less than the tolerance: both quadratures are shaken
    shrunk["lone"] = (kittel * design.step_s) ** 2 / 4
    shrunk["a"] = shrunk["b"] = (kittel**2 + fast**2) / 2 * design.step_s**2 / 4  # two modes in equal parts
    for node in nodes:
        for what, product, due in (
            ("momenta", p[node] * speed[node], 1.0),
            ("positions", x[node] * pull[node], 1 - shrunk[node]),
        ):
            each = product.mean(axis=0) / thermal
            error = each.std() / np.sqrt(lanes)
            assert error < 0.012, (node, what, error)
            assert each.mean() == pytest.approx(due, abs=4 * error), (node, what)


def test_thermal_kicks_are_those_of_the_thermal_field():
    """One step from rest: √(2αSk_BTδ) if short, and I·k_BT(1 − e^(−2γδ)), γ = α·S/I, however long it is."""
    lanes, thermal = 40000, BOLTZMANN * 300
    tolerance = 4 / np.sqrt(2 * lanes)  # four standard errors of a standard deviation
    alphas = {"weak": 8e-3, "strong": 0.5}
    parts = [spin(f"M{n}", n, field=1e-5, damping=alpha, renormalisation=0.0) for n, alpha in alphas.items()]
    design = compiled(parts, tuple(alphas), step=1e-12, steps=1)
    h, still = design.hamiltonian, state(design, np.zeros((2, lanes)))
    b_th = np.sqrt(2 * alphas["weak"] * thermal / (GAMMA * MOMENT * 1e-12))
    assert b_th == pytest.approx(4.34e-3, rel=1e-3)
    for step, seed in ((1e-12, 1), (10e-12, 2)):
        run = simulate(
            h, design.theta(), None, 1, step / design.assembly.units.time, state=still, temperature=300.0, seed=seed
        )
        for node, alpha in alphas.items():
            kick = np.std(run.momenta_si()[node][0])
            gone = (
                alpha * GAMMA * B_HARD * step
            )  # γδ: 1.3e-3 for the weak one and 1 ps, 0.8 for the strong one and 10 ps
            settled = S**2 / (MOMENT * B_HARD) * thermal
            assert kick / np.sqrt(settled * (1 - np.exp(-2 * gone))) == pytest.approx(1, rel=tolerance)
            if gone < 2e-3:
                assert kick / np.sqrt(2 * alpha * S * thermal * step) == pytest.approx(1, rel=tolerance + gone)
                assert kick / (MOMENT * step) == pytest.approx(b_th, rel=tolerance + gone)


# Detectors, validity, refusals --------------------------------------------------------------------------------------


def test_validity_names_what_left_its_range():
    """Which element, by how much and when: m_z over 0.1, the core over R/2, the angle of a magnon over 0.3."""
    bias, swing = 50e-3, 0.6
    parts = (
        spin("calm", "a", field=bias),
        spin("wild", "b", field=bias),
        vortex("core", "v"),
        MagnonMode("mode", "s", 140e3, 1e-22, 0.1),
    )
    design = compiled(parts, ("a", "b", "v", "s"), step=1e-12, steps=400)
    start = np.array([[0.2], [swing], [0.6 * R], [0.15]])
    run = simulate_design(design, state=state(design, start), integrator=Yoshida4())
    assert [(v.element, v.valid) for v in run.validity] == [
        ("wild", False), ("core", False), ("mode", True), ("calm", True)
    ]  # fmt: skip
    used = {v.element: v.used for v in run.validity}
    worst, tilt = run.validity[0], np.abs(run.momenta_si()["b"][:, 0]) / S
    assert worst.used == pytest.approx(np.max(tilt) / 0.1, rel=1e-12)
    assert worst.time_s == run.times_s[np.argmax(tilt)]
    assert "wild" in str(worst)
    assert "|m_z| over 0.1" in str(worst)
    # Energy at φ = 0: M_sVB(1 − cos φ₀) is all in m_z.
    assert worst.used == pytest.approx(np.sqrt(2 * bias * (1 - np.cos(swing)) / (B_HARD + bias)) / 0.1, rel=1e-3)
    assert used["core"] == pytest.approx(1.2, rel=1e-4)  # on a circle
    assert used["mode"] == pytest.approx(0.5, rel=1e-3)  # the peak between samples


def test_magnetoresistive_reading():
    parallel, ratio, angles = 2e3, 0.8, np.array([0.0, 0.5, np.pi])
    parts = [spin(f"M{i}", f"s{i}", field=20e-3, field_angle=a, rest=a) for i, a in enumerate(angles)]
    heads = [
        Magnetoresistive(f"R{i}", f"s{i}", parallel, ratio, reference_angle=0.0) for i in range(len(angles))
    ]  # fmt: skip
    linear = Magnetoresistive("R", "s0")  # 1 kΩ, doubled when antiparallel, fixed layer across
    start = Initial(positions={f"s{i}": a for i, a in enumerate(angles)}, momenta={"s0": 0.01 * S})
    run = simulate_design(Netlist("r", parts, detectors=[*heads, linear], initial=start).compile(steps=40))
    read = run.signals_si()
    assert read["R2"][-1] == pytest.approx(parallel * (1 + ratio))  # antiparallel, at rest
    assert read["R1"][-1] == pytest.approx(parallel * (1 + ratio * np.sin(0.25) ** 2))
    moving = run.positions_si()["s0"]
    np.testing.assert_allclose(read["R0"], parallel * (1 + ratio * np.sin(moving / 2) ** 2), rtol=1e-12)
    np.testing.assert_allclose(read["R"], 1500 - 500 * np.sin(moving), rtol=1e-12)
    assert np.ptp(moving) > 0.05


def refused(parts, **options):
    with pytest.raises(DesignError) as found:
        Netlist("no", parts, **options).compile()
    return str(found.value)


def test_refusals():
    magnon = MagnonMode("G", "b", 140e3, 1e-22, 0.1)
    text = refused([spin("M", "a", field=20e-3), magnon, Exchange("J", "a", "b", 4e-19)])
    assert "J" in text
    assert "needs a macrospin at node b" in text

    cores_only = [Skyrmion(f"K{n}", n, 580e3, 1e-9, 1e-4) for n in "ab"]
    text = refused([*cores_only, PillarCoupler("P", "a", "b", 600e-9)])
    assert "needs a vortex at node a" in text

    for alien in (DipoleCoupler("D", "a", "b", 200e-9), FieldLine("F", "b")):
        assert "needs a macrospin" in refused([spin("M", "a", field=20e-3), magnon, alien])
    assert "shares node a" in refused([spin("M", "a", field=20e-3), spin("N", "a", field=20e-3)])
    text = refused([spin("M", "a", field=20e-3, damping=0.01, trainable=["damping"])])
    assert "`damping` is no part of the energy" in text

    text = refused([spin("M", "a", field=20e-3)], drives=[FieldDrive("u", "M")])
    assert "feeds `M`, which is a macrospin" in text
    assert "field-line" in text

    edge = MU_0 * M**2 * EASY / 2
    spin("M", "a", perpendicular_anisotropy=0.999 * edge)
    with pytest.raises(ElementError, match=r"perpendicular_anisotropy.*must leave an easy plane"):
        spin("M", "a", perpendicular_anisotropy=1.001 * edge)
    with pytest.raises(ElementError, match=r"polarity.*must be 1 or -1, but is 0.5"):
        vortex("V", "a", polarity=0.5)
    with pytest.raises(ElementError, match=r"charge.*must be 1 or -1"):
        Skyrmion("K", "a", 580e3, 1e-9, 1e-4, charge=2)
    with pytest.raises(ElementError, match=r"chirality.*must be 1 or -1"):
        PillarCoupler("P", "a", "b", 600e-9, chirality=0)
    with pytest.raises(ElementError, match=r"renormalisation.*must be at most 1"):
        spin("M", "a", renormalisation=1.5)
    with pytest.raises(ElementError, match=r"rest.*must be where the field does not overcome the easy plane"):
        spin("M", "a", field=2.0, field_angle=np.pi)
