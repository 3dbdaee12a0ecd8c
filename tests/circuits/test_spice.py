"""SPICE decks: values, every kind of line, refusals with line numbers, exact round trips, and ngspice itself."""

import math
import os
import subprocess

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from circuits import Clock, DesignError, Initial, Netlist, Probes, Target
from circuits.formats.spice import read, write
from circuits.formats.spice_values import Scope, SpiceError, evaluate, number
from devices import (
    FLUX_QUANTUM,
    BilinearCoupler,
    Capacitor,
    Constant,
    CurrentDrive,
    FluxDrive,
    Gyrator,
    Inductor,
    JosephsonJunction,
    Mass,
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


def deck(*lines, title="title"):
    return "\n".join((title, *lines)) + "\n"


def refusals(text):
    with pytest.raises(DesignError) as caught:
        read(text)
    return [str(f) for f in caught.value.legality.errors]


# Values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10n", 10e-9), ("10nH", 10e-9), ("10NH", 10e-9), ("3.3n", 3.3e-9), ("4.7MEG", 4.7e6), ("4.7megohm", 4.7e6),
        ("4.7M", 4.7e-3), ("1mil", 25.4e-6), ("1e-9", 1e-9), ("1E-9F", 1e-24), ("1F", 1e-15), ("2pF", 2e-12),
        ("5u", 5e-6),
        ("5V", 5.0), ("1.1k", 1100.0), ("2G", 2e9), ("2T", 2e12), (".5", 0.5), ("5.", 5.0), ("-3m", -3e-3), ("+3", 3.0),
        ("1A", 1.0), ("0.1f", 1e-16), ("1.7976931348623157e308", 1.7976931348623157e308),
    ],
)  # fmt: skip
def test_numbers_are_the_nearest_floats(text, value):
    assert number(text) == value


@pytest.mark.parametrize(
    "text", ["", "n", "1..2", "4k7", "0x10", "1e400", "1e99999", "nan", "inf", "1µ", "1 n", "9" * 101]
)
def test_other_words_are_no_numbers(text):
    with pytest.raises(SpiceError):
        number(text)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_survives_its_repr(value):
    assert number(repr(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{1+2*3}", 7), ("'(1+2)*3'", 9), ("2**3", 8), ("2^3^2", 64), ("-2^2", -4), ("2^-1", 0.5), ("--3", 3),
        ("6/4", 1.5),
        ("1n*2", 2e-9), ("a*b", 6), ("A", 2), ("sqrt(16)+abs(-1)", 5), ("min(3, a, 7)+max(1,2)", 4), ("log10(1000)", 3),
        ("exp(0)+cos(0)+sin(0)+tan(0)", 2), ("2*pi", 2 * math.pi), ("log(exp(1))", 1), ("c", 12), ("10-4-3", 3),
    ],
)  # fmt: skip
def test_expressions(text, value):
    # Within a rounding or two of functions of the C library; most are exact.
    assert evaluate(text, Scope({"a": "2", "b": "3", "c": "{a*b*2}"})) == pytest.approx(value, rel=4e-16)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1/0", "finite"), ("1e308*10", "finite"), ("sqrt(-1)", "finite"), ("(-8)^0.5", "finite"), ("exp(1e4)",
        "finite"),
        ("widht", "did you mean `width`"), ("sqr(2)", "did you mean `sqrt`"), ("min(1)", "two or more"),
        ("sin(1,2)", "one"),
        ("1 2", "must end"), ("(1", "must have ')'"), ("", "empty"), ("1+", "must go on"), ("*1", "where '*' stands"),
        ("a=1", "means nothing"), ("__import__(1)", "no function"), ("p", "p -> q -> p"),
        ("+" * 1001, "1000 characters"),
        ("(" * 300 + "1" + ")" * 300, "nested"), ("2^(" * 200 + "1" + ")" * 200, "nested"),
    ],
)  # fmt: skip
def test_expressions_are_refused(text, words):
    with pytest.raises(SpiceError) as caught:
        evaluate(text, Scope({"width": "1", "p": "q", "q": "p+1"}))
    assert words in str(caught.value)


# Lines -----------------------------------------------------------------------------------------------------------


