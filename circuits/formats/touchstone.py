"""Linear response of a photonic design at its buses, as a Touchstone file, and such files read.

Light of amplitude s_in on the bus of a resonator drives it at √κ_e·s_in and leaves as s_out = s_in − √κ_e·a. With
ȧ = −iKa − κa/2 + √κ_e·s_in, K hermitian and κ = κ_e + κ_i diagonal, light e^(−iωt) meets

    S(ω) = 1 − √κ_e·(κ/2 + i(K − ω))⁻¹·√κ_e.

Engineers count phases as e^(+jωt), and so does Touchstone: the file has the complex conjugate. Every resonator with an
`external_q` has a port. A ring that is driven or read but states none has one by the assumed tap of its waveguide, as
in the layout; what cannot be expressed is refused by name. Kerr shifts are left out: the response is that to weak
light.
"""

from __future__ import annotations

import cmath
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import ArrayLike, NDArray

from circuits.findings import DesignError, Finding, Severity, error
from circuits.formats.waveguide import Waveguide
from circuits.lowering import lower
from circuits.netlist import Netlist
from devices import (
    PHOTONIC,
    ArgumentError,
    Cavity,
    CoherentDrive,
    Element,
    EvanescentCoupler,
    Homodyne,
    Ring,
)
from devices.photonic import HBAR

NONLINEAR = ("kerr", "kerr-rotation", "kerr-field")
"""Types that weak light does not feel."""
EVEN, NEAR = 801, 61
"""Points of the automatic grid, in all and around each resonance."""
UNITS = {"HZ": 1.0, "KHZ": 1e3, "MHZ": 1e6, "GHZ": 1e9}
FORMS: Mapping[str, Callable[[Any, Any], Any]] = {
    "RI": lambda real, imaginary: real + 1j * imaginary,
    "MA": lambda size, degrees: size * np.exp(1j * np.deg2rad(degrees)),
    "DB": lambda decibels, degrees: 10 ** (decibels / 20) * np.exp(1j * np.deg2rad(degrees)),
}
"""Options of a file: units of frequencies, and what the two numbers of a coefficient are."""
PORT = re.compile(r"^\s*!\s*Port\[(\d+)\]\s*=\s*(\S+)", re.MULTILINE)

Rates = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Response:
    """Rates of coupled resonators, in rad/s and 1/s, and which of them have a bus."""

    nodes: tuple[str, ...]
    ports: tuple[str, ...]
    reference_hz: float
    """From which K counts, so that detunings keep their digits."""
    coupling: NDArray[np.complex128]
    """K, (nodes, nodes)."""
    inner: Rates
    """κ_i, (nodes,)."""
    outer: Rates
    """κ_e, (nodes,)."""

    def scattering(self, frequencies_hz: ArrayLike) -> NDArray[np.complex128]:
        """S between the ports (frequencies, ports, ports), phases as e^(−iωt): S[f, i, j] from port j to port i."""
        omega = 2 * np.pi * (np.atleast_1d(np.asarray(frequencies_hz, float)) - self.reference_hz)
        at = [self.nodes.index(p) for p in self.ports]
        one = np.eye(len(self.nodes))
        entry = (one * np.sqrt(self.outer))[:, at]
        system = self._decaying - 1j * omega[:, None, None] * one
        inside = np.linalg.solve(system, np.broadcast_to(entry, (len(omega), *entry.shape)))
        return np.asarray(np.eye(len(at)) - entry.T @ inside)

    @property
    def resonances(self) -> tuple[Rates, Rates]:
        """Frequencies and full widths (Hz) of the modes."""
        values = np.linalg.eigvals(self._decaying) / (2 * np.pi)
        return np.asarray(values.imag) + self.reference_hz, np.asarray(2 * values.real)

    @property
    def _decaying(self) -> NDArray[np.complex128]:
        return np.asarray(1j * self.coupling + np.diag((self.inner + self.outer) / 2))


