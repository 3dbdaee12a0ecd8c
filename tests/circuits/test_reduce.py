"""Coordinates that are eliminated: exactness against the full circuit, and refusal where it would not be exact."""

import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest
import scipy.linalg as la
from scipy.integrate import solve_ivp

from circuits import DesignError, Netlist
from circuits.generators import circuit
from circuits.reduce import reduce
from devices import (
    BilinearCoupler,
    Capacitor,
    CurrentDrive,
    Inductor,
    JosephsonJunction,
    Mass,
    Resistor,
    Spring,
    SymmetricVaractor,
)
from rhel_hw import return_error, reverse, simulate_design
from tests.systems import random_state

CHAIN = [
    Capacitor("C1", "a", "gnd", 1.0),
    Capacitor("C2", "b", "gnd", 1.0),
    Inductor("L1", "a", "gnd", 1.0),
    Inductor("L2", "a", "m", 1.0),
    Inductor("L3", "m", "b", 0.5),
    Inductor("L4", "b", "gnd", 2.0),
]


def test_massless_node_is_the_limit_of_a_small_capacitor():
    frequencies = Netlist("chain", CHAIN).compile().frequencies_hz
    errors = []
    for parasitic in (1e-3, 1e-4):
        full = Netlist("full", [*CHAIN, Capacitor("Cp", "m", "gnd", parasitic)]).compile().frequencies_hz
        errors.append(np.max(np.abs(full[:2] / frequencies - 1)))
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.05), "the error must be proportional to the parasitic"
    assert errors[1] < 1e-4


def test_driven_massless_node_follows_the_balance_of_forces():
    netlist = Netlist("driven", CHAIN, drives=[CurrentDrive("u", "m")])
    design = netlist.compile(step=0.005, steps=4000)
    times = (np.arange(4000) + 0.5) * 0.005
    run = simulate_design(design, {"u": 0.3 * np.sin(0.37 * times)})
    K = np.array([[2.0, -1.0, 0.0], [-1.0, 3.0, -2.0], [0.0, -2.0, 2.5]])

    def motion(t, z):
        drive = 0.3 * np.sin(0.37 * t)
        middle = (drive + z[0] + 2 * z[1]) / 3
        return [z[2], z[3], -2 * z[0] + middle, -2.5 * z[1] + 2 * middle]

    exact = solve_ivp(motion, (0, 20), np.zeros(4), "DOP853", rtol=1e-11, atol=1e-13).y[:, -1]
    got = run.positions_si()
    assert got["a"][-1] == pytest.approx(exact[0], abs=1e-5)  # leapfrog at step 0.005
    assert got["b"][-1] == pytest.approx(exact[1], abs=1e-5)
    force = K @ np.array([got["a"][-1], got["m"][-1], got["b"][-1]])
    assert force[1] == pytest.approx(0.3 * np.sin(0.37 * times[-1]), abs=1e-12), "nothing pushes the massless node"
    assert return_error(run, reverse(run)) < 1e-12


def test_floating_capacitor_pair_keeps_its_difference():
    """Two nodes joined by a capacitor, tied to the rest by inductors: one massless and one real coordinate."""
    parts = [
        Capacitor("C1", "a", "gnd", 1.0),
        Capacitor("C2", "b", "gnd", 1.0),
        Capacitor("Cf", "c", "d", 0.5),
        Inductor("La", "a", "gnd", 1.0),
        Inductor("Lb", "b", "gnd", 1.5),
        Inductor("Lac", "a", "c", 0.7),
        Inductor("Lbd", "b", "d", 0.9),
        Inductor("Lcd", "c", "d", 2.0),
    ]
    design = Netlist("pair", parts).compile()
    assert design.assembly.coordinates.counts == (3, 1, 0)
    full = Netlist("full", [*parts, Capacitor("p1", "c", "gnd", 1e-8), Capacitor("p2", "d", "gnd", 1e-8)]).compile()
    np.testing.assert_allclose(
        design.frequencies_hz, full.frequencies_hz[:3], rtol=1e-6
    )  # of the order of the parasitic


