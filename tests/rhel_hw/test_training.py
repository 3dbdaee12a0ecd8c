"""Training: on ideal circuits and on benches, stopped, killed, taken up again, and led astray."""

import json
import signal
import subprocess
import sys
import time
from typing import ClassVar

import numpy as np
import pytest

from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import (
    BPTT,
    RHEL,
    EchoLearner,
    EmulatedBench,
    OnBench,
    OnProblem,
    Profile,
    Teacher,
    Training,
)

NOISY = Profile().set("readout.bits", 10).set("readout.noise", 1e-4)


@pytest.fixture(scope="module")
def design():
    circuit = ladder(3)
    return circuit.replace(targets=["n0", "n1"]).compile(steps=120)


def on_bench(design, profile=NOISY, seed=1, **options):
    lesson = Teacher(spread=0.1).lesson(design)
    bench = EmulatedBench(design, profile, seed=seed, reference=lesson.drive)
    return OnBench(bench, design, lesson, EchoLearner(gamma="auto", **options))


@pytest.mark.slow
def test_a_bench_learns(design):
    measure = on_bench(design)
    trained = Training(steps=40, rate=0.02).run(design, design.theta(), measure)
    assert trained.improvement > 10
    told = measure.bench.describe()
    assert trained.passes == told.passes
    assert trained.device_seconds == pytest.approx(told.seconds)
    assert trained.ended == "all moves made"
    assert len(trained.losses) == 41


def test_best_parameters_are_those_of_the_best_loss(design):
    problem = Teacher(spread=0.1).problem(design)
    trained = Training(steps=15, rate=0.05).run(design, problem.theta, OnProblem(problem, RHEL(gamma="auto")))
    from dataclasses import replace

    again = float(BPTT().gradient(replace(problem, theta=trained.theta)).loss)
    assert again == pytest.approx(trained.best, rel=1e-9)


def test_it_stops_when_nothing_gets_better(design):
    """Quantised readout cannot tell losses below its resolution."""
    measure = on_bench(design, Profile().set("readout.bits", 4).set("readout.noise", 0.02))
    trained = Training(steps=200, rate=0.02, patience=5).run(design, design.theta(), measure)
    assert trained.ended.startswith("no lower loss for 5 moves")
    assert len(trained.losses) < 200


def test_divergence_is_named(design):
    class Astray:
        limits: ClassVar = {}
        moves = 0

        def __call__(self, theta):
            from rhel_hw.training import Found

            self.moves += 1
            slopes = {k: np.ones_like(v) for k, v in theta.items() if k == "inductor.inductance"}
            return Found(10.0 ** (3 * self.moves), slopes, 1)

    trained = Training(steps=20).run(design, design.theta(), Astray())
    assert trained.ended.startswith("diverged at move 2, where the loss was 1e+09: use a smaller rate")


def test_parameters_stay_where_the_bench_can_follow(design):
    """A range of half a percent, and a teacher that is further off: some end at its edge, and are named."""
    measure = on_bench(design, Profile().set("fabrication.range", 1.005))
    trained = Training(steps=40, rate=0.05).run(design, design.theta(), measure)
    assert trained.at_limits
    values = design.parameters.to_si(trained.theta)
    for name, limit in measure.limits.items():
        assert limit.low * (1 - 1e-9) <= values[name][0] <= limit.high * (1 + 1e-9)


def test_several_chips_are_not_trained_at_once(design):
    lesson = Teacher().lesson(design)
    with pytest.raises(ArgumentError, match="must have one chip"):
        OnBench(EmulatedBench(design, chips=2), design, lesson, EchoLearner())


# Checkpoints --------------------------------------------------------------------------------------------------------


def test_training_goes_on_bit_for_bit(design, tmp_path):
    whole = Training(steps=12, rate=0.02).run(design, design.theta(), on_bench(design))
    file = tmp_path / "training.npz"

    class KilledError(Exception):
        pass

    def kill(done, total, loss):
        if done == 7:
            raise KilledError

    with pytest.raises(KilledError):
        Training(steps=12, rate=0.02).run(
            design, design.theta(), on_bench(design), checkpoint=file, every=3, report=kill
        )
    resumed = Training(steps=12, rate=0.02).run(design, design.theta(), on_bench(design), checkpoint=file)
    assert resumed.losses == whole.losses
    assert resumed.passes == whole.passes
    for key in whole.theta:
        np.testing.assert_array_equal(resumed.theta[key], whole.theta[key])
    # What is finished stays finished.
    again = on_bench(design)
    assert Training(steps=12, rate=0.02).run(design, design.theta(), again, checkpoint=file).losses == whole.losses


def test_checkpoints_of_other_trainings_are_refused(design, tmp_path):
    file = tmp_path / "training.npz"
    training = Training(steps=2)
    training.run(design, design.theta(), on_bench(design), checkpoint=file, label="one")
    with pytest.raises(ArgumentError, match="is of another design, profile or settings"):
        training.run(design, design.theta(), on_bench(design), checkpoint=file, label="other")
    file.write_bytes(b"torn")
    with pytest.raises(ArgumentError, match="`checkpoint` must be one of rhel-hw"):
        training.run(design, design.theta(), on_bench(design), checkpoint=file)


@pytest.mark.slow
def test_a_killed_process_resumes(tmp_path):
    """The same command twice: the first is killed, the second ends as one that was never disturbed."""
    command = [
        sys.executable,
        "-m",
        "rhel_hw.cli",
        "train",
        "lc-toy",
        "--set",
        "readout.bits=8",
        "--steps",
        "12",
        "--json",
    ]
    file = tmp_path / "training.npz"
    first = subprocess.Popen([*command, "--checkpoint", str(file)], cwd=tmp_path, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not file.exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert file.exists()
    documents = [
        json.loads(subprocess.run(c, cwd=tmp_path, capture_output=True, text=True, check=True).stdout)
        for c in ([*command, "--checkpoint", str(file)], command)
    ]
    assert documents[0]["losses"] == documents[1]["losses"]
    assert documents[0]["parameters"] == documents[1]["parameters"]


def test_a_checkpoint_that_cannot_be_written_is_refused_before_anything_is_computed(tmp_path):
    design = ladder(3).compile(steps=20)

    def measure(_):
        raise AssertionError

    measure.limits = {}
    for path in (tmp_path / "nowhere" / "c.npz", tmp_path):
        with pytest.raises(ArgumentError, match="must be a file in a folder that can be written"):
            Training().run(design, design.theta(), measure, checkpoint=path)
    (tmp_path / "c.npz").write_bytes(b"garbage")
    with pytest.raises(ArgumentError, match=r"must be one of rhel-hw, but .* cannot be read"):
        Training().run(design, design.theta(), measure, checkpoint=tmp_path / "c.npz")
