"""Passes that wait to be played: gradients from what an oscilloscope saw, files of the folder, refusals, commands."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from circuits import Netlist
from circuits.generators import ladder
from circuits.netlist import Clock
from devices import ArgumentError, CoherentDrive, EvanescentCoupler, Inductor, Ring
from rhel_hw import EchoLearner, EmulatedBench, FolderBench, Profile, Recording, ReplayBench, Reprepare, Shot, Teacher
from rhel_hw.compare import cosine, trained
from rhel_hw.records import csv, hdf5
from rhel_hw.records.folder import AwaitedError
from rhel_hw.records.sheet import Sheet, Stage
from tests.records.laboratory import FINE, device, measure

STEPS = 60
LEARNER = EchoLearner(epsilon=0.01, gamma=100.0)


def learnt(design, lesson, folder, rig, learner=LEARNER, theta=None, **settings):
    """The gradient by as many rounds as it takes, and how many passes were played."""
    for played in range(5):
        bench = FolderBench(design, folder)
        try:
            return learner.gradient(bench, design, lesson, theta), played
        except AwaitedError:
            place = sorted(folder.glob("*/shot.toml"))[-1].parent
            measure(rig, place, signs=Stage(bench.describe(), design.netlist).signs, **settings)
    raise AssertionError("it never ends")


@pytest.fixture(scope="module")
def electrical():
    drawn = ladder(3)
    coils = tuple(replace(e, trainable=True) if isinstance(e, Inductor) else e for e in drawn.elements)
    design = drawn.replace(elements=coils).compile(steps=STEPS)
    return design, Teacher(batch=2).lesson(design), device(design)


def reference(design, lesson, learner=LEARNER, theta=None):
    """The same learner on an emulated bench whose device moves on between samples as the laboratory's does."""
    profile = Profile().set("dynamics.substeps", FINE + 1)
    return learner.gradient(EmulatedBench(design, profile), design, lesson, theta)


@pytest.fixture(scope="module")
def played(electrical, tmp_path_factory):
    """A folder of which everything was measured."""
    design, lesson, rig = electrical
    folder = tmp_path_factory.mktemp("played") / "lab"
    found, rounds = learnt(design, lesson, folder, rig)
    assert rounds == 2
    return folder, found


def test_a_laboratory_without_a_server_learns(electrical, played):
    """At eight samples a step; where drives jump momenta have corners, which splines round off by some 1e-5."""
    design, lesson, _ = electrical
    folder, found = played
    expected = reference(design, lesson)
    ours, theirs = (trained(design, g.theta) for g in (found, expected))
    assert 1 - cosine(ours, theirs) < 2e-9
    assert np.linalg.norm(ours) == pytest.approx(np.linalg.norm(theirs), rel=1e-4)
    assert (found.passes, found.seconds) == (expected.passes, expected.seconds)
    assert sorted(p.name for p in folder.iterdir()) == ["001-free", "002-echo", "lab.toml"]
    assert sorted(p.name for p in (folder / "002-echo").glob("play-*")) == [f"play-{i}.csv" for i in (1, 2, 3, 4)]


def test_the_same_by_hdf5_with_columns_of_other_names_and_a_late_clock(electrical, played, tmp_path):
    design, lesson, rig = electrical
    lab = tmp_path / "lab"
    lab.mkdir()
    wires = [
        f'"{kind}.{node}" = "{kind[0]}/{node}"' for kind in ("position", "momentum") for node in ("n0", "n1", "n2")
    ]
    (lab / "lab.toml").write_text('[measured]\nbegins = "3 us"\n[measured.columns]\n' + "\n".join(wires))
    titles = lambda name: name.replace("position.", "p/").replace("momentum.", "m/")  # noqa: E731
    theta = {k: 1.1 * v for k, v in design.theta().items()}  # which the sheets tell
    found, _ = learnt(design, lesson, lab, rig, theta=theta, write=hdf5.write, titles=titles, late_s=3e-6)
    ours, theirs = (trained(design, g.theta) for g in (found, reference(design, lesson, theta=theta)))
    assert 1 - cosine(ours, theirs) < 2e-9
    assert 1 - cosine(ours, trained(design, played[1].theta)) > 1e-3


