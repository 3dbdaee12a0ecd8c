"""How values of chips move from pass to pass: anchors repeated over and over, a trend, and the scatter about it.

Anchors are stimuli of the identification. One set says, to first order about the identified values, how far all element
values are from there: their normal equations, with converters as they were identified. What is common to all repeats
(errors of the identification among it) drops out of the trend. Scatter is what residuals have beyond the noise of the
readout; as it may be 1/f noise, of which slow parts look like a trend, deviations of the trend contain what those make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.excitation import Stimuli
from calibration.findings import Finding
from calibration.identify import TOLERANCE, Identified
from calibration.model import Given, Model, Start
from calibration.probe import Probe
from calibration.timing import noise_of
from rhel_hw.bench import Shot

Array = Any
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

REPEATS = 24
"""Sets of anchors."""
ANCHORS = 2
"""Driven passes of a set, or prepared ones where there is no drive."""
DITHER = 0.02
"""By which the starts of anchors differ from set to set, in full scales."""
SURE = 3.0
"""Deviations beyond which a trend is one."""
BOUND = 2.0
"""Deviations that are added for a bound of what was not seen."""
MOVED = 1e-3
"""Relative change of a value that is too much."""


class Interval(NamedTuple):
    """After how much use a value of a bench will have moved too far."""

    passes: float
    seconds: float
    seen: bool
    """Whether there is a trend; otherwise it takes at least as long."""
    name: str
    """Of the value that moves first."""
    chip: int


@dataclass(frozen=True, eq=False)
class Drift:
    """Trend of every element value on every chip, (values, chips)."""

    names: tuple[str, ...]
    passes: Floats
    """At which sets of anchors were in their middle, (sets,)."""
    seconds: Floats
    track: Floats
    """Relative change from the identified values, (sets, values, chips)."""
    rates: Floats
    """Relative change per pass."""
    deviations: Floats
    scatter: Floats
    """Root mean square about the trend beyond the noise of the readout, relative; zero where none was seen."""
    floor: Floats
    """Deviation of one set of anchors by the noise of the readout."""

    @property
    def seen(self) -> Flags:
        """Which trends are sure."""
        return np.asarray(np.abs(self.rates) > SURE * self.deviations)

    @property
    def seconds_per_pass(self) -> float:
        """While it was measured."""
        used = self.passes[-1] - self.passes[0]
        return float((self.seconds[-1] - self.seconds[0]) / used) if used > 0 else 0.0

    def interval(self, tolerance: float = MOVED) -> Interval:
        """After how many passes and seconds the first value will have moved by a relative tolerance.

        Where no trend was seen it is a bound: the rate could be as large as `BOUND` deviations allow.
        """
        bound = np.abs(self.rates) + np.where(self.seen, 0.0, BOUND * self.deviations)
        sure = np.where(self.seen, np.abs(self.rates), 0.0)
        fastest = sure if np.any(self.seen) else bound
        value, chip = np.unravel_index(int(np.argmax(fastest)), fastest.shape)
        rate = float(fastest[value, chip])
        passes = tolerance / rate if rate > 0 else np.inf
        return Interval(
            passes, passes * self.seconds_per_pass, bool(np.any(self.seen)), self.names[value], int(chip)
        )  # fmt: skip

    def findings(self, tolerance: float = MOVED) -> list[Finding]:
        """Values that will have moved too far, and scatter that no calibration follows."""
        found, soon = [], self.interval(tolerance)
        if soon.seen:
            found.append(
                Finding(
                    f"{soon.name} of chip {soon.chip}",
                    f"it will have moved by {tolerance:g} of itself after {soon.passes:.3g} passes, or "
                    f"{soon.seconds:.3g} s",
                    "calibrate again before that, or hold the temperature of the chip",
                    fatal=False,
                )
            )
        if np.any(self.scatter > tolerance):
            value, chip = np.unravel_index(int(np.argmax(self.scatter)), self.scatter.shape)
            found.append(
                Finding(
                    f"{self.names[value]} of chip {chip}",
                    f"it scatters by {self.scatter[value, chip]:.2g} of itself from set to set",
                    "make the echoes of a gradient follow each other closely: no calibration follows that",
                    fatal=False,
                )
            )
        return found


class _Set(NamedTuple):
    """One set of anchors."""

    given: Given
    read: Floats
    used: Flags


def measure(
    probe: Probe, identified: Identified, *, repeats: int = REPEATS, anchors: int = ANCHORS, seed: int = 0
) -> Drift:
    """Anchors repeated, and how the values moved meanwhile."""
    model, rng = probe.model, np.random.default_rng([seed, 4])
    stimuli = _anchors(identified.stimuli, anchors)
    sets: list[_Set] = []
    passes, seconds = [], []
    for _ in range(repeats):
        before = probe.bench.describe()
        sets.append(_asked(probe, stimuli, rng))
        after = probe.bench.describe()
        passes.append((before.passes + after.passes - 1) / 2)
        seconds.append((before.seconds + after.seconds) / 2)
    moved, floor = _moved(identified, sets)
    # Rates of logarithms, or of differences over size: near the identified values they are relative changes.
    track = moved / _sizes(identified)
    floor = floor / _sizes(identified)
    times = np.array(passes)
    rates, deviations, scatter = _trend(times, track, floor)
    names = tuple(e.name for e in model.values)
    return Drift(names, times, np.array(seconds), track, rates, deviations, scatter, floor)


def _anchors(stimuli: Stimuli, count: int) -> Stimuli:
    """The first few of what is driven; of what is prepared where nothing is."""
    driven = stimuli.waves.shape[2]
    return stimuli.chosen(list(range(min(count, driven))) or list(range(min(count, stimuli.count))))


def _asked(probe: Probe, stimuli: Stimuli, rng: np.random.Generator) -> _Set:
    """One set, from states a little apart: the same codes again and again would have the same errors."""
    model, nodes = probe.model, len(probe.model.bench.nodes)
    steps, _, driven = stimuli.waves.shape
    size = stimuli.starts.shape[2] if not driven else 1
    shift = DITHER * rng.uniform(-1, 1, (2, nodes, size))
    starts = Stimuli(stimuli.waves[:, :, :0], shift if driven else stimuli.starts + shift).prepared(model)
    waves = stimuli.voiced(model) if driven else np.zeros((steps, len(model.drives), 1))
    drive = {name: waves[:, i] for i, name in enumerate(model.drives)} if driven else {}
    asked: list[Start | None] = [*starts] or [None]
    found = [probe.ask("anchors of the drift", Shot(steps, drive, start=start)) for start in asked]
    states = [model.state(*start, waves.shape[2]) for start in [*starts] or [({}, {})]]
    q, p = (np.concatenate(half, axis=1) for half in zip(*states, strict=True))
    read, used = (np.concatenate(part, axis=2) for part in zip(*found, strict=True))
    return _Set(Given(np.tile(waves, (1, 1, len(states))), q, p), read, used)


def _sizes(identified: Identified) -> Floats:
    """By what a change of an unknown is divided to be relative to the value, (values, chips)."""
    own = identified.fit.x[identified.model.parts["values"]]
    scales = np.stack([np.broadcast_to(identified.model.scale(i, x), x.shape) for i, x in enumerate(own)])
    slopes = np.stack(
        [identified.model.scale(i, x + 1e-6) - s for i, (x, s) in enumerate(zip(own, scales, strict=True))]
    )
    return np.asarray(np.abs(scales) / (slopes / 1e-6))


def _moved(identified: Identified, sets: Sequence[_Set]) -> tuple[Floats, Floats]:
    """Changes of the unknowns of values, (sets, values, chips), and the deviation of one set, (values, chips)."""
    model, x, noise = identified.model, identified.fit.x, noise_of(identified)
    free = identified.prior.free[model.parts["values"]]
    used = np.all([s.used for s in sets], axis=0)
    every = Given(*(np.concatenate([s.given[k] for s in sets], axis=-1) for k in range(3)))
    expected = np.split(np.asarray(_expected(model, every, x)), len(sets), axis=2)
    left = np.stack([np.where(used, s.read - e, 0.0) for s, e in zip(sets, expected, strict=True)]) / noise[:, None]
    slopes = np.asarray(_slopes(model, sets[0].given, x)) * used / noise[:, None]
    matrix = np.einsum("iscrp,jscrp->pij", slopes, slopes, optimize=True)
    vectors = np.einsum("iscrp,tscrp->tip", slopes, left, optimize=True)
    inverse = np.zeros_like(matrix)
    for chip, A in enumerate(matrix + np.eye(len(free)) / TOLERANCE**2):
        inverse[chip][np.ix_(free, free)] = np.linalg.inv(A[np.ix_(free, free)])
    changes = np.einsum("pij,tjp->tip", inverse, vectors)
    return changes, np.sqrt(np.diagonal(inverse, axis1=1, axis2=2).T)


@partial(jax.jit, static_argnums=0)
def _expected(model: Model, given: Given, x: Array) -> Array:
    return model.read(x, model.simulated(x, given))


@partial(jax.jit, static_argnums=0)
def _slopes(model: Model, given: Given, x: Array) -> Array:
    """Derivatives of what is read by the element values, (values, samples, channels, runs, chips)."""
    own = model.parts["values"]

    def carried(direction: Array) -> Array:
        ways = jnp.zeros_like(x).at[own].set(jnp.broadcast_to(direction[:, None], x[own].shape))
        return jax.jvp(lambda v: model.read(v, model.simulated(v, given)), (x,), (ways,))[1]

    return jax.vmap(carried)(jnp.eye(own.stop - own.start))


def _trend(times: Floats, track: Floats, floor: Floats) -> tuple[Floats, Floats, Floats]:
    """Rates, their deviations and the scatter about them, (values, chips) each."""
    t = times - times.mean()
    power = np.sum(t**2)
    rates = np.einsum("s,sip->ip", t, track) / power
    left = track - track.mean(axis=0) - t[:, None, None] * rates
    dof = max(len(times) - 2, 1)
    variance = np.sum(left**2, axis=0) / dof
    # Residuals of a chip's values are alike in how they remember: neighbours say by how much.
    before, after = left[:-1] / np.sqrt(variance + 1e-300), left[1:] / np.sqrt(variance + 1e-300)
    memory = np.clip(np.sum(before * after, axis=(0, 1)) / (len(left[0]) * dof) + 1 / dof, 0.0, 0.9)
    short = np.maximum(variance, floor**2) / power * (1 + memory) / (1 - memory)
    # What remembers longer than the record is long looks like a trend: it could be 1/f noise.
    apart = np.abs(np.subtract.outer(times, times))
    octaves = 2.0 ** np.arange(np.ceil(np.log2(8 * max(apart.max(), 1.0))) + 1)
    slow = np.sum(np.maximum(0.0, 1 - apart[..., None] / octaves), axis=-1)
    columns = np.stack([np.ones_like(t), t], axis=1)
    rest = np.eye(len(t)) - columns @ np.linalg.pinv(columns)
    beyond = variance - floor**2
    flicker = np.maximum(beyond, 0.0) * dof / np.trace(rest @ slow @ rest)
    long = floor**2 / power + flicker * (t @ slow @ t) / power**2
    sure = beyond > SURE * floor**2 * np.sqrt(2 / dof)
    return rates, np.sqrt(np.maximum(short, long)), np.where(sure, np.sqrt(np.maximum(beyond, 0.0)), 0.0)
