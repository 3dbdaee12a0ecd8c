"""Gradients of six-block models by echoes against backpropagation in double precision, at the start of training.

Two results of the paper: that both agree in every layer (its figure on static gradients), and how the scale of the loss
during the echo, γ, decides about it (the two figures of appendix A.4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError
from rhel_hw.baselines import ThroughTime
from rhel_hw.data import Scaling, Series, cropped, decimated, load, shifted_copies, unshifted
from rhel_hw.hssm import HSSM
from rhel_hw.layers import Echoes, Method
from rhel_hw.objectives import Batch, for_model, objective, recurrent_part, watching
from rhel_hw.recipes import UNITS
from rhel_hw.strengths import Tuned, tuned

Array = Any
Floats = NDArray[np.float64]
Report = Callable[[int, int], None]

EPSILON = 0.1
BLOCKS, WIDTH = 6, 64
SIZES: Mapping[str, dict[str, int]] = {"quick": {"batch": 8, "steps": 250}, "full": {"batch": 16, "steps": 400}}
INPUTS_OF = 2
"""The block whose inputs are looked at, counted from 0: the paper's third."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A model at its start, and a batch of series."""

    units: str
    model: HSSM
    series: str
    x: NDArray[np.float32]
    """(steps, batch, channels)"""
    y: NDArray[np.int64]
    seed: int

    def batch(self, dtype: Any) -> Batch:
        """In some precision; all series are equally long."""
        return Batch(jnp.asarray(self.x, dtype), jnp.asarray(self.y), None)

    @property
    def key(self) -> Array:
        """Of the dropout, which is the same for all."""
        return jax.random.key(self.seed)

    def given(self, dtype: Any, method: Method, strengths: Any) -> tuple[Any, ...]:
        """What a gradient is computed from."""
        start, memory = self.model.start(self.seed, dtype), self.model.memory(dtype)
        return start, self.model, method, self.batch(dtype), jnp.asarray(strengths, dtype), memory, self.key


def setting(units: str, data: str | None, *, batch: int, steps: int, seed: int = 0) -> Setting:
    """Six blocks on a batch of a set of series, or of the hidden pulses that ship with this package."""
    series = _series(load("pulse-detection" if data is None else data), steps)
    if not series.classes:
        raise ArgumentError(f"Argument `--data` must be a set with classes, but {series.name} has values")
    chosen = np.random.default_rng(seed).permutation(series.count)[:batch]
    scaled = Scaling.fitted(series, chosen).apply(series).take(chosen)
    model = HSSM(series.width, len(series.classes), WIDTH, (UNITS[units](WIDTH),) * BLOCKS)
    return Setting(units, model, str(series), np.moveaxis(scaled.x, 0, 1), scaled.y, seed)


