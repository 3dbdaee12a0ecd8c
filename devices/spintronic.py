"""Spintronic elements: docs/physics.md, 10.

A macrospin is described by its azimuth φ and the momentum p = −S·m_z, S = M_sV/γ; a vortex or skyrmion core by its
position X and the momentum G·Y. Energies follow from material and geometry.
"""

from __future__ import annotations

from math import pi
from typing import ClassVar

from devices.element import SPIN, TEXTURE, Array, Element, Values, element, parameter, terminal
from devices.maths import cos, larger, sin, sqrt
from devices.units import Quantity

MU_0 = 1.25663706212e-6
"""Magnetic constant in H/m."""
GAMMA = 1.76085963023e11
"""Gyromagnetic ratio of the electron in rad/(s·T)."""
SWING = 0.3
"""A natural swing of the azimuth, in radians."""
SMALL = 0.1
"""Out-of-plane component up to which the easy-plane rotor is trusted: its frequency then errs by about 0.1 %."""

_MU: dict[str, tuple[float, str]] = {"mu_0": (MU_0, "H/m")}
_MAGNETISATION = "800 kA/m in NiFe, 1.2 MA/m in CoFeB, 140 kA/m in YIG (order of magnitude)"
_CONJUGATE = "measure and rewrite, or full time reversal: turn every moment and every field round"
_NOTHING = "nothing to do: the azimuth is even"


# Macrospins -------------------------------------------------------------------------------------------------------


@element("macrospin")
class Macrospin(Element):
    """Easy-plane nanomagnet as a rotor: the azimuth swings, the out-of-plane component stays small."""

    node: str = terminal()
    magnetisation: Quantity = parameter(
        "A/m", "saturation magnetisation M_s", above=0, typical=_MAGNETISATION, example="800 kA/m"
    )
    volume: Quantity = parameter(
        "m**3", "volume", above=0, typical="1e-24 to 1e-21 m³ (order of magnitude)", example="2.5e-23 m**3"
    )
    demagnetisation: Quantity = parameter(
        "", "N_z − N_y of the shape, y the short axis in the plane", default=1.0, above=0, example=0.9
    )
    perpendicular_anisotropy: Quantity = parameter("J/m**3", "out-of-plane anisotropy K_u", default=0.0)
    field: Quantity = parameter("T", "in-plane field", default=0.0, at_least=0, knob=True, example="20 mT")
    field_angle: Quantity = parameter("rad", "its direction", default=0.0)
    anisotropy: Quantity = parameter(
        "J/m**3", "uniaxial in-plane anisotropy along azimuth 0", default=0.0, at_least=0, example="2 kJ/m**3"
    )
    rest: Quantity = parameter("rad", "azimuth at rest, about which the kinetic energy is renormalised", default=0.0)
    renormalisation: Quantity = parameter(
        "", "1: small swings have the frequency of the full equation; 0: the bare rotor", default=1.0, at_least=0
    )
    damping: Quantity = parameter("", "Gilbert damping α", default=0.0, at_least=0, stored=False)
    gyromagnetic_ratio: Quantity = parameter("Hz/T", "γ in rad/(s·T)", default=GAMMA, above=0)
    domain = SPIN
    body = True
    branches = ((1,),)
    constants: ClassVar = _MU
    lends = ("spin", "moment", "rest", "renormalisation")
    energy_text = "p²/2I + h(1 − cos(φ − φ_h)) + k·sin²φ; I = S²/(2VK_eff + …), h = M_sVB, k = VK_∥"
    loss_text = "Gilbert damping: torque −αS·φ̇"
    limits_text = "|m_z| up to 0.1: frequencies are then m_z²/8 (field) to m_z²/4 (anisotropy) too high"
    reversal_text = _CONJUGATE
    validity_text = "|m_z| over 0.1"

    @staticmethod
    def spin(p: Values) -> Array:
        """Angular momentum S."""
        return p.magnetisation * p.volume / p.gyromagnetic_ratio

    @staticmethod
    def moment(p: Values) -> Array:
        """Magnetic moment."""
        return p.magnetisation * p.volume

    @staticmethod
    def easy_plane(p: Values) -> Array:
        """Energy K_eff per volume that keeps the moment in the plane."""
        return p.mu_0 * p.magnetisation**2 * p.demagnetisation / 2 - p.perpendicular_anisotropy

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        pull = Macrospin.moment(p) * p.field * (1 - cos(b[0] - p.field_angle))
        return pull + p.volume * p.anisotropy * sin(b[0]) ** 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (Macrospin.moment(p) * p.field + 2 * p.volume * p.anisotropy,)

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        # The in-plane energies shrink with m_z² too: at the rest point that stiffens the momentum.
        lean = Macrospin.moment(p) * p.field * cos(p.rest - p.field_angle)
        lean = lean + 2 * p.volume * p.anisotropy * cos(p.rest) ** 2
        return ((2 * p.volume * Macrospin.easy_plane(p) + p.renormalisation * lean) / Macrospin.spin(p) ** 2,)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return Macrospin.mobility(p)[0] * m[0] ** 2 / 2

    @staticmethod
    def amplitude(p: Values) -> float:
        return SWING

    @staticmethod
    def rest_guess(p: Values) -> Array:
        return p.rest

    @staticmethod
    def conductance(p: Values) -> Array:
        return p.damping * Macrospin.spin(p)

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return abs(m[0]) / Macrospin.spin(p) / SMALL

    @staticmethod
    def fault(p: Values) -> tuple[str, str] | None:
        if p.renormalisation > 1:
            return "renormalisation", f"must be at most 1, but is {p.renormalisation:g}"
        if Macrospin.easy_plane(p) <= 0:
            return "perpendicular_anisotropy", "must leave an easy plane: K_u below μ₀M_s²(N_z − N_x)/2, but is not"
        if Macrospin.mobility(p)[0] <= 0:
            return "rest", "must be where the field does not overcome the easy plane, but is not"
        return None


