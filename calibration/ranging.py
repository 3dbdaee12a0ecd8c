"""Ranges of readout channels as small as what they read allows, from pilot passes.

Noise, offset, bow and resolution of a channel are in full scales of the range that its amplifier is set to: a signal
that is k times smaller than the widest range is read k times better once the range fits it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from calibration.findings import Finding
from devices import ArgumentError
from rhel_hw.bench import SLACK, Bench, Description, Shot

HEADROOM = 1.3
"""Range over the largest that was read, if nobody says otherwise."""
WIDER = 2.0
"""By what a range grows that was too small after all."""


@dataclass(frozen=True)
class Ranging:
    """Ranges that were chosen, and what stood against them."""

    ranges: Mapping[str, float]
    """Full scales in SI by channel, as `Shot.ranges` takes them; none of a bench whose ranges are fixed."""
    peaks: Mapping[str, float]
    """Largest magnitudes that were read at the widest ranges, in SI."""
    pilots: int
    """How many times the shots were made."""
    findings: tuple[Finding, ...] = ()


def ranged(bench: Bench, shots: Shot | Sequence[Shot], headroom: float = HEADROOM) -> Ranging:
    """Ranges at which nothing clips, as small as the bench can have them.

    Shots are made in their order at the widest ranges; peaks are over all of them, their runs and all chips. Then they
    are made again at the ranges that follow, and those that clip are doubled until none does.

    Arguments:
        bench: that shall read them.
        shots: passes like those that the ranges are for, such as a held one and its echo.
        headroom: range over peak.
    """
    if not np.isfinite(headroom) or headroom < 1:
        raise ArgumentError(f"Argument `headroom` must be at least 1, but is {headroom!r}")
    told = bench.describe()
    given = [shots] if isinstance(shots, Shot) else list(shots)
    if not given:
        raise ArgumentError("Argument `shots` must have one at least, but has none")
    if told.zoom == 1:
        fixed = Finding(
            "ranges",
            "those of this bench are fixed",
            "give its channels amplifiers that can be set, or drive it so that its ranges are filled",
            fatal=False,
        )
        return Ranging({}, {}, 0, (fixed,))
    widest = {name: channel.full_scale for name, channel in told.channels.items()}
    peaks, clipped = _pilot(bench, told, given, {})
    narrowest = {name: scale / told.zoom for name, scale in widest.items()}
    ranges = {
        name: widest[name] if name in clipped else float(np.clip(headroom * peak, narrowest[name], widest[name]))
        for name, peak in peaks.items()
    }
    # At its widest a range clips again, and cannot be helped.
    pilots, helpless = 1, set(clipped)
    while any(scale < widest[name] for name, scale in ranges.items()):
        _, clipped = _pilot(bench, told, given, ranges)
        pilots += 1
        close = [name for name in clipped if ranges[name] < widest[name]]
        helpless |= {name for name in clipped if ranges[name] >= widest[name]}
        if not close:
            break
        ranges |= {name: min(WIDER * ranges[name], widest[name]) for name in close}
    return Ranging(ranges, peaks, pilots, tuple(_loud(name) for name in ranges if name in helpless))


def _pilot(
    bench: Bench, told: Description, shots: Sequence[Shot], ranges: Mapping[str, float]
) -> tuple[dict[str, float], set[str]]:
    """Largest magnitudes of all channels that are read, and those that were beyond their range."""
    peaks: dict[str, float] = {}
    clipped: set[str] = set()
    for shot in shots:
        record = bench.run(replace(shot, ranges=ranges))
        for name in record.samples.keys() & told.channels.keys():
            peak = float(np.max(np.abs(record[name]), initial=0.0))
            beyond = record.saturated.get(name)
            largest = (1 + SLACK) * ranges.get(name, told.channels[name].full_scale)
            if not peak <= largest or (beyond is not None and np.any(beyond)):  # of NaN it is not
                clipped.add(name)
            peaks[name] = max(peaks.get(name, 0.0), peak)
    return {name: peaks[name] for name in told.channels if name in peaks}, clipped


def _loud(name: str) -> Finding:
    return Finding(
        f"channel {name}",
        "what it reads is beyond its widest range",
        "widen the range of this channel, or drive the bench less",
    )
