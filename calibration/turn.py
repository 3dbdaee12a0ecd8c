"""The turn of an echo: flip gain and angle of every node, and the latency before it, by least squares of short echoes.

Prepared states at random are turned round after a few steps. What is known of the circuit and of the readout from
identification goes in with its covariance, so that deviations of the turn contain it; the latency is one for all chips.
Whether the gain is that of the momentum or, as a parametric echo has it, of both quadratures, is what fits better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import NDArray

from calibration.echoing import EchoModel, Told
from calibration.excitation import PEAK
from calibration.findings import Finding
from calibration.fitting import Experiment, Fit, Known, fit, widened
from calibration.identify import MISFIT, Identified
from calibration.model import Start
from calibration.probe import Probe
from calibration.scatter import Scatter, repeated
from calibration.timing import ROUNDING, SURE, Timing, combined, echoes, noise_of, random_states, snapped
from rhel_hw.bench import Shot

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

FREE = 4
"""Steps before the turn: what the state is then follows from how it was prepared."""
DRIVEN = 64
"""The same where states cannot be prepared, and are driven, at most."""
STEPS = 48
"""Of an echo, at most; more where not every step is read."""
STATES = 8
"""That are echoed."""
SIZE = 0.8 * PEAK
"""Of what is prepared, in full scales: nodes next to each other add to it."""
GAIN, ANGLE, LATENCY = 0.5, 1.0, 2.0
"""Standard deviations before anything is known: of the logarithm of a gain, in rad, and in steps about the guess."""


@dataclass(frozen=True, eq=False)
class Turn:
    """What an echo does to the state of every chip."""

    nodes: tuple[str, ...]
    gain: Floats
    """Of the flipped momentum, (nodes, chips); exactly 1 where it could as well be."""
    gain_deviation: Floats
    angle: Floats
    """By which (q, p) is rotated, in rad, dimensionless coordinates; exactly 0 where it could as well be."""
    angle_deviation: Floats
    both: bool
    """Whether the gain is that of both quadratures, as of a parametric echo."""
    timing: Timing
    """With the latency that was found together with the turn."""
    scatter: Scatter
    """From echo to echo."""
    excess: Floats
    """What is left over the noise of the readout, (channels, chips)."""

    @property
    def ideal(self) -> bool:
        """Whether there is nothing to trim."""
        return bool(np.all(self.gain == 1) and not np.any(self.angle))

    def trim(self, nodes: tuple[str, ...] | None = None) -> dict[str, tuple[Floats, Floats]]:
        """`Shot.trim` that undoes the errors: angles and factors (chips,) of nodes, or of those that can be trimmed.

        Nodes whose turn is ideal are not in it: nothing at all for an ideal bench.
        """
        wanted = self.nodes if nodes is None else nodes
        return {
            node: (-a, 1 / g)
            for node, g, a in zip(self.nodes, self.gain, self.angle, strict=True)
            if node in wanted and (np.any(g != 1) or np.any(a))
        }

    def unknowns(self) -> Floats:
        """As `EchoModel` has them, (2n + 2, chips)."""
        chips = self.gain.shape[1]
        late = np.repeat([[self.timing.latency], [self.timing.skew]], chips, axis=1)
        return np.concatenate([np.log(self.gain), self.angle, late])

    def trimmed(self) -> Floats:
        """Angles and factors of all nodes, (2, n, chips), as `EchoModel.echoed` takes them."""
        return np.stack([-self.angle, 1 / self.gain])

    def model(self, identified: Identified) -> EchoModel:
        """The model of echoes that are turned so."""
        return EchoModel(identified.model, waiting_of(self.timing))

    def findings(self) -> list[Finding]:
        """What is wrong with what was found."""
        found = []
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero((self.excess > MISFIT).any(axis=0))
        for chip in bad:
            worst = np.nanmax(self.excess[:, chip])
            why = "it differs from echo to echo" if self.scatter.seen[chip] else "gains and angles do not explain it"
            found.append(
                Finding(
                    f"turn of chip {chip}",
                    f"echoes are off by {worst:.1f} times the noise of the readout, as {why}",
                    "average over echoes, and look for what shakes the turn"
                    if self.scatter.seen[chip]
                    else "look for turns that are missed, or states beyond what the turn can hold",
                    fatal=False,
                )
            )
        return found


def waiting_of(timing: Timing) -> int:
    """Steps that make up a latency."""
    return max(1, ceil(timing.latency - 1e-3))


def measure(probe: Probe, identified: Identified, timing: Timing, *, states: int = STATES, seed: int = 0) -> Turn:
    """Echoes of prepared states, or of driven ones where none can be prepared, and the turn that explains them."""
    model, rng = probe.model, np.random.default_rng([seed, 1])
    steps = min(max(STEPS, 12 * model.bench.decimation), max(model.design.steps, model.bench.decimation))
    starts: list[Start] = []
    if model.bench.nodes:
        starts = random_states(model, states, SIZE, rng)
        waves = np.zeros((FREE, len(model.drives), 0))
        read, used = echoes(probe, "echoes of prepared states", starts, FREE, steps)
    else:
        free = min(DRIVEN, model.design.steps)
        waves = identified.stimuli.voiced(model)[:free]
        drive = {name: waves[:, i] for i, name in enumerate(model.drives)}
        probe.ask("echoes of driven states: preparation", Shot(free, drive, hold=True))
        read, used = probe.ask("echoes of driven states", Shot(steps, echo=True))
    silent = np.zeros((steps, len(model.drives), waves.shape[2]))
    told = Told.of(model, waves, starts, silent)
    system, found = _fitted(identified, timing, Experiment(told, read, used))
    if np.any(_sure(system, found)) or np.nanmax(found.excess) > MISFIT:
        other = told._replace(both=np.asarray(1.0))
        second, better = _fitted(identified, timing, Experiment(other, read, used), system)
        if np.nansum(better.excess**2) < np.nansum(found.excess**2):
            system, found, told = second, better, other
    covariance, scatter = found.covariance, Scatter.none(model.bench.chips)
    if starts:
        noise = noise_of(identified)
        scatter = repeated(probe, system, found.x, told, starts, noise)
        weights = noise * np.where(found.excess > 0, found.excess, 1.0)  # as the fit has them
        covariance = covariance + scatter.spread(system, found.x, told, used, weights, covariance)
    timing, x, covariance = _settled(system, timing, found.x, covariance)
    deviations = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2).T, 0.0))
    logs, turned = deviations[system.parts["gains"]], deviations[system.parts["angles"]]
    gain, angle = np.exp(snapped(x[system.parts["gains"]], logs)), snapped(x[system.parts["angles"]], turned)
    both = bool(told.both > 0)
    return Turn(system.nodes, gain, gain * logs, angle, turned, both, timing, scatter, found.excess)


def _known(identified: Identified, system: EchoModel, timing: Timing) -> Known:
    """What is known before any echo."""
    n, x = system.size, identified.fit.x
    mean = np.zeros((2 * n + 2, x.shape[1]))
    mean[-2], mean[-1] = timing.latency, timing.skew
    spread = np.concatenate([np.full(n, GAIN), np.full(n, ANGLE), [LATENCY, 0.0]])
    return widened(x, identified.information, identified.prior.free, system.turn.start, mean, spread)


def _fitted(
    identified: Identified, timing: Timing, echo: Experiment, system: EchoModel | None = None
) -> tuple[EchoModel, Fit]:
    """Echoes explained by a turn on every chip by itself; the system is taken, if its steps before the turn suit."""
    system = EchoModel(identified.model, waiting_of(timing)) if system is None else system
    for _ in range(2):
        found = fit(system, [echo], _known(identified, system, timing), noise_of(identified), lengths=(1.0,))
        timing = _settled(system, timing, found.x, found.covariance)[0]
        if waiting_of(timing) == system.waiting:
            break
        system = EchoModel(identified.model, waiting_of(timing))  # the latency takes other steps than was thought
    return system, found


def _settled(system: EchoModel, timing: Timing, x: Floats, covariance: Floats) -> tuple[Timing, Floats, Floats]:
    """Timing, unknowns and covariance with one latency for all chips."""
    place = system.parts["latency"].start
    variance = np.maximum(covariance[:, place, place], 1e-30)
    latency, deviation = combined(x[place], np.sqrt(variance))
    fixed = snapped(latency, deviation)
    # Given the latency, everything else of a chip is what the fit says of it: a normal distribution, cut.
    ways = covariance[:, :, place] / variance[:, None]
    x = x + ways.T * (fixed - x[place])
    left = 0.0 if fixed == 0 else deviation**2
    covariance = covariance - np.einsum("pi,pj->pij", ways, ways) * (variance - left)[:, None, None]
    step = timing.step_s
    return replace(timing, latency_s=fixed * step, latency_deviation_s=deviation * step), x, covariance


def _sure(system: EchoModel, found: Fit) -> Flags:
    """Which gains are surely not one."""
    own = system.parts["gains"]
    return np.asarray(np.abs(found.x[own]) > np.maximum(SURE * found.deviations[own], ROUNDING))
