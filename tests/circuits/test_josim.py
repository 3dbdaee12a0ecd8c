"""JoSIM and WRspice: decks that our own reader turns back into the same circuit, in the forms that both allow."""

import re

import numpy as np
import pytest
from hypothesis import given, settings

from circuits import Clock, DesignError, Initial, Netlist
from circuits.formats import josim, spice
from circuits.formats.josim import JOSIM, WRSPICE
from circuits.gallery import GALLERY
from devices import (
    Capacitor,
    Constant,
    CurrentDrive,
    FluxDrive,
    Inductor,
    JosephsonJunction,
    MutualInductance,
    Points,
    Pulse,
    Resistor,
    SaturableInductor,
    Sine,
    Squid,
    SymmetricVaractor,
    Tank,
    VoltageDrive,
)
from tests.circuits.netlists import netlists
from tests.exports.electrical import readable, wiring


def ladder() -> Netlist:
    parts = [Capacitor(f"C{n}", n, "gnd", "1 pF") for n in ("a", "b.1", "c")]
    parts += [
        JosephsonJunction("J1", "a", "gnd", "300 nA"),
        JosephsonJunction("jB", "c", "b.1", "400 nA"),
        JosephsonJunction("J3", "c", "gnd", "300 nA"),
        Inductor("L1", "a", "b.1", "1.5 nH"),
        Inductor("other", "b.1", "gnd", "2 nH"),
        MutualInductance("K1", "L1", "other", 0.2),
        Tank("T", "c", "gnd", "0.2 pF", "1 nH"),
        Capacitor("Cs", "s", "a", "0.2 pF"),
    ]
    drives = [
        VoltageDrive("V1", "s", waveform=Sine("8 uV", "5 GHz")),
        CurrentDrive("u", "c", "a", waveform=Points((0.0, 1e-10, 2e-10), (0.0, 5e-8, 0.0))),
    ]
    return Netlist("a ladder", parts, drives, clock=Clock("1 ps", 400))


@pytest.mark.parametrize("dialect", [JOSIM, WRSPICE], ids=lambda d: d.name)
def test_decks_read_back_are_the_same_circuit(dialect):
    net = ladder()
    back = spice.read(readable(josim.write(net, dialect)))
    assert wiring(back) == wiring(net, {"b.1": "b_1"})
    times = np.linspace(0, 4e-10, 401)
    assert len(back.drives) == len(net.drives)
    for ours, theirs in zip(net.drives, back.drives, strict=True):
        assert theirs.nodes == ours.nodes
        assert np.array_equal(theirs.waveform.sample(times), ours.waveform.sample(times))
    # The linear part has the same modes: those hear the sign of the coupling. Only the order of sums differs.
    found = [n.replace(elements=[e for e in n.elements if e.type != "josephson"]) for n in (net, back)]
    ours, theirs = (n.compile().frequencies_hz for n in found)
    assert theirs == pytest.approx(ours, rel=1e-10)


@settings(max_examples=40)
@given(netlists(kinds=("capacitor", "inductor", "resistor", "tank", "josephson")))
def test_any_circuit_comes_back_or_is_refused_by_name(net):
    if net is None:
        return
    for dialect in (JOSIM, WRSPICE):
        try:
            text = josim.write(net.replace(clock=Clock(1e-12, 10)), dialect)
        except DesignError as problem:
            named = {f.element for f in problem.legality.errors}
            known = {p.name for p in (*net.elements, *net.drives)} | {f"initial.positions.{n}" for n in net.nodes}
            assert named <= known
            continue
        assert wiring(spice.read(readable(text))) == wiring(net)