def test_linear_parts_comments_and_continuations():
    net = read(
        deck(
            "* comment", "C1 N1 gnd 1pF ; picofarad", "L12 n1 n2", "+ 40nH $ nano", "* between", "+",
            "Rq n2 0 R=4.7MEG",
            "L2 n2 GND 10n", "K1 L12 l2 -0.1", ".options reltol=1e-4", ".save all", ".end",
            title="* Two nodes",
        )
    )  # fmt: skip
    assert net.name == "Two nodes"
    assert net.ground == "0"
    assert net.elements == (
        Capacitor("C1", "N1", "0", 1e-12),
        Inductor("L12", "N1", "n2", 40e-9),
        Resistor("Rq", "n2", "0", 4.7e6),
        Inductor("L2", "n2", "0", 10e-9),
        MutualInductance("K1", "L12", "L2", -0.1),
    )
    assert net.clock == Clock()


def test_title_and_fallback_name():
    assert read(deck("C1 a 0 1p", title=""), "file").name == "file"
    assert read(deck("C1 a 0 1p", ".title other")).name == "other"
    assert read(deck("C1 a 0 1p", title=".title first")).name == "first"


@pytest.mark.parametrize(
    ("line", "drive"),
    [
        ("I1 0 a DC 1u", CurrentDrive("I1", "a", waveform=Constant(1e-6))),
        ("I1 0 a 1u", CurrentDrive("I1", "a", waveform=Constant(1e-6))),
        ("I1 0 a", CurrentDrive("I1", "a")),
        ("I1 a 0", CurrentDrive("I1", "a")),
        ("I1 a 0 1u", CurrentDrive("I1", "a", waveform=Constant(-1e-6))),
        ("I1 b a SIN(1u 2u 1MEG 3n)", CurrentDrive("I1", "a", "b", waveform=Sine(2e-6, 1e6, 1e-6, 3e-9))),
        ("I1 a gnd sin 0 2u 1MEG", CurrentDrive("I1", "a", waveform=Sine(-2e-6, 1e6))),
        ("I1 0 a DC 0 SIN(0 2u 1MEG 0 0 0)", CurrentDrive("I1", "a", waveform=Sine(2e-6, 1e6))),
        (
            "V1 a 0 PULSE(0 1m 1n 2n 3n 4n 20n)",
            VoltageDrive("V1", "a", waveform=Pulse(1e-3, 4e-9, 0.0, 1e-9, 2e-9, 3e-9, 20e-9)),
        ),
        ("V1 0 a PULSE(1m 2m 0 0 0 4n)", VoltageDrive("V1", "a", waveform=Pulse(-2e-3, 4e-9, -1e-3))),
        ("V1 0 a PWL(0 0, 1n 1m)", VoltageDrive("V1", "a", waveform=Points((0.0, 1e-9), (0.0, -1e-3)))),
        ("V1 a 0", VoltageDrive("V1", "a")),
    ],
)
def test_sources(line, drive):
    assert read(deck("C1 a 0 1p", "C2 b 0 1p", line)).drives == (drive,)


def test_junction_with_model_area_and_capacitance():
    model = ".model nb jj(icrit=2u, cap=50f, rtype=0, rn=10)"
    net = read(deck("B1 a 0 nb", "B2 a b ph nb area=2", "B3 b 0 nb ics=1u", model))
    assert net.elements == (
        JosephsonJunction("B1", "a", "0", 2e-6),
        Capacitor("C.B1", "a", "0", 50e-15),
        JosephsonJunction("B2", "a", "b", 4e-6),
        Capacitor("C.B2", "a", "b", 100e-15),
        JosephsonJunction("B3", "b", "0", 1e-6),
        Capacitor("C.B3", "b", "0", 25e-15),
    )
    bare = read(deck("B1 a 0 nb", "C1 a 0 1p", ".model nb jj(icrit=1u cap=0 rtype=0)"))
    assert [e.name for e in bare.elements] == ["B1", "C1"]


def test_own_sub_circuits_are_elements():
    net = read(
        deck(
            "XJ1 a 0 rhel_josephson critical_current=1u", "X2 a b RHEL_SQUID critical_current={2*ic} flux=1e-16",
            "XS a 0 rhel_saturable inductance=1n saturation_current=1u",
            "XV b gnd rhel_varactor capacitance=1p charge_scale=1f",
            "XT a b rhel_tank capacitance=1p inductance=1n", "XF a b rhel_inductor inductance=1n flux=1e-16",
            ".param ic=1u",
            ".subckt rhel_josephson a b critical_current=1u", "Bphi a b I={critical_current}*sin(V(phi))", ".ends",
        )
    )  # fmt: skip
    assert net.elements == (
        JosephsonJunction("J1", "a", "0", 1e-6),
        Squid("X2", "a", "b", 2e-6, 1e-16),
        SaturableInductor("S", "a", "0", 1e-9, 1e-6),
        SymmetricVaractor("V", "b", 1e-12, 1e-15),
        Tank("T", "a", "b", 1e-12, 1e-9),
        Inductor("F", "a", "b", 1e-9, 1e-16),
    )


