"""Decks for the simulators of superconducting circuits, JoSIM and WRspice.

Both know a junction as ``B… model`` with ``.model … jj(rtype=0 …)``; the rest is SPICE. They differ in how a run is
asked for, in what it may start from, and in which waveforms they take. Sources: JoSIM's syntax guide (`docs/syntax.md`
of its repository), and the WRspice manual, sections on the Josephson junction and its model. `rtype=0` means no
resistive branch in WRspice; JoSIM's guide calls it a linearisation, so its decks put the branch out of reach as well,
by resistances of 1 TΩ and a gap of 1 V. Neither simulator has been run on these decks by the project's tests.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from circuits.findings import DesignError, Finding, error
from circuits.netlist import Netlist
from devices import Constant, Drive, Element, Points, Pulse, Sine, Waveform

_LETTERS = {"capacitor": "C", "inductor": "L", "resistor": "R", "mutual": "K", "josephson": "B", "tank": "LC"}
_REMEDIES = {
    "squid": "write two junctions, joined by an inductor through which a coupled one carries the flux",
    "saturable": "write a chain of junctions, or export as SPICE",
    "varactor": "export as SPICE",
}
_K = TypeVar("_K")
_FINER = 10
"""Internal steps of JoSIM per step of the design: its second-order backward differences damp and delay."""


@dataclass(frozen=True)
class Dialect:
    """What sets one simulator's decks apart."""

    name: str
    model: str
    """Parameters of every junction model besides its critical current."""
    starts: bool
    """Whether nodes may start with a voltage."""
    waves_from_zero: bool
    """Whether a waveform must be zero where it begins."""


JOSIM = Dialect("JoSIM", "rtype=0, cap=0, rn=1e12, r0=1e12, vg=1", starts=False, waves_from_zero=True)
WRSPICE = Dialect("WRspice", "rtype=0, cct=1, cap=0", starts=True, waves_from_zero=False)


def write(netlist: Netlist, dialect: Dialect = JOSIM) -> str:
    """Write the deck of a superconducting design; the step of an automatic clock is the compiled design's."""
    refuse_foreign(netlist, dialect)
    return "\n".join(_Deck(netlist, dialect).lines()) + "\n"


def refuse_foreign(netlist: Netlist, dialect: Dialect, *, waveforms: bool = True) -> None:
    """Refuse what a simulator cannot express, by name; `waveforms` of drives only if they are to be written."""
    refused = [*_elements_refused(netlist, dialect), *_drives_refused(netlist, dialect, waveforms)]
    initial = netlist.initial
    for key, given in (("positions", initial.positions), ("momenta", initial.momenta)):
        refused += [error(f"initial.{key}.{n}", f"{dialect.name} cannot start from it", "start at rest") for n in given]
    if not dialect.starts:
        reason = "JoSIM starts every run at rest"
        refused += [error(f"initial.velocities.{n}", reason, "kick the node by a drive") for n in initial.velocities]
    if refused:
        raise DesignError(refused)


