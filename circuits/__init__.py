"""Netlists and their compilation into separable Hamiltonians. The compiler loads on first use."""

from typing import TYPE_CHECKING

from circuits.findings import DesignError, Finding, Legality, Severity
from circuits.netlist import ALL, Clock, Initial, Netlist, Probes, Target
from devices.lazy import lazy

if TYPE_CHECKING:
    from circuits.compile import Design, examine

__getattr__ = lazy(__name__, {"circuits.compile": ("Design", "examine")})

__all__ = [
    "ALL",
    "Clock",
    "Design",
    "DesignError",
    "Finding",
    "Initial",
    "Legality",
    "Netlist",
    "Probes",
    "Severity",
    "Target",
    "examine",
]
