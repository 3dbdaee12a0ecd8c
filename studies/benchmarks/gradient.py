"""What a gradient costs: echo learning (centred, hold) against one free pass and backpropagation through time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from circuits import Netlist
from circuits.generators import ladder, six_oscillators
from circuits.hamiltonian import Hamiltonian
from rhel_hw.baselines import BPTT
from rhel_hw.problem import Problem
from rhel_hw.propagation import Keep
from rhel_hw.propagation import run as run_free
from rhel_hw.rhel import RHEL
from rhel_hw.tasks import Teacher
from studies.benchmarks import interleaved

Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Row:
    """One size. Times are of compiled programs; memory is the peak beside arguments and results."""

    circuit: str
    coordinates: int
    batch: int
    steps: int
    loss: str
    free_seconds: float
    rhel_over_free: float
    bptt_over_free: float
    rhel_over_bptt: float
    rhel_bytes: int
    bptt_bytes: int


@dataclass(frozen=True)
class Size:
    """A circuit, how many lanes and how many steps."""

    netlist: Callable[[], Netlist]
    batch: int
    steps: int


SIZES = (
    Size(six_oscillators, 256, 4000),
    Size(lambda: ladder(64), 16, 8000),
    Size(lambda: ladder(256), 16, 2000),
    Size(lambda: ladder(16), 4, 20_000),
)
"""Sizes by coordinates × batch: 6×256, 64×16, 256×16, 16×4."""


def run(*, sizes: tuple[Size, ...] = SIZES, rounds: int = 9, report: Report | None = None) -> list[Row]:
    """Measure every size with a running and with a final loss."""
    cases = [(size, loss) for size in sizes for loss in ("trajectory", "final")]
    rows = []
    for done, (size, loss) in enumerate(cases):
        if report:
            report(done, len(cases))
        rows.append(measure(size, loss, rounds))
    return rows


def calls(hamiltonian: Hamiltonian, problem: Problem) -> dict[str, Callable[[], Any]]:
    """A free pass, and the gradient by the trainable parameters in both ways, as users call them."""
    return {
        "free": partial(run_free, hamiltonian, problem.integrator, Keep.FINAL, *problem.run),
        "rhel": lambda: RHEL().gradient(problem).parts,
        "bptt": lambda: BPTT().gradient(problem).parts,
    }


def measure(size: Size, loss: str, rounds: int) -> Row:
    """One size with one loss."""
    design = size.netlist().compile(steps=size.steps)
    hamiltonian, problem = design.hamiltonian, Teacher(loss=loss, batch=size.batch).problem(design)
    seconds = interleaved(calls(hamiltonian, problem), rounds)
    return Row(
        design.netlist.name,
        hamiltonian.size,
        size.batch,
        size.steps,
        loss,
        seconds["free"],
        seconds["rhel"] / seconds["free"],
        seconds["bptt"] / seconds["free"],
        seconds["rhel"] / seconds["bptt"],
        RHEL().program(problem).temporary_bytes(),
        BPTT().program(problem).temporary_bytes(),
    )
