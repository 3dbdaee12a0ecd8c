"""Photonic elements: docs/physics.md, 9.

The coordinate is the quadrature x = √2·Re a of a mode with |a|² photons, its momentum ħ·√2·Im a. A mode then has
H = ħΩ|a|² = ħΩx²/2 + Ωm²/2ħ, where Ω may have either sign, and both quadratures hop alike.
"""

from __future__ import annotations

from math import inf, pi
from typing import ClassVar

from devices.element import PHOTONIC, Array, Element, Values, element, parameter, terminal
from devices.maths import cos, larger, sin
from devices.units import Quantity, to_si

HBAR = 1.054571817e-34
"""Reduced Planck constant in J·s: exact in SI up to its last digit."""

_HBAR: dict[str, tuple[float, str]] = {"hbar": (HBAR, "J*s")}
_CONJUGATE = "phase conjugation (four-wave mixing, parametric idler), or inverted signs of all detunings and couplings"
_NOTHING = "nothing to do: it couples both quadratures alike"
_RATE_TYPICAL = "10 MHz to 10 GHz (order of magnitude)"
FULL_FIELD = 0.005
"""Kerr shift over carrier frequency up to which the full-field form is right within 1 %, whichever way photons are
counted: it errs by 1.9 of that ratio if n is the stored energy over ħω, by 0.58 if it is half the peak of x²."""
ROTATING = 0.01
"""Kerr shift over carrier frequency up to which a rotating frame is trusted."""


@element("cavity")
class Cavity(Element):
    """Optical or microwave resonator in the laboratory frame."""

    node: str = terminal()
    frequency: Quantity = parameter(
        "Hz",
        "resonance frequency",
        above=0,
        knob=True,
        typical="5 GHz to 200 THz (order of magnitude)",
        example="5 GHz",
    )
    intrinsic_q: Quantity = parameter(
        "", "quality factor of absorption and scattering", default=inf, above=0, stored=False
    )
    external_q: Quantity = parameter(
        "", "quality factor of the coupling to the outside", default=inf, above=0, stored=False
    )
    domain = PHOTONIC
    body = True
    branches = ((1,),)
    linear = True
    constants: ClassVar = _HBAR
    lends = ("linewidth", "carrier_rate")
    energy_text = "ħω|a|², x = √2·Re a"
    loss_text = "both quadratures decay at ω(1/Q_i + 1/Q_e)/2"
    limits_text = "one mode; strong readout (low external Q) is loss"
    reversal_text = _CONJUGATE

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return pi * p.hbar * p.frequency * b[0] ** 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.hbar * p.frequency,)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return pi * p.frequency / p.hbar * m[0] ** 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.frequency / p.hbar,)

    @staticmethod
    def aspect(p: Values) -> Array:
        return p.hbar

    @staticmethod
    def frame(p: Values) -> float:
        return 0.0

    @staticmethod
    def carrier_rate(p: Values) -> Array:
        """Angular frequency in the laboratory."""
        return 2 * pi * p.frequency

    @staticmethod
    def linewidth(p: Values) -> Array:
        """Rate κ at which photons leave."""
        return 2 * pi * p.frequency * (1 / p.intrinsic_q + 1 / p.external_q)

    @staticmethod
    def decay(p: Values) -> tuple[Array, Array]:
        return Cavity.linewidth(p) / 2, Cavity.carrier_rate(p)


