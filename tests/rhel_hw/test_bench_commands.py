"""Commands that put designs on benches: train, gradient with a profile, profiles."""

import json

import pytest

from circuits.generators import ladder
from rhel_hw import Profile, settings
from rhel_hw.cli.learning import _print_bench
from rhel_hw.compare import BenchCompared
from rhel_hw.profile import settings as every_setting
from rhel_hw.profiles import PROFILES

FEW = ["--steps", "4"]


def test_train_tells_machines_and_people(call, tmp_path):
    options = ["--profile", "bench-8bit", "--set", "readout.bits=6", "--set", "readout.noise=0", *FEW]
    document = json.loads(call("train", "lc-toy", *options, "--plot", "--out", "made", "--json"))
    assert document["profile"]["readout"]["bits"] == 6
    assert document["profile"]["drive"]["bits"] == 12
    assert len(document["losses"]) == 5
    assert document["learning"]["gamma"] > 0  # found by pilots
    assert set(document["parameters"]) == set(document["hidden"])
    assert (tmp_path / document["files"][0]).exists()
    text = call("train", "lc-toy", *options, "--gamma", "1000")
    for words in ("not ideal: drive.bits = 12", "passes", "hidden", "L12.inductance"):
        assert words in text


@pytest.mark.slow
def test_gradient_takes_a_profile(call):
    options = ["--steps", "60", "--set", "fabrication.mismatch=0.002", "--chips", "5", "--methods", "rhel"]
    document = json.loads(call("gradient", "toy", *options, "--json"))
    bench = document["bench"]
    assert len(bench["cosines"]) == len(bench["norm_ratios"]) == 5
    assert len(set(bench["cosines"])) == 5
    assert all(0.9 < c < 1 for c in bench["cosines"])
    assert "over 5 chips" in call("gradient", "toy", *options)
    assert json.loads(call("gradient", "toy", "--steps", "60", "--methods", "rhel", "--json"))["bench"] is None


def test_a_gradient_that_vanishes_on_a_bench_is_said_to(capsys):
    found = BenchCompared({"L.inductance": 0.0}, (None,), (0.0,), 3, 1e-6, 0.1, 1e-3, 1.0, 2e-5, {}, ())
    _print_bench("at bench.npz", found)
    assert "none, the gradient vanishes" in capsys.readouterr().out


@pytest.mark.slow
def test_design_files_may_bring_a_profile(call, tmp_path):
    file = tmp_path / "design.toml"
    section = '\n[profile]\npreset = "bench-8bit"\n[profile.readout]\nbits = 7\n[learning]\nshots = 2\nepsilon = 0.1\n'
    file.write_text(ladder(3).to_toml() + section)
    document = json.loads(call("train", str(file), "--steps", "1", "--json"))
    assert document["profile"]["readout"]["bits"] == 7
    assert document["learning"]["shots"] == 2
    assert "legal" in call("check", str(file))
    from circuits import Netlist

    netlist = Netlist.load(file)
    file.write_text(netlist.to_toml())
    assert Netlist.load(file) == netlist
    deck = tmp_path / "design.cir"
    deck.write_text(netlist.to_spice())
    assert settings.profile(Netlist.load(deck)) == settings.profile(netlist)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--set", "readout.bits=0"], "profile.readout.bits: must be a whole number from 1 to 64, but is 0"),
        (["--set", "readout.bits=65"], "profile.readout.bits: must be a whole number from 1 to 64"),
        (["--set", "readout.full_scale=0"], "profile.readout.full_scale: must be greater than 0"),
        (["--set", "readout.noise=-1"], "profile.readout.noise: must be at least 0"),
        (["--set", "readout.bitts=8"], "did you mean `bits`"),
        (["--set", "readout.bits"], "`--set` must read like readout.bits=6"),
        (["--set", "bits=6"], "must be a section and a setting"),
        (["--profile", "bench-9bit"], "must be a .toml or .json file or a preset, but is 'bench-9bit'"),
        (["--profile", "none.toml"], "cannot be read"),
        (["--profile", "spintronic-room-temperature"], "profile.dynamics.damping. must be left out"),
        (["--set", "readout.memory=10"], "must fit into the memory of 10 samples"),
        (["--set", 'readout.unwired=["position.n9"]'], "must name channels, but has 'position.n9'"),
        (["--gamma", "much"], '`--gamma` must be a number or "auto"'),
        (["--stencil", "center"], "learning.stencil"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_train_refuses_by_name(call, options, message):
    complaint = call("train", "lc-toy", "--steps", "1", *options, code=2)
    assert message.replace("damping.", "damping`") in complaint
    assert len(complaint.splitlines()) == 1


def test_ideal_choices_are_not_for_benches(call, tmp_path):
    file = tmp_path / "design.toml"
    file.write_text(ladder(3).to_toml() + '\n[learning]\nnudging = "self-consistent"\n')
    assert "learning.nudging: 'self-consistent' is for the ideal circuit" in call("train", str(file), code=2)


# Profiles -----------------------------------------------------------------------------------------------------------


def test_presets_are_listed_with_their_sources(call):
    assert (
        set(json.loads(call("profiles", "--json")))
        == set(PROFILES)
        >= {
            "ideal",
            "bench-8bit",
            "bench-12bit",
            "cryogenic-superconducting",
            "silicon-photonics",
            "spintronic-room-temperature",
            "fpga-fixed-point",
        }
    )
    text = call("profiles", "bench-8bit")
    assert "source: Keysight" in text
    assert "readout.noise = 0.001" in text
    assert "nothing differs from ideal" in call("profiles", "ideal")
    assert "readout.bits = 4" in call("profiles", "bench-8bit", "--set", "readout.bits=4")
    assert "did you mean `bench-8bit`" in call("profiles", "bench8bit", code=2)


@pytest.mark.parametrize("name", PROFILES)
def test_every_number_of_a_preset_has_an_origin(name):
    preset = PROFILES[name]
    told = {**preset.sources, **preset.assumptions}
    wanted = set(preset.profile.differences()) | {f"learning.{k}" for k, _ in preset.profile.learning}
    assert set(told) == wanted
    assert all(text.strip() for text in told.values())


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("form", ["toml", "json"])
def test_profiles_survive_files(name, form, tmp_path):
    from circuits.formats.toml import _block

    profile, file = Profile.preset(name), tmp_path / f"profile.{form}"
    tables = profile.to_dict()
    text = json.dumps(tables) if form == "json" else "\n".join(_block(k, v) for k, v in tables.items())
    file.write_text(text)
    assert Profile.load(file) == profile


def test_every_setting_is_listed(call):
    found = json.loads(call("profiles", "--settings", "--json"))
    assert [s["path"] for s in found] == [s.path for s in every_setting()]
    assert all(s["scope"] and s["doc"] for s in found)
    assert "readout.digitise" in call("profiles", "--settings")
