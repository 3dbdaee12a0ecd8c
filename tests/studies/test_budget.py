"""Budgets: searches against outcomes whose limits are known, then one on the emulated bench, checked by hand."""

import json
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circuits import Netlist
from circuits.netlist import Clock
from devices import ArgumentError
from rhel_hw import EchoLearner, EmulatedBench
from rhel_hw.compare import cosine, trained
from studies.sweeps import Sweep, engine
from studies.sweeps.budget import DEFAULTS, Emulated, _direction, find_budget
from studies.sweeps.contract import margin, margin_text, outcome_text
from studies.sweeps.limits import NEAR, Range, Requirement, Trials, around, in_step, limit
from studies.sweeps.setups import Plan

BITS, NOISE, QUALITY, DRIFT = (
    "profile.readout.bits",
    "profile.readout.noise",
    "profile.dynamics.quality",
    "profile.dynamics.drift",
)
WANTED = 0.1
SIZES = {BITS: 8.0, NOISE: 20.0, QUALITY: 50.0, DRIFT: 1e3}
SEEDS = np.array([1.0, 0.7, 0.9])
"""How bad every seed is."""


@pytest.fixture(scope="module")
def netlist():
    return Netlist.load("lc-toy")


def share(path, value):
    """What one imperfection adds to the error."""
    if path.endswith("bits"):
        return SIZES[path] * 2.0**-value
    return SIZES[path] / value if path == QUALITY else SIZES[path] * value


def additive(points):
    """e² = Σ (c_i x_i)², as independent imperfections add."""
    return {"error": np.array([sqrt(sum(share(k, v) ** 2 for k, v in p.items())) * SEEDS for p in points])}


def of_bits(error):
    """Outcomes of a function of the number of bits; without any, nothing is wrong."""
    return lambda points: {"error": np.array([[error(p[BITS]) if BITS in p else 0.0] for p in points])}


def found_along(axis, error, search=limit, width=12):
    tried = Trials(
        lambda points: {"error": np.array([[error(p[axis.path])] for p in points])}, (Requirement("error", WANTED),)
    )
    return in_step(tried, {axis.path: search(axis, width)}, {})[axis.path]


# One axis -----------------------------------------------------------------------------------------------------------


@given(st.integers(2, 40), st.integers(1, 40))
def test_whole_limits_are_exact(most, edge):
    """From 1 to `most` bits, of which `edge` are needed."""
    found = found_along(Range(BITS, most, 1, "whole"), lambda b: 0.0 if b >= edge else 1.0)
    assert found.value(found.good) == (edge if edge <= most else None)
    assert found.value(found.bad) == (None if edge == 1 else min(edge - 1, most))
    assert found.orderly


@given(st.floats(1e-9, 1e-1), st.booleans(), st.sampled_from(["log", "linear"]))
def test_continuous_limits_are_near(edge, grows, spacing):
    """What is told does, and what is a tenth worse does not."""
    ends = (1e-7, 1e-2) if grows else (1e-2, 1e-7)
    found = found_along(Range("x", *ends, spacing), lambda x: float((x > edge) if grows else (x < edge)))
    good, bad = found.value(found.good), found.value(found.bad)
    if good is not None:
        assert (good <= edge) if grows else (good >= edge)
    if bad is not None:
        assert (bad > edge) if grows else (bad < edge)
    if good is not None and bad is not None:
        span = 1e-3 * 1e-2 if spacing == "linear" else 0.0
        assert abs(bad - good) <= max((NEAR - 1 + 1e-9) * min(good, bad), span * (1 + 1e-9))
    assert (good is None) == (edge < 1e-7 if grows else edge > 1e-2)


