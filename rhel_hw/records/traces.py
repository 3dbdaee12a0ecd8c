"""From a trace with time stamps of its own to samples at the instants of a bench: docs/physics.md, section 11.5.

A trace is a cubic spline through what was sampled during the pass; what came before or after is left out, as the device
was turned round there, or began to be driven. Momenta jump where they are nudged: the impulses were commanded and are
known, so the spline goes through the momentum without them, and they are put back.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from devices import ArgumentError

Floats = NDArray[np.float64]

SLACK = 1e-6
"""Of a step: how far apart time stamps may be that mean the same instant."""
FEWEST = 4
"""Samples that a cubic takes."""


@dataclass(frozen=True, eq=False)
class Trace:
    """One column over time, in SI; 0 s is the start of the pass."""

    name: str
    """File and column, for messages."""
    times_s: Floats
    values: Floats

    def __post_init__(self) -> None:
        if len(self.times_s) != len(self.values) or not len(self.values):
            raise ArgumentError(
                f"Argument `{self.name}` must have a number for each of {len(self.times_s)} time stamps, but has "
                f"{len(self.values)}"
            )
        for what, array in (("time stamps", self.times_s), ("numbers", self.values)):
            bad = np.flatnonzero(~np.isfinite(array))
            if len(bad):
                raise ArgumentError(f"Argument `{self.name}` must have finite {what}, but row {bad[0] + 1} has not")
        bad = np.flatnonzero(np.diff(self.times_s) <= 0)
        if len(bad):
            raise ArgumentError(
                f"Argument `{self.name}` must have time stamps that grow, but in row {bad[0] + 2} "
                f"{self.times_s[bad[0] + 1]:g} s follows {self.times_s[bad[0]]:g} s: more digits may be needed"
            )

    def at(self, instants: Floats, step_s: float, impulses: Floats, pulse_s: float = 0.0) -> Floats:
        """Values at some instants of a pass.

        Arguments:
            instants: in s from the start of the pass.
            step_s: length of a step.
            impulses: (steps,) by which the value jumps at the start of every step; zeros where it does not.
            pulse_s: how long such a jump takes; what was sampled meanwhile is left out.
        """
        slack, steps = SLACK * step_s, len(impulses)
        during = (self.times_s >= -slack) & (self.times_s <= steps * step_s + slack)
        so_far = np.concatenate([[0.0], np.cumsum(impulses)])

        def begun(times_s: Floats) -> NDArray[np.intp]:
            """How many impulses have begun: one at the instant itself has not."""
            return np.asarray(np.clip(np.ceil((times_s - slack) / step_s), 0, steps), np.intp)

        last = begun(self.times_s) - 1  # −1 at the start, which is then far enough from the start of the step before
        during &= (self.times_s - step_s * last >= pulse_s) | (impulses[last] == 0)
        times = self.times_s[during]
        self._refuse_gaps(times, instants, step_s, pulse_s if np.any(impulses) else 0.0)
        smooth = CubicSpline(times, (self.values - so_far[last + 1])[during])
        return np.asarray(smooth(instants) + so_far[begun(instants)])

    def near(self, flags: NDArray[np.bool_], instants: Floats) -> NDArray[np.bool_]:
        """Whether one of the two samples around each instant has a flag."""
        after = np.clip(np.searchsorted(self.times_s, instants), 1, len(self.times_s) - 1)
        return np.asarray(flags[after - 1] | flags[after])

    def _refuse_gaps(self, times: Floats, instants: Floats, step_s: float, pulse_s: float) -> None:
        if len(times) < FEWEST:
            raise ArgumentError(
                f"Argument `{self.name}` must have at least {FEWEST} samples between 0 s and the end of the pass, but "
                f"has {len(times)}: it spans {self.times_s[0]:g} s to {self.times_s[-1]:g} s. Say when it `begins`"
            )
        gaps = np.diff(times)
        reach = (1 + SLACK) * (float(np.median(gaps)) + pulse_s)
        if times[0] > instants[0] + reach or times[-1] < instants[-1] - reach:
            raise ArgumentError(
                f"Argument `{self.name}` must cover the pass from {instants[0]:g} s to {instants[-1]:g} s up to one "
                f"sample at most, but during it spans {times[0]:g} s to {times[-1]:g} s"
            )
        if np.max(gaps) > step_s * (1 + 1e-3):
            raise ArgumentError(
                f"Argument `{self.name}` must have a sample in every step of {step_s:g} s, but after "
                f"{times[np.argmax(gaps)]:g} s there is none for {np.max(gaps):g} s: sample faster"
            )
