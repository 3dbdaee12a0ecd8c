"""What calibration is worth: how it is told, and that it is worth something."""

import json

import numpy as np
import pytest

from circuits import Netlist
from studies.calibrated import ALL, CASES, Row, document, measured, profile_of, read, save, table

ROWS = [
    Row("lc-toy", "skew", np.array([0.4, 0.7]), np.array([0.9991, 0.9999]), np.array([0.5, 2.0]), np.array([1.0, 1.01]),
        (), 900),
    Row("lc-toy", ALL, np.array([-0.2, 0.1]), np.array([0.98, 1.0]), np.array([3.0, 4.0]), np.array([0.9, 1.0]),
        ("loss of chip 0: too much; use shorter passes",), 1000),
]  # fmt: skip


def test_rows_are_told_to_people_and_machines(tmp_path):
    assert table(ROWS)[0] == ("lc-toy", "skew", "0.4000", "0.99910", "0.50–2.00", "1.000–1.010", "–")
    assert "shorter passes" in table(ROWS)[1][-1]
    files = save(ROWS, tmp_path)
    assert document(read(json.loads(files[1].read_text()))) == document(ROWS)
    assert files[0].stat().st_size > 10_000


def test_every_case_is_a_bench():
    design = Netlist.load("lc-toy").compile(steps=20)
    profiles = {case: profile_of(design, case) for case in CASES}
    assert len(set(map(str, profiles.values()))) == len(CASES)
    assert profiles[ALL].echo.skew == profiles["skew"].echo.skew > 0
    assert profiles[ALL].dynamics.quality == 1000


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gains and offsets", ALL])
def test_gradients_of_calibrated_chips(case):
    row = measured(Netlist.load("lc-toy").compile(steps=200), case, 2)
    print(table([row]))
    assert np.all(row.after > 0.99)
    assert np.all(row.after > row.before)
