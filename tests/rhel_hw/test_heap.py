"""Memory that stays with the process."""

import platform
import subprocess
import sys
from types import SimpleNamespace

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not GNU's: nothing to set there")
@pytest.mark.parametrize("given", [{}, {"MALLOC_TRIM_THRESHOLD_": "131072"}], ids=["usual", "by the user"])
def test_blocks_are_used_again_unless_the_user_says_otherwise(given):
    """NumPy asks for large pages, of 2 MiB, so that a block of 64 MiB that is new brings 32 faults or more."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=given)
    assert (int(run.stdout) < 8) == (not given)


def test_the_library_is_told_if_it_is_there_and_the_user_did_not(monkeypatch):
    told = {}
    monkeypatch.setattr(heap, "_library", lambda: None)
    heap.keep_heap()
    monkeypatch.setattr(heap, "_library", lambda: SimpleNamespace(mallopt=told.__setitem__))
    monkeypatch.setenv("MALLOC_ARENA_MAX", "2")
    heap.keep_heap()
    assert not told
    monkeypatch.delenv("MALLOC_ARENA_MAX")
    heap.keep_heap()
    assert told == heap.SETTINGS
