"""ngspice behind the interface of a bench: closed forms, the emulator as a peer, retraced echoes, and learning."""

import json
import os
import stat
import tempfile
import time
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

from circuits import DesignError, Netlist
from circuits.formats.spice_style import Accuracy
from circuits.generators import ladder
from circuits.state import sample_drives
from devices import (
    ArgumentError,
    Capacitor,
    Inductor,
    Resistor,
)
from rhel_hw import EchoLearner, EmulatedBench, OnBench, Reprepare, Shot, Teacher, Training
from rhel_hw.compare import compare_on_bench
from rhel_hw.integrators import Yoshida6
from rhel_hw.ngspice import NgspiceBench
from rhel_hw.ngspice_run import NgspiceError
from tests.circuits.electrical import every_element, tanks
from tests.systems import quick_or_slow

pytestmark = pytest.mark.usefixtures("ngspice", "quick_compiler")


def misses(ours, theirs, kind, *, sign=1, backwards=False):
    """Largest distance of channels of a kind, over the largest sample of it in `theirs`."""
    names = [c for c in theirs.samples if c.startswith(kind)]
    scale = max(np.max(np.abs(theirs[c])) for c in names)
    assert scale > 0
    turned = slice(None, None, -1 if backwards else 1)
    return max(np.max(np.abs(sign * ours[c][turned] - theirs[c])) for c in names) / scale


def tank(points, radians=4):
    """One oscillator at rest with a target at n0, its capacitance, and its ω; so many radians in all."""
    net = tanks(1).replace(targets=["n0"])
    C, omega = net.by_name["C0"].capacitance, 1 / np.sqrt(net.by_name["C0"].capacitance * net.by_name["L0"].inductance)
    return net.compile(step=radians / omega / points, steps=points), C, omega


# Closed forms -------------------------------------------------------------------------------------------------------


def test_nudges_are_impulses_to_second_order_in_the_step():
    """q(t) = Σ n_k cos ω(t − t_k) over the nudges before t, φ(t) the same with sines; nudges of another frequency."""
    errors = []
    for points in (50, 100, 200):
        design, C, omega = tank(points, 40)
        instants = design.step_s * np.arange(points)
        nudge = 1e-12 / points * np.cos(0.8 * omega * instants)
        bench = NgspiceBench(design, accuracy=Accuracy(cap=0.01, truncation=1e6))
        bench.run(Shot(points, hold=True))
        found = bench.run(Shot(points, {}, {"n0": nudge}, echo=True))

        def sum_of(wave, times, before, nudge=nudge, instants=instants, omega=omega):
            since = omega * (times[:, None] - instants)
            return np.sum(np.where(before, wave(since) * nudge, 0), axis=1)

        grid = np.arange(points + 1)[:, None]
        charge = sum_of(np.cos, found.times_s["momentum.n0"], grid > np.arange(points))
        flux = sum_of(np.sin, found.times_s["position.n0"], grid[:-1] >= np.arange(points)) / (C * omega)
        assert found["momentum.n0"][0, 0, 0] == 0  # before the first nudge
        scales = np.max(np.abs(charge)), np.max(np.abs(flux))
        errors.append(
            max(
                np.max(np.abs(found["momentum.n0"][:, 0, 0] - charge)) / scales[0],
                np.max(np.abs(found["position.n0"][:, 0, 0] - flux)) / scales[1],
            )
        )
    slope = np.polyfit(np.log([50, 100, 200]), np.log(errors), 1)[0]
    assert slope == pytest.approx(-2, abs=0.3), errors
    assert errors[-1] < 0.01  # ωδ = 0.2


