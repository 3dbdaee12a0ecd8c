"""Photonic designs as netlists in the YAML that sax evaluates and gdsfactory writes, and back.

Instances are sax's own `straight` (an arc of a ring) and `coupler_ideal` (where two rings touch, or a ring and its
bus), with the settings that follow from the rates by the formulas of `waveguide`; places are those of
`photonic_layout`. Lengths are in µm, as sax and gdsfactory have them. Settings that sax has no use for stand beside
those that it has: gap, rate, detuning, Kerr shift. The exact tables of a design file stand in `info`, with the elements
that an instance stands for in the instance's own. `read` makes the netlist of them, and refuses a file whose geometry
says something else.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from circuits.findings import DesignError, Finding, error
from circuits.formats import toml
from circuits.formats.photonic_layout import Layout, lay_out
from circuits.formats.sax_trace import trace
from circuits.formats.waveguide import LIGHT, Waveguide
from circuits.netlist import Netlist
from devices import ArgumentError, EvanescentCoupler, Kerr, KerrRotation, PhaseShifter, Ring

Table = dict[str, Any]

MICRO = 1e6
DEEPEST = 16
"""Deepest nesting that a file may have."""
SAME = 1e-9
"""Relative difference up to which a number in the file is the one that the exact rates give."""


def write(netlist: Netlist, guide: Waveguide | None = None) -> str:
    """YAML netlist of a photonic design that sax evaluates and `read` turns back into an equal netlist."""
    return str(_yaml().safe_dump(tables(netlist, guide), sort_keys=False, allow_unicode=True, width=110))


def tables(netlist: Netlist, guide: Waveguide | None = None) -> Table:
    """The same as a dictionary, which `sax.circuit` takes as its netlist."""
    layout = lay_out(netlist, guide or Waveguide())
    exact = tomllib.loads(toml.write(netlist))
    names = _names(layout)
    instances = {**dict(_arcs(netlist, layout, names)), **dict(_crossings(layout, names))}
    elements = exact.pop("elements")
    for name, owner in _owners(netlist, layout, names).items():
        instances[owner].setdefault("info", {"elements": {}})["elements"][name] = elements[name]
    return {
        "name": _identifier(netlist.name),
        "instances": instances,
        "connections": dict(_connections(layout, names)),
        "ports": dict(_ports(layout, names)),
        "placements": {
            names[r.name, 0]: {"x": (r.x - layout.rings[n].radius) * MICRO, "y": r.y * MICRO}
            for n, r in layout.rings.items()
        },
        "info": {
            "comment": "settings are in um; what the settings of `info` say exactly, geometry must not contradict",
            "waveguide": {k: getattr(layout.guide, k) for k in layout.guide.__dataclass_fields__},
            "order": [e.name for e in netlist.elements],
            "design": exact,
        },
    }


def _yaml() -> Any:
    try:
        return import_module("yaml")
    except ImportError:
        raise ArgumentError(
            "Argument `format` must be one whose library is installed, but YAML needs PyYAML: pip install pyyaml"
        ) from None


# Writing ----------------------------------------------------------------------------------------------------------


def _names(layout: Layout) -> dict[Any, str]:
    """Identifiers of instances: by (ring, arc) and by coupler or bus."""
    wanted: dict[Any, str] = {}
    for ring in layout.rings.values():
        wanted |= {(ring.name, i): f"{ring.name}_arc{i}" for i in range(len(ring.arcs))}
    wanted |= {name: name for name in (*(c.name for c in layout.couplers), *(b.name for b in layout.buses))}
    taken: set[str] = set()
    for key, name in wanted.items():
        plain, count = _identifier(name), 1
        new = plain
        while new in taken:
            count += 1
            new = f"{plain}_{count}"
        taken.add(new)
        wanted[key] = new
    return wanted


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name)


def _arcs(netlist: Netlist, layout: Layout, names: Mapping[Any, str]) -> Iterator[tuple[str, Table]]:
    guide = layout.guide
    shifts = {e.node: e.shift for e in netlist.elements if isinstance(e, (Kerr, KerrRotation))}
    for node, ring in layout.rings.items():
        for i, (_, _, length) in enumerate(ring.arcs):
            settings = {
                "length": length * MICRO,
                "neff": guide.index,
                "ng": guide.group_index,
                "wl0": LIGHT / ring.carrier * MICRO,
                "loss_dB_cm": ring.loss,
                "radius": ring.radius * MICRO,
                "width": guide.width * MICRO,
                "detuning": ring.frequency - ring.carrier,
            }
            if node in shifts:
                settings["kerr_shift_per_photon"] = shifts[node]
            yield names[ring.name, i], {"component": "straight", "settings": settings}


def _crossings(layout: Layout, names: Mapping[Any, str]) -> Iterator[tuple[str, Table]]:
    for c in layout.couplers:
        settings = {"coupling": c.power, "gap": c.gap * MICRO, "rate": c.rate}
        yield names[c.name], {"component": "coupler_ideal", "settings": settings}
    for b in layout.buses:
        bus = {"coupling": b.power, "gap": b.gap * MICRO, "azimuth": math.degrees(b.azimuth), "assumed": b.assumed}
        yield names[b.name], {"component": "coupler_ideal", "settings": bus}


def _connections(layout: Layout, names: Mapping[Any, str]) -> Iterator[tuple[str, str]]:
    second = {(c.name, c.b) for c in layout.couplers} | {(b.name, b.node) for b in layout.buses}
    for node, ring in layout.rings.items():
        for i, (start, end, _) in enumerate(ring.arcs):
            ports = [int((stop.part, node) in second) for stop in (start, end)]
            yield f"{names[start.part]},out{ports[0]}", f"{names[ring.name, i]},in0"
            yield f"{names[ring.name, i]},out0", f"{names[end.part]},in{ports[1]}"


def _ports(layout: Layout, names: Mapping[Any, str]) -> Iterator[tuple[str, str]]:
    for b in layout.buses:
        for way in ("in", "out"):
            yield f"{_identifier(b.node)}_{way}", f"{names[b.name]},{way}0"


def _owners(netlist: Netlist, layout: Layout, names: Mapping[Any, str]) -> dict[str, str]:
    """Which instance stands for an element."""
    owners: dict[str, str] = {}
    for part in netlist.elements:
        if isinstance(part, EvanescentCoupler):
            owners[part.name] = names[part.name]
        elif isinstance(part, (Ring, Kerr, KerrRotation, PhaseShifter)):
            owners[part.name] = names[layout.rings[part.node].name, 0]
    return owners


# Reading ----------------------------------------------------------------------------------------------------------


def read(text: str, name: str = "design") -> Netlist:
    """Netlist of a file that `write` made, or `DesignError` where its geometry contradicts its exact settings.

    A file without those settings, made by hand or by another tool, is read by its geometry alone: `sax_trace`.
    """
    yaml = _yaml()
    try:
        data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        raise _refusal("file", f"is not YAML: {' '.join(str(problem).split())[:120]}", "correct that line") from None
    if not isinstance(data, dict) or not isinstance(data.get("instances"), dict):
        raise _refusal("file", "is no netlist: it has no `instances`", "give a file in the manner of sax")
    if not _named(data):
        raise _refusal(
            "file", "has a key that is no text, or is nested too deeply", "quote names that look like numbers"
        )
    info = data.get("info")
    if not isinstance(info, dict) or not isinstance(info.get("design"), dict):
        return trace(data, name)
    elements: Table = {}
    for where, instance in data["instances"].items():
        own = instance.get("info", {}) if isinstance(instance, dict) else None
        given = own.get("elements", {}) if isinstance(own, dict) else None
        if not isinstance(given, dict):
            raise _refusal(f"instances.{where}", "must be a table as `write` makes it", "restore it")
        elements |= given
    order = info.get("order")
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(elements):
        raise _refusal("info.order", "does not list the elements of the instances", "restore it")
    ordered = {str(n): elements[str(n)] for n in order}
    netlist = toml.of_tables({**info["design"], "elements": ordered}, name)
    if findings := list(_contradictions(data, tables(netlist, _guide(info.get("waveguide"))))):
        raise DesignError(findings)
    return netlist


def _named(data: Any, depth: int = 0) -> bool:
    """Whether all keys are text, down to a decent depth."""
    if isinstance(data, dict):
        return depth < DEEPEST and all(isinstance(k, str) and _named(v, depth + 1) for k, v in data.items())
    return not isinstance(data, list) or (depth < DEEPEST and all(_named(v, depth + 1) for v in data))


def _refusal(where: str, reason: str, remedy: str) -> DesignError:
    return DesignError([error(where, reason, remedy)])


def _guide(given: Any) -> Waveguide:
    try:
        return Waveguide(**given)
    except (TypeError, ArgumentError) as problem:
        raise _refusal("info.waveguide", f"is no waveguide: {problem}", "restore it") from None


def _contradictions(found: Table, due: Table) -> Iterator[Finding]:
    """Instances and connections that are not those of the exact settings. Places may be changed at will."""
    for section in ("instances", "connections", "ports"):
        given = found.get(section)
        if not isinstance(given, dict):
            yield error(section, "must be a table", "restore it")
            continue
        for key in dict.fromkeys((*due[section], *given)):
            if key not in given or key not in due[section]:
                reason = "is missing" if key not in given else "belongs to no element"
                yield error(f"{section}.{key}", reason, "change the tables under `info` instead, and export again")
            elif (where := _difference(given[key], due[section][key])) is not None:
                yield error(
                    f"{section}.{key}{where}",
                    "contradicts the exact settings under `info`",
                    "change those instead, and export again",
                )


def _difference(found: Any, due: Any) -> str | None:
    """Key path of the first difference, None where there is none."""
    if isinstance(due, dict):
        if not isinstance(found, dict) or set(found) != set(due):
            return ""
        paths = ((key, _difference(found[key], due[key])) for key in due if key != "info")
        return next((f".{key}{path}" for key, path in paths if path is not None), None)
    if isinstance(due, float) and isinstance(found, (int, float)) and not isinstance(found, bool):
        return None if math.isclose(found, due, rel_tol=SAME, abs_tol=0.0) else ""
    return None if found == due else ""
