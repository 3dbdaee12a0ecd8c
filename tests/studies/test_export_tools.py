"""Every export of every gallery design, validated by the format's own tool, or by its grammar where none can be had."""

from functools import cache

import pytest

from circuits import Clock, Netlist
from devices import CurrentDrive
from rhel_hw.ngspice_run import run_deck
from studies.export import FORMATS, Handed, bundle
from tests.circuits.electrical import tanks
from tests.exports import CHECKS
from tests.exports.electrical import assert_passes
from tests.exports.photonic import check_by_sax
from tests.studies.test_export import EXPRESSED
from tests.systems import quick_or_slow

OWN_TESTS = {"datasheet"}
"""Formats that people read."""
CASES = [(name, form) for name, forms in EXPRESSED.items() for form in sorted(forms - OWN_TESTS)]
QUICK = {("toy", "vectors"), *(("josephson-ladder", form) for form in ("spice", "verilog-a", "josim", "wrspice")),
         ("vortex-array", "mumax3"), ("mixed", "schematic"),
         *((name, form) for name, form in CASES if name == "kerr-chain"),
         *((name, form) for name, form in CASES if name == "lc-toy" and form != "vectors")}  # fmt: skip


@cache
def made(name, form):
    """The netlist and its files in one format."""
    if module := {"gds": "gdstk", "sax": "yaml"}.get(form):
        pytest.importorskip(module, reason=f"{module} is not installed: pip install 'rhel-hw[hardware]'")
    net = Netlist.load(name).replace(clock=Clock(None, 60))
    files = bundle(net, [form]).files
    return net, {path.split("/", 1)[1]: data for path, data in files.items() if path.startswith(f"{form}/")}


def test_every_format_has_a_check():
    assert set(FORMATS) - OWN_TESTS == set(CHECKS)
    assert {form for _, form in QUICK} == set(CHECKS)


@pytest.mark.parametrize("case", quick_or_slow(CASES, QUICK), ids="-".join)
def test_exports_are_what_their_tools_take(case, tmp_path):
    net, files = made(*case)
    CHECKS[case[1]](net, files, tmp_path)


def test_what_has_nothing_to_learn_is_handed_over_too(ngspice):
    """Without nudged echoes, for there is no gradient."""
    net = tanks(1).replace(drives=[CurrentDrive("u", "n0")], targets=["n0"], clock=Clock(None, 20))
    files = bundle(net, ["spice", "josim", "vectors", "bom"]).files
    assert [name for name in files if "echo" in name] == ["spice/echo.cir"]
    assert len(run_deck(files["spice/forward.cir"].decode("ascii"))["time"]) > 20
    assert {name.split("/")[0] for name in files} == {"design.toml", "spice", "josim", "vectors", "bom"}


def test_what_nothing_drives_is_handed_over_with_a_kick(ngspice):
    net = tanks(2).replace(clock=Clock(None, 60))
    files = bundle(net, ["spice"]).files
    read = {deck: run_deck(files[f"spice/{deck}"].decode("ascii")) for deck in ("forward.cir", "echo.cir")}
    assert_passes(Handed(net), read)
    assert max(Handed(net).start.voltages.values()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("series", [None, "E24", "E96"])
@pytest.mark.parametrize("name", [name for name, forms in EXPRESSED.items() if "spice" in forms])
def test_whole_passes_that_are_handed_over_run_and_return(name, series, ngspice):
    """The task's stimulus over all steps; 0.14 % of full scale is missed on the way back, and 12 % by leapfrog."""
    net = Netlist.load(name)
    files = bundle(net, ["spice"], series=series).files
    read = {deck: run_deck(files[f"spice/{deck}"].decode("ascii")) for deck in ("forward.cir", "echo.cir")}
    assert_passes(Handed(net, {}, series), read)


@pytest.mark.peers
@pytest.mark.parametrize("name", [name for name, forms in EXPRESSED.items() if "sax" in forms])
def test_sax_takes_its_exports(name, tmp_path):
    check_by_sax(*made(name, "sax"), tmp_path)
