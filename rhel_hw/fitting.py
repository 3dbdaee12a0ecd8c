"""Training of state-space models: Adam, early stop on the validation part, checkpoints from which it goes on exactly.

Batches and dropout are drawn by the number of the move, never by what happened before, so that a training that was
killed goes on bit for bit as if it had not been.
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from math import cos, pi
from pathlib import Path
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from devices import ArgumentError, refuse_unless_positive
from rhel_hw import checkpoints
from rhel_hw.baselines import ThroughTime
from rhel_hw.data import Series
from rhel_hw.events import event_file
from rhel_hw.files import folder, write_atomically, write_text
from rhel_hw.hssm import HSSM
from rhel_hw.integrators import Integrator, Leapfrog
from rhel_hw.layers import Echoes, Method
from rhel_hw.objectives import Batch, for_model, gradient, loss, objective, recurrent_cosines, watching
from rhel_hw.problem import Program
from rhel_hw.strengths import tuned

Array = Any
Report = Callable[[int, int, float], None]
"""Called with moves done, moves in all, and the loss."""

CHECKPOINT, CURVES, EVENTS = "checkpoint.npz", "curves.csv", "events.out.tfevents.0.rhel-hw"


@dataclass(frozen=True)
class EchoChaining:
    """Echo learning through every recurrence, the chain rule between them. γ·ε is how strongly echoes are nudged.

    With ``gamma="auto"`` every recurrence gets a γ of its own from pilot echoes, at the start and at every evaluation.
    """

    epsilon: float = 0.1
    gamma: float | Literal["auto"] = "auto"
    echoes: Echoes = field(default_factory=Echoes)

    def __post_init__(self) -> None:
        refuse_unless_positive(epsilon=self.epsilon)
        if self.gamma != "auto":
            refuse_unless_positive(gamma=self.gamma)


Learning = EchoChaining | ThroughTime


@dataclass(frozen=True)
class Parts:
    """Series to learn from, to stop by, and to be judged by."""

    train: Series
    validation: Series
    test: Series

    @property
    def digest(self) -> str:
        """Of all numbers in it."""
        found = sha256()
        for part in (self.train, self.validation, self.test):
            for array in (part.x, part.y, part.lengths):
                found.update(np.ascontiguousarray(array).tobytes())
        return found.hexdigest()


@dataclass(frozen=True)
class Fitting:
    """How a model is trained."""

    moves: int = 1000
    """Most moves of the parameters."""
    batch: int = 32
    rate: float = 1e-3
    """Of Adam at the start."""
    last: float = 1.0
    """Rate at the end over that at the start; it falls by half a cosine."""
    evaluate: int = 50
    """Moves between evaluations."""
    patience: int = 10
    """Evaluations without a better one after which it stops."""
    keep: int = 50
    """Moves between checkpoints."""
    seed: int = 0
    """Of the parameters at the start, the batches and the dropout."""
    moved: float = 0.0
    """Relative change of every parameter at the start, at random: shows what a training makes of round-off."""
    compared: bool = False
    """Whether every evaluation compares gradients by echoes with those of backpropagation."""

    def __post_init__(self) -> None:
        refuse_unless_positive(rate=self.rate, last=self.last)
        for name in ("moves", "batch", "evaluate", "patience", "keep"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ArgumentError(f"Argument `{name}` must be a whole number of at least 1, but is {value!r}")

    def rate_at(self, move: int) -> float:
        """Of the move after this many."""
        falling = (1 + cos(pi * min(move / self.moves, 1.0))) / 2
        return self.rate * (self.last + (1 - self.last) * falling)

    def run(
        self,
        model: HSSM,
        parts: Parts,
        learning: Learning,
        *,
        out: Path | None = None,
        report: Report | None = None,
        dtype: Any = np.float32,
    ) -> Fitted:
        """Train, and judge the parameters that were best on the validation part by the test part.

        With a folder `out`, progress is kept there and taken up again: a checkpoint, curves as CSV and as an event file
        that TensorBoard reads.
        """
        began = time.perf_counter()
        if min(parts.train.count, parts.validation.count, parts.test.count) < 1:
            raise ArgumentError("Argument `parts` must have series in all three parts, but one is empty")
        if self.compared and not model.traced:
            raise ArgumentError("Argument `compared` must be False for a model with a bench: nothing differentiates it")
        place = None if out is None else folder(out) / CHECKPOINT
        if place is not None and place.exists() and not model.traced:
            raise ArgumentError(
                f"Argument `out` must be a new folder for a model with a bench, but {place} is there: a bench is where "
                "it is, and a training on it cannot go on exactly"
            )
        fingerprint = sha256(f"{model}|{self}|{learning}|{np.dtype(dtype)}|{parts.digest}".encode()).hexdigest()
        desk = _Desk(self, model, parts.train, learning, dtype)
        state, history, earlier = desk.begin(), [], 0.0
        if place is not None and place.exists():
            document, state = checkpoints.load(place, fingerprint, state, "model, data or settings")
            history, earlier = document["history"], document["seconds"]
            state = _State(*state)
        ended = self._ended(state, history)
        while not ended:
            state, value = desk.move(state)
            made = int(state.made)
            if made % self.evaluate == 0 or made == self.moves:
                state, row = desk.evaluated(state, parts.validation)
                row["seconds"] = earlier + time.perf_counter() - began
                history.append(row)
            ended = self._ended(state, history)
            if place is not None and (ended or made % self.keep == 0):
                self._write(place, fingerprint, state, history, earlier + time.perf_counter() - began)
            if report:
                report(made, self.moves, float(value))
        scores = evaluation(model, state.best, state.best_memory, parts.test, self.batch, desk.integrator)
        return Fitted(
            model, state.best, state.best_memory, tuple(history), scores, ended,
            earlier + time.perf_counter() - began, np.asarray(state.strengths, float),
            model.saturated,
        )  # fmt: skip

    def _ended(self, state: _State, history: list[dict[str, Any]]) -> str:
        if history and not np.isfinite(history[-1]["loss"] + history[-1]["validation_loss"]):
            return f"diverged before move {int(state.made)}: use a smaller rate"
        if int(state.stale) >= self.patience:
            return f"no better on the validation part for {int(state.stale)} evaluations"
        return "all moves made" if int(state.made) >= self.moves else ""

    @staticmethod
    def _write(place: Path, fingerprint: str, state: _State, history: list[dict[str, Any]], seconds: float) -> None:
        """Everything that is known, whole; the checkpoint last, as the others follow from it."""
        if history:
            text = io.StringIO()
            writer = csv.DictWriter(text, list(history[0]))
            writer.writeheader()
            writer.writerows(history)
            write_text(place.with_name(CURVES), text.getvalue())
            rows = [
                (row["move"], row["seconds"], {k: v for k, v in row.items() if k not in ("move", "seconds")})
                for row in history
            ]
            write_atomically(place.with_name(EVENTS), lambda file: file.write(event_file(rows)))
        checkpoints.save(place, fingerprint, {"history": history, "seconds": seconds}, tuple(state))


@dataclass(frozen=True, eq=False)
class Fitted:
    """What training came to."""

    model: HSSM
    parameters: Mapping[str, Any]
    """The best on the validation part."""
    memory: Mapping[str, Array]
    history: tuple[Mapping[str, float], ...]
    """One row for every evaluation: move, loss since the one before, loss and score of the validation part, seconds."""
    test: Mapping[str, float]
    """Scores of the test part."""
    ended: str
    seconds: float
    """Wall clock, with what went before a kill."""
    strengths: NDArray[np.float64]
    """Of nudges at the end."""
    saturated: Mapping[str, int] = field(default_factory=dict)
    """How many values were beyond a converter's range, by block and name, if there are benches in the model."""

    @property
    def cosine(self) -> float:
        """Lowest cosine between gradients by echoes and by backpropagation that was seen; NaN if none was."""
        seen = [row["cosine"] for row in self.history if "cosine" in row]
        return min(seen, default=float("nan"))

    @property
    def expected_error(self) -> float:
        """Largest relative error of a block's gradient that pilot echoes foretold, a bound; 0 if there were none."""
        return max((row["expected_error"] for row in self.history if "expected_error" in row), default=0.0)


