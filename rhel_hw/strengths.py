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

from devices import DivergedError

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
SMALL = 0.01
"""How far echoes may stray for a bend that grows as the strength falls to be noise; further out bends saturate."""
LARGEST = 1e15
"""Range of strengths, and of their inverse: squares of them are held by single precision."""


@dataclass(frozen=True, eq=False)
class Tuned:
    """Strengths that were found, and what the pilots of these said."""

    strengths: Floats
    strayed: Floats
    """How far echoes strayed, over the spread of the state."""
    bent: Floats
    """Their bend, over how far they strayed."""
    noise: Floats
    """By how much echoes that should be alike differed, over that spread."""
    error: Floats
    """What is to be expected of the gradient, relative to it; noise averages out, so that this is a bound."""
    pilots: int


def tuned(watch: Watch, strengths: Floats, order: int = 2) -> Tuned:
    """Strengths for every recurrence, by pilots from a first guess on: of those tried, the one with the least error.

    `order` is that of the stencil which compares the echoes.
    """
    tried, seen = [strengths], []
    for _ in range(PILOTS):
        reports = np.asarray(watch(tried[-1]), float)
        if not np.all(np.isfinite(reports)):
            raise DivergedError(
                "The recurrences left the range of floating point: use smaller inputs or a smaller rate"
            )
        seen.append(reports)
        at = np.stack(tried)
        strayed, bent, missed = np.moveaxis(np.stack(seen), 2, 0)
        noise = np.maximum(missed, _floor(at, strayed, bent))
        factors = _factors(strayed, bent, noise, order)
        following = _following(at, factors)
        if np.all(np.abs(np.log(following / at[-1])) < np.log(NEAR)):
            break
        tried.append(following)
    errors = _over(noise, strayed) + bent**order
    near = np.where(strayed < 2 * FURTHEST, errors, errors + 1e3 * strayed)  # further out converters may have clipped
    best = np.argmin(np.where(np.isnan(near), np.inf, near), axis=0), np.arange(len(strengths))
    return Tuned(at[best], strayed[best], bent[best], noise[best], errors[best], len(seen))


def _floor(at: Floats, strayed: Floats, bent: Floats) -> Floats:
    """Noise of nudged echoes, by recurrence. A bend that grows when the strength falls is none: it is noise.

    Echoes of a chaotic recurrence part by more than one that is not nudged misses its way, as that is rounded alike.
    """
    weaker = (at[:, None] < at[None]) & (bent[:, None] > bent[None]) & (strayed < SMALL)[:, None]
    least = np.min(np.where(np.any(weaker, axis=1), bent * strayed, np.inf), axis=0)
    return np.where(np.isfinite(least), least, 0.0)


def _over(part: Floats, whole: Floats) -> Floats:
    """part/whole; infinite where there is no whole."""
    return np.divide(part, whole, out=np.full_like(part, np.inf), where=whole > 0)


def _factors(strayed: Floats, bent: Floats, noise: Floats, order: int) -> Floats:
    """By what to change strengths after pilots."""
    relative = _over(noise, strayed)
    curved = bent > FLOOR * relative  # the middle of two echoes is about as noisy as they are
    factor = np.full_like(bent, np.inf)
    factor[curved] = (relative[curved] / (order * bent[curved] ** order)) ** (1 / (order + 1))
    factor = np.minimum(factor, _over(np.full_like(strayed, FURTHEST), strayed))
    return np.clip(factor, 1e-3, 1e6)


def _following(at: Floats, factors: Floats) -> Floats:
    """Strengths to try next: never beyond what was found too strong or too weak, half-way there instead."""
    low = np.max(np.where(factors > 1, at, 0.0), axis=0)
    high = np.min(np.where((factors < 1) & (at > low), at, np.inf), axis=0)
    last, following = at[-1], at[-1] * factors[-1]
    following = np.where((factors[-1] > 1) & (following >= high), np.sqrt(last * high), following)
    following = np.where((factors[-1] < 1) & (following <= low), np.sqrt(last * low), following)
    return np.asarray(np.clip(following, 1 / LARGEST, LARGEST))
