"""Netlists of rings from the geometry of a sax netlist alone, drawn by hand or by another tool.

`straight` and `coupler_ideal` instances form rails: through an instance light stays on its rail. Closed rails are
rings, open ones buses. The formulas of `waveguide` are read backwards: a ring's frequency is the resonance nearest to
the carrier, c over the `wl0` of its guides; couplings are rates, buses and losses are quality factors. sax's coupler
passes light with a factor i, so at stops of phase θ_a and θ_b along the two rings K_ab = −J·e^(i(θ_b − θ_a)): the
`phase`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from circuits.findings import DesignError, Finding, error
from circuits.formats.waveguide import LIGHT
from circuits.netlist import Netlist
from devices import EvanescentCoupler, Ring

SETTINGS = {"straight": ("length", "neff", "ng", "wl0"), "coupler_ideal": ("coupling",)}
"""Components that are understood, with the settings that they need."""
RAILS = {"straight": ("0",), "coupler_ideal": ("0", "1")}
GUIDE = ("neff", "ng", "wl0", "loss_dB_cm")


@dataclass(frozen=True)
class Pass:
    """One way of light through a rail of an instance: forwards from in to out, or backwards."""

    instance: str
    rail: str
    forwards: bool

    @property
    def turned(self) -> Pass:
        """The same the other way."""
        return Pass(self.instance, self.rail, not self.forwards)

    @property
    def entry(self) -> str:
        """Port at which light comes in."""
        return f"{self.instance},{'in' if self.forwards else 'out'}{self.rail}"


def trace(data: Mapping[str, Any], name: str) -> Netlist:
    """Netlist of a sax netlist's instances, connections and ports, or `DesignError` with what is not understood."""
    instances = data["instances"]
    if findings := list(_unknown(instances)):
        raise DesignError(findings)
    rings, buses = _rails(instances, _partners(data, instances))
    rings = _aligned(rings, instances)
    owners = {(p.instance, p.rail): i for i, ring in enumerate(rings) for p in ring}
    on_bus = {(p.instance, p.rail) for bus in buses for p in bus}
    carriers = {instances[p.instance]["settings"]["wl0"] for ring in rings for p in ring if _is_guide(instances, p)}
    if len(carriers) != 1:
        raise _refusal("instances", "have no `straight` in a ring, or several `wl0`", "give all guides one `wl0`")
    carrier = LIGHT / (carriers.pop() * 1e-6)
    loops = [_Loop.of(ring, instances, carrier) for ring in rings]
    outer = [0.0] * len(loops)
    couplers = []
    for where, instance in instances.items():
        if instance["component"] != "coupler_ideal":
            continue
        power, ends = float(instance["settings"]["coupling"]), [owners.get((where, rail)) for rail in "01"]
        a, b = ends
        if a is not None and b is not None and a != b:
            hop = math.asin(math.sqrt(power)) / math.sqrt(loops[a].time * loops[b].time)
            phase = (loops[b].phases[where] - loops[a].phases[where] + math.pi) % (2 * math.pi)
            couplers.append(EvanescentCoupler(where, f"a{a}", f"a{b}", hop / (2 * math.pi), phase))
        elif a == b and a is not None:
            raise _refusal(f"instances.{where}", "couples a ring to itself", "remove it")
        elif (index := a if a is not None else b) is not None and (where, "1" if a is not None else "0") in on_bus:
            outer[index] -= math.log1p(-power) / loops[index].time
        elif index is None:
            raise _refusal(f"instances.{where}", "touches no ring", "remove it")
    parts = [
        _ring(f"ring{i}", f"a{i}", carrier, loop, rate) for i, (loop, rate) in enumerate(zip(loops, outer, strict=True))
    ]
    return Netlist(str(data.get("name") or name), [*parts, *couplers])


@dataclass(frozen=True)
class _Loop:
    frequency: float
    time: float
    inner: float
    phases: Mapping[str, float]
    """Phase along the light at every coupler, at the resonance."""

    @classmethod
    def of(cls, ring: list[Pass], instances: Mapping[str, Any], carrier: float) -> _Loop:
        guides = [instances[p.instance]["settings"] for p in ring if _is_guide(instances, p)]
        if len({tuple(g.get(k, 0.0) for k in GUIDE) for g in guides}) != 1:
            raise _refusal(f"instances.{ring[0].instance}", "is in a ring of unlike guides", "give them one index")
        index, group, _, loss = (float(guides[0].get(k, 0.0)) for k in GUIDE)
        length = math.fsum(float(g["length"]) for g in guides) * 1e-6
        order = round(index * length * carrier / LIGHT)
        frequency = (order * LIGHT / length + (group - index) * carrier) / group
        phases, so_far = {}, 0.0
        for p in ring:
            if _is_guide(instances, p):
                so_far += float(instances[p.instance]["settings"]["length"]) * 1e-6
            else:
                phases[p.instance] = 2 * math.pi * ((order * so_far / length) % 1)
        return cls(frequency, group * length / LIGHT, loss * 100 * math.log(10) / 10 * LIGHT / group, phases)


