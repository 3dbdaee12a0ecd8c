"""How well echoes return, against the time that they take, and what keeps them from it.

Passes of several lengths are held and echoed without a nudge. An ideal echo ends where the pass began: positions in the
middle of its last step are those in the middle of the first, momenta at its end minus those at the start. The return
error is the root mean square of what is left, over that of the start, all in full scales and free of what the readout
does. The model makes the same passes with all that was measured, and with one thing at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from calibration.echoing import EchoModel, Told
from calibration.findings import Finding
from calibration.identify import Identified
from calibration.model import Model, Start
from calibration.probe import Probe
from calibration.timing import noise_of, random_states
from calibration.transfer import MOST, Transfer
from calibration.turn import SIZE, Turn
from rhel_hw.bench import Kind, Shot

Array = Any
Floats = NDArray[np.float64]

LENGTHS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Of passes, over the steps of the design."""
STATES = 3
"""Prepared passes of each length, each silent and, where there are drives, driven."""
SEEN = 1e-6
"""Return error of which there is something to say."""
REMEDIES = {
    "gain": "trim the turn (`Turn.trim`), or repair its gain",
    "angle": "trim the turn (`Turn.trim`), or repair its angle",
    "timing": "shift drives and nudges by the skew, let the passes end earlier by the latency, or use shorter passes",
    "loss": "let the echo gain what is lost (`Shot.amplify`), weight drives and readout, or use shorter passes",
    "readout": "average over echoes, or use more of the converters' range: nothing else is left to gain",
}
"""What to do about each contribution."""


@dataclass(frozen=True, eq=False)
class EchoQuality:
    """Return errors by length and chip, (lengths, chips), relative to the start."""

    times_s: Floats
    """Of the free passes, (lengths,)."""
    measured: Floats
    deviations: Floats
    """Of what is measured, by the noise of the readout."""
    trimmed: Floats | None
    """The same with the turn trimmed; None if it cannot be, or needs not."""
    expected: Floats
    """By the model, with everything that was measured."""
    expected_trimmed: Floats | None
    contributions: Mapping[str, Floats]
    """By the model: gain, angle, timing (latency and skew), loss, each by itself, and the noise of the readout."""

    @property
    def dominant(self) -> list[str]:
        """What spoils the longest echo of every chip most."""
        last = np.stack([c[-1] for c in self.contributions.values()])
        names = list(self.contributions)
        return [names[int(i)] for i in np.argmax(last, axis=0)]

    def findings(self) -> list[Finding]:
        """What dominates, and what to do about it."""
        found = []
        for name in dict.fromkeys(self.dominant):
            chips = [i for i, own in enumerate(self.dominant) if own == name]
            if np.all(self.measured[-1, chips] < SEEN):
                continue
            worst = max(chips, key=lambda chip: float(self.measured[-1, chip]))
            share = self.contributions[name][-1, worst]
            found.append(
                Finding(
                    f"echoes of {'all chips' if len(chips) == len(self.dominant) else f'chips {_listed(chips)}'}",
                    f"after {self.times_s[-1]:.3g} s they miss their start by {self.measured[-1, worst]:.2g}, most "
                    f"of it by {name}, which alone makes {share:.2g}",
                    REMEDIES[name],
                    fatal=False,
                )
            )
        return found


def _listed(chips: Sequence[int]) -> str:
    return ", ".join(map(str, chips[:8])) + (" and others" if len(chips) > 8 else "")


def measure(
    probe: Probe, identified: Identified, turn: Turn, *, lengths: Sequence[float] | None = None, seed: int = 0
) -> EchoQuality:
    """Passes of several lengths and their echoes, and what the model makes of them."""
    model = probe.model
    every, size = model.bench.decimation, model.design.steps
    # The last step of an echo is read only if all steps but it fill whole periods of the decimation.
    parts = LENGTHS if lengths is None else lengths
    steps = sorted({max(1, every * round(part * size / every) - (every - 1)) for part in parts})
    system = turn.model(identified)
    starts: Sequence[Start | None] = [None]
    if model.bench.nodes:
        starts = random_states(model, STATES, SIZE, np.random.default_rng([seed, 3]))
    trim = turn.trim(model.bench.nodes) if model.bench.trims else {}
    rows = [_length(probe, identified, turn, system, starts, k, trim) for k in steps]
    names = ("gain", "angle", "timing", "loss", "readout")
    return EchoQuality(
        np.array(steps) * model.design.step_s,
        np.stack([r["measured"] for r in rows]),
        np.stack([r["deviation"] for r in rows]),
        np.stack([r["trimmed"] for r in rows]) if trim else None,
        np.stack([r["expected"] for r in rows]),
        np.stack([r["expected trimmed"] for r in rows]) if trim else None,
        {name: np.stack([r[name] for r in rows]) for name in names},
    )


