"""Echo learning on a bench: gradients from what its converters read, the nudges it was told, and nominal energies.

The learner knows the design as drawn and the interface of a bench. It knows no emulator, no state and no true
parameter, and differentiates energies at single samples, never through time: docs/physics.md, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design
from devices import ArgumentError
from rhel_hw.bench import Bench, Limits
from rhel_hw.choices import Choices
from rhel_hw.lessons import Lesson
from rhel_hw.pilots import Strengths
from rhel_hw.session import Session, refuse_another
from rhel_hw.training import Found

Array = Any
Theta = Mapping[str, Array]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Measured:
    """A gradient that was measured."""

    loss: float
    """Mean over stimuli, shots and chips."""
    losses: Floats
    """By chip."""
    theta: Theta
    """dL/dθ by parameter, dimensionless: (count,), or (count, chips) of several chips."""
    passes: int
    """Runs that it took on every chip."""
    seconds: float
    """Physical time of those."""
    epsilon: float
    gammas: Floats
    """By chip."""
    saturated: Mapping[str, int]
    """How many values were beyond a converter's range, by channel, drive or nudge."""
    saturated_by_chip: NDArray[np.intp]
    """The same by chip."""
    frozen: tuple[str, ...]
    """Trainable parameters that the bench cannot set, or whose gradient its channels do not show: they stay."""

    @property
    def gamma(self) -> float:
        """γ, the geometric mean of several chips."""
        return float(np.exp(np.mean(np.log(self.gammas))))


@dataclass(frozen=True)
class EchoLearner(Choices):
    """Echo learning on a bench; nudges are recorded, and the echo is made as the bench makes it."""

    shots: int = 1
    """Gradients are averaged over so many repetitions."""
    decay: float | None = None
    """Rate in 1/s at which the device loses energy, if echoes shall make up for it: exactly on a bench that amplifies
    echoes, else as far as the circuit is linear and both quadratures of all coordinates decay alike (docs/physics.md,
    section 11.4). None: what a calibrated bench knows, nothing on any other."""

    def __post_init__(self) -> None:
        super().__post_init__()
        rate = 0.0 if self.decay is None else self.decay
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0 <= rate < np.inf:
            raise ArgumentError(f"Argument `decay` must be a rate of at least 0 1/s, but is {rate!r}")
        if isinstance(self.shots, bool) or not isinstance(self.shots, int) or self.shots < 1:
            raise ArgumentError(f"Argument `shots` must be a whole number of at least 1, but is {self.shots!r}")
        if self.gamma != "auto":
            self.held(self.epsilon * self.gamma, float)

    def gradient(
        self,
        bench: Bench,
        design: Design,
        lesson: Lesson,
        theta: Theta | None = None,
        *,
        gammas: Any = None,
        decays: Any = None,
        known: Theta | None = None,
    ) -> Measured:
        """Measure the gradient of a lesson.

        Arguments:
            bench: the device under test.
            design: as it was drawn.
            lesson: what it shall learn.
            theta: parameters that are programmed, dimensionless; the design's own by default.
            gammas: one for every chip, instead of the learner's own.
            decays: the same of its rate of decay.
            known: what calibration knows the parameters to be, (count, chips), where the bench is told `theta`.
        """
        session = Session.begin(self, bench, design, lesson, theta)
        session = replace(
            session,
            decays=session.decays if decays is None else decays,
            known=session.known if known is None else known,
        )
        before = session.description
        if gammas is None:
            gammas = session.automatic() if self.gamma == "auto" else self.gamma
        gammas = np.broadcast_to(np.asarray(gammas, float), (before.chips,))
        strengths = self.epsilon * gammas
        free = session.free()
        echoes = session.echoes(free, self.stencil.points, strengths)
        by_theta = session.credit(echoes, strengths)
        after = bench.describe()
        return Measured(
            loss=float(np.mean(free.losses)),
            losses=free.losses.mean(axis=0),
            theta=by_theta,
            passes=after.passes - before.passes,
            seconds=after.seconds - before.seconds,
            epsilon=self.epsilon,
            gammas=gammas,
            saturated=session.saturated,
            saturated_by_chip=session.clipped,
            frozen=session.frozen,
        )

    def pilots(self, bench: Bench, design: Design, lesson: Lesson, theta: Theta | None = None) -> Strengths:
        """γ for every chip, and what noise and bias of the gradient pilot echoes expect with it."""
        return Session.begin(self, bench, design, lesson, theta).tuned()

    def tuned(self, bench: Bench, design: Design, lesson: Lesson, theta: Theta | None = None) -> EchoLearner:
        """The same with a number for an automatic γ, on a bench of one chip."""
        if self.gamma != "auto":
            return self
        (gamma,) = Session.begin(self, bench, design, lesson, theta).automatic()
        return replace(self, gamma=float(gamma))


@dataclass(eq=False)
class OnBench:
    """Gradients for training, measured on a bench of one chip; an automatic γ is found once, at the start."""

    bench: Bench
    design: Design
    lesson: Lesson
    learner: EchoLearner

    def __post_init__(self) -> None:
        told = self.bench.describe()
        if told.chips != 1:
            raise ArgumentError(f"Argument `bench` must have one chip to be trained, but has {told.chips}")
        refuse_another(told, self.design)

    @property
    def limits(self) -> Mapping[str, Limits]:
        """What the bench can be programmed to."""
        return self.bench.describe().parameters

    def __call__(self, theta: Theta) -> Found:
        """Loss and gradient at these parameters."""
        before = self.bench.describe()
        self.learner = self.learner.tuned(self.bench, self.design, self.lesson, theta)
        found = self.learner.gradient(self.bench, self.design, self.lesson, theta)
        after = self.bench.describe()
        passes, seconds = after.passes - before.passes, after.seconds - before.seconds
        return Found(found.loss, found.theta, passes, seconds, found.saturated, found.frozen)

    def state(self) -> dict[str, Any]:
        """γ, and how far an emulated bench has come; a real one is where it is."""
        known = getattr(self.bench, "progress", None)
        return {"gamma": self.learner.gamma, "bench": None if known is None else known()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.learner = replace(self.learner, gamma=state["gamma"])
        if state["bench"] is not None:
            self.bench.resume(state["bench"])  # type: ignore[attr-defined]