def test_ends_of_ranges_are_told(netlist):
    never = find_budget(netlist, "error=0.1", axes={"readout.bits": {"whole": [1, 16]}}, evaluate=of_bits(lambda b: 1))
    assert never.rows()[0][2] == "> 16"
    assert never.joint is None
    assert "not even alone can readout.bits do it" in str(never)
    always = find_budget(netlist, "error=0.1", axes={"readout.bits": {"whole": [1, 16]}}, evaluate=of_bits(lambda b: 0))
    assert always.rows()[0][2] == "any ≥ 1"
    assert always.joint.contract.point == {BITS: 1}


def test_a_limit_is_on_the_safe_side_of_what_is_not_monotone(netlist):
    """Five bits would do, six do not."""
    odd = of_bits(lambda b: 0.0 if b >= 7 or b == 5 else 1.0)
    budget = find_budget(netlist, "error=0.1", axes={"readout.bits": {"whole": [1, 16]}}, evaluate=odd)
    (found,) = budget.singles
    assert (found.value(found.good), found.value(found.bad), found.orderly) == (7, 6, False)
    assert "readout.bits is not monotone: 5 would do" in str(budget)


def test_only_listed_values_are_tried(netlist):
    axes = {"readout.bits": [4, 12, 8, 6], "readout.noise": [1e-4, 1e-3, 1e-2]}
    budget = find_budget(netlist, "error=0.1", axes=axes, evaluate=additive)
    bits, noise = budget.singles
    assert [bits.value(t) for t in bits.trials] == [12, 8, 6, 4]
    assert (bits.value(bits.good), noise.value(noise.good)) == (8, 1e-3)
    assert {budget.joint.contract.point[BITS], *bits.range.listed} == {4, 6, 8, 12}
    assert budget.joint.contract.met


def test_an_axis_without_direction_has_a_best_value_and_an_interval():
    """x + 1/x ≤ 5 between 0.2087 and 4.791."""
    axis = Range("learning.gamma", 1.0, 1e6, "log", ordered=False)
    found = found_along(axis, lambda x: 0.02 * (x / 300 + 300 / x), around)
    assert found.value(found.good) == pytest.approx(300, rel=0.2)  # within which the error changes by 2 %
    low, high = found.interval
    assert 300 * 0.2087 <= low <= 300 * 0.2087 * NEAR
    assert 300 * 4.791 / NEAR <= high <= 300 * 4.791
    none = found_along(axis, lambda x: 1 + abs(np.log(x / 300)), around)
    assert none.good is None
    assert none.value(none.bad) == pytest.approx(300, rel=0.5)


def test_directions_follow_from_the_settings():
    worse = {1: ("readout.noise", "dynamics.drift", "fabrication.mismatch", "readout.jitter", "dynamics.temperature",
                 "echo.missed", "fabrication.mismatch.L1"),
             -1: ("readout.bits", "dynamics.quality", "readout.bandwidth", "dynamics.saturation"),
             0: ("readout.full_scale", "echo.gain", "echo.angle", "readout.offset", "echo.skew")}  # fmt: skip
    assert {p: _direction(f"profile.{p}")[0] for paths in worse.values() for p in paths} == {
        p: d for d, paths in worse.items() for p in paths
    }
    assert _direction("learning.gamma") == (0, False)
    for axis in DEFAULTS:
        direction, whole = _direction(axis.path)
        assert direction == (1 if axis.grows else -1)
        assert whole == (axis.spacing == "whole")


# Together -----------------------------------------------------------------------------------------------------------

BRACKETS = {
    "readout.noise": {"log": [1e-6, 1e-1]},
    "dynamics.quality": {"log": [10, 1e6]},
    "dynamics.drift": {"log": [1e-9, 1e-3]},
}


