"""Simulation: closed forms, batches, reversal, energy audit, loss, drives, and refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg as la
from scipy.integrate import solve_ivp

from circuits import Initial, Netlist
from circuits.generators import ladder, six_oscillators
from circuits.state import encode
from devices import (
    DRIVES,
    ArgumentError,
    Capacitor,
    Damper,
    DuffingSpring,
    FluxDrive,
    Inductor,
    JosephsonJunction,
    Mass,
    Resistor,
    Spring,
    VoltageDrive,
)
from rhel_hw import (
    DivergedError,
    Keep,
    Leapfrog,
    Yoshida4,
    Yoshida6,
    band_limited,
    return_error,
    reverse,
    simulate,
    simulate_design,
)
from tests.systems import driven, random_inputs, random_state

METHODS = (Leapfrog(), Yoshida4(), Yoshida6())


@pytest.fixture(scope="module")
def toy():
    return six_oscillators().compile(steps=300)


def run_of(design, steps=300, **options):
    settings = {"state": random_state(design)} | options
    inputs = settings.pop("inputs", random_inputs(design, steps))
    return simulate(design.hamiltonian, settings.pop("theta", design.theta()), inputs, steps, design.step, **settings)


# Accuracy ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_linear_circuit_converges_to_the_matrix_exponential(toy, method):
    """A free linear circuit is exp(t·[[0, M⁻¹], [−K, 0]]): the error falls with the integrator's order."""
    h, theta = toy.hamiltonian, toy.theta()
    prepared, u = h.prepare(theta), jnp.zeros(1)
    speed = jax.jacfwd(lambda p: h.velocity(p, prepared))(jnp.zeros(6))
    push = jax.jacfwd(lambda q: h.force(q, prepared, u))(jnp.zeros(6))
    zero = np.zeros((6, 6))
    q, p = random_state(toy)
    exact = la.expm(10 * np.block([[zero, speed], [push, zero]])) @ np.concatenate([q, p])
    sizes, errors = (0.25, 0.125), []
    for size in sizes:
        end = simulate(h, theta, None, round(10 / size), size, state=(q, p), integrator=method, keep=Keep.FINAL).final
        errors.append(np.max(np.abs(np.concatenate(end) - exact)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(method.order, abs=0.15)


def test_driven_nonlinear_circuit_against_scipy():
    parts = [
        Mass("m", "x", 1.0),
        DuffingSpring("k", "x", "gnd", 1.0, 0.5),
        Spring("c", "x", "y", 0.3),
        Mass("n", "y", 2.0),
    ]
    netlist = Netlist("d", parts, drives=[DRIVES["force"]("f", "x")], initial=Initial(positions={"y": 1.0}))
    design = netlist.compile(step=0.01, steps=2000)
    times = (np.arange(2000) + 0.5) * 0.01
    run = simulate_design(design, {"f": 0.4 * np.cos(0.9 * times)})

    def motion(t, z):
        x, y, px, py = z
        return [px, py / 2, -x - 0.5 * x**3 + 0.3 * (y - x) + 0.4 * np.cos(0.9 * t), 0.3 * (x - y)]

    exact = solve_ivp(motion, (0, 20), [0, 1, 0, 0], "DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    assert run.positions_si()["x"][-1] == pytest.approx(exact[0], abs=2e-4)  # t·step²/24 of order 1e-4
    assert run.momenta_si()["y"][-1] == pytest.approx(exact[3], abs=2e-4)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_stated_stability_limit_is_the_real_one(method):
    design = Netlist("o", [Mass("m", "x", 1.0), Spring("k", "x", "gnd", 1.0)]).compile()
    h, theta = design.hamiltonian, design.theta()
    prepared, u = h.prepare(theta), jnp.zeros(0)

    def trace(size):
        def one(z):
            q, p, _ = method.step(h, z[:1], z[1:], prepared, u, size)
            return jnp.concatenate([q, p])

        return float(jnp.trace(jax.jacfwd(one)(jnp.zeros(2))))

    assert abs(trace(method.limit - 0.002)) < 2 < abs(trace(method.limit + 0.002))  # |trace| < 2 is stable


def test_unstable_composition_is_refused():
    design = Netlist("o", [Mass("m", "x", 1.0), Spring("k", "x", "gnd", 1.0)]).compile(step=1.7)
    with pytest.raises(ArgumentError, match="Yoshida4"):
        simulate_design(design, integrator=Yoshida4())


# Shape ------------------------------------------------------------------------------------------------------------


def test_batches_of_states_inputs_and_parameters_equal_single_runs(toy):
    rng = np.random.default_rng(5)
    q, p = random_state(toy, batch=3)
    inputs = np.stack([random_inputs(toy, 300, seed=s) for s in range(3)], axis=-1)
    theta = toy.theta()
    theta["spring.constant"] = theta["spring.constant"][:, None] * rng.uniform(0.9, 1.1, (21, 3))
    together = run_of(toy, state=(q, p), inputs=inputs, theta=theta)
    assert together.positions.shape == (300, 6, 3)
    for lane in range(3):
        own = theta | {"spring.constant": theta["spring.constant"][:, lane]}
        alone = run_of(toy, state=(q[:, lane], p[:, lane]), inputs=inputs[..., lane], theta=own)
        np.testing.assert_allclose(together.positions[..., lane], alone.positions, atol=1e-13)


def test_batched_run_with_a_single_drive_can_be_reversed(toy):
    run = run_of(toy, state=random_state(toy, batch=3))
    assert run.inputs.shape == (300, 1, 3)
    assert return_error(run, reverse(run)) < 1e-12
    theta = toy.theta()
    theta["mass.mass"] = theta["mass.mass"][:, None] * np.array([1.0, 1.1])
    varied = run_of(toy, theta=theta)
    assert return_error(varied, reverse(varied)) < 1e-12


def test_chunked_run_with_reports_equals_the_plain_one(toy):
    seen = []
    chunked = run_of(toy, report=lambda done, total: seen.append((done, total)))
    plain = run_of(toy)
    assert seen[-1] == (300, 300)
    assert len(seen) == 20
    np.testing.assert_array_equal(chunked.positions, plain.positions)
    np.testing.assert_array_equal(chunked.final[1], plain.final[1])


def test_kept_parts(toy):
    full = run_of(toy, keep=Keep.ALL)
    assert full.kicks.shape == (300, 1, 6)
    # The kick point lies half a drift after the start of its step.
    prepared = toy.hamiltonian.prepare(toy.theta())
    first = full.start[0] + toy.step / 2 * toy.hamiltonian.velocity(full.start[1], prepared)
    np.testing.assert_allclose(full.kicks[0, 0], first, rtol=1e-14)
    final = run_of(toy, keep=Keep.FINAL)
    assert final.positions is None
    np.testing.assert_array_equal(final.final[0], full.final[0])
    with pytest.raises(ArgumentError, match="not kept"):
        final.positions_si()


def test_one_program_serves_all_steps_and_states(toy):
    from rhel_hw.propagation import propagate

    run_of(toy)
    before = propagate._cache_size()
    for seed in range(3):
        run_of(toy, state=random_state(toy, seed=seed), inputs=random_inputs(toy, 300, seed=seed))
        simulate(toy.hamiltonian, toy.theta(), random_inputs(toy, 300), 300, 0.1 + 0.01 * seed, state=random_state(toy))
    assert propagate._cache_size() == before


# Reversal and energy ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_echo_retraces_every_step(toy, method):
    forward = run_of(toy, integrator=method)
    backward = reverse(forward)
    np.testing.assert_allclose(backward.positions[:-1], forward.positions[-2::-1], atol=1e-12)
    assert return_error(forward, backward) < 1e-13


@pytest.mark.parametrize("kind", DRIVES)
def test_echo_retraces_under_every_drive(kind):
    design = driven(kind).compile(steps=1000)
    forward = simulate_design(design, band_limited(design, amplitude=0.3), state=random_state(design))
    assert return_error(forward, reverse(forward)) < 1e-12


@pytest.mark.parametrize("kind", DRIVES)
def test_parity_tells_how_to_replay_a_waveform(kind):
    """Reversed, and sign-inverted if odd, a waveform gives the reversed inputs of the energy; light is conjugated."""
    design = driven(kind).compile(steps=50)
    (drive,) = design.netlist.drives
    mirror = design
    if kind == "coherent":
        mirror = design.netlist.replace(drives=[replace(drive, angle=np.pi - drive.angle)]).compile(steps=50)
    wave = band_limited(design, seed=3)["u0"]
    forward = encode(design, {"u0": wave}) * design.hamiltonian.input_parity
    carried = {"u0": float(np.sum(wave) * design.step_s)}  # a voltage source goes on from the flux it has reached
    backward = encode(mirror, {"u0": drive.parity * wave[::-1]}, start=carried)
    np.testing.assert_allclose(backward, forward[::-1], rtol=1e-9, atol=1e-12 * float(jnp.max(jnp.abs(forward))))
    if drive.parity < 0:
        wrong = encode(design, {"u0": wave[::-1]}, start=carried)
        assert float(jnp.max(jnp.abs(wrong - forward[::-1]))) > 0.1 * float(jnp.max(jnp.abs(forward)))


@pytest.mark.parametrize("method", METHODS[:2], ids=str)
def test_audit_explains_the_work_of_the_drives(toy, method):
    errors = []
    for refinement in (1, 2):
        size, steps = toy.step / refinement, 300 * refinement
        inputs = np.repeat(random_inputs(toy, 300), refinement, axis=0)  # the same held waveform
        run = simulate(toy.hamiltonian, toy.theta(), inputs, steps, size, state=random_state(toy), integrator=method)
        audit = run.audit
        np.testing.assert_allclose(audit.starts[0] + audit.work + audit.error, audit.ends, rtol=1e-12)
        errors.append(audit.relative_error)
    assert np.log2(errors[0] / errors[1]) == pytest.approx(method.order, abs=0.3)  # two points only


# Loss -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        [Capacitor("C", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0), Resistor("R", "a", "gnd", 50.0)],
        [Mass("C", "a", 1.0), Spring("L", "a", "gnd", 1.0), Damper("R", "a", "gnd", 0.02)],
    ],
    ids=["resistor", "damper"],
)
def test_parallel_loss_has_the_closed_form(parts):
    design = Netlist("rlc", parts, initial=Initial(positions={"a": 1.0})).compile(step=0.01, steps=6000)
    run = simulate_design(design)
    t, w = run.times_s, np.sqrt(1 - 1 / (4 * 50**2))
    exact = np.exp(-t / 100) * (np.cos(w * t) + np.sin(w * t) / (100 * w))
    np.testing.assert_allclose(run.positions_si()["a"], exact, atol=3e-4)  # leapfrog's phase, t·step²/24
    assert run.audit.relative_error < 1e-4, "the loss is accounted for"
    assert np.sum(run.audit.lost) == pytest.approx(0.5 - run.audit.ends[-1], rel=1e-3)


def test_branched_loss_equals_the_matrix_exponential():
    parts = [
        Capacitor("C1", "a", "gnd", 1.0), Capacitor("C2", "b", "gnd", 2.0), Capacitor("C3", "a", "b", 0.3),
        Inductor("L1", "a", "gnd", 1.0), Inductor("L2", "b", "gnd", 1.0), Resistor("R", "a", "b", 20.0),
    ]  # fmt: skip
    design = Netlist("rlc", parts, initial=Initial(positions={"a": 1.0})).compile(step=0.005, steps=8000)
    C = np.array([[1.3, -0.3], [-0.3, 2.3]])
    G = np.array([[1, -1], [-1, 1]]) / 20
    exact = la.expm(40 * np.block([[np.zeros((2, 2)), np.eye(2)], [-la.inv(C), -la.solve(C, G)]])) @ [1, 0, 0, 0]
    run = simulate_design(design)
    assert run.positions_si()["a"][-1] == pytest.approx(exact[0], abs=1e-4)
    assert run.positions_si()["b"][-1] == pytest.approx(exact[1], abs=1e-4)
    theta = {k: jnp.stack([v, v], axis=-1) for k, v in design.theta().items()}
    lanes = simulate_design(design, theta=theta)
    np.testing.assert_allclose(lanes.positions[..., 1], run.positions, atol=1e-12)


def test_loss_spoils_the_echo():
    parts = [Capacitor("C", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0), Resistor("R", "a", "gnd", 50.0)]
    run = simulate_design(Netlist("rlc", parts, initial=Initial(positions={"a": 1.0})).compile(step=0.05, steps=400))
    # Both ways the amplitude decays by exp(−T/2RC): 1 − exp(−20/50).
    assert return_error(run, reverse(run)) == pytest.approx(1 - np.exp(-20 / 50), rel=0.05)


# Voltage sources --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("coupling", [Capacitor("X", "s", "a", 0.3), Inductor("X", "s", "a", 0.7)], ids=["C", "L"])
def test_voltage_source_against_the_circuit_equations(coupling):
    """Kirchhoff's laws in φ directly: (C + C_c)φ̈ = C_c·V̇ − i, or Cφ̈ = −i − (φ − ∫V)/L_c."""
    flux0 = 2.067833848461929e-15
    ic = flux0 / (2 * np.pi)  # a junction of inductance one, critical flux flux0
    parts = [Capacitor("C", "a", "gnd", 1.0), JosephsonJunction("J", "a", "gnd", ic), coupling]
    design = Netlist("v", parts, drives=[VoltageDrive("v", "s")]).compile(step=0.005, steps=4000)
    times = (np.arange(4000) + 0.5) * 0.005
    size = flux0 / (2 * np.pi)
    volts = lambda t: size * np.sin(1.3 * t) * np.exp(-(((t - 8) / 4) ** 2))  # noqa: E731
    slope = lambda t: (volts(t + 1e-5) - volts(t - 1e-5)) / 2e-5  # noqa: E731
    run = simulate_design(design, {"v": volts(times)})

    def motion(t, z):
        phase, rate, integral = z
        push = -np.sin(phase)
        if coupling.type == "capacitor":
            return [rate, (push + 0.3 * slope(t) / size) / 1.3, 0]
        return [rate, push - (phase - integral) / 0.7, volts(t) / size]

    exact = solve_ivp(motion, (0, 20), [0, 0, 0], "DOP853", rtol=1e-10, atol=1e-12, t_eval=[10, 20]).y[0]
    got = run.positions_si()["a"][[1999, 3999]] / size
    np.testing.assert_allclose(got, exact, atol=2e-4 * np.max(np.abs(exact)) + 1e-5)


def test_flux_drive_moves_the_rest_point():
    parts = [Capacitor("C", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0)]
    design = Netlist("f", parts, drives=[FluxDrive("u", "L")]).compile(step=0.01, steps=2000)
    run = simulate_design(design, {"u": np.full(2000, 0.4)})
    np.testing.assert_allclose(run.positions_si()["a"], 0.4 * (1 - np.cos(run.times_s)), atol=1e-4)


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": 0}, "`steps`"),
        ({"steps": 2.5}, "`steps`"),
        ({"step": -1.0}, "`step`"),
        ({"step": np.nan}, "`step`"),
        ({"inputs": np.zeros((10, 2))}, r"`inputs` must have shape \(10, 1\)"),
        ({"inputs": np.full((10, 1), np.nan)}, "`inputs` must be finite"),
        ({"state": (np.zeros(5), np.zeros(5))}, "`state`"),
        ({"state": (np.zeros((6, 2)), np.zeros((6, 3)))}, "batch"),
        ({"state": {"x1": 1.0}}, "`state` must be a pair"),
        ({"integrator": "yoshida4"}, r"`integrator` must be an integrator such as Yoshida4\(\)"),
        ({"theta": {}}, "`theta`"),
        ({"theta": {"mass.mass": np.zeros(4), "spring.constant": np.zeros(21)}}, "`theta`"),
    ],
)
def test_bad_arguments_are_refused_by_name(toy, change, message):
    settings = {"theta": toy.theta(), "inputs": None, "steps": 10, "step": toy.step} | change
    with pytest.raises(ArgumentError, match=message):
        simulate(toy.hamiltonian, settings.pop("theta"), settings.pop("inputs"), settings.pop("steps"),
                 settings.pop("step"), **settings)  # fmt: skip


