"""What all commands have in common: examples in their help, quiet and verbose, versions, colours, completion."""

import importlib.metadata
import json
import os
import pty
import re
import shlex
import subprocess
import sys

import pytest
import typer.main

from rhel_hw.cli import app, completion
from rhel_hw.cli.common import progress
from rhel_hw.cli.examples import EXAMPLES
from rhel_hw.kernels.compiler import loops_by
from studies import export

COMMAND = typer.main.get_command(app)
RUN = [sys.executable, "-m", "rhel_hw.cli"]
COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|9[0-7])(?:;[0-9;]*)?m")
REFUSED = """[elements.C1]
type = "capacitor"
nodes = ["a", "gnd"]
capacitance = "1 ohm"
[elements.L1]
type = "inductor"
nodes = ["a", "gnd"]
inductance = "-1 nH"
"""


# Examples ---------------------------------------------------------------------------------------------------------


def test_every_command_has_examples():
    assert set(EXAMPLES) == set(COMMAND.commands)
    assert all(EXAMPLES.values())


@pytest.mark.parametrize("line", [pytest.param(line, id=line) for lines in EXAMPLES.values() for line in lines])
def test_examples_are_command_lines(line):
    name, *rest = shlex.split(line, comments=True)
    # What follows refuses options and kinds of values that are not there.
    with COMMAND.commands[name].make_context(name, rest):
        pass
    assert len(f"  rhel-hw {line}") <= 79


def test_help_shows_the_examples_as_they_are(call):
    text = call("train", "--help")
    for line in EXAMPLES["train"]:
        assert f"rhel-hw {line}" in text
    assert "[/bold]" not in text


# How much is said -------------------------------------------------------------------------------------------------


def test_quiet_commands_print_nothing_and_write_all_the_same(call, tmp_path):
    assert call("new", "mine", "--quiet") == ""
    assert (tmp_path / "mine.toml").exists()
    assert call("-q", "check", "mine.toml") == ""
    assert call("check", "missing.toml", "-q", code=2).startswith("rhel-hw: ")
    assert json.loads(call("check", "mine.toml", "-q", "--json"))["legal"]


def test_verbose_commands_say_what_they_cost_and_every_finding(call, capsys, monkeypatch, tmp_path):
    (tmp_path / "wrong.toml").write_text(REFUSED, encoding="utf-8")
    assert "(and 1 more)" in call("simulate", "wrong.toml", code=2)
    told = call("simulate", "wrong.toml", "--verbose", code=2).splitlines()
    assert [line.partition(" ")[2].partition(":")[0] for line in told[:2]] == [
        "elements.C1.capacitance",
        "elements.L1.inductance",
    ]
    assert re.search(r"^\d+\.\d s, \d+\.\d s of processor time; rhel-hw \S+, jax \S+", told[2])
    assert told[3].startswith("rhel-hw: elements.C1.capacitance")
    complaint = call("-v", "check", "wrong.toml", "-q", code=2)
    assert "`--quiet` and `--verbose` must not both be given" in complaint


def test_verbose_progress_has_lines_where_there_is_no_terminal(call, monkeypatch, capsys):
    def work():
        with progress("working", "stones") as report:
            for done in range(1, 41 if report else 0):
                report(done, 40, 0.5)

    from rhel_hw.cli import voice

    token = voice._VOICE.set(voice.Voice.VERBOSE)
    try:
        work()
    finally:
        voice._VOICE.reset(token)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11  # the first, and every tenth
    assert lines[-1] == "working: 40 of 40 stones, loss 0.5"
    work()
    assert capsys.readouterr().err == ""


def test_options_alone_are_not_a_command(call):
    assert "`COMMAND` must be given" in call("--quiet", code=2)


# Versions ---------------------------------------------------------------------------------------------------------


