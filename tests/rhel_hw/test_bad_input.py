"""Bad input ends with exit code 2 and one message that names the fault and its remedy, soon, and writes nothing."""

import json
import os
import subprocess
import sys
import time

import pytest
from bad_designs import BAD_DESIGNS, IN_A_PROCESS

from devices import dimension
from rhel_hw.cli import main

LIMIT_S = 2.0
"""Of processor time, which other load on the machine changes less than the time on the wall."""
COMMAND = [sys.executable, "-c", "from rhel_hw.cli import main; main()"]

designs = pytest.mark.parametrize("bad", BAD_DESIGNS, ids=lambda bad: bad.name.replace(" ", "-"))
some_designs = pytest.mark.parametrize(
    "bad",
    [
        pytest.param(b, id=b.name.replace(" ", "-"), marks=pytest.mark.slow if i % 4 else ())
        for i, b in enumerate(b for b in BAD_DESIGNS if b.name in IN_A_PROCESS)
    ],
)


@pytest.fixture(scope="module", autouse=True)
def _started():
    """Load once what a process loads at its start, so that the clock sees only the design."""
    import circuits.formats.spice
    import circuits.formats.toml
    import circuits.hamiltonian  # noqa: F401

    dimension("F")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder to work in."""
    folder = tmp_path / "place"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def made(bad, folder):
    if not bad.as_root and os.geteuid() == 0:
        pytest.skip("root may read every file: run the tests as another user")
    return bad.make(folder)


def run(capsys, monkeypatch, *arguments):
    """Exit code, what was printed, what was complained, and processor time of the command line in this process."""
    monkeypatch.setattr(sys, "argv", ["rhel-hw", *arguments])
    capsys.readouterr()
    begun = time.process_time()
    with pytest.raises(SystemExit) as ended:
        main()
    took = time.process_time() - begun
    return ended.value.code, *capsys.readouterr(), took


def process(*arguments):
    """The same of a process of its own, start included."""
    child = subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    printed, complaint = child.stdout.read(), child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stdout.close()
    child.stderr.close()
    return child.returncode, printed, complaint, usage.ru_utime + usage.ru_stime


def assert_one_message(complaint, bad):
    assert complaint.startswith("rhel-hw: ")
    assert complaint.endswith("\n")
    assert len(complaint.splitlines()) == 1
    assert complaint[:-1].isprintable()
    assert len(complaint) < 1000
    for word in bad.words:
        assert word in complaint
    assert complaint.partition("Remedy: ")[2].strip(" .\n")


def test_the_table_is_large_and_its_names_differ():
    names = [bad.name for bad in BAD_DESIGNS]
    assert len(set(names)) == len(names) >= 100
    assert set(IN_A_PROCESS) <= set(names)
    assert len(IN_A_PROCESS) >= 40


@some_designs
def test_a_process_refuses_it_within_two_seconds(bad, place, tmp_path):
    argument = made(bad, tmp_path)
    code, _, complaint, took = process("check", argument)
    assert code == 2
    assert_one_message(complaint, bad)
    if took >= LIMIT_S:  # a first start may have to compile and to fill caches
        took = process("check", argument)[-1]
    assert took < LIMIT_S
    assert list(place.iterdir()) == []


@designs
def test_check_refuses_it_with_one_message(bad, place, tmp_path, capsys, monkeypatch):
    code, printed, complaint, took = run(capsys, monkeypatch, "check", made(bad, tmp_path))
    assert code == 2
    assert_one_message(complaint, bad)
    assert printed.startswith("not legal\n")
    assert took < LIMIT_S / 2  # the other half is for the start
    assert list(place.iterdir()) == []


@designs
def test_check_reports_it_to_machines(bad, place, tmp_path, capsys, monkeypatch):
    code, printed, complaint, _ = run(capsys, monkeypatch, "check", made(bad, tmp_path), "--json")
    assert code == 2
    assert_one_message(complaint, bad)
    report = json.loads(printed)
    assert report["legal"] is False
    assert report["coordinates"] == report["trainable"] == report["frequencies_hz"] == []
    assert report["step_s"] is None
    errors = [f for f in report["findings"] if f["severity"] == "error"]
    assert errors
    for finding in errors:
        assert set(finding) == {"element", "severity", "reason", "remedy"}
        assert all(text.strip() for text in finding.values())
    assert f"rhel-hw: {errors[0]['element']}: {errors[0]['reason']}" in complaint
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(
    "bad",
    [
        b
        for b in BAD_DESIGNS
        if b.name in ("binary", "no such file", "wrong dimension", "floating", "step too large", "transistor")
    ],
    ids=lambda bad: bad.name.replace(" ", "-"),
)
def test_simulate_refuses_it_and_writes_nothing(bad, place, tmp_path, capsys, monkeypatch):
    argument = made(bad, tmp_path)
    code, printed, complaint, _ = run(capsys, monkeypatch, "simulate", argument, "--plot", "--out", "figures")
    assert code == 2
    assert_one_message(complaint, bad)
    assert printed == ""
    assert list(place.iterdir()) == []
