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
    printed = call("sweep", str(design), "--axis", "learning.gamma=log:1:100:3", "--axis", "readout.bits=8")
    assert "3 points" in printed
    assert "learning.gamma" in printed
    assert "wrote" in printed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--axis", "readout.bits"], "PATH=VALUES"),
        (["--axis", "readout.bits=log:4:8"], "a count as its third number"),
        (["--axis", "readout.bots=4"], "no setting of"),
        (["--mode", "grd"], "did you mean"),
        (["--memory", "lots"], "must be a size"),
        (["--memory", "1 kB"], "must be at least"),
        (["--require", "cosin=0.9"], "cosin"),
    ],
)
def test_misuse_ends_with_one_message(design, call, options, words):
    said = call("sweep", str(design), *options, code=2)
    assert words in said
    assert said.count("\n") == 1


def test_a_design_without_axes_says_what_to_do(call):
    assert "--axis" in call("sweep", "lc-toy", code=2)
