"""The language: where messages end, what is in them, and what is wrong with those that cannot be read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhel_hw.instrument.faults import Fault
from rhel_hw.instrument.interpreter import TABLE
from rhel_hw.instrument.syntax import MOST_TEXT, Block, Framer, LostError, Unit, Word, block_header, parse, quoted
from rhel_hw.instrument.table import forms

MOST = 10_000


def cut(*pieces: bytes) -> list[bytes]:
    framer = Framer(MOST)
    return [message for piece in pieces for message in framer.feed(piece)]


def test_a_line_feed_ends_a_message_but_not_inside_a_block():
    assert cut(b"*IDN?\n*RST\r\n") == [b"*IDN?", b"*RST\r"]
    assert cut(b'DRIV "u",#15a\nb;c\nFORM?\n') == [b'DRIV "u",#15a\nb;c', b"FORM?"]
    assert cut(b'A "#19";B\nC\n') == [b'A "#19";B', b"C"]  # no block inside a string
    assert cut(b'A "never ends\nB\n') == [b'A "never ends', b"B"]  # nor does a string reach over lines
    assert cut(b"A #H1F\n") == [b"A #H1F"]


texts = st.text("ABCdef?;, *:.0123456789", max_size=20).map(str.encode)
blocks = st.binary(max_size=30).map(lambda data: block_header(len(data)) + data)
strings = st.text(st.characters(blacklist_characters="\n", max_codepoint=300), max_size=10).map(
    lambda text: quoted(text).encode()
)
messages = st.lists(st.one_of(texts, blocks, strings), max_size=5).map(b" ".join)


@given(st.lists(messages, max_size=5), st.lists(st.integers(0, 200), max_size=8))
def test_it_does_not_matter_how_bytes_arrive(sent, places):
    stream = b"".join(message + b"\n" for message in sent)
    edges = sorted({0, len(stream), *(p for p in places if p <= len(stream))})
    assert cut(*(stream[a:b] for a, b in pairwise(edges))) == sent


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"A #9999999999", -223),  # a gigabyte is refused by its header alone
        (b"A #510001", -223),
        (b"A #0abc", -161),
        (b"A" * (MOST_TEXT + 1), -363),
        (b'"' + b"A" * MOST_TEXT, -363),
        (b"#" * (MOST_TEXT + 2), -363),
    ],
)
def test_messages_without_a_known_end_are_given_up(data, number):
    with pytest.raises(LostError) as lost:
        cut(data)
    assert lost.value.fault.number == number


@given(st.lists(st.binary(max_size=60), max_size=4))
def test_no_bytes_bring_it_down(pieces):
    try:
        found = cut(*pieces)
    except LostError:
        return
    for message in found:
        try:
            for unit in parse(message):
                TABLE.find(unit)
        except Fault:
            continue


def test_chains_go_on_where_the_last_command_was():
    units = parse(b'SHOT:STEP 5;HOLD ON;*WAI;ECHO off;:FORM:DATA asc,0;border norm;; DRIV:DATA? "a""b", \'c"\'')
    assert [u.path for u in units] == [
        ("SHOT", "STEP"), ("SHOT", "HOLD"), ("*WAI",), ("SHOT", "ECHO"), ("FORM", "DATA"), ("FORM", "BORDER"),
        ("FORM", "DRIV", "DATA"),
    ]  # fmt: skip
    assert units[3].arguments == (Word("OFF"),)
    assert units[6] == Unit(("FORM", "DRIV", "DATA"), True, ('a"b', 'c"'))


def test_arguments_of_all_kinds():
    (unit,) = parse(b'X 1,-2.5e-3,.5,+7.,#HfF,#Q17,#b101,ON,#211\n;,"\'#12345,"s"')
    assert unit.arguments[:8] == (1.0, -2.5e-3, 0.5, 7.0, 255.0, 15.0, 5.0, Word("ON"))
    found = unit.arguments[8]
    assert isinstance(found, Block)
    assert bytes(found.data) == b"\n;,\"'#12345"
    with pytest.raises(Fault):
        parse(b'X #210\n;,"\'#12345,"s"')  # one byte too many is no separator


@pytest.mark.parametrize(
    ("message", "number"),
    [
        (b"&", -101), (b"*", -101), (b"A:", -111), (b"A,1", -111), (b'*IDN"x"', -111), (b"A 1 2", -103),
        (b"A 1,", -109), (b"A ,1", -109), (b"A 1;;B &", -101), (b"ABCDEFGHIJKLM", -112), (b"A 1e999", -123),
        (b'A "x', -151), (b'A "\xff"', -151), (b"A #25", -161), (b"A #25x", -161), (b"A #15abc", -161), (b"A #x", -161),
        (b"A #H" + b"F" * 65, -124),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(message, number):
    with pytest.raises(Fault) as found:
        parse(message)
    assert found.value.number == number


def test_every_command_answers_to_its_short_and_long_form():
    for row in TABLE.rows:
        bare = row.header.rstrip("?").replace("[", "").replace("]", "")
        parts = bare.split(":")
        assert all(len(part) <= 12 for part in parts)
        for which in (0, 1):
            path = tuple(forms(part)[which] for part in parts)
            try:
                assert TABLE.find(Unit(path, row.query, ()))[0] is row
            except Fault as fault:  # arguments are missing, the command is not
                missing = fault.number == -109 and row.parameters
            else:
                missing = not row.parameters or row.parameters[0].shown.startswith("[")
            assert missing, row.header
        assert row.does.endswith(".")


def test_texts_of_errors_are_short_and_plain():
    fault = Fault(-224, 'μ "quoted"\n' + "x" * 400)
    assert str(fault).startswith("-224,\"Illegal parameter value;? 'quoted' xxx")
    assert str(fault).endswith('..."')
    assert len(str(fault)) == len('-224,""') + 255
