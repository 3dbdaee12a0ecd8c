"""The whole chain: what it finds, what it puts right, what it refuses, and that an ideal bench stays as it is."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from calibration import chain, echo, fitting
from calibration.chain import STAGES, calibrate
from calibration.file import Calibration
from calibration.findings import CalibrationError
from circuits import Clock
from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import EchoLearner, EmulatedBench, Profile, RemoteBench, Shot, Teacher
from tests.calibration.chips import Broken, trained, true_gradient
from tests.instrument.serving import listening

STEPS = 150
ERRORS = {
    "fabrication": {"mismatch": 0.05},
    "dynamics": {"quality": 200.0},
    "readout": {"bits": 8, "gain_spread": 0.02, "offset": 0.01},
    "drive": {"bits": 8, "gain": 1.02, "offset": 0.01},
    "nudge": {"gain": 0.97},
    "echo": {"gain": 1.03, "angle": 0.05},
}


@pytest.fixture(scope="module", autouse=True)
def short():
    """A few periods have one minimum: parts of them would be other programs, as would be lengths."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fitting, "LENGTHS", (1.0,))
        patch.setattr(echo, "LENGTHS", (1.0,))
        yield


@pytest.fixture(scope="module")
def design():
    return ladder(2).replace(clock=Clock(None, STEPS)).compile()


@pytest.fixture(scope="module")
def lesson(design):
    return Teacher().lesson(design)


def profile_of(design):
    late = {"latency": 1.3 * design.step_s, "skew": 0.4 * design.step_s}
    return Profile.of({**ERRORS, "echo": {**ERRORS["echo"], **late}})


def bench_of(design, lesson):
    return EmulatedBench(design, profile_of(design), reference=lesson.drive)


def calibrated(bench, design, lesson, **options):
    task = {"type": "teacher", **asdict(Teacher())}
    return calibrate(bench, design, lesson, EchoLearner(epsilon=0.01), task=task, seed=0, **options)


@pytest.fixture(scope="module")
def found(design, lesson):
    told = []
    bench = bench_of(design, lesson)
    result = calibrated(bench, design, lesson, anchors=4, report=lambda done, what: told.append((done, what)))
    assert told == list(enumerate(STAGES))
    assert result.passes == bench.describe().passes
    return result


def error(bench, design, lesson, exact):
    ours = trained(design, EchoLearner(epsilon=0.01, gamma="auto").gradient(bench, design, lesson).theta)
    return np.linalg.norm(ours - exact) / np.linalg.norm(exact)


def test_gradients_are_those_of_the_chip(found, design, lesson):
    """All errors at once."""
    bench = bench_of(design, lesson)
    around = found.around(bench, design.netlist, seed=0)
    assert error(bench, design, lesson, true_gradient(bench, design, lesson)) > 0.2
    exact = true_gradient(bench, design, lesson, found.corrections.values)
    assert error(around, design, lesson, exact) < 0.03


def test_what_was_found_is_told_with_deviations(found):
    turn, converters = found.results["turn"], found.results["converters"]
    assert turn["latency_s"] / turn["step_s"] == pytest.approx(1.3, abs=0.03)
    assert turn["skew_s"] / turn["step_s"] == pytest.approx(0.4, abs=0.03)
    np.testing.assert_allclose(turn["gain"], 1.03, atol=0.01)
    np.testing.assert_allclose(turn["angle"], 0.05, atol=0.01)
    np.testing.assert_allclose(found.results["nudges"]["gain"], 0.97, atol=0.01)
    np.testing.assert_allclose(converters["effective_bits"], 8, atol=0.6)
    assert np.max(found.results["values"]["deviations"]) < 0.01
    assert found.results["loss"]["best"] == "weaker drives"
    assert np.max(np.abs(found.results["drift"]["track"])) < 0.01  # anchors find the values where they were


def test_a_file_is_the_calibration(found, design, tmp_path):
    path = found.save(tmp_path / "bench.json")
    again = Calibration.load(path)
    assert again.to_dict() == found.to_dict()
    assert Calibration.parsed(found.brief()).corrections.to_dict() == found.corrections.to_dict()
    other = replace(Teacher(), seed=1)
    assert again.chosen(design.netlist, seed=0).strengths
    assert not again.chosen(design.netlist, seed=0, task={"type": "teacher", **asdict(other)}).strengths


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d | {"version": 99}, "version 1, but .* 99: calibrate again"),
        (lambda d: d | {"format": "x"}, "file of `rhel-hw calibrate`"),
        (lambda d: {k: v for k, v in d.items() if k != "corrections"}, "damaged"),
        (lambda d: d | {"numbers": [0, 1]}, "damaged"),
        (lambda d: d | {"corrections": {"chips": 1, "x": 1}}, "must have keys"),
    ],
)
def test_files_that_are_none_are_refused(found, tmp_path, change, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(change(found.to_dict())))
    with pytest.raises(ArgumentError, match=message):
        Calibration.load(path)


def test_another_design_seed_or_chip_is_refused(found, design, tmp_path):
    with pytest.raises(ArgumentError, match="calibrate this design"):
        found.chosen(ladder(3))
    with pytest.raises(ArgumentError, match="from seed 0"):
        found.chosen(design.netlist, seed=1)
    with pytest.raises(ArgumentError, match="must have chip 3, but has chip 0"):
        found.chosen(design.netlist, seed=0, numbers=[3])
    (tmp_path / "no.json").write_text("{")
    with pytest.raises(ArgumentError, match="JSON"):
        Calibration.load(tmp_path / "no.json")


