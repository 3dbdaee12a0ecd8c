"""Echo learning on a bench: what it gets right from samples alone, what it cannot see, and what it does not import."""

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from circuits import Netlist, Probes
from circuits.gallery import GALLERY
from circuits.generators import ladder, recurrent_units, six_oscillators
from devices import ArgumentError
from rhel_hw import (
    BPTT,
    RHEL,
    EchoLearner,
    EmulatedBench,
    OnBench,
    OneSided,
    Profile,
    Reprepare,
    Richardson,
    Teacher,
    settings,
)
from rhel_hw.device import run_pass
from rhel_hw.sight import Sight
from studies.benchmarks import interleaved
from tests.systems import driven, quick_or_slow


def distance(ours, exact):
    """Largest relative error of any group of parameters."""
    return max(float(jnp.linalg.norm(ours[k] - exact[k]) / jnp.linalg.norm(exact[k])) for k in exact)


def both(design, task, learner, profile=None, seed=0):
    """Gradient on a bench, and what the ideal echoes of the same settings say."""
    bench = EmulatedBench(design, profile, seed=seed)
    ours = learner.gradient(bench, design, task.lesson(design))
    ideal = RHEL(learner.epsilon, 1.0, learner.stencil, learner.protocol).gradient(task.problem(design))
    return ours, ideal


# An ideal bench -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", quick_or_slow(GALLERY, ("toy",)))
def test_an_ideal_bench_gives_the_ideal_gradient(name):
    """Every family, rotations included: the difference is round-off over ε, and the search before rotations."""
    netlist = Netlist.load(name)
    design = netlist.compile(steps=200 if name == "josephson-ladder" else 60)  # its targets are far from the drive
    ours, ideal = both(design, settings.task(netlist), EchoLearner(epsilon=0.02))
    assert ours.loss == pytest.approx(float(ideal.loss), rel=1e-12)
    assert distance(ours.theta, ideal.theta) < 1e-7
    assert not ours.saturated
    assert not ours.frozen


@pytest.mark.parametrize(
    "learner",
    [
        pytest.param(EchoLearner(epsilon=0.02, stencil=OneSided()), marks=pytest.mark.slow),
        pytest.param(EchoLearner(epsilon=0.02, stencil=Richardson()), marks=pytest.mark.slow),
        pytest.param(EchoLearner(epsilon=0.02, protocol=Reprepare()), marks=pytest.mark.slow),
        pytest.param(EchoLearner(epsilon=0.02, shots=3), marks=pytest.mark.slow),
    ],
    ids=["one-sided", "richardson", "re-prepare", "shots"],
)
def test_choices_are_those_of_the_ideal_circuit(learner):
    design = recurrent_units(3, linear=False).compile(steps=60)
    loss = "final" if learner.shots > 1 else "trajectory"
    ours, ideal = both(design, Teacher(batch=2, loss=loss, amplitude=0.3), learner)
    assert distance(ours.theta, ideal.theta) < 1e-8
    echoes = len(learner.stencil.points)
    assert ours.passes == 2 * learner.shots * (learner.protocol.runs(echoes) + echoes)


@pytest.mark.slow
def test_sign_flip_is_an_echo_too():
    design = ladder(3, coupling_capacitance="0.3 pF", mutual=0.2).compile(steps=60)
    profile = Profile().set("echo.operation", "sign-flip")
    ours, ideal = both(design, Teacher(), EchoLearner(epsilon=0.02), profile)
    assert distance(ours.theta, ideal.theta) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["voltage", *(pytest.param(k, marks=pytest.mark.slow) for k in ("flux", "coherent"))])
def test_drives_of_all_kinds(kind):
    """Inputs of the energy that are integrals, slopes, threads or odd are the learner's to know."""
    circuit = driven(kind).replace(targets=["n2"])
    parts = [replace(e, trainable=True) if e.name in ("dut", "c_s", "k_n12", "k_n1n2") else e for e in circuit.elements]
    design = circuit.replace(elements=tuple(parts)).compile(steps=60)
    ours, ideal = both(design, Teacher(amplitude=0.05), EchoLearner(epsilon=0.02))
    assert distance(ours.theta, ideal.theta) < 1e-7


