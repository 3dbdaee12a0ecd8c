"""What the README shows is run as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

from circuits.formats import toml
from circuits.gallery import GALLERY
from rhel_hw import simulate_design

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    (found,) = re.findall(rf"<!-- run by tests/test_readme.py -->\n```{language}\n(.*?)```", README, re.DOTALL)
    return found


def test_python_example(capsys):
    names = {}
    exec(block("python"), names)
    assert names["design"].legality.legal
    shown = capsys.readouterr().out.strip().splitlines()
    assert float(shown[-1]) < 1e-12
    assert np.max(np.abs(names["run"].positions_si()["n3"])) > 0


def test_design_file_example():
    design = toml.read(block("toml")).compile()
    # Two equal tanks: the even mode at 1/√(LC), the odd one stiffer by the coupling inductor.
    even = 1 / (2 * np.pi * np.sqrt(1e-9 * 25e-6))
    odd = np.sqrt((1 / 25e-6 + 2 / 100e-6) / 1e-9) / (2 * np.pi)
    np.testing.assert_allclose(design.frequencies_hz, [even, odd], rtol=1e-12)
    assert np.max(np.abs(simulate_design(design).positions_si()["b"])) > 0


@pytest.mark.parametrize("name", ["toy", "lc-toy", "josephson-ladder"])
def test_named_designs_exist(name):
    assert f"`{name}`" in README
    assert name in GALLERY
