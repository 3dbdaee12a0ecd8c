"""Runs by normal modes: the matrix exponential, closed forms, integrators of high order, reversal, and refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg as la

from circuits import Initial, Netlist
from circuits.generators import ladder, six_oscillators
from devices import (
    ArgumentError,
    BilinearCoupler,
    Capacitor,
    CurrentDrive,
    Inductor,
    Mass,
    Resistor,
    Spring,
    VoltageDrive,
)
from rhel_hw import (
    RHEL,
    Exact,
    Keep,
    Teacher,
    Yoshida6,
    return_error,
    reverse,
    simulate,
    simulate_design,
)
from tests.systems import random_inputs, random_state

ROUND_OFF = 1e-11
"""Of some hundred steps in double precision."""


def exponential(design, theta, duration, state):
    """exp(t·[[0, B], [−K, 0]]) on a state, without what drives."""
    h, n = design.hamiltonian, design.hamiltonian.size
    prepared, u = h.prepare(theta), jnp.zeros(h.inputs)
    speed = jax.jacfwd(lambda p: h.velocity(p, prepared, u))(jnp.zeros(n))
    push = jax.jacfwd(lambda q: h.force(q, prepared, u))(jnp.zeros(n))
    zero = np.zeros((n, n))
    return np.split(la.expm(duration * np.block([[zero, speed], [push, zero]])) @ np.concatenate(state), 2)


@pytest.mark.parametrize("steps", [1, 7, 400])
def test_a_free_circuit_is_the_matrix_exponential_by_any_step(steps):
    design = six_oscillators().compile()
    state = random_state(design)
    run = simulate(
        design.hamiltonian, design.theta(), None, steps, 50 / steps, state=state, integrator=Exact(), keep=Keep.FINAL
    )
    for own, exact in zip(run.final, exponential(design, design.theta(), 50.0, state), strict=True):
        np.testing.assert_allclose(own, exact, atol=ROUND_OFF)


def test_a_tank_under_a_constant_current_has_the_closed_form():
    """φ = LI·(1 − cos ωt), q = CLIω·sin ωt, at steps of a third of a period."""
    tank = [Capacitor("C", "a", "gnd", "2 nF"), Inductor("L", "a", "gnd", "3 uH")]
    rate = 1 / np.sqrt(2e-9 * 3e-6)
    design = Netlist("tank", tank, drives=[CurrentDrive("u", "a")]).compile(step=2 / rate / 1.1, steps=30)
    run = simulate_design(design, {"u": np.full(30, 1e-3)}, integrator=Exact())
    size, phase = 3e-6 * 1e-3, rate * run.times_s
    np.testing.assert_allclose(run.positions_si()["a"], size * (1 - np.cos(phase)), atol=ROUND_OFF * size)
    np.testing.assert_allclose(
        run.momenta_si()["a"], 2e-9 * size * rate * np.sin(phase), atol=ROUND_OFF * 2e-9 * size * rate
    )


def test_a_free_mode_drifts():
    """Two masses and a spring between them: their middle moves on evenly."""
    parts = [Mass("m1", "a", 1.0), Mass("m2", "b", 3.0), Spring("k", "a", "b", 1.0)]
    start = Initial(velocities={"a": 0.4, "b": 0.4})
    run = simulate_design(Netlist("pair", parts, initial=start).compile(step=0.5, steps=80), integrator=Exact())
    np.testing.assert_allclose(run.positions_si()["a"], 0.4 * run.times_s, rtol=1e-12)


def test_a_mode_that_runs_away_is_exact_too():
    """Coupling that has grown past the stiffness, as trained values may."""
    parts = [Mass("m1", "a", 1.0), Mass("m2", "b", 1.0), Spring("k1", "a", "gnd", 1.0), Spring("k2", "b", "gnd", 1.0)]
    design = Netlist("pair", [*parts, BilinearCoupler("g", "a", "b", 0.5)]).compile(step=0.1, steps=50)
    theta = {k: 4 * v if k.startswith("bilinear") else v for k, v in design.theta().items()}
    run = simulate(design.hamiltonian, theta, None, 50, 0.1, state=random_state(design), integrator=Exact())
    assert np.max(np.abs(run.final[0])) > 10, "it does run away"
    for own, exact in zip(run.final, exponential(design, theta, 5.0, random_state(design)), strict=True):
        np.testing.assert_allclose(own, exact, rtol=1e-11)


@pytest.mark.parametrize("name", ["toy", "lc-toy", "ring-lattice", "mixed", "held"])
def test_driven_circuits_end_where_small_steps_of_sixth_order_do(name):
    """Mechanical and electrical ones, rotating frames, several domains, and voltages, which drive momenta too."""
    if name == "held":
        parts = [
            Capacitor("C", "a", "gnd", "1 pF"),
            Inductor("L", "a", "gnd", "10 nH"),
            Capacitor("X", "s", "a", "0.3 pF"),
        ]
        netlist = Netlist("held", parts, drives=[VoltageDrive("u0", "s")])
    else:
        netlist = Netlist.load(name)
    design = netlist.compile(steps=100)
    inputs, state, finer = random_inputs(design, 100), random_state(design), 40
    run = simulate(design.hamiltonian, design.theta(), inputs, 100, design.step, state=state, integrator=Exact())
    other = simulate(
        design.hamiltonian, design.theta(), np.repeat(inputs, finer, axis=0), 100 * finer, design.step / finer,
        state=state, integrator=Yoshida6(),
    )  # fmt: skip
    for own, small in ((run.positions, other.positions), (run.momenta, other.momenta)):
        np.testing.assert_allclose(own, small[finer - 1 :: finer], atol=ROUND_OFF)
    assert run.audit.relative_error < 1e-12
    assert return_error(run, reverse(run)) < 1e-12


def test_pieces_lanes_and_precisions_agree():
    design = ladder(12).compile(steps=90)
    inputs, state = random_inputs(design, 90), random_state(design)
    settings = {"state": state, "integrator": Exact()}
    whole = simulate(design.hamiltonian, design.theta(), inputs, 90, design.step, **settings)
    told = []
    pieces = simulate(
        design.hamiltonian, design.theta(), inputs, 90, design.step, report=lambda *x: told.append(x), **settings
    )
    np.testing.assert_allclose(pieces.momenta, whole.momenta, atol=ROUND_OFF)
    assert told[-1] == (90, 90)
    settings["state"] = tuple(np.stack([x, 2 * x], axis=1) for x in state)
    pair = simulate(design.hamiltonian, design.theta(), np.stack([inputs, 2 * inputs], -1), 90, design.step, **settings)
    np.testing.assert_allclose(pair.positions[..., 0], whole.positions, atol=ROUND_OFF)
    np.testing.assert_allclose(pair.positions[..., 1], 2 * whole.positions, atol=2 * ROUND_OFF)
    single = simulate_design(design, state=state, dtype=np.float32, integrator=Exact(), keep=Keep.POSITIONS)
    double = simulate_design(design, state=state, integrator=Exact())
    assert single.positions.dtype == np.float32
    assert single.momenta is None
    np.testing.assert_allclose(single.positions, double.positions, atol=2e-5)


def nonlinear():
    return Netlist.load("josephson-ladder").compile(steps=10)


def lossy():
    parts = [Capacitor("C", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0), Resistor("R", "a", "gnd", 50.0)]
    return Netlist("rlc", parts).compile(steps=10)


@pytest.mark.parametrize(
    ("make", "settings", "words"),
    [
        (nonlinear, {}, "for linear circuits without loss, and J"),
        (lossy, {}, "for linear circuits without loss, and R is not"),
        (lambda: ladder(3).compile(steps=10), {"keep": Keep.ALL}, "has no kicks"),
        (lambda: ladder(1600).compile(steps=10), {}, "up to 1500 coordinates, and there are 1600"),
    ],
)
def test_what_has_no_normal_modes_is_refused(make, settings, words):
    with pytest.raises(ArgumentError, match=words):
        simulate_design(make(), integrator=Exact(), **settings)


def test_lanes_with_parameters_of_their_own_are_refused():
    design = ladder(3).compile(steps=10)
    theta = {k: jnp.stack([v, v], axis=-1) for k, v in design.theta().items()}
    with pytest.raises(ArgumentError, match="the same for all lanes"):
        simulate_design(design, theta=theta, integrator=Exact())


def test_negative_inertia_is_refused():
    design = ladder(3).compile(steps=10)
    theta = {k: -v if k.startswith("capacitor") else v for k, v in design.theta().items()}
    with pytest.raises(ArgumentError, match="not all inertias are positive"):
        simulate_design(design, theta=theta, integrator=Exact())


def test_nothing_learns_by_it():
    problem = Teacher().problem(Netlist.load("lc-toy").compile(steps=10))
    with pytest.raises(ArgumentError, match="must be an integrator such as"):
        RHEL().gradient(replace(problem, integrator=Exact()))
