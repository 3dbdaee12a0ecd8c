"""Continuous time: echo learning equals the adjoint method at every moment, and both the derivative of the loss."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from circuits import Netlist
from devices import ArgumentError, Damper, DivergedError, Mass, Spring
from rhel_hw.continuous import ContinuousAdjoint, ContinuousProblem, ContinuousRHEL
from rhel_hw.losses import targets_of
from studies import toy as study
from tests.systems import driven, random_state

POINTS = 200


@pytest.fixture(scope="module")
def toy():
    return Netlist.load("toy").compile()


@pytest.fixture(scope="module")
def nonlinear():
    """A saturable inductor behind a voltage source, which acts by its integral and its slope: two even channels."""
    task = problem(driven("voltage").replace(targets=["n2"]).compile())
    return task, ContinuousAdjoint().sensitivities(task, times_of(task))


def problem(design, duration=12.0, **changes):
    rates = np.linspace(0.6, 0.9, design.hamiltonian.inputs)
    settings = {
        "drive": lambda t: 0.3 * np.sin(rates * t),
        "state": random_state(design, size=0.3),
        "reader": targets_of(design),
        "target": lambda t: [0.5 * np.cos(0.6 * t)],
    }
    return ContinuousProblem(design.hamiltonian, design.theta(), duration=duration, **(settings | changes))


def times_of(task):
    return np.linspace(0, task.duration, POINTS)


def deviations(ours, exact):
    """Largest error at any time, relative to the largest value of its kind; kinds that vanish against all others."""
    pairs = {"positions": (ours.state[0], exact.state[0]), "momenta": (ours.state[1], exact.state[1])}
    pairs |= {k: (ours.theta[k], exact.theta[k]) for k in exact.theta}
    pairs |= {f"integral of {k}": (ours.gradient[k], exact.gradient[k]) for k in exact.gradient}
    whole = max(np.max(np.abs(b)) for _, b in pairs.values())
    return {k: np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-6 * whole) for k, (a, b) in pairs.items()}


# Echo against adjoint ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_toy_echo_equals_adjoint_at_all_times(toy):
    """The energy is quadratic, so that ε need not be small: what is left is the solver's 1e-12, over ε."""
    task = problem(toy)
    exact = ContinuousAdjoint().sensitivities(task, times_of(task))
    np.testing.assert_allclose(np.concatenate(exact.state, axis=1)[-1], 0, atol=1e-14)  # no future, no sensitivity
    for epsilon in (0.1, 3.0):
        ours = ContinuousRHEL(epsilon).sensitivities(task, times_of(task))
        assert max(deviations(ours, exact).values()) < 1e-9
        assert ours.loss == pytest.approx(exact.loss, rel=1e-12)
    assert ours.state[0].shape == (POINTS, 6)
    assert {k: v.shape for k, v in ours.theta.items()} == {"mass.mass": (POINTS, 6), "spring.constant": (POINTS, 21)}


def test_nonlinear_echo_equals_adjoint_at_all_times(nonlinear):
    task, exact = nonlinear
    ours = ContinuousRHEL(3e-4).sensitivities(task, times_of(task))
    assert len(task.drive(0.0)) == 2
    assert max(deviations(ours, exact).values()) < 1e-6  # the bias is about 2·ε²


def test_bias_falls_with_the_square_of_epsilon(nonlinear):
    task, exact = nonlinear
    sizes = (0.1, 0.02)
    first, second = (deviations(ContinuousRHEL(e).sensitivities(task, times_of(task)), exact) for e in sizes)
    for kind in ("positions", "momenta", "saturable.saturation_current", "integral of inductor.inductance"):
        slope = np.log(first[kind] / second[kind]) / np.log(sizes[0] / sizes[1])
        assert slope == pytest.approx(2, abs=0.05), kind


# Against the loss itself ------------------------------------------------------------------------------------------


def loss_in_si(netlist, duration, position=0.0, **changes):
    """Loss of the study's task in SI, from the netlist's values alone: no compiler, no scaling, no JAX."""
    m, K = np.zeros(6), np.zeros((6, 6))
    for e in netlist.elements:
        if e.type == "mass":
            m[int(e.name[1:]) - 1] = e.mass + changes.get(e.name, 0.0)
        else:
            row = np.array([(f"x{i}" == e.nodes[0]) - float(f"x{i}" == e.nodes[1]) for i in range(1, 7)])
            K += (e.constant + changes.get(e.name, 0.0)) * np.outer(row, row)

    def motion(t, z):
        force = -K @ z[:6]
        force[0] += np.sin(2 * np.pi * 0.18 * t) + 0.5 * np.sin(2 * np.pi * 0.26 * t)
        return [*(z[6:12] / m), *force, (z[3] - 0.5 * np.sin(2 * np.pi * 0.12 * t)) ** 2 / 2]

    start = np.zeros(13)
    start[1] = position
    return solve_ivp(motion, (0, duration), start, "DOP853", rtol=1e-12, atol=1e-12).y[-1, -1]


