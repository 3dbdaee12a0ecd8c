"""How strongly to nudge: curves of synthetic ladders against closed forms, and pilots against exhaustive sweeps."""

import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ladder
from rhel_hw import BPTT, EchoLearner, EmulatedBench, Profile, Teacher, settings
from rhel_hw.compare import cosine, trained
from rhel_hw.expected import Ladder
from rhel_hw.operations import Centred, OneSided, Richardson
from rhel_hw.pilots import PAIRS
from tests.rhel_hw.random_designs import Drawn

CHIPS, PARAMETERS = 200, 5
EPSILON = EchoLearner().epsilon


def synthetic(noise, bend, *, seed=0, rungs=26, one_sided=False):
    """Echoes that say ±g·s + b·s² ± c·s³ with |g| = 1, |b| = |c| = bend, and noise of every echo; and g."""
    rng = np.random.default_rng(seed)

    def directions():
        x = rng.normal(size=(PARAMETERS, CHIPS))
        return x / np.linalg.norm(x, axis=0)

    g, b, c = directions(), bend * directions(), bend * directions()
    s = np.geomspace(1e-4, 3.0, rungs)[:, None] * np.exp(rng.uniform(-0.1, 0.1, (rungs, CHIPS)))

    def echo(sign):
        exact = sign * g * s[:, None] + b * s[:, None] ** 2 + sign * c * s[:, None] ** 3
        return exact + noise / np.sqrt(PARAMETERS) * rng.normal(size=(rungs, PARAMETERS, CHIPS))

    still = noise / np.sqrt(PARAMETERS) * rng.normal(size=(rungs, PARAMETERS, CHIPS))
    return Ladder(s, echo(1.0), still if one_sided else echo(-1.0), np.ones(s.shape, bool), one_sided)


def squares(s, noise, bend):
    """Square of the error of centred differences: noise of half a difference, and the cubic term."""
    return noise**2 / 2 / s**2 + (bend * s**2) ** 2


@pytest.mark.parametrize(("noise", "bend"), [(1e-5, 1.0), (1e-3, 1.0), (1e-3, 0.1), (1e-2, 3.0)])
def test_the_best_strength_of_centred_echoes_is_that_of_the_closed_form(noise, bend):
    """(σ²/4c²)^(1/6) where noise and bias balance, and the error there is told."""
    found = synthetic(noise, bend).expected()[Centred]
    best = (noise**2 / 4 / bend**2) ** (1 / 6)
    ratios = np.sqrt(squares(found.strengths, noise, bend) / squares(best, noise, bend))
    assert np.median(ratios) < 1.15
    assert np.percentile(ratios, 95) < 1.5
    told = found.error / np.sqrt(squares(found.strengths, noise, bend))
    assert 0.6 < np.median(told) < 1.4


@pytest.mark.parametrize("noise", [1e-4, 1e-3])
def test_one_sided_echoes_balance_noise_and_the_square(noise):
    """√2·σ/s against b·s: at s = (2σ²/b²)^(1/4)."""
    found = synthetic(noise, 1.0, one_sided=True).expected()[OneSided]
    best = (2 * noise**2) ** 0.25
    error = np.hypot(np.sqrt(2) * noise / found.strengths, found.strengths)
    assert np.median(error) < 1.3 * np.hypot(np.sqrt(2) * noise / best, best)


def test_without_a_bend_the_strongest_is_the_best():
    given = synthetic(1e-3, 0.0)
    found = given.expected()[Centred]
    assert np.median(found.strengths / np.max(given.strengths, axis=0)) > 0.7
    assert np.median(found.error * found.strengths) == pytest.approx(1e-3 / np.sqrt(2), rel=0.3)
    assert np.median(found.bias) < np.median(found.noise)