def test_sub_circuits_are_flattened_with_their_parameters():
    net = read(
        deck(
            ".param c0=2p total={c0*3}", ".subckt cell in out params: l=1n c={c0}", ".param twice={2*c}",
            "L1 in mid {l}", "C1 mid 0 {twice}", "L2 mid out l", "K1 L1 L2 0.2",
            "XJ mid 0 rhel_josephson critical_current=1u",
            ".ic v(mid)=1m", ".ends cell", ".subckt pair a b", "XA a n3 cell l={5n}", "XB n3 b CELL c=1p", ".ends",
            "X1 p q pair", "C9 p 0 {total}",
        )
    )  # fmt: skip
    assert net.by_name["L1.XA.X1"] == Inductor("L1.XA.X1", "p", "X1.XA.mid", 5e-9)
    assert net.by_name["L2.XA.X1"] == Inductor("L2.XA.X1", "X1.XA.mid", "X1.n3", 5e-9)
    assert net.by_name["L1.XB.X1"] == Inductor("L1.XB.X1", "X1.n3", "X1.XB.mid", 1e-9)
    assert net.by_name["C1.XA.X1"].capacitance == 4e-12
    assert net.by_name["C1.XB.X1"].capacitance == 2e-12
    assert net.by_name["K1.XB.X1"] == MutualInductance("K1.XB.X1", "L1.XB.X1", "L2.XB.X1", 0.2)
    assert net.by_name["J.XB.X1"].type == "josephson"
    assert net.by_name["C9"].capacitance == 2e-12 * 3
    assert net.initial.velocities == {"X1.XA.mid": 1e-3, "X1.XB.mid": 1e-3}


def test_a_sub_circuit_sees_the_parameters_of_its_caller():
    # As ngspice has it: its scopes follow the calls, not the text.
    lines = [".param p=1", ".subckt inner a b", "R1 a b {p}", ".ends", ".subckt outer a b p=5", "X1 a b inner", ".ends"]
    net = read(deck(*lines, "X2 a 0 outer", "X3 a 0 inner", "C1 a 0 1p"))
    assert net.by_name["R1.X1.X2"].resistance == 5
    assert net.by_name["R1.X3"].resistance == 1


def test_initial_state_and_clock():
    net = read(
        deck(
            "C1 a 0 1p IC=1m", "C2 0 b 1p ic=2m", "L1 a 0 2n IC=3u", "L2 0 b 2n IC={3*u}", ".param u=1e-6", "C3 c 0 1p",
            ".ic v(c)=-4m V(a)=1m", ".tran 1p 1n 0 0.1p uic",
        )
    )  # fmt: skip
    assert net.initial.velocities == {"a": 1e-3, "b": -2e-3, "c": -4e-3}
    assert net.initial.positions == {"a": 2e-9 * 3e-6, "b": -2e-9 * (3 * 1e-6)}
    assert net.clock == Clock(1e-12, 1000)


GOOD = "C0 n 0 1p"
SUB = ".subckt s a b l=1n\nL1 a b {l}\n.ends"


