"""Notebooks are run as they stand, with smaller sizes; their pages show what came out."""

import json

import pytest

from docs.generate import notebooks
from tests.documentation.blocks import ROOT

SMALL = {
    "train": {"steps": 60, "moves": 3},
    "precision": {"steps": 60, "bits": [6, 10], "strengths": 4, "seeds": 2},
    "hand-over": {"steps": 60, "moves": 2},
}
FILES = {path.stem: path for path in (ROOT / "docs/notebooks").glob("*.ipynb")}


@pytest.mark.parametrize("name", FILES)
def test_it_runs(name):
    cells = notebooks.run(FILES[name], **SMALL[name])
    printed = "".join(cell.text for cell in cells)
    figures = [figure for cell in cells for figure in cell.figures]
    match name:
        case "train":
            assert "1.000000000 ideal" in printed
            assert len(figures) == 1
        case "precision":
            assert "'profile.readout.bits': 2" in printed
            assert len(figures) == 2
        case "hand-over":
            assert "spice/echo-plus.cir" in printed
            assert "cosine 0.99" in printed or "cosine 1.0" in printed or "not installed" in printed


@pytest.mark.parametrize("name", FILES)
def test_it_is_kept_without_what_came_out(name):
    for cell in json.loads(FILES[name].read_text(encoding="utf-8"))["cells"]:
        assert cell.get("outputs", []) == []
        assert cell.get("execution_count") is None


def test_a_page_shows_text_and_figures(tmp_path):
    cells = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title"]},
        {"cell_type": "code", "metadata": {"tags": ["parameters"]}, "source": ["%matplotlib inline\n", "n = 2"]},
        {"cell_type": "code", "metadata": {}, "source": ["from studies.plots import losses\n", "print(n)\n", "n + 1"]},
        {"cell_type": "code", "metadata": {}, "source": ["losses({'a': [2, 1]})"]},
    ]
    path = tmp_path / "own.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    text, figures = notebooks.page(path)
    assert text.startswith("# Title\n\n[The notebook](own.ipynb)")
    assert "```text\n2\n3\n```" in text
    assert "![loss](own-1.png)" in text
    assert figures["own-1.png"].startswith(b"\x89PNG")
    assert notebooks.run(path, n=4)[2].text == "4\n5\n"
    with pytest.raises(AssertionError, match="no parameter m"):
        notebooks.run(path, m=4)
