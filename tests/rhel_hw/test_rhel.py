"""Echo learning: choices, losses, refusals, and what it costs in passes and memory."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from circuits.generators import ladder, six_oscillators
from circuits.operators import Reader
from devices import ArgumentError, Resistor
from rhel_hw import (
    BPTT,
    HEB,
    RHEL,
    Adjoint,
    BlackBox,
    FinalMSE,
    Hold,
    Loss,
    PooledCrossEntropy,
    Problem,
    Reprepare,
    RHELLimit,
    Richardson,
    SelfConsistent,
    SignFlip,
    Teacher,
    TrajectoryMSE,
    targets_of,
)
from rhel_hw.passes import free_pass
from tests.contracts.test_gradients import PARTS, distance
from tests.contracts.test_gradients import problem as noisy
from tests.systems import LOSSLESS, OddEnergy, host


@pytest.fixture(scope="module")
def toy():
    return noisy(six_oscillators().compile())


@pytest.fixture(scope="module")
def nonlinear():
    return noisy(host(LOSSLESS["josephson"]).compile())


def worst(ours, exact, parts=PARTS):
    return max(distance(ours, exact, part) for part in parts)


# Choices ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "passes"), [(Hold(), 3), (Reprepare(), 4)], ids=str)
def test_protocols_agree_and_count_their_passes(nonlinear, protocol, passes):
    found = RHEL(1e-3, protocol=protocol).gradient(nonlinear)
    assert found.passes == passes
    assert worst(found, RHEL(1e-3).gradient(nonlinear)) < 1e-9  # round-off, divided by ε


def test_richardson_takes_four_echoes(toy):
    assert RHEL(stencil=Richardson()).gradient(toy).passes == 5
    assert RHEL(stencil=Richardson(), protocol=Reprepare()).gradient(toy).passes == 8


def test_only_the_product_of_epsilon_and_gamma_matters(nonlinear):
    one, other = RHEL(0.1, gamma=0.02).gradient(nonlinear), RHEL(0.002, gamma=1.0).gradient(nonlinear)
    assert worst(one, other) < 1e-9
    assert (one.epsilon, one.gamma) == (0.1, 0.02)


@pytest.mark.parametrize("fraction", [0.01, 0.1])
def test_automatic_gamma_keeps_the_stated_displacement(nonlinear, fraction):
    found = RHEL(1e-3, gamma="auto", displacement=fraction).gradient(nonlinear)
    # Measured here by means of its own: distance between the echoes and the run they retrace, step by step.
    ratio = max(_strays(nonlinear, found.epsilon * found.gamma))
    assert ratio == pytest.approx(fraction, rel=0.11)
    assert found.passes > 3
    assert (found.passes - 3) % 2 == 0


def _strays(task, strength):
    """Displacement over spread of positions and momenta, from whole trajectories in NumPy."""
    h, integrator = task.hamiltonian, task.integrator
    prepared = h.prepare(task.theta)
    free = free_pass(h, integrator, task.loss, *task.run)

    def echo(sign):
        state, out = (free.final[0], -free.final[1]), []
        recorded = np.concatenate([np.asarray(free.errors), np.asarray(free.last)[None]])
        for i in reversed(range(len(task.inputs))):
            kick = task.loss.reader.transpose(jnp.asarray(recorded[i]))
            q, p, _ = step(state[0], state[1] + sign * strength * kick, task.inputs[i])
            state = (q, p)
            out.append(np.stack([q, p]))
        return np.array(out)

    step = jax.jit(lambda q, p, u: integrator.step(h, q, p, prepared, u, task.step))
    plus, minus = echo(1.0), echo(-1.0)
    spread = np.sqrt(np.mean(np.var((plus + minus) / 2, axis=0), axis=(1, 2)))
    return np.sqrt(np.mean(((plus - minus) / 2) ** 2, axis=(0, 2, 3))) / spread


@pytest.mark.slow
def test_automatic_gamma_is_one_where_there_is_nothing_to_learn(toy):
    reached = free_pass(toy.hamiltonian, toy.integrator, toy.loss, *toy.run).final[0]
    task = replace(toy, loss=FinalMSE(toy.loss.reader, toy.loss.reader(reached)))
    found = RHEL(gamma="auto").gradient(task)
    assert found.gamma == 1.0
    assert all(float(jnp.max(jnp.abs(v))) < 1e-12 for v in found.theta.values())


@pytest.mark.slow
@pytest.mark.parametrize("operation", [None, pytest.param(SignFlip(), marks=pytest.mark.slow)], ids=str)
def test_self_consistent_nudging_has_a_bias_of_second_order_even_in_linear_circuits(toy, operation):
    options = {"nudging": SelfConsistent()} | ({} if operation is None else {"operation": operation})
    exact = BPTT().gradient(toy)
    errors = [distance(RHEL(e, **options).gradient(toy), exact, "theta") for e in (0.5, 2.0)]
    assert np.log(errors[1] / errors[0]) / np.log(4) == pytest.approx(2, abs=0.1)
    assert distance(RHEL(2.0).gradient(toy), exact, "theta") < 1e-11


@pytest.mark.parametrize("wrt", [("spring.constant",), ("mass.mass", "step"), ("inputs",), ()], ids=str)
def test_only_what_is_asked_for_is_computed(toy, wrt):
    whole, part = RHEL(0.1).gradient(toy), RHEL(0.1).gradient(replace(toy, wrt=wrt))
    assert set(part.theta) == set(wrt) & set(whole.theta)
    for key, value in part.theta.items():
        np.testing.assert_allclose(value, whole.theta[key], rtol=1e-12)
    assert (part.inputs is None) == ("inputs" not in wrt)
    assert (part.step is None) == ("step" not in wrt)
    np.testing.assert_allclose(part.state[0], whole.state[0], rtol=1e-12)


def test_parameters_may_differ_from_lane_to_lane(nonlinear):
    lanes = nonlinear.inputs.shape[-1]
    scale = jnp.linspace(0.9, 1.1, lanes)
    many = replace(nonlinear, theta={k: v[:, None] * scale for k, v in nonlinear.theta.items()})
    exact, limit, finite = (e.gradient(many) for e in (BPTT(), RHELLimit(), RHEL(2e-3, stencil=Richardson())))
    assert worst(limit, exact) < 1e-12
    assert worst(finite, exact) < 1e-9


def test_arrays_without_a_batch_are_a_batch_of_one(toy):
    single = replace(
        toy,
        inputs=toy.inputs[..., 0],
        state=tuple(x[:, 0] for x in toy.state),
        loss=TrajectoryMSE(toy.loss.reader, toy.loss.targets[..., 0]),
    )
    assert worst(RHEL(0.1).gradient(single), BPTT().gradient(single)) < 1e-11


@pytest.mark.slow
def test_single_precision_learns_too(toy):
    design = six_oscillators().compile()
    task = Teacher().problem(design, dtype=jnp.float32)
    found = RHEL(1.0).gradient(task)
    assert found.theta["mass.mass"].dtype == jnp.float32
    assert distance(found, BPTT().gradient(task), "theta") < 1e-3


# Time reversal ----------------------------------------------------------------------------------------------------


def odd(*, honest=True):
    rng = np.random.default_rng(0)
    energy = OddEnergy(honest=honest)
    steps, lanes = 80, 3
    inputs = 0.3 * np.sin(0.2 * np.arange(steps))[:, None, None] * rng.normal(size=(1, 2, lanes))
    reader = Reader.of(sp.csr_array(np.eye(2)))
    loss = TrajectoryMSE(reader, jnp.asarray(rng.normal(size=(steps, 2, lanes))))
    state = tuple(jnp.asarray(0.4 * rng.normal(size=(2, lanes))) for _ in range(2))
    return Problem(energy, energy.theta(), inputs, 0.2, state, loss)


@pytest.mark.slow
def test_odd_inputs_and_parameters_change_sign_in_the_echo():
    task = odd()
    exact, limit, finite = (e.gradient(task) for e in (BPTT(), RHELLimit(), RHEL(2e-3, stencil=Richardson())))
    assert worst(limit, exact) < 1e-12
    assert worst(finite, exact) < 1e-9
    wrong = odd(honest=False)
    assert worst(RHELLimit().gradient(wrong), exact) > 0.1


@pytest.mark.slow
def test_running_with_the_opposite_sign_needs_no_evenness():
    task = odd(honest=False)
    exact = BPTT().gradient(task)
    assert worst(RHELLimit(SignFlip()).gradient(task), exact) < 1e-12
    assert worst(RHEL(2e-3, stencil=Richardson(), operation=SignFlip()).gradient(task), exact) < 1e-9


# Losses -----------------------------------------------------------------------------------------------------------


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Power(Loss):
    """A loss of momenta and positions that is not even."""

    wanted: jax.Array

    def data(self):
        return self.wanted

    def check(self, steps, size, batch):
        pass

    def at(self, q, p, data):
        return jnp.sum(jnp.sin(q) * p + 0.1 * (p - data) ** 2, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("operation", [RHEL().operation, SignFlip()], ids=str)
def test_any_differentiable_loss_works_with_recorded_nudges(nonlinear, operation):
    task = replace(nonlinear, loss=Power(jnp.linspace(-1, 1, len(nonlinear.inputs))))
    exact = BPTT().gradient(task)
    assert worst(RHELLimit(operation).gradient(task), exact) < 1e-11  # dL/dδ is a small difference of large terms
    assert worst(RHEL(2e-4, stencil=Richardson(), operation=operation).gradient(task), exact) < 1e-8


@pytest.mark.slow
def test_cross_entropy_of_pooled_positions():
    design = ladder(4).replace(targets=["n1", "n2", "n3"]).compile()
    task = noisy(design)
    labels = jnp.asarray([2, 0])
    loss = PooledCrossEntropy(targets_of(design), labels, sharpness=30.0)
    task = replace(task, loss=loss)
    exact, limit, finite = (e.gradient(task) for e in (BPTT(), RHELLimit(), RHEL(1e-2)))
    assert worst(limit, exact) < 1e-12
    assert worst(finite, exact) < 1e-10  # linear circuit: the centred quotient has no bias
    # Against NumPy: the loss is the mean over lanes of −log softmax(sharpness·mean position)[label].
    from rhel_hw import simulate

    run = simulate(design.hamiltonian, task.theta, task.inputs, len(task.inputs), float(task.step), state=task.state)
    logits = 30.0 * np.asarray(loss.reader(jnp.mean(run.positions, axis=0)))
    log = logits - np.log(np.sum(np.exp(logits), axis=0))
    assert float(exact.loss) == pytest.approx(-np.mean(log[np.asarray(labels), np.arange(2)]), rel=1e-12)


@pytest.mark.slow
def test_echo_backpropagation_of_the_initial_state():
    task = noisy(host(LOSSLESS["saturable"]).compile(), final=True)
    exact, found = BPTT().gradient(task), HEB(1e-3, stencil=Richardson()).gradient(task)
    assert worst(found, exact, ("state",)) < 1e-9
    assert found.theta == {}
    with pytest.raises(ArgumentError, match="`loss` must look at the last state only"):
        HEB().gradient(replace(task, loss=TrajectoryMSE(task.loss.reader, jnp.zeros((len(task.inputs), 1)))))


# Memory -----------------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_number_of_steps():
    def bytes_of(estimator, steps):
        design = six_oscillators().compile(steps=steps)
        return estimator.program(Teacher(loss="final").problem(design)).temporary_bytes()

    short, long = bytes_of(RHEL(), 1_000), bytes_of(RHEL(), 100_000)
    assert long <= 2 * short
    assert bytes_of(BPTT(), 100_000) > 50 * bytes_of(BPTT(), 1_000)


# Edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "loss"),
    [
        (1, "running"),
        pytest.param(1, "pooled", marks=pytest.mark.slow),
        pytest.param(2, "running", marks=pytest.mark.slow),
        pytest.param(1, "final", marks=pytest.mark.slow),
    ],
)
def test_the_shortest_runs_are_exact(steps, loss):
    design = ladder(3).replace(targets=["n0", "n2"]).compile()
    long, reader = noisy(design), targets_of(design)
    kinds = {
        "running": TrajectoryMSE(reader, jnp.ones((steps, 2))),
        "final": FinalMSE(reader, jnp.ones(2)),
        "pooled": PooledCrossEntropy(reader, jnp.asarray([0, 1]), 3.0),
    }
    task = replace(long, inputs=long.inputs[:steps], loss=kinds[loss])
    exact = BPTT().gradient(task)
    for estimator in (RHELLimit(), RHEL(0.1), RHEL(0.1, protocol=Reprepare())):
        assert worst(estimator.gradient(task), exact, ("theta", "inputs", "state")) < 1e-9
    assert worst(BlackBox(0.1).gradient(task), exact, ("theta", "state")) < 1e-9
    Adjoint().gradient(task)


def test_losses_take_the_precision_of_the_run():
    design = six_oscillators().compile(steps=30)
    task = Teacher().problem(design, dtype=jnp.float32)
    wide = replace(task, loss=TrajectoryMSE(task.loss.reader, np.asarray(task.loss.targets, float).tolist()))
    assert wide.loss.targets.dtype == jnp.float32
    assert distance(RHEL(1.0).gradient(wide), RHEL(1.0).gradient(task), "theta") == 0


def test_inverses_that_no_longer_fit_are_refused():
    circuit = ladder(300, coupling_capacitance="0.3 pF").compile(steps=3)
    theta = circuit.theta()
    moved = theta | {"capacitor.capacitance": theta["capacitor.capacitance"].at[300:].multiply(30.0)}
    state = (np.zeros(300), np.ones(300))
    with pytest.raises(ArgumentError, match="a matrix is inverted with an error"):
        Problem(
            circuit.hamiltonian, moved, np.zeros((3, 1)), circuit.step, state, FinalMSE(targets_of(circuit), np.ones(1))
        )


def test_echoes_below_the_resolution_are_refused(toy):
    with pytest.raises(ArgumentError, match="differ by no more than float64 resolves"):
        RHEL(1e-15).gradient(toy)


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [1.5, 3.0])
def test_large_displacements_are_found_too(toy, fraction):
    assert max(_strays(toy, 1e-3 * RHEL(1e-3, "auto", displacement=fraction).gradient(toy).gamma)) == pytest.approx(
        fraction, rel=0.11
    )


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epsilon": 0.0}, "`epsilon` must be a finite number greater than 0"),
        ({"epsilon": float("nan")}, "`epsilon` must be a finite number"),
        ({"gamma": -1.0}, "`gamma` must be a finite number"),
        ({"gamma": "automatic"}, "`gamma` must be a number or .auto."),
        ({"displacement": 0.0}, "`displacement` must be"),
        ({"stencil": "centred"}, "`stencil` must be Centred.. or OneSided.. or Richardson"),
    ],
    ids=str,
)
def test_settings_are_refused_by_name(settings, message):
    with pytest.raises(ArgumentError, match=message):
        RHEL(**settings)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_a_strength_beyond_the_precision_is_refused(dtype):
    task = Teacher().problem(six_oscillators().compile(steps=20), dtype=dtype)
    for gamma in (1e300, 1e-300):
        with pytest.raises(ArgumentError, match=rf"product whose square {jnp.dtype(dtype).name} can hold"):
            RHEL(1e10 if gamma > 1 else 1e-10, gamma=gamma).gradient(task)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": np.zeros((0, 1, 2))}, "`inputs` must have at least one step"),
        ({"inputs": np.full((100, 1, 2), np.nan)}, "`inputs` must be finite"),
        ({"inputs": np.zeros((100, 2, 2))}, "`inputs` must have shape"),
        ({"step": 0.0}, "`step` must be a finite number greater than 0"),
        ({"wrt": ("masses",)}, "`wrt` must name parameters"),
        ({"wrt": "step"}, "`wrt` must be a tuple of names"),
        ({"loss": "mse"}, "`loss` must be a loss"),
        ({"integrator": "leapfrog"}, "`integrator` must be an integrator"),
    ],
    ids=lambda x: str(x)[:40],
)
def test_problems_are_refused_by_name(toy, changes, message):
    with pytest.raises(ArgumentError, match=message):
        replace(toy, **changes)


@pytest.mark.parametrize(
    ("kind", "targets", "message"),
    [
        (TrajectoryMSE, np.zeros((99, 1)), "`targets` must have shape"),
        (TrajectoryMSE, np.zeros((100, 1, 3)), "`targets` must have shape"),
        (TrajectoryMSE, np.full((100, 1), np.inf), "`targets` must be finite"),
        (FinalMSE, np.zeros((2,)), "`targets` must have shape"),
        (PooledCrossEntropy, np.zeros((2,), int), "at least 2 classes"),
    ],
)
def test_targets_of_the_wrong_shape_are_refused(toy, kind, targets, message):
    with pytest.raises(ArgumentError, match=message):
        replace(toy, loss=kind(toy.loss.reader, jnp.asarray(targets)))


@pytest.mark.parametrize(
    ("labels", "message"),
    [(np.zeros(3, int), "must have shape"), (np.array([0, 6]), "whole numbers from 0 to 5"), (np.zeros(2), "whole")],
)
def test_labels_are_refused(toy, labels, message):
    reader = targets_of(six_oscillators().replace(targets=[f"x{i}" for i in range(1, 7)]).compile())
    with pytest.raises(ArgumentError, match=message):
        replace(toy, loss=PooledCrossEntropy(reader, jnp.asarray(labels)))


@pytest.mark.parametrize("size", [1.0, 1e-12])
def test_losses_that_are_odd_late_or_little_are_refused(toy, size):
    task = replace(toy, loss=Late(size * jnp.linspace(0, 1, len(toy.inputs))))
    with pytest.raises(ArgumentError, match="changes when momenta are flipped"):
        RHEL(nudging=SelfConsistent()).gradient(task)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Late(Power):
    """Odd, but not at first."""

    def at(self, q, p, data):
        return data * jnp.sum(q * p, axis=0)


def test_odd_losses_are_refused_only_where_nudges_are_self_consistent(toy):
    task = replace(toy, loss=Power(jnp.zeros(len(toy.inputs))))
    with pytest.raises(ArgumentError, match="changes when momenta are flipped"):
        RHEL(nudging=SelfConsistent()).gradient(task)
    RHEL(nudging=SelfConsistent(), operation=SignFlip()).gradient(task)
    reader = targets_of(six_oscillators().replace(targets=["x1", "x2"]).compile())
    task = replace(toy, loss=PooledCrossEntropy(reader, jnp.asarray([0, 1])))
    with pytest.raises(ArgumentError, match="has no slope before the end"):
        RHEL(nudging=SelfConsistent()).gradient(task)


def test_a_circuit_at_rest_has_no_automatic_gamma():
    design = six_oscillators().compile(steps=20)
    reader = targets_of(design)
    still = (np.zeros((6, 1)), np.zeros((6, 1)))
    task = Problem(
        design.hamiltonian, design.theta(), np.zeros((20, 1, 1)), design.step, still, FinalMSE(reader, np.ones(1))
    )
    with pytest.raises(ArgumentError, match="the state never moves"):
        RHEL(gamma="auto").gradient(task)


def test_lossy_circuits_are_refused():
    circuit = ladder(3)
    lossy = circuit.replace(elements=(*circuit.elements, Resistor("R", "n0", "gnd", "1 kohm")))
    with pytest.raises(ArgumentError, match="must be without loss, but has R: an echo"):
        Teacher().problem(lossy.compile(steps=10))


def test_a_run_that_diverges_says_so():
    task = noisy(host(LOSSLESS["duffing"]).compile())
    with pytest.raises(ArgumentError, match="left the range of floating point"):
        BPTT().gradient(replace(task, state=tuple(1e6 * x for x in task.state)))