@pytest.mark.slow
def test_massless_and_cyclic_nodes_are_worked_out():
    """Channels read nodes, energies want coordinates: here the two differ."""
    circuit = ladder(4)
    parts = tuple(e for e in circuit.elements if e.name != "Cn1")
    design = circuit.replace(elements=parts).compile(steps=150)
    assert design.assembly.coordinates.massless
    ours, ideal = both(design, Teacher(), EchoLearner(epsilon=0.02))
    assert distance(ours.theta, ideal.theta) < 1e-8


@pytest.mark.slow
def test_a_circuit_without_drives_learns_from_a_kick():
    design = ladder(3).replace(drives=()).compile(steps=60)
    ours, ideal = both(design, Teacher(), EchoLearner(epsilon=0.02))
    assert distance(ours.theta, ideal.theta) < 1e-8


# What is not seen ---------------------------------------------------------------------------------------------------


def test_what_no_channel_shows_is_frozen_and_told():
    """Without the position of x1, the springs there are frozen; without the momentum of x2, its mass."""
    circuit = six_oscillators()
    design = circuit.compile(steps=60)
    profile = Profile().set("readout.unwired", ["position.x1", "momentum.x2"])
    ours, ideal = both(design, Teacher(), EchoLearner(epsilon=0.02), profile)
    touching = {e.name for e in circuit.elements if "x1" in circuit.terminals_of(e) and e.potential is not None}
    assert {name.split(".")[0] for name in ours.frozen} == {*touching, "m2"}
    for e in design.assembly.entries:
        value = float(ours.theta[e.key][e.index]) if e.trainable else 0.0
        if e.name in ours.frozen:
            assert value == 0
        elif e.trainable:
            assert value == pytest.approx(float(ideal.theta[e.key][e.index]), rel=1e-6)


def test_probes_of_the_design_are_the_channels():
    circuit = ladder(4).replace(probes=Probes(positions=("n0", "n1", "n3"), momenta=()))
    design = circuit.compile(steps=40)
    told = EmulatedBench(design).describe()
    assert not [c for c in told.channels if c.startswith("momentum")]
    frozen = Sight(design, frozenset(told.channels)).frozen
    assert {n.split(".")[0] for n in frozen} == {e.name for e in circuit.elements if e.trainable and "n2" in e.nodes}


def test_a_target_that_is_not_wired_is_refused():
    design = ladder(3).compile(steps=20)
    lesson, target = Teacher().lesson(design), design.netlist.targets[0].name
    bench = EmulatedBench(design, Profile().set("readout.unwired", [f"target.{target}"]))
    with pytest.raises(ArgumentError, match="no loss can be measured"):
        EchoLearner().gradient(bench, design, lesson)


# How strongly to nudge ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("netlist", "left"),
    [
        pytest.param(ladder(3), 1e-11, marks=pytest.mark.slow),
        (recurrent_units(4, linear=False), 1e-6),
    ],
)
def test_automatic_strength_on_a_quiet_bench_leaves_hardly_anything(netlist, left):
    """Round-off where echoes are linear; elsewhere the power of two thirds of what pilots take for rounding, 1e-10."""
    design, task = netlist.compile(steps=100), Teacher()
    found = EchoLearner(gamma="auto").gradient(EmulatedBench(design), design, task.lesson(design))
    assert distance(found.theta, BPTT().gradient(task.problem(design)).theta) < left


@pytest.mark.slow
def test_automatic_strength_rises_with_the_noise():
    design = recurrent_units(4, linear=False).compile(steps=100)
    task = Teacher(amplitude=0.3)
    lesson, exact = task.lesson(design), BPTT().gradient(task.problem(design)).theta
    strengths, errors = [], []
    for noise in (1e-4, 1e-2):
        bench = EmulatedBench(design, Profile().set("readout.noise", noise), seed=1)
        found = EchoLearner(gamma="auto").gradient(bench, design, lesson)
        strengths.append(found.gamma)
        errors.append(distance(found.theta, exact))
    assert strengths[1] > 3 * strengths[0]  # as the cube root, 4.6
    assert errors[0] < 0.1
    assert errors[1] < 0.6


def test_a_state_that_never_moves_needs_a_number():
    design = ladder(3).compile(steps=20)
    lesson = replace(Teacher().lesson(design), drive={})
    with pytest.raises(ArgumentError, match="the state never moves"):
        EchoLearner(gamma="auto").gradient(EmulatedBench(design), design, lesson)


# Nothing but the bench ----------------------------------------------------------------------------------------------


