"""The catalogue: every preset builds and compiles, and every number says where it comes from."""

import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.special import elliprd

from circuits import DesignError, Netlist
from circuits.formats import toml
from devices import ELEMENTS, ArgumentError, Capacitor
from devices.catalogue import CATALOGUE, read

presets = pytest.mark.parametrize("name", CATALOGUE)
COMPANIONS = {
    "josephson": lambda: [Capacitor("C1", "n1", "gnd", "80 fF")],
    "kerr": lambda: [CATALOGUE["silicon-nitride-ring"].part("R1", "n1", detuning="1 GHz")],
}
"""What a preset needs beside it to oscillate."""
CHANGES = {"ring": {"detuning": "1 GHz"}}
"""What it must be told to oscillate: on resonance a ring stands still."""
MU_0 = 1.25663706212e-6

JUNCTION = """
[elements.C1]
type = "capacitor"
nodes = ["n1", "gnd"]
capacitance = "80 fF"

[elements.J1]
preset = "aluminium-junction"
nodes = ["n1", "gnd"]
"""


def part(name, **changes):
    entry = CATALOGUE[name]
    return entry.part("P1", *["n1", "gnd"][: len(ELEMENTS[entry.type].terminals)], **changes)


@presets
def test_builds_an_element_whose_parameters_are_read(name):
    entry, made = CATALOGUE[name], part(name)
    assert made.type == entry.type
    for key, value in entry.values.items():
        assert getattr(made, key) == made.parameters[key].read(value)


@presets
def test_every_parameter_has_either_a_source_or_an_assumption(name):
    entry = CATALOGUE[name]
    assert entry.name == name
    assert entry.summary
    assert set(entry.values) == set(entry.sources) | set(entry.assumptions)
    assert not set(entry.sources) & set(entry.assumptions)
    assert all(text.startswith(("order of magnitude: ", "choice: ")) for text in entry.assumptions.values())


@presets
def test_compiles_alone_or_with_what_it_needs(name):
    entry = CATALOGUE[name]
    parts = [*COMPANIONS.get(entry.type, list)(), part(name, **CHANGES.get(entry.type, {}))]
    netlist = Netlist("preset", parts)
    assert np.all(netlist.compile(steps=10).frequencies_hz > 0)
    assert toml.read(netlist.to_toml()) == netlist


@pytest.mark.parametrize(
    ("name", "size"),
    [("nife-nanopillar", (160, 80, 5)), ("cofeb-nanopillar", (150, 70, 2)), ("yig-disc", (700, 700, 20))],
)
def test_shape_gives_the_numbers_of_magnets(name, size):
    """Demagnetising factors of an ellipsoid by Carlson's integral, and Kittel's formula with all three of them."""
    made = part(name)
    x, y, z = (np.prod(size) / 3 * elliprd(*(b**2 for b in (*size[:i], *size[i + 1 :], size[i]))) for i in range(3))
    assert x + y + z == pytest.approx(1, rel=1e-12)
    # Presets have three digits.
    assert made.volume == pytest.approx(np.pi / 4 * np.prod(size) * 1e-27, rel=5e-3)
    assert made.demagnetisation == pytest.approx(z - y, abs=1e-3)
    pull = MU_0 * made.magnetisation
    assert getattr(made, "anisotropy", 0) == pytest.approx(pull * made.magnetisation * (y - x) / 2, rel=5e-3)
    softening = 2 * getattr(made, "perpendicular_anisotropy", 0) / made.magnetisation
    kittel = np.sqrt((made.field + pull * (y - x)) * (made.field + pull * (z - x) - softening))
    (frequency,) = Netlist("magnet", [made]).compile(steps=10).frequencies_hz
    assert frequency == pytest.approx(made.gyromagnetic_ratio * kittel / (2 * np.pi), rel=5e-3)


def test_changes_replace_values_and_make_them_trainable():
    made = part("aluminium-junction", critical_current="20 nA", trainable=True)
    assert made.critical_current == pytest.approx(20e-9, rel=1e-15)
    assert made.trainable == ("critical_current",)


@pytest.mark.parametrize(
    ("nodes", "changes", "message"),
    [
        (["n1"], {}, "Argument `nodes` must name 2 for preset 'aluminium-junction', a josephson, but there are 1"),
        (["n1", "gnd"], {"critical_curent": 1e-9}, "did you mean `critical_current`?"),
        (["n1", "gnd"], {"critical_current": "1 V"}, "Argument `critical_current` of josephson 'P1' must be a current"),
    ],
)
def test_wrong_parts_are_refused(nodes, changes, message):
    with pytest.raises(ArgumentError) as caught:
        CATALOGUE["aluminium-junction"].part("P1", *nodes, **changes)
    assert message in str(caught.value)


