"""Costs are no imperfections: whatever they are, a bench reads the same."""

import numpy as np
import pytest

from rhel_hw.emulated import EmulatedBench
from rhel_hw.learner import EchoLearner
from tests.rhel_hw.knobs import flat, linear_case, profile

pytestmark = pytest.mark.usefixtures("quick_compiler")
NOISY = (("readout.noise", 1e-3), ("readout.bits", 8))
PRICES = (
    ("cost.adc", "50 fJ"), ("cost.dac", "1 pJ"), ("cost.prepare", "2 us"), ("cost.program", "3 ms"),
    ("cost.operation", "7 pJ"), ("cost.memory", "20 pJ"),
)  # fmt: skip


@pytest.fixture(scope="module")
def gradient():
    """As measured on a bench that is not ideal, at given costs: numbers, passes and seconds."""
    case = linear_case()

    def measured(*prices):
        bench = EmulatedBench(case.design, profile(*NOISY, *prices), reference=case.lesson.drive)
        found = EchoLearner(epsilon=0.1).gradient(bench, case.design, case.lesson)
        return flat(found.theta), found.passes, found.seconds

    return measured


@pytest.fixture(scope="module")
def free_of_charge(gradient):
    return gradient()


@pytest.mark.parametrize("price", [*[(p,) for p in PRICES], PRICES], ids=lambda prices: "+".join(p for p, _ in prices))
def test_a_cost_changes_no_reading(gradient, free_of_charge, price):
    """Bit for bit, and nothing on the counters of the bench, which count what the device does by itself."""
    numbers, passes, seconds = gradient(*price)
    assert np.array_equal(numbers, free_of_charge[0])
    assert (passes, seconds) == free_of_charge[1:]
