"""What a shell completes: names and files, found without loading what computes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

DESIGN_FILES = (".toml", ".cir", ".sp")
FORMATS = (
    "all", "bom", "datasheet", "gds", "josim", "kicad", "mumax3", "sax", "schematic", "spice", "touchstone", "vectors",
    "verilog-a", "wrspice",
)  # fmt: skip
"""What `export` writes; `studies.export` has the writers, which compute."""


def designs(incomplete: str) -> list[str]:
    """Built-in designs, design files and folders on the way to them."""
    from circuits.gallery import GALLERY

    return [*_begun(incomplete, GALLERY), *_files(incomplete, DESIGN_FILES)]


def gallery(incomplete: str) -> list[str]:
    """Built-in designs."""
    from circuits.gallery import GALLERY

    return _begun(incomplete, GALLERY)


def families(incomplete: str) -> list[str]:
    """Families of designs to begin with."""
    from circuits.starters import STARTERS

    return _begun(incomplete, STARTERS)


def profiles(incomplete: str) -> list[str]:
    """Profiles by name, and files of profiles."""
    from rhel_hw.profiles import PROFILES

    return [*_begun(incomplete, PROFILES), *_files(incomplete, (".toml", ".json"))]


def elements(incomplete: str) -> list[str]:
    """Types of elements, drives and detectors."""
    from devices import DETECTORS, DRIVES, ELEMENTS

    return _begun(incomplete, [*ELEMENTS, *DRIVES, *DETECTORS])


def presets(incomplete: str) -> list[str]:
    """Devices whose numbers are known."""
    from devices.catalogue import CATALOGUE

    return _begun(incomplete, CATALOGUE)


def settings(incomplete: str) -> list[str]:
    """Settings of a profile, to be followed by a value."""
    from rhel_hw.profile import settings as known

    return _begun(incomplete, [f"{s.path}=" for s in known()])


def studies(incomplete: str) -> list[str]:
    """Results that can be reproduced."""
    from rhel_hw.cli.studies import STUDIES

    return _begun(incomplete, STUDIES)


def benchmarks(incomplete: str) -> list[str]:
    """Benchmarks."""
    from rhel_hw.cli.benchmarks import BENCHMARKS

    return _begun(incomplete, BENCHMARKS)


def formats(incomplete: str) -> list[str]:
    """Formats of a bundle."""
    return _begun(incomplete, FORMATS)


def _begun(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _files(incomplete: str, endings: tuple[str, ...]) -> list[str]:
    head, slash, tail = incomplete.rpartition("/")
    try:
        found = sorted(Path(f"{head}{slash}" or ".").iterdir())
    except OSError:
        return []
    kept = [p for p in found if p.name.startswith(tail) and (not p.name.startswith(".") or tail.startswith("."))]
    return [f"{head}{slash}{p.name}{'/' * p.is_dir()}" for p in kept if p.is_dir() or p.suffix in endings]
