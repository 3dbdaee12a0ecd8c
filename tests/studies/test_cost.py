"""Costs of a gradient: closed forms, and the counters of a bench on which the gradient is really measured."""

import time
from dataclasses import replace
from math import exp, isnan, pi

import numpy as np
import pytest

from circuits import Netlist
from circuits.netlist import Initial
from devices import ArgumentError, Capacitor, CurrentDrive, ForceDrive, Inductor, Mass, Resistor, Ring, Spring
from rhel_hw import RHEL, Teacher, reverse, simulate_design
from rhel_hw.bench import Kind
from rhel_hw.chips import made
from rhel_hw.emulated import EmulatedBench
from rhel_hw.excitation import stimulus
from rhel_hw.learner import EchoLearner
from rhel_hw.operations import Centred, Hold, OneSided, Reprepare, Richardson
from rhel_hw.profile import Profile, ProfileError
from studies import cost
from studies.cost import gradient_cost
from tests.systems import quick_or_slow

HBAR = 1.054571817e-34
BITS = {"readout.bits": 8, "drive.bits": 10, "nudge.bits": 6}


def profile(**settings):
    """Of settings with two underscores for a dot."""
    found = Profile()
    for path, value in settings.items():
        found = found.set(path.replace("__", "."), value)
    return found


def coded(**settings):
    """Likewise, with converters that have bits."""
    return profile(**{k.replace(".", "__"): v for k, v in BITS.items()}, **settings)


@pytest.fixture(scope="module")
def design():
    """Two masses on springs, one of them driven, one a target: 15 steps."""
    parts = [Mass(f"m{n}", f"x{n}", 1.0) for n in (1, 2)]
    parts += [Spring(f"k{n}", f"x{n}", "gnd", 0.5 + 0.2 * n, trainable=True) for n in (1, 2)]
    parts += [Spring("k12", "x1", "x2", 0.4, trainable=True)]
    return Netlist("two", parts, drives=[ForceDrive("u", "x1")], targets=["x2"]).compile(steps=15)


@pytest.fixture(scope="module")
def lesson(design):
    return Teacher(amplitude=0.3).lesson(design)


@pytest.fixture(scope="module")
def lessons(design):
    return Teacher(amplitude=0.3, batch=3).lesson(design)


class Counting:
    """A bench that counts what goes in and out of its converters."""

    def __init__(self, *arguments, **choices):
        self.bench, self.read, self.driven, self.nudged, self.echoes = EmulatedBench(*arguments, **choices), 0, 0, 0, 0

    def __getattr__(self, name):
        return getattr(self.bench, name)

    def run(self, shot):
        record = self.bench.run(shot)
        runs = next(iter(record.samples.values())).shape[1]
        self.read += sum(x.size for x in record.samples.values())
        self.driven += sum(len(w) for w in shot.drive.values()) * runs
        self.nudged += sum(len(w) for w in shot.nudge.values()) * runs
        self.echoes += runs if shot.echo else 0
        return record


# Counting ---------------------------------------------------------------------------------------------------------


def assert_as_counted(found, bench, measured):
    """Equality is exact, but for the rounding of sums of seconds."""
    assert found.passes == measured.passes
    assert found.echoes == bench.echoes
    assert found.device_seconds == pytest.approx(measured.seconds, rel=1e-12)
    assert found.samples_read == bench.read
    assert found.samples_played == bench.driven + bench.nudged


@pytest.mark.parametrize("protocol", [Hold(), Reprepare()])
@pytest.mark.parametrize(
    "stencil",
    [Centred(), pytest.param(OneSided(), marks=pytest.mark.slow), pytest.param(Richardson(), marks=pytest.mark.slow)],
)
def test_passes_and_seconds_are_those_of_the_bench(design, lesson, protocol, stencil):
    used = coded(echo__latency=0.4 * design.step_s)
    learner, bench = EchoLearner(stencil=stencil, protocol=protocol), Counting(design, used)
    assert_as_counted(gradient_cost(design, used, learner), bench, learner.gradient(bench, design, lesson))


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "stencil"), [(Hold(), Richardson()), (Reprepare(), Centred())])
def test_shots_and_stimuli_multiply(design, lessons, protocol, stencil):
    learner = EchoLearner(stencil=stencil, protocol=protocol, shots=2)
    used = coded(readout__decimation=4, readout__unwired=["momentum.x1"])
    bench, once = Counting(design, used), gradient_cost(design, used, replace(learner, shots=1))
    found = gradient_cost(design, used, learner, stimuli=3)
    assert (found.free_passes, found.echoes) == (6 * once.free_passes, 6 * once.echoes)
    assert gradient_cost(design, used, learner, lesson=lessons) == found
    assert_as_counted(found, bench, learner.gradient(bench, design, lessons))


