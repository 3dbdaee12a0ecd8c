"""Mechanical elements. Displacement x (m) is the coordinate, kg·m/s the unit of momentum: docs/physics.md, 3."""

from __future__ import annotations

from devices.element import MECHANICAL, Array, Element, Values, element, parameter, terminal
from devices.maths import sqrt
from devices.units import Quantity

_NOTHING = "nothing to do: displacement is even under time reversal"


@element("mass")
class Mass(Element):
    """Inertial mass."""

    node: str = terminal()
    mass: Quantity = parameter(
        "kg", "mass", above=0, knob=True, typical="10 pg for a MEMS beam (order of magnitude)", example="10 pg"
    )
    domain = MECHANICAL
    branches = ((1,),)
    energy_text = "p²/2m"
    loss_text = "gas or clamping: rate ω/Q, acts on the momentum"
    limits_text = "non-relativistic, rigid"
    reversal_text = "parametric or feedback phase conjugation of the motion, or measure and rewrite"

    @staticmethod
    def inertia(p: Values) -> Array:
        return p.mass


@element("spring")
class Spring(Element):
    """Linear spring."""

    a: str = terminal()
    b: str = terminal()
    constant: Quantity = parameter(
        "N/m", "spring constant", above=0, knob=True, typical="0.1 to 100 N/m (order of magnitude)", example="10 N/m"
    )
    domain = MECHANICAL
    linear = True
    energy_text = "k·x²/2"
    loss_text = "material: loss angle, counted in the Q of the masses"
    limits_text = "small extension"
    reversal_text = _NOTHING

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return p.constant * b[0] ** 2 / 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (p.constant,)


@element("duffing")
class DuffingSpring(Element):
    """Hardening spring, force k·x + k₃·x³."""

    a: str = terminal()
    b: str = terminal()
    constant: Quantity = parameter(
        "N/m",
        "linear spring constant",
        above=0,
        knob=True,
        typical="0.1 to 100 N/m (order of magnitude)",
        example="10 N/m",
    )
    cubic: Quantity = parameter(
        "N/m**3",
        "cubic spring constant",
        at_least=0,
        typical="k over thickness squared for a clamped beam (order of magnitude)",
        example="1e15 N/m**3",
    )
    domain = MECHANICAL
    energy_text = "k·x²/2 + k₃·x⁴/4; ω/ω₀ ≈ 1 + 3k₃A²/8k"
    loss_text = "material: loss angle, counted in the Q of the masses"
    validity_text = "amplitude over √(k/3k₃), up to which the step was chosen"
    limits_text = "k₃ ≥ 0 (a softening spring has no lowest energy); step chosen for amplitudes below √(k/3k₃)"
    reversal_text = _NOTHING

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return b[0] ** 2 / 2 * (p.constant + p.cubic * b[0] ** 2 / 2)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        # Curvature k + 3k₃x² has no bound: twice the linear one covers amplitudes up to √(k/3k₃).
        return (2 * p.constant,)

    @staticmethod
    def amplitude(p: Values) -> float:
        return float((p.constant / p.cubic) ** 0.5) if p.cubic > 0 else 0.0

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return abs(b[0]) * sqrt(3 * p.cubic / p.constant)


@element("damper")
class Damper(Element):
    """Viscous damper: accepted, never Hamiltonian; becomes loss."""

    a: str = terminal()
    b: str = terminal()
    damping: Quantity = parameter(
        "kg/s", "force per velocity", above=0, knob=True, typical="m·ω/Q", example="1e-9 kg/s"
    )
    domain = MECHANICAL
    energy_text = "none"
    loss_text = "momentum leaves at damping·velocity; a mass m decays at damping/m"
    limits_text = "both ends at nodes with mass; breaks exact reversal"
    reversal_text = "cannot be reversed: the echo needs gain, or calibration"

    @staticmethod
    def conductance(p: Values) -> Array:
        return p.damping
