"""Built-in designs: every design file in this folder, by name."""

from pathlib import Path

GALLERY = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.toml"))}
