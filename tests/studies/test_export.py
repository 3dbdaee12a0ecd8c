"""Hand-over: bundles that are whole or not there, of every built-in design, with trained values and preferred parts."""

import json

import pytest

from circuits import Clock, Netlist
from circuits.eseries import nearest
from circuits.gallery import GALLERY
from circuits.generators import ladder
from circuits.handover import MANIFEST, Bundle, check
from devices import ArgumentError
from studies.export import FORMATS, bundle
from tests.systems import quick_or_slow

EXPRESSED = {
    "lc-toy": {"spice", "kicad", "bom", "schematic", "vectors", "josim", "wrspice"},
    "josephson-ladder": {"spice", "schematic", "verilog-a", "josim", "wrspice"},
    "ring-lattice": {"schematic", "sax", "touchstone", "gds"},
    "kerr-chain": {"schematic", "sax", "touchstone", "gds"},
    "spin-chain": {"schematic", "mumax3"},
    "vortex-array": {"schematic", "mumax3"},
    "mixed": {"schematic"},
    "toy": {"schematic", "vectors"},
}
"""Formats that have a word for everything in a design."""


def short(name):
    return Netlist.load(name).replace(clock=Clock(None, 60))


@pytest.mark.parametrize("name", quick_or_slow(GALLERY, {"kerr-chain", "vortex-array", "toy"}))
def test_every_format_that_can_express_a_design_does(name, tmp_path, monkeypatch):
    for module in ("gdstk", "yaml"):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install 'rhel-hw[hardware]'")
    monkeypatch.delitem(FORMATS, "datasheet")  # takes hundreds of gradients; test_datasheet.py looks at it
    made = bundle(short(name), ["all"])
    assert {file.split("/")[0] for file in made.files} - {"design.toml"} == EXPRESSED[name]
    assert set(made.about["left_out"]) == set(FORMATS) - EXPRESSED[name]
    folder = made.save(tmp_path / "out")
    assert check(folder) == []
    assert Netlist.load(folder / "design.toml") == short(name)
    assert all(len(data) > 20 for data in made.files.values())


def test_a_bundle_is_there_whole_or_not_at_all(tmp_path, monkeypatch):
    made, folder = Bundle({"a/b.txt": b"one", "c.bin": b"\x00"}, {"design": "x"}), tmp_path / "new" / "out"
    made.save(folder)
    assert (folder / "a" / "b.txt").read_bytes() == b"one"
    assert json.loads((folder / MANIFEST).read_text())["files"]["c.bin"]["bytes"] == 1
    assert check(folder) == []
    with pytest.raises(ArgumentError, match="has files: name another, or --overwrite"):
        made.save(folder)
    Bundle({"d.txt": b"two"}, {}).save(folder, overwrite=True)
    assert sorted(p.name for p in folder.iterdir()) == ["d.txt", MANIFEST]
    (folder / "d.txt").write_bytes(b"other")
    (folder / "e.txt").write_bytes(b"more")
    assert check(folder) == ["e.txt", "d.txt"]
    monkeypatch.setattr("circuits.handover.os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        made.save(tmp_path / "fails")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(ArgumentError, match="has other files"):
        made.save(tmp_path / "mine", overwrite=True)


def test_what_cannot_be_expressed_is_refused_and_nothing_is_written(call, tmp_path):
    assert "SPICE has nothing for a ring" in call("export", "kerr-chain", "--to", "spice", code=2)
    assert "did you mean `spice`" in call("export", "lc-toy", "--to", "SPISE", code=2)
    assert call("export", "lc-toy", "--to", "pdf", code=2).count("schematic") == 1
    assert "`--series` must be one of" in call("export", "lc-toy", "--series", "E23", code=2)
    assert "cannot be read" in call("export", "lc-toy", "--trained", "no.npz", code=2)
    assert list(tmp_path.iterdir()) == []


def test_trained_values_and_preferred_parts(call, tmp_path):
    (tmp_path / "two.toml").write_text(ladder(2).replace(clock=Clock(None, 60)).to_toml())
    call("train", "two.toml", "--steps", "2", "--checkpoint", "two.npz")
    learnt = json.loads(call("export", "two.toml", "--trained", "two.npz", "--to", "bom", "--out", "a", "--json"))
    (value,) = learnt["trained"].values()
    final = Netlist.load(tmp_path / "a" / "design.toml").by_name["Ln0_n1"].inductance
    assert final == pytest.approx(value, rel=1e-12)
    assert final != ladder(2).by_name["Ln0_n1"].inductance
    moved = json.loads(
        call("export", "two.toml", "--trained", "two.npz", "--series", "E24", "--to", "spice", "--out", "b", "--json")
    )
    final = Netlist.load(tmp_path / "b" / "design.toml").by_name["Ln0_n1"].inductance
    assert final == pytest.approx(nearest(value, "E24"), rel=1e-12)
    assert abs(moved["series"]["gradient_cosine"]) == pytest.approx(1)  # of one parameter
    assert list(moved["losses"]) == ["drawn", "trained", "bought"]
    assert moved["losses"]["trained"] == pytest.approx(learnt["losses"]["trained"])
    assert 0 < moved["losses"]["trained"] < moved["losses"]["drawn"]
    assert (tmp_path / "b" / "spice" / "echo-plus.cir").exists()
    assert moved["nudging"]["gamma"] > 0
    text = call("export", "b/design.toml", "--series", "E24", "--to", "bom", "--out", "again")
    assert "0 parts moved to E24" in text
    plain = json.loads(call("export", "two.toml", "--series", "none", "--to", "bom", "--out", "plain", "--json"))
    assert "series" not in plain
    assert "nudging" not in plain
    assert "of the training of 'six coupled LC oscillators'" in call(
        "export", "lc-toy", "--trained", "two.npz", "--out", "c", code=2
    )
    text = call("export", "two.toml", "--to", "schematic", "--out", "b", "--overwrite")
    assert "wrote b/schematic/schematic.svg" in text
