"""Sockets: one controller at a time, limits, bad manners, and what is left after them."""

import random
import re
import socket
import struct
import time

import numpy as np
import pytest
import pyvisa

from devices import ArgumentError
from rhel_hw.instrument.page import page
from rhel_hw.instrument.server import Limits, Server, is_loopback
from tests.instrument.conftest import PAGE
from tests.instrument.serving import VALID, Line, Quick, listening, mutated, served

ONE_RUN = 'FORM ASC;:SHOT:CLE;STEP 3;:DRIV "u",0.5,0.25,0.125;:INIT'


def test_messages_and_answers():
    with listening() as port, Line(port) as line:
        assert line.ask("*IDN?").startswith("rhel-hw,")
        line.say(ONE_RUN)
        assert line.ask('FETC? "target.y"') == "0.5,0.75,0.875"
        line.say(b"*IDN?\nSYST:VERS?\n*OPC")  # two at once, and a part of one
        assert line.hear().startswith("rhel-hw,")
        assert line.hear() == "1999.0"
        assert line.ask(b"?\n") == "1"


def test_what_is_there_outlives_a_connection():
    bench = Quick(pause_s=0.2)
    with listening(bench, second="queue") as port:
        with Line(port) as line:
            line.say(ONE_RUN)
            line.say("NONSENSE")
            line.say(b"SHOT:STEP 9")  # never finished
        with Line(port) as line:
            assert line.ask('SHOT:STEP?;:FORM?;:FETC? "position.a"') == "3;ASC,0;0.5,0.25,0.125"
            assert line.ask("SYST:ERR?") == '-113,"Undefined header;NONSENSE"'
            assert line.ask("DES:USED?") == "1,0.001"


def test_a_second_controller_is_refused_with_an_error():
    with listening() as port, Line(port) as first:
        assert first.ask("*OPC?") == "1"
        with Line(port) as second:
            assert second.ask("*IDN?") == '-203,"Command protected;another controller is at work"'
            assert second.hear() == ""
        assert first.ask("SYST:ERR?") == '0,"No error"'
        first.close()
        answer, deadline = "-203", time.monotonic() + 5
        while answer.startswith("-203") and time.monotonic() < deadline:
            with Line(port) as third:
                answer = third.ask("*OPC?")
        assert answer == "1"


def test_or_waits_for_its_turn():
    with listening(second="queue") as port, Line(port) as first, Line(port) as second:
        second.say("SHOT:STEP?")
        assert first.ask("SHOT:STEP 5;STEP?") == "5"
        first.close()
        assert second.hear() == "5"


def test_who_leaves_the_queue_is_forgotten():
    """Neither its place nor what it said is kept, however many come and go."""
    bench = Quick()
    with listening(bench, second="queue") as port, Line(port) as first:
        assert first.ask("*OPC?") == "1"
        for i in range(80):
            with Line(port) as other:
                other.say("SHOT:STEP 7;:INIT")
            if i % 20 == 0:
                time.sleep(0.05)
        with Line(port) as last:
            last.say("SHOT:STEP?;:DES:USED?")
            time.sleep(0.05)
            first.close()
            assert last.hear() == "0;0,0.0"


def test_who_says_nothing_is_let_go():
    with listening(limits=Limits(idle_s=0.2)) as port:
        with Line(port) as line:
            assert line.ask("*OPC?") == "1"
            began = time.monotonic()
            assert line.hear() == ""
            assert 0.1 < time.monotonic() - began < 2
        with Line(port) as line:
            assert line.ask("SYST:ERR?") == '0,"No error"'


def test_who_takes_for_ever_is_let_go():
    """One byte at a time, but the message never ends; nor does a block that lies about its length."""
    for begin, rest in ((b"SHOT", b":" * 100), (b'DRIV "u",#3900', b"x" * 100)):
        with listening(limits=Limits(message_s=0.3)) as port:
            with Line(port) as line:
                line.say(begin)
                with pytest.raises(ConnectionError):
                    line.drip(rest, every_s=0.02)
            with Line(port) as line:
                assert line.ask("SYST:ERR?").startswith('-365,"Time out error;a message was not complete within 0.3 s')


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b'DRIV "u",#9999999999', '-223,"Too much data'),
        (b'DRIV "u",#0abc\n', '-161,"Invalid block data'),
        (b"A" * (2**20 + 10), '-363,"Input buffer overrun'),
    ],
)
def test_lost_messages_end_the_connection_and_are_told_to_the_next(data, error):
    with listening() as port:
        with Line(port) as line:
            line.say(data)
            assert line.hear() == ""
        with Line(port) as line:
            assert line.ask("SYST:ERR?").startswith(error)


def test_a_block_that_is_longer_than_it_says_is_refused():
    with listening() as port, Line(port) as line:
        line.say(b'FORM REAL,32;:DRIV "u",#14' + struct.pack("<2f", 1, 2) + b"\n")
        assert line.ask("SYST:ERR?")[:4] in ("-103", "-101")
        assert line.ask("SYST:ERR?;:SHOT:STEP?") == '0,"No error";0'


def test_an_answer_that_nobody_reads_is_given_up():
    with listening(limits=Limits(message_s=0.3)) as port:
        with Line(port) as line:
            line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.say("SHOT:CLE;STEP 1000000;:INIT")
            for _ in range(12):
                line.say('FETC? "position.a"')
            time.sleep(1.5)
        with Line(port) as line:
            assert line.ask("SYST:ERR?") == '-400,"Query error;an answer was not read"'


