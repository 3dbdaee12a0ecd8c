"""Files .ts and .arff: what is in them comes back, and what is wrong with them is named with its line."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devices import ArgumentError
from rhel_hw.data import read

TS = """# made by hand
@problemName Two Moves
@timeStamps false
@missing false
@univariate false
@dimensions 2
@equalLength false
@classLabel true up down

@data
1,2,3:4,5,6:up
7,8:9,-1.5e1:down
"""
ARFF = r"""% made by hand
@RELATION 'Two Moves'
@attribute relationalAtt relational
@attribute t0 numeric
@attribute 't 1' REAL
@Attribute t2 numeric
@end relationalAtt
@attribute target {'going up',down}
@DATA
'1,2,3\n4,5,6','going up'
"7,8,?\n9,-1.5e1,?",down
"""
FLAT = """@relation Flat
@attribute t0 numeric
@attribute t1 numeric
@attribute class {1, 2}
@data
% first
0.5,1.5,2
2.5,3.5,1
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="set.ts"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_ts_file(file):
    series = read(file(TS))
    assert series.name == "Two Moves"
    assert series.classes == ("up", "down")
    assert series.y.tolist() == [0, 1]
    assert series.lengths.tolist() == [3, 2]
    np.testing.assert_array_equal(series.x, [[[1, 4], [2, 5], [3, 6]], [[7, 9], [8, -15], [0, 0]]])
    assert series.held_out is None


def test_a_ts_file_of_values(file):
    """As the regression archive writes them: other capitals, @dimension, and @classLabel false."""
    head = "@problemname T\n@timestamps false\n@univariate true\n@dimension 1\n@classLabel false\n@targetlabel true\n"
    series = read(file(head + "@data\n1,2:0.5\n3,4: -2e1 \n"))
    assert (series.task, series.y.tolist(), series.width) == ("regression", [0.5, -20.0], 1)


def test_an_arff_file_of_several_dimensions(file):
    series = read(file(ARFF, "set.arff"))
    assert (series.name, series.classes) == ("Two Moves", ("going up", "down"))
    assert series.y.tolist() == [0, 1]
    assert series.lengths.tolist() == [3, 2]
    np.testing.assert_array_equal(series.x, [[[1, 4], [2, 5], [3, 6]], [[7, 9], [8, -15], [0, 0]]])


def test_an_arff_file_of_one_dimension(file):
    series = read(file(FLAT, "set.arff"))
    assert (series.classes, series.y.tolist()) == (("1", "2"), [1, 0])
    np.testing.assert_array_equal(series.x[..., 0], [[0.5, 1.5], [2.5, 3.5]])
    values = read(file(FLAT.replace("{1, 2}", "numeric"), "set.arff"))
    assert (values.task, values.y.tolist()) == ("regression", [2.0, 1.0])


def test_missing_values_are_put_on_straight_lines(file):
    """Ends are level, gaps linear, in every dimension by itself."""
    text = TS.replace("1,2,3:4,5,6", "?,2,NaN,6:4,?,?,10")
    with pytest.raises(ArgumentError, match=r'line 11 of set.ts has 4 missing values: read it with missing="interp'):
        read(file(text))
    series = read(file(text), missing="interpolate")
    np.testing.assert_array_equal(series.x[0], [[2, 4], [2, 6], [4, 8], [6, 10]])
    with pytest.raises(ArgumentError, match=r"line 11 of set.ts has a dimension without any value"):
        read(file(TS.replace("1,2,3:", "?,?,?:")), missing="interpolate")
    inside = FLAT.replace("0.5,1.5", "?,1.5")
    with pytest.raises(ArgumentError, match=r"line 7 of set.arff has 1 missing values"):
        read(file(inside, "set.arff"))
    assert read(file(inside, "set.arff"), missing="interpolate").x[0, 0] == 1.5
    with pytest.raises(ArgumentError, match="`missing` must be one of refuse, interpolate, but is 'drop'"):
        read(file(TS), missing="drop")


floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
words = st.text("abcXYZ0189_-.", min_size=1, max_size=6)


@st.composite
def sets(draw):
    width = draw(st.integers(1, 3))
    equal = draw(st.booleans())
    steps = draw(st.integers(1, 6))
    classes = draw(st.none() | st.lists(words, min_size=1, max_size=4, unique=True))
    rows = []
    for _ in range(draw(st.integers(1, 5))):
        length = steps if equal else draw(st.integers(1, 6))
        values = draw(st.lists(st.lists(floats, min_size=length, max_size=length), min_size=width, max_size=width))
        rows.append((values, draw(floats if classes is None else st.sampled_from(classes))))
    return width, equal, steps, classes, rows


def as_ts(width, equal, steps, classes, rows):
    head = ["# drawn", "@problemName drawn", "@timeStamps false", "@missing false", f"@univariate {width == 1}".lower()]
    head += [f"@dimensions {width}", f"@equalLength {equal}".lower(), *([f"@seriesLength {steps}"] if equal else [])]
    head += ["@targetLabel true" if classes is None else f"@classLabel true {' '.join(classes)}", "@data"]
    body = [":".join([*(",".join(map(repr, v)) for v in values), str(label)]) for values, label in rows]
    return "\n".join([*head, *body])


@settings(max_examples=60)
@given(sets())
def test_what_is_written_is_read(tmp_path_factory, drawn):
    path = tmp_path_factory.mktemp("drawn") / "drawn.ts"
    path.write_text(as_ts(*drawn))
    series = read(path)
    width, _, _, classes, rows = drawn
    assert (series.count, series.width) == (len(rows), width)
    assert series.classes == tuple(classes or ())
    for i, (values, label) in enumerate(rows):
        assert series.lengths[i] == len(values[0])
        np.testing.assert_array_equal(series.x[i, : len(values[0])].T, np.array(values, np.float32))
        assert (series.y[i] if classes is None else classes[series.y[i]]) == label


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("7,8:9,-1.5e1:down", "7,8:9,-1.5e1", "line 12 of set.ts has 1 dimensions where 2 are expected"),
        ("7,8:9,-1.5e1:down", "7,8", "line 12 of set.ts has no label"),
        ("7,8:9,-1.5e1:down", "7,8:9,-1.5e1:do", "line 12 of set.ts has the unknown label 'do'.*did you mean `down`"),
        ("7,8:9,", "7,8:9:9,", "line 12 of set.ts has 1 values in dimension 2 and 2 in dimension 1"),
        ("1,2,3:", "1,2,3:1,2,3:", "line 11 of set.ts has 3 dimensions where 2 are expected"),
        ("1,2,3:", "1,x,3:", "line 11 of set.ts has 'x' where a number should be"),
        ("1,2,3:", "1,,3:", "line 11 of set.ts has '' where a number should be"),
        ("1,2,3:", "1,inf,3:", "line 11 of set.ts has an infinite value"),
        ("1,2,3:", "1,1e39,3:", "line 11 of set.ts has an infinite value, or one beyond"),
        ("1,2,3:", "(0,1),(1,2),(2,3):", "line 11 of set.ts has time stamps"),
        ("@timeStamps false", "@timeStamps true", "line 3 of set.ts has time stamps"),
        ("@timeStamps false", "@timeStamps maybe", "line 3 of set.ts must say true or false after @timestamps"),
        ("@missing false", "@missing no", "line 4 of set.ts must say true or false after @missing"),
        ("@univariate false", "@univariate true", "line 5 of set.ts says @univariate true, but the file has 2 dim"),
        ("@dimensions 2", "@dimensions two", "line 6 of set.ts must give a whole number after @dimensions"),
        ("@dimensions 2", "@dimensions 3", "line 11 of set.ts has 2 dimensions where 3 are expected"),
        ("@dimensions 2", "@dimensions", "line 6 of set.ts has nothing after @dimensions"),
        ("@dimensions 2", "@dimnsions 2", "line 6 of set.ts has the unknown keyword @dimnsions; did you mean `dimens"),
        ("@dimensions 2", "@missing true", "line 6 of set.ts says @missing a second time"),
        ("@equalLength false", "@equalLength true", "line 12 of set.ts has 2 steps where 3 are expected"),
        ("@equalLength false", "@seriesLength 4", "line 11 of set.ts has 3 steps where 4 are expected"),
        ("@classLabel true up down", "@classLabel true", "line 8 of set.ts must give different names"),
        ("@classLabel true up down", "@classLabel true up up", "line 8 of set.ts must give different names"),
        ("@classLabel true up down", "@classLabel false", "set.ts says neither @classLabel true .* nor @targetLabel"),
        ("@classLabel true up down", "@targetLabel true", "line 11 of set.ts has 'up' where a number should be"),
        (":up", ":1,2", "line 11 of set.ts has the unknown label '1,2'; known are down, up"),
        ("@data\n", "", "line 10 of set.ts is neither a comment nor a keyword"),
        ("@data\n1,2,3:4,5,6:up\n7,8:9,-1.5e1:down\n", "", "set.ts has no line @data"),
        ("1,2,3:4,5,6:up\n7,8:9,-1.5e1:down\n", "", "hold at least one series, but set.ts has none"),
    ],
)
def test_corrupted_ts_files(file, old, new, message):
    assert old in TS
    with pytest.raises(ArgumentError, match=f"Argument `path` must .*{message}"):
        read(file(TS.replace(old, new, 1)))