def test_the_first_nudge_and_the_start_are_exact():
    """A kick at t = 0 adds to a start that rotates; only the trapezoidal rule errs, by (ω·cap)²/12."""
    design, C, omega = tank(200, 40)
    kick = np.zeros(200)
    kick[0] = 2e-12
    flux, charge = 3e-8, -1e-12
    bench = NgspiceBench(design, accuracy=Accuracy(cap=0.01, truncation=1e6))
    found = bench.run(Shot(200, {}, {"n0": kick}, start=({"n0": flux}, {"n0": charge})))
    times = found.times_s["target.n0"]
    angle, after = omega * times, charge + kick[0]
    expected = flux * np.cos(angle) + after / (C * omega) * np.sin(angle)
    # 40 rad of phase, late by 1e-4/12 of it
    assert np.max(np.abs(found["target.n0"][:, 0, 0] - expected)) < 1e-3 * np.max(np.abs(expected))
    assert found["momentum.n0"][0, 0, 0] == pytest.approx(charge, rel=1e-12)


def test_loss_is_that_of_the_resistor():
    """An RC decay is an exponential: charge of a node with a resistor and an inductor too large to matter."""
    parts = [Capacitor("C", "a", "gnd", 1e-9), Resistor("R", "a", "gnd", 1e3), Inductor("L", "a", "gnd", 1.0)]
    design = Netlist("decay", parts).compile(step=2e-8, steps=100)
    found = NgspiceBench(design).run(Shot(100, start=({}, {"a": 1e-9})))
    charge = found["momentum.a"][:, 0, 0]
    assert charge == pytest.approx(1e-9 * np.exp(-found.times_s["momentum.a"] / 1e-6), rel=2e-3)


# The emulator as a peer ---------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_element_moves_as_the_emulator_says_in_both_passes():
    """Nudged echo included. A quarter of the automatic step leaves both about 1e-3 of second order."""
    design = every_element().compile(step="0.9 ps", steps=400)
    waves = sample_drives(design)
    slow = np.sin(np.linspace(0, 14, 400))
    nudge = {"n3": 1e-20 * slow, "n4": -2e-20 * slow[::-1]}
    theirs, ours = EmulatedBench(design), NgspiceBench(design)
    free = [bench.run(Shot(400, waves, hold=True)) for bench in (ours, theirs)]
    echo = [bench.run(Shot(400, waves, nudge, echo=True)) for bench in (ours, theirs)]
    plain = ours.run(Shot(400, waves, echo=True))
    for kind in ("position", "momentum", "target"):
        assert misses(*free, kind) < 5e-3
        assert misses(*echo, kind) < 5e-3
    assert misses(plain, echo[0], "position") > 0.1  # the nudges did something
    assert misses(plain, free[0], "position", backwards=True) < 1e-4


@pytest.mark.parametrize("name", quick_or_slow(("lc-toy", "josephson-ladder"), ("lc-toy",)))
def test_echoes_of_gallery_designs_return_to_the_start(name):
    design = Netlist.load(name).compile()
    bench, waves = NgspiceBench(design), sample_drives(design)
    free = bench.run(Shot(design.steps, waves, hold=True))
    echo = bench.run(Shot(design.steps, waves, echo=True))
    # 6e-6 and 2e-5: the trapezoidal rule is reversible, ngspice's first step and its way past corners of drives are not
    assert misses(echo, free, "momentum", sign=-1, backwards=True) < 1e-4
    assert misses(echo, free, "position", backwards=True) < 1e-4


# Learning -----------------------------------------------------------------------------------------------------------


@cache
def gallery(name):
    """A design of the gallery, compiled once so that its programs are."""
    return Netlist.load(name).compile(steps=400)


@pytest.mark.parametrize("name", quick_or_slow(("lc-toy", "josephson-ladder"), ("lc-toy",)))
def test_the_gradient_is_that_of_backpropagation(name):
    design = gallery(name)
    task = Teacher(spread=0.1)
    found = compare_on_bench(
        design, task.problem(design), task.lesson(design), NgspiceBench(design), EchoLearner(epsilon=1.0)
    )
    assert found.cosines[0] > 0.999
    assert found.norm_ratios[0] == pytest.approx(1, abs=0.1)
    assert found.passes == 3


