"""Designs to begin with are legal, train on the bench that they name and are handed over, as they are."""

import json

import pytest

from circuits.starters import STARTERS
from tests.rhel_hw.test_cli import files

EXPORTS = {
    "lc": ("spice", "kicad", "bom", "schematic", "vectors"),
    "josephson": ("spice", "josim", "wrspice", "verilog-a", "schematic"),
    "photonic": ("sax", "gds", "schematic"),
    "spin": ("mumax3", "schematic"),
}
families = pytest.mark.parametrize("family", STARTERS)


def test_every_family_has_a_starter():
    assert set(STARTERS) == set(EXPORTS)


@families
def test_a_starter_is_legal_without_a_warning(family, call, tmp_path):
    assert call("new", "my-first", "--family", family).startswith("wrote my-first.toml\n")
    assert files(tmp_path) == ["my-first.toml"]
    text = (tmp_path / "my-first.toml").read_text(encoding="utf-8")
    assert "NAME" not in text
    assert text.startswith("# my-first: ")
    assert all(len(line) <= 120 for line in text.splitlines())
    report = json.loads(call("check", "my-first.toml", "--json"))
    assert report["legal"]
    assert {f["severity"] for f in report["findings"]} <= {"note"}
    assert len(report["trainable"]) >= 5


@pytest.mark.parametrize("family", [f if f == "lc" else pytest.param(f, marks=pytest.mark.slow) for f in STARTERS])
def test_a_starter_trains_and_is_handed_over(family, call, tmp_path):
    call("new", "my-first", "--family", family, "--out", "designs")
    trained = json.loads(call("train", "designs/my-first.toml", "--steps", "12", "--checkpoint", "t.npz", "--json"))
    assert trained["profile"]["readout"]["bits"] == 8
    assert trained["improvement"] > 3
    wanted = [word for name in EXPORTS[family] for word in ("--to", name)]
    call("export", "designs/my-first.toml", "--trained", "t.npz", *wanted, "--out", "handed")
    manifest = json.loads((tmp_path / "handed" / "manifest.json").read_text(encoding="utf-8"))
    assert not manifest["left_out"]


def test_nothing_is_replaced_or_written_elsewhere(call, tmp_path):
    (tmp_path / "mine.toml").write_text("mine", encoding="utf-8")
    assert "mine.toml is there" in call("new", "mine", code=2)
    assert "mine.toml is there" in call("new", "mine.toml", code=2)
    for name in ("../up", "a/b", "", ".hidden", "a b", "ä", "x" * 65):
        assert "`NAME` must be letters" in call("new", name, code=2)
    assert "did you mean `photonic`?" in call("new", "ring", "--family", "fotonic", code=2)
    assert files(tmp_path) == ["mine.toml"]
    assert (tmp_path / "mine.toml").read_text(encoding="utf-8") == "mine"
    told = json.loads(call("new", "other", "--json"))
    assert told == {"design": "other", "family": "lc", "file": "other.toml"}