def test_integral_of_the_density_is_the_derivative_of_the_loss(toy):
    duration, size = 15.0, 1e-4
    task = study.problem_of(toy, duration)
    ours = ContinuousRHEL().sensitivities(task, [0.0, task.duration / 2])
    units = toy.assembly.units
    unit = units.length**2 * units.time
    assert ours.loss * unit == pytest.approx(loss_in_si(toy.netlist, duration), rel=1e-9)
    gradient = toy.parameters.gradient_to_si(ours.gradient, unit)

    def difference(name):
        return (
            loss_in_si(toy.netlist, duration, **{name: size}) - loss_in_si(toy.netlist, duration, **{name: -size})
        ) / (2 * size)

    # Differences err by size² and by the solver's 1e-12 over size.
    assert gradient["m4.mass"] == pytest.approx(difference("m4"), rel=1e-6)
    assert gradient["k14.constant"] == pytest.approx(difference("k14"), rel=1e-6)
    by_position = np.asarray(toy.hamiltonian.node_momenta(jnp.asarray(ours.state[0][0]))) * unit / units.length
    assert by_position[1] == pytest.approx(difference("position"), rel=1e-6)


def test_study_reports_and_saves(toy, tmp_path):
    result = study.run(duration_s=8.0, points=41, design=toy)
    assert set(result.deviations) == {"positions", "momenta", "masses", "springs", "couplings"}
    assert max(result.deviations.values()) < 1e-9
    assert "adjoint" in str(result)
    files = study.save(result, tmp_path / "new")
    assert [f.name for f in files] == ["toy.npz", "toy.png"]
    with np.load(files[0]) as saved:
        np.testing.assert_array_equal(saved["rhel_parameters"], result.rhel.parameters)
        assert saved["nodes"].tolist() == [f"x{i}" for i in range(1, 7)]
    assert files[1].stat().st_size > 20_000
    with pytest.raises(ArgumentError, match="points"):
        study.run(points=1)


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.0, -0.1, np.nan, np.inf, True, None, "0.1", np.ones(2)], ids=str)
def test_epsilon_and_duration_must_be_positive(toy, value):
    with pytest.raises(ArgumentError, match="Argument `epsilon` must"):
        ContinuousRHEL(value)
    with pytest.raises(ArgumentError, match="Argument `duration` must"):
        problem(toy, value)


@pytest.mark.parametrize(
    "times", [[], 1.0, [[0.0, 1.0]], [0.0, np.nan], [1.0, 0.5], [1.0, 1.0], [-0.1, 1.0], [0, 13]], ids=str
)
@pytest.mark.parametrize("method", [ContinuousRHEL(), ContinuousAdjoint()], ids=str)
def test_times_must_increase_within_the_run(toy, method, times):
    with pytest.raises(ArgumentError, match="Argument `times` must"):
        method.sensitivities(problem(toy), times)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state", (np.zeros(5), np.zeros(6))),
        ("state", np.zeros(6)),
        ("state", (np.zeros((6, 2)), np.zeros((6, 2)))),
        ("state", (np.full(6, np.nan), np.zeros(6))),
        ("drive", lambda t: [0.0, 0.0]),
        ("drive", lambda t: 0.0),
        ("drive", lambda t: [np.inf if t > 6 else 0.0]),
        ("target", lambda t: []),
        ("theta", {}),
    ],
)
def test_misfits_are_refused(toy, name, value):
    with pytest.raises(ArgumentError, match=f"Arguments? `{name}`.* must"):
        replace(problem(toy), **{name: value})


def test_reader_must_fit(toy, nonlinear):
    with pytest.raises(ArgumentError, match="Argument `reader` must read 6"):
        problem(toy, reader=nonlinear[0].reader)


def test_lossy_circuits_are_refused():
    parts = [Mass("m", "x", 1.0), Spring("k", "x", "gnd", 1.0), Damper("c", "x", "gnd", 0.01)]
    with pytest.raises(ArgumentError, match="without loss, but has c"):
        problem(Netlist("lossy", parts, targets=["x"]).compile())


def test_single_precision_is_refused(toy):
    with jax.enable_x64(False), pytest.raises(ArgumentError, match="jax_enable_x64"):
        problem(toy)


def test_runaway_is_reported(toy):
    with pytest.raises(DivergedError, match="cannot be followed"):
        ContinuousAdjoint().sensitivities(problem(toy, target=lambda t: [0.0 if t in SEEN else np.nan]), [0.0])


SEEN = set(np.linspace(0, 12.0, 33).tolist())
"""Times at which waveforms are checked: a waveform may still go wrong between them."""
