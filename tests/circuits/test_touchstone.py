"""Touchstone of photonic designs: closed forms, a settled simulation, scikit-rf's reading, refusals."""

import math
from importlib.util import find_spec

import numpy as np
import pytest

from circuits import DesignError, Netlist
from circuits.formats import touchstone
from circuits.formats.waveguide import Waveguide
from devices import (
    ArgumentError,
    BeamSplitter,
    BilinearCoupler,
    Capacitor,
    Cavity,
    CoherentDrive,
    EvanescentCoupler,
    Homodyne,
    Inductor,
    Kerr,
    MachZehnder,
    PhaseShifter,
    Ring,
)
from devices.photonic import HBAR
from rhel_hw import simulate_design

CARRIER = 193.4e12


def rings(count, *, phase=0.0, external_q=(2e5, 3e5, 4e5, 5e5, 6e5), **given):
    detunings = np.linspace(-0.4e9, 0.7e9, count)
    parts = [Ring(f"R{i}", f"a{i}", detunings[i], CARRIER, 5e5, external_q[i]) for i in range(count)]
    parts += [EvanescentCoupler(f"J{i}", f"a{i}", f"a{i + 1}", 0.9e9, phase) for i in range(count - 1)]
    return Netlist("rings", parts, drives=[CoherentDrive("u", "a0")], **given)


def test_one_ring_and_two_rings_are_the_closed_forms():
    f = CARRIER + np.linspace(-5e9, 5e9, 101)
    net = rings(1)
    (ring,) = net.elements
    omega = 2 * math.pi * (CARRIER + ring.detuning)
    inner, outer, delta = omega / 5e5, omega / 2e5, omega - 2 * math.pi * f
    expected = 1 - outer / ((inner + outer) / 2 + 1j * delta)
    found = touchstone.response(net)
    np.testing.assert_allclose(found.scattering(f)[:, 0, 0], expected, atol=1e-9)  # delta cancels ten digits

    quality = 2e5
    pair = [Ring(n, n, 0.0, CARRIER, external_q=quality) for n in "ab"]
    net = Netlist("filter", [*pair, EvanescentCoupler("J", "a", "b", 0.9e9)])
    S = touchstone.response(net).scattering(f)
    outer, J, delta = 2 * math.pi * CARRIER / quality, 2 * math.pi * 0.9e9, 2 * math.pi * (CARRIER - f)
    drop = 1j * J * outer / ((outer / 2 + 1j * delta) ** 2 + J**2)  # s_out = −√κ_e·a of docs/physics.md 9.4
    np.testing.assert_allclose(S[:, 1, 0], drop, atol=1e-12)
    np.testing.assert_allclose(S @ S.conj().swapaxes(1, 2), np.broadcast_to(np.eye(2), S.shape), atol=1e-12)


def test_what_no_port_reaches_leaves_no_trace():
    alone = [Ring("Rx", "x", 0.0, CARRIER), Ring("Ry", "y", 0.0, CARRIER), EvanescentCoupler("Jxy", "x", "y", 1e9)]
    net = rings(2)
    with_more = net.replace(elements=(*alone, *net.elements))
    assert touchstone.response(with_more).nodes == ("a0", "a1")
    assert touchstone.write(with_more) == touchstone.write(net)


def test_phases_of_couplings_break_reciprocity_and_nothing_else():
    f = CARRIER + np.linspace(-3e9, 3e9, 31)
    S, turned = (touchstone.response(rings(3, phase=p)).scattering(f) for p in (0.0, 0.7))
    np.testing.assert_allclose(turned[:, 2, 0], S[:, 2, 0] * np.exp(-2j * 0.7), atol=1e-12)
    np.testing.assert_allclose(turned[:, 0, 2], S[:, 0, 2] * np.exp(2j * 0.7), atol=1e-12)


def test_it_is_where_a_driven_simulation_settles():
    """Light 0.4 GHz from the carrier, as rings detuned by so much the other way."""
    net, offset = rings(3), 0.4e9
    moved = [Ring(e.name, e.node, e.detuning - offset, CARRIER, 5e5, e.external_q) for e in net.elements[:3]]
    kappa = 2 * math.pi * CARRIER * np.array([1 / 5e5 + 1 / q for q in (2e5, 3e5, 4e5)])
    steps, step = 6000, 2e-12  # e^(−κt/2) is 1e-9 at the end; the step is a hundredth of 1/ω
    assert math.exp(-kappa.min() * steps * step / 2) < 1e-8
    design = net.replace(elements=(*moved, *net.elements[3:])).compile(step=step, steps=steps)
    run = simulate_design(design, {"u": np.full(steps, 1e15)})
    x, m = run.positions_si(), run.momenta_si()
    a = np.array([(x[n][-1] + 1j * m[n][-1] / HBAR) / math.sqrt(2) for n in ("a0", "a1", "a2")])
    outer = np.array([2 * math.pi * (CARRIER + e.detuning) / e.external_q for e in net.elements[:3]])
    settled = np.array([1.0, 0, 0]) - np.sqrt(outer) * a * math.sqrt(outer[0]) / 1e15
    S = touchstone.response(net).scattering(CARRIER + offset)[0, :, 0]
    # The integrator is (ω·step)²/24 off, some 1e-5 at this step.
    np.testing.assert_allclose(settled, S, atol=1e-4)