def test_the_example_of_the_protocol_page_is_what_happens(transcript):
    """The transcript of docs/instrument.md, said by PyVISA to the command that the page names."""
    command, exchanges = transcript
    design, *options = command.split()[2:]
    with served(design, *[o for o in options if o not in ("--port", "5025")]) as server:
        manager = pyvisa.ResourceManager("@py")
        resource = manager.open_resource(server.address, read_termination="\n", write_termination="\n", timeout=20_000)
        for said, heard in exchanges:
            if heard is None:
                resource.write(said)
            else:
                assert matches(resource.query(said), heard), said
        resource.close()
        manager.close()


def programs(port):
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [program.replace("::5025::", f"::{port}::") for program in found]


def test_the_learner_of_the_page_runs(toy_server, capsys):
    learner, _ = programs(toy_server.port)
    exec(learner, {})
    assert "inductor.inductance" in capsys.readouterr().out


def test_the_program_by_hand_of_the_page_runs(toy_server, capsys):
    _, program = programs(toy_server.port)
    names = {}
    exec(program, names)
    names["bench"].close()
    apart, error = capsys.readouterr().out.split(maxsplit=1)
    assert error.strip() == '0,"No error"'
    peak = np.max(np.abs(names["there"]))
    assert peak > 0
    assert float(apart) < 0.2 * peak  # codes, and noise


def test_the_page_is_that_of_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(), "python -m rhel_hw.instrument.page > docs/instrument.md"


def matches(answer: str, expected: str) -> bool:
    """Equal, but for the last digits of numbers."""
    ours, theirs = (text.replace(";", ",").split(",") for text in (answer, expected))
    return len(ours) == len(theirs) and all(a == b or close(a, b) for a, b in zip(ours, theirs, strict=True))


def close(a: str, b: str) -> bool:
    try:
        return abs(float(a) - float(b)) <= 1e-9 * abs(float(b))
    except ValueError:
        return False


# Long: bad manners in great number -----------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [40, pytest.param(500, marks=pytest.mark.slow)])
def test_controllers_that_die_anywhere(times):
    """At a random byte of a random message, or of an answer: nothing of an unfinished message is done."""
    rng, bench = random.Random(1), Quick()
    whole = [m.replace(b"u0", b"u").replace(b"y0", b"y") for m in VALID if b"INIT" not in m and b"FORM" not in m]
    whole = [m for m in whole if b"SHOT" not in m]
    with listening(bench, second="queue") as port:
        with Line(port) as line:
            assert line.ask(f"*CLS;:{ONE_RUN};*OPC?") == "1"
        for i in range(times):
            message = rng.choice(
                [*whole, b"SHOT:CLE;STEP 99\n", b'SHOT:STEP 3;:DRIV "u",#9000000012' + bytes(12) + b"\n"]
            )
            cut = rng.randrange(len(message))  # never the whole of it
            line = Line(port)
            if rng.random() < 0.3:
                line.say(b'FETC? "target.y","position.a"\n')
                line.socket.recv(rng.randint(1, 20))
            line.say(message[:cut])
            line.close(rudely=bool(i % 2))
            with Line(port) as line:
                assert line.ask('*OPC?;:SHOT:STEP?;:FETC? "target.y"') == "1;3;0.5,0.75,0.875", message[:cut]
                assert line.ask("DES:USED?;:SYST:ERR?") == '1,0.001;0,"No error"'


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_nonsense_in_great_number(count, toy_server):
    """Random and mutated messages to a real server: it answers after all of them, within its memory."""
    rng, server = random.Random(count), toy_server
    with Line(server.port) as line:
        assert line.ask("*CLS;*OPC?") == "1"
    idle, told, sent, lost = server.resident(), set(), 0, 0
    while sent < count:
        line = Line(server.port, timeout_s=5.0)
        try:
            for _ in range(20):
                batch = b"".join(mutated(rng) for _ in range(25))
                sent += 25
                line.say(batch + b"\n\n*WAI;:SYST:ERR:ALL?;:DES:USED?;*IDN?\n")
                answer = b""
                while b";rhel-hw,six coupled LC oscillators," not in answer or not answer.endswith(b"\n"):
                    piece = line.socket.recv(2**16)
                    if not piece:
                        raise ConnectionResetError
                    answer = answer[-1000:] + piece
                told |= set(re.findall(rb"-\d{3}(?=,)", answer))
        except (ConnectionError, TimeoutError):
            lost += 1  # a block without an end: the server hangs up, or waits for the rest of it until we do
        line.close(rudely=lost % 2 == 0)
        with Line(server.port) as line:
            assert line.ask("*RST;*OPC?") == "1"
            told |= set(re.findall(rb"-\d{3}(?=,)", line.ask("SYST:ERR:ALL?").encode()))
    assert server.process.poll() is None
    assert {b"-101", b"-113"} <= told
    assert server.resident() < idle + 200, "MiB"


def test_gigabytes_that_are_announced_take_no_memory(toy_server):
    with Line(toy_server.port) as line:
        assert line.ask("*CLS;*OPC?") == "1"
    idle = toy_server.resident()
    for _ in range(20):
        with Line(toy_server.port) as line:
            line.say(b'DRIV "u0",#9999999999' + bytes(1000))
            assert line.hear() == ""
    with Line(toy_server.port) as line:
        assert line.ask("SYST:ERR?").startswith('-223,"Too much data')
    assert toy_server.resident() < idle + 20


# What is refused -----------------------------------------------------------------------------------------------------


def test_limits_are_checked():
    with pytest.raises(ArgumentError, match="`idle_s` must be a finite number greater than 0"):
        Limits(idle_s=0)
    with pytest.raises(ArgumentError, match="`second` must be one of refuse, queue"):
        Server(Quick(), "", second="wait")


def test_loopback():
    assert is_loopback("127.0.0.1")
    assert is_loopback("localhost")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("example.org")
