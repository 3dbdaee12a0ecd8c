"""The rules by which a netlist is or is not trainable by echo. Each finding names the element, the reason, the remedy.

Rules come in three stages: what the netlist alone shows, what its assembled arrays show, and what its modes show.
"""

from __future__ import annotations

from collections.abc import Iterator

import networkx as nx
import numpy as np

from circuits.assemble import Assembly
from circuits.findings import Finding, error, note, warning
from circuits.linear import DENSE_MODES, Modes, curvature, inductance_clusters, inductance_matrix, stiffness_matrix
from circuits.netlist import Netlist
from devices import ELEMENTS, Element

STABLE = 2.0
"""Leapfrog is stable for step·ω below this."""
ADVISED = 0.3
"""Above this product the discrete frequency is more than 0.4 % off."""
SPREAD = 1e3
"""Ratio of frequencies beyond which one time step for all is wasteful."""
LARGEST_ELIMINATION = 2000
LARGEST_CLUSTER = 2000
LARGEST_LOSS = 1024


# What the netlist alone shows ------------------------------------------------------------------------------------


def of_netlist(netlist: Netlist) -> Iterator[Finding]:
    """Elements that cannot be used at all, or not where they stand."""
    held = netlist.held
    fixed = {netlist.ground, *held}
    inertia_at: dict[str, list[str]] = {}
    for part in netlist.elements:
        if part.is_massive():
            for node in netlist.terminals_of(part):
                inertia_at.setdefault(node, []).append(part.name)
    for part in netlist.elements:
        ends = netlist.terminals_of(part)
        if part.refusal is not None:
            yield error(part.name, part.refusal.reason, part.refusal.remedy)
        elif part.trainable and not part.stores():
            yield error(
                part.name,
                f"a {part.type} is loss, not energy: the echo gives no gradient for it",
                "remove `trainable`, or train the capacitor or inductor beside it",
            )
        elif len(ends) == 2 and set(ends) <= fixed and held & set(ends):
            what = "closes a capacitor loop on" if part.inertia is not None else "lies across"
            yield error(
                part.name,
                f"{what} a voltage source: its state is forced and it stores nothing of its own",
                "remove it, or put an inductor between it and the source",
            )
        elif not part.stores() and held & set(ends):
            yield error(
                part.name,
                "joins a voltage source by a loss alone, which no energy describes",
                f"replace the source by a current drive V/R into the other node, and tie {part.name} to ground",
            )
        elif part.type == "bilinear" and netlist.ground in ends:
            yield error(part.name, "couples to ground, whose coordinate is zero", "join two nodes")
        yield from _lenders(netlist, part)
        if part.alone:
            others = [name for name in inertia_at[ends[0]] if name != part.name]
            if others:
                yield error(
                    part.name,
                    f"shares its node with {', '.join(others)}: charge would divide between them by an implicit law",
                    "leave the varactor as the only capacitance at its node",
                )
        for key in part.trainable if part.stores() else ():
            if not part.parameters[key].stored:
                yield error(
                    part.name, f"`{key}` is no part of the energy: the echo gives no gradient for it", "train another"
                )
            if part.parameters[key].at_least == 0 == getattr(part, key):
                yield warning(
                    part.name, f"trainable `{key}` starts at its lower limit 0", "start from a positive value"
                )
    yield from _turned_twice(netlist)
    lossy = [p.name for p in netlist.elements if p.lossy]
    if lossy:
        yield warning(
            lossy[0],
            "loses energy, so the echo does not retrace exactly"
            + (f" (as do {_some(lossy[1:])})" if lossy[1:] else ""),
            "keep the run short against the decay, or compensate the loss",
        )
    for target in netlist.targets:
        if not netlist.probes.sees_position(target.node):
            yield error(
                f"targets.{target.name}",
                f"position of node `{target.node}` is not probed",
                "add the node to probes.positions",
            )
    yield from _observability(netlist, fixed)


