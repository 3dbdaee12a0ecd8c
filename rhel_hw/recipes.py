"""Recipes: how a set of series is prepared and how large a model is trained on it, by name.

Those of the paper are its table of hyper-parameters (appendix A.4), which does not say how long it trained: batches of
4, at most 100,000 moves and a patience of 10 evaluations, every 1,000 moves, are assumptions. The small ones are sized
for two cores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from devices import ArgumentError, nearest
from rhel_hw.data import Scaling, Series, Split, cropped, decimated, shifted_copies, unshifted, with_time
from rhel_hw.fitting import Fitting, Parts
from rhel_hw.hssm import HSSM
from rhel_hw.recurrences import LinearRow, NonlinearRow, Recurrence

UNITS: Mapping[str, type[LinearRow] | type[NonlinearRow]] = {"linear": LinearRow, "nonlinear": NonlinearRow}

LONG = 10_000
"""Steps from which static maps are computed twice rather than remembered."""


@dataclass(frozen=True)
class Recipe:
    """Sizes of a model and of its training, and how series are prepared."""

    hidden: int = 32
    state: int = 32
    blocks: int = 3
    rate: float = 1e-3
    last: float = 0.01
    """Rate at the end over that at the start."""
    batch: int = 32
    moves: int = 400
    evaluate: int = 25
    patience: int = 10
    time: bool = False
    """Whether the time is a channel of its own."""
    decimate: int = 1
    """Steps that are averaged into one."""
    crop: int | None = None
    """Steps that are kept, from the start."""
    dropout: float = 0.05

    def prepare(self, series: Series) -> Series:
        """Series as the model will see them, but for their scale; channels that are shifted copies are put right."""
        shift = shifted_copies(series)
        series = series if shift is None else unshifted(series, shift)
        series = series if self.decimate == 1 else decimated(series, self.decimate)
        series = series if self.crop is None else cropped(series, self.crop)
        return with_time(series) if self.time else series

    def parts(self, prepared: Series, split: Split) -> tuple[Parts, Scaling]:
        """The three parts, on the scale of the first."""
        scaling = Scaling.fitted(prepared, split.train)
        scaled = scaling.apply(prepared)
        return Parts(*(scaled.take(index) for index in (split.train, split.validation, split.test))), scaling

    def model(self, prepared: Series, units: str) -> HSSM:
        """The model for these series."""
        if units not in UNITS:
            raise ArgumentError(f"Argument `units` must be one of {', '.join(UNITS)}, but is {units!r}")
        row: Recurrence = UNITS[units](self.state)
        outputs = len(prepared.classes) if prepared.classes else int(prepared.y.shape[-1]) if prepared.y.ndim > 1 else 1
        every = 0 if prepared.every is None else prepared.every
        long = prepared.steps >= LONG
        return HSSM(prepared.width, outputs, self.hidden, (row,) * self.blocks, every, self.dropout, frugal=long)

    def fitting(self, **changes: Any) -> Fitting:
        """How it is trained."""
        known = {name: getattr(self, name) for name in ("moves", "batch", "rate", "last", "evaluate", "patience")}
        return Fitting(**{**known, "keep": self.evaluate, **changes})


def _paper(rate: float, hidden: int, state: int, blocks: int, time: bool) -> Recipe:
    return Recipe(hidden, state, blocks, rate, last=1.0, batch=4, moves=100_000, evaluate=1000, time=time)


PAPER: Mapping[str, Recipe] = {
    "EigenWorms": _paper(1e-4, 64, 16, 2, False),
    "SelfRegulationSCP1": _paper(1e-4, 64, 256, 6, False),
    "SelfRegulationSCP2": _paper(1e-5, 64, 256, 6, True),
    "EthanolConcentration": _paper(1e-5, 16, 256, 4, False),
    "Heartbeat": _paper(1e-5, 64, 16, 2, True),
    "MotorImagery": _paper(1e-4, 16, 256, 6, True),
    "PPG-DaLiA": _paper(1e-4, 64, 16, 2, True),
}
"""By data set, for machines larger than two cores. LinOSS's own linear states are complex, twice as many numbers."""

SMALL: Mapping[str, Recipe] = {
    "watch-gestures": Recipe(decimate=20, moves=600),
    "MotorImagery": Recipe(blocks=2, decimate=20, moves=400, evaluate=20),
    "TROIKA_PPG_HR": Recipe(decimate=10, rate=5e-4, moves=1000, evaluate=50),
    "delayed-recall": Recipe(blocks=2, rate=3e-3),
    "adding": Recipe(blocks=2, rate=3e-3),
    "pulse-detection": Recipe(blocks=2, decimate=4, rate=3e-3),
}
"""By data set, for two cores. At four times these rates, two trainings of nonlinear units by backpropagation come apart
that differ by round-off at the start (docs/results.md)."""


def recipe(name: str) -> Recipe:
    """Recipe of this name: of the small ones, or one of the paper's as ``"paper:EigenWorms"``."""
    known = {**SMALL, **{f"paper:{k}": v for k, v in PAPER.items()}}
    if name not in known:
        raise ArgumentError(
            f"Argument `recipe` must be one of {', '.join(known)}, but is {name!r}{nearest(name, known, listed=True)}"
        )
    return known[name]


def changed(base: Recipe, **changes: Any) -> Recipe:
    """A recipe with whatever is not None changed."""
    return replace(base, **{k: v for k, v in changes.items() if v is not None})
