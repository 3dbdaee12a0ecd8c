"""Memory that stays with the process while a sweep runs, and is given back afterwards."""

import platform
import resource
from pathlib import Path

import numpy as np
import pytest

from studies.sweeps import heap
from studies.sweeps.heap import kept_heap

BYTES = 64 << 20
gnu = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not GNU's: nothing to set there")


def faults(times: int) -> int:
    """Pages that the system hands out while a large block is taken and given back so many times."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones(BYTES // 8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@gnu
def test_blocks_are_used_again_and_given_back():
    usual = faults(4)
    with kept_heap():
        faults(1)
        with kept_heap():  # of another sweep at the same time
            pass
        assert faults(4) < usual / 10
        held = resident()
    assert resident() < held - BYTES // 2
    assert faults(4) > usual / 2


def test_other_systems_do_without(monkeypatch):
    monkeypatch.setattr(heap, "_library", lambda: None)
    with kept_heap():
        assert faults(1) >= 0
