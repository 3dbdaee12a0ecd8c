"""Electrical exports: ngspice runs decks, OpenVAF compiles modules, Icarus simulates Verilog; grammars of the rest."""

import re
import shutil
import subprocess

import numpy as np
import pytest

from circuits.formats import josim, spice
from circuits.formats.spice_decks import flux_node
from circuits.formats.spice_state import Plates, State
from circuits.formats.spice_write import Writer
from rhel_hw import EmulatedBench, Shot
from rhel_hw.ngspice_run import run_deck
from studies.export import Handed
from tests.circuits.electrical import assert_same_hamiltonian

# SPICE --------------------------------------------------------------------------------------------------------------


def ended(design, read):
    """State at the end of a deck's run."""
    writer, nodes = Writer(design.netlist), Plates.of(design.netlist).nodes
    fluxes = {n: float(read[f"v({flux_node(writer, n)})".lower()][-1]) for n in nodes}
    return State(fluxes, {n: float(read[f"v({writer.nodes[n]})".lower()][-1]) for n in nodes})


def peaks(deck, folder):
    """What a deck measures, by name."""
    (folder / "deck.cir").write_text(deck)
    done = subprocess.run(["ngspice", "-b", "deck.cir"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "error" not in (done.stdout + done.stderr).lower()
    return {name: float(value) for name, value in re.findall(r"^(\w+)\s*=\s*(\S+) at=", done.stdout, re.MULTILINE)}


def check_spice(net, files, folder):
    """The netlist is the circuit, ngspice runs every deck as the emulator does, echoes return, and nudges act."""
    if shutil.which("ngspice") is None:
        pytest.skip("ngspice is not installed: apt-get install ngspice")
    texts = {name: data.decode("ascii") for name, data in files.items()}
    circuit = spice.read(texts.pop("netlist.cir"))
    assert circuit.replace(name=net.name) == net
    assert_same_hamiltonian(net, circuit)
    assert set(texts) == {"forward.cir", "echo.cir", "echo-plus.cir", "echo-minus.cir"}
    read = {name: run_deck(text) for name, text in texts.items()}
    handed = Handed(net)
    assert_passes(handed, read)
    asked = set(re.findall(r"^\.meas tran (\w+)", texts["forward.cir"], re.MULTILINE))
    assert asked
    assert set(peaks(texts["forward.cir"], folder)) == {name.lower() for name in asked}
    _assert_nudges(handed, read)


def assert_passes(handed, read):
    """Waveforms are those of a pass of sixth order to 0.5 % of full scale, and the echo ends where it began."""
    design, run, writer = handed.design, handed.run, Writer(handed.netlist)
    for deck, waveforms in read.items():
        assert waveforms["time"][-1] == pytest.approx(design.step_s * design.steps), deck
        assert all(np.all(np.isfinite(column)) for column in waveforms.values()), deck
    theirs, full = read["forward.cir"], max(np.max(np.abs(wave)) for wave in run.positions_si().values())
    for node, wave in run.positions_si().items():
        found = np.interp(run.times_s, theirs["time"], theirs[f"v({flux_node(writer, node)})".lower()])
        assert np.max(np.abs(found - wave)) < 5e-3 * full, node
    start, back = handed.start, ended(design, read["echo.cir"])
    assert max(abs(back.fluxes[n] - start.fluxes[n]) for n in back.fluxes) < 5e-3 * full


def _assert_nudges(handed, read):
    """Half the distance of the two nudged echoes is the emulator's, but for leapfrog's own error."""
    design, writer = handed.design, Writer(handed.netlist)
    bench, times = EmulatedBench(design), design.step_s * np.arange(1, design.steps + 1)
    bench.run(Shot(design.steps, handed.waves, hold=True))
    ours = [bench.run(Shot(design.steps, handed.waves, nudge, echo=True)) for nudge in handed.nudges]
    for target in design.netlist.targets:
        name = f"v({flux_node(writer, target.node)})".lower()
        waves = [
            np.interp(times, read[f"echo-{k}.cir"]["time"], read[f"echo-{k}.cir"][name]) for k in ("plus", "minus")
        ]
        half = (ours[0][f"target.{target.name}"] - ours[1][f"target.{target.name}"]).ravel() / 2
        assert np.max(np.abs(half)) > 0
        assert np.max(np.abs((waves[0] - waves[1]) / 2 - half)) < 0.05 * np.max(np.abs(half)), target.name


# JoSIM and WRspice --------------------------------------------------------------------------------------------------


def readable(text):
    """The deck as our reader takes it: a run must say that it starts from initial conditions."""
    return re.sub(r"^(\.tran \S+ \S+)$", r"\1 uic", text, flags=re.MULTILINE)


def wiring(net, names=None):
    """Elements but for their names, tanks as their parts."""
    found = []
    for e in net.elements:
        ends = tuple("0" if n == net.ground else (names or {}).get(n, n) for n in net.terminals_of(e))
        if e.type == "tank":
            found += [("capacitor", ends, e.capacitance), ("inductor", ends, e.inductance)]
        elif e.type != "mutual":
            found.append((e.type, ends, next(iter(e.values.values()))))
        else:
            pair = {
                (net.by_name[getattr(e, k)].inductance, net.terminals_of(net.by_name[getattr(e, k)])[0])
                for k in e.references
            }
            found.append((e.type, tuple(sorted((v, (names or {}).get(n, n)) for v, n in pair)), e.coefficient))
    return sorted(map(repr, found))


WAVE = r"(dc|sin|pulse|pwl)\b.*"
GRAMMAR = {
    "JoSIM": [r"\.tran \S+ \S+", r"\.print v\(\w+\)"],
    "WRspice": [r"\.tran \S+ \S+ 0 \S+ uic", r"\.print tran v\(\w+\)", r"\.ic v\(\w+\)=\S+"],
}
CARDS = [
    r"[CLR]\w* \w+ \w+ [\d.e+-]+", r"K\w* L\w+ L\w+ [\d.e+-]+", r"B\w* \w+ \w+ jj\d+", rf"[IV]\w* \w+ \w+ {WAVE}",
    r"\.model jj\d+ jj\(icrit=[\d.e+-]+, rtype=0, [\w=., +-]+\)", r"\.end",
]  # fmt: skip


def check_superconducting(dialect):
    """A check of one simulator's decks."""

    def check(net, files, folder):
        """Every line is a form of its guide, every model is defined, and our own reader finds the same circuit."""
        (data,) = files.values()
        title, *lines = data.decode("ascii").splitlines()
        assert title.startswith("* ")
        forms = CARDS + GRAMMAR[dialect.name]
        wrong = [line for line in lines if not any(re.fullmatch(form, line) for form in forms)]
        assert not wrong, wrong[0]
        defined = {line.split()[1] for line in lines if line.startswith(".model")}
        assert {line.split()[3] for line in lines if line[0] == "B"} == defined
        names = [line.split()[0].lower() for line in lines if line[0] != "."]
        assert len(names) == len(set(names))
        assert lines[-1] == ".end"
        assert wiring(spice.read(readable(data.decode()))) == wiring(net)

    return check


check_josim, check_wrspice = check_superconducting(josim.JOSIM), check_superconducting(josim.WRSPICE)


# Verilog ------------------------------------------------------------------------------------------------------------


def openvaf(text, folder):
    """Modules of Verilog-A text by name, compiled."""
    compiler = pytest.importorskip("openvaf_py", reason="openvaf-py is not installed: pip install openvaf-py")
    (folder / "modules.va").write_text(text, encoding="utf-8")
    return {m.name: m for m in compiler.compile_va(str(folder / "modules.va"))}


def check_verilog_a(net, files, folder):
    """OpenVAF compiles the modules, and every element that is placed has its module and its parameters."""
    text = files["elements.va"].decode()
    modules = openvaf(text, folder)
    placed = re.findall(r"^// \.model \w+ (\w+) (.*)$", text, re.MULTILINE)
    assert {kind for kind, _ in placed} == set(modules)
    for kind, values in placed:
        assert {v.split("=")[0] for v in values.split()} <= set(modules[kind].get_param_defaults())


def simulated(files, folder):
    """What the test bench of a module prints, by Icarus Verilog."""
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed: apt-get install iverilog")
    for name, text in files.items():
        (folder / name).write_text(text)
    command = ["iverilog", "-g2005", "-Wall", "-o", "test", "rhel_step.v", "rhel_step_test.v"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    done = subprocess.run(["vvp", "test"], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_vectors(net, files, folder):
    """The module passes its own test bench."""
    said = simulated({name: data.decode() for name, data in files.items()}, folder)
    assert said == f"PASS: {net.clock.steps} steps and their echo\n"