def test_a_record_beyond_memory_is_refused():
    design = ladder(300).compile()
    with pytest.raises(ArgumentError, match="GiB"):
        simulate(design.hamiltonian, design.theta(), None, 10**6, design.step)


def test_unknown_drive_is_suggested(toy):
    with pytest.raises(ArgumentError, match=r"has 'U'"):
        simulate_design(toy, {"U": np.zeros(10)})


def test_divergence_is_named():
    parts = [Mass("m", "x", 1.0), DuffingSpring("k", "x", "gnd", 1.0, 1.0)]
    design = Netlist("d", parts).compile(step=1.0, steps=200)
    with pytest.raises(DivergedError, match="smaller step"):
        simulate_design(design, state=(np.array([50.0]), np.array([0.0])))


def test_parameters_far_from_the_compiled_ones_are_noticed(monkeypatch):
    from circuits import operators

    monkeypatch.setattr(operators, "DENSE_LIMIT", 10)
    netlist = ladder(30, coupling_capacitance="0.1 pF")
    design = netlist.compile(steps=5)
    theta = design.theta()
    simulate_design(design, theta=theta)
    theta["capacitor.capacitance"] = theta["capacitor.capacitance"].at[30:].multiply(30.0)
    with pytest.raises(ArgumentError, match="compile again"):
        simulate_design(design, theta=theta)