@pytest.mark.parametrize("name", quick_or_slow(("lc-toy", "josephson-ladder"), ("lc-toy",)))
def test_the_gradient_of_a_whole_run_is_that_of_continuous_time(name):
    """A teacher and a reference of sixth order are the circuit's own flow; by leapfrog lc-toy's cosine is 0.983.

    What is left is of the sources, (ωδ)²/12, and of the cap of ngspice's steps: 1e-5.
    """
    design, task = Netlist.load(name).compile(), Teacher()
    problem, lesson = task.problem(design, integrator=Yoshida6()), task.lesson(design, integrator=Yoshida6())
    found = compare_on_bench(design, problem, lesson, NgspiceBench(design), EchoLearner(epsilon=1.0))
    assert found.cosines[0] > 0.9999
    assert found.norm_ratios[0] == pytest.approx(1, abs=0.01)


@pytest.mark.slow
def test_the_command_line_takes_that_teacher(call):
    found = json.loads(call("gradient", "lc-toy", "--bench", "ngspice", "--methods", "rhel", "--json"))
    assert found["integrator"] == "yoshida6"
    assert found["bench"]["cosines"][0] > 0.9999


@pytest.mark.speed
def test_a_gradient_takes_less_than_two_seconds():
    design = Netlist.load("lc-toy").compile()
    bench, lesson, learner = NgspiceBench(design), Teacher().lesson(design), EchoLearner(epsilon=1.0)
    learner.gradient(bench, design, lesson)
    begun = time.perf_counter()
    learner.gradient(bench, design, lesson)
    assert time.perf_counter() - begun < 2


@pytest.mark.slow
def test_a_finer_step_brings_both_together():
    """Leapfrog and ngspice solve the same equations: their gradients differ by the square of the step."""
    wrong = []
    for parts in (1, 2):
        netlist = ladder(2, capacitance="1 nF", inductance="25 uH")
        design = netlist.compile(step=netlist.compile().step_s / parts, steps=150 * parts)
        task = Teacher(spread=0.1)
        bench = NgspiceBench(design, accuracy=Accuracy(cap=0.01, truncation=1e6))
        found = compare_on_bench(design, task.problem(design), task.lesson(design), bench, EchoLearner(epsilon=1.0))
        (cosine,), (ratio,) = found.cosines, found.norm_ratios
        wrong.append(np.sqrt(ratio**2 - 2 * ratio * cosine + 1))
    assert wrong[1] < 0.35 * wrong[0], wrong
    assert wrong[1] < 0.25  # its loss is small, and so sensitive to the frequencies


@pytest.mark.slow
def test_thirty_moves_lower_the_loss_five_times():
    design = gallery("lc-toy")
    bench = NgspiceBench(design)
    learner = EchoLearner(epsilon=1.0, protocol=Reprepare())
    measure = OnBench(bench, design, Teacher(spread=0.1).lesson(design), learner)
    trained = Training(steps=30, rate=0.03).run(design, design.theta(), measure)
    assert trained.losses[0] / trained.losses[-1] > 5
    assert bench.describe().passes == trained.passes


@pytest.mark.slow
def test_a_few_moves_lower_the_loss():
    design = gallery("lc-toy")
    lesson = Teacher(spread=0.1).lesson(design)
    measure = OnBench(NgspiceBench(design), design, lesson, EchoLearner(epsilon=1.0))
    trained = Training(steps=4, rate=0.02).run(design, design.theta(), measure)
    assert trained.losses[-1] < trained.losses[0] / 1.5
    assert trained.passes == 5 * 3


def test_what_is_programmed_is_what_moves():
    """The frequency of a tank follows from the inductance that it was told; a held charge stays on its plates."""
    parts = [
        Capacitor("C", "a", "gnd", 1e-9, trainable=True),
        Inductor("L", "a", "gnd", 25e-6, trainable=True),
    ]
    design = Netlist("tank", parts, targets=["a"]).compile(steps=100)
    bench = NgspiceBench(design)
    bench.program({"L.inductance": 20e-6})
    found = bench.run(Shot(100, start=({}, {"a": 1e-12}), hold=True))
    expected = 1e-12 * np.cos(found.times_s["momentum.a"] / np.sqrt(20e-6 * 1e-9))
    assert np.max(np.abs(found["momentum.a"][:, 0, 0] - expected)) < 2e-3 * 1e-12
    bench.program({"C.capacitance": 1.5e-9})
    echo = bench.run(Shot(10, echo=True))
    assert echo["momentum.a"][0, 0, 0] == pytest.approx(-found["momentum.a"][-1, 0, 0], rel=1e-12)
    with pytest.raises(ArgumentError, match="range of the bench"):
        bench.program({"L.inductance": 1.0})