@pytest.mark.parametrize("angle", [0.0, 0.4])
def test_what_is_played_in_an_echo_leads_back(angle, tmp_path):
    """Not turned round by an echo of the bench, but prepared with flipped momenta, by light at the mirrored angle."""
    rings = [Ring(f"R{n}", n, f, 193.4e12) for n, f in (("a", 4e8), ("b", -3e8))]

    def drawn(angle):
        return Netlist(
            "two", [*rings, EvanescentCoupler("J", "a", "b", 5e8, trainable=True)],
            drives=[CoherentDrive("u0", "a", angle)], targets=["a", "b"], clock=Clock(1e-11, STEPS),
        ).compile()  # fmt: skip

    design, steps = drawn(angle), np.arange(STEPS)
    wave = 1e9 * np.sin(0.3 * steps)
    stage = Stage(EmulatedBench(design).describe(), design.netlist)
    free = Shot(STEPS, {"u0": wave}, hold=True)
    Sheet(Shot(STEPS, {"u0": wave}, echo=True), {}, free).write(tmp_path, stage)
    played = csv.read(tmp_path / "play-1.csv")["drive.u0"].values
    np.testing.assert_array_equal(played, [*wave, *-wave[::-1]])
    assert (f"at an angle of {-angle:g} rad" in (tmp_path / "shot.toml").read_text()) == bool(angle)
    there = EmulatedBench(design).run(free)
    end = ({n: there[f"target.{n}"][-1, 0, 0] for n in "ab"}, {n: -there[f"momentum.{n}"][-1, 0, 0] for n in "ab"})
    back = EmulatedBench(drawn(-angle)).run(Shot(STEPS, {"u0": played[STEPS:]}, start=end))
    for n in "ab":
        assert abs(back[f"target.{n}"][-1]) < 1e-12 * np.max(np.abs(there[f"target.{n}"]))
        assert abs(back[f"momentum.{n}"][-1]) < 1e-12 * np.max(np.abs(there[f"momentum.{n}"]))


@pytest.mark.slow
def test_rings_learn_and_every_echo_may_have_a_pass_of_its_own(tmp_path):
    """By the protocol of devices that cannot hold a state: four runs."""
    design = Netlist.load("ring-lattice").compile(steps=STEPS)
    lesson, learner = Teacher().lesson(design), EchoLearner(epsilon=0.01, gamma=10.0, protocol=Reprepare())
    found, _ = learnt(design, lesson, tmp_path / "lab", device(design), learner)
    expected = reference(design, lesson, learner)
    assert 1 - cosine(trained(design, found.theta), trained(design, expected.theta)) < 1e-9


def test_sheets_say_exactly_what_was_asked(electrical, tmp_path):
    design = electrical[0]
    stage = Stage(EmulatedBench(design).describe(), design.netlist)
    rng = np.random.default_rng(0)
    channels = tuple(stage.bench.channels)
    name = next(iter(stage.bench.parameters))
    start = ({"n0": 1e-15}, {"n1": "1 fC"})
    free = Shot(4, {"u0": rng.normal(size=(4, 2))}, start=start, hold=True, channels=channels)
    echo = Shot(3, {"u0": rng.normal(size=(3, 2))}, {"n2": rng.normal(size=(3, 2))}, echo=True, channels=("target.n2",))
    for i, sheet in enumerate((Sheet(free, {name: 1.2345678901234567e-8}), Sheet(echo, {}, free))):
        folder = tmp_path / str(i)
        folder.mkdir()
        sheet.write(folder, stage)
        assert Sheet.read(folder, stage).same(sheet)
        assert not Sheet.read(folder, stage).same(Sheet(sheet.shot, {name: 1e-8}, sheet.prepared))
    assert not Sheet(echo, {}, free).same(Sheet(echo, {}, Shot(4, start=start, hold=True)))
    assert not Sheet(echo, {}, free).same(Sheet(free, {}))


