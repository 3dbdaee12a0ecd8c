"""Normal modes against independent eigen-solves that never see the compiler."""

import networkx as nx
import numpy as np
import pytest
import scipy.linalg as la

from circuits import Netlist
from circuits.generators import all_to_all, grid, ladder, random_regular, ring, six_oscillators
from devices import BilinearCoupler, Capacitor, Inductor, Mass, Spring


def modified_nodal_frequencies(netlist: Netlist) -> np.ndarray:
    """Frequencies of an LC circuit from its state-space form C·v̇ = −A·i, L·i̇ = Aᵀv: voltages and currents, in SI."""
    nodes = {n: i for i, n in enumerate(netlist.nodes)}
    coils = [e for e in netlist.elements if e.type == "inductor"]
    C, A, L = np.zeros((len(nodes),) * 2), np.zeros((len(nodes), len(coils))), np.diag([e.inductance for e in coils])
    for e in netlist.elements:
        if e.type == "capacitor":
            row = np.array([(n == e.a) - (n == e.b) for n in nodes], float)
            C += e.capacitance * np.outer(row, row)
    for k, e in enumerate(coils):
        A[:, k] = [(n == e.a) - (n == e.b) for n in nodes]
    index = {e.name: k for k, e in enumerate(coils)}
    for e in netlist.elements:
        if e.type == "mutual":
            a, b = index[e.first], index[e.second]
            L[a, b] = L[b, a] = e.coefficient * np.sqrt(L[a, a] * L[b, b])
    # Scaled to comparable numbers; eigenvalues come as ±iω, and zero for currents that circulate in loops.
    c0, l0 = C.max(), L.max()
    top = -la.solve(C / c0, A)
    bottom = la.solve(L / l0, A.T)
    squares = -np.linalg.eigvals(top @ bottom).real / (c0 * l0)
    return np.sort(np.sqrt(np.maximum(squares, 0))) / (2 * np.pi)


CIRCUITS = {
    "ladder": lambda: ladder(20, coupling_capacitance="0.3 pF", mutual=0.4, spread=0.3, seed=1),
    "ladder without ground inductors": lambda: ladder(12, ground_inductance=None, mutual=-0.5, spread=0.2, seed=2),
    "ring": lambda: ring(17, coupling_capacitance="0.2 pF", spread=0.3, seed=3),
    "grid": lambda: grid(5, 7, coupling_capacitance="0.1 pF", mutual=0.3, spread=0.3, seed=4),
    "all-to-all": lambda: all_to_all(9, coupling_capacitance="50 fF", mutual=0.2, spread=0.3, seed=5),
    "random regular": lambda: random_regular(40, 3, coupling_capacitance="0.5 pF", mutual=-0.3, spread=0.4, seed=6),
}


@pytest.mark.parametrize("name", CIRCUITS)
def test_frequencies_equal_modified_nodal_analysis(name):
    netlist = CIRCUITS[name]()
    design = netlist.compile()
    expected = modified_nodal_frequencies(netlist)
    # The free mode of a circuit without inductors to ground is zero in both, up to round-off of the square.
    scale = expected[-1]
    np.testing.assert_allclose(design.frequencies_hz**2, expected**2, rtol=2e-10, atol=1e-13 * scale**2)
    assert design.frequencies_hz[-1] == pytest.approx(expected[-1], rel=1e-10)


def test_six_oscillators_equal_their_matrices():
    netlist = six_oscillators(seed=3)
    M = np.diag([e.mass for e in netlist.elements if e.type == "mass"])
    K = np.zeros((6, 6))
    index = {f"x{i}": i - 1 for i in range(1, 7)}
    for e in netlist.elements:
        if e.type == "spring":
            row = np.zeros(6)
            row[index[e.a]] = 1
            if e.b != "gnd":
                row[index[e.b]] = -1
            K += e.constant * np.outer(row, row)
    expected = np.sqrt(la.eigh(K, M, eigvals_only=True)) / (2 * np.pi)
    np.testing.assert_allclose(netlist.compile().frequencies_hz, expected, rtol=1e-12)


def test_infinite_ladder_band_edges():
    """ω² = (1/C)(1/L₀ + 4/L·sin²(k/2)): a long ladder fills the band between k = 0 and k = π."""
    design = ladder(400, capacitance="1 pF", ground_inductance="10 nH", inductance="40 nH").compile()
    low = 1 / np.sqrt(1e-12 * 10e-9)
    high = np.sqrt((1 / 10e-9 + 4 / 40e-9) / 1e-12)
    k = np.pi * np.arange(400) / 400  # free ends
    expected = np.sqrt((1 / 10e-9 + 4 / 40e-9 * np.sin(k / 2) ** 2) / 1e-12)
    np.testing.assert_allclose(2 * np.pi * design.frequencies_hz, expected, rtol=1e-10)
    assert low <= 2 * np.pi * design.frequencies_hz[0] * (1 + 1e-12)
    assert 2 * np.pi * design.frequencies_hz[-1] < high


def test_electromechanical_normal_modes():
    """Two coordinates of different domains joined by g·φ·x: ω² are the roots of a 2×2 problem."""
    c, coil, m, k = 1e-12, 1e-6, 1e-12, 1e6
    g = 0.3 * np.sqrt(k / coil)
    parts = [
        Capacitor("C", "a", "gnd", c),
        Inductor("L", "a", "gnd", coil),
        Mass("m", "x", m),
        Spring("k", "x", "gnd", k),
        BilinearCoupler("g", "a", "x", f"{g:.17g} J/Wb/m"),
    ]
    expected = np.sqrt(la.eigh([[1 / coil, g], [g, k]], np.diag([c, m]), eigvals_only=True)) / (2 * np.pi)
    np.testing.assert_allclose(Netlist("em", parts).compile().frequencies_hz, expected, rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [nx.path_graph(2000), nx.grid_2d_graph(45, 45)], ids=["ladder", "grid"])
def test_sparse_ends_of_the_spectrum(graph):
    """Beyond the dense limit only the ends are computed; they agree with the full solve to the stated tolerance."""
    from circuits.generators import circuit

    netlist = circuit(graph, spread=0.2, seed=1, coupling_capacitance="0.1 pF")
    design = netlist.compile()
    assert not design.modes.complete
    from circuits.assemble import inertia_matrix
    from circuits.linear import EDGE_TOLERANCE, stiffness_matrix

    K, M = stiffness_matrix(design.assembly).toarray(), inertia_matrix(design.assembly).toarray()
    full = la.eigh(K, M, eigvals_only=True)
    np.testing.assert_allclose(design.modes.squares, full[[0, -1]], rtol=EDGE_TOLERANCE)
    from circuits.linear import highest_rate

    assert highest_rate(design.assembly) ** 2 >= full[-1]
