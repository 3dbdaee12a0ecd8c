"""What a state-space model is trained for: the loss of a batch, its gradient, and the scores that people read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from rhel_hw.data import Series
from rhel_hw.hssm import HSSM, Parameters
from rhel_hw.layers import Method

Array = Any


class Batch(NamedTuple):
    """Series side by side, as a model takes them."""

    x: Array
    """(steps, batch, channels)."""
    y: Array
    """Labels (batch,), or values (batch, outputs) or (batch, steps // every, outputs)."""
    mask: Array | None
    """(steps, batch); None if all series are as long as x."""

    @classmethod
    def of(cls, series: Series, index: Any, dtype: Any = np.float32) -> Batch:
        """Some series of a set."""
        lengths = series.lengths[index]
        mask = None
        if np.any(series.lengths < series.steps):
            mask = jnp.asarray(np.arange(series.steps)[:, None] < lengths, dtype)
        y = series.y[index]
        if not series.classes:
            y = y[:, None].astype(dtype) if y.ndim == 1 else y.astype(dtype)
        return cls(jnp.asarray(np.moveaxis(series.x[index], 0, 1), dtype), jnp.asarray(y), mask)


def for_model(*static: int) -> Callable[[Any], Any]:
    """Compile a function of a model, with these arguments static; one with a bench in it runs as it is."""

    def decorate(function: Any) -> Any:
        compiled = jax.jit(function, static_argnums=static)

        @wraps(function)
        def call(*arguments: Any) -> Any:
            (model,) = (x for x in arguments if isinstance(x, HSSM))
            return (compiled if model.traced else function)(*arguments)

        call.compiled = compiled  # type: ignore[attr-defined]
        return call

    return decorate


def loss(outputs: Array, y: Array) -> Array:
    """Of every series, (batch,): cross-entropy of labels, mean square of values."""
    if jnp.issubdtype(y.dtype, jnp.integer):
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], axis=1)[:, 0]
    return jnp.mean((outputs - y) ** 2, axis=tuple(range(1, y.ndim)))


def objective(
    parameters: Parameters, model: HSSM, method: Method, batch: Batch, strengths: Array, memory: Any, key: Array | None,
    watch: Array | None = None, felt: Array | None = None,
) -> tuple[Array, Any]:  # fmt: skip
    """Mean loss of a batch, and the memory after it."""
    outputs, memory = model(
        parameters, batch.x, method, strengths, memory=memory, mask=batch.mask, key=key, watch=watch, felt=felt
    )
    return jnp.mean(loss(outputs, batch.y)), memory


@for_model(1, 2)
def gradient(
    parameters: Parameters, model: HSSM, method: Method, batch: Batch, strengths: Array, memory: Any, key: Array
) -> tuple[Array, Any]:
    """Mean loss of a batch, and its derivatives by all parameters."""
    (value, _), by = jax.value_and_grad(objective, has_aux=True)(
        parameters, model, method, batch, strengths, memory, key
    )
    return value, by


@for_model(1, 2)
def watching(
    parameters: Parameters, model: HSSM, watched: Method, batch: Batch, strengths: Array, memory: Any, key: Array
) -> Array:
    """What watched recurrences say of their echoes, (depth, 3)."""

    def by_watch(watch: Array) -> tuple[Array, Any]:
        return objective(parameters, model, watched, batch, strengths, memory, key, watch)

    found, _ = jax.grad(by_watch, has_aux=True)(model.watch(batch.x.dtype))
    return found


def recurrent_part(block: Mapping[str, Any]) -> NDArray[np.float64]:
    """Derivatives by the parameters of a block's recurrence and of its inputs, B and b, as one vector."""
    leaves = jax.tree.leaves((block["recurrence"], block["B"], block.get("b")))
    return np.concatenate([np.asarray(x, np.float64).ravel() for x in leaves])


def recurrent_cosines(ours: Parameters, theirs: Parameters) -> NDArray[np.float64]:
    """Cosine between two gradients by block, over `recurrent_part`; NaN where one vanishes."""
    found = []
    for a, b in zip(ours["blocks"], theirs["blocks"], strict=True):
        u, v = recurrent_part(a), recurrent_part(b)
        size = np.linalg.norm(u) * np.linalg.norm(v)
        found.append(float(u @ v / size) if size > 0 else float("nan"))
    return np.array(found)
