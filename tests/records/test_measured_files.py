"""Measured files: columns with units as text and as HDF5, read back as they were, or refused by name."""

import builtins
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from devices import ArgumentError, UnitError
from rhel_hw.records import csv, hdf5
from rhel_hw.records.columns import Column, factor, heading, titled

NAMES = st.text("abcXYZ0189.()_ ", min_size=1, max_size=8).map(str.strip).filter(lambda n: n and not _number(n))
UNITS = st.sampled_from(["", "V", "mV", "us", "C", "Wb", "J*s", "kg*m/s", "N/m**3"])


def _number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


@st.composite
def tables(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    rows = draw(st.integers(1, 6))
    numbers = arrays(np.float64, rows, elements=st.floats(allow_nan=False, allow_infinity=False))
    return {name: Column(draw(numbers), draw(UNITS)) for name in names}


@pytest.mark.parametrize(("kind", "name"), [(csv, "t.csv"), (hdf5, "t.h5")])
def test_columns_come_back_as_they_were(kind, name, tmp_path):
    @given(tables())
    def check(columns):
        if kind is hdf5:  # a dataset's name is a path
            columns = {n.replace(".", "_"): c for n, c in columns.items()}
        found = kind.read(kind.write(tmp_path / name, columns)).columns
        assert set(found) == set(columns)
        for key, column in columns.items():
            assert found[key].unit == column.unit
            np.testing.assert_array_equal(found[key].values, column.values)

    check()


@given(NAMES, UNITS)
def test_a_heading_is_a_name_and_a_unit(name, unit):
    assert heading(titled(name, unit)) == (name, unit)
    assert heading(name) == (name, None)


@pytest.mark.parametrize(
    ("text", "skip", "names"),
    [
        ('time [us],"v(n1,n2) [mV]"\n0,1\n1,2\n', 0, {"time": "us", "v(n1,n2)": "mV"}),
        ('\ufeff# made by\n\n"TIME" ; "CH 1 [V]"\r\n0 ;1e-3\r\n1;2\r\n', 0, {"TIME": None, "CH 1": "V"}),
        ("Model,X\nSerial,1\nt [s]\tv [1]\t\n0\t1\t\n1\t2\t\n", 2, {"t": "s", "v": ""}),
    ],
)
def test_files_of_oscilloscopes(text, skip, names, tmp_path):
    path = tmp_path / "scope.csv"
    path.write_text(text)
    found = csv.read(path, skip).columns
    assert {name: column.unit for name, column in found.items()} == names
    np.testing.assert_array_equal(next(iter(found.values())).values, [0, 1])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must have a heading and numbers, but has nothing after line 0"),
        ("0,1\n1,2\n", "must have a heading in line 1, such as .*, but '0' is a number"),
        ("a,b,a\n0,1,2\n", "must have a heading of different names, but 'a' is there twice"),
        ("a,,b\n0,1,2\n", "must name all columns, but one has no name"),
        ("a,b\n0,1\n1,two\n", "must have 2 numbers in line 3, but 'two' is none"),
        ("a,b\n0,1\n1\n", "must have 2 numbers in line 3, but there are 1"),
        ("a;b\n0;1\n1;2,5\n", "must have 2 numbers in line 3, but '2,5' is none"),
        ("a,b\n", "must have numbers below its heading, but has none"),
    ],
)
def test_texts_that_are_refused(text, message, tmp_path):
    path = tmp_path / "scope.csv"
    path.write_text(text)
    with pytest.raises(ArgumentError, match=f"{re.escape(str(path))}` {message}"):
        csv.read(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="its letters are not UTF-8"):
        csv.read(path)
    with pytest.raises(ArgumentError, match=r"none.csv` must be a text file, but No such file"):
        csv.read(tmp_path / "none.csv")


def test_hdf5_that_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "scope.h5"
    path.write_text("something else")
    with pytest.raises(ArgumentError, match="must be an HDF5 file, but"):
        hdf5.read(path)
    hdf5.write(path, {})
    with pytest.raises(ArgumentError, match="must have one-dimensional datasets of numbers, but has none"):
        hdf5.read(path)
    real = builtins.__import__

    def without(name, *rest):
        if name == "h5py":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ArgumentError, match=r"must be opened by h5py, but that cannot be .*rhel-hw\[netcdf\]"):
        hdf5.read(path)


def test_units_lead_to_what_is_due():
    assert factor("mV", "C", "1 nF") == pytest.approx(1e-12, rel=1e-15)
    assert factor("mA", "Wb", "25 uH") == pytest.approx(2.5e-8, rel=1e-15)
    assert factor("", "", "2") == 2.0
    assert factor("us", "s") == 1e-6
    for unit, due, scale, message in (
        ("mV", "C", None, r"a charge \(C\), but `mV` is a voltage \(V\): give a `scale`, which would be a capacitance"),
        ("mV", "C", "1 nH", r"a charge \(C\), but `mV` times `1 nH` is of another dimension"),
        ("volts!", "C", None, "`volts!` is not a unit"),
        ("s", "V", None, r"a voltage \(V\), but `s` is a time \(s\)"),
    ):
        with pytest.raises(UnitError, match=message):
            factor(unit, due, scale)