@element("ring")
class Ring(Element):
    """Ring or other resonator in the frame of a carrier, given by its detuning from it, of either sign."""

    node: str = terminal()
    detuning: Quantity = parameter(
        "Hz", "resonance frequency minus that of the carrier", default=0.0, knob=True, example="1 GHz"
    )
    carrier: Quantity = parameter(
        "Hz",
        "frequency of the carrier, the same for all that are coupled; sets losses, not the energy",
        above=0,
        default=193.4e12,
        stored=False,
    )
    intrinsic_q: Quantity = parameter(
        "", "quality factor of absorption and scattering", default=inf, above=0, stored=False
    )
    external_q: Quantity = parameter("", "quality factor of the coupling to a bus", default=inf, above=0, stored=False)
    domain = PHOTONIC
    body = True
    branches = ((1,),)
    linear = True
    constants: ClassVar = _HBAR
    lends = ("linewidth", "carrier_rate")
    energy_text = "ħΔ|a|², Δ of either sign"
    loss_text = "both quadratures decay at ω(1/Q_i + 1/Q_e)/2, ω that of light"
    limits_text = "one mode; detunings, couplings and Kerr shifts far below the carrier"
    reversal_text = _CONJUGATE

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return pi * p.hbar * p.detuning * b[0] ** 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.hbar * p.detuning,)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return pi * p.detuning / p.hbar * m[0] ** 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.detuning / p.hbar,)

    @staticmethod
    def aspect(p: Values) -> Array:
        return p.hbar

    @staticmethod
    def frame(p: Values) -> float:
        return float(p.carrier)

    @staticmethod
    def carrier_rate(p: Values) -> Array:
        """Angular frequency in the laboratory."""
        return 2 * pi * (p.carrier + p.detuning)

    @staticmethod
    def linewidth(p: Values) -> Array:
        """Rate κ at which photons leave."""
        return Ring.carrier_rate(p) * (1 / p.intrinsic_q + 1 / p.external_q)

    @staticmethod
    def decay(p: Values) -> tuple[Array, Array]:
        return Ring.linewidth(p) / 2, Ring.carrier_rate(p)

    @staticmethod
    def fault(p: Values) -> tuple[str, str] | None:
        return ("detuning", "must leave light a positive frequency, but does not") if p.detuning <= -p.carrier else None


@element("phase-shifter")
class PhaseShifter(Element):
    """Heater or other phase shifter on a resonator: tunes its frequency."""

    node: str = terminal()
    shift: Quantity = parameter("Hz", "change of the resonance frequency", default=0.0, knob=True, example="200 MHz")
    domain = PHOTONIC
    branches = ((1,),)
    linear = True
    constants: ClassVar = _HBAR
    energy_text = "ħΔ|a|²"
    loss_text = "lossless; absorption counts in the Q of the resonator"
    limits_text = "static; far below the resonator's frequency"
    reversal_text = _NOTHING

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return pi * p.hbar * p.shift * b[0] ** 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.hbar * p.shift,)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return pi * p.shift / p.hbar * m[0] ** 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return (2 * pi * p.shift / p.hbar,)


# Couplers ---------------------------------------------------------------------------------------------------------

_BOTH = ((1, 1), (1, -1))
"""Sum and difference: every product of two coordinates is diagonal in them."""


def _hop(rate: Array, b: tuple[Array, ...]) -> Array:
    """rate·x₁x₂ in terms of sum and difference."""
    return rate * (b[0] ** 2 - b[1] ** 2) / 4


@element("evanescent")
class EvanescentCoupler(Element):
    """Evanescent coupler: photons hop between two resonators."""

    a: str = terminal()
    b: str = terminal()
    rate: Quantity = parameter(
        "Hz", "coupling rate J/2π, of either sign", knob=True, typical=_RATE_TYPICAL, example="500 MHz"
    )
    phase: Quantity = parameter(
        "rad",
        "phase of the coupling from b to a: gauged away along a tree; around a loop it must add up to 0 or π",
        default=0.0,
    )
    domain = PHOTONIC
    branches = _BOTH
    linear = True
    constants: ClassVar = _HBAR
    energy_text = "ħJ(a₁*a₂ + a₁a₂*), in both quadratures: ħJx₁x₂ + Jm₁m₂/ħ"
    loss_text = "lossless; excess loss counts in the Q of the resonators"
    limits_text = "rate far below the carrier; no loop flux other than 0 and π, which would break time reversal"
    reversal_text = _NOTHING

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return _hop(2 * pi * p.rate * cos(p.phase) * p.hbar, b)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        half = pi * p.rate * cos(p.phase) * p.hbar
        return (half, -half)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return _hop(2 * pi * p.rate * cos(p.phase) / p.hbar, m)

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        half = pi * p.rate * cos(p.phase) / p.hbar
        return (half, -half)


