"""Noise and effective bits of drives, against converters that are known."""

import re

import numpy as np
import pytest

from calibration.converters import measure as measure_readout
from calibration.drives import bits_of, measure
from calibration.identify import identify
from calibration.model import QUALITY, Model
from calibration.probe import Probe
from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import EmulatedBench, Profile
from tests.calibration.chips import true_unknowns

QUIET = 1e-9
"""Noise that is on, so that benches are alike, and is none."""


def chip(bits=24, noise=QUIET, read=1e-4):
    return Profile.of(
        {
            "fabrication": {"mismatch": 0.05},
            "dynamics": {"quality": 1000.0},
            "drive": {"bits": bits, "noise": noise, "gain": 1.02, "offset": 0.01},
            "readout": {"noise": read},
        }
    )


CHIPS = [chip(bits=6), chip(bits=8), chip(noise=1e-2), chip(noise=1e-3, read=0.1), chip(bits=8, noise=1e-2)]


@pytest.fixture(scope="module")
def found():
    design = ladder(2).compile(steps=150)
    bench = EmulatedBench(design, CHIPS, chips=len(CHIPS), seed=2)
    probe = Probe(bench, Model.of(design, bench.describe()))
    noise = np.array([[p.readout.noise for p in CHIPS]] * len(probe.model.channels))
    x = true_unknowns(bench, probe.model, QUALITY / 1000, (1.02, 0.01, 0.0))
    result = measure(probe, x, noise)
    print(result, result.deviation)
    return probe, x, result


def test_bits_of_drives_are_found(found):
    """σ = LSB/√12 is that of so many bits, by definition; found to half a bit."""
    _, _, result = found
    np.testing.assert_allclose(bits_of(2.0 ** (1 - np.array([6, 8])) / np.sqrt(12)), [6, 8])
    np.testing.assert_allclose(result.effective_bits[0, :2], [6, 8], atol=0.5)
    assert not np.any(result.hidden[0, :3])


def test_noise_of_drives_is_found(found):
    """Alone, and with a resolution: their squares add."""
    _, _, result = found
    assert result.noise[0, 2] == pytest.approx(1e-2, rel=0.2)
    assert result.noise[0, 4] == pytest.approx(np.hypot(1e-2, 2 / 256 / np.sqrt(12)), rel=0.2)


def test_what_the_readout_hides_is_bounded(found):
    _, _, result = found
    assert result.hidden[0, 3]
    assert 1e-3 < result.most[0, 3] < 0.2
    assert "of chip 3: at least" in str(result)
    assert re.search(r"of chip 2: 5\.\d bits, σ = 0\.\d+ full scales", str(result))


def test_deviations_are_those_of_other_waveforms(found):
    """Over several draws the scatter of σ² is what each of them says of itself, to a factor that 8 draws leave."""
    probe, x, _ = found
    noise = np.array([[p.readout.noise for p in CHIPS]] * len(probe.model.channels))
    draws = [measure(probe, x, noise, seed=s) for s in range(1, 9)]
    scatter = np.std([d.variance[0, [1, 2, 4]] for d in draws], axis=0, ddof=1)
    said = np.mean([d.deviation[0, [1, 2, 4]] for d in draws], axis=0)
    print("scatter over said", scatter / said)
    assert np.all((scatter / said > 0.4) & (scatter / said < 2.0))
    assert np.mean([d.most[0, 3] > 1e-3 for d in draws]) == 1


def test_deviations_need_runs(found):
    probe, x, _ = found
    with pytest.raises(ArgumentError, match="`runs` must be at least 4"):
        measure(probe, x, np.ones((len(probe.model.channels), len(CHIPS))), runs=3)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [6, 8])
def test_after_identification(bits):
    """The same with values that were identified, behind a readout of twelve bits."""
    design = ladder(2).compile(steps=150)
    own = Profile.of(
        {
            "fabrication": {"mismatch": 0.05}, "dynamics": {"quality": 1000.0},
            "drive": {"bits": bits, "gain": 1.02, "offset": 0.01},
            "readout": {"bits": 12, "gain_spread": 0.02, "offset": 0.01},
        }
    )  # fmt: skip
    bench = EmulatedBench(design, own, chips=3, seed=2)
    probe = Probe(bench, Model.of(design, bench.describe()))
    readout = measure_readout(probe)
    result = measure(probe, identify(probe, readout).fit.x, readout.noise)
    print(result)
    np.testing.assert_allclose(result.effective_bits, bits, atol=0.5)
