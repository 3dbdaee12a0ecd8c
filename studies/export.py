"""Hand-over of a design: every format that can express it, the nudged echoes of its task, and what was done to it.

Elements that a format cannot express are refused by name. Where all formats are asked for, those that refuse are left
out, and the manifest says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design, DesignError, Netlist
from circuits.eseries import SERIES, shifts, snapped
from circuits.formats import bom, gds, josim, kicad, mumax, sax_yaml, schematic, touchstone, verilog_a
from circuits.formats.spice_decks import echo_deck, forward_deck, refuse_undeckable, with_values
from circuits.formats.spice_state import Plates, State
from circuits.handover import Bundle
from devices import ArgumentError, Element, nearest
from rhel_hw import BPTT, Profile, Yoshida6, settings, simulate_design
from rhel_hw.bench import Description, Record, Shot
from rhel_hw.compare import cosine, trained
from rhel_hw.emulated import EmulatedBench
from rhel_hw.excitation import Stimulus
from rhel_hw.simulation import Keep, Trajectory
from rhel_hw.tasks import Teacher
from rhel_hw.vectors import vectors
from studies.provenance import code, versions

Floats = NDArray[np.float64]
BOARD = ("capacitor", "inductor", "tank", "resistor")
"""Types of elements that are bought."""
Files = Mapping[str, str | bytes]


@dataclass(frozen=True, eq=False)
class Handed:
    """A design as it is handed over, with a pass of its task."""

    netlist: Netlist
    seed: int
    series: str | None = None

    @cached_property
    def design(self) -> Design:
        """Compiled."""
        return self.netlist.compile()

    @cached_property
    def task(self) -> Teacher:
        """Whose stimulus is played."""
        return settings.task(self.netlist, {"seed": self.seed})

    @cached_property
    def stimulus(self) -> Stimulus:
        """The first of the task."""
        return self.task.stimulus(self.design)

    @property
    def waves(self) -> dict[str, Floats]:
        """(steps,) in SI by drive."""
        return self.stimulus.waveforms

    @cached_property
    def start(self) -> State:
        """Where the forward pass begins: with a kick where nothing else moves the circuit."""
        return State.of(self.design, *self.stimulus.state)

    @cached_property
    def run(self) -> Trajectory:
        """The forward pass, of sixth order: simulators of circuits shall end, and their echoes begin, where it does."""
        begun = self.stimulus.state
        return simulate_design(self.design, self.waves, state=begun, keep=Keep.ALL, integrator=Yoshida6())

    @cached_property
    def final(self) -> State:
        """Where it ends."""
        return State.of(self.design, *self.run.final)

    @cached_property
    def nudges(self) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Of the two echoes that the learner asks for, (steps,) in SI by target."""
        bench = _Overheard(EmulatedBench(self.design, reference=self.waves or None))
        lesson = replace(self.task, batch=1).lesson(self.design)
        settings.bench_learning(self.netlist, Profile()).gradient(bench, self.design, lesson)
        told = bench.last.nudge
        return tuple({k: v[:, i, 0] for k, v in told.items()} for i in (0, -1))  # type: ignore[return-value]

    @cached_property
    def stress(self) -> dict[str, bom.Stress]:
        """Peaks of voltage and current of every board part, in the forward pass."""
        parts = [e for e in self.netlist.elements if e.type in BOARD]
        if len(parts) < len(self.netlist.elements):
            return {}  # what shares the nodes is no part of a board, which the format will say
        momenta, fluxes = self.run.momenta_si(), self.run.positions_si()
        plates = Plates.of(self.netlist)
        charges = np.stack([momenta.get(n, np.zeros(self.design.steps)) for n in plates.nodes])
        volts = dict(zip(plates.nodes, plates.voltages(charges), strict=True))
        return {e.name: _stress(e, volts, fluxes, self.design.step_s) for e in parts}


class _Overheard:
    """A bench that remembers the last shot."""

    def __init__(self, bench: EmulatedBench) -> None:
        self._bench = bench
        self.last = Shot(1)

    def describe(self) -> Description:
        return self._bench.describe()

    def program(self, parameters: Mapping[str, Any]) -> None:
        self._bench.program(parameters)

    def run(self, shot: Shot) -> Record:
        self.last = shot
        return self._bench.run(shot)


def _stress(e: Element, volts: Mapping[str, Floats], fluxes: Mapping[str, Floats], step_s: float) -> bom.Stress:
    """Largest voltage across and current through an element that is linear."""

    def across(of: Mapping[str, Floats]) -> Floats:
        a, b = [*e.nodes, ""][:2]
        return np.asarray(of.get(a, 0.0) - of.get(b, np.zeros(1)))

    voltage, values = across(volts), e.values
    currents = []
    if "capacitance" in values and len(voltage) > 1:
        currents.append(np.max(np.abs(np.diff(voltage))) * values["capacitance"] / step_s)
    if "inductance" in values:
        currents.append(np.max(np.abs(across(fluxes))) / values["inductance"])
    if "resistance" in values:
        currents.append(np.max(np.abs(voltage)) / values["resistance"])
    return bom.Stress(float(np.max(np.abs(voltage))), float(max(currents, default=0.0)))


