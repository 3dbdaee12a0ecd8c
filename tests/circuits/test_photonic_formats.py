"""Photonic layouts: formulas of guides, places, sax's YAML with exact round trips, GDS read back, refusals."""

import math
from importlib.util import find_spec

import networkx as nx
import numpy as np
import pytest

from circuits import DesignError, Netlist
from circuits.formats import sax_yaml, touchstone
from circuits.formats.photonic_layout import bus_path, lay_out
from circuits.formats.placement import at_distances, on_grid
from circuits.formats.sax_trace import trace
from circuits.formats.waveguide import LIGHT, Waveguide, exit_power, hop_power
from devices import (
    ArgumentError,
    BeamSplitter,
    Capacitor,
    Cavity,
    CoherentDrive,
    CurrentDrive,
    EvanescentCoupler,
    Inductor,
    Ring,
)
from tests.circuits.electrical import assert_same_hamiltonian
from tests.circuits.photonic_designs import CARRIER, GALLERY, by_hand, fancy
from tests.exports.photonic import check_gds


def chain(nodes, pairs, *extra, rate=1e9, **given):
    rings = [Ring(f"R{n}", n, 3e8 * (i % 3), CARRIER, **given) for i, n in enumerate(nodes)]
    couplers = [EvanescentCoupler(f"J{a}{b}", a, b, rate) for a, b in pairs]
    return Netlist("chain", [*rings, *couplers, *extra], drives=[CoherentDrive("u", nodes[0])])


def designs():
    return [*(Netlist.load(name) for name in GALLERY), fancy()]


def hexagon():
    """Fits no square grid: its places are found in the plane."""
    return chain("abcdef", ["ab", "bc", "cd", "de", "ef", "fa"], external_q=1e7)


def refusals(netlist, write=sax_yaml.write):
    with pytest.raises(DesignError) as caught:
        write(netlist)
    return {f.element: f.reason for f in caught.value.legality.errors}


# Formulas ---------------------------------------------------------------------------------------------------------


def test_a_loop_resonates_at_its_frequency_with_the_stated_indices():
    guide = Waveguide()
    order = guide.order(CARRIER)
    assert order % 4 == 0
    for shift in (-2e9, 0.0, 3e9):
        length = guide.length(order, CARRIER + shift, CARRIER)
        # Index by the definition of the group index, n_g = n + f·dn/df, with n_g constant.
        index = guide.group_index - (guide.group_index - guide.index) * CARRIER / (CARRIER + shift)
        assert index * length == pytest.approx(order * LIGHT / (CARRIER + shift), rel=1e-14)
    length = guide.length(order, CARRIER, CARRIER)
    assert length / (2 * math.pi) == pytest.approx(guide.radius, rel=2 / order)
    # Neighbouring orders are one over the round trip apart.
    other = (order + 1) * LIGHT / length
    beyond = (other + (guide.group_index - guide.index) * CARRIER) / guide.group_index
    assert (beyond - CARRIER) * guide.round_trip(length) == pytest.approx(1, rel=1e-9)


