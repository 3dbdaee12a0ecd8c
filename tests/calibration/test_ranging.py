"""Ranges that fit what is read: as small as they can be, and nothing clips."""

from dataclasses import replace

import numpy as np
import pytest

from calibration.findings import CalibrationError, refuse
from calibration.ranging import HEADROOM, ranged
from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import EmulatedBench, Profile, Shot

STEPS = 60
READOUT = {"bits": 8, "zoom": 50.0, "offset": 0.01, "gain_spread": 0.02}


@pytest.fixture(scope="module")
def design():
    return ladder(3).compile(steps=STEPS)


def bench_of(design, **readout):
    return EmulatedBench(design, Profile.of({"readout": {**READOUT, **readout}}), chips=2, seed=3)


def pilot(design, part):
    """A drive whose response is such a part of what the ranges are for."""
    drive = {d.name: part * np.sin(0.3 * np.arange(STEPS))[:, None] for d in design.netlist.drives}
    largest = EmulatedBench(design).run(Shot(STEPS, drive))
    told = EmulatedBench(design).describe()
    filled = max(np.max(np.abs(largest[n])) / c.full_scale for n, c in told.channels.items())
    return Shot(STEPS, {name: part * wave / filled for name, wave in drive.items()})


def errors(design, shot, ranges):
    """Root mean square against a bench that only resolves finely, over the widest range, by channel."""
    own, fine = bench_of(design), bench_of(design, bits=24)
    found, exact = (b.run(replace(shot, ranges=ranges)) for b in (own, fine))
    scales = {name: channel.full_scale for name, channel in own.describe().channels.items()}
    return {n: np.sqrt(np.mean((found[n] - exact[n]) ** 2)) / scale for n, scale in scales.items()}


def test_ranges_follow_what_is_read(design):
    """Range = headroom × peak; the quantisation error falls as the range does, and nothing clips."""
    bench, shot = bench_of(design), pilot(design, 0.1)
    found = ranged(bench, shot)
    assert not found.findings
    assert bench.describe().passes == found.pilots == 2
    told = bench.describe().channels
    assert found.ranges.keys() == told.keys()
    for name, scale in found.ranges.items():
        assert scale == pytest.approx(np.clip(HEADROOM * found.peaks[name], told[name].full_scale / 50, np.inf))
    assert not bench_of(design).run(replace(shot, ranges=found.ranges)).clipped
    coarse, fine = errors(design, shot, {}), errors(design, shot, found.ranges)
    loud = [n for n in told if found.peaks[n] > 0.05 * told[n].full_scale]  # those that move by some codes
    gained = np.array([fine[n] / coarse[n] for n in loud])
    expected = np.array([found.ranges[n] / told[n].full_scale for n in loud])
    np.testing.assert_allclose(gained, expected, rtol=0.4)


def test_what_is_beyond_the_widest_range_is_named(design):
    bench, shot = bench_of(design), pilot(design, 3.0)
    found = ranged(bench, [replace(shot, hold=True), replace(shot, echo=True)])
    told = bench.describe().channels
    loud = {n for n, c in told.items() if found.ranges[n] == c.full_scale}
    assert loud
    assert {f.subject.removeprefix("channel ") for f in found.findings} <= loud
    with pytest.raises(CalibrationError, match=r"beyond its widest range; widen the range of this channel"):
        refuse(found.findings)


class Growing:
    """A bench on which everything is three times larger from the second pass on."""

    def __init__(self, bench):
        self.bench, self.describe, self.program = bench, bench.describe, bench.program
        self.calls = 0

    def run(self, shot):
        self.calls += 1
        drive = {k: v * (3.0 if self.calls > 1 else 1.0) for k, v in shot.drive.items()}
        return self.bench.run(replace(shot, drive=drive))


def test_a_range_that_clips_after_all_is_doubled(design):
    """Three times larger with a headroom of 1.3: two doublings, where they are needed."""
    bench, shot = Growing(bench_of(design)), pilot(design, 0.1)
    found = ranged(bench, shot)
    assert bench.calls == found.pilots == 4
    assert not found.findings
    grown = {n: found.ranges[n] / (HEADROOM * found.peaks[n]) for n in found.ranges}
    assert max(grown.values()) == pytest.approx(4)
    assert not bench.run(replace(shot, ranges=found.ranges)).clipped


def test_fixed_ranges_stay_and_that_is_said(design):
    bench = bench_of(design, zoom=1.0)
    found = ranged(bench, pilot(design, 0.1))
    assert found.ranges == {}
    assert bench.describe().passes == 0
    (finding,) = found.findings
    assert "fixed" in finding.problem
    refuse(found.findings)  # no reason to stop


@pytest.mark.parametrize(
    ("shots", "headroom", "message"),
    [
        (Shot(5), 0.9, "`headroom` must be at least 1"),
        (Shot(5), np.nan, "`headroom` must be at least 1"),
        ([], 1.3, "`shots` must have one at least"),
    ],
)
def test_what_makes_no_sense_is_refused(design, shots, headroom, message):
    with pytest.raises(ArgumentError, match=message):
        ranged(bench_of(design), shots, headroom)
