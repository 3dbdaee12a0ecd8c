"""Verilog-A modules of the nonlinear electrical elements, for simulators that take compact models.

Each module integrates the voltage of its branch at an inner node whose potential is a number near one: the phase of a
junction, the flux over the knee of a saturable inductor, the charge over its scale in a varactor. The current is the
slope of the element's energy at that flux. At rest the flux is free, so runs start from initial conditions, not from
an operating point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from circuits.findings import DesignError, error
from circuits.netlist import Netlist
from devices import ELECTRICAL, ELEMENTS, FLUX_QUANTUM, Element

_RADIAN = FLUX_QUANTUM / (2 * math.pi)
_INTEGRATED = "I({x}) <+ ddt({scale} * V({x}));\n    I({x}) <+ -V(a, b);\n    "
_BODIES: Mapping[str, tuple[str, str, str]] = {
    "josephson": (
        "V(phase) = 2 pi flux / flux quantum",
        "phase",
        _INTEGRATED.format(x="phase", scale=repr(_RADIAN)) + "I(a, b) <+ critical_current * sin(V(phase));",
    ),
    "squid": (
        "V(phase) = 2 pi flux / flux quantum; each junction sees it shifted by pi flux / flux quantum",
        "phase",
        _INTEGRATED.format(x="phase", scale=repr(_RADIAN))
        + f"bias = flux * {math.pi / FLUX_QUANTUM!r};\n"
        + "    I(a, b) <+ 0.5 * critical_current * ((1 + asymmetry) * sin(V(phase) + bias)\n"
        + "               + (1 - asymmetry) * sin(V(phase) - bias));",
    ),
    "saturable": (
        "V(turns) = flux / (inductance saturation_current)",
        "turns",
        _INTEGRATED.format(x="turns", scale="inductance * saturation_current")
        + "bias = flux / (inductance * saturation_current);\n"
        + "    I(a, b) <+ saturation_current * tanh(V(turns) - bias);",
    ),
    "inductor": (
        "V(turns) = flux / inductance, in A",
        "turns",
        _INTEGRATED.format(x="turns", scale="inductance") + "I(a, b) <+ V(turns) - flux / inductance;",
    ),
    "varactor": (
        "V(load) = charge / charge_scale, which solves load + load^3 = capacitance V(a, b) / charge_scale",
        "load",
        "I(load) <+ V(load) + V(load) * V(load) * V(load);\n"
        + "    I(load) <+ -V(a, b) * capacitance / charge_scale;\n"
        + "    I(a, b) <+ ddt(charge_scale * V(load));",
    ),
}
"""By element type: what the inner node stands for, its name, and the equations."""
_BIASED = ("squid", "saturable")
_OWN = ("capacitor", "resistor", "inductor", "mutual", "tank")
"""Linear elements, which every simulator has; an inductor that a static flux threads is written as a module."""


def module(kind: str) -> str:
    """Verilog-A of an element type: josephson, squid, saturable, varactor, or inductor with a static flux."""
    if kind not in _BODIES:
        raise DesignError([error(kind, "there is no Verilog-A module of it", f"take one of {', '.join(_BODIES)}")])
    cls = ELEMENTS[kind]
    meaning, inner, body = _BODIES[kind]
    lines = [f"// {cls.summary} {meaning}.", f"module rhel_{kind}(a, b);", "  inout a, b;"]
    lines.append(f"  electrical a, b, {inner};")
    for key, info in cls.parameters.items():
        default = info.read(info.example if info.default is None else info.default)
        limits = "(0:inf)" if info.positive else "(-1:1)" if key == "asymmetry" else "(-inf:inf)"
        lines.append(f"  parameter real {key} = {default!r} from {limits}; // {info.unit or 'pure number'}: {info.doc}")
    if kind in _BIASED:
        lines.append("  real bias;")
    return "\n".join([*lines, "  analog begin", f"    {body}", "  end", "endmodule", ""])


def write(netlist: Netlist) -> str:
    """Modules of the nonlinear elements of a netlist; comments have the lines that place each element in ngspice."""
    refused = [
        error(e.name, f"a {e.type} is no electrical element with a Verilog-A module", "export as a TOML design file")
        for e in netlist.elements
        if e.domain is not ELECTRICAL or (e.type not in _BODIES and e.type not in _OWN)
    ]
    wanted = [e for e in netlist.elements if _placed(e)]
    if not wanted and not refused:
        refused = [error("elements", "all are linear, which needs no Verilog-A", "export as SPICE")]
    if refused:
        raise DesignError(refused)
    lines = [f"// Nonlinear elements of {_comment(netlist.name)}. Start from initial conditions (uic).", "//"]
    for element in wanted:
        ends = ["0" if n == netlist.ground else n for n in (*netlist.terminals_of(element), netlist.ground)[:2]]
        model = re.sub(r"\W", "_", f"m_{element.name}")
        values = " ".join(f"{key}={value!r}" for key, value in element.values.items())
        lines.append(f"// N{element.name} {' '.join(ends)} {model}")
        lines.append(f"// .model {model} rhel_{element.type} {values}")
    head = '`include "disciplines.vams"\n'
    return "\n".join([*lines, "", head, *(module(kind) for kind in dict.fromkeys(e.type for e in wanted))])


def _placed(element: Element) -> bool:
    return element.type in _BODIES and (element.type != "inductor" or element.values["flux"] != 0)


def _comment(text: str) -> str:
    return text.encode("ascii", "replace").decode()
