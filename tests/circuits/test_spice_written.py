"""SPICE decks that are written: exact round trips, the same Hamiltonian, any text at all, and ngspice itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from circuits import Clock, DesignError, Initial, Netlist, Probes, Target
from circuits.formats.spice import read, write
from circuits.formats.spice_decks import echo_deck, forward_deck
from circuits.formats.spice_state import State
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
from rhel_hw.ngspice_run import run_deck
from tests.circuits.electrical import assert_same_hamiltonian, deck, every_element, refusals, tanks

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


# The same Hamiltonian -----------------------------------------------------------------------------------------------


def lossy():
    net = every_element()
    parts = (*net.elements, Resistor("R", "n3", "gnd", "40 kohm", trainable=True), Resistor("Rn", "n0", "n1", "1 Mohm"))
    return net.replace(elements=tuple(replace(e, trainable=e.stores()) for e in parts))


@pytest.mark.parametrize("name", ["every-element", "lc-toy", "josephson-ladder"])
def test_a_written_deck_has_the_same_hamiltonian(name):
    net = lossy() if name == "every-element" else Netlist.load(name)
    again = read(write(net))
    assert again == net
    assert_same_hamiltonian(net, again)


BY_HAND = """Every element, as one would type it
.param l=1n phi=2.067833848461929f ic='0.2*1u' half={ic/2}
C0 n0 0 1pF IC=0.2u
C1 n1 gnd 1.2p
C2 n2 0 C={1.4p}
C3 n3 0 1600f
C01 n0 n1 {0.3*1p}
.subckt loop top bottom params: i=1u f=0
XS top bottom rhel_squid critical_current={3*i} flux=f asymmetry=0.1
.ends
.model nb jj(icrit=100n, cap=0, rtype=0, rn=20)
B1 N0 n1 nb area={ic/half}
X9 n1 0 loop i={half} f={phi/5}
XN n2 n1 rhel_saturable inductance={2*l} saturation_current=1u flux=1e-16
L0 n0 0 {l} ; nano
L2 n2 N3 2nH $ and a comment
XF n3 0 rhel_inductor inductance=1n flux=0.1f
L3 n3 0
+ {sqrt(4*l^2)}
K1 L0 l2 0.3
K2 L3 L2 -0.2
XV n4 0 rhel_varactor capacitance=1p charge_scale=10e-18
XT n5 n3 rhel_tank capacitance=0.5p inductance=2n
L4 n4 n2 1n
L5 n5 0 3n
Cs s n0 0.2p
Ls s n2 4n
I1 n3 n1 SIN(0 20n 3G)
Vs s 0 DC 0 SIN(0.1u 0.5u 4G)
.ic v(n4)=-1u
.end
"""
"""The circuit of `every_element`."""


def test_a_deck_by_hand_has_the_hamiltonian_of_its_circuit():
    net = read(BY_HAND)
    assert_same_hamiltonian(every_element(), net)
    assert_same_hamiltonian(net, read(write(net)))
    assert net.initial.velocities == pytest.approx(every_element().initial.velocities)
    times = np.linspace(0, 1e-9, 50)
    for ours, theirs in zip(every_element().drives, net.drives, strict=True):
        np.testing.assert_allclose(theirs.waveform.sample(times), ours.waveform.sample(times), rtol=1e-12)


@pytest.mark.parametrize("change", [("0.3*1p", "0.3001*1p"), ("K2 L3 L2 -0.2", "K2 L3 L2 0.2"), ("f=0.1", "f=0.1001")])
def test_a_hamiltonian_that_differs_is_found(change):
    text = BY_HAND.replace("flux=f asymmetry=0.1", "flux=f asymmetry=0.1001") if change[0] == "f=0.1" else BY_HAND
    with pytest.raises(AssertionError):
        assert_same_hamiltonian(every_element(), read(text.replace(*change)))


@pytest.mark.parametrize("kind", ["forward", "echo"])
def test_the_deck_of_a_pass_is_no_circuit_and_says_so(kind):
    """It integrates fluxes, starts in the middle of things and may be nudged: netlist.cir is the circuit."""
    design = tanks(2, tolerance=0.05).replace(targets=["n0"]).compile(steps=5)
    nudges = {"n0": np.full(5, 1e-15)}
    text = forward_deck(design) if kind == "forward" else echo_deck(design, nudges=nudges, state=State({}, {}))
    (found,) = refusals(text)
    assert "(Grhel_flux_0): this deck is a pass" in found
    assert "netlist.cir" in found


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
    deck(
        ".subckt s a b l=1n",
        "L1 a b {l}",
        ".ends",
        "X1 a b s l=2n",
        "X2 b 0 s",
        "C1 a 0 1p",
        "B1 a 0 ph nb area=2",
        ".model nb jj(icrit=1u cap=1f rtype=0)",
    ),
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


def test_ngspice_runs_a_written_circuit(ngspice):
    net = every_element(clock=Clock("1 ps", 500))
    elements = [*net.elements, Resistor("R", "n3", "gnd", 50), Inductor("J-1", "n0", "n3", 1e-9)]
    found = run_deck(write(net.replace(name="a → b", elements=elements)))
    assert found["time"][-1] == pytest.approx(0.5e-9)
    assert all(np.isfinite(column).all() for column in found.values())
    # The drive and the fluxes set every node in motion, by microvolts at least.
    assert all(np.abs(found[f"v(n{i})"]).max() > 1e-7 for i in range(6))


def test_ngspice_finds_the_currents_of_the_elements(ngspice):
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
    found = run_deck(write(Netlist("held", elements, drives, clock=Clock(1e-13, 10000))))
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