@pytest.mark.parametrize(
    ("lines", "where", "words"),
    [
        (["C1 a 0 1p", "M1 a b c d nmos"], "line 3 (M1)", "letter 'M'"),
        (["D1 a 0 dio"], "line 2 (D1)", "rhel_varactor"),
        (["C1 a 0 1x2"], "line 2 (C1)", "must end before '2'"),
        (["C1 a 0 -1p"], "line 2 (C1)", "must be greater than 0"),
        (["C1 a 0"], "line 2 (C1)", "two nodes and a value"),
        (["C1 a 0 1p tc1=2"], "line 2 (C1)", "`tc1` is not modelled"),
        (["C1 a a 1p"], "line 2 (C1)", "both ends"),
        (["C1 a 0 1p", "c1 b 0 1p"], "line 3 (c1)", "taken by line 2"),
        (["C1 a 0 {widht}", ".param width=1p"], "line 2 (C1)", "did you mean `width`"),
        (["C1 a 0 {1p"], "line 2 (C1)", "do not balance"),
        (["C1 a b 1p IC=1"], "line 2 (C1)", ".ic v(node)"),
        (["L1 a 0 1n", "C1 a 0 1p", "K1 L1 L7 0.1"], "line 4 (K1)", "`l7` is no inductor"),
        (["L1 a 0 1n", "C1 a 0 1p", "K1 L1 C1 0.1"], "line 4 (K1)", "which is a capacitor"),
        ([GOOD, ".include /etc/passwd"], "line 3 (.include)", "may not name other files"),
        ([GOOD, ".LIB 'models.lib' tt"], "line 3 (.LIB)", "may not name other files"),
        ([GOOD, ".ac dec 10 1 1k"], "line 3 (.ac)", ".ac is not read"),
        ([GOOD, ".control", "alter C0=2p", ".endc"], "line 3 (.control)", "remove the block"),
        ([GOOD, ".param a={b}", ".param b={a}"], "line 3 (.param a)", "a -> b -> a"),
        ([GOOD, ".param a={1/0}"], "line 3 (.param a)", "finite"),
        ([GOOD, ".param a=1 a=2"], "line 3 (.param)", "twice"),
        ([GOOD, ".end", "C9 a 0 1p"], "line 4 (C9)", "after .end"),
        ([GOOD, "I1 0 n SIN(0 1 1k 0 5)"], "line 3 (I1)", "damping"),
        ([GOOD, "I1 0 n SIN(0 1 1k 0 0 90)"], "line 3 (I1)", "phase"),
        ([GOOD, "I1 0 n PULSE(0 1)"], "line 3 (I1)", "PULSE(V1 V2 TD TR TF PW PER)"),
        ([GOOD, "I1 0 n EXP(0 1)"], "line 3 (I1)", "DC, SIN, PULSE and PWL"),
        ([GOOD, "I1 0 n DC 1 AC 1"], "line 3 (I1)", "AC"),
        ([GOOD, "I1 0 n PWL(1 0 0 1)"], "line 3 (I1)", "must grow"),
        ([GOOD, "I1 0 m 1u"], "line 3 (I1)", "does not exist"),
        ([GOOD, "C1 m 0 1p", "V1 n m 1"], "line 4 (V1)", "one end at ground"),
        ([GOOD, "B1 n 0 I=sin(V(n))"], "line 3 (B1)", "rhel_"),
        ([GOOD, "B1 n 0 nb"], "line 3 (B1)", "is no model"),
        ([GOOD, "B1 n 0 nb", ".model nb jj(icrit=1u cap=0 rtype=1)"], "line 3 (B1)", "resistive branch"),
        ([GOOD, ".model nb jj(icrit=1u cap=0)"], "line 3 (.model)", "`rtype` must be given"),
        ([GOOD, ".model nb jj(icrit=1u cap=0 rtype=0 phi=3)"], "line 3 (.model)", "`phi` is not modelled"),
        ([GOOD, ".model dio d(is=1f)"], "line 3 (.model)", "type is d"),
        ([GOOD, "B1 n 0 p nb", "C2 p 0 1p", ".model nb jj(icrit=1u cap=0 rtype=0)"], "line 3 (B1)", "phase node `p`"),
        ([GOOD, "X1 n 0 nowhere"], "line 3 (X1)", "is no sub-circuit"),
        ([GOOD, "X1 n 0 rhel_josefson"], "line 3 (X1)", "did you mean `josephson`"),
        ([GOOD, "X1 n 0 rhel_josephson"], "line 3 (X1)", "`critical_current` must be given"),
        ([GOOD, "X1 n m rhel_varactor capacitance=1p charge_scale=1f"], "line 3 (X1)", "a node and ground"),
        ([SUB, "X1 n 0 s k=2"], "line 5 (X1)", "`k` is no parameter of it"),
        ([SUB, "X1 n s"], "line 5 (X1)", "has 2 ports, but is given 1 nodes"),
        ([".subckt s a b", "X1 a b s", ".ends", "X1 n 0 s", GOOD], "line 3 (X1.X1)", "calls itself"),
        ([".subckt s a b", "L1 a b -1n", ".ends", "X1 n 0 s", GOOD], "line 3 (L1.X1)", "greater than 0"),
        ([GOOD, ".subckt s a b", "L1 a b 1n"], "line 3 (.subckt)", "add .ends"),
        ([GOOD, ".ic v(m)=1"], "line 3 (initial velocities)", "does not exist"),
        ([GOOD, ".ic n=1"], "line 3 (.ic)", "v(node)=value"),
        ([GOOD, ".ic v(n)=1 v(n)=2"], "line 3 (.ic)", "two initial values"),
        ([GOOD, ".tran 1n 1u"], "line 3 (.tran)", "uic"),
        ([GOOD, "V2 s 0 DC 0 AC 1 SIN(0 1 1MEG)"], "line 3 (V2)", "AC"),
        ([GOOD, ".tran 1n"], "line 3 (.tran)", "step and a stop"),
        ([GOOD, ".tran 1n 1u 1n uic"], "line 3 (.tran)", "start at 0"),
        ([GOOD, ".tran 1f 1MEG uic"], "line 3 (.tran)", "1e9 steps"),
        ([GOOD, "*rhel [elements.C7]", "*rhel trainable = true"], "*rhel elements", "no `c7`"),
        ([GOOD, "*rhel [elements.C0]", "*rhel trainable = ]"], "line 4 (*rhel)", "not TOML"),
        ([GOOD, "*rhel [elements.C0]", "*rhel colour = 1"], "*rhel elements", "no key `colour`"),
        ([GOOD, "*rhel [elements.C0]", '*rhel trainable = ["inductance"]'], "line 2 (C0)", "is no parameter"),
        ([GOOD, "*rhel [time]", "*rhel steps = 5", ".tran 1n 1u uic"], "*rhel time", ".tran"),
    ],
)  # fmt: skip
def test_refusals_name_the_line(lines, where, words):
    found = refusals(deck(*lines))
    assert any(where in text and words in text for text in found), found