@pytest.mark.parametrize("noise", [1e-9, 1e-6])
def test_echoes_that_have_forgotten_their_strength_are_not_believed(noise):
    """Beyond s = 0.01 echoes come no further apart: their differences over s agree with each other, about nothing."""
    given = synthetic(noise, 1.0)
    far = np.random.default_rng(1).normal(size=given.plus.shape[1:])
    lost = given.strengths[:, None] > 0.01
    shrunk = 0.01 / np.maximum(given.strengths, 0.01)[:, None] ** 0.5 * far
    chaotic = Ladder(
        given.strengths, np.where(lost, shrunk, given.plus), np.where(lost, -shrunk, given.minus), given.good
    )
    found = chaotic.expected()[Centred]
    assert np.median(found.strengths) < 0.01
    errors = np.sqrt(squares(found.strengths, noise, 1.0))
    assert np.median(errors) < 3 * np.sqrt(squares(min((noise**2 / 4) ** (1 / 6), 0.01), noise, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_a_chaotic_circuit_finds_its_gradient(seed):
    """Under these stimuli strong echoes of the Josephson ladder agree on a gradient with a cosine of 0.92 and 0.65."""
    design = Netlist.load("josephson-ladder").compile()
    task = settings.task(design.netlist, {"seed": seed})
    lesson = task.lesson(design)
    found = EchoLearner(gamma="auto").gradient(EmulatedBench(design, reference=lesson.drive), design, lesson)
    reference = trained(design, BPTT().gradient(task.problem(design)).theta)
    assert cosine(reference, trained(design, found.theta)) > 1 - 1e-9


def test_richardson_takes_what_the_cube_makes_away():
    """Its error is below that of centred echoes where these are bent, and is told so."""
    found = synthetic(1e-5, 1.0).expected()
    assert np.median(found[Richardson].error) < 0.7 * np.median(found[Centred].error)


def test_rungs_beyond_a_range_end_the_ladder():
    given = synthetic(1e-3, 0.0)
    good = given.strengths < 0.1
    found = Ladder(given.strengths, given.plus, given.minus, good).expected()[Centred]
    assert np.all(found.strengths < 0.1)
    assert np.median(found.strengths) > 0.05


def test_too_few_rungs_say_nothing():
    given = synthetic(1e-3, 1.0)
    none = Ladder(given.strengths, given.plus, given.minus, given.strengths > 1.0)
    assert np.all(np.isnan(none.expected()[Centred].strengths))


@pytest.fixture(scope="module")
def small():
    design = ladder(2).compile(steps=80)
    return design, Teacher().lesson(design)


def pilots_of(small, chips, *settings):
    design, lesson = small
    profile = Profile()
    for path, value in settings:
        profile = profile.set(path, value)
    bench = EmulatedBench(design, profile, seed=3, chips=chips, reference=lesson.drive)
    return EchoLearner(gamma="auto").pilots(bench, design, lesson), bench


@pytest.mark.slow
def test_a_chip_among_others_finds_what_it_finds_alone(small):
    noisy = ("readout.noise", 1e-3), ("fabrication.mismatch", 0.05)
    together, _ = pilots_of(small, 3, *noisy)
    alone, bench = pilots_of(small, [1], *noisy)
    np.testing.assert_allclose(together.gammas[1], alone.gammas[0], rtol=1e-6)
    assert bench.describe().passes == 1 + 2 * PAIRS  # a free pass that is held, and pairs of echoes


def test_more_noise_asks_for_stronger_nudges_and_tells_a_larger_error(small):
    quiet, _ = pilots_of(small, 4, ("readout.noise", 1e-4))
    loud, _ = pilots_of(small, 4, ("readout.noise", 1e-2))
    assert np.median(loud.gammas) > 0.7 * np.median(quiet.gammas)
    assert np.median(loud.error) > 5 * np.median(quiet.error)
    assert set(quiet.by_stencil) == {"OneSided", "Centred", "Richardson"}


def compared(drawn):
    """Error at the strengths that pilots choose, over the least of the exhaustive sweep."""
    chosen = EPSILON * drawn.pilots().gammas
    error, (displacements, errors) = drawn.errors(chosen), drawn.sweep()
    own, best = np.median(chosen / drawn.unit), np.argmin(errors)
    print(f"{drawn.name}: {error:.2e} at {own:.2g}, best {errors[best]:.2e} at {displacements[best]:.2g}: "
          f"{error / errors[best]:.2f}")  # fmt: skip
    return error / errors[best]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(20))
def test_random_designs(number):
    """Three families, converters and noise at random: within 1.5 times the best of 25 strengths over four decades."""
    assert compared(Drawn(number)) < 1.5
