"""Decks that ngspice runs as they are: a forward pass, and the echo that plays it backwards from flipped charges.

In the echo currents and fluxes come back reversed, voltages reversed and inverted (docs/physics.md, 2.3). A nudge is an
impulse on a node's charge at the start of a step. The first is part of the initial voltages, exactly; the others are
currents that rise and fall in a straight line over the steps before and after their instant. That is right to second
order in the step: it weakens what oscillates at ω by sinc²(ωδ/2) ≈ 1 − (ωδ)²/12, 0.3 % at the fastest mode of an
automatic step. Straight lines through the mid-step values of a drive have the same error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits.compile import Design
from circuits.findings import DesignError, error
from circuits.formats.spice_state import State, coil_currents, flux_across, voltage_across
from circuits.formats.spice_style import Sources, Style
from circuits.formats.spice_write import OWN, Writer, refuse_foreign, wrapped
from circuits.netlist import Netlist
from circuits.state import sample_drives
from devices import ArgumentError, Drive, Element, nearest

Floats = NDArray[np.float64]
Waves = Mapping[str, Any]

EDGE = 0.01
"""Length of the edges of held steps, in steps."""

LTSPICE = (
    "* For ngspice; not run in LTspice, which has gauss(s) for agauss(0,s,1), v(a)-v(b) for par('v(a)-v(b)'),",
    "* I(C1) for @C1[i], and 1 milliohm in an inductor unless its line says Rser=0 (docs/spice.md).",
)
"""What is ngspice's own, as LTspice spells it."""
_INSIDE = {
    "josephson": ("bphi",), "squid": ("bphi",), "saturable": ("bphi",), "inductor": ("lflux",),
    "tank": ("ctank", "ltank"),
}  # fmt: skip
"""Devices within sub-circuits whose currents are measured; a varactor's is not to be had."""


def with_values(netlist: Netlist, parameters: Mapping[str, float]) -> Netlist:
    """The netlist with parameters in SI by name, such as ``{"L12.inductance": 8e-9}``; bounds are not asked."""
    parts = {e.name: e for e in netlist.elements}
    known = {f"{e.name}.{key}" for e in netlist.elements for key in e.parameters}
    for name, value in parameters.items():
        if name not in known:
            raise ArgumentError(f"Argument `parameters` must name parameters, but has {name!r}{nearest(name, known)}")
        element, key = name.rsplit(".", 1)
        changes: dict[str, Any] = {key: float(value), "bounds": ()}
        parts[element] = replace(parts[element], **changes)
    return netlist.replace(elements=tuple(parts.values()))


def refuse_undeckable(netlist: Netlist) -> None:
    """Refuse a netlist that no deck can express, naming what it is."""
    refuse_foreign(netlist, waveforms=False)
    taken = [name for name in (*netlist.nodes, *netlist.by_name) if OWN in name.lower()]
    if taken:
        raise DesignError([error(taken[0], f"`{OWN}` is for what decks add themselves", "rename it")])


def forward_deck(
    design: Design,
    waveforms: Waves | None = None,
    nudges: Waves | None = None,
    *,
    netlist: Netlist | None = None,
    state: State | None = None,
    style: Style | None = None,
) -> str:
    """Deck of a forward pass.

    Arguments:
        design: the compiled design, whose clock and bound of frequencies count.
        waveforms: SI by drive, one value per step at mid-step; by default the design's own. Others are silent.
        nudges: impulses in coulomb by target, one at the start of every step; none is usual.
        netlist: the same with other values, such as trained ones.
        state: where it starts; by default where the design does.
        style: how it is written.
    """
    circuit = netlist or design.netlist
    refuse_undeckable(circuit)
    waves = _sampled(design, waveforms)
    start = State.of(design) if state is None else state
    return _Deck(design, circuit, waves, nudges or {}, start, style or Style(), "forward pass").text()


def echo_deck(
    design: Design,
    waveforms: Waves | None = None,
    nudges: Waves | None = None,
    *,
    state: State,
    netlist: Netlist | None = None,
    style: Style | None = None,
) -> str:
    """Deck of the echo of a forward pass.

    Arguments:
        design: the compiled design.
        waveforms: as the forward pass had them; they are reversed and conjugated here.
        nudges: impulses in coulomb by target, one at the start of every step, in the order of the echo.
        state: where the forward pass ended; it is flipped here.
        netlist: the same with other values, such as trained ones.
        style: how it is written.
    """
    circuit = netlist or design.netlist
    refuse_undeckable(circuit)
    drives = {d.name: d for d in design.netlist.drives}
    waves = {name: drives[name].parity * wave[::-1] for name, wave in _sampled(design, waveforms).items()}
    return _Deck(design, circuit, waves, nudges or {}, state.flipped(), style or Style(), "echo").text()


def flux_node(writer: Writer, node: str) -> str:
    """Node of a deck whose voltage is the flux of a node of the circuit in weber."""
    return f"{OWN}flux_{writer.nodes[node]}"


