"""What a gradient costs: echo learning (centred, hold) against one free pass and backpropagation through time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circuits import Netlist
from circuits.generators import ladder, six_oscillators
from rhel_hw.baselines import BPTT
from rhel_hw.problem import Program
from rhel_hw.rhel import RHEL
from rhel_hw.simulation import Keep, propagate
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
    input_bytes: int
    """Of the waveforms, the one argument that grows with the number of steps."""


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
LENGTHS = tuple(Size(lambda: ladder(16), 4, steps) for steps in (100, 1000, 10_000, 100_000))
"""One circuit over ever longer series."""


def run(*, sizes: tuple[Size, ...] = SIZES, rounds: int = 9, report: Report | None = None) -> list[Row]:
    """Measure every size with a running and with a final loss."""
    cases = [(size, loss) for size in sizes for loss in ("trajectory", "final")]
    rows = []
    for done, (size, loss) in enumerate(cases):
        if report:
            report(done, len(cases))
        rows.append(measure(size, loss, rounds))
    return rows


def programs(size: Size, loss: str) -> dict[str, Program]:
    """A free pass, and the gradient by the trainable parameters in both ways."""
    problem = Teacher(loss=loss, batch=size.batch).problem(size.netlist().compile(steps=size.steps))
    free = Program(propagate, (problem.hamiltonian, problem.integrator, Keep.FINAL, *problem.run))
    return {"free": free, "rhel": RHEL().program(problem), "bptt": BPTT().program(problem)}


def measure(size: Size, loss: str, rounds: int) -> Row:
    """One size with one loss."""
    found = programs(size, loss)
    seconds = interleaved({name: program.run for name, program in found.items()}, rounds)
    hamiltonian = found["free"].arguments[0]
    return Row(
        hamiltonian.assembly.netlist.name,
        hamiltonian.size,
        size.batch,
        size.steps,
        loss,
        seconds["free"],
        seconds["rhel"] / seconds["free"],
        seconds["bptt"] / seconds["free"],
        seconds["rhel"] / seconds["bptt"],
        found["rhel"].temporary_bytes(),
        found["bptt"].temporary_bytes(),
        found["free"].arguments[4].nbytes,
    )
