"""Compilation: scaling, time step, parameters, legality, and size."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits import DesignError, Initial, Netlist, Probes, examine
from circuits.gallery import GALLERY
from circuits.generators import circuit, ladder, six_oscillators
from devices import (
    ArgumentError,
    BilinearCoupler,
    Capacitor,
    CurrentDrive,
    DuffingSpring,
    Inductor,
    JosephsonJunction,
    Mass,
    MutualInductance,
    Resistor,
    Spring,
    Squid,
    SymmetricVaractor,
    Tank,
    VoltageDrive,
)
from rhel_hw import simulate, simulate_design
from tests.systems import random_inputs, random_state

LC = [Capacitor("C", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0)]


def findings(parts, **settings):
    return examine(Netlist("t", parts, **settings))[0]


# Scaling ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "parts",
    [
        [Capacitor("C", "a", "gnd", "1 aF"), Inductor("L", "a", "gnd", "1 pH")],
        [Capacitor("C", "a", "gnd", "1 mF"), Inductor("L", "a", "gnd", "1 H")],
        [Capacitor("C", "a", "gnd", "1 aF"), JosephsonJunction("J", "a", "gnd", "1 nA")],
        [Mass("m", "a", "5 kg"), Spring("k", "a", "gnd", "1 mN/m")],
        [Mass("m", "a", "1 fg"), DuffingSpring("k", "a", "gnd", "10 N/m", "1e15 N/m**3")],
        [Capacitor("C", "a", "gnd", "10 aF"), Capacitor("D", "b", "gnd", "1 mF"), Capacitor("E", "a", "b", "2 aF"),
         Inductor("L", "a", "gnd", "1 nH"), Inductor("M", "b", "gnd", "1 nH")],
    ],
    ids=["aF", "mF", "aF junction", "kg", "fg", "aF beside mF"],
)  # fmt: skip
def test_numbers_are_near_one_whatever_the_units(parts):
    design = Netlist("scaled", parts).compile()
    h, prepared = design.hamiltonian, design.hamiltonian.prepare(design.theta())
    inertia = jax.jacfwd(lambda p: h.velocity(p, prepared))(jnp.zeros(h.size))
    assert np.linalg.cond(inertia) < 10
    assert np.allclose(np.diag(inertia), 1, atol=0.3)
    state, inputs = random_state(design, size=0.2), random_inputs(design, 100)
    double, single = (
        simulate(h, design.theta(t), inputs, 100, design.step, state=state).positions
        for t in (jnp.float64, jnp.float32)
    )
    assert float(jnp.max(jnp.abs(double - single))) < 1e-4


def test_units_are_consistent():
    units = six_oscillators().compile().assembly.units
    assert units.scale("J") == pytest.approx(units.energy, rel=1e-12)
    assert units.scale("Wb") * units.scale("C") == pytest.approx(units.energy * units.time, rel=1e-12)
    assert units.scale("m") * units.scale("kg*m/s") == pytest.approx(units.energy * units.time, rel=1e-12)
    assert units.scale("V") == pytest.approx(units.flux / units.time, rel=1e-12)


# Time step --------------------------------------------------------------------------------------------------------


def test_automatic_step_follows_the_highest_frequency():
    design = Netlist("t", [Tank("T", "a", "gnd", 1.0, 0.25)]).compile()
    assert design.step_s == pytest.approx(0.2 / 2.0, rel=1e-12)


def test_unstable_step_is_refused_and_the_limit_is_sharp():
    netlist = Netlist("t", [Tank("T", "a", "gnd", 1.0, 1.0)])
    with pytest.raises(DesignError, match="unstable from"):
        netlist.compile(step=2.001)
    design = netlist.compile(step=1.99, steps=2000)
    run = simulate_design(design, state=(np.array([1.0]), np.array([0.0])))
    assert float(jnp.max(jnp.abs(run.positions))) < 20, "just below the limit the amplitude stays bounded"
    grown = simulate(design.hamiltonian, design.theta(), None, 200, design.step * 2.05 / 1.99, state=run.start)
    assert float(jnp.max(jnp.abs(grown.positions))) > 1e6, "just above it grows"


def test_coarse_step_warns_with_the_frequency_error():
    legality, design = examine(Netlist("t", [Tank("T", "a", "gnd", 1.0, 1.0)]).replace(clock=_clock(1.0)))
    (finding,) = legality.findings
    assert "4.7 % too high" in finding.reason  # (2/δ)·asin(δ/2) at δ = 1
    run = simulate_design(design, state=(np.array([1.0]), np.array([0.0])))
    # cos(Ω·k·δ) with the discrete frequency, exactly.
    k = np.arange(1, design.steps + 1)
    np.testing.assert_allclose(run.positions[:, 0], np.cos(2 * np.arcsin(0.5) * k), atol=1e-10)


def _clock(step):
    from circuits import Clock

    return Clock(step, 100)


# Parameters -------------------------------------------------------------------------------------------------------


def test_parameters_by_name_and_in_si():
    design = Netlist(
        "p",
        [
            Capacitor("C", "a", "gnd", "1 pF", trainable=True),
            Inductor("L", "a", "gnd", "10 nH", trainable=True, bounds=["5 nH", "500 nH"]),
            Inductor("M", "a", "b", "20 nH"),
            Capacitor("D", "b", "gnd", "1 pF"),
            MutualInductance("K", "L", "M", 0.2, trainable=True),
            Squid("S", "b", "gnd", "1 uA", flux="0.3 fWb", trainable=True),
        ],
    ).compile()
    parameters, theta = design.parameters, design.theta()
    assert parameters.trainable_names == ("C.capacitance", "L.inductance", "K.coefficient", "S.flux")
    assert parameters.to_si(theta)["L.inductance"] == (pytest.approx(1e-8, rel=1e-12), "H")
    assert parameters.trainable["inductor.inductance"].tolist() == [True, False]
    changed = parameters.set(theta, {"L.inductance": 2e-8})
    assert float(parameters.get(changed, "L.inductance")) == pytest.approx(2e-8, rel=1e-12)
    with pytest.raises(ArgumentError, match=r"did you mean `L\.inductance`"):
        parameters.get(theta, "L.inductanse")

    assert float(parameters.get(parameters.set(theta, {"L.inductance": "30 nH"}), "L.inductance")) == pytest.approx(
        3e-8
    )
    for wrong in ({"L.inductance": -1e-8}, {"L.inductance": "1 uH"}, {"C.capacitance": 0.0}, {"L.inductance": "1 pF"}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            parameters.set(theta, wrong)

    free = parameters.free(theta)
    for key, value in parameters.bind(free, theta).items():
        np.testing.assert_allclose(value, theta[key], rtol=1e-12, err_msg="free and back is the identity")
    # However far training goes, signs and bounds hold.
    for direction in (-50.0, 50.0):
        far = parameters.to_si(parameters.bind({k: v + direction for k, v in free.items()}, theta))
        assert far["C.capacitance"][0] > 0
        assert 5e-9 * (1 - 1e-9) <= far["L.inductance"][0] <= 5e-7 * (1 + 1e-9)
        assert -1 <= far["K.coefficient"][0] <= 1
        assert far["M.inductance"] == (pytest.approx(2e-8, rel=1e-12), "H"), "what is not trainable stays"


def test_gradient_in_si_is_the_derivative_by_si_values():
    design = Netlist(
        "g", [Capacitor("C", "a", "gnd", "1 pF"), Inductor("L", "a", "gnd", "10 nH", trainable=True)]
    ).compile()
    h, theta, q = design.hamiltonian, design.theta(), jnp.asarray([0.7])
    gradient = jax.grad(lambda t: jnp.sum(h.potential(q, h.prepare(t), jnp.zeros(0))))(theta)
    si = design.parameters.gradient_to_si(gradient, energy=design.assembly.units.energy)
    flux = float(q[0]) * design.assembly.factors[0] * design.assembly.units.flux
    assert si["L.inductance"] == pytest.approx(-(flux**2) / (2 * 1e-8**2), rel=1e-12)  # d/dL of φ²/2L


# Legality ---------------------------------------------------------------------------------------------------------


def test_resistor_is_loss_and_never_trainable():
    report = findings([*LC, Resistor("R", "a", "gnd", 100.0)])
    assert report.legal
    assert [f.severity for f in report.findings] == ["warning"]
    report = findings([*LC, Resistor("R", "a", "gnd", 100.0, trainable=True)])
    assert not report.legal
    assert report.errors[0].element == "R"
    assert "trainable" in report.errors[0].remedy


def test_capacitor_loop_on_a_voltage_source():
    parts = [*LC, Capacitor("Cs", "s", "gnd", 1.0), Capacitor("Cc", "s", "a", 1.0)]
    report = findings(parts, drives=[VoltageDrive("v", "s")])
    assert [f.element for f in report.errors] == ["Cs"]
    assert "loop" in report.errors[0].reason
    assert findings([*LC, Capacitor("Cc", "s", "a", 1.0)], drives=[VoltageDrive("v", "s")]).legal


def test_varactor_must_be_alone_at_its_node():
    parts = [SymmetricVaractor("V", "a", 1.0, 1.0), Inductor("L", "a", "gnd", 1.0)]
    assert findings(parts).legal
    assert findings([*parts, Capacitor("C", "a", "gnd", 1.0)]).errors[0].element == "V"


def test_unstable_coupler_is_named():
    parts = [*LC, Capacitor("C2", "b", "gnd", 1.0), Inductor("L2", "b", "gnd", 1.0)]
    assert findings([*parts, BilinearCoupler("g", "a", "b", 0.99)]).legal
    report = findings([*parts, BilinearCoupler("g", "a", "b", 1.01)])
    assert report.errors[0].element == "g"
    assert "unstable" in report.errors[0].reason


def test_mutual_inductances_must_be_possible_together():
    coils = [Inductor(f"L{i}", n, "gnd", 1.0) for i, n in enumerate("abc")]
    caps = [Capacitor(f"C{i}", n, "gnd", 1.0) for i, n in enumerate("abc")]
    pairs = [("L0", "L1"), ("L1", "L2"), ("L0", "L2")]
    fine = [MutualInductance(f"K{i}", *p, 0.9) for i, p in enumerate(pairs)]
    assert findings([*coils, *caps, *fine]).legal
    # Each alone is below one, but all three at −0.9 store negative energy.
    report = findings([*coils, *caps, *(MutualInductance(f"K{i}", *p, -0.9) for i, p in enumerate(pairs))])
    assert "positive definite" in report.errors[0].reason
    assert report.errors[0].element == "K0"


@pytest.mark.parametrize(
    ("probes", "named"),
    [
        (Probes("all", "all"), set()),
        (Probes(("n0", "n1"), "all"), {"Ln1_n2"}),
        (Probes("all", ("n0",)), {"Cn0", "Cn1", "Cn2"}),
        (Probes((), ()), {"Ln0_n1", "Ln1_n2", "Cn0", "Cn1", "Cn2"}),
    ],
)
def test_unobservable_gradients_are_named(probes, named):
    """Inductors need positions of their nodes; capacitors the momenta of all nodes their matrix joins."""
    netlist = ladder(3, coupling_capacitance="0.1 pF")
    parts = [
        type(e)(e.name, *e.nodes, e.capacitance, trainable=True) if e.name in ("Cn0", "Cn1", "Cn2") else e
        for e in netlist.elements
    ]
    report = findings(parts, probes=probes)
    assert {f.element for f in report.findings if "not probed" in f.reason} == named


def test_massless_node_is_observed_through_its_neighbours():
    parts = [
        *LC, Inductor("L2", "a", "m", 1.0, trainable=True), Inductor("L3", "m", "b", 1.0),
        Capacitor("C2", "b", "gnd", 1.0),
    ]  # fmt: skip
    assert not [f for f in findings(parts, probes=Probes(("a", "b"), "all")).findings if "probed" in f.reason]
    assert [f.element for f in findings(parts, probes=Probes(("a", "m"), "all")).findings if "probed" in f.reason] == [
        "L2"
    ]


def test_capacitor_at_a_source_needs_the_position_too():
    parts = [*LC, Capacitor("Cc", "s", "a", 1.0, trainable=True)]
    report = findings(parts, drives=[VoltageDrive("v", "s")], probes=Probes((), "all"))
    assert [f.element for f in report.findings if "probed" in f.reason] == ["Cc"]


def test_resistor_at_a_source_is_refused_with_its_norton_equivalent():
    parts = [*LC, Resistor("R", "s", "a", 1.0), Capacitor("Cc", "s", "a", 1.0)]
    report = findings(parts, drives=[VoltageDrive("v", "s")])
    assert report.errors[0].element == "R"
    assert "current drive V/R" in report.errors[0].remedy


def test_initial_state_must_be_one_that_can_be():
    for initial, word in (
        (Initial(velocities={"s": 1.0}), "holds the node"),
        (Initial(momenta={"a": 1.0}, velocities={"a": 1.0}), "both momenta and velocities"),
    ):
        with pytest.raises(DesignError, match=word):
            Netlist("i", [*LC, Capacitor("Cc", "s", "a", 1.0)], drives=[VoltageDrive("v", "s")], initial=initial)


def test_initial_velocity_becomes_momentum_by_the_capacitance_matrix():
    parts = [*LC, Capacitor("D", "b", "gnd", 2.0), Capacitor("E", "a", "b", 0.5), Inductor("M", "b", "gnd", 1.0)]
    design = Netlist("v", parts, initial=Initial(velocities={"a": 0.3})).compile()
    p = np.asarray(design.initial_state()[1])
    charges = np.asarray(design.hamiltonian.node_momenta(jnp.asarray(p))) * design.assembly.units.scale("C")
    np.testing.assert_allclose(charges, [1.5 * 0.3, -0.5 * 0.3], rtol=1e-12)


def test_target_must_be_probed():
    report = findings(LC, probes=Probes((), "all"), targets=["a"])
    assert report.errors[0].element == "targets.a"


def test_far_apart_frequencies_are_pointed_out():
    report = findings([*LC, Capacitor("c", "b", "gnd", 1e-4), Inductor("l", "b", "gnd", 1e-4)])
    assert report.legal
    assert any("wasteful" in f.reason for f in report.findings)


def test_biased_circuit_is_linearised_about_its_rest_point():
    """A junction in a flux-biased loop: Newton's rest point has no force, and the mode is the curvature there."""
    ic, loop, c = 1e-6, 1e-9, 1e-13
    parts = [
        Capacitor("C", "a", "gnd", c),
        Inductor("L", "a", "gnd", loop, flux=0.3e-15),
        JosephsonJunction("J", "a", "gnd", ic),
    ]
    design = Netlist("biased", parts).compile()
    flux0 = 2.067833848461929e-15
    phi = float(design.modes.rest[0]) * design.assembly.factors[0] * design.assembly.units.flux
    assert (phi - 0.3e-15) / loop + ic * np.sin(2 * np.pi * phi / flux0) == pytest.approx(0, abs=1e-16)
    curvature = 1 / loop + 2 * np.pi * ic / flux0 * np.cos(2 * np.pi * phi / flux0)
    assert design.frequencies_hz[0] == pytest.approx(np.sqrt(curvature / c) / (2 * np.pi), rel=1e-9)


