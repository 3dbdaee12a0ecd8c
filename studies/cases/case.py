"""What all case studies do: look, answer with a figure, find the contract, train, and hand over."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circuits import Netlist
from rhel_hw import settings
from rhel_hw.emulated import EmulatedBench
from rhel_hw.files import folder, write_atomically, write_text
from rhel_hw.learner import OnBench
from rhel_hw.training import Trained
from studies.export import bundle
from studies.sweeps.budget import find_budget
from studies.sweeps.contract import Budget

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Report = Callable[[int, int, str], None]
"""Told how much of what is done."""


def _untold(done: int, total: int, what: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True)
class Size:
    """How much is computed."""

    steps: int
    fine: int
    """Values along the finest axis."""
    seeds: int
    """At each of which the contract must hold."""
    moves: int
    """Of the training."""
    thorough: bool
    """Whether benches are calibrated and the bundle has a data sheet, which takes hundreds of gradients."""


SIZES = {"quick": Size(150, 7, 2, 30, False), "full": Size(300, 10, 5, 100, True)}


@dataclass(frozen=True)
class Found:
    """What a look at the question gave."""

    answer: str
    figure: Figure
    data: Mapping[str, Any]
    """What the figure shows, as plain data."""


@dataclass(frozen=True)
class Case:
    """A question, and what belongs to its answer."""

    question: str
    netlist: Callable[[Size], Netlist]
    """The design that is handed over, with the profile and the learning for which the contract holds."""
    look: Callable[[Netlist, Size, Path, Report], Found]
    axes: Callable[[Netlist], Mapping[str, Any]]
    """Of the contract."""
    sweep: Mapping[str, Any] = field(default_factory=dict)
    """Settings of its sweeps."""
    formats: Sequence[str] = ()
    """Of the bundle, beside its data sheet."""


@dataclass(frozen=True)
class Closed:
    """A case from question to hand-over."""

    question: str
    answer: str
    budget: Budget
    trained: Trained
    files: Sequence[Path]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "question": self.question,
            "answer": self.answer,
            "contract": self.budget.to_dict(),
            "training": {"improvement": self.trained.improvement, "moves": len(self.trained.losses) - 1},
            "files": [str(f) for f in self.files],
        }


def close(name: str, case: Case, size: Size, out: Path, report: Report | None = None) -> Closed:
    """From question to hand-over; sweeps that are in the folder already are not computed again."""
    report, place = report or _untold, folder(folder(out) / name)
    netlist = case.netlist(size)
    found = case.look(netlist, size, place, report)
    files = [
        write_atomically(place / f"{name}.png", lambda stream: found.figure.savefig(stream, format="png")),
        write_text(place / f"{name}.json", json.dumps(found.data, indent=1) + "\n"),
    ]
    budget = find_budget(
        netlist, "cosine=0.99", axes=case.axes(netlist), seeds=range(size.seeds), sweep=case.sweep,
        report=lambda done, total: report(done, total, "the contract"),
    )  # fmt: skip
    drawn = budget.figure()
    files += [
        write_text(place / "contract.md", budget.to_markdown()),
        write_text(place / "contract.json", json.dumps(budget.to_dict(), indent=1, allow_nan=False) + "\n"),
        write_atomically(place / "contract.png", lambda stream: drawn.savefig(stream, format="png")),
    ]
    trained, values = train(netlist, size.moves, report)
    formats = [*case.formats, *(["datasheet"] if size.thorough else [])]
    made = bundle(
        netlist, formats, values=values, requirement="cosine=0.99", seeds=size.seeds,
        report=lambda done, total: report(done, total, "the data sheet"),
    )  # fmt: skip
    files.append(made.save(place / "handover", overwrite=True) / "manifest.json")
    return Closed(case.question, found.answer, budget, trained, files)


def train(netlist: Netlist, moves: int, report: Report) -> tuple[Trained, dict[str, float]]:
    """A design trained on its own bench, and the values that came of it, in SI by name."""
    design, profile = netlist.compile(), settings.profile(netlist)
    lesson = settings.task(netlist).lesson(design)
    bench = EmulatedBench(design, profile, seed=0, reference=lesson.drive or None)
    learner = settings.bench_learning(netlist, profile)
    training = settings.training(netlist, {"steps": moves})
    trained = training.run(
        design, design.theta(), OnBench(bench, design, lesson, learner),
        report=lambda done, total, _: report(done, total, "training"),
    )  # fmt: skip
    known = design.parameters.to_si(trained.theta)
    return trained, {name: known[name][0] for name in design.parameters.trainable_names}
