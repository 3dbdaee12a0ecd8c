"""Electrical circuits, and comparisons of them, that tests of several formats and of ngspice share."""

from dataclasses import astuple
from functools import partial

import jax
import numpy as np
import pytest

from circuits import DesignError, Initial, Netlist
from circuits.formats import spice
from devices import (
    FLUX_QUANTUM,
    Capacitor,
    CurrentDrive,
    Inductor,
    JosephsonJunction,
    MutualInductance,
    SaturableInductor,
    Sine,
    Squid,
    SymmetricVaractor,
    Tank,
    VoltageDrive,
)


def deck(*lines, title="title"):
    """Text of a deck."""
    return "\n".join((title, *lines)) + "\n"


def refusals(text):
    """What is wrong with a deck."""
    with pytest.raises(DesignError) as caught:
        spice.read(text)
    return [str(f) for f in caught.value.legality.errors]


def every_element(**changes):
    """Every element without loss and every drive that SPICE can express, all of them excited."""
    parts = [Capacitor(f"C{i}", f"n{i}", "gnd", f"{1 + 0.2 * i:.1f} pF") for i in range(4)]
    parts += [
        Capacitor("C01", "n0", "n1", "0.3 pF"),
        JosephsonJunction("J", "n0", "n1", "200 nA"),
        Squid("S", "n1", "gnd", "300 nA", 0.2 * FLUX_QUANTUM, 0.1),
        SaturableInductor("N", "n2", "n1", "2 nH", "1 uA", 1e-16),
        Inductor("L0", "n0", "gnd", "1 nH"),
        Inductor("L2", "n2", "n3", "2 nH"),
        Inductor("F", "n3", "gnd", "1 nH", 1e-16),
        Inductor("L3", "n3", "gnd", "2 nH"),
        MutualInductance("K", "L0", "L2", 0.3),
        MutualInductance("K2", "L3", "L2", -0.2),
        SymmetricVaractor("V", "n4", "1 pF", "10 aC"),
        Tank("T", "n5", "n3", "0.5 pF", "2 nH"),
        Inductor("L4", "n4", "n2", "1 nH"),
        Inductor("L5", "n5", "gnd", "3 nH"),
        Capacitor("Cs", "s", "n0", "0.2 pF"),
        Inductor("Ls", "s", "n2", "4 nH"),
    ]
    drives = [
        CurrentDrive("u", "n1", "n3", waveform=Sine("20 nA", "3 GHz")),
        VoltageDrive("vs", "s", waveform=Sine("0.5 uV", "4 GHz", offset="0.1 uV")),
    ]
    start = Initial(velocities={"n0": 2e-7, "n4": -1e-6})
    return Netlist("everything", parts, drives, targets=["n3", "n4"], initial=start).replace(**changes)


def tanks(count, **settings):
    """Oscillators of 1 MHz that are not joined: n0, n1, and so on, of capacitors with these settings."""
    parts = [Capacitor(f"C{i}", f"n{i}", "gnd", 1e-9, **settings) for i in range(count)]
    return Netlist("tanks", parts + [Inductor(f"L{i}", f"n{i}", "gnd", 25e-6) for i in range(count)])


def assert_same_hamiltonian(one, other):
    """Units, parameters, energies and their slopes at a random state and inputs agree to 1e-9."""
    first, second = one.compile(), other.compile()
    assert second.hamiltonian.names == first.hamiltonian.names
    ours, theirs = first.theta(), second.theta()
    assert set(ours) == set(theirs)
    for key, values in ours.items():
        np.testing.assert_allclose(theirs[key], values, rtol=1e-9, err_msg=key)
    np.testing.assert_allclose(astuple(second.assembly.units), astuple(first.assembly.units), rtol=1e-9)
    rng = np.random.default_rng(1)
    q, p = rng.normal(size=(2, first.hamiltonian.size))
    u = rng.normal(size=first.hamiltonian.inputs)
    found = [np.concatenate(_energies(d.hamiltonian, q, p, u, d.theta())) for d in (first, second)]
    scale = np.max(np.abs(found[0]))
    assert scale > 0.1
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12 * scale)


@partial(jax.jit, static_argnums=0)
def _energies(h, q, p, u, theta):
    """V, ∂V/∂q, T and ∂T/∂p."""
    prepared = h.prepare(theta)
    potential, slope = jax.value_and_grad(h.potential)(q, prepared, u)
    kinetic, velocity = jax.value_and_grad(h.kinetic)(p, prepared, u)
    return potential[None], slope, kinetic[None], velocity
