"""Parameters by name and in SI, and the unconstrained form in which training moves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import sigmoid
from jax.scipy.special import logit
from numpy.typing import NDArray

from circuits.assemble import Assembly, Entry
from devices import ArgumentError, Quantity, UnitError, nearest, to_si

Array = Any
Theta = Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class Parameters:
    """Names, units and training of a circuit's parameters."""

    assembly: Assembly

    @cached_property
    def entries(self) -> Mapping[str, Entry]:
        """Every parameter by name, such as ``"L12.inductance"``."""
        return {e.name: e for e in self.assembly.entries}

    @cached_property
    def trainable(self) -> Mapping[str, NDArray[np.bool_]]:
        """Mask over theta of the parameters that learning may change."""
        mask = {k: np.zeros(v.shape, bool) for k, v in self.assembly.theta.items()}
        for e in self.assembly.entries:
            mask[e.key][e.index] = e.trainable
        return mask

    @cached_property
    def trainable_names(self) -> tuple[str, ...]:
        """Names of the trainable parameters."""
        return tuple(e.name for e in self.assembly.entries if e.trainable)

    def get(self, theta: Theta, name: str) -> Array:
        """SI value of one parameter."""
        e = self._entry(name)
        return theta[e.key][e.index] * e.scale

    def set(self, theta: Theta, values: Mapping[str, Quantity]) -> dict[str, Array]:
        """Theta with some parameters changed: by name, in SI or as text such as ``"80 nH"``."""
        changed = dict(theta)
        for name, given in values.items():
            e = self._entry(name)
            try:
                value = to_si(given, e.unit) / e.scale
            except UnitError as problem:
                raise ArgumentError(f"Argument `values` is refused: `{name}` {problem}") from None
            low, high = e.bounds or (0.0 if e.positive else -np.inf, np.inf)
            if not low <= value <= high or (e.positive and value == 0):
                raise ArgumentError(
                    f"Argument `values` must keep `{name}` between {low * e.scale:g} and {high * e.scale:g} {e.unit}, "
                    f"but it is {value * e.scale:g}"
                )
            changed[e.key] = jnp.asarray(changed[e.key]).at[e.index].set(value)
        return changed

    def to_si(self, theta: Theta) -> dict[str, tuple[float, str]]:
        """Every parameter by name, as SI value and unit."""
        host = {k: np.asarray(v, float) for k, v in theta.items()}
        return {e.name: (float(host[e.key][e.index] * e.scale), e.unit) for e in self.assembly.entries}

    def gradient_to_si(self, gradient: Theta, energy: float = 1.0) -> dict[str, float]:
        """Derivatives with respect to the trainable parameters in SI, for a loss whose unit is `energy` in SI."""
        host = {k: np.asarray(v, float) for k, v in gradient.items()}
        return {e.name: float(host[e.key][e.index] / e.scale * energy) for e in self.assembly.entries if e.trainable}

    def free(self, theta: Theta) -> dict[str, Array]:
        """Unconstrained coordinates of the trainable parameters: logarithm, logit of bounds, or a multiple."""
        result = {}
        for key, form in self._forms.items():
            value = jnp.asarray(theta[key])[form.index]
            low, high = (jnp.asarray(x, value.dtype) for x in (form.low, form.high))
            positive, bounded = jnp.asarray(form.positive), jnp.asarray(form.bounded)
            size = jnp.asarray(form.size, value.dtype)
            ruled = jnp.where(positive, jnp.log(jnp.where(positive, value, 1)), value / size)
            inner = jnp.clip((ruled - low) / (high - low), 1e-6, 1 - 1e-6)
            result[key] = jnp.where(bounded, logit(jnp.where(bounded, inner, 0.5)), ruled)
        return result

    def bind(self, free: Theta, theta: Theta) -> dict[str, Array]:
        """Theta with its trainable parameters taken from unconstrained coordinates."""
        bound = dict(theta)
        for key, form in self._forms.items():
            value = free[key]
            low, high = (jnp.asarray(x, value.dtype) for x in (form.low, form.high))
            ruled = jnp.where(jnp.asarray(form.bounded), low + (high - low) * sigmoid(value), value)
            positive = jnp.asarray(form.positive)
            bound[key] = (
                jnp.asarray(theta[key])
                .at[form.index]
                .set(jnp.where(positive, jnp.exp(jnp.where(positive, ruled, 0)), ruled * form.size))
            )
        return bound

    @cached_property
    def _forms(self) -> Mapping[str, _Form]:
        by_key: dict[str, list[Entry]] = {}
        for e in self.assembly.entries:
            if e.trainable:
                by_key.setdefault(e.key, []).append(e)
        return {key: _Form.of(entries, self.assembly.theta[key]) for key, entries in by_key.items()}

    def _entry(self, name: str) -> Entry:
        if name not in self.entries:
            raise ArgumentError(f"Argument `name` must be a parameter, but is {name!r}{nearest(name, self.entries)}")
        return self.entries[name]


@dataclass(frozen=True, eq=False)
class _Form:
    """How the trainable parameters under one key are constrained. Bounds of positive ones are logarithms.

    Those of either sign are counted in their nominal size, so that moves are relative for all.
    """

    index: NDArray[np.intp]
    positive: NDArray[np.bool_]
    bounded: NDArray[np.bool_]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    size: NDArray[np.float64]

    @classmethod
    def of(cls, entries: list[Entry], nominal: NDArray[np.float64]) -> _Form:
        size = np.array([abs(nominal[e.index]) or 1.0 for e in entries])
        bounds = np.array(
            [
                (0.0, 1.0) if e.bounds is None else np.log(e.bounds) if e.positive else np.array(e.bounds) / s
                for e, s in zip(entries, size, strict=True)
            ]
        )
        return cls(
            np.array([e.index for e in entries], np.intp),
            np.array([e.positive for e in entries]),
            np.array([e.bounds is not None for e in entries]),
            bounds[:, 0],
            bounds[:, 1],
            size,
        )