def _series(series: Series, steps: int) -> Series:
    """With about so many steps, as many for all."""
    shift = shifted_copies(series)
    series = series if shift is None else unshifted(series, shift)
    shortest = int(series.lengths.min())
    by = max(1, shortest // steps)
    series = cropped(series, by * (shortest // by))
    return cropped(series if by == 1 else decimated(series, by), min(steps, shortest // by))


@for_model(1, 2)
def gradients(
    parameters: Any, model: HSSM, method: Method, batch: Batch, strengths: Array, memory: Any, key: Array
) -> tuple[Any, Array]:
    """By all parameters, and by the inputs of every recurrence, (blocks, steps, inputs, batch)."""
    steps, lanes, _ = batch.x.shape
    felt = jnp.zeros((model.depth, steps, model.recurrences[0].inputs, lanes), batch.x.dtype)

    def value(parameters: Any, felt: Array) -> Array:
        return objective(parameters, model, method, batch, strengths, memory, key, felt=felt)[0]

    by_parameters, by_inputs = jax.grad(value, argnums=(0, 1))(parameters, felt)
    return by_parameters, by_inputs[INPUTS_OF]


def strengths(chosen: Setting, dtype: Any, how: Echoes) -> Tuned:
    """Automatic strengths for every block."""
    watched = replace(how, watched=True)

    def watch(values: Any) -> Array:
        return watching(*chosen.given(dtype, watched, values))

    return tuned(watch, np.full(chosen.model.depth, EPSILON), how.stencil.order)


# Comparisons ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Likeness:
    """Of two gradients, (…) each."""

    deviation: Floats
    """1 − cosine."""
    ratio: Floats
    """Norm of ours over theirs."""


def likeness(ours: Any, theirs: Any) -> Likeness:
    """Along the last axis. The deviation is computed from the difference, so that tiny ones are not rounded away."""
    a, b = (np.asarray(x, np.float64) for x in (ours, theirs))
    size_a, size_b = (np.linalg.norm(x, axis=-1) for x in (a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = a / size_a[..., None] - b / size_b[..., None]
        return Likeness(np.sum(apart**2, axis=-1) / 2, size_a / size_b)


def by_parameter(ours: Any, theirs: Any) -> dict[str, Likeness]:
    """Of every kind of parameter of the recurrences, and of all of them together; by block."""
    kinds = {**{k: ("recurrence", k) for k in ours["blocks"][0]["recurrence"]}, "B": ("B",)}
    kinds |= {"b": ("b",)} if "b" in ours["blocks"][0] else {}

    def vectors(tree: Any, path: tuple[str, ...]) -> Floats:
        found = []
        for block in tree["blocks"]:
            for name in path:
                block = block[name]
            found.append(np.asarray(block, np.float64).ravel())
        return np.stack(found)

    found = {name: likeness(vectors(ours, path), vectors(theirs, path)) for name, path in kinds.items()}
    whole = (np.stack([recurrent_part(b) for b in tree["blocks"]]) for tree in (ours, theirs))
    return {**found, "all": likeness(*whole)}


def over_time(ours: Array, theirs: Array) -> Likeness:
    """Of inputs (steps, inputs, batch), step by step."""
    a, b = (np.asarray(x, np.float64).reshape(len(x), -1) for x in (ours, theirs))
    return likeness(a, b)


# The studies -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class StaticResult:
    """Automatic strengths, by units and precision."""

    settings: Mapping[str, Setting]
    likeness: Mapping[tuple[str, str], Mapping[str, Likeness]]
    """By units and precision, then by parameter."""
    tuned: Mapping[tuple[str, str], Tuned]


def static(data: str | None, *, batch: int, steps: int, report: Report | None = None) -> StaticResult:
    """Echoes in both precisions against backpropagation in double precision."""
    found: dict[tuple[str, str], Mapping[str, Likeness]] = {}
    used: dict[tuple[str, str], Tuned] = {}
    settings = {units: setting(units, data, batch=batch, steps=steps) for units in UNITS}
    for i, (units, chosen) in enumerate(settings.items()):
        exact, _ = gradients(*chosen.given(np.float64, ThroughTime(), np.ones(BLOCKS)))
        for j, dtype in enumerate((np.float32, np.float64)):
            if report:
                report(2 * i + j, 2 * len(settings))
            case = (units, np.dtype(dtype).name)
            used[case] = strengths(chosen, dtype, Echoes())
            ours, _ = gradients(*chosen.given(dtype, Echoes(), used[case].strengths))
            found[case] = by_parameter(ours, exact)
    return StaticResult(settings, found, used)


@dataclass(frozen=True, eq=False)
class GammaResult:
    """One γ for all blocks, in single precision, by units."""

    settings: Mapping[str, Setting]
    gammas: Floats
    parameters: Mapping[str, Likeness]
    """(γ, blocks)"""
    inputs: Mapping[str, Likeness]
    """Of the third block, (γ, steps)."""
    automatic: Mapping[str, tuple[Tuned, Likeness]]
    """Strengths that pilots find, and what they give, (blocks,)."""

    def best(self, units: str) -> float:
        """γ with the smallest deviation on average over blocks."""
        return float(self.gammas[int(np.argmin(np.mean(self.parameters[units].deviation, axis=1)))])


def gamma(data: str | None, *, batch: int, steps: int, gammas: Floats, report: Report | None = None) -> GammaResult:
    """Scan γ with ε = 0.1 for both kinds of units; γ is traced, so that one program does."""
    settings = {units: setting(units, data, batch=batch, steps=steps) for units in UNITS}
    parameters, inputs, automatic = {}, {}, {}
    done = 0
    for units, chosen in settings.items():
        exact, exact_inputs = gradients(*chosen.given(np.float64, ThroughTime(), np.ones(BLOCKS)))
        rows = []
        for value in gammas:
            if report:
                report(done, len(settings) * len(gammas))
            done += 1
            ours, by_inputs = gradients(*chosen.given(np.float32, Echoes(), np.full(BLOCKS, EPSILON * value)))
            rows.append((by_parameter(ours, exact)["all"], over_time(by_inputs, exact_inputs)))
        parameters[units], inputs[units] = (
            Likeness(np.stack([r[i].deviation for r in rows]), np.stack([r[i].ratio for r in rows])) for i in (0, 1)
        )
        found = strengths(chosen, np.float32, Echoes())
        ours, _ = gradients(*chosen.given(np.float32, Echoes(), found.strengths))
        automatic[units] = (found, by_parameter(ours, exact)["all"])
    return GammaResult(settings, gammas, parameters, inputs, automatic)


def save_arrays(out: Path, name: str, arrays: Mapping[str, Any]) -> Path:
    """Write arrays as one file."""
    from rhel_hw.files import folder, write_atomically

    return write_atomically(folder(out) / name, lambda stream: np.savez_compressed(stream, **arrays))
