"""What every registered element must do. A new element is tested by being registered."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits import DesignError, Netlist
from circuits.assemble import spread
from circuits.linear import curvature, mobility_matrix, stiffness_matrix
from devices import ELEMENTS, MutualInductance
from rhel_hw import Leapfrog, Yoshida4, Yoshida6, return_error, reverse, simulate
from tests.systems import (
    LEGAL,
    LOSSLESS,
    energy_in_si,
    example,
    families,
    host,
    hosted,
    quick_or_slow,
    random_inputs,
    random_state,
)

STEPS = 320
FIRST = {names[0] for names in families().values()}
lossless = pytest.mark.parametrize("name", LOSSLESS)
one_of_each_family = pytest.mark.parametrize("name", quick_or_slow(LOSSLESS, FIRST))
NOT_A_SUM = ("mutual",)
"""Energies that are not sums over elements; each has a test of its own."""
legal = pytest.mark.parametrize("name", LEGAL)


@pytest.mark.parametrize("name", ELEMENTS)
def test_says_what_it_is(name):
    kind = ELEMENTS[name]
    assert kind.summary.endswith(".")
    assert all(p.doc for p in kind.parameters.values())
    for parameter in kind.parameters.values():
        assert np.isfinite(parameter.read(parameter.example)) or parameter.default == np.inf
    if kind.refusal is None:
        assert all((kind.energy_text, kind.loss_text, kind.limits_text, kind.reversal_text))
        assert all(p.typical for p in kind.parameters.values() if p.default is None)
    else:
        assert kind.refusal.reason
        assert kind.refusal.remedy


@legal
def test_round_trips_through_toml_and_graph(name):
    kind = LEGAL[name]
    knob = any(p.knob for p in kind.parameters.values())
    netlist = host(kind, trainable=kind.stores(), **({"tolerance": "5 %"} if knob else {}))
    assert Netlist.from_graph(netlist.to_graph()) == netlist
    from circuits.formats import toml

    assert toml.read(netlist.to_toml()) == netlist


@pytest.mark.parametrize("name", [n for n, k in ELEMENTS.items() if k.refusal is not None])
def test_refused_elements_are_named(name):
    kind = ELEMENTS[name]
    parts = [
        *host(LEGAL["capacitor"]).elements,
        example(kind, "bad", *("n1", "n2", "n3", "gnd")[: len(kind.terminals)]),
    ]
    with pytest.raises(DesignError) as caught:
        Netlist("refused", parts).compile()
    (finding,) = caught.value.legality.errors
    assert finding.element == "bad"
    assert finding.reason == kind.refusal.reason
    assert finding.remedy == kind.refusal.remedy


@one_of_each_family
def test_reversal_returns_to_the_start(name):
    design = hosted(name)
    # Weak drives: a rotor that is driven over the top is chaotic, and amplifies round-off.
    inputs = random_inputs(design, 1000, size=0.03)
    forward = simulate(design.hamiltonian, design.theta(), inputs, 1000, design.step, state=random_state(design))
    # Round-off of 1000 steps of order one: about 1000 · 1e-16.
    assert return_error(forward, reverse(forward)) < 1e-12
    assert float(jnp.max(jnp.abs(forward.positions - forward.start[0]))) > 0.05, "the run must go somewhere"


def orders():
    """Elements, integrators and step sizes; linear ones with the higher order are alike, and left to long runs."""
    for name, kind in LOSSLESS.items():
        usual = [] if name in FIRST else [pytest.mark.slow]
        yield pytest.param(name, Leapfrog(), (0.2, 0.1, 0.05), id=f"{name}-2", marks=usual)
        alike = kind.linear and kind.rotation is None
        marks = [pytest.mark.slow] if alike or name not in FIRST else []
        yield pytest.param(name, Yoshida4(), (0.4, 0.2, 0.1), id=f"{name}-4", marks=marks)


@pytest.mark.parametrize(("name", "method", "sizes"), list(orders()))
def test_energy_error_falls_with_the_order(name, method, sizes):
    design = hosted(name)
    unit, state = design.step / 0.2, random_state(design, size=0.3)
    errors = []
    for size in sizes:
        # As many steps for every size, one program for all, but the same time is looked at.
        run = simulate(design.hamiltonian, design.theta(), None, STEPS, size * unit, state=state, integrator=method)
        upto = slice(0, round(16 / size))
        errors.append(np.max(np.abs(run.audit.error[upto])) / np.max(np.abs(run.audit.ends[upto])))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert abs(slope - method.order) < 0.1


@pytest.mark.slow
def test_yoshida6_is_of_sixth_order():
    design = host(LEGAL["josephson"]).compile()
    sizes, unit = (0.6, 0.4, 0.3), design.step / 0.2
    errors = [
        simulate(
            design.hamiltonian, design.theta(), None, round(24 / s), s * unit, state=random_state(design, size=0.3),
            integrator=Yoshida6(),
        ).audit.relative_error
        for s in sizes
    ]  # fmt: skip
    assert abs(np.polyfit(np.log(sizes), np.log(errors), 1)[0] - 6) < 0.2


@pytest.mark.parametrize("name", [n for n in LOSSLESS if n not in NOT_A_SUM])
def test_energy_equals_the_sum_over_elements_in_si(name):
    design = hosted(name)
    q, p = (jnp.asarray(x) for x in random_state(design))
    prepared = design.hamiltonian.prepare(design.theta())
    units, nodes = design.assembly.units, design.assembly.coordinates.nodes
    domain, silence = design.netlist.domains["n1"], jnp.zeros(design.hamiltonian.inputs)
    x = np.asarray(design.hamiltonian.node_positions(q, prepared, silence)) * units.position(domain)
    m = np.asarray(design.hamiltonian.node_momenta(p)) * units.momentum(domain)
    # Every coordinate is a node here, so node velocities are coordinate velocities times their factors.
    v = (
        np.asarray(design.hamiltonian.velocity(p, prepared))
        * design.assembly.factors
        * units.scale(domain.velocity_unit)
    )
    ours = float(design.hamiltonian.energy(q, p, design.theta(), silence)) * units.energy
    by_node = [dict(zip(nodes, values, strict=True)) for values in (x, v, m)]
    assert ours == pytest.approx(energy_in_si(design.assembly.netlist, *by_node), rel=1e-12)


@one_of_each_family
def test_force_and_velocity_are_derivatives_of_the_energy(name):
    design = hosted(name)
    h, theta = design.hamiltonian, design.theta()
    prepared, u = h.prepare(theta), jnp.full(h.inputs, 0.3)
    q, p = (jnp.asarray(x) for x in random_state(design))
    for x, derivative, energy in (
        (q, lambda y: -h.force(y, prepared, u), lambda y: h.potential(y, prepared, u)),
        (p, lambda y: h.velocity(y, prepared, u), lambda y: h.kinetic(y, prepared, u)),
    ):
        step = 1e-5
        for i in range(len(x)):
            e = jnp.zeros(len(x)).at[i].set(step)
            slope = (energy(x + e) - energy(x - e)) / (2 * step)
            assert float(derivative(x)[i]) == pytest.approx(float(slope), abs=1e-8)  # h² of the difference quotient


@lossless
def test_kinetic_energy_is_even(name):
    design = hosted(name)
    prepared = design.hamiltonian.prepare(design.theta())
    p = jnp.asarray(random_state(design)[1])
    assert float(design.hamiltonian.kinetic(p, prepared)) == float(design.hamiltonian.kinetic(-p, prepared))


@pytest.mark.parametrize("name", [n for n, k in LEGAL.items() if k.potential is not None])
def test_stiffness_bounds_the_curvature(name):
    kind, netlist = LEGAL[name], host(LEGAL[name])
    values = netlist.numbers_of(netlist.by_name["dut"])
    bound = kind.stiffness(values)
    reach = kind.amplitude(values) / 3**0.5 if kind.amplitude is not None else 1e-15
    for r, limit in enumerate(bound):

        def energy(b, r=r):
            return kind.potential(tuple(b if i == r else jnp.zeros(()) for i in range(len(bound))), values)

        curvature = jax.vmap(jax.grad(jax.grad(energy)))(jnp.linspace(-reach, reach, 41))
        if kind.linear:
            np.testing.assert_allclose(curvature, limit, rtol=1e-12)
        else:
            assert float(jnp.max(curvature)) <= limit * (1 + 1e-12)


@pytest.mark.parametrize("name", [n for n, k in LOSSLESS.items() if k.kinetic is not None])
def test_mobility_bounds_the_curvature_of_the_kinetic_energy(name):
    """The bound minus the second derivatives at rest is a positive form, whatever the mixed ones are."""
    design = hosted(name)
    group = design.assembly.groups[name]
    bounds = [k[-1] for k in spread(group.kind.mobility, group, design.assembly.theta)]
    second = curvature("kinetic", group, design.assembly.theta, [np.zeros(len(group.names))] * len(bounds))[-1]
    lowest = np.linalg.eigvalsh(np.diag(bounds) - second)[0]
    assert lowest >= -1e-12 * np.abs(second).max()
    if group.kind.linear:
        np.testing.assert_allclose(second, np.diag(bounds), atol=1e-12 * np.abs(second).max())


@one_of_each_family
def test_linear_analysis_agrees_with_the_energy(name):
    """Stiffness built from curvatures by SciPy equals the Hessian of the compiled potential by JAX."""
    design = hosted(name)
    h = design.hamiltonian
    prepared, u = h.prepare(design.theta()), jnp.zeros(h.inputs)
    hessian = -jax.jacfwd(lambda q: h.force(q, prepared, u))(jnp.asarray(design.modes.rest))
    expected = stiffness_matrix(design.assembly, design.modes.rest).toarray()
    np.testing.assert_allclose(hessian, expected, atol=1e-12 * np.abs(expected).max())
    direct = np.flatnonzero(design.assembly.direct)
    speeds = np.asarray(jax.jacfwd(lambda p: h.velocity(p, prepared))(jnp.zeros(h.size)))[np.ix_(direct, direct)]
    expected = mobility_matrix(design.assembly).toarray()[np.ix_(direct, direct)]
    np.testing.assert_allclose(speeds, expected, atol=1e-12 * np.abs(expected).max(initial=0))


@one_of_each_family
def test_float32_is_enough(name):
    design = hosted(name)
    state, inputs = random_state(design), random_inputs(design, 200)
    runs = [
        simulate(design.hamiltonian, design.theta(dtype), inputs, 200, design.step, state=state).positions
        for dtype in (jnp.float64, jnp.float32)
    ]
    assert runs[1].dtype == jnp.float32
    assert float(jnp.max(jnp.abs(runs[0] - runs[1]))) < 1e-4  # 200 steps of 6e-8, amplified by the dynamics


def test_mutual_inductance_energy_is_that_of_the_inverse_matrix():
    netlist = host(MutualInductance)
    design = netlist.compile()
    h, prepared = design.hamiltonian, design.hamiltonian.prepare(design.theta())
    q = jnp.asarray(random_state(design)[0])
    units = design.assembly.units
    x = dict(zip(h.names, np.asarray(q) * design.assembly.factors * units.flux, strict=True))
    coils = [e for e in netlist.elements if e.type == "inductor"]
    L = np.diag([e.inductance for e in coils])
    names = [e.name for e in coils]
    a, b = names.index("k_n1"), names.index("k_n2")
    L[a, b] = L[b, a] = 0.3 * np.sqrt(L[a, a] * L[b, b])
    flux = np.array([x.get(e.a, 0.0) - x.get(e.b, 0.0) for e in coils])
    expected = flux @ np.linalg.solve(L, flux) / 2
    assert float(h.potential(q, prepared, jnp.zeros(1))) * units.energy == pytest.approx(expected, rel=1e-12)