def response(netlist: Netlist, guide: Waveguide | None = None) -> Response:
    """Coupling matrix and loss rates of a photonic netlist, or `DesignError` with what has no linear response."""
    if findings := list(_refused(netlist)):
        raise DesignError(findings)
    guide = guide or Waveguide()
    place = {n: i for i, n in enumerate(netlist.nodes)}
    K = np.zeros((len(place), len(place)), complex)
    inner, outer = np.zeros(len(place)), np.zeros(len(place))
    lit = {n for p in (*netlist.drives, *netlist.detectors) for n in netlist.terminals_of(p)}
    reference = max((e.frame(e.numbers) for e in netlist.elements if isinstance(e, (Ring, Cavity))), default=0.0)
    ports = set()
    for part in netlist.elements:
        at = [place[n] for n in netlist.terminals_of(part)]
        if part.type not in NONLINEAR:
            K[np.ix_(at, at)] += _matrix(part)
        if isinstance(part, (Ring, Cavity)):
            K[at[0], at[0]] += 2 * math.pi * (part.frame(part.numbers) - reference)
            rate = part.carrier_rate(part.numbers)
            inner[at[0]], outer[at[0]] = rate / part.intrinsic_q, rate / part.external_q
            if outer[at[0]] == 0 and part.node in lit and isinstance(part, Ring):
                length = guide.length(guide.order(part.carrier), part.carrier + part.detuning, part.carrier)
                outer[at[0]] = -math.log1p(-guide.tap) / guide.round_trip(length)
            if outer[at[0]] > 0:
                ports.add(part.node)
    if not ports:
        raise DesignError([error("design", "no light gets in or out", "add a drive, a detector or an `external_q`")])
    # What no port reaches does not answer, and might resonate without end.
    reached = set().union(*(nx.node_connected_component(nx.from_numpy_array(K != 0), place[n]) for n in ports))
    seen = sorted(reached)
    nodes = tuple(netlist.nodes[i] for i in seen)
    return Response(
        nodes, tuple(n for n in nodes if n in ports), reference, K[np.ix_(seen, seen)], inner[seen], outer[seen]
    )


def _refused(netlist: Netlist) -> Iterator[Finding]:
    for part in (*netlist.elements, *netlist.drives, *netlist.detectors):
        known = part.domain is PHOTONIC if isinstance(part, Element) else isinstance(part, (CoherentDrive, Homodyne))
        if not known:
            yield error(part.name, f"a scattering matrix of light has nothing for a {part.type}", "remove it")
    lit = {n for p in (*netlist.drives, *netlist.detectors) for n in netlist.terminals_of(p)}
    for part in netlist.elements:
        if isinstance(part, Cavity) and part.node in lit and math.isinf(part.external_q):
            yield error(part.name, "is driven or read, but its `external_q` says that nothing gets in", "give it one")
    yield from (f for f in lower(netlist)[1] if f.severity is Severity.ERROR)


def _matrix(part: Element) -> NDArray[np.complex128]:
    """What an element adds to K between its terminals: H = ħ·a†Ka."""
    rows = np.array(part.branches, float)
    real = rows.T @ np.diag(np.broadcast_to(part.stiffness(part.numbers), len(rows))) @ rows / HBAR
    if isinstance(part, EvanescentCoupler):
        hop = 2 * math.pi * part.rate * cmath.exp(1j * part.phase)
        return np.array([[0, hop], [hop.conjugate(), 0]])
    return np.asarray(real, complex)