def test_runs_of_a_shot_are_runs_of_their_own():
    design, _, _ = tank(40)
    bench = NgspiceBench(design)
    nudge = np.zeros((40, 3))
    nudge[0] = 1e-12, 0, -1e-12
    found = bench.run(Shot(40, {}, {"n0": nudge}, channels=("target.n0",)))
    assert list(found.samples) == ["target.n0"]
    assert found["target.n0"].shape == (40, 3, 1)
    assert np.allclose(found["target.n0"][:, 0], -found["target.n0"][:, 2])
    assert not np.any(found["target.n0"][:, 1])
    assert bench.describe().passes == 3
    assert bench.describe().seconds == pytest.approx(3 * 40 * design.step_s)


# What cannot be -----------------------------------------------------------------------------------------------------


def executable(folder, text):
    """A program that stands in for ngspice."""
    path = folder / "standin"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'Error: no such thing' >&2; exit 1", "code 1; it said last: Error: no such thing"),
        ("exit 0", "code 0; it said last: nothing"),
        ("printf 'Title: x' > out.raw", "no header"),
        ("exec sleep 20", "longer than 0.3 s"),
    ],
)
def test_failures_of_ngspice_are_told_and_leave_nothing(script, words, tmp_path, monkeypatch):
    design, _, _ = tank(20)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    bench = NgspiceBench(design, executable=executable(tmp_path, script), timeout_s=0.3)
    with pytest.raises(NgspiceError, match=words):
        bench.run(Shot(20))
    assert not os.listdir(scratch)


def test_a_run_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    design, _, _ = tank(20)
    NgspiceBench(design).run(Shot(20))
    assert not os.listdir(tmp_path)


def test_a_missing_ngspice_says_how_to_get_it():
    design, _, _ = tank(20)
    with pytest.raises(ArgumentError, match="apt-get install ngspice"):
        NgspiceBench(design, executable="no-such-spice")


def test_what_a_deck_cannot_express_is_refused_by_name():
    with pytest.raises(DesignError, match="SPICE has nothing for a"):
        NgspiceBench(Netlist.load("mixed").compile())
    circuit = ladder(4)
    parts = tuple(e for e in circuit.elements if e.name != "Cn1")
    with pytest.raises(DesignError, match="no capacitance"):
        NgspiceBench(circuit.replace(elements=parts).compile())


def test_shots_that_do_not_fit_are_refused():
    design, _, _ = tank(20)
    bench = NgspiceBench(design)
    for shot, words in (
        (Shot(20, {"u": np.zeros(20)}), "must name what there is"),
        (Shot(20, echo=True), "must follow a pass that was held"),
        (Shot(20, start=({"b": 0.0}, {})), "must name what there is"),
        (Shot(20, {}, {"n0": np.zeros((20, 1, 2))}), "1 chip"),
    ):
        with pytest.raises(ArgumentError, match=words):
            bench.run(shot)
    bench.run(Shot(20, {}, {"n0": np.zeros((20, 2))}, hold=True))
    with pytest.raises(ArgumentError, match="multiple of the 2 runs"):
        bench.run(Shot(20, {}, {"n0": np.zeros((20, 3))}, echo=True))
    with pytest.raises(ArgumentError, match="cannot be trimmed"):
        bench.run(Shot(20, echo=True, trim={"n0": (0.0, 1.0)}))
    assert jnp.isfinite(bench.run(Shot(20, echo=True))["target.n0"]).all()