def _length(
    probe: Probe,
    identified: Identified,
    turn: Turn,
    system: EchoModel,
    starts: Sequence[Start | None],
    steps: int,
    trim: Mapping[str, Any],
) -> dict[str, Floats]:
    """Everything about passes of one length, (chips,) each."""
    model, x = probe.model, identified.fit.x
    waves = _waves(identified, steps)
    told = _told(model, waves, starts, both=turn.both)
    plain = np.stack([np.zeros_like(turn.gain), np.ones_like(turn.gain)])
    clean = system.joined(x, turn.unknowns())
    still = np.zeros_like(turn.unknowns())
    free, echo = _programs(system, clean, told, plain)
    began, miss = _apart(system, free, echo)
    # What starts from rest has no size there: then it is that of the whole pass.
    size = _rms(began) if any(starts) else np.sqrt(np.mean(np.asarray(free)[:, _ends(system)] ** 2, axis=(0, 1, 2)))
    noise = noise_of(identified) / np.asarray(model.readout(x))[0, :, 0]
    floor, deterministic = np.sqrt(2 * np.mean(noise[_ends(system)] ** 2, axis=0)) / size, _rms(miss) / size

    def error(unknowns: Floats, trimmed: Floats = plain) -> Floats:
        return np.asarray(_rms(_apart(system, *_programs(system, unknowns, told, trimmed))[1]) / size)

    def seen(trimmed: Mapping[str, Any]) -> Floats:
        records = _records(probe, waves, starts, steps, trimmed)
        return np.asarray(_rms(_apart(system, *(_straight(identified, r) for r in records))[1]) / size)

    expected = np.hypot(deterministic, floor)
    spread = np.sqrt((4 * deterministic**2 * floor**2 + 2 * floor**4) / (miss.shape[0] * miss.shape[1]))
    found = {
        "measured": seen({}),
        "expected": expected,
        "deviation": spread / (2 * np.maximum(expected, 1e-300)),
        "readout": floor,
        "loss": error(system.joined(x, still)),
    }
    for name, parts in (("gain", ("gains",)), ("angle", ("angles",)), ("timing", ("latency", "skew"))):
        one = system.joined(_lossless(identified), still)
        for part in parts:
            one[system.parts[part]] = clean[system.parts[part]]
        found[name] = error(one)
    if trim:
        found["trimmed"], found["expected trimmed"] = seen(trim), np.hypot(error(clean, turn.trimmed()), floor)
    return found


def _rms(x: Floats) -> Floats:
    """Over channels and runs, (chips,)."""
    return np.asarray(np.sqrt(np.mean(x**2, axis=(0, 1))))


def _waves(identified: Identified, steps: int) -> Floats:
    """One silent run and one that is driven, (steps, drives, runs), or the silent one alone."""
    voiced = identified.stimuli.voiced(identified.model)[:steps, :, :1]
    return np.concatenate([np.zeros((steps, len(identified.model.drives), 1)), voiced], axis=2)


def _told(model: Model, waves: Floats, starts: Sequence[Start | None], *, both: bool) -> Told:
    """All runs from every start."""
    runs = waves.shape[2]
    states = [model.state(*(start or ({}, {})), runs) for start in starts]
    q, p = (np.concatenate(half, axis=1) for half in zip(*states, strict=True))
    tiled = np.tile(waves, (1, 1, len(starts)))
    return Told(tiled, q, p, tiled, np.asarray(float(both)))


def _records(
    probe: Probe, waves: Floats, starts: Sequence[Start | None], steps: int, trim: Mapping[str, Any]
) -> tuple[Floats, Floats]:
    """What is read in free passes and in their echoes, (steps + 1, channels, runs, chips)."""
    drive, found = {name: waves[:, i] for i, name in enumerate(probe.model.drives)}, []
    for start in starts:
        free, _ = probe.ask("free passes of the echo quality", Shot(steps, drive, start=start, hold=True))
        echo, _ = probe.ask("echoes of the echo quality", Shot(steps, drive, echo=True, trim=trim))
        found.append((free, echo))
    free, echo = (np.concatenate(part, axis=2) for part in zip(*found, strict=True))
    return free, echo


def _straight(identified: Identified, read: Floats) -> Floats:
    """Signals of what was read, free of gains, offsets and bows."""
    gain, offset, bow = (np.asarray(v) for v in identified.model.readout(identified.fit.x))
    return Transfer(1.0, gain, offset, np.clip(bow, -MOST, MOST)).correct(read)


def _lossless(identified: Identified) -> Floats:
    x = identified.fit.x.copy()
    x[identified.model.parts["losses"]] = 0.0
    return x


def _ends(system: EchoModel) -> list[int]:
    """Channels that show the return: positions and momenta."""
    return [i for i, c in enumerate(system.channels) if c.kind is not Kind.TARGET]


def _apart(system: EchoModel, free: Array, echo: Array) -> tuple[Floats, Floats]:
    """Starts and misses of the return, (channels, runs, chips) each."""
    found = []
    for i in _ends(system):
        momentum = system.channels[i].kind is Kind.MOMENTUM
        first, last = np.asarray(free[0, i]), np.asarray(echo[-1 if momentum else -2, i])
        found.append((first, last + first if momentum and system.flips else last - first))
    starts, misses = zip(*found, strict=True)
    return np.stack(starts), np.stack(misses)


@partial(jax.jit, static_argnums=0)
def _programs(system: EchoModel, x: Array, told: Told, trim: Array) -> tuple[Array, Array]:
    return system.echoed(x, told, trim)
