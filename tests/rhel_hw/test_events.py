"""Event files: read back by TensorBoard itself, checksums by their published values."""

import time
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices import ArgumentError
from rhel_hw.events import crc32c, event_file
from rhel_hw.files import write_atomically

ROWS = [(k, 1.7e9 + 0.25 * k, {"loss/train": 2.0 / (k + 1), "lärm, γ": -float(k)}) for k in range(200)]


@pytest.fixture(scope="module")
def tensorboard():
    """The reader's modules, or a visible skip that says how to get them."""
    if find_spec("tensorboard") is None:
        pytest.skip("tensorboard is not installed: .venv/bin/pip install tensorboard")
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.compat.proto import event_pb2
    from tensorboard.summary.writer import record_writer

    class Modules:
        accumulator, event, writer = event_accumulator, event_pb2.Event, record_writer.RecordWriter

    return Modules


def read(tensorboard, folder):
    """All points of all curves in a folder: TensorBoard keeps a random 10,000 of each unless told otherwise."""
    accumulator = tensorboard.accumulator.EventAccumulator(str(folder), {tensorboard.accumulator.SCALARS: 0})
    accumulator.Reload()
    return {tag: accumulator.Scalars(tag) for tag in accumulator.Tags()["scalars"]}, accumulator.file_version


def messages(data):
    """The data of every record, where the lengths say that they are."""
    found, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        found.append(data[at + 12 : at + 12 + length])
        at += 16 + length
    return found


# Checksums ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"123456789", 0xE3069283),  # the check value of CRC-32C
        (b"", 0),
        (bytes(32), 0x8A9136AA),  # this and the next three: RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
    ],
)
def test_checksums_are_those_published(data, crc):
    assert crc32c(data) == crc


# Read back ----------------------------------------------------------------------------------------------------------


def test_tensorboard_reads_what_was_written(tensorboard, tmp_path):
    data = event_file(ROWS)
    write_atomically(tmp_path / "events.out.tfevents.1", lambda stream: stream.write(data))
    curves, version = read(tensorboard, tmp_path)
    assert version == 2.0
    assert set(curves) == {"loss/train", "lärm, γ"}
    for tag, points in curves.items():
        assert [p.step for p in points] == [step for step, _, _ in ROWS]
        assert [p.wall_time for p in points] == [wall for _, wall, _ in ROWS]
        assert [p.value for p in points] == [float(np.float32(values[tag])) for _, _, values in ROWS]


def test_curves_need_not_share_their_steps_or_be_finite(tensorboard, tmp_path):
    largest = float(np.finfo(np.float32).max)
    rows = [(0, 0.0, {"a": 0.0}), (0, 1.0, {"b": np.float64("nan")}), (5, 0.5, {"a": np.float32(0.1), "b": -np.inf})]
    rows += [(np.int64(2**63 - 1), np.float64(2.0), {"a": largest, "b": 3})]
    (tmp_path / "events.out.tfevents.1").write_bytes(event_file(rows))
    curves, _ = read(tensorboard, tmp_path)
    assert [(p.step, p.value) for p in curves["a"]] == [(0, 0.0), (5, float(np.float32(0.1))), (2**63 - 1, largest)]
    np.testing.assert_array_equal([p.value for p in curves["b"]], [np.nan, -np.inf, 3.0])


def test_damage_is_found_by_the_reader(tensorboard, tmp_path):
    """Which shows that it does compare the checksums."""
    file = tmp_path / "events.out.tfevents.1"
    for place in (0, 9, 60, 80, -2):
        data = bytearray(event_file(ROWS[:2]))
        data[place] ^= 1
        file.write_bytes(data)
        curves, _ = read(tensorboard, tmp_path)
        assert len(curves.get("loss/train", ())) < 2


def test_the_bytes_are_those_of_tensorboards_own_writer(tensorboard, tmp_path):
    rows = ROWS[1:]  # a step of 0, the default of its field, is left out there and said here
    events = [tensorboard.event(wall_time=rows[0][1], file_version="brain.Event:2")]
    for step, wall, values in rows:
        events.append(tensorboard.event(wall_time=wall, step=step))
        for tag, value in values.items():
            events[-1].summary.value.add(tag=tag, simple_value=value)
    with open(tmp_path / "theirs", "wb") as stream:
        writer = tensorboard.writer(stream)
        for event in events:
            writer.write(event.SerializeToString())
        writer.flush()
    assert event_file(rows) == (tmp_path / "theirs").read_bytes()


