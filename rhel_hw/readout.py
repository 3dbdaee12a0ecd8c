"""The readout of an emulated device: what its converters make of the signals of a pass.

Most of the time a sample is read while it is at hand, in the loop over the steps. Jitter, a bandwidth, decimation and
partners read as sum and difference need others beside it: then signals are kept, and the whole record is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp

from rhel_hw.bench import Kind
from rhel_hw.converters import jittered, low_pass, of_sum_and_difference, read

Array = Any


class Readout(NamedTuple):
    """What the converters make of signals (…, channels, runs, chips) in SI."""

    own: Mapping[str, Array]
    """Knobs by their own names."""
    scales: Mapping[str, Array]
    """Full scales by kind, (channels, 1, chips or 1)."""
    step: Array
    """Length of a step in seconds."""
    decimation: int
    paired: bool
    """Whether partners are read as sum and difference."""
    chips: int
    draw: Callable[..., Array]
    """Normal numbers of an index: (*size, runs, chips)."""

    @property
    def at_once(self) -> bool:
        """Whether samples are read one by one, as the device goes: nothing asks for those beside them."""
        return not {"jitter", "bandwidth"} & self.own.keys() and self.decimation == 1 and not self.paired

    def noise(self, channels: int, k: Array | int) -> Array | None:
        """Normal numbers for the samples of a step, if there is noise."""
        return self.draw(1, (channels,), before=k) if self.at_once and "noise" in self.own else None

    def record(self, signals: Mapping[str, Array]) -> tuple[dict[str, Array], dict[str, Array]]:
        """Samples and flags of a whole record."""
        own = self.own
        # One draw for all channels: drawing is most of what there is to compile.
        whole = (max(map(len, signals.values()), default=0), sum(x.shape[1] for x in signals.values()))
        drawn = {n: self.draw(i, whole) for i, n in enumerate(("jitter", "noise")) if n in own}
        found, first = {}, 0
        for kind, x in signals.items():
            if "jitter" in own:
                mine = drawn["jitter"][: len(x), first : first + x.shape[1]]
                x = jittered(x, own["jitter"], self.step, mine)
            if "bandwidth" in own:
                x = low_pass(x, own["bandwidth"], self.step, held=False)
            start = self.decimation - 1 if kind == Kind.TARGET else 0
            found[kind] = x[start :: self.decimation]
            first += x.shape[1]
        return self.read(found, drawn.get("noise"))

    def read(self, signals: Mapping[str, Array], normals: Array | None) -> tuple[dict[str, Array], dict[str, Array]]:
        """Samples by kind, and flags where they were beyond the range; of a whole record, or of one step."""
        samples, flags, first = {}, {}, 0
        spread, own = self.own.get("gain_spread"), {k: v for k, v in self.own.items() if k != "gain_spread"}
        for kind, x in signals.items():
            mine, scale = slice(first, first + x.shape[-3]), self.scales[kind]
            first += x.shape[-3]
            noise = None if normals is None else normals[: len(x), mine] if x.ndim == 4 else normals[mine]
            if spread is not None:
                x = x * (1 + spread[mine])
            if self.paired:
                lanes = (*x.shape[:2], -1, self.chips)  # runs apart from chips, also where the program has them in one
                one, other = (None, None) if noise is None else jnp.split(noise.reshape(lanes), 2, axis=2)
                both, marked = of_sum_and_difference(x.reshape(lanes), scale, own, (one, other))
                samples[kind], marked = both.reshape(x.shape), None if marked is None else marked.reshape(x.shape)
            else:
                samples[kind], marked = read(x, scale, own, noise)
            if marked is not None:
                flags[kind] = marked
        return samples, flags