def test_cyclic_island_is_reduced_with_zero_charge():
    parts = [
        Capacitor("C0", "a", "gnd", 1.0),
        Capacitor("Cc", "a", "i", 0.4),
        Capacitor("Ci", "i", "gnd", 0.3),
        Inductor("L", "a", "gnd", 1.0),
    ]
    design = Netlist("island", parts).compile()
    assert design.assembly.coordinates.counts == (1, 0, 1)
    C = np.array([[1.4, -0.4], [-0.4, 0.7]])
    assert 2 * np.pi * design.frequencies_hz[0] == pytest.approx(np.sqrt(la.inv(C)[0, 0]), rel=1e-12)
    run = simulate_design(design, state=(np.array([0.5]), np.array([0.0])))
    got = run.positions_si()
    np.testing.assert_allclose(got["i"], got["a"] * 0.4 / 0.7, rtol=1e-12)  # capacitive divider
    np.testing.assert_allclose(run.momenta_si()["i"], 0, atol=1e-15)


def test_floating_tank_behind_capacitors_loses_its_common_mode_only():
    parts = [
        Capacitor("C0", "a", "gnd", 1.0),
        Inductor("L0", "a", "gnd", 1.0),
        Capacitor("Ca", "a", "p", 0.3),
        Capacitor("Cb", "q", "gnd", 0.2),
        Capacitor("Cpq", "p", "q", 0.5),
        Inductor("Lpq", "p", "q", 2.0),
    ]
    design = Netlist("tank", parts).compile()
    assert design.assembly.coordinates.counts == (2, 0, 1)
    C = np.array([[1.3, -0.3, 0.0], [-0.3, 0.8, -0.5], [0.0, -0.5, 0.7]])
    K = np.array([[1.0, 0, 0], [0, 0.5, -0.5], [0, -0.5, 0.5]])
    squares = np.sort(la.eigvals(la.solve(C, K)).real)
    np.testing.assert_allclose((2 * np.pi * design.frequencies_hz) ** 2, squares[1:], rtol=1e-10)
    assert abs(squares[0]) < 1e-12


def test_driven_island_is_kept():
    parts = [Capacitor("C0", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0), Capacitor("Cc", "a", "i", 0.4)]
    design = Netlist("island", parts, drives=[CurrentDrive("u", "i")]).compile(step=0.01, steps=500)
    assert design.assembly.coordinates.counts == (2, 0, 0)
    run = simulate_design(design, {"u": np.full(500, 0.2)})
    assert run.momenta_si()["i"][-1] == pytest.approx(0.2 * 5.0, rel=1e-12)  # the charge that was pumped in


@pytest.mark.parametrize(
    ("extra", "named", "word"),
    [
        (JosephsonJunction("J", "m", "gnd", 1e-6), "J", "no capacitance"),
        (Resistor("R", "m", "gnd", 50.0), "R", "no capacitance"),
    ],
)
def test_implicit_laws_are_refused(extra, named, word):
    with pytest.raises(DesignError) as caught:
        Netlist("implicit", [*CHAIN, extra]).compile()
    assert any(
        f.element == named and word in f.reason and "capacitor" in f.remedy for f in caught.value.legality.errors
    )


def test_floating_circuit_is_refused_with_its_nodes():
    with pytest.raises(DesignError, match="floats"):
        Netlist("float", [*CHAIN, Capacitor("Cx", "x", "y", 1.0), Inductor("Lx", "x", "y", 1.0)]).compile()


def test_varactor_in_a_loose_set_keeps_its_coordinate():
    """C and a varactor joined by L: ω² = (1/C₁ + 1/C₂)/L beside a free mode, in whatever order they are listed."""
    parts = [Capacitor("C", "a", "gnd", 1.0), SymmetricVaractor("V", "b", 1.0, 5.0), Inductor("L", "a", "b", 0.5)]
    for order in (parts, parts[::-1]):
        design = Netlist("loose", order).compile()
        np.testing.assert_allclose(2 * np.pi * design.frequencies_hz, [0, 2], atol=1e-6)


