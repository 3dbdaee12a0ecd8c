"""What commands do to a bench, what they answer, and what they refuse."""

import json
import struct
from dataclasses import replace

import numpy as np
import pytest

from rhel_hw.instrument.interpreter import TABLE
from rhel_hw.instrument.syntax import block_header
from tests.instrument.serving import Desk, Quick


@pytest.fixture
def desk():
    found = Desk()
    yield found
    found.close()


def unpacked(answer: bytes) -> bytes:
    digits = int(answer[1:2])
    data = answer[2 + digits : -1]
    assert answer[:1] == b"#"
    assert len(data) == int(answer[2 : 2 + digits])
    assert answer[-1:] == b"\n"
    return data


def test_identity_and_version(desk):
    maker, model, serial, version = desk("*idn?").split(",")
    assert (maker, model, serial) == ("rhel-hw", "quick  one", "0")
    assert version[0].isdigit()
    assert desk("SYST:VERS?;:system:version?") == "1999.0;1999.0"
    assert desk("*TST?") == "0"
    listed = unpacked(desk.raw("SYST:HELP:HEAD?")).decode().splitlines()
    assert listed == [row.usage for row in TABLE.rows]
    assert "INITiate:DONE? [<seconds>]" in listed
    assert "FORMat[:DATA] REAL|ASCii[,<bits>]" in listed


def test_a_pass_with_its_record(desk):
    desk('FORM ASC;:SHOT:STEP 3;HOLD ON;:DRIV "u",0.5,0.25,-2;:INIT')
    assert desk('FETC? "position.a"') == "0.5,0.25,-1.0"
    assert desk('FETC? "position.a","target.y"') == "0.5,0.25,-1.0,0.5,0.75,-1.25"
    assert desk('FETC:BLOC? "position.a","target.y"') == "0.5,0.5,0.25,0.75,-1.0,-1.25"
    assert desk('FETC:TIM? "target.y"') == "1e-09,2e-09,3.0000000000000004e-09"
    assert desk('FETC:SHAP? "target.y";CAT?') == '3,1,1;"position.a","target.y"'
    assert desk('FETC:SAT? "position.a"') == "0,0,1"
    header = json.loads(unpacked(desk.raw("FETC:HEAD?")))
    assert header["channels"]["target.y"] == {"shape": [3, 1, 1], "unit": "V"}
    assert header["saturated"] == {"position.a": {"shape": [3, 1, 1], "count": 1}}
    assert desk("STAT:QUES:COND?") == "512"
    assert desk("DES:USED?") == "1,0.001"
    shot = desk.bench.shots[0]
    assert (shot.steps, shot.hold, shot.echo, shot.paired, shot.channels, shot.start) == (
        3,
        True,
        False,
        False,
        None,
        None,
    )


def test_all_that_a_shot_can_be_told(desk):
    desk('SHOT:STEP 2;ECHO 0;PAIR ON;CHAN "target.y";STAR:POS "a",0.5;MOM "a",2')
    desk('NUDG "y",1,2,3,4;:DRIV:EACH "u",1,2;*TRG')
    assert desk("FORM ASC;:FETC:CAT?;:SHOT:STEP?;PAIR?;ECHO?;HOLD?") == '"target.y";2;1;0;0'
    shot = desk.bench.shots[0]
    assert shot.paired
    assert shot.start == ({"a": 0.5}, {"a": 2.0})
    np.testing.assert_array_equal(shot.nudge["y"][..., 0], [[1, 2], [3, 4]])
    assert shot.drive["u"].shape == (2, 1, 1)
    desk('SHOT:CLE;STEP 2;ECHO ON;TRIM "a",0.25,1.5;:INIT;*WAI')
    assert desk("SHOT:AMPL?;:SYST:ERR?") == '0;0,"No error"'
    assert desk.bench.shots[1].trim == {"a": (0.25, 1.5)}
    desk('SHOT:CLE;STEP 2;RANG "position.a",0.25;:INIT;*WAI')
    assert desk.bench.shots[2].ranges == {"position.a": 0.25}
    desk("SHOT:CLE;STEP 2;CHAN:NONE;:INIT")
    assert desk("FETC:CAT?;:SYST:ERR?") == ';0,"No error"'
    desk("SHOT:CLE")
    assert desk("SHOT:STEP?") == "0"


