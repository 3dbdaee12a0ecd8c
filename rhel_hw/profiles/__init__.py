"""Profiles that ship with the package: every TOML file in this folder, with where each number comes from.

A file has a `summary` and, for every setting, a table with a `value` and either a `source` in which somebody read the
number, or an `assumption`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devices import ArgumentError
from rhel_hw.profile import Profile

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Preset:
    """A profile with the origin of its numbers."""

    name: str
    summary: str
    profile: Profile
    sources: Mapping[str, str]
    assumptions: Mapping[str, str]


class _Presets(Mapping[str, Preset]):
    """Presets by the names of their files, which are read on first use."""

    def __getitem__(self, name: str) -> Preset:
        if name not in _names():
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


PROFILES: Mapping[str, Preset] = _Presets()


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


@cache
def _load(name: str) -> Preset:
    data = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
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
