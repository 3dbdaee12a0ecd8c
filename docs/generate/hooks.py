"""What MkDocs calls when it builds the site: pages are written from the code, and fences lose what only tests read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from docs.generate import citation, commands, elements, notebooks, settings

ROOT = Path(__file__).parents[2]
PAGES = {
    "reference/elements.md": elements.page,
    "reference/profiles.md": settings.page,
    "reference/commands.md": commands.page,
    "citation.md": citation.page,
}
ONLY_TESTS = re.compile(r'^(```.*?) (?:skip|code)="[^"]*"$', re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every decision record has its place in the menu."""
    (background,) = (item["Background"] for item in config.nav or () if "Background" in item)
    (entry,) = (item["Decisions"] for item in background if "Decisions" in item)
    entry += [f"decisions/{path.name}" for path in _decisions()]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages that are written from the code."""
    pages = {name: write() for name, write in PAGES.items()}
    pages["changelog.md"] = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    pages["decisions/index.md"] = decisions()
    for path in sorted((ROOT / "docs/notebooks").glob("*.ipynb")):
        text, figures = notebooks.page(path)
        pages[f"notebooks/{path.stem}.md"] = text
        for name, data in figures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=data))
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page as readers see it."""
    return ONLY_TESTS.sub(r"\1", markdown)


def decisions() -> str:
    """A list of the decision records by their titles."""
    rows = [f"{i}. [{_title(path)}]({path.name})" for i, path in enumerate(_decisions(), 1)]
    return "# Decisions\n\nShort records of why things are as they are.\n\n" + "\n".join(rows) + "\n"


def _decisions() -> list[Path]:
    return sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))


def _title(path: Path) -> str:
    return path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ").split(". ", 1)[-1]
