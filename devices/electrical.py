"""Electrical elements. Node flux φ (Wb) is the coordinate, node charge q (C) the momentum: docs/physics.md, 2."""

from __future__ import annotations

from math import pi
from typing import ClassVar

from devices.element import Array, Element, Values, element, parameter, reference, terminal
from devices.maths import cos, log_cosh
from devices.units import Quantity

FLUX_QUANTUM = 2.067833848461929e-15
"""h/2e in Wb, exact by the definition of the SI."""

_CHARGE_FLIP = "swap the plates (q → −q) with the flux held, or invert every inductor current"


@element("capacitor")
class Capacitor(Element):
    """Linear capacitor."""

    a: str = terminal()
    b: str = terminal()
    capacitance: Quantity = parameter(
        "F",
        "capacitance",
        above=0,
        knob=True,
        typical="10 pF to 10 nF on a board, 50 to 500 fF in a superconducting circuit (order of magnitude)",
        example="1 pF",
    )
    energy_text = "q²/2C, through the capacitance matrix: ½ qᵀC⁻¹q"
    loss_text = "dielectric: parallel conductance ωC·tan δ, acts on the charge"
    limits_text = "lumped: much smaller than the wavelength; linear dielectric"
    reversal_text = _CHARGE_FLIP

    @staticmethod
    def inertia(p: Values) -> Array:
        return p.capacitance


@element("inductor")
class Inductor(Element):
    """Linear inductor, with a static flux threaded through its loop."""

    a: str = terminal()
    b: str = terminal()
    inductance: Quantity = parameter(
        "H",
        "inductance",
        above=0,
        knob=True,
        typical="0.1 to 100 µH on a board, 0.1 to 10 nH on chip (order of magnitude)",
        example="10 nH",
    )
    flux: Quantity = parameter("Wb", "external flux in the loop that the branch closes", default=0.0)
    linear = True
    energy_text = "(φ − Φx)²/2L"
    loss_text = "winding: series resistance R, rate R/L"
    limits_text = "lumped; core far from saturation"
    reversal_text = "nothing to do: flux is even under time reversal"

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return (b[0] - p.flux) ** 2 / (2 * p.inductance)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (1 / p.inductance,)


@element("mutual")
class MutualInductance(Element):
    """Magnetic coupling of two inductors, M = k·√(L₁L₂)."""

    first: str = reference()
    second: str = reference()
    coefficient: Quantity = parameter(
        "",
        "coupling coefficient",
        above=-1,
        below=1,
        knob=True,
        typical="0.01 to 0.5 between planar coils (order of magnitude)",
        example=0.3,
    )
    branches = ()
    energy_text = "½ φᵀ𝓛⁻¹φ over the coupled branches, 𝓛₁₂ = k√(L₁L₂)"
    limits_text = "inductance matrix of all coupled coils positive definite"
    reversal_text = "nothing to do: flux is even under time reversal"

    @staticmethod
    def coupling(p: Values, first: Values, second: Values) -> Array:
        """Off-diagonal entry of the inductance matrix."""
        return p.coefficient * (first.inductance * second.inductance) ** 0.5


@element("josephson")
class JosephsonJunction(Element):
    """Josephson junction given by its critical current; its capacitance is an element of its own."""

    a: str = terminal()
    b: str = terminal()
    critical_current: Quantity = parameter(
        "A",
        "critical current",
        above=0,
        knob=True,
        typical="20 to 50 nA in a transmon, about 1 µA in a parametric amplifier (order of magnitude)",
        example="100 nA",
    )
    constants: ClassVar = {"flux_quantum": (FLUX_QUANTUM, "Wb")}
    energy_text = "E_J(1 − cos 2πφ/Φ₀), E_J = I_cΦ₀/2π"
    loss_text = "quasiparticles: parallel conductance, acts on the charge"
    limits_text = "frequency far below the gap; many quanta (classical phase)"
    validity_text = "phase over π, the top of the barrier"
    reversal_text = "nothing to do: flux is even under time reversal"

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        energy = p.critical_current * p.flux_quantum / (2 * pi)
        return energy * (1 - cos(2 * pi * b[0] / p.flux_quantum))

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.critical_current / p.flux_quantum,)

    @staticmethod
    def amplitude(p: Values) -> float:
        return float(p.flux_quantum / (2 * pi))

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return 2 * abs(b[0]) / p.flux_quantum


@element("squid")
class Squid(Element):
    """Dc SQUID: two junctions in parallel whose Josephson energy a static loop flux tunes."""

    a: str = terminal()
    b: str = terminal()
    critical_current: Quantity = parameter(
        "A",
        "sum of the two critical currents",
        above=0,
        typical="40 nA to 10 µA (order of magnitude)",
        example="100 nA",
    )
    flux: Quantity = parameter("Wb", "static flux through the SQUID loop", default=0.0, knob=True)
    asymmetry: Quantity = parameter("", "difference of the two currents over their sum", default=0.0, above=-1, below=1)
    constants: ClassVar = {"flux_quantum": (FLUX_QUANTUM, "Wb")}
    energy_text = "E_Σ − E₁cos(ϕ + πf) − E₂cos(ϕ − πf), ϕ = 2πφ/Φ₀, f = Φx/Φ₀, E₁,₂ = E_Σ(1 ± d)/2"
    loss_text = "quasiparticles: parallel conductance, acts on the charge"
    limits_text = "loop inductance far below Φ₀/2πI_c; static flux"
    validity_text = "phase over π, the top of the barrier"
    reversal_text = "nothing to do: flux is even under time reversal"

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        # The two-cosine form is smooth at half a flux quantum, where the single-cosine form is not.
        energy = p.critical_current * p.flux_quantum / (2 * pi)
        phase, bias = 2 * pi * b[0] / p.flux_quantum, pi * p.flux / p.flux_quantum
        upper, lower = (1 + p.asymmetry) / 2, (1 - p.asymmetry) / 2
        return energy * (1 - upper * cos(phase + bias) - lower * cos(phase - bias))

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.critical_current / p.flux_quantum,)

    @staticmethod
    def amplitude(p: Values) -> float:
        return float(p.flux_quantum / (2 * pi))

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return 2 * abs(b[0]) / p.flux_quantum


