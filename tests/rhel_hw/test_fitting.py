"""Training of state-space models: both methods from one start, early stop, logs, and going on after a kill."""

import csv
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import jax
import numpy as np
import pytest

from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import EmulatedBench, Leapfrog, Yoshida4, checkpoints
from rhel_hw.baselines import ThroughTime
from rhel_hw.bench_recurrence import BenchCircuit
from rhel_hw.data import adding_problem, delayed_recall, split
from rhel_hw.fitting import CHECKPOINT, CURVES, EVENTS, EchoChaining, Fitting, Parts, evaluation
from rhel_hw.hssm import HSSM
from rhel_hw.recipes import PAPER, SMALL, Recipe, recipe
from rhel_hw.recurrences import LinearRow, NonlinearRow

SMALLEST = Recipe(hidden=6, state=6, blocks=2, rate=1e-2, moves=12, evaluate=4, batch=8, decimate=1)


@pytest.fixture(scope="module")
def prepared():
    return delayed_recall(60, 30, classes=2, seed=1)


@pytest.fixture(scope="module")
def parts(prepared):
    return SMALLEST.parts(prepared, split(prepared, 0))[0]


@pytest.fixture(scope="module")
def model(prepared):
    return SMALLEST.model(prepared, "linear")


def equal(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


@pytest.mark.slow
def test_both_methods_train_alike_from_one_start(model, parts):
    """Linear units in single precision: the losses of twelve moves differ by round-off."""
    ours, theirs = (SMALLEST.fitting(compared=True).run(model, parts, m) for m in (EchoChaining(), ThroughTime()))
    np.testing.assert_allclose([r["loss"] for r in ours.history], [r["loss"] for r in theirs.history], rtol=1e-4)
    assert ours.history[-1]["loss"] < ours.history[0]["loss"]
    assert ours.cosine > 1 - 1e-6
    assert np.isnan(theirs.cosine)
    assert ours.ended == "all moves made"
    assert [r["move"] for r in ours.history] == [4, 8, 12]


def test_what_is_judged_is_what_was_best_on_the_validation_part(model, parts):
    fitted = SMALLEST.fitting().run(model, parts, ThroughTime())
    ranks = [(-r["validation_accuracy"], r["validation_loss"]) for r in fitted.history]
    again = evaluation(model, fitted.parameters, fitted.memory, parts.validation, 8)
    assert (-again["accuracy"], again["loss"]) == min(ranks)
    assert fitted.test == evaluation(model, fitted.parameters, fitted.memory, parts.test, 8)


def test_it_stops_when_nothing_gets_better(model, parts):
    fitted = SMALLEST.fitting(moves=400, rate=1e-12, evaluate=2, patience=3).run(model, parts, ThroughTime())
    assert "no better on the validation part for 3 evaluations" in fitted.ended
    assert fitted.history[-1]["move"] < 60


def test_the_rate_falls_by_half_a_cosine():
    fitting = Fitting(moves=100, rate=1.0, last=0.1)
    assert fitting.rate_at(0) == 1.0
    assert fitting.rate_at(50) == pytest.approx(0.55)
    assert fitting.rate_at(100) == pytest.approx(0.1)
    assert Fitting(moves=100, rate=0.3).rate_at(70) == pytest.approx(0.3)


@pytest.mark.slow
def test_values_are_learnt_too():
    series = adding_problem(40, 20)
    model = HSSM(2, 1, 6, (LinearRow(5), NonlinearRow(5)))
    parts, _ = SMALLEST.parts(series, split(series, 0))
    fitted = SMALLEST.fitting(evaluate=6).run(model, parts, EchoChaining(gamma=10.0))
    assert set(fitted.test) == {"loss"}
    assert fitted.history[-1]["gamma_1"] == 10.0
    assert fitted.history[-1]["loss"] < fitted.history[0]["loss"]


@pytest.mark.slow  # the README trains one, too
def test_a_model_with_a_bench_in_it_trains(parts):
    design = ladder(3).replace(targets=["n0", "n2"]).compile(steps=parts.train.steps)
    bench = EmulatedBench(design)
    model = HSSM(parts.train.width, 2, 4, (BenchCircuit(design, bench, amplitude=0.1), LinearRow(4)))
    fitted = SMALLEST.fitting(moves=4, evaluate=2).run(model, parts, EchoChaining())
    start = model.start(0)["blocks"][0]["recurrence"]["inductor.inductance"]
    found = fitted.parameters["blocks"][0]["recurrence"]["inductor.inductance"]
    assert not np.array_equal(start, found)
    assert bench.describe().passes > 0


# Files ----------------------------------------------------------------------------------------------------------------


def test_curves_are_written_for_people_and_for_tensorboard(model, parts, tmp_path):
    fitted = SMALLEST.fitting().run(model, parts, EchoChaining(), out=tmp_path)
    rows = list(csv.DictReader((tmp_path / CURVES).read_text().splitlines()))
    assert [float(r["validation_loss"]) for r in rows] == [r["validation_loss"] for r in fitted.history]
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="pip install tensorboard"
    )
    events = accumulator.EventAccumulator(str(tmp_path / EVENTS))
    events.Reload()
    seen = events.Scalars("validation_loss")
    assert [e.step for e in seen] == [4, 8, 12]
    np.testing.assert_allclose([e.value for e in seen], [r["validation_loss"] for r in fitted.history], rtol=1e-6)


