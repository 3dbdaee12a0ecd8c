"""Waveforms that a drive may carry in a design file; the same four that SPICE sources have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from devices.units import Quantity, UnitError, to_si

WAVEFORMS: dict[str, type[Waveform]] = {}
"""Every waveform type by the name that design files use."""


@dataclass(frozen=True)
class Waveform(ABC):
    """A function of time. `VALUE` in `units` stands for the unit of the drive that plays it."""

    type: ClassVar[str]
    units: ClassVar[Mapping[str, str]] = {}
    lists: ClassVar[tuple[str, ...]] = ()

    def resolve(self, unit: str) -> Waveform:
        """The same waveform with every field an SI float, for a drive whose unit is `unit`."""
        changes: dict[str, Any] = {}
        for item in fields(self):
            due = unit if self.units[item.name] == "VALUE" else self.units[item.name]
            given = getattr(self, item.name)
            try:
                if item.name in self.lists:
                    if not isinstance(given, (list, tuple)):
                        raise UnitError("must be a list")
                    changes[item.name] = tuple(to_si(v, due) for v in given)
                else:
                    changes[item.name] = to_si(given, due)
            except UnitError as error:
                text = str(error)
                raise UnitError(
                    f"`{item.name}` {text if text.startswith('must') else 'cannot be read: ' + text}"
                ) from None
        made = replace(self, **changes)
        made.check()
        return made

    def check(self) -> None:  # noqa: B027 (most need none)
        """Refuse values that make no waveform."""

    @abstractmethod
    def sample(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Values at `times` (s)."""


def waveform(type_name: str) -> Callable[[type[Waveform]], type[Waveform]]:
    """Register a waveform under its design-file name."""

    def finish(cls: type[Waveform]) -> type[Waveform]:
        cls.type = type_name
        WAVEFORMS[type_name] = cls
        return cls

    return finish


@waveform("constant")
@dataclass(frozen=True)
class Constant(Waveform):
    """A level that is there from the start."""

    level: Quantity
    units: ClassVar[Mapping[str, str]] = {"level": "VALUE"}

    def sample(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.full(times.shape, float(self.level))


@waveform("sine")
@dataclass(frozen=True)
class Sine(Waveform):
    """Sine that starts after a delay: offset + amplitude·sin(2πf(t − delay))."""

    amplitude: Quantity
    frequency: Quantity
    offset: Quantity = 0.0
    delay: Quantity = 0.0
    units: ClassVar[Mapping[str, str]] = {"amplitude": "VALUE", "frequency": "Hz", "offset": "VALUE", "delay": "s"}

    def check(self) -> None:
        if self.frequency <= 0 or self.delay < 0:
            raise UnitError("`frequency` must be greater than 0 and `delay` at least 0")

    def sample(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        since = np.maximum(times - self.delay, 0.0)
        return np.asarray(self.offset + self.amplitude * np.sin(2 * np.pi * self.frequency * since))


@waveform("pulse")
@dataclass(frozen=True)
class Pulse(Waveform):
    """Trapezoidal pulse from `low` to `high`, once or periodic."""

    high: Quantity
    width: Quantity
    low: Quantity = 0.0
    delay: Quantity = 0.0
    rise: Quantity = 0.0
    fall: Quantity = 0.0
    period: Quantity = 0.0
    units: ClassVar[Mapping[str, str]] = {
        "high": "VALUE",
        "low": "VALUE",
        "width": "s",
        "delay": "s",
        "rise": "s",
        "fall": "s",
        "period": "s",
    }

    def check(self) -> None:
        if min(self.width, self.delay, self.rise, self.fall, self.period) < 0:
            raise UnitError("times must be at least 0")
        if self.width == 0:
            raise UnitError("`width` must be greater than 0")
        if 0 < self.period < self.rise + self.width + self.fall:
            raise UnitError("`period` must hold rise, width and fall")

    def sample(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        since = times - self.delay
        since = np.where((since >= 0) & (self.period > 0), np.mod(since, self.period or 1.0), since)
        corners = np.cumsum([0.0, self.rise, self.width, self.fall])
        return np.asarray(np.interp(since, corners, [self.low, self.high, self.high, self.low]))


@waveform("points")
@dataclass(frozen=True)
class Points(Waveform):
    """Straight lines between given points; constant before the first and after the last."""

    times: Quantity
    values: Quantity
    units: ClassVar[Mapping[str, str]] = {"times": "s", "values": "VALUE"}
    lists: ClassVar[tuple[str, ...]] = ("times", "values")

    def check(self) -> None:
        if len(self.times) != len(self.values) or not self.times:
            raise UnitError("`times` and `values` must be equally long and not empty")
        if any(b <= a for a, b in zip(self.times, self.times[1:], strict=False)):
            raise UnitError("`times` must grow")

    def sample(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(np.interp(times, self.times, self.values))