def test_samples_by_hand(design):
    """15 steps, every fourth read: 3 of targets, 4 of positions, 4 of momenta; two of each but one that is unwired."""
    used = coded(readout__decimation=4, readout__unwired=["momentum.x1"])
    found = gradient_cost(design, used, EchoLearner())
    assert (found.free_passes, found.echoes) == (1, 2)
    assert found.samples_read == 1 * 3 + 2 * (2 * 4 + 4)
    assert found.samples_played == 3 * 15 + 2 * 15
    all_of_them = gradient_cost(design, coded(), EchoLearner())
    assert all_of_them.samples_read == 1 * 15 + 2 * (2 * 15 + 2 * 16)


@pytest.mark.parametrize("protocol", [Hold(), Reprepare()])
def test_pilots_are_pairs_of_echoes(design, lesson, protocol):
    learner, bench = EchoLearner(gamma="auto", protocol=protocol, displacement=0.1), Counting(design, coded())
    measured = learner.gradient(bench, design, lesson)
    pilots = bench.echoes // 2 - 1
    assert pilots >= 2
    assert_as_counted(gradient_cost(design, coded(), learner, pilots=pilots), bench, measured)


def test_preparation_and_programming_take_time(design):
    learner = EchoLearner(protocol=Reprepare())
    plain, slow = (
        gradient_cost(design, coded(**s), learner) for s in ({}, {"cost__prepare": 2.0, "cost__program": 7.0})
    )
    assert slow.device_seconds - plain.device_seconds == pytest.approx(4 * 2.0 + 7.0)


def test_the_ideal_learner_has_costs_too(design):
    assert gradient_cost(design, coded(), RHEL()) == gradient_cost(design, coded(), EchoLearner())


# Converters -------------------------------------------------------------------------------------------------------


def test_a_bit_doubles_the_energy(design):
    """Walden: so many J for every one of 2^bits steps, times samples."""
    found = gradient_cost(design, coded(cost__adc=3e-13, cost__dac=2e-13), EchoLearner())
    assert found.adc_energy == pytest.approx(3e-13 * 2**8 * found.samples_read)
    assert found.dac_energy == pytest.approx(2e-13 * (2**10 * 3 * 15 + 2**6 * 2 * 15))
    finer = gradient_cost(design, coded(cost__adc=3e-13, cost__dac=2e-13).set("readout.bits", 9), EchoLearner())
    assert finer.adc_energy == pytest.approx(2 * found.adc_energy)
    assert finer.dac_energy == found.dac_energy
    assert found.energy == found.adc_energy + found.dac_energy + found.dissipated_energy


@pytest.mark.parametrize("path", BITS)
def test_without_bits_there_is_no_energy(design, path):
    found = gradient_cost(design, coded().set(path, "none"), EchoLearner())
    assert isnan(found.adc_energy) == (path == "readout.bits")
    assert isnan(found.dac_energy) == (path != "readout.bits")
    assert isnan(found.energy)
    assert not isnan(found.bptt_energy)


def test_drives_that_are_not_there_cost_nothing(tank):
    """No conversion is made, so that the number of bits does not matter."""
    found = gradient_cost(tank, profile(readout__bits=8, nudge__bits=8), EchoLearner())
    assert found.dac_energy == pytest.approx(1e-13 * 2**8 * 2 * tank.steps)
    assert found.energy > 0


# Losses -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def tank():
    """An LC circuit that rings, 1 pF and 1 nH, at 1 mV, 20 radians in short steps."""
    parts = [Capacitor("C", "n", "gnd", "1 pF"), Inductor("L", "n", "gnd", "1 nH", trainable=True)]
    net = Netlist("tank", parts, targets=["n"], initial=Initial(velocities={"n": "1 mV"}))
    return net.compile(step=0.05 * 1e-21**0.5, steps=400)


@pytest.mark.parametrize("quality", [300.0, 3e4])
def test_a_tank_rings_down(tank, quality):
    """(1 − e^(−ωT/Q))·E in the free pass, the same of what is left in each echo; up to 1/Q and (ωδ)²."""
    left = exp(-20 / quality)
    lost = 0.5 * 1e-12 * 1e-3**2 * (1 - left) * (1 + 2 * left)
    found = gradient_cost(tank, profile(dynamics__quality=quality), EchoLearner())
    assert found.dissipated_energy == pytest.approx(lost, rel=5e-3)


def test_light_takes_the_energy_of_its_carrier_along():
    """(1 − e^(−κT))·ħω·photons, far more than the energy in the frame of the carrier."""
    ring = Ring("R", "a", "1 GHz", trainable=True)
    net = Netlist("ring", [ring], targets=["a"], initial=Initial(positions={"a": 30.0}))
    compiled = net.compile(steps=200)
    rate = 2 * pi * (193.4e12 + 1e9)
    time_s, quality = compiled.steps * compiled.step_s, 1e7
    left = exp(-rate / quality * time_s)
    found = gradient_cost(compiled, profile(dynamics__quality=quality), EchoLearner())
    assert 0.01 < left < 0.99
    # Leapfrog turns on an ellipse: (ωδ)²/8.
    lost = HBAR * rate * 450.0 * (1 - left) * (1 + 2 * left)
    assert found.dissipated_energy == pytest.approx(lost, rel=0.01)


