"""The command line as tests call it."""

import sys

import jax
import pytest

from rhel_hw.cli import main


@pytest.fixture(scope="module")
def quick_compiler():
    """Programs of a module that runs many small ones once: they are compiled faster, and run more slowly."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


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