def _sampled(design: Design, waveforms: Waves | None) -> dict[str, Floats]:
    """Waveforms of all drives, (steps,) each."""
    drives = [d.name for d in design.netlist.drives]
    given = sample_drives(design) if waveforms is None else dict(waveforms)
    for name in given:
        if name not in drives:
            raise ArgumentError(f"Argument `waveforms` must name drives, but has {name!r}{nearest(name, drives)}")
    waves = {name: _wave("waveforms", name, wave) for name, wave in given.items()}
    if len({len(wave) for wave in waves.values()}) > 1:
        raise ArgumentError("Argument `waveforms` must be equally long arrays, but they are not")
    steps = len(next(iter(waves.values()))) if waves else design.steps
    return {name: waves.get(name, np.zeros(steps)) for name in drives}


def _kicked(netlist: Netlist, impulses: Waves, start: State) -> tuple[dict[str, Floats], State]:
    """Nudges by target, (steps,) each, and the state after the first."""
    nodes = {t.name: t.node for t in netlist.targets}
    nudges: dict[str, Floats] = {}
    kicks: dict[str, float] = {}
    for name, given in impulses.items():
        if name not in nodes:
            raise ArgumentError(f"Argument `nudges` must name targets, but has {name!r}{nearest(name, nodes)}")
        nudges[name] = _wave("nudges", name, given)
        kicks[nodes[name]] = kicks.get(nodes[name], 0.0) + float(nudges[name][0])
    return nudges, start.kicked(netlist, kicks) if any(kicks.values()) else start


def _wave(argument: str, name: str, given: Any) -> Floats:
    wave = np.asarray(given, np.float64)
    if wave.ndim != 1 or not len(wave) or not np.all(np.isfinite(wave)):
        raise ArgumentError(f"Argument `{argument}.{name}` must be (steps,) finite numbers, but has shape {wave.shape}")
    return wave


