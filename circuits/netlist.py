"""The netlist: elements, drives, probes and targets, checked for consistency and never changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circuits.findings import DesignError, Finding, error
from devices import GROUND, Detector, Domain, Drive, Element, Part, UnitError, Values, dimension, nearest, to_si
from devices.element import NODE_NAME, PART_NAME

if TYPE_CHECKING:
    import networkx as nx

    from circuits.compile import Design

ALL = "all"
"""Probe every node."""
SETTINGS = ("profile", "learning", "task", "training", "sweep")
"""Sections of design files that are kept as they are, for those who read them."""


@dataclass(frozen=True)
class Probes:
    """Nodes whose positions and momenta the readout sees; "all" means every node."""

    positions: str | tuple[str, ...] = ALL
    momenta: str | tuple[str, ...] = ALL

    def __post_init__(self) -> None:
        for key in ("positions", "momenta"):
            given = getattr(self, key)
            if given != ALL:
                if not isinstance(given, (list, tuple)) or not all(isinstance(n, str) for n in given):
                    raise DesignError([error(f"probes.{key}", 'must be "all" or a list of nodes', "list node names")])
                object.__setattr__(self, key, tuple(given))

    def sees_position(self, node: str) -> bool:
        """Whether the position of `node` is read out."""
        return self.positions == ALL or node in self.positions

    def sees_momentum(self, node: str) -> bool:
        """Whether the momentum of `node` is read out."""
        return self.momenta == ALL or node in self.momenta


@dataclass(frozen=True)
class Target:
    """A node whose position learning compares with a wanted one."""

    name: str
    node: str


@dataclass(frozen=True)
class Initial:
    """State at the start, by node: positions, and momenta or velocities (voltages). What is not named is zero."""

    positions: Mapping[str, Any] = field(default_factory=dict)
    momenta: Mapping[str, Any] = field(default_factory=dict)
    velocities: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Clock:
    """Time step in seconds (None: chosen from the highest frequency) and number of steps."""

    step: Any = None
    steps: int = 1000

    def __post_init__(self) -> None:
        if self.step is not None:
            try:
                object.__setattr__(self, "step", to_si(self.step, "s"))
            except UnitError as problem:
                text = str(problem) if str(problem).startswith("must") else f"cannot be read: {problem}"
                raise DesignError([error("time.step", text, 'give a time such as "5 ps", or "auto"')]) from None
            if self.step <= 0:
                raise DesignError(
                    [error("time.step", "must be greater than 0", 'give a time such as "5 ps", or "auto"')]
                )
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or not 1 <= self.steps <= 10**9:
            raise DesignError([error("time.steps", "must be a whole number from 1 to 1e9", "give the number of steps")])


@dataclass(frozen=True)
class Netlist:
    """A circuit as drawn. Construction refuses what cannot be wired; `compile` refuses what cannot be simulated."""

    name: str
    elements: Sequence[Element]
    drives: Sequence[Drive] = ()
    probes: Probes = field(default_factory=Probes)
    targets: Sequence[Any] = ()
    """Targets, or just the nodes they are at."""
    ground: str = "gnd"
    initial: Initial = field(default_factory=Initial)
    clock: Clock = field(default_factory=Clock)
    detectors: Sequence[Detector] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Sections of the design file for those who learn on it, such as `learning` and `task`; not read here."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or len(self.name) > 200 or not self.name.isprintable():
            raise DesignError([error("design.name", "must be a line of text", "give the design a name")])
        object.__setattr__(self, "elements", tuple(self.elements))
        object.__setattr__(self, "drives", tuple(self.drives))
        object.__setattr__(self, "detectors", tuple(self.detectors))
        targets = tuple(t if isinstance(t, Target) else Target(str(t), str(t)) for t in self.targets)
        object.__setattr__(self, "targets", targets)
        findings = [*self._kinds(), *self._names()]
        if not findings:
            findings = [*self._references(), *self._nodes(), *self._dimensions()]
        if findings:
            raise DesignError(findings)
        object.__setattr__(self, "initial", self._read_initial())

    # Views -------------------------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """Every node but ground, in the order of first mention."""
        seen = dict.fromkeys(node for part in self.elements for node in self.terminals_of(part))
        return tuple(node for node in seen if node != self.ground)

    @cached_property
    def held(self) -> frozenset[str]:
        """Nodes whose velocity a voltage source prescribes."""
        return frozenset(n for d in self.drives if d.action == "prescribe" for n in self.terminals_of(d))

    @cached_property
    def by_name(self) -> Mapping[str, Element]:
        """Elements by name."""
        return {e.name: e for e in self.elements}

    @cached_property
    def domains(self) -> Mapping[str, Domain]:
        """Domain of every node but ground; a node that only domain-free elements touch counts as electrical."""
        found = {n: e.domain for e in self.elements if e.domain for n in self.terminals_of(e)}
        from devices import ELECTRICAL

        return {n: found.get(n, ELECTRICAL) for n in self.nodes}

    def terminals_of(self, part: Part) -> tuple[str, ...]:
        """Nodes of a part, open terminals resolved to ground."""
        return tuple(self.ground if node == GROUND else node for node in part.nodes)

    def lender(self, part: Element, borrowed: str) -> Element | None:
        """The element from which `part` takes what its energy borrows under this name."""
        end, wanted = part.borrows[borrowed]
        return self._lenders.get((self.terminals_of(part)[end], wanted))

    @cached_property
    def _lenders(self) -> Mapping[tuple[str, str], Element]:
        return {(node, name): e for e in self.elements for name in e.lends for node in self.terminals_of(e)}

    def numbers_of(self, part: Element) -> Values:
        """Parameters and constants of an element in SI, with what it borrows."""
        numbers = part.numbers
        for name, (_, wanted) in part.borrows.items():
            lender = self.lender(part, name)
            if lender is not None:
                setattr(numbers, name, lender.lent(lender.numbers, wanted))
        return numbers

    def replace(self, **changes: Any) -> Netlist:
        """The same netlist with some fields changed."""
        return replace(self, **changes)

    # Verbs -------------------------------------------------------------------------------------------------------

    def compile(self, *, step: Any = None, steps: int | None = None) -> Design:
        """Compile into a separable Hamiltonian, or raise `DesignError` with the findings."""
        from circuits.compile import compile_netlist

        clock = Clock(self.clock.step if step is None else step, self.clock.steps if steps is None else steps)
        return compile_netlist(self.replace(clock=clock))

    def to_graph(self) -> nx.MultiGraph:
        """Multigraph with a node per circuit node and an edge per element."""
        from circuits.graph import to_graph

        return to_graph(self)

    @staticmethod
    def from_graph(graph: nx.MultiGraph) -> Netlist:
        """Netlist of a multigraph made by `to_graph` or in its manner."""
        from circuits.graph import from_graph

        return from_graph(graph)

    @staticmethod
    def load(path: str | Path) -> Netlist:
        """Read a design file (.toml), a SPICE netlist (.cir, .sp), or a built-in design by name."""
        from circuits.formats import load

        return load(path)

    def to_toml(self) -> str:
        """The netlist as a design file."""
        from circuits.formats.toml import write

        return write(self)

    def to_spice(self) -> str:
        """The netlist in SPICE's language, ngspice dialect."""
        from circuits.formats.spice import write

        return write(self)

    # Checks ------------------------------------------------------------------------------------------------------

    def _kinds(self) -> Iterator[Finding]:
        if not isinstance(self.ground, str) or not NODE_NAME.fullmatch(self.ground):
            yield error("design.ground", "must be a node name without spaces", 'name the ground node, such as "gnd"')
        if not self.elements:
            yield error("elements", "there are none", "add at least one element")
        kinds: tuple[tuple[Sequence[object], type[Part], str], ...] = (
            (self.elements, Element, "an element, built with a class such as Capacitor"),
            (self.drives, Drive, "a drive, built with a class such as CurrentDrive"),
            (self.detectors, Detector, "a detector, built with a class such as Homodyne"),
        )
        for parts, kind, wanted in kinds:
            for part in parts:
                if not isinstance(part, kind):
                    yield error(str(part)[:40], f"must be {wanted}", "build it so")

    def _names(self) -> Iterator[Finding]:
        parts = [*self.elements, *self.drives, *self.detectors]
        for target in self.targets:
            if not PART_NAME.fullmatch(target.name):
                yield error(
                    f"targets.{target.name!r}"[:60],
                    "must be named by a letter and letters, digits or . _ + - / # : [ ]",
                    "rename it",
                )
        for what, names in (("part", [p.name for p in parts]), ("target", [t.name for t in self.targets])):
            for name, count in Counter(names).items():
                if count > 1:
                    yield error(name, f"{count} {what}s have this name", "give each its own name")

    def _references(self) -> Iterator[Finding]:
        pairs = Counter(
            frozenset((getattr(e, "first", ""), getattr(e, "second", ""))) for e in self.elements if e.type == "mutual"
        )
        for part in (*self.elements, *self.drives):
            for key in part.references:
                wanted = getattr(part, key)
                other = self.by_name.get(wanted)
                if other is None:
                    known = [e.name for e in self.elements if e.type == "inductor" or part.type != "mutual"]
                    yield error(
                        part.name,
                        f"refers to `{wanted}`, which is no element{nearest(wanted, known)}",
                        "name an existing element",
                    )
                elif part.type == "mutual" and other.type != "inductor":
                    yield error(part.name, f"couples `{wanted}`, which is a {other.type}", "couple two plain inductors")
                elif isinstance(part, Drive) and part.feeds and other.type not in part.feeds:
                    yield error(
                        part.name, f"feeds `{wanted}`, which is a {other.type}", f"name a {' or '.join(part.feeds)}"
                    )
                elif part.type == "flux" and (other.potential is None or other.domain is not part.domain):
                    yield error(
                        part.name,
                        f"threads `{wanted}`, which is a {other.type}",
                        "thread an inductor, a saturable inductor or a junction",
                    )
            if part.type == "mutual":
                pair = frozenset(getattr(part, key) for key in part.references)
                if len(pair) == 1:
                    yield error(part.name, "couples an inductor to itself", "name two different inductors")
                elif pairs[pair] > 1:
                    yield error(part.name, "couples a pair that another mutual couples already", "keep one of them")

    def _nodes(self) -> Iterator[Finding]:
        domains: dict[str, tuple[Domain, str]] = {}
        for part in (*self.elements, *self.drives, *self.detectors):
            ends = self.terminals_of(part)
            if len(ends) == 2 and ends[0] == ends[1]:
                yield error(part.name, f"both ends are at node `{ends[0]}`", "join two different nodes")
            if len(ends) == 1 and ends[0] == self.ground:
                yield error(part.name, "its only terminal is at ground", "name a node")
            for node in ends:
                if node == self.ground:
                    continue
                if not isinstance(part, Element) and node not in self.nodes:
                    yield error(
                        part.name, f"node `{node}` does not exist{nearest(node, self.nodes)}", "name an existing node"
                    )
                if part.domain is not None:
                    first, owner = domains.setdefault(node, (part.domain, part.name))
                    if first is not part.domain:
                        yield error(
                            part.name,
                            f"is {part.domain.name}, but node `{node}` is {first.name} by {owner}",
                            "use another node, and join the two by a bilinear coupler",
                        )
        for node, count in Counter(n for d in self.drives if d.action == "prescribe" for n in d.nodes).items():
            if count > 1:
                yield error(f"node {node}", f"{count} voltage sources hold it", "keep one of them")
        lists: Iterable[tuple[str, Iterable[str]]] = (
            *(
                (f"probes.{k}", getattr(self.probes, k))
                for k in ("positions", "momenta")
                if getattr(self.probes, k) != ALL
            ),
            *((f"targets.{t.name}", (t.node,)) for t in self.targets),
            *((f"initial.{k}", getattr(self.initial, k)) for k in ("positions", "momenta", "velocities")),
        )
        for where, nodes in lists:
            for node in nodes:
                if node not in self.nodes:
                    yield error(
                        where, f"node `{node}` does not exist{nearest(node, self.nodes)}", "name an existing node"
                    )

    def _dimensions(self) -> Iterator[Finding]:
        """The dimension of a coupler depends on what it joins: energy over the product of the two coordinates."""
        for part in self.elements:
            for key, found in part.given_dimensions.items():
                units = [self.domains[n].position_unit for n in self.terminals_of(part) if n != self.ground]
                due = tuple(e - sum(d) for e, *d in zip(dimension("J"), *map(dimension, units), strict=True))
                if found != due:
                    wanted = coupling_unit(units)
                    yield error(
                        part.name,
                        f"`{key}` must be an energy per product of coordinates, {wanted}",
                        f"give it in {wanted}, or as a bare number in SI",
                    )

    def _read_initial(self) -> Initial:
        findings, read = [], {}
        for key in ("positions", "momenta", "velocities"):
            values = {}
            for node, given in getattr(self.initial, key).items():
                domain = self.domains[node]
                unit = {
                    "positions": domain.position_unit,
                    "momenta": domain.momentum_unit,
                    "velocities": domain.velocity_unit,
                }[key]
                try:
                    values[node] = to_si(given, unit)
                except UnitError as problem:
                    text = str(problem) if str(problem).startswith("must") else f"cannot be read: {problem}"
                    findings.append(error(f"initial.{key}.{node}", text, f"give it in {unit}"))
            read[key] = values
        for key in read:
            for node in set(read[key]) & self.held:
                findings.append(error(f"initial.{key}.{node}", "a voltage source holds the node", "remove it"))
        for node in read["velocities"]:
            if not (domain := self.domains[node]).inertial:
                reason = f"a {domain.name} node has no inertia of its own that a velocity would set in motion"
                findings.append(
                    error(f"initial.velocities.{node}", reason, f"give its {domain.momentum} as a momentum")
                )
        if read["momenta"] and read["velocities"]:
            findings.append(error("initial", "has both momenta and velocities", "give all as one of the two"))
        if findings:
            raise DesignError(findings)
        return Initial(**read)


def coupling_unit(positions: Iterable[str]) -> str:
    """Unit of an energy per product of positions with these units."""
    return "/".join(["J", *(u for u in positions if u)])