def _lenders(netlist: Netlist, part: Element) -> Iterator[Finding]:
    """A coupler of spins takes their moments from the spins: there must be some."""
    for name, (end, wanted) in part.borrows.items():
        if netlist.lender(part, name) is None:
            kinds = [k for k, kind in ELEMENTS.items() if wanted in kind.lends]
            yield error(
                part.name,
                f"needs a {' or '.join(kinds)} at node {netlist.terminals_of(part)[end]}",
                "put one there, or move it",
            )
            return


def _turned_twice(netlist: Netlist) -> Iterator[Finding]:
    first: dict[str, str] = {}
    for part in netlist.elements:
        for node in netlist.terminals_of(part) if part.rotation is not None else ():
            if first.setdefault(node, part.name) != part.name:
                yield error(part.name, f"turns node {node}, as {first[node]} does", "join the two into one")


def _observability(netlist: Netlist, fixed: set[str]) -> Iterator[Finding]:
    """A parameter's gradient is a function of the coordinates in its energy; all of them must be read out."""
    inertial, magnetic = nx.Graph(), nx.Graph()
    inertial.add_nodes_from(netlist.nodes)
    for part in netlist.elements:
        ends = [n for n in netlist.terminals_of(part) if n not in fixed]
        if part.inertia is not None and len(ends) == 2:
            inertial.add_edge(*ends)
        if part.type == "mutual":
            magnetic.add_edge(*(getattr(part, key) for key in part.references))
    massive = {n for p in netlist.elements if p.is_massive() for n in netlist.terminals_of(p)}
    block = {n: c for c in nx.connected_components(inertial) for n in c}
    cluster = {n: c for c in nx.connected_components(magnetic) for n in c}

    # A massless node follows from its elastic neighbours, which must then be seen instead of it.
    soft = nx.Graph()
    for part in netlist.elements:
        if part.potential is not None:
            ends = [n for n in netlist.terminals_of(part) if n not in fixed]
            soft.add_edges_from((a, b) for a in ends for b in ends if a not in massive)
    border = {n: {b for m in c for b in soft[m] if b in massive} for c in _massless_sets(soft, massive) for n in c}

    def positions(names: set[str]) -> set[str]:
        nodes = {n for name in names for n in netlist.terminals_of(netlist.by_name[name])} - fixed
        return {m for n in nodes for m in border.get(n, {n})}

    for part in netlist.elements:
        if not part.trainable or not part.stores() or part.refusal is not None:
            continue
        names = {part.name} if not part.references else {getattr(part, k) for k in part.references}
        names = set().union(*(cluster.get(name, {name}) for name in names))
        missing: list[str] = []
        lifted = not netlist.held.isdisjoint(netlist.terminals_of(part))
        if part.potential is not None or part.rotation is not None or part.references or lifted:
            missing += [f"position of {n}" for n in sorted(positions(names)) if not netlist.probes.sees_position(n)]
        if part.inertia is not None:
            seen = set().union(*(block[n] for n in netlist.terminals_of(part) if n not in fixed)) & massive
            missing += [f"momentum of {n}" for n in sorted(seen) if not netlist.probes.sees_momentum(n)]
        elif part.kinetic is not None or part.rotation is not None:
            own = netlist.terminals_of(part)
            missing += [f"momentum of {n}" for n in own if not netlist.probes.sees_momentum(n)]
        if missing:
            yield warning(
                part.name,
                f"the gradient of {', '.join(part.trainable)} needs the {_some(missing)}, not probed",
                "probe it, or the parameter stays as it is",
            )


def _massless_sets(graph: nx.Graph, massive: set[str]) -> Iterator[set[str]]:
    yield from nx.connected_components(graph.subgraph([n for n in graph if n not in massive]))


# What the assembled arrays show ----------------------------------------------------------------------------------


