"""Latency and skew against those that benches have."""

import numpy as np
import pytest

from calibration.converters import measure as read_levels
from calibration.identify import identify
from calibration.model import Model
from calibration.probe import Probe
from calibration.timing import combined, measure, snapped
from circuits import Netlist
from circuits.generators import ladder
from tests.calibration.chips import IDEAL, bench_of, known_of

LATE = 2.3
"""Latency in steps."""


@pytest.fixture(scope="module")
def design():
    return ladder(2).compile(steps=100)


def timing_of(design, *, spread=3e-4, echo=None, **changes):
    echo = {k: v * design.step_s if k in ("latency", "skew") else v for k, v in (echo or {}).items()}
    bench = bench_of(design, echo=echo, **changes)
    model = Model.of(design, bench.describe())
    return measure(Probe(bench, model), known_of(bench, model, spread))


def assert_found(found, skew, latency):
    """Skew within four deviations, both within a fiftieth of a step."""
    vague = found.skew_deviation_s / found.step_s
    print(
        f"skew {found.skew:.4f} ± {vague:.4f} of {skew}, latency {found.latency:.4f} ± "
        f"{found.latency_deviation_s / found.step_s:.4f} of {latency} steps"
    )
    assert abs(found.skew - skew) < min(0.02, 4 * vague)
    assert abs(found.latency - latency) < 0.02
    assert not found.findings


@pytest.mark.parametrize("skew", [0.37, -2.6, 4.0])
def test_skew_and_latency_with_eight_bits(design, skew):
    assert_found(timing_of(design, echo={"skew": skew, "latency": LATE}), skew, LATE)


def test_an_ideal_bench_has_neither(design):
    found = timing_of(design, spread=0.0, **IDEAL)
    assert found.ideal
    assert (found.latency_s, found.skew_s) == (0.0, 0.0)


def test_numbers_of_chips_are_weighted_by_what_they_know():
    """1 ± 1 and 4 ± ½: (1 + 16)/5 ± 1/√5, and wider as they are further apart than that."""
    mean, deviation = combined(np.array([1.0, 4.0]), np.array([1.0, 0.5]))
    assert mean == pytest.approx(3.4)
    assert deviation == pytest.approx(np.sqrt((2.4**2 + 4 * 0.6**2) / 5))


def test_only_what_is_sure_is_no_ideal_value():
    assert snapped(0.3, 0.11) == 0.0
    assert snapped(0.3, 0.09) == 0.3
    np.testing.assert_array_equal(snapped([1.2, 1 + 1e-7, 1.01], [0.01, 0.0, 0.01], 1.0), [1.2, 1.0, 1.0])


OTHERS = {
    "sign-flip": {"echo": {"operation": "sign-flip"}},
    "a bad turn": {"echo": {"gain": 1.02}},
    "every fourth step": {"readout": {"bits": 8, "decimation": 4}},
    "nudges": {"drive": {}, "nudge": {"bits": 6, "offset": 0.02, "gain": 1.1}},
    "nudges, sign-flip": {"drive": {}, "echo": {"operation": "sign-flip"}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_other_benches(name):
    changes = dict(OTHERS[name])
    echo = {"skew": -1.4, "latency": 0.7, **changes.pop("echo", {})}
    netlist = ladder(2).replace(drives=()) if "nudges" in name else ladder(2)
    assert_found(timing_of(netlist.compile(steps=100), echo=echo, **changes), -1.4, 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lc-toy", "kerr-chain"])
def test_after_identification(name):
    """Drives of rings push both quadratures or the odd one: the reference is conjugated as the echo is."""
    design = Netlist.load(name).compile(steps=200)
    echo = {"skew": 1.25 * design.step_s, "latency": 3.4 * design.step_s}
    loss = {} if name == "kerr-chain" else {"quality": 1000.0}
    bench = bench_of(design, echo=echo, dynamics=loss)
    probe = Probe(bench, Model.of(design, bench.describe()))
    assert_found(measure(probe, identify(probe, read_levels(probe))), 1.25, 3.4)