@pytest.mark.parametrize(("value", "said"), [("nan", "'nan'"), ("1,2", "'1,2'"), ("?", "'?'")])
def test_values_to_be_learnt_must_be_numbers(file, value, said):
    text = f"@targetLabel true\n@data\n1,2:3\n1,2:{value}\n"
    with pytest.raises(ArgumentError, match=rf"line 4 of set.ts has {said.replace('?', '[?]')} where the one value"):
        read(file(text))


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (ARFF, r"'1,2,3\n4,5,6','going up'", r"'1,2,3\n4,5", "line 10 .* must have its dimensions between quotes"),
        (ARFF, r"'1,2,3\n4,5,6','going up'", r"'1,2,3\n4,5,6'", "line 10 .* must have its dimensions between quotes"),
        (ARFF, r"'1,2,3\n4,5,6'", r"'1,2,3\n4,5'", "line 10 .* has 2 values in dimension 2 and 3 in dimension 1"),
        (ARFF, r"'1,2,3\n4,5,6'", r"'1,2\n4,5'", "line 10 of set.arff has 2 steps where 3 attributes are declared"),
        (ARFF, r"\n9,-1.5e1,?", "", "line 11 of set.arff has 1 dimensions where 2 are expected"),
        (ARFF, r"'1,2,3\n4", r"'1,b,3\n4", "line 10 of set.arff has 'b' where a number should be"),
        (ARFF, '",down', '",dwn', "line 11 of set.arff has the unknown label 'dwn'; did you mean `down`"),
        (ARFF, "7,8,?", "7,?,8", "line 11 of set.arff has 2 missing values"),
        (ARFF, "@end relationalAtt\n", "", "line 7 .* must have a numeric attribute for a step, but has "),
        (ARFF, "t2 numeric", "t2 string", "line 6 of set.arff must have a numeric attribute for a step"),
        (ARFF, "@end relationalAtt", "@end other", "line 7 of set.arff is none of @relation, @attribute"),
        (
            ARFF,
            "@end relationalAtt",
            "@end relationalAtt\n@attribute more real",
            "line 8 .* between the relational one",
        ),
        (
            ARFF,
            "@end relationalAtt\n@attribute target {'going up',down}\n",
            "",
            "line 7 .* comes before @end relationalAtt",
        ),
        (FLAT, "{1, 2}", "{1, 1}", "line 4 of set.arff must give different names of classes"),
        (FLAT, "{1, 2}", "string", "line 4 of set.arff must give classes .* but gives 'string'"),
        (FLAT, "0.5,1.5,2", "0.5,2", "line 7 of set.arff has 1 steps where 2 attributes are declared"),
        (FLAT, "0.5,1.5,2", "0.5", "line 7 of set.arff has no label"),
        (FLAT, "0.5,1.5,2", "?,?,2", "line 7 of set.arff has no value at all"),
        (FLAT, "0.5,1.5,2", "{0 0.5, 2 2}", "line 7 of set.arff is sparse"),
        (FLAT, "@attribute t0 numeric\n@attribute t1 numeric\n", "", "set.arff has 1 attributes"),
        (FLAT, "@data", "", "line 7 of set.arff is none of @relation"),
        (FLAT, "@data\n% first\n0.5,1.5,2\n2.5,3.5,1\n", "", "set.arff has no line @data"),
    ],
)
def test_corrupted_arff_files(file, text, old, new, message):
    assert old in text
    with pytest.raises(ArgumentError, match=f"Argument `path` must .*{message}"):
        read(file(text.replace(old, new, 1), "set.arff"))


