"""Hamiltonian state-space models: recurrences in a stack, or any graph without cycles, with static maps between them.

A block normalises what it gets, lets a recurrence run on it, mixes the recurrence's positions, gates them and adds what
it got (the block of LinOSS, appendix A.3 of the RHEL paper). Which recurrence, and how its derivatives are found, is
not known here: `rhel_hw.recurrences` has the kinds, a `Method` the ways. Sequences are (steps, batch, features) between
recurrences and (steps, features, batch) inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from devices import ArgumentError
from rhel_hw.layers import WATCHED, Method
from rhel_hw.noise import bits, words
from rhel_hw.recurrences import Recurrence

Array = Any
Parameters = Mapping[str, Any]

VARIANCE_FLOOR = 1e-5
"""Added to variances before features are divided by their roots."""
SLOWEST = 0.05
"""Share of a batch in the running means that evaluation normalises by, once there were many batches."""


@dataclass(frozen=True)
class HSSM:
    """Encoder, blocks, decoder."""

    channels: int
    """Of a series."""
    outputs: int
    """Classes, or values that are predicted."""
    hidden: int
    recurrences: tuple[Recurrence, ...]
    """One for every block."""
    every: int = 0
    """Steps per output of a sequence of outputs; 0: one output, of the mean over time."""
    dropout: float = 0.05
    wiring: tuple[tuple[int, ...], ...] = ()
    """Whose outputs each block adds up as its input: 0 is the encoder, i the i-th block. Empty: a stack. The decoder
    reads the sum of all blocks that no block reads."""
    frugal: bool = False
    """Whether static maps are computed again on the way back instead of being remembered."""

    def __post_init__(self) -> None:
        for name in ("channels", "outputs", "hidden"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ArgumentError(f"Argument `{name}` must be a whole number of at least 1, but is {self!r}")
        if not self.recurrences:
            raise ArgumentError("Argument `recurrences` must have at least one, but is empty")
        if not 0 <= self.dropout < 1:
            raise ArgumentError(f"Argument `dropout` must be from 0 to below 1, but is {self.dropout!r}")
        benches = [id(r.bench) for r in self.recurrences if hasattr(r, "bench")]
        if len(set(benches)) < len(benches):
            raise ArgumentError("Argument `recurrences` must have a bench each, but two share one: it holds one state")
        if not self.wiring:
            object.__setattr__(self, "wiring", tuple((i,) for i in range(self.depth)))
        if len(self.wiring) != self.depth:
            raise ArgumentError(f"Argument `wiring` must name sources for {self.depth} blocks, but has {self.wiring}")
        for i, sources in enumerate(self.wiring, 1):
            if not sources or any(not 0 <= s < i for s in sources):
                raise ArgumentError(
                    f"Argument `wiring` must give block {i} sources from 0, the encoder, to {i - 1}, but has {sources}"
                )

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return len(self.recurrences)

    @property
    def traced(self) -> bool:
        """Whether programs of it can be compiled; not with a bench in it."""
        return all(r.traced for r in self.recurrences)

    @property
    def saturated(self) -> dict[str, int]:
        """How many values were beyond the range of a bench's converters so far, by block and name."""
        found = ((i, getattr(r, "saturated", {})) for i, r in enumerate(self.recurrences, 1))
        return {f"block {i}: {name}": count for i, counts in found for name, count in counts.items()}

    def start(self, seed: int, dtype: Any = np.float32) -> dict[str, Any]:
        """Parameters at the start of training; the same numbers in every precision."""
        rng = np.random.default_rng([seed, 0x4853534D])
        blocks = [self._start_block(r, rng) for r in self.recurrences]
        document = {
            "encoder": _affine(rng, self.channels, self.hidden),
            "blocks": blocks,
            "decoder": _affine(rng, self.hidden, self.outputs),
        }
        found: dict[str, Any] = jax.tree.map(lambda x: jnp.asarray(x, dtype), document)
        return found

    def _start_block(self, recurrence: Recurrence, rng: np.random.Generator) -> dict[str, Any]:
        hidden, into, out = self.hidden, recurrence.reach(self.hidden), recurrence.outputs**-0.5
        block = {
            "recurrence": recurrence.start(rng),
            "B": rng.uniform(-into, into, (recurrence.inputs, hidden)),
            "C": rng.uniform(-out, out, (hidden, recurrence.outputs)),
            "D": rng.normal(size=hidden),
            "gate": _affine(rng, hidden, hidden),
            "value": _affine(rng, hidden, hidden),
        }
        if recurrence.biased:
            block["b"] = rng.normal(size=recurrence.inputs)
        return block

    def memory(self, dtype: Any = np.float32) -> dict[str, Array]:
        """Running means and variances of what every block gets, as they are before any batch was seen."""
        return {
            "mean": jnp.zeros((self.depth, self.hidden), dtype),
            "variance": jnp.ones((self.depth, self.hidden), dtype),
            "seen": jnp.zeros((), dtype),
        }

    def strengths(self, value: float = 1.0, dtype: Any = np.float32) -> Array:
        """One nudging strength, γ·ε, for every block."""
        return jnp.full(self.depth, value, dtype)

    def watch(self, dtype: Any = np.float32) -> Array:
        """What is to be differentiated by so that watched recurrences report."""
        return jnp.zeros((self.depth, WATCHED), dtype)

    def __call__(
        self,
        parameters: Parameters,
        x: Array,
        method: Method,
        strengths: Array,
        *,
        memory: Mapping[str, Array],
        mask: Array | None = None,
        key: Array | None = None,
        watch: Array | None = None,
        felt: Array | None = None,
    ) -> tuple[Array, dict[str, Array]]:
        """Outputs, (batch, outputs) or (batch, steps // every, outputs), and the memory after this batch.

        Arguments:
            parameters: as `start` gives them.
            x: series, (steps, batch, channels).
            method: how derivatives of recurrences are found.
            strengths: (depth,), of nudges.
            memory: as `memory` gives it, or an earlier call returned it.
            mask: (steps, batch), 1 within a series and 0 beyond its end; None: all are as long as x.
            key: of the dropout; None for evaluation, which normalises by the memory and drops nothing.
            watch: (depth, 3), differentiated by if recurrences are watched.
            felt: (depth, steps, inputs, batch), zeros that are added to the inputs of recurrences, to differentiate by.
        """
        training = key is not None
        keys = [None] * (2 * self.depth) if key is None else jax.random.split(key, 2 * self.depth)
        watch = self.watch(x.dtype) if watch is None else watch
        outputs = [_through(parameters["encoder"], x)]
        statistics = []
        for i, recurrence in enumerate(self.recurrences):
            block = parameters["blocks"][i]
            given = sum(outputs[s] for s in self.wiring[i])
            before, after = self._static
            known = None if training else (memory["mean"][i], memory["variance"][i])
            normal, u, found = before(block, given, mask, known)
            u = u if felt is None else u + felt[i]
            q = recurrence(block["recurrence"], u, method, strengths[i], watch[i])
            outputs.append(after(block, q, normal, given, (keys[2 * i], keys[2 * i + 1])))
            statistics.append(found)
        read = {s for sources in self.wiring for s in sources}
        last = sum(outputs[i] for i in range(1, self.depth + 1) if i not in read)
        return self._decoded(parameters["decoder"], last, mask), _remembered(memory, statistics, training)

    @property
    def _static(self) -> tuple[Any, Any]:
        """What a block does before and after its recurrence."""
        after = partial(_after, self.dropout)
        return (jax.checkpoint(_before), jax.checkpoint(after)) if self.frugal else (_before, after)

    def _decoded(self, decoder: Parameters, x: Array, mask: Array | None) -> Array:
        if self.every:
            return jnp.swapaxes(_through(decoder, x[self.every - 1 :: self.every]), 0, 1)
        if mask is None:
            return _through(decoder, jnp.mean(x, axis=0))
        share = mask / jnp.sum(mask, axis=0)
        return _through(decoder, jnp.sum(x * share[..., None], axis=0))


