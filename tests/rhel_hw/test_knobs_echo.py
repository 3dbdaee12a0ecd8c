"""Every imperfection of the echo by itself follows its law; see `test_knobs`."""

import numpy as np
import pytest

from circuits import Netlist
from devices import ELEMENTS, CoreForceDrive
from rhel_hw import Teacher
from rhel_hw.bench import Shot
from tests.rhel_hw.knobs import CHIPS, STEPS, Case, by_strength, by_value, linear_case, nonlinear_case, slope
from tests.systems import example

pytestmark = pytest.mark.usefixtures("quick_compiler")
HALVES = 0.5 ** np.arange(4)
SMALL = (0.001, 0.01, 0.1)


@pytest.fixture(scope="module")
def linear():
    return linear_case()


@pytest.fixture(scope="module")
def nonlinear():
    return nonlinear_case()


@pytest.mark.parametrize("operation", ["momentum-flip", "sign-flip", "parametric", "polarity-switch"])
def test_every_operation_makes_an_echo(nonlinear, operation):
    """Without imperfections all of them give the exact gradient, to ε²."""
    case = nonlinear
    if operation == "polarity-switch":
        vortex = example(ELEMENTS["vortex"], "v", "a", trainable=True)
        netlist = Netlist("vortex", [vortex], drives=[CoreForceDrive("u", "a")], targets=["a"])
        case = Case(netlist.compile(steps=64), Teacher(amplitude=0.3))
    assert case.error(("echo.operation", operation), epsilon=1e-3) < 1e-7


def test_echo_gain(nonlinear):
    """E ∝ a whatever ε is."""
    gains = 1 + 0.01 * HALVES
    found = [nonlinear.error(("echo.gain", float(g)), epsilon=0.01) for g in gains]
    assert slope(gains - 1, found) == pytest.approx(1, abs=0.1)
    assert by_strength(nonlinear, SMALL, ("echo.gain", 1.01)) == pytest.approx(0, abs=0.02)


def test_gain_of_a_parametric_echo(linear):
    """E ∝ a: both quadratures grow, so that a free circuit would only be scaled."""
    gains = 1 + 0.01 * HALVES
    parametric = ("echo.operation", "parametric")
    found = [linear.error(("echo.gain", float(g)), parametric) for g in gains]
    assert slope(gains - 1, found) == pytest.approx(1, abs=0.1)


def test_echo_angle(nonlinear):
    """E ∝ ϕ whatever ε is."""
    assert by_value(nonlinear, "echo.angle", 0.004 * HALVES, epsilon=0.01) == pytest.approx(1, abs=0.1)
    assert by_strength(nonlinear, SMALL, ("echo.angle", 0.004)) == pytest.approx(0, abs=0.02)


def test_echo_gain_spread(linear):
    """E ∝ spread whatever ε is: it belongs to the chip."""
    assert by_value(linear, "echo.gain_spread", 0.04 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, SMALL, ("echo.gain_spread", 0.04), chips=CHIPS) == pytest.approx(0, abs=0.01)


def test_echo_angle_spread(linear):
    """E ∝ spread whatever ε is."""
    assert by_value(linear, "echo.angle_spread", 0.04 * HALVES, chips=CHIPS) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, SMALL, ("echo.angle_spread", 0.04), chips=CHIPS) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("path", ["echo.gain_noise", "echo.angle_noise", "echo.noise"])
def test_what_changes_from_echo_to_echo(linear, path):
    """E ∝ a/ε."""
    assert by_value(linear, path, 0.01 * HALVES, chips=CHIPS, epsilon=0.01) == pytest.approx(1, abs=0.05)
    assert by_strength(linear, SMALL, (path, 0.01), chips=CHIPS) == pytest.approx(-1, abs=0.05)


def test_echo_latency(linear):
    """E ∝ latency whatever ε is, in fractions of a step as well as over many."""
    step = linear.design.step_s
    values = step * np.array([0.2, 0.4, 0.8])
    assert by_value(linear, "echo.latency", values) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, SMALL, ("echo.latency", 0.4 * step)) == pytest.approx(0, abs=0.01)


def test_latency_of_a_lossy_device_takes_its_own_time(linear):
    """Hardly any waiting costs hardly any energy."""
    bench = linear.bench(("dynamics.quality", 5.0), ("echo.latency", 1e-6 * linear.design.step_s))
    free = bench.run(Shot(STEPS, linear.lesson.drive, hold=True))
    back = bench.run(Shot(STEPS, linear.lesson.drive, echo=True))
    for node in ("x1", "x2", "x3"):
        assert back[f"momentum.{node}"][0] == pytest.approx(-free[f"momentum.{node}"][-1], rel=1e-4)


def test_echo_skew(linear):
    """E ∝ s whatever ε is, late or early; too early, the first nudge is lost in part, so that it is worse."""
    step, late = linear.design.step_s, 0.2 * HALVES
    assert by_value(linear, "echo.skew", step * late) == pytest.approx(1, abs=0.1)
    early = [linear.error(("echo.skew", float(-s * step))) for s in late]
    assert slope(late, early) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, SMALL, ("echo.skew", step)) == pytest.approx(0, abs=0.01)


def test_missed_turns(linear):
    """E ∝ √probability/ε: an echo with a coordinate that is not turned has nothing to do with its partner."""
    chips, rare = 64 * CHIPS, (0.002, 0.008, 0.032)  # so rare that two are seldom missed at once, yet some always are
    found = [linear.error(("echo.missed", p), chips=chips) for p in rare]
    assert slope(rare, found) == pytest.approx(0.5, abs=0.1)
    assert by_strength(linear, SMALL, ("echo.missed", 0.08), chips=CHIPS) == pytest.approx(-1, abs=0.05)


def test_sign_error(linear):
    """E ∝ spread whatever ε is; a momentum flip inverts no parameter, and feels nothing."""
    flip = ("echo.operation", "sign-flip")
    assert by_value(linear, "echo.sign_error", 0.004 * HALVES, flip, chips=CHIPS) == pytest.approx(1, abs=0.1)
    assert by_strength(linear, SMALL, ("echo.sign_error", 0.004), flip, chips=CHIPS) == pytest.approx(0, abs=0.01)
    assert linear.error(("echo.sign_error", 0.1), epsilon=1.0) < 1e-12
