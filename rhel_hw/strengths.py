"""How strongly to nudge every recurrence of a model, from what pilot echoes say.

An echo that is not nudged misses the way it came by round-off, or noise: ρ, over the spread of the state. Echoes that
stray by r are known to ρ/r. Their bend, over how far they stray, is β, and a stencil of order k is off by about β^k,
centred differences by β². Both r and β grow in proportion to the strength, so that ρ/r + β^k is least where

    strength′/strength = (ρ / k·r·β^k)^(1/(k+1)),

up to r = 1, which a linear recurrence is led to: its echoes do not bend (docs/physics.md, section 12).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rhel_hw.simulation import DivergedError

Floats = NDArray[np.float64]
Watch = Callable[[Floats], Any]
"""What recurrences report, (depth, 3), if nudged by some strengths."""

PILOTS = 10
"""Most pilots that the search may take."""
NEAR = 1.5
"""Factor within which a strength is left as it is."""
FURTHEST = 1.0
"""Most that echoes shall stray, over the spread of the state."""
FLOOR = 4.0
"""Times the noise: what bends less may be round-off and counts as straight."""
LARGEST = 1e15
"""Range of strengths, and of their inverse: squares of them are held by single precision."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """Strengths that were found."""

    strengths: Floats
    strayed: Floats
    """How far echoes strayed at the last pilot, over the spread of the state."""
    bent: Floats
    """Their bend then, over how far they strayed."""
    missed: Floats
    """By how much an echo that was not nudged missed the way it came, over that spread."""
    pilots: int


def tuned(watch: Watch, strengths: Floats, order: int = 2) -> Tuned:
    """Strengths for every recurrence, by pilots from a first guess on: of those tried, the one with the least error.

    `order` is that of the stencil which compares the echoes.
    """
    best: Tuned | None = None
    low, high = np.zeros_like(strengths), np.full_like(strengths, np.inf)
    for pilot in range(1, PILOTS + 1):
        reports = np.asarray(watch(strengths), float)
        if not np.all(np.isfinite(reports)):
            raise DivergedError(
                "The recurrences left the range of floating point: use smaller inputs or a smaller rate"
            )
        strayed, bent, missed = reports.T
        found = Tuned(strengths, strayed, bent, missed, pilot)
        best = found if best is None else _better(best, found, order)
        factor = _factor(strayed, bent, missed, order)
        settled = (factor < NEAR) & (factor > 1 / NEAR)
        if np.all(settled | (strengths * factor > LARGEST) & (strengths == LARGEST)):
            break
        low, high = np.where(factor > 1, strengths, low), np.where(factor < 1, strengths, high)
        following = strengths * factor
        # Never beyond what was found too strong or too weak before: half-way there instead.
        following = np.where((factor > 1) & (following >= high), np.sqrt(strengths * high), following)
        following = np.where((factor < 1) & (following <= low), np.sqrt(strengths * low), following)
        strengths = np.clip(following, 1 / LARGEST, LARGEST)
    assert best is not None  # there is at least one pilot
    return best


def _noise(strayed: Floats, missed: Floats) -> Floats:
    """ρ/r; infinite where nothing strays."""
    return np.divide(missed, strayed, out=np.full_like(missed, np.inf), where=strayed > 0)


def _factor(strayed: Floats, bent: Floats, missed: Floats, order: int) -> Floats:
    """By what to change strengths after a report."""
    noise = _noise(strayed, missed)
    curved = bent > FLOOR * noise  # the middle of two echoes is about as noisy as they are
    factor = np.full_like(bent, np.inf)
    factor[curved] = (noise[curved] / (order * bent[curved] ** order)) ** (1 / (order + 1))
    factor = np.minimum(factor, np.divide(FURTHEST, strayed, out=np.full_like(strayed, np.inf), where=strayed > 0))
    return np.clip(factor, 1e-3, 1e6)


def _better(one: Tuned, other: Tuned, order: int) -> Tuned:
    """For every recurrence whichever promises the smaller error; where nothing strays, there is none to tell."""
    errors = (_noise(t.strayed, t.missed) + t.bent**order for t in (one, other))
    first, second = (np.nan_to_num(e, nan=np.inf) for e in errors)

    def chosen(name: str) -> Floats:
        return np.asarray(np.where(second < first, getattr(other, name), getattr(one, name)))

    return Tuned(chosen("strengths"), chosen("strayed"), chosen("bent"), chosen("missed"), other.pilots)
