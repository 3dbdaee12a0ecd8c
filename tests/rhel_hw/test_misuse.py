"""Whatever is typed, the command line ends with 0 or 2 and without a traceback: seeded random misuse, in this process.

Every line for a command that computes has at least one thing wrong that must be noticed before any computing.
"""

import random
import subprocess
import sys
import time

import pytest
import typer.main

import rhel_hw.cli
from rhel_hw.cli import app, main

LINES = 500
LIMIT_S = 5.0
"""Of processor time for a line: what is wrong must be seen before there is anything to compute."""
COMMAND = typer.main.get_command(app)
TREE = COMMAND.commands
RIGHT = {
    "gallery": ("--json", "--quiet"),
    "elements": ("inductor", "josephson", "coherent"),
    "presets": ("yig-disc", "--json"),
    "profiles": ("bench-8bit", "ideal", "--settings"),
    "new": ("mine", "yours.toml", "a-b_c.2"),
    "check": ("toy", "lc-toy", "--help"),
}
"""Commands that compute next to nothing, of which anything may be asked, and something that is right."""
GOOD_DESIGN = "toy"
BAD_DESIGNS = (
    "", "-", ".", "..", "toi", "lc-toy.toml", "missing.toml", "nowhere/missing.cir", "folder", "binary.toml",
    "empty.toml", "broken.toml", "broken.cir", "empty.cir", "image.png", "ohm.toml", "\u03b3.toml", "a" * 300, "-5",
    "file\nname.toml",
)  # fmt: skip
ODD_WORDS = (
    "", " ", "x", "auto", "none", "-1", "0", "1.5", "nan", "inf", "-inf", "1e400", "1e-400", "10" * 30, "0x10",
    "1_000", "[bold]", "[/]", "{}", "%s", "\u03b3", "\U0001f9f2", "a=b", "=", "..", "../..", "taken", "taken/below",
    "folder", "/dev/null", "\x1b[31m", "\udcff", "true", "2 GB", "5 ps", "readout.bits=6", "a" * 2000,
)  # fmt: skip
NUMBERS = ("0", "1", "2", "-3", "2.5", "0.1", "1e-3", "nan")
BAD_SETTINGS = (
    "", "=", "readout", "readout.bits", "readout.bits=", "readout.bitz=6", "radout.bits=6", "readout.bits=0",
    "readout.bits=many", "readout.bits=65", "readout.noise=nan", "readout.noise=-1", "readout.full_scale=[1,2",
    "fabrication.mismatch={}x", "dynamics.precision=float17", "readout=6", "=6", "....=1", "echo.gain=0",
)  # fmt: skip
BAD_PROFILES = ("", "bench-9bit", "missing.json", "broken.toml", "binary.toml", "folder", "image.png", "empty.cir")
FAULTS = {  # of commands that compute, what is certainly refused: a design, an option, or both
    "demo": [("--design", BAD_DESIGNS), ("--profile", BAD_PROFILES)],
    "fit": [
        ("DATA", BAD_DESIGNS[1:]),
        ("--method", ("", "RHEL", "x")),
        ("--split", ("", "half")),
        ("--units", ("cubic",)),
    ],
    "study": [("NAME", ("", "toys", "Toy", "x")), ("NAME", ("toy --paper", "toy --data folder", "thermal --data x"))],
    "benchmark": [("NAME", ("", "gradients", "-")), ("NAME", ("scan --rounds 0", "gradient --rounds many"))],
    "calibrate": [
        ("DESIGN", BAD_DESIGNS),
        ("--bench", ("nowhere", "TCPIP::127.0.0.1::1::SOCKET", "x::y", "image.npz")),
    ],
    "record": [("DESIGN", BAD_DESIGNS), ("SOURCE", ("", "missing", "image.png", "empty.cir"))],
    "train": [("--bench", ("nowhere", "TCPIP::127.0.0.1::1::SOCKET", "x::y", "image.npz", "::"))],
    "sweep": [("--axis", ("", "=", "readout.bits", "readout.bits=", "a=1..b", "seed=9..0", "x=log:1", "memory=4"))],
    "export": [("--to", ("", "pdf", "SPICE")), ("--series", ("E7", "")), ("--trained", ("missing.npz", "image.png"))],
    "gradient": [
        ("--methods", ("", "rehl", "rhel,,x")),
        ("--gamma", ("", "often", "nan", "0")),
        ("--integrator", ("rk4",)),
    ],
    "simulate": [("--step", ("", "5", "5 pF", "-1 s", "nan s", "1 hour")), ("--precision", ("float16", ""))],
    "serve": [("--second", ("", "fight")), ("--host", ("", "256.1.1.1", "no such host"))],
    "show": [("--chip", ("-1", "x")), ("--out", ("folder", "nowhere/page.html"))],
}
for _name in ("train", "sweep", "export", "gradient", "simulate", "serve", "show"):
    FAULTS[_name].append(("DESIGN", BAD_DESIGNS))
