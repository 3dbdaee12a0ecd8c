"""Echo learning equals backpropagation through time, for every registered element, at any stable step."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ladder, recurrent_units, six_oscillators
from rhel_hw.baselines import BPTT, RHELLimit
from rhel_hw.integrators import Leapfrog, Yoshida4, Yoshida6
from rhel_hw.losses import FinalMSE, TrajectoryMSE, targets_of
from rhel_hw.operations import Centred, MomentumFlip, OneSided, Richardson, SignFlip
from rhel_hw.problem import Problem
from rhel_hw.rhel import RHEL
from tests.systems import driven, families, hosted, quick_or_slow, random_inputs, random_state, side_by_side

STEPS, LANES = 100, 2
PARTS = ("theta", "inputs", "state", "step")


def problem(design, product=0.5, *, final=False, integrator=None, size=0.3):
    """A teacher-free task: imitate noise. `product` is step·ω of the highest frequency."""
    rng = np.random.default_rng(3)
    reader = targets_of(design)
    inputs = np.stack([random_inputs(design, STEPS, seed=s, size=size) for s in range(LANES)], axis=-1)
    wanted = jnp.asarray(rng.normal(size=(STEPS, reader.rows, LANES)))
    loss = FinalMSE(reader, wanted[-1]) if final else TrajectoryMSE(reader, wanted)
    state = tuple(jnp.asarray(x) for x in random_state(design, size=size, batch=LANES))
    step = jnp.asarray(product / design.highest)
    method = Leapfrog() if integrator is None else integrator
    return Problem(design.hamiltonian, design.theta(), jnp.asarray(inputs), step, state, loss, method)


def distance(ours, exact, part):
    """Largest error of any leaf relative to its own norm; leaves that are zero count against the whole."""
    a, b = (jax.tree.leaves(getattr(g, part)) for g in (ours, exact))
    whole = max(float(jnp.linalg.norm(y)) for y in b)
    return max(
        float(jnp.linalg.norm(x - y)) / max(float(jnp.linalg.norm(y)), 1e-3 * whole) for x, y in zip(a, b, strict=True)
    )


ESTIMATORS = {"finite": (RHEL(2e-3, stencil=Richardson()), 1e-9), "limit": (RHELLimit(), 1e-12)}
"""Of echo learning, and how close each must come."""


@pytest.mark.parametrize("kind", ["finite", pytest.param("limit", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "family", quick_or_slow(families(), {*families()} - {"laboratory", "photonic", "spin", "texture"})
)
def test_echo_equals_backpropagation_for_every_element(family, kind):
    """All elements of a family at once, side by side; each has gradients of its own, compared one by one."""
    names, (estimator, tolerance) = families()[family], ESTIMATORS[kind]
    design = side_by_side(names).compile()
    for product in (0.05, 0.5, 1.5):
        # Strongly driven rotors and vortices are chaotic at step·ω = 1.5, and amplify round-off.
        task = problem(design, product, size=0.1 if family in ("spin", "texture") else 0.3)
        exact, found = BPTT().gradient(task), estimator.gradient(task)
        assert {key.split(".")[0] for key in exact.theta} >= set(names)
        assert float(found.loss) == pytest.approx(float(exact.loss), rel=1e-14)
        for part in PARTS:
            assert distance(found, exact, part) < tolerance, (part, product)


SYSTEMS = {
    "ladder with coupling capacitors and mutuals": ladder(5, coupling_capacitance="0.3 pF", mutual=0.3, spread=0.2),
    # Targets near the drive: in a hundred small steps nothing arrives at the far end.
    "Josephson array": Netlist.load("josephson-ladder").replace(targets=["n1", "n2", "n3"]),
    "linear recurrent unit": recurrent_units(4, linear=True),
    "nonlinear recurrent unit": recurrent_units(4, linear=False),
}


@pytest.mark.parametrize("name", quick_or_slow(SYSTEMS, [*SYSTEMS][:1]))
def test_echo_equals_backpropagation_for_whole_circuits(name):
    """The authors' public code reaches this only as the step goes to 0; here it holds at any stable step."""
    design = SYSTEMS[name].compile()
    for product in (0.05, 0.5, 1.5):
        task = problem(design, product, size=0.1)
        exact, limit, finite = (e.gradient(task) for e in (BPTT(), RHELLimit(), RHEL(4e-3, stencil=Richardson())))
        for part in PARTS:
            assert distance(limit, exact, part) < 1e-12, (part, product)
            assert distance(finite, exact, part) < 1e-9, (part, product)


@pytest.mark.parametrize("kind", ["voltage", "flux"])
def test_echo_equals_backpropagation_under_other_drives(kind):
    task = problem(driven(kind).replace(targets=["n2"]).compile())
    exact, limit = BPTT().gradient(task), RHELLimit().gradient(task)
    assert max(distance(limit, exact, part) for part in PARTS) < 1e-12


@pytest.mark.parametrize(
    ("settings", "operation"),
    [
        ({"final": True}, MomentumFlip()),
        ({"final": True}, SignFlip()),
        pytest.param({"integrator": Yoshida4()}, SignFlip(), marks=pytest.mark.slow),
        pytest.param({"integrator": Yoshida6()}, MomentumFlip(), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_variants_are_exact_too(settings, operation):
    task = problem(hosted("saturable"), **settings)
    exact, limit = BPTT().gradient(task), RHELLimit(operation).gradient(task)
    assert max(distance(limit, exact, part) for part in PARTS) < 1e-12


@pytest.mark.parametrize(
    ("stencil", "sizes"), [(OneSided(), (0.01, 0.04)), (Centred(), (0.1, 0.4)), (Richardson(), (0.4, 0.8))], ids=str
)
def test_bias_falls_with_the_order_of_the_stencil(stencil, sizes):
    task = problem(hosted("josephson"))
    exact = BPTT().gradient(task)
    errors = [distance(RHEL(size, stencil=stencil).gradient(task), exact, "theta") for size in sizes]
    slope = np.log(errors[1] / errors[0]) / np.log(sizes[1] / sizes[0])
    assert slope == pytest.approx(stencil.order, abs=0.1)


@pytest.mark.slow
def test_a_quadratic_circuit_has_no_bias_at_any_strength():
    task = problem(six_oscillators().compile())
    exact, strong = BPTT().gradient(task), RHEL(10.0).gradient(task)
    assert distance(strong, exact, "theta") < 1e-11


def test_strength_is_traced():
    """ε, γ, step and targets change nothing in the compiled program."""
    from rhel_hw.rhel import _by_echoes

    task = problem(six_oscillators().compile())
    RHEL(0.1).gradient(task)
    before = _by_echoes._cache_size()
    RHEL(0.2, gamma=3.0).gradient(task)
    RHEL(0.2).gradient(replace(task, step=task.step * 0.9))
    again = problem(six_oscillators(seed=0).compile())
    RHEL(0.2).gradient(replace(task, loss=again.loss))
    assert _by_echoes._cache_size() == before
