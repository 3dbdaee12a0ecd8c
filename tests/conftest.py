"""Shared by all tests: double precision, and what to say where an outside tool is missing."""

import os
import shutil

import jax
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
# Draws that make no netlist are part of the game; in continuous integration every run sees the same draws.
settings.register_profile(
    "house",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("house")


@pytest.fixture
def ngspice() -> str:
    """Path of ngspice, or a visible skip that says how to get it."""
    path = shutil.which("ngspice")
    if path is None:
        pytest.skip("ngspice is not installed: apt-get install ngspice")
    return path
