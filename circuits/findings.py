"""Findings: what is wrong with a design, where, why, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from devices import ArgumentError


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The design cannot be compiled or trained by echo."""
    WARNING = "warning"
    """It can, but not as well as its author may think."""
    NOTE = "note"
    """Something the compiler did that is worth knowing."""


@dataclass(frozen=True)
class Finding:
    """One thing about a design that its author should know."""

    element: str
    """Name of the element, drive or node, or a key path of the design file."""
    severity: Severity
    reason: str
    remedy: str

    def __str__(self) -> str:
        stop = "" if self.reason.endswith("?") else "."
        remedy = f" Remedy: {self.remedy}." if self.remedy else ""
        return f"{self.element}: {self.reason}{stop}{remedy}"


def error(element: str, reason: str, remedy: str) -> Finding:
    """A finding that stops the design. What a file says is quoted as one printable line of bounded length."""
    return Finding(_line(element, 120), Severity.ERROR, _line(reason, 400), _line(remedy, 400))


def _line(text: str, longest: int) -> str:
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[: longest + 1])
    return shown if len(shown) <= longest else shown[:longest] + "…"


def warning(element: str, reason: str, remedy: str) -> Finding:
    """A finding that limits the design."""
    return Finding(element, Severity.WARNING, reason, remedy)


def note(element: str, reason: str) -> Finding:
    """A finding that only tells."""
    return Finding(element, Severity.NOTE, reason, "")


@dataclass(frozen=True)
class Legality:
    """Why a design is or is not trainable by echo."""

    findings: tuple[Finding, ...] = ()

    @property
    def legal(self) -> bool:
        """Whether nothing found stops the design."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that stop the design."""
        return tuple(f for f in self.findings if f.severity is Severity.ERROR)

    def to_json(self) -> list[dict[str, str]]:
        """Findings as plain data."""
        return [asdict(f) for f in self.findings]

    def __str__(self) -> str:
        return "\n".join(f"{f.severity}: {f}" for f in self.findings) or "legal, no findings"


class DesignError(ArgumentError):
    """A design that cannot be used; carries the findings that say why."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.legality = Legality(tuple(findings))
        errors = self.legality.errors
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0]}{more}" if errors else "the design is refused")
