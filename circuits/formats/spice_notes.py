"""What SPICE cannot say: comment lines that begin with ``*rhel`` and together form one TOML text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

from circuits.findings import Finding, error
from circuits.formats.spice_values import SpiceError
from devices import nearest

_SECTIONS: Mapping[str, Any] = {
    "design": {"name": str, "ground": str},
    "nodes": str,
    "elements": {"name": str, "trainable": object, "bounds": object, "tolerance": object},
    "drives": {"name": str, "node": str, "back": str},
    "probes": {"positions": object, "momenta": object},
    "targets": {"node": str},
    "initial": {"positions": dict, "momenta": dict},
    "time": {"step": (float, int), "steps": int},
    "profile": object,
    "learning": object,
    "task": object,
    "training": object,
    "sweep": object,
}
_TABLES = ("elements", "drives", "targets")
"""Sections that hold a table for each name."""


def read_notes(lines: list[tuple[int, str]]) -> tuple[dict[str, Any], list[Finding]]:
    """Sections of numbered lines, every section there and checked, and what is wrong with them."""
    found: dict[str, Any] = {section: {} for section in _SECTIONS}
    problems = []
    try:
        given = tomllib.loads("\n".join(text for _, text in lines))
    except (ValueError, RecursionError) as problem:
        at = re.search(r"at line (\d+)", str(problem))
        line = lines[min(int(at[1]), len(lines)) - 1 if at else 0][0]
        return found, [error(f"line {line} (*rhel)", f"is not TOML: {str(problem)[:80]}", "correct it")]
    for section, content in given.items():
        try:
            _check_section(section, content)
            found[section] = content
        except SpiceError as problem:
            problems.append(error(f"*rhel {section[:64]}", problem.reason, problem.remedy))
    return found, problems


def _check_section(section: str, content: Any) -> None:
    """Refuse a section of the ``*rhel`` lines that is unknown, or holds unknown keys or values of the wrong kind."""
    if section not in _SECTIONS:
        raise SpiceError(f"is no section{nearest(section[:64], _SECTIONS)}", "remove it")
    form = _SECTIONS[section]
    for table in content.values() if section in _TABLES and isinstance(content, dict) else (content,):
        if not isinstance(table, dict):
            raise SpiceError("must be a table", "write [section] and key = value")
        for key, value in table.items():
            kind = form if isinstance(form, type) else form.get(key)
            if kind is None:
                raise SpiceError(f"has no key `{key[:64]}`{nearest(key[:64], form)}", "remove it")
            if not isinstance(value, kind):
                raise SpiceError(f"`{key[:64]}` must not be a {type(value).__name__}", "correct it")
            if section == "probes" and value != "all" and not (
                isinstance(value, list) and all(isinstance(node, str) for node in value)
            ):  # fmt: skip
                raise SpiceError(f"`{key}` must be a list of nodes", 'list node names, or write "all"')
        if section == "targets" and "node" not in table:
            raise SpiceError("a target must have a node", 'write node = "name"')


def note_lines(header: str, content: Mapping[str, Any]) -> list[str]:
    """Write a TOML table in comment lines, or nothing where it is empty."""
    lines = [f"*rhel {note_key(key)} = {_toml(value)}" for key, value in content.items()]
    return [f"*rhel [{header}]", *lines] if lines else []


def note_key(name: str) -> str:
    """Quote a name for TOML where it needs it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name, re.ASCII) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return (
            '"'
            + "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value)
            + '"'
        )
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{note_key(key)} = {_toml(v)}" for key, v in value.items()) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "[" + ", ".join(map(_toml, value)) + "]" if isinstance(value, Iterable) else repr(value)
