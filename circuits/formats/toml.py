"""Design files: netlists as TOML, read and written side by side."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from circuits.findings import DesignError, Finding, error
from circuits.netlist import ALL, SETTINGS, Clock, Initial, Netlist, Probes, Target
from devices import (
    DETECTORS,
    DRIVES,
    ELEMENTS,
    GROUND,
    WAVEFORMS,
    Detector,
    Drive,
    Element,
    ElementError,
    Part,
    Waveform,
    nearest,
    to_text,
)
from devices.catalogue import CATALOGUE

Table = Mapping[str, Any]
P = TypeVar("P", bound=Part)

SECTIONS = {
    "design": ("name", "ground"),
    "elements": None,
    "drives": None,
    "detectors": None,
    "probes": ("positions", "momenta"),
    "targets": None,
    "initial": ("positions", "momenta", "velocities"),
    "time": ("step", "steps"),
    "profile": None,
    "learning": None,
    "task": None,
    "training": None,
    "sweep": None,
}
"""Sections of a design file and their keys; None where they are names that the user gives, or are read elsewhere."""

DEEPEST = 16
"""Deepest nesting that a design file may have."""


# Reading ---------------------------------------------------------------------------------------------------------


def read(text: str, name: str = "design") -> Netlist:
    """Netlist of a design file's text. Every fault found is in the `DesignError`."""
    return of_tables(_parse(text), name)


def of_tables(data: Table, name: str = "design") -> Netlist:
    """Netlist of a design file's tables."""
    findings: list[Finding] = list(_unknown_sections(data))
    design = data.get("design", {}) if isinstance(data.get("design", {}), dict) else {}
    elements = _parts(data.get("elements", {}), "elements", ELEMENTS, _element, findings)
    drives = _parts(data.get("drives", {}), "drives", DRIVES, _drive, findings)
    detectors = _parts(data.get("detectors", {}), "detectors", DETECTORS, _detector, findings)
    targets = _parts(data.get("targets", {}), "targets", None, _target, findings)
    if findings:
        raise DesignError(findings)
    time = dict(data.get("time", {}))
    if time.get("step") == "auto":
        del time["step"]
    initial = data.get("initial", {})
    for key, table in initial.items():
        if not isinstance(table, dict):
            raise DesignError([error(f"initial.{key}", "must be a table by node", 'write n1 = "1 fWb" under it')])
    return Netlist(
        design.get("name", name),
        tuple(elements),
        drives=tuple(drives),
        detectors=tuple(detectors),
        probes=Probes(**data.get("probes", {})),
        targets=tuple(targets),
        ground=design.get("ground", "gnd"),
        initial=Initial(**initial),
        clock=Clock(**time),
        settings={k: data[k] for k in SETTINGS if k in data},
    )


def _parse(text: str) -> dict[str, Any]:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise DesignError([error("file", f"is not TOML: {problem}", "correct that line")]) from None
    except (RecursionError, ValueError) as problem:
        reason = (
            "is nested too deeply" if isinstance(problem, RecursionError) else f"cannot be read: {str(problem)[:80]}"
        )
        raise DesignError([error("file", reason, "write it as the documentation shows")]) from None
    if _depth(data) > DEEPEST:
        raise DesignError([error("file", "is nested too deeply", "write it as the documentation shows")])
    return data


def _depth(data: object) -> int:
    """Depth of nesting, without recursion; stops counting where it is too deep anyway."""
    level, depth = [data], 0
    while level and depth <= DEEPEST:
        level = [
            v
            for item in level
            if isinstance(item, (dict, list))
            for v in (item.values() if isinstance(item, dict) else item)
        ]
        depth += 1
    return depth


def _unknown_sections(data: Table) -> Iterator[Finding]:
    for section, table in data.items():
        if section not in SECTIONS:
            yield error(section, f"is no section of a design file{nearest(section, SECTIONS)}", "remove or rename it")
            continue
        if not isinstance(table, dict):
            yield error(section, "must be a table", f"write it as [{section}]")
            continue
        keys = SECTIONS[section]
        for key in table if keys is not None else ():
            if key not in (keys or ()):
                yield error(
                    f"{section}.{key}", f"is no key of [{section}]{nearest(key, keys or ())}", "remove or rename it"
                )
    if "elements" not in data:
        yield error("elements", "the file has no elements", 'add one, such as [elements.C1] type = "capacitor"')


