"""Device presets: every TOML file in this folder, by name, with where each number comes from.

A preset has a `summary`, an element `type` and a table for each parameter, which holds a `value` and either a `source`
in which somebody read the number, or an `assumption`. Files are read when they are first asked for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from devices.element import ELEMENTS, Element, ElementError, nearest
from devices.errors import ArgumentError
from devices.lazy import Folder
from devices.units import Quantity, UnitError

FOLDER = Path(__file__).parent
SETTINGS = ("trainable", "bounds", "tolerance")
"""What a part made from a preset may be told beside its parameters."""


@dataclass(frozen=True)
class Entry:
    """A preset: values by parameter as the file has them, and for each either its source or its assumption."""

    name: str
    summary: str
    type: str
    values: Mapping[str, Quantity]
    sources: Mapping[str, str]
    assumptions: Mapping[str, str]

    def part(self, part_name: str, *nodes: str, **changes: Any) -> Element:
        """An element of this preset between nodes; `changes` replace parameters, or make them trainable."""
        kind = ELEMENTS[self.type]
        fewest, most = len(kind.terminals) - len(kind.optional_terminals), len(kind.terminals)
        if not fewest <= len(nodes) <= most:
            due = f"{most}" if fewest == most else f"{fewest} to {most}"
            raise ArgumentError(
                f"Argument `nodes` must name {due} for preset {self.name!r}, a {self.type}, but there are {len(nodes)}"
            )
        known = [*kind.references, *kind.parameters, *SETTINGS]
        for key in changes:
            if key not in known:
                raise ArgumentError(
                    f"Argument `{key}` must be a parameter of preset {self.name!r}, a {self.type}, but is none"
                    + nearest(key, known)
                )
        return kind(part_name, *nodes, **{**self.values, **changes})


def read(name: str, text: str) -> Entry:
    """Preset of a file's text. Every parameter must be one of its type, and say where its value comes from."""
    label = f"preset {name!r}"
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise ElementError(label, "text", f"must be TOML, but is not: {problem}") from None
    summary, type_name = (_text(label, key, data.pop(key, None)) for key in ("summary", "type"))
    if type_name not in ELEMENTS:
        raise ElementError(
            label, "type", f"must be an element type, but is {type_name!r}{nearest(type_name, ELEMENTS)}"
        )
    known = ELEMENTS[type_name].parameters
    values: dict[str, Quantity] = {}
    origins: dict[str, dict[str, str]] = {"source": {}, "assumption": {}}
    for key, table in data.items():
        if key not in known:
            raise ElementError(label, key, f"must be a parameter of {type_name}, but is none{nearest(key, known)}")
        if not isinstance(table, dict) or "value" not in table:
            raise ElementError(label, key, "must be a table with a value, but is none")
        given = [word for word in table if word in origins]
        if len(given) != 1 or len(table) != 2:
            raise ElementError(
                label,
                key,
                f"must have a value and either a source or an assumption, but has {', '.join(table)}",
                "name the document in which the value was read, or say that it is assumed",
            )
        values[key] = _value(label, type_name, key, table["value"])
        origins[given[0]][key] = _text(label, f"{key}.{given[0]}", table[given[0]])
    for key, info in known.items():
        if info.default is None and key not in values:
            raise ElementError(label, key, f"must be given, because {type_name} has no default for it, but is missing")
    proxies = (MappingProxyType(table) for table in (values, origins["source"], origins["assumption"]))
    return Entry(name, summary, type_name, *proxies)


def _text(label: str, key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ElementError(label, key, f"must be a text, but is {value!r}")
    return value


def _value(label: str, type_name: str, key: str, value: Quantity) -> Quantity:
    info = ELEMENTS[type_name].parameters[key]
    try:
        info.read(value)
    except UnitError as problem:
        text = str(problem)
        raise ElementError(
            label, key, text if text.startswith("must") else f"cannot be read: {text}", f"give {info.due_text()}"
        ) from None
    return value


CATALOGUE: Mapping[str, Entry] = Folder(FOLDER, read)