@element("beam-splitter")
class BeamSplitter(Element):
    """Beam splitter as a static coupling: over its duration two modes mix by its angle."""

    a: str = terminal()
    b: str = terminal()
    duration: Quantity = parameter(
        "s", "time in which the modes mix by that angle", above=0, typical="the length of a run", example="1 ns"
    )
    angle: Quantity = parameter("rad", "mixing angle, π/4 for half and half", default=pi / 4, knob=True)
    domain = PHOTONIC
    branches = _BOTH
    linear = True
    constants: ClassVar = _HBAR
    energy_text = "ħJ(a₁*a₂ + a₁a₂*), J = angle/duration; after it U = [[cos, −i·sin], [−i·sin, cos]]"
    loss_text = "lossless"
    limits_text = "static: it goes on mixing after its duration"
    reversal_text = _NOTHING

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return _hop(p.angle / p.duration * p.hbar, b)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        half = p.angle / p.duration * p.hbar / 2
        return (half, -half)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return _hop(p.angle / p.duration / p.hbar, m)

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        half = p.angle / p.duration / p.hbar / 2
        return (half, -half)


@element("mach-zehnder")
class MachZehnder(Element):
    """Mach–Zehnder interferometer as a static coupling: over its duration two modes go through it once."""

    a: str = terminal()
    b: str = terminal()
    duration: Quantity = parameter(
        "s", "time in which the modes go through it", above=0, typical="the length of a run", example="1 ns"
    )
    phase: Quantity = parameter("rad", "phase of the arm of mode a", default=pi / 2, knob=True)
    domain = PHOTONIC
    branches = ((1, 0), (0, 1), (1, 1), (1, -1))
    linear = True
    constants: ClassVar = _HBAR
    energy_text = "ħa†Ka, K = −(φ/2 + (π/2)·[[sin φ/2, cos φ/2], [cos φ/2, −sin φ/2]])/duration"
    loss_text = "lossless; 0.1 to 0.5 dB in practice (order of magnitude)"
    limits_text = "static; U = B·diag(e^{iφ}, 1)·B with splitters B of angle −π/4 is symmetric, so K is real"
    reversal_text = _NOTHING

    @staticmethod
    def rates(p: Values) -> tuple[Array, Array, Array, Array]:
        """Twice the coefficients of the squares of the four branches."""
        own, lean, hop = -p.phase / 2, -pi / 2 * sin(p.phase / 2), -pi / 2 * cos(p.phase / 2)
        return (own + lean) / p.duration, (own - lean) / p.duration, hop / p.duration / 2, -hop / p.duration / 2

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return p.hbar / 2 * sum(k * x**2 for k, x in zip(MachZehnder.rates(p), b, strict=True))

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return tuple(k * p.hbar for k in MachZehnder.rates(p))

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return sum(k * x**2 for k, x in zip(MachZehnder.rates(p), m, strict=True)) / (2 * p.hbar)

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return tuple(k / p.hbar for k in MachZehnder.rates(p))


# Kerr nonlinearity ------------------------------------------------------------------------------------------------

_KERR_TYPICAL = "0.3 to 5 Hz in silicon nitride, 1 kHz in silicon (order of magnitude)"
_KERR_EXAMPLE = "1 Hz"
_KERR_LOSS = "two-photon absorption, where there is any, is not Hamiltonian"


@element("kerr")
class Kerr(Element):
    """Kerr nonlinearity of a resonator; the compiler chooses the form that its frame allows."""

    node: str = terminal()
    shift: Quantity = parameter(
        "Hz", "shift of the resonance per photon", knob=True, typical=_KERR_TYPICAL, example=_KERR_EXAMPLE
    )
    domain = PHOTONIC
    energy_text = "ħ(g/2)|a|⁴: as `kerr-rotation` in a rotating frame, as `kerr-field` in the laboratory"
    loss_text = _KERR_LOSS
    limits_text = "as those two"
    reversal_text = _NOTHING

    def lowered(self, frame: float) -> tuple[Element, str]:
        """The element that stands for it in a frame of the given frequency, and why."""
        given = {k: getattr(self, k) for k in ("trainable", "bounds", "tolerance")}
        if frame > 0:
            reason = (
                "Kerr energy as an exact rotation of both quadratures (`kerr-rotation`): in a rotating frame it is not "
                "separable, and a quartic in one quadrature would be wrong"
            )
            return KerrRotation(self.name, self.node, self.shift, **given), reason
        reason = (
            "Kerr energy as a quartic of the field (`kerr-field`): in the laboratory frame it is separable, and the "
            "carrier averages it to the wanted shift"
        )
        return KerrField(self.name, self.node, self.shift, **given), reason


