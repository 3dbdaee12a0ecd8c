"""What the README shows is run as it stands."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from circuits.formats import toml
from circuits.gallery import GALLERY
from rhel_hw import RHEL, EchoLearner, Profile, Teacher, Training, settings, simulate_design
from studies.sweeps import Sweep

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"<!-- run by tests/test_readme.py -->\n```{language}\n(.*?)```", README, re.DOTALL)


@pytest.mark.parametrize("count", [2, pytest.param(None, marks=pytest.mark.slow)], ids=["first", "all"])
def test_python_examples(tmp_path, monkeypatch, count):
    """Programs go on from those above them; the first two in `make test`, which has models and sweeps elsewhere."""
    monkeypatch.chdir(tmp_path)
    names = {}
    for program in blocks("python")[:count]:
        exec(program, names)
    apart = np.abs(names["there"]["position.n3"] - names["back"]["position.n3"][::-1])
    assert np.max(apart) < 0.05 * names["told"].channels["position.n3"].full_scale  # eight bits, and noise
    assert names["design"].legality.legal
    assert names["return_error"](names["run"], names["reverse"](names["run"])) < 1e-12
    echo, exact = names["gradient"].theta, names["BPTT"]().gradient(names["task"]).theta
    np.testing.assert_allclose(echo["inductor.inductance"], exact["inductor.inductance"], rtol=1e-6)
    assert np.max(np.abs(names["run"].positions_si()["n3"])) > 0
    measured = np.asarray(names["measured"].theta["inductor.inductance"])
    trained = np.asarray(names["design"].parameters.trainable["inductor.inductance"])
    ours, theirs = measured[trained], np.asarray(exact["inductor.inductance"])[trained]
    assert ours @ theirs / np.linalg.norm(ours) / np.linalg.norm(theirs) > 0.9  # eight bits
    if count is None:
        assert names["found"]["cosine"].shape == (2, 5, 2)
        assert (tmp_path / "ring.png").exists()


def test_design_file_example():
    design = toml.read(blocks("toml")[0]).compile()
    # Two equal tanks: the even mode at 1/√(LC), the odd one stiffer by the coupling inductor.
    even = 1 / (2 * np.pi * np.sqrt(1e-9 * 25e-6))
    odd = np.sqrt((1 / 25e-6 + 2 / 100e-6) / 1e-9) / (2 * np.pi)
    np.testing.assert_allclose(design.frequencies_hz, [even, odd], rtol=1e-12)
    assert np.max(np.abs(simulate_design(design).positions_si()["b"])) > 0


def test_sections_of_the_design_file_are_the_defaults():
    circuit, sections, _ = blocks("toml")
    netlist = toml.read(circuit + sections)
    assert settings.profile(netlist) == Profile()
    assert settings.task(netlist) == Teacher()
    assert settings.training(netlist) == Training()
    assert replace(settings.learning(netlist), epsilon=1e-3, gamma=1.0) == RHEL()
    assert replace(settings.bench_learning(netlist, Profile()), epsilon=1e-3, gamma=1.0) == EchoLearner()


def test_section_of_a_sweep():
    circuit, _, section = blocks("toml")
    sweep = Sweep.of(toml.read(circuit + section).settings["sweep"])
    assert sweep.count == 3 * 5 * 2 * 2
    assert replace(sweep, axes={"seed": [0]}) == Sweep({"seed": [0]})


@pytest.mark.parametrize("name", GALLERY)
def test_every_built_in_design_is_named(name):
    assert f"`{name}`" in README