def _affine(rng: np.random.Generator, into: int, out: int) -> dict[str, Any]:
    limit = into**-0.5
    return {"weight": rng.uniform(-limit, limit, (out, into)), "bias": rng.uniform(-limit, limit, out)}


def _through(affine: Parameters, x: Array) -> Array:
    return x @ affine["weight"].T + affine["bias"]


@jax.jit
def _before(block: Parameters, x: Array, mask: Array | None, known: tuple[Array, Array] | None) -> Any:
    """What a block gets, normalised by its batch or by what is known; inputs of the recurrence; the statistics."""
    share = jnp.asarray(1 / (x.shape[0] * x.shape[1]), x.dtype) if mask is None else (mask / jnp.sum(mask))[..., None]
    if known is None:
        mean = jnp.sum(share * x, axis=(0, 1))
        variance = jnp.sum(share * (x - mean) ** 2, axis=(0, 1))
    else:
        mean, variance = known
    normal = (x - mean) / jnp.sqrt(variance + VARIANCE_FLOOR)
    u = normal @ block["B"].T
    if "b" in block:
        u = u + block["b"]
    return normal, jnp.swapaxes(u, 1, 2), (mean, variance)


@partial(jax.jit, static_argnums=0)
def _after(dropout: float, block: Parameters, q: Array, normal: Array, x: Array, keys: tuple[Any, Any]) -> Array:
    """C·q + D·u, gated, added to what the block got."""
    y = jnp.swapaxes(q, 1, 2) @ block["C"].T + block["D"] * normal
    y = _dropped(jax.nn.gelu(y), dropout, keys[0])
    y = _through(block["value"], y) * jax.nn.sigmoid(_through(block["gate"], y))
    return x + _dropped(y, dropout, keys[1])


def _dropped(x: Array, share: float, key: Array | None) -> Array:
    if key is None or share == 0:
        return x
    return jnp.where(bits(words(key), x.shape) >= jnp.uint32(round(share * 2**32)), x / (1 - share), 0)


def _remembered(memory: Mapping[str, Array], statistics: list[Any], training: bool) -> dict[str, Array]:
    """Running means that begin with the first batch."""
    if not training:
        return dict(memory)
    mean, variance = (jax.lax.stop_gradient(jnp.stack(x)) for x in zip(*statistics, strict=True))
    share = jnp.maximum(1 / (memory["seen"] + 1), SLOWEST)
    return {
        "mean": memory["mean"] + share * (mean - memory["mean"]),
        "variance": memory["variance"] + share * (variance - memory["variance"]),
        "seen": memory["seen"] + 1,
    }