FORBIDDEN = ("emulated", "device", "chips", "simulation", "integrators", "passes", "rhel", "baselines", "blackbox")
LOOPS = {"scan", "while_loop", "fori_loop", "associative_scan", "map"}


def test_it_imports_neither_emulator_nor_loops_over_time():
    """That it trains on a bench in another process is shown in tests/instrument/test_remote.py."""
    modules = "sys, rhel_hw.learner, rhel_hw.instrument.remote"
    program = f"import {modules}; print(' '.join(m for m in sys.modules if m.startswith('rhel_hw.')))"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    loaded = {name.removeprefix("rhel_hw.") for name in out}
    assert "learner" in loaded
    assert not loaded & set(FORBIDDEN)
    for name in loaded - {"instrument"}:
        source = Path(__file__).parents[2] / "rhel_hw" / f"{name.replace('.', '/')}.py"
        used = {
            node.attr
            for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("jax.lax", "lax")
        }
        assert not used & LOOPS, name


def test_a_bench_with_another_clock_is_refused():
    design, other = ladder(3).compile(steps=20), ladder(3).compile(step="1 ps", steps=20)
    with pytest.raises(ArgumentError, match="must have the clock of the design"):
        EchoLearner().gradient(EmulatedBench(other), design, Teacher().lesson(design))


def test_a_bench_with_another_design_is_refused():
    design = ladder(3).compile(steps=20)
    other = EmulatedBench(ladder(4).compile(step=design.step_s, steps=20))
    for learn in (
        lambda: EchoLearner().gradient(other, design, Teacher().lesson(design)),
        lambda: OnBench(other, design, Teacher().lesson(design), EchoLearner()),
    ):
        with pytest.raises(ArgumentError, match="but 'ladder of 4' on it has parameters that 'ladder of 3' has not"):
            learn()


def test_what_a_bench_cannot_set_stays_and_is_told():
    class Partly(EmulatedBench):
        def describe(self):
            told = super().describe()
            return replace(told, parameters=dict(list(told.parameters.items())[1:]))

    design = ladder(3).compile(steps=40)
    whole, partly = (kind(design) for kind in (EmulatedBench, Partly))
    first = next(iter(whole.describe().parameters))
    found = EchoLearner(epsilon=0.02).gradient(partly, design, Teacher().lesson(design))
    entry = design.parameters.entries[first]
    assert found.frozen == (first,)
    assert float(found.theta[entry.key][entry.index]) == 0


def test_automatic_strength_with_sum_and_difference():
    """Pilots without a nudge have no difference at all: its amplifier stays at the range of the sum."""
    design = ladder(3).compile(steps=60)
    profile = Profile().set("readout.digitise", "sum-difference").set("readout.noise", 1e-4)
    lesson = Teacher().lesson(design)
    found = EchoLearner(gamma="auto").gradient(EmulatedBench(design, profile), design, lesson)
    exact = BPTT().gradient(Teacher().problem(design)).theta
    assert distance(found.theta, exact) < 0.1


# Speed --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.speed
def test_a_thousand_chips_are_thirty_times_faster_than_a_loop():
    """Six nodes, a thousand steps, 5 % mismatch: one program for all against the compiled gradient of one chip."""
    design = Netlist.load("toy").compile(steps=1000)
    lesson, learner = Teacher().lesson(design), EchoLearner(epsilon=0.01)
    profile = Profile().set("fabrication.mismatch", 0.05)
    alone = [EmulatedBench(design, profile, chips=[i]) for i in range(20)]
    many = EmulatedBench(design, profile, chips=1000)
    runs = {
        "thousand": lambda: learner.gradient(many, design, lesson),
        "twenty": lambda: [learner.gradient(bench, design, lesson) for bench in alone],
    }
    before = run_pass._cache_size()
    found = runs["thousand"]()
    assert run_pass._cache_size() == before + 2  # one program for the free pass, one for the echoes
    for bench, one in zip(alone, runs["twenty"](), strict=True):
        chip = bench._chips.numbers[0]
        for key, value in one.theta.items():
            np.testing.assert_allclose(np.asarray(found.theta[key])[:, chip], value, rtol=1e-6)
    for attempt in range(3):  # a loaded machine gets three tries
        seconds = interleaved(runs, rounds=3 + 2 * attempt)
        ratio = 1000 / 20 * seconds["twenty"] / seconds["thousand"]
        if ratio >= 30:
            return
    pytest.fail(f"{ratio:.1f} times")