def test_forms_of_both_simulators():
    """What the syntax guides ask for: labels without . and |, DST-free .tran, a model per critical current."""
    text = josim.write(ladder(), JOSIM)
    lines = text.splitlines()
    labels = [word for line in lines if line[0].isalpha() for word in line.split()[:3]]
    assert all(re.fullmatch(r"\w+", label) for label in labels)
    models = [line for line in lines if line.startswith(".model")]
    assert [re.search(r"icrit=([^,]+),", m)[1] for m in models] == ["3e-07", "4e-07"]
    assert all("rtype=0" in m and "cap=0" in m and "r0=1e12" in m for m in models)
    assert "BJ1 a 0 jj1" in lines
    assert "BjB c b_1 jj2" in lines
    assert "K1 L1 Lother 0.2" in lines
    assert "Iu a c pwl(0.0 0.0 1e-10 5e-08 2e-10 0.0)" in lines
    assert ".tran 1e-13 4e-10" in lines
    assert ".print v(b_1)" in lines
    assert lines[-1] == ".end"
    other = josim.write(ladder().replace(initial=Initial(velocities={"c": 2e-6})), WRSPICE).splitlines()
    assert ".model jj1 jj(icrit=3e-07, rtype=0, cct=1, cap=0)" in other
    assert ".tran 1e-12 4e-10 0 1e-12 uic" in other
    assert ".ic v(c)=2e-06" in other


def test_an_automatic_step_is_that_of_the_compiled_design():
    net = Netlist("n", [Capacitor("C", "a", "gnd", "1 pF"), JosephsonJunction("J", "a", "gnd", "1 uA")])
    step, stop = map(float, re.search(r"^\.tran (\S+) (\S+)$", josim.write(net), re.MULTILINE).groups())
    assert step == pytest.approx(net.compile().step_s / 10, rel=1e-12)
    assert stop == pytest.approx(net.compile().step_s * 1000, rel=1e-12)


@pytest.mark.parametrize("dialect", [JOSIM, WRSPICE], ids=lambda d: d.name)
def test_every_gallery_design_is_written_or_refused_by_name(dialect):
    written = set()
    for name in GALLERY:
        net = Netlist.load(name)
        try:
            josim.write(net, dialect)
            written.add(name)
        except DesignError as problem:
            named = {f.element for f in problem.legality.errors}
            assert named
            assert named <= {p.name for p in (*net.elements, *net.drives)}
    assert written == {"lc-toy", "josephson-ladder"}


def test_what_the_simulators_lack_is_refused_by_name():
    parts = [
        Capacitor("C", "a", "gnd", 1e-12),
        Squid("S", "a", "gnd", 1e-6),
        SaturableInductor("N", "a", "gnd", 1e-9, 1e-6),
        SymmetricVaractor("V", "b", 1e-12, 1e-15),
        Inductor("F", "b", "gnd", 1e-9, 1e-16),
        Resistor("R", "a", "gnd", 50.0),
    ]
    drives = [
        CurrentDrive("idle", "a"),
        FluxDrive("flux", "F", waveform=Constant(1e-16)),
        CurrentDrive("late", "a", waveform=Points((0.0, 1e-9), (1e-6, 0.0))),
        CurrentDrive("high", "a", waveform=Pulse(1e-6, 1e-9, low=1e-7)),
        CurrentDrive("held", "a", waveform=Sine(1e-6, 1e9, 1e-7, 1e-9)),
        CurrentDrive("good", "a", waveform=Sine(1e-6, 1e9, 1e-7)),
    ]
    start = Initial(positions={"a": 1e-16}, velocities={"b": 1e-6})
    net = Netlist("n", parts, drives, initial=start, clock=Clock(1e-12, 10))
    with pytest.raises(DesignError) as caught:
        josim.write(net)
    named = {f.element for f in caught.value.legality.errors}
    both = {"S", "N", "V", "F", "idle", "flux", "initial.positions.a"}
    assert named == both | {"late", "high", "held", "initial.velocities.b"}
    with pytest.raises(DesignError) as caught:
        josim.write(net, WRSPICE)
    assert {f.element for f in caught.value.legality.errors} == both


def test_single_pulses_get_a_period_beyond_the_run():
    drive = CurrentDrive("u", "a", waveform=Pulse("1 uA", "1 ns", delay="2 ns"))
    parts = [Capacitor("C", "a", "gnd", 1e-12), Inductor("L", "a", "gnd", 1e-9)]
    text = josim.write(Netlist("n", parts, [drive], clock=Clock(1e-12, 5000)))
    period = float(re.search(r"pulse\((.*)\)", text)[1].split()[-1])
    assert period > 5e-9
