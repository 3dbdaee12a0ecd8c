"""Links of all pages, generated ones too, lead somewhere: to files of the repository and to headings that are there."""

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest

from docs.generate import citation, commands, elements, settings
from tests.documentation.blocks import PAGES, ROOT

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
GENERATED = {
    "docs/reference/elements.md": elements.page,
    "docs/reference/profiles.md": settings.page,
    "docs/reference/commands.md": commands.page,
    "docs/citation.md": citation.page,
}
BUILT = ("docs/changelog.md", "docs/decisions/index.md", "docs/notebooks/")
"""What only the built site has."""


@cache
def text(path: Path) -> str:
    name = str(path.relative_to(ROOT))
    return GENERATED[name]() if name in GENERATED else path.read_text(encoding="utf-8")


@cache
def anchors(path: Path) -> set[str]:
    """Of the headings, as the site makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", CODE.sub(lambda m: m[0].strip("`"), text(path)), re.MULTILINE):
        plain = unicodedata.normalize("NFKC", heading).strip().lower()
        found.add(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip()))
    return found


@pytest.mark.parametrize("page", [*PAGES, *(ROOT / name for name in GENERATED)], ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for link in LINK.findall(CODE.sub("", text(page))):
        assert not link.startswith(("http:", "https:")), f"{link}: the documentation stands alone"
        target, _, anchor = link.partition("#")
        path = (page.parent / target).resolve() if target else page
        name = str(path.relative_to(ROOT))
        if name.startswith(BUILT):
            continue
        assert path.exists() or name in GENERATED, f"{link} leads nowhere"
        assert not anchor or anchor in anchors(path), f"{link}: {sorted(anchors(path))}"


def test_every_page_is_in_the_menu():
    """The menu names every page, so that none is lost."""
    menu = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    pages = {str(p.relative_to(ROOT / "docs")) for p in PAGES if p.is_relative_to(ROOT / "docs")}
    pages = {p for p in pages if not p.startswith("decisions/")}  # these are listed when it is built
    assert pages <= menu
    for name in menu - pages:
        built = f"docs/{name}"
        assert built in GENERATED or built.startswith(BUILT)