@element("kerr-rotation")
class KerrRotation(Element):
    """Kerr nonlinearity in the rotating-wave form: turns the mode in proportion to its photons, exactly."""

    node: str = terminal()
    shift: Quantity = parameter(
        "Hz", "shift of the resonance per photon", knob=True, typical=_KERR_TYPICAL, example=_KERR_EXAMPLE
    )
    domain = PHOTONIC
    branches = ((1,),)
    constants: ClassVar = _HBAR
    borrows: ClassVar = {"linewidth": (0, "linewidth"), "carrier_rate": (0, "carrier_rate")}
    energy_text = "ħ(g/2)|a|⁴ = g·n²/2ħ of the action n = ħ|a|²"
    loss_text = _KERR_LOSS
    limits_text = "on a ring; shift below 1 % of the carrier, and bistable beyond the linewidth"
    reversal_text = _NOTHING
    validity_text = "shift over the linewidth, or over 1 % of the carrier"
    rotating = True

    @staticmethod
    def rotation(n: Array, p: Values) -> Array:
        return pi * p.shift / p.hbar * n**2

    @staticmethod
    def aspect(p: Values) -> Array:
        return p.hbar

    @staticmethod
    def frequency_shift(p: Values) -> Array:
        return 2 * pi * p.shift / p.hbar

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return _kerr_range(b[0], m[0], p, ROTATING)


@element("kerr-field")
class KerrField(Element):
    """Kerr nonlinearity in the full-field form: a quartic potential sized to give the wanted shift on average."""

    node: str = terminal()
    shift: Quantity = parameter(
        "Hz",
        "shift of the resonance per photon",
        knob=True,
        at_least=0,
        typical=_KERR_TYPICAL,
        example=_KERR_EXAMPLE,
    )
    domain = PHOTONIC
    branches = ((1,),)
    constants: ClassVar = _HBAR
    borrows: ClassVar = {"linewidth": (0, "linewidth"), "carrier_rate": (0, "carrier_rate")}
    energy_text = "ħ(g/3)x⁴; its mean over a cycle is ħ(g/2)|a|⁴"
    loss_text = _KERR_LOSS
    limits_text = "on a cavity; within 1 % up to g·n = 0.005·ω, n the stored energy over ħω"
    reversal_text = _NOTHING
    validity_text = "shift over the linewidth, or over 0.5 % of the carrier"
    rotating = False

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return 2 * pi * p.shift * p.hbar / 3 * b[0] ** 4

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        # Curvature 4ħg·x² has no bound; up to three times the range of validity this covers it.
        return (24 * FULL_FIELD * p.hbar * p.carrier_rate,)

    @staticmethod
    def frequency_shift(p: Values) -> Array:
        return 2 * pi * p.shift / p.hbar

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return _kerr_range(b[0], m[0], p, FULL_FIELD)


def _kerr_range(x: Array, m: Array, p: Values, limit: float) -> Array:
    """Kerr shift over the smaller of linewidth (if there is any) and a fraction of the carrier."""
    shift = 2 * pi * abs(p.shift) * (x**2 + (m / p.hbar) ** 2) / 2
    lossless = p.linewidth == 0
    by_line = shift * (1 - lossless) / (p.linewidth + lossless)
    return larger(by_line, shift / (limit * p.carrier_rate))


def drive_rate(power: Quantity, frequency: Quantity, external_q: Quantity) -> float:
    """Amplitude of a coherent drive (Hz) that light of this power has on a resonator: √(κ_e·P/ħω), κ_e = ω/Q_e."""
    omega = 2 * pi * to_si(frequency, "Hz")
    return float((omega / to_si(external_q, "") * to_si(power, "W") / (HBAR * omega)) ** 0.5)
