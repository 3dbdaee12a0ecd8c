"""The command line: what it prints, what it writes, and what it does not load."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest

from devices import DETECTORS, DRIVES, ELEMENTS

PNG = b"\x89PNG\r\n\x1a\n"
PAIRS = [(i, j) for i in range(1, 7) for j in range(i + 1, 7)]

TANKS = """
[design]
name = "two tanks"

[elements.C1]
type = "capacitor"
nodes = ["n1", "gnd"]
capacitance = "1 pF"

[elements.L1]
type = "inductor"
nodes = ["n1", "gnd"]
inductance = "1 nH"

[elements.C2]
type = "capacitor"
nodes = ["n2", "gnd"]
capacitance = "1.5 pF"

[elements.L2]
type = "inductor"
nodes = ["n2", "gnd"]
inductance = "1.2 nH"

[elements.C12]
type = "capacitor"
nodes = ["n1", "n2"]
capacitance = "0.2 pF"

[elements.K12]
type = "mutual"
first = "L1"
second = "L2"
coefficient = 0.1

[drives.I1]
type = "current"
node = "n1"
waveform = { type = "sine", amplitude = "1 uA", frequency = "4 GHz" }

[initial.velocities]
n2 = "1 uV"

[time]
step = "2 ps"
steps = 200
"""

DECK = """two tanks
C1 n1 0 1p
L1 n1 0 1n
C2 n2 0 1.5p
L2 n2 0 1.2n
C12 n1 n2 0.2p
K12 L1 L2 0.1
I1 0 n1 SIN(0 1u 4G)
.ic v(n2)=1u
.tran 2p 400p uic
.end
"""


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


# Help and listings -----------------------------------------------------------------------------------------------


def test_help_names_every_command(call):
    text = call("--help")
    for word in ("elements", "check", "simulate", "demo", "netlists become Hamiltonians"):
        assert word in text


def test_every_element_and_drive_is_listed(call):
    text = call("elements")
    first_words = {line.split()[0] for line in text.splitlines() if line.strip()}
    assert {"capacitor", "josephson", "bilinear", "spring"} <= first_words
    others = {f"{name} drive" for name in DRIVES} | {f"{name} detector" for name in DETECTORS}
    assert set(json.loads(call("elements", "--json"))) == {*ELEMENTS, *others}
    assert "[detectors.homodyne1]" in call("elements", "homodyne")


def test_one_element_is_shown_in_full(call):
    text = " ".join(call("elements", "josephson").split())
    assert "josephson (electrical):" in text
    for words in ("terminals: a, b", "critical_current (A)", "greater than 0", "required", "1 − cos"):
        assert words in text
    (shown,) = json.loads(call("elements", "josephson", "--json")).values()
    assert shown["parameters"]["critical_current"]["unit"] == "A"
    assert shown["parameters"]["critical_current"]["default"] is None
    assert shown["refused"] == ""


def test_refused_elements_say_why(call):
    assert "time reversal" in json.loads(call("elements", "gyrator", "--json"))["gyrator"]["refused"]


def test_an_unknown_type_gets_a_suggestion(call):
    complaint = call("elements", "josefson", code=2)
    assert complaint.startswith("rhel-hw: Argument `TYPE`")
    assert "did you mean `josephson`?" in complaint
    assert len(complaint.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--help"], ["elements"], ["elements", "josephson"], ["check", "--help"]])
def test_listings_do_not_load_jax(arguments, tmp_path):
    code = (
        "import atexit, sys\n"
        "from rhel_hw.cli import main\n"
        "heavy = ('jax', 'matplotlib', 'networkx')\n"
        "atexit.register(lambda: print('loaded', [m for m in heavy if m in sys.modules], file=sys.stderr))\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == "loaded []\n"
    assert done.stdout


# Check -----------------------------------------------------------------------------------------------------------


def test_check_tells_about_the_toy(call):
    text = call("check", "toy")
    assert text.startswith("legal: six coupled oscillators\n")
    assert "6 coordinates, 27 trainable parameters" in text
    assert "modes from 146.4 mHz to 299.7 mHz; 1000 steps of 106.2 ms" in text
    assert "detunings of modes from −3.699 GHz to 2.846 GHz" in call("check", "ring-lattice")


def test_names_are_told_once_and_not_cut_in_secret(call):
    told = call("study", "lc", code=2)
    assert told.count("nitride-lattice") == 1
    assert call("elements", "xyz", code=2).rstrip().endswith(", …")


def test_check_gives_machines_the_same(call):
    report = json.loads(call("check", "toy", "--json"))
    assert set(report) == {"legal", "findings", "coordinates", "trainable", "frequencies_hz", "step_s"}
    assert report["legal"] is True
    assert [f for f in report["findings"] if f["severity"] == "error"] == []
    assert report["coordinates"] == [f"x{i}" for i in range(1, 7)]
    wanted = {f"m{i}.mass" for i in range(1, 7)} | {f"k{i}.constant" for i in range(1, 7)}
    assert set(report["trainable"]) == wanted | {f"k{i}{j}.constant" for i, j in PAIRS}
    assert len(report["trainable"]) == 27
    frequencies = report["frequencies_hz"]
    assert len(frequencies) == 6
    assert frequencies == sorted(frequencies)
    # The automatic step is 0.2/ω of a bound on the highest frequency, never longer than of the frequency itself.
    assert 0 < report["step_s"] <= 0.2 / (2 * math.pi * frequencies[-1]) * (1 + 1e-9)


def test_check_finds_the_frequency_of_a_tank(call, tmp_path):
    design = tmp_path / "tank.cir"
    design.write_text("one tank\nC1 n1 0 2p\nL1 n1 0 3n\n.end\n", encoding="utf-8")
    (frequency,) = json.loads(call("check", str(design), "--json"))["frequencies_hz"]
    assert frequency == pytest.approx(1 / (2 * math.pi * math.sqrt(2e-12 * 3e-9)), rel=1e-12)


# Simulate --------------------------------------------------------------------------------------------------------


def test_simulate_gives_machines_the_whole_run(call, tmp_path):
    run = json.loads(call("simulate", "toy", "--json", "--steps", "20"))
    assert set(run) == {
        "design", "stimulus", "times_s", "positions", "momenta", "units", "energies_j", "relative_energy_error",
        "signals", "validity", "files",
    }  # fmt: skip
    nodes = [f"x{i}" for i in range(1, 7)]
    assert list(run["positions"]) == list(run["momenta"]) == nodes
    assert run["units"]["positions"] == dict.fromkeys(nodes, "m")
    assert run["units"]["momenta"] == dict.fromkeys(nodes, "kg*m/s")
    step = json.loads(call("check", "toy", "--json"))["step_s"]
    np.testing.assert_allclose(run["times_s"], step * np.arange(1, 21), rtol=1e-12)
    for series in (*run["positions"].values(), *run["momenta"].values(), run["energies_j"]):
        assert len(series) == 20
        assert np.all(np.isfinite(series))
    assert max(map(abs, run["positions"]["x1"])) > 0
    assert run["files"] == files(tmp_path) == []


def test_simulate_tells_people_what_it_did(call, tmp_path):
    text = call("simulate", "toy", "--steps", "20", "--seed", "3")
    assert "six coupled oscillators: 20 steps of" in text
    assert "seed 3" in text
    assert "energy:" in text
    assert files(tmp_path) == []


def test_seeds_make_the_stimulus(call):
    first, again, other = (
        json.loads(call("simulate", "toy", "--json", "--steps", "20", "--seed", seed))["positions"]
        for seed in ("1", "1", "2")
    )
    assert first == again
    assert first["x1"] != other["x1"]


def test_plot_writes_one_figure(call, tmp_path):
    run = json.loads(call("simulate", "toy", "--json", "--steps", "20", "--plot", "--out", "figures/new"))
    assert files(tmp_path) == run["files"] == ["figures/new/toy-simulation.png"]
    assert (tmp_path / run["files"][0]).read_bytes().startswith(PNG)


def test_single_precision_is_near_double(call):
    double, single = (
        json.loads(call("simulate", "toy", "--json", "--steps", "20", "--precision", p))["positions"]["x1"]
        for p in ("float64", "float32")
    )
    assert single != double
    np.testing.assert_allclose(single, double, atol=1e-5 * np.max(np.abs(double)))  # 20 steps of 6e-8 each


@pytest.mark.slow
def test_integrators_differ_by_their_order(call, tmp_path):
    design = tmp_path / "free.toml"
    design.write_text(TANKS.partition("[drives.I1]")[0] + '[initial.velocities]\nn2 = "1 uV"\n', encoding="utf-8")
    errors = {
        name: json.loads(call("simulate", str(design), "--json", "--steps", "200", "--integrator", name))[
            "relative_energy_error"
        ]
        for name in ("leapfrog", "yoshida4", "yoshida6", "exact")
    }
    assert errors["leapfrog"] > 10 * errors["yoshida4"] > 100 * errors["yoshida6"] > 0
    assert errors["exact"] < 1e-12


def test_a_spice_deck_runs_as_the_same_design_file(call, tmp_path):
    runs = []
    for name, text in (("tanks.toml", TANKS), ("tanks.cir", DECK)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        runs.append(json.loads(call("simulate", name, "--json")))
    first, second = runs
    assert first["design"] == second["design"] == "two tanks"
    assert first["stimulus"] == second["stimulus"] == "the design's own waveforms"
    np.testing.assert_allclose(first["times_s"], second["times_s"], rtol=1e-12)
    assert len(first["times_s"]) == 200
    for key in ("positions", "momenta"):
        assert set(first[key]) == set(second[key]) == {"n1", "n2"}
        for node, series in first[key].items():
            scale = np.max(np.abs(series))
            assert scale > 0
            np.testing.assert_allclose(series, second[key][node], atol=1e-9 * scale, rtol=0)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--integrator", "leapfog"], ("`--integrator`", "did you mean `leapfrog`?")),
        (["--precision", "float16"], ("`--precision`", "did you mean `float")),
        (["--step", "-1 s"], ("time.step", "greater than 0")),
        (["--step", "1 pF"], ("time.step", "must be a time (s)")),
        (["--step", "1 hour"], ("time.step", "unstable")),
        (["--seed", "-1"], ("seed",)),
    ],
)
def test_wrong_options_are_refused(call, tmp_path, arguments, words):
    complaint = call("simulate", "toy", "--plot", *arguments, code=2)
    assert complaint.startswith("rhel-hw: ")
    assert len(complaint.splitlines()) == 1
    for word in words:
        assert word in complaint
    assert files(tmp_path) == []


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--steps", "1.5"], ["--stepps", "5"]])
def test_options_that_cannot_be_read_are_refused(call, tmp_path, arguments):
    assert arguments[0] in call("simulate", "toy", "--plot", *arguments, code=2)
    assert files(tmp_path) == []


def test_a_run_too_large_for_memory_is_refused_before_it_begins(tmp_path):
    code = (
        "import resource\n"
        "resource.setrlimit(resource.RLIMIT_AS, (6 * 2**30, 6 * 2**30))\n"
        "from rhel_hw.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "simulate", "toy", "--steps", "1000000000"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.stderr.startswith("rhel-hw: ")
    assert "steps" in done.stderr
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_a_file_in_the_way_is_refused(call, tmp_path):
    (tmp_path / "taken").write_text("mine", encoding="utf-8")
    for command in (["simulate", "toy", "--steps", "5", "--plot"], ["demo"]):
        complaint = call(*command, "--out", "taken", code=2)
        assert complaint.startswith("rhel-hw: Argument `--out` must be a folder")
        assert len(complaint.splitlines()) == 1
    assert files(tmp_path) == ["taken"]
    assert (tmp_path / "taken").read_text(encoding="utf-8") == "mine"


# Demo ------------------------------------------------------------------------------------------------------------


def test_demo_learns_on_a_bench_and_reports(call, tmp_path):
    """The main job end to end: an 8-bit bench, beside exact gradients and a control that must fail."""
    result = json.loads(call("demo", "--out", "shown", "--json"))
    assert result["return_error"] < 1e-12  # 2000 steps of rounding at 1e-16
    assert result["trainable"] == 21
    assert result["profile"]["readout"]["bits"] == 8
    assert result["relative_energy_error"] < 0.01
    assert result["gradient"]["cosine_to_bptt"] > 0.99
    bench, exact, control = result["training"].values()
    assert bench["losses"][0] / bench["ideal_loss"] > 100
    assert exact["losses"][0] / exact["ideal_loss"] > 100
    assert control["losses"][0] / control["ideal_loss"] < 2
    assert sum(run["seconds"] for run in result["training"].values()) < 90
    names = [*(f"shown/lc-toy-{name}.png" for name in ("echo", "learning", "losses")), "shown/report.html"]
    assert files(tmp_path) == sorted(result["files"]) == sorted(names)
    for file in names[:-1]:
        assert (tmp_path / file).read_bytes().startswith(PNG)
    page = (tmp_path / names[-1]).read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 3
    assert "http" not in page  # nothing from outside
    for words in ("six coupled LC oscillators", "readout.bits", "shuffled control", "once per chip"):
        assert words in page


@pytest.mark.slow
def test_demo_tells_people_what_it_did(call, monkeypatch):
    """On another family, with a few moves only."""
    from rhel_hw import settings
    from rhel_hw.training import Training

    monkeypatch.setattr(settings, "training", lambda *_: Training(steps=2, rate=0.02))
    text = call("demo", "--design", "josephson-ladder", "--profile", "bench-12bit")
    for words in ("15 trainable", "it returns to its start within", "BPTT", "shuffled", "report.html"):
        assert words in text


def test_the_gallery_is_listed_and_others_are_refused(call):
    assert {"toy", "ring-lattice", "kerr-chain", "spin-chain", "vortex-array", "mixed"} <= set(
        json.loads(call("gallery", "--json"))
    )
    assert "ring-lattice" in call("demo", "--design", "ring-latice", code=2)


def test_simulate_warns_where_a_model_is_left(call, tmp_path):
    (tmp_path / "spin.toml").write_text(
        """[elements.M1]
type = "macrospin"
node = "s"
magnetisation = "800 kA/m"
volume = "2.5e-23 m**3"
field = "50 mT"
[detectors.r]
type = "magnetoresistive"
node = "s"
[initial.positions]
s = "1 rad"
"""
    )
    assert "M1: 2." in call("simulate", "spin.toml", "--steps", "200")
    run = json.loads(call("simulate", "spin.toml", "--steps", "200", "--json"))
    assert run["validity"][0]["element"] == "M1"
    assert run["validity"][0]["used"] > 2
    assert max(run["signals"]["r"]) > 1800  # ohm: 1 kΩ parallel, 2 kΩ antiparallel, read across
    assert run["units"]["signals"] == {"r": "ohm"}