def test_couplings_follow_their_laws():
    guide = Waveguide()
    assert hop_power(2e9, 1e-12) == pytest.approx((2e9 * 1e-12) ** 2, rel=1e-5)
    assert exit_power(1e8, 1e-12) == pytest.approx(1e-4, rel=1e-4)
    assert -math.log(1 - exit_power(3e10, 1e-11)) == pytest.approx(0.3, rel=1e-12)
    d = guide.decay(CARRIER)
    outside = math.sqrt(
        (guide.index * 2 * math.pi * CARRIER / LIGHT) ** 2 - (2 * math.pi * CARRIER * 1.444 / LIGHT) ** 2
    )
    assert d * outside == pytest.approx(1, rel=1e-12)  # k_z² + k_x² = (n_c·ω/c)² with k_x = i/d
    assert guide.gap(1e-4, CARRIER) - guide.gap(1e-4 * math.e**2, CARRIER) == pytest.approx(d, rel=1e-12)
    rate, length = 1e7, 3e-4
    survives = math.exp(-rate * guide.round_trip(length))
    assert 10 ** (-guide.loss(rate) * length * 100 / 10) == pytest.approx(survives, rel=1e-12)
    for wrong in ({"index": 1.0}, {"tap": 1.5}, {"radius": 0.0}, {"contact": 2.0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            Waveguide(**wrong)


# Places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("graph", "apart", "possible"),
    [
        (nx.path_graph(7), True, True), (nx.grid_2d_graph(4, 5), True, True), (nx.cycle_graph(8), True, True),
        (nx.star_graph(4), True, True), (nx.cycle_graph(6), True, False), (nx.cycle_graph(6), False, True),
        (nx.cycle_graph(5), False, False), (nx.star_graph(5), False, False), (nx.empty_graph(3), True, True),
    ],
)  # fmt: skip
def test_places_on_a_grid(graph, apart, possible):
    places = on_grid(graph, apart=apart)
    assert (places is not None) == possible
    if places:
        assert len(set(places.values())) == len(graph)
        near = {frozenset((a, b)) for a in graph for b in graph if math.dist(places[a], places[b]) == 1}
        edges = {frozenset(e) for e in graph.edges}
        assert near == edges if apart else near >= edges


def test_a_chain_is_straight_and_distances_are_met():
    places = on_grid(nx.path_graph(6), apart=True)
    assert len({y for _, y in places.values()}) == 1
    square = nx.grid_2d_graph(4, 4)
    rng = np.random.default_rng(0)
    wanted = {e: 1 + rng.uniform(0, 0.01) for e in square.edges}
    points = at_distances(on_grid(square, apart=True), wanted)
    found = [math.dist(points[a], points[b]) for a, b in wanted]
    np.testing.assert_allclose(found, list(wanted.values()), rtol=1e-12)


@pytest.mark.parametrize("net", [*designs(), hexagon()], ids=lambda n: n.name)
def test_layouts_keep_gaps_and_clearances(net):
    guide = Waveguide()
    layout = lay_out(net, guide)
    joined = {frozenset((c.a, c.b)): c for c in layout.couplers}
    rings = layout.rings
    for a in rings:
        for b in set(rings) - {a}:
            space = math.dist((rings[a].x, rings[a].y), (rings[b].x, rings[b].y)) - rings[a].radius - rings[b].radius
            c = joined.get(frozenset((a, b)))
            if c is None:
                assert space - guide.width >= guide.clearance
            else:
                assert space - guide.width == pytest.approx(c.gap, rel=1e-9)
                assert rings[a].sense == -rings[b].sense
    for bus in layout.buses:
        path = bus_path(rings[bus.node], bus, guide, 2001)
        for node, ring in rings.items():
            space = np.abs(np.hypot(*(path - (ring.x, ring.y)).T)).min() - ring.radius - guide.width
            assert space == pytest.approx(bus.gap, rel=1e-5) if node == bus.node else space >= guide.clearance
    for ring in rings.values():
        assert sum(length for *_, length in ring.arcs) == pytest.approx(ring.length, rel=1e-12)
        for stop in ring.stops:
            if stop.part.startswith("bus"):
                continue
            c = next(c for c in layout.couplers if c.name == stop.part)
            other = rings[c.b if c.a == ring.node else c.a]
            azimuth = math.atan2(other.y - ring.y, other.x - ring.x)
            off = stop.halves / (2 * ring.order) - ring.sense * azimuth / (2 * math.pi)
            assert abs(off - round(off)) <= 1.01 / ring.order  # half a wavelength, and half for a sign


# YAML -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", designs(), ids=lambda n: n.name)
def test_yaml_round_trip_is_exact(net):
    text = sax_yaml.write(net)
    read = sax_yaml.read(text)
    assert read == net
    assert sax_yaml.write(read) == text
    assert_same_hamiltonian(net, read)


@pytest.mark.parametrize("net", [*designs(), hexagon()], ids=lambda n: n.name)
def test_arcs_and_couplers_have_the_modes_of_the_hamiltonian(net):
    """Resonances to 0.1 % of the band, and the whole transmission against the linear response."""
    data = sax_yaml.tables(net)
    found = touchstone.response(net)
    at, width = found.resonances
    f = np.unique(np.concatenate([a + w * np.linspace(-3, 3, 41) for a, w in zip(at, width, strict=True)]))
    lines, expected = np.abs(by_hand(data, f)) ** 2, np.abs(found.scattering(f)[:, -1, 0]) ** 2
    assert 0.01 < expected.max() <= 1
    assert lines.max() <= 1  # passive
    for a, w in zip(at, width, strict=True):
        near = np.abs(f - a) < 3 * w
        shift = f[near][lines[near].argmax()] - f[near][expected[near].argmax()]
        assert abs(shift) < 1e-3 * np.ptp(at)
    # Without losses, which move resonances too, K has the modes of the Hamiltonian.
    lossless = np.linalg.eigvalsh(found.coupling) / (2 * math.pi)
    np.testing.assert_allclose(lossless, net.compile().frequencies_hz, rtol=1e-9)


def test_kerr_and_rates_stand_beside_the_geometry():
    data = sax_yaml.tables(Netlist.load("kerr-chain"))
    arc, crossing = data["instances"]["R3_arc0"], data["instances"]["J23"]
    assert arc["settings"]["kerr_shift_per_photon"] == 1.78
    assert arc["settings"]["detuning"] == pytest.approx(778e6, rel=1e-9)
    assert crossing["settings"]["rate"] == pytest.approx(729e6)
    assert set(arc["info"]["elements"]) == {"R3", "K3"}
    assert data["instances"]["bus_a1"]["settings"]["assumed"] is True


def test_what_contradicts_the_exact_settings_is_refused_by_name():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    net = chain("12", ["12"])

    def message(change):
        data = yaml.safe_load(sax_yaml.write(net))
        change(data)
        with pytest.raises(DesignError) as caught:
            sax_yaml.read(yaml.safe_dump(data))
        return str(caught.value)

    assert "instances.J12.settings.coupling" in message(
        lambda d: d["instances"]["J12"]["settings"].update(coupling=0.1)
    )
    assert "instances.R1_arc1" in message(lambda d: d["instances"].pop("R1_arc1"))
    assert "instances.extra" in message(lambda d: d["instances"].update(extra={"component": "straight"}))
    swapped = lambda d: d["connections"].update({"R1_arc0,out0": "J12,in1"})  # noqa: E731 (one change)
    assert "connections.R1_arc0,out0" in message(swapped)
    assert "instances.R1_arc0.settings.length" in message(
        lambda d: d["instances"]["R1_arc0"]["info"]["elements"]["R1"].update(detuning="1 GHz")
    )
    assert "info.waveguide" in message(lambda d: d["info"].update(waveguide={"colour": 1}))
    for text, words in (
        ("[1, 2", "not YAML"),
        ("a: 1", "no netlist"),
        ("- 1", "no netlist"),
        ("instances: {1: 2}", "no text"),
    ):
        with pytest.raises(DesignError, match=words):
            sax_yaml.read(text)
    assert "info.order" in message(lambda d: d["info"]["order"].pop())
    data = yaml.safe_load(sax_yaml.write(net))
    data["placements"]["R1_arc0"]["x"] += 100.0
    assert sax_yaml.read(yaml.safe_dump(data, sort_keys=True)) == net


@pytest.mark.parametrize("net", designs(), ids=lambda n: n.name)
def test_geometry_alone_has_the_same_hamiltonian(net):
    """Without the exact tables: frequencies, rates and losses come from lengths and couplings, signs from phases."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install pyyaml")
    data = sax_yaml.tables(net)
    del data["info"], data["placements"]
    for instance in data["instances"].values():
        instance.pop("info", None)
    ends = dict(data["connections"])  # either end may be named first, in any order
    data["connections"] = {ends[k]: k for k in reversed(ends)}
    read = sax_yaml.read(yaml.safe_dump(data, sort_keys=True))
    assert len(read.nodes) == len(net.nodes)
    # Rings differ by 1e-5 of their length: lengths to 16 digits are detunings to a hertz.
    np.testing.assert_allclose(read.compile().frequencies_hz, net.compile().frequencies_hz, rtol=1e-7)
    one, other = (touchstone.response(n) for n in (net, read))
    for rates in ("inner", "outer"):  # Q counts from f, or from f with the heater's shift
        np.testing.assert_allclose(np.sort(getattr(other, rates)), np.sort(getattr(one, rates)), rtol=1e-5)


def test_geometry_that_is_not_understood_is_refused_by_name():
    guide = {"component": "straight", "settings": {"length": 100.0, "neff": 2.0, "ng": 2.1, "wl0": 1.55}}
    crossing = {"component": "coupler_ideal", "settings": {"coupling": 0.01}}

    def message(**changes):
        data = {
            "instances": {"c": crossing, "w": guide},
            "connections": {"c,out1": "w,in0", "w,out0": "c,in1"},
            "ports": {"in": "c,in0", "out": "c,out0"},
        }
        data |= changes
        with pytest.raises(DesignError) as caught:
            trace(data, "x")
        return str(caught.value)

    assert "instances.m" in message(instances={"c": crossing, "w": guide, "m": {"component": "mmi1x2"}})
    assert "instances.w.settings.ng" in message(
        instances={"c": crossing, "w": {"component": "straight", "settings": {"length": 1.0, "neff": 2.0}}}
    )
    strong = {"component": "coupler_ideal", "settings": {"coupling": 1.0}}
    assert "instances.c.settings.coupling" in message(instances={"c": strong, "w": guide})
    assert "connections.q,in0" in message(connections={"c,out1": "q,in0"})
    assert "connections.c,in1" in message(connections={"c,out1": "c,in1", "w,out0": "c,in1"})
    assert "instances" in message(connections={})
    itself = {"c,out1": "w,in0", "w,out0": "c,in0", "c,out0": "v,in0", "v,out0": "c,in1"}
    assert "to itself" in message(instances={"c": crossing, "w": guide, "v": guide}, connections=itself)
    other = {"component": "straight", "settings": guide["settings"] | {"wl0": 1.3}}
    two = {"c,out1": "w,in0", "w,out0": "c,in1", "c,out0": "v,in0", "v,out0": "c,in0"}
    assert "wl0" in message(instances={"c": crossing, "w": guide, "v": other}, connections=two)


# GDS --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", designs()[:2], ids=lambda n: n.name)
def test_gds_is_read_back(net, tmp_path):
    if find_spec("gdstk") is None:
        pytest.skip("gdstk is not installed: pip install 'rhel-hw[hardware]'")
    from circuits.formats import gds

    data = gds.write(net)
    assert data == gds.write(net)
    check_gds(net, {"layout.gds": data}, tmp_path)


# Refusals ---------------------------------------------------------------------------------------------------------


def test_refusals_name_what_they_are_about():
    lc = [Capacitor("C1", "n", "gnd", "1 pF"), Inductor("L1", "n", "gnd", "1 nH")]
    mixed = Netlist("lc", [Ring("R", "a"), Cavity("O", "b", "5 GHz"), *lc], drives=[CurrentDrive("i", "n")])
    found = refusals(mixed)
    assert set(found) == {"C1", "L1", "O", "i"}
    assert "capacitor" in found["C1"]
    assert set(refusals(chain("ab", [], BeamSplitter("B", "a", "b", 1e-9)))) == {"B"}
    assert set(refusals(chain("abc", ["ab", "bc", "ca"]))) == {"Jab"}
    assert "odd loop" in refusals(chain("abc", ["ab", "bc", "ca"]))["Jab"]
    assert set(refusals(chain("ab", ["ab"], EvanescentCoupler("J2", "b", "a", 1e9)))) == {"J2"}
    assert set(refusals(chain("ab", ["ab"], rate=4e12))) == {"Jab"}
    assert set(refusals(chain("ab", ["ab"], rate=0.0))) == {"Jab"}
    assert set(refusals(chain("ab", ["ab"], external_q=50.0))) == {"Ra", "Rb"}
    assert set(refusals(chain("ab", []))) == {"Rb"}
    assert set(refusals(chain("ab", ["ab"]).replace(drives=()))) == {"design"}
    assert set(refusals(Netlist("slow", [Ring("R", "a", carrier=5e9)], [CoherentDrive("u", "a")]))) == {"R"}
    star = chain("abcdefgh", [f"a{n}" for n in "bcdefgh"])
    assert all("too close" in reason for reason in refusals(star).values())


def test_a_missing_library_is_named(monkeypatch):
    from circuits.formats import gds

    def missing(name):
        raise ImportError(name)

    for module, words in ((sax_yaml, "pip install pyyaml"), (gds, "hardware")):
        monkeypatch.setattr(module, "import_module", missing)
        with pytest.raises(ArgumentError, match=words):
            module.write(Netlist.load("kerr-chain"))
