"""Energies that turn a coordinate, beside drifts and kicks: everything that runs or learns must know of them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits import Netlist, examine
from devices import BilinearCoupler, Capacitor, Inductor, Mass, Spring
from rhel_hw import BPTT, RHEL, Adjoint, BlackBox, RHELLimit, Richardson, SignFlip, Yoshida4, simulate
from tests.contracts.test_gradients import PARTS, distance, problem
from tests.systems import hosted, random_inputs, random_state


@pytest.fixture(scope="module")
def vortex():
    return problem(hosted("vortex"), size=0.1)


@pytest.mark.slow
def test_echo_stays_exact_with_longer_compositions_and_by_sign_flip():
    task = problem(hosted("kerr-rotation"), size=0.1, integrator=Yoshida4())
    exact, limit = BPTT().gradient(task), RHELLimit(SignFlip()).gradient(task)
    assert max(distance(limit, exact, part) for part in PARTS) < 1e-12


@pytest.mark.slow
def test_knobs_feel_the_mean_over_a_turn(vortex):
    """Infinitely heavy knobs integrate ∂H/∂θ along the rotations too, the aspect of the circle included."""
    task = replace(vortex, wrt=("vortex.magnetisation", "vortex.stiffening", "pillar.distance"))
    exact, found = BPTT().gradient(task), BlackBox(2e-3, stencil=Richardson()).gradient(task)
    assert distance(found, exact, "theta") < 1e-8


@pytest.mark.slow
def test_the_adjoint_method_integrates_rotations(vortex):
    """It is off by the square of the step, here a twentieth of a radian, and by what a hundred steps make of it."""
    task = replace(vortex, step=vortex.step / 10)
    assert distance(Adjoint().gradient(task), BPTT().gradient(task), "theta") < 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exchange", "vortex", "kerr-rotation"])
def test_batched_parameters_are_runs_of_their_own(name):
    """What is borrowed and what turns may differ from lane to lane."""
    design = hosted(name)
    state, inputs = random_state(design, size=0.2), random_inputs(design, 40)
    lanes = [{k: v * (1 + 0.01 * i * jnp.arange(1, len(v) + 1)) for k, v in design.theta().items()} for i in range(3)]
    single = [simulate(design.hamiltonian, t, inputs, 40, design.step, state=state).final for t in lanes]
    batched = {k: jnp.stack([t[k] for t in lanes], axis=-1) for k in lanes[0]}
    final = simulate(design.hamiltonian, batched, inputs, 40, design.step, state=state).final
    for i, alone in enumerate(single):
        for ours, theirs in zip(jax.tree.map(lambda x, i=i: x[:, i], final), alone, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_domains_far_apart_are_told():
    """A megahertz beam beside a gigahertz circuit: one step for both is wasteful."""
    parts = [Capacitor("C", "a", "gnd", "1 pF"), Inductor("L", "a", "gnd", "1 nH")]
    parts += [Mass("m", "x", "1 ng"), Spring("k", "x", "gnd", "1 N/m"), BilinearCoupler("g", "a", "x", 1e-3)]
    legality, design = examine(Netlist("apart", parts))
    assert design is not None
    (warned,) = (f for f in legality.findings if "span a factor" in f.reason)
    assert float(warned.reason.split("factor of ")[1].split(":")[0]) > 1e3


@pytest.mark.slow
def test_strength_is_chosen_for_rotations(vortex):
    found = RHEL(gamma="auto").gradient(vortex)
    assert distance(found, BPTT().gradient(vortex), "theta") < 1e-2
