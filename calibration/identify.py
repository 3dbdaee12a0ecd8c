"""True element values of every chip, from driven and free records, with what cannot be told apart.

Nonlinear least squares (`calibration.fitting`) of element values, losses, drives and readout together, from the circuit
as drawn on. What the records say less of than was known before is not identified: eigenvectors of the information, in
units of that knowledge, name the combinations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.converters import Readout
from calibration.excitation import Stimuli, optimal
from calibration.findings import Finding, refuse
from calibration.fitting import Experiment, Fit, Prior, fit
from calibration.model import Model
from calibration.probe import Probe
from devices import ArgumentError, nearest

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

TOLERANCE = 0.2
"""Standard deviation of element values before anything is known, relative to what is drawn."""
LOSS = 30.0
"""The same of losses, in units of those at a quality factor of a thousand."""
CONVERTER = 0.2
"""The same of gains and offsets, in full scales; bows are within half of the largest that can be undone."""
BOW = 0.045
DRIVEN, FREE = 4, 4
"""Passes of each sort."""
PILOTS = 6
"""Most times that stimuli are made smaller because something saturates."""
CLIPPED = 0.01
"""Part of the samples of a channel that may be beyond its range, and are left out."""
TOLD = 0.5
"""An unknown is identified if its deviation is below this part of what it was before."""
OFF = 0.5
"""Error of an element value, relative, beyond which no chip of this design is."""
MISFIT = 1.5
"""What is left over the noise of the channel, beyond which the model is not that of the bench."""
RESOLUTION = 2e-4
"""Least noise of a channel, in full scales, that is believed: models are not better than that at first."""


@dataclass(frozen=True, eq=False)
class Identified:
    """What is known of every chip: (…, chips)."""

    model: Model
    fit: Fit
    prior: Prior
    stimuli: Stimuli
    experiments: tuple[Experiment, ...]

    @property
    def values(self) -> Floats:
        """Element values over nominal, as `Model.scale` has it."""
        return np.stack([self.model.scale(i, x) for i, x in enumerate(self.fit.x[self.model.parts["values"]])])

    @property
    def drawn(self) -> Floats:
        """The same of what is drawn, (values, 1): one, or the sign of what may be of either."""
        return np.array([[float(self.model.scale(i, 0.0))] for i in range(len(self.model.values))])

    @property
    def deviations(self) -> Floats:
        """Of the values."""
        slopes = np.array([1.0 if v < 0 else v for v in self.values.ravel()]).reshape(self.values.shape)
        return np.asarray(slopes * self.fit.deviations[self.model.parts["values"]])

    @property
    def told(self) -> Flags:
        """Which unknowns are identified, (unknowns, chips)."""
        spread = self.prior.spread[:, None]
        return np.asarray((spread > 0) & (self.fit.deviations < TOLD * spread))

    @property
    def information(self) -> Floats:
        """All that is known of every chip, (chips, unknowns, unknowns): of the records, and before."""
        return np.asarray(self.fit.information + np.diag(self.prior.information))

    def confused(self, chip: int = 0) -> list[dict[str, float]]:
        """Combinations of the device's unknowns that a chip's records do not tell: by name, how much of each."""
        device = self.model.device_count
        spread = self.prior.spread[:device]
        A = self.fit.information[chip][:device, :device] * np.outer(spread, spread)
        own = np.flatnonzero(spread > 0)
        sizes, ways = np.linalg.eigh(A[np.ix_(own, own)])
        names = [self.model.names[i] for i in own]
        return [
            {name: float(part) for name, part in zip(names, way, strict=True) if abs(part) > 0.1}
            for size, way in zip(sizes, ways.T, strict=True)
            if size < 1 / TOLD**2 - 1
        ]

    def findings(self) -> list[Finding]:
        """What is wrong with what was found."""
        return [*self._unexplained(), *self._unidentified(), *self._outside()]

    def _unexplained(self) -> list[Finding]:
        found = []
        with np.errstate(invalid="ignore"):
            bad = self.fit.excess > MISFIT
        for chip in np.flatnonzero(bad.any(axis=0) | ~self.fit.converged):
            names = [c.name for c, b in zip(self.model.channels, bad[:, chip], strict=True) if b]
            worst = np.nanmax(self.fit.excess[:, chip])
            found.append(
                Finding(
                    f"chip {chip}",
                    f"no values explain its records, which are off by {worst:.1f} times their noise at "
                    f"{', '.join(names[:4]) or 'no channel in particular'}",
                    "draw what the circuit has beside the design, such as stray couplings, or drive it less",
                )
            )
        return found

    def _unidentified(self) -> list[Finding]:
        return [
            Finding(
                " and ".join(way),
                "the records do not tell them apart" if len(way) > 1 else "the records do not show it",
                "hold all but one of them at their drawn values, or wire a channel or a drive between them"
                if len(way) > 1
                else "hold it at its drawn value, or wire a channel beside it",
            )
            for way in self.confused()
            if any(name in self._value_names for name in way)
        ]

    @property
    def _value_names(self) -> set[str]:
        return {e.name for e in self.model.values}

    def _outside(self) -> list[Finding]:
        found = []
        x = self.fit.x[self.model.parts["values"]]
        told = self.told[self.model.parts["values"]]
        for i, chip in zip(*np.nonzero(told & (np.abs(x) > OFF)), strict=True):
            found.append(
                Finding(
                    f"{self.model.values[i].name} of chip {chip}",
                    f"it is {self.values[i, chip]:.3g} times what is drawn, which is outside the bounds of "
                    f"{1 - OFF:g} to {1 + OFF:g}",
                    "check that this is the chip of the design, or draw its value",
                )
            )
        return found


def prior_of(model: Model, readout: Readout | None, held: Collection[str] = ()) -> Prior:
    """What is known before any record: values as drawn, and what levels said of the readout."""
    for name in held:
        if name not in model.names:
            raise ArgumentError(f"Argument `held` must name unknowns, but has {name!r}{nearest(name, model.names)}")
    mean = np.repeat(model.ideal[:, None], model.bench.chips, axis=1)
    spread = np.zeros(len(model.names))
    spread[model.parts["values"]], spread[model.parts["losses"]] = TOLERANCE, LOSS
    mean[model.parts["losses"]] = 0.5
    for part in ("drives", "readout"):
        first = model.parts[part].start
        count = (model.parts[part].stop - first) // 3
        spread[first : first + 2 * count], spread[first + 2 * count : first + 3 * count] = CONVERTER, BOW
    if readout is not None:
        known = np.stack([readout.gain, readout.offset, readout.bow])
        own = mean[model.parts["readout"]].reshape(known.shape)
        own[:] = np.where(np.isfinite(known), known, own)
    spread[[model.names.index(name) for name in held]] = 0.0
    return Prior(mean, spread)


def identify(
    probe: Probe,
    readout: Readout,
    held: Collection[str] = (),
    *,
    seed: int = 0,
    report: Callable[[str], None] | None = None,
) -> Identified:
    """Records of the best stimuli, and the values that explain them; refused if there are none."""
    model = probe.model
    prior = prior_of(model, readout, held)
    noise = np.maximum(np.where(np.isfinite(readout.noise), readout.noise, 1e-2), RESOLUTION)
    steps = min(model.design.steps, model.bench.longest * model.bench.decimation // (DRIVEN + 1))
    stimuli = optimal(model, prior, noise[:, 0], steps, DRIVEN, FREE, seed)
    stimuli, records = _within_range(probe, stimuli)
    experiments = (*readout.experiments, records)
    found = Identified(model, fit(model, experiments, prior, noise, report=report), prior, stimuli, experiments)
    refuse(found.findings())
    return found


def _within_range(probe: Probe, stimuli: Stimuli) -> tuple[Stimuli, Experiment]:
    """Pilot passes, each half as large as the one before, until hardly anything is beyond a range."""
    model = probe.model
    for _ in range(PILOTS):
        records = probe.records("pilots and records", stimuli.voiced(model), stimuli.prepared(model))
        sampled = np.arange(len(records.used)) % model.bench.decimation == 0
        clipped = 1 - np.mean(records.used[sampled][:-1], axis=(0, 2, 3))
        if np.max(clipped) <= CLIPPED:
            return stimuli, records
        stimuli = stimuli.scaled(0.5)
    loud = [c.name for c, part in zip(model.channels, clipped, strict=True) if part > CLIPPED]
    refuse(
        [
            Finding(
                ", ".join(loud),
                f"saturated even by pilots {2.0 ** (1 - PILOTS):g} times as large as the ranges allow",
                "widen the range of these channels, or find what else drives them",
            )
        ]
    )
    raise AssertionError  # refused above
