"""Code blocks of a page, and how each kind is run.

Python goes on in one namespace and one folder per page. Lines of `sh` are commands of `rhel-hw`, or of tools that are
skipped where they are not installed; `text` after them is what they print, but for numbers. TOML with a title is a file
of that name, and a design; without one it is sections that belong to the design before it. A fence may say
`skip="why"`, or `code="3"`, with which the command shall end.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from circuits.formats import toml
from devices import ELEMENTS
from rhel_hw import settings
from studies.sweeps import Sweep

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ELSEWHERE = ("instrument.md",)
"""Pages whose blocks have tests of their own: tests/instrument says them to a server."""
FENCE = re.compile(r"^```(?P<kind>\w*)(?P<attributes>[^\n]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
ATTRIBUTE = re.compile(r' (\w+)="([^"]*)"')
RUN = ("python", "sh", "toml")
SHOWN = ("", "text", "bibtex", "verilog")
"""Kinds that are there to be read."""


@dataclass(frozen=True)
class Block:
    """A fenced block, its attributes and its line."""

    kind: str
    text: str
    line: int
    title: str = ""
    skip: str = ""
    code: str = "0"


def blocks(page: Path) -> list[Block]:
    """All blocks of a page, in their order."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in FENCE.finditer(text):
        given = dict(ATTRIBUTE.findall(match["attributes"]))
        assert not ATTRIBUTE.sub("", match["attributes"]).strip(), f"{page.name}: {match['attributes']}"
        found.append(Block(match["kind"], match["text"], text.count("\n", 0, match.start()) + 1, **given))
        assert found[-1].kind in (*RUN, *SHOWN), f"{page.name}:{found[-1].line} has no kind that is known"
    return found


@dataclass
class Page:
    """A page that is being run, in a folder that is the current one."""

    path: Path
    call: Callable[..., str]
    """The command line."""
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    design: str = ""
    printed: str = ""
    """By the commands of the last block."""

    def run(self) -> dict[str, Any]:
        """Run all blocks; gives the names that its programs left."""
        known = dict(ELEMENTS)
        try:
            for block in blocks(self.path):
                if block.kind in (*RUN, "text") and not block.skip:
                    getattr(self, f"_{block.kind}")(block)
        finally:
            ELEMENTS.clear()
            ELEMENTS.update(known)  # without what a page has registered
        return self.names

    def _python(self, block: Block) -> None:
        source = "\n" * block.line + block.text  # so that a traceback has the line of the page
        exec(compile(source, self.path, "exec", dont_inherit=True), self.names)

    def _toml(self, block: Block) -> None:
        if block.title:
            Path(block.title).write_text(block.text, encoding="utf-8")
            self.design = block.text
            toml.read(block.text).compile()
            return
        given = toml.read(self.design + block.text)
        for section in (settings.task, settings.learning, settings.training, settings.profile):
            section(given)
        if "sweep" in given.settings:
            Sweep.of(given.settings["sweep"])

    def _text(self, block: Block) -> None:
        """What is shown was printed, without what was left out before and after it."""
        assert _words(block.text) in _words(self.printed), f"{self.path.name}:{block.line} is not what is printed"

    def _sh(self, block: Block) -> None:
        self.printed = ""
        for line in block.text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if not words:
                continue
            if words[0] == "rhel-hw":
                self.printed += self.call(*words[1:], code=int(block.code))
                continue
            if shutil.which(words[0]) is None:
                pytest.skip(f"{words[0]} is not installed")
            subprocess.run(line, shell=True, check=True, capture_output=True, timeout=120)


def _words(text: str) -> str:
    """Without numbers, which differ in their last digits, and without the breaks of lines."""
    return " ".join(re.sub(r"[\d.,]+(e[+-]?\d+)?", "#", text).split())
