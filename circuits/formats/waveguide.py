"""Rates of a photonic design as geometry: radii from frequencies, power couplings and gaps from rates.

A loop of length L takes a whole number m of wavelengths at its resonance f. With an effective index that follows the
group index n_g from its value n at the carrier f₀, n(f)·f = n_g·f − (n_g − n)·f₀, so that

    m·c/f = n(f)·L    ⇒    L = 2πR = m·c/(n_g·f − (n_g − n)·f₀),    round-trip time t = n_g·L/c.

A coupler with amplitude coupling k between two loops makes them hop at J with sin(J·t) = k (exact for two alike ones,
J = k/t for small k), t the geometric mean of their round trips; one to a bus lets energy out at κ_e with
1 − k² = exp(−κ_e·t). Loss along the loop is κ_i·n_g/c per length.

The amplitude coupling of two guides falls with their gap as the evanescent field does,

    k = k₀·exp(−g/d),    d = 1/((2πf₀/c)·√(n² − n_c²)),

n_c the index of the cladding. k₀, which the bends set, is an assumption, like all defaults here: a foundry's own
numbers belong in their place.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from devices import ArgumentError, refuse_unless_positive

LIGHT = 299792458.0
"""Speed of light in m/s."""


@dataclass(frozen=True)
class Waveguide:
    """Single-mode waveguide of which rings and buses are made. All defaults are assumptions, none is measured."""

    index: float = 1.75
    """Effective index at the carrier; assumed, order of magnitude of silicon nitride at 1550 nm."""
    group_index: float = 2.1
    """Group index, taken as constant; assumed likewise."""
    cladding: float = 1.444
    """Index of the cladding; assumed silica."""
    width: float = 1.5e-6
    """Width in m; assumed."""
    radius: float = 60e-6
    """Wanted radius of the rings in m, moved to a whole number of wavelengths; assumed."""
    contact: float = 1.0
    """Amplitude coupling k₀ that the exponential law has at zero gap; assumed."""
    tap: float = 1e-4
    """Power coupling of the bus at a ring that is driven or read but states no external Q; assumed."""
    clearance: float = 3e-6
    """Least distance in m between edges of guides that shall not couple; assumed."""

    def __post_init__(self) -> None:
        refuse_unless_positive(**asdict(self))
        if not self.cladding < self.index:
            raise ArgumentError("Argument `index` must be above `cladding`, but is not: nothing guides the light")
        if self.tap >= 1 or self.contact > 1:
            raise ArgumentError("Argument `tap` must be below 1 and `contact` at most 1, but they are not")

    def order(self, carrier: float) -> int:
        """Wavelengths in a loop, a multiple of four so that quarters of a ring hold whole wavelengths too."""
        return max(4, 4 * round(2 * math.pi * self.radius * self.index * carrier / LIGHT / 4))

    def length(self, order: int, frequency: float, carrier: float) -> float:
        """Length in m of a loop of that order whose resonance is at `frequency`."""
        return order * LIGHT / (self.group_index * frequency - (self.group_index - self.index) * carrier)

    def round_trip(self, length: float) -> float:
        """Time in s that light takes around a loop."""
        return self.group_index * length / LIGHT

    def decay(self, carrier: float) -> float:
        """Length d in m over which the amplitude coupling falls by e."""
        return LIGHT / (2 * math.pi * carrier * math.sqrt(self.index**2 - self.cladding**2))

    def gap(self, power: float, carrier: float) -> float:
        """Gap in m of a coupler of that power coupling; below zero where no gap is small enough."""
        return self.decay(carrier) * math.log(self.contact / math.sqrt(power))

    def loss(self, rate: float) -> float:
        """Loss in dB/cm that makes energy leave at `rate` (1/s)."""
        return 10 * math.log10(math.e) * rate * self.group_index / LIGHT / 100


def hop_power(rate: float, round_trip: float) -> float:
    """Power coupling with which two loops hop at `rate` (rad/s)."""
    return math.sin(rate * round_trip) ** 2


def exit_power(rate: float, round_trip: float) -> float:
    """Power coupling through which energy leaves a loop at `rate` (1/s)."""
    return -math.expm1(-rate * round_trip)
