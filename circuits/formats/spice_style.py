"""How SPICE decks of passes are written: their sources, and how finely ngspice computes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from circuits.compile import Design
from devices import refuse_unless_positive


class Sources(Enum):
    """How waveforms are written."""

    LINES = "behavioural sources pwl(time, ...): straight lines through mid-step values"
    """ngspice steps across their corners: of second order in its internal step."""
    HELD = "independent PWL sources: values held over each step, with edges of a hundredth"
    """Every SPICE has them. Each edge is a break point, after which ngspice makes steps of first order."""


@dataclass(frozen=True)
class Accuracy:
    """How finely ngspice computes."""

    cap: float = 0.02
    """Longest internal step, in units of 1/ω of the highest frequency: the trapezoidal rule lags by (ω·cap)²/12."""
    relative: float = 1e-6
    """`reltol`."""
    truncation: float = 1.0
    """`trtol`: how much larger than its tolerance the error of a step may be before ngspice makes it smaller."""

    def __post_init__(self) -> None:
        refuse_unless_positive(cap=self.cap, relative=self.relative, truncation=self.truncation)

    def cap_s(self, design: Design) -> float:
        """Longest internal step in seconds."""
        return float(self.cap / design.highest * design.assembly.units.time)


@dataclass(frozen=True)
class Style:
    """What decks are like."""

    sources: Sources = Sources.HELD
    accuracy: Accuracy = field(default_factory=Accuracy)
    measures: bool = True
    """Whether peaks are measured; if not, voltages and fluxes are saved. ngspice does not do both in batch mode."""
