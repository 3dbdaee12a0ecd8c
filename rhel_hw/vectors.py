"""A leapfrog step in fixed point as synthesizable Verilog, with test vectors of the emulator that check it bit by bit.

One clock is one step of a linear circuit: drift, kick, drift, each increment rounded to the grid of the state, halves
to even, as the emulated bench does it (`rhel_hw.device`). Coefficients and kicks of the drives come with so many bits
that rounding them moves no increment across the middle of two grid points; whether that is so is tried on the vectors
before anything is returned. The test bench runs a pass, turns the momenta, and runs the echo back to the start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design, Probes
from devices import ArgumentError
from rhel_hw.arithmetic import Format, format_named
from rhel_hw.bench import Shot
from rhel_hw.profile import Profile
from rhel_hw.vectors_verilog import Widths, bench_module, step_module

Integers = list[list[int]]

COEFFICIENT_BITS = 52
"""After the point of coefficients and kicks, as doubles near one have."""


@dataclass(frozen=True)
class Step:
    """A step as whole numbers: states in units of 2^-fraction, coefficients and kicks in units of 2^-coefficient."""

    drift: tuple[tuple[int, ...], ...]
    """Half a step of velocity per momentum."""
    kick: tuple[tuple[int, ...], ...]
    """A step of force per position."""
    format: Format
    coefficient: int

    def __call__(
        self, q: Sequence[int], p: Sequence[int], push: Sequence[int]
    ) -> tuple[list[int], list[int], list[int]]:
        """Positions at the kick, and positions and momenta at the end; `push` are the kicks of the drives."""
        fraction = self.format.fraction
        middle = [a + self._rounded(_dot(row, p)) for a, row in zip(q, self.drift, strict=True)]
        turned = [
            a + self._rounded(_dot(row, middle) + (s << fraction)) for a, row, s in zip(p, self.kick, push, strict=True)
        ]
        ended = [a + self._rounded(_dot(row, turned)) for a, row in zip(middle, self.drift, strict=True)]
        return middle, [self._clipped(a) for a in ended], [self._clipped(a) for a in turned]

    @property
    def top(self) -> int:
        """Largest state."""
        assert self.format.integer is not None  # of fixed point only
        return int(2 ** (self.format.integer + self.format.fraction)) - 1

    def _rounded(self, x: int) -> int:
        """X over 2^coefficient, halves to even."""
        floor, rest = x >> self.coefficient, x & ((1 << self.coefficient) - 1)
        half = 1 << (self.coefficient - 1)
        return floor + (rest > half or (rest == half and floor & 1 == 1))

    def _clipped(self, x: int) -> int:
        return max(-self.top, min(self.top, x))


@dataclass(frozen=True)
class Vectors:
    """Files of a hand-over: the module, its test bench, and hexadecimal vectors of one pass."""

    files: Mapping[str, str]
    steps: int
    size: int
    """Coordinates."""

    def save(self, folder: str | Path) -> None:
        """Write them into a folder; simulate there with `iverilog -g2005 -o test *.v && vvp test`."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            Path(folder, name).write_text(text, encoding="ascii")