def test_every_coupler_counts_as_its_energy_does():
    """Resonances against the compiled Hamiltonian's modes, which come from the energies' curvatures."""
    detunings = {"a": 0.1e9, "b": -0.6e9, "c": 0.3e9, "d": 0.8e9}
    parts = [Ring(f"R{n}", n, detuning, CARRIER, external_q=1e12) for n, detuning in detunings.items()]
    parts += [
        EvanescentCoupler("J", "a", "b", 0.5e9),
        BeamSplitter("B", "b", "c", 1e-9, 0.6),
        MachZehnder("M", "c", "d", 1e-9, 0.9),
        PhaseShifter("P", "a", 0.2e9),
        Kerr("K", "b", 1.0),
    ]
    net = Netlist("all", parts)
    at, width = touchstone.response(net).resonances
    np.testing.assert_allclose(np.sort(at - CARRIER), net.compile().frequencies_hz, rtol=1e-9)
    np.testing.assert_allclose(width, CARRIER / 1e12, rtol=1e-4)


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_scikit_rf_reads_what_was_written(count, tmp_path):
    if find_spec("skrf") is None:
        pytest.skip("scikit-rf is not installed: pip install 'rhel-hw[dev]'")
    import skrf

    net = rings(count)
    path = tmp_path / f"response{touchstone.suffix(net)}"
    path.write_text(touchstone.write(net))
    read, found = skrf.Network(str(path)), touchstone.response(net)
    assert read.nports == count
    assert read.port_names in (None, list(found.ports))
    np.testing.assert_array_equal(read.s, found.scattering(read.f).conj())
    assert np.all(np.linalg.svd(read.s, compute_uv=False) < 1)  # passive: the rings lose light
    delay = -np.diff(np.unwrap(np.angle(read.s[:, int(count > 1), 0])))
    assert delay.sum() > 0  # later is later in the engineers' convention


@pytest.mark.parametrize("name", ["kerr-chain", "ring-lattice"])
def test_gallery_designs_have_ports_by_their_tap(name):
    net = Netlist.load(name)
    found = touchstone.response(net, Waveguide(tap=4e-4))
    at, width = found.resonances
    np.testing.assert_allclose(np.sort(at - CARRIER), net.compile().frequencies_hz, rtol=1e-3)
    np.testing.assert_allclose(width.sum(), found.outer.sum() / (2 * math.pi), rtol=1e-9)
    text = touchstone.write(net)
    assert text.count("\n# Hz S RI R 50\n") == 1
    assert ("Kerr shifts of K1" in text) == (name == "kerr-chain")
    assert len(found.ports) == 2


def test_refusals_name_what_they_are_about():
    lc = [Capacitor("C1", "n", "gnd", "1 pF"), Inductor("L1", "n", "gnd", "1 nH")]
    cavity = Cavity("O1", "a", "5 GHz")
    for net, names in (
        (Netlist("lc", lc), ["C1", "L1"]),
        (Netlist("mixed", [*lc, cavity, BilinearCoupler("g", "n", "a", 1e-9)]), ["C1", "L1", "g"]),
        (Netlist("shut", [cavity], drives=[CoherentDrive("u", "a")]), ["O1"]),
        (Netlist("dark", [cavity]), ["design"]),
    ):
        with pytest.raises(DesignError) as caught:
            touchstone.write(net)
        assert [f.element for f in caught.value.legality.errors] == names
    lit = Netlist("lit", [Cavity("O1", "a", "5 GHz", external_q=1e3)], detectors=[Homodyne("y", "a")])
    with pytest.raises(ArgumentError, match="frequencies_hz"):
        touchstone.write(lit, [2.0, 1.0])


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize(("form", "unit"), [("ri", "Hz"), ("ma", "GHz"), ("db", "MHz")])
def test_what_scikit_rf_writes_is_read(count, form, unit, tmp_path):
    if find_spec("skrf") is None:
        pytest.skip("scikit-rf is not installed: pip install 'rhel-hw[dev]'")
    import skrf

    f = np.linspace(1e9, 2e9, 7)
    rng = np.random.default_rng(count)
    S = rng.normal(size=(7, count, count, 2)) @ [1, 1j]
    network = skrf.Network(frequency=skrf.Frequency.from_f(f, unit="Hz"), s=S, z0=50)
    network.frequency.unit = unit
    network.write_touchstone("made", dir=str(tmp_path), form=form)
    found = touchstone.read((tmp_path / f"made.s{count}p").read_text(), count)
    np.testing.assert_allclose(found.frequencies_hz, f, rtol=1e-9)
    np.testing.assert_allclose(found.scattering, S.conj(), rtol=1e-9)
    assert found.ports is None


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_what_is_written_is_read(count):
    net = rings(count)
    text = touchstone.write(net, CARRIER + np.linspace(-1e9, 1e9, 5))
    found = touchstone.read(text, count)
    assert found.ports == tuple(f"a{i}" for i in range(count))
    np.testing.assert_array_equal(found.scattering, touchstone.response(net).scattering(found.frequencies_hz))
    assert touchstone.read(text.replace("! Port[1]", "!"), count).ports is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0 0\n", "must have a line of options, such as"),
        ("[Version] 2.0\n# Hz S RI R 50\n", "must be Touchstone of version 1"),
        ("# Hz Z RI R 50\n1 0 0\n", "must have options of S-parameters, but has 'Z'"),
        ("# Hz S RI R 50\n1 0\n", "must hold 3 finite numbers for every frequency of 1 ports, but holds 2 in all"),
        ("# Hz S RI R 50\n1 0 nan\n", "must hold 3 finite numbers"),
        ("# Hz S RI R 50\n", "must hold 3 finite numbers"),
        ("# Hz S RI R 50\n1 0 x\n", "must hold numbers below its options, but"),
        ("# Hz S RI R 50\n2 0 0\n1 0 0\n", "must have frequencies that grow"),
    ],
)
def test_texts_that_are_no_s_parameters(text, message):
    with pytest.raises(ArgumentError, match=message):
        touchstone.read(text, 1)
