"""Designs that must be refused, each with one fault, and words that the refusal must hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Bad:
    """A design with a fault."""

    name: str
    content: str | bytes | Callable[[Path], None]
    """Text or bytes of the file, or what makes it at a path."""
    words: tuple[str, ...]
    """Where the fault is, then what it is, as the message must say them."""
    file: str = "design.toml"
    argument: str = ""
    """What the command line is given, where that is not the path of the file."""
    as_root: bool = True
    """Whether it is a fault for a user who may do everything, too."""

    def make(self, folder: Path) -> str:
        """Write the design into a folder; gives what names it on the command line."""
        path = folder / self.file
        if callable(self.content):
            self.content(path)
        elif isinstance(self.content, bytes):
            path.write_bytes(self.content)
        else:
            path.write_text(self.content, encoding="utf-8")
        return self.argument or str(path)


# Pieces ----------------------------------------------------------------------------------------------------------


def table(header: str, **keys: Any) -> str:
    lines = (f"{key} = {repr(v) if isinstance(v, float) else json.dumps(v)}" for key, v in keys.items())
    return "\n".join([f"[{header}]", *lines, ""])


def capacitor(name: str = "C1", a: str = "n1", b: str = "gnd", value: Any = "1 pF", **more: Any) -> str:
    return table(f"elements.{name}", type="capacitor", nodes=[a, b], capacitance=value, **more)


def inductor(name: str = "L1", a: str = "n1", b: str = "gnd", value: Any = "1 nH", **more: Any) -> str:
    return table(f"elements.{name}", type="inductor", nodes=[a, b], inductance=value, **more)


def element(name: str, kind: str, **keys: Any) -> str:
    return table(f"elements.{name}", type=kind, **keys)


def junction(a: str, b: str = "gnd") -> str:
    return element("J1", "josephson", nodes=[a, b], critical_current="1 uA")


def mutual(name: str, first: str, second: str, coefficient: Any = 0.1) -> str:
    return element(name, "mutual", first=first, second=second, coefficient=coefficient)


def drive(kind: str = "current", name: str = "I1", **keys: Any) -> str:
    return table(f"drives.{name}", type=kind, **keys)


def current(**wave: Any) -> str:
    return drive(node="n1") + table("drives.I1.waveform", **wave)


def oscillator(name: str, node: str) -> str:
    return element(f"m{name}", "mass", node=node, mass="1 kg") + element(
        f"k{name}", "spring", nodes=[node, "gnd"], constant="1 N/m"
    )


def deck(*lines: str) -> str:
    return "\n".join(("a deck", *lines, ".end", ""))


TANK = capacitor() + inductor()
PAIR = TANK + capacitor("C2", "n2") + inductor("L2", "n2")
TRIPLE = PAIR + capacitor("C3", "n3") + inductor("L3", "n3")


def sparse(size: int) -> Callable[[Path], None]:
    """A file of `size` bytes that takes no room on the disk."""

    def make(path: Path) -> None:
        with path.open("wb") as stream:
            stream.truncate(size)

    return make


def nothing(path: Path) -> None:
    """No file at all."""


def unreadable(path: Path) -> None:
    path.write_text(TANK, encoding="utf-8")
    path.chmod(0)


# Files -----------------------------------------------------------------------------------------------------------

FILES = [
    Bad("hundred megabytes", sparse(100 * 1024**2), ("design.toml", "larger than")),
    Bad("hundred megabytes of spice", sparse(100 * 1024**2), ("deck.cir", "larger than"), "deck.cir"),
    Bad("binary", bytes(range(256)) * 16, ("design.toml", "not text")),
    Bad("binary spice", b"\x7fELF\x02\x01\x01" + bytes(range(255, -1, -1)), ("deck.sp", "not text"), "deck.sp"),
    Bad("nul bytes", b"\0" * 4096, ("file", "is not TOML", "line 1")),
    Bad("directory", Path.mkdir, ("design.toml", "is not a file")),
    Bad("no such file", nothing, ("design.toml", "does not exist")),
    Bad("no permission", unreadable, ("design.toml", "cannot be read", "denied"), as_root=False),
    Bad("wrong suffix", TANK, ("design.json", "neither a design file nor a built-in design"), "design.json"),
    Bad("no suffix", TANK, ("design", "neither a design file nor a built-in design"), "design"),
    Bad("mistyped built-in", nothing, ("`tooy`", "did you mean `toy`?"), argument="tooy"),
    Bad("empty", "", ("elements", "no elements")),
    Bad("empty spice", "", ("elements", "none"), "deck.cir"),
    Bad("syntax", TANK + "[elements.C2\n", ("file", "is not TOML", "line 9")),
    Bad("key twice", capacitor() + 'capacitance = "2 pF"\n', ("file", "is not TOML", "line 5")),
    Bad("duplicate element", capacitor() + capacitor(), ("file", "is not TOML", "C1")),
    Bad("deep lists", "x = " + "[" * 50_000 + "]" * 50_000, ("file", "nested too deeply")),
    Bad("deep tables", "x = " + "{a=" * 20 + "1" + "}" * 20, ("file", "nested too deeply")),
    Bad("deep keys", ".".join("a" * 5_000) + " = 1", ("file", "nested too deeply")),
    Bad("number of 10000 digits", "x = " + "9" * 10_000, ("file", "digits")),
    Bad("key of a megabyte", TANK + f"[{'a' * 2**20}]\n", ("aaaa", "is no section")),
]

# Sections, keys and names ----------------------------------------------------------------------------------------

KEYS = [
    Bad("unknown section", TANK + '[element.C2]\ntype = "capacitor"\n', ("element:", "did you mean `elements`?")),
    Bad("unknown key of a section", TANK + "[time]\nstepps = 5\n", ("time.stepps", "did you mean `step")),
    Bad("section is a number", "drives = 3\n" + TANK, ("drives", "must be a table")),
    Bad("elements is a list", "[[elements]]\nname = 'C1'\n", ("elements", "must be a table")),
    Bad("element is a number", "elements.C1 = 3\n", ("elements.C1", "must be a table")),
    Bad("no elements", '[design]\nname = "empty"\n', ("elements", "no elements")),
    Bad("empty elements", "[elements]\n", ("elements", "there are none")),
    Bad("unknown key", capacitor(capacitence="2 pF") + inductor(), ("elements.C1.capacitence", "`capacitance`?")),
    Bad("no type", "[elements.C1]\nnodes = ['n1', 'gnd']\n", ("elements.C1", "has no type")),
    Bad("unknown type", TANK + element("J1", "josefson"), ("elements.J1", "did you mean `josephson`?")),
    Bad("type is a list", TANK + element("J1", ["josephson"]), ("elements.J1", "is no type of element")),
    Bad("missing parameter", TANK + element("C2", "capacitor", nodes=["n1", "gnd"]), ("elements.C2.capacitance",)),
    Bad("missing nodes", TANK + element("C2", "capacitor", capacitance="1 pF"), ("elements.C2.nodes", "list of 2")),
    Bad("missing node", element("m1", "mass", mass="1 kg"), ("elements.m1.node", "needs `node`")),
    Bad(
        "three nodes", TANK + element("C2", "capacitor", nodes=["a", "b", "c"], capacitance=1.0), ("elements.C2.nodes",)
    ),
    Bad("node with a space", TANK + capacitor("C2", "n 2"), ("elements.C2.nodes", "without spaces", "'n 2'")),
    Bad(
        "node is a table",
        TANK + "[elements.C2]\ntype='capacitor'\nnodes=[{}, 'n1']\ncapacitance=1\n",
        ("elements.C2.nodes", "node names"),
    ),
    Bad("element name with a space", TANK + capacitor('"C 2"'), ("elements.C 2.name", "start with a letter")),
    Bad("line break in a name", TANK + capacitor('"C\\n2"'), ("elements.C", "start with a letter")),
    Bad(
        "markup in a name",
        TANK + capacitor('"C[/red]"', value=-1.0),
        ("elements.C[/red].capacitance", "greater than 0"),
    ),
    Bad("part name twice", TANK + drive(name="C1", node="n1"), ("C1", "2 parts have this name")),
    Bad("design name is a number", "[design]\nname = 5\n" + TANK, ("design.name", "line of text")),
    Bad("ground is a list", "[design]\nground = []\n" + TANK, ("design.ground", "node name")),
]

# Values ----------------------------------------------------------------------------------------------------------

VALUES = [
    Bad("unknown unit", capacitor(value="1 pFarrad"), ("elements.C1.capacitance", "pFarrad")),
    Bad(
        "wrong dimension",
        capacitor(value="1 nH"),
        ("elements.C1.capacitance", "must be a capacitance (F)", "inductance"),
    ),
    Bad("zero", capacitor(value="0 F"), ("elements.C1.capacitance", "greater than 0")),
    Bad("bare zero", capacitor(value=0), ("elements.C1.capacitance", "greater than 0")),
    Bad("negative", capacitor(value="-1 pF"), ("elements.C1.capacitance", "greater than 0")),
    Bad("negative inductance", inductor(value="-1 nH"), ("elements.L1.inductance", "greater than 0")),
    Bad("not a number", capacitor(value=math.nan), ("elements.C1.capacitance", "finite", "nan")),
    Bad("nan as text", capacitor(value="nan F"), ("elements.C1.capacitance", "'nan F'")),
    Bad("infinite", capacitor(value=math.inf), ("elements.C1.capacitance", "finite", "inf")),
    Bad("too large", capacitor(value="1e999 F"), ("elements.C1.capacitance", "finite", "1e999 F")),
    Bad("far too large", capacitor(value="1e99999999999 F"), ("elements.C1.capacitance", "cannot be read", "99999")),
    Bad("integer beyond floats", capacitor(value=10**400), ("elements.C1.capacitance", "finite")),
    Bad("power of a unit", capacitor(value="1 F**99999999"), ("elements.C1.capacitance", "F**99999999")),
    Bad("tower of powers", capacitor(value="1 F**9**9**9"), ("elements.C1.capacitance", "F**9**9**9")),
    Bad("code as a unit", capacitor(value="1 __import__('os').abort()"), ("elements.C1.capacitance", "__import__")),
    Bad("code as a value", capacitor(value="__import__('os').abort()"), ("elements.C1.capacitance", "__import__")),
    Bad("markup as a unit", capacitor(value="1 [/red]"), ("elements.C1.capacitance", "[/red]")),
    Bad("line break in a unit", capacitor(value="1 p\nF"), ("elements.C1.capacitance", "not a unit")),
    Bad("temperature", capacitor(value="1 degC"), ("elements.C1.capacitance", "degC")),
    Bad(
        "unit of a megabyte", capacitor(value="1 " + "F*" * 2**19 + "F"), ("elements.C1.capacitance", "must read like")
    ),
    Bad("boolean", capacitor(value=True), ("elements.C1.capacitance", "True")),
    Bad("list", capacitor(value=[1.0]), ("elements.C1.capacitance", "list")),
    Bad(
        "date",
        TANK + "[elements.C2]\ntype='capacitor'\nnodes=['n1','gnd']\ncapacitance=1979-05-27\n",
        ("elements.C2.capacitance", "date"),
    ),
    Bad("coefficient of one", PAIR + mutual("M1", "L1", "L2", 1), ("elements.M1.coefficient", "less than 1")),
    Bad("bounds beside the value", capacitor(bounds=["2 pF", "3 pF"]), ("elements.C1.bounds", "must hold the value")),
    Bad("bounds that fall", capacitor(bounds=["3 pF", "0.5 pF"]), ("elements.C1.bounds", "must grow")),
    Bad("bounds of one", capacitor(bounds=["3 pF"]), ("elements.C1.bounds", "pair")),
    Bad("bounds in henry", capacitor(bounds=["0.5 nH", "2 nH"]), ("elements.C1.bounds", "capacitance")),
    Bad("tolerance of 200 %", capacitor(tolerance="200 %"), ("elements.C1.tolerance", "[0, 1)", "is 2")),
    Bad("negative tolerance", capacitor(tolerance=-0.1), ("elements.C1.tolerance", "[0, 1)")),
    Bad("trainable nonsense", capacitor(trainable=["capacitence"]), ("elements.C1.trainable", "`capacitance`?")),
    Bad(
        "strength of a coupler",
        PAIR + element("g", "bilinear", nodes=["n1", "n2"], strength="1 N/m"),
        ("g:", "`strength`", "J/Wb/Wb"),
    ),
]

# Wiring ----------------------------------------------------------------------------------------------------------

WIRING = [
    Bad("self-loop", TANK + capacitor("C2", "n1", "n1"), ("C2", "both ends are at node `n1`")),
    Bad(
        "mixed domains", TANK + element("m1", "mass", node="n1", mass="1 kg"), ("m1", "mechanical", "electrical by C1")
    ),
    Bad("drive at no node", TANK + drive(node="n11"), ("I1", "`n11` does not exist", "`n1`?")),
    Bad("drive without a node", TANK + drive(), ("drives.I1.node", "needs `node`")),
    Bad("drive of unknown type", TANK + drive("curent", node="n1"), ("drives.I1", "did you mean `current`?")),
    Bad("drive at ground", TANK + drive("voltage", "V1", node="gnd"), ("V1", "ground")),
    Bad("probe at no node", TANK + '[probes]\nmomenta = ["n1", "n2"]\n', ("probes.momenta", "`n2` does not exist")),
    Bad("probes that are no list", TANK + "[probes]\npositions = 3\n", ("probes.positions", "list of nodes")),
    Bad("probes that are a word", TANK + '[probes]\npositions = "none"\n', ("probes.positions", "list of nodes")),
    Bad("target at no node", TANK + table("targets.y", node="n2"), ("targets.y", "`n2` does not exist")),
    Bad("target without a node", TANK + "[targets.y]\n", ("targets.y.node", "must name a node")),
    Bad(
        "target not probed",
        PAIR + '[probes]\npositions = ["n2"]\n' + table("targets.y", node="n1"),
        ("targets.y", "not probed"),
    ),
    Bad(
        "initial at no node",
        TANK + table("initial.positions", n2="1 fWb"),
        ("initial.positions", "`n2` does not exist"),
    ),
    Bad("initial in volts", TANK + table("initial.positions", n1="1 V"), ("initial.positions.n1", "magnetic flux")),
    Bad("initial that is no table", TANK + '[initial]\nmomenta = "1 fC"\n', ("initial.momenta", "table by node")),
    Bad(
        "initial twice",
        TANK + table("initial.momenta", n1="1 fC") + table("initial.velocities", n1="1 V"),
        ("initial", "momenta", "velocit"),
    ),
    Bad(
        "initial at a source",
        TANK + capacitor("C2", "n1", "n2") + drive("voltage", "V1", node="n2") + table("initial.velocities", n2="1 V"),
        ("n2", "source"),
    ),
    Bad("mutual to nothing", PAIR + mutual("M1", "L1", "L3"), ("M1", "`L3`", "no element")),
    Bad("mutual to itself", PAIR + mutual("M1", "L1", "L1"), ("M1", "to itself")),
    Bad("mutual to a capacitor", PAIR + mutual("M1", "L1", "C2"), ("M1", "`C2`, which is a capacitor")),
    Bad("mutual twice", PAIR + mutual("M1", "L1", "L2") + mutual("M2", "L2", "L1"), ("M1", "another mutual")),
    Bad(
        "mutuals that no coils have",
        TRIPLE + mutual("M1", "L1", "L2", 0.9) + mutual("M2", "L2", "L3", 0.9) + mutual("M3", "L1", "L3", -0.9),
        ("M1", "not positive definite"),
    ),
    Bad("flux through a capacitor", TANK + drive("flux", "F1", element="C1"), ("F1", "`C1`, which is a capacitor")),
    Bad(
        "two sources at a node",
        TANK + drive("voltage", "V1", node="n1") + drive("voltage", "V2", node="n1"),
        ("node n1", "2 voltage sources"),
    ),
    Bad(
        "coupler to ground",
        TANK + element("g", "bilinear", nodes=["n1", "gnd"], strength=1e8),
        ("g", "couples to ground"),
    ),
]

# Physics ---------------------------------------------------------------------------------------------------------

PHYSICS = [
    Bad("floating", capacitor(b="n2") + inductor(b="n2"), ("node n1", "floats")),
    Bad("ground that is not there", '[design]\nground = "earth"\n' + TANK, ("n1", "floats", "tie it to `earth`")),
    Bad("no restoring force", capacitor() + capacitor("C2", "n1", "n2"), ("design", "oscillate")),
    Bad("no restoring force but a drive", capacitor() + drive(node="n1"), ("design", "nothing oscillates")),
    Bad("no inertia", inductor(), ("design", "oscillate")),
    Bad(
        "gyrator",
        PAIR + element("G1", "gyrator", nodes=["n1", "gnd", "n2", "gnd"], conductance_ratio=1.0),
        ("G1", "time reversal"),
    ),
    Bad(
        "offset charge",
        TANK + element("Q1", "offset-charge", node="n1", charge="0.1 aC"),
        ("Q1", "not even in momentum"),
    ),
    Bad(
        "single diode",
        TANK + element("D1", "diode", nodes=["n1", "gnd"], capacitance="1 pF"),
        ("D1", "not even in momentum", "varactor"),
    ),
    Bad(
        "trainable resistor",
        TANK + element("R1", "resistor", nodes=["n1", "gnd"], resistance="1 Mohm", trainable=True),
        ("R1", "loss, not energy"),
    ),
    Bad(
        "capacitor across a source",
        TANK + drive("voltage", "V1", node="n1"),
        ("C1", "voltage source", "inductor between"),
    ),
    Bad(
        "junction without capacitance",
        TANK + junction("n2") + inductor("L2", "n1", "n2"),
        ("J1", "nonlinear", "add a capacitor from n2"),
    ),
    Bad(
        "resistor without capacitance",
        TANK
        + inductor("L2", "n1", "n2")
        + inductor("L3", "n2")
        + element("R1", "resistor", nodes=["n2", "gnd"], resistance="1 ohm"),
        ("R1", "loses energy", "add a capacitor from n2"),
    ),
    Bad(
        "varactor with company",
        TANK + element("X1", "varactor", node="n1", capacitance="1 pF", charge_scale="1 pC"),
        ("X1", "shares its node with C1"),
    ),
    Bad("coupler to a node of its own", TANK + element("g", "bilinear", nodes=["n1", "n2"], strength=1e6), ("g", "n2")),
    Bad("values beyond floats", capacitor(value="1e300 F") + inductor(value="1e300 H"), ("C1",)),
    Bad(
        "unstable coupler",
        oscillator("1", "x1") + oscillator("2", "x2") + element("g", "bilinear", nodes=["x1", "x2"], strength=2),
        ("g", "unstable", "lower the coupling"),
    ),
]

# Time and waveforms ----------------------------------------------------------------------------------------------

SINE = {"type": "sine", "amplitude": "1 uA", "frequency": "1 GHz"}

TIMES = [
    Bad("step too large", TANK + '[time]\nstep = "1 us"\n', ("time.step", "leapfrog is unstable", "use at most")),
    Bad("step negative", TANK + '[time]\nstep = "-1 ps"\n', ("time.step", "greater than 0")),
    Bad("step of zero", TANK + "[time]\nstep = 0\n", ("time.step", "greater than 0")),
    Bad("step in farad", TANK + '[time]\nstep = "1 pF"\n', ("time.step", "must be a time (s)")),
    Bad("steps zero", TANK + "[time]\nsteps = 0\n", ("time.steps", "whole number")),
    Bad("steps a fraction", TANK + "[time]\nsteps = 10.5\n", ("time.steps", "whole number")),
    Bad("steps too many", TANK + "[time]\nsteps = 10000000000\n", ("time.steps", "1e9")),
    Bad("steps true", TANK + "[time]\nsteps = true\n", ("time.steps", "whole number")),
    Bad(
        "amplitude in volts",
        TANK + current(**SINE | {"amplitude": "1 V"}),
        ("drives.I1.waveform", "`amplitude` must be a current (A)"),
    ),
    Bad("unknown waveform", TANK + current(type="sinus"), ("drives.I1.waveform", "`sinus`")),
    Bad("waveform type is a list", TANK + current(type=["sine"]), ("drives.I1.waveform", "is no waveform")),
    Bad("waveform is a word", TANK + drive(node="n1", waveform="sine"), ("drives.I1.waveform", "must be a table")),
    Bad("unknown key of a waveform", TANK + current(**SINE, phase=1), ("drives.I1.waveform.phase", "is no key")),
    Bad("sine without a frequency", TANK + current(type="sine", amplitude=1), ("drives.I1.waveform", "frequency")),
    Bad(
        "frequency of zero",
        TANK + current(**SINE | {"frequency": 0}),
        ("drives.I1.waveform", "`frequency` must be greater"),
    ),
    Bad("pulse without width", TANK + current(type="pulse", high=1.0, width=0), ("drives.I1.waveform", "`width`")),
    Bad(
        "points that do not grow",
        TANK + current(type="points", times=[0, 2e-9, 1e-9], values=[0, 1, 0]),
        ("drives.I1.waveform", "`times` must grow"),
    ),
    Bad(
        "points of unequal number",
        TANK + current(type="points", times=[0, 1], values=[0]),
        ("drives.I1.waveform", "equally long"),
    ),
]

# SPICE -----------------------------------------------------------------------------------------------------------

LC = ("C1 n1 0 1p", "L1 n1 0 1n")


def spice(name: str, *lines: str, words: tuple[str, ...]) -> Bad:
    return Bad(name, deck(*LC, *lines), words, "deck.cir")


DECKS = [
    spice("transistor", "M1 n1 n2 0 0 nmos", words=("line 4 (M1)", "letter 'M'")),
    spice("diode in spice", "D1 n1 0 dmod", words=("line 4 (D1)", "letter 'D'", "varactor")),
    spice("include", ".include /etc/passwd", words=("line 4 (.include)", "may not name other files")),
    spice("library", ".lib 'models.lib' tt", words=("line 4 (.lib)", "may not name other files")),
    spice("control block", ".control", "shell rm -rf /", ".endc", words=("line 4 (.control)", "commands")),
    spice("sub-circuit in itself", ".subckt s a", "X1 a s", ".ends", "X2 n1 s", words=("line 5", "calls itself")),
    spice(
        "sub-circuits in a ring",
        ".subckt s a",
        "X1 a t",
        ".ends",
        ".subckt t a",
        "X1 a s",
        ".ends",
        "X2 n1 s",
        words=("line 8", "calls itself"),
    ),
    spice(
        "doubling sub-circuits",
        *(line for i in range(18) for line in (f".subckt s{i} a", f"X1 a s{i + 1}", f"X2 a s{i + 1}", ".ends")),
        ".subckt s18 a",
        "C1 a 0 1p",
        ".ends",
        "X1 n1 s0",
        words=("deck", "more than 100000 parts"),
    ),
    spice(
        "parameters in a ring", ".param a={b} b={a}", "C2 n1 0 {a}", words=("line 4 (.param a)", "depends on itself")
    ),
    spice("deep brackets", "C2 n1 0 {" + "(" * 400 + "1p" + ")" * 400 + "}", words=("line 4 (C2)", "nested more than")),
    spice("overflow", "C2 n1 0 {1e300*1e300}", words=("line 4 (C2)", "finite")),
    spice("huge number", "C2 n1 0 1e999", words=("line 4 (C2)", "finite")),
    spice("zero in spice", "C2 n1 0 0", words=("line 4 (C2)", "`capacitance` must be greater than 0")),
    spice("code in spice", "C2 n1 0 {__import__('os').abort()}", words=("line 4 (C2)",)),
    spice("name twice in spice", "c1 n1 0 2p", words=("line 4 (c1)", "taken by line 2")),
    spice("mutual to nothing in spice", "K1 L1 L9 0.5", words=("line 4 (K1)", "`l9` is no inductor")),
    spice("value missing in spice", "C2 n1 0", words=("line 4 (C2)", "two nodes and a value")),
    spice("steps without end", ".tran 1e-30 1 uic", words=("line 4 (.tran)", "1e9 steps")),
]

BAD_DESIGNS = [*FILES, *KEYS, *VALUES, *WIRING, *PHYSICS, *TIMES, *DECKS]

IN_A_PROCESS = (
    "hundred megabytes", "hundred megabytes of spice", "binary", "directory", "no such file", "no permission",
    "mistyped built-in", "syntax", "duplicate element", "deep lists", "unknown section",
    "unknown key", "unknown type", "missing parameter", "missing nodes", "part name twice", "unknown unit",
    "wrong dimension", "zero", "negative", "not a number", "infinite", "too large", "power of a unit", "code as a unit",
    "boolean", "self-loop", "mixed domains", "drive at no node", "mutuals that no coils have", "floating", "gyrator",
    "capacitor across a source", "junction without capacitance", "unstable coupler", "step too large", "steps zero",
    "amplitude in volts", "transistor", "include", "sub-circuit in itself",
)  # fmt: skip
"""Designs that stand for their kind where each costs a process of its own."""
