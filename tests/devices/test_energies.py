"""Closed forms of single elements: force laws, limits and frequencies that the literature gives."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import ellipk

from circuits import Initial, Netlist
from devices import (
    FLUX_QUANTUM,
    Capacitor,
    DuffingSpring,
    FluxDrive,
    Inductor,
    JosephsonJunction,
    Mass,
    SaturableInductor,
    Squid,
    SymmetricVaractor,
    Tank,
)
from rhel_hw import Yoshida4, simulate_design


def current(kind, values, flux):
    return jax.vmap(jax.grad(lambda b: kind.potential((b,), values)))(jnp.asarray(flux))


def frequency(signal, times):
    """Mean frequency from interpolated upward zero crossings."""
    s = np.flatnonzero((signal[:-1] < 0) & (signal[1:] >= 0))
    t = times[s] - signal[s] * (times[s + 1] - times[s]) / (signal[s + 1] - signal[s])
    return (len(t) - 1) / (t[-1] - t[0])


def test_josephson_current_phase_relation():
    values = SimpleNamespace(critical_current=1e-6, flux_quantum=FLUX_QUANTUM)
    flux = np.linspace(-1, 1, 9) * FLUX_QUANTUM
    expected = 1e-6 * np.sin(2 * np.pi * flux / FLUX_QUANTUM)
    np.testing.assert_allclose(current(JosephsonJunction, values, flux), expected, atol=1e-20)


@pytest.mark.parametrize("f", [0.0, 0.2, 0.45, 0.5, 0.8])
def test_squid_equals_a_tuned_junction(f):
    """E_Σ|cos πf|√(1 + d²tan²πf)·cos(ϕ + atan(d·tan πf)) below half a quantum; smooth at and beyond it."""
    d, total = 0.3, 2e-6
    values = SimpleNamespace(critical_current=total, flux=f * FLUX_QUANTUM, asymmetry=d, flux_quantum=FLUX_QUANTUM)
    phase = np.linspace(-3, 3, 13)
    got = current(Squid, values, phase * FLUX_QUANTUM / (2 * np.pi))
    # Sum of the two junction currents, directly.
    expected = total * ((1 + d) / 2 * np.sin(phase + np.pi * f) + (1 - d) / 2 * np.sin(phase - np.pi * f))
    np.testing.assert_allclose(got, expected, atol=1e-19)
    if f < 0.5:
        size = total * abs(np.cos(np.pi * f)) * np.sqrt(1 + d**2 * np.tan(np.pi * f) ** 2)
        np.testing.assert_allclose(got, size * np.sin(phase + np.arctan(d * np.tan(np.pi * f))), atol=1e-19)


def test_saturable_inductor_limits():
    L, i_s = 2e-9, 3e-6
    values = SimpleNamespace(inductance=L, saturation_current=i_s, flux=0.5e-15)
    small = np.linspace(-1, 1, 5) * 1e-4 * L * i_s
    np.testing.assert_allclose(current(SaturableInductor, values, small + 0.5e-15), small / L, atol=1e-8 * i_s)
    np.testing.assert_allclose(current(SaturableInductor, values, np.array([-1, 1]) * 50 * L * i_s), [-i_s, i_s])


def test_varactor_energy_is_the_integral_of_its_voltage():
    c, scale = 1e-12, 2e-12
    values = SimpleNamespace(capacitance=c, charge_scale=scale)
    charge = 1.3e-12
    expected = quad(lambda q: q / c * (1 + q**2 / scale**2), 0, charge, epsrel=1e-12)[0]
    assert float(SymmetricVaractor.kinetic((charge,), values)) == pytest.approx(expected, rel=1e-12)


def test_varactor_oscillates_as_its_equation_of_motion():
    parts = [SymmetricVaractor("C", "a", 1.0, 2.0), Inductor("L", "a", "gnd", 1.0)]
    design = Netlist("v", parts, initial=Initial(positions={"a": 1.5})).compile(step=0.01, steps=2000)
    run = simulate_design(design, integrator=Yoshida4())
    exact = solve_ivp(
        lambda _, z: [z[1] * (1 + z[1] ** 2 / 4), -z[0]], (0, 20), [1.5, 0], "DOP853", rtol=1e-12, atol=1e-14
    ).y[:, -1]
    assert run.positions_si()["a"][-1] == pytest.approx(exact[0], abs=1e-7)
    assert run.momenta_si()["a"][-1] == pytest.approx(exact[1], abs=1e-7)


def test_tank_frequency():
    design = Netlist("t", [Tank("T", "a", "gnd", "1 nF", "25 uH")]).compile()
    assert design.frequencies_hz[0] == pytest.approx(1 / (2 * np.pi * np.sqrt(1e-9 * 25e-6)), rel=1e-12)


@pytest.mark.parametrize("phase", [0.1, 1.0, 2.0, 3.0])
def test_junction_frequency_against_the_elliptic_integral(phase):
    """A junction and its capacitance are a pendulum: ω/ω_p = π/2K(sin²(A/2))."""
    c, ic = 80e-15, 40e-9
    plasma = np.sqrt(2 * np.pi * ic / (FLUX_QUANTUM * c))
    parts = [Capacitor("C", "a", "gnd", c), JosephsonJunction("J", "a", "gnd", ic)]
    start = Initial(positions={"a": phase * FLUX_QUANTUM / (2 * np.pi)})
    design = Netlist("j", parts, initial=start).compile(step=0.05 / plasma, steps=16000)
    run = simulate_design(design, integrator=Yoshida4())
    ratio = 2 * np.pi * frequency(run.positions_si()["a"], run.times_s) / plasma
    assert ratio == pytest.approx(np.pi / 2 / ellipk(np.sin(phase / 2) ** 2), rel=1e-5)  # interpolated crossings


def test_duffing_frequency_law():
    """ω/ω₀ = 1 + (3/8)r − (21/256)r², r = k₃A²/k, with an error of third order."""
    errors = []
    for r in (0.02, 0.04):
        parts = [Mass("m", "x", 1.0), DuffingSpring("k", "x", "gnd", 1.0, r)]
        design = Netlist("d", parts, initial=Initial(positions={"x": 1.0})).compile(step=0.05, steps=40000)
        run = simulate_design(design, integrator=Yoshida4())
        measured = 2 * np.pi * frequency(run.positions_si()["x"], run.times_s)
        errors.append(abs(measured - (1 + 3 / 8 * r - 21 / 256 * r**2)))
    assert errors[0] < 0.1 * 0.02**2  # well below the second-order term
    assert errors[1] < 0.1 * 0.04**2


def test_saturable_inductor_realises_the_nonlinear_unit():
    """A node with C, a saturable inductor threaded by flux and a parallel L obeys π̇ = −tanh(Aφ + u) − αφ."""
    c, i_s, knee, parallel, t_u = 2e-12, 3e-6, 3e-14, 4e-9, 1e-10
    parts = [
        Capacitor("C", "a", "gnd", c),
        SaturableInductor("S", "a", "gnd", knee / i_s, i_s),
        Inductor("Lp", "a", "gnd", parallel),
    ]
    unit = i_s * t_u**2 / c
    start = Initial(positions={"a": 0.5 * unit})
    design = Netlist("unit", parts, drives=[FluxDrive("u", "S")], initial=start).compile(step=1e-3 * t_u, steps=40000)
    times = (np.arange(40000) + 0.5) * 1e-3
    run = simulate_design(design, {"u": -knee * 0.7 * np.sin(0.8 * times)})
    A, alpha = unit / knee, t_u**2 / (parallel * c)
    exact = solve_ivp(
        lambda t, z: [z[1], -np.tanh(A * z[0] + 0.7 * np.sin(0.8 * t)) - alpha * z[0]],
        (0, 40), [0.5, 0], "DOP853", rtol=1e-11, atol=1e-13, t_eval=np.linspace(0, 40, 41)[1:],
    )  # fmt: skip
    got = run.positions_si()["a"][999::1000] / unit
    # Leapfrog at step 1e-3 over t = 40, held inputs included: error of order t·step².
    np.testing.assert_allclose(got, exact.y[0], atol=2e-5)