@pytest.mark.parametrize(("form", "kind"), [("REAL,32", "f"), ("REAL", "f"), ("REAL,64", "d")])
@pytest.mark.parametrize(("order", "sign"), [("SWAP", "<"), ("NORMal", ">")])
def test_numbers_as_blocks(desk, form, kind, order, sign):
    numbers = [0.5, -0.25, 2.0**-20]
    data = struct.pack(f"{sign}3{kind}", *numbers)
    desk(f"FORM {form};:FORM:BORD {order}")
    desk(b'SHOT:STEP 3;:DRIV "u",' + block_header(len(data)) + data + b";:INIT")
    assert unpacked(desk.raw('FETC? "position.a"')) == data
    assert unpacked(desk.raw('FETC:SAT? "position.a"')) == b"\0"
    assert desk("FORM?;:FORM:BORD?") == f"REAL,{8 * struct.calcsize(kind)};{order[:4]}"


def test_after_reset_numbers_are_small_and_little_endian(desk):
    desk("FORM ASC;:FORM:BORD NORM;:SHOT:STEP 7;*RST")
    assert desk("FORM?;:FORM:BORD?;:SHOT:STEP?") == "REAL,32;SWAP;0"


def test_parameters_are_programmed_together(desk):
    assert desk("PAR:CAT?") == '"L.inductance"'
    assert desk('PAR:LIM? "L.inductance"') == "1e-09,1e-06"
    assert desk.fault('PAR? "L.inductance"').startswith("-230")
    desk('FORM ASC;:PAR "L.inductance",2E-8')
    assert not desk.bench.programmed
    desk("PAR:APPL")
    assert desk.bench.programmed == {"L.inductance": 2e-8}
    assert desk('PAR? "L.inductance"') == "2e-08"
    told = desk.fault('PAR "L.inductance",1;:PAR:APPL')
    assert told.startswith('-222,"Data out of range;Argument `parameters` must keep `L.inductance` between')
    assert desk('PAR? "L.inductance"') == "2e-08"


