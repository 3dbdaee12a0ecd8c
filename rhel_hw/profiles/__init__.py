"""Profiles that ship with the package: every TOML file in this folder, with where each number comes from.

A file has a `summary` and, for every setting, a table with a `value` and either a `source` in which somebody read the
number, or an `assumption`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devices import ArgumentError
from devices.lazy import Folder
from rhel_hw.profile import Profile


@dataclass(frozen=True)
class Preset:
    """A profile with the origin of its numbers."""

    name: str
    summary: str
    profile: Profile
    sources: Mapping[str, str]
    assumptions: Mapping[str, str]


def read(name: str, text: str) -> Preset:
    """Preset of a file's text."""
    data = tomllib.loads(text)
    summary = data.pop("summary")
    tables: dict[str, dict[str, object]] = {}
    origins: dict[str, dict[str, str]] = {"source": {}, "assumption": {}}
    for section, settings in data.items():
        for key, entry in settings.items():
            (kind,) = (word for word in entry if word != "value")
            if kind not in origins:
                raise ArgumentError(f"Preset {name!r} must say where `{section}.{key}` comes from, but says {kind!r}")
            tables.setdefault(section, {})[key] = entry["value"]
            origins[kind][f"{section}.{key}"] = entry[kind]
    return Preset(name, summary, Profile.of(tables), origins["source"], origins["assumption"])


PROFILES: Mapping[str, Preset] = Folder(Path(__file__).parent, read)
