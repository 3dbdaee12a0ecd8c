"""What every echo learner is told: how strongly to nudge, which echoes to compare, how each comes to its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from devices import ArgumentError, refuse_unless_positive
from rhel_hw.operations import Centred, Hold, Protocol, Stencil

PILOTS = 8
"""Most pilots that the search for a nudging strength may take."""


@dataclass(frozen=True)
class Choices:
    """Base of echo learners. γ scales the loss during the echo and is divided out after: γ·ε is what the physics sees.

    With ``gamma="auto"``, pilot echoes choose γ so that the echoes stray from the free run by the fraction
    `displacement` of the state's own spread.
    """

    epsilon: float = 1e-3
    gamma: float | Literal["auto"] = 1.0
    stencil: Stencil = field(default_factory=Centred)
    protocol: Protocol = field(default_factory=Hold)
    displacement: float = 0.01

    def __post_init__(self) -> None:
        refuse_unless_positive(epsilon=self.epsilon, displacement=self.displacement)
        if isinstance(self.gamma, str) and self.gamma != "auto":
            raise ArgumentError(f'Argument `gamma` must be a number or "auto", but is {self.gamma!r}')
        if self.gamma != "auto":
            refuse_unless_positive(gamma=self.gamma)
        refuse_unless_one_of(self, stencil=Stencil, protocol=Protocol)

    def held(self, strength: float, dtype: Any) -> float:
        """γ·ε, refused where a format cannot hold it or its squares."""
        limits, largest = np.finfo(dtype), max(map(abs, self.stencil.points))
        if not float(limits.tiny) ** 0.5 < strength < float(limits.max) ** 0.5 / (1e3 * largest):
            raise ArgumentError(
                f"Arguments `epsilon` and `gamma` must have a product whose square {np.dtype(dtype).name} can hold, "
                f"but it is {strength:g}"
            )
        return strength


def refuse_unless_one_of(choices: Any, **kinds: type[Any]) -> None:
    """Refuse fields that are not of the kind given by name."""
    for name, kind in kinds.items():
        if not isinstance(getattr(choices, name), kind):
            known = " or ".join(f"{c.__name__}()" for c in kind.__subclasses__() if not c.__name__.startswith("_"))
            raise ArgumentError(f"Argument `{name}` must be {known}, but is {getattr(choices, name)!r}")


def next_strength(strength: float, ratio: float, wanted: float) -> float | None:
    """Nudging strength to try after pilots strayed by `ratio` of the spread; None if that is near enough."""
    if abs(ratio / wanted - 1) < 0.1:
        return None
    if not ratio < 30 * max(1.0, wanted):  # also if it is no number
        return strength * 1e-3
    return strength * (wanted / ratio if ratio > 0 else 1e3)
