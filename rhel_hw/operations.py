"""The choices of echo learning: how an echo is made, which echoes are compared, and how each comes to its start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from rhel_hw.losses import Slopes

Array = Any
State = tuple[Array, Array]


# How an echo is made ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation(ABC):
    """What happens to the momenta and to time at the turning point, and the signs that follow."""

    flip: ClassVar[float]
    """Factor on the momenta."""
    time: ClassVar[float]
    """Factor on the time step: −1 runs with −H."""
    conjugates: ClassVar[bool]
    """Whether time is reversed, so that inputs and parameters that are odd under that change sign."""

    @staticmethod
    @abstractmethod
    def nudge(slopes: Slopes) -> Slopes:
        """Displacement of (q, p) per ε."""

    @staticmethod
    @abstractmethod
    def sensitivity(displacement: State) -> State:
        """dL/d(q, p) at the start of the run from the displacement per ε at the end of the echo."""


@dataclass(frozen=True)
class MomentumFlip(Operation):
    """Flip the momenta and let the same circuit run: needs H even in momentum."""

    flip = -1.0
    time = 1.0
    conjugates = True

    @staticmethod
    def nudge(slopes: Slopes) -> Slopes:
        """(∂ℓ/∂p, ∂ℓ/∂q)."""
        return slopes[1], slopes[0]

    @staticmethod
    def sensitivity(displacement: State) -> State:
        """Positions answer for momenta and momenta for positions."""
        return displacement[1], displacement[0]


@dataclass(frozen=True)
class SignFlip(Operation):
    """Run with −H instead: needs hardware that can invert every sign, but no evenness."""

    flip = 1.0
    time = -1.0
    conjugates = False

    @staticmethod
    def nudge(slopes: Slopes) -> Slopes:
        """(−∂ℓ/∂p, ∂ℓ/∂q)."""
        return None if slopes[1] is None else -slopes[1], slopes[0]

    @staticmethod
    def sensitivity(displacement: State) -> State:
        """J applied to the displacement."""
        return displacement[1], -displacement[0]


# Which echoes are compared ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stencil(ABC):
    """A difference quotient in ε: Σ weight·(X(plus·ε) − X(minus·ε))/ε ≈ dX/dε with an error of order `order`."""

    plus: ClassVar[tuple[float, ...]]
    minus: ClassVar[tuple[float, ...]]
    weights: ClassVar[tuple[float, ...]]
    order: ClassVar[int]

    @property
    def points(self) -> tuple[float, ...]:
        """Nudging strengths of all echoes in units of ε: one of each pair, then the other of each pair."""
        return self.plus + self.minus

    def difference(self, x: Array) -> Array:
        """Weighted differences of x (n, echoes, batch), summed over the pairs: (n, batch)."""
        pairs = len(self.weights)
        return sum(w * (x[:, i] - x[:, pairs + i]) for i, w in enumerate(self.weights))

    def change(self, slope: Array, x: Array) -> Array:
        """Differences of a function with this slope at x: the mean slope of a pair times its distance."""
        pairs = len(self.weights)
        terms = ((w, i, pairs + i) for i, w in enumerate(self.weights))
        return sum(w / 2 * (slope[:, a] + slope[:, b]) * (x[:, a] - x[:, b]) for w, a, b in terms)


@dataclass(frozen=True)
class Centred(Stencil):
    """Two echoes of opposite sign."""

    plus = (1.0,)
    minus = (-1.0,)
    weights = (1 / 2,)
    order = 2


@dataclass(frozen=True)
class OneSided(Stencil):
    """One nudged echo, one free."""

    plus = (1.0,)
    minus = (0.0,)
    weights = (1.0,)
    order = 1


@dataclass(frozen=True)
class Richardson(Stencil):
    """Four echoes, (4D(ε) − D(2ε))/3 of the centred quotient D."""

    plus = (1.0, 2.0)
    minus = (-1.0, -2.0)
    weights = (2 / 3, -1 / 12)
    order = 4


# How an echo comes to its start -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Protocol(ABC):
    """How many free passes a number of echoes takes."""

    @staticmethod
    @abstractmethod
    def runs(echoes: int) -> int:
        """Free passes."""


@dataclass(frozen=True)
class Hold(Protocol):
    """The final state is held and used again: what an emulator can do."""

    @staticmethod
    def runs(echoes: int) -> int:
        """One for all."""
        return 1


@dataclass(frozen=True)
class Reprepare(Protocol):
    """Each echo has a free pass of its own, and is nudged by what that one recorded: a device cannot copy a state."""

    @staticmethod
    def runs(echoes: int) -> int:
        """One each."""
        return echoes
