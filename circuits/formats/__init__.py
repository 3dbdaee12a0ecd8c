"""File formats, readers and writers side by side, and the one place that opens a design by path or name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from circuits.findings import DesignError, error
from circuits.netlist import Netlist
from devices import nearest

LARGEST_FILE = 8 * 1024 * 1024
"""Bytes; a grid of ten thousand nodes takes four million."""


def load(source: str | Path) -> Netlist:
    """Netlist of a design file (.toml), a SPICE netlist (.cir, .sp), sax YAML (.yml, .yaml), or a built-in design."""
    from circuits.formats import sax_yaml, spice, toml
    from circuits.gallery import GALLERY

    if str(source) in GALLERY:
        return toml.read(GALLERY[str(source)].read_text(encoding="utf-8"))
    readers: dict[str, Callable[[str, str], Netlist]] = {
        ".toml": toml.read, ".cir": spice.read, ".sp": spice.read, ".yml": sax_yaml.read, ".yaml": sax_yaml.read,
    }  # fmt: skip
    path = Path(source)
    if path.suffix.lower() not in readers:
        reason = f"`{source}` is neither a design file nor a built-in design{nearest(str(source), GALLERY)}"
        raise DesignError([error("design", reason, "give a .toml, .cir, .sp or .yml file, or a built-in name")])
    return readers[path.suffix.lower()](_text(path), path.stem)


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise DesignError([error(str(path), "is not a file", "give a design file")])
        if path.stat().st_size > LARGEST_FILE:
            limit = LARGEST_FILE // 2**20
            raise DesignError(
                [error(path.name, f"is larger than {limit} MiB", "split the design, or generate it in Python")]
            )
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DesignError([error(str(path), "does not exist", "check the path")]) from None
    except UnicodeDecodeError:
        raise DesignError([error(path.name, "is not text", "give a design file, not a binary one")]) from None
    except OSError as problem:
        raise DesignError([error(str(path), f"cannot be read: {problem.strerror}", "check the file")]) from None
