"""S-parameters as records: a lossy chip's answer to a pulse against that of the emulated bench, and refusals."""

from dataclasses import replace

import numpy as np
import pytest

from circuits import Netlist
from circuits.formats import touchstone as files
from devices import ArgumentError, CoherentDrive, Ring
from devices.photonic import HBAR
from rhel_hw import EmulatedBench, Profile, ReplayBench, Shot
from rhel_hw.records import touchstone

CARRIER = 193.4e12
STEPS, STEP = 300, 8.6e-12


def lattice(spread=0.0):
    """The ring lattice with a port at every ring; a chip's detunings and couplings are not those of the design."""
    rng = np.random.default_rng(1)
    parts = []
    for part in Netlist.load("ring-lattice").elements:
        moved = rng.normal() * spread
        if isinstance(part, Ring):
            part = replace(part, external_q=2e5, intrinsic_q=2e6, detuning=part.detuning + 1e9 * moved)
        else:
            part = replace(part, rate=part.rate * (1 + moved))
        parts.append(part)
    return Netlist.load("ring-lattice").replace(elements=tuple(parts)).compile(step=STEP, steps=STEPS)


@pytest.fixture(scope="module")
def design():
    return lattice()


@pytest.fixture(scope="module")
def chip():
    return lattice(0.3)


def measured(chip, half=50e9, every=1e8):
    hertz = CARRIER + np.arange(-half, half + every / 2, every)
    return files.read(files.write(chip.netlist, hertz), len(files.response(chip.netlist).ports))


def test_a_chip_answers_a_pulse_as_its_scattering_says(design, chip, tmp_path):
    """Of one photon's amplitude; in a band of ±50 GHz some 0.8 % by the bound, 0.04 % in truth."""
    network = measured(chip)
    file = touchstone.recording(design, network).save(tmp_path / "bench.npz")
    shot = touchstone.pulse(design, "u0")
    found = ReplayBench(file).run(shot)
    continuous = Profile().set("dynamics.substeps", 25)  # between samples light moves on
    expected = EmulatedBench(chip, continuous).run(shot)
    assert set(found.samples) == set(expected.samples)
    nominal = EmulatedBench(design, continuous).run(shot)
    errors, moves = [], []
    for name, samples in found.samples.items():
        unit = np.sqrt(2) * (HBAR if name.startswith("momentum") else 1.0)
        np.testing.assert_array_equal(found.times_s[name], expected.times_s[name])
        errors.append(np.max(np.abs(samples - expected[name])) / unit)
        moves.append(np.max(np.abs(nominal[name] - expected[name])) / unit)
    assert max(errors) < 1e-3
    assert max(moves) > 0.05  # it is the chip that answers, not the design


def test_any_drive_is_answered(design, chip):
    """Two runs of noise in the band of the modes."""
    rng = np.random.default_rng(2)
    waves = 1e10 * np.apply_along_axis(np.convolve, 0, rng.normal(size=(STEPS, 2)), np.hanning(30), "same")
    told = touchstone.recording(design, measured(chip)).description
    shot = Shot(STEPS, {"u0": waves}, channels=("target.a33", "momentum.a11"))
    found = touchstone.Ports.of(design, measured(chip)).record(shot, told)
    expected = EmulatedBench(chip, Profile().set("dynamics.substeps", 25)).run(shot)
    for name in shot.channels:
        scale = np.max(np.abs(expected[name]))
        np.testing.assert_allclose(found[name] / scale, expected[name] / scale, atol=2e-3)


def test_ports_that_are_missing_show_nothing(design, chip):
    network = measured(chip)
    few = [network.ports.index(p) for p in ("a33", "a11")]
    part = files.Network(network.frequencies_hz, network.scattering[:, few][:, :, few], ("a33", "a11"))
    found = touchstone.recording(design, part)
    assert {c.node for c in found.description.channels.values()} == {"a33", "a11"}
    whole = touchstone.recording(design, network).answers[0].record
    np.testing.assert_allclose(found.answers[0].record["position.a33"], whole["position.a33"], atol=1e-12)
    ports = touchstone.Ports.of(design, part)
    for shot, message in (
        (touchstone.pulse(design, "u0"), "must read nodes that have a port, but 'position.a12' has none"),
        (Shot(STEPS, echo=True), "must be a free pass from rest"),
    ):
        with pytest.raises(ArgumentError, match=message):
            ports.record(shot, EmulatedBench(design).describe())


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"half": 10e9}, r"at most 1% of a pulse is beyond its band, but from a11 to a12 4.5% is: .* 4.5 times as"),
        ({"every": 5e8}, r"frequencies at most 3.88e\+08 Hz apart for a pass of 2.58e-09 s, but they are 5e\+08 Hz"),
    ],
)
def test_sweeps_that_are_refused_say_what_to_measure(design, chip, sweep, message):
    with pytest.raises(ArgumentError, match=message):
        touchstone.recording(design, measured(chip, **sweep))


def test_light_that_is_not_gone_is_refused():
    """A ring that rings for 10 ns, 0.1 GHz beside where the design has it."""

    def one(detuning):
        ring = Ring("R", "a", detuning, CARRIER, external_q=2 * np.pi * CARRIER * 5e-9)
        return Netlist("one", [ring], drives=[CoherentDrive("u", "a")], targets=["a"]).compile(step=STEP, steps=50)

    with pytest.raises(ArgumentError, match=r"so close that light is gone .*from a to a .* measure every 5e\+07 Hz"):
        touchstone.recording(one(3e8), measured(one(4e8), 6e9, 1e8))
    touchstone.recording(one(3e8), measured(one(4e8), 6e9, 1e7))


def test_networks_of_something_else_are_refused(design, chip):
    network = measured(chip)
    uneven = network.frequencies_hz.copy()
    uneven[5] += 3e7
    for other, message in (
        (replace(network, ports=("b11", *network.ports[1:])), "must have ports of the design, but has 'b11'"),
        (replace(network, frequencies_hz=uneven), "must have evenly spaced frequencies"),
        (replace(network, ports=None, scattering=network.scattering[:, :2, :2]), "must name its ports, as in `! Port"),
    ):
        with pytest.raises(ArgumentError, match=message):
            touchstone.recording(design, other)
    with pytest.raises(ArgumentError, match="must be linear for S-parameters, but K1 is not"):
        touchstone.recording(Netlist.load("kerr-chain").compile(), network)


def test_touchstone_files_are_found_by_name(tmp_path, call, chip):
    network = measured(chip)
    text = files.write(chip.netlist, network.frequencies_hz)
    (tmp_path / "chip.s9p").write_text(text)
    (tmp_path / "chip.toml").write_text(lattice().netlist.replace(clock=chip.netlist.clock).to_toml())
    assert "free: 1 × " in call("record", "chip.toml", "chip.s9p", "--out", "chip.npz")
    (tmp_path / "bad.s9p").write_text(text.replace("# Hz", "# THz"))
    assert "must have options of S-parameters, but has 'THZ'" in call("record", "chip.toml", "bad.s9p", code=2)
    with pytest.raises(ArgumentError, match="must be named by its number of ports"):
        touchstone.load(tmp_path / "chip.csv")
