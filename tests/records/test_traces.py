"""Traces with time stamps of their own: cubics and jumps come out exactly, what cannot be read is refused by name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from devices import ArgumentError
from rhel_hw import Shot
from rhel_hw.bench import Channel, Description, Kind
from rhel_hw.records.columns import Column, Table
from rhel_hw.records.traces import Trace
from rhel_hw.records.wiring import Wiring

STEP, STEPS = 2e-9, 10
DUE = {"position.a": ("Wb", Kind.POSITION), "momentum.a": ("C", Kind.MOMENTUM), "target.y": ("Wb", Kind.TARGET)}


def bench():
    channels = {name: Channel(name, kind, "a", unit, 1.0) for name, (unit, kind) in DUE.items()}
    return Description(
        "d", channels, {"u": "A"}, {"y": "C"}, {}, STEP, 1, 10**6, "momentum-flip", True, 1, 0, 0.0, nodes=("a",)
    )


def wiring(**given):
    return Wiring.of(given, bench(), "lab.toml")


def table(times, **columns):
    """A file that is in SI, and says so."""
    units = {"time": "s"} | {name: unit for name, (unit, _) in DUE.items()}
    columns = {"time": times, **{k.replace("_", "."): v for k, v in columns.items()}}
    return Table("scope.csv", {k: Column(np.asarray(v, float), units[k]) for k, v in columns.items()})


def stamps(samples=8.3, late=0.0, lead=3.0):
    """Time stamps from some steps before the pass to as many after it."""
    return late + STEP * np.arange(-lead, STEPS + lead, 1 / samples)


def jumps(times, nudge):
    """What impulses have added up to, those at the very instant not yet."""
    return np.array([nudge[: int(np.clip(np.ceil(t / STEP - 1e-9), 0, STEPS))].sum() for t in times])


@given(
    st.lists(st.floats(-1, 1), min_size=4, max_size=4),
    st.lists(st.floats(-1, 1), min_size=STEPS, max_size=STEPS),
    st.floats(1.5, 12),
    st.floats(-5, 5),
)
def test_cubics_with_known_jumps_come_out_exactly(powers, nudge, samples, late):
    """Where a spline through a cubic is that cubic, before and after the pass something else is seen."""
    cubic, nudge = np.polynomial.Polynomial(powers), np.array(nudge)
    times = stamps(samples, 0.013 * STEP)
    inside = (times >= 0) & (times <= STEP * STEPS)
    smooth = np.where(inside, cubic(times / STEP / STEPS), 7.0)
    file = table(times + late * 1e-6, position_a=smooth, momentum_a=smooth + jumps(times, nudge), target_y=smooth)
    found = wiring(begins=late * 1e-6).record([file], Shot(STEPS, nudge={"y": nudge}), bench())
    assert found.units == {name: unit for name, (unit, _) in DUE.items()}
    for name, (_, kind) in DUE.items():
        at = found.times_s[name]
        expected = cubic(at / STEP / STEPS) + (jumps(at, nudge) if kind is Kind.MOMENTUM else 0)
        # Ten digits are left of the stamps, which are microseconds late; the spline ends a sample off at most.
        np.testing.assert_allclose(found[name][:, 0, 0], expected, atol=1e-6)


def test_pulses_that_take_their_time_are_left_out():
    nudge, times = np.linspace(1, 2, STEPS), stamps(20, 0.02 * STEP)
    done = np.clip((times[:, None] - STEP * np.arange(STEPS)) / (0.3 * STEP), 0, 1) @ nudge
    read = Shot(STEPS, nudge={"y": nudge}, channels=("momentum.a",))
    expected = jumps(STEP * np.arange(STEPS + 1), nudge)
    found = wiring(pulse="0.6 ns").record([table(times, momentum_a=done)], read, bench())
    np.testing.assert_allclose(found["momentum.a"][:, 0, 0], expected, atol=1e-12)
    without = wiring().record([table(times, momentum_a=done)], read, bench())
    assert np.max(np.abs(without["momentum.a"][:, 0, 0] - expected)) > 0.1


def test_columns_are_wired_scaled_and_flagged():
    times = stamps()
    volts = Column(np.sin(times / STEP) * 1e3, "mV")
    file = Table("scope.csv", {"T": Column(times * 1e9, None), "CH1": volts})
    columns = {
        "time": "T [ns]",
        "momentum.a": {"column": "CH1", "scale": "1 nF", "full_scale": "0.9 V"},
        "target.y": {"column": "CH1 [mV]", "scale": "3 s"},
    }
    found = wiring(columns=columns).record([file, file], Shot(STEPS, channels=("momentum.a", "target.y")), bench())
    at = found.times_s["momentum.a"]
    for run in range(2):
        np.testing.assert_allclose(found["momentum.a"][:, run, 0], 1e-9 * np.sin(at / STEP), atol=1e-12)
        np.testing.assert_allclose(found["target.y"][:, run, 0], 3 * np.sin(at[1:] / STEP), atol=1e-3)
    flags = found.saturated["momentum.a"][:, 0, 0]
    assert set(found.saturated) == {"momentum.a"}
    assert np.all(flags[np.abs(np.sin(at / STEP)) > 0.9])
    assert not np.any(flags[np.abs(np.sin(at / STEP)) < 0.7])
    plain = Table("scope.csv", {"time": Column(times), "momentum.a": Column(volts.values)})
    (one,) = wiring(units="SI").record([plain], Shot(STEPS, channels=("momentum.a",)), bench()).samples.values()
    np.testing.assert_allclose(one[:, 0, 0] * 1e-12, found["momentum.a"][:, 0, 0], rtol=1e-9)


@pytest.mark.parametrize(
    ("times", "values", "message"),
    [
        (stamps()[::-1], None, r"must have time stamps that grow, but in row 2 .* follows .*: more digits"),
        (np.where(np.arange(len(stamps())) == 5, np.nan, stamps()), None, "must have finite time stamps, but row 6"),
        (stamps(), np.where(np.arange(len(stamps())) == 7, np.nan, 0.0), "must have finite numbers, but row 8"),
        (stamps() + STEP * 5, None, r"must cover the pass from 0 s to 2e-08 s .*spans 4e-09 s to 1.99036e-08 s"),
        (stamps() - STEP * 5, None, r"must cover the pass from 0 s to 2e-08 s"),
        (
            stamps() + 1e-3,
            None,
            r"must have at least 4 samples .*, but has 0: it spans 0.000999994 s .*Say when it `begins`",
        ),
        (stamps(0.9), None, r"must have a sample in every step of 2e-09 s, but after .*: sample faster"),
        (np.delete(stamps(), slice(40, 60)), None, "must have a sample in every step"),
        (stamps(), np.zeros(3), "must have a number for each of 133 time stamps, but has 3"),
    ],
)
def test_traces_that_are_refused(times, values, message):
    file = table(times, momentum_a=np.zeros(len(times)) if values is None else values)
    with pytest.raises(ArgumentError, match=f"`scope.csv: momentum.a` {message}"):
        wiring().record([file], Shot(STEPS, channels=("momentum.a",)), bench())


def test_what_is_beyond_a_converter_is_found_on_either_side():
    trace = Trace("t", np.arange(5.0), np.zeros(5))
    flags = trace.near(np.array([False, False, True, False, False]), np.array([0.5, 1.5, 2.0, 2.5, 3.5]))
    assert flags.tolist() == [False, True, True, True, False]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"colums": {}}, r"measured.colums` must be one of its keys; did you mean `columns`"),
        ({"begins": "3 V"}, r"measured.begins` is refused: it must be a time \(s\)"),
        ({"pulse": "5 ns"}, "measured.pulse` must be shorter than a step of 2e-09 s, but is 5e-09 s"),
        ({"skip": -1}, "measured.skip` must be a number of lines, but is -1"),
        ({"units": "cgs"}, "measured.units` must be \"SI\" or left out, but is 'cgs'"),
        ({"columns": 3}, "measured.columns` must be a table, but is 3"),
        ({"columns": {"position.b": "CH1"}}, "must name channels, but has 'position.b'; did you mean `position.a`"),
        ({"columns": {"position.a": 3}}, "columns.position.a` must be a column such as .*, but is 3"),
        (
            {"columns": {"position.a": {"column": "A", "scal": "1"}}},
            "scal` must be one of its keys; did you mean `scale`",
        ),
        ({"columns": {"position.a": {"column": "A", "scale": 2}}}, "position.a.scale` must be text, but is 2"),
        (
            {"columns": {"position.a": {"column": "A [V]", "unit": "mV"}}},
            "must state one unit, but states `V` and",
        ),
        (
            {"columns": {"position.a": {"column": "A", "scale": "1 blah"}}},
            "scale` is refused: `blah` is not a",
        ),
    ],
)
def test_wirings_that_are_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        wiring(**given)


def test_files_without_lines_have_none_to_skip(tmp_path):
    with pytest.raises(ArgumentError, match=r"`measured.skip` must be 0 where .*scope.h5 has no lines, but is 3"):
        wiring(skip=3).read(tmp_path / "scope.h5")


@pytest.mark.parametrize(
    ("columns", "unit", "message"),
    [
        ({"momentum.a": "CH3"}, "C", "must have column 'CH3', but has not; did you mean `CH1`"),
        ({"momentum.a": "CH1"}, None, r"CH1` must state its unit, as in `CH1 \[mC\]`, in the file or in"),
        ({"momentum.a": "CH1 [nC]"}, "C", "must be in the unit that the sheet states, `nC`, but is in `C`"),
        ({"momentum.a": "CH1"}, "V", r"must be a charge \(C\), but `V` is a voltage \(V\): give a `scale`"),
        ({"momentum.a": {"column": "CH1", "full_scale": "1 V"}}, "C", "`full_scale` in its own unit, but has '1 V'"),
    ],
)
def test_columns_that_are_refused(columns, unit, message):
    file = Table("scope.csv", {"time": Column(stamps(), "s"), "CH1": Column(np.zeros(len(stamps())), unit)})
    with pytest.raises(ArgumentError, match=message):
        wiring(columns=columns).record([file], Shot(STEPS, channels=("momentum.a",)), bench())