HEAD = 'summary = "x"\ntype = "josephson"\n[critical_current]\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "Argument `text` of preset 'x' must be TOML, but is not"),
        ('type = "josephson"', "Argument `summary` of preset 'x' must be a text, but is None"),
        ('summary = "x"\ntype = "josefson"', "did you mean `josephson`?"),
        ('summary = "x"\ntype = "josephson"', "Argument `critical_current` of preset 'x' must be given"),
        ('summary = "x"\ntype = "josephson"\n[flux]\nvalue = 1', "must be a parameter of josephson, but is none"),
        ('summary = "x"\ntype = "josephson"\ncritical_current = 1', "must be a table with a value"),
        (HEAD + 'source = "book"', "must be a table with a value"),
        (HEAD + "value = 1", "must have a value and either a source or an assumption, but has value"),
        (HEAD + 'value = 1\nsource = "a"\nassumption = "b"', "but has value, source, assumption"),
        (HEAD + 'value = 1\nsource = "a"\nnote = "b"', "but has value, source, note"),
        (HEAD + 'value = 1\nsource = " "', "Argument `critical_current.source` of preset 'x' must be a text"),
        (HEAD + 'value = "1 V"\nsource = "a"', "Argument `critical_current` of preset 'x' must be a current"),
        (HEAD + 'value = "1 qq"\nsource = "a"', "cannot be read: `qq` is not a known unit"),
    ],
)
def test_wrong_files_are_refused(text, message):
    with pytest.raises(ArgumentError) as caught:
        read("x", text)
    assert message in str(caught.value)


def test_a_design_file_may_name_a_preset():
    junction = toml.read(JUNCTION).elements[1]
    assert junction == CATALOGUE["aluminium-junction"].part("J1", "n1", "gnd")
    same = toml.read(JUNCTION + 'type = "josephson"\n').elements[1]
    assert same == junction
    other = toml.read(JUNCTION + 'critical_current = "20 nA"\ntrainable = true\n').elements[1]
    assert other == CATALOGUE["aluminium-junction"].part("J1", "n1", "gnd", critical_current="20 nA", trainable=True)


def test_written_files_hold_values_and_no_preset():
    netlist = toml.read(JUNCTION)
    text = netlist.to_toml()
    assert "preset" not in text
    assert 'critical_current = "30 nA"' in text
    assert toml.read(text) == netlist


@pytest.mark.parametrize(
    ("old", "new", "where", "reason"),
    [
        ("aluminium-junction", "aluminum-junction", "elements.J1.preset", "did you mean `aluminium-junction`?"),
        ('"aluminium-junction"', "[1]", "elements.J1.preset", "`[1]` is no preset"),
        (
            'preset = "alum',
            'type = "squid"\npreset = "alum',
            "elements.J1.type",
            "`squid` contradicts preset `aluminium-junction`, which is of type `josephson`",
        ),
        ('preset = "alum', 'flux = 1\npreset = "alum', "elements.J1.flux", "is no key here"),
        ('type = "capacitor"', 'type = "capacitor"\npreset = "capacitor"', "elements.C1.preset", "is no preset"),
    ],
)
def test_wrong_presets_are_findings(old, new, where, reason):
    with pytest.raises(DesignError) as caught:
        toml.read(JUNCTION.replace(old, new))
    (finding,) = caught.value.legality.errors
    assert finding.element == where
    assert reason in finding.reason
    assert finding.remedy


def test_importing_devices_reads_no_preset():
    code = "import sys, devices; sys.exit('devices.catalogue' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    code = "from devices.catalogue import CATALOGUE; assert not CATALOGUE._names.cache_info().misses"
    code += "; list(CATALOGUE); assert not CATALOGUE._load.cache_info().misses"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def run(monkeypatch, capsys, *arguments):
    from rhel_hw.cli import main

    monkeypatch.setattr(sys, "argv", ["rhel-hw", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()


def test_command_lists_presets(monkeypatch, capsys):
    code, shown = run(monkeypatch, capsys, "presets", "--json")
    assert code == 0
    listed = json.loads(shown.out)
    assert list(listed) == list(CATALOGUE)
    for name, item in listed.items():
        assert {key: info["value"] for key, info in item["parameters"].items()} == dict(CATALOGUE[name].values)
        assert all(("source" in info) != ("assumption" in info) for info in item["parameters"].values())
    code, shown = run(monkeypatch, capsys, "presets")
    assert code == 0
    assert all(name in shown.out for name in CATALOGUE)


@presets
def test_command_shows_one_with_a_snippet_that_reads(name, monkeypatch, capsys):
    code, shown = run(monkeypatch, capsys, "presets", name)
    assert code == 0
    made = toml.read(shown.out[shown.out.index("[elements.") :]).elements[0]
    assert made.type == CATALOGUE[name].type


def test_command_refuses_an_unknown_name(monkeypatch, capsys):
    code, shown = run(monkeypatch, capsys, "presets", "silicon-rink")
    assert code == 2
    assert "Argument `NAME` must be a preset, but is 'silicon-rink'; did you mean `silicon-ring`?" in shown.err
