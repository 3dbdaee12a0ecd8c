"""The chips that were really made: a design as its profile's fabrication and losses leave it.

What changes the circuit (dead elements, losses, stray couplings) becomes a netlist of its own, compiled like any other,
so that loss and noise are those of the elements. What changes only its values becomes a set of parameters per chip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from circuits.assemble import Entry
from circuits.linear import stiffness_matrix
from devices import BilinearCoupler, Element, EvanescentCoupler, nearest
from rhel_hw.bench import Limits
from rhel_hw.lossy import lossy_elements
from rhel_hw.profile import Dynamics, Fabrication, Profile, ProfileError

Table = NDArray[np.float64]

FABRICATED, STRAY, DIRECTION, FLICKER, ROUNDING = range(5)
"""Streams of random numbers, so that switching one imperfection on leaves the draws of the others alone."""
OCTAVES = 16
"""Of 1/f noise: the slowest part changes every 2¹⁵ passes."""


# The circuit ------------------------------------------------------------------------------------------------------


def made(design: Design, profile: Profile) -> Design:
    """The circuit as made: the design itself if nothing but values differs."""
    dynamics = profile.dynamics
    structural = Profile(
        fabrication=replace(Fabrication(), dead=profile.fabrication.dead, parasitic=profile.fabrication.parasitic),
        dynamics=replace(Dynamics(), quality=dynamics.quality, damping=dynamics.damping, linewidth=dynamics.linewidth),
    )
    return design if structural.ideal else _made(design, structural)


@lru_cache(maxsize=64)
def _made(design: Design, profile: Profile) -> Design:
    """Compiled once per design and kind of chip, so that compiled programs are found again."""
    netlist, dynamics = design.netlist, profile.dynamics
    elements = {e.name: e for e in netlist.elements}
    for name in profile.fabrication.dead:
        if name not in elements:
            raise ProfileError("fabrication.dead", f"must name elements, but has {name!r}{nearest(name, elements)}")
        del elements[name]
    elements = lossy_elements(design, elements, dynamics)
    if profile.fabrication.parasitic > 0:
        elements |= {e.name: e for e in _strays(design)}
    return netlist.replace(elements=tuple(elements.values())).compile(step=design.step_s, steps=design.steps)


def _strays(design: Design) -> Iterator[Element]:
    """Couplers of strength zero between nodes up to two elements apart; chips give them their strengths."""
    graph: nx.Graph = nx.Graph()
    netlist, moving = design.netlist, set(design.hamiltonian.names)
    for part in netlist.elements:
        graph.add_edges_from(combinations([n for n in netlist.terminals_of(part) if n in moving], 2))
    turning = dict(zip(design.hamiltonian.names, design.assembly.rotating, strict=True))
    near = dict(nx.all_pairs_shortest_path_length(graph, cutoff=2))
    for a, b in combinations(design.hamiltonian.names, 2):
        if b in near.get(a, ()) and turning[a] == turning[b]:
            yield (EvanescentCoupler if turning[a] else BilinearCoupler)(f"stray/{a}-{b}", a, b, 0.0)


# Its values -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Chips:
    """Some chips of one design, by their numbers, and how they come by their parameters."""

    nominal: Design
    profile: Profile | tuple[Profile, ...]
    """Of all chips, or of each; then they are alike in what `ALIKE` names."""
    seed: int
    numbers: tuple[int, ...]
    design: Design = field(init=False)
    """As made; of chips with different losses that of the first, with parameters for all."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "design", made(self.nominal, self.profiles[0]))
        known = {*self._by_name, *(e.name for e in self.nominal.netlist.elements)}
        for name in self.profiles[0].fabrication.stuck:
            if name not in known:
                raise ProfileError(
                    "fabrication.stuck", f"must name elements or parameters, but has {name!r}{nearest(name, known)}"
                )
        assert len(self._spread) == len(self._by_name)  # which refuses what it does not know

    @property
    def count(self) -> int:
        """Number of chips."""
        return len(self.numbers)

    @cached_property
    def profiles(self) -> tuple[Profile, ...]:
        """Of every chip."""
        return self.profile if isinstance(self.profile, tuple) else (self.profile,) * len(self.numbers)

    @cached_property
    def limits(self) -> dict[str, Limits]:
        """Between which values each trainable parameter can be programmed."""
        found = {}
        reach = self.profiles[0].fabrication.range
        for e in self.nominal.assembly.entries:
            if e.trainable:
                value = self.nominal.assembly.theta[e.key][e.index] * e.scale
                if e.bounds is not None:
                    low, high = (b * e.scale for b in e.bounds)
                elif e.positive:
                    low, high = value / reach, value * reach
                else:
                    high = reach * (abs(value) or e.scale)
                    low = -high
                found[e.name] = Limits(e.unit, float(low), float(high))
        return found

    def theta(
        self, programmed: Mapping[str, Any], *, passes: NDArray[np.intp] | None = None, programmings: int = 0
    ) -> dict[str, Table]:
        """Parameters of all chips, dimensionless in the units of the design as made.

        `programmed` are SI values, one or one per chip. The arrays are (count,) where all chips are alike, (count,
        chips) otherwise, and (count, passes·chips) if the numbers of several passes are given.
        """
        relative = self._relative(passes, programmings)
        resolved = {k: v for k, v in programmed.items() if not self._stuck(k)}
        lanes = self.count if relative is None else relative.shape[1]
        theta = {k: np.array(v, float) for k, v in self._made_of.items()}
        varied = relative is not None or self._strays or any(np.ndim(v) for v in resolved.values())
        for knob in (lambda p: p.dynamics.temperature, lambda p: p.echo.pump_error):  # which meet them in the bath
            varied = varied or len(self.of_chips(knob)) > 1
        if varied or any(v.ndim == 2 for v in theta.values()):
            repeats = lanes // self.count
            theta = {
                k: np.tile(v, (1, repeats)) if v.ndim == 2 else np.repeat(v[:, None], lanes, axis=1)
                for k, v in theta.items()
            }

        def spread(value: Any) -> Any:
            return np.tile(value, lanes // self.count) if np.ndim(value) else value

        for e in self.design.assembly.entries:
            if e.name in resolved:
                theta[e.key][e.index] = spread(resolved[e.name]) / e.scale
            if e.name in self._strays:
                theta[e.key][e.index] = spread(self._strays[e.name]) / e.scale
            elif relative is not None and e.name in self._by_name:
                theta[e.key][e.index] = theta[e.key][e.index] * (1 + relative[self._by_name[e.name]])
        return {k: v[:, 0] if v.ndim == 2 and v.shape[1] == 1 else v for k, v in theta.items()}

    def factors(self, programmings: int = 0) -> dict[str, Any]:
        """By what trainable parameters come out larger than programmed, (chips,) or one for all; 0 where stuck."""
        relative = self._relative(None, programmings)
        found = {}
        for name in self.limits:
            own = 1.0 if relative is None else 1 + relative[self._by_name[name]]
            found[name] = 0.0 if self._stuck(name) else own
        return found

    @property
    def wandering(self) -> bool:
        """Whether parameters change from pass to pass."""
        return any(p.dynamics.drift > 0 or p.dynamics.flicker > 0 for p in self.kinds[0])

    @cached_property
    def kinds(self) -> tuple[tuple[Profile, ...], NDArray[np.intp]]:
        """Profiles that differ, and which of them each chip has."""
        objects = {id(p): p for p in self.profiles}  # to compare profiles by value takes long
        places: dict[Profile, int] = {}
        known = {i: places.setdefault(p, len(places)) for i, p in objects.items()}
        return tuple(places), np.array([known[id(p)] for p in self.profiles], np.intp)

    def of_chips(self, value: Callable[[Profile], Any]) -> Table:
        """What profiles say, (…, chips), or (…, 1) if they all say the same."""
        profiles, which = self.kinds
        found = [np.asarray(value(p), float) for p in profiles]
        if all(np.array_equal(found[0], other) for other in found[1:]):
            return found[0][..., None]
        return np.stack(found, axis=-1)[..., which]

    @cached_property
    def _made_of(self) -> dict[str, Table]:
        """Parameters as made, before fabrication spreads them: (count,), or (count, chips) if losses differ."""
        kinds = {(p.fabrication, p.dynamics): p for p in self.kinds[0]}  # others have no part in it
        designs = {kind: made(self.nominal, p) for kind, p in kinds.items()}
        first = self.design.assembly
        for design in designs.values():
            other = design.assembly
            if other.units != first.units or not np.array_equal(other.factors, first.factors):
                raise ProfileError("dynamics", "must be one for all chips here: their losses change the units")

        def values(key: str) -> Table:
            found = self.of_chips(lambda p: designs[p.fabrication, p.dynamics].assembly.theta[key])
            return found[:, 0] if found.shape[1] == 1 else found

        return {key: values(key) for key in first.theta}

    @cached_property
    def _by_name(self) -> dict[str, int]:
        """Parameters that fabrication spreads, by their place among the nominal ones."""
        return {e.name: i for i, e in enumerate(self.nominal.assembly.entries)}

    def _stuck(self, name: str) -> bool:
        stuck = self.profiles[0].fabrication.stuck
        return name in stuck or name.rsplit(".", 1)[0] in stuck

    def resolved(self, name: str, value: Any, programmings: int) -> Any:
        """A value on the grid that can be programmed, in this programming."""
        fabrication = self.profiles[0].fabrication
        if fabrication.bits is None:
            return value
        limits = self.limits[name]
        levels = 2.0 ** self.of_chips(lambda p: p.fabrication.bits)
        levels = levels[0] if len(levels) == 1 else levels
        step = (limits.high - limits.low) / (levels - 1)
        codes = (np.asarray(value) - limits.low) / step
        if fabrication.rounding == "stochastic":
            codes = np.floor(codes + self._uniform(ROUNDING, programmings)[self._by_name[name]])
        return limits.low + step * np.clip(np.round(codes), 0, levels - 1)

    def _relative(self, passes: NDArray[np.intp] | None, programmings: int) -> Table | None:
        """Relative deviation of every nominal parameter, (parameters, chips or passes·chips); None if there is none."""
        total = None
        if np.any(self._spread):
            total = self._mismatch
        moving, drifting, flickering = (
            self.of_chips(lambda p, k=k: getattr(p.dynamics, k))  # type: ignore[misc]
            for k in ("gradient_drift", "drift", "flicker")
        )
        if np.any(moving):
            total = (0.0 if total is None else total) + moving * programmings * self._direction
        if passes is None or not self.wandering:
            return total
        moved = [drifting * n * self._direction for n in passes]
        if np.any(flickering):
            moved = [m + flickering * self._flicker(int(n)) for m, n in zip(moved, passes, strict=True)]
        still = 0.0 if total is None else total
        return np.concatenate([still + each for each in moved], axis=1)

    @cached_property
    def _spread(self) -> Table:
        """Relative standard deviation of every nominal parameter, (parameters, chips) or (parameters, 1)."""
        known = {s: self._spread_by(s) for s in {p.fabrication.mismatch for p in self.kinds[0]}}
        return self.of_chips(lambda p: known[p.fabrication.mismatch])

    def _spread_by(self, setting: Any) -> Table:
        entries = self.nominal.assembly.entries
        usual = np.array([self._is_usual(e) for e in entries], bool)
        if setting == "tolerance":
            return np.array([e.tolerance for e in entries])
        if not isinstance(setting, tuple):
            return np.where(usual, setting, 0.0)
        spread = np.zeros(len(entries))
        # The narrower a name, the more it counts: types come first, single parameters last.
        for name, value in sorted(setting, key=lambda item: self._narrowness(item[0])):
            meant = [self._is_meant(e, name, usual[i]) for i, e in enumerate(entries)]
            if not any(meant):
                known = {n for e in entries for n in (e.name, e.key, e.name.rsplit(".", 1)[0], e.key.split(".")[0])}
                raise ProfileError(
                    "fabrication.mismatch", f"must name elements or parameters, but has {name!r}{nearest(name, known)}"
                )
            spread = np.where(meant, value, spread)
        return spread

    def _is_usual(self, e: Entry) -> bool:
        element, parameter = e.name.rsplit(".", 1)
        info = self.nominal.assembly.netlist.by_name[element].parameters[parameter]
        return info.stored and (info.knob or e.trainable)

    def _narrowness(self, name: str) -> int:
        """Of a type 0, of a parameter of a type 1, of an element 2, of a parameter of an element 3."""
        element = name in self._by_name or name in self.nominal.netlist.by_name
        return 2 * element + (name in self._by_name if element else "." in name)

    @staticmethod
    def _is_meant(e: Entry, name: str, usual: bool) -> bool:
        return name in (e.name, e.key) or (usual and name in (e.name.rsplit(".", 1)[0], e.key.split(".")[0]))

    @cached_property
    def _mismatch(self) -> Table:
        return np.asarray(self._spread * self._normal(FABRICATED))

    @cached_property
    def _direction(self) -> Table:
        return self._normal(DIRECTION)

    def _normal(self, *stream: int) -> Table:
        """Standard normal numbers, (parameters, chips)."""
        return self.drawn(lambda r: r.normal(size=len(self._by_name)), *stream)

    def _uniform(self, *stream: int) -> Table:
        return self.drawn(lambda r: r.uniform(size=len(self._by_name)), *stream)

    def drawn(self, draw: Callable[[np.random.Generator], Table], *stream: int) -> Table:
        """What every chip draws from a stream of its own, (…, chips)."""
        found = {n: draw(np.random.default_rng([self.seed, n, *stream])) for n in dict.fromkeys(self.numbers)}
        return np.stack([found[n] for n in self.numbers], axis=-1)

    def _flicker(self, number: int) -> Table:
        """1/f noise by Voss: octave m is drawn anew every 2ᵐ passes, which needs no memory of earlier ones."""
        octaves = [self._normal(FLICKER, m, number >> m) for m in range(OCTAVES)]
        return np.asarray(np.sum(octaves, axis=0) / OCTAVES**0.5)

    @cached_property
    def _strays(self) -> dict[str, Table]:
        """Strengths of stray couplings in SI, (chips,) each."""
        parts = [e for e in self.design.netlist.elements if e.name.startswith("stray/")]
        if not parts:
            return {}
        sizes = _stiffnesses(self.design)
        draws = self.drawn(lambda r: r.normal(size=len(parts)), STRAY)
        turning = dict(zip(self.design.hamiltonian.names, self.design.assembly.rotating, strict=True))
        scale = self.of_chips(lambda p: p.fabrication.parasitic)
        found = {}
        for part, draw in zip(parts, draws, strict=True):
            a, b = part.nodes
            if turning[a]:
                rate = self.design.highest / (2 * np.pi * self.design.assembly.units.time)
                found[f"{part.name}.rate"] = scale * rate * draw
            else:
                found[f"{part.name}.strength"] = scale * np.sqrt(sizes[a] * sizes[b]) * draw
        return found


def _stiffnesses(design: Design) -> dict[str, float]:
    """Stiffness of every coordinate in SI."""
    assembly = design.assembly
    diagonal = stiffness_matrix(assembly, largest=True).diagonal()
    found = {}
    for i, node in enumerate(assembly.coordinates.dynamic):
        size = assembly.factors[i] * assembly.units.scale(assembly.netlist.domains[node].position_unit)
        found[node] = float(abs(diagonal[i])) * assembly.units.energy / size**2
    return found
