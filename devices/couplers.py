"""Elements that join coordinates of any domains."""

from __future__ import annotations

from devices.element import Array, Element, Values, element, parameter, terminal
from devices.units import Quantity


@element("bilinear")
class BilinearCoupler(Element):
    """Coupling energy g·x₁·x₂ between any two coordinates of any domains."""

    a: str = terminal()
    b: str = terminal()
    strength: Quantity = parameter(
        None,
        "energy per product of the two coordinates, in J over the product of their units",
        knob=True,
        typical="well below √(k₁k₂), or the rest point is unstable",
        example=2e7,
    )
    domain = None
    linear = True
    # g·x₁x₂ = (g/2)(x₁ + x₂)²/2 − (g/2)(x₁ − x₂)²/2: every quadratic element is diagonal in its branches.
    branches = ((1, 1), (1, -1))
    energy_text = "g·x₁·x₂"
    loss_text = "lossless transducer"
    limits_text = "g² < k₁k₂ of the two coordinates"
    reversal_text = "nothing to do: coordinates are even under time reversal"

    @staticmethod
    def potential(b: tuple[Array, ...], p: Values) -> Array:
        return p.strength * (b[0] ** 2 - b[1] ** 2) / 4

    @staticmethod
    def stiffness(p: Values) -> tuple[Array, ...]:
        return (p.strength / 2, -p.strength / 2)