@element("saturable")
class SaturableInductor(Element):
    """Inductor with tanh current; with a flux drive it realises the nonlinear Hamiltonian recurrent unit."""

    a: str = terminal()
    b: str = terminal()
    inductance: Quantity = parameter(
        "H",
        "small-signal inductance",
        above=0,
        knob=True,
        typical="as a linear inductor (order of magnitude)",
        example="10 nH",
    )
    saturation_current: Quantity = parameter(
        "A",
        "current at which it saturates",
        above=0,
        typical="µA for kinetic inductance, mA to A for a ferrite core (order of magnitude)",
        example="100 nA",
    )
    flux: Quantity = parameter("Wb", "external flux in the loop that the branch closes", default=0.0)
    energy_text = "I_sφ_s log cosh((φ − Φx)/φ_s), φ_s = L·I_s; current I_s tanh((φ − Φx)/φ_s)"
    loss_text = "winding or film: series resistance R, rate R/L; hysteresis is not modelled"
    limits_text = "idealised saturation; equals a kinetic inductance L(1 + I²/I_s²) to third order"
    reversal_text = "nothing to do: flux is even under time reversal"

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        knee = p.inductance * p.saturation_current
        return p.saturation_current * knee * log_cosh((b[0] - p.flux) / knee)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (1 / p.inductance,)

    @staticmethod
    def amplitude(p: Values) -> float:
        return float(p.inductance * p.saturation_current)


@element("varactor")
class SymmetricVaractor(Element):
    """Capacitance that shrinks symmetrically with charge: kinetic energy even in q but not quadratic."""

    node: str = terminal()
    capacitance: Quantity = parameter(
        "F", "small-signal capacitance", above=0, knob=True, typical="1 to 100 pF (order of magnitude)", example="1 pF"
    )
    charge_scale: Quantity = parameter(
        "C",
        "charge at which the voltage is twice the linear one",
        above=0,
        typical="C times a few volts (order of magnitude)",
        example="5 fC",
    )
    branches = ((1,),)
    energy_text = "q²/2C + q⁴/4C·Q²; voltage v = (q/C)(1 + q²/Q²)"
    loss_text = "series resistance; dielectric: parallel conductance, acts on the charge"
    limits_text = "the only capacitance at its node; a single diode is not even in q and is refused"
    validity_text = "charge over Q/√3, up to which the step was chosen"
    alone = True
    reversal_text = _CHARGE_FLIP

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return m[0] ** 2 / (2 * p.capacitance) * (1 + m[0] ** 2 / (2 * p.charge_scale**2))

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        # Curvature (1 + 3q²/Q²)/C has no bound: twice the linear one covers charges up to Q/√3.
        return (2 / p.capacitance,)

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return abs(m[0]) * 3**0.5 / p.charge_scale

    @staticmethod
    def amplitude(p: Values) -> float:
        return float(p.charge_scale) / 2


@element("resistor")
class Resistor(Element):
    """Resistor: accepted, never Hamiltonian; becomes loss."""

    a: str = terminal()
    b: str = terminal()
    resistance: Quantity = parameter("ohm", "resistance", above=0, knob=True, typical="1 Ω to 1 MΩ", example="10 kohm")
    energy_text = "none"
    loss_text = "charge leaves at v/R: q̇ = −G·C⁻¹q; a node with capacitance C decays at 1/RC"
    limits_text = "both ends at nodes with capacitance; breaks exact reversal"
    reversal_text = "cannot be reversed: the echo needs gain, or calibration"

    @staticmethod
    def conductance(p: Values) -> Array:
        return 1 / p.resistance


@element("tank")
class Tank(Element):
    """Parallel LC tank."""

    a: str = terminal()
    b: str = terminal()
    capacitance: Quantity = parameter(
        "F", "capacitance", above=0, typical="10 pF to 10 nF (order of magnitude)", example="1 pF"
    )
    inductance: Quantity = parameter(
        "H", "inductance", above=0, knob=True, typical="0.1 to 100 µH (order of magnitude)", example="10 nH"
    )
    linear = True
    energy_text = "q²/2C + φ²/2L; ω = 1/√(LC)"
    loss_text = "quality factor Q: rate ω/Q"
    limits_text = "lumped; Q of 50 to 300 on a board, 5 to 20 in CMOS (order of magnitude)"
    reversal_text = _CHARGE_FLIP

    @staticmethod
    def inertia(p: Values) -> Array:
        return p.capacitance

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return b[0] ** 2 / (2 * p.inductance)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (1 / p.inductance,)