def test_massless_nodes_must_have_a_stable_position():
    parts = [
        Mass("m", "a", 1.0), Spring("ka", "a", "gnd", 1.0), Spring("k1", "a", "x", 1.0), Spring("k2", "y", "gnd", 1.0),
    ]  # fmt: skip
    Netlist("stable", [*parts, BilinearCoupler("g", "x", "y", 0.6)]).compile()
    for strength in (1.1, 2.0):
        with pytest.raises(DesignError, match="no stable position"):
            Netlist("saddle", [*parts, BilinearCoupler("g", "x", "y", strength)]).compile()
    with pytest.raises(DesignError, match="no stable position"):
        Netlist(
            "loose", [Mass("m", "a", 1.0), Spring("k", "a", "gnd", 1.0), BilinearCoupler("g", "a", "y", 0.1)]
        ).compile()


def test_lossy_circuit_beside_a_lone_capacitor():
    parts = [*CHAIN, Resistor("R", "a", "gnd", 50.0), Capacitor("Cz", "z", "gnd", 1.0)]
    design = Netlist("lone", parts).compile(steps=50)
    run = simulate_design(design, state=(np.array([1.0, 0.0]), np.zeros(2)))
    assert run.audit.lost.sum() > 0
    np.testing.assert_array_equal(run.positions_si()["z"], 0)


def test_cyclic_set_of_a_large_circuit_can_be_read_out():
    design = circuit(nx.path_graph(300), ground_inductance=None).replace(drives=()).compile(steps=20)
    assert design.assembly.coordinates.counts == (299, 0, 1)
    run = simulate_design(design, state=random_state(design, size=0.1))
    positions = np.array(list(run.positions_si().values()))
    # Equal capacitors and zero net charge: the mean position stays where it was.
    np.testing.assert_allclose(positions.mean(axis=0), 0, atol=1e-12 * np.abs(positions).max())


def test_partly_batched_parameters_with_massless_nodes():
    design = Netlist("chain", CHAIN).compile(steps=50)
    theta = design.theta()
    scale = jnp.asarray([1.0, 1.2])
    theta["capacitor.capacitance"] = theta["capacitor.capacitance"][:, None] * scale
    state = (np.array([1.0, 0.0]), np.zeros(2))
    together = simulate_design(design, theta=theta, state=state)
    for lane in range(2):
        own = design.theta()
        own["capacitor.capacitance"] = own["capacitor.capacitance"] * scale[lane]
        alone = simulate_design(design, theta=own, state=state)
        np.testing.assert_allclose(together.positions[..., lane], alone.positions, atol=1e-13)


def test_invertible_change_of_coordinates_on_random_graphs():
    """Whatever hangs loose where, W has as many rows as columns and is invertible."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        nodes = [f"n{i}" for i in range(6)]
        parts = [Capacitor("C0", "n0", "gnd", 1.0), Inductor("L0", "n0", "gnd", 1.0)]
        for i in range(9):
            a, b = rng.choice(nodes, 2, replace=False)
            parts.append((Capacitor if rng.random() < 0.5 else Inductor)(f"e{i}", str(a), str(b), 1.0))
        coordinates, _ = reduce(Netlist("random", parts))
        if coordinates is None:
            continue
        seen.add(coordinates.counts[1:])
        W = coordinates.W.toarray()
        assert W.shape == (len(coordinates.nodes),) * 2
        assert abs(abs(np.linalg.det(W)) - 1) < 1e-9
        np.testing.assert_allclose(
            coordinates.momenta.toarray(), np.linalg.inv(W).T[:, : coordinates.counts[0]], atol=1e-12
        )
    assert len(seen) > 4, "the draw must reach several kinds of reduction"
