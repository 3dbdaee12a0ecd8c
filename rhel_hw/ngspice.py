"""ngspice as the device of a bench: circuits learn whose dynamics somebody else's simulator computes.

A pass is a deck for every run (`circuits.formats.spice_decks`), a batch run of ngspice, and what its
waveforms are at the instants of a leapfrog step (`rhel_hw.ngspice_samples`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design, Netlist
from circuits.findings import DesignError, error
from circuits.formats.spice_decks import echo_deck, forward_deck, refuse_undeckable, with_values
from circuits.formats.spice_state import Plates, State
from circuits.formats.spice_style import Accuracy, Sources, Style
from circuits.formats.spice_write import Writer
from devices import ArgumentError, UnitError, refuse_unless_positive, to_si
from rhel_hw.bench import (
    Channel,
    Description,
    Kind,
    Record,
    Shot,
    programmable,
    refuse_unknown,
    runs_of,
    sample_times,
)
from rhel_hw.chips import Chips
from rhel_hw.excitation import stimulus
from rhel_hw.ngspice_run import found, run_deck
from rhel_hw.ngspice_samples import Pass, Sampler
from rhel_hw.profile import Profile

Floats = NDArray[np.float64]

LONGEST = 10**7
"""Samples that a channel's memory holds."""


class NgspiceBench:
    """A bench of one chip whose device is ngspice in batch mode, ideal otherwise.

    Arguments:
        design: the compiled design; electrical, and every node that moves has a capacitance of its own.
        accuracy: how finely ngspice computes.
        executable: its name or path.
        timeout_s: longest time that one run may take.
        workers: how many runs of a shot are made at a time; None: one per processor.
    """

    def __init__(
        self,
        design: Design,
        *,
        accuracy: Accuracy | None = None,
        executable: str = "ngspice",
        timeout_s: float = 60.0,
        workers: int | None = None,
    ) -> None:
        if not isinstance(design, Design):
            raise ArgumentError(
                f"Argument `design` must be compiled, as Netlist.compile() does it, but is a {type(design).__name__}"
            )
        refuse_unless_positive(timeout_s=timeout_s)
        if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
            raise ArgumentError(f"Argument `workers` must be a whole number of at least 1, but is {workers!r}")
        refuse_undeckable(design.netlist)
        loose = [group[0] for group in (*design.assembly.coordinates.massless, *design.assembly.coordinates.cyclic)]
        if loose:
            reason = "has no capacitance, or no inductance, of its own: no charge or flux of it can be prepared"
            raise DesignError([error(f"node {loose[0]}", reason, "add a small one to ground")])
        self.design, self._executable, self._timeout_s = design, found(executable), float(timeout_s)
        # Steps of one length: ± echoes that are computed alike have errors that cancel.
        self._style = Style(
            Sources.LINES, accuracy or Accuracy(cap=0.025, relative=1e-9, truncation=1e6), measures=False
        )
        self._workers = workers or os.cpu_count() or 1
        self._programmed: dict[str, float] = {}
        self._held: list[State] | None = None
        self._passes, self._seconds = 0, 0.0

    # The interface ---------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        """Channels, clock, and what was used so far. A nominal pass sets the ranges, once, which is not counted."""
        netlist = self.design.netlist
        return Description(
            design=netlist.name,
            channels=self._channels,
            drives={d.name: d.unit for d in netlist.drives},
            nudges={t.name: netlist.domains[t.node].momentum_unit for t in netlist.targets},
            parameters=self._chips.limits,
            step_s=self.design.step_s,
            decimation=1,
            longest=LONGEST,
            operation="momentum-flip",
            holds=True,
            chips=1,
            passes=self._passes,
            seconds=self._seconds,
            nodes=self.design.hamiltonian.names,
        )

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters by name, in SI; the others stay."""
        values = programmable(parameters, self._chips.limits)
        before = Plates.of(self._netlist)
        self._programmed |= values
        self._held = self._held and [_recharged(state, before, Plates.of(self._netlist)) for state in self._held]

    def run(self, shot: Shot) -> Record:
        """Make a pass."""
        runs, held = self._checked(shot)
        netlist = self._netlist
        starts = [held[i % len(held)] for i in range(runs)] if held else [self._start(shot, netlist)] * runs
        with ThreadPoolExecutor(min(runs, self._workers)) as pool:
            made = list(pool.map(lambda i: self._pass(shot, netlist, starts[i], i), range(runs)))
        self._passes += runs
        self._seconds += runs * shot.steps * self.design.step_s
        if shot.hold:
            self._held = [each.final for each in made]
        elif not shot.echo:
            self._held = None
        return self._record(shot, made)

    # What it is made of ----------------------------------------------------------------------------------------------

    @cached_property
    def _rest(self) -> State:
        """Where the design starts."""
        return State.of(self.design)

    @property
    def _netlist(self) -> Netlist:
        """With the values that are programmed."""
        return with_values(self.design.netlist, self._programmed)

    @cached_property
    def _chips(self) -> Chips:
        """For the ranges of its parameters."""
        return Chips(self.design, Profile(), 0, (0,))

    @cached_property
    def _channels(self) -> dict[str, Channel]:
        """Channels as the probes and targets have them; by custom their range is twice the nominal peak."""
        design = self.design
        moved = stimulus(design)
        waves = {name: np.reshape(wave, (-1, 1, 1)) for name, wave in moved.waveforms.items()}
        nominal = self._pass(Shot(design.steps, waves), design.netlist, State.of(design, *moved.state), 0)
        netlist, units = design.netlist, design.assembly.units
        channels: dict[str, Channel] = {}
        for i, node in enumerate(self._nodes):
            position = 2 * float(np.max(np.abs(nominal.ends[:, i]))) or units.position(netlist.domains[node])
            momentum = 2 * float(np.max(np.abs(nominal.momenta[:, i]))) or units.momentum(netlist.domains[node])
            found = [
                Channel(f"target.{t.name}", Kind.TARGET, node, "Wb", position)
                for t in netlist.targets
                if t.node == node
            ]
            if netlist.probes.sees_position(node):
                found.append(Channel(f"position.{node}", Kind.POSITION, node, "Wb", position))
            if netlist.probes.sees_momentum(node):
                found.append(Channel(f"momentum.{node}", Kind.MOMENTUM, node, "C", momentum))
            channels |= {channel.name: channel for channel in found}
        return channels

    @cached_property
    def _nodes(self) -> tuple[str, ...]:
        """Nodes that move."""
        return Plates.of(self.design.netlist).nodes

    # A pass ----------------------------------------------------------------------------------------------------------

    def _checked(self, shot: Shot) -> tuple[int, list[State] | None]:
        """Number of runs and what is held, or a refusal."""
        held = self._held if shot.echo else None
        runs = runs_of(shot, self.describe(), None if held is None else len(held))
        if (shot.steps + 1) * runs > LONGEST:
            raise ArgumentError(f"Argument `steps` must be so few that {runs} runs make at most {LONGEST} samples")
        return runs, held

    def _start(self, shot: Shot, netlist: Netlist) -> State:
        """Where a pass starts that is no echo."""
        names, plates = self.design.hamiltonian.names, Plates.of(netlist)
        nominal = self._rest
        fluxes = dict(nominal.fluxes)
        charges = Plates.of(self.design.netlist).charges(np.array([nominal.voltages[n] for n in plates.nodes]))
        found_charges = dict(zip(plates.nodes, charges.tolist(), strict=True))
        if shot.start is not None:
            for given, into, unit in zip(shot.start, (fluxes, found_charges), ("Wb", "C"), strict=True):
                refuse_unknown("start", given, dict.fromkeys(names))
                for node, value in given.items():
                    try:
                        into[node] = to_si(value, unit)
                    except UnitError as problem:
                        raise ArgumentError(f"Argument `start` is refused: {node} {problem}") from None
        voltages = plates.voltages(np.array([found_charges[n] for n in plates.nodes]))
        return State(fluxes, dict(zip(plates.nodes, voltages.tolist(), strict=True)))

    def _pass(self, shot: Shot, netlist: Netlist, start: State, run: int) -> Pass:
        """One run of a shot."""
        drives = self.design.netlist.drives
        silent = np.zeros((shot.steps, 1, 1))
        waves = {d.name: _column(shot.drive.get(d.name, silent), run) for d in drives}
        nudges = {name: _column(wave, run) for name, wave in shot.nudge.items()}
        begun = start.flipped() if shot.echo else start
        if shot.echo:
            deck = echo_deck(self.design, waves, nudges, state=start, netlist=netlist, style=self._style)
        else:
            deck = forward_deck(self.design, waves, nudges, state=start, netlist=netlist, style=self._style)
        waveforms = run_deck(deck, executable=self._executable, timeout_s=self._timeout_s)
        made = Sampler(Writer(netlist), Plates.of(netlist), self.design.step_s, shot.steps, begun, nudges).read(
            waveforms
        )
        parity = {d.name: d.parity if shot.echo else 1 for d in drives}
        return _continued(made, netlist, start, {k: parity[k] * w for k, w in waves.items()}, self.design.step_s)

    def _record(self, shot: Shot, made: list[Pass]) -> Record:
        times, samples, units = {}, {}, {}
        place = {n: i for i, n in enumerate(self._nodes)}
        for name, channel in self._channels.items():
            if shot.channels is not None and name not in shot.channels:
                continue
            kind = channel.kind
            own = {Kind.POSITION: "positions", Kind.MOMENTUM: "momenta", Kind.TARGET: "ends"}[kind]
            columns = [getattr(each, own)[:, place[channel.node]] for each in made]
            samples[name], units[name] = np.stack(columns, axis=1)[:, :, None], channel.unit
            times[name] = sample_times(kind, len(samples[name]), 1, self.design.step_s)
        return Record(times, samples, units, {})


def _continued(made: Pass, netlist: Netlist, start: State, waves: Mapping[str, Floats], step_s: float) -> Pass:
    """The pass with the fluxes and voltages that its sources have come to."""
    fluxes, voltages = dict(made.final.fluxes), dict(made.final.voltages)
    for drive in netlist.drives:
        if drive.action == "prescribe":
            for node in netlist.terminals_of(drive):
                fluxes[node] = start.fluxes.get(node, 0.0) + step_s * float(np.sum(waves[drive.name]))
                voltages[node] = float(waves[drive.name][-1])
    return replace(made, final=State(fluxes, voltages))


def _recharged(state: State, before: Plates, after: Plates) -> State:
    """The state with the same charges on other capacitances."""
    charges = before.charges(np.array([state.voltages[n] for n in before.nodes]))
    voltages = dict(zip(after.nodes, after.voltages(charges).tolist(), strict=True))
    return State(state.fluxes, {**state.voltages, **voltages})


def _column(wave: Floats, run: int) -> Floats:
    """(steps,) of one run."""
    return wave[:, run if wave.shape[1] > 1 else 0, 0]
