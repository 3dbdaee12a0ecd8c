"""SPICE decks in ngspice's dialect, read and written.

What SPICE has no letter for is a call of a sub-circuit `rhel_…` that ngspice can run and the reader takes as one
element; the reader never looks inside these definitions. What SPICE cannot say at all (trainable parameters, probes,
targets, names) stands in comment lines that begin with ``*rhel`` and together form one TOML text. Decks of passes
(`spice_decks`) are no circuits, and are refused.

As in SPICE, case does not tell names or nodes apart, the first spelling is kept, and node 0 or gnd is ground. Lines
about output and solver accuracy are ignored, and so is the largest internal step of `.tran`. A current source whose
n- is ground becomes a drive at n+ with its waveform negated; without a waveform, it drives n+ with what is played.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from circuits.findings import DesignError, Finding, error
from circuits.formats.spice_notes import read_notes
from circuits.formats.spice_parts import TERMINALS, Found, build
from circuits.formats.spice_values import (
    PART_LIKE,
    Scope,
    SpiceError,
    arguments,
    assignments,
    evaluate,
    logical_lines,
    negated,
    waveform,
    words,
)
from circuits.formats.spice_write import OWN, SUBCIRCUITS, own_name, write
from circuits.netlist import SETTINGS, Clock, Initial, Netlist, Probes, Target
from devices import DRIVES, ELEMENTS, Drive, Element, ElementError, nearest

__all__ = ["read", "write"]

_TWO_POLES = {"c": ("capacitor", "capacitance"), "l": ("inductor", "inductance"), "r": ("resistor", "resistance")}
_IGNORED = {".options", ".option", ".opt", ".save", ".print", ".plot", ".meas", ".measure", ".probe"}
_REMEDIES = {
    "d": "use a varactor: `X1 node 0 rhel_varactor capacitance=... charge_scale=...`",
    "t": "use a ladder of L and C",
}
_UNSHUNTED = {"vg", "vgap", "delv", "rn", "rnorm", "r0", "rsub", "icfact", "icfct", "icon"}
"""Junction model parameters that mean nothing where rtype=0."""
_LARGEST, _DEEPEST, _MOST_FAULTS = 100_000, 20, 100


@dataclass
class _Circuit:
    """The top level of a deck, or a sub-circuit definition."""

    name: str = ""
    ports: tuple[str, ...] = ()
    defaults: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    lines: list[tuple[int, str]] = field(default_factory=list)


@dataclass(frozen=True)
class _Place:
    """Where a circuit is instantiated: path of instances from the top, nodes of its ports, and open definitions."""

    scope: Scope
    path: tuple[str, ...] = ()
    ports: Mapping[str, str] = field(default_factory=dict)
    open: tuple[str, ...] = ()

    def part(self, name: str) -> str:
        return ".".join((name, *reversed(self.path)))


def read(text: str, name: str = "spice") -> Netlist:
    """Netlist of a SPICE deck; its title names the design, or `name` where there is none."""
    return _Reader(text, name).netlist()


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.findings: list[Finding] = []
        self.top = _Circuit()
        self.clock: Clock | None = None
        self.circuits: dict[str, _Circuit] = {}
        self.models: dict[str, dict[str, str]] = {}
        self.parts: dict[str, Found] = {}
        self.nodes: dict[str, str] = {}
        self.phases: dict[str, tuple[int, str]] = {}
        self.starts: dict[tuple[str, str], tuple[int, float]] = {}
        self.parameter_lines: dict[str, int] = {}
        self.weights: dict[str, int] = {}
        title, lines, self.fragment = logical_lines(text)
        for line, text in lines:
            if re.match(rf"g{OWN}flux_\d+\s", text, re.IGNORECASE):
                reason = "this deck is a pass, which integrates fluxes and starts where a run does, and no circuit"
                raise DesignError([error(f"line {line} ({text.split()[0]})", reason, "read netlist.cir beside it")])
        if title.startswith("."):
            lines.insert(0, (1, title))
        if PART_LIKE.fullmatch(title.strip()):
            reason = "it looks like a part, but the first line of a deck is its title"
            raise DesignError([error("line 1", reason, "put a title line before it")])
        self.title = title.lstrip("*").strip() or name
        self.sort(lines)
        scope = Scope(self.top.parameters)
        for key in self.top.parameters:
            with self.at(self.parameter_lines[key], f".param {key}"):
                scope.value(key)
        if self.weight(self.top) > _LARGEST:
            raise DesignError([error("deck", f"it stands for more than {_LARGEST} parts", "make it smaller")])
        self.expand(self.top, _Place(scope))

    # Lines -------------------------------------------------------------------------------------------------------

    @contextmanager
    def at(self, line: int, label: str) -> Iterator[None]:
        """Turn what is wrong with a line into a finding, so that the other lines are read as well."""
        where = f"line {line} ({label[:64]})"
        try:
            yield
        except SpiceError as problem:
            self.findings.append(error(where, problem.reason, problem.remedy))
        except ElementError as problem:
            self.findings.append(error(where, f"`{problem.key}` {problem.message}", problem.remedy))
        if len(self.findings) >= _MOST_FAULTS:
            raise DesignError([*self.findings, error(where, "the deck has more faults than listed", "mend these")])

    def sort(self, lines: list[tuple[int, str]]) -> None:
        """Sort lines into the top level, sub-circuit definitions, models and parameters."""
        current, begun, skip, ended = self.top, 0, "", False
        for line, text in lines:
            head = text.split()[0].lower()
            with self.at(line, text.split()[0]):
                if skip:
                    skip = "" if head == skip else skip
                elif line == 1 and head != ".title":
                    raise SpiceError("the first line must be a title, but is a command", "put a title before it")
                elif ended:
                    raise SpiceError("stands after .end", "move it before .end")
                elif head == ".subckt":
                    skip, begun = ".ends", line
                    if current is not self.top:
                        raise SpiceError("a sub-circuit is defined inside another one", "move it to the top level")
                    made = self.definition(text)
                    if not made.name.startswith("rhel_"):
                        current, skip = made, ""
                elif head == ".ends":
                    if current is self.top:
                        raise SpiceError("must end a sub-circuit, but none is open", "remove it, or add .subckt")
                    current = self.top
                elif head == ".param":
                    for key, value in assignments(text[6:]).items():
                        if key in current.parameters or key in current.defaults:
                            raise SpiceError(f"parameter `{key[:64]}` is defined twice", "keep one definition")
                        current.parameters[key] = value
                        self.parameter_lines[key] = line
                elif head == ".model":
                    self.model(text)
                elif head == ".control":
                    skip, begun = ".endc", line
                    raise SpiceError("commands of a simulator are not read", "remove the block from .control to .endc")
                elif head == ".title":
                    self.title = text[6:].strip() or self.title
                elif head == ".end":
                    ended = True
                elif head not in _IGNORED:
                    current.lines.append((line, text))
        if skip or current is not self.top:
            with self.at(begun, skip or ".subckt"):
                raise SpiceError("a block has no end", f"add {skip or '.ends'}")

    def definition(self, text: str) -> _Circuit:
        ports, defaults = arguments(_without_keyword(words(text)[1:]))
        if not ports:
            raise SpiceError("a sub-circuit must have a name", "write `.subckt name node node`")
        made = _Circuit(ports[0].lower(), tuple(p.lower() for p in ports[1:]), defaults)
        if made.name in self.circuits:
            raise SpiceError(f"sub-circuit `{ports[0][:64]}` is defined twice", "keep one definition")
        if len(set(made.ports)) < len(made.ports) or {"0", "gnd"} & set(made.ports):
            raise SpiceError("ports must be different nodes and not ground", "rename the ports")
        self.circuits[made.name] = made
        return made

    def model(self, text: str) -> None:
        given = [w for w in words(text)[1:] if w not in ("(", ")")]
        positional, values = arguments(given)
        if len(positional) != 2 or positional[1].lower() != "jj":
            kind = positional[1][:40] if len(positional) > 1 else "missing"
            raise SpiceError(f"a model must be of type jj, but its type is {kind}", "remove it and what uses it")
        if positional[0].lower() in self.models:
            raise SpiceError(f"model `{positional[0][:64]}` is defined twice", "keep one definition")
        if unknown := set(values) - {"icrit", "cap", "rtype", "cct", *_UNSHUNTED}:
            raise SpiceError(f"model parameter `{min(unknown)[:64]}` is not modelled", "remove it")
        if missing := {"icrit", "cap", "rtype"} - set(values):
            raise SpiceError(f"`{min(missing)}` must be given, since simulators differ in its default",
                             "write jj(icrit=... cap=... rtype=0)")  # fmt: skip
        self.models[positional[0].lower()] = values

    # Cards -------------------------------------------------------------------------------------------------------

    def weight(self, circuit: _Circuit, depth: int = 0) -> int:
        """Number of lines that a circuit stands for, every definition counted once: calls may double at each level."""
        if circuit.name not in self.weights:
            self.weights[circuit.name] = 0  # a definition that calls itself is refused later
            total = len(circuit.lines)
            for _, text in circuit.lines:
                if text[0] in "xX" and depth <= _DEEPEST:
                    with suppress(SpiceError):
                        positional = arguments(_without_keyword(words(text)))[0]  # none in `X=0`, refused later
                        called = self.circuits.get(positional[-1].lower()) if positional else None
                        total += 0 if called is None else self.weight(called, depth + 1)
            self.weights[circuit.name] = total
        return self.weights[circuit.name]

    def expand(self, circuit: _Circuit, place: _Place) -> None:
        """Take every line of a circuit, once for each instance of it."""
        for line, text in circuit.lines:
            with self.at(line, place.part(text.split()[0])):
                self.card(line, words(text), place)

    def card(self, line: int, given: list[str], place: _Place) -> None:
        if not given:
            raise SpiceError("a line must hold more than commas", "remove it")
        letter, (name, *rest) = given[0][0].lower(), given
        if letter == ".":
            self.command(line, name.lower(), rest, place)
        elif letter in _TWO_POLES:
            self.two_pole(line, name, rest, place)
        elif letter == "k":
            a, b, value = _three(rest, "two inductors and a coefficient")
            coupled = {key: place.part(w).lower() for key, w in (("first", a), ("second", b))}
            self.add(line, place.part(name), "mutual", **coupled, coefficient=evaluate(value, place.scope))
        elif letter in "iv":
            self.source(line, name, rest, place)
        elif letter == "b":
            self.junction(line, name, rest, place)
        elif letter == "x":
            self.call(line, name, rest, place)
        else:
            remedy = _REMEDIES.get(letter, "use R, L, C, K, I, V, a junction B, or an rhel_ sub-circuit")
            raise SpiceError(f"a device of letter {letter.upper()!r} has no element here", remedy)

    def command(self, line: int, head: str, rest: list[str], place: _Place) -> None:
        if head in (".include", ".inc", ".lib"):
            raise SpiceError(f"{head} is refused: a deck may not name other files", "paste the text into the deck")
        if head == ".ic":
            if not rest or len(rest) % 6:
                raise SpiceError(".ic must list initial voltages", "write `.ic v(node)=value`")
            for i in range(0, len(rest), 6):
                v, left, node, right, equal, value = rest[i : i + 6]
                if (v.lower(), left, right, equal) != ("v", "(", ")", "="):
                    raise SpiceError(".ic must list initial voltages", "write `.ic v(node)=value`")
                self.start(line, "velocities", self.node(node, place), evaluate(value, place.scope))
        elif head == ".tran" and not place.path:
            if self.clock is not None:
                raise SpiceError("a deck must have one .tran, but this is another", "keep one of them")
            times = [evaluate(w, place.scope) for w in rest if w.lower() != "uic"]
            if not 2 <= len(times) <= 4 or times[0] <= 0 or times[1] <= 0:
                raise SpiceError(".tran must give a step and a stop time greater than 0", "write `.tran 1p 1n uic`")
            if not any(w.lower() == "uic" for w in rest):
                raise SpiceError(
                    ".tran must say uic, since runs start from initial conditions and not from an operating point",
                    "add uic at its end",
                )
            if any(times[2:3]):
                raise SpiceError(".tran must start at 0, since the record does", "write 0 or nothing as start time")
            steps = round(min(times[1] / times[0], 1e10))  # a quotient of long times is off by a little
            if not 1 <= steps <= 1e9:
                raise SpiceError(".tran must have from 1 to 1e9 steps", "change its step or stop time")
            self.clock = Clock(times[0], steps)
        else:
            raise SpiceError(f"{head[:40]} is not read", "remove it; .param, .subckt, .model, .ic and .tran are read")

    def two_pole(self, line: int, name: str, rest: list[str], place: _Place) -> None:
        letter = name[0].lower()
        kind, key = _TWO_POLES[letter]
        positional, options = arguments(rest)
        positional += [options.pop(letter)] if letter in options else []
        start = options.pop("ic", None) if letter in "lc" else None
        if options:
            raise SpiceError(f"option `{min(options)[:64]}` is not modelled", "remove it")
        a, b, text = _three(positional, "two nodes and a value")
        a, b, value = self.node(a, place), self.node(b, place), evaluate(text, place.scope)
        self.add(line, place.part(name), kind, a=a, b=b, **{key: value})
        if start is not None:
            if "0" not in (a, b) or a == b:
                raise SpiceError("IC= must be on a part with one end at ground", "write `.ic v(node)=...`")
            size = evaluate(start, place.scope) * (1 if b == "0" else -1)
            what, size = ("velocities", size) if letter == "c" else ("positions", value * size)
            self.start(line, what, a if b == "0" else b, size)

    def source(self, line: int, name: str, rest: list[str], place: _Place) -> None:
        if len(rest) < 2 or "=" in rest:
            raise SpiceError("a source must have two nodes and a waveform", "write `I1 n+ n- SIN(0 1u 1MEG)`")
        plus, minus = (self.node(w, place) for w in rest[:2])
        wave = waveform(rest[2:], place.scope)
        if name[0].lower() == "i":
            self.add(line, place.part(name), "current", plus=plus, minus=minus, waveform=wave)
        elif "0" not in (plus, minus):
            raise SpiceError("a voltage source must have one end at ground", "ground one end, or use a current source")
        else:
            at_plus = minus == "0"
            wave = wave if at_plus else negated(wave)
            self.add(line, place.part(name), "voltage", node=plus if at_plus else minus, waveform=wave)

    def junction(self, line: int, name: str, rest: list[str], place: _Place) -> None:
        if "=" in rest and rest[rest.index("=") - 1].lower() in ("i", "v"):
            raise SpiceError("behavioural sources are not read", f"use a sub-circuit such as rhel_{min(SUBCIRCUITS)}")
        positional, options = arguments(rest)
        if not 3 <= len(positional) <= 4:
            raise SpiceError("a junction must have two nodes and a model", "write `B1 n+ n- model area=1`")
        model = self.models.get(positional[-1].lower())
        if model is None:
            known = nearest(positional[-1][:64], self.models)
            raise SpiceError(
                f"`{positional[-1][:64]}` is no model{known}", "add `.model name jj(icrit=... cap=... rtype=0)`"
            )
        if set(options) - {"area", "ics"} or len(options) > 1:
            raise SpiceError("a junction takes area= or ics= and nothing else", "remove the other options")
        values = {key: evaluate(text, place.scope) for key, text in model.items()}
        if values["rtype"] != 0:
            raise SpiceError("the model's rtype must be 0, since its resistive branch is not modelled",
                             "write rtype=0, and a resistor R where the junction is shunted")  # fmt: skip
        if values.get("cct", 1) != 1 or values["cap"] < 0 or values["icrit"] <= 0:
            raise SpiceError("the model must have icrit > 0, cap >= 0 and cct=1", "correct the model")
        a, b = (self.node(w, place) for w in positional[:2])
        scale = {key: evaluate(text, place.scope) for key, text in options.items()}
        area = scale["ics"] / values["icrit"] if "ics" in scale else scale.get("area", 1.0)
        current = scale.get("ics", values["icrit"] * area)
        self.add(line, place.part(name), "josephson", a=a, b=b, critical_current=current)
        if values["cap"] > 0:
            self.add(line, f"C.{place.part(name)}", "capacitor", a=a, b=b, capacitance=values["cap"] * area)
        if len(positional) == 4:
            self.phases[self.node(positional[2], place)] = (line, name)

    def call(self, line: int, name: str, rest: list[str], place: _Place) -> None:
        positional, options = arguments(_without_keyword(rest))
        if not positional:
            raise SpiceError("a call must name a sub-circuit", "write `X1 node node name`")
        wanted, ends = positional[-1].lower(), [self.node(w, place) for w in positional[:-1]]
        given = {key: evaluate(text, place.scope) for key, text in options.items()}
        if wanted.startswith("rhel_"):
            self.own(line, place.part(own_name(name)), wanted[5:], ends, given)
            return
        circuit = self.circuits.get(wanted)
        if circuit is None:
            known = nearest(wanted[:64], [*self.circuits, *(f"rhel_{t}" for t in SUBCIRCUITS)])
            raise SpiceError(f"`{positional[-1][:64]}` is no sub-circuit{known}", "define it with .subckt")
        if wanted in place.open or len(place.open) >= _DEEPEST:
            raise SpiceError(
                f"sub-circuit `{wanted[:64]}` calls itself, or calls are nested too deeply", "break the chain"
            )
        if len(ends) != len(circuit.ports):
            raise SpiceError(
                f"`{wanted[:64]}` has {len(circuit.ports)} ports, but is given {len(ends)} nodes", "match them"
            )
        for key in set(given) - set(circuit.defaults):
            raise SpiceError(f"`{key[:64]}` is no parameter of it{nearest(key[:64], circuit.defaults)}", "remove it")
        scope = Scope({**circuit.parameters, **circuit.defaults}, place.scope, given)
        ports = dict(zip(circuit.ports, ends, strict=True))
        self.expand(circuit, _Place(scope, (*place.path, name), ports, (*place.open, wanted)))

    def own(self, line: int, name: str, kind: str, ends: list[str], given: dict[str, float]) -> None:
        if kind not in SUBCIRCUITS:
            raise SpiceError(f"`rhel_{kind[:64]}` is no element{nearest(kind[:64], SUBCIRCUITS)}", "use a known one")
        cls = ELEMENTS[kind]
        for key in set(given) - set(cls.parameters):
            raise SpiceError(f"`{key[:64]}` is no parameter of it{nearest(key[:64], cls.parameters)}", "remove it")
        for key, info in cls.parameters.items():
            if key not in given and info.default is None:
                raise SpiceError(f"`{key}` must be given", f"add `{key}=...`")
        if len(ends) != 2 or (len(cls.terminals) == 1 and ends[1] != "0"):
            what = "two nodes" if len(cls.terminals) == 2 else "a node and ground"
            raise SpiceError(f"rhel_{kind} must have {what}", f"write `X1 node 0 rhel_{kind} ...`")
        self.add(line, name, kind, **dict(zip(cls.terminals, ends, strict=False)), **given)

    def node(self, name: str, place: _Place) -> str:
        if name in "()=" or name[0] in "{'":
            raise SpiceError(f"must have a node where {name[:20]!r} stands", "write the nodes first")
        if name.lower() in ("0", "gnd"):
            return "0"
        if name.lower() in place.ports:
            return place.ports[name.lower()]
        full = ".".join((*place.path, name))
        return self.nodes.setdefault(full.lower(), full)

    def add(self, line: int, name: str, kind: str, **fields: Any) -> None:
        if (other := self.parts.get(name.lower())) is not None:
            raise SpiceError(f"the name is taken by line {other.line}", "give each part its own name")
        self.parts[name.lower()] = Found(line, name, kind, fields)

    def start(self, line: int, what: str, node: str, value: float) -> None:
        if node == "0":
            raise SpiceError("ground has no initial voltage", "name another node")
        _, known = self.starts.setdefault((what, node), (line, value))
        if known != value:
            raise SpiceError(f"node `{node}` has two initial values, {known!r} and {value!r}", "keep one of them")

    # Netlist -----------------------------------------------------------------------------------------------------

    def netlist(self) -> Netlist:
        """Everything found, with what the ``*rhel`` lines add."""
        extra = self.extra()
        ground = extra["design"].get("ground", "0")
        nodes = {"0": ground} | {n: extra["nodes"].get(key, n) for key, n in self.nodes.items()}
        settings = {**extra["elements"], **extra["drives"]}
        names = {key: settings.get(key, {}).get("name", found.name) for key, found in self.parts.items()}
        parts: list[Element | Drive] = []
        for key, found in self.parts.items():
            with self.at(found.line, found.name):
                parts.append(build(found, {**settings.get(key, {}), "name": names[key]}, nodes, names))
        used = {n for f in self.parts.values() if f.type in ELEMENTS for k, n in f.fields.items() if k in TERMINALS}
        for node, (line, name) in self.phases.items():
            if node in used:
                with self.at(line, name):
                    raise SpiceError(
                        f"phase node `{node}` joins other parts", "leave it open; probe the junction's nodes"
                    )
        initial = {"positions": {}, "velocities": {}, **extra["initial"]}
        for (what, node), (line, value) in self.starts.items():
            with self.at(line, f"initial {what}"):
                if node not in used:
                    raise SpiceError(f"node `{node}` does not exist{nearest(node[:64], used)}", "name an existing node")
                if initial[what].setdefault(nodes[node], value) != value:
                    raise SpiceError(f"node `{node}` has another start in the *rhel lines", "keep one of them")
        if len(set(nodes.values())) < len(nodes):
            self.findings.append(error("*rhel nodes", "two nodes must not have one name", "give each its own name"))
        if self.clock and extra["time"]:
            self.findings.append(error("*rhel time", "there is a .tran line as well", "keep one of them"))
        if self.findings:
            raise DesignError(self.findings)
        lines = {names[key]: f"line {f.line} ({f.name})" for key, f in self.parts.items()}
        try:
            return Netlist(
                extra["design"].get("name", self.title),
                tuple(p for p in parts if isinstance(p, Element)),
                tuple(p for p in parts if isinstance(p, Drive)),
                Probes(**extra["probes"]),
                tuple(Target(name, given["node"]) for name, given in extra["targets"].items()),
                ground,
                Initial(**initial),
                self.clock or Clock(**extra["time"]),
                settings={section: extra[section] for section in SETTINGS if extra[section]},
            )
        except DesignError as problem:
            lines["design.name"] = "line 1 (title)"
            found_at = [replace(f, element=lines.get(f.element, f.element)) for f in problem.legality.findings]
            raise DesignError(found_at) from None

    def extra(self) -> dict[str, Any]:
        """Read the ``*rhel`` lines, by section; parts and nodes by their names in the deck, in lower case."""
        found, problems = read_notes(self.fragment)
        self.findings += problems
        for section, known in (
            ("elements", {k for k, f in self.parts.items() if f.type in ELEMENTS}),
            ("drives", {k for k, f in self.parts.items() if f.type in DRIVES}),
            ("nodes", set(self.nodes)),
        ):
            lowered = {key.lower(): value for key, value in found[section].items()}
            for key in set(lowered) - known:
                reason = f"the deck has no `{key[:64]}` among its {section}{nearest(key[:64], known)}"
                self.findings.append(error(f"*rhel {section}", reason, "name what the deck has"))
            if len(lowered) < len(found[section]):
                self.findings.append(error(f"*rhel {section}", "two names differ by case only", "keep one of them"))
            found[section] = lowered
        return found


def _without_keyword(given: list[str]) -> list[str]:
    return [w for w in given if w.lower() != "params:"]


def _three(given: list[str], what: str) -> list[str]:
    if len(given) != 3 or {"(", ")", "="} & set(given):
        raise SpiceError(f"must have {what}, but has {' '.join(given)[:60]!r}", f"write {what}")
    return given