def _ring(name: str, node: str, carrier: float, loop: _Loop, outer: float) -> Ring:
    omega = 2 * math.pi * loop.frequency
    inner_q, outer_q = (omega / rate if rate > 0 else math.inf for rate in (loop.inner, outer))
    return Ring(name, node, loop.frequency - carrier, carrier, inner_q, outer_q)


def _is_guide(instances: Mapping[str, Any], p: Pass) -> bool:
    return bool(instances[p.instance]["component"] == "straight")


def _refusal(where: str, reason: str, remedy: str) -> DesignError:
    return DesignError([error(where, reason, remedy)])


def _unknown(instances: Mapping[str, Any]) -> Iterator[Finding]:
    for where, instance in instances.items():
        kind = instance.get("component") if isinstance(instance, dict) else None
        if kind not in SETTINGS:
            yield error(f"instances.{where}", f"`{kind}` is no component known here", f"use {' or '.join(SETTINGS)}")
            continue
        given = instance.get("settings")
        for key in SETTINGS[kind]:
            value = given.get(key) if isinstance(given, dict) else None
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
                yield error(f"instances.{where}.settings.{key}", "must be a number greater than 0", "give it")
            elif key == "coupling" and value >= 1:
                yield error(f"instances.{where}.settings.{key}", "must be below 1", "give the power coupling")
        loss = given.get("loss_dB_cm", 0.0) if isinstance(given, dict) else 0.0
        if isinstance(loss, bool) or not isinstance(loss, (int, float)) or not 0 <= loss < math.inf:
            yield error(f"instances.{where}.settings.loss_dB_cm", "must be a number of 0 or more", "give it")


# Rails ------------------------------------------------------------------------------------------------------------


def _partners(data: Mapping[str, Any], instances: Mapping[str, Any]) -> dict[str, str]:
    """What every connected port is connected with."""
    known = {
        f"{n},{way}{rail}" for n, i in instances.items() for rail in RAILS[i["component"]] for way in ("in", "out")
    }
    given, ports = data.get("connections"), data.get("ports", {})
    if not isinstance(given, dict) or not isinstance(ports, dict):
        raise _refusal("connections", "must be a table, and `ports` too", "give them as sax has them")
    partners: dict[str, str] = {}
    for pair in given.items():
        ends = [str(end).replace(" ", "") for end in pair]
        for end, other in (ends, ends[::-1]):
            if end not in known or end in partners:
                reason = "is no port of an instance" if end not in known else "is connected twice"
                raise _refusal(f"connections.{end}", reason, "correct the connection")
            partners[end] = other
    return partners


def _rails(instances: Mapping[str, Any], partners: Mapping[str, str]) -> tuple[list[list[Pass]], list[list[Pass]]]:
    """Closed and open rails, each as the passes along it."""
    rings: list[list[Pass]] = []
    buses: list[list[Pass]] = []
    seen: set[tuple[str, str]] = set()
    for name, instance in instances.items():
        for rail in RAILS[instance["component"]]:
            if (name, rail) in seen:
                continue
            path, closed = _walk(Pass(name, rail, True), partners)
            if not closed:  # from the other end, to have all of it
                path, _ = _walk(path[-1].turned, partners)
            seen |= {(p.instance, p.rail) for p in path}
            (rings if closed else buses).append(path)
    return rings, buses


def _walk(start: Pass, partners: Mapping[str, str]) -> tuple[list[Pass], bool]:
    path = [start]
    while (port := partners.get(path[-1].turned.entry)) is not None:
        name, end = port.split(",")
        step = Pass(name, end[-1], end.startswith("in"))
        if step == start:
            return path, True
        path.append(step)
    return path, False


def _aligned(rings: list[list[Pass]], instances: Mapping[str, Any]) -> list[list[Pass]]:
    """Rings turned so that at every coupler light runs the same way in both."""
    met: dict[str, list[tuple[int, bool]]] = {}
    for i, ring in enumerate(rings):
        for p in ring:
            if not _is_guide(instances, p):
                met.setdefault(p.instance, []).append((i, p.forwards))
    near: dict[int, list[tuple[int, bool, str]]] = {i: [] for i in range(len(rings))}
    for where, ends in met.items():
        if len(ends) == 2:
            (a, one), (b, other) = ends
            near[a].append((b, one != other, where))
            near[b].append((a, one != other, where))
    turned: dict[int, bool] = {}
    for root in near:
        if root in turned:
            continue
        turned[root], waiting = False, [root]
        while waiting:
            here = waiting.pop()
            for there, opposite, where in near[here]:
                wanted = turned[here] != opposite
                if there not in turned:
                    turned[there] = wanted
                    waiting.append(there)
                elif turned[there] != wanted:
                    raise _refusal(f"instances.{where}", "couples both senses of a ring", "couple rings in even loops")
    return [[p.turned for p in reversed(r)] if turned[i] else r for i, r in enumerate(rings)]
