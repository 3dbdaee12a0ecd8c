"""E series: the printed tables, steps within the bands of the tolerances, and netlists moved to preferred values."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits import DesignError, Netlist
from circuits.eseries import SERIES, TOLERANCES, nearest, shifts, snapped
from devices import ArgumentError, Capacitor, Inductor, JosephsonJunction, Resistor, Tank

# As printed on every resistor chart.
E24 = "1.0 1.1 1.2 1.3 1.5 1.6 1.8 2.0 2.2 2.4 2.7 3.0 3.3 3.6 3.9 4.3 4.7 5.1 5.6 6.2 6.8 7.5 8.2 9.1"
E48 = """1.00 1.05 1.10 1.15 1.21 1.27 1.33 1.40 1.47 1.54 1.62 1.69 1.78 1.87 1.96 2.05 2.15 2.26 2.37 2.49 2.61 2.74
2.87 3.01 3.16 3.32 3.48 3.65 3.83 4.02 4.22 4.42 4.64 4.87 5.11 5.36 5.62 5.90 6.19 6.49 6.81 7.15 7.50 7.87 8.25 8.66
9.09 9.53"""


@pytest.mark.parametrize(("series", "table"), [("E24", E24), ("E48", E48)])
def test_series_are_the_printed_ones(series, table):
    assert [v / 100 for v in SERIES[series]] == [float(v) for v in table.split()]


def test_coarse_series_are_subsets_of_fine_ones():
    for coarse, fine in (("E3", "E6"), ("E6", "E12"), ("E12", "E24"), ("E48", "E96"), ("E96", "E192")):
        assert set(SERIES[coarse]) < set(SERIES[fine])
        assert 2 * len(SERIES[coarse]) == len(SERIES[fine]) == int(fine[1:])
    assert 920 in SERIES["E192"]
    assert 919 not in SERIES["E192"]


@pytest.mark.parametrize("series", SERIES)
def test_steps_stay_within_the_tolerance(series):
    """Bands of neighbours meet but for the rounding of both to the digits of the table."""
    values = [*SERIES[series], 1000]
    digit = 10 if values[1] % 10 == 0 else 1
    for low, high in pairwise(values):
        assert low < high
        assert high - low <= TOLERANCES[series] * (low + high) * 1.22 + digit, (low, high)


@given(st.floats(1e-18, 1e12), st.sampled_from(list(SERIES)))
def test_nothing_is_nearer(value, series):
    found = nearest(value, series)
    everything = [v / 100 * 10.0**d for d in range(-20, 14) for v in SERIES[series]]
    assert abs(found - value) <= min(abs(v - value) for v in everything) * (1 + 1e-9) + 1e-12 * value
    assert nearest(found, series) == found
    digits = found / 10.0 ** math.floor(math.log10(found) + 1e-9)
    assert min(abs(digits - v / 100) for v in SERIES[series]) < 1e-9


def test_preferred_values_are_the_floats_that_people_write():
    assert nearest(4.9e-9, "E24") == 4.7e-9
    assert nearest(9.99e-6, "E96") == 1e-5
    assert nearest(27.1e-6, "E24") == 2.7e-5
    assert nearest(10.0, "E24") == 10.0


def board() -> Netlist:
    parts = [
        Capacitor("C1", "a", "gnd", "1.05 nF", tolerance="5 %"),
        Inductor("L1", "a", "b", "20.1 uH", trainable=True, bounds=["5 uH", "125 uH"]),
        Resistor("R1", "a", "gnd", "9.9 kohm"),
        Tank("T1", "b", "gnd", "0.495 nF", "3.5 uH"),
        JosephsonJunction("J1", "b", "gnd", "123.4 nA"),
    ]
    return Netlist("board", parts)


def test_a_netlist_is_snapped_and_says_by_how_much():
    net, moved = board(), snapped(board(), "E24")
    values = {e.name: e.values for e in moved.elements}
    assert values["C1"]["capacitance"] == 1e-9  # halfway to 1.1 nF, the smaller one
    assert values["L1"]["inductance"] == 2e-5
    assert values["R1"]["resistance"] == 1e4
    assert values["T1"] == {"capacitance": 5.1e-10, "inductance": 3.6e-6}
    assert values["J1"]["critical_current"] == 123.4e-9
    assert moved.by_name["L1"].trainable == ("inductance",)
    assert moved.by_name["C1"].tolerance == {"capacitance": 0.05}
    found = {(s.element, s.parameter): s for s in shifts(net, "E24")}
    assert len(found) == 5
    for (name, key), shift in found.items():
        assert shift.relative == pytest.approx(values[name][key] / net.by_name[name].values[key] - 1, abs=1e-15)
    assert str(found["L1", "inductance"]) == "L1: inductance 20.1 uH becomes 20 uH (-0.50%)"
    assert snapped(moved, "E24") == moved


def test_bounds_are_kept():
    tight = Netlist("n", [Inductor("L1", "a", "gnd", "5.05 uH", trainable=True, bounds=["5 uH", "6 uH"])])
    assert snapped(tight, "E12").by_name["L1"].values["inductance"] == 5.6e-6  # 4.7 is nearer, but out of bounds
    none = Netlist("n", [Inductor("L1", "a", "gnd", "5 uH", trainable=True, bounds=["4.9 uH", "5.2 uH"])])
    with pytest.raises(DesignError, match=r"L1: no E12 value lies between"):
        snapped(none, "E12")


def test_bad_arguments_are_refused():
    with pytest.raises(ArgumentError, match="E24"):
        nearest(1.0, "E25")
    with pytest.raises(ArgumentError, match="greater than 0"):
        nearest(0.0, "E24")
