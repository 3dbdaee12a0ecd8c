"""What a calibration comes to: by how much every part of a bench is off, as far as that can be put right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.transfer import Delay, Impulses, Transfer
from devices import ArgumentError

Floats = NDArray[np.float64]

ROUND = 1e-6
"""Part of a step that is no delay."""


@dataclass(frozen=True)
class Clock:
    """When an echo turns, and when reversed drives and nudges arrive, in steps; only every so many are read.

    Late inputs are told earlier. That they may come before the turn, the pass before it goes on undriven for a while;
    the echo goes back through that, and through the latency, before its inputs begin.
    """

    latency: float = 0.0
    """Of the turn, during which the undriven device goes on."""
    skew: float = 0.0
    """By which inputs are late."""
    every: int = 1

    @property
    def ideal(self) -> bool:
        """Whether an echo begins at once, and its inputs with it."""
        return self.latency == 0 and self.skew == 0

    @property
    def coasting(self) -> int:
        """Steps by which a pass goes on, before it is held: one more than inputs are late, in which they are silent."""
        return self._whole(self.skew + 1 - self.latency) if self.skew > 0 else 0

    @property
    def late(self) -> float:
        """Steps after the turn at which an echo is where its pass ended."""
        return self.latency + self.coasting

    @property
    def waited(self) -> int:
        """The same in whole steps."""
        return self._whole(self.late)

    @property
    def longer(self) -> int:
        """Steps that an echo takes longer; those at its end are for inputs that come early."""
        return self.waited + self._whole(-self.skew)

    def _whole(self, steps: float) -> int:
        return max(0, self.every * ceil((steps - ROUND) / self.every))

    def told(self, wave: Floats, *, silent: bool) -> Floats:
        """Inputs (steps, …) in the order of the echo, as they must be told so that they meet the state."""
        if self.ideal:
            return wave
        padded = np.concatenate([wave, np.zeros((self.longer, *wave.shape[1:]))])
        return Delay(self.skew, silent).correct(Delay(self.late, silent=True).embed(padded))


@dataclass(frozen=True, eq=False)
class Corrections:
    """Errors of a bench that are put right; arrays have one value for every chip, what is not named is ideal."""

    chips: int = 1
    ranges: Mapping[str, float] = field(default_factory=dict)
    """Full scales by channel to which amplifiers are set."""
    readout: Mapping[str, Transfer] = field(default_factory=dict)
    """By channel."""
    drives: Mapping[str, Transfer] = field(default_factory=dict)
    parities: Mapping[str, int] = field(default_factory=dict)
    """Of drives that change their sign in an echo: −1."""
    nudges: Mapping[str, Impulses] = field(default_factory=dict)
    """By target."""
    clock: Clock = field(default_factory=Clock)
    turn: Mapping[str, tuple[Floats, Floats]] = field(default_factory=dict)
    """Angles in rad and gains of the turn, by node."""
    values: Mapping[str, Floats] = field(default_factory=dict)
    """Of parameters, over what is drawn or programmed."""
    decays: tuple[float, ...] = ()
    """Rates in 1/s at which energy is lost, if echoes can make up for it."""
    strengths: tuple[float, ...] = ()
    """γ·ε."""

    def __post_init__(self) -> None:
        for name in ("decays", "strengths"):
            given = tuple(map(float, getattr(self, name)))
            if len(given) not in (0, self.chips) or not all(0 <= x < np.inf for x in given):
                raise ArgumentError(
                    f"Argument `{name}` must have a number of at least 0 for each of {self.chips} chips, but is {given}"
                )
            object.__setattr__(self, name, given)

    @property
    def ideal(self) -> bool:
        """Whether nothing is to be put right."""
        curves: tuple[Transfer | Impulses, ...] = (*self.readout.values(), *self.drives.values(), *self.nudges.values())
        given = (self.ranges, self.turn, self.values, self.decays, self.strengths)
        return self.clock.ideal and all(c.ideal for c in curves) and not any(given)

    def chosen(self, places: Sequence[int]) -> Corrections:
        """Those of some chips, by their places, in this order; a chip may come more than once."""
        own = np.asarray(places, np.intp)

        def of(value: Any) -> Any:
            return np.broadcast_to(np.asarray(value, float), (self.chips,))[own]

        curves: dict[str, Any] = {
            name: {k: replace(c, gain=of(c.gain), offset=of(c.offset), bow=of(c.bow)) for k, c in part.items()}
            for name, part in (("readout", self.readout), ("drives", self.drives))
        }
        return replace(
            self,
            chips=len(own),
            **curves,
            nudges={k: replace(c, gain=of(c.gain), offset=of(c.offset)) for k, c in self.nudges.items()},
            turn={k: (of(angle), of(gain)) for k, (angle, gain) in self.turn.items()},
            values={k: of(v) for k, v in self.values.items()},
            decays=tuple(of(self.decays)) if self.decays else (),
            strengths=tuple(of(self.strengths)) if self.strengths else (),
        )

    # Files -----------------------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data; what is ideal is left out."""
        found: dict[str, Any] = {"chips": self.chips}
        for name in ("ranges", "parities", "decays", "strengths"):
            if getattr(self, name):
                found[name] = _plain(getattr(self, name))
        for name in ("readout", "drives", "nudges"):
            curves = {k: _curve(c) for k, c in getattr(self, name).items() if not c.ideal}
            if curves:
                found[name] = curves
        if not self.clock.ideal:
            found["clock"] = asdict(self.clock)
        if self.turn:
            found["turn"] = {k: {"angle": _plain(a), "gain": _plain(g)} for k, (a, g) in self.turn.items()}
        if self.values:
            found["values"] = _plain(self.values)
        return found

    @staticmethod
    def of(data: Mapping[str, Any]) -> Corrections:
        """Corrections of plain data."""
        known = {f.name for f in fields(Corrections)}
        if not isinstance(data, Mapping) or set(data) - known:
            raise ArgumentError(f"Argument `corrections` must have keys {sorted(known)}, but is {data!r:.80}")
        given = dict(data)
        for name, kind in (("readout", Transfer), ("drives", Transfer), ("nudges", Impulses)):
            given[name] = {k: kind(**{x: _numbers(v) for x, v in c.items()}) for k, c in data.get(name, {}).items()}
        given["clock"] = Clock(**data.get("clock", {}))
        turn = data.get("turn", {}).items()
        given["turn"] = {k: (np.asarray(v["angle"], float), np.asarray(v["gain"], float)) for k, v in turn}
        given["values"] = {k: np.asarray(v, float) for k, v in data.get("values", {}).items()}
        return Corrections(**given)


def _numbers(value: Any) -> Any:
    return np.asarray(value, float) if isinstance(value, list) else value


def _curve(curve: Any) -> dict[str, Any]:
    return {f.name: _plain(getattr(curve, f.name)) for f in fields(curve)}


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, np.generic, tuple)):
        return np.asarray(value).tolist()
    return value
