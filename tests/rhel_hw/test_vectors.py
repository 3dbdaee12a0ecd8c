"""Fixed-point vectors: the Verilog does what the emulated bench does, bit by bit, there and back."""

from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits import Clock, Initial, Netlist
from devices import (
    ArgumentError,
    Capacitor,
    CoherentDrive,
    CurrentDrive,
    Inductor,
    JosephsonJunction,
    Kerr,
    MutualInductance,
    Resistor,
    Ring,
    VoltageDrive,
)
from rhel_hw import Profile, band_limited, simulate_design
from rhel_hw.arithmetic import format_named
from rhel_hw.vectors import Step, vectors
from tests.exports.electrical import simulated


@pytest.fixture
def run(tmp_path):
    """Simulate the files of a hand-over; gives what the test bench printed."""
    return partial(simulated, folder=tmp_path)


def ladder() -> Netlist:
    """Coupling capacitors, mutual inductances, a voltage source and a start that is not rest."""
    nodes = ["a", "b", "c"]
    parts = [Capacitor(f"C{n}", n, "gnd", "1 nF") for n in nodes] + [Capacitor("Cab", "a", "b", "0.2 nF")]
    parts += [Inductor(f"L{n}", n, "gnd", "30 uH") for n in nodes]
    parts += [Inductor(f"L{a}{b}", a, b, "12 uH") for a, b in pairwise(nodes)]
    parts += [MutualInductance("K", "La", "Lbc", 0.2), Inductor("Ls", "s", "c", "40 uH")]
    drives = [CurrentDrive("i", "b"), VoltageDrive("v", "s")]
    return Netlist(
        "ladder — of three", parts, drives, initial=Initial({"a": "3 uWb"}, {"c": "2 nC"}), clock=Clock(None, 60)
    )


@pytest.fixture(scope="module")
def toy(quick_compiler):
    """A compiled design and its hand-over."""
    design = Netlist.load("lc-toy").replace(clock=Clock(None, 60)).compile()
    return design, vectors(design)


def check(design, made, said, integer, fraction):
    """It passes, and ends where the same circuit in floating point does."""
    assert said == f"PASS: {design.steps} steps and their echo\n"
    assert made.size == design.hamiltonian.size
    width = integer + fraction + 1
    q, word = simulate_design(design, band_limited(design)).final[0], int(made.files["last.hex"], 16)
    found = [(word >> (width * i)) & ((1 << width) - 1) for i in range(made.size)]
    signed = np.array([x - (1 << width) if x >> (width - 1) else x for x in found]) / 2**fraction
    # Every step adds three roundings of half a unit, which the modes carry along.
    assert np.max(np.abs(signed - np.ravel(q))) < 3 * design.steps * 2.0**-fraction
    assert np.max(np.abs(signed)) > 1e-3


def test_the_module_does_what_the_emulated_bench_does(toy, run):
    design, made = toy
    check(design, made, run(made.files), 6, 26)


@pytest.mark.slow
def test_so_it_does_with_coupled_momenta_and_a_start_that_is_not_rest(quick_compiler, run):
    design = ladder().compile()
    made = vectors(design, profile=Profile().set("dynamics.precision", "Q7.20"))
    check(design, made, run(made.files), 7, 20)


def test_a_wrong_bit_is_found(toy, run):
    files = dict(toy[1].files)
    rows = files["expected.hex"].splitlines()
    rows[7] = f"{int(rows[7], 16) ^ 1:0{len(rows[7])}x}"
    said = run(files | {"expected.hex": "\n".join(rows) + "\n"})
    assert said.startswith("first difference: step 7, position\nFAIL")
    module = files["rhel_step.v"]
    wrong = module.replace("? whole + 1 : whole", "? whole : whole")
    assert wrong != module
    assert run(files | {"rhel_step.v": wrong}).endswith("differences\n")


@given(st.integers(-(2**80), 2**80), st.integers(2, 60))
def test_rounding_is_to_even(x, bits):
    step = Step((), (), format_named("Q6.26"), bits)
    assert step._rounded(x) == round(Fraction(x, 2**bits))  # Python rounds fractions to even


def test_what_the_module_cannot_do_is_refused(toy):
    pair = [Capacitor("C", "a", "gnd", "1 nF"), Inductor("L", "a", "gnd", "1 uH")]
    others = {
        "J1 is not linear": [*pair, JosephsonJunction("J1", "a", "gnd", "1 uA")],
        "R1 loses energy": [*pair, Resistor("R1", "a", "gnd", "10 kohm")],
        "K1 is not linear": [Ring("R", "b", detuning="1 GHz"), Kerr("K1", "b", "1 Hz")],
    }
    for reason, parts in others.items():
        with pytest.raises(ArgumentError, match=reason):
            vectors(Netlist("n", parts).compile())
    ring = Netlist("n", [Ring("R", "b", detuning="1 GHz")], [CoherentDrive("u0", "b")]).compile()
    with pytest.raises(ArgumentError, match="u0 drives positions"):
        vectors(ring)
    design, _ = toy
    with pytest.raises(ArgumentError, match="fixed-point format, but has float64"):
        vectors(design, profile=Profile())
    with pytest.raises(ArgumentError, match=r"sets readout\.bits"):
        vectors(design, profile=Profile.preset("fpga-fixed-point").set("readout.bits", 8))
    with pytest.raises(ArgumentError, match=r"with 8 of them step \d of the module differs: take more"):
        vectors(design, coefficient_bits=8)
    with pytest.raises(ArgumentError, match=r"within Q6\.26: drive it less"):
        vectors(design, {k: 1e4 * v for k, v in band_limited(design).items()})


def test_files_are_saved(toy, tmp_path):
    toy[1].save(tmp_path / "out")
    assert {p.name: p.read_text() for p in (tmp_path / "out").iterdir()} == toy[1].files