def test_continuous_axes_share_the_error(netlist):
    """Three equal shares leave each 1/√3 of what it may have alone."""
    budget = find_budget(netlist, "error=0.1", axes=BRACKETS, evaluate=additive)
    alone = {NOISE: WANTED / 20, QUALITY: 50 / WANTED, DRIFT: WANTED / 1e3}
    for found in budget.singles:
        exact = alone[found.range.path]
        ratio = found.value(found.good) / exact if found.range.grows else exact / found.value(found.good)
        assert 1 / NEAR <= ratio <= 1
    joint = budget.joint
    # Limits that are up to a tenth too strict, tightened to within a tenth.
    assert 1 / sqrt(3) / NEAR <= joint.scale <= NEAR / sqrt(3)
    assert joint.contract.met
    assert joint.contract.slack <= joint.tightened.slack
    assert not joint.at_once.met
    assert joint.at_once.worst["error"] == pytest.approx(WANTED * sqrt(3), rel=NEAR - 1)
    for path, found in joint.margins.items():
        at = dict(joint.contract.point)
        assert additive([{**at, path: found.value(found.good)}])["error"].max() <= WANTED
        assert additive([{**at, path: found.value(found.bad)}])["error"].max() > WANTED
        assert 1 <= margin(found) <= NEAR**2  # relaxed as far as it would go


def test_bits_are_whole_and_what_they_leave_goes_to_the_others(netlist):
    axes = {"readout.noise": BRACKETS["readout.noise"], "readout.bits": {"whole": [1, 16]}}
    budget = find_budget(netlist, "error=0.1", axes=axes, evaluate=additive)
    joint = budget.joint
    # Alone 7 bits do; one more, an error of 8/256, leaves √(0.1² − 0.03125²)/20 to noise.
    assert [s.value(s.good) for s in budget.singles if s.range.path == BITS] == [7]
    assert joint.contract.point[BITS] == 8
    noise = sqrt(WANTED**2 - 0.03125**2) / 20
    assert noise / NEAR <= joint.contract.point[NOISE] <= noise
    assert margin_text(joint.margins[BITS]) == "0 bits"
    assert margin_text(joint.margins[NOISE]).endswith("dB")


def test_bits_are_relaxed_first(netlist):
    """The ray asks for one bit more than is needed."""

    def steep(points):
        """Seven bits are as good as any number; the others add."""
        rest = additive([{k: v for k, v in p.items() if k != BITS} for p in points])["error"]
        return {"error": rest + np.array([[0.0 if p.get(BITS, 16) >= 7 else 1.0] for p in points])}

    budget = find_budget(netlist, "error=0.1", axes={**BRACKETS, "readout.bits": {"whole": [1, 16]}}, evaluate=steep)
    assert budget.joint.tightened.point[BITS] == 8
    assert budget.joint.relaxed[0] == BITS
    assert budget.joint.contract.point[BITS] == 7
    assert margin_text(budget.joint.margins[BITS]) == "own limit"


def test_axes_that_do_not_meet_may_be_at_their_own_limits(netlist):
    """The error of the worst imperfection alone counts, so nothing is tightened."""

    def largest(points):
        return {"error": np.array([[max((share(k, v) for k, v in p.items()), default=0.0)] for p in points])}

    budget = find_budget(netlist, "error=0.1", axes=BRACKETS, evaluate=largest)
    assert budget.joint.scale == 1
    assert budget.joint.contract.point == {s.range.path: s.value(s.good) for s in budget.singles}
    assert {margin_text(m) for m in budget.joint.margins.values()} == {"own limit"}


def test_the_same_question_has_the_same_answer(netlist):
    first, second = (find_budget(netlist, "error=0.1", axes=BRACKETS, evaluate=additive) for _ in range(2))
    assert first == second
    assert json.dumps(first.to_dict(), allow_nan=False) == json.dumps(second.to_dict(), allow_nan=False)


def test_several_requirements_all_hold(netlist):
    def both(points):
        error = additive(points)["error"]
        return {"error": error, "cosine": 1 - error}

    budget = find_budget(netlist, ["error=0.1", "cosine=0.95"], axes={"readout.noise": BRACKETS["readout.noise"]},
                         evaluate=both)  # fmt: skip
    (found,) = budget.singles
    assert 0.05 / 20 / NEAR <= found.value(found.good) <= 0.05 / 20
    assert found.good.worst["cosine"] >= 0.95
    assert budget.rows()[0][3].startswith("cosine 0.95")


