"""Training: repeated gradients and moves of the parameters in their unconstrained form.

Where gradients come from is not known here: whatever measures loss and gradient at given parameters will do, an ideal
circuit (`rhel_hw.problem.OnProblem`) or a bench (`rhel_hw.learner.OnBench`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax

from circuits import Design, Netlist
from devices import ArgumentError, refuse_unless_positive
from rhel_hw import checkpoints
from rhel_hw.bench import Limits
from rhel_hw.files import refuse_unwritable

Array = Any
Theta = Mapping[str, Array]
Report = Callable[[int, int, float], None]
"""Called with moves done, moves in all, and the loss."""

DIVERGED = 1e4
"""Loss over the first one from which training counts as diverged."""


class Found(NamedTuple):
    """Loss and gradient at some parameters, dimensionless, and what they took."""

    loss: float
    theta: Theta
    passes: int
    seconds: float = 0.0
    """Physical time on a bench."""
    saturated: Mapping[str, int] = {}
    frozen: tuple[str, ...] = ()


class Measure(Protocol):
    """Whatever measures gradients."""

    def __call__(self, theta: Theta) -> Found:
        """Loss and gradient at these parameters."""
        ...

    @property
    def limits(self) -> Mapping[str, Limits]:
        """Between which values parameters can be set, by name; none where any will do."""
        ...

    def state(self) -> dict[str, Any]:
        """What it must be told to go on as if it had never stopped, as plain data."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        ...


@dataclass(frozen=True, eq=False)
class Trained:
    """What training came to."""

    theta: Theta
    """The best parameters seen, dimensionless."""
    losses: tuple[float, ...]
    """Before every move, and of the end."""
    passes: int
    """Runs of the device in all."""
    seconds: float
    """Wall clock, of this process."""
    ended: str
    """Why it ended."""
    device_seconds: float = 0.0
    """Physical time on a bench."""
    saturated: Mapping[str, int] = field(default_factory=dict)
    """How many values were beyond a converter's range, by channel."""
    frozen: tuple[str, ...] = ()
    """Parameters that stayed, as their gradient cannot be seen."""
    at_limits: tuple[str, ...] = ()
    """Parameters that ended where the bench allows no more."""

    @property
    def best(self) -> float:
        """Lowest loss seen: that of `theta`."""
        return min(self.losses)

    @property
    def improvement(self) -> float:
        """First loss over the best."""
        return self.losses[0] / self.best if self.best > 0 else float("inf")


@dataclass(frozen=True)
class Training:
    """Adam on logarithms of positive parameters, logits of bounded ones and multiples of the others."""

    steps: int = 100
    rate: float = 0.03
    """Length of a move; about the relative change of a parameter. It falls to a tenth."""
    patience: int | None = None
    """Moves without a lower loss after which it stops; None: never."""

    def __post_init__(self) -> None:
        refuse_unless_positive(rate=self.rate)
        for name in ("steps", "patience"):
            value = getattr(self, name)
            if value is None and name == "patience":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"Argument `{name}` must be a whole number of at least 1, but is {value!r}")

    def run(
        self,
        design: Design,
        start: Theta,
        measure: Measure,
        *,
        report: Report | None = None,
        checkpoint: Path | None = None,
        every: int = 10,
        label: str = "",
    ) -> Trained:
        """Train a design from some parameters, dimensionless.

        With a checkpoint, progress is saved there every so many moves, and taken up again if the file is there already;
        `label` stands for everything else that must be the same then, such as the profile of a bench.
        """
        began = time.perf_counter()
        if checkpoint is not None:
            refuse_unwritable(checkpoint)
        moves = Moves.of(self, design, start, measure.limits)
        progress = moves.begin()
        if checkpoint is not None and checkpoint.exists():
            progress, state = _load(checkpoint, self._fingerprint(design, label), progress)
            measure.restore(state)
        ended = self._ended(progress) if progress.losses else ""
        while not ended:
            found = measure(progress.theta)
            progress = moves.after(progress, found)
            ended = self._ended(progress)
            if checkpoint is not None and (ended or progress.made % every == 0):
                _save(checkpoint, self._fingerprint(design, label), progress, measure.state(), design)
            if report:
                report(progress.made, self.steps, found.loss)
        return Trained(
            theta=progress.best,
            losses=tuple(progress.losses),
            passes=progress.passes,
            seconds=time.perf_counter() - began,
            ended=ended,
            device_seconds=progress.device_seconds,
            saturated=progress.saturated,
            frozen=progress.frozen,
            at_limits=moves.at_limits(progress.best),
        )

    def _ended(self, progress: _Progress) -> str:
        losses = progress.losses
        if not isfinite(losses[-1]) or losses[-1] > DIVERGED * losses[0]:
            return f"diverged at move {len(losses) - 1}, where the loss was {losses[-1]:.3g}: use a smaller rate"
        since = len(losses) - 1 - int(np.argmin(losses))
        if self.patience is not None and since >= self.patience:
            return f"no lower loss for {since} moves"
        return "all moves made" if progress.made >= self.steps else ""

    def _fingerprint(self, design: Design, label: str) -> str:
        return sha256(f"{design.netlist.to_toml()}|{design.step}|{design.steps}|{self}|{label}".encode()).hexdigest()


class _Progress(NamedTuple):
    """Where training stands."""

    free: Any
    optimiser: Any
    theta: Theta
    best: Theta
    losses: tuple[float, ...]
    passes: int
    device_seconds: float
    saturated: Mapping[str, int]
    frozen: tuple[str, ...]

    @property
    def made(self) -> int:
        """Moves made: the last gradient was of the state after so many."""
        return max(len(self.losses) - 1, 0)


