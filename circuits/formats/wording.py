"""Values as people print them: on schematics and data sheets."""

from __future__ import annotations

from circuits.netlist import Netlist, coupling_unit
from devices import Element, to_text

_EVIDENT = ("F", "H", "A", "ohm", "kg", "N/m")
"""Units that say which parameter it is."""


def values_text(netlist: Netlist, element: Element, *, every: bool = False) -> list[str]:
    """A few lines: what learning turns, then what had to be given; or `every` value that was."""
    infos = element.parameters
    wanted = [k for k, info in infos.items() if info.knob] + [k for k, i in infos.items() if i.default is None]
    given = [
        k for k in dict.fromkeys([*wanted, *infos]) if infos[k].default is None or element.values[k] != infos[k].default
    ]
    shown = given if every else [k for k in given if k in wanted][:4]
    lines = []
    for key in shown or list(infos)[:1]:
        unit = infos[key].unit
        if unit is None:
            unit = coupling_unit([netlist.domains[n].position_unit for n in element.nodes if n != netlist.ground])
        text = quantity_text(element.values[key], unit)
        lines.append(text if unit in _EVIDENT or (len(shown) < 2 and unit) else f"{key.replace('_', ' ')} {text}")
    return lines


def quantity_text(value: float, unit: str) -> str:
    """Four digits and a unit with prefix, as people print it."""
    if unit == "kg" and abs(value) < 0.1:
        value, unit = value * 1e3, "g"
    short = float(f"{value:.4g}")
    first, slash, rest = unit.partition("/")
    text = to_text(short, first) if first.isalpha() and first != "kg" else f"{short:.4g} {first}"
    number, _, symbol = f"{text}{slash}{rest}".partition(" ")
    if symbol.startswith("u"):
        symbol = "µ" + symbol[1:]
    return f"{number.replace('-', '−')} {symbol.replace('ohm', 'Ω').replace('**3', '³').replace('*', '·')}".strip()