def test_another_training_is_not_taken_up(model, parts, tmp_path):
    SMALLEST.fitting(moves=4).run(model, parts, ThroughTime(), out=tmp_path)
    for fitting, learning in (
        (SMALLEST.fitting(moves=4, seed=1), ThroughTime()),
        (SMALLEST.fitting(moves=4), EchoChaining()),
    ):
        with pytest.raises(ArgumentError, match="another model, data or settings"):
            fitting.run(model, parts, learning, out=tmp_path)
    other = Parts(parts.validation, parts.validation, parts.test)
    with pytest.raises(ArgumentError, match="another model, data or settings"):
        SMALLEST.fitting(moves=4).run(model, other, ThroughTime(), out=tmp_path)


def test_a_checkpoint_keeps_double_precision(tmp_path):
    """Whatever the precision of JAX: what NumPy held comes back from NumPy."""
    tree = (np.array([0.1, 1 / 3]), jax.numpy.ones(2, np.float32))
    checkpoints.save(tmp_path / "c.npz", "f", {}, tree)
    _, found = checkpoints.load(tmp_path / "c.npz", "f", tree, "kind")
    assert isinstance(found[0], np.ndarray)
    assert np.array_equal(found[0], tree[0])
    assert found[1].dtype == np.float32


def test_evaluation_uses_the_integrator_of_the_training(model, parts):
    fast = SMALLEST.fitting(moves=2, evaluate=2)
    plain, other = (fast.run(model, parts, ThroughTime(i)) for i in (Leapfrog(), Yoshida4()))
    assert plain.test["loss"] != other.test["loss"]
    assert evaluation(model, other.parameters, other.memory, parts.test, 8, Yoshida4()) == other.test
    assert evaluation(model, other.parameters, other.memory, parts.test, 8) != other.test


def test_training_that_diverges_ends_and_says_so(model, parts):
    for learning in (EchoChaining(), ThroughTime()):
        fitted = SMALLEST.fitting(rate=1e30).run(model, parts, learning)
        assert "diverged" in fitted.ended


def test_a_model_with_a_bench_is_neither_compared_nor_taken_up(parts, tmp_path):
    design = ladder(3).replace(targets=["n0", "n2"]).compile(steps=parts.train.steps)
    model = HSSM(parts.train.width, 2, 4, (BenchCircuit(design, EmulatedBench(design), amplitude=0.1),))
    with pytest.raises(ArgumentError, match="`compared` must be False"):
        SMALLEST.fitting(compared=True).run(model, parts, EchoChaining())
    (tmp_path / CHECKPOINT).write_bytes(b"")
    with pytest.raises(ArgumentError, match="new folder"):
        SMALLEST.fitting().run(model, parts, EchoChaining(), out=tmp_path)


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("at", [5, pytest.param(1, marks=pytest.mark.slow), pytest.param(8, marks=pytest.mark.slow)])
def test_a_training_that_stopped_anywhere_goes_on_exactly(model, parts, tmp_path, at):
    """Checkpoints every three moves, evaluations every four: the moves in between are made again."""
    fitting = SMALLEST.fitting(keep=3)
    whole = fitting.run(model, parts, EchoChaining())

    def stop(done, total, loss):
        if done == at:
            raise StoppedError

    with pytest.raises(StoppedError):
        fitting.run(model, parts, EchoChaining(), out=tmp_path, report=stop)
    again = fitting.run(model, parts, EchoChaining(), out=tmp_path)
    assert equal(again.parameters, whole.parameters)
    for a, b in zip(again.history, whole.history, strict=True):
        assert {k: v for k, v in a.items() if k != "seconds"} == {k: v for k, v in b.items() if k != "seconds"}