@dataclass(frozen=True, eq=False)
class Moves:
    """How parameters move: begin, then one move after another."""

    design: Design
    start: Theta
    optimiser: Any
    low: Theta
    high: Theta
    limited: bool

    @classmethod
    def of(cls, training: Training, design: Design, start: Theta, limits: Mapping[str, Limits]) -> Moves:
        """Of a training from some parameters, within limits by name."""
        start = {k: jnp.asarray(v) for k, v in start.items()}
        low = {k: np.full(np.shape(v), -np.inf) for k, v in start.items()}
        high = {k: np.full(np.shape(v), np.inf) for k, v in start.items()}
        for name, limit in limits.items():
            e = design.parameters.entries[name]
            low[e.key][e.index], high[e.key][e.index] = limit.low / e.scale, limit.high / e.scale
        schedule = optax.cosine_decay_schedule(training.rate, training.steps, alpha=0.1)
        return cls(design, start, optax.adam(schedule), low, high, bool(limits))

    def begin(self) -> _Progress:
        """Where training starts."""
        free = jax.jit(self.design.parameters.free)(self.start)
        theta = self._inside(self.design.parameters.bind(free, self.start))
        return _Progress(free, self.optimiser.init(free), theta, theta, (), 0, 0.0, {}, ())

    def after(self, progress: _Progress, found: Found) -> _Progress:
        """Progress with a gradient taken into account."""
        better = not progress.losses or found.loss < min(progress.losses)
        best = progress.theta if better else progress.best
        counts = dict(progress.saturated)
        for name, count in found.saturated.items():
            counts[name] = counts.get(name, 0) + count
        gradient = {k: jnp.asarray(found.theta[k]) for k in found.theta}
        free, state, theta = self._moved(progress.free, progress.optimiser, gradient)
        return _Progress(
            free,
            state,
            theta,
            best,
            (*progress.losses, float(found.loss)),
            progress.passes + found.passes,
            progress.device_seconds + found.seconds,
            counts,
            found.frozen,
        )

    def at_limits(self, theta: Theta) -> tuple[str, ...]:
        """Trainable parameters at the end of their range."""
        found = []
        for e in self.design.assembly.entries:
            if e.trainable:
                value, low, high = (float(x[e.key][e.index]) for x in (theta, self.low, self.high))
                if abs(value - low) <= 1e-6 * abs(value) or abs(value - high) <= 1e-6 * abs(value):
                    found.append(e.name)
        return tuple(found)

    def _inside(self, theta: Theta) -> dict[str, Array]:
        return {k: jnp.clip(v, self.low[k], self.high[k]) if self.limited else v for k, v in theta.items()}

    @cached_property
    def _moved(self) -> Callable[[Any, Any, Theta], tuple[Any, Any, Theta]]:
        compiled: Callable[[Any, Any, Theta], tuple[Any, Any, Theta]] = jax.jit(self.move)
        return compiled

    def move(self, free: Any, state: Any, gradient: Theta) -> tuple[Any, Any, Theta]:
        """Unconstrained parameters, state of the optimiser and parameters after a move."""
        parameters = self.design.parameters
        theta, back = jax.vjp(lambda x: parameters.bind(x, self.start), free)
        (slope,) = back({k: gradient[k] if k in gradient else jnp.zeros_like(v) for k, v in theta.items()})
        moves, state = self.optimiser.update(slope, state)
        free = optax.apply_updates(free, moves)
        theta = self._inside(parameters.bind(free, self.start))
        return (parameters.free(theta) if self.limited else free), state, theta


# Checkpoints ------------------------------------------------------------------------------------------------------


def trained_values(path: Path, netlist: Netlist) -> dict[str, float]:
    """Best values of the trained parameters of a checkpoint, in SI by name; refused if it is of another design."""
    known = {f"{e.name}.{key}" for e in netlist.elements for key in e.trainable}
    values: dict[str, float] = checkpoints.read(path)[0].get("parameters", {})
    if not values or not set(values) <= known:
        raise ArgumentError(
            f"Argument `trained` must be a checkpoint of the training of {netlist.name!r}, but {path} has values of "
            f"{', '.join(sorted(set(values) - known)[:3]) or 'nothing'}"
        )
    return values


def _save(path: Path, fingerprint: str, progress: _Progress, state: Mapping[str, Any], design: Design) -> None:
    best = design.parameters.to_si(progress.best)
    document = {
        "parameters": {name: best[name][0] for name in design.parameters.trainable_names},
        "losses": progress.losses,
        "passes": progress.passes,
        "device_seconds": progress.device_seconds,
        "saturated": dict(progress.saturated),
        "frozen": progress.frozen,
        "measure": dict(state),
    }
    checkpoints.save(path, fingerprint, document, _arrays(progress))


def _load(path: Path, fingerprint: str, like: _Progress) -> tuple[_Progress, Mapping[str, Any]]:
    document, arrays = checkpoints.load(path, fingerprint, _arrays(like), "design, profile or settings")
    free, optimiser, theta, best = arrays
    progress = _Progress(
        free,
        optimiser,
        theta,
        best,
        tuple(document["losses"]),
        document["passes"],
        document["device_seconds"],
        document["saturated"],
        tuple(document["frozen"]),
    )
    return progress, document["measure"]


def _arrays(progress: _Progress) -> tuple[Any, ...]:
    return progress.free, progress.optimiser, dict(progress.theta), dict(progress.best)