class _Deck:
    """One deck."""

    def __init__(
        self, design: Design, netlist: Netlist, waves: Mapping[str, Floats], impulses: Waves,
        start: State, style: Style, words: str,
    ) -> None:  # fmt: skip
        nudges, start = _kicked(netlist, impulses, start)
        self.writer, self.netlist, self.style, self.words = Writer(netlist), netlist, style, words
        self.step, self.cap = design.step_s, style.accuracy.cap_s(design)
        lengths = {len(w) for w in (*waves.values(), *nudges.values())} or {design.steps}
        if len(lengths) > 1:
            raise ArgumentError(f"Arguments `waveforms` and `nudges` must be equally long, but have {sorted(lengths)}")
        (self.steps,) = lengths
        self.waves, self.nudges = waves, nudges
        held = {n: float(waves[d.name][0]) for d in netlist.drives if d.action == "prescribe" for n in d.nodes}
        self.start = State(start.fluxes, {**start.voltages, **held})
        self.free = [n for n in netlist.nodes if n not in netlist.held]

    def text(self) -> str:
        return "\n".join(self.lines()) + "\n"

    def lines(self) -> Iterator[str]:
        """Yield the deck line by line."""
        writer, start = self.writer, self.start
        yield f"{writer.title}, {self.words}"
        yield f"* {self.steps} steps of {self.step!r} s. Voltages and inductor currents start where IC says."
        if self.style.measures:
            yield from LTSPICE
        drawn = dict(self._drawn())
        if drawn:
            yield "* Monte Carlo: values are nominal while montecarlo is 0. With 1 they are drawn anew in every run,"
            yield "* normal, tolerances being relative standard deviations; .options seed=1 repeats a draw."
            yield ".param montecarlo=0"
            for name, (value, spread) in drawn.items():
                yield f".param {name}={{{value!r}*(1+montecarlo*agauss(0,{spread!r},1))}}"
        currents = coil_currents(self.netlist, start)
        for part in self.netlist.elements:
            texts = {key: f"{{{name}}}" for key in part.tolerance if (name := self._parameter(part, key)) in drawn}
            yield from wrapped(writer.element(part, texts, self._begin(part, currents)))
        yield f"* Drives: {self.style.sources.value}."
        for drive in self.netlist.drives:
            yield from wrapped(self._source(drive.name, drive, self._corners(self.waves[drive.name])))
        if self.nudges:
            yield "* Nudges: charges over the step, as triangles about the starts of steps; the first is in IC."
        for target in self.netlist.targets:
            if target.name in self.nudges:
                yield from wrapped(self._nudge(target.name, writer.nodes[target.node]))
        yield "* Node fluxes in weber, as voltages: the integrals of node voltages."
        for i, node in enumerate(self.free):
            flux, name = flux_node(writer, node), writer.nodes[node]
            yield f"G{OWN}flux_{i} 0 {flux} {name} 0 1"
            yield f"C{OWN}flux_{i} {flux} 0 1 IC={start.fluxes.get(node, 0.0)!r}"
        yield from (
            f".ic v({writer.nodes[n]})={start.voltages[n]!r}" for n in self.netlist.nodes if n in start.voltages
        )
        yield from self._asked()
        yield from writer.definitions()
        yield ".end"

    def _asked(self) -> Iterator[str]:
        """Yield what ngspice shall do."""
        accuracy = self.style.accuracy
        yield (
            f".options method=trap reltol={accuracy.relative!r} abstol=1e-15 vntol=1e-12 trtol={accuracy.truncation!r}"
        )
        cap, stop = min(self.cap, self.step), self.step * self.steps
        yield f".tran {self.step!r} {stop!r} 0 {cap!r} uic"
        names = [self.writer.nodes[n] for n in self.free]
        if not self.style.measures:
            fluxes = [flux_node(self.writer, n) for n in self.free]
            yield from wrapped(".save " + " ".join(f"v({n})" for n in (*names, *fluxes)))
            return
        asked = [item for part in self.netlist.elements for item in self._stresses(part)]
        yield "* ngspice 39 warns that it cannot parse the nodes of .meas lines beside .save, but measures them."
        yield from wrapped(".save all " + " ".join(of for _, of in asked if of.startswith("@")))
        for name, of in asked:
            yield f".meas tran {name}_max MAX {of}"
            yield f".meas tran {name}_min MIN {of}"

    # Elements --------------------------------------------------------------------------------------------------------

    def _begin(self, part: Element, currents: Mapping[str, float]) -> str:
        """Initial condition of an element."""
        if part.type == "capacitor":
            return f"IC={voltage_across(self.netlist, self.start, part)!r}"
        if self.writer.letters[part.name] == "L":
            return f"IC={currents[part.name]!r}"
        if self.writer.letters[part.name] == "X" and part.type != "varactor":
            return f"flux0={flux_across(self.netlist, self.start, part)!r}"
        return ""

    def _stresses(self, part: Element) -> Iterator[tuple[str, str]]:
        """Yield names and expressions of the voltage and the currents that an element bears."""
        writer, card = self.writer, self.writer.card(part)
        plain = re.sub(r"\W", "_", card)
        if part.nodes:
            a, b = [*(writer.nodes[n] for n in self.netlist.terminals_of(part)), "0"][:2]
            yield f"v_{plain}", f"v({a})" if b == "0" else f"par('v({a})-v({b})')" if a != "0" else f"par('-v({b})')"
        if part.type in _INSIDE and writer.letters[part.name] == "X":
            for inner in _INSIDE[part.type]:
                yield f"i_{plain}_{inner}", f"@{inner[0]}.{card}.{inner}[i]"
        elif writer.letters[part.name] in ("C", "R", "L"):
            yield f"i_{plain}", f"@{card}[i]"

    def _drawn(self) -> Iterator[tuple[str, tuple[float, float]]]:
        """Yield name, value and relative spread of every value that has a tolerance."""
        for part in self.netlist.elements:
            for key, spread in part.tolerance.items():
                if spread > 0 and not (key == "flux" and self.writer.letters[part.name] != "X"):
                    yield self._parameter(part, key), (part.values[key], float(spread))

    def _parameter(self, part: Element, key: str) -> str:
        """Name of the parameter that holds a toleranced value, numbered so that no two are alike."""
        plain = re.sub(r"\W", "_", part.name, flags=re.ASCII)
        return f"p{self.netlist.elements.index(part)}_{plain}_{key}"

    # Sources ---------------------------------------------------------------------------------------------------------

    def _corners(self, wave: Floats) -> list[tuple[float, float]]:
        """Times and values between which a drive goes in straight lines."""
        ends = self.step * np.arange(self.steps + 1)
        if self.style.sources is Sources.LINES:
            middle = ends[:-1] + self.step / 2
            times = np.concatenate([ends[:1], middle, ends[-1:]])
            return list(zip(times.tolist(), [float(wave[0]), *wave.tolist(), float(wave[-1])], strict=True))
        half, found = EDGE * self.step / 2, [(0.0, float(wave[0]))]
        for time, before, after in zip(ends[1:-1].tolist(), wave.tolist(), wave[1:].tolist(), strict=False):
            if before != after:
                found += [(time - half, before), (time + half, after)]
        return [*found, (float(ends[-1]), float(wave[-1]))]

    def _source(self, name: str, drive: Drive, corners: list[tuple[float, float]]) -> str:
        letter = "I" if drive.type == "current" else "V"
        return self._card(self.writer.names[name], letter, " ".join(self.writer.ends(drive)), corners)

    def _nudge(self, target: str, node: str) -> str:
        """Current source into a target's node."""
        rates = self.nudges[target][1:] / self.step
        times = self.step * np.arange(self.steps + 1)
        corners = list(zip(times.tolist(), [0.0, *rates.tolist(), 0.0], strict=True))
        index = [t.name for t in self.netlist.targets].index(target)
        return self._card(f"I{OWN}nudge_{index}", "I", f"0 {node}", corners)

    def _card(self, name: str, letter: str, ends: str, corners: list[tuple[float, float]]) -> str:
        if not any(value for _, value in corners):
            return f"{name} {ends} DC 0"
        if self.style.sources is Sources.HELD:
            return f"{name} {ends} PWL({' '.join(f'{t!r} {v!r}' for t, v in corners)})"
        return f"B{name} {ends} {letter}=pwl(time, {', '.join(f'{t!r}, {v!r}' for t, v in corners)})"
