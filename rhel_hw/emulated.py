"""The emulated bench: a device with its losses, noise and mismatch behind converters that are no better than they are.

One compiled program makes a pass of all runs on all chips. What is on is fixed when it is compiled, how strong it is
not, so that sweeps over numbers compile nothing anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from devices import ArgumentError, UnitError, nearest, to_si
from rhel_hw.arithmetic import Format, format_named
from rhel_hw.bench import Channel, Description, Kind, Record, Shot, refuse_unknown, sample_times
from rhel_hw.chips import Chips
from rhel_hw.device import Plan, Raw, run_pass
from rhel_hw.losses import targets_of
from rhel_hw.operations import MomentumFlip, Operation, SignFlip
from rhel_hw.profile import Profile, ProfileError
from rhel_hw.ranges import Peaks, full_scale, nominal_peaks
from rhel_hw.simulation import DivergedError, refuse_bytes

Array = Any
State = tuple[Array, Array]

SPREADS = range(100, 104)
"""Streams of numbers that a chip's converters and its echo have for good."""


@dataclass(frozen=True, eq=False)
class _Held:
    """A state that waits for its echo, the flux that voltage drives have come to, and the number of its pass."""

    state: State
    integrals: Array
    number: int
    runs: int
    steps: int


class EmulatedBench:
    """A bench whose device is simulated.

    Arguments:
        design: the compiled design.
        profile: what is not ideal; None for nothing.
        seed: of everything that is drawn.
        chips: how many chips run side by side, or their numbers; chip i is the same whatever the others are.
        reference: drive waveforms in SI whose nominal response sets the ranges of converters, where those are given as
            multiples of it; None for the stimulus that the design has by default.
    """

    def __init__(
        self,
        design: Design,
        profile: Profile | None = None,
        *,
        seed: int = 0,
        chips: int | Sequence[int] = 1,
        reference: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(design, Design):
            raise ArgumentError(
                f"Argument `design` must be compiled, as Netlist.compile() does it, but is a {type(design).__name__}"
            )
        given: object = profile or Profile()
        if not isinstance(given, Profile):
            raise ArgumentError(f"Argument `profile` must be a Profile, as Profile.load() makes it, but is {profile!r}")
        if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            raise ArgumentError(
                'The emulated bench computes in double precision: call jax.config.update("jax_enable_x64", True) first'
            )
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ArgumentError(f"Argument `seed` must be a whole number of at least 0, but is {seed!r}")
        numbers = tuple(range(chips)) if isinstance(chips, int) else tuple(chips)
        if not numbers or min(numbers) < 0:
            raise ArgumentError(f"Argument `chips` must be at least one chip, numbered from 0, but is {chips!r}")
        self.design, self.profile, self.seed = design, given, int(seed)
        self._chips = Chips(design, self.profile, self.seed, numbers)
        self._made = self._chips.design
        self._reference = reference
        self._programmed: dict[str, Any] = {}
        self._programmings = self._passes = 0
        self._seconds = 0.0
        self._held: _Held | None = None
        self._check()

    # The interface ---------------------------------------------------------------------------------------------------

    def describe(self) -> Description:
        """Channels, ranges, clock, and what was used so far."""
        netlist = self.design.netlist
        return Description(
            design=netlist.name,
            channels=self._channels,
            drives={d.name: d.unit for d in netlist.drives},
            nudges={t.name: netlist.domains[t.node].momentum_unit for t in netlist.targets},
            parameters=self._chips.limits,
            step_s=self.design.step_s,
            decimation=self.profile.readout.decimation,
            longest=self.profile.readout.memory,
            operation="sign-flip" if isinstance(self._operation, SignFlip) else "momentum-flip",
            holds=True,
            chips=self._chips.count,
            passes=self._passes,
            seconds=self._seconds,
            nodes=self._made.hamiltonian.names,
            ranges=self._driven_ranges,
            learning=dict(self.profile.learning),
        )

    def program(self, parameters: Mapping[str, Any]) -> None:
        """Set parameters by name, in SI, one number or one per chip; the others stay."""
        limits, values = self._chips.limits, {}
        refuse_unknown("parameters", parameters, limits)
        for name, given in parameters.items():
            value = np.asarray(given)
            if value.dtype.kind not in "fiu":
                raise ArgumentError(f"Argument `parameters` must be numbers in SI, but `{name}` is {given!r}")
            value = value.astype(float)
            if value.shape not in ((), (self._chips.count,)):
                raise ArgumentError(
                    f"Argument `parameters` must have one number, or one for each of {self._chips.count} chips, for "
                    f"`{name}`, but has shape {value.shape}"
                )
            low, high = limits[name].low, limits[name].high
            slack = 1e-9 * (high - low)
            if not np.all((value >= low - slack) & (value <= high + slack)):
                raise ArgumentError(
                    f"Argument `parameters` must keep `{name}` between {low:g} and {high:g} {limits[name].unit}, the "
                    f"range of the bench, but it is {value}"
                )
            values[name] = value
        self._programmings += 1
        self._programmed |= {k: self._chips.resolved(k, v, self._programmings) for k, v in values.items()}

    def run(self, shot: Shot) -> Record:
        """Make a pass."""
        runs, held = self._checked(shot)
        plan = self._plan(shot, runs, held)
        raw = self._play(plan, shot, runs, held)
        number, self._passes = self._passes, self._passes + runs
        self._seconds += runs * (shot.steps * self.design.step_s + (self.profile.echo.latency if shot.echo else 0.0))
        if not all(bool(jnp.all(jnp.isfinite(x))) for x in raw.state):
            self._held = None
            raise DivergedError(
                "The state of the device left the range of its number format: drive it less, or use a smaller step"
            )
        if shot.hold:
            self._held = _Held(raw.state, raw.integrals, number, runs, shot.steps)
        elif not shot.echo:  # an emulator can echo a held state as often as it is asked to
            self._held = None
        return self._record(raw, runs, self._read(shot))

    def progress(self) -> dict[str, float]:
        """How far it has come, for `resume`."""
        return {"passes": self._passes, "programmings": self._programmings, "seconds": self._seconds}

    def resume(self, progress: Mapping[str, float]) -> None:
        """Go on as a bench that has come so far: the same numbers are drawn as would have been."""
        self._passes, self._programmings = int(progress["passes"]), int(progress["programmings"])
        self._seconds, self._held = float(progress["seconds"]), None

    # What it is made of ----------------------------------------------------------------------------------------------

    def _check(self) -> None:
        profile = self.profile
        if self._format.fixed and self.design.hamiltonian.turning:
            raise ProfileError(
                "dynamics.precision",
                "must be floating point for this design: its rotations (Kerr, vortices) do not retrace in fixed point",
            )
        netlist = self.design.netlist
        if profile.echo.operation == "polarity-switch":
            others = [n for n, d in netlist.domains.items() if d.name != "texture"]
            if others:
                raise ProfileError("echo.operation", f"must be another: node {others[0]} has no polarity to switch")
        names = [*self._all_channels]
        for name in profile.readout.unwired:
            if name not in names:
                raise ProfileError("readout.unwired", f"must name channels, but has {name!r}{nearest(name, names)}")
        leak = profile.drive.crosstalk
        if isinstance(leak, tuple) and len(leak) != len(netlist.drives):
            raise ProfileError(
                "drive.crosstalk", f"must have a row for each of {len(netlist.drives)} drives, but has {len(leak)}"
            )
        ranges = {
            "readout": (profile.readout.full_scale, [*names, *Kind]),
            "drive": (profile.drive.full_scale, [d.name for d in netlist.drives]),
            "nudge": (profile.nudge.full_scale, [t.name for t in netlist.targets]),
        }
        for path, (scale, known) in ranges.items():
            if path == "nudge" and isinstance(scale, tuple):
                for target in set(known) - {name for name, _ in scale}:
                    raise ProfileError("nudge.full_scale", f"must name all targets, but has none for {target!r}")
            for name, _ in scale if isinstance(scale, tuple) else ():
                if name not in known:
                    raise ProfileError(
                        f"{path}.full_scale", f"must name channels, but has {name!r}{nearest(name, known)}"
                    )

    @cached_property
    def _format(self) -> Format:
        return format_named(self.profile.dynamics.precision)

    @cached_property
    def _operation(self) -> Operation:
        return SignFlip() if self.profile.echo.operation == "sign-flip" else MomentumFlip()

    @cached_property
    def _on(self) -> frozenset[str]:
        """Settings that differ from ideal, and converters that have a range."""
        on = {path for path in self.profile.differences() if not path.startswith(("fabrication.", "dynamics."))}
        on |= {f"dynamics.{k}" for k in ("temperature", "saturation")} & set(self.profile.differences())
        for section in ("readout", "drive", "nudge"):
            if f"{section}.full_scale" in on:
                on.add(f"{section}.range")
        if not self._made.hamiltonian.lossy:
            on.discard("dynamics.temperature")
        return frozenset(on)

    def _felt(self, shot: Shot) -> frozenset[str]:
        """Those of them that a shot can feel, so that programs of free passes are found again."""
        idle = (*(() if shot.echo else ("echo.",)), *(() if shot.nudge else ("nudge.",)))
        return frozenset(path for path in self._on if not path.startswith(idle))

    @cached_property
    def _all_channels(self) -> dict[str, tuple[Kind, str]]:
        netlist = self.design.netlist
        nodes = self.design.assembly.coordinates.nodes
        found = {f"position.{n}": (Kind.POSITION, n) for n in nodes if netlist.probes.sees_position(n)}
        found |= {f"momentum.{n}": (Kind.MOMENTUM, n) for n in nodes if netlist.probes.sees_momentum(n)}
        return found | {f"target.{t.name}": (Kind.TARGET, t.node) for t in netlist.targets}

    @cached_property
    def _channels(self) -> dict[str, Channel]:
        """Those that are wired, with their ranges."""
        netlist, setting = self.design.netlist, self.profile.readout.full_scale
        found = {}
        for name, (kind, node) in self._all_channels.items():
            if name in self.profile.readout.unwired:
                continue
            domain = netlist.domains[node]
            unit = domain.momentum_unit if kind is Kind.MOMENTUM else domain.position_unit
            peaks = self._peaks.momenta if kind is Kind.MOMENTUM else self._peaks.positions
            found[name] = Channel(name, kind, node, unit, full_scale(setting, (name, kind), peaks[node]))
        return found

    def _read(self, shot: Shot) -> dict[str, Channel]:
        """Those that a shot reads."""
        return {k: c for k, c in self._channels.items() if shot.channels is None or k in shot.channels}

    @cached_property
    def _driven_ranges(self) -> dict[str, float]:
        """Full scales of the drives, in SI, where they have any."""
        own = self.profile.drive
        if own.bits is None and "drive.full_scale" not in self._on:
            return {}
        names = [d.name for d in self.design.netlist.drives]
        return {f"drive.{n}": full_scale(own.full_scale, (n,), self._peaks.drives[n]) for n in names}

    @cached_property
    def _peaks(self) -> Peaks:
        return nominal_peaks(self.design, self._reference)

    # A pass ----------------------------------------------------------------------------------------------------------

    def _checked(self, shot: Shot) -> tuple[int, _Held | None]:
        """Number of runs and what is held, or a refusal."""
        description = self.describe()
        refuse_unknown("drive", shot.drive, description.drives)
        refuse_unknown("nudge", shot.nudge, description.nudges)
        refuse_unknown("channels", dict.fromkeys(shot.channels or ()), self._channels)
        held = self._held if shot.echo else None
        if shot.echo and held is None:
            raise ArgumentError("Argument `echo` must follow a pass that was held: run one with hold=True first")
        runs = max(shot.runs, 1 if held is None else held.runs)
        if held is not None and runs % held.runs:
            raise ArgumentError(
                f"Argument `echo` must have a multiple of the {held.runs} runs that are held, but has {runs}"
            )
        for name, waves in (("drive", shot.drive), ("nudge", shot.nudge)):
            for key, wave in waves.items():
                if wave.shape[1] not in (1, runs) or wave.shape[2] not in (1, self._chips.count):
                    raise ArgumentError(
                        f"Argument `{name}.{key}` must be for {runs} runs and {self._chips.count} chips, but has shape "
                        f"{wave.shape}"
                    )
        read = -(-(shot.steps + 1) // self.profile.readout.decimation) * runs
        if read > self.profile.readout.memory:
            raise ArgumentError(
                f"Argument `steps` must fit into the memory of {self.profile.readout.memory} samples per channel, but "
                f"{runs} runs of {shot.steps} steps make {read}: use fewer of either, or decimate"
            )
        lanes_ = runs * self._chips.count
        stored = 2 * len(self._read(shot)) + len(self._made.netlist.drives) + len(self._made.netlist.targets)
        refuse_bytes(8 * shot.steps * lanes_ * stored, "steps", "the record", "run fewer at once")
        return runs, held

    def _plan(self, shot: Shot, runs: int, held: _Held | None) -> Plan:
        nodes = {n: i for i, n in enumerate(self._made.assembly.coordinates.nodes)}
        by_kind: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        aims = {f"target.{t.name}": i for i, t in enumerate(self.design.netlist.targets)}
        for name, channel in self._read(shot).items():
            by_kind[channel.kind].append(aims[name] if channel.kind is Kind.TARGET else nodes[channel.node])
        thermal = self.profile.dynamics.thermal
        partners = 2 if shot.echo and shot.paired else 1
        tiles = partners if thermal == "common" else 1
        again = 0
        if thermal == "replayed" and held is not None:
            again, tiles = held.steps, runs // held.runs
        latency = ceil(self.profile.echo.latency / self.design.step_s - 1e-9) if shot.echo else 0
        return Plan(
            on=self._felt(shot),
            substeps=self.profile.dynamics.substeps,
            format=self._format,
            operation=self._operation if shot.echo else None,
            parametric=self.profile.echo.operation == "parametric",
            latency=latency,
            tiles=tiles,
            drive_tiles=partners if self.profile.drive.shared_noise else 1,
            again=again,
            paired=shot.paired and self.profile.readout.digitise == "sum-difference",
            positions=tuple(by_kind[Kind.POSITION]),
            momenta=tuple(by_kind[Kind.MOMENTUM]),
            targets=tuple(by_kind[Kind.TARGET]),
            decimation=self.profile.readout.decimation,
        )

    def _play(self, plan: Plan, shot: Shot, runs: int, held: _Held | None) -> Raw:
        chips, made = self._chips, self._made
        flat = chips.wandering
        numbers = self._passes + np.arange(runs)
        theta = chips.theta(self._programmed, passes=numbers if flat else None, programmings=self._programmings)
        across, along = (1, runs * chips.count) if flat else (runs, chips.count)

        def laid(x: Any, lead: int) -> Array:
            """An array (…, runs or 1, chips or 1), `lead` axes first, as the program has its lanes."""
            x = jnp.asarray(x)
            if flat:
                x = jnp.broadcast_to(x, (*x.shape[:lead], runs, chips.count))
                return x.reshape(*x.shape[:lead], 1, runs * chips.count)
            return x

        tiled = {k: _tiled(v, runs if flat else 1) for k, v in self._knobs(shot).items()}
        drives = made.netlist.drives
        waves = np.zeros((shot.steps, len(drives), 1, 1))
        if shot.drive:
            shape = np.broadcast_shapes(*(w.shape for w in shot.drive.values()))
            silent = np.zeros(shape)
            waves = np.stack([np.broadcast_to(shot.drive.get(d.name, silent), shape) for d in drives], axis=1)
        nudges = None
        if shot.nudge:
            targets, units = made.netlist.targets, made.assembly.units
            still = np.zeros((shot.steps, 1, 1))
            shape = np.broadcast_shapes(*(w.shape for w in shot.nudge.values()))
            sizes = np.array([units.momentum(made.netlist.domains[t.node]) for t in targets])
            nudges = np.stack([np.broadcast_to(shot.nudge.get(t.name, still), shape) for t in targets], axis=1)
            nudges = laid(nudges / sizes[:, None, None], 2)
        if held is None:
            q, p = self._start(shot)
            state = tuple(jnp.broadcast_to(laid(x, 1), (x.shape[0], across, along)) for x in (q, p))
            integrals = jnp.zeros((len(drives), 1, 1))
        else:
            copies = runs // held.runs
            state = tuple(laid(jnp.tile(x, (1, copies, 1)), 1) for x in held.state)
            integrals = laid(jnp.tile(held.integrals, (1, copies if held.integrals.shape[1] > 1 else 1, 1)), 1)
        signs = {}
        if isinstance(plan.operation, SignFlip) and "echo.sign_error" in plan.on:
            signs = self._sign_errors(runs if flat else 1)
        key = jax.random.key(self.seed)
        source = held.number if plan.again and held is not None else self._passes
        chip_keys = jax.vmap(lambda c: jax.random.fold_in(key, c))(jnp.asarray(chips.numbers))
        raw: Raw = run_pass(
            made, plan, targets_of(made) if made.netlist.targets else None,
            {k: jnp.asarray(v) for k, v in theta.items()}, laid(waves, 2), nudges, state, integrals, tiled, signs,
            {"chips": chip_keys, "pass": jnp.asarray(self._passes), "thermal": jnp.asarray(source)},
        )  # fmt: skip
        if not flat:
            return raw

        def unlaid(x: Array) -> Array:
            return x.reshape(*x.shape[:-2], runs, chips.count) if x.shape[-1] == runs * chips.count else x

        unflattened: Raw = jax.tree.map(unlaid, raw)
        return unflattened

    def _start(self, shot: Shot) -> tuple[Array, Array]:
        """(n, 1, 1) each."""
        made = self._made
        q, p = made.initial_state()
        if shot.start is not None:
            place = {n: i for i, n in enumerate(made.hamiltonian.names)}
            units, domains, factors = made.assembly.units, made.netlist.domains, made.assembly.factors
            for values, momentum in zip(shot.start, (False, True), strict=True):
                refuse_unknown("start", values, place)
                for node, value in values.items():
                    i, domain = place[node], domains[node]
                    size = units.momentum(domain) / factors[i] if momentum else units.position(domain) * factors[i]
                    try:
                        number = to_si(value, domain.momentum_unit if momentum else domain.position_unit) / size
                    except UnitError as problem:
                        raise ArgumentError(f"Argument `start` is refused: {node} {problem}") from None
                    q, p = (q, p.at[i].set(number)) if momentum else (q.at[i].set(number), p)
        return q[:, None, None], p[:, None, None]

    def _knobs(self, shot: Shot) -> dict[str, Array]:
        """Numbers of all that is on, with ranges and spreads; the last axis is that of chips, where it has one."""
        profile, made, on = self.profile, self._made, self._felt(shot)
        units, domains = made.assembly.units, made.netlist.domains
        found: dict[str, Any] = {}
        for path in on:
            section, _, name = path.partition(".")
            value = getattr(getattr(profile, section), name, None)
            if name == "bits" and isinstance(value, int):
                found[f"{section}.levels"] = 2.0**value
            elif isinstance(value, float):
                found[path] = value
        read = self._read(shot)
        for kind in Kind:
            own_channels = [c for c in read.values() if c.kind is kind]
            unit = units.momentum if kind is Kind.MOMENTUM else units.position
            found[f"scale.{kind}"] = np.array([c.full_scale for c in own_channels]).reshape(-1, 1, 1)
            found[f"unit.{kind}"] = np.array([unit(domains[c.node]) for c in own_channels]).reshape(-1, 1, 1)
        positions, momenta, driven = self._peaks
        own = [d.name for d in made.netlist.drives]
        scales = [full_scale(profile.drive.full_scale, (n,), driven[n]) for n in own]
        found["scale.drive"] = np.array(scales).reshape(-1, 1, 1)
        if "nudge.full_scale" in on:
            targets = made.netlist.targets
            sizes = np.array([units.momentum(domains[t.node]) for t in targets])
            absolute = [full_scale(profile.nudge.full_scale, (t.name,), 1.0) for t in targets]
            found["scale.nudge"] = (np.array(absolute) / sizes).reshape(-1, 1, 1)
        if {"echo.noise", "dynamics.saturation"} & on:
            names, factors = made.hamiltonian.names, made.assembly.factors
            sizes = np.array([units.position(domains[n]) for n in names]) * factors[: len(names)]
            found["peak.position"] = (np.array([positions[n] for n in names]) / sizes).reshape(-1, 1, 1)
            sizes = np.array([units.momentum(domains[n]) for n in names]) / factors[: len(names)]
            found["peak.momentum"] = (np.array([momenta[n] for n in names]) / sizes).reshape(-1, 1, 1)
        if "drive.crosstalk" in on:
            leak = profile.drive.crosstalk
            count = len(own)
            near = np.abs(np.subtract.outer(np.arange(count), np.arange(count))) == 1
            found["drive.leak"] = np.array(leak) if isinstance(leak, tuple) else float(leak) * near
        n = made.hamiltonian.size
        for stream, (path, size) in zip(
            SPREADS,
            (("echo.gain_spread", n), ("echo.angle_spread", n), ("readout.gain_spread", len(self._channels))),
            strict=False,
        ):
            if path in on:
                section, name = path.split(".")
                found[path] = getattr(getattr(profile, section), name) * self._chip_normals(stream, size)[:, None]
        if "readout.gain_spread" in found:
            found["readout.gain_spread"] = found["readout.gain_spread"][[name in read for name in self._channels]]
        found["time.step_s"] = self.design.step_s
        return found

    def _chip_normals(self, stream: int, size: int) -> NDArray[np.float64]:
        """(size, chips) standard normal numbers that belong to the chips."""
        draws = [np.random.default_rng([self.seed, c, stream]).normal(size=size) for c in self._chips.numbers]
        return np.stack(draws, axis=1)

    def _sign_errors(self, repeats: int) -> dict[str, Array]:
        """Factors on theta with which an inverted energy misses its negative, (count, chips)."""
        theta, spread = self._made.assembly.theta, self.profile.echo.sign_error
        draws = self._chip_normals(SPREADS[3], sum(len(v) for v in theta.values()))
        found, start = {}, 0
        for name, value in theta.items():
            own = 1 + spread * draws[start : start + len(value)]
            found[name] = jnp.asarray(np.tile(own, (1, repeats)))
            start += len(value)
        return found

    def _record(self, raw: Raw, runs: int, channels: Mapping[str, Channel]) -> Record:
        step, every = self.design.step_s, self.profile.readout.decimation
        times, samples, units, flags = {}, {}, {}, {}
        shape = (runs, self._chips.count)
        counts = dict.fromkeys(Kind, 0)
        read = {kind: np.asarray(x, np.float64) for kind, x in raw.samples.items()}
        for name, channel in channels.items():
            kind, i = channel.kind, counts[channel.kind]
            counts[kind] += 1
            values = read[kind][:, i]
            samples[name] = np.broadcast_to(values, (len(values), *shape))
            times[name] = sample_times(kind, len(values), every, step)
            units[name] = channel.unit
            if kind in raw.flags:
                flags[name] = np.broadcast_to(np.asarray(raw.flags[kind])[:, i], samples[name].shape)
        netlist = self.design.netlist
        others = {"drive": netlist.drives, "nudge": netlist.targets}
        for what, parts in others.items():
            if what in raw.flags:
                for i, part in enumerate(parts):
                    flags[f"{what}.{part.name}"] = np.asarray(raw.flags[what])[:, i]
        if "state" in raw.flags:
            for i, node in enumerate(self._made.hamiltonian.names):
                flags[f"state.{node}"] = np.asarray(raw.flags["state"])[:, i]
        return Record(times, samples, units, flags)


def _tiled(value: Any, repeats: int) -> Array:
    """A knob with its axis of chips repeated for as many runs."""
    array = jnp.asarray(value, float)
    if repeats == 1 or array.ndim < 3 or array.shape[-1] == 1:
        return array
    return jnp.tile(array, (*(1,) * (array.ndim - 1), repeats))