class _State(NamedTuple):
    """All that the next move depends on."""

    parameters: Any
    optimiser: Any
    memory: Any
    best: Any
    best_memory: Any
    best_score: Array
    """(2,): what is best if small, then the loss."""
    stale: Array
    """Evaluations since."""
    strengths: Array
    summed: Array
    """Losses since the last evaluation."""
    made: Array


@dataclass(frozen=True, eq=False)
class _Desk:
    """Where moves are made."""

    fitting: Fitting
    model: HSSM
    train: Series
    learning: Learning
    dtype: Any

    def begin(self) -> _State:
        model, parameters = self.model, self.model.start(self.fitting.seed, self.dtype)
        if self.fitting.moved:
            rng = np.random.default_rng([self.fitting.seed, 1])
            change = self.fitting.moved
            parameters = jax.tree.map(
                lambda x: jnp.asarray(x * (1 + change * rng.normal(size=x.shape)), x.dtype), parameters
            )
        memory = model.memory(self.dtype)
        strengths = np.ones(model.depth)
        if isinstance(self.learning, EchoChaining):
            strengths *= self.learning.epsilon * (1.0 if self.learning.gamma == "auto" else self.learning.gamma)
        state = _State(
            parameters, optax.scale_by_adam().init(parameters), memory, parameters, memory,
            np.full(2, np.inf), np.zeros((), int), strengths, np.zeros(()), np.zeros((), int),
        )  # fmt: skip
        return self._tuned(state)[0]

    @property
    def integrator(self) -> Integrator:
        return self.learning.echoes.integrator if isinstance(self.learning, EchoChaining) else self.learning.integrator

    @property
    def method(self) -> Method:
        return self.learning.echoes if isinstance(self.learning, EchoChaining) else self.learning

    def _batch(self, move: int) -> tuple[Batch, Array]:
        """Series and dropout of a move, by its number."""
        size = min(self.fitting.batch, self.train.count)
        per_epoch = self.train.count // size
        epoch, place = divmod(move, per_epoch)
        order = np.random.default_rng([self.fitting.seed, epoch]).permutation(self.train.count)
        key = jax.random.fold_in(jax.random.key(self.fitting.seed), move)
        return Batch.of(self.train, order[place * size : (place + 1) * size], self.dtype), key

    def move(self, state: _State) -> tuple[_State, float]:
        batch, key = self._batch(int(state.made))
        strengths = jnp.asarray(state.strengths, self.dtype)
        rate = jnp.asarray(self.fitting.rate_at(int(state.made)), self.dtype)
        value, *moved = _move(
            self.model, self.method, state.parameters, state.optimiser, state.memory, batch, strengths, rate, key
        )
        parameters, optimiser, memory = moved
        state = state._replace(
            parameters=parameters, optimiser=optimiser, memory=memory, summed=state.summed + float(value),
            made=state.made + 1,
        )  # fmt: skip
        return state, float(value)

    def evaluated(self, state: _State, validation: Series) -> tuple[_State, dict[str, Any]]:
        """Judge, remember the best, tune the strengths anew, and write a row."""
        fitting, made = self.fitting, int(state.made)
        scores = evaluation(self.model, state.parameters, state.memory, validation, fitting.batch, self.integrator)
        rank = np.array([-scores.get("accuracy", -scores["loss"]), scores["loss"]])
        better = tuple(rank) < tuple(np.asarray(state.best_score))
        row = {"move": made, "loss": float(state.summed) / ((made - 1) % fitting.evaluate + 1)}
        row |= {f"validation_{k}": v for k, v in scores.items()}
        state = state._replace(stale=state.stale + 1, summed=np.zeros(()))
        if better:
            state = state._replace(
                best=state.parameters, best_memory=state.memory, best_score=rank, stale=np.zeros((), int)
            )
        if not np.isfinite(row["loss"] + row["validation_loss"]):
            return state, row
        state, error = self._tuned(state)
        if isinstance(self.learning, EchoChaining):
            if error is not None:
                row["expected_error"] = error
            row |= {f"gamma_{i + 1}": s / self.learning.epsilon for i, s in enumerate(np.asarray(state.strengths))}
            if fitting.compared:
                row["cosine"] = float(np.min(self._cosines(state)))
        return state, row

    def _tuned(self, state: _State) -> tuple[_State, float | None]:
        """With strengths from pilot echoes on the next batch, if they are automatic; the error to be expected."""
        if not isinstance(self.learning, EchoChaining) or self.learning.gamma != "auto":
            return state, None
        batch, key = self._batch(int(state.made))
        watched = replace(self.learning.echoes, watched=True)
        given = (state.parameters, self.model, watched, batch)

        def watch(strengths: Any) -> Array:
            return watching(*given, jnp.asarray(strengths, self.dtype), state.memory, key)

        order = self.learning.echoes.stencil.order
        found = tuned(watch, np.asarray(state.strengths, float), order)
        return state._replace(strengths=found.strengths), float(np.max(found.error))

    def _cosines(self, state: _State) -> Any:
        """Of gradients by echoes and by backpropagation on the next batch, over the parameters of every recurrence."""
        batch, key = self._batch(int(state.made))
        strengths = jnp.asarray(state.strengths, self.dtype)
        ours, theirs = (
            gradient(state.parameters, self.model, method, batch, strengths, state.memory, key)[1]
            for method in (self.method, ThroughTime(self.integrator))
        )
        return recurrent_cosines(ours, theirs)


