"""Netlists as SPICE decks, and the sub-circuits by which ngspice knows the elements that SPICE has no letter for."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from circuits.findings import DesignError, error
from circuits.formats.spice_notes import note_key, note_lines
from circuits.formats.spice_values import PART_LIKE
from circuits.netlist import Clock, Netlist
from devices import FLUX_QUANTUM, GROUND, Constant, Drive, Element, Part, Points, Pulse, Sine, Waveform
from devices.element import PART_NAME

_PHASE = f"""Gphi 0 phi a b 1
Cphi phi 0 {FLUX_QUANTUM / (2 * math.pi)!r} IC={{flux0*{2 * math.pi / FLUX_QUANTUM!r}}}"""
SUBCIRCUITS = {
    "josephson": f"""* Junction: V(phi) = 2 pi flux / flux quantum, in radians; current Ic sin(phi).
.subckt rhel_josephson a b critical_current=1u flux0=0
{_PHASE}
Bphi a b I={{critical_current}}*sin(V(phi))""",
    "squid": f"""* Dc SQUID: two junctions that see the phase shifted by +-pi flux / flux quantum.
.subckt rhel_squid a b critical_current=1u flux=0 asymmetry=0 flux0=0
.param bias={{flux*{math.pi / FLUX_QUANTUM!r}}}
{_PHASE}
Bphi a b I=({{critical_current/2}})*(
+ ({{1+asymmetry}})*sin(V(phi)+({{bias}}))+({{1-asymmetry}})*sin(V(phi)-({{bias}})))""",
    "saturable": """* Saturable inductor: V(phi) = flux / (L Is); current Is tanh((flux - external flux) / (L Is)).
.subckt rhel_saturable a b inductance=1n saturation_current=1u flux=0 flux0=0
Gphi 0 phi a b 1
Cphi phi 0 {inductance*saturation_current} IC={flux0/(inductance*saturation_current)}
Bphi a b I={saturation_current}*tanh(V(phi)-({flux/(inductance*saturation_current)}))""",
    "inductor": """* Inductor with external flux: (flux - external flux) / L, so a current flows at zero branch flux.
.subckt rhel_inductor a b inductance=1n flux=0 flux0=0
Lflux a b {inductance} IC={(flux0-flux)/inductance}""",
    "varactor": """* Varactor: V(x) = q/Q solves x + x^3 = C v/Q; of C dv/dt the part 3x^2/(1 + 3x^2) is given back.
.subckt rhel_varactor a b capacitance=1p charge_scale=1p
Csense a s {capacitance}
Vsense s b 0
Bx x 0 V=2/sqrt(3)*sinh(asinh(1.5*sqrt(3)*({capacitance/charge_scale})*V(a,b))/3)
Bback b a I=i(Vsense)*3*V(x)*V(x)/(1+3*V(x)*V(x))""",
    "tank": """* Parallel LC tank.
.subckt rhel_tank a b capacitance=1p inductance=1n flux0=0
Ctank a b {capacitance}
Ltank a b {inductance} IC={flux0/inductance}""",
}
"""Element types that are sub-circuits in SPICE, with ngspice's definition of each.