class _Deck:
    def __init__(self, netlist: Netlist, dialect: Dialect) -> None:
        self.netlist, self.dialect = netlist, dialect
        self.nodes = _plain((n, n) for n in netlist.nodes) | {netlist.ground: "0"}
        wanted = [(e.name, letter) for e in netlist.elements for letter in _LETTERS[e.type]]
        wanted += [(d.name, "I" if d.type == "current" else "V") for d in netlist.drives]
        self.names = _plain(((n, letter), n if n[0].upper() == letter else letter + n) for n, letter in wanted)
        currents = dict.fromkeys(e.values["critical_current"] for e in netlist.elements if e.type == "josephson")
        self.models = {current: f"jj{k}" for k, current in enumerate(currents, 1)}

    def lines(self) -> Iterator[str]:
        """Yield the deck line by line."""
        net = self.netlist
        yield "* " + re.sub(r"[^A-Za-z0-9 _.,()+/-]", "_", net.name) + f", for {self.dialect.name}"
        for current, model in self.models.items():
            yield f".model {model} jj(icrit={current!r}, {self.dialect.model})"
        for element in net.elements:
            yield from self.element(element)
        for drive in net.drives:
            node, back = ("0", "0") if not drive.nodes else self.ends(drive)
            plus, minus = (back, node) if drive.type == "current" else (node, back)
            letter = "I" if drive.type == "current" else "V"
            yield f"{self.names[drive.name, letter]} {plus} {minus} {self.wave(drive.waveform)}"
        yield from (f".ic v({self.nodes[n]})={v!r}" for n, v in net.initial.velocities.items())
        step, steps = self.clock()
        if self.dialect == JOSIM:
            yield f".tran {step / _FINER!r} {step * steps!r}"
        else:
            yield f".tran {step!r} {step * steps!r} 0 {step!r} uic"
        yield from (f".print {'' if self.dialect == JOSIM else 'tran '}v({self.nodes[n]})" for n in net.nodes)
        yield ".end"

    def clock(self) -> tuple[float, int]:
        clock = self.netlist.clock
        step: float = self.netlist.compile().step_s if clock.step is None else clock.step
        return step, clock.steps

    def ends(self, part: Element | Drive) -> tuple[str, str]:
        node, back = [*(self.nodes[n] for n in self.netlist.terminals_of(part)), "0"][:2]
        return node, back

    def element(self, part: Element) -> Iterator[str]:
        values = part.values
        if part.type == "mutual":
            coupled = " ".join(self.names[getattr(part, key), "L"] for key in part.references)
            yield f"{self.names[part.name, 'K']} {coupled} {values['coefficient']!r}"
            return
        ends = " ".join(self.ends(part))
        if part.type == "josephson":
            yield f"{self.names[part.name, 'B']} {ends} {self.models[values['critical_current']]}"
            return
        keys = {"C": "capacitance", "L": "inductance", "R": "resistance"}
        for letter in _LETTERS[part.type]:
            yield f"{self.names[part.name, letter]} {ends} {values[keys[letter]]!r}"

    def wave(self, wave: Waveform | None) -> str:
        match wave:
            case Constant():
                return f"dc {wave.level!r}"
            case Sine():
                return f"sin({wave.offset!r} {wave.amplitude!r} {wave.frequency!r} {wave.delay!r})"
            case Pulse():
                step, steps = self.clock()
                # JoSIM divides by the period, so a single pulse is given one that is longer than the run.
                period = wave.period or 2 * (step * steps + wave.delay + wave.rise + wave.width + wave.fall)
                given = (wave.low, wave.high, wave.delay, wave.rise, wave.fall, wave.width, period)
                return f"pulse({' '.join(map(repr, given))})"
            case Points():
                return f"pwl({' '.join(f'{t!r} {v!r}' for t, v in zip(wave.times, wave.values, strict=True))})"
        raise AssertionError("refused before")  # pragma: no cover


def _elements_refused(netlist: Netlist, dialect: Dialect) -> Iterator[Finding]:
    for element in netlist.elements:
        if element.type not in _LETTERS:
            remedy = _REMEDIES.get(element.type, "export as a TOML design file")
            yield error(element.name, f"{dialect.name} has nothing for a {element.type}", remedy)
        elif element.values.get("flux"):
            reason = f"{dialect.name} decks have no static flux in an inductor"
            yield error(element.name, reason, "couple an inductor that carries a constant current")


def _drives_refused(netlist: Netlist, dialect: Dialect, waveforms: bool) -> Iterator[Finding]:
    for drive in netlist.drives:
        wave = drive.waveform
        if drive.type not in ("current", "voltage"):
            yield error(drive.name, f"{dialect.name} decks have no {drive.type} drive", "drive by a current")
        elif not waveforms:
            continue
        elif wave is None:
            yield error(drive.name, "it has no waveform", "give it one, such as the samples of an input as `Points`")
        elif not isinstance(wave, (Constant, Sine, Pulse, Points)):
            yield error(drive.name, f"{dialect.name} has no {wave.type} waveform", "sample it as `Points`")
        elif dialect.waves_from_zero:
            began = isinstance(wave, Points) and (wave.times[0] != 0 or wave.values[0] != 0)
            raised = isinstance(wave, Pulse) and wave.low != 0
            shifted = isinstance(wave, Sine) and wave.offset != 0 and wave.delay > 0
            if began or raised or shifted:
                reason = f"{dialect.name} lets a {wave.type} waveform begin with zero only"
                yield error(drive.name, reason, "let it rise from zero at time zero, as `Points`")


def _plain(wanted: Iterable[tuple[_K, str]]) -> dict[_K, str]:
    """Names of letters, digits and `_`, since JoSIM keeps . and | for itself, that differ by more than their case."""
    taken = {"0", "gnd"}
    names: dict[_K, str] = {}
    for key, text in wanted:
        stem = re.sub(r"\W", "_", text, flags=re.ASCII)
        new, count = stem, 1
        while new.lower() in taken:
            count += 1
            new = f"{stem}_{count}"
        taken.add(new.lower())
        names[key] = new
    return names