_ENDS: dict[str, tuple[int, str]] = {
    f"{name}_{end}": (i, name) for i, end in enumerate("ab") for name in ("spin", "moment", "rest", "renormalisation")
}
_EACH = ((1, 0), (0, 1))


def _of_tilts(m: tuple[Array, ...], p: Values, own: Array, mixed: Array) -> Array:
    """Energy own·(z_a² + z_b²)/2 + mixed·z_a·z_b of the out-of-plane components, as far as both are renormalised."""
    a, b = m[0] / p.spin_a, m[1] / p.spin_b
    return p.renormalisation_a * p.renormalisation_b * (own * (a**2 + b**2) / 2 + mixed * a * b)


def _tilt_bounds(p: Values, own: Array, mixed: Array) -> tuple[Array, Array]:
    """Bounds of its curvature along either momentum: a row sum each."""
    scale = p.renormalisation_a * p.renormalisation_b
    mixed = abs(mixed) / (p.spin_a * p.spin_b)
    return scale * (abs(own) / p.spin_a**2 + mixed), scale * (abs(own) / p.spin_b**2 + mixed)


@element("exchange")
class Exchange(Element):
    """Exchange or other isotropic coupling of two macrospins."""

    a: str = terminal()
    b: str = terminal()
    energy: Quantity = parameter(
        "J",
        "coupling energy J, positive if parallel is preferred: J_ex times area",
        knob=True,
        typical="1e-19 to 1e-17 J (order of magnitude)",
        example="2e-19 J",
    )
    domain = SPIN
    momentum_branches = _EACH
    borrows: ClassVar = _ENDS
    energy_text = "J(1 − cos(φ₁ − φ₂)), and J(z₁² + z₂²)/2·cos − J·z₁z₂ of z = p/S, renormalised at rest"
    loss_text = "lossless"
    limits_text = "between macrospins; |m_z| as theirs"
    reversal_text = _NOTHING

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return p.energy * (1 - cos(b[0]))

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (abs(p.energy),)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return _of_tilts(m, p, p.energy * cos(p.rest_a - p.rest_b), -p.energy)

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return _tilt_bounds(p, p.energy * cos(p.rest_a - p.rest_b), -p.energy)

    @staticmethod
    def amplitude(p: Values) -> float:
        return SWING