def test_all_faults_are_told_at_once():
    found = refusals(deck("C1 a 0 1..p", "Q1 a b c npn", "L1 a 0 1n", ".foo"))
    assert [text.split(":")[0] for text in found] == ["line 2 (C1)", "line 3 (Q1)", "line 5 (.foo)"]


def test_a_command_cannot_be_the_title():
    assert "line 1 (.tran)" in refusals(deck("C1 a 0 1p", title=".tran 1n 1u"))[0]


def test_a_small_deck_cannot_become_a_huge_circuit():
    # Ten calls in each of twelve definitions would make 1e12 instances of a sub-circuit that is empty.
    levels = [f".subckt s{i} a b\n" + f"X1 a b s{i + 1}\n" * 10 + ".ends" for i in range(12)]
    found = refusals(deck(*levels, ".subckt s12 a b", ".ends", "X1 n 0 s0", GOOD))
    assert "more than 100000 parts" in found[-1]


def test_calls_are_nested_to_a_limit():
    levels = [f".subckt s{i} a b\nX1 a b s{i + 1}\n.ends" for i in range(500)]
    assert "nested too deeply" in refusals(deck(*levels, ".subckt s500 a b", ".ends", "X1 n 0 s0", GOOD))[0]


# Round trips -----------------------------------------------------------------------------------------------------


def everything():
    return Netlist(
        "ring → “é”",
        [
            Capacitor("C1", "n1", "gnd", "1 pF", tolerance=0.05),
            Inductor("L12", "n1", "n2", 4e-8, trainable=True, bounds=(5e-9, 5e-7)),
            Inductor("M", "N1", "0", 1e-9),
            MutualInductance("K", "M", "L12", 0.1, trainable=True),
            Capacitor("c1", "n2", "gnd", 1e-12),
            JosephsonJunction("J1", "n2", "n1", 1e-6),
            Squid("S", "N1", "gnd", 1e-6, 1e-16, 0.1, trainable=["flux"], tolerance={"critical_current": 0.1}),
            SaturableInductor("XS1", "n2", "gnd", 1e-9, 1e-6, 2e-16),
            SymmetricVaractor("V-1", "a+b", 1e-12, 1e-15),
            Tank("T", "0", "a+b", 1e-12, 1e-9),
            Resistor("R", "n2", "gnd", 50),
            Inductor("Lf", "n2", "n1", 1e-9, -1e-16),
            Capacitor("_stray", "N1", "gnd", 3.3e-12),
        ],
        drives=[
            CurrentDrive("u0", "n1", waveform=Sine("1 uA", "1 GHz", "2 uA", "1 ns")),
            CurrentDrive("u1", "n1", "gnd"),
            CurrentDrive("u2", "gnd", "n2", waveform=Constant(1e-6)),
            CurrentDrive("I3", "n1", "n2", waveform=Points([0.1 * i for i in range(50)], [0.3 * i for i in range(50)])),
            VoltageDrive("v", "N1", waveform=Pulse(1e-3, 1e-9, period=5e-9)),
        ],
        probes=Probes(["n1", "a+b"], "all"),
        targets=[Target("y0", "n2"), "n1"],
        initial=Initial({"n2": 1e-16}, velocities={"n2": 1e-3}),
        clock=Clock(1e-12, 777),
    )


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"clock": Clock()}, {"clock": Clock(None, 5)}, {"clock": Clock(1e305, 10**9)},
        {"clock": Clock(5e-324, 10**9)},
        {"name": "*ng_script"}, {"name": ".tran"}, {"name": " spaced "}, {"name": "plain"}, {"probes": Probes()},
        {"probes": Probes([], ["n1"])}, {"initial": Initial()}, {"name": "😀"},
    ],
)  # fmt: skip
def test_writing_and_reading_gives_the_same_netlist(changes):
    net = everything().replace(**changes)
    text = write(net)
    assert text.isascii()
    assert read(text) == net
    assert write(read(text)) == text


