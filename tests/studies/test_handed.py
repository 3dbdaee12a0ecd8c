"""What is handed over is asked what it has learnt: task, clock and bounds are those of the design as drawn."""

import numpy as np
import pytest

from circuits import Clock, Initial, Netlist
from circuits.eseries import snapped
from circuits.formats.spice_decks import with_values
from circuits.generators import ladder
from circuits.state import encode
from devices import Capacitor, CurrentDrive, Inductor, SaturableInductor, VoltageDrive
from rhel_hw import BPTT, EmulatedBench, Shot, TrajectoryMSE
from rhel_hw.compare import cosine
from rhel_hw.losses import targets_of
from rhel_hw.problem import Problem
from studies.handed import Handed
from studies.sweeps.limits import Requirement

DRAWN = ladder(4).replace(clock=Clock(None, 80))
VALUES = {"Ln0_n1.inductance": 1.07e-8, "Ln1_n2.inductance": 0.93e-8, "Ln2_n3.inductance": 1.24e-8}


def gradient_by_hand(handed, netlist):
    """Of the task as drawn, in SI, for another netlist under the same clock: nothing of it is shared but the lesson."""
    lesson = handed.task.lesson(handed.drawn.compile())
    design = netlist.replace(clock=Clock(handed.drawn.compile().step_s, 80)).compile()
    (target,) = design.netlist.targets
    wanted = lesson.targets[target.name] / design.assembly.units.position(design.netlist.domains[target.node])
    loss = TrajectoryMSE(targets_of(design), wanted[:, None, :])
    inputs = encode(design, lesson.drive)
    state = tuple(np.repeat(x[:, None], lesson.stimuli, axis=1) for x in design.initial_state())
    problem = Problem(design.hamiltonian, design.theta(), inputs, design.step, state, loss)
    return design.parameters.gradient_to_si(BPTT().gradient(problem).theta)


def test_preferred_parts_are_asked_the_same_task():
    handed = Handed(DRAWN, VALUES, "E12")
    learnt = with_values(DRAWN, VALUES)
    found = [gradient_by_hand(handed, n) for n in (learnt, snapped(learnt, "E12"))]
    vectors = [np.array([g[name] for name in VALUES]) for g in found]
    assert handed.agreement == pytest.approx(cosine(*vectors), abs=1e-9)  # equal inductances: SI changes no angle
    assert abs(handed.agreement) < 0.99999
    assert Handed(snapped(DRAWN, "E24"), {}, "E24").agreement == pytest.approx(1.0, abs=1e-12)  # nothing moves


def test_bounds_and_clock_stay():
    part = Inductor("L", "a", "gnd", "1 uH", trainable=True, bounds={"inductance": ("0.95 uH", "1.3 uH")})
    drawn = Netlist("one", [Capacitor("C", "a", "gnd", "1 nF"), part], targets=["a"], clock=Clock(None, 30))
    handed = Handed(drawn, {"L.inductance": 0.96e-6}, "E6")
    assert handed.netlist.by_name["L"].bounds == part.bounds
    assert handed.netlist.by_name["L"].inductance == pytest.approx(1e-6)  # 0.68 µH and 1.5 µH are out of bounds
    assert handed.design.step_s == pytest.approx(drawn.compile().step_s, rel=1e-12)


def test_what_nothing_moves_is_kicked_as_its_task_does():
    parts = [Capacitor("C", "a", "gnd", 1e-9), Inductor("L", "a", "gnd", 1e-6, trainable=True)]
    handed = Handed(Netlist("still", parts, targets=["a"], clock=Clock(None, 30)))
    start = handed.task.lesson(handed.drawn.compile()).start
    assert handed.design.netlist.initial.momenta["a"] == pytest.approx(start[1]["a"])
    assert np.max(np.abs(handed.run.momenta_si()["a"])) == pytest.approx(start[1]["a"], rel=0.01)  # it swings
    assert handed.netlist.initial == handed.drawn.initial