@element("dipole")
class DipoleCoupler(Element):
    """Dipolar coupling of two macrospins as point dipoles in one plane."""

    a: str = terminal()
    b: str = terminal()
    distance: Quantity = parameter(
        "m",
        "distance of their centres",
        above=0,
        knob=True,
        typical="a few times their size (order of magnitude)",
        example="200 nm",
    )
    bond_angle: Quantity = parameter("rad", "direction from one to the other", default=0.0)
    domain = SPIN
    branches = _EACH
    momentum_branches = _EACH
    constants: ClassVar = _MU
    borrows: ClassVar = _ENDS
    energy_text = "D(sin ψ₁ sin ψ₂ − 2 cos ψ₁ cos ψ₂), ψ from the bond, D = μ₀m₁m₂/4πd³; and D·z₁z₂ + …"
    loss_text = "lossless"
    limits_text = "between macrospins; point dipoles underestimate close pairs"
    reversal_text = _NOTHING

    @staticmethod
    def strength(p: Values) -> Array:
        """Energy D of two parallel moments side by side."""
        return p.mu_0 * p.moment_a * p.moment_b / (4 * pi * p.distance**3)

    @staticmethod
    def lean(p: Values) -> Array:
        """Minus the potential at rest, over D."""
        a, b = p.rest_a - p.bond_angle, p.rest_b - p.bond_angle
        return 2 * cos(a) * cos(b) - sin(a) * sin(b)

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        first, second = b[0] - p.bond_angle, b[1] - p.bond_angle
        return DipoleCoupler.strength(p) * (sin(first) * sin(second) - 2 * cos(first) * cos(second))

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (4 * DipoleCoupler.strength(p),) * 2

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        D = DipoleCoupler.strength(p)
        return _of_tilts(m, p, D * DipoleCoupler.lean(p), D)

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        D = DipoleCoupler.strength(p)
        return _tilt_bounds(p, D * DipoleCoupler.lean(p), D)

    @staticmethod
    def amplitude(p: Values) -> float:
        return SWING


@element("field-line")
class FieldLine(Element):
    """Conductor whose current makes an in-plane field at a macrospin; a `field` drive feeds it."""

    node: str = terminal()
    angle: Quantity = parameter("rad", "direction of the field", default=pi / 2)
    domain = SPIN
    # The second branch reads no coordinate: it is the field, and the drive sets it.
    branches = ((1,), (0,))
    borrows: ClassVar = {"moment": (0, "moment")}
    energy_text = "−M_sV·B(t)·cos(φ − angle)"
    loss_text = "lossless"
    limits_text = "on a macrospin; uniform over it"
    reversal_text = "the field is played backwards: in-plane fields are even when m_z alone is turned"

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return -p.moment * b[1] * cos(b[0] - p.angle)

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (0 * p.moment, 0 * p.moment)

    @staticmethod
    def amplitude(p: Values) -> float:
        return SWING


@element("magnon")
class MagnonMode(Element):
    """Uniform magnon mode of a magnetised body: linear, with elliptical precession."""

    node: str = terminal()
    magnetisation: Quantity = parameter(
        "A/m", "saturation magnetisation M_s", above=0, typical=_MAGNETISATION, example="140 kA/m"
    )
    volume: Quantity = parameter(
        "m**3", "volume", above=0, typical="1e-22 to 1e-10 m³ (order of magnitude)", example="1e-22 m**3"
    )
    field: Quantity = parameter(
        "T", "static field along the equilibrium", above=0, knob=True, typical="10 to 300 mT", example="100 mT"
    )
    demagnetisation: Quantity = parameter("", "N_z − N_x of the shape", default=1.0, at_least=0)
    damping: Quantity = parameter("", "Gilbert damping α", default=0.0, at_least=0, stored=False)
    gyromagnetic_ratio: Quantity = parameter("Hz/T", "γ in rad/(s·T)", default=GAMMA, above=0)
    domain = SPIN
    body = True
    branches = ((1,),)
    linear = True
    constants: ClassVar = _MU
    energy_text = "Sω₁φ²/2 + ω₂p²/2S; ω₁ = γB, ω₂ = γ(B + μ₀M_s(N_z − N_x)), ω = √(ω₁ω₂)"
    loss_text = "Gilbert damping: both quadratures decay at α(ω₁ + ω₂)/2"
    limits_text = "angles up to 0.3: a linear mode; ellipticity √(ω₁/ω₂)"
    reversal_text = "parametric pumping at twice the frequency"
    validity_text = "angle over 0.3"

    @staticmethod
    def spin(p: Values) -> Array:
        """Angular momentum S."""
        return p.magnetisation * p.volume / p.gyromagnetic_ratio

    @staticmethod
    def rates(p: Values) -> tuple[Array, Array]:
        """In-plane and out-of-plane rates ω₁ and ω₂."""
        outward = p.field + p.mu_0 * p.magnetisation * p.demagnetisation
        return p.gyromagnetic_ratio * p.field, p.gyromagnetic_ratio * outward

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return MagnonMode.stiffness(p)[0] * b[0] ** 2 / 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (MagnonMode.spin(p) * MagnonMode.rates(p)[0],)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return MagnonMode.mobility(p)[0] * m[0] ** 2 / 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return (MagnonMode.rates(p)[1] / MagnonMode.spin(p),)

    @staticmethod
    def amplitude(p: Values) -> float:
        return SWING / 6

    @staticmethod
    def aspect(p: Values) -> Array:
        slow, fast = MagnonMode.rates(p)
        return MagnonMode.spin(p) * sqrt(slow / fast)

    @staticmethod
    def decay(p: Values) -> tuple[Array, Array]:
        slow, fast = MagnonMode.rates(p)
        return p.damping * (slow + fast) / 2, sqrt(slow * fast)

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return larger(abs(b[0]), abs(m[0]) / MagnonMode.spin(p)) / 0.3