def test_plain_names_need_no_extra_lines():
    net = Netlist("lc", [Capacitor("C1", "n1", "0", 1e-12), Inductor("L1", "n1", "0", 1e-9)], ground="0")
    assert write(net).splitlines() == ["lc", "C1 n1 0 1e-12", "L1 n1 0 1e-09", ".end"]


def test_what_spice_cannot_say_is_refused_by_name():
    c, coil, l2 = (
        Capacitor("C1", "a", "gnd", 1e-12),
        Inductor("L1", "a", "gnd", 1e-9, 1e-16),
        Inductor("L2", "a", "gnd", 1e-9),
    )
    for net, name in (
        (Netlist("n", [c, coil], drives=[FluxDrive("f", "L1")]), "f"),
        (Netlist("n", [c, Mass("m", "x", 1.0)]), "m"),
        (Netlist("n", [c, BilinearCoupler("g", "a", "x", 1.0), Mass("m", "x", 1.0)]), "g"),
        (Netlist("n", [c, Gyrator("gy", "a", "gnd", "b", "gnd", 1.0)]), "gy"),
        (Netlist("n", [c, coil, l2, MutualInductance("K1", "L1", "L2", 0.1)]), "L1"),
    ):
        with pytest.raises(DesignError) as caught:
            write(net)
        assert name in {f.element for f in caught.value.legality.errors}
        assert "TOML" in str(caught.value)


POSITIVE = st.floats(1e-30, 1e30)
ANY = st.one_of(st.just(0.0), POSITIVE, POSITIVE.map(lambda v: -v))
NODES = ["n1", "N1", "0", "gnd", "GND", "a+b", "a_b", "x.y", "1", "a/b", "n[1]"]
LETTERS = st.sampled_from("CcLlRKXxIVvj_")
NAMES = st.builds(lambda a, b: a + b, LETTERS, st.text("aA1_.+-/#:[]", max_size=4))


@st.composite
def netlists(draw):
    ground = draw(st.sampled_from(["gnd", "0", "a+b", "earth"]))
    names = draw(st.lists(NAMES, min_size=3, max_size=12, unique=True))
    elements, drives = [], []
    pair = st.lists(st.sampled_from([*NODES, ground]), min_size=2, max_size=2, unique=True)
    kinds = [Capacitor, Inductor, Resistor, Tank, JosephsonJunction, Squid, SaturableInductor, SymmetricVaractor]
    for name in names[:-2]:
        kind = draw(st.sampled_from(kinds))
        nodes = [draw(st.sampled_from([n for n in NODES if n != ground]))] if kind is SymmetricVaractor else draw(pair)
        values = {k: draw(POSITIVE) for k, info in kind.parameters.items() if info.above == 0}
        if "flux" in kind.parameters and draw(st.booleans()):
            values["flux"] = draw(ANY)
        if kind is Squid:
            values["asymmetry"] = draw(st.floats(-0.99, 0.99))
        key = draw(st.sampled_from(sorted(values)))
        extra = {"trainable": draw(st.sampled_from([(), (key,)])), "tolerance": {key: draw(st.floats(0, 0.99))}}
        if draw(st.booleans()) and key not in ("flux", "asymmetry"):
            extra["bounds"] = {key: (values[key] / 2, values[key] * 2)}
        elements.append(kind(name, *nodes, **values, **extra))
    coils = [e.name for e in elements if e.type == "inductor" and e.flux == 0]
    if len(coils) > 1:
        elements.append(MutualInductance(names[-2], coils[0], coils[1], draw(st.floats(-0.99, 0.99))))
    nodes = [n for n in dict.fromkeys(n for e in elements for n in e.nodes) if n != ground]
    waves = st.one_of(
        st.none(),
        st.builds(Constant, ANY),
        st.builds(Sine, ANY, POSITIVE, ANY, st.floats(0, 1e300)),
        st.builds(Pulse, ANY, POSITIVE, ANY, st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e3)),
        st.lists(st.tuples(ANY, ANY), min_size=1, max_size=30, unique_by=lambda p: p[0]).map(
            lambda points: Points(*zip(*sorted(points), strict=True))
        ),
    )
    ends = draw(st.permutations([*nodes, ground]))
    back = {} if ends[0] != ground and draw(st.booleans()) else {"back": ends[1]}
    drives.append(draw(st.sampled_from([CurrentDrive("drive", ends[0], **back), VoltageDrive("drive", nodes[0])])))
    drives[0] = type(drives[0])(names[-1], *drives[0].nodes, waveform=draw(waves))
    some = st.lists(st.sampled_from(nodes), unique=True)
    clocks = st.builds(Clock, st.one_of(st.none(), POSITIVE), st.integers(1, 10**9))
    moving = [n for n in nodes if drives[0].type == "current" or n not in drives[0].nodes]
    maps = st.dictionaries(st.sampled_from(moving), ANY) if moving else st.just({})
    momenta, velocities = draw(st.sampled_from([(draw(maps), {}), ({}, draw(maps))]))
    title = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
    return Netlist(
        draw(title.filter(str.isprintable)),
        elements,
        drives,
        Probes(draw(st.one_of(st.just("all"), some)), draw(some)),
        [Target("y0", n) for n in draw(some)][:1],
        ground,
        Initial(draw(maps), momenta, velocities),
        draw(clocks),
    )