def of_assembly(assembly: Assembly) -> Iterator[Finding]:
    """Eliminations that are not exact, and inductance matrices that no coils can have."""
    dynamic, massless, _ = assembly.coordinates.counts
    if massless > LARGEST_ELIMINATION:
        yield error(
            "design",
            f"{massless} sets of nodes have no inertia: too many to eliminate together",
            "give them their parasitic capacitance",
        )
        return
    soft = slice(dynamic, dynamic + massless)
    for kinds, why in ((assembly.branch, "is nonlinear"), (assembly.loss, "loses energy")):
        for name, rows in kinds.items():
            group = assembly.groups[name]
            if group.kind.linear:
                continue
            touching = np.unique(rows[:, soft].nonzero()[0] % len(group.names))
            for i in touching:
                node = assembly.coordinates.massless[rows[[i]][:, soft].indices[0]][0]
                yield error(
                    group.names[i],
                    f"{why} and touches node {node}, which has no capacitance: its position would "
                    "follow from an implicit law",
                    f"add a capacitor from {node} to ground",
                )
    for name, rows in assembly.loss.items():
        for read in (m for k, m in assembly.momentum.items() if assembly.groups[k].kind.alone):
            touching = np.unique(rows[:, np.unique(read.indices)].nonzero()[0])
            for i in touching:
                yield error(
                    assembly.groups[name].names[i],
                    "loses energy at a varactor node, where the decay is not linear",
                    "move the resistor to another node",
                )
    if assembly.loss and dynamic > LARGEST_LOSS and _branched(assembly):
        yield error(
            next(iter(assembly.groups[next(iter(assembly.loss))].names)),
            f"lossy branches between nodes are limited to circuits of {LARGEST_LOSS} coordinates",
            "tie the resistors to ground",
        )
    if "mutual" in assembly.groups:
        yield from _inductances(assembly)
    if massless:
        yield from _massless_balance(assembly, soft)


def _branched(assembly: Assembly) -> bool:
    rows = [*assembly.loss.values(), *assembly.inertia.values(), *assembly.momentum.values()]
    return any(np.any(np.diff(r.indptr) > 1) for r in rows)


def _massless_balance(assembly: Assembly, soft: slice) -> Iterator[Finding]:
    stiffness = stiffness_matrix(assembly, largest=True)[soft][:, soft].toarray()
    values, vectors = np.linalg.eigh(stiffness)  # coordinates are scaled to stiffness one
    if values[0] <= 1e-9:
        node = assembly.coordinates.massless[int(np.argmax(np.abs(vectors[:, 0])))][0]
        yield error(
            f"node {node}",
            "has no capacitance and no stable position: the forces on it do not balance",
            f"add a capacitor from {node} to ground, or weaken the coupler there",
        )


def _inductances(assembly: Assembly) -> Iterator[Finding]:
    matrix = inductance_matrix(assembly)
    names = assembly.groups["inductor"].names
    for clusters in inductance_clusters(matrix):
        if clusters.shape[1] > LARGEST_CLUSTER:
            yield error(
                names[clusters[0, 0]],
                f"{clusters.shape[1]} inductors are coupled in one cluster",
                "couple fewer of them",
            )
            continue
        i, j = np.broadcast_arrays(clusters[:, :, None], clusters[:, None, :])
        blocks = np.asarray(matrix[i.ravel(), j.ravel()]).reshape(i.shape)
        root = np.sqrt(np.diagonal(blocks, axis1=1, axis2=2))
        lowest = np.linalg.eigvalsh(blocks / (root[:, :, None] * root[:, None, :]))[:, 0]
        for cluster, value in zip(clusters[lowest <= 1e-9], lowest[lowest <= 1e-9], strict=True):
            members = {names[i] for i in cluster}
            couplers = [
                e.name
                for e in assembly.netlist.elements
                if e.type == "mutual" and getattr(e, e.references[0]) in members
            ]
            yield error(
                couplers[0],
                f"the inductance matrix of {_some(couplers)} is not positive definite "
                f"(lowest relative eigenvalue {value:.2g})",
                "lower the coupling coefficients",
            )


# What the modes show ---------------------------------------------------------------------------------------------


