"""Small circuits with known answers, and a host circuit for every registered element.

`host` puts an element where it belongs: every node of it carries inertia and a restoring force of the right domain,
so that the contract suites can run any element by its registration alone.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from circuits import Netlist
from circuits.operators import lanes
from devices import (
    DRIVES,
    ELECTRICAL,
    ELEMENTS,
    MECHANICAL,
    PHOTONIC,
    SPIN,
    TEXTURE,
    Capacitor,
    Cavity,
    CoherentDrive,
    CoreForceDrive,
    CurrentDrive,
    Drive,
    Element,
    EvanescentCoupler,
    Exchange,
    FieldDrive,
    ForceDrive,
    Inductor,
    KerrField,
    Macrospin,
    Mass,
    PillarCoupler,
    Ring,
    Spring,
    TorqueDrive,
    Vortex,
)

LEGAL = {name: kind for name, kind in ELEMENTS.items() if kind.refusal is None}
LOSSLESS = {name: kind for name, kind in LEGAL.items() if kind.stores() and name != "kerr"}
"""Those with an energy of their own; `kerr` becomes one of two others."""


def example(kind: type[Element], name: str, *ends: str, **changes: Any) -> Element:
    """An element with the example values of its parameters."""
    return kind(name, *ends, **({k: p.example for k, p in kind.parameters.items()} | changes))


@cache
def hosted(name: str) -> Any:
    """The compiled host of a type of element."""
    return host(ELEMENTS[name]).compile()


def quick_or_slow(names: Iterable[Any], quick: Container[Any]) -> list[Any]:
    """Parameters of a test, those that are not quick marked slow."""
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


def families() -> dict[str, list[str]]:
    """Types of elements whose hosts can be simulated side by side, for they have like frequencies and amplitudes."""
    found: dict[str, list[str]] = {}
    for name, kind in LOSSLESS.items():
        domain = kind.domain or ELECTRICAL
        key = "laboratory" if domain is PHOTONIC and kind in (Cavity, KerrField) else domain.name
        if domain.inertial and kind.amplitude is not None:
            key = name
        found.setdefault(key, []).append(name)
    return found


def side_by_side(names: list[str]) -> Netlist:
    """The hosts of several types of elements in one netlist, not joined."""
    elements: list[Any] = []
    drives: list[Any] = []
    targets: list[str] = []
    for name in names:
        own = host(ELEMENTS[name])
        elements += [_prefixed(part, f"{name}/", own) for part in own.elements]
        drives += [_prefixed(part, f"{name}/", own) for part in own.drives]
        targets += [f"{name}/{t.node}" for t in own.targets]
    return Netlist("side by side", elements, drives=drives, targets=targets)


def _prefixed(part: Any, prefix: str, netlist: Netlist) -> Any:
    ends = {
        k: n if n == netlist.ground else prefix + n
        for k, n in zip(part.terminals, netlist.terminals_of(part), strict=True)
    }
    return replace(part, name=prefix + part.name, **ends, **{k: prefix + getattr(part, k) for k in part.references})


def host(kind: type[Element], **changes: Any) -> Netlist:
    """A driven circuit around one element under test, called `dut`: three oscillators of its domain in a row."""
    domain = kind.domain or ELECTRICAL
    bodies: dict[str, list[type[Element]]] = {
        ELECTRICAL.name: [Capacitor, Inductor],
        MECHANICAL.name: [Mass, Spring],
        PHOTONIC.name: [Cavity if kind in (Cavity, KerrField) else Ring],
        SPIN.name: [Macrospin],
        TEXTURE.name: [Vortex],
    }
    couplers = {
        ELECTRICAL: Inductor, MECHANICAL: Spring, PHOTONIC: EvanescentCoupler, SPIN: Exchange, TEXTURE: PillarCoupler
    }  # fmt: skip
    drives: dict[Any, type[Drive]] = {
        ELECTRICAL: CurrentDrive, MECHANICAL: ForceDrive, PHOTONIC: CoherentDrive, SPIN: TorqueDrive,
        TEXTURE: CoreForceDrive,
    }  # fmt: skip
    ends = ("n1", "n2", "n3")
    parts: list[Element] = []
    for node in ends:
        own = node == "n1" and len(kind.terminals) == 1
        for body in bodies[domain.name]:
            if not (own and (kind.body or (kind.alone and body.inertia is not None))):
                where = (node,) if len(body.terminals) == 1 else (node, "gnd")
                parts.append(example(body, f"{'m' if body.is_massive() else 'k'}_{node}", *where))
    # A magnon lends no spin that an exchange could couple to, a skyrmion no moment: nodes with them hang on alone.
    lonely = kind.body and not kind.lends
    coupler = couplers[domain]
    parts += [
        example(coupler, f"k_{a}{b}", a, b) for a, b in (("n1", "n2"), ("n2", "n3")) if not (lonely and a == "n1")
    ]
    if lonely:
        pair = (example(kind, "x", "n1"), example(bodies[domain.name][0], "x", "n2"))
        strength = 0.1 * float(np.prod([part.stiffness(part.numbers)[0] for part in pair])) ** 0.5
        parts.append(ELEMENTS["bilinear"]("k_n1n2", "n1", "n2", strength))
    where = ("k_n1", "k_n2") if kind.references else (*ends, "gnd")[: len(kind.terminals)]
    parts.append(example(kind, "dut", *where, **changes))
    made: list[Drive] = [drives[domain]("u0", "n3")]
    if kind.type == "field-line":
        made.append(FieldDrive("u1", "dut"))
    return Netlist(f"host of {kind.type}", parts, drives=made, targets=["n2"])


def driven(kind: str) -> Netlist:
    """A nonlinear circuit with one drive of the given type."""
    hosts = {
        "force": "duffing",
        "coherent": "kerr",
        "field": "field-line",
        "torque": "exchange",
        "core-force": "vortex",
    }
    if kind in hosts:
        found = host(ELEMENTS[hosts[kind]])
        (own,) = (d for d in found.drives if d.type == kind)
        changes = {"angle": 0.7} if kind == "coherent" else {}
        return found.replace(drives=[replace(own, name="u0", **changes)])
    parts = list(host(ELEMENTS["saturable"]).elements)
    if kind == "voltage":
        parts += [Capacitor("c_s", "s", "n1", "0.3 pF"), Inductor("l_s", "s", "n2", "20 nH")]
        return Netlist("held", parts, drives=[DRIVES["voltage"]("u0", "s")])
    if kind == "flux":
        return Netlist("threaded", parts, drives=[DRIVES["flux"]("u0", "dut")])
    return Netlist("injected", parts, drives=[DRIVES[kind]("u0", "n1", "n3")])


def random_state(design: Any, seed: int = 0, size: float = 0.5, batch: int | None = None) -> tuple[Any, Any]:
    """Dimensionless positions and momenta."""
    rng = np.random.default_rng(seed)
    shape = (design.hamiltonian.size,) if batch is None else (design.hamiltonian.size, batch)
    return size * rng.normal(size=shape), size * rng.normal(size=shape)


def random_inputs(design: Any, steps: int, seed: int = 1, size: float = 0.3) -> Any:
    """Dimensionless inputs, smooth and incommensurate with the modes."""
    rng = np.random.default_rng(seed)
    t = np.arange(steps)[:, None] * design.step
    rates = rng.uniform(0.3, 1.1, design.hamiltonian.inputs)
    return size * np.sin(rates * t + rng.uniform(0, 6, design.hamiltonian.inputs))


def energy_in_si(
    netlist: Netlist, positions: dict[str, float], velocities: dict[str, float], momenta: dict[str, float]
) -> float:
    """Stored energy summed element by element in SI, from what the nodes do.

    Independent of the compiler: no scaling, no matrices. Mutual inductance, which is not a sum over elements, is left
    to a test of its own.
    """
    total = 0.0
    for part in netlist.elements:
        values = netlist.numbers_of(part)
        x, v, p = ([each.get(n, 0.0) for n in netlist.terminals_of(part)] for each in (positions, velocities, momenta))
        if part.potential is not None:
            total += float(part.potential(tuple(np.float64(np.dot(row, x)) for row in part.branches), values))
        if part.inertia is not None:
            total += float(part.inertia(values)) * float(np.dot(part.branches[0], v)) ** 2 / 2
        if part.kinetic is not None:
            rows = part.momentum_branches or part.branches
            total += float(part.kinetic(tuple(np.float64(np.dot(row, p)) for row in rows), values))
        if part.rotation is not None:
            aspect = part.aspect(values)
            total += float(part.rotation((aspect * x[0] ** 2 + p[0] ** 2 / aspect) / 2, values))
    return total


class OddEnergy:
    """T = Σ(p − g)²/2m + u₀·p₀ − E·cos p, V = Σ¼q⁴ + ½kq² − u₁·q₁: offset charge g and input u₀ are odd under reversal.

    Not a circuit of the compiler: it checks what learning does with such quantities.
    """

    size, inputs, lossy, turning = 2, 2, (), False

    def __init__(self, *, honest: bool = True) -> None:
        self.theta_parity = {"offset": -1.0} if honest else {}
        self.input_parity = np.array([-1.0, 1.0]) if honest else np.ones(2)

    def theta(self, dtype: Any = None) -> dict[str, Any]:
        values = {"mass": [1.2, 0.8], "offset": [0.3, -0.2], "stiffness": [1.0, 1.5], "tunnel": [0.1, 0.2]}
        return {k: np.array(v) for k, v in values.items()}

    def weights(self, theta: Any) -> dict[str, Any]:
        return dict(theta)

    def moved_by(self, keys: Any) -> tuple[str, ...]:
        return tuple(keys)

    def prepare(self, theta: Any) -> Any:
        return Values(theta)

    def inverse_error(self, theta: Any) -> float:
        return 0.0

    def kinetic(self, p: Any, prepared: Any, u: Any = None) -> Any:
        import jax.numpy as jnp

        mass, offset, tunnel = (lanes(prepared[k], p) for k in ("mass", "offset", "tunnel"))
        return jnp.sum((p - offset) ** 2 / (2 * mass) - tunnel * jnp.cos(p), axis=0) + u[0] * p[0]

    def potential(self, q: Any, prepared: Any, u: Any) -> Any:
        import jax.numpy as jnp

        return jnp.sum(q**4 / 4 + lanes(prepared["stiffness"], q) * q**2 / 2, axis=0) - u[1] * q[1]

    def velocity(self, p: Any, prepared: Any, u: Any = None) -> Any:
        import jax

        return jax.grad(lambda x: self.kinetic(x, prepared, u).sum())(p)

    def force(self, q: Any, prepared: Any, u: Any) -> Any:
        import jax

        return -jax.grad(lambda x: self.potential(x, prepared, u).sum())(q)


class Values(dict[str, Any]):
    """Parameters with the one method that passes need."""

    def using(self, weights: Any) -> Any:
        return Values({**self, **weights})
