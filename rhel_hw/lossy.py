"""Losses of given quality: resistors, dampers and linewidths beside the elements of a netlist, or in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from circuits import Design
from devices import ELECTRICAL, MECHANICAL, Damper, Element, Resistor, nearest
from rhel_hw.profile import Dynamics, ProfileError


def lossy_elements(design: Design, elements: Mapping[str, Element], dynamics: Dynamics) -> dict[str, Element]:
    """Elements by name with the quality, damping and linewidth that a profile asks for."""
    found, rate, ground = dict(elements), typical_rate(design), design.netlist.ground
    for name in ("quality", "damping", "linewidth"):
        for part, value in _by_element(f"dynamics.{name}", getattr(dynamics, name), found):
            found |= {e.name: e for e in _lossy(f"dynamics.{name}", part, name, value, rate, ground)}
    return found


def typical_rate(design: Design) -> float:
    """Geometric mean of the angular frequencies."""
    rates = 2 * np.pi * np.abs(design.frequencies_hz)
    rates = rates[rates > 1e-6 * rates.max()]
    return float(np.exp(np.mean(np.log(rates))))


def _by_element(path: str, setting: Any, elements: Mapping[str, Element]) -> Iterator[tuple[Element, float]]:
    """Elements that a setting means, with its value: tables name elements or types, a number means all that can."""
    if isinstance(setting, tuple):
        known = {*elements, *(e.type for e in elements.values())}
        for name, _ in setting:
            if name not in known:
                raise ProfileError(path, f"must name elements or types, but has {name!r}{nearest(name, known)}")
        # The name of an element counts more than that of its type.
        table = dict(setting)
        for part in list(elements.values()):
            if part.name in table or part.type in table:
                yield part, table[part.name if part.name in table else part.type]
    elif 0 < setting < np.inf:
        fits: Any = {
            "dynamics.quality": lambda e: e.inertia is not None or e.body,
            "dynamics.damping": lambda e: "damping" in e.parameters and e.body,
            "dynamics.linewidth": lambda e: "intrinsic_q" in e.parameters,
        }[path]
        found = [e for e in elements.values() if fits(e)]
        if not found:
            raise ProfileError(path, "must be left out: the design has no element that it could apply to")
        for part in found:
            yield part, setting


def _lossy(path: str, part: Element, what: str, value: float, rate: float, ground: str) -> Iterator[Element]:
    """The element with loss, or a loss beside it."""
    if what == "linewidth" or (what == "quality" and "intrinsic_q" in part.parameters):
        if "intrinsic_q" not in part.parameters:
            raise ProfileError(path, f"must name optical resonators, but {part.name} is a {part.type}")
        light = part.carrier_rate(part.numbers)  # type: ignore[attr-defined]
        yield _with(part, intrinsic_q=value if what == "quality" else light / (2 * np.pi * value))
    elif what == "damping" or part.body:
        if not part.body or "damping" not in part.parameters:
            raise ProfileError(path, f"must name magnets, but {part.name} is a {part.type}")
        yield _with(part, damping=value if what == "damping" else _damping_for(part, value))
    else:
        if part.domain not in (ELECTRICAL, MECHANICAL) or (part.inertia is None and part.stiffness is None):
            raise ProfileError(path, f"must name elements with inertia or stiffness, but {part.name} is a {part.type}")
        numbers = part.numbers
        # A reactance loses 1/Q of its energy per radian.
        if part.inertia is not None:
            conductance = rate * float(part.inertia(numbers)) / value
        else:
            conductance = float(part.stiffness(numbers)[0]) / (rate * value)
        ends = (*part.nodes, ground)[:2]
        loss: type[Any] = Resistor if part.domain is ELECTRICAL else Damper
        yield loss(f"loss/{part.name}", *ends, 1 / conductance if loss is Resistor else conductance)
        yield part


def _with(part: Element, **changes: Any) -> Element:
    return replace(part, **changes)  # whatever parameters its kind has


def _damping_for(part: Element, quality: float) -> float:
    """Damping constant of a magnet with this quality factor by itself."""
    numbers = _with(part, damping=1.0).numbers
    if part.decay is not None:
        amplitude, frequency = part.decay(numbers)
        return float(frequency / (2 * amplitude * quality))
    mobility = float(part.mobility(numbers)[0])
    frequency = np.sqrt(float(part.stiffness(numbers)[0]) * mobility)
    return float(frequency / (quality * part.conductance(numbers) * mobility))
