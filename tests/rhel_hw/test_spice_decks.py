"""Decks for hand-over, run by ngspice: waveforms to 0.5 % of full scale, echoes that return, peaks, drawn values."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circuits import DesignError, Initial, Netlist
from circuits.eseries import snapped
from circuits.formats.spice_decks import echo_deck, flux_node, forward_deck, with_values
from circuits.formats.spice_state import Plates, State, coil_currents
from circuits.formats.spice_style import Sources, Style
from circuits.formats.spice_write import Writer
from circuits.generators import ladder
from devices import (
    FLUX_QUANTUM,
    ArgumentError,
    Capacitor,
    Inductor,
    JosephsonJunction,
    MutualInductance,
    SymmetricVaractor,
    Tank,
)
from rhel_hw import simulate_design
from rhel_hw.integrators import Yoshida6
from rhel_hw.ngspice_run import run_deck
from tests.circuits.electrical import every_element, tanks
from tests.exports.electrical import ended, peaks
from tests.systems import quick_or_slow

pytestmark = pytest.mark.usefixtures("quick_compiler")

READ = Style(measures=False)
DESIGNS = ("lc-toy", "josephson-ladder")
CASES = [(name, series) for name in DESIGNS for series in (None, "E24", "E96")]


def distance(design, ours, theirs):
    """Largest difference of two states, fluxes and charges over the largest of each."""
    plates = Plates.of(design.netlist)
    charges = [plates.charges(np.array([s.voltages.get(n, 0.0) for n in plates.nodes])) for s in (ours, theirs)]
    fluxes = [np.array([s.fluxes.get(n, 0.0) for n in plates.nodes]) for s in (ours, theirs)]
    return [np.max(np.abs(a - b)) for a, b in (fluxes, charges)]


# What ngspice makes of them -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", quick_or_slow(CASES, (("lc-toy", None), ("lc-toy", "E24"))), ids=str)
def test_waveforms_are_the_emulators_and_the_echo_returns(case, ngspice):
    """Whole runs of the gallery, as designed and with bought parts at preferred values.

    The emulator's own error is left out by an integrator of sixth order.
    """
    name, series = case
    netlist = Netlist.load(name)
    moved = snapped(netlist, series) if series else netlist
    assert (moved == netlist) == (series is None)
    design = moved.compile()
    run = simulate_design(design, integrator=Yoshida6())
    read = run_deck(forward_deck(design, style=READ))
    writer, plates = Writer(design.netlist), Plates.of(design.netlist)
    theirs = plates.charges(np.stack([read[f"v({writer.nodes[n]})"] for n in plates.nodes]))
    momenta, positions = run.momenta_si(), run.positions_si()
    full_charge, full_flux = (max(np.max(np.abs(x)) for x in waves.values()) for waves in (momenta, positions))
    for node, charge in zip(plates.nodes, theirs, strict=True):
        found = np.interp(run.times_s, read["time"], charge)
        assert np.max(np.abs(found - momenta[node])) < 5e-3 * full_charge, node
        flux = np.interp(run.times_s, read["time"], read[f"v({flux_node(writer, node)})"])
        assert np.max(np.abs(flux - positions[node])) < 5e-3 * full_flux, node
    echo = run_deck(echo_deck(design, state=ended(design, read), style=READ))
    missed = distance(design, ended(design, echo).flipped(), State.of(design))
    assert missed[0] < 1e-3 * full_flux  # 1e-4 and less: steps of first order after the edges of drives
    assert missed[1] < 1e-3 * full_charge


@pytest.mark.parametrize("sources", Sources)
def test_both_kinds_of_sources_play_the_same(sources, ngspice):
    """Voltage through a capacitor and a current, against the emulator: held steps and lines differ by (ωδ)²/8."""
    design = Netlist.load("lc-toy").compile(steps=100)
    wave = 1e-3 * np.sin(np.linspace(0, 12, 100))
    run = simulate_design(design, {"u0": wave}, integrator=Yoshida6())
    read = run_deck(forward_deck(design, {"u0": wave}, style=Style(sources, measures=False)))
    final = {n: x[-1] for n, x in run.positions_si().items()}
    full = max(np.max(np.abs(x)) for x in run.positions_si().values())
    assert all(abs(ended(design, read).fluxes[n] - x) < 1e-3 * full for n, x in final.items())


@pytest.mark.slow
def test_nodes_without_capacitance_are_no_hindrance(ngspice):
    circuit = ladder(3)
    parts = tuple(e for e in circuit.elements if e.name != "Cn1")
    start = Initial(velocities={"n0": 1e-6})
    design = circuit.replace(elements=parts, initial=start).compile(step="2 ps", steps=200)
    assert design.assembly.coordinates.massless
    positions = simulate_design(design).positions_si()
    found = ended(design, run_deck(forward_deck(design, style=READ))).fluxes
    full = max(np.max(np.abs(x)) for x in positions.values())
    assert all(abs(found[n] - x[-1]) < 5e-3 * full for n, x in positions.items())


def test_peaks_are_measured(ngspice, tmp_path):
    """Of single elements: v₀ of a kicked capacitor, v₀t/L of its coil, I_c·sin(2πφ/Φ₀) of a junction."""
    parts = [
        Capacitor("C", "a", "gnd", 1e-9),
        Inductor("L", "a", "gnd", 25e-6),
        Capacitor("C2", "b", "gnd", 1e-12),
        JosephsonJunction("J", "gnd", "b", 1e-6),
        Tank("T", "b", "c", 1e-12, 1e-9),
        Inductor("F", "c", "gnd", 1e-9, flux=1e-18),
    ]
    start = Initial(velocities={"a": 2e-3, "b": 1e-7})
    design = Netlist("one", parts, initial=start).compile(steps=100, step="1 ps")
    found = peaks(forward_deck(design), tmp_path)
    assert found["v_c_max"] == pytest.approx(2e-3, rel=1e-3)
    assert found["v_xj_max"] == pytest.approx(-found["v_c2_min"], rel=1e-6)
    assert found["i_l_max"] == pytest.approx(2e-3 * 1e-10 / 25e-6, rel=1e-2)  # v₀t/L, of so short a run
    read = run_deck(forward_deck(design, style=READ))
    phase = -2 * np.pi * read["v(rhel_flux_b)"] / FLUX_QUANTUM
    assert found["i_xj_bphi_max"] == pytest.approx(1e-6 * np.max(np.sin(phase)), rel=1e-4)
    assert found["v_xt_max"] == pytest.approx(np.max(read["v(b)"] - read["v(c)"]), rel=1e-4)
    assert found["i_xt_ltank_max"] > 0
    assert found["i_xf_lflux_max"] > 0


# Tolerances ---------------------------------------------------------------------------------------------------------


def started(count, tolerance):
    """Oscillators apart from each other, of capacitances with a tolerance, started at 1 V."""
    start = Initial(velocities={f"n{i}": 1.0 for i in range(count)})
    return tanks(count, tolerance=tolerance).replace(initial=start).compile(steps=40)


def test_values_are_nominal_until_monte_carlo_is_on(ngspice, tmp_path):
    """C = L·(peak current)² / (1 V)². Of 100 values mean and deviation are known to 0.5 % and 7 %."""
    design = started(100, 0.05)
    deck = forward_deck(design)
    nominal = peaks(deck, tmp_path)
    assert nominal == peaks(forward_deck(started(100, ())), tmp_path)
    drawn = deck.replace(".param montecarlo=0", ".param montecarlo=1").replace(" trtol=", " seed=3 trtol=")
    found = peaks(drawn, tmp_path)
    values = np.array([25e-6 * found[f"i_l{i}_max"] ** 2 for i in range(100)])
    assert np.mean(values) == pytest.approx(1e-9, rel=0.015)
    assert np.std(values) == pytest.approx(0.05e-9, rel=0.2)
    assert found == peaks(drawn, tmp_path)  # a seed repeats the draw


# What they start from -----------------------------------------------------------------------------------------------


def test_charges_and_voltages_are_inverse():
    """C·v by hand, and the law of a varactor, v = (q/C)(1 + q²/Q²)."""
    parts = [
        Capacitor("C0", "a", "gnd", 1e-12),
        Capacitor("C1", "a", "b", 2e-12),
        Capacitor("C2", "b", "gnd", 3e-12),
        SymmetricVaractor("V", "c", 1e-12, 1e-15),
    ]
    plates = Plates.of(Netlist("plates", parts))
    assert plates.nodes == ("a", "b", "c")
    charges = np.array([1e-15, -2e-15, 3e-15])
    voltages = plates.voltages(charges)
    assert voltages[2] == pytest.approx(3e-3 * (1 + 9))
    assert voltages[:2] == pytest.approx(np.linalg.solve([[3e-12, -2e-12], [-2e-12, 5e-12]], charges[:2]))
    assert plates.charges(voltages) == pytest.approx(charges, rel=1e-12)
    many = np.stack([voltages, -voltages], axis=1)
    assert plates.charges(many)[:, 1] == pytest.approx(-charges, rel=1e-12)


def test_coupled_coils_share_their_currents():
    """[[L₂, −M], [−M, L₁]]/(L₁L₂ − M²)."""
    L1, L2, k = 1e-9, 4e-9, 0.5
    parts = [Inductor("L1", "a", "gnd", L1), Inductor("L2", "b", "gnd", L2), MutualInductance("K", "L1", "L2", k)]
    M = k * np.sqrt(L1 * L2)
    found = coil_currents(Netlist("coils", parts), State({"a": 1e-15, "b": 3e-15}, {}))
    determinant = L1 * L2 - M**2
    assert found["L1"] == pytest.approx((L2 * 1e-15 - M * 3e-15) / determinant)
    assert found["L2"] == pytest.approx((L1 * 3e-15 - M * 1e-15) / determinant)


# Values and refusals ------------------------------------------------------------------------------------------------


def test_trained_values_are_written():
    design = Netlist.load("lc-toy").compile(steps=5)
    trained = with_values(design.netlist, {"L12.inductance": 1.25e-4})
    assert "L12 n1 n2 0.000125 IC=" in forward_deck(design, netlist=trained)
    with pytest.raises(ArgumentError, match=r"'L12.inductanc'.*did you mean"):
        with_values(design.netlist, {"L12.inductanc": 1.0})


def test_every_store_of_energy_has_an_initial_condition():
    design = Netlist.load("josephson-ladder").compile(steps=5)
    state = State({"n1": 1e-16}, {"n1": 1e-6})
    deck = echo_deck(design, state=state)
    cards = [line for line in deck.partition("* Drives")[0].splitlines() if re.match("[CLX]", line)]
    assert len(cards) == len(design.netlist.elements)
    assert all(re.search("IC=|flux0=", card) for card in cards)
    assert "C1 n1 0 5e-13 IC=-1e-06" in deck
    assert "critical_current=3e-07 flux0=1e-16" in deck


def test_what_is_ngspices_own_is_noted():
    """Functions, device currents and commands of a deck with everything in it: LTspice's, or on the page about them."""
    parts = [replace(e, tolerance=0.01) for e in every_element().elements]
    design = every_element(elements=tuple(parts)).compile(steps=5)
    deck = forward_deck(design, nudges={"n3": np.ones(5)})
    lines = [line for line in deck.splitlines()[1:] if not line.startswith("*")]
    functions = {f.lower() for line in lines for f in re.findall(r"([A-Za-z]\w*)\(", line)}
    both = {"v", "i", "pwl", "sin", "tanh", "sinh", "asinh", "sqrt"}
    assert functions - both == {"agauss", "par"}
    commands = {line.split()[0] for line in lines if line[0] == "."}
    assert commands <= {".param", ".ic", ".options", ".tran", ".save", ".meas", ".subckt", ".ends", ".end"}
    options = next(line for line in lines if line.startswith(".options"))
    assert re.findall(r"(\w+)=", options) == ["method", "reltol", "abstol", "vntol", "trtol"]
    assert {line[0].upper() for line in lines} <= set("CLKXGBIV.+")
    own = ("agauss(0,s,1)", "par('v(a)-v(b)')", "@C1[i]", "Rser=0")
    page = (Path(__file__).parents[2] / "docs" / "spice.md").read_text(encoding="utf-8")
    assert all(word in page and word in deck for word in own)


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: forward_deck(Netlist.load("mixed").compile(steps=5)), "SPICE has nothing for a"),
        (lambda: forward_deck(ladder(2).compile(steps=5), {"w": np.zeros(5)}), "must name drives"),
        (lambda: forward_deck(ladder(2).compile(steps=5), {"u0": np.array([np.nan])}), "finite"),
        (
            lambda: echo_deck(ladder(2).compile(steps=5), nudges={"z": np.zeros(5)}, state=State({}, {})),
            "must name targets",
        ),
        (
            lambda: forward_deck(
                Netlist(
                    "clash", [Capacitor("C", "rhel_flux_a", "gnd", 1e-12), Inductor("L", "rhel_flux_a", "gnd", 1e-9)]
                ).compile(steps=5)
            ),
            "is for what decks add",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(build, words):
    with pytest.raises((ArgumentError, DesignError), match=words):
        build()
