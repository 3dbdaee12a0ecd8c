"""Netlist to Hamiltonian: reduce, assemble, check, and choose the time step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from circuits import legality
from circuits.assemble import Assembly, assemble
from circuits.findings import DesignError, Finding, Legality, error
from circuits.linear import Modes, highest_rate, modes
from circuits.lowering import lower
from circuits.netlist import Netlist
from circuits.reduce import reduce

if TYPE_CHECKING:
    from circuits.hamiltonian import Hamiltonian
    from circuits.parameters import Parameters

AUTOMATIC = 0.2
"""Automatic step in units of 1/ω of the highest frequency: the discrete frequency is then 0.17 % off at most."""


@dataclass(frozen=True, eq=False)
class Design:
    """A netlist that compiled: its Hamiltonian, parameters and clock."""

    netlist: Netlist
    hamiltonian: Hamiltonian
    parameters: Parameters
    legality: Legality
    modes: Modes
    highest: float
    """Bound of the angular frequency, dimensionless: what the step is measured against."""
    step: float
    """Dimensionless."""
    steps: int

    @property
    def assembly(self) -> Assembly:
        """The circuit as dimensionless arrays."""
        return self.hamiltonian.assembly

    @property
    def step_s(self) -> float:
        """Time step in seconds."""
        return self.step * self.assembly.units.time

    @cached_property
    def frequencies_hz(self) -> NDArray[np.float64]:
        """Normal-mode frequencies about the rest point, ascending; of a large circuit only its two ends.

        In rotating frames they are detunings from the carrier, of either sign.
        """
        rates = np.concatenate([self.modes.detunings, np.sqrt(np.maximum(self.modes.squares, 0.0))])
        return np.sort(rates) / (2 * np.pi * self.assembly.units.time)

    def theta(self, dtype: Any = None) -> dict[str, Any]:
        """Nominal parameters, dimensionless."""
        return self.hamiltonian.theta(dtype)

    def initial_state(self, dtype: Any = None) -> tuple[Any, Any]:
        """Positions and momenta (n,) that the netlist asks for, dimensionless."""
        from circuits.state import initial_state

        return initial_state(self, dtype)


def examine(netlist: Netlist) -> tuple[Legality, Design | None]:
    """Everything there is to say about a netlist, and the compiled design if nothing stops it."""
    findings: list[Finding] = []
    design = _build(netlist, findings)
    report = Legality(tuple(findings))
    return report, None if design is None else replace(design, legality=report)


def _build(netlist: Netlist, findings: list[Finding]) -> Design | None:
    """The design, as far as the findings that it adds allow. What needs JAX comes last."""
    lowered, found = lower(netlist)
    findings += found
    if lowered is None:
        return None
    findings += legality.of_netlist(lowered.netlist)
    if _stopped(findings):
        return None
    coordinates, found = reduce(lowered.netlist)
    findings += found
    if coordinates is None or _stopped(findings):
        return None
    assembly = assemble(lowered, coordinates)
    findings += legality.of_assembly(assembly)
    if _stopped(findings):
        return None
    highest, wanted = highest_rate(assembly), netlist.clock.step
    if highest == 0 and not (wanted is not None and assembly.rotating.all()):
        findings.append(_still(assembly))
        return None
    step = float(AUTOMATIC / highest if wanted is None else wanted / assembly.units.time)
    findings += legality.of_step(assembly, highest, step)
    found_modes = modes(assembly, None) if _is_unbiased(assembly) else None
    if found_modes is not None:
        findings += legality.of_modes(assembly, found_modes, highest)
    if _stopped(findings):
        return None

    from circuits.hamiltonian import Hamiltonian
    from circuits.parameters import Parameters

    findings += legality.of_energies(assembly)
    hamiltonian = Hamiltonian.of(assembly)
    if found_modes is None:
        found_modes = modes(assembly, _force(hamiltonian))
        findings += legality.of_modes(assembly, found_modes, highest)
    if _stopped(findings):
        return None
    clock = netlist.clock
    return Design(netlist, hamiltonian, Parameters(assembly), Legality(), found_modes, highest, step, clock.steps)


def compile_netlist(netlist: Netlist) -> Design:
    """Compiled design of a netlist, or `DesignError` with every finding."""
    report, design = examine(netlist)
    if design is None:
        raise DesignError(report.findings)
    return design


def _still(assembly: Assembly) -> Finding:
    if assembly.rotating.all():
        reason = "nothing moves against the carrier: all is resonant and uncoupled, so there is no scale for the step"
        return error("time.step", reason, 'give a step such as "10 ps", or detune something')
    reason = "nothing oscillates: no force pulls back to rest"
    return error("design", reason, "add inductors or springs, or weaken couplers that push outwards")


def _stopped(findings: list[Finding]) -> bool:
    return not Legality(tuple(findings)).legal


def _is_unbiased(assembly: Assembly) -> bool:
    """Whether the circuit is linear and rests at zero."""
    linear = all(assembly.groups[name].kind.linear for name in (*assembly.branch, *assembly.momentum))
    return linear and not any(np.any(v != 0) for k, v in assembly.theta.items() if k.endswith(".flux"))


def _force(hamiltonian: Hamiltonian) -> Any:
    """Force on all moving coordinates without inputs."""
    import jax
    import jax.numpy as jnp

    theta = hamiltonian.theta()
    prepared = hamiltonian.prepare(theta)
    u = jnp.zeros((hamiltonian.inputs,), next(iter(theta.values())).dtype)
    slope = jax.jit(lambda c: hamiltonian.slope(c, prepared, u))
    return lambda c: -np.asarray(slope(jnp.asarray(c, u.dtype)), float)
