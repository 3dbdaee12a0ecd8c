"""The converters of an emulated bench: which channels there are, their ranges, and how strong everything is that is on.

Programs are compiled for what is on. How strong it is comes as numbers, one for all chips or one for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from rhel_hw.bench import Channel, Kind, Shot
from rhel_hw.chips import Chips
from rhel_hw.profile import Profile
from rhel_hw.ranges import Peaks, full_scale, nominal_peaks

Array = Any

SPREADS = range(100, 104)
"""Streams of numbers that a chip's converters and its echo have for good."""


@dataclass(frozen=True, eq=False)
class Frontend:
    """What stands between a device and its user."""

    design: Design
    """As drawn."""
    chips: Chips
    reference: Mapping[str, Any] | Peaks | None
    """Waveforms whose nominal response sets the ranges, or the peaks of that."""
    _known: dict[Any, dict[str, Array]] = field(default_factory=dict)

    @property
    def profile(self) -> Profile:
        """Of the first chip: the others are alike in all that is not a number."""
        return self.chips.profiles[0]

    @cached_property
    def on(self) -> frozenset[str]:
        """Settings that differ from ideal, and converters that have a range."""
        on = {path for path in self.profile.differences() if not path.startswith(("fabrication.", "dynamics."))}
        on |= {f"dynamics.{k}" for k in ("temperature", "saturation")} & set(self.profile.differences())
        for section in ("readout", "drive", "nudge"):
            if f"{section}.full_scale" in on:
                on.add(f"{section}.range")
        if not self.chips.design.hamiltonian.lossy:
            on.discard("dynamics.temperature")
        return frozenset(on - {"readout.zoom"})  # which is felt through the ranges of a shot alone

    def felt(self, shot: Shot) -> frozenset[str]:
        """Those of them that a shot can feel, so that programs of free passes are found again."""
        idle = (*(() if shot.echo else ("echo.",)), *(() if shot.nudge else ("nudge.",)))
        idle += () if shot.amplify and self.chips.design.hamiltonian.lossy else ("echo.pump",)
        felt = frozenset(path for path in self.on if not path.startswith(idle))
        # An amplifier that is set has a range, also before a converter without one; a resolution brings its own.
        return felt | {"readout.range"} if shot.ranges and "readout.bits" not in felt else felt

    @cached_property
    def all_channels(self) -> dict[str, tuple[Kind, str]]:
        """Kind and node of every channel that the design's probes and targets have."""
        netlist = self.design.netlist
        nodes = self.design.assembly.coordinates.nodes
        found = {f"position.{n}": (Kind.POSITION, n) for n in nodes if netlist.probes.sees_position(n)}
        found |= {f"momentum.{n}": (Kind.MOMENTUM, n) for n in nodes if netlist.probes.sees_momentum(n)}
        return found | {f"target.{t.name}": (Kind.TARGET, t.node) for t in netlist.targets}

    @cached_property
    def channels(self) -> dict[str, Channel]:
        """Those that are wired, with their ranges."""
        netlist, setting = self.design.netlist, self.profile.readout.full_scale
        found = {}
        for name, (kind, node) in self.all_channels.items():
            if name in self.profile.readout.unwired:
                continue
            domain = netlist.domains[node]
            unit = domain.momentum_unit if kind is Kind.MOMENTUM else domain.position_unit
            peaks = self.peaks.momenta if kind is Kind.MOMENTUM else self.peaks.positions
            found[name] = Channel(name, kind, node, unit, full_scale(setting, (name, kind), peaks[node]))
        return found

    def read(self, shot: Shot) -> dict[str, Channel]:
        """Those that a shot reads."""
        return {k: c for k, c in self.channels.items() if shot.channels is None or k in shot.channels}

    @cached_property
    def driven_ranges(self) -> dict[str, float]:
        """Full scales of the drives, in SI, where they have any."""
        own = self.profile.drive
        if own.bits is None and "drive.full_scale" not in self.on:
            return {}
        names = [d.name for d in self.design.netlist.drives]
        return {f"drive.{n}": full_scale(own.full_scale, (n,), self.peaks.drives[n]) for n in names}

    @cached_property
    def peaks(self) -> Peaks:
        """How far the design moves nominally."""
        known = self.reference
        return known if isinstance(known, Peaks) else nominal_peaks(self.design, known)

    def knobs(self, shot: Shot) -> dict[str, Array]:
        """Numbers of all that is on, with ranges and spreads; the last axis is that of chips, where it has one."""
        case = self.felt(shot), tuple(self.read(shot))
        if case not in self._known:
            self._known[case] = self._knobs_of(*case)
        known = self._known[case]
        return {**known, **self._ranged(shot, known)} if shot.ranges else known

    def _ranged(self, shot: Shot, knobs: Mapping[str, Array]) -> dict[str, Array]:
        """Full scales as a shot sets them, in the shapes that the program has them in."""
        found = {f"scale.{kind}": knobs[f"scale.{kind}"].copy() for kind in Kind}
        places = dict.fromkeys(Kind, 0)
        for name, channel in self.read(shot).items():
            if name in shot.ranges:
                found[f"scale.{channel.kind}"][places[channel.kind]] = shot.ranges[name]
            places[channel.kind] += 1
        return found

    def _knobs_of(self, on: frozenset[str], read: tuple[str, ...]) -> dict[str, Array]:
        made, of_chips = self.chips.design, self._of_chips
        units, domains = made.assembly.units, made.netlist.domains
        found: dict[str, Any] = {}
        for path in on:
            section, _, name = path.partition(".")
            value = getattr(getattr(self.profile, section), name, None)
            if name == "bits" and isinstance(value, int):
                found[f"{section}.levels"] = 2.0 ** of_chips(path)
            elif isinstance(value, float):
                found[path] = of_chips(path)
        peaks = self.peaks
        for kind in Kind:
            own = {name: self.all_channels[name] for name in read if self.all_channels[name][0] is kind}
            unit, highest = (
                (units.momentum, peaks.momenta) if kind is Kind.MOMENTUM else (units.position, peaks.positions)
            )
            scales = [self._scales("readout", (name, kind), highest[node]) for name, (_, node) in own.items()]
            found[f"scale.{kind}"] = _stacked(scales)
            found[f"unit.{kind}"] = np.array([unit(domains[node]) for _, node in own.values()]).reshape(-1, 1, 1)
        drives = [d.name for d in made.netlist.drives]
        found["scale.drive"] = _stacked([self._scales("drive", (n,), peaks.drives[n]) for n in drives])
        if "nudge.full_scale" in on:
            targets = [(t.name, units.momentum(domains[t.node])) for t in made.netlist.targets]
            found["scale.nudge"] = _stacked([self._scales("nudge", (name,), 1.0) / size for name, size in targets])
        if {"echo.noise", "dynamics.saturation"} & on:
            names, factors = made.hamiltonian.names, made.assembly.factors
            sizes = np.array([units.scale(domains[n].position_unit) for n in names]) * factors[: len(names)]
            found["peak.position"] = (np.array([peaks.positions[n] for n in names]) / sizes).reshape(-1, 1, 1)
            sizes = np.array([units.scale(domains[n].momentum_unit) for n in names]) / factors[: len(names)]
            found["peak.momentum"] = (np.array([peaks.momenta[n] for n in names]) / sizes).reshape(-1, 1, 1)
        if "drive.crosstalk" in on:
            leak = self.profile.drive.crosstalk
            near = np.abs(np.subtract.outer(np.arange(len(drives)), np.arange(len(drives)))) == 1
            found["drive.leak"] = np.array(leak) if isinstance(leak, tuple) else float(leak) * near
        n = made.hamiltonian.size
        for stream, (path, size) in zip(
            SPREADS,
            (("echo.gain_spread", n), ("echo.angle_spread", n), ("readout.gain_spread", len(self.channels))),
            strict=False,
        ):
            if path in on:
                found[path] = of_chips(path) * self._chip_normals(stream, size)[:, None]
        if "readout.gain_spread" in found:
            found["readout.gain_spread"] = found["readout.gain_spread"][[name in read for name in self.channels]]
        found["time.step_s"] = self.design.step_s
        return {k: np.asarray(v, float) for k, v in found.items()}

    def _of_chips(self, path: str) -> Any:
        """A number of the profile: as it is if all chips have the same, (1, 1, chips) otherwise."""
        section, name = path.split(".")
        found = self.chips.of_chips(lambda p: getattr(getattr(p, section), name))
        return found[0] if len(found) == 1 else found[None, None]

    def _scales(self, section: str, names: tuple[str, ...], peak: float) -> NDArray[np.float64]:
        """Full scale of a converter, (chips,), or (1,) if it is the same for all."""
        return self.chips.of_chips(lambda p: full_scale(getattr(p, section).full_scale, names, peak))

    def _chip_normals(self, stream: int, size: int) -> NDArray[np.float64]:
        """(size, chips) standard normal numbers that belong to the chips."""
        return self.chips.drawn(lambda r: r.normal(size=size), stream)

    def sign_errors(self, repeats: int) -> dict[str, Array]:
        """Factors on theta with which an inverted energy misses its negative, (count, chips)."""
        theta, spread = self.chips.design.assembly.theta, self.chips.of_chips(lambda p: p.echo.sign_error)
        draws = self._chip_normals(SPREADS[3], sum(len(v) for v in theta.values()))
        found, start = {}, 0
        for name, value in theta.items():
            own = 1 + spread * draws[start : start + len(value)]
            found[name] = jnp.asarray(np.tile(own, (1, repeats)))
            start += len(value)
        return found


def _stacked(scales: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(channels, 1, chips or 1) of one array for every channel."""
    return np.stack(scales)[:, None] if scales else np.zeros((0, 1, 1))