# Formats ------------------------------------------------------------------------------------------------------------


def _spice(handed: Handed) -> Files:
    refuse_undeckable(handed.netlist)
    design, state = handed.design, handed.final
    plain = {"netlist.cir": handed.netlist.to_spice()}
    plain["forward.cir"] = forward_deck(design, handed.waves, state=handed.start)
    plain["echo.cir"] = echo_deck(design, handed.waves, state=state)
    if handed.netlist.targets and design.parameters.trainable_names:
        for name, nudges in zip(("plus", "minus"), handed.nudges, strict=True):
            plain[f"echo-{name}.cir"] = echo_deck(design, handed.waves, nudges, state=state)
    return plain


def _bom(handed: Handed) -> Files:
    return {"bom.csv": bom.write(handed.netlist, handed.series or "E24", handed.stress)}


def _superconducting(handed: Handed, dialect: josim.Dialect) -> str:
    josim.refuse_foreign(handed.netlist, dialect, waveforms=False)
    return josim.write(_playing(handed), dialect)


def _touchstone(handed: Handed) -> Files:
    return {f"response{touchstone.suffix(handed.netlist)}": touchstone.write(handed.netlist)}


FORMATS: Mapping[str, Callable[[Handed], Files]] = {
    "spice": _spice,
    "kicad": lambda handed: {"design.net": kicad.write(handed.netlist)},
    "bom": _bom,
    "schematic": lambda handed: {"schematic.svg": schematic.write(handed.netlist)},
    "verilog-a": lambda handed: {"elements.va": verilog_a.write(handed.netlist)},
    "vectors": lambda handed: vectors(handed.design, handed.waves or None).files,
    "josim": lambda handed: {"josim.cir": _superconducting(handed, josim.JOSIM)},
    "wrspice": lambda handed: {"wrspice.cir": _superconducting(handed, josim.WRSPICE)},
    "sax": lambda handed: {"netlist.yml": sax_yaml.write(handed.netlist)},
    "touchstone": _touchstone,
    "gds": lambda handed: {"layout.gds": gds.write(handed.netlist)},
    "mumax3": lambda handed: mumax.write(handed.netlist),
}
"""What each makes of a design: files by name."""


def _playing(handed: Handed) -> Netlist:
    """The netlist whose drives play the stimulus."""
    from devices import Points

    times = (0.0, *map(float, handed.design.step_s * (np.arange(handed.design.steps) + 0.5)))
    drives = [
        replace(d, waveform=Points(times, (0.0, *map(float, handed.waves[d.name])))) if d.name in handed.waves else d
        for d in handed.netlist.drives
    ]
    return handed.netlist.replace(drives=tuple(drives))


# The bundle ---------------------------------------------------------------------------------------------------------


def bundle(
    netlist: Netlist,
    formats: Sequence[str],
    *,
    values: Mapping[str, float] | None = None,
    series: str | None = None,
    seed: int = 0,
) -> Bundle:
    """Everything that is handed over of a design.

    Arguments:
        netlist: as drawn.
        formats: names of `FORMATS`, or "all": those that can express it.
        values: trained, in SI, by name such as `L12.inductance`.
        series: of preferred values to which board parts are moved, such as "E24"; None leaves them.
        seed: of the stimulus.
    """
    for name in formats:
        if name not in (*FORMATS, "all"):
            raise ArgumentError(
                f"Argument `--to` must name formats: all, {', '.join(FORMATS)}; but has {name!r}"
                f"{nearest(name, FORMATS)}"
            )
    if series is not None and series not in SERIES:
        raise ArgumentError(f"Argument `--series` must be one of {', '.join(SERIES)}, but is {series!r}")
    learnt = with_values(netlist, values) if values else netlist
    final = snapped(learnt, series) if series else learnt
    handed = Handed(final, seed, series)
    found: dict[str, bytes] = {"design.toml": final.to_toml().encode()}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(FORMATS if "all" in formats else formats):
        try:
            made = FORMATS[name](handed)
        except (DesignError, ArgumentError) as problem:
            if name in formats:
                raise
            left_out[name] = str(problem)
            continue
        found |= {f"{name}/{file}": data.encode() if isinstance(data, str) else data for file, data in made.items()}
    about: dict[str, Any] = {
        "design": final.name, "versions": versions(), "code": code(), "seed": seed, "left_out": left_out,
        "trained": dict(values or {}),
    }  # fmt: skip
    if series:
        about["series"] = {"name": series, "moves": [str(s) for s in shifts(learnt, series)],
                           "gradient_cosine": _agreement(learnt, final, seed)}  # fmt: skip
    return Bundle(found, about)


def _agreement(before: Netlist, after: Netlist, seed: int) -> float | None:
    """Cosine between gradients of the task before and after the parts were moved."""
    found = []
    for netlist in (before, after):
        design = netlist.compile()
        problem = settings.task(netlist, {"seed": seed}).problem(design)
        found.append(trained(design, BPTT().gradient(problem).theta))
    return cosine(*found)