# Size -------------------------------------------------------------------------------------------------------------


MEASURE = """
import json, resource, time
from circuits.generators import grid, ladder, random_regular
netlist = {build}
before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
design = netlist.compile()
seconds = time.process_time() - begin
h = design.hamiltonian
readers = [h.branches.reader, h.inverse.reader]
readers += [h.linear.branches.reader, h.linear.stiffness.entries] if h.linear else []
dense = any(r.rows and r.dense is not None for r in readers)
print(json.dumps(dict(seconds=seconds, size=h.size, dense=dense,
                      grown=(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "build",
    ["grid(100, 100, mutual=0.2)", 'ladder(10_000, coupling_capacitance="0.2 pF")', "random_regular(10_000, 3)"],
)
def test_ten_thousand_nodes_compile_sparsely(build):
    done = subprocess.run(
        [sys.executable, "-c", MEASURE.format(build=build)], capture_output=True, text=True, check=True
    )
    measured = json.loads(done.stdout)
    assert measured["size"] == 10_000
    assert not measured["dense"]
    assert measured["seconds"] < 10
    assert measured["grown"] < 500, "MiB; one dense matrix would take 763, and JAX itself takes most of this"


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"coupling_capacitance": "0.3 pF"}, {"mutual": 0.3}], ids=str)
def test_sparse_path_equals_the_dense_one(options, monkeypatch):
    """The same circuit through gathers and Chebyshev sweeps, and through dense matrices."""
    import networkx as nx

    from circuits import operators

    netlist = circuit(nx.path_graph(40), spread=0.3, **options)
    runs = []
    for limit in (1 << 16, 10):
        monkeypatch.setattr(operators, "DENSE_LIMIT", limit)
        design = netlist.compile(steps=200)
        runs.append(
            simulate(
                design.hamiltonian,
                design.theta(),
                random_inputs(design, 200),
                200,
                design.step,
                state=random_state(design),
            )
        )
    assert (runs[1].hamiltonian.inverse.sweeps > 0) == ("coupling_capacitance" in options)
    np.testing.assert_allclose(runs[1].positions, runs[0].positions, atol=1e-12)


def test_gallery_designs_are_legal():
    assert "toy" in GALLERY
    for name in GALLERY:
        netlist = Netlist.load(name)
        legality, design = examine(netlist)
        assert legality.legal, f"{name}: {legality}"
        assert design.parameters.trainable_names
        assert netlist.drives
        assert netlist.targets


def test_compile_reports_current_drive_into_nothing():
    with pytest.raises(DesignError, match="does not exist"):
        Netlist("d", LC, drives=[CurrentDrive("u", "z")])


def test_biased_circuit_with_a_free_mode_finds_its_rest_point():
    parts = [
        Capacitor("C", "a", "gnd", 1e-12), Capacitor("D", "b", "gnd", 1e-12),
        Inductor("L", "a", "b", 1e-8, flux=1e-16), JosephsonJunction("J", "a", "b", 1e-7),
    ]  # fmt: skip
    design = Netlist("free", parts, drives=[CurrentDrive("u", "a")]).compile()
    assert design.modes.converged
    assert len(design.frequencies_hz) == 2
