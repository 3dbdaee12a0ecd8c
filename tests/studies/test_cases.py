"""Case studies: what they conclude from curves, and, in small, all the way from question to hand-over."""

import json

import numpy as np
import pytest

from circuits import Netlist, handover
from devices import Vortex
from rhel_hw import settings
from studies.cases import board, cases, lattice, vortices
from studies.cases.case import SIZES, Size, close

SMALL = Size(60, 3, 1, 2, False)


def test_the_command_knows_all_of_them():
    from rhel_hw.cli.studies import CASES, STUDIES

    assert set(CASES) == set(cases()) <= set(STUDIES)


@pytest.mark.parametrize("name", cases())
def test_designs_are_legal_and_say_how_they_learn(name):
    netlist = cases()[name].netlist(SIZES["quick"])
    design = netlist.compile()
    assert design.legality.legal
    assert settings.bench_learning(netlist, settings.profile(netlist)).gamma == "auto"
    assert set(cases()[name].formats) - {"datasheet"}


def test_fewest_bits_are_those_from_which_on_all_do():
    cosines = np.array([0.5, 0.995, 0.98, 0.999, 0.9999])
    assert board._fewest([2, 4, 6, 8, 10], cosines) == "8"  # four bits were luck
    assert board._fewest([2, 4, 6, 8, 10], cosines / 2) == "more than 10"


def test_least_quality_is_that_from_which_on_all_are_good():
    line = lattice.Line(1.0, 1e11, [1e5, 1e6, 1e7], np.array([0.1, 0.98, 0.999]), np.array([0.991, 0.97, 0.9]))
    assert line.least(line.plain) == 1e7
    assert line.least(line.made_up) == np.inf
    assert lattice._quality(1e5, line) == "1e+05 or less"
    assert lattice._quality(np.inf, line) == "more than 1e+07"


def test_most_damping_is_that_up_to_which_all_are_good():
    assert vortices._most([1e-3, 1e-2, 0.1], np.array([0.999, 0.991, 0.9])) == "0.01"
    assert vortices._most([1e-3, 1e-2], np.array([0.9, 0.999])) == "less than 0.001"
    assert vortices._most([1e-3, 1e-2], np.array([0.999, 0.999])) == "0.01 (the largest tried)"


def test_quality_and_damping_are_those_of_the_catalogue():
    assert lattice.loaded("silicon-nitride-ring") == pytest.approx(15e6)
    cores = [e for e in vortices.netlist(SMALL).elements if isinstance(e, Vortex)]
    assert {core.damping for core in cores} == {vortices.metal()}


def test_the_learner_is_told_the_rate_of_the_rings():
    """Energy of light in a ring decays at the linewidth ω/Q."""
    decay = settings.bench_learning(netlist := lattice.netlist(SMALL), settings.profile(netlist)).decay
    assert decay == pytest.approx(2 * np.pi * 193.4e12 / 15e6, rel=1e-5)  # that of light, detuned


@pytest.mark.slow
@pytest.mark.parametrize("name", cases())
def test_from_question_to_hand_over(name, tmp_path):
    closed = close(name, cases()[name], SMALL, tmp_path)
    place = tmp_path / name
    assert all(path.exists() for path in closed.files)
    assert (place / f"{name}.png").stat().st_size > 20_000
    assert handover.check(place / "handover") == []
    assert Netlist.load(str(place / "handover/design.toml")).compile().legality.legal
    assert json.loads((place / "contract.json").read_text())["axes"]
    assert closed.answer.startswith(("a cosine of 0.99", "over"))
    assert json.dumps(closed.to_dict(), allow_nan=False)
