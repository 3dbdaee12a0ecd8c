"""Loss: at which rates a chip loses energy, and whether its echoes can make up for it.

Rates are those of all modes, from the identified circuit. Whether they are enough alike is not argued but tried: an
echo without nudges should go back the way it came, weaker by what was lost if its drives are made weaker with it, or
just as strong if it gains (docs/physics.md, 11.4). How far it misses is about what the gradient will.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.findings import Finding
from calibration.identify import Identified
from calibration.model import Model
from rhel_hw.bench import Bench, Kind, Shot
from rhel_hw.dissipation import bath_of
from rhel_hw.integrators import Leapfrog
from rhel_hw.lessons import Lesson

Array = Any
Floats = NDArray[np.float64]

SLIGHT = 1e-4
"""Energy lost over a pass, relative, that is none."""
BETTER = 0.9
"""Part of the distance of a plain echo that another must fall below to be preferred."""
FAR = 0.1
"""Distance from the way back beyond which gradients will be off."""
PLAIN, WEAKER, GAIN = "plain echo", "weaker drives", "gain"


@dataclass(frozen=True, eq=False)
class Loss:
    """What is lost, and what was tried against it."""

    rates: Floats
    """Of energy by mode in 1/s, (modes, chips)."""
    lost: Floats
    """Energy that a pass loses, as an exponent: rate × length, (chips,)."""
    missed: Mapping[str, Floats]
    """By how much echoes miss the way back, relative, by what was tried, (chips,); empty if nothing is lost."""

    @property
    def rate(self) -> Floats:
        """Mean over modes, (chips,)."""
        return np.asarray(self.rates.mean(axis=0))

    @property
    def unevenness(self) -> Floats:
        """Standard deviation of the rates over their mean, (chips,)."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.rate > 0, self.rates.std(axis=0) / self.rate, 0.0)

    @property
    def best(self) -> str:
        """What misses least, on all chips together; a plain echo unless another is clearly better."""
        sizes = {way: float(np.sqrt(np.mean(missed**2))) for way, missed in self.missed.items()}
        if not sizes:
            return PLAIN
        best = min(sizes, key=lambda way: sizes[way])
        return best if sizes[best] < BETTER * sizes[PLAIN] else PLAIN

    @property
    def decays(self) -> tuple[float, ...]:
        """Rates that a learner shall make up for; none if plain echoes are best."""
        return () if self.best == PLAIN else tuple(map(float, self.rate))

    def findings(self) -> list[Finding]:
        """Loss that cannot be made up for."""
        if not self.missed:
            return []
        left = self.missed[self.best]
        found = []
        for chip in np.flatnonzero(left > FAR):
            remedy = (
                "use shorter passes or a higher quality"
                if GAIN in self.missed
                else "use an echo with gain (echo.pump), shorter passes or a higher quality"
            )
            found.append(
                Finding(
                    f"loss of chip {chip}",
                    f"a pass loses {1 - np.exp(-self.lost[chip]):.0%} of its energy, at rates that differ by "
                    f"{self.unevenness[chip]:.0%}, and echoes miss their way by {left[chip]:.0%} even by {self.best}: "
                    "gradients will be off by about as much",
                    remedy,
                    fatal=False,
                )
            )
        return found


def measure(bench: Bench, found: Identified, lesson: Lesson) -> Loss:
    """Rates of the identified circuit, and echoes of a lesson's passes with and without help.

    Arguments:
        bench: calibrated in everything but its loss.
        found: what was identified on it.
        lesson: whose passes are echoed.
    """
    model, told = found.model, bench.describe()
    rates = np.maximum(mode_rates(model, found.fit.x), 0.0)
    lost = rates.mean(axis=0) * lesson.steps * told.step_s
    if not _significant(found) or np.max(lost) < SLIGHT:
        return Loss(np.zeros_like(rates), np.zeros_like(lost), {})
    steps = rates.mean(axis=0) * told.step_s
    free = bench.run(Shot(lesson.steps, lesson.drive, start=lesson.start, hold=True, channels=_channels(told.channels)))
    missed = {
        PLAIN: _missed(bench, free, lesson, np.zeros_like(steps)),
        WEAKER: _missed(bench, free, lesson, steps),
    }
    if told.amplifies:
        missed[GAIN] = _missed(bench, free, lesson, np.zeros_like(steps), amplify=True)
    return Loss(rates, lost, missed)


def _significant(found: Identified) -> bool:
    """Whether any loss was seen beyond its uncertainty."""
    own = found.model.parts["losses"]
    return bool(np.any(found.fit.x[own] > 3 * found.fit.deviations[own]))


def _channels(known: Mapping[str, Any]) -> tuple[str, ...]:
    """Positions and momenta, of which free passes and echoes can be compared."""
    return tuple(name for name, c in known.items() if c.kind is not Kind.TARGET)


def _missed(bench: Bench, free: Any, lesson: Lesson, rates: Floats, *, amplify: bool = False) -> Floats:
    """Distance of an echo from the way back that is e^(−rate·step) weaker at every step, relative, (chips,)."""
    told = bench.describe()
    weights = np.exp(-rates * (np.arange(lesson.steps)[:, None] + 0.5))  # (steps, chips) from the turn on
    drive = {name: wave[:, :, None] * weights[::-1, None] for name, wave in lesson.drive.items()}
    echo = bench.run(Shot(lesson.steps, drive, echo=True, channels=_channels(told.channels), amplify=amplify))
    away = size = np.zeros(told.chips)
    for name in echo.samples:
        channel = told.channels[name]
        way = free[name][::-1] * (-1 if channel.kind is Kind.MOMENTUM and told.operation == "momentum-flip" else 1)
        times = echo.times_s[name] / told.step_s
        way = way * np.exp(-rates * times[:, None])[:, None]
        away = away + np.sum((echo[name] - way) ** 2, axis=(0, 1)) / channel.full_scale**2
        size = size + np.sum(way**2, axis=(0, 1)) / channel.full_scale**2
    return np.asarray(np.sqrt(away / np.where(size > 0, size, 1.0)))


def mode_rates(model: Model, x: Floats) -> Floats:
    """Rates at which the modes about rest lose energy, in 1/s, (modes, chips): eigenvalues of one step."""
    steps = np.moveaxis(np.asarray(_step_at_rest(model, jnp.asarray(x))), -1, 0)
    sizes = np.sort(np.abs(np.linalg.eigvals(steps)), axis=1)[:, ::2]  # of a pair, one
    return np.asarray(-2 * np.log(sizes) / model.design.step_s).T


@partial(jax.jit, static_argnums=0)
def _step_at_rest(model: Model, x: Array) -> Array:
    """Derivative of a step by the state, (2n, 2n, chips)."""
    energy, step = model.lossy.hamiltonian, model.lossy.step
    q, p = (jnp.asarray(v) for v in model.lossy.initial_state())
    rest = jnp.concatenate([q, p])
    silent = jnp.zeros((energy.inputs, 1))

    def advance(state: Array, own: Array) -> Array:
        theta = model.theta(own[:, None])
        prepared = energy.prepare(theta)
        bath = bath_of(energy, prepared, step / 2) if energy.lossy else lambda s: s
        q, p = bath((state[: len(q_), None], state[len(q_) :, None]))
        q, p, _ = Leapfrog().step(energy, q, p, prepared, silent, step)
        return jnp.concatenate(bath((q, p)))[:, 0]

    q_ = q
    return jax.vmap(lambda own: jax.jacfwd(advance)(rest, own), in_axes=1, out_axes=-1)(x)
