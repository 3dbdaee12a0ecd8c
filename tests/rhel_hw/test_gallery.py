"""Every built-in design learns what a hidden circuit of its topology does, by echoes alone."""

import pytest

from circuits import Netlist
from circuits.gallery import GALLERY
from rhel_hw import OnProblem, band_limited, return_error, reverse, settings, simulate_design
from tests.systems import quick_or_slow

FAMILIES = ("lc-toy", "josephson-ladder", "ring-lattice", "kerr-chain", "spin-chain", "vortex-array", "mixed")


def test_every_family_is_there():
    assert set(FAMILIES) <= set(GALLERY)


@pytest.mark.parametrize("name", quick_or_slow(FAMILIES, ("lc-toy",)))
def test_it_comes_back_and_learns(name):
    netlist = Netlist.load(name)
    design, task = netlist.compile(), settings.task(netlist)
    run = simulate_design(design, band_limited(design, seed=task.seed, amplitude=task.amplitude))
    assert return_error(run, reverse(run)) < 1e-12
    assert all(used.valid for used in run.validity), run.validity[:1]
    problem = task.problem(design)
    measure = OnProblem(problem, settings.learning(netlist, {"gamma": "auto"}))
    trained = settings.training(netlist).run(design, problem.theta, measure)
    assert trained.improvement >= 10
    assert trained.seconds < 60