def test_design_and_description(desk):
    told = json.loads(unpacked(desk.raw("DES:DESC?")))
    assert told["channels"]["position.a"]["full_scale"] == 1.0
    assert told["learning"] == {"gamma": "auto"}
    assert unpacked(desk.raw("DES:NETL?")) == b"[design]\n"
    assert desk("DRIV:CAT?;:NUDG:CAT?") == '"u";"y"'


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ("SHOT:STEPP 5", "-113,\"Undefined header;SHOT:STEPP"),
        ("*XYZ?", "-113,\"Undefined header;*XYZ?"),
        ("SHOT:STEP", "-109,\"Missing parameter;steps is missing"),
        ("SHOT:STEP 5,6", "-108"),
        ("SHOT:STEP 0", "-222"),
        ("SHOT:STEP 2.5", "-222,\"Data out of range;steps must be a whole number from 1 to"),
        ('SHOT:STEP "5"', "-104,\"Data type error;steps must be a number"),
        ("SHOT:HOLD MAYBE", "-224"),
        ("SHOT:CHAN a", "-104,\"Data type error;channel must be a string in quotes"),
        ('SHOT:CHAN "position.b"', "-224,\"Illegal parameter value;Argument `channel` must name what there is"),
        ("FORM REAL,16", "-224"),
        ("FORM BINARY", "-224,\"Illegal parameter value;format must be one of REAL, ASCii"),
        ('DRIV "w",1', "-224"),
        ('DRIV "u",1,ON', "-104"),
        ('DRIV "u",#13abc', "-161"),
        ('FORM ASC;:DRIV "u",#14abcd', "-221"),
        ('PAR "L.inductance",1,2', "-221"),
        ("INIT", "-221,\"Settings conflict;SHOT:STEPs must be set before a pass"),
        ('SHOT:STEP 3;:DRIV "u",1,2;:INIT', "-221,\"Settings conflict;drive u has 2 values, which is no multiple of 3"),
        ("SHOT:STEP 3;PAIR ON;:INIT", "-221"),
        ('SHOT:TRIM "b",0,1', "-224,\"Illegal parameter value;Argument `node` must name what there is"),
        ('SHOT:TRIM "a",0', "-221,\"Settings conflict;a must have an angle and a factor"),
        ('SHOT:STEP 3;ECHO ON;TRIM "a",0,-1;:INIT', "-221,\"Settings conflict;Argument `trim.a` must have factors"),
        ('SHOT:STEP 3;TRIM "a",0,1;:INIT', "-221,\"Settings conflict;Argument `trim` must be left out of a pass"),
        ("SHOT:STEP 3;ECHO ON;AMPL ON;:INIT", "-221,\"Settings conflict;Argument `amplify` must be False: this bench"),
        ('SHOT:RANG "position.b",1', "-224,\"Illegal parameter value;Argument `channel` must name what there is"),
        ('SHOT:STEP 3;RANG "position.a",0.1;:INIT', "-221,\"Settings conflict;Argument `ranges.position.a` must be be"),
        ('FETC? "position.a"', "-230,\"Data corrupt or stale;there is no record"),
        ("SHOT:STEP 3;ECHO ON;:INIT;*WAI", "-200,\"Execution error;Argument `echo` must follow a pass that was held"),
        ("SHOT:STEP 1e9;:INIT;*WAI", "-200,\"Execution error;Argument `steps` must fit into the memory"),
    ],
)  # fmt: skip
def test_refusals_say_what_is_wrong(desk, message, error):
    assert desk.fault(message).startswith(error)


def test_numbers_that_are_none_are_refused(desk):
    assert desk.fault(b'DRIV "u",#14' + struct.pack("<f", float("nan"))).startswith("-222")


def test_a_message_that_cannot_be_read_does_nothing(desk):
    assert desk.fault("SHOT:STEP 5;:NONSENSE").startswith("-113")
    assert desk("SHOT:STEP?") == "0"
    assert desk.fault("SHOT:STEP 5;HOLD MAYBE").startswith("-224")
    assert desk("SHOT:STEP?") == "0"


def test_a_message_that_fails_stops_there(desk):
    assert desk.fault('SHOT:STEP 5;:DRIV "w",1;:SHOT:HOLD ON').startswith("-224")
    assert desk("SHOT:STEP?;HOLD?") == "5;0"


def test_waveforms_have_a_longest_length(desk):
    data = np.zeros(10**6 + 1, "<f4").tobytes()
    assert desk.fault(b'DRIV "u",' + block_header(len(data)) + data).startswith("-223")


def test_registers(desk):
    assert desk("*ESR?") == "128"  # power on
    desk("*ESE 48;*SRE 32;:NONSENSE")
    assert desk("*STB?") == "4"  # nothing of that was done
    desk("*CLS;*ESE 48;*SRE 255")
    assert desk("*SRE?;*ESE?") == "191;48"
    desk("NONSENSE")
    assert desk("*STB?") == str(4 + 32 + 64)
    assert desk("*ESR?;*ESR?;*STB?") == f"32;0;{4 + 64}"
    desk("*CLS")
    assert desk("*STB?;:SYST:ERR:COUN?") == "0;0"
    desk("*OPC")
    assert desk("*ESR?;*OPC?") == "1;1"
    desk("STAT:OPER:ENAB 16;:STAT:QUES:ENAB 512")
    assert desk("STAT:OPER:ENAB?;:STAT:QUES:ENAB?") == "16;512"
    desk('SHOT:STEP 1;:DRIV "u",9;:INIT;*WAI')
    assert desk("*STB?") == str(8 + 64 + 128)
    assert desk("STAT:OPER?;:STAT:QUES?;*STB?") == "16;512;0"
    desk("STAT:PRES")
    assert desk("STAT:OPER:ENAB?;:STAT:QUES:ENAB?") == "0;0"