@pytest.mark.slow
def test_an_ideal_bench_stays_as_it_is(design, lesson):
    """Not one correction, so that records are the same bit for bit; but for the nudging strength."""
    bench = EmulatedBench(design, Profile(), reference=lesson.drive)
    result = calibrated(bench, design, lesson, anchors=0)
    assert replace(result.corrections, strengths=(), parities={}).ideal
    assert not result.findings
    shot = Shot(STEPS, lesson.drive)
    plain = EmulatedBench(design, Profile(), reference=lesson.drive)
    around = result.around(plain, design.netlist, seed=0)
    for name, samples in plain.run(shot).samples.items():
        np.testing.assert_array_equal(around.run(shot)[name], samples)


def test_a_dead_channel_ends_it(design, lesson):
    def cut(samples, _):
        if "position.n1" in samples:
            samples["position.n1"] = np.zeros_like(samples["position.n1"])

    with pytest.raises(CalibrationError, match=r"position\.n1.*dead.*check its probe"):
        calibrated(Broken(bench_of(design, lesson), cut), design, lesson)


# Over the wire, and on the command line -----------------------------------------------------------------------------


def test_over_the_wire_it_finds_the_same(found, design, lesson):
    """Not one number differs: calibration knows the interface alone."""
    with listening(bench_of(design, lesson)) as port, RemoteBench(f"TCPIP::127.0.0.1::{port}::SOCKET") as far:
        again = calibrated(far, design, lesson, anchors=4)
    ours, theirs = found.to_dict(), again.to_dict()
    assert ours.pop("seconds") == pytest.approx(theirs.pop("seconds"))
    assert json.dumps(ours) == json.dumps(theirs)


@pytest.fixture
def files(found, design, tmp_path):
    """The design with its profile, and its calibration."""
    netlist = design.netlist.replace(settings={"profile": profile_of(design).to_dict(), "learning": {"gamma": "auto"}})
    (tmp_path / "two.toml").write_text(netlist.to_toml())
    found.save(tmp_path / "two.json")
    return "two.toml", "two.json"


def test_the_command_writes_file_and_report(found, files, call, tmp_path, monkeypatch):
    asked = {}

    def known(bench, design, lesson, learner, **options):
        asked.update(options, chips=bench.describe().chips)
        return found

    monkeypatch.setattr(chain, "calibrate", known)
    document = json.loads(
        call("calibrate", files[0], "--out", "made", "--anchors", "4", "--held", "Ln0.inductance", "--json")
    )
    assert asked["anchors"] == 4
    assert asked["held"] == ["Ln0.inductance"]
    assert asked["numbers"] == (0,)
    assert asked["profile"]["readout"]["bits"] == 8
    assert [f.rsplit(".", 1)[1] for f in document["files"]] == ["json", "html"]
    assert Calibration.load(tmp_path / "made" / "two.json").to_dict() == found.to_dict()
    page = (tmp_path / "made" / "two.html").read_text()
    for words in ("Calibration of", "Element values", "Converters", "Echoes", "Nudging strength", "Drift", "Passes"):
        assert words in page
    assert "http" not in page.replace("http://www.w3.org", "")
    text = call("calibrate", files[0], "--out", "made")
    for words in ("clock, in steps", "weaker drives", "trimmed by node", "wrote made/two.html"):
        assert words in text


def test_gradients_and_training_take_the_file(found, files, call, design, lesson):
    options = ["--calibration", files[1], "--methods", "rhel", "--json"]
    put_right = json.loads(call("gradient", files[0], *options))["bench"]
    exact = true_gradient(bench_of(design, lesson), design, lesson, found.corrections.values)[0, 0]
    (name,) = design.parameters.trainable_names
    scale = design.parameters.entries[name].scale
    assert put_right["parameters"][name] == pytest.approx(exact / scale, rel=0.03)
    assert put_right["epsilon"] * put_right["gamma"] == pytest.approx(found.corrections.strengths[0])
    trained_ = json.loads(call("train", files[0], "--calibration", files[1], "--steps", "2", "--json"))
    assert trained_["losses"][-1] < trained_["losses"][0]


@pytest.mark.slow
def test_sweeps_take_the_file(files, call):
    axis = ["--axis", "readout.bits=8", "--reference", "chip"]
    plain = json.loads(call("sweep", files[0], *axis, "--out", "plain", "--json"))
    put_right = json.loads(call("sweep", files[0], *axis, "--calibration", files[1], "--out", "right", "--json"))
    before, after = (np.ravel(d["outcomes"]["norm_ratio"])[0] for d in (plain, put_right))
    assert abs(after - 1) < 0.05 < abs(before - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gradient", "two.toml", "--calibration", "no.json"], "cannot be read: no.json"),
        (["gradient", "lc-toy", "--steps", "20", "--calibration", "two.json"], "calibrate this design"),
        (["gradient", "two.toml", "--seed", "3", "--calibration", "two.json"], "drawn from seed 3"),
        (["train", "two.toml", "--chip", "2", "--calibration", "two.json"], "drawn from seed 2"),
        (["sweep", "two.toml", "--axis", "chip=0,5", "--calibration", "two.json"], "must have chip 5"),
        (["calibrate", "two.toml", "--held", "Lx.inductance"], "`held` must name unknowns"),
        (["calibrate", "two.toml", "--set", 'readout.unwired=["position.n0"]', "--chips", "0"], "--chips"),
    ],
    ids=lambda x: " ".join(x) if isinstance(x, list) else "",
)
def test_what_does_not_fit_is_refused_and_writes_nothing(files, call, tmp_path, arguments, message):
    before = sorted(tmp_path.rglob("*.json"))
    assert message in call(*arguments, code=2)
    assert sorted(tmp_path.rglob("*.json")) == before