def of_modes(assembly: Assembly, found: Modes, highest: float) -> Iterator[Finding]:
    """Stability of the rest point, and how far the frequencies spread; rates are dimensionless."""
    if not len(found.squares):
        yield from _incomplete(assembly, found)
        return
    top = max(found.squares[-1], highest**2)
    round_off = (1e-13 if found.complete else 1e-6) * top
    if not found.converged:
        yield warning(
            "design",
            "no rest point was found near zero; frequencies are those about the last point tried",
            "check the flux biases",
        )
    if found.squares[0] < -round_off:
        culprits = _softening(assembly)
        yield error(
            culprits[0],
            f"the rest point is unstable (grows at {np.sqrt(-found.squares[0]):.3g} per {assembly.units.time:.3g} s)",
            "lower the coupling, or stiffen the nodes that it joins"
            + (f"; see also {_some(culprits[1:])}" if culprits[1:] else ""),
        )
    elif found.squares[0] < round_off:
        yield note("design", "the circuit has a free mode of zero frequency")
    positive = found.squares[found.squares > round_off]
    if len(positive) and np.sqrt(top / positive[0]) > SPREAD:
        yield warning(
            "design",
            f"frequencies span a factor of {np.sqrt(top / positive[0]):.2g}: one time step for all is wasteful",
            "bring the slow and the fast part closer together",
        )
    yield from _incomplete(assembly, found)


def _incomplete(assembly: Assembly, found: Modes) -> Iterator[Finding]:
    if not found.complete:
        yield note(
            "design",
            f"of {len(assembly.coordinates.dynamic)} frequencies only the lowest and the highest were computed "
            f"(all up to {DENSE_MODES})",
        )


def of_step(assembly: Assembly, highest: float, step: float) -> Iterator[Finding]:
    """Stability and accuracy of the time step; rate and time are dimensionless."""
    product = step * highest
    if product >= STABLE:
        advised = 0.2 / highest * assembly.units.time
        yield error(
            "time.step",
            f"step·ω is {product:.3g}, and leapfrog is unstable from {STABLE:g}",
            f"use at most {ADVISED / highest * assembly.units.time:.3g} s ({advised:.3g} s is the automatic choice)",
        )
    elif product > ADVISED:
        shift = (2 / product * np.arcsin(product / 2) - 1) * 100
        yield warning(
            "time.step",
            f"step·ω is {product:.3g}: the highest frequency comes out {shift:.2g} % too high",
            f"use {ADVISED / highest * assembly.units.time:.3g} s or less",
        )


def _softening(assembly: Assembly) -> list[str]:
    """Elements that can lower the stiffness, for the message."""
    names = [e.name for e in assembly.netlist.elements if e.linear and len(e.branches) > 1]
    names += [e.name for e in assembly.netlist.elements if e.potential is not None and not e.linear]
    return names or ["design"]


# What the energies show ------------------------------------------------------------------------------------------


def of_energies(assembly: Assembly) -> Iterator[Finding]:
    """Evenness in momentum and smoothness of every nonlinear energy, tried on random values."""
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    for name, group in assembly.groups.items():
        if name in assembly.momentum:
            rows = group.kind.momentum_branches or group.kind.branches
            m = tuple(jnp.asarray(x) for x in rng.normal(size=(len(rows), len(group.names))))
            values = group.values({k: jnp.asarray(v) for k, v in assembly.theta.items()})
            plus, minus = group.kind.kinetic(m, values), group.kind.kinetic(tuple(-x for x in m), values)
            for i in np.flatnonzero(~np.isclose(plus, minus, rtol=1e-5, atol=0)):
                yield error(group.names[i], "its kinetic energy is not even in momentum", "use the sign-flip echo")
        if name in assembly.branch and not group.kind.linear:
            b = list(rng.normal(size=(len(group.kind.branches), len(group.names))))
            second = curvature("potential", group, assembly.theta, b)
            for i in np.flatnonzero(~np.all(np.isfinite(second), axis=(1, 2))):
                yield error(group.names[i], "its energy is not twice differentiable", "use a smooth element")


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:4])
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")