Those with a flux start at the branch flux `flux0` (Wb). In a B source ngspice pastes what stands in braces as text, so
that it needs parentheses around it.
"""

OWN = "rhel_"
"""How names begin that decks add."""
_LETTERS = {"capacitor": "C", "inductor": "L", "resistor": "R", "mutual": "K", "current": "I", "voltage": "V"}
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]")
_WRAP: Any = {"break_long_words": False, "break_on_hyphens": False}


def own_name(card: str) -> str:
    """Element name of a call of an own sub-circuit: what follows the X, where that is a name."""
    return card[1:] if PART_NAME.match(card[1:]) else card


def write(netlist: Netlist) -> str:
    """Write a deck that ngspice runs and `read` turns back into an equal netlist."""
    refuse_foreign(netlist)
    return "\n".join(Writer(netlist).lines()) + "\n"


def refuse_foreign(netlist: Netlist, *, waveforms: bool = True) -> None:
    """Refuse what SPICE cannot express, by name; `waveforms` of drives only if they are to be written."""
    coupled = {getattr(e, key) for e in netlist.elements for key in e.references}
    refused = [
        error(p.name, f"SPICE has nothing for a {p.type}", "export the design as a TOML design file")
        for p in (*netlist.elements, *netlist.drives)
        if p.type not in _LETTERS and p.type not in SUBCIRCUITS
    ]
    refused += [
        error(
            e.name,
            "an inductor with external flux cannot be coupled in SPICE",
            "export the design as a TOML design file",
        )
        for e in netlist.elements
        if e.name in coupled and e.values["flux"] != 0
    ]
    refused += [
        error(d.name, f"SPICE has no {d.waveform.type} waveform", "sample it as `Points`")
        for d in netlist.drives
        if waveforms and d.waveform is not None and not isinstance(d.waveform, (Constant, Sine, Pulse, Points))
    ]
    if refused:
        raise DesignError(refused)


class Writer:
    """Cards of a netlist, with names and nodes that SPICE accepts."""

    def __init__(self, netlist: Netlist) -> None:
        self.netlist = netlist
        safe = {node: _UNSAFE.sub("_", node) for node in netlist.nodes}
        self.nodes = _distinct(safe, {"0", "gnd"}) | {netlist.ground: "0", GROUND: "0"}
        letters = {p.name: _letter(p) for p in (*netlist.elements, *netlist.drives)}
        wanted = {name: _UNSAFE.sub("_", name) for name in letters}
        wanted = {n: w if letters[n] in ("X", w[0].upper()) else letters[n] + w for n, w in wanted.items()}
        self.names, self.letters = _distinct(wanted, set()), letters

    def lines(self) -> Iterator[str]:
        """Yield the deck line by line."""
        net, title = self.netlist, self.title
        yield title
        design = {"name": net.name} if net.name != title else {}
        yield from note_lines("design", design | ({"ground": net.ground} if net.ground != "0" else {}))
        yield from note_lines(
            "nodes", {new: old for old, new in self.nodes.items() if old not in (new, net.ground, GROUND)}
        )
        for element in net.elements:
            yield from wrapped(self.element(element))
            keys = ("trainable", "bounds", "tolerance")
            extra = {key: value for key in keys if (value := getattr(element, key))}
            yield from self.extra("elements", element.name, extra)
        for drive in net.drives:
            yield from wrapped(self.drive(drive))
            named = [key for key in drive.optional_terminals if getattr(drive, key) == net.ground]
            named += ["node"] if getattr(drive, "node", None) == net.ground else []
            yield from self.extra("drives", drive.name, dict.fromkeys(named, net.ground))
        yield from (f".ic v({self.nodes[node]})={value!r}" for node, value in net.initial.velocities.items())
        yield from self.remainder()
        yield from self.definitions()
        yield ".end"

    @property
    def title(self) -> str:
        """Name of the netlist, as a first line that is taken for nothing else."""
        title = re.sub(r"[^A-Za-z0-9 _.,()+/-]", "_", self.netlist.name)
        return (title if title[0].isalnum() and not PART_LIKE.fullmatch(title.strip()) else f"design {title}").strip()

    def definitions(self) -> Iterator[str]:
        """Yield the sub-circuits that are called."""
        for kind in dict.fromkeys(e.type for e in self.netlist.elements if self.letters[e.name] == "X"):
            yield from ("*", SUBCIRCUITS[kind], f".ends rhel_{kind}")

    def remainder(self) -> Iterator[str]:
        """Yield what is about the whole circuit: probes, targets, start, clock, and what it shall learn."""
        net = self.netlist
        seen = {"positions": net.probes.positions, "momenta": net.probes.momenta}
        yield from note_lines("probes", {key: nodes for key, nodes in seen.items() if nodes != "all"})
        for target in net.targets:
            yield from note_lines(f"targets.{note_key(target.name)}", {"node": target.node})
        if net.initial.positions or net.initial.momenta:
            yield "* SPICE itself starts from zero flux, and without the charges given here."
        yield from note_lines("initial.positions", net.initial.positions)
        yield from note_lines("initial.momenta", net.initial.momenta)
        step, steps = net.clock.step, net.clock.steps
        if step is not None and math.isfinite(step * steps) and round(step * steps / step) == steps:
            yield f".tran {step!r} {step * steps!r} uic"
        elif net.clock != Clock():
            yield from note_lines("time", ({} if step is None else {"step": step}) | {"steps": steps})
        for section, table in net.settings.items():
            yield from note_lines(section, table)

    def extra(self, section: str, name: str, settings: dict[str, Any]) -> Iterator[str]:
        """Yield what the card of a part cannot say."""
        new = self.names[name]
        yield from note_lines(f"{section}.{note_key(new)}", ({"name": name} if new != name else {}) | settings)

    def element(self, part: Element, texts: Mapping[str, str] | None = None, start: str = "") -> str:
        """Card of an element; `texts` replace values by parameter, `start` is what it begins with."""
        ends = [self.nodes[n] for n in part.nodes] + [self.names[getattr(part, key)] for key in part.references]
        values = {key: repr(value) for key, value in part.values.items()} | dict(texts or {})
        card = self.card(part)
        if self.letters[part.name] != "X":
            values.pop("flux", None)
            return " ".join([card, *ends, *values.values(), start]).rstrip()
        given = [f"{key}={value}" for key, value in values.items()]
        return " ".join([card, *ends, *["0"] * (2 - len(ends)), f"rhel_{part.type}", *given, start]).rstrip()

    def card(self, part: Element) -> str:
        """Name of an element's card."""
        name = self.names[part.name]
        own = self.letters[part.name] != "X" or (name[0] in "xX" and own_name(name) == name)
        return name if own else "X" + name

    def drive(self, part: Drive) -> str:
        """Card of a source."""
        return " ".join((self.names[part.name], *self.ends(part), _wave_text(part.waveform))).strip()

    def ends(self, part: Drive) -> tuple[str, str]:
        """Nodes of a source, in the order of its card."""
        node, back = [*(self.nodes[n] for n in part.nodes), "0"][:2]
        return (back, node) if part.type == "current" else (node, back)


