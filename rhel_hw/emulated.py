"""The emulated bench: a device with its losses, noise and mismatch behind converters that are no better than they are.

One compiled program makes a pass of all runs on all chips. What is on is fixed when it is compiled, how strong it is
not, so that sweeps over numbers compile nothing anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import ceil
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from devices import ArgumentError, DivergedError, UnitError, nearest, to_si
from rhel_hw.arithmetic import Format, format_named
from rhel_hw.bench import Channel, Description, Kind, Record, Shot, refuse_unknown, runs_of, sample_times
from rhel_hw.chips import Chips
from rhel_hw.device import Plan, Raw, run_pass
from rhel_hw.frontend import Frontend
from rhel_hw.losses import targets_of
from rhel_hw.noise import Words, words
from rhel_hw.operations import MomentumFlip, Operation, SignFlip
from rhel_hw.profile import Profile, ProfileError
from rhel_hw.ranges import Peaks
from rhel_hw.simulation import refuse_bytes

Array = Any
State = tuple[Array, Array]

ALIKE = frozenset(
    {
        "fabrication.range", "fabrication.rounding", "fabrication.dead", "fabrication.stuck", "dynamics.substeps",
        "dynamics.thermal", "dynamics.precision", "drive.shared_noise", "drive.crosstalk", "readout.decimation",
        "readout.memory", "readout.unwired", "readout.digitise", "readout.zoom", "echo.operation", "echo.latency",
        "echo.skew",
    }
)  # fmt: skip
"""Settings that are the same for all chips of a bench; of others it is the same whether they are on."""


@lru_cache(maxsize=4096)
def likeness(profile: Profile) -> frozenset[tuple[str, Any]]:
    """What profiles of the chips of one bench have in common: what is on, and the values of settings in `ALIKE`."""
    on = profile.differences().items()
    return frozenset((path, value if path in ALIKE or isinstance(value, tuple) else True) for path, value in on)


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
        profile: what is not ideal; None for nothing. Several: one for every chip, alike in all but numbers.
        seed: of everything that is drawn.
        chips: how many chips run side by side, or their numbers; chip i is the same whatever the others are.
        reference: drive waveforms in SI whose nominal response sets the ranges of converters, where those are given as
            multiples of it, or the peaks of that; None for the stimulus that the design has by default.
    """

    def __init__(
        self,
        design: Design,
        profile: Profile | Sequence[Profile] | None = None,
        *,
        seed: int = 0,
        chips: int | Sequence[int] = 1,
        reference: Mapping[str, Any] | Peaks | None = None,
    ) -> None:
        if not isinstance(design, Design):
            raise ArgumentError(
                f"Argument `design` must be compiled, as Netlist.compile() does it, but is a {type(design).__name__}"
            )
        several = isinstance(profile, (list, tuple))
        given: tuple[Any, ...] = tuple(profile) if several else (profile or Profile(),)  # type: ignore[arg-type]
        for each in given or (None,):
            if not isinstance(each, Profile):
                raise ArgumentError(
                    f"Argument `profile` must be a Profile, as Profile.load() makes it, but is {each!r}"
                )
        if not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
            raise ArgumentError(
                'The emulated bench computes in double precision: call jax.config.update("jax_enable_x64", True) first'
            )
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ArgumentError(f"Argument `seed` must be a whole number of at least 0, but is {seed!r}")
        numbers = tuple(range(chips)) if isinstance(chips, int) else tuple(chips)
        if not numbers or min(numbers) < 0:
            raise ArgumentError(f"Argument `chips` must be at least one chip, numbered from 0, but is {chips!r}")
        if several and len(given) != len(numbers):
            raise ArgumentError(
                f"Argument `profile` must be one, or one for each of {len(numbers)} chips, but there are {len(given)}"
            )
        self.design, self.profile, self.seed = design, given[0], int(seed)
        self._chips = Chips(design, given if several else given[0], self.seed, numbers)
        for other in self._chips.kinds[0]:
            if other is not self.profile and (apart := likeness(other) ^ likeness(self.profile)):
                path = min(path for path, _ in apart)
                raise ProfileError(path, "must be alike for all chips of a bench: on or off, or the same choice")
        self._made = self._chips.design
        self._front = Frontend(design, self._chips, reference)
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
            channels=self._front.channels,
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
            ranges=self._front.driven_ranges,
            learning=dict(self.profile.learning),
            trims=True,
            amplifies=self.profile.echo.pump,
            zoom=self.profile.readout.zoom,
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
        raw = self._play(shot, runs, held)
        number, self._passes = self._passes, self._passes + runs
        self._seconds += runs * (shot.steps * self.design.step_s + (self.profile.echo.latency if shot.echo else 0.0))
        if not np.any(np.all(np.isfinite(np.stack(raw.state)), axis=(0, 1, 2))):  # of no chip is it a number
            self._held = None
            raise DivergedError(
                "The state of the device left the range of its number format: drive it less, or use a smaller step"
            )
        if shot.hold:
            self._held = _Held(raw.state, raw.integrals, number, runs, shot.steps)
        elif not shot.echo:  # an emulator can echo a held state as often as it is asked to
            self._held = None
        return self._record(raw, runs, self._front.read(shot))

    def progress(self) -> dict[str, float]:
        """How far it has come, for `resume`."""
        return {"passes": self._passes, "programmings": self._programmings, "seconds": self._seconds}

    def resume(self, progress: Mapping[str, float]) -> None:
        """Go on as a bench that has come so far: the same numbers are drawn as would have been."""
        self._passes, self._programmings = int(progress["passes"]), int(progress["programmings"])
        self._seconds, self._held = float(progress["seconds"]), None

    def true_theta(self) -> dict[str, NDArray[np.float64]]:
        """Parameters of all chips as they are, (count, chips), in units of the design as drawn: what nobody is told."""
        values = self._chips.theta(self._programmed, programmings=self._programmings)
        made = {e.name: e for e in self._made.assembly.entries}
        found = {k: np.zeros((len(v), self._chips.count)) for k, v in self.design.assembly.theta.items()}
        for e in self.design.assembly.entries:
            own = made[e.name]
            found[e.key][e.index] = values[own.key][own.index] * (own.scale / e.scale)
        return found

    def factors(self) -> dict[str, Any]:
        """By what trainable parameters come out larger than programmed, by name: what nobody is told either."""
        return self._chips.factors(self._programmings)

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
        names = [*self._front.all_channels]
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
    def _words(self) -> Words:
        """Keys of the chips' noise."""
        found: Words = _words_of(self.seed, np.array(self._chips.numbers))
        return found

    @cached_property
    def _operation(self) -> Operation:
        return SignFlip() if self.profile.echo.operation == "sign-flip" else MomentumFlip()

    # A pass ----------------------------------------------------------------------------------------------------------

    def _checked(self, shot: Shot) -> tuple[int, _Held | None]:
        """Number of runs and what is held, or a refusal."""
        held = self._held if shot.echo else None
        runs = runs_of(shot, self.describe(), None if held is None else held.runs)
        read = -(-(shot.steps + 1) // self.profile.readout.decimation) * runs
        if read > self.profile.readout.memory:
            raise ArgumentError(
                f"Argument `steps` must fit into the memory of {self.profile.readout.memory} samples per channel, but "
                f"{runs} runs of {shot.steps} steps make {read}: use fewer of either, or decimate"
            )
        lanes_ = runs * self._chips.count
        stored = 2 * len(self._front.read(shot)) + len(self._made.netlist.drives) + len(self._made.netlist.targets)
        refuse_bytes(8 * shot.steps * lanes_ * stored, "steps", "the record", "run fewer at once")
        return runs, held

    def _plan(self, shot: Shot, runs: int, held: _Held | None) -> Plan:
        nodes = {n: i for i, n in enumerate(self._made.assembly.coordinates.nodes)}
        by_kind: dict[Kind, list[int]] = {kind: [] for kind in Kind}
        aims = {f"target.{t.name}": i for i, t in enumerate(self.design.netlist.targets)}
        for name, channel in self._front.read(shot).items():
            by_kind[channel.kind].append(aims[name] if channel.kind is Kind.TARGET else nodes[channel.node])
        thermal = self.profile.dynamics.thermal
        partners = 2 if shot.echo and shot.paired else 1
        tiles = partners if thermal == "common" else 1
        again = 0
        if thermal == "replayed" and held is not None:
            again, tiles = held.steps, runs // held.runs
        latency = ceil(self.profile.echo.latency / self.design.step_s - 1e-9) if shot.echo else 0
        return Plan(
            on=self._front.felt(shot),
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

    def arguments(self, shot: Shot, runs: int = 1, held: _Held | None = None) -> tuple[Any, ...]:
        """What `run_pass` is given for a shot: fixed ones are the first three, parameters the fourth."""
        chips, made, plan = self._chips, self._made, self._plan(shot, runs, held)
        flat = chips.wandering
        numbers = self._passes + np.arange(runs)
        theta = chips.theta(self._programmed, passes=numbers if flat else None, programmings=self._programmings)
        across, along = (1, runs * chips.count) if flat else (runs, chips.count)

        def laid(x: Any, lead: int) -> Array:
            """An array (…, runs or 1, chips or 1), `lead` axes first, as the program has its lanes."""
            if not flat:
                return x
            return np.broadcast_to(x, (*x.shape[:lead], runs, chips.count)).reshape(*x.shape[:lead], across, along)

        knobs = {**self._front.knobs(shot), **self._trims(shot)}
        tiled = {k: _tiled(v, runs if flat else 1) for k, v in knobs.items()}
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
            nudges /= sizes[:, None, None]
            nudges = laid(nudges, 2)
        if held is None:
            state = tuple(np.broadcast_to(laid(x, 1), (x.shape[0], across, along)) for x in self._start(shot))
            integrals = np.zeros((len(drives), 1, 1))
        else:
            copies, flux = runs // held.runs, np.asarray(held.integrals)
            state = tuple(laid(np.tile(x, (1, copies, 1)), 1) for x in held.state)
            integrals = laid(np.tile(flux, (1, copies if flux.shape[1] > 1 else 1, 1)), 1)
        signs = {}
        if isinstance(plan.operation, SignFlip) and "echo.sign_error" in plan.on:
            signs = self._front.sign_errors(runs if flat else 1)
        source = held.number if plan.again and held is not None else self._passes
        return (
            made, plan, targets_of(made) if made.netlist.targets else None,
            theta, laid(waves, 2), nudges, state, integrals, tiled, signs,
            {"chips": self._words, "pass": self._passes, "thermal": source},
        )  # fmt: skip

    def _trims(self, shot: Shot) -> dict[str, Array]:
        """Angles and factors of a trimmed turn, (n, 1, chips or 1) each; none of an ordinary one, and no program."""
        if not shot.trim:
            return {}
        size = max(len(values) for pair in shot.trim.values() for values in pair)
        names = self._made.hamiltonian.names
        angles, factors = np.zeros((len(names), 1, size)), np.ones((len(names), 1, size))
        for node, (angle, factor) in shot.trim.items():
            angles[names.index(node)], factors[names.index(node)] = angle, factor
        return {"trim.angle": angles, "trim.factor": factors}

    def _play(self, shot: Shot, runs: int, held: _Held | None) -> Raw:
        raw: Raw = run_pass(*self.arguments(shot, runs, held))
        chips = self._chips
        if not chips.wandering:
            return raw

        def unlaid(x: Array) -> Array:
            return x.reshape(*x.shape[:-2], runs, chips.count) if x.shape[-1] == runs * chips.count else x

        unflattened: Raw = jax.tree.map(unlaid, raw)
        return unflattened

    @cached_property
    def _rest(self) -> tuple[Array, Array]:
        """(n,) each: the state that the design starts from."""
        q, p = self._made.initial_state()
        return np.asarray(q), np.asarray(p)

    def _start(self, shot: Shot) -> tuple[Array, Array]:
        """(n, 1, 1) each."""
        made = self._made
        q, p = (x.copy() for x in self._rest)
        if shot.start is not None:
            place = {n: i for i, n in enumerate(made.hamiltonian.names)}
            units, domains, factors = made.assembly.units, made.netlist.domains, made.assembly.factors
            for values, momentum in zip(shot.start, (False, True), strict=True):
                refuse_unknown("start", values, place)
                for node, value in values.items():
                    i, domain = place[node], domains[node]
                    unit = domain.momentum_unit if momentum else domain.position_unit
                    size = units.scale(unit) * factors[i] ** (-1 if momentum else 1)
                    try:
                        number = to_si(value, unit) / size
                    except UnitError as problem:
                        raise ArgumentError(f"Argument `start` is refused: {node} {problem}") from None
                    (p if momentum else q)[i] = number
        return q[:, None, None], p[:, None, None]

    def _record(self, raw: Raw, runs: int, channels: Mapping[str, Channel]) -> Record:
        step, every = self.design.step_s, self.profile.readout.decimation
        shape = (runs, self._chips.count)
        times, samples, units, flags, blocks = {}, {}, {}, {}, {}
        for kind, block in raw.samples.items():
            own = {name: channel for name, channel in channels.items() if channel.kind == kind}
            whole = np.broadcast_to(np.asarray(block), (*block.shape[:2], *shape))
            blocks[tuple(own)] = block if block.shape == whole.shape else whole
            for i, (name, channel) in enumerate(own.items()):
                samples[name], units[name] = whole[:, i], channel.unit
                times[name] = sample_times(channel.kind, len(whole), every, step)
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
        return Record(times, samples, units, flags, blocks)


@jax.jit
def _words_of(seed: Array, chips: Array) -> Words:
    key = jax.random.key(seed)
    return words(jax.vmap(lambda chip: jax.random.fold_in(key, chip))(chips))


def _tiled(array: Array, repeats: int) -> Array:
    """A knob with its axis of chips repeated for as many runs."""
    if repeats == 1 or array.ndim < 3 or array.shape[-1] == 1:
        return array
    return np.tile(array, (*(1,) * (array.ndim - 1), repeats))