def _parts(
    tables: Any, section: str, kinds: Mapping[str, Any] | None, build: Callable[..., Any], findings: list[Finding]
) -> list[Any]:
    made: list[Any] = []
    if not isinstance(tables, dict):
        return made
    for name, table in tables.items():
        where = f"{section}.{name}"
        if not isinstance(table, dict):
            findings.append(error(where, "must be a table", f"write it as [{where}]"))
            continue
        if section == "elements" and "preset" in table:
            table = _preset(where, table, findings)
            if table is None:
                continue
        if kinds is not None:
            kind = table.get("type")
            if not isinstance(kind, str) or kind not in kinds:
                reason = "has no type" if kind is None else f"`{kind}` is no type of {section[:-1]}"
                findings.append(error(where, reason + nearest(str(kind), kinds), "see `rhel-hw elements`"))
                continue
            given = {k: v for k, v in table.items() if k != "type"}
            made += _attempt(where, findings, build, kinds[kind], name, given)
        else:
            made += _attempt(where, findings, build, name, table)
    return made


def _preset(where: str, given: Table, findings: list[Finding]) -> Table | None:
    """Table with what a preset gives and the table itself does not, or None where they do not fit."""
    name = given["preset"]
    if name not in CATALOGUE:
        reason = f"`{name}` is no preset{nearest(str(name), CATALOGUE)}"
        findings.append(error(f"{where}.preset", reason, "see `rhel-hw presets`"))
        return None
    entry = CATALOGUE[name]
    kind = given.get("type", entry.type)
    if kind != entry.type:
        reason = f"`{kind}` contradicts preset `{name}`, which is of type `{entry.type}`"
        remedy = f"remove `type`, or see `rhel-hw presets` for one of type `{kind}`"
        findings.append(error(f"{where}.type", reason, remedy))
        return None
    return {**entry.values, **{k: v for k, v in given.items() if k != "preset"}, "type": entry.type}


def _attempt(where: str, findings: list[Finding], build: Callable[..., Any], *arguments: Any) -> list[Any]:
    try:
        return [build(where, *arguments)]
    except DesignError as problem:
        findings += problem.legality.findings
    except ElementError as problem:
        findings.append(error(f"{where}.{problem.key}", problem.message, problem.remedy))
    return []


def _element(where: str, kind: type[Element], name: str, given: dict[str, Any]) -> Element:
    settings = ("trainable", "bounds", "tolerance")
    single = len(kind.terminals) == 1
    keys = [
        *(["node"] if single else ["nodes"] if kind.terminals else []),
        *kind.references,
        *kind.parameters,
        *settings,
    ]
    _known(where, given, keys)
    ends: list[Any] = []
    if kind.terminals:
        ends = [given.pop("node", None)] if single else given.pop("nodes", None)
        if not isinstance(ends, list) or len(ends) != len(kind.terminals) or None in ends:
            wanted = "`node`" if single else f"`nodes`, a list of {len(kind.terminals)}"
            raise DesignError(
                [error(f"{where}.{'node' if single else 'nodes'}", f"type `{kind.type}` needs {wanted}", "name them")]
            )
    _required(where, kind, given)
    return kind(name, *ends, **given)


def _drive(where: str, kind: type[Drive], name: str, given: dict[str, Any]) -> Drive:
    _known(where, given, [*kind.terminals, *kind.references, *kind.parameters, "waveform"])
    _required(where, kind, given, [t for t in kind.terminals if t not in kind.optional_terminals])
    if "waveform" in given:
        given["waveform"] = _waveform(f"{where}.waveform", given["waveform"])
    return kind(name, **given)


def _detector(where: str, kind: type[Detector], name: str, given: dict[str, Any]) -> Detector:
    _known(where, given, [*kind.terminals, *kind.parameters])
    _required(where, kind, given, list(kind.terminals))
    return kind(name, **given)


def _waveform(where: str, given: Any) -> Waveform:
    if not isinstance(given, dict):
        raise DesignError([error(where, "must be a table", 'write { type = "sine", … }')])
    if not isinstance(given.get("type"), str) or given["type"] not in WAVEFORMS:
        kind = given.get("type")
        raise DesignError(
            [error(where, f"`{kind}` is no waveform{nearest(str(kind), WAVEFORMS)}", "give a table with a type")]
        )
    kind = WAVEFORMS[given["type"]]
    rest = {k: v for k, v in given.items() if k != "type"}
    _known(where, rest, list(kind.units))
    try:
        return kind(**rest)
    except TypeError:
        raise DesignError(
            [error(where, f"a {kind.type} waveform needs {', '.join(kind.units)}", "give what is missing")]
        ) from None


