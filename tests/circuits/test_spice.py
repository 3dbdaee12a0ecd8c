"""SPICE decks that are read: values, every kind of line, and refusals with line numbers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits import Clock
from circuits.formats.spice import read
from circuits.formats.spice_values import Scope, SpiceError, evaluate, number
from devices import (
    Capacitor,
    Constant,
    CurrentDrive,
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
from tests.circuits.electrical import deck, refusals

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
