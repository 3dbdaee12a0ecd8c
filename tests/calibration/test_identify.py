"""Identified values against those that chips have, and benches that cannot be identified."""

import re
from dataclasses import replace

import numpy as np
import pytest

from calibration import fitting
from calibration import identify as stage
from calibration.converters import measure
from calibration.findings import CalibrationError
from calibration.identify import identify
from calibration.model import Model
from calibration.probe import Probe
from circuits import Netlist
from circuits.generators import ladder
from devices import ArgumentError, Inductor
from tests.calibration.chips import Broken, bench_of, true_values

WHOLE = fitting.LENGTHS


def probe_of(design, bench):
    return Probe(bench, Model.of(design, bench.describe()))


@pytest.fixture(scope="module", autouse=True)
def short():
    """A few periods have one minimum: no need to begin with a part of them, which is another program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "LENGTHS", (1.0,))
        yield


@pytest.fixture(scope="module")
def design():
    return ladder(2).compile(steps=150)


@pytest.fixture(scope="module")
def found(design):
    bench = bench_of(design, chips=3)
    probe = probe_of(design, bench)
    return bench, probe, identify(probe, measure(probe))


def test_values_are_found_within_their_deviations(found):
    bench, probe, result = found
    off = (result.values - true_values(bench, probe.model)) / result.deviations
    assert np.all(result.told)
    assert np.max(np.abs(off)) < 4
    assert np.median(result.deviations) < 2e-3
    assert result.fit.converged.all()
    np.testing.assert_allclose(result.fit.excess, 1, atol=0.25)


def test_drives_and_losses_are_found(found):
    _, probe, result = found
    for part, truth in (("drives", np.array([[1.02], [0.01], [0.0]])), ("losses", 1.0)):
        own = probe.model.parts[part]
        assert np.all(np.abs(result.fit.x[own] - truth) < 4 * result.fit.deviations[own])


def test_levels_tell_the_readout(found):
    """Gains of a spread of two per cent to the resolution of eight bits over 64 levels, and their bits."""
    _, probe, result = found
    readout = measure(probe)
    own = result.fit.x[probe.model.parts["readout"]].reshape(3, *readout.gain.shape)
    np.testing.assert_allclose(readout.gain, own[0], atol=3e-3)
    np.testing.assert_allclose(readout.offset, own[1], atol=3e-3)
    np.testing.assert_allclose(readout.effective_bits, 8, atol=0.6)
    assert np.nanmax(np.abs(readout.nonlinearity)) < 2 / 256


def test_all_passes_are_logged(found):
    bench, probe, _ = found
    assert sum(asked.passes for asked in probe.log) == bench.describe().passes


def test_a_dead_channel_is_named(design):
    def cut(samples, _):
        samples["position.n1"] = np.zeros_like(samples["position.n1"])

    probe = probe_of(design, Broken(bench_of(design, chips=1), cut))
    (finding,) = measure(probe).findings(probe.model)
    assert "position.n1" in finding.subject
    assert "dead" in finding.problem
    assert "probe" in finding.remedy


def test_pilots_that_saturate_are_named(design):
    def full(samples, saturated):
        saturated["momentum.n1"] = np.ones(samples["momentum.n1"].shape, bool)

    bench = bench_of(design, chips=1)
    readout = measure(probe_of(design, bench))
    with pytest.raises(CalibrationError, match=r"momentum.n1: saturated even by pilots.*widen the range"):
        identify(probe_of(design, Broken(bench, full)), readout)


def twins():
    netlist = ladder(2)
    first = next(e for e in netlist.elements if isinstance(e, Inductor))
    return netlist.replace(elements=(*netlist.elements, replace(first, name="twin")))


def test_inductors_side_by_side_are_not_told_apart():
    design = twins().compile(steps=100)
    probe = probe_of(design, bench_of(design, chips=1))
    readout = measure(probe)
    with pytest.raises(CalibrationError, match=r"inductance and twin.inductance.*hold all but one"):
        identify(probe, readout)
    with pytest.raises(ArgumentError, match="did you mean"):
        identify(probe, readout, held=("twin.inductanc",))


@pytest.mark.slow
def test_what_is_held_confuses_nothing():
    design = twins().compile(steps=100)
    probe = probe_of(design, bench_of(design, chips=1))
    assert not identify(probe, measure(probe), held=("twin.inductance",)).confused()


def test_a_chip_far_from_the_drawing_is_named(found, monkeypatch):
    monkeypatch.setattr(stage, "OFF", 0.02)  # a chip with an error of half its value is another design
    _, _, result = found
    words = str(result.findings()[0])
    assert re.search(r"of chip \d: it is [\d.]+ times what is drawn.*check that this is the chip", words)


@pytest.mark.slow
def test_a_hundred_chips(monkeypatch):
    """5 % of mismatch, 8 bits, Q = 1,000, gains of 2 %, offsets of 1 %."""
    monkeypatch.setattr(fitting, "LENGTHS", WHOLE)
    design = Netlist.load("lc-toy").compile()
    bench = bench_of(design, chips=100)
    probe = probe_of(design, bench)
    result = identify(probe, measure(probe))
    told = result.told[probe.model.parts["values"]]
    off = np.abs(result.values - true_values(bench, probe.model))
    print(
        f"identified {np.mean(told):.1%}, within three deviations {np.mean((off < 3 * result.deviations)[told]):.2%}, "
        f"median error {np.median(off[told]):.3%}, largest {np.max(off[told]):.3%}"
    )
    assert np.all(told)
    assert np.mean((off < 3 * result.deviations)[told]) >= 0.99
    assert np.median(off[told]) < 0.002