def program(model: HSSM, method: Method, batch: Batch) -> Program:
    """One move from the start, as a compiled function and what it is called with."""
    dtype = batch.x.dtype
    start, rate = model.start(0, dtype), jnp.asarray(1e-3, dtype)
    adam, memory = optax.scale_by_adam().init(start), model.memory(dtype)
    given = (model, method, start, adam, memory, batch, model.strengths(1.0, dtype), rate, jax.random.key(0))
    return Program(_move.compiled, given)


@for_model(0, 1)
def _move(
    model: HSSM, method: Method, parameters: Any, optimiser: Any, memory: Any, batch: Batch, strengths: Array,
    rate: Array, key: Array,
) -> tuple[Array, Any, Any, Any]:  # fmt: skip
    (value, memory), by = jax.value_and_grad(objective, has_aux=True)(
        parameters, model, method, batch, strengths, memory, key
    )
    moves, optimiser = optax.scale_by_adam().update(by, optimiser)
    parameters = jax.tree.map(lambda x, dx: x - rate * dx, parameters, moves)
    return value, parameters, optimiser, memory


def evaluation(
    model: HSSM, parameters: Any, memory: Any, series: Series, batch: int, integrator: Integrator | None = None
) -> dict[str, float]:
    """Scores on a set of series: loss, and accuracy of labels."""
    found = predictions(model, parameters, memory, series, batch, integrator)
    y = Batch.of(series, np.arange(series.count), found.dtype).y
    scores = {"loss": float(np.mean(np.asarray(loss(jnp.asarray(found), y), float)))}
    if series.classes:
        scores["accuracy"] = float(np.mean(np.argmax(found, axis=1) == series.y))
    return scores


def predictions(
    model: HSSM, parameters: Any, memory: Any, series: Series, batch: int, integrator: Integrator | None = None
) -> Any:
    """Outputs for every series, (count, …), in batches of one size, so that one program does."""
    found = []
    for begin in range(0, series.count, batch):
        index = np.arange(begin, begin + batch) % series.count
        dtype = parameters["encoder"]["weight"].dtype
        method = ThroughTime(integrator or Leapfrog())
        found.append(np.asarray(_outputs(model, method, parameters, memory, Batch.of(series, index, dtype))))
    return np.concatenate(found)[: series.count]


@for_model(0, 1)
def _outputs(model: HSSM, method: Method, parameters: Any, memory: Any, batch: Batch) -> Array:
    strengths = model.strengths(1.0, batch.x.dtype)
    return model(parameters, batch.x, method, strengths, memory=memory, mask=batch.mask)[0]
