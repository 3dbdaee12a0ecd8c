"""Quantities: what is accepted, what is refused and how, and exact round trips."""

import math

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices import UnitError, to_si, to_text
from devices.units import parse


@pytest.mark.parametrize(
    ("given_value", "unit", "expected"),
    [
        ("10 nH", "H", 1e-8),
        ("10nH", "H", 1e-8),
        (1e-8, "H", 1e-8),
        ("1e-8", "H", 1e-8),
        ("3.3 nH", "H", 3.3e-9),  # exactly the float that is written so, not 3.3·1e-9
        ("0.1 aF", "F", 1e-19),
        ("2 mF", "F", 2e-3),
        ("5 fg", "kg", 5e-18),
        ("5 %", "", 0.05),
        ("4.7 kΩ", "ohm", 4700.0),
        ("2.2 µH", "H", 2.2e-6),
        ("3 N/m**3", "N/m**3", 3.0),
        ("3 N/m^3", "N/m**3", 3.0),
        ("-1.5 mA", "A", -1.5e-3),
        (7, "A", 7.0),
    ],
)
def test_accepts(given_value, unit, expected):
    assert to_si(given_value, unit) == expected


def test_accepts_pint_quantities_of_any_registry():
    registry = pint.UnitRegistry()
    assert to_si(registry.Quantity(10, "nH"), "H") == pytest.approx(1e-8, rel=1e-15)
    assert to_si(5 * registry.newton / registry.metre**3, "N/m**3") == 5.0


def test_names_the_expected_and_the_found_dimension():
    with pytest.raises(UnitError, match=r"must be a capacitance \(F\), but '5 nH' is an inductance \(H\)"):
        to_si("5 nH", "F")


@pytest.mark.parametrize(
    "bad",
    ["nan H", "inf H", "1e999 H", "H", "", "1 H H", "1 F**99999999", "2**10**10 H", "1 __import__('os')", "10 xH",
     "1" * 200, "1 nH; rm", True, None, [], {}, math.nan, math.inf, 10**400, "20 degC", "1 " + "m*" * 40 + "m"],
)  # fmt: skip
def test_refuses(bad):
    with pytest.raises(UnitError):
        to_si(bad, "H")


@given(st.floats(min_value=1e-30, max_value=1e30), st.sampled_from(["F", "H", "A", "s", "kg", "N/m", ""]))
def test_text_round_trip_is_exact(value, unit):
    assert to_si(to_text(value, unit), unit) == value


def test_own_table_of_units_agrees_with_pint():
    from devices import units

    prefixes = list(units._POWERS)
    texts = [p + s for p in prefixes for s in units._SYMBOLS] + [
        "N/m",
        "N/m**3",
        "kg*m/s",
        "kg/s",
        "V/s",
        "pH^2",
        "J/Wb/m",
    ]
    for text in texts:
        factor, powers = units._common_unit(text)
        expected, dimension = units._rare_unit(text.replace("^", "**"))
        assert powers == dimension, text
        assert float(factor) == pytest.approx(float(expected), rel=1e-14), text
    assert units._common_unit("min") is None
    assert units._common_unit("eV") is None


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        number, _ = parse(text)
    except UnitError:
        return
    assert math.isfinite(number)
