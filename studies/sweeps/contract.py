"""The contract: limits that were found, alone and together, as a table for people and as data for machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import floor, isfinite, log2, log10
from typing import TYPE_CHECKING, Any

from studies.sweeps.drawing import cosine_text
from studies.sweeps.joint import Joint
from studies.sweeps.limits import Along, Requirement, Trial
from studies.sweeps.quantities import words
from studies.sweeps.reading import number_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Budget:
    """What a design needs to meet a requirement at every seed."""

    name: str
    requirements: tuple[Requirement, ...]
    seeds: tuple[int, ...]
    gamma: str
    """What γ is, in words."""
    own: Trial
    """The design as its own profile has it."""
    singles: tuple[Along, ...]
    """Every axis by itself, all else as the design's own profile has it."""
    refused: Mapping[str, str]
    """Axes that do not apply, and why."""
    joint: Joint | None
    """All axes together; None if that cannot be."""
    points: int
    """How many points were tried."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """At how many of them learning was refused, by the reason."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Heads of the table."""
        return "axis", "unit", "alone", self._outcome, "fails at", "jointly", "margin"

    def rows(self) -> list[tuple[str, ...]]:
        """The table, a row for every axis."""
        found: list[tuple[str, ...]] = [
            (short(s.range.path), unit_of(s.range.path), *self._alone(s), *self._together(s)) for s in self.singles
        ]
        return found + [(short(path), "", "does not apply", "", "", "", "") for path in self.refused]

    def lines(self) -> list[str]:
        """All of it as lines of text."""
        table = [self.columns, *self.rows()]
        widths = [max(len(row[i]) for row in table) for i in range(len(self.columns))]
        told = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in table]
        return [*self.head(), "", told[0], "-" * max(map(len, told)), *told[1:], "", *self.foot()]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def to_markdown(self) -> str:
        """The same as a page."""
        title, *head = self.head()
        table = [f"| {' | '.join(row)} |" for row in [self.columns, ["---"] * len(self.columns), *self.rows()]]
        notes = [f"- {line}" for line in self.foot()]
        return "\n".join([f"# {title}", "", *head, "", *table, "", *notes]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        joint = self.joint
        return {
            "design": self.name,
            "requirements": [
                {"outcome": r.outcome, "at_least" if r.at_least else "at_most": r.value} for r in self.requirements
            ],
            "seeds": list(self.seeds),
            "gamma": self.gamma,
            "points": self.points,
            "own": _trial(self.own),
            "axes": {s.range.path: _along(s) for s in self.singles},
            "refused": dict(self.refused),
            "lost": dict(self.lost),
            "joint": None if joint is None else {
                "limits": {s.range.path: joint.contract.point[s.range.path] for s in self.singles if s.range.ordered},
                "held": {s.range.path: s.value(s.good) for s in self.singles if not s.range.ordered},
                **_trial(joint.contract),
                "each_at_its_own_limit": _trial(joint.at_once),
                "tightened_by": joint.scale,
                "relaxed": list(joint.relaxed),
                "margins": {path: _margin(m) for path, m in joint.margins.items()},
            },
        }  # fmt: skip

    def figure(self) -> Figure:
        """Outcomes along every axis."""
        from studies.sweeps.contract_figure import figure

        return figure(self)

    # Words -----------------------------------------------------------------------------------------------------------

    @property
    def _outcome(self) -> str:
        return self.requirements[0].outcome if len(self.requirements) == 1 else "outcome"

    def head(self) -> list[str]:
        """What was asked."""
        wanted = " and ".join(map(str, self.requirements))
        return [
            f"Bit budget of {self.name}: {wanted}",
            f"A value does if the requirement holds at every seed, {len(self.seeds)} in all; outcomes are those of the "
            f"worst. γ is {self.gamma}.",
        ]

    def foot(self) -> list[str]:
        """What else one should know."""
        return [*self._told_together(), *self._notes()]

    def _told_together(self) -> Iterator[str]:
        joint = self.joint
        if joint is None:
            lost = [short(s.range.path) for s in self.singles if s.good is None]
            why = f": not even alone can {', '.join(lost)} do it in the range that was searched" if lost else ""
            yield f"There are no joint limits{why}."
            return
        yield f"At the joint limits {self._both(joint.contract)}."
        if joint.scale == 1:
            yield "Every axis may be at its own single limit at the same time."
            return
        yield f"With every axis at its own single limit at the same time {self._both(joint.at_once)}: not met."
        relaxed = f"then relaxed in this order: {', '.join(map(short, joint.relaxed))}" if joint.relaxed else (
            "and none could be relaxed again"
        )  # fmt: skip
        yield (
            f"All single limits were tightened alike by a factor {number_text(1 / joint.scale)} "
            f"({-log2(joint.scale):.1f} bits), {relaxed}."
        )
        yield "A margin is how far an axis can go beyond its joint limit, the others held, until the requirement fails."

    def _notes(self) -> Iterator[str]:
        if not self.own.met:
            yield f"With its own profile the design does not meet the requirement: {self._both(self.own)}."
        for s in self.singles:
            if s.good is None and s.range.ordered and s.bad is not None:
                yield f"{short(s.range.path)}: fails even at {number_text(s.value(s.bad))}, the best that was tried."
            elif s.good is None and s.bad is not None:
                yield f"{short(s.range.path)}: no value does; the best is {number_text(s.value(s.bad))}."
            if not s.orderly:
                also = [t for t in s.trials if t.met and s.range.place(s.value(t)) > s.range.place(s.value(s.bad))]
                yield (
                    f"{short(s.range.path)} is not monotone: {', '.join(number_text(s.value(t)) for t in also)} "
                    "would do, though a better value does not."
                )
            if s.bad is not None and s.bad.blind:
                yield (
                    f"{short(s.range.path)}: at {number_text(s.value(s.bad))} pilot echoes find no γ at {s.bad.blind} "
                    f"of {len(self.seeds)} seeds, which counts as failed; a γ of your own may go further."
                )
            if not s.range.ordered and s.good is not None:
                yield f"{short(s.range.path)} has no direction: jointly it is held at the best value that was found."
        if "pilot" in self.gamma and any(s.good is not None for s in self.singles):
            yield (
                "These limits are those of the γ that pilot echoes choose: with a `learning.gamma` of the design's "
                "own, found by a sweep over it, less may do."
            )
        for path, reason in self.refused.items():
            yield f"{short(path)} does not apply: {reason}."
        for reason, count in self.lost.items():
            yield f"{count} of the points that were tried count as failed, for learning was refused there: {reason}."

    def _alone(self, s: Along) -> tuple[str, str, str]:
        """Single limit, the outcome there, and where it fails."""
        good, bad, sign = s.value(s.good), s.value(s.bad), "≤" if s.range.grows else "≥"
        fails = "" if s.bad is None else f"{number_text(bad)}: {self.told(s.bad)}"
        if s.interval is not None:
            low, high = map(number_text, s.interval)
            return f"{number_text(good)} ({low}…{high})", self.told(s.good), fails
        if s.good is None:
            beyond = f"{'<' if s.range.grows else '>'} {number_text(s.range.best)}" if s.range.ordered else "no value"
            return beyond, "", fails
        if s.bad is None:
            return f"any {sign} {number_text(good)}", self.told(s.good), "none tried"
        return f"{sign} {number_text(good)}", self.told(s.good), fails

    def _together(self, s: Along) -> tuple[str, str]:
        """Joint limit and margin."""
        if self.joint is None:
            return "", ""
        value = self.joint.contract.point[s.range.path]
        if not s.range.ordered:
            return f"= {number_text(value)}", ""
        found = self.joint.margins[s.range.path]
        return f"{'≤' if s.range.grows else '≥'} {number_text(value)}", margin_text(found)

    def told(self, trial: Trial | None) -> str:
        """The outcome at the worst seed; of several the one that is nearest to failing."""
        if trial is None:
            return ""
        r = min(self.requirements, key=lambda r: r.slack(trial.worst[r.outcome]))
        name = f"{r.outcome} " if len(self.requirements) > 1 else ""
        return name + outcome_text(r.outcome, trial.worst[r.outcome])

    def _both(self, trial: Trial) -> str:
        found = []
        for name in trial.worst:
            worst, median = (outcome_text(name, values[name]) for values in (trial.worst, trial.median))
            verb = "has" if worst == "failed" else "is"
            found.append(f"{name} {verb} {worst} at the worst seed and {median} at the median one")
        return " and ".join(found)


def short(path: str) -> str:
    """A path without the section that most have."""
    return path.removeprefix("profile.")


def unit_of(path: str) -> str:
    """Unit of an axis; nothing for plain numbers."""
    unit = words(path)[0]
    return "" if unit == "1" else unit


def outcome_text(name: str, value: float) -> str:
    """An outcome with the digits that matter; cosines are never rounded up."""
    if not isfinite(value):
        return "failed" if value != value else number_text(value)
    if name != "cosine" or value >= 1:
        return number_text(value)
    if 1 - value < 1e-5:
        return cosine_text(1 - value)
    decimals = max(2, 1 - floor(log10(1 - value)))
    return f"{floor(value * 10**decimals) / 10**decimals:.{decimals}f}"


def margin(found: Along) -> float:
    """How far beyond its joint limit an axis can go: in bits or steps, or as a factor."""
    start, end = found.range.best, found.value(found.good)
    if found.range.spacing == "whole":
        return float(abs(end - start))
    return float(max(start, end) / min(start, end)) if min(start, end) > 0 else 1.0


def margin_text(found: Along) -> str:
    """The same for people: bits, decibels of noise, factors."""
    size, path = margin(found), found.range.path
    whole = found.range.spacing == "whole"
    if whole:
        text = f"{size:.0f} {'bit' if path.endswith('bits') else 'step'}{'' if size == 1 else 's'}"
    else:
        text = f"{20 * log10(size):.1f} dB" if path.endswith("noise") else f"×{size:.2f}"
    # It ends where the axis fails by itself, or where the search did.
    return text if found.bad is not None else f"≥ {text}" if size > (0 if whole else 1) else "own limit"


# Data ---------------------------------------------------------------------------------------------------------------


def _plain(values: Mapping[str, float]) -> dict[str, float | None]:
    return {k: v if isfinite(v) else None for k, v in values.items()}


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "met": trial.met,
        "seeds_without_gamma": trial.blind,
        "worst": _plain(trial.worst),
        "median": _plain(trial.median),
    }


def _along(s: Along) -> dict[str, Any]:
    return {
        "unit": unit_of(s.range.path),
        "bound": ("at_most" if s.range.grows else "at_least") if s.range.ordered else "interval",
        "limit": s.value(s.good),
        "fails_at": s.value(s.bad),
        "interval": None if s.interval is None else list(s.interval),
        "end_reached": s.good is None or s.bad is None,
        "monotone": s.orderly,
        "searched": [s.range.best, s.range.worst],
        "trials": [{"value": s.value(t), **_trial(t)} for t in s.trials],
    }


def _margin(found: Along) -> dict[str, Any]:
    whole = found.range.spacing == "whole"
    return {
        "bits" if whole else "factor": margin(found),
        "holds_at": found.value(found.good),
        "fails_at": found.value(found.bad),
        "trials": [{"value": found.value(t), **_trial(t)} for t in found.trials],
    }
