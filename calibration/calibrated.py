"""A bench around a bench: it puts right what calibration knows to be off, and is a bench itself.

Waveforms are told so that what is played is what is meant, echoes so that the device goes back the way it came, and
readings come out as what was there. What is ideal is passed on as it is, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from calibration.corrections import ROUND, Corrections
from calibration.transfer import Transfer
from devices import ArgumentError
from rhel_hw.bench import Bench, Description, Kind, Limits, Record, Samples, Shot, refuse_unknown, sample_count

Floats = NDArray[np.float64]


class CalibratedBench:
    """A bench with corrections.

    Arguments:
        bench: as it is.
        corrections: for each of its chips.
    """

    def __init__(self, bench: Bench, corrections: Corrections) -> None:
        told = bench.describe()
        if corrections.chips != told.chips:
            raise ArgumentError(
                f"Argument `corrections` must be for the {told.chips} chips of the bench, but is for "
                f"{corrections.chips}"
            )
        refuse_unknown("ranges", corrections.ranges, told.channels)
        refuse_unknown("readout", corrections.readout, told.channels)
        refuse_unknown("drives", corrections.drives, told.drives)
        refuse_unknown("nudges", corrections.nudges, told.nudges)
        refuse_unknown("turn", corrections.turn, dict.fromkeys(told.nodes))
        if corrections.turn and not told.trims:
            raise ArgumentError("Argument `corrections` must have no turn: that of this bench cannot be trimmed")
        self.bench, self.corrections = bench, corrections
        self._every = told.decimation
        self._programmable = set(told.parameters)

    # The interface ---------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        """What the bench behind says, put right, with what is known of its chips."""
        told, own = self.bench.describe(), self.corrections
        if own.ideal:
            return told
        channels = {k: replace(c, full_scale=own.ranges.get(k, c.full_scale)) for k, c in told.channels.items()}
        return replace(
            told,
            channels=channels,
            parameters={k: self._limits(k, v) for k, v in told.parameters.items()},
            trims=told.trims and not own.turn,
            values={k: tuple(map(float, v)) for k, v in own.values.items() if k not in self._programmable},
            learning={**told.learning, "gamma": "auto"} if own.strengths else told.learning,
            decays=own.decays,
            strengths=own.strengths,
        )

    def _limits(self, name: str, limits: Limits) -> Limits:
        """Values that all chips can be given."""
        known = self.corrections.values.get(name)
        if known is None:
            return limits
        return replace(limits, low=float(np.max(limits.low * known)), high=float(np.min(limits.high * known)))

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters so that they come out as wanted."""
        known = self.corrections.values
        self.bench.program({k: np.asarray(v) / known[k] if k in known else v for k, v in parameters.items()})

    def run(self, shot: Shot) -> Record:
        """Make a pass."""
        if self.corrections.ideal:
            return self.bench.run(shot)
        if shot.trim and self.corrections.turn:
            raise ArgumentError("Argument `trim` must be left out: calibration has trimmed the turn of this bench")
        return self._put_right(self.bench.run(self._told(shot)), shot)

    def progress(self) -> Any:
        """How far an emulated bench behind has come; None of others."""
        known = getattr(self.bench, "progress", None)
        return None if known is None else known()

    def resume(self, progress: Any) -> None:
        """Go on from there."""
        self.bench.resume(progress)  # type: ignore[attr-defined]

    # What the bench is told ------------------------------------------------------------------------------------------

    def _told(self, shot: Shot) -> Shot:
        own = self.corrections
        waves = {**self._silent(shot.steps), **shot.drive}
        changes: dict[str, Any] = {
            "steps": self._steps(shot),
            "drive": {name: self._drive(name, wave, shot) for name, wave in waves.items()},
            "nudge": {name: self._nudge(name, wave, shot) for name, wave in shot.nudge.items()},
        }
        if shot.echo and own.turn:
            changes["trim"] = {node: (-angle, 1 / gain) for node, (angle, gain) in own.turn.items()}
        if own.ranges:
            changes["ranges"] = {k: v for k, v in own.ranges.items() if shot.channels is None or k in shot.channels}
        return replace(shot, **changes)

    def _steps(self, shot: Shot) -> int:
        clock = self.corrections.clock
        return shot.steps + (clock.longer if shot.echo else clock.coasting if shot.hold else 0)

    def _silent(self, steps: int) -> dict[str, Samples]:
        """Drives that must be told to be silent."""
        wave = np.zeros((steps, 1, 1))
        return {name: wave for name, curve in self.corrections.drives.items() if np.any(curve.offset)}

    def _drive(self, name: str, wave: Samples, shot: Shot) -> Samples:
        """A waveform in the order of the free pass, as the converter must be told."""
        own, sign = self.corrections, 1
        if shot.echo:
            wave, sign = own.clock.told(wave[::-1], silent=False)[::-1], own.parities.get(name, 1)
        elif shot.hold:
            wave = np.concatenate([wave, np.zeros((own.clock.coasting, *wave.shape[1:]))])
        curve = own.drives.get(name)
        return wave if curve is None or curve.ideal else sign * curve.correct(sign * wave)

    def _nudge(self, name: str, wave: Samples, shot: Shot) -> Samples:
        own = self.corrections
        if shot.echo:
            wave = own.clock.told(wave, silent=True)
        elif shot.hold:
            wave = np.concatenate([wave, np.zeros((own.clock.coasting, *wave.shape[1:]))])
        curve = own.nudges.get(name)
        return wave if curve is None or curve.ideal else curve.correct(wave)

    # What it read ----------------------------------------------------------------------------------------------------

    def _put_right(self, record: Record, shot: Shot) -> Record:
        names = tuple(record.samples)
        groups = tuple(record.blocks) or tuple(
            group for group in (tuple(n for n in names if _kind(n) is kind) for kind in Kind) if group
        )
        fixed = {group: self._read(group, np.asarray(record.stacked(group))) for group in groups}
        times, flags = dict(record.times_s), dict(record.saturated)
        if self._steps(shot) > shot.steps:
            first = self.corrections.clock.waited // self._every if shot.echo else 0
            for group in groups:
                count = sample_count(_kind(group[0]), shot.steps, self._every)
                fixed[group] = self._retimed(fixed[group], first, count) if shot.echo else fixed[group][:count]
                times |= {name: record.times_s[name][:count] for name in group}
                flags |= {name: flags[name][first : first + count] for name in group if name in flags}
        samples = {name: block[:, i] for group, block in fixed.items() for i, name in enumerate(group)}
        return Record(times, {name: samples[name] for name in names}, record.units, flags, fixed)

    def _read(self, names: tuple[str, ...], block: Floats) -> Floats:
        """Samples (samples, channels, runs, chips) as they were before the converters."""
        own = self.corrections.readout
        if all(name not in own or own[name].ideal for name in names):
            return block
        curves = [own.get(name, Transfer(1.0)) for name in names]

        def stacked(part: str) -> Floats:
            values = [np.asarray(getattr(c, part), float) for c in curves]
            return np.stack([np.broadcast_to(v, block.shape[3:]) for v in values])[:, None]

        return Transfer(*map(stacked, ("full_scale", "gain", "offset", "bow"))).correct(block)

    def _retimed(self, block: Floats, first: int, count: int) -> Floats:
        """Samples of an echo from when it is back at the end of its pass."""
        rest = first - self.corrections.clock.late / self._every
        if rest < ROUND or len(block) < 4:
            return block[first : first + count]
        places = np.arange(first, first + count) - rest
        return np.asarray(CubicSpline(np.arange(len(block)), block)(places))


def _kind(channel: str) -> Kind:
    return Kind(channel.partition(".")[0])