@given(netlists())
def test_every_electrical_netlist_survives(net):
    text = write(net)
    again = read(text)
    assert again == net
    assert write(again) == text


def test_the_longest_clock_survives():
    net = read("t\nC1 a 0 1p\nL1 a 0 1n").replace(clock=Clock(7096351646404867.0, 1_000_000_000))
    assert read(write(net)) == net


# Any text --------------------------------------------------------------------------------------------------------

DECKS = [
    write(everything()),
    deck(
        "C1 a 0 1p IC=1m",
        "L1 a b {l*2}",
        ".param l=1n k='l+1'",
        "I1 0 a SIN(0 1u 1MEG)",
        ".ic v(b)=1",
        ".tran 1p 1n uic",
    ),
    deck(SUB, "X1 a b s l=2n", "X2 b 0 s", "C1 a 0 1p", "B1 a 0 ph nb area=2", ".model nb jj(icrit=1u cap=1f rtype=0)"),
]
PIECES = [",", "{", "}", "'", "(", ")", "=", "\n", "\n+", "\n*rhel ", " ", "X1", "K1", ".subckt ", ".ends", "[", "]",
    "-", "1e999",
          "{((((", "0", "gnd", "\x00", "é", ".param ", "*", ";", "$ ", "[elements.C1]\n*rhel name = 1", "\"",
          "inf", "nan"]  # fmt: skip


@st.composite
def mutated(draw):
    text = draw(st.sampled_from(DECKS))
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(text)))
        length = draw(st.sampled_from([0, 0, 1, 3, 20]))
        text = text[:place] + draw(st.sampled_from(["", *PIECES])) + text[place + length :]
    lines = text.split("\n")
    if draw(st.booleans()):
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(lines)))
    return "\n".join(lines)


@settings(deadline=None, max_examples=100)
@example("\nX=0")
@given(st.one_of(st.text(), mutated(), st.text("CLXK.*+{}()='\n 01abn", max_size=200).map(lambda t: "t\n" + t)))
def test_any_text_gives_a_netlist_or_a_design_error(text):
    try:
        net = read(text)
    except DesignError:
        return
    assert read(write(net)) == net


@pytest.mark.parametrize(
    "text",
    [
        "", "\x00\xff" * 100, "t\nC1 a 0 " + "9" * 10**6, "t\n" + "C" * 10**6 + " a 0 1p",
        "t\nC1 a 0 {" + "(" * 900 + "}",
        "t\nC1 a 0 1p\n*rhel x = " + "[" * 10**5,
        "t\nC1 a 0 1p\n.param " + " ".join(f"a{i}={{a{i + 1}}}" for i in range(5000)),
        "t\nC1 a 0 1p\n,,", "t\n" + "+ 1 2 3\n" * 1000, "t\nX1 a " + "b " * 10**5 + "s",
        "t\nC1 a 0 1p\n*rhel [probes]\n*rhel positions = 5",
        "t\nC1 a 0 1p\n*rhel [time]\n*rhel steps = 1.5", "t\nC1 a 0 1p\n*rhel [initial]\n*rhel positions = 3",
        "t\nC1 a 0 1p\n*rhel [nodes]\n*rhel a = []", "t\nC1 a 0 1p\n*rhel elements = 3",
        "t\nC1 a 0 1p\n*rhel [initial.momenta]\n*rhel a = nan",
    ],
)  # fmt: skip
def test_hostile_text_is_refused(text):
    assert refusals(text)


