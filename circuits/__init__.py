"""Netlists and their compilation into separable Hamiltonians."""

from circuits.compile import Design, examine
from circuits.findings import DesignError, Finding, Legality, Severity
from circuits.netlist import ALL, Clock, Initial, Netlist, Probes, Target

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