def test_a_seed_that_failed_does_not_meet():
    tried = Trials(lambda points: {"cosine": np.array([[1.0, np.nan]])}, (Requirement("cosine", 0.9),))
    (trial,) = tried([{}])
    assert not trial.met
    assert outcome_text("cosine", trial.worst["cosine"]) == "failed"


def test_cosines_are_never_rounded_up():
    assert outcome_text("cosine", 0.98999) == "0.989"
    assert outcome_text("cosine", 1.0) == "1"
    for value in np.linspace(-1, 1, 999)[:-1]:
        assert float(outcome_text("cosine", value)) <= value + 1e-12


# Refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("require", "options", "words"),
    [
        ("cosin=0.99", {}, "did you mean `cosine`"),
        ("cosine", {}, "must read like cosine=0.99"),
        ("cosine=high", {}, "must read like cosine=0.99"),
        ("cosine=1", {}, "above -1 and below 1"),
        ("error=-1", {}, "greater than 0"),
        ("error=nan", {}, "greater than 0"),
        ("norm_ratio=1", {}, "require an error instead"),
        ("snr=10", {}, "`repeats` must be at least 2"),
        ("improvement=10", {}, "`moves` must be at least 1"),
        (["error=1", "error=2"], {}, "every outcome once"),
        ([], {}, "must be given"),
        ("error=0.1", {"sweep": {"mode": "grid"}}, "`mode` must be left out"),
        ("error=0.1", {"seeds": ()}, "`seeds` must be whole numbers"),
        ("error=0.1", {"axes": {"chip": [0, 1]}}, "more or less"),
        ("error=0.1", {"axes": {"readout.bits": [4, "none"]}}, "numbers to have a budget"),
        ("error=0.1", {"axes": {"bits": [4]}}, "must be seed, chip, design"),
    ],
)
def test_refusals(netlist, require, options, words):
    with pytest.raises(ArgumentError, match=words):
        find_budget(netlist, require, evaluate=additive, **options)


def test_what_the_ideal_design_cannot_do_is_refused_with_its_figure(netlist):
    def bad(points):
        return {"cosine": np.full((len(points), 2), [0.93, 0.97])}

    with pytest.raises(ArgumentError, match=r"cosine is 0\.93 at the worst seed and 0\.95 .* ≥ 0\.99: try a smaller"):
        find_budget(netlist, "cosine=0.99", evaluate=bad)
    fixed = netlist.replace(settings={**netlist.settings, "learning": {"gamma": 10.0}})
    with pytest.raises(ArgumentError, match=r'try learning\.gamma = "auto", a smaller learning\.epsilon'):
        find_budget(fixed, "cosine=0.99", evaluate=bad)


def test_gamma_is_told(netlist):
    axes = {"readout.noise": [1e-4, 1e-3]}
    piloted = find_budget(netlist, "error=0.1", axes=axes, evaluate=additive)
    assert piloted.gamma.startswith("chosen by pilot echoes")
    assert any("`learning.gamma` of the design's own" in line for line in piloted.foot())
    fixed = netlist.replace(settings={**netlist.settings, "learning": {"gamma": 10.0}})
    assert find_budget(fixed, "error=0.1", axes=axes, evaluate=additive).gamma == "10, as the design says"


# On the emulated bench ----------------------------------------------------------------------------------------------


def test_a_point_that_is_refused_spoils_no_other(netlist, monkeypatch):
    """Batches keep their width, so that programs are found again."""
    widths = []

    def outcomes(netlist, sweep, **_):
        values = sweep.axes[BITS].values
        widths.append(len(values))
        if 3 in values:
            raise ArgumentError("Argument `x` must be otherwise")
        return {"cosine": np.array(values, float), "gradient": np.zeros((len(values), 5))}

    monkeypatch.setattr(engine, "outcomes", outcomes)
    emulated = Emulated(netlist, (0, 1), {}, workers=1, memory=1 << 30)
    found = emulated([{BITS: b} for b in range(1, 7)])["cosine"]
    np.testing.assert_array_equal(found[[0, 1, 3, 4, 5]], [[b, b] for b in (1, 2, 4, 5, 6)])
    assert np.all(np.isnan(found[2]))
    assert emulated.lost == {"Argument `x` must be otherwise": [{BITS: 3}]}
    assert set(widths) == {12}