def test_what_was_measured_becomes_a_bench_on_file(electrical, played, tmp_path):
    design, lesson, _ = electrical
    folder, found = played
    file = FolderBench(design, folder).recording().save(tmp_path / "bench.npz")
    again = LEARNER.gradient(ReplayBench(file), design, lesson)
    assert (again.loss, again.passes) == (found.loss, found.passes)
    for key, value in found.theta.items():
        np.testing.assert_array_equal(again.theta[key], value)


def test_a_bench_on_file_can_be_made_by_hand(electrical, tmp_path):
    """Of shots and records alone; it counts runs and time itself."""
    design, _, _ = electrical
    bench = EmulatedBench(design)
    made = Recording(bench.describe())
    shot = Shot(STEPS, {"u0": np.ones((STEPS, 2))}, start=({"n0": "1 fWb"}, {"n1": 1e-15}), channels=("target.n2",))
    record = bench.run(shot)
    made.add(shot, record)
    made.add(replace(shot, start=None), record, {"a": 3.0}, passes=7, seconds=1.0)
    replay = ReplayBench(made.save(tmp_path / "made.npz"))
    np.testing.assert_array_equal(replay.run(shot)["target.n2"], record["target.n2"])
    assert (replay.describe().passes, replay.describe().seconds) == (2, pytest.approx(2 * STEPS * design.step_s))
    with pytest.raises(ArgumentError, match=r"was not recorded: the next that was differs in `start`"):
        replay.run(replace(shot, start=({}, {})))
    replay.program({"a": 3.0 + 1e-12})
    replay.run(replace(shot, start=None))
    assert (replay.describe().passes, replay.describe().seconds) == (7, 1.0)


def change(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("lab.toml", "operation", "operator", "bench.operator` must be one of its keys; did you mean `operation`"),
        (
            "lab.toml",
            '"momentum-flip"',
            '"flip"',
            "bench.operation` must be one of momentum-flip, sign-flip, but is 'flip'",
        ),
        ("lab.toml", "[measured]", "[measure]", "must have sections bench, measured, but has 'measure'"),
        ("lab.toml", "begins =", "begins", "must be a sheet in TOML, but"),
        ("lab.toml", "begins", "begin", r"lab.toml: measured.begin` must be one of its keys; did you mean `begins`"),
        ("002-echo/shot.toml", 'design = "', 'design = "another ', "shot.design` must be .*: use another folder"),
        ("002-echo/shot.toml", "[shot]", "[measured]\nskip = -1\n[shot]", "shot.toml: measured.skip` must be a number"),
        ("002-echo/shot.toml", "steps = 60", "steps = 0", "shot.steps` must be a whole number of at least 1, but is 0"),
        ("002-echo/shot.toml", "prepared = 60", "prepared = 0", "shot.prepared` must be the number of steps before"),
        ("002-echo/shot.toml", "echo = true", "echo = 1", "shot.echo` must be true or false, but is 1"),
        (
            "002-echo/shot.toml",
            "paired",
            "pared",
            "shot` must name what there is, but has 'pared'; did you mean `paired`",
        ),
        ("002-echo/shot.toml", '"position.n0"', '"position.n9"', "shot.channels` must name what there is"),
        ("002-echo/shot.toml", "nH", "nF", r"is refused: it must be an inductance \(H\)"),
        ("002-echo/shot.toml", ".inductance", ".inductence", "parameters` must name what there is.*did you mean"),
        ("001-free/play-1.csv", "drive.u0", "drive.u1", "must name what there is, but has 'drive.u1'"),
        ("001-free/play-1.csv", "[A]", "[V]", r"drive.u0` is refused: it must be a current \(A\), but `V`"),
        ("001-free/play-1.csv", "drive.u0 [A]", "drive.u0", r"must state its unit, as in `drive.u0 \[A\]`"),
        ("001-free/play-1.csv", "\n0.0,", "\n-1.0,", "must have a line for every step, from 0 s to"),
    ],
)
def test_folders_that_are_refused(electrical, played, tmp_path, file, old, new, message):
    lab = tmp_path / "lab"
    shutil.copytree(played[0], lab)
    change(lab / file, old, new)
    with pytest.raises(ArgumentError, match=message):
        FolderBench(electrical[0], lab)


