"""What a gradient costs: echo learning (centred, hold) against one free pass and backpropagation through time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from circuits import Netlist
from circuits.generators import ladder, six_oscillators
from rhel_hw.baselines import BPTT, ThroughTime
from rhel_hw.hru import NonlinearUnits, Theta
from rhel_hw.integrators import Leapfrog
from rhel_hw.layers import WATCHED, Echoes, Method, positions
from rhel_hw.problem import Program
from rhel_hw.propagation import Keep
from rhel_hw.propagation import run as run_free
from rhel_hw.recurrences import NonlinearRow
from rhel_hw.rhel import RHEL
from rhel_hw.tasks import Teacher
from studies.benchmarks import interleaved

Array = Any
Report = Callable[[int, int], None]

STRENGTH = 0.03
"""By which all nudges of a pass together displace a unit of a layer, over its position: single precision sees that."""


@dataclass(frozen=True)
class Row:
    """One size. Times are of compiled programs; memory is the peak beside arguments and results."""

    circuit: str
    """Its name, or "nonlinear units" of a layer."""
    coordinates: int
    batch: int
    steps: int
    loss: str
    free_seconds: float
    """Of a pass as `simulate` makes it: of circuits its final state is kept, of layers all positions."""
    forward_over_free: float | None
    """The forward pass of a layer; None of circuits."""
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


@dataclass(frozen=True)
class Units:
    """A row of nonlinear units as a layer: how many, lanes, steps."""

    coordinates: int
    batch: int
    steps: int


LAYERS = (Units(6, 256, 4000), Units(256, 16, 1000))
"""In single precision, as models have them; by their parameters and their inputs."""


def run(*, sizes: tuple[Size | Units, ...] = SIZES, rounds: int = 9, report: Report | None = None) -> list[Row]:
    """Measure every size with a running and, where that is of use, with a final loss."""
    cases = [
        (size, loss)
        for size in sizes
        for loss in ("trajectory", "final")
        if loss == "trajectory" or isinstance(size, Size)
    ]
    rows = []
    for done, (size, loss) in enumerate(cases):
        if report:
            report(done, len(cases))
        rows.append(measure(size, loss, rounds) if isinstance(size, Size) else measure_layer(size, rounds))
    return rows


def measure(size: Size, loss: str, rounds: int) -> Row:
    """One circuit with one loss: a free pass, and gradients by what is trainable."""
    design = size.netlist().compile(steps=size.steps)
    hamiltonian, problem = design.hamiltonian, Teacher(loss=loss, batch=size.batch).problem(design)
    calls: dict[str, Callable[[], Any]] = {
        "free": partial(run_free, hamiltonian, problem.integrator, Keep.FINAL, *problem.run),
        "rhel": lambda: RHEL().found(problem),
        "bptt": lambda: BPTT().gradient(problem).parts,
    }
    programs = {"rhel": RHEL().program(problem), "bptt": BPTT().program(problem)}
    sizes = (hamiltonian.size, size.batch, size.steps)
    return _row(design.netlist.name, sizes, loss, calls, programs, problem.inputs.nbytes, rounds)


def layer_programs(size: Units) -> dict[str, Program]:
    """The same of a layer whose loss is half the mean square of its positions."""
    row, rng = NonlinearRow(size.coordinates), np.random.default_rng(0)
    theta = {k: jnp.asarray(v, jnp.float32) for k, v in row.theta(row.start(rng)).items()}
    inputs = jnp.asarray(rng.normal(size=(size.steps, size.coordinates, size.batch)), jnp.float32)
    methods = {"rhel": Echoes(), "bptt": ThroughTime()}
    found = {name: Program(_layer_gradient, (row.energy(), how, theta, inputs)) for name, how in methods.items()}
    rest, one = jnp.zeros(inputs.shape[1:], inputs.dtype), jnp.ones((), inputs.dtype)
    return {
        "free": Program(run_free, (row.energy(), Leapfrog(), Keep.POSITIONS, theta, inputs, (rest, rest), one)),
        "forward": Program(_layer_pass, (row.energy(), theta, inputs)),
        **found,
    }


def measure_layer(size: Units, rounds: int) -> Row:
    """One layer."""
    found = layer_programs(size)
    inputs = found["rhel"].arguments[-1]
    sizes = (size.coordinates, size.batch, size.steps)
    calls = {name: program.run for name, program in found.items()}
    return _row("nonlinear units", sizes, "trajectory", calls, found, inputs.nbytes, rounds)


@partial(jax.jit, static_argnums=0)
def _layer_pass(energy: NonlinearUnits, theta: Theta, inputs: Array) -> Array:
    return positions(energy, Leapfrog(), theta, inputs, jnp.ones((), inputs.dtype))[0]


@partial(jax.jit, static_argnums=(0, 1))
def _layer_gradient(energy: NonlinearUnits, how: Method, theta: Theta, inputs: Array) -> Array:
    one, watch = jnp.ones((), inputs.dtype), jnp.zeros(WATCHED, inputs.dtype)
    strength = STRENGTH * inputs[0].size * one  # the loss is a mean over steps, units and lanes

    def loss(theta: Theta, inputs: Array) -> Array:
        return jnp.mean(how.through(energy, theta, inputs, one, strength, watch) ** 2) / 2

    return jax.grad(loss, argnums=(0, 1))(theta, inputs)


def _row(
    name: str, sizes: tuple[int, int, int], loss: str, calls: Mapping[str, Callable[[], Any]],
    programs: Mapping[str, Program], input_bytes: int, rounds: int,
) -> Row:  # fmt: skip
    seconds = interleaved(calls, rounds, settled=True)
    return Row(
        name,
        *sizes,
        loss,
        seconds["free"],
        seconds["forward"] / seconds["free"] if "forward" in seconds else None,
        seconds["rhel"] / seconds["free"],
        seconds["bptt"] / seconds["free"],
        seconds["rhel"] / seconds["bptt"],
        programs["rhel"].temporary_bytes(),
        programs["bptt"].temporary_bytes(),
        input_bytes,
    )
