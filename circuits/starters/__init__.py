"""Designs to begin with: every file in this folder, by family; `NAME` in it stands for the name of the design."""

from pathlib import Path

STARTERS = {path.stem: path for path in sorted(Path(__file__).parent.glob("*.toml"))}