def vectors(
    design: Design,
    drive: Mapping[str, Any] | None = None,
    profile: Profile | None = None,
    *,
    coefficient_bits: int = COEFFICIENT_BITS,
) -> Vectors:
    """Verilog and vectors of a linear, lossless design in the number format of a profile.

    Arguments:
        design: compiled; what is not linear is refused by name.
        drive: waveforms (steps,) in SI; None for seeded noise inside the band of its modes.
        profile: gives the number format, and must be ideal otherwise; None for the preset `fpga-fixed-point`.
        coefficient_bits: after the point of the coefficients; if too few to be exact on the vectors, it is refused.
    """
    from rhel_hw.excitation import band_limited

    profile = Profile.preset("fpga-fixed-point") if profile is None else profile
    others = sorted(set(profile.differences()) - {"dynamics.precision"})
    if others:
        raise ArgumentError(f"Argument `profile` must be ideal but for its number format, but sets {', '.join(others)}")
    form = format_named(profile.dynamics.precision)
    if not form.fixed:
        raise ArgumentError(f"Argument `profile` must have a fixed-point format, but has {profile.dynamics.precision}")
    if not isinstance(coefficient_bits, int) or not 2 <= coefficient_bits <= 60:
        raise ArgumentError(f"Argument `coefficient_bits` must be from 2 to 60, but is {coefficient_bits!r}")
    _refuse_unfit(design)
    seen = design if design.netlist.probes == Probes() else design.netlist.replace(probes=Probes()).compile()
    waves = band_limited(seen) if drive is None else {k: np.asarray(v, float) for k, v in drive.items()}
    maps = _maps(seen, waves)
    step, pushes = _step(seen, maps, form, coefficient_bits)
    start, middles, momenta, beyond = _emulated(seen, waves, maps, profile, form)
    beyond |= max(abs(x) for row in pushes for x in row) >= 1 << ((form.integer or 0) + coefficient_bits)
    if beyond:
        raise ArgumentError(f"Argument `drive` must keep the state within {profile.dynamics.precision}: drive it less")
    last = _checked(step, start, pushes, middles, momenta)
    widths = _widths(step)
    rows = [[*m, *p] for m, p in zip(middles, momenta, strict=True)]
    files = {
        "rhel_step.v": step_module(step.drift, step.kick, widths, design.netlist.name, seen.hamiltonian.names),
        "rhel_step_test.v": bench_module(len(start[0]), len(pushes), widths),
        "kicks.hex": _hex(pushes, widths.push),
        "start.hex": _hex([[*start[0], *start[1]]], widths.state),
        "expected.hex": _hex(rows, widths.middle),
        "last.hex": _hex([last], widths.state),
    }
    return Vectors(files, len(pushes), len(start[0]))


def _refuse_unfit(design: Design) -> None:
    hamiltonian, assembly = design.hamiltonian, design.assembly
    curved = [
        name
        for kind in dict.fromkeys((*assembly.branch, *assembly.momentum))
        if not assembly.groups[kind].kind.linear
        for name in assembly.groups[kind].names
    ]
    curved += [name for kind in assembly.turning for name in assembly.groups[kind].names]
    pushing = [item.drive.name for item in assembly.inputs if item.parity < 0]
    for reason, names in (
        ("is not linear", curved),
        ("loses energy", hamiltonian.lossy),
        ("drives positions, for which the module has no port", pushing),
    ):
        if names:
            raise ArgumentError(f"Argument `design` must be linear and lossless, but {', '.join(names)} {reason}")


@dataclass(frozen=True)
class _Maps:
    """The design's energy as matrices and rows, dimensionless."""

    velocity: NDArray[np.float64]
    """(n, n), of momenta."""
    force: NDArray[np.float64]
    """(n, n), of positions."""
    pushes: NDArray[np.float64]
    """(steps, n): forces of the drives, and those that are always there."""
    positions: NDArray[np.float64]
    """(nodes, n), of coordinates."""
    offsets: NDArray[np.float64]
    """(nodes, steps): positions of nodes that drives alone give them."""
    momenta: NDArray[np.float64]
    """(nodes, n), of momenta."""


def _maps(design: Design, waves: Mapping[str, Any]) -> _Maps:
    import jax
    import jax.numpy as jnp

    from circuits.state import encode

    energy, n = design.hamiltonian, design.hamiltonian.size
    inputs = jnp.moveaxis(encode(design, waves), 0, 1) if waves else jnp.zeros((energy.inputs, design.steps))

    @jax.jit
    def found(unit: Any, inputs: Any) -> tuple[Any, ...]:
        prepared = energy.prepare(design.theta())
        still, rest = jnp.zeros((energy.inputs, n)), jnp.zeros((n, n))
        silence = jnp.zeros((n, inputs.shape[1]))
        return (
            energy.velocity(unit, prepared, still),
            energy.force(unit, prepared, still) - energy.force(rest, prepared, still),
            energy.force(silence, prepared, inputs).T,
            energy.node_positions(unit, prepared, still) - energy.node_positions(rest, prepared, still),
            energy.node_positions(silence, prepared, inputs),
            energy.node_momenta(unit),
        )

    return _Maps(*(np.asarray(x) for x in found(jnp.eye(n), inputs)))