def test_versions_of_what_matters_without_loading_it(tmp_path):
    code = "import sys; sys.argv = ['rhel-hw', '--version']\nfrom rhel_hw.cli import main\n"
    code += "try: main()\nexcept SystemExit: print('jax' in sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == "False\n"
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    for name in ("rhel-hw", "jax", "jaxlib", "numpy", "scipy"):
        assert found[name] == importlib.metadata.version(name)
    assert found["python"] == sys.version.split()[0]
    assert found["loops"].removeprefix("by ") == loops_by()


def test_ngspice_is_asked_or_missed(monkeypatch, tmp_path, ngspice):
    from rhel_hw.cli.installed import table

    told = subprocess.run([ngspice, "--version"], capture_output=True, text=True, check=True).stdout
    version = table().splitlines()[-1].removeprefix("ngspice ")
    assert f"ngspice-{version}" in told
    monkeypatch.setenv("PATH", str(tmp_path))
    assert table().splitlines()[-1] == "ngspice not installed"
    (tmp_path / "ngspice").write_text("#!/bin/sh\necho so\n")
    (tmp_path / "ngspice").chmod(0o755)
    assert table().splitlines()[-1].endswith("does not say which")


# Colours ----------------------------------------------------------------------------------------------------------


def on_terminal(*arguments, **environment):
    """What a command prints on a terminal."""
    controller, terminal = pty.openpty()
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS")}
    env = {**clean, "TERM": "xterm-256color", **environment}
    with subprocess.Popen([*RUN, *arguments], stdout=terminal, stderr=terminal, stdin=terminal, env=env):
        os.close(terminal)
        found = b""
        while True:
            try:
                part = os.read(controller, 65536)
            except OSError:  # as Linux says that the other end is closed
                break
            if not part:
                break
            found += part
    os.close(controller)
    return found


@pytest.mark.parametrize("arguments", [["--help"], ["check", "wrong.toml"]], ids=["help", "check"])
def test_colour_is_for_terminals_that_want_it(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.toml").write_text(REFUSED, encoding="utf-8")
    assert COLOUR.search(on_terminal(*arguments))
    assert not COLOUR.search(on_terminal(*arguments, NO_COLOR="1"))
    assert b"\x1b" not in subprocess.run([*RUN, *arguments], capture_output=True, check=False).stdout


# Completion -------------------------------------------------------------------------------------------------------


def completed(line, cwd):
    """What bash is told for the last word of a line."""
    words = line.split(" ")
    env = {**os.environ, "_RHEL_HW_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    code = "from rhel_hw.cli import app; app(prog_name='rhel-hw')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, cwd=cwd, check=False)
    assert done.stderr == ""
    return done.stdout.split()


def test_a_shell_completes_commands_and_designs(tmp_path):
    (tmp_path / "lamp.toml").touch()
    (tmp_path / "letter.txt").touch()
    assert completed("rhel-hw ch", tmp_path) == ["check"]
    assert completed("rhel-hw check l", tmp_path) == ["lc-toy", "lamp.toml"]


def test_names_that_are_completed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "chip.cir").touch()
    (tmp_path / ".hidden.toml").touch()
    assert completion.designs("la") == ["lab/"]
    assert completion.designs("lab/") == ["lab/chip.cir"]
    assert completion.designs("nowhere/x") == []
    assert ".hidden.toml" not in completion.designs("")
    assert completion.families("s") == ["spin"]
    assert completion.settings("readout.bi") == ["readout.bits="]
    assert "bench-8bit" in completion.profiles("bench")
    assert completion.elements("joseph") == ["josephson"]
    assert completion.gallery("kerr") == ["kerr-chain"]
    assert "yig-disc" in completion.presets("yig")
    assert completion.studies("lc") == ["lc-ring"]
    assert completion.benchmarks("gra") == ["gradient", "graph"]
    assert completion.formats("s") == ["sax", "schematic", "spice"]
    assert sorted((*export.FORMATS, "all")) == list(completion.FORMATS)


def test_without_a_name_studies_are_listed(call):
    from rhel_hw.cli.studies import STUDIES

    assert json.loads(call("study", "--json")) == {"studies": STUDIES}
    assert all(name in call("study") for name in STUDIES)
