"""What a step costs on ever larger graphs: it must grow with the number of edges, and with nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isqrt, log
from statistics import linear_regression
from time import perf_counter

import jax.numpy as jnp
import numpy as np

from circuits import Netlist
from circuits.generators import all_to_all, grid, ladder
from rhel_hw.integrators import Leapfrog
from rhel_hw.propagation import Keep, propagate
from studies.benchmarks import interleaved

Report = Callable[[int, int], None]

TOPOLOGIES: dict[str, Callable[[int], Netlist]] = {
    "ladder": ladder,
    "grid": lambda nodes: grid(isqrt(nodes), isqrt(nodes)),
    "all-to-all": all_to_all,
}
SIZES = {
    "ladder": (10, 30, 100, 300, 1000, 3000, 10_000),
    "grid": (9, 36, 100, 324, 1024, 3025, 10_000),
    "all-to-all": (10, 30, 100, 300),
}
"""Numbers of nodes; the largest all-to-all graph has 45,150 edges."""
BATCH = 4
WORK = 10**7
"""About how many updates of an edge in a lane are timed at once."""
FEWEST, MOST = 100, 10_000
"""Steps of a run."""
LARGE = 1000
"""Edges × lanes from which on an exponent is fitted: below, every step costs about the same, whatever is in it."""


@dataclass(frozen=True)
class Row:
    """One graph. An edge is an inductor, between two nodes or to ground."""

    topology: str
    nodes: int
    edges: int
    batch: int
    steps: int
    step_us: float
    """Microseconds of a free step of all lanes."""
    edge_ns: float
    """Nanoseconds of a free step per edge and lane."""
    compile_seconds: float
    """Of the netlist, to a Hamiltonian."""


def run(
    *, sizes: dict[str, tuple[int, ...]] = SIZES, rounds: int = 9, report: Report | None = None
) -> tuple[list[Row], dict[str, float]]:
    """Measure every graph; also by topology the exponent of edges in the cost of a step."""
    cases = [(topology, nodes) for topology, found in sizes.items() for nodes in found]
    rows = []
    for done, (topology, nodes) in enumerate(cases):
        if report:
            report(done, len(cases))
        rows.append(measure(topology, nodes, rounds))
    found = {topology: exponent([r for r in rows if r.topology == topology]) for topology in sizes}
    return rows, {topology: slope for topology, slope in found.items() if slope is not None}


def measure(topology: str, nodes: int, rounds: int) -> Row:
    """One graph: a free pass that keeps its final state only."""
    netlist = TOPOLOGIES[topology](nodes)
    edges = sum(e.type == "inductor" for e in netlist.elements)
    steps = min(max(WORK // (edges * BATCH), FEWEST), MOST)
    began = perf_counter()
    design = netlist.compile(steps=steps)
    compiling = perf_counter() - began
    inputs = np.random.default_rng(0).normal(size=(steps, design.hamiltonian.inputs, BATCH))
    start = tuple(jnp.zeros((design.hamiltonian.size, BATCH)) for _ in range(2))
    arguments = (
        design.hamiltonian,
        Leapfrog(),
        Keep.FINAL,
        design.theta(),
        jnp.asarray(inputs),
        start,
        jnp.asarray(design.step),
    )
    seconds = interleaved({"free": lambda: propagate(*arguments)}, rounds)["free"] / steps
    return Row(topology, nodes, edges, BATCH, steps, 1e6 * seconds, 1e9 * seconds / (edges * BATCH), compiling)


def exponent(rows: list[Row]) -> float | None:
    """Slope of log time over log edges, of graphs that are large enough to tell; None if there are not two."""
    large = [r for r in rows if r.edges * r.batch >= LARGE]
    if len(large) < 2:
        return None
    return float(linear_regression([log(r.edges) for r in large], [log(r.step_us) for r in large]).slope)