numbers = st.floats(width=32) | st.integers(-(2**24), 2**24)
tags = st.text(min_size=1, max_size=200)
a_row = st.tuples(st.integers(0, 2**63 - 1), st.floats(0, 1e12), st.dictionaries(tags, numbers, min_size=1, max_size=3))


@settings(max_examples=40)
@given(st.lists(a_row, min_size=1, max_size=5))
def test_any_row_comes_back(tensorboard, rows):
    rows.sort(key=lambda row: row[0])
    head, *events = [tensorboard.event.FromString(m) for m in messages(event_file(rows))]
    assert (head.file_version, head.wall_time) == ("brain.Event:2", rows[0][1])
    for event, (step, wall, values) in zip(events, rows, strict=True):
        assert (event.step, event.wall_time) == (step, wall)
        assert [v.tag for v in event.summary.value] == list(values)
        np.testing.assert_array_equal([v.simple_value for v in event.summary.value], list(values.values()))


def test_ten_thousand_rows_take_less_than_a_second():
    rows = [(k, 1.7e9 + k, {"loss/train": 1 / (k + 1), "loss/validation": 2.0, "rate": 1e-3}) for k in range(10_000)]
    start = time.process_time()
    event_file(rows)
    assert time.process_time() - start < 1


# Refused ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((-1, 0.0, {"a": 1.0}), r"in row 1, a whole number from 0 .* as step, but has -1"),
        ((2**63, 0.0, {"a": 1.0}), "as step, but has 9223372036854775808"),
        ((1.0, 0.0, {"a": 1.0}), "as step, but has 1.0"),
        ((True, 0.0, {"a": 1.0}), "as step, but has True"),
        ((2, 0.0, {"a": 1.0}), "a step of at least 3, as the row before, but has 2"),
        ((3, float("nan"), {"a": 1.0}), "a wall time from 0 to 2..63 s, but has nan"),
        ((3, float("inf"), {"a": 1.0}), "but has inf"),
        ((3, 10**400, {"a": 1.0}), "a wall time"),
        ((3, "now", {"a": 1.0}), "but has 'now'"),
        ((3, -1.0, {"a": 1.0}), "a wall time from 0 to 2..63 s, but has -1.0"),
        ((3, 0.0, {}), r"at least one value by tag, but has \{\}"),
        ((3, 0.0, [("a", 1.0)]), "at least one value by tag"),
        ((3, 0.0, {"": 1.0}), "tags that are words, but has ''"),
        ((3, 0.0, {1: 1.0}), "tags that are words, but has 1"),
        ((3, 0.0, {"\ud800": 1.0}), "tags that are words"),
        ((3, 0.0, {"a": "1"}), "a number for a, but has '1'"),
        ((3, 0.0, {"a": 1j}), "a number for a, but has 1j"),
        ((3, 0.0, {"a": None}), "a number for a, but has None"),
        ((3, 0.0, {"a": True}), "a number for a, but has True"),
        ((3, 0.0, {"a": -3.5e38}), r"single precision can hold for a, but has -3.5e\+38"),
        ((3, 0.0, {"a": 10**400}), "a number for a, but has 1000"),
    ],
)
def test_rows_that_cannot_be_written_are_refused(row, words):
    with pytest.raises(ArgumentError, match=words):
        event_file([(3, 0.0, {"a": 1.0}), row])


def test_no_rows_are_refused():
    with pytest.raises(ArgumentError, match="`rows` must hold at least one row"):
        event_file([])


def test_the_largest_numbers_are_rounded_and_not_refused(tensorboard):
    """Half a unit in the last place above the largest single is where rounding would give infinity."""
    edge = 2.0**128 - 2.0**103
    (_, event) = messages(event_file([(0, 0.0, {"a": np.nextafter(edge, 0)})]))
    assert tensorboard.event.FromString(event).summary.value[0].simple_value == np.finfo(np.float32).max
    with pytest.raises(ArgumentError, match="single precision"):
        event_file([(0, 0.0, {"a": edge})])