COMMAND = (
    "fit delayed-recall --hidden 8 --state 8 --blocks 2 --moves {} --evaluate 20 --patience 999 --batch 8 --json --out"
)


def command(out, moves):
    return [sys.executable, "-m", "rhel_hw.cli", *COMMAND.format(moves).split(), str(out)]


@pytest.mark.slow
@pytest.mark.parametrize(("kills", "moves"), [(1, 150), (10, 1500)])
def test_killed_at_random_times_it_ends_where_it_would_have(tmp_path, kills, moves):
    """By SIGKILL, from outside, while the process trains: parameters and curves are the same, bit for bit."""
    out, rng = tmp_path / "killed", random.Random(0)
    for _ in range(kills):
        before = _moves(out)
        process = subprocess.Popen(command(out, moves), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and _moves(out) <= before:  # until it has got further
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it had ended before it was killed"
    assert 0 < _moves(out) < moves
    first, second = (
        json.loads(subprocess.run(command(p, moves), capture_output=True, check=True, text=True).stdout)
        for p in (tmp_path / "whole", out)
    )
    assert second["test"] == first["test"]
    for a, b in zip(second["history"], first["history"], strict=True):
        assert {k: v for k, v in a.items() if k != "seconds"} == {k: v for k, v in b.items() if k != "seconds"}
    first, second = (np.load(p / CHECKPOINT) for p in (tmp_path / "whole", out))
    assert all(np.array_equal(first[k], second[k]) for k in first.files if k != "document")


def _moves(out):
    """How far the checkpoint is."""
    try:
        with np.load(out / CHECKPOINT) as file:
            return json.loads(str(file["document"]))["history"][-1]["move"]
    except (FileNotFoundError, IndexError):
        return 0


# Recipes and the command ----------------------------------------------------------------------------------------------


def test_recipes_of_the_paper():
    """Its table of hyper-parameters."""
    worms = PAPER["EigenWorms"]
    assert (worms.rate, worms.hidden, worms.state, worms.blocks, worms.time) == (1e-4, 64, 16, 2, False)
    motor = recipe("paper:MotorImagery")
    assert (motor.rate, motor.hidden, motor.state, motor.blocks, motor.time) == (1e-4, 16, 256, 6, True)
    assert recipe("watch-gestures") is SMALL["watch-gestures"]
    with pytest.raises(ArgumentError, match="did you mean"):
        recipe("watch-gesture")


def test_a_recipe_puts_shifted_channels_right():
    rng = np.random.default_rng(0)
    signal_ = rng.normal(size=(20, 50 + 28 * 27)).astype(np.float32)
    x = np.stack([signal_[:, 28 * j : 28 * j + 50] for j in range(28)], axis=2)
    series = replace(delayed_recall(20, 50, classes=2), x=x, channels=(), lengths=None)
    assert Recipe().prepare(series).width < 28


def test_the_command_refuses_what_makes_no_sense(call):
    assert "did you mean `adding`" in call("fit", "addng", code=2)
    assert "`--method` must be one of" in call("fit", "adding", "--method", "magic", code=2)
    assert "`--compare` must be left out" in call("fit", "adding", "--method", "bptt", "--compare", code=2)
    assert "must be one of" in call("fit", "adding", "--recipe", "papr", code=2)
    assert "groups" in call("fit", "adding", "--split", "groups", code=2)


def test_the_command_says_how_it_went(call):
    small = ["--hidden", "4", "--state", "4", "--blocks", "1", "--moves", "6", "--evaluate", "3", "--batch", "8"]
    said = call("fit", "delayed-recall", *small, "--compare", "--units", "nonlinear")
    for words in (
        "1 blocks of 4 nonlinear units",
        "γ by block",
        "least cosine",
        "test part: loss",
        "wrote fit/curves.csv",
    ):
        assert words in said
    again = json.loads(call("fit", "delayed-recall", *small, "--compare", "--units", "nonlinear", "--json"))
    assert again["moves"] == 6  # taken up where it ended
    assert set(again["test"]) == {"loss", "accuracy"}