def test_nudges_are_strong_enough_to_see_and_as_the_design_asks():
    handed = Handed(DRAWN)
    bench = EmulatedBench(handed.design)
    bench.run(Shot(handed.design.steps, handed.waves, hold=True))
    echoes = [bench.run(Shot(handed.design.steps, handed.waves, nudge, echo=True)).samples for nudge in handed.nudges]
    strays = {name: np.max(np.abs(x - echoes[1][name])) / 2 / np.std(x) for name, x in echoes[0].items()}
    assert max(strays.values()) == pytest.approx(handed.learner.displacement, rel=0.1)  # γ has two digits
    own = Handed(DRAWN.replace(settings={"learning": {"gamma": 3.0}}))
    assert own.learner.gamma == 3.0
    (twice,) = Handed(DRAWN.replace(settings={"learning": {"gamma": 6.0}})).nudges[0].values()
    (once,) = own.nudges[0].values()
    assert twice == pytest.approx(2 * once, rel=1e-9)


def test_what_was_a_preferred_value_is_not_said_to_move():
    parts = [Capacitor("C", "a", "gnd", 1.05e-9), Inductor("L", "a", "gnd", 2.2e-6), Inductor("M", "a", "gnd", 2e-9)]
    handed = Handed(Netlist("one", parts, clock=Clock(None, 30)), {}, "E24")
    assert [m.element for m in handed.moved] == ["C"]
    assert len(handed.moves) == 3


def test_a_node_without_capacitance_has_a_voltage():
    """Two equal inductors in series share what is across them; at their midpoint no charge says so."""
    sides = [Capacitor(f"C{n}", n, "gnd", 1e-9) for n in "ab"] + [Inductor(f"T{n}", n, "gnd", 25e-6) for n in "ab"]
    middle = [Inductor("La", "a", "m", 50e-6), Inductor("Lb", "m", "b", 50e-6)]
    net = Netlist("divider", sides + middle, [CurrentDrive("u", "a")], targets=["b"], clock=Clock(None, 200))
    handed = Handed(net)
    volts = {n: handed.run.momenta_si()[n] / 1e-9 for n in "ab"}
    half = np.max(np.abs(volts["a"] - volts["b"])) / 2
    for name in ("La", "Lb"):
        assert handed.stress[name].voltage == pytest.approx(half, rel=0.02)  # of a slope over two steps
    assert handed.stress["Ca"].voltage == pytest.approx(np.max(np.abs(volts["a"])), rel=1e-9)


def test_parts_at_a_source_bear_what_it_holds():
    parts = [Capacitor("Cs", "s", "a", 1e-10), Capacitor("C", "a", "gnd", 1e-9), Inductor("L", "a", "gnd", 25e-6)]
    net = Netlist("coupled", parts, [VoltageDrive("u", "s")], targets=["a"], clock=Clock(None, 200))
    handed = Handed(net)
    held, back = handed.waves["u"], np.gradient(handed.run.positions_si()["a"], handed.design.step_s)
    assert handed.stress["C"].voltage == pytest.approx(np.max(np.abs(back)), rel=1e-9)
    assert handed.stress["Cs"].voltage == pytest.approx(np.max(np.abs(held - back)), rel=1e-9)


def test_a_saturable_part_has_peaks_too():
    """Its current is that of the capacitor beside it."""
    parts = [Capacitor("C", "a", "gnd", 1e-9), SaturableInductor("S", "a", "gnd", 25e-6, 1e-3)]
    handed = Handed(Netlist("one", parts, initial=Initial(momenta={"a": 2e-10}), clock=Clock(None, 200)))
    assert handed.stress["S"].current == pytest.approx(handed.stress["C"].current, rel=0.02)
    assert 0.5e-3 < handed.stress["S"].current < 1e-3


def test_of_a_single_value_the_error_counts():
    """Its cosine is a sign; √(2 − 2·0.99) is the error of a gradient that is turned by the angle of 0.99."""
    assert Handed(ladder(2)).requirement == Requirement("error", 0.14)
    assert Handed(Netlist.load("mixed")).requirement == Requirement("error", 0.14)  # one outweighs seven others
    assert 1.5 < Handed(DRAWN).weighing <= 3
    assert Handed(DRAWN).requirement == Requirement("cosine", 0.99)
    assert Handed(ladder(2), wanted=Requirement("cosine", 0.5)).requirement.value == 0.5
