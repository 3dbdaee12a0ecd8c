"""The same circuits in ngspice: waveforms to 0.1 % of full scale."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from circuits import Initial, Netlist
from circuits.formats import spice
from devices import (
    Capacitor,
    CurrentDrive,
    Inductor,
    JosephsonJunction,
    MutualInductance,
    Resistor,
    SaturableInductor,
    Sine,
    VoltageDrive,
)
from rhel_hw import Yoshida4, simulate_design
from rhel_hw.ngspice_run import run_deck

NODES = [f"n{i}" for i in range(6)]


def lc_ladder() -> Netlist:
    """Ladder with coupling capacitors and mutual inductances, driven by a current."""
    parts = [Capacitor(f"C{n}", n, "gnd", f"{1 + 0.1 * i:.1f} nF") for i, n in enumerate(NODES)]
    parts += [Inductor(f"L{n}", n, "gnd", "30 uH") for n in NODES]
    parts += [Inductor(f"L{a}{b}", a, b, "12 uH") for a, b in pairwise(NODES)]
    parts += [Capacitor(f"C{a}{b}", a, b, "0.2 nF") for a, b in zip(NODES[::2], NODES[1::2], strict=False)]
    parts += [MutualInductance("K1", "Ln0n1", "Ln1n2", 0.3), MutualInductance("K2", "Ln0", "Ln5", -0.2)]
    drive = CurrentDrive("I1", "n0", waveform=Sine("1 mA", "0.9 MHz"))
    return Netlist("ladder", parts, drives=[drive])


def josephson_ladder() -> Netlist:
    """Junctions to ground, inductors between, voltage source through a capacitor, started with a kick."""
    parts = [Capacitor(f"C{n}", n, "gnd", "1 pF") for n in NODES[:4]]
    parts += [JosephsonJunction(f"J{n}", n, "gnd", "300 nA") for n in NODES[:4]]
    parts += [Inductor(f"L{a}{b}", a, b, "1.5 nH") for a, b in pairwise(NODES[:4])]
    parts += [Capacitor("Cs", "s", "n0", "0.2 pF")]
    drive = VoltageDrive("V1", "s", waveform=Sine("8 uV", "5 GHz"))
    return Netlist("junctions", parts, drives=[drive], initial=Initial(velocities={"n3": "6 uV"}))


def saturable_ring() -> Netlist:
    """Saturable inductors between lossy nodes."""
    ring = [*NODES[:3], "n0"]
    parts = [Capacitor(f"C{n}", n, "gnd", "1 nF") for n in NODES[:3]]
    parts += [Inductor(f"L{n}", n, "gnd", "25 uH") for n in NODES[:3]]
    parts += [SaturableInductor(f"S{a}{b}", a, b, "10 uH", "1 mA") for a, b in pairwise(ring)]
    parts += [Resistor("R1", "n1", "gnd", "20 kohm")]
    drive = CurrentDrive("I1", "n0", waveform=Sine("2 mA", "1.1 MHz", offset="0.1 mA"))
    return Netlist("saturable", parts, drives=[drive])


def voltages(netlist: Netlist, momenta: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Node voltages C⁻¹q from the capacitance matrix, assembled here from the netlist alone."""
    nodes = list(momenta)
    C = np.zeros((len(nodes),) * 2)
    for e in netlist.elements:
        if e.type == "capacitor":
            row = np.array([(n == e.a) - (n == e.b) for n in nodes], float)
            C += e.capacitance * np.outer(row, row)
    return dict(zip(nodes, np.linalg.solve(C, np.array([momenta[n] for n in nodes])), strict=True))


@pytest.mark.parametrize("build", [lc_ladder, josephson_ladder, saturable_ring])
def test_waveforms_equal_ngspice(build, ngspice):
    netlist = build()
    # Held inputs and the source's slope are of second order in the step: a tenth of the automatic one leaves 3e-4.
    design = netlist.compile(step=netlist.compile().step_s / 10, steps=6000)
    run = simulate_design(design, integrator=Yoshida4())
    stop, cap = run.times_s[-1], design.step_s / 3  # the trapezoidal rule loses phase as ωT·(ω·cap)²/12
    body, _, _ = spice.write(netlist).rpartition(".end")
    deck = (
        f"{body}.options method=trap reltol=1e-6 abstol=1e-18 vntol=1e-15 chgtol=1e-22 trtol=1\n"
        f".tran {design.step_s:.6e} {stop:.9e} 0 {cap:.6e} uic\n.end\n"
    )
    theirs = run_deck(deck, timeout_s=120)
    ours = voltages(netlist, run.momenta_si())
    scale = max(np.max(np.abs(v)) for v in ours.values())
    assert scale > 0
    for node, signal in ours.items():
        other = np.interp(run.times_s, theirs["time"], theirs[f"v({node})"])
        assert np.max(np.abs(other - signal)) < 1e-3 * scale, node
