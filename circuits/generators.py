"""Benchmark circuits of any size: a topology, dressed with oscillators on its nodes and couplings on its edges."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np

from circuits.netlist import Netlist
from devices import (
    ArgumentError,
    Capacitor,
    CoherentDrive,
    CurrentDrive,
    Drive,
    Element,
    EvanescentCoupler,
    Exchange,
    FieldDrive,
    FieldLine,
    FluxDrive,
    ForceDrive,
    Inductor,
    MachZehnder,
    Macrospin,
    Mass,
    MutualInductance,
    Quantity,
    Ring,
    SaturableInductor,
    Spring,
    to_si,
)

Topology = Any
Spread = Callable[[float], float]


def circuit(
    topology: Topology,
    name: str = "circuit",
    *,
    capacitance: Quantity = "1 pF",
    ground_inductance: Quantity | None = "10 nH",
    inductance: Quantity | None = "40 nH",
    coupling_capacitance: Quantity | None = None,
    mutual: float | None = None,
    spread: float = 0.0,
    seed: int = 0,
) -> Netlist:
    """LC circuit on an undirected graph.

    Every node has a capacitor and, if `ground_inductance` is given, an inductor to ground. Every edge has an inductor
    and, if asked for, a coupling capacitor. `mutual` couples the edge inductors in disjoint pairs with that
    coefficient. Values are drawn uniformly within ± `spread` of the nominal ones. The first node is driven, the last
    is the target, and all edge inductors are trainable.
    """
    draw = _spread(spread, seed)
    nodes = {node: f"n{i}" for i, node in enumerate(topology.nodes)}
    edges = [(nodes[a], nodes[b]) for a, b in topology.edges]
    parts: list[Element] = [Capacitor(f"C{n}", n, "gnd", draw(to_si(capacitance, "F"))) for n in nodes.values()]
    if ground_inductance is not None:
        parts += [Inductor(f"L{n}", n, "gnd", draw(to_si(ground_inductance, "H"))) for n in nodes.values()]
    joined = []
    if inductance is not None:
        joined = [Inductor(f"L{a}_{b}", a, b, draw(to_si(inductance, "H")), trainable=True) for a, b in edges]
        parts += joined
    if coupling_capacitance is not None:
        parts += [Capacitor(f"C{a}_{b}", a, b, draw(to_si(coupling_capacitance, "F"))) for a, b in edges]
    if mutual is not None:
        pairs = zip(joined[::2], joined[1::2], strict=False)
        parts += [MutualInductance(f"K{i}", a.name, b.name, mutual) for i, (a, b) in enumerate(pairs)]
    last = list(nodes.values())[-1]
    return Netlist(name, tuple(parts), drives=(CurrentDrive("u0", "n0"),), targets=(last,))


def ladder(sections: int, **options: Any) -> Netlist:
    """Chain of `sections` oscillators."""
    return circuit(nx.path_graph(sections), f"ladder of {sections}", **options)


def ring(nodes: int, **options: Any) -> Netlist:
    """Closed chain."""
    return circuit(nx.cycle_graph(nodes), f"ring of {nodes}", **options)


def grid(rows: int, columns: int, **options: Any) -> Netlist:
    """Square lattice."""
    return circuit(nx.grid_2d_graph(rows, columns), f"grid of {rows} by {columns}", **options)


def all_to_all(nodes: int, **options: Any) -> Netlist:
    """Every pair coupled."""
    return circuit(nx.complete_graph(nodes), f"all-to-all of {nodes}", **options)


def random_regular(nodes: int, degree: int = 3, *, seed: int = 0, **options: Any) -> Netlist:
    """Random graph in which every node has the same number of neighbours."""
    graph = nx.random_regular_graph(degree, nodes, seed=seed)
    graph = nx.relabel_nodes(graph, {n: n for n in sorted(graph)}, copy=True)
    return circuit(graph, f"random {degree}-regular graph of {nodes}", seed=seed, **options)


def six_oscillators(*, seed: int = 0) -> Netlist:
    """The toy of the RHEL paper: six masses, each on its own spring, all pairs coupled, force on 1, target on 4."""
    rng = np.random.default_rng(seed)
    names = [f"x{i}" for i in range(1, 7)]
    parts: list[Element] = [
        Mass(f"m{i}", x, float(rng.uniform(0.7, 1.5)), trainable=True) for i, x in enumerate(names, 1)
    ]
    parts += [Spring(f"k{i}", x, "gnd", float(rng.uniform(0.5, 1.5)), trainable=True) for i, x in enumerate(names, 1)]
    parts += [
        Spring(f"k{i}{j}", a, b, float(rng.uniform(0.05, 0.4)), trainable=True)
        for i, a in enumerate(names, 1)
        for j, b in enumerate(names, 1)
        if i < j
    ]
    return Netlist("six coupled oscillators", tuple(parts), drives=(ForceDrive("u", "x1"),), targets=("x4",))


def recurrent_units(units: int, *, linear: bool, seed: int = 0) -> Netlist:
    """The Hamiltonian recurrent units of the RHEL paper as circuits, each node a unit with an input of its own.

    Linear: a capacitor and an inductor, driven by a current. Nonlinear: a capacitor, a saturable inductor whose flux
    bias is the input, and an inductor in parallel, so that dq/dt = −tanh(Aφ + u) − αφ in suitable units.
    """
    rng = np.random.default_rng(seed)
    parts: list[Element] = []
    drives: list[Drive] = []
    for i in range(units):
        node = f"n{i}"
        draw = [float(x) for x in rng.uniform(0.6, 1.6, 4)]
        parts.append(Capacitor(f"C{i}", node, "gnd", draw[0] * 1e-12))
        if linear:
            parts.append(Inductor(f"L{i}", node, "gnd", draw[1] * 1e-8, trainable=True))
            drives.append(CurrentDrive(f"u{i}", node))
        else:
            own = SaturableInductor(
                f"S{i}", node, "gnd", draw[1] * 1e-8, draw[2] * 1e-7, trainable=["inductance", "saturation_current"]
            )
            parts += [own, Inductor(f"L{i}", node, "gnd", draw[3] * 2e-8, trainable=True)]
            drives.append(FluxDrive(f"u{i}", own.name))
    name = f"{units} {'linear' if linear else 'nonlinear'} recurrent units"
    return Netlist(name, tuple(parts), drives=tuple(drives), targets=tuple(f"n{i}" for i in range(units)))


def ring_lattice(
    topology: Topology,
    *,
    rate: Quantity = "1 GHz",
    detuning: Quantity = 0.0,
    carrier: Quantity = "193.4 THz",
    spread: float = 0.0,
    seed: int = 0,
) -> Netlist:
    """Rings on the nodes of an undirected graph, evanescent couplers on its edges; light enters at the first node."""
    draw = _spread(spread, seed)
    nodes = {node: f"a{i}" for i, node in enumerate(topology.nodes)}
    parts: list[Element] = [
        Ring(f"R{a}", a, draw(to_si(detuning, "Hz")), carrier, trainable=True) for a in nodes.values()
    ]
    parts += [
        EvanescentCoupler(f"J{nodes[a]}_{nodes[b]}", nodes[a], nodes[b], draw(to_si(rate, "Hz")), trainable=True)
        for a, b in topology.edges
    ]
    last = list(nodes.values())[-1]
    drives = (CoherentDrive("u0", "a0"),)
    return Netlist(f"lattice of {len(nodes)} rings", tuple(parts), drives=drives, targets=(last,))


def waveguide(
    name: str,
    start: str,
    end: str,
    *,
    sections: int,
    rate: Quantity = "10 GHz",
    detuning: Quantity = 0.0,
    carrier: Quantity = "193.4 THz",
) -> list[Element]:
    """A waveguide bus from node `start` to node `end`, as a chain of coupled resonators that lie between.

    Light of wavenumber k per section has the frequency detuning + 2·rate·cos k and moves at 4π·rate·|sin k| sections a
    second. The two ends need resonators of their own.
    """
    if isinstance(sections, bool) or not isinstance(sections, int) or sections < 1:
        raise ArgumentError(f"Argument `sections` must be a whole number of at least 1, but is {sections!r}")
    nodes = [start, *(f"{name}.{i}" for i in range(1, sections + 1)), end]
    parts: list[Element] = [Ring(f"{node}R", node, detuning, carrier) for node in nodes[1:-1]]
    parts += [EvanescentCoupler(f"{name}J{i}", a, b, rate) for i, (a, b) in enumerate(pairwise(nodes))]
    return parts


def mesh(
    modes: int, *, duration: Quantity = "1 ns", carrier: Quantity = "193.4 THz", spread: float = 0.5, seed: int = 0
) -> Netlist:
    """A row of modes whose neighbours are joined by Mach–Zehnder interferometers, all at once: a static mesh."""
    draw = _spread(spread, seed)
    nodes = [f"a{i}" for i in range(modes)]
    parts: list[Element] = [Ring(f"R{a}", a, 0.0, carrier) for a in nodes]
    parts += [MachZehnder(f"Z{a}_{b}", a, b, duration, draw(np.pi / 2), trainable=True) for a, b in pairwise(nodes)]
    return Netlist(f"mesh of {modes} modes", tuple(parts), drives=(CoherentDrive("u0", "a0"),), targets=(nodes[-1],))


def spin_wave_chain(
    spins: int,
    *,
    closed: bool = False,
    magnetisation: Quantity = "800 kA/m",
    volume: Quantity = "2.5e-23 m**3",
    demagnetisation: float = 0.9,
    field: Quantity = "20 mT",
    exchange: Quantity = "4e-19 J",
    renormalisation: float = 1.0,
) -> Netlist:
    """Macrospins in a row or, closed, in a ring, joined by exchange: spin waves run along it.

    With x = h + 2J(1 − cos k) their frequency is √(x·(2VK_eff + x))/S. A field line shakes the first spin.
    """
    nodes = [f"s{i}" for i in range(spins)]
    given = {"demagnetisation": demagnetisation, "field": field, "renormalisation": renormalisation}
    parts: list[Element] = [Macrospin(f"M{n}", n, magnetisation, volume, **given, trainable=True) for n in nodes]
    pairs = [*pairwise(nodes), *([(nodes[-1], nodes[0])] if closed else [])]
    parts += [Exchange(f"J{a}_{b}", a, b, exchange, trainable=True) for a, b in pairs]
    parts.append(FieldLine("F0", nodes[0]))
    return Netlist(f"chain of {spins} spins", tuple(parts), drives=(FieldDrive("u0", "F0"),), targets=(nodes[-1],))


def _spread(spread: float, seed: int) -> Spread:
    if not 0 <= spread < 1:
        raise ArgumentError(f"Argument `spread` must lie in [0, 1), but is {spread}")
    rng = np.random.default_rng(seed)
    return lambda value: value if spread == 0 else float(value * rng.uniform(1 - spread, 1 + spread))


__all__ = [
    "all_to_all",
    "circuit",
    "grid",
    "ladder",
    "mesh",
    "random_regular",
    "recurrent_units",
    "ring",
    "ring_lattice",
    "six_oscillators",
    "spin_wave_chain",
    "waveguide",
]