def test_what_is_missing_is_named(electrical, played, tmp_path):
    design, lesson, _ = electrical
    lab = tmp_path / "lab"
    shutil.copytree(played[0], lab)
    (lab / "002-echo" / "measured-3.csv").unlink()
    for ask in (
        lambda: FolderBench(design, lab).recording(),
        lambda: LEARNER.gradient(FolderBench(design, lab), design, lesson),
    ):
        with pytest.raises(
            AwaitedError, match=r"002-echo is not measured yet: play play-3.csv as .* as measured-3.csv"
        ):
            ask()
    (lab / "001-free" / "measured-1.h5").write_bytes(b"")
    with pytest.raises(ArgumentError, match=r"must have one file of run 1, but has .*-1.csv and .*-1.h5"):
        FolderBench(design, lab).recording()
    with pytest.raises(ArgumentError, match=r"must have folders with a shot.toml each, but has none"):
        FolderBench(design, tmp_path / "empty").recording()


def test_parameters_beyond_the_range_are_refused(electrical, tmp_path):
    bench = FolderBench(electrical[0], tmp_path / "lab")
    name, limit = next(iter(bench.describe().parameters.items()))
    with pytest.raises(ArgumentError, match=f"must keep `{name}` between"):
        bench.program({name: 2 * limit.high})


@pytest.mark.parametrize(
    ("shot", "message"),
    [
        (Shot(5, echo=True), "`echo` must follow a pass that was held"),
        (Shot(5, {"u9": np.zeros(5)}), "must name what there is, but has 'u9'"),
        (Shot(5, channels=("position.n9",)), "must name what there is, but has 'position.n9'"),
        (Shot(5, ranges={"position.n0": 1.0}), "the ranges of this bench are fixed"),
    ],
)
def test_shots_that_are_refused_write_nothing(electrical, tmp_path, shot, message):
    with pytest.raises(ArgumentError, match=message):
        FolderBench(electrical[0], tmp_path / "lab").run(shot)
    assert not (tmp_path / "lab").exists()


def test_commands(call, electrical, tmp_path):
    """Rounds of `gradient`, then `record`, then the file as the bench."""
    design, _, rig = electrical
    (tmp_path / "ladder.toml").write_text(design.netlist.to_toml())
    words = ("gradient", "ladder.toml", "--steps", str(STEPS), "--methods", "bptt", "--gamma", "100", "--bench")
    for place in ("001-free", "002-echo"):
        complaint = call(*words, "lab/", code=3)
        assert f"lab/{place} is not measured yet: play play-1.csv" in complaint
        measure(rig, tmp_path / "lab" / place)
    found = json.loads(call(*words, "lab/", "--json"))["bench"]
    assert found["cosines"][0] > 0.999  # of discrete steps to an echo of what moves on between them
    assert "free: 1 × 60 steps of target.n2" in call("record", "ladder.toml", "lab", "--out", "bench.npz")
    again = json.loads(call(*words, "bench.npz", "--json"))["bench"]
    assert again["parameters"] == found["parameters"]
    for wrong, message in (
        (("record", "ladder.toml", "lab", "--out", "bench.h5"), "`--out` must be a file such as bench.npz"),
        (("record", "ladder.toml", "ladder.toml"), "`SOURCE` must be a folder of passes or a Touchstone file"),
        (("gradient", "--bench", "lab/"), "`DESIGN` must be given with --bench lab/, which has none of its own"),
        (("train", "ladder.toml", "--bench", "none.npz"), "`path` must be a recorded bench, but none.npz"),
    ):
        assert message in call(*wrong, code=2)
