"""Memory that stays with the process."""

import platform
import subprocess
import sys

import pytest

from rhel_hw import heap

PROGRAM = """
import resource
import numpy as np
from rhel_hw.runtime import configure

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    np.ones(8 << 20)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

configure(cache=False)
faults()
print(faults())
"""
PAGES = 64 << 8
"""Of a block of 64 MiB."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not GNU's: nothing to set there")
@pytest.mark.parametrize("given", [{}, {"MALLOC_TRIM_THRESHOLD_": "131072"}], ids=["usual", "by the user"])
def test_blocks_are_used_again_unless_the_user_says_otherwise(given):
    """NumPy asks for large pages, of 2 MiB, so that blocks that are new bring one fault for each."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=given)
    assert (int(run.stdout) < 8) == (not given)


def test_other_systems_do_without(monkeypatch):
    monkeypatch.setattr(heap, "_library", lambda: None)
    heap.keep_heap()
