"""How to cite, from CITATION.cff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

SOURCE = Path(__file__).parents[2] / "CITATION.cff"


def page() -> str:
    """The page."""
    data: dict[str, Any] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    own = {"title": data["title"], "author": data["authors"][0]["name"], "version": data["version"]}
    parts = [f"# Citation\n\n{data['message']} The file `CITATION.cff` says the same to machines."]
    parts.append(_entry("misc", "rhel_hw", own))
    for paper in data["references"]:
        names = " and ".join(f"{a['family-names']}, {a['given-names']}" for a in paper["authors"])
        fields = {"title": paper["title"], "author": names, "year": paper["year"], "note": paper["notes"]}
        key = f"{paper['authors'][0]['family-names']}{paper['year']}".lower()
        parts.append(_entry("article" if paper.get("journal") else "misc", key, fields))
    return "\n\n".join(parts) + "\n"


def _entry(kind: str, key: str, fields: dict[str, Any]) -> str:
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
    return f"```bibtex\n@{kind}{{{key},\n{lines}\n}}\n```"
