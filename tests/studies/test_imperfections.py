"""The studies that are shipped, in small: what they say is what the laws of scaling say."""

from pathlib import Path

import numpy as np
import pytest

from studies import imperfections
from studies.imperfections import (
    ANGLE,
    BITS,
    DRIFT,
    GAIN,
    GAMMA,
    LEARNER,
    MISMATCH,
    NOISE,
    PROTOCOL,
    QUALITY,
    SHOTS,
    STEPS,
    STUDIES,
    Size,
    prepared,
    run_study,
)

SMALL = Size(150, 5, 3, (75, 150))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Data sets and verdicts by study, each computed once, and drawn."""
    known, out = {}, tmp_path_factory.mktemp("studies")

    def get(name):
        if name not in known:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(imperfections, "FAMILIES", {"lc-toy": "LC"})
                (told,) = run_study(name, SMALL, out).values()
            assert all(Path(file).stat().st_size > 10_000 for file in told["files"])
            # What is in the folder is not computed again.
            found = STUDIES[name].results(prepared("lc-toy", SMALL), SMALL, out / f"{name}-lc-toy.zarr", None)
            known[name] = found, told["verdict"]
        return known[name]

    return get


def slope(x, y):
    """Exponent of a power law."""
    return np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0]


@pytest.mark.slow
def test_errors_of_the_echo_hurt_on_both_sides(results):
    found, verdict = results("echo")
    cosine = found["cosine"].squeeze(drop=True).transpose(GAIN, ANGLE).values
    half = len(cosine) // 2
    assert cosine[half - 1 : half + 1, half - 1 : half + 1].min() > cosine[[0, -1]].max()
    assert cosine[half - 1 : half + 1, half - 1 : half + 1].min() > cosine[:, [0, -1]].max()
    assert "gains from" in verdict


@pytest.mark.slow
def test_bits_widen_the_range_of_strengths(results):
    found, verdict = results("precision")
    cosine = found["cosine"].median("chip").squeeze(drop=True)
    counts = [int((cosine.sel({BITS: b}) >= 0.99).sum()) for b in cosine[BITS].values]
    assert np.all(np.diff(counts) >= -1)  # by chance a border cell is on the other side
    assert counts[-1] > counts[0] + 2
    best = cosine.sel({BITS: 10}).argmax(GAMMA).item()
    assert 0 < best < len(cosine[GAMMA]) - 1  # a U: too weak is noise, too strong is bias
    assert "bits" in verdict


@pytest.mark.slow
def test_shots_average_noise(results):
    found, _ = results("noise")
    error = found["error"].median("chip").squeeze(drop=True)
    small = error.isel({NOISE: slice(0, 3)})
    assert np.all(small.sel({SHOTS: 16}) < 0.5 * small.sel({SHOTS: 1}))
    # At the strength that suits the noise σ, errors go as σ^(2/3): docs/physics.md, section 11.
    assert slope(small[NOISE], small.sel({SHOTS: 1})) == pytest.approx(2 / 3, abs=0.3)


@pytest.mark.slow
def test_loss_hurts_by_its_rate_and_is_made_up_for(results):
    found, verdict = results("loss")
    error = found["error"]
    high = error.isel({QUALITY: slice(-2, None)})
    plain, made_up = high.sel({LEARNER: "as it is"}), high.sel({LEARNER: "made up for"})
    assert slope(high[QUALITY], plain.isel({STEPS: -1})) == pytest.approx(-1, abs=0.1)
    assert np.all(made_up.isel({STEPS: -1}) < plain.isel({STEPS: -1}) / 3)
    assert np.all(plain.isel({STEPS: -1}) > plain.isel({STEPS: 0}))  # longer passes lose more
    assert "made up for" in verdict


@pytest.mark.slow
def test_drift_hurts_by_its_size(results):
    found, _ = results("drift")
    error = found["error"].median("chip").squeeze(drop=True).isel({DRIFT: slice(0, 2)})
    for protocol in error[PROTOCOL].values:
        assert slope(error[DRIFT], error.sel({PROTOCOL: protocol})) == pytest.approx(1, abs=0.35)


@pytest.mark.slow
def test_a_chip_that_is_known_teaches_its_own_gradient(results):
    found, _ = results("mismatch")
    error = found["error"].median("chip").squeeze(drop=True)
    assert np.all(error.sel({LEARNER: "of the chip, calibrated"}) < 1e-6)
    assert slope(error[MISMATCH], error.sel({LEARNER: "of the chip"})) == pytest.approx(1, abs=0.25)
    assert np.all(error.sel({LEARNER: "of the chip"}) < error.sel({LEARNER: "of the ideal circuit"}))
