"""The command line as tests call it."""

import sys

import pytest

from rhel_hw.cli import main


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