STEPS, REQUIRED = 60, 0.95


@pytest.mark.slow
def test_a_budget_holds_and_no_more(netlist, call, tmp_path):
    """From the command line to files; then every limit, and one step beyond, by sweep and by learners of their own."""
    small = netlist.replace(clock=Clock(None, STEPS), settings={"task": {"spread": 0.1}})
    (tmp_path / "small.toml").write_text(small.to_toml())
    axes = ("readout.bits=whole:4:12", "readout.noise=log:1e-5:1e-2", "dynamics.quality=log:10:1e5",
            "dynamics.damping=log:1e-4:1e-1", "seed=0..1")  # fmt: skip
    options = [word for axis in axes for word in ("--axis", axis)]
    told = json.loads(call("sweep", "small.toml", "--require", f"cosine={REQUIRED}", *options, "--out", "o", "--json"))
    files = {file.rsplit("-budget.")[-1]: tmp_path / file for file in told.pop("files")}
    assert set(files) == {"json", "md", "png"}
    assert json.loads(files["json"].read_text()) == told
    assert files["png"].read_bytes().startswith(b"\x89PNG")
    assert "| readout.bits | bits |" in files["md"].read_text()
    assert not [f for f in (tmp_path / "o").iterdir() if f not in files.values()]
    assert told["seeds"] == [0, 1]
    assert "no element that it could apply to" in told["refused"]["profile.dynamics.damping"]

    automatic = small.replace(settings={**small.settings, "learning": {"gamma": "auto"}})
    for path, found in told["axes"].items():
        values = [found["limit"], found["fails_at"]]
        if path == QUALITY:  # for every value of which a learner's bench compiles programs of its own
            again = (
                engine.outcomes(automatic, Sweep({path: values, "seed": [0, 1]}))["cosine"].reshape(2, 2).min(axis=1)
            )
        else:
            again = [learnt(automatic, {path: value}) for value in values]
        assert again[0] >= REQUIRED
        assert not again[1] >= REQUIRED
        worst = {t["value"]: t["worst"]["cosine"] for t in found["trials"]}
        # A lane is what it is alone, to round-off.
        np.testing.assert_allclose(again, [worst[v] for v in values], rtol=1e-6)

    joint = told["joint"]
    assert joint["met"]
    assert learnt(automatic, joint["limits"]) == pytest.approx(joint["worst"]["cosine"], rel=1e-6)
    for path, found in joint["margins"].items():
        if path == QUALITY:
            continue
        assert learnt(automatic, {**joint["limits"], path: found["holds_at"]}) >= REQUIRED
        if found["fails_at"] is not None:
            assert not learnt(automatic, {**joint["limits"], path: found["fails_at"]}) >= REQUIRED


def learnt(netlist, point):
    """The worst cosine over seeds: γ by pilots on one bench, the gradient on another like it."""
    found = []
    for group in Plan(netlist, Sweep({**{k: [v] for k, v in point.items()}, "seed": [0, 1]})).groups:
        setup, (lane,) = group.setup, group.lanes
        benches = [
            EmulatedBench(setup.design, lane.profile, seed=setup.seed, reference=setup.lesson.drive) for _ in range(2)
        ]
        tuned = EchoLearner(gamma="auto").tuned(benches[0], setup.design, setup.lesson)
        theta = tuned.gradient(benches[1], setup.design, setup.lesson).theta
        found.append(cosine(trained(setup.design, {k: np.asarray(v) for k, v in theta.items()}), setup.exact))
    return min(found)