def test_errors_wait_in_order_and_overflow_is_told(desk):
    for i in range(40):
        desk(f"NONSENSE{i:02}")
    assert desk("SYST:ERR:COUN?") == "32"
    assert desk("SYST:ERR?") == '-113,"Undefined header;NONSENSE00"'
    rest = desk("SYST:ERR:ALL?").split(",-")
    assert len(rest) == 31
    assert rest[-1] == '350,"Queue overflow"'
    assert desk("SYST:ERR:ALL?") == '0,"No error"'


def test_a_pass_runs_beside_the_commands():
    desk = Desk(Quick(pause_s=0.3))
    desk("SHOT:STEP 2;:INIT;*OPC")
    assert desk("STAT:OPER:COND?;:INIT:DONE?;*ESR?") == "16;0;128"
    assert desk.fault("INIT").startswith('-213,"Init ignored')
    assert desk("INIT:DONE? 5") == "1"
    assert desk("STAT:OPER:COND?;*ESR?") == f"0;{1 + 16}"  # complete, and an error of execution
    desk("INIT")
    assert desk('FORM ASC;:FETC? "position.a"') == "0.0,0.0"  # waits for it
    desk("INIT;:ABOR")
    assert desk.fault('FETC? "position.a"').startswith("-230")
    assert len(desk.bench.shots) == 3
    desk.close()


def test_an_error_of_ours_does_not_end_it(capsys):
    class Broken(Quick):
        def run(self, shot):
            raise RuntimeError("fuse blown")

        def program(self, parameters):
            raise RuntimeError("no ink")

    desk = Desk(Broken())
    assert desk.fault("SHOT:STEP 2;:INIT;*WAI") == '-310,"System error;RuntimeError: fuse blown"'
    assert desk.fault('PAR "L.inductance",2e-8;:PAR:APPL') == '-310,"System error;RuntimeError: no ink"'
    assert "fuse blown" in capsys.readouterr().err
    assert desk("*IDN?").startswith("rhel-hw")
    desk.close()


def test_an_answer_is_in_the_format_that_held_when_it_was_asked_for(desk):
    desk('SHOT:STEP 2;:DRIV "u",0.5,0.25;:INIT')
    answer = desk.raw('FORM REAL,32;:FETC? "position.a";:FORM REAL,64;:FORM:BORD NORM')
    assert unpacked(answer) == struct.pack("<2f", 0.5, 0.25)


def test_numbers_that_32_bits_cannot_hold_are_refused(desk):
    desk('SHOT:STEP 2;:DRIV "u",1e-60,0;:INIT')
    assert desk.fault('FETC? "position.a"').startswith("-222")
    assert desk('FORM ASC;:FETC? "position.a"') == "1e-60,0.0"
    assert len(desk.raw('FORM REAL,64;:FETC? "position.a"')) == 4 + 16 + 1


def test_long_answers_in_text(desk):
    desk("FORM ASC;:SHOT:STEP 10000;:INIT")
    assert desk('FETC? "position.a","target.y"') == ",".join(["0.0"] * 20000)


def test_names_of_designs_are_told_in_plain_letters():
    class Great(Quick):
        def describe(self):
            return replace(super().describe(), design="Größe")

    desk = Desk(Great())
    assert desk("*IDN?").startswith("rhel-hw,Gr??e,0,")
    assert desk.fault('SHOT:STAR:POS "b",1').startswith("-224")
    desk.close()