@pytest.mark.parametrize("quality", quick_or_slow((30.0, 1000.0), {1000.0}))
def test_driven_circuits_lose_what_the_audit_says(design, quality):
    """Free pass and echo of the circuit with its losses; 1e-4 for the table of quality factors."""
    used, moved = profile(dynamics__quality=quality), stimulus(design)
    run = simulate_design(made(design, used), moved.waveforms, state=moved.state)
    free, echo = (float(np.sum(r.audit.lost)) for r in (run, reverse(run)))
    found = gradient_cost(design, used, EchoLearner(protocol=Reprepare(), stencil=OneSided()))
    assert found.dissipated_energy == pytest.approx(2 * free + 2 * echo, rel=1e-4)
    hold = gradient_cost(design, used, EchoLearner(stencil=Richardson()))
    assert hold.dissipated_energy == pytest.approx(free + 4 * echo, rel=1e-4)
    late = gradient_cost(design, used.set("echo.latency", 0.1 * 15 * design.step_s), EchoLearner(stencil=Richardson()))
    assert late.dissipated_energy == pytest.approx(free + 1.1 * 4 * echo, rel=1e-4)


def test_lessons_have_losses_of_their_own(design, lessons):
    """Mean over stimuli of the audit, from (K, runs) waveforms."""
    used = profile(dynamics__quality=1000.0)
    run = simulate_design(made(design, used), dict(lessons.drive))
    free, echo = (float(np.sum(r.audit.lost)) for r in (run, reverse(run)))
    found = gradient_cost(design, used, EchoLearner(), lesson=lessons)
    assert found.dissipated_energy == pytest.approx(free + 2 * echo, rel=1e-4)


def test_starts_of_lessons_count(tank):
    lesson = Teacher().lesson(tank)
    double = replace(lesson, start=tuple({k: 2 * v for k, v in half.items()} for half in lesson.start))
    used = profile(dynamics__quality=1000.0)
    plain, found = (gradient_cost(tank, used, EchoLearner(), lesson=x) for x in (lesson, double))
    assert plain.dissipated_energy == pytest.approx(gradient_cost(tank, used, EchoLearner()).dissipated_energy)
    assert found.dissipated_energy == pytest.approx(4 * plain.dissipated_energy)
    with pytest.raises(ArgumentError, match="start"):
        gradient_cost(tank, used, EchoLearner(), lesson=replace(lesson, start=({"m": 1.0}, {})))


def test_one_number_and_a_table_of_the_same_are_alike(design):
    """The first is looked up, the second simulated."""
    one, all_alike = (
        gradient_cost(design, profile(dynamics__quality=q), EchoLearner()) for q in (77.7, {"mass": 77.7})
    )
    assert one.dissipated_energy == pytest.approx(all_alike.dissipated_energy, rel=1e-3)


def test_small_losses_are_in_proportion_and_none_are_none(design):
    at = {q: gradient_cost(design, profile(dynamics__quality=q), EchoLearner()).dissipated_energy for q in (1e9, 1e12)}
    assert at[1e9] == pytest.approx(1e3 * at[1e12], rel=1e-3)
    assert gradient_cost(design, profile(), EchoLearner()).dissipated_energy == 0


def test_losses_of_the_design_itself_count():
    """They stay, however small those of the profile are."""
    parts = [Capacitor("C", "n", "gnd", "1 pF"), Inductor("L", "n", "gnd", "1 nH", trainable=True)]
    parts.append(Resistor("R", "n", "gnd", "10 kohm"))
    lossy = Netlist("lossy", parts, drives=[CurrentDrive("u", "n")], targets=["n"]).compile(steps=40)
    own = gradient_cost(lossy, profile(), EchoLearner())
    more = gradient_cost(lossy, profile(dynamics__quality=1e12), EchoLearner())
    assert own.dissipated_energy > 0
    assert more.dissipated_energy == pytest.approx(own.dissipated_energy, rel=1e-6)
    assert own.counted  # backpropagation, too


# Backpropagation --------------------------------------------------------------------------------------------------


