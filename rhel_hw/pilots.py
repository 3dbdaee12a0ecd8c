"""How strongly to nudge: pilot echoes of a ladder of strengths, and the one at which their gradient errs least.

Pilots know what a learner knows. Every chip climbs a ladder of its own, and all take the same number of passes, so that
a chip finds what it would find alone: docs/physics.md, section 11.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from devices import DivergedError
from rhel_hw.bench import Kind
from rhel_hw.expected import Expected, Ladder
from rhel_hw.operations import Centred, OneSided, Stencil

if TYPE_CHECKING:
    from rhel_hw.session import Echoes, Free, Session

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SEARCH, COARSE, FINE, FINER = 4, 10, 9, 6
"""Pairs of echoes: until one is seen to stray, over all decades, and around what the ones before said is best."""
PAIRS = 1 + SEARCH + COARSE + FINE + FINER
"""Of all pilots; the first is not nudged."""
WEAKEST, STRONGEST = 1e-6, 4.0
"""Displacements over the spread of the state between which the coarse ladder lies."""
HIDDEN = 0.02
"""The coarse ladder begins no weaker than this fraction of a displacement that noise makes."""
AROUND, CLOSER = 8.0, 3.0
"""The finer ladders reach from what seems best down and up by these factors."""
NOISE_RULE = 0.16
"""The first displacement that is looked for is no less than the cube root of this times that of noise."""

CLIPPED = 0.25
"""Part of the values of a converter that may be beyond its range: what that spoils is for the fits to see."""


@dataclass(frozen=True, eq=False)
class Strengths:
    """What pilots found, (chips,) each."""

    gammas: Floats
    """NaN where no pilot was seen to stray; 1 where the loss is at its minimum, and any will do."""
    expected: Expected
    """Noise and bias of the gradient by the learner's own stencil, relative to its size; strengths are γ·ε."""
    by_stencil: Mapping[str, Expected]
    """The same of all stencils, each at its own best strength, from the same echoes."""
    moving: Flags
    """Whether the state moves at all."""
    ladder: Ladder
    """Echoes that this was found from."""

    @property
    def error(self) -> Floats:
        """Expected error of the gradient, as far as it depends on γ, relative to its size."""
        return self.expected.error

    @property
    def snr(self) -> Floats:
        """Expected size of the gradient over its noise."""
        return self.expected.snr


@dataclass(frozen=True, eq=False)
class _Seen:
    """What a pair of echoes showed, by chip."""

    plus: Floats
    minus: Floats
    """What either says of parameters, (P, chips)."""
    spread: Floats
    """Of the state over time, of positions and momenta as far as they are seen, (up to 2, chips)."""
    ratio: Floats
    """Distance of the two from their middle, over the spread."""
    worst: Floats
    """Largest part of the values of one converter that were beyond its range."""


