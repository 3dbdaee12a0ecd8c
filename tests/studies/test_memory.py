"""Very long series: what training on them takes."""

import pytest

from studies.benchmarks import memory


@pytest.mark.slow
def test_fifty_thousand_steps_train_within_four_gigabytes():
    rows = {(r.units, r.method): r for r in memory.run()}
    for units in ("linear", "nonlinear"):
        assert rows[units, "rhel"].steps == 50_000
        assert rows[units, "rhel"].peak_bytes < 4e9
        assert None not in rows[units, "rhel"].losses
        assert rows[units, "rhel"].temporary_bytes < rows[units, "bptt"].temporary_bytes


@pytest.mark.slow
def test_a_short_case():
    row = memory.measure("linear", "rhel", 200)
    assert row.peak_bytes > row.temporary_bytes > 0
