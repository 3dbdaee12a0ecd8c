"""The data sheet: what a hardware team has to know of a design, on one page for screens and paper.

What the circuit is, which values and tolerances its parts have, where its modes lie, which bits, noise and losses it
bears, how its echo must be made, and what a gradient costs. Everything is computed for the values that are handed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from circuits import DesignError
from circuits.formats import schematic
from circuits.formats.waveguide import LIGHT
from circuits.formats.wording import quantity_text
from devices import ArgumentError, Drive, Element
from devices.photonic import HBAR
from rhel_hw import reverse, settings
from rhel_hw.bench import Kind
from rhel_hw.choices import Choices
from rhel_hw.emulated import EmulatedBench
from rhel_hw.pilots import PAIRS
from rhel_hw.profile import Profile
from rhel_hw.simulation import return_error
from studies import inventory, plots
from studies.cost import Costs, gradient_cost
from studies.handed import Handed, losses_text
from studies.inventory import NOTHING, fitted
from studies.provenance import code, versions
from studies.report import Block, Drawing, Listing, Numbers, Paragraph, Picture, Section, Table, page
from studies.sweeps.budget import echo_axes, find_budget, usual_axes
from studies.sweeps.contract import short, unit_of
from studies.sweeps.reading import number_text

USUAL_Q = 1_000_000
"""Of a coupling that a design does not name, to tell the power of its light."""

if TYPE_CHECKING:
    from studies.sweeps.contract import Budget
    from studies.sweeps.limits import Range


def write(handed: Handed) -> str:
    """The data sheet of a design as one HTML page."""
    return _Sheet(handed).page()


@dataclass(frozen=True, eq=False)
class _Sheet:
    """A data sheet in the making."""

    handed: Handed

    def page(self) -> str:
        """All of it."""
        design, netlist = self.handed.design, self.handed.netlist
        sections = [
            Section("", [self._numbers(), *self._origin()]),
            Section("Schematic", [self._schematic()]),
            Section("Elements", list(self._elements())),
            Section("Ports and ranges", list(self._ports())),
            *([Section("Light", list(self._light()))] if self._resonators else []),
            Section("Modes", list(inventory.modes(self.handed.design))),
            Section("Bit budget", list(self._contract())),
            Section("Echo", list(self._echo())),
            Section("Costs of a gradient", list(self._costs())),
            Section("How to reproduce", list(self._reproduction())),
        ]
        lead = (
            f"{', '.join(sorted({d.name for d in netlist.domains.values()}))} circuit of {len(netlist.elements)} "
            f"elements that learns by Hamiltonian echoes; {design.steps} steps of {quantity_text(design.step_s, 's')}"
        )
        told = ", ".join(f"{name} {version}" for name, version in versions().items())
        return page(f"{netlist.name}: data sheet", lead, sections, f"{told}; code {code()}")

    # What it is ------------------------------------------------------------------------------------------------------

    def _numbers(self) -> Numbers:
        design = self.handed.design
        found = np.sort(design.frequencies_hz)
        items = [
            (str(design.hamiltonian.size), "coordinates"),
            (str(len(design.parameters.trainable_names)), "values that learn"),
            (_span(found[0], found[-1], "Hz"), "modes" if found[0] >= 0 else "detunings of modes"),
            (quantity_text(design.steps * design.step_s, "s"), "a pass"),
        ]
        costs = self._cost
        if isinstance(costs, Costs):
            items += [
                (str(costs.passes), "passes a gradient"),
                (quantity_text(costs.device_seconds, "s"), "on the device a gradient"),
            ]
            if np.isfinite(costs.energy):
                items.append((quantity_text(costs.energy, "J"), "a gradient"))
        return Numbers(items)

    def _origin(self) -> Iterator[Block]:
        """Yield what was done to the values as drawn."""
        handed = self.handed
        if handed.values:
            yield Paragraph(f"Training found {len(handed.values)} of the values.")
        if handed.series:
            moved = handed.moved
            agreement = handed.agreement
            text = f"{len(moved)} of {len(handed.moves)} parts were moved to {handed.series} values"
            if moved:
                text += f", by up to {max(abs(s.relative) for s in moved):.2%}"
            if agreement is not None:
                text += f"; the gradient of the task has a cosine of {agreement:.6f} to that before"
            yield Paragraph(f"{text}.")
        if len(handed.losses) > 1:
            yield Paragraph(f"Loss of the task: {losses_text(handed.losses)}.")

    def _schematic(self) -> Block:
        try:
            return Drawing(schematic.write(self.handed.netlist), "All elements with their values, as handed over.")
        except DesignError as problem:
            return Paragraph(f"There is no drawing: {problem}")

    def _elements(self) -> Iterator[Block]:
        netlist = self.handed.netlist
        yield from inventory.elements(netlist, self.handed.stress)
        if not any(e.tolerance for e in netlist.elements):
            yield Paragraph("No tolerances are given: the mismatch of the bit budget says what is borne.")

    def _ports(self) -> Iterator[Block]:
        """Yield what is played and read, with the peaks of a pass of the task."""
        handed, netlist = self.handed, self.handed.netlist
        played = []
        for d in netlist.drives:
            peak = float(np.max(np.abs(handed.waves[d.name]))) if d.name in handed.waves else 0.0
            played.append((d.name, f"{d.type} drive", _ends(d), quantity_text(peak, d.unit), _parity(d)))
        nudges = self._nudges()
        yield from fitted(("played", "kind", "node", "peak", "in the echo"), [*played, *nudges])
        if nudges:
            learner = handed.learner
            yield Paragraph(
                f"Nudges are those of ε = {learner.epsilon:g} and γ = {learner.gamma:g}, and grow with both. "
                "Noise asks for stronger ones: on a bench pilot echoes choose γ."
            )
        bench = EmulatedBench(handed.design, Profile(), reference=handed.waves or None).describe()
        peaks: dict[str, dict[Kind, str]] = {}
        charged = handed.run.momenta_si()
        for channel in bench.channels.values():
            still = channel.kind is Kind.MOMENTUM and not np.any(charged[channel.node])  # its range is a mere default
            peak = 0.0 if still else channel.full_scale / Profile().readout.full_scale
            peaks.setdefault(channel.node, {})[channel.kind] = quantity_text(peak, channel.unit)
        rows = [(node, *(found.get(kind, "") for kind in _WHEN)) for node, found in peaks.items()]
        yield from fitted(("node", *(f"peak of the {kind.value} {words}" for kind, words in _WHEN.items())), rows)
        yield Paragraph(
            "Peaks are those of the ideal circuit under the stimulus of its task; converters need a margin above them. "
            f"The sample clock has a period of {quantity_text(handed.design.step_s, 's')}."
        )

    @property
    def _resonators(self) -> list[tuple[Element, float]]:
        """Those of light, with its frequency in Hz."""
        lights = {"ring": "carrier", "cavity": "frequency"}
        return [(e, e.values[lights[e.type]]) for e in self.handed.netlist.elements if e.type in lights]

    def _light(self) -> Iterator[Block]:
        """Yield what light is in the resonators, and what power of it the drives are."""
        handed, netlist = self.handed, self.handed.netlist
        x, m = handed.run.positions_si(), handed.run.momenta_si()
        rows, powers = [], []
        for e, light in self._resonators:
            (node,), quality = netlist.terminals_of(e), e.values["external_q"]
            photons = float(np.max(x[node] ** 2 + (m[node] / HBAR) ** 2) / 2)
            rows.append((e.name, quantity_text(light, "Hz"), quantity_text(LIGHT / light, "m"), f"{photons:.3g}"))
            known = np.isfinite(quality)
            for d in (d for d in netlist.drives if d.type == "coherent" and netlist.terminals_of(d) == (node,)):
                power = HBAR * (quality if known else USUAL_Q) * float(np.max(handed.waves[d.name] ** 2))
                powers.append(
                    f"The peak of {d.name} is {quantity_text(power, 'W')} of light through "
                    + (
                        f"the coupling of {e.name}."
                        if known
                        else f"a coupling of Q = {USUAL_Q:,}, and grows with that Q."
                    )
                )
        yield Table(("resonator", "light", "wavelength", "photons at most"), rows, numeric=(1, 2, 3))
        yield Paragraph(" ".join(["Positions are √2·Re a and momenta ħ·√2·Im a, of |a|² photons.", *powers]))

    def _nudges(self) -> list[tuple[str, ...]]:
        netlist = self.handed.netlist
        try:
            plus = self.handed.nudges[0]
        except ArgumentError:
            return []  # there is nothing to learn, which the bit budget says
        found: list[tuple[str, ...]] = []
        for t in netlist.targets:
            peak = quantity_text(float(np.max(np.abs(plus[t.name]))), netlist.domains[t.node].momentum_unit)
            found.append(
                (t.name, "nudge", t.node, peak, "impulses at the starts of steps, in two echoes of both signs")
            )
        return found

    # What it needs ---------------------------------------------------------------------------------------------------

    def _found(self, axes: Sequence[Range]) -> Budget | str:
        """Limits along some axes, or why there are none."""
        handed = self.handed
        try:
            return find_budget(
                handed.netlist, handed.requirement, axes=axes, seeds=range(handed.seeds), report=handed.report
            )
        except ArgumentError as problem:
            return str(problem)

    @cached_property
    def _budget(self) -> Budget | str:
        return self._found(usual_axes(self.handed.netlist))

    def _contract(self) -> Iterator[Block]:
        budget = self._budget
        if isinstance(budget, str):
            yield Paragraph(f"There is none: {budget}")
            return
        yield Paragraph(" ".join(budget.head()[1:]))
        yield Table(budget.columns, budget.rows())
        for line in budget.foot():
            yield Paragraph(line)
        yield Picture(budget.figure(), "The gradient along every axis, all else as the design has it.")

    def _echo(self) -> Iterator[Block]:
        handed, netlist = self.handed, self.handed.netlist
        kinds: dict[str, dict[str, None]] = {}
        for e in netlist.elements:
            if e.reversal_text:
                kinds.setdefault(e.reversal_text, {})[e.type] = None
        rows = [(", ".join(types), text) for text, types in kinds.items()]
        rows += [(f"{d.type} drive {d.name}", d.reversal_text or _parity(d)) for d in netlist.drives]
        yield Table(("what", "how it is reversed"), rows)
        yield from self._limits()
        backward = reverse(handed.run)
        miss = return_error(handed.run, backward)
        yield Picture(
            plots.reversal(handed.design, handed.run, backward),
            f"Pass under the stimulus of the task, and its echo without nudges, which misses the start by {miss:.1e}.",
        )

    def _limits(self) -> Iterator[Block]:
        if isinstance(self._budget, str):
            return
        found = self._found(echo_axes(self.handed.netlist))
        if isinstance(found, str):
            yield Paragraph(f"No limits of the turn were found: {found}")
            return
        rows = [
            (short(s.range.path), unit_of(s.range.path), *row[2:5])
            for s, row in zip(found.singles, found.rows(), strict=False)
        ]
        rows += [(short(path), "", "does not apply", "", "") for path in found.refused]
        yield Table(found.columns[:5], rows)
        yield Paragraph(
            f"Each by itself, all else ideal, with {' and '.join(map(str, found.requirements))} at every one of "
            f"{len(found.seeds)} seeds. A gain multiplies the turned momenta, an angle turns positions into momenta on "
            "the way, noise adds to both, and during the latency the circuit goes on undriven."
        )

    # What it costs ---------------------------------------------------------------------------------------------------

    @cached_property
    def _profile(self) -> Profile:
        """That of the design, with the limits of the contract where it says nothing."""
        profile = settings.profile(self.handed.netlist)
        if isinstance(self._budget, str) or self._budget.joint is None:
            return profile
        for path, value in self._budget.joint.contract.point.items():
            section, _, rest = path.partition(".")
            if section == "profile" and rest.endswith("bits"):
                converter = getattr(profile, rest.split(".")[0])
                profile = profile if converter.bits is not None else profile.set(rest, str(value))
        return profile

    @cached_property
    def _learner(self) -> Choices:
        return settings.bench_learning(self.handed.netlist, self._profile, {"gamma": "auto"})

    @cached_property
    def _cost(self) -> Costs | str:
        return self._costing(0)

    def _costing(self, pilots: int) -> Costs | str:
        handed = self.handed
        try:
            lesson = handed.task.lesson(handed.school)
            return gradient_cost(handed.design, self._profile, self._learner, lesson=lesson, pilots=pilots)
        except ArgumentError as problem:
            return str(problem)

    def _costs(self) -> Iterator[Block]:
        once, more = self._cost, self._costing(PAIRS)
        if isinstance(once, str) or isinstance(more, str):
            yield Paragraph(f"There are none: {once}")
            return
        bits = {name: getattr(self._profile, name).bits for name in ("readout", "drive", "nudge")}
        rows = [
            ("passes", *(f"{c.passes} ({c.free_passes} free, {c.echoes} echoes)" for c in (once, more))),
            ("time on the device", *(quantity_text(c.device_seconds, "s") for c in (once, more))),
            ("samples read", *(f"{c.samples_read:,}" for c in (once, more))),
            ("values played", *(f"{c.samples_played:,}" for c in (once, more))),
            ("energy of reading", *(_joules(c.adc_energy) for c in (once, more))),
            ("energy of playing", *(_joules(c.dac_energy) for c in (once, more))),
            ("energy that is lost", *(_joules(c.dissipated_energy) for c in (once, more))),
            ("the same gradient by backpropagation", _joules(once.bptt_energy), NOTHING),
        ]
        yield Table(("", "a gradient", "a gradient whose γ is searched"), rows)
        limits = ", ".join(f"{name} {'without limit' if n is None else f'{n} bits'}" for name, n in bits.items())
        yield Paragraph(
            f"With {limits}, for {_stimuli(self.handed)} of the task; times are those of passes alone unless the "
            "profile says what preparing and programming take. Energies follow from the figures of merit in section "
            "[profile.cost] of the design, whose defaults are assumptions: they leave out the learner's own computing."
        )

    # Where it comes from ---------------------------------------------------------------------------------------------

    def _reproduction(self) -> Iterator[Block]:
        handed = self.handed
        digest = sha256(handed.netlist.to_toml().encode()).hexdigest()
        wanted = f"{handed.requirement.outcome}={number_text(handed.requirement.value, 6)}"
        yield Paragraph(f"Values are those of design.toml, SHA-256 {digest}; seed {handed.seed}.")
        yield Listing(
            "rhel-hw check design.toml\n"
            f"rhel-hw export design.toml --to datasheet --require {wanted} --seeds {handed.seeds} --seed {handed.seed} "
            "--out again\n"
            f"rhel-hw sweep design.toml --require {wanted}\n"
            "rhel-hw gradient design.toml"
        )


_WHEN: Mapping[Kind, str] = {
    Kind.POSITION: "in the middle of steps",
    Kind.MOMENTUM: "at ends of steps",
    Kind.TARGET: "at ends of steps",
}


def _stimuli(handed: Handed) -> str:
    """Number of stimuli, in words."""
    count = handed.task.batch
    return f"{count} stimul{'us' if count == 1 else 'i'}"


def _parity(drive: Drive) -> str:
    return "played backwards" + (", sign-inverted" if drive.parity < 0 else "")


def _ends(drive: Drive) -> str:
    joined = [n for n in drive.nodes if n] or [str(getattr(drive, key)) for key in drive.references]
    return " – ".join(joined)


def _joules(value: float) -> str:
    return quantity_text(value, "J") if np.isfinite(value) else "not defined without a limit of bits"


def _span(low: float, high: float, unit: str) -> str:
    """Two values with one unit where that is possible."""
    first, last = quantity_text(low, unit), quantity_text(high, unit)
    if first == last:
        return first
    return f"{first.removesuffix(' ' + last.split(' ')[-1])} … {last}"