@dataclass(eq=False)
class Pilots:
    """Pairs of echoes at a bench that is programmed; they remember what they saw."""

    session: Session
    free: Free = field(init=False)
    strengths: list[Floats] = field(default_factory=list)
    seen: list[_Seen] = field(default_factory=list)
    still: _Seen = field(init=False)

    def __post_init__(self) -> None:
        self.session = replace(self.session, saturated={})  # what pilots saturate is not the gradient's fault
        self.free = self.session.free(2)
        self.still = self._pair(np.zeros(self.session.description.chips))

    def search(self, epsilons: Any = None) -> Strengths:
        """Strengths for every chip; `epsilons`, one for every chip, are used instead of the learner's own."""
        learner = self.session.learner
        moving = np.any(self.still.spread > 0, axis=0)
        idle = np.max(np.abs(self.free.slopes), axis=(0, 1, 2)) == 0
        scale = self._scale(moving & ~idle)
        self._climb(scale)
        own = type(learner.stencil)
        for count, reach in ((FINE, AROUND), (FINER, CLOSER)):
            self._around(self.ladder.expected((own,))[own].strengths, count, reach)
        ladder = self.ladder
        by_stencil = ladder.expected()
        expected = by_stencil[own]
        given = np.broadcast_to(learner.epsilon if epsilons is None else epsilons, moving.shape)
        gammas = np.where(moving & idle, 1.0, expected.strengths / given)
        return Strengths(gammas, expected, {kind.__name__: found for kind, found in by_stencil.items()}, moving, ladder)

    @property
    def ladder(self) -> Ladder:
        """All rungs so far. Those that saturate far more than echoes without nudges do are not good."""
        strengths = np.stack(self.strengths)
        plus, minus = (np.stack([getattr(seen, name) for seen in self.seen]) for name in ("plus", "minus"))
        good = np.all(np.isfinite(plus) & np.isfinite(minus), axis=1) & (strengths > 0) & ~np.stack(self._beyond)
        return Ladder(strengths, plus, minus, good, self._one_sided)

    # Rungs -----------------------------------------------------------------------------------------------------------

    def _scale(self, live: Flags) -> Floats:
        """Strength over displacement where that is seen, and small; NaN where it is not."""
        floor = self.still.ratio
        wanted = np.maximum(self.session.learner.displacement, np.cbrt(NOISE_RULE * np.where(floor > 1e-9, floor, 0)))
        # No impulse carries further than all of them together: with these the echoes stray by no more than is wanted.
        pushes = np.max(np.sum(np.abs(self.free.slopes), axis=0), axis=(0, 1))
        spread = np.max(self.still.spread, axis=0)
        strengths = np.divide(wanted * spread, pushes, out=np.zeros_like(spread), where=live & (pushes > 0))
        scale: Floats = np.full(spread.shape, np.nan)
        for _ in range(SEARCH):
            ratio = self._step(strengths).ratio
            shown = live & np.isfinite(ratio) & (ratio > 3 * floor) & (ratio > 0)
            scale = np.where(shown, strengths / np.where(shown, ratio, 1.0), scale)
            following = np.where(shown, np.clip(wanted * scale / np.where(live, strengths, 1.0), 1e-3, 30.0), 10.0)
            strengths = strengths * np.where(np.isfinite(ratio), following, 1e-3)
        return scale

    def _climb(self, scale: Floats) -> None:
        """Rungs over all decades; once one is beyond a range, the others look for where that begins."""
        weakest = np.maximum(WEAKEST, HIDDEN * self.still.ratio)
        strengths, last = (np.where(np.isfinite(scale), scale * x, 0.0) for x in (weakest, STRONGEST))
        factor = np.where(last > 0, np.minimum(last, self._limits[1]) / np.where(last > 0, strengths, 1.0), 1.0)
        for _ in range(COARSE):
            self._step(strengths)
            inside, outside = self._limits
            above = np.minimum(strengths * factor ** (1 / (COARSE - 1)), last)
            between = np.sqrt(inside * np.where(np.isfinite(outside), outside, inside))
            strengths = np.where(above < outside, above, between)

    def _around(self, centre: Floats, count: int, reach: float) -> None:
        """Rungs around a strength, none of them where a range is known to end."""
        inside, outside = self._limits
        centre = np.where(np.isfinite(centre), centre, inside / reach)
        top = np.minimum(centre * reach, outside / 1.02)
        factor = np.where(centre > 0, (top / np.where(centre > 0, centre / reach, 1.0)) ** (1 / (count - 1)), 1.0)
        strengths = centre / reach
        for _ in range(count):
            self._step(strengths)
            _, outside = self._limits
            strengths = np.minimum(strengths * factor, outside / 1.02)

    @property
    def _limits(self) -> tuple[Floats, Floats]:
        """Strongest rung below all that are beyond a range, and the weakest of those; ∞ if there is none."""
        strengths, beyond = np.stack(self.strengths), np.stack(self._beyond)
        outside = np.min(np.where(beyond, strengths, np.inf), axis=0)
        return np.max(np.where(strengths < outside, strengths, 0.0), axis=0), outside

    @property
    def _beyond(self) -> list[Flags]:
        """Whether a rung saturates far more than echoes without nudges do, or is no number."""
        return [(seen.worst > self.still.worst + CLIPPED) | ~np.isfinite(seen.ratio) for seen in self.seen]

    def _step(self, strengths: Floats) -> _Seen:
        """One more rung."""
        if self.session._repeated:
            self.free = self.session.free(2)
        try:
            seen = self._pair(strengths)
        except DivergedError:  # of all chips: none can be held against it
            if np.all(strengths == 0):
                raise
            seen = replace(self.still, ratio=np.full_like(self.still.ratio, np.inf), plus=self.still.plus * np.nan)
            if not self.session._repeated:
                self.free = self.session.free(2)
        self.strengths.append(strengths)
        self.seen.append(seen)
        return seen

    @property
    def _one_sided(self) -> bool:
        return isinstance(self.session.learner.stencil, OneSided)

    def _pair(self, strengths: Floats) -> _Seen:
        """A pair of echoes."""
        session = self.session
        stencil: Stencil = OneSided() if self._one_sided else Centred()
        session.worst[:] = 0.0
        echoes = session.echoes(self.free, stencil.points, strengths)
        plus, minus = (_vector(session, echoes, which) for which in ((1.0, 0.0), (0.0, 1.0)))
        return _Seen(plus, minus, *_strayed(session, echoes), session.worst.copy())


def _vector(session: Session, echoes: Echoes, which: tuple[float, float]) -> Floats:
    """What one echo of a pair says of the parameters that are learnt, (P, chips)."""
    runs = session.lesson.stimuli * session.learner.shots
    chips = session.description.chips
    found = session.credited(echoes, np.repeat(which, runs * chips).reshape(-1, chips))
    host = {k: np.asarray(v, float).reshape(len(v), -1) for k, v in found.items()}
    entries = [e for e in session.design.assembly.entries if e.trainable and e.name not in session.frozen]
    return np.stack([np.broadcast_to(host[e.key][e.index], (chips,)) for e in entries])


def _strayed(session: Session, echoes: Echoes) -> tuple[Floats, Floats]:
    """Spread of the state over time, (up to 2, chips), and how far a pair of echoes is from its middle, over that."""
    spread, apart = [], []
    for kind, block in ((Kind.POSITION, echoes.positions), (Kind.MOMENTUM, echoes.momenta)):
        x = session.sight.coordinates(block, kind)
        if x is not None:
            first, second = np.split(x, 2, axis=2)
            spread.append(np.sqrt(np.mean(np.var((first + second) / 2, axis=0), axis=(0, 1))))
            apart.append(np.sqrt(np.mean(((first - second) / 2) ** 2, axis=(0, 1, 2))))
    spreads = np.array(spread)
    ratios = np.divide(np.array(apart), spreads, out=np.zeros_like(spreads), where=spreads > 0)
    return spreads, np.asarray(np.max(ratios, axis=0))