def _step(design: Design, maps: _Maps, form: Format, bits: int) -> tuple[Step, Integers]:
    """The step, and the kicks of the drives, (steps, n)."""
    drift = _integers(design.step / 2 * maps.velocity, bits)
    kick = _integers(design.step * maps.force, bits)
    return Step(tuple(map(tuple, drift)), tuple(map(tuple, kick)), form, bits), _integers(
        design.step * maps.pushes, bits
    )


def _emulated(
    design: Design, waves: Mapping[str, Any], maps: _Maps, profile: Profile, form: Format
) -> tuple[tuple[list[int], list[int]], Integers, Integers, bool]:
    """What the emulated bench does: start, positions at kicks, momenta at ends, and whether it left its range."""
    from rhel_hw.emulated import EmulatedBench

    record = EmulatedBench(design, profile).run(Shot(len(maps.pushes), drive=waves))
    nodes, domains = design.assembly.coordinates.nodes, design.netlist.domains
    scale, grid = 2.0**form.fraction, []
    for kind, key, map_, offset in (
        ("position", "position_unit", maps.positions, maps.offsets),
        ("momentum", "momentum_unit", maps.momenta, 0.0),
    ):
        sizes = [design.assembly.units.scale(getattr(domains[n], key)) for n in nodes]
        read = np.array([record.samples[f"{kind}.{n}"][:, 0, 0] / size for n, size in zip(nodes, sizes, strict=True)])
        found = scale * np.linalg.lstsq(map_, read - offset, rcond=None)[0].T
        if np.max(np.abs(found - np.round(found))) > 0.1:
            raise ArgumentError(
                "Argument `design` must be read out exactly, but its record is not on the grid of states"
            )
        grid.append(_whole(found))
    first = np.round(scale * np.asarray(design.initial_state()[0])).astype(int).tolist()
    beyond = any(name.startswith("state") for name in record.clipped)
    return (first, grid[1][0]), grid[0], grid[1][1:], beyond


def _checked(
    step: Step, start: tuple[list[int], list[int]], pushes: Integers, middles: Integers, momenta: Integers
) -> list[int]:
    """Positions at the end, if the whole numbers give what the emulator gave, bit by bit."""
    q, p = start
    for k, (push, middle, momentum) in enumerate(zip(pushes, middles, momenta, strict=True)):
        found, q, p = step(q, p, push)
        if found != middle or p != momentum:
            raise ArgumentError(
                f"Argument `coefficient_bits` must be enough for the emulator's bits, but with {step.coefficient} "
                f"of them step {k} of the module differs: take more"
            )
    return q


def _widths(step: Step) -> Widths:
    """Bits that hold every number of a step, whatever the state and the kicks of the drives."""
    one = 1 << step.coefficient
    integer = step.format.integer or 0
    push = 1 << (integer + step.coefficient)
    drift, kick = (max(sum(map(abs, row)) for row in rows) for rows in (step.drift, step.kick))
    middle = step.top + drift * step.top // one + 1
    summed = kick * middle + (push << step.format.fraction)
    momentum = step.top + summed // one + 1
    ended = middle + drift * momentum // one + 1
    largest = max(drift * step.top, summed, drift * momentum, ended * one)
    return Widths(
        state=step.top.bit_length() + 1,
        middle=middle.bit_length() + 1,
        push=push.bit_length(),
        sum=largest.bit_length() + 2,
        coefficient=step.coefficient,
        fraction=step.format.fraction,
        top=step.top,
    )


def _dot(row: Sequence[int], x: Sequence[int]) -> int:
    return sum(a * b for a, b in zip(row, x, strict=True))


def _integers(values: NDArray[np.float64], bits: int) -> Integers:
    """Whole numbers of 2^-bits, exact where the values are."""
    return [[round(float(v) * 2.0**bits) for v in row] for row in values]


def _whole(values: NDArray[Any]) -> Integers:
    return [[round(float(v)) for v in row] for row in values]


def _hex(rows: Integers, width: int) -> str:
    """One word per row, its first number in the lowest bits, each in two's complement."""
    mask, lines = (1 << width) - 1, []
    for row in rows:
        word = sum((v & mask) << (width * i) for i, v in enumerate(row))
        lines.append(f"{word:0{-(-width * len(row) // 4)}x}")
    return "\n".join(lines) + "\n"
