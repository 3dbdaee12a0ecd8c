"""Schematics: every element is drawn with its name, and no label lies on another, on a wire or off the sheet."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from circuits import DesignError, Netlist
from circuits.formats import schematic
from circuits.gallery import GALLERY
from devices import (
    Capacitor,
    CurrentDrive,
    FluxDrive,
    Gyrator,
    Inductor,
    JosephsonJunction,
    MutualInductance,
    Ring,
    VoltageDrive,
)
from tests.circuits.netlists import netlists
from tests.exports.drawing import SVG, check, check_schematic, names, shows, wires


@pytest.mark.parametrize("name", GALLERY)
def test_every_gallery_design_is_drawn_without_overlaps(name):
    net = Netlist.load(name)
    check_schematic(net, {"schematic.svg": schematic.write(net).encode()}, None)
    assert schematic.write(Netlist.load(name)) == schematic.write(net)


def test_a_lattice_is_drawn_as_one():
    """Rings lie on a grid, and links between them are straight; arrows of drives and detectors are shorter."""
    svg = ElementTree.fromstring(schematic.write(Netlist.load("ring-lattice")))
    places = [g.get("transform") for g in svg.iter(SVG + "g") if g[0].tag == SVG + "circle"]
    points = [tuple(map(float, re.search(r"translate\((\S+) (\S+)\)", p).groups())) for p in places]
    assert len(points) == 9
    assert len({x for x, _ in points}) == len({y for _, y in points}) == 3
    assert all(x1 == x2 or y1 == y2 for (x1, y1), (x2, y2) in wires(svg) if abs(x1 - x2) + abs(y1 - y2) > 50)


def test_values_are_printed_with_units():
    texts = check(schematic.write(Netlist.load("lc-toy")))
    assert {"20.1 µH", "1.05 nF", "sine 1 mA", "1.1 MHz"} <= texts
    texts = check(schematic.write(Netlist.load("mixed")))
    assert {"8.354 MN/m", "10 pg", "5.2 GHz", "magnetisation 140 kA/m"} <= texts


@settings(max_examples=100)
@given(netlists())
def test_any_netlist_is_drawn_without_overlaps(net):
    if net is None:
        return
    if any(len(e.terminals) > 2 for e in net.elements):
        with pytest.raises(DesignError, match="more than two nodes"):
            schematic.write(net)
        return
    texts = check(schematic.write(net))
    assert all(shows(texts, name) for name in names(net))


def test_long_ladders_go_on_below_and_parallel_branches_side_by_side():
    nodes = [f"n{k}" for k in range(12)]
    parts = [Capacitor(f"C{n}", n, "gnd", "1 pF") for n in nodes]
    parts += [Inductor(f"L{k}", a, b, "1 nH") for k, (a, b) in enumerate(pairwise(nodes))]
    parts += [Capacitor("Cp", "n3", "n4", "2 fF"), JosephsonJunction("Jp", "n4", "n3", "1 uA")]
    parts += [MutualInductance("K1", "L0", "L1", 0.1)]
    net = Netlist("ladder", parts, [VoltageDrive("V", "n11"), CurrentDrive("I", "n0", "n1"), FluxDrive("f", "L3")])
    svg = schematic.write(net)
    texts = check(svg)
    assert names(net) <= texts
    assert "K1 couples L0 and L1: coefficient 0.1" in texts
    assert "fed by f" in texts
    assert float(ElementTree.fromstring(svg).get("width")) < 1800


@pytest.mark.parametrize(
    ("ends", "angle"), [(("a", "b"), None), (("b", "a"), 180), (("a", "gnd"), 90), (("gnd", "a"), 270)]
)
def test_arrows_of_current_sources_point_to_where_the_current_is_injected(ends, angle):
    """The arrow of the symbol points to −x: to the left, and up once it is turned by 90° clockwise."""
    parts = [Capacitor("Ca", "a", "gnd", 1e-12), Inductor("L", "a", "b", 1e-9), Capacitor("Cb", "b", "gnd", 1e-12)]
    svg = schematic.write(Netlist("n", parts, [CurrentDrive("I", *ends)]))
    groups = [g for g in ElementTree.fromstring(svg).iter(SVG + "g") if "L-8 0L-3 4" in g[0].get("d")]
    (turn,) = [re.search(r"rotate\((\d+)\)", g.get("transform")) for g in groups]
    assert (turn and int(turn[1])) == angle


def test_names_are_escaped_and_one_node_suffices():
    net = Netlist("a < b & c", [Ring("R1", "a", detuning="1 GHz")])
    assert "a < b & c" in check(schematic.write(net))


def test_what_cannot_be_drawn_is_refused_by_name():
    net = Netlist("n", [Gyrator("G1", "a", "b", "c", "d", "1 mA/V")])
    with pytest.raises(DesignError, match="G1"):
        schematic.write(net)
