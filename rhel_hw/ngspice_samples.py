"""What a bench reads of ngspice's waveforms, at the instants of a leapfrog step (docs/physics.md, 1.2 and 11.1).

Fluxes are read in the middle of every step and at its end, charges at its ends before the nudge there. A deck spreads a
nudge over the two steps about its instant, so that half of it has come when that charge is read; the half is taken off.
Between the points that ngspice computes, waveforms are cubic splines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline

from circuits.formats.spice_decks import flux_node
from circuits.formats.spice_state import Plates, State
from circuits.formats.spice_write import Writer
from devices import DivergedError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pass:
    """One run: samples by node, and where it ended."""

    positions: Floats
    """(steps, nodes) in the middle of every step."""
    momenta: Floats
    """(steps + 1, nodes) before the nudge, if there is one."""
    ends: Floats
    """(steps, nodes) positions at the end of every step."""
    final: State


@dataclass(frozen=True, eq=False)
class Sampler:
    """Reads the waveforms of one deck."""

    writer: Writer
    plates: Plates
    step_s: float
    steps: int
    begun: State
    """Before the first nudge."""
    nudges: Mapping[str, Floats]

    def read(self, waveforms: Mapping[str, Floats]) -> Pass:
        """Samples of a run, and where it ended."""
        nodes, steps = self.plates.nodes, self.steps
        fluxes = np.stack([waveforms[f"v({flux_node(self.writer, n)})".lower()] for n in nodes], axis=1)
        voltages = np.stack([waveforms[f"v({self.writer.nodes[n]})".lower()] for n in nodes], axis=1)
        if not (np.all(np.isfinite(fluxes)) and np.all(np.isfinite(voltages))):
            raise DivergedError("The state of the device left the range of numbers: drive it less")
        times = waveforms["time"]
        later = np.concatenate([[False], np.diff(times) > 0]) & (times > 0)  # the start is known
        length = self.step_s * steps
        if not np.any(later) or times[later][-1] < length * (1 - 1e-9):
            raise DivergedError("ngspice did not come to the end of the pass: drive it less, or use a smaller cap")
        first_flux = np.array([self.begun.fluxes.get(n, 0.0) for n in nodes])
        first_charge = self.plates.charges(np.array([self.begun.voltages.get(n, 0.0) for n in nodes]))
        after, halves = self._impulses()
        at = np.concatenate([[0.0], times[later]])
        flux = CubicSpline(at, np.concatenate([first_flux[None], fluxes[later]]))
        held = self.plates.charges(voltages[later].T).T
        charge = CubicSpline(at, np.concatenate([(first_charge + after)[None], held]))
        ends = self.step_s * np.arange(steps + 1)
        ends[-1] = at[-1]
        momenta = charge(ends) - halves
        momenta[0] = first_charge
        final = State(
            dict(zip(nodes, fluxes[-1].tolist(), strict=True)), dict(zip(nodes, voltages[-1].tolist(), strict=True))
        )
        return Pass(flux(ends[:-1] + self.step_s / 2), momenta, flux(ends[1:]), final)

    def _impulses(self) -> tuple[Floats, Floats]:
        """The first nudge (nodes,), and half of every other at its instant, (steps + 1, nodes)."""
        halves = np.zeros((self.steps + 1, len(self.plates.nodes)))
        for target in self.writer.netlist.targets:
            if target.name in self.nudges:
                halves[:-1, self.plates.nodes.index(target.node)] += self.nudges[target.name] / 2
        return 2 * halves[0], halves
