"""Small circuits with known answers, and a host circuit for every registered element.

`host` puts an element where it belongs: every node of it carries inertia and a restoring force of the right domain,
so that the contract suites can run any element by its registration alone.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from circuits import Netlist
from circuits.operators import lanes
from devices import (
    DRIVES,
    ELEMENTS,
    MECHANICAL,
    Capacitor,
    CurrentDrive,
    Element,
    ForceDrive,
    Inductor,
    Mass,
    Spring,
)

LEGAL = {name: kind for name, kind in ELEMENTS.items() if kind.refusal is None}
LOSSLESS = {name: kind for name, kind in LEGAL.items() if kind.conductance is None}


def example(kind: type[Element], name: str, *ends: str, **changes: Any) -> Element:
    """An element with the example values of its parameters."""
    return kind(name, *ends, **({k: p.example for k, p in kind.parameters.items()} | changes))


def host(kind: type[Element], **changes: Any) -> Netlist:
    """A driven circuit around one element under test, called `dut`."""
    mechanical = kind.domain is MECHANICAL
    ends = ("n1", "n2", "n3")
    inertia, spring = (Mass, Spring) if mechanical else (Capacitor, Inductor)
    own_inertia = {"n1"} if kind.kinetic is not None else set()
    parts: list[Element] = []
    for node in ends:
        if node not in own_inertia:
            parts.append(example(inertia, f"m_{node}", *((node,) if mechanical else (node, "gnd"))))
        parts.append(example(spring, f"k_{node}", node, "gnd"))
    parts += [example(spring, f"k_{a}{b}", a, b) for a, b in (("n1", "n2"), ("n2", "n3"))]
    where = ("k_n1", "k_n2") if kind.references else ends[: len(kind.terminals)]
    parts.append(example(kind, "dut", *where, **changes))
    drive = (ForceDrive if mechanical else CurrentDrive)("u0", "n3")
    return Netlist(f"host of {kind.type}", parts, drives=[drive], targets=["n2"])


def driven(kind: str) -> Netlist:
    """A nonlinear circuit with one drive of the given type."""
    if DRIVES[kind].domain is MECHANICAL:
        return host(ELEMENTS["duffing"])
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


def energy_in_si(netlist: Netlist, positions: dict[str, float], inverse_inertia_momenta: dict[str, float]) -> float:
    """Stored energy summed element by element in SI, from node positions and node velocities.

    Independent of the compiler: no scaling, no matrices. Mutual inductance and non-quadratic kinetic energies, which
    are not sums over elements of these arguments, are left to tests of their own.
    """
    total = 0.0
    for part in netlist.elements:
        values = SimpleNamespace(**part.values, **{k: v for k, (v, _) in part.constants.items()})
        ends = netlist.terminals_of(part)
        x = [positions.get(n, 0.0) for n in ends]
        v = [inverse_inertia_momenta.get(n, 0.0) for n in ends]
        branches = [np.dot(row, x) for row in part.branches]
        if part.potential is not None:
            total += float(part.potential(tuple(np.float64(b) for b in branches), values))
        if part.inertia is not None:
            total += float(part.inertia(values)) * float(np.dot(part.branches[0], v)) ** 2 / 2
    return total


class OddEnergy:
    """T = Σ(p − g)²/2m + u₀·p₀ − E·cos p, V = Σ¼q⁴ + ½kq² − u₁·q₁: offset charge g and input u₀ are odd under reversal.

    Not a circuit of the compiler: it checks what learning does with such quantities.
    """

    size, inputs, lossy = 2, 2, ()

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
