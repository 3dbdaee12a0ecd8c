"""Where the nudges of an echo come from: recorded on the free pass, or from the echo's own state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from devices import ArgumentError
from rhel_hw.losses import Loss, Slopes, When
from rhel_hw.operations import Operation

Array = Any
State = tuple[Array, Array]


class Nudges(NamedTuple):
    """How an echo is displaced, per strength."""

    first: Callable[[State], Slopes]
    """At the turning point."""
    of: Callable[[State, Array], Slopes]
    """At the state whose index i, counted from the first step's end, is given: 0 … steps − 2."""
    every: bool
    """Whether there are nudges after the first."""


@dataclass(frozen=True)
class Nudging(ABC):
    """Base of both."""

    @abstractmethod
    def check(self, loss: Loss, operation: Operation, size: int) -> None:
        """Refuse a loss that cannot be nudged by in this manner."""

    @abstractmethod
    def nudges(self, loss: Loss, operation: Operation, errors: Any, last: Any, steps: int) -> Nudges:
        """Nudges of an echo, given what the free pass recorded."""


@dataclass(frozen=True)
class Recorded(Nudging):
    """By what the free pass recorded: any differentiable loss will do."""

    def check(self, loss: Loss, operation: Operation, size: int) -> None:
        """Nothing to refuse."""

    def nudges(self, loss: Loss, operation: Operation, errors: Any, last: Any, steps: int) -> Nudges:
        """Recorded slopes, the same in all echoes."""

        def displacement(recorded: Any) -> Slopes:
            return operation.nudge(loss.slopes(recorded))

        if loss.when is When.POOLED:
            same = displacement(jax.tree.map(lambda x: x / steps, last))
            return Nudges(lambda _: same, lambda _state, _i: same, every=True)
        running = loss.when is When.RUNNING
        return Nudges(
            lambda _: displacement(last),
            lambda _, i: displacement(jax.tree.map(lambda x: x[i], errors)),
            every=running and steps > 1,
        )


@dataclass(frozen=True)
class SelfConsistent(Nudging):
    """By the slopes at the echo's own state, as if ε·ℓ were part of the device: −εJ∇ℓ, with a bias of order ε².

    Momenta are flipped in an echo, so the loss must be even in them, unless the echo runs with −H instead.
    """

    def check(self, loss: Loss, operation: Operation, size: int) -> None:
        """Refuse losses that are not even, and pooled ones, whose slopes are known only when all is over."""
        if loss.when is When.POOLED:
            raise ArgumentError(
                f"Argument `nudging` must be Recorded() with {type(loss).__name__}, but is SelfConsistent(): the loss "
                "of a mean has no slope before the end of the run"
            )
        if operation.conjugates and not _is_even(loss, size):
            raise ArgumentError(
                f"Argument `nudging` must be Recorded() with {type(loss).__name__}, but is SelfConsistent(): the loss "
                "changes when momenta are flipped"
            )

    def nudges(self, loss: Loss, operation: Operation, errors: Any, last: Any, steps: int) -> Nudges:
        """Slopes at whatever state the echo is in."""
        data, running = loss.data(), loss.when is When.RUNNING

        def displacement(state: State, i: Array) -> Slopes:
            item = jax.tree.map(lambda x: x[i], data) if running else data
            by_q, by_p = loss.slopes(loss.errors(*state, item))
            return None if by_p is None else -by_p, by_q

        return Nudges(lambda state: displacement(state, jnp.asarray(-1)), displacement, every=running and steps > 1)


def _is_even(loss: Loss, size: int) -> bool:
    """Whether ℓ is the same with all momenta flipped, at trial states, whatever its data."""
    data = loss.data()
    batch = max((x.shape[-1] for x in jax.tree.leaves(data) if jnp.ndim(x) > 1), default=1)
    rng = np.random.default_rng(0)
    q, p = (jnp.asarray(rng.normal(size=(size, 1, batch))) for _ in range(2))

    def both(item: Any) -> Array:
        return jnp.stack([loss.at(q, p, item), loss.at(q, -p, item)])

    there, back = jnp.moveaxis(jax.lax.map(both, data) if loss.when is When.RUNNING else both(data)[None], 1, 0)
    return bool(jnp.max(jnp.abs(there - back)) <= 1e-5 * jnp.max(jnp.abs(there)))
