"""Gradient estimators side by side on one problem: values, agreement with backpropagation, and cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from devices import ArgumentError, nearest
from rhel_hw.baselines import BPTT, SPSA, Adjoint, FiniteDifferences, RHELLimit, ShuffledCredit
from rhel_hw.bench import Bench
from rhel_hw.blackbox import BlackBox
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.nudging import Recorded
from rhel_hw.operations import MomentumFlip, Richardson
from rhel_hw.problem import Estimator, Problem
from rhel_hw.rhel import RHEL
from rhel_hw.simulation import refuse_bytes

Report = Callable[[int, int], None]

METHODS: Mapping[str, Callable[[RHEL], Estimator]] = {
    "rhel": lambda learner: learner,
    "rhel-richardson": lambda learner: replace(learner, stencil=Richardson()),
    "rhel-limit": lambda learner: RHELLimit(learner.operation),
    "blackbox": lambda learner: _knobs(learner),
    "bptt": lambda _: BPTT(),
    "adjoint": lambda _: Adjoint(),
    "finite-differences": lambda _: FiniteDifferences(),
    "spsa": lambda _: SPSA(samples=64),
    "shuffled": lambda learner: ShuffledCredit(learner),
}
"""Estimators of parameter gradients by the names that the command line knows them by."""


@dataclass(frozen=True, eq=False)
class Compared:
    """One estimator on one problem."""

    parameters: dict[str, float]
    """dL/dθ of the trainable parameters in SI, by name."""
    cosine_to_bptt: float | None
    """Of the gradients in the design's own units; None where one of them vanishes."""
    norm_ratio: float | None
    passes: int
    seconds: float
    """Of one gradient, once compiled."""
    peak_temporary_bytes: int
    epsilon: float | None
    gamma: float | None
    loss: float


def compare(
    design: Design, problem: Problem, methods: Iterable[str], learner: RHEL, *, report: Report | None = None
) -> dict[str, Compared]:
    """Run every method on the problem."""
    names = list(dict.fromkeys(methods))
    for name in names:
        if name not in METHODS:
            raise ArgumentError(
                f"Argument `methods` must name some of {', '.join(METHODS)}, but has {name!r}"
                f"{nearest(name, METHODS, listed=True)}"
            )
    if not names:
        raise ArgumentError(f"Argument `methods` must name some of {', '.join(METHODS)}, but is empty")
    estimators = {name: METHODS[name](learner) for name in names}
    stored = BPTT().program(problem).temporary_bytes()
    refuse_bytes(stored, "steps", "backpropagation, with which all is compared,", "use a smaller batch")
    exact = trained(design, BPTT().gradient(problem).theta)
    results = {}
    for done, name in enumerate(names):
        if report:
            report(done, len(names))
        results[name] = _measured(design, problem, estimators[name], exact)
    return results


@dataclass(frozen=True, eq=False)
class BenchCompared:
    """Echo learning on a bench beside backpropagation through the ideal circuit."""

    parameters: dict[str, float]
    """dL/dθ of the trainable parameters in SI, mean over chips."""
    cosines: tuple[float | None, ...]
    """To backpropagation, by chip, in the design's own units."""
    norm_ratios: tuple[float | None, ...]
    passes: int
    device_seconds: float
    seconds: float
    """Of computing, once compiled if it was measured twice."""
    epsilon: float
    gamma: float
    loss: float
    saturated: dict[str, int]
    frozen: tuple[str, ...]


def compare_on_bench(
    design: Design, problem: Problem, lesson: Lesson, bench: Bench, learner: EchoLearner, *, twice: bool = True
) -> BenchCompared:
    """Measure the gradient of a task on a bench; `twice` where it can be had again, as the first time compiles."""
    exact = trained(design, BPTT().gradient(problem).theta)
    gammas = learner.gradient(bench, design, lesson).gammas if twice else None
    start = time.perf_counter()
    found = learner.gradient(bench, design, lesson, gammas=gammas)
    seconds = time.perf_counter() - start
    entries = [e for e in design.assembly.entries if e.trainable]
    ours = np.array([np.atleast_1d(np.asarray(found.theta[e.key], float)[e.index]) for e in entries])
    norm = float(np.linalg.norm(exact))
    values = {e.name: float(row.mean() / e.scale) for e, row in zip(entries, ours, strict=True)}
    return BenchCompared(
        values,
        tuple(cosine(column, exact) for column in ours.T),
        tuple(float(np.linalg.norm(column)) / norm if norm > 0 else None for column in ours.T),
        found.passes,
        found.seconds,
        seconds,
        found.epsilon,
        found.gamma,
        found.loss,
        dict(found.saturated),
        found.frozen,
    )


def trained(design: Design, gradient: Mapping[str, Any]) -> NDArray[np.float64]:
    """Derivatives by the trainable parameters in one array, in the design's own units."""
    entries = [e for e in design.assembly.entries if e.trainable]
    return np.array([float(gradient[e.key][e.index]) for e in entries])


def cosine(a: NDArray[np.float64], b: NDArray[np.float64]) -> float | None:
    """Cosine of the angle between two gradients."""
    norms = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / norms if norms > 0 else None


def _measured(design: Design, problem: Problem, estimator: Estimator, exact: NDArray[np.float64]) -> Compared:
    estimator.gradient(problem)  # compiles
    start = time.perf_counter()
    found = estimator.gradient(problem)
    jax.block_until_ready(found.parts)  # type: ignore[no-untyped-call]
    seconds = time.perf_counter() - start
    ours, norm = trained(design, found.theta), float(np.linalg.norm(exact))
    return Compared(
        design.parameters.gradient_to_si(found.theta),
        cosine(ours, exact),
        float(np.linalg.norm(ours)) / norm if norm > 0 else None,
        found.passes,
        seconds,
        estimator.program(problem).temporary_bytes(),
        found.epsilon,
        found.gamma,
        float(found.loss),
    )


def _knobs(learner: RHEL) -> BlackBox:
    """Black-box learning with the settings that it shares; others are refused."""
    if learner.gamma == "auto" or learner.operation != MomentumFlip() or learner.nudging != Recorded():
        raise ArgumentError(
            "Argument `methods` must not have 'blackbox' with these settings: it takes a number for gamma, "
            "momentum-flip and recorded nudges"
        )
    return BlackBox(learner.epsilon, learner.gamma, stencil=learner.stencil, protocol=learner.protocol)
