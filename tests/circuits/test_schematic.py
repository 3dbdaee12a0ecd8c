"""Schematics: every element is drawn with its name, and no label lies on another, on a wire or off the sheet."""

import re
from itertools import combinations, pairwise
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

SVG = "{http://www.w3.org/2000/svg}"
SHARE = {"start": 0.0, "middle": 0.5, "end": 1.0}
EM = 0.6
"""Width of a letter over the size; DejaVu Sans has 0.55 on average in such labels."""


def boxes(root):
    """Left, top, right, bottom and content of every line of text but those on symbols."""
    for item in root.iter(SVG + "text"):
        if item.get("paint-order"):
            continue
        size, x, y = (float(item.get(k)) for k in ("font-size", "x", "y"))
        width = EM * size * len(item.text or "")
        left = x - SHARE[item.get("text-anchor")] * width
        if item.text:
            yield left, y - 0.75 * size, left + width, y + 0.2 * size, item.text


def wires(root):
    """Ends of every straight wire."""
    for path in root.findall(SVG + "path"):
        if re.fullmatch(r"M[-\d. ]+(L[-\d. ]+)+", path.get("d")):
            points = [tuple(map(float, p.split())) for p in path.get("d")[1:].split("L")]
            yield from pairwise(points)


def check(svg):
    root = ElementTree.fromstring(svg)
    found = list(boxes(root))
    wide, high = float(root.get("width")), float(root.get("height"))
    for left, top, right, bottom, text in found:
        assert left >= 0, text
        assert top >= 0, text
        assert right <= wide, text
        assert bottom <= high, text
    for a, b in combinations(found, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{a[4]!r} lies on {b[4]!r}"
    for (x1, y1), (x2, y2) in wires(root):
        for left, top, right, bottom, text in found:
            crossed = min(x1, x2) < right and max(x1, x2) > left and min(y1, y2) < bottom and max(y1, y2) > top
            assert not crossed, f"a wire crosses {text!r}"
    return {box[4] for box in found}


def names(net):
    return {e.name for e in net.elements if e.terminals} | {d.name for d in net.drives if d.terminals}


def shows(texts, name):
    return any(re.search(rf"(^|: ){re.escape(name)}($|,)", text) for text in texts)


@pytest.mark.parametrize("name", GALLERY)
def test_every_gallery_design_is_drawn_without_overlaps(name):
    net = Netlist.load(name)
    texts = check(schematic.write(net))
    assert net.name in texts
    for part in (*names(net), *net.nodes):
        assert shows(texts, part) or any(t.startswith(f"{part}:") for t in texts), part
    for target in net.targets:
        assert any(f"target {target.name}" in t for t in texts)
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
