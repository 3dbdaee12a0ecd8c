"""What the site writes from the code, and that it builds without a warning and loads nothing from elsewhere."""

import os
import re
import subprocess
import sys

import pytest

from devices import DETECTORS, DRIVES, ELEMENTS
from docs.generate import citation, commands, elements, settings
from docs.generate.formulas import html
from rhel_hw import profile
from rhel_hw.cli import app
from tests.documentation.blocks import ROOT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q²/2C", "<i>q</i>²/2<i>C</i>"),
        ("E_J(1 − cos 2πφ/Φ₀)", "<i>E</i><sub>J</sub>(1 − cos 2<i>π</i><i>φ</i>/<i>Φ</i>₀)"),
        ("2VK_eff + e^{iφ}", "2<i>V</i><i>K</i><sub>eff</sub> + <i>e</i><sup><i>i</i><i>φ</i></sup>"),
        ("a < b of either sign", "<i>a</i> &lt; <i>b</i> of either sign"),
    ],
)
def test_formulas_are_set(text, expected):
    assert html(text) == expected


def test_every_element_has_its_entry():
    page = elements.page()
    for name in ELEMENTS:
        assert f"\n### {name}\n" in page
    for kind, parts in {"drive": DRIVES, "detector": DETECTORS}.items():
        assert all(f"\n### {name} {kind}\n" in page for name in parts)
    for cls in ELEMENTS.values():
        assert all(f"`{parameter}`" in page for parameter in cls.parameters)
    assert "| J/m³ |" in page


def test_every_setting_is_told():
    page = settings.page()
    assert all(f"| `{s.path}` |" in page for s in profile.settings())


def test_every_command_is_told_with_its_options():
    page = commands.page()
    assert all(f"\n## {info.name or info.callback.__name__}\n" in page for info in app.registered_commands)
    sweep = page.split("\n## sweep\n")[1].split("\n## ")[0]
    for option in ("--axis` | PATH=VALUES; may be repeated", "--points` | whole number ≥ 1", "--json` |  |"):
        assert option in sweep


def test_the_papers_authors_are_cited():
    assert "Pourcel, Guillaume and Ernoult, Maxence" in citation.page()


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_stands_alone(tmp_path):
    pytest.importorskip("mkdocs", reason="make docs installs it")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert built.returncode == 0, built.stderr
    assert not built.stderr.strip()
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 40
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="(?:https?:)?//', text), page.name
        assert "skip=" not in text