# Vortices and skyrmions -------------------------------------------------------------------------------------------

_POLARITY_SWITCH = "switch the core's polarity: G changes sign at fixed position, and the motion retraces"


@element("vortex")
class Vortex(Element):
    """Magnetic vortex in a disc: its core gyrates by the Thiele equation."""

    node: str = terminal()
    magnetisation: Quantity = parameter(
        "A/m", "saturation magnetisation M_s", above=0, typical=_MAGNETISATION, example="800 kA/m"
    )
    radius: Quantity = parameter(
        "m", "radius R of the disc", above=0, typical="100 nm to 1 µm (order of magnitude)", example="200 nm"
    )
    thickness: Quantity = parameter(
        "m", "thickness L, far below R", above=0, typical="5 to 50 nm (order of magnitude)", example="20 nm"
    )
    polarity: Quantity = parameter("", "+1 or −1: where the core points", default=1.0)
    stiffening: Quantity = parameter(
        "", "quartic confinement κ′R²/κ, of either sign", default=0.0, knob=True, example=0.25
    )
    damping: Quantity = parameter(
        "", "decay over gyration frequency, about α(1 + ½·ln R/R_core)", default=0.0, at_least=0, stored=False
    )
    gyromagnetic_ratio: Quantity = parameter("Hz/T", "γ in rad/(s·T)", default=GAMMA, above=0)
    domain = TEXTURE
    body = True
    branches = ((1,),)
    linear = True
    constants: ClassVar = _MU
    lends = ("gyrovector", "moment")
    energy_text = "κ(X² + Y²)/2 + κ′(X² + Y²)²/4, Y = p/G; κ = (10/9)μ₀M_s²L²/R, G = 2π·polarity·M_sL/γ"
    loss_text = "both coordinates decay at damping·κ/|G|"
    limits_text = "thin disc; displacement up to R/2; the quartic part is an exact rotation"
    reversal_text = _POLARITY_SWITCH
    validity_text = "displacement over R/2"

    @staticmethod
    def gyrovector(p: Values) -> Array:
        """G in kg/s, with its sign."""
        return 2 * pi * p.polarity * p.magnetisation * p.thickness / p.gyromagnetic_ratio

    @staticmethod
    def moment(p: Values) -> Array:
        """In-plane moment per displacement σ, in A·m."""
        return 2 / 3 * pi * p.radius * p.thickness * p.magnetisation

    @staticmethod
    def confinement(p: Values) -> Array:
        """Spring constant κ."""
        return 10 / 9 * p.mu_0 * (p.magnetisation * p.thickness) ** 2 / p.radius

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return Vortex.confinement(p) * b[0] ** 2 / 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (Vortex.confinement(p),)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return Vortex.mobility(p)[0] * m[0] ** 2 / 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return (Vortex.confinement(p) / Vortex.gyrovector(p) ** 2,)

    @staticmethod
    def rotation(n: Array, p: Values) -> Array:
        return Vortex.frequency_shift(p) * n**2 / 2

    @staticmethod
    def frequency_shift(p: Values) -> Array:
        return 2 * p.stiffening * Vortex.confinement(p) / (p.radius * Vortex.gyrovector(p)) ** 2

    @staticmethod
    def aspect(p: Values) -> Array:
        return abs(Vortex.gyrovector(p))

    @staticmethod
    def decay(p: Values) -> tuple[Array, Array]:
        rate = Vortex.confinement(p) / Vortex.aspect(p)
        return p.damping * rate, rate

    @staticmethod
    def validity(b: tuple[Array, ...], m: tuple[Array, ...], p: Values) -> Array:
        return sqrt(b[0] ** 2 + (m[0] / Vortex.gyrovector(p)) ** 2) * 2 / p.radius

    @staticmethod
    def fault(p: Values) -> tuple[str, str] | None:
        return None if p.polarity in (-1, 1) else ("polarity", f"must be 1 or -1, but is {p.polarity:g}")


