"""A forward pass against the same loop in C, by hand, on one thread: nanoseconds per coordinate and step.

Both compute what goes into the coordinates: units the product B·u of their weights with their features, ladders the
current into their first node. Both are given the same arrays in single precision, lanes last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from circuits.generators import ladder
from rhel_hw.hru import INJECTION, NonlinearUnits
from rhel_hw.integrators import Leapfrog
from rhel_hw.propagation import Keep
from rhel_hw.propagation import run as run_free
from rhel_hw.recurrences import NonlinearRow
from studies.benchmarks import interleaved
from studies.benchmarks.kernel import Kernel, built

Report = Callable[[int, int], None]
Floats = NDArray[np.float32]

FEATURES = 6
"""Inputs of every unit."""
CHECKED = 200
"""Steps after which both must have come to the same state; later, single precision tells in chaotic units."""


@dataclass(frozen=True)
class Size:
    """Coordinates, lanes and steps."""

    coordinates: int
    lanes: int
    steps: int


SIZES = (Size(6, 1, 50_000), Size(6, 256, 4000), Size(6, 4096, 2000), Size(256, 16, 2000))


@dataclass(frozen=True)
class Row:
    """One size of one energy. Times are nanoseconds per coordinate and step."""

    energy: str
    """"nonlinear units" or "linear ladder"."""
    coordinates: int
    lanes: int
    steps: int
    trajectory: bool
    """Whether the trajectory is kept: of units positions, of ladders momenta too."""
    own_ns: float
    c_ns: float | None
    """None without a C compiler."""
    over_c: float | None
    apart: float | None
    """Largest distance between the final positions of both after 200 steps, over the largest position."""


@dataclass(frozen=True)
class Case:
    """The same loop as users run it, and in C. Told how many steps, and whether to keep what is on the way.

    Both return a tuple whose first item is the final positions (n, lanes).
    """

    energy: str
    own: Callable[[int, bool], tuple[Any, ...]]
    by_hand: Callable[[Kernel, int, bool], tuple[Any, ...]]


def run(*, sizes: tuple[Size, ...] = SIZES, rounds: int = 9, report: Report | None = None) -> list[Row]:
    """Measure every size of both energies, with and without trajectory."""
    cases = [(make, size) for make in (units, chain) for size in sizes]
    rows = []
    for done, (make, size) in enumerate(cases):
        if report:
            report(done, len(cases))
        case = make(size)
        rows += [measure(case, size, trajectory, rounds) for trajectory in (False, True)]
    return rows


def measure(case: Case, size: Size, trajectory: bool, rounds: int) -> Row:
    """One size, timed in turns."""
    kernel, apart = built(FEATURES), None
    functions = {"own": lambda: case.own(size.steps, trajectory)}
    if kernel is not None:
        steps = min(CHECKED, size.steps)
        own, by_hand = (
            np.asarray(q) for q, *_ in (case.own(steps, trajectory), case.by_hand(kernel, steps, trajectory))
        )
        apart = float(np.max(np.abs(own - by_hand)) / np.max(np.abs(by_hand)))
        functions["C"] = lambda: case.by_hand(kernel, size.steps, trajectory)
    scale = 1e9 / (size.steps * size.coordinates * size.lanes)
    found = {name: scale * seconds for name, seconds in interleaved(functions, rounds, settled=True).items()}
    c_ns = found.get("C")
    return Row(
        case.energy, size.coordinates, size.lanes, size.steps, trajectory, found["own"], c_ns,
        None if c_ns is None else found["own"] / c_ns, apart,
    )  # fmt: skip


# Units ------------------------------------------------------------------------------------------------------------


def units(size: Size) -> Case:
    """A row of nonlinear units from rest, as models begin with, driven by noise."""
    rng, row = np.random.default_rng(0), NonlinearRow(size.coordinates)
    raw = {k: np.asarray(v, np.float32) for k, v in row.start(rng).items()}
    theta = {k: np.array(v, np.float32) for k, v in row.theta(raw).items()}
    reach = row.reach(FEATURES)
    B = rng.uniform(-reach, reach, (size.coordinates, FEATURES)).astype(np.float32)
    x = rng.normal(size=(size.steps, FEATURES, size.lanes)).astype(np.float32)
    path = np.zeros((size.steps, size.coordinates, size.lanes), np.float32)
    energy = NonlinearUnits(size.coordinates, FEATURES)
    own_theta = {k: jnp.asarray(v) for k, v in {**theta, INJECTION: B.ravel()}.items()}
    given = {steps: jnp.asarray(x[:steps]) for steps in {size.steps, min(CHECKED, size.steps)}}
    start, one = _start(size), jnp.ones((), jnp.float32)

    def own(steps: int, trajectory: bool) -> tuple[Any, ...]:
        keep = Keep.POSITIONS if trajectory else Keep.FINAL
        (q, _), (path, *_) = run_free(energy, Leapfrog(), keep, own_theta, given[steps], start, one)
        return q, path

    def by_hand(kernel: Kernel, steps: int, trajectory: bool) -> tuple[Any, ...]:
        q, p = _rest(size)
        kernel.units(theta, B, x[:steps], q, p, path if trajectory else None)
        return q, path

    return Case("nonlinear units", own, by_hand)


# Ladder -----------------------------------------------------------------------------------------------------------


def chain(size: Size) -> Case:
    """A ladder of LC oscillators from rest, a current into its first node, by the automatic step."""
    design = ladder(size.coordinates, spread=0.2).compile()
    theta, numbers = design.theta(np.float32), tridiagonal(design)
    u = np.random.default_rng(0).normal(size=(size.steps, 1, size.lanes)).astype(np.float32)
    shape = (size.steps, size.coordinates, size.lanes)
    paths = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    given = {steps: jnp.asarray(u[:steps]) for steps in {size.steps, min(CHECKED, size.steps)}}
    start, step = _start(size), jnp.asarray(design.step, jnp.float32)

    def own(steps: int, trajectory: bool) -> tuple[Any, ...]:
        keep = Keep.ENDS if trajectory else Keep.FINAL
        (q, _), kept = run_free(design.hamiltonian, Leapfrog(), keep, theta, given[steps], start, step)
        return q, kept

    def by_hand(kernel: Kernel, steps: int, trajectory: bool) -> tuple[Any, ...]:
        q, p = _rest(size)
        kernel.ladder(design.step, numbers, u[:steps, 0], q, p, paths if trajectory else None)
        return q, paths

    return Case("linear ladder", own, by_hand)


def tridiagonal(design: Design) -> tuple[Floats, Floats, Floats, float]:
    """Mobilities, stiffness of nodes and between neighbours, and what an input does to the first momentum."""
    energy, rest = design.hamiltonian, jnp.zeros(design.hamiltonian.size)
    prepared, u = energy.prepare(design.theta()), jnp.zeros(energy.inputs)
    stiffness = -np.asarray(jax.jacobian(energy.force)(rest, prepared, u))
    mobility = np.asarray(jax.jacobian(energy.velocity)(rest, prepared))
    inject = float(jax.jacobian(energy.force, argnums=2)(rest, prepared, u)[0, 0])
    own, following = np.diag(stiffness), np.append(np.diag(stiffness, 1), 0.0)
    return np.array(np.diag(mobility), np.float32), own.astype(np.float32), following.astype(np.float32), inject


def _rest(size: Size) -> tuple[Floats, Floats]:
    shape = (size.coordinates, size.lanes)
    return np.zeros(shape, np.float32), np.zeros(shape, np.float32)


def _start(size: Size) -> tuple[Any, Any]:
    q, p = _rest(size)
    return jnp.asarray(q), jnp.asarray(p)
