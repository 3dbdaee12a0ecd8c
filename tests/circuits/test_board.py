"""Boards: KiCad netlists read back by a parser of their own, and bills of materials that count every part."""

import csv
import io
import re

import pytest
from hypothesis import given, settings

from circuits import DesignError, Netlist, Probes
from circuits.eseries import nearest
from circuits.formats import bom, kicad
from circuits.gallery import GALLERY
from devices import (
    ArgumentError,
    Capacitor,
    CurrentDrive,
    FluxDrive,
    Inductor,
    JosephsonJunction,
    MutualInductance,
    Resistor,
    SaturableInductor,
    Tank,
    VoltageDrive,
)
from tests.circuits.netlists import netlists
from tests.exports.board import by_kinparse, connections, field, graph_connections, parse, read_back, section

BOARD = {"capacitor", "inductor", "resistor", "tank", "saturable"}


def demo() -> Netlist:
    parts = [
        Capacitor("C1", "a", "gnd", "1.05 nF", tolerance="5 %"),
        Capacitor("Ck", "b", "gnd", "1.05 nF", tolerance="5 %"),
        Capacitor("C2", "b", "c", "1.05 nF"),
        Inductor("L-1", "a", "b", "20.1 uH"),
        Inductor("R1", "c", "gnd", "20.1 uH"),
        Resistor("shunt", "a", "gnd", "9.9 kohm"),
        Tank("T", "c", "b", "0.5 nF", "3.4 uH"),
        SaturableInductor("S", "c", "a", "10 uH", "1 mA"),
    ]
    drives = [CurrentDrive("u0", "a", "b"), VoltageDrive("v0", "c")]
    return Netlist('a "quoted" \\ name', parts, drives, Probes(("a",), ("c",)))


@pytest.mark.parametrize("net", [demo(), Netlist.load("lc-toy")], ids=lambda n: n.name[:3])
def test_kicad_connects_what_the_graph_connects(net):
    text = kicad.write(net)
    assert connections(text) == graph_connections(net)
    components, pins = read_back(text)
    probed = {n for n in net.nodes if net.probes.sees_position(n) or net.probes.sees_momentum(n)}
    assert {pins[r, 1] for r in components if r.startswith("TP")} == probed
    assert all(re.fullmatch("(C|L|R|J|TP)[1-9][0-9]*", reference) for reference in components)
    assert all(":" in field(c, "footprint") for c in components.values())
    assert kicad.write(net) == text
    assert field(section(parse(text), "design")[0], "source") == net.name


@pytest.mark.parametrize("net", [demo(), Netlist.load("lc-toy")], ids=lambda n: n.name[:3])
def test_another_parser_of_kicad_netlists_reads_the_same(net):
    text = kicad.write(net)
    components, pins = read_back(text)
    assert by_kinparse(text) == ({r: field(c, "value") for r, c in components.items()}, pins)


@settings(max_examples=30)
@given(netlists(kinds=("capacitor", "inductor", "resistor", "tank", "saturable")))
def test_any_board_is_connected_as_its_graph(net):
    if net is None or any(d.type not in ("current", "voltage") for d in net.drives):
        return
    if any(e.values.get("flux") for e in net.elements):
        with pytest.raises(DesignError, match="flux"):
            kicad.write(net)
        return
    assert connections(kicad.write(net)) == graph_connections(net)


def test_references_that_fit_are_kept_and_values_are_printed():
    components, _ = read_back(kicad.write(demo()))
    by_name = {}
    for reference, c in components.items():
        by_name.setdefault({field(p, "name"): field(p, "value") for p in section(c, "property")}["Element"], []).append(
            (reference, field(c, "value"))
        )
    assert by_name["C1"] == [("C1", "1.05 nF")]
    assert by_name["C2"] == [("C2", "1.05 nF")]
    assert by_name["Ck"] == [("C3", "1.05 nF")]
    assert by_name["R1"][0][0].startswith("L")  # an inductor that is called R1 must not look like a resistor
    assert by_name["S"][0][1] == "10 uH, saturates at 1 mA"
    assert {r[0] for r, _ in by_name["T"]} == {"C", "L"}


def test_the_bill_counts_every_part_once():
    stress = {"C1": bom.Stress(1.5, 2e-3), "Ck": bom.Stress(2.5, 1e-3), "T": bom.Stress(0.5, 4e-3)}
    rows = list(csv.DictReader(io.StringIO(bom.write(demo(), "E24", stress))))
    references = [r for row in rows for r in row["References"].split()]
    components, _ = read_back(kicad.write(demo()))
    assert sorted(references) == sorted(components)
    assert all(int(row["Quantity"]) == len(row["References"].split()) for row in rows)
    by_reference = {r: row for row in rows for r in row["References"].split()}
    pair = by_reference["C1"]
    assert pair["References"] == "C1 C3"  # C2 has the same value, but another tolerance
    assert pair["Elements"] == "C1 Ck"
    assert float(pair["Value (SI)"]) == 1.05e-9
    assert (pair["Tolerance"], pair["Peak voltage (V)"], pair["Peak current (A)"]) == ("0.05", "2.5", "0.002")
    for row in rows:
        if row["Value (SI)"]:
            value = float(row["Value (SI)"])
            assert float(row["Shift"].strip("%")) == pytest.approx(100 * (nearest(value, "E24") / value - 1), abs=0.006)
    assert by_reference["C2"]["Peak voltage (V)"] == ""
    tank = [row for row in rows if row["Peak current (A)"] == "0.004"]
    assert [row["Part"] for row in tank] == ["Capacitor", "Inductor"]
    assert [row["Elements"] for row in tank] == ["T", "T"]


def test_strange_stress_is_refused():
    with pytest.raises(ArgumentError, match="no element; did you mean `C1`"):
        bom.write(demo(), stress={"C11": bom.Stress(1, 1)})


@pytest.mark.parametrize("write", [kicad.write, bom.write])
def test_what_is_no_part_of_a_board_is_refused_by_name(write):
    parts = [
        Capacitor("C1", "a", "gnd", 1e-12),
        JosephsonJunction("J1", "a", "gnd", 1e-6),
        Inductor("L1", "a", "gnd", 1e-9, 1e-16),
        Inductor("L2", "a", "gnd", 1e-9),
        MutualInductance("K1", "L1", "L2", 0.1),
    ]
    with pytest.raises(DesignError) as caught:
        write(Netlist("n", parts, [FluxDrive("f", "L2")]))
    assert {f.element for f in caught.value.legality.errors} == {"J1", "L1", "K1", "f"}
    assert "export as SPICE or as" in str(caught.value)
    with pytest.raises(DesignError, match="Remedy: export as a TOML"):  # SPICE has no ring either
        write(Netlist.load("kerr-chain"))
    for name in GALLERY:
        net = Netlist.load(name)
        if {e.type for e in net.elements} - BOARD:
            with pytest.raises(DesignError, match="no part of a board"):
                write(net)