@element("skyrmion")
class Skyrmion(Element):
    """Skyrmion in a given confinement: it gyrates by the Thiele equation."""

    node: str = terminal()
    magnetisation: Quantity = parameter(
        "A/m", "saturation magnetisation M_s", above=0, typical=_MAGNETISATION, example="580 kA/m"
    )
    thickness: Quantity = parameter(
        "m", "thickness", above=0, typical="0.5 to 5 nm (order of magnitude)", example="1 nm"
    )
    confinement: Quantity = parameter(
        "N/m", "spring constant κ", above=0, knob=True, typical="1e-4 N/m (order of magnitude)", example="1e-4 N/m"
    )
    cubic: Quantity = parameter("N/m**3", "quartic confinement κ′, of either sign", default=0.0, example="1e9 N/m**3")
    charge: Quantity = parameter("", "topological charge, +1 or −1", default=1.0)
    damping: Quantity = parameter("", "decay over gyration frequency", default=0.0, at_least=0, stored=False)
    gyromagnetic_ratio: Quantity = parameter("Hz/T", "γ in rad/(s·T)", default=GAMMA, above=0)
    domain = TEXTURE
    body = True
    branches = ((1,),)
    linear = True
    energy_text = "κ(X² + Y²)/2 + κ′(X² + Y²)²/4, Y = p/G; G = 4π·charge·M_sL/γ"
    loss_text = "both coordinates decay at damping·κ/|G|"
    limits_text = "rigid and massless; the quartic part is an exact rotation"
    reversal_text = _POLARITY_SWITCH

    @staticmethod
    def gyrovector(p: Values) -> Array:
        """G in kg/s, with its sign."""
        return 4 * pi * p.charge * p.magnetisation * p.thickness / p.gyromagnetic_ratio

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return p.confinement * b[0] ** 2 / 2

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (p.confinement,)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return Skyrmion.mobility(p)[0] * m[0] ** 2 / 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        return (p.confinement / Skyrmion.gyrovector(p) ** 2,)

    @staticmethod
    def rotation(n: Array, p: Values) -> Array:
        return Skyrmion.frequency_shift(p) * n**2 / 2

    @staticmethod
    def frequency_shift(p: Values) -> Array:
        return 2 * p.cubic / Skyrmion.gyrovector(p) ** 2

    @staticmethod
    def aspect(p: Values) -> Array:
        return abs(Skyrmion.gyrovector(p))

    @staticmethod
    def decay(p: Values) -> tuple[Array, Array]:
        rate = p.confinement / Skyrmion.aspect(p)
        return p.damping * rate, rate

    @staticmethod
    def fault(p: Values) -> tuple[str, str] | None:
        return None if p.charge in (-1, 1) else ("charge", f"must be 1 or -1, but is {p.charge:g}")


@element("pillar")
class PillarCoupler(Element):
    """Dipolar coupling of two vortex pillars."""

    a: str = terminal()
    b: str = terminal()
    distance: Quantity = parameter(
        "m",
        "distance of their centres",
        above=0,
        knob=True,
        typical="2.5 to 5 times the radius (order of magnitude)",
        example="600 nm",
    )
    chirality: Quantity = parameter("", "product of the two chiralities, +1 or −1", default=1.0)
    domain = TEXTURE
    branches = ((1, 1), (1, -1))
    linear = True
    constants: ClassVar = _MU
    borrows: ClassVar = {f"{name}_{end}": (i, name) for i, end in enumerate("ab") for name in ("gyrovector", "moment")}
    energy_text = "±η(X₁X₂ − 2Y₁Y₂), η = μ₀σ₁σ₂/4πd³, Y = p/G: unlike polarities change a sign"
    loss_text = "lossless"
    limits_text = "between vortices; point dipoles underestimate close pairs"
    reversal_text = "nothing to do where all polarities are switched"

    @staticmethod
    def strength(p: Values) -> Array:
        """Energy η per product of displacements."""
        return p.chirality * p.mu_0 * p.moment_a * p.moment_b / (4 * pi * p.distance**3)

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return PillarCoupler.strength(p) * (b[0] ** 2 - b[1] ** 2) / 4

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        half = PillarCoupler.strength(p) / 2
        return (half, -half)

    @staticmethod
    def kinetic(m: tuple[Array, ...], p: Values) -> Array:
        return PillarCoupler.mobility(p)[0] * (m[0] ** 2 - m[1] ** 2) / 2

    @staticmethod
    def mobility(p: Values) -> tuple[Array, ...]:
        half = -PillarCoupler.strength(p) / (p.gyrovector_a * p.gyrovector_b)
        return (half, -half)

    @staticmethod
    def fault(p: Values) -> tuple[str, str] | None:
        return None if p.chirality in (-1, 1) else ("chirality", f"must be 1 or -1, but is {p.chirality:g}")
