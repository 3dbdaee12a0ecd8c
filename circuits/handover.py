"""A bundle for others: files in a folder that is there whole or not at all, and a manifest that says what they are."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from devices import ArgumentError

MANIFEST = "manifest.json"


@dataclass(frozen=True, eq=False)
class Bundle:
    """Files by their path in the folder, and what the manifest says beside their digests."""

    files: Mapping[str, bytes]
    about: Mapping[str, Any]

    def manifest(self) -> dict[str, Any]:
        """What is said of the files: SHA-256 and size of every one."""
        listed = {name: {"sha256": sha256(data).hexdigest(), "bytes": len(data)} for name, data in self.files.items()}
        return {**self.about, "files": dict(sorted(listed.items()))}

    def save(self, folder: str | Path, *, overwrite: bool = False) -> Path:
        """Write all of it; a folder that is there already is refused, or replaced if it is a bundle."""
        folder = Path(folder)
        refuse_taken(folder, overwrite=overwrite)
        folder.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".part", dir=folder.parent))
        try:
            for name, data in self.files.items():
                path = making / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            (making / MANIFEST).write_text(json.dumps(self.manifest(), indent=1) + "\n", encoding="utf-8")
            os.chmod(making, 0o755)
            if folder.exists():
                old = making.with_suffix(".old")
                os.replace(folder, old)
                os.replace(making, folder)
                shutil.rmtree(old)
            else:
                os.replace(making, folder)
        except BaseException:
            shutil.rmtree(making, ignore_errors=True)
            raise
        return folder


def refuse_taken(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot be written, or that something is in."""
    above = next((p for p in (folder, *folder.absolute().parents) if p.exists()), Path("/"))
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise ArgumentError(f"Argument `--out` must be a folder that can be written, but {above} cannot")
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not overwrite:
        raise ArgumentError(
            f"Argument `--out` must be a new folder, but {folder} has files: name another, or --overwrite"
        )
    if not (folder / MANIFEST).exists():
        raise ArgumentError(
            f"Argument `--out` must be a new folder or a bundle, but {folder} has other files: name another"
        )


def check(folder: str | Path) -> list[str]:
    """What of a bundle is missing or differs from its manifest."""
    folder = Path(folder)
    listed = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()} - {MANIFEST}
    wrong = [name for name in sorted(found | set(listed)) if name not in found or name not in listed]
    return wrong + [n for n in sorted(found & set(listed)) if _digest(folder / n) != listed[n]["sha256"]]


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()
