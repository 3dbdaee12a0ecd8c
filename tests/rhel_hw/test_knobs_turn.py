"""What a bench can do about its own echo: turns that are trimmed, and echoes that gain what the free pass lost."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import networkx as nx
import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ring_lattice
from circuits.netlist import Clock
from circuits.state import encode
from devices import ArgumentError, Damper, DuffingSpring, Resistor, Ring
from rhel_hw import EchoLearner, Richardson, Teacher
from rhel_hw.bench import Shot
from rhel_hw.chips import made
from rhel_hw.device import run_pass
from rhel_hw.dissipation import bath_of, energy_rates
from rhel_hw.emulated import EmulatedBench
from rhel_hw.integrators import Leapfrog
from rhel_hw.losses import targets_of
from rhel_hw.session import Session
from rhel_hw.truth import gradients_as_made
from tests.rhel_hw.knobs import Case, distance, flat, junctions, profile, slope, springs

pytestmark = pytest.mark.usefixtures("quick_compiler")
STEPS = 48
LONG = 160
"""Steps in which a wave has come to the end of a ladder."""
PUMP = ("echo.pump", True)
EXACT = 1e-6
"""Of a relative error: bias of a Richardson stencil and rounding leave 1e-8 at most of these circuits."""


@cache
def case_of(make):
    return Case(make().compile(steps=STEPS), Teacher(amplitude=0.3))


def there_and_back(bench, case, **echo):
    """Records of a free pass and of its echo."""
    free = bench.run(Shot(STEPS, case.lesson.drive, hold=True))
    return free, bench.run(Shot(STEPS, case.lesson.drive, echo=True, **echo))


def retraced(free, back):
    """Distance of positions from those of the free pass, over their size."""
    names = [name for name in free.samples if name.startswith("position")]
    apart = [np.max(np.abs(back[name][::-1] - free[name])) / np.max(np.abs(free[name])) for name in names]
    return max(apart)


# Trimmed turns ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["momentum-flip", "sign-flip", "parametric"])
def test_a_trim_undoes_what_is_wrong_with_the_turn(operation):
    """(−a, 1/g) undoes an angle a and a gain g, whatever makes the echo: it comes back as on an ideal bench."""
    case = case_of(junctions)
    bench = case.bench(("echo.operation", operation), ("echo.gain", 1.2), ("echo.angle", 0.3))
    assert retraced(*there_and_back(bench, case)) > 0.1
    trim = dict.fromkeys(bench.describe().nodes, (-0.3, 1 / 1.2))
    ideal = there_and_back(case.bench(("echo.operation", operation)), case)
    trimmed = there_and_back(bench, case, trim=trim)
    assert max(retraced(*ideal), retraced(*trimmed)) < 1e-13  # rounding of some hundred steps
    for name in ideal[1].samples:  # momenta too
        size = np.max(np.abs(ideal[1][name]))
        np.testing.assert_allclose(trimmed[1][name], ideal[1][name], rtol=0, atol=1e-13 * size)


def test_every_node_is_trimmed_by_itself():
    """The momentum and the position of that node alone, at the start of an echo that is driven by nothing."""
    case = case_of(springs)
    bench = case.bench()
    start = ({"x1": 0.1, "x2": 0.2}, {"x1": 0.3, "x2": 0.4})
    bench.run(Shot(1, start=start, hold=True))
    plain = bench.run(Shot(1, echo=True))
    turned = bench.run(Shot(1, echo=True, trim={"x1": (0.0, 2.0)}))
    assert turned["momentum.x1"][0] == pytest.approx(2 * plain["momentum.x1"][0], rel=1e-12)
    assert turned["momentum.x2"][0] == plain["momentum.x2"][0]
    rotated = bench.run(Shot(1, echo=True, trim={"x1": (np.pi, 1.0)}))
    assert rotated["momentum.x1"][0] == pytest.approx(-plain["momentum.x1"][0], rel=1e-12)


@pytest.mark.parametrize("settings", [(), (("dynamics.drift", 1e-3),)])
def test_every_chip_has_a_trim_of_its_own(settings):
    """Of chips that stay as they are, and of some that wander, whose runs are lanes of their own."""
    case, chips = case_of(springs), (0, 2, 5)
    angles, factors = np.array([0.1, -0.2, 0.3]), np.array([0.9, 1.1, 1.3])
    settings = (("echo.gain_spread", 0.1), ("fabrication.mismatch", 0.05), *settings)
    nudge = {"x3": np.random.default_rng(0).normal(size=(STEPS, 2))}

    def echo(which, angle, factor):
        bench = case.bench(*settings, chips=which)
        return there_and_back(bench, case, nudge=nudge, trim={"x1": (angle, factor), "x3": (0.2, factor)})[1]

    together = echo(chips, angles, factors)
    for i, chip in enumerate(chips):
        alone = echo((chip,), angles[i], factors[i])
        for name in alone.samples:
            np.testing.assert_allclose(together[name][..., i], alone[name][..., 0], rtol=1e-9, atol=1e-13)


def test_shots_without_it_run_the_program_that_they_ran_before():
    case = case_of(springs)
    bench = case.bench(PUMP, ("dynamics.quality", 20.0))
    first = there_and_back(bench, case)[1]
    before = run_pass._cache_size()
    for angle in (0.1, 0.2):
        there_and_back(bench, case, trim={"x1": (angle, 1.0)})
    there_and_back(bench, case, amplify=True)
    assert run_pass._cache_size() == before + 2  # one for turns that are trimmed, one for echoes that gain
    again = there_and_back(bench, case)[1]
    there_and_back(case.bench(("dynamics.quality", 20.0)), case)
    assert run_pass._cache_size() == before + 2
    for name in first.samples:
        np.testing.assert_array_equal(first[name], again[name])


# Echoes that gain -------------------------------------------------------------------------------------------------


def damped(netlist, rate, *, unlike=0.0):
    """The same with friction at every node in proportion to its inertia; `unlike`: a little more at the first."""
    more = []
    for part in netlist.elements:
        if part.inertia is not None:
            conductance = rate * (1 + unlike * (not more)) * float(part.inertia(part.numbers))
            electrical = part.type == "capacitor"
            value = 1 / conductance if electrical else conductance
            more.append((Resistor if electrical else Damper)(f"loss{part.nodes[0]}", part.nodes[0], "gnd", value))
    return netlist.replace(elements=(*netlist.elements, *more))


def duffing():
    """Springs of which one stiffens."""
    bent = DuffingSpring("d2", "x2", "gnd", 0.3, 2.0, trainable=True)
    return springs().replace(elements=(*springs().elements, bent))


@cache
def lossy(make):
    """A circuit that loses about e^(−1) of its energy in a run, and that rate in 1/s."""
    plain = make()
    if any(isinstance(part, Ring) for part in plain.elements):
        case = Case(plain.compile(steps=STEPS), Teacher(amplitude=0.3))
        rates = energy_rates(case.design.hamiltonian) / case.design.assembly.units.time
        return case, float(np.mean(rates))
    rate = 1.0 / (STEPS * plain.compile(steps=STEPS).step_s)
    return Case(damped(plain, rate).compile(steps=STEPS), Teacher(amplitude=0.3)), rate


def rings():
    """Rings off resonance that lose both quadratures; the span of a run is about that of a photon."""
    plain = ring_lattice(nx.path_graph(3), detuning="0.3 GHz")
    parts = [replace(p, intrinsic_q=1e6) if isinstance(p, Ring) else p for p in plain.elements]
    return plain.replace(elements=tuple(parts))


@pytest.mark.parametrize("thermal", [None, pytest.param("replayed", marks=pytest.mark.slow)])
@pytest.mark.parametrize("make", [junctions, rings])
def test_an_echo_that_gains_retraces(make, thermal):
    """What was lost, and thermal noise too where it comes back: it is undone before it is amplified."""
    case, _ = lossy(make)
    warm = () if thermal is None else (("dynamics.temperature", 0.01), ("dynamics.thermal", thermal))
    bench = case.bench(PUMP, *warm)
    assert retraced(*there_and_back(bench, case)) > 0.1
    assert retraced(*there_and_back(bench, case, amplify=True)) < 1e-10
    if warm:
        noisy, quiet = (there_and_back(b, case)[0] for b in (bench, case.bench()))
        assert retraced(quiet, {k: v[::-1] for k, v in noisy.samples.items()}) > 1e-4  # there was some to be undone


def fixed_loss(case):
    """dL/dθ and dL/du by differentiation through time, at a loss that parameters have no part in."""
    design = case.design
    energy, reader, step = design.hamiltonian, targets_of(design), design.step
    inputs = encode(design, {k: jnp.asarray(v) for k, v in case.waves().items()})
    size = design.assembly.units.position(design.netlist.domains[design.netlist.targets[0].node])
    wanted = jnp.asarray(np.stack([v[:, 0] for v in case.lesson.targets.values()], axis=1)) / size
    bath = bath_of(energy, energy.prepare(design.theta()), step / 2)

    def loss(theta, inputs):
        prepared = energy.prepare(theta)

        def advance(state, u):
            q, p, _ = Leapfrog().step(energy, *bath(state), prepared, u, step)
            state = bath((q, p))
            return state, reader(state[0])

        _, seen = jax.lax.scan(advance, design.initial_state(), inputs)
        return jnp.mean((seen - wanted) ** 2) / 2

    return jax.jit(jax.grad(loss, argnums=(0, 1)))(design.theta(), inputs)


def cosine(found, exact):
    return float(np.sum(found * exact) / np.linalg.norm(found) / np.linalg.norm(exact))


def trained(design, by_theta):
    return flat({k: v for k, v in by_theta.items() if design.parameters.trainable[k].any()})


@pytest.mark.slow
@pytest.mark.parametrize("make", [springs, duffing, junctions, rings])
def test_loss_that_the_device_makes_up_for(make):
    """Exact whatever the circuit is: parameters of potential and kinetic energy, and inputs."""
    case, rate = lossy(make)
    assert 0.7 < rate * STEPS * case.design.step_s < 1.3
    by_theta, by_inputs = fixed_loss(case)
    exact = trained(case.design, by_theta)
    assert case.error(exact=exact, stencil=Richardson()) > 0.1
    learner = EchoLearner(epsilon=0.1, decay=rate, stencil=Richardson())
    session = Session.begin(learner, case.bench(PUMP), case.design, case.lesson, None)
    echoes = session.echoes(session.free(), learner.stencil.points, 0.1)
    errors = [
        distance(flat(session.credit(echoes, 0.1)), exact),
        distance(session.by_inputs(echoes, 0.1)[..., 0], np.asarray(by_inputs)),
    ]
    assert max(errors) < EXACT


def as_made(name, steps, *qualities):
    """A design of the gallery, a lesson, and chips of these qualities with their rates of loss and exact gradients."""
    design = Netlist.load(name).replace(clock=Clock(None, steps)).compile()
    lesson = Teacher(amplitude=0.3).lesson(design)
    profiles = [profile(("dynamics.quality", q), PUMP) for q in qualities]
    devices = [made(design, own) for own in profiles]
    rates = np.array([float(np.mean(energy_rates(d.hamiltonian))) / d.assembly.units.time for d in devices])
    _, by_theta = gradients_as_made(design, profiles, lesson, chips=range(len(profiles)))
    bench = EmulatedBench(design, profiles, chips=len(profiles), reference=lesson.drive)
    return design, lesson, bench, rates, trained(design, by_theta)


@pytest.mark.parametrize(
    ("name", "steps", "quality"),
    [
        ("josephson-ladder", LONG, 24.0),
        pytest.param("kerr-chain", STEPS, 1e6, marks=pytest.mark.slow),
        pytest.param("lc-toy", STEPS, 8.0, marks=pytest.mark.slow),
    ],
)
def test_chips_as_made_that_make_up_for_their_loss(name, steps, quality):
    """Against backpropagation through the chip as made, on designs of the gallery, two of them nonlinear.

    Neither plain echoes nor ones that are weakened along with the state find it; nor does gain that misses the loss.
    """
    design, lesson, bench, (rate,), exact = as_made(name, steps, quality)
    assert 0.7 < rate * steps * design.step_s < 1.3

    def found(bench, decay):
        learner = EchoLearner(epsilon=0.1, decay=float(decay), stencil=Richardson())
        return flat(learner.gradient(bench, design, lesson).theta)

    unable = EmulatedBench(design, profile(("dynamics.quality", quality)), reference=lesson.drive)
    missing = bench.profile.set("echo.pump_error", 0.1)
    plain, weakened, gained = found(unable, 0.0), found(unable, rate), found(bench, rate)
    missed = found(EmulatedBench(design, missing, reference=lesson.drive), rate)
    assert cosine(gained, exact) > 0.9999
    assert distance(gained, exact) < EXACT
    assert max(cosine(plain, exact), cosine(weakened, exact)) < 0.99
    assert min(distance(plain, exact), distance(weakened, exact)) > 0.4
    assert 0.03 < distance(missed, exact) < 0.2


def test_every_chip_loses_and_gains_at_a_rate_of_its_own():
    design, lesson, bench, rates, exact = as_made("josephson-ladder", LONG, 24.0, 48.0)
    learner = EchoLearner(epsilon=0.1, stencil=Richardson())
    found = flat(learner.gradient(bench, design, lesson, decays=rates).theta)
    for chip in (0, 1):
        assert distance(found[:, [chip]], exact[:, [chip]]) < EXACT
    with pytest.raises(ArgumentError, match="`decays` must be greater than 0 on all chips"):
        learner.gradient(bench, design, lesson, decays=np.array([0.0, rates[1]]))


@pytest.mark.slow
def test_gain_that_misses_the_loss():
    """E ∝ error: what it misses by is loss or gain that nobody makes up for. Chips may have errors of their own."""
    case, rate = lossy(junctions)
    exact = trained(case.design, fixed_loss(case)[0])
    errors = 0.04 * 0.5 ** np.arange(4)
    own = [profile(PUMP, ("echo.pump_error", float(e))) for e in errors]
    bench = EmulatedBench(case.design, own, chips=len(own), reference=case.lesson.drive)
    learner = EchoLearner(epsilon=0.1, decay=rate, stencil=Richardson())
    found = flat(learner.gradient(bench, case.design, case.lesson).theta)
    each = [distance(found[:, [i]], exact) for i in range(len(own))]
    assert slope(errors, each) == pytest.approx(1, abs=0.1)
    alone = case.error(PUMP, ("echo.pump_error", 0.04), exact=exact, epsilon=0.1, decay=rate, stencil=Richardson())
    assert alone == pytest.approx(each[0], rel=1e-6)


def test_loss_that_is_not_uniform_is_made_up_for_on_average():
    """E ∝ its spread."""
    spreads, found = np.array([0.02, 0.1]), []
    for spread in spreads:
        _, rate = lossy(springs)
        case = Case(damped(springs(), rate, unlike=spread).compile(steps=STEPS), Teacher(amplitude=0.3))
        exact = trained(case.design, fixed_loss(case)[0])
        found.append(case.error(PUMP, exact=exact, epsilon=0.1, decay=rate))
    assert slope(spreads, found) == pytest.approx(1, abs=0.15)


def test_without_a_loss_there_is_nothing_to_gain():
    case = case_of(springs)
    plain, amplified = (there_and_back(case.bench(PUMP), case, amplify=on)[1] for on in (False, True))
    for name in plain.samples:
        np.testing.assert_array_equal(plain[name], amplified[name])
