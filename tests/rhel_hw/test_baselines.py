"""What echo learning is held against, held against each other."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ladder, recurrent_units, six_oscillators
from devices import ArgumentError
from rhel_hw import (
    BPTT,
    RHEL,
    SPSA,
    Adjoint,
    BlackBox,
    FiniteDifferences,
    FreeFlight,
    Richardson,
    ShuffledCredit,
    Teacher,
)
from rhel_hw.blackbox import Whole, whole_step
from rhel_hw.compare import cosine, trained
from rhel_hw.losses import When
from tests.contracts.test_gradients import PARTS, distance
from tests.contracts.test_gradients import problem as noisy
from tests.systems import LOSSLESS, host, quick_or_slow


@pytest.fixture(scope="module")
def design():
    return six_oscillators().compile(steps=200)


@pytest.fixture(scope="module")
def task(design):
    return Teacher(batch=2).problem(design)


def test_finite_differences_agree_with_backpropagation(design, task):
    found = FiniteDifferences().gradient(task)
    assert distance(found, BPTT().gradient(task), "theta") < 1e-6
    assert found.passes == 1 + 2 * len(design.parameters.trainable_names)


@pytest.mark.slow
def test_simultaneous_perturbation_is_right_on_average(design, task):
    """The error of the mean falls as one over the root of the samples: ±40 % for a single pair of seeds."""
    exact = trained(design, BPTT().gradient(task).theta)
    scale = np.array([abs(float(task.theta[e.key][e.index])) for e in design.assembly.entries if e.trainable])

    def error(samples):
        found = trained(design, SPSA(samples=samples, seed=1).gradient(task).theta)
        return np.linalg.norm((found - exact) * scale) / np.linalg.norm(exact * scale)

    few, many = error(256), error(16 * 256)
    assert many < 0.2
    assert few / many == pytest.approx(4, rel=0.4)
    assert SPSA(samples=3).gradient(task).passes == 7


@pytest.mark.slow
@pytest.mark.parametrize("final", [False, True], ids=["running", "final"])
def test_the_adjoint_method_converges_with_the_square_of_the_step(final):
    """It differentiates the circuit in continuous time; the discrete one is a second-order approximation of that."""
    circuit = recurrent_units(3, linear=False)
    errors = []
    for steps in (400, 1600):
        design = circuit.compile(steps=steps)
        design = replace(design, step=20 / steps / design.highest)
        task = Teacher(loss="final" if final else "trajectory").problem(design)
        task = replace(task, wrt=None)
        errors.append([distance(Adjoint().gradient(task), BPTT().gradient(task), part) for part in PARTS])
    for coarse, fine in zip(*errors, strict=True):
        assert np.log(coarse / fine) / np.log(4) == pytest.approx(2, abs=0.5)
        assert fine < 5e-3


# Control ----------------------------------------------------------------------------------------------------------


def descend(design, task, estimator, steps=60, rate=0.03):
    """Loss before and after sign-free gradient descent on unconstrained parameters, step length normalised."""
    free = design.parameters.free(task.theta)
    losses = []
    for _ in range(steps):
        theta, back = jax.vjp(lambda f: design.parameters.bind(f, task.theta), free)
        found = estimator.gradient(replace(task, theta=theta))
        whole = {k: found.theta.get(k, jnp.zeros_like(v)) for k, v in theta.items()}
        (slope,) = back(whole)
        norm = jnp.sqrt(sum(jnp.sum(v**2) for v in slope.values()))
        free = {k: v - rate * slope[k] / norm for k, v in free.items()}
        losses.append(float(found.loss))
    return losses[0], losses[-1]


@pytest.mark.parametrize("name", quick_or_slow(("toy", "lc-toy", "josephson-ladder"), {"toy"}))
def test_shuffled_credit_points_nowhere(name):
    design = Netlist.load(name).compile(steps=200)
    for seed in range(3):
        task = Teacher(batch=2, seed=seed).problem(design)
        exact = trained(design, BPTT().gradient(task).theta)
        cosines = [cosine(trained(design, ShuffledCredit(seed=s).gradient(task).theta), exact) for s in range(5)]
        assert np.max(np.abs(cosines)) < 0.3
        assert cosine(trained(design, RHEL().gradient(task).theta), exact) > 0.999999


@pytest.mark.slow
def test_shuffled_credit_does_not_train(design):
    task = Teacher(batch=8).problem(design)
    start, learned = descend(design, task, RHEL())
    assert learned < 0.1 * start
    start, control = descend(design, task, ShuffledCredit())
    assert control > 0.7 * start


# Black box --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["varactor", "mutual"])
def knobs(request):
    return replace(noisy(host(LOSSLESS[request.param]).compile()), wrt=tuple(LOSSLESS_KEYS[request.param]))


LOSSLESS_KEYS = {
    "varactor": ("varactor.capacitance", "inductor.inductance", "capacitor.capacitance"),
    "mutual": ("inductor.inductance", "mutual.coefficient"),
}


def test_heavy_knobs_read_the_gradient_off_their_momenta(knobs):
    exact = BPTT().gradient(knobs)
    errors = [
        max(
            distance(BlackBox(2e-3, mass=m, stencil=Richardson()).gradient(knobs), exact, p) for p in ("theta", "state")
        )
        for m in (1e6, 1e8, 1e12)
    ]
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.1)  # error ∝ 1/mass
    assert errors[2] < 1e-8
    still = BlackBox(2e-3, stencil=Richardson()).gradient(knobs)  # infinitely heavy, the default
    assert max(distance(still, exact, p) for p in ("theta", "state")) < 1e-9


@pytest.mark.slow
def test_displacement_in_free_flight_is_as_good_as_momentum(knobs):
    settings = {"epsilon": 0.1, "mass": 1e4}
    momentum = BlackBox(**settings).gradient(knobs)
    flight = BlackBox(**settings, readout=FreeFlight(50.0)).gradient(knobs)
    assert distance(flight, momentum, "theta") < 1e-8  # round-off of a small displacement
    assert momentum.passes == 3


def test_light_knobs_are_exact_for_the_circuit_that_they_are_part_of(knobs):
    """With P flipped too, the echo gives the gradient of the whole system, moving knobs included."""
    mass = 300.0
    found = BlackBox(5e-4, mass=mass, stencil=Richardson()).gradient(knobs)
    assert knobs.loss.when is When.RUNNING

    def loss(theta):
        still = {k: jnp.broadcast_to(theta[k][:, None], (len(theta[k]), knobs.inputs.shape[-1])) for k in knobs.keys}
        start = Whole(*knobs.state, still, jax.tree.map(jnp.zeros_like, still))

        def advance(whole, item):
            u, target = item
            whole = whole_step(knobs.hamiltonian, knobs.integrator, knobs.theta, whole, u, knobs.step, mass)
            return whole, jnp.mean(knobs.loss.at(whole.q, whole.p, target))

        return jnp.sum(jax.lax.scan(advance, start, (knobs.inputs, knobs.loss.data()))[1])

    exact = jax.jit(jax.grad(loss))({k: knobs.theta[k] for k in knobs.keys})
    for key, value in exact.items():
        assert float(jnp.linalg.norm(found.theta[key] - value) / jnp.linalg.norm(value)) < 1e-7
    frozen = BPTT().gradient(knobs)
    assert distance(found, frozen, "theta") > 1e-4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mass": 0.0}, "`mass` must be"),
        ({"epsilon": -1.0}, "`epsilon` must be"),
        ({"readout": FreeFlight(0.0), "mass": 1.0}, "`time` must be"),
        ({"readout": FreeFlight()}, "`mass` must be"),
        ({"readout": "momentum"}, "must be objects such as KnobMomentum"),
    ],
)
def test_knobs_are_refused_by_name(settings, message):
    with pytest.raises(ArgumentError, match=message):
        BlackBox(**settings)


def test_a_knob_is_a_parameter(task):
    with pytest.raises(ArgumentError, match="`wrt` must name parameters"):
        BlackBox().gradient(replace(task, wrt=("inputs",)))


@pytest.mark.parametrize("estimator", [FiniteDifferences, SPSA])
def test_sizes_are_refused(estimator):
    with pytest.raises(ArgumentError, match="`size` must be a finite number greater than 0"):
        estimator(size=0.0)


@pytest.mark.slow
def test_a_ladder_learns_its_teacher():
    design = ladder(4).replace(targets=["n1", "n2"]).compile(steps=300)
    start, end = descend(design, Teacher(batch=4).problem(design), RHEL(gamma="auto"), steps=30, rate=0.01)
    assert end < 0.2 * start