# ngspice ---------------------------------------------------------------------------------------------------------


def outcome(ngspice, text, folder):
    """Voltages and currents by name that ngspice finds for a deck."""
    (folder / "deck.cir").write_text(text)
    command = [ngspice, "-b", "-r", "out.raw", "deck.cir"]
    environment = {**os.environ, "SPICE_ASCIIRAWFILE": "1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()
    head, _, body = (folder / "out.raw").read_text().partition("Values:\n")
    names = [line.split()[1] for line in head.partition("Variables:\n")[2].splitlines()]
    table = np.array(body.split(), float).reshape(-1, len(names) + 1)[:, 1:]
    return dict(zip(names, table.T, strict=True))


def test_ngspice_runs_a_written_circuit(ngspice, tmp_path):
    elements = [Capacitor(f"C{i}", f"n{i}", "gnd", 1e-12) for i in range(3)]
    elements += [
        JosephsonJunction("J-1", "n0", "n1", 1e-6),
        Squid("S", "n1", "gnd", 1e-6, -0.3 * FLUX_QUANTUM, -0.2),
        SaturableInductor("nl", "n2", "n1", 1e-9, 1e-6, -1e-16),
        Inductor("L", "n2", "gnd", 1e-9),
        Inductor("x", "n0", "gnd", 1e-9, 1e-16),
        Inductor("y", "n0", "gnd", 1e-9),
        MutualInductance("m", "L", "y", -0.3),
        SymmetricVaractor("V", "n3", 1e-12, 1e-15),
        Tank("T", "n3", "gnd", 1e-12, 1e-9),
        Resistor("R", "n3", "gnd", 50),
    ]
    drives = [CurrentDrive("u", "n0", waveform=Sine(1e-7, 5e9)), CurrentDrive("idle", "n1", "n2")]
    net = Netlist("a → b", elements, drives, initial=Initial(velocities={"n3": 1e-3}))
    text = write(net).removesuffix(".end\n") + ".tran 1p 0.5n uic\n.end\n"
    found = outcome(ngspice, text, tmp_path)
    assert found["time"][-1] == pytest.approx(0.5e-9)
    assert all(np.isfinite(column).all() for column in found.values())
    # The drive and the flux in x set every node in motion, by microvolts at least.
    assert all(np.abs(found[f"v(n{i})"]).max() > 1e-7 for i in range(4))


def test_ngspice_finds_the_currents_of_the_elements(ngspice, tmp_path):
    """A held voltage makes the branch flux grow as V·t, so each source must supply the element's own current."""
    volts, current, henries, flux = 3e-6, 1e-6, 1e-9, -0.3 * FLUX_QUANTUM
    elements = [
        JosephsonJunction("J", "a", "gnd", current),
        Squid("S", "b", "gnd", current, flux, -0.2),
        SaturableInductor("N", "c", "gnd", henries, current, flux),
        Inductor("F", "d", "gnd", henries, flux),
        SymmetricVaractor("V", "e", 1e-12, 1e-15),
    ]
    drives = [VoltageDrive(f"V{n}", n, waveform=Constant(volts)) for n in "abcd"]
    drives.append(VoltageDrive("Ve", "e", waveform=Points((0.0, 1e-9), (0.0, 2e-3))))
    found = outcome(ngspice, write(Netlist("held", elements, drives, clock=Clock(1e-13, 10000))), tmp_path)
    t = found["time"]
    phase, bias = 2 * np.pi * volts * t / FLUX_QUANTUM, np.pi * flux / FLUX_QUANTUM
    roots = [np.roots([1, 0, 1, -v]) for v in found["v(e)"] * 1e-12 / 1e-15]
    charge = np.array([r[np.argmin(np.abs(r.imag))].real for r in roots])
    expected = {
        "a": current * np.sin(phase),
        "b": current * (0.4 * np.sin(phase + bias) + 0.6 * np.sin(phase - bias)),
        "c": current * np.tanh((volts * t - flux) / (henries * current)),
        "d": (volts * t - flux) / henries,
        "e": 1e-12 / (1 + 3 * charge**2) * 2e6,
    }
    for node, wanted in expected.items():
        # ngspice iterates to a relative tolerance of 1e-3; the first points are still on its start-up step.
        error = np.abs(-found[f"i(v{node})"] - wanted)[t > 5e-12]
        assert error.max() < 3e-3 * np.abs(wanted).max(), node
