"""What is wrong with a bench, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from devices import ArgumentError


@dataclass(frozen=True)
class Finding:
    """Something that calibration came upon."""

    subject: str
    """What it is about: a channel, a drive, parameters, a chip."""
    problem: str
    remedy: str
    fatal: bool = True
    """Whether nothing that was measured can be relied on."""

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}; {self.remedy}"


class CalibrationError(ArgumentError):
    """A bench that cannot be calibrated as it is; `findings` say why, and nothing was written."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("The bench cannot be calibrated. " + ". ".join(map(str, self.findings)))


def refuse(findings: Iterable[Finding]) -> None:
    """Stop if any of the findings is fatal."""
    fatal = [f for f in findings if f.fatal]
    if fatal:
        raise CalibrationError(fatal)
