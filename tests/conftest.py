"""Shared by all tests: double precision, the command line, and what to say where an outside tool is missing."""

import gc
import os
import shutil
import sys
from itertools import count
from pathlib import Path

import jax
import pytest
from hypothesis import HealthCheck, settings

from rhel_hw.cli import main
from rhel_hw.runtime import configure

os.environ["RHEL_HW_CACHE"] = ""  # every run compiles for itself
configure()
# Draws that make no netlist are part of the game; in continuous integration every run sees the same draws.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("house")


gc.freeze()  # programs that are remembered are many objects: looking through them takes a twentieth of the time
gc.set_threshold(50_000, 20, 100)
_tests = count(1)
MOST_MAPS = 20_000
"""Of the 65,530 memory maps that Linux allows a process; every compiled program takes some."""


@pytest.fixture(autouse=True)
def _forget_programs():
    """Programs of earlier tests are let go before their number brings the compiler down."""
    yield
    maps = Path("/proc/self/maps")
    if next(_tests) % 10 == 0 and maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def ngspice() -> str:
    """Path of ngspice, or a visible skip that says how to get it."""
    path = shutil.which("ngspice")
    if path is None:
        pytest.skip("ngspice is not installed: apt-get install ngspice")
    return path


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """The command line in an empty folder; gives what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["rhel-hw", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed, complaint = capsys.readouterr()
        assert (ended.value.code or 0) == code, complaint
        if code:
            return complaint
        assert complaint == ""
        return printed

    return run
