"""Netlists: round trips, order, and that nothing drawn at random ends in a traceback."""

import random

import networkx as nx
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from circuits import DesignError, Netlist, Target, examine
from circuits.formats import toml
from circuits.generators import grid, ladder, six_oscillators
from devices import BilinearCoupler, Capacitor, CurrentDrive, Inductor, Mass
from rhel_hw import DivergedError, return_error, reverse, simulate_design
from tests.circuits.netlists import netlists
from tests.systems import LOSSLESS, random_state


@settings(max_examples=25)
@given(netlists())
def test_toml_round_trip_is_the_identity(netlist):
    assume(netlist is not None)
    text = netlist.to_toml()
    again = toml.read(text)
    assert again == netlist
    assert again.to_toml() == text


@settings(max_examples=20)
@given(netlists())
def test_graph_round_trip_is_the_identity(netlist):
    assume(netlist is not None)
    graph = netlist.to_graph()
    assert isinstance(graph, nx.MultiGraph)
    assert Netlist.from_graph(graph) == netlist


@settings(max_examples=25)
@given(netlists())
def test_random_netlists_compile_or_give_findings(netlist):
    assume(netlist is not None)
    legality, design = examine(netlist)
    if design is None:
        assert legality.errors
        for finding in legality.errors:
            assert finding.element
            assert finding.reason
            assert finding.remedy
    else:
        assert legality.legal
        assert np.all(np.isfinite(design.frequencies_hz))


@settings(max_examples=5)
@given(netlists(tuple(LOSSLESS)))
def test_what_compiles_runs_and_returns(netlist):
    assume(netlist is not None)
    _, design = examine(netlist)
    assume(design is not None)
    try:
        run = simulate_design(design, state=random_state(design, size=1e-3))
    except DivergedError:
        return
    # Random waveforms can be huge against the circuit's own scale, where a junction's phase winds up round-off.
    assert return_error(run, reverse(run)) < 1e-6


@pytest.mark.slow
@settings(max_examples=15)
@given(netlists(("capacitor", "inductor", "josephson", "saturable", "mutual", "tank")), st.randoms())
def test_element_order_does_not_change_physics(netlist, rng):
    assume(netlist is not None)
    shuffled = list(netlist.elements)
    rng.shuffle(shuffled)
    first, second = examine(netlist)[1], examine(netlist.replace(elements=shuffled))[1]
    assert (first is None) == (second is None)
    assume(first is not None and second is not None)
    np.testing.assert_allclose(
        second.frequencies_hz, first.frequencies_hz, rtol=1e-6, atol=1e-6 * first.frequencies_hz[-1]
    )
    assert second.step_s == pytest.approx(first.step_s, rel=1e-9)


def test_element_order_gives_the_same_trajectory():
    netlist = grid(3, 3, spread=0.3, mutual=0.3, coupling_capacitance="0.2 pF")
    shuffled = list(netlist.elements)
    random.Random(1).shuffle(shuffled)
    runs = []
    for parts in (netlist.elements, shuffled):
        design = netlist.replace(elements=parts).compile(step="2 ps", steps=300)
        runs.append(simulate_design(design, {"u0": 1e-6 * np.sin(0.02 * np.arange(300))}).positions_si())
    size = max(np.max(np.abs(v)) for v in runs[0].values())
    for node, signal in runs[0].items():
        np.testing.assert_allclose(runs[1][node], signal, atol=1e-12 * size)


def test_is_immutable_and_replaces():
    netlist = six_oscillators()
    with pytest.raises(AttributeError):
        netlist.name = "other"
    assert netlist.replace(name="other").name == "other"
    assert netlist.name == "six coupled oscillators"


def test_targets_may_be_plain_nodes():
    assert ladder(3).targets == (Target("n2", "n2"),)


def test_all_faults_are_reported_together():
    with pytest.raises(DesignError) as caught:
        Netlist("bad", [Capacitor("C", "a", "a", 1.0), Mass("m", "b", 1.0), Inductor("L", "b", "a", 1.0)],
                drives=[CurrentDrive("u", "nowhere")], targets=["gone"])  # fmt: skip
    named = {f.element for f in caught.value.legality.errors}
    assert named == {"C", "L", "u", "targets.gone"}


def test_coupler_dimension_depends_on_what_it_joins():
    parts = [Capacitor("C", "a", "gnd", 1.0), Inductor("L", "a", "gnd", 1.0), Mass("m", "x", 1.0)]
    Netlist("right", [*parts, BilinearCoupler("g", "a", "x", "0.1 A/m")])  # J/(Wb·m) is A/m
    with pytest.raises(DesignError, match="J/Wb/m"):
        Netlist("wrong", [*parts, BilinearCoupler("g", "a", "x", "0.1 N/m")])


def test_readers_of_graphs_ask_for_elements():
    graph = nx.MultiGraph()
    graph.add_edge("a", "gnd")
    with pytest.raises(DesignError, match="element"):
        Netlist.from_graph(graph)