def _target(where: str, name: str, given: Table) -> Target:
    _known(where, given, ["node"])
    if not isinstance(given.get("node"), str):
        raise DesignError([error(f"{where}.node", "must name a node", "name the node to compare")])
    return Target(name, given["node"])


def _known(where: str, given: Table, keys: list[str]) -> None:
    wrong = [k for k in given if k not in keys]
    if wrong:
        raise DesignError(
            [error(f"{where}.{k}", f"is no key here{nearest(k, keys)}", "remove or rename it") for k in wrong]
        )


def _required(where: str, kind: type[Part], given: Table, also: list[str] | None = None) -> None:
    needed = [*(also or []), *kind.references, *(k for k, info in kind.parameters.items() if info.default is None)]
    missing = [k for k in needed if k not in given]
    if missing:
        raise DesignError([error(f"{where}.{k}", f"type `{kind.type}` needs `{k}`", "give it") for k in missing])


# Writing ---------------------------------------------------------------------------------------------------------


def write(netlist: Netlist) -> str:
    """Design file that `read` turns into an equal netlist."""
    blocks = [_block("design", {"name": netlist.name, "ground": netlist.ground})]
    blocks += [_block(f"elements.{_key(e.name)}", _element_table(e)) for e in netlist.elements]
    blocks += [_block(f"drives.{_key(d.name)}", _drive_table(d)) for d in netlist.drives]
    blocks += [_block(f"detectors.{_key(d.name)}", _detector_table(d)) for d in netlist.detectors]
    probes = {k: v for k in ("positions", "momenta") if (v := getattr(netlist.probes, k)) != ALL}
    if probes:
        blocks.append(_block("probes", probes))
    blocks += [_block(f"targets.{_key(t.name)}", {"node": t.node}) for t in netlist.targets]
    for key, unit in (("positions", "position_unit"), ("momenta", "momentum_unit"), ("velocities", "velocity_unit")):
        values = getattr(netlist.initial, key)
        if values:
            table = {n: to_text(v, getattr(netlist.domains[n], unit)) for n, v in values.items()}
            blocks.append(_block(f"initial.{key}", table))
    step = netlist.clock.step
    time = {"step": "auto" if step is None else to_text(step, "s"), "steps": netlist.clock.steps}
    blocks.append(_block("time", time))
    blocks += [_block(section, table) for section, table in netlist.settings.items()]
    return "\n".join(blocks)


def _element_table(part: Element) -> dict[str, Any]:
    table: dict[str, Any] = {"type": part.type}
    if part.terminals:
        table |= {"node": part.nodes[0]} if len(part.terminals) == 1 else {"nodes": part.nodes}
    table |= _values(part)
    units = {k: info.unit or "" for k, info in part.parameters.items()}
    if part.trainable:
        table["trainable"] = part.trainable
    if part.bounds:
        table["bounds"] = {k: tuple(_text(v, units[k]) for v in pair) for k, pair in part.bounds.items()}
    if part.tolerance:
        table["tolerance"] = part.tolerance
    return table


def _drive_table(part: Drive) -> dict[str, Any]:
    table: dict[str, Any] = {"type": part.type}
    table |= {k: getattr(part, k) for k in part.terminals if getattr(part, k) != GROUND}
    table |= _values(part)
    if part.waveform is not None:
        wave: dict[str, Any] = {"type": part.waveform.type}
        for key, unit in part.waveform.units.items():
            unit = part.unit if unit == "VALUE" else unit
            value = getattr(part.waveform, key)
            wave[key] = tuple(_text(v, unit) for v in value) if key in part.waveform.lists else _text(value, unit)
        table["waveform"] = wave
    return table


def _detector_table(part: Detector) -> dict[str, Any]:
    return {"type": part.type, **{k: getattr(part, k) for k in part.terminals}, **_values(part)}


def _values(part: Part) -> dict[str, Any]:
    table: dict[str, Any] = {key: getattr(part, key) for key in part.references}
    for key, info in part.parameters.items():
        value = getattr(part, key)
        if value != info.default:
            table[key] = _text(value, info.unit or "")
    return table


def _text(value: float, unit: str) -> str | float:
    return to_text(value, unit) if unit else value


def _block(header: str, table: Table) -> str:
    return "\n".join([f"[{header}]", *(f"{_key(k)} = {_toml(v)}" for k, v in table.items()), ""])


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, (tuple, list)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)
