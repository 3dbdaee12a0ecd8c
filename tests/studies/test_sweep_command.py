"""The command that sweeps: options, files, going on, and one clear message for whatever is wrong."""

import json

import numpy as np
import pytest
import xarray as xr

from circuits import Netlist
from circuits.netlist import Clock


@pytest.fixture
def design(tmp_path):
    found = Netlist.load("lc-toy").replace(clock=Clock(None, 50), settings={"task": {"batch": 1}})
    path = tmp_path / "six.toml"
    path.write_text(found.to_toml() + '\n[sweep.axes]\n"profile.readout.bits" = [4, 8]\nchip = [0, 1]\n')
    return path


def test_a_sweep_of_the_design_file(design, call, tmp_path):
    """Numbers, figures, a page and netCDF; the second time nothing is computed."""
    words = ("sweep", str(design), "--json", "--out", "out", "--netcdf", "six.nc", "--set", "readout.noise=1e-3")
    told = json.loads(call(*words))
    assert told["dims"] == {"profile.readout.bits": 2, "chip": 2}
    assert told["points"] == 4
    assert np.shape(told["outcomes"]["cosine"]) == (2, 2)
    names = {f.split("/")[-1] for f in told["files"]}
    assert {"six.zarr", "six.html", "six.nc"} <= names
    assert any(n.endswith(".svg") for n in names)
    kept = xr.open_zarr(tmp_path / "out" / "six.zarr").load()
    np.testing.assert_array_equal(kept["cosine"], np.array(told["outcomes"]["cosine"], float))
    assert kept.attrs["profile"] == {"readout": {"noise": 1e-3}}
    np.testing.assert_array_equal(xr.load_dataset(tmp_path / "six.nc", engine="h5netcdf")["cosine"], kept["cosine"])
    again = Netlist.load(_written(tmp_path / "again.toml", kept.attrs["design"]))
    assert again.settings["sweep"]["axes"]["chip"] == [0, 1]
    stamps = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "six.zarr").rglob("*") if p.is_file()}
    assert json.loads(call(*words))["outcomes"] == told["outcomes"]
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "six.zarr").rglob("*") if p.is_file()} == stamps
    assert "holds results of another" in call(*words, "--repeats", "2", code=2)


def _written(path, text):
    path.write_text(text)
    return path


def test_people_are_told_what_was_found(design, call):
    axes = ("learning.gamma=log:1:100:3", "readout.bits=8", "chip=0..1")
    printed = call("sweep", str(design), *(word for axis in axes for word in ("--axis", axis)))
    assert "6 points" in printed
    assert "learning.gamma" in printed
    # Chips of an ideal bench are all alike.
    assert "no outcome depends on chip: chips differ if something is drawn" in " ".join(printed.split())
    assert "wrote" in printed
    assert "all points nudge" not in printed
    assert "all points nudge with γ = 1" in call("sweep", str(design), "--axis", "readout.bits=8", "--out", "other")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--axis", "readout.bits"], "PATH=VALUES"),
        (["--axis", "readout.bits=log:4:8"], "a count as its third number"),
        (["--axis", "readout.bots=4"], "no setting of"),
        (["--mode", "grd"], "did you mean"),
        (["--memory", "lots"], "must be a size"),
        (["--memory", "1.2.3 GB"], "must be a size"),
        (["--axis", "chip=0..99999999999"], "at most 10,000,000 values"),
        (["--axis", "chip=5..2"], "must go up"),
        (["--axis", "readout.bits=4", "--axis", "readout.bits=8"], "twice"),
        (["--netcdf", "nowhere/six.nc"], "`netcdf` must be a file in a folder"),
        (["--require", "cosine=0.9", "--axis", "learning.gamma=100"], "two values"),
        (["--memory", "1 kB"], "must be at least"),
        (["--require", "cosin=0.9"], "cosin"),
    ],
)
def test_misuse_ends_with_one_message(design, call, options, words):
    said = call("sweep", str(design), *options, code=2)
    assert words in said
    assert said.count("\n") == 1


def test_help_says_where_axes_come_from(call):
    assert "sweep.axes" in " ".join(call("sweep", "--help").replace("│", " ").split())


def test_an_interrupted_sweep_says_how_to_go_on(design, call, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("studies.sweeps.run", interrupted, raising=False)
    assert "the same command goes on" in call("sweep", str(design), code=130)


def test_a_design_without_axes_says_what_to_do(call):
    assert "--axis" in call("sweep", "lc-toy", code=2)
