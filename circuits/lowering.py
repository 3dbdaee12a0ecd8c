"""From the netlist as drawn to one whose energies can be written down at once.

Photonic circuits leave two choices to the compiler: in which form a Kerr nonlinearity enters, which the frame of its
node decides, and the phases of the couplings. A phase on a tree of couplings is a matter of how the quadratures of the
nodes are named, and is gauged away; around a loop only the total matters, and unless it is 0 or π it breaks time
reversal: docs/physics.md, section 9.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import cos, pi, sin

import networkx as nx

from circuits.findings import Finding, error, note, warning
from circuits.netlist import Initial, Netlist
from devices import PHOTONIC, CoherentDrive, Element, ElementError, EvanescentCoupler, Homodyne
from devices.photonic import HBAR

FLUX_TOLERANCE = 1e-9
"""How close to 0 or π a loop flux must come, in radians."""


@dataclass(frozen=True)
class Lowered:
    """A netlist ready for assembly."""

    netlist: Netlist
    frames: Mapping[str, float]
    """Frequency (Hz) with which the frame of a photonic node rotates; 0 in the laboratory."""

    @property
    def rotating(self) -> frozenset[str]:
        """Nodes in rotating frames."""
        return frozenset(n for n, frequency in self.frames.items() if frequency > 0)


def lower(netlist: Netlist) -> tuple[Lowered | None, list[Finding]]:
    """The netlist with its choices made, and findings that tell them, or say why there are none."""
    frames = {
        node: part.frame(part.numbers)
        for part in netlist.elements
        if part.frame is not None
        for node in netlist.terminals_of(part)
    }
    findings = [*_bodies(netlist), *_frames(netlist, frames)]
    if findings:
        return None, findings
    parts: list[Element] = []
    reasons: dict[str, list[str]] = {}
    for part in netlist.elements:
        try:
            chosen = part.lowered(frames.get(netlist.terminals_of(part)[0], 0.0)) if part.terminals else None
        except ElementError as problem:
            return None, [error(part.name, f"`{problem.key}` {problem.message}", problem.remedy)]
        parts.append(part if chosen is None else chosen[0])
        if chosen is not None:
            reasons.setdefault(chosen[1], []).append(part.name)
    for reason, names in reasons.items():
        shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
        findings.append(note(shown, reason))
    gauged, found = _gauged(netlist.replace(elements=tuple(parts)))
    findings += found
    return None if gauged is None else Lowered(gauged, frames), findings


def _bodies(netlist: Netlist) -> Iterator[Finding]:
    """Where momentum is a quadrature of its own, a node must have one thing that moves, and not two."""
    bodies: dict[str, list[str]] = {n: [] for n in netlist.nodes}
    for part in netlist.elements:
        if part.body:
            for node in netlist.terminals_of(part):
                bodies[node].append(part.name)
    for node, names in bodies.items():
        domain = netlist.domains[node]
        if len(names) > 1:
            yield error(names[1], f"shares node {node} with {names[0]}: each is a mode of its own", "use another node")
        elif not names and not domain.inertial:
            what = {"photonic": "resonator", "spin": "magnet"}.get(domain.name, "vortex or skyrmion")
            yield error(f"node {node}", f"is {domain.name}, but has no {what} that could move", f"put a {what} there")


def _frames(netlist: Netlist, frames: Mapping[str, float]) -> Iterator[Finding]:
    for part in netlist.elements:
        ends = netlist.terminals_of(part)
        if part.domain is PHOTONIC and len(ends) == 2:
            if netlist.ground in ends:
                yield error(part.name, "couples a mode to ground, which has none", "join two resonators")
            elif len({frames.get(n) for n in ends}) == 2 and all(n in frames for n in ends):
                first, second = (f"{frames[n]:.10g} Hz" if frames[n] else "the laboratory" for n in ends)
                yield error(
                    part.name,
                    f"joins frames that differ: {ends[0]} is in that of {first}, {ends[1]} in that of {second}",
                    "use one `carrier` for all coupled rings, or cavities throughout",
                )
        elif part.rotating is not None and part.rotating != (frames.get(ends[0], 0) > 0):
            form, wanted = ("rotating", "ring") if part.rotating else ("laboratory", "cavity")
            yield error(part.name, f"holds in a {form} frame only, on a {wanted}", "use `kerr`, which fits its frame")
        elif part.domain is None and any(frames.get(n, 0) > 0 for n in ends):
            node = next(n for n in ends if frames.get(n, 0) > 0)
            yield error(
                part.name,
                f"couples one quadrature of node {node}, whose frame rotates: with detunings of both signs that is "
                "unstable, and in any case the carrier would average it away",
                "couple rings by `evanescent`, in both quadratures, or use a `cavity` in the laboratory frame",
            )


# Gauge ------------------------------------------------------------------------------------------------------------


def _gauged(netlist: Netlist) -> tuple[Netlist | None, list[Finding]]:
    phased = {e.name: e.phase for e in netlist.elements if isinstance(e, EvanescentCoupler)}
    findings = [
        error(e.name, "`phase` cannot be trained: it is gauged away, or breaks time reversal", "train `rate`")
        for e in netlist.elements
        if e.name in phased and "phase" in e.trainable
    ]
    if findings or not any(phased.values()):
        return (None if findings else netlist), findings
    graph = nx.MultiGraph()
    for part in netlist.elements:
        ends = netlist.terminals_of(part)
        if part.domain is PHOTONIC and len(ends) == 2:
            # Couplers without a phase come first into the tree, so that it is a phase that closes a loop.
            graph.add_edge(
                *ends, key=part.name, phase=phased.get(part.name, 0.0), a=ends[0], weight=part.name in phased
            )
    tree = nx.minimum_spanning_tree(graph)
    angles = _angles(tree, _roots(netlist))
    residual = {}
    for a, b, name, data in graph.edges(keys=True, data=True):
        first, second = (a, b) if data["a"] == a else (b, a)
        residual[name] = (data["phase"] - angles[first] + angles[second]) % (2 * pi)
        if min(residual[name], 2 * pi - residual[name], abs(residual[name] - pi)) > FLUX_TOLERANCE:
            loop = nx.shortest_path(tree, first, second)
            findings.append(
                error(
                    name,
                    f"the loop {' – '.join([*loop, first])} has a flux of {residual[name]:.4g} rad: other than 0 and π "
                    "it breaks time reversal, and the echo does not retrace",
                    "change the phases so that they add up to 0 or π around the loop",
                )
            )
    findings += _one_sided(netlist, angles)
    if findings:
        return None, findings
    signs = {name: pi if abs(residual[name] - pi) < 1 else 0.0 for name in phased}
    turned = {n: angle for n, angle in angles.items() if abs(sin(angle / 2)) > FLUX_TOLERANCE}
    findings += _told(netlist, turned)
    return netlist.replace(
        elements=tuple(
            replace(e, phase=signs[e.name]) if isinstance(e, EvanescentCoupler) else e for e in netlist.elements
        ),
        drives=tuple(
            replace(d, angle=d.angle - turned.get(d.node, 0.0)) if isinstance(d, CoherentDrive) else d
            for d in netlist.drives
        ),
        detectors=tuple(
            replace(d, angle=d.angle - turned.get(d.node, 0.0)) if isinstance(d, Homodyne) else d
            for d in netlist.detectors
        ),
        initial=_turned_initial(netlist.initial, turned),
    ), findings


def _roots(netlist: Netlist) -> list[str]:
    """Nodes whose quadratures should keep their names, most important first."""
    joined = [n for e in netlist.elements if e.domain is None for n in netlist.terminals_of(e)]
    return [*joined, *(t.node for t in netlist.targets), *(n for d in netlist.drives for n in netlist.terminals_of(d))]


def _angles(tree: nx.MultiGraph, roots: list[str]) -> dict[str, float]:
    """By how much the phases along the trees turn each node against its root."""
    angles: dict[str, float] = {}
    for root in (*roots, *tree):
        if root not in tree or root in angles:
            continue
        angles[root] = 0.0
        for a, b in nx.bfs_edges(tree, root):
            (data,) = tree[a][b].values()
            # K_ab = J·e^(iφ) between a_a and a_b; with a = e^(iχ)·a′ the phase becomes φ − χ_a + χ_b.
            angles[b] = angles[a] - data["phase"] if data["a"] == a else angles[a] + data["phase"]
    return angles


def _one_sided(netlist: Netlist, angles: Mapping[str, float]) -> Iterator[Finding]:
    for part in netlist.elements:
        for node in netlist.terminals_of(part) if part.domain is None else ():
            if abs(sin(angles.get(node, 0.0) / 2)) > FLUX_TOLERANCE:
                yield error(
                    part.name,
                    f"couples one quadrature of node {node}, which the coupling phases turn against another such node",
                    "set the phases between the two to 0",
                )


def _told(netlist: Netlist, turned: Mapping[str, float]) -> Iterator[Finding]:
    if not turned:
        return
    shown = ", ".join(f"{n} by {angle:.4g} rad" for n, angle in list(turned.items())[:6])
    more = f" and {len(turned) - 6} more" if len(turned) > 6 else ""
    yield note(
        "design",
        f"coupling phases are gauged away: the quadratures of node {shown}{more} are turned; coherent drives, homodyne "
        "detectors and initial states are turned with them, positions and momenta are those of the turned quadratures",
    )
    for target in netlist.targets:
        if target.node in turned:
            yield warning(
                f"targets.{target.name}",
                f"the position of node {target.node} is that of a quadrature turned by {turned[target.node]:.4g} rad",
                "mean that quadrature, or choose other phases",
            )


def _turned_initial(initial: Initial, turned: Mapping[str, float]) -> Initial:
    positions, momenta = dict(initial.positions), dict(initial.momenta)
    for node, angle in turned.items():
        if node in positions or node in momenta:
            x, y = positions.get(node, 0.0), momenta.get(node, 0.0) / HBAR
            positions[node] = x * cos(angle) + y * sin(angle)
            momenta[node] = HBAR * (y * cos(angle) - x * sin(angle))
    return Initial(positions, momenta, initial.velocities)
