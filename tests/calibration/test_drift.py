"""Trends of values against those that chips have, and flicker that is none."""

import numpy as np
import pytest

from calibration import fitting
from calibration.converters import measure as read_levels
from calibration.drift import measure
from calibration.identify import identify
from calibration.model import Model
from calibration.probe import Probe
from circuits.generators import ladder
from tests.calibration.chips import bench_of, known_of

DRIFT = 1e-4
"""Relative change per pass."""


def drift_of(*, chips=2, repeats=24, seed=1, spread=3e-4, steps=100, **dynamics):
    design = ladder(2).compile(steps=steps)
    bench = bench_of(design, chips=chips, seed=seed, dynamics={"quality": 1000.0, **dynamics})
    model = Model.of(design, bench.describe())
    return bench, measure(Probe(bench, model), known_of(bench, model, spread), repeats=repeats)


def true_rates(bench, names):
    """Relative to what the values are now, per pass, (values, chips)."""
    chips = bench._chips
    places = [chips._by_name[name] for name in names]
    return bench.profile.dynamics.drift * chips._direction[places] / (1 + chips._mismatch[places])


@pytest.fixture(scope="module")
def drifting():
    return drift_of(drift=DRIFT)


def test_rates_within_their_deviations(drifting):
    bench, found = drifting
    off = np.abs(found.rates - true_rates(bench, found.names)) / found.deviations
    assert np.max(off) < 4
    assert np.median(found.deviations) < DRIFT / 2
    assert np.any(found.seen)
    assert found.track.shape == (24, *found.rates.shape)


def test_the_interval_is_that_of_the_fastest_value(drifting):
    bench, found = drifting
    soon = found.interval(2e-3)
    true = np.abs(true_rates(bench, found.names))
    assert soon.seen
    assert soon.passes == pytest.approx(2e-3 / np.max(true), rel=0.4)
    assert soon.passes == pytest.approx(2 * found.interval().passes)
    assert soon.seconds == pytest.approx(soon.passes * 100 * bench.design.step_s)
    assert any("calibrate again before that" in str(f) for f in found.findings())


def test_no_drift_is_seen_where_there_is_none(drifting):
    """The same programs: a drift that is far below what is seen, and a bound for it."""
    _, found = drift_of(drift=1e-12)
    assert not np.any(found.seen)
    assert not np.any(found.scatter)
    soon = found.interval()
    assert not soon.seen
    assert soon.passes > 1e-3 / (4 * DRIFT)
    assert not found.findings()


def test_flicker_is_scatter_and_no_drift():
    """Root mean square 1 % over sixteen octaves, of which passes of a set and of all sets show some."""
    _, found = drift_of(flicker=0.01)
    assert not np.any(found.seen)
    assert np.all(found.scatter > 1e-3)
    assert np.all(found.scatter < 1e-2)
    assert any("scatters by" in str(f) for f in found.findings())


@pytest.mark.slow
@pytest.mark.parametrize("dynamics", [{"drift": 1e-5}, {"flicker": 0.01}, {"drift": 3e-5, "flicker": 0.003}])
def test_of_many_chips(dynamics):
    """How far rates are off in units of their deviations."""
    bench, found = drift_of(chips=32, seed=7, **dynamics)
    off = (found.rates - true_rates(bench, found.names)) / found.deviations
    print(f"{dynamics}: root mean square {np.sqrt(np.mean(off**2)):.2f}, largest {np.max(np.abs(off)):.2f} deviations; "
          f"scatter {np.median(found.scatter):.1e}, deviation {np.median(found.deviations):.1e} per pass")  # fmt: skip
    assert np.sqrt(np.mean(off**2)) < 1.6
    assert np.mean(np.abs(off) < 4) > 0.98


@pytest.mark.slow
def test_after_identification():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "LENGTHS", (1.0,))
        design = ladder(2).compile(steps=150)
        bench = bench_of(design, chips=3, dynamics={"quality": 1000.0, "drift": 2e-6})
        probe = Probe(bench, Model.of(design, bench.describe()))
        known = identify(probe, read_levels(probe))
    found = measure(probe, known, repeats=64)
    off = np.abs(found.rates - true_rates(bench, found.names)) / found.deviations
    print(f"off by {np.max(off):.1f} deviations of {np.median(found.deviations):.1e} per pass; {found.interval()}")
    assert np.max(off) < 4