for _name in ("train", "sweep", "gradient", "serve", "show", "calibrate"):
    FAULTS[_name] += [("--profile", BAD_PROFILES), ("--set", BAD_SETTINGS)]
NO_SUCH = ("--jason", "--", "-", "-x", "---", "--set=", "--no-json", "--help=1", "extra", "--steps", "--out")


def option_text(rng, option):
    """An option of a command, with something after it if it takes a value."""
    if option.is_flag:
        return [rng.choice(option.opts + option.secondary_opts)]
    return [option.opts[0], rng.choice(ODD_WORDS if rng.random() < 0.5 else NUMBERS)]


def options_of(name):
    return [p for p in TREE[name].params if p.param_type_name == "option" and p.name not in ("help", "browser")]


def line(rng):
    """A command line."""
    kind = rng.random()
    if kind < 0.06:  # none of the commands
        return [rng.choice([*ODD_WORDS[1:], "trian", "--version", "--help", "-q", "-v -q", "--vrsion"])]
    if kind < 0.5:
        name = rng.choice(list(RIGHT))
        words = RIGHT[name] if rng.random() < 0.6 else (*ODD_WORDS, *BAD_DESIGNS)
        typed = [name, *rng.choices(words, k=1 if rng.random() < 0.8 else rng.choice([0, 2]))]
        faults = []
    else:
        name = rng.choice(list(FAULTS))
        where, values = rng.choice(FAULTS[name])
        value, *rest = rng.choice(values).split(" ") if where == "NAME" else [rng.choice(values)]
        own = {"DESIGN": GOOD_DESIGN, "DATA": "delayed-recall", "SOURCE": "folder"}
        wanted = [p.upper() for p in (a.name for a in TREE[name].params if a.param_type_name == "argument")]
        typed = [name, *(value if p == where else own.get(p, GOOD_DESIGN) for p in wanted)]
        faults = rest if where in wanted else [where, value]
    more = [word for p in rng.sample(options_of(name), min(rng.choice([0, 0, 1, 2, 3]), len(options_of(name))))
            for word in option_text(rng, p) if p.opts[0] not in faults]  # fmt: skip
    # What is certainly wrong comes late: of an option given twice the last one counts.
    return [*typed, *more, *faults, *([rng.choice(NO_SUCH)] if rng.random() < 0.1 else [])]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with files of all wrong kinds."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "taken").write_text("mine")
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "image.npz").write_bytes(b"PK\x03\x04 not really")
    (tmp_path / "empty.toml").write_text("")
    (tmp_path / "empty.cir").write_text("")
    (tmp_path / "broken.toml").write_text("[elements\nC1 = ")
    (tmp_path / "broken.cir").write_text("title\nC1 1\nQ1 a b c\n.include /etc/passwd\n")
    (tmp_path / "ohm.toml").write_text(
        '[elements.C1]\ntype = "capacitor"\nnodes = ["a", "gnd"]\ncapacitance = "1 ohm"\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(rhel_hw.cli, "app", COMMAND)  # which is made of it for every line otherwise
    return tmp_path


def tried(typed, capsys, monkeypatch):
    """Exit code, what was printed and complained, and how long it took."""
    monkeypatch.setattr(sys, "argv", ["rhel-hw", *typed])
    capsys.readouterr()
    begun = time.process_time()
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code or 0, *capsys.readouterr(), time.process_time() - begun


def ended(typed, given, capsys, monkeypatch):
    """The same of a line that ended as all must, and what to say of it; `given` is what it was about."""
    words = f"rhel-hw {' '.join(map(repr, typed))}"
    try:
        code, printed, complaint, took = tried(typed, capsys, monkeypatch)
    except BaseException as problem:
        raise AssertionError(f"{words}: {problem!r}\n{given}") from problem
    told = f"{words}: {code} after {took:.1f} s\n{complaint}\n{given}"
    assert code in (0, 2), told
    assert "Traceback" not in printed + complaint, told
    return code, printed, complaint, took, told


def fuzzed(seed, count, capsys, monkeypatch):
    rng, codes = random.Random(seed), []
    for _ in range(count):
        typed = line(rng)
        code, printed, complaint, took, told = ended(typed, "", capsys, monkeypatch)
        assert took < LIMIT_S, told
        assert code == 0 or complaint.strip() or "Usage" in printed, told
        messages = [text for text in complaint.splitlines() if not text.startswith("rhel-hw: warning: ")]
        if complaint.startswith("rhel-hw: "):
            assert len(messages) == 1, told
            assert messages[0].isprintable(), told
        if typed[0] in FAULTS and "--help" not in typed:
            assert code == 2, told
        codes.append(code)
    return codes


def test_500_random_lines_end_without_a_traceback(place, capsys, monkeypatch):
    codes = fuzzed(0, LINES, capsys, monkeypatch)
    assert len(codes) == LINES
    assert 0.05 < codes.count(0) / LINES < 0.5  # both kinds are tried
    assert (place / "taken").read_text() == "mine"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_thousands_of_others_do_too(seed, place, capsys, monkeypatch):
    fuzzed(seed, 4 * LINES, capsys, monkeypatch)


@pytest.mark.parametrize(
    "typed",
    [["trian", "toy"], ["check", "missing.toml"], ["elements", "\u03b3"], ["new", "../up"], ["profiles", "--set", "x"]],
    ids=lambda typed: typed[0],
)
def test_processes_do_as_well(typed, place):
    """Also where output has no Greek letters."""
    done = subprocess.run(
        [sys.executable, "-m", "rhel_hw.cli", *typed],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr
    assert b"Traceback" not in done.stdout + done.stderr


# What is right, and computed, but far from anything sensible ---------------------------------------------------------

SIZES = ("0", "1e-300", "1e-12", "0.1", "1", "10", "1e6", "1e300")
EXTREMES = {  # options of commands that compute, any of which may be given
    "simulate": [
        ("--steps", ("1", "2", "7")),
        ("--step", ("1e-30 s", "1 fs", "1 ns", "1 us", "1e30 s")),
        ("--integrator", ("leapfrog", "yoshida6", "exact")),
        ("--precision", ("float32", "float64")),
        ("--seed", ("0", "4294967296")),
    ],
    "gradient": [
        ("--steps", ("1", "2", "7")),
        ("--gamma", (*SIZES[1:], "auto")),
        ("--epsilon", SIZES[1:]),
        ("--precision", ("float32", "float64")),
        ("--stencil", ("one-sided", "richardson")),
        ("--profile", ("ideal", "bench-8bit")),
        ("--chips", ("1", "2")),
    ],
    "train": [("--steps", ("1", "2")), ("--rate", SIZES[1:]), ("--gamma", SIZES[1:]), ("--epsilon", SIZES[1:])],
    "sweep": [
        ("--axis", ("learning.gamma=1e-300,1,1e300", "profile.readout.noise=0,1e-300,1e300", "seed=0,1")),
        ("--axis", ("profile.readout.bits=1,2,64", "task.spread=0,1e-9,5", "chip=0,1")),
    ],
    "export": [("--to", ("spice", "bom", "schematic", "kicad")), ("--series", ("E3", "E96", "none"))],
    "check": [],
}
KNOBS = (
    "readout.bits=1", "drive.bits=1", "nudge.bits=2", *(f"readout.noise={x}" for x in SIZES),
    *(f"readout.full_scale={x}" for x in SIZES[1:]), *(f"echo.gain={x}" for x in SIZES[1:]), "echo.angle=3.1",
    *(f"dynamics.quality={x}" for x in SIZES[1:]), "dynamics.temperature=1e9", "dynamics.precision=Q2.3",
    "fabrication.mismatch=3", "readout.gain=0", "drive.gain=1e300",
)  # fmt: skip


def extreme_design(rng):
    """Two tanks, with values from too small to too large."""

    def value(unit):
        return f"{10.0 ** rng.choice([-30, -12, -9, -6, 0, 3]):g} {unit}"

    usual = rng.random() < 0.6
    capacitance, inductance = ("1 nF", "25 uH") if usual else (value("F"), value("H"))
    coupling = value("H") if rng.random() < 0.5 else "100 uH"
    steps = rng.choice([1, 2, 5, 9])
    return f"""[elements]
T1 = {{ type = "tank", nodes = ["a", "gnd"], capacitance = "{capacitance}", inductance = "{inductance}" }}
T2 = {{ type = "tank", nodes = ["b", "gnd"], capacitance = "1 nF", inductance = "25 uH" }}
L12 = {{ type = "inductor", nodes = ["a", "b"], inductance = "{coupling}", trainable = true }}
[drives]
u0 = {{ type = "current", node = "a" }}
[targets]
y0 = {{ node = "b" }}
[time]
steps = {steps}
"""


def extreme_line(rng, number):
    name = rng.choice(list(EXTREMES))
    chosen = rng.sample(EXTREMES[name], rng.randint(min(1, len(EXTREMES[name])), len(EXTREMES[name])))
    typed = [name, "extreme.toml", *(word for option, values in chosen for word in (option, rng.choice(values)))]
    if name in ("train", "sweep") or "--profile" in typed:
        typed += ["--set", rng.choice(KNOBS)] if rng.random() < 0.7 else []
    if name in ("sweep", "export"):
        typed += ["--out", f"out{number}"]
    return typed


def extremes(seed, count, place, capsys, monkeypatch):
    rng, codes = random.Random(seed), []
    for number in range(count):
        design = extreme_design(rng)
        (place / "extreme.toml").write_text(design)
        typed = extreme_line(rng, number)
        code, printed, complaint, _, told = ended(typed, design, capsys, monkeypatch)
        assert code == 0 or complaint.strip() or "not legal" in printed, told
        codes.append(code)
    return codes


def test_extreme_numbers_end_without_a_traceback(place, capsys, monkeypatch):
    codes = extremes(0, 12, place, capsys, monkeypatch)
    assert 0 in codes
    assert 2 in codes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
def test_more_extreme_numbers_do_too(seed, place, capsys, monkeypatch):
    extremes(seed, 60, place, capsys, monkeypatch)