def test_operations_of_backpropagation(design, monkeypatch):
    """Of a loop the compiler counts one turn, however many there are."""
    found = gradient_cost(design, coded(cost__operation=2e-12, cost__memory=3e-11), EchoLearner(), stimuli=2)
    by_step, once, _ = cost._backpropagation(design)
    assert found.counted
    assert found.bptt_operations == 2 * 15 * by_step + once
    assert found.bptt_bytes == 2 * 15 * 2 * (2 * 2) * 8  # two stimuli, written and read, two coordinates and momenta
    assert found.bptt_energy == pytest.approx(2e-12 * found.bptt_operations + 3e-11 * found.bptt_bytes)
    monkeypatch.setattr(cost, "COUNTED_STEPS", 5)
    assert cost._backpropagation.__wrapped__(design) == (by_step, once, True)


def test_a_rule_of_thumb_where_the_compiler_does_not_tell(design, monkeypatch):
    monkeypatch.setattr(cost, "_operations", lambda program: None)
    assert cost._backpropagation.__wrapped__(design) == (cost.OPERATIONS * 5, 0.0, False)
    assert 0.2 < cost._backpropagation(design)[0] / (cost.OPERATIONS * 5) < 5


# Profiles, refusals, speed ----------------------------------------------------------------------------------------


def test_costs_survive_files_and_are_no_imperfections():
    used = Profile().set("cost.adc", "50 fJ").set("cost.prepare", "2 us").set("cost.memory", 2e-11)
    assert (used.cost.adc, used.cost.prepare, used.cost.memory) == (50e-15, 2e-6, 2e-11)
    assert used.to_dict() == {"cost": {"adc": 50e-15, "prepare": 2e-6, "memory": 2e-11}}
    assert Profile.of(used.to_dict()) == used
    assert Profile.of({"cost": {"adc": "50 fJ"}, "readout": {"bits": 6}}).differences() == {"readout.bits": 6}
    assert used.ideal
    assert not used.differences()
    assert not used.describe()
    assert str(used) == "ideal"
    assert [s.path for s in used.costs()] == ["cost.adc", "cost.prepare", "cost.memory"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("cost.adc", "50 fs", "must be an energy"),
        ("cost.dac", -1.0, "must be at least 0"),
        ("cost.prepare", "inf", "cannot be read|must be"),
        ("cost.adcs", 1.0, "did you mean `adc`"),
    ],
)
def test_wrong_costs_are_refused(path, value, words):
    with pytest.raises(ProfileError, match=words):
        Profile().set(path, value)


def test_costs_are_told(call):
    assert "cost.adc = 5e-14 J per step" in call("profiles", "ideal", "--set", "cost.adc=50 fJ")
    assert "cost.memory" in call("profiles", "--settings")


@pytest.mark.parametrize(
    ("settings", "choices", "words"),
    [
        ({"readout__unwired": ["target.x2"]}, {}, "no loss can be measured"),
        ({"readout__unwired": ["momentum.x9"]}, {}, "did you mean `momentum.x"),
        ({}, {"stimuli": 0}, "stimuli"),
        ({}, {"pilots": -1}, "pilots"),
        ({"dynamics__linewidth": 1e6}, {}, "left out"),
    ],
)
def test_what_cannot_be_is_refused(design, settings, choices, words):
    with pytest.raises(ArgumentError, match=words):
        gradient_cost(design, coded(**settings), EchoLearner(), **choices)


def test_wrong_arguments_are_refused(design, lessons):
    for arguments in (
        (design.netlist, Profile(), EchoLearner()),
        (design, None, EchoLearner()),
        (design, Profile(), "x"),
    ):
        with pytest.raises(ArgumentError, match="must be"):
            gradient_cost(*arguments)
    with pytest.raises(ArgumentError, match="that of the lesson, 3"):
        gradient_cost(design, Profile(), EchoLearner(), stimuli=2, lesson=lessons)


def test_costs_can_be_read(design):
    text = str(gradient_cost(design, coded(dynamics__quality=100.0), EchoLearner()))
    assert "3 passes (1 free, 2 echoes)" in text
    found = gradient_cost(design, coded(), EchoLearner()).to_dict()
    assert found["passes"] == 3
    assert found["energy"] > 0


def test_points_of_a_sweep_are_quick(design):
    """Tens of microseconds each; the best of some rounds, with room for a busy machine."""
    profiles, learner = [coded(dynamics__quality=float(q)) for q in np.geomspace(3, 1e7, 100)], EchoLearner()
    gradient_cost(design, profiles[0], learner)
    rounds = []
    for _ in range(10):
        start = time.perf_counter()
        for used in profiles:
            gradient_cost(design, used, learner)
        rounds.append((time.perf_counter() - start) / len(profiles))
    print(f"{1e6 * min(rounds):.1f} µs")
    assert min(rounds) < 200e-6


def test_channels_are_those_of_the_bench(design):
    kinds = [c.kind for c in EmulatedBench(design).describe().channels.values()]
    wired = cost._wired(design, ())
    assert wired == tuple(kinds.count(k) for k in (Kind.POSITION, Kind.MOMENTUM, Kind.TARGET))