def wrapped(card: str) -> list[str]:
    """Lines of a card."""
    return textwrap.wrap(card, 110, subsequent_indent="+ ", **_WRAP)


def _letter(part: Part) -> str:
    own = part.type not in _LETTERS or (part.type == "inductor" and part.values["flux"] != 0)
    return "X" if own else _LETTERS[part.type]


def _distinct(wanted: Mapping[str, str], taken: set[str]) -> dict[str, str]:
    """Names that differ by more than their case. Those that can stay stay; others get a number where they clash."""
    names: dict[str, str] = {}
    for name in sorted(wanted, key=lambda n: wanted[n] != n):
        new, count = wanted[name], 1
        while new.lower() in taken:
            count += 1
            new = f"{wanted[name]}_{count}"
        taken.add(new.lower())
        names[name] = new
    return names


def _wave_text(wave: Waveform | None) -> str:
    match wave:
        case Constant():
            return f"DC {wave.level!r}"
        case Sine():
            return f"SIN({wave.offset!r} {wave.amplitude!r} {wave.frequency!r} {wave.delay!r})"
        case Pulse():
            given = (wave.low, wave.high, wave.delay, wave.rise, wave.fall, wave.width, wave.period)
            return f"PULSE({' '.join(map(repr, given))})"
        case Points():
            return f"PWL({' '.join(f'{t!r} {v!r}' for t, v in zip(wave.times, wave.values, strict=True))})"
    return ""