def write(netlist: Netlist, frequencies_hz: ArrayLike | None = None, guide: Waveguide | None = None) -> str:
    """Text of a Touchstone file, version 1, of the response at the ports; `suffix` tells how to name it.

    Without frequencies they span all modes and crowd around each.
    """
    found = response(netlist, guide)
    hertz = _grid(found) if frequencies_hz is None else np.atleast_1d(np.asarray(frequencies_hz, float))
    if not len(hertz) or not np.all(np.isfinite(hertz)) or hertz[0] < 0 or np.any(np.diff(hertz) <= 0):
        raise ArgumentError("Argument `frequencies_hz` must grow from 0 or above, but does not")
    S = found.scattering(hertz).conj()
    shifts = [e.name for e in netlist.elements if e.type in NONLINEAR]
    lines = [f"! {netlist.name}: linear response at the buses, phases as exp(+jwt)"]
    lines += [f"! Kerr shifts of {', '.join(shifts)} are left out: light is weak"] if shifts else []
    lines += [f"! Port[{i}] = {name}" for i, name in enumerate(found.ports, 1)]
    lines.append("# Hz S RI R 50")
    count = len(found.ports)
    for f, matrix in zip(hertz, S, strict=True):
        # Two ports stand column by column, others row by row, four numbers to a line at most.
        cells = matrix.T.ravel() if count == 2 else matrix.ravel()
        pairs = [f"{z.real!r} {z.imag!r}" for z in map(complex, cells)]
        rows = [pairs] if count <= 2 else [r[i : i + 4] for r in _rows(pairs, count) for i in range(0, count, 4)]
        lines.append(f"{float(f)!r} " + "\n  ".join(" ".join(row) for row in rows))
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, eq=False)
class Network:
    """What a Touchstone file says."""

    frequencies_hz: Rates
    scattering: NDArray[np.complex128]
    """(frequencies, ports, ports), phases as e^(−iωt), as `Response.scattering` has it."""
    ports: tuple[str, ...] | None
    """Names of the ports from comments such as ``! Port[1] = a0``; None if not all have one."""


def read(text: str, count: int) -> Network:
    """What the text of a Touchstone file, version 1, of so many ports says."""
    lines = [line.partition("!")[0].strip() for line in text.splitlines()]
    if any(line.startswith("[") for line in lines):
        raise ArgumentError("Argument `text` must be Touchstone of version 1, but has keywords of version 2")
    options = next((line[1:].upper().split() for line in lines if line.startswith("#")), None)
    if options is None:
        raise ArgumentError("Argument `text` must have a line of options, such as `# Hz S RI R 50`, but has none")
    words = [word for i, word in enumerate(options) if word != "R" and (i == 0 or options[i - 1] != "R")]
    for word in words:
        if word not in (*UNITS, *FORMS, "S"):
            raise ArgumentError(f"Argument `text` must have options of S-parameters, but has {word!r} in `# …`")
    scale = next((UNITS[word] for word in words if word in UNITS), 1e9)
    form = next((FORMS[word] for word in words if word in FORMS), FORMS["MA"])
    try:
        numbers = np.array(" ".join(line for line in lines if not line.startswith("#")).split(), float)
    except ValueError as problem:
        raise ArgumentError(f"Argument `text` must hold numbers below its options, but {problem}") from None
    width = 1 + 2 * count**2
    if not len(numbers) or len(numbers) % width or not np.all(np.isfinite(numbers)):
        raise ArgumentError(
            f"Argument `text` must hold {width} finite numbers for every frequency of {count} ports, but holds "
            f"{len(numbers)} in all"
        )
    rows = numbers.reshape(-1, width)
    if np.any(np.diff(rows[:, 0]) <= 0):
        raise ArgumentError("Argument `text` must have frequencies that grow, but has not")
    S = form(rows[:, 1::2], rows[:, 2::2]).reshape(-1, count, count)
    named = dict(PORT.findall(text))
    ports = tuple(named.get(str(i), "") for i in range(1, count + 1))
    turned = S.swapaxes(1, 2) if count == 2 else S  # two ports stand column by column
    return Network(scale * rows[:, 0], turned.conj(), ports if all(ports) else None)


def suffix(netlist: Netlist, guide: Waveguide | None = None) -> str:
    """Name's end of the file, such as ``.s2p``, by which readers know the number of ports."""
    return f".s{len(response(netlist, guide).ports)}p"


def _rows(pairs: list[str], count: int) -> Iterator[list[str]]:
    yield from (pairs[i : i + count] for i in range(0, len(pairs), count))


def _grid(found: Response) -> Rates:
    """Frequencies over all modes, and closer where they are narrow."""
    at, width = found.resonances
    margin = 0.1 * (at.max() - at.min()) + 10 * width.max()
    crowd = np.sinh(np.linspace(-1, 1, NEAR) * math.asinh(50))
    return np.unique(
        np.concatenate(
            [
                np.linspace(at.min() - margin, at.max() + margin, EVEN),
                *(f + w * crowd / 5 for f, w in zip(at, width, strict=True)),
            ]
        )
    )