def test_files_that_are_none(file, tmp_path):
    with pytest.raises(ArgumentError, match=r"must end in .ts, .arff, .npz, but is set.csv"):
        read(file("1,2", "set.csv"))
    with pytest.raises(ArgumentError, match=r"must be a file, but .*nowhere.ts is not there"):
        read(tmp_path / "nowhere.ts")
    with pytest.raises(ArgumentError, match=r"line 1 of set.ts is neither a comment nor a keyword"):
        read(file(bytes(range(128, 256)), "set.ts"))


# Train and test files -----------------------------------------------------------------------------------------------

TEST = TS.replace("1,2,3:4,5,6:up\n", "1,2,3,4:5,6,7,8:down\n")


@pytest.mark.parametrize("asked", ["Moves_TRAIN.ts", "Moves_TEST.ts"])
def test_both_parts_are_read_whichever_is_asked_for(file, asked):
    file(TS, "Moves_TRAIN.ts"), file(TEST, "Moves_TEST.ts"), file(FLAT, "Moves_TEST.arff")
    series = read(file(TS if "TRAIN" in asked else TEST, asked))
    assert series.name == "Moves"
    assert series.held_out.tolist() == [False, False, True, True]
    assert series.y.tolist() == [0, 1, 1, 1]
    assert series.lengths.tolist() == [3, 2, 4, 2]
    assert series.x.shape == (4, 4, 2)
    np.testing.assert_array_equal(series.x[2, :, 0], [1, 2, 3, 4])
    np.testing.assert_array_equal(series.x[0, :, 1], [4, 5, 6, 0])


def test_one_part_alone(file):
    test = file(TEST, "Moves_TEST.ts")
    assert read(test).held_out is None
    train = file(TS, "Moves_TRAIN.ts")
    for path, steps in ((train, 3), (test, 4)):
        series = read(path, both=False)
        assert (series.count, series.steps, series.held_out) == (2, steps, None)


def test_parts_of_different_sets_are_refused(file):
    train = file(TS, "Moves_TRAIN.ts")
    file(TEST.replace("true up down", "true down up"), "Moves_TEST.ts")
    with pytest.raises(ArgumentError, match=r"Moves_TRAIN.ts has classes \('up', 'down'\) and Moves_TEST.ts"):
        read(train)
    file(TEST.replace("7,8:9,-1.5e1:down\n", ":::"), "Moves_TEST.ts")
    with pytest.raises(ArgumentError, match=r"line 12 of Moves_TEST.ts"):
        read(train)
