"""The interface of a bench: what a learner may ask of a device, and all that it ever gets to see.

A bench is told what one pass shall do (`Shot`) and returns what its converters read (`Record`). An emulated bench, a
remote one, a recorded one and a real one look the same from here. Everything is SI. Arrays are NumPy's, and their axes
are (samples, runs, chips): runs are passes that one shot asks for at once, chips are like devices side by side.

Sampling is staggered, as a leapfrog step is: positions at the middle of every step, momenta at its ends, where the
first one is that of the start, before the first nudge. Targets are positions too, read at the end of every step, where
losses are defined and nudges act.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from devices import ArgumentError, nearest

Samples = NDArray[np.float64]
Waveforms = Mapping[str, Any]
Values = Mapping[str, Any]

SLACK = 1e-9
"""Rounding that a range is forgiven."""


class Kind(StrEnum):
    """What a channel reads, and when."""

    POSITION = "position"
    """A node's position in the middle of every step."""
    MOMENTUM = "momentum"
    """A node's momentum at the start and at the end of every step, before the nudge there."""
    TARGET = "target"
    """A target's position at the end of every step."""


@dataclass(frozen=True)
class Channel:
    """One readout channel."""

    name: str
    """Kind and node or target, such as ``"position.n1"``."""
    kind: Kind
    node: str
    unit: str
    full_scale: float
    """Largest magnitude that it can read."""


@dataclass(frozen=True)
class Limits:
    """Between which values a parameter can be programmed."""

    unit: str
    low: float
    high: float


@dataclass(frozen=True)
class Description:
    """What a bench says of itself."""

    design: str
    channels: Mapping[str, Channel]
    drives: Mapping[str, str]
    """Units of the drives' waveforms, by drive."""
    nudges: Mapping[str, str]
    """Units of the impulses that can be given to targets, by target."""
    parameters: Mapping[str, Limits]
    """What can be programmed, by parameter."""
    step_s: float
    """Period of the sample clock."""
    decimation: int
    """Only every so many steps are read."""
    longest: int
    """Most samples that a channel's memory holds, over all runs of a shot."""
    operation: str
    """How it makes an echo: "momentum-flip" or "sign-flip"."""
    holds: bool
    """Whether the final state of a pass can be held, and echoed more than once."""
    chips: int
    passes: int
    """Runs so far, on every chip."""
    seconds: float
    """Physical time that they took on each chip."""
    nodes: tuple[str, ...] = ()
    """Whose positions and momenta at the start of a pass can be given."""
    ranges: Mapping[str, float] = field(default_factory=dict)
    """Largest magnitudes that drives can play, in SI, as ``"drive.u0"``; what has no range is not there."""
    learning: Mapping[str, Any] = field(default_factory=dict)
    """Settings of a learner that its maker recommends, as section ``[learning]`` of a design file has them."""
    trims: bool = False
    """Whether the turn of an echo can be trimmed, node by node."""
    amplifies: bool = False
    """Whether losses can be turned into gains during an echo."""
    zoom: float = 1.0
    """How many times smaller than its full scale the range of a channel can be made for a pass; 1: ranges are fixed."""
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """What calibration knows parameters to be, over what is drawn or programmed, by parameter, one for every chip."""
    decays: Sequence[float] = ()
    """Rates in 1/s at which chips lose energy, if calibration has found that echoes can make up for it."""
    strengths: Sequence[float] = ()
    """Nudging strengths γ·ε of chips that calibration has chosen."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for files and wires."""
        return asdict(self)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Description:
        """Description of plain data."""
        channels = {k: Channel(**{**v, "kind": Kind(v["kind"])}) for k, v in data["channels"].items()}
        limits = {k: Limits(**v) for k, v in data["parameters"].items()}
        lists = {name: tuple(data[name]) for name in ("nodes", "decays", "strengths") if name in data}
        return Description(**{**data, "channels": channels, "parameters": limits, **lists})


@dataclass(frozen=True, eq=False)
class Shot:
    """What one pass is told to do. Waveforms are (steps,), (steps, runs) or (steps, runs, chips)."""

    steps: int
    drive: Waveforms = field(default_factory=dict)
    """SI by drive, one value per step, as the free pass has it; in an echo they are played backwards and conjugated.
    A drive that is not named is silent."""
    nudge: Waveforms = field(default_factory=dict)
    """Impulses in SI by target, one at the start of every step, in the order in which they act."""
    start: tuple[Values, Values] | None = None
    """Positions and momenta by node, in SI; nodes that are not named stay as the design has them at the start. None:
    all do. An echo starts from what is held."""
    echo: bool = False
    """Whether it begins by turning the held state round."""
    hold: bool = False
    """Whether the state at its end is held for an echo."""
    paired: bool = False
    """Whether the second half of the runs are partners of the first half, which may be read as sum and difference."""
    channels: Sequence[str] | None = None
    """Which are read; None: all that are wired."""
    trim: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    """Settings of what makes the echo, by node: an angle in rad and a factor, one each or one for every chip. After the
    turn (q, p) of that node is rotated by the angle, in the sense of the profile's ``echo.angle``, then its momentum
    multiplied by the factor, or both quadratures if the echo is parametric. An error (a, g) of the turn is undone by
    (−a, 1/g)."""
    amplify: bool = False
    """Whether the echo gains at every rate at which the device otherwise loses."""
    ranges: Mapping[str, float] = field(default_factory=dict)
    """Full scales in SI by channel, as its amplifier is set for this pass; those that are not named have that of the
    description."""

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, (int, np.integer)) or self.steps < 1:
            raise ArgumentError(f"Argument `steps` must be a whole number of at least 1, but is {self.steps!r}")
        object.__setattr__(self, "steps", int(self.steps))
        if self.echo and self.start is not None:
            raise ArgumentError("Argument `start` must be left out of an echo, which starts from the held state")
        if self.start is not None:
            if not isinstance(self.start, tuple) or [isinstance(half, Mapping) for half in self.start] != [True, True]:
                raise ArgumentError(
                    f"Argument `start` must be a pair of positions and momenta by node, but is {self.start!r}"
                )
            plain = tuple({k: getattr(v, "item", lambda v=v: v)() for k, v in half.items()} for half in self.start)
            object.__setattr__(self, "start", plain)
        for name in ("drive", "nudge"):
            object.__setattr__(self, name, self._waveforms(name))
        object.__setattr__(self, "trim", self._trim())
        object.__setattr__(self, "ranges", self._ranges())
        for name, given in (("trim", bool(self.trim)), ("amplify", self.amplify)):
            if given and not self.echo:
                raise ArgumentError(f"Argument `{name}` must be left out of a pass that is no echo")
        if self.channels is not None:
            if isinstance(self.channels, str):
                raise ArgumentError(f"Argument `channels` must be several names, but is {self.channels!r}")
            object.__setattr__(self, "channels", tuple(self.channels))
        runs = self.runs
        if self.paired and runs % 2:
            raise ArgumentError(f"Argument `paired` must come with an even number of runs, but there are {runs}")

    def _waveforms(self, name: str) -> dict[str, Samples]:
        given: Waveforms = getattr(self, name)
        if not isinstance(given, Mapping):
            raise ArgumentError(f"Argument `{name}` must map names to arrays, but is {type(given).__name__}")
        return {key: _waveform(f"{name}.{key}", wave, self.steps) for key, wave in given.items()}

    def _trim(self) -> dict[str, tuple[Samples, Samples]]:
        """Angles and factors by node, (1,) or (chips,) each."""
        if not isinstance(self.trim, Mapping):
            raise ArgumentError(f"Argument `trim` must map nodes to pairs, but is {type(self.trim).__name__}")
        found = {}
        for node, pair in self.trim.items():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ArgumentError(f"Argument `trim.{node}` must be a pair of an angle and a factor, but is {pair!r}")
            angle, factor = (_setting(f"trim.{node}", x) for x in pair)
            if not np.all(factor > 0):
                raise ArgumentError(
                    f"Argument `trim.{node}` must have factors greater than 0, but has {factor.min():g}"
                )
            found[node] = angle, factor
        return found

    def _ranges(self) -> dict[str, float]:
        if not isinstance(self.ranges, Mapping):
            raise ArgumentError(f"Argument `ranges` must map channels to numbers, but is {type(self.ranges).__name__}")
        found = {}
        for name, value in self.ranges.items():
            number = _setting(f"ranges.{name}", value)
            if len(number) != 1 or not number[0] > 0:
                raise ArgumentError(f"Argument `ranges.{name}` must be one number greater than 0, but is {value!r}")
            found[name] = float(number[0])
        return found

    @property
    def runs(self) -> int:
        """Number of runs that the waveforms ask for."""
        sizes = {wave.shape[1] for waves in (self.drive, self.nudge) for wave in waves.values()} - {1}
        if len(sizes) > 1:
            raise ArgumentError(f"Arguments `drive` and `nudge` must have equally many runs, but have {sorted(sizes)}")
        return sizes.pop() if sizes else 1


def _waveform(name: str, wave: Any, steps: int) -> Samples:
    """(steps, runs, chips) of a waveform."""
    array = np.asarray(wave)
    if array.dtype.kind not in "fiu":
        raise ArgumentError(f"Argument `{name}` must be real numbers in SI, but holds {array.dtype}")
    array = array.astype(np.float64)
    if array.ndim not in (1, 2, 3) or array.shape[0] != steps:
        raise ArgumentError(
            f"Argument `{name}` must have shape ({steps},), ({steps}, runs) or ({steps}, runs, chips), but has "
            f"{array.shape}"
        )
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"Argument `{name}` must be finite, but holds NaN or infinity")
    return array.reshape(*array.shape, *(1,) * (3 - array.ndim))


def _setting(name: str, value: Any) -> Samples:
    """(1,) or (chips,) of a number, or of one for every chip."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu" or array.ndim > 1 or not array.size:
        raise ArgumentError(f"Argument `{name}` must hold numbers, one or one for every chip, but has {value!r}")
    array = np.atleast_1d(array).astype(np.float64)
    if not np.all(np.isfinite(array)):
        raise ArgumentError(f"Argument `{name}` must be finite, but holds NaN or infinity")
    return array


def sample_times(kind: Kind, count: int, every: int, step_s: float) -> Samples:
    """When a channel's samples are taken, from the start of the pass, if only every so many steps are read."""
    first = {Kind.POSITION: 0.5, Kind.MOMENTUM: 0.0, Kind.TARGET: float(every)}[kind]
    return np.asarray((first + every * np.arange(count)) * step_s, np.float64)


def sample_count(kind: Kind, steps: int, every: int) -> int:
    """Samples of a channel in a pass, if only every so many steps are read."""
    return {Kind.POSITION: -(-steps // every), Kind.MOMENTUM: -(-(steps + 1) // every), Kind.TARGET: steps // every}[
        kind
    ]


@dataclass(frozen=True, eq=False)
class Record:
    """What came back: samples by channel, (samples, runs, chips), and where converters were driven beyond their range.

    Beside readout channels, `saturated` knows drives, nudges and the state itself, as ``"drive.u0"``, ``"nudge.y0"``
    and ``"state.n1"``; only what has a range is there.
    """

    times_s: Mapping[str, Samples]
    """By channel, from the start of the pass."""
    samples: Mapping[str, Samples]
    units: Mapping[str, str]
    saturated: Mapping[str, NDArray[np.bool_]]
    blocks: Mapping[tuple[str, ...], Any] = field(default_factory=dict)
    """Channels that lie side by side in memory, (samples, channels, runs, chips) by their names."""

    def stacked(self, channels: Sequence[str]) -> Any:
        """Samples of equally long channels, (samples, channels, runs, chips)."""
        known = self.blocks.get(tuple(channels))
        return np.stack([self[name] for name in channels], axis=1) if known is None else known

    def __getitem__(self, channel: str) -> Samples:
        """Samples of one channel."""
        if channel not in self.samples:
            raise ArgumentError(
                f"Argument `channel` must be one that is wired, but is {channel!r}{nearest(channel, self.samples)}"
            )
        return self.samples[channel]

    @property
    def clipped(self) -> dict[str, int]:
        """How many values were beyond the range, by name; only those that were."""
        counts = {name: int(np.count_nonzero(flags)) for name, flags in self.saturated.items()}
        return {name: count for name, count in counts.items() if count}


class Bench(Protocol):
    """A device under test with its converters."""

    def describe(self) -> Description:
        """Channels, ranges, clock, and what was used so far."""
        ...

    def program(self, parameters: Values) -> None:
        """Set parameters by name, in SI, one number or one per chip; the others stay."""
        ...

    def run(self, shot: Shot) -> Record:
        """Make a pass."""
        ...


def refuse_unknown(what: str, given: Iterable[Any], known: Collection[str]) -> None:
    """Refuse names that a bench does not have."""
    for name in given:
        if name not in known:
            raise ArgumentError(
                f"Argument `{what}` must name what there is, but has {name!r}{nearest(str(name), known)}"
            )


def refuse_unable(shot: Shot, bench: Description) -> None:
    """Refuse what a bench cannot do, or has not the nodes or chips for."""
    if shot.amplify and not bench.amplifies:
        raise ArgumentError("Argument `amplify` must be False: this bench cannot turn its losses into gains")
    if shot.trim and not bench.trims:
        raise ArgumentError("Argument `trim` must be left out: the turn of this bench cannot be trimmed")
    refuse_unknown("trim", shot.trim, dict.fromkeys(bench.nodes))
    for node, pair in shot.trim.items():
        for values in pair:
            if len(values) not in (1, bench.chips):
                raise ArgumentError(
                    f"Argument `trim.{node}` must have one value, or one for each of {bench.chips} chips, but has "
                    f"{len(values)}"
                )
    if shot.ranges and bench.zoom == 1:
        raise ArgumentError("Argument `ranges` must be left out: the ranges of this bench are fixed")
    refuse_unknown("ranges", shot.ranges, bench.channels)
    for name, value in shot.ranges.items():
        own = bench.channels[name]
        if not (1 - SLACK) * own.full_scale / bench.zoom <= value <= (1 + SLACK) * own.full_scale:
            raise ArgumentError(
                f"Argument `ranges.{name}` must be between {own.full_scale / bench.zoom:g} and {own.full_scale:g} "
                f"{own.unit}, but is {value:g}"
            )


def runs_of(shot: Shot, bench: Description, held: int | None) -> int:
    """How many runs a pass has, or a refusal; `held` is how many wait for their echo, None if none do."""
    refuse_unknown("drive", shot.drive, bench.drives)
    refuse_unknown("nudge", shot.nudge, bench.nudges)
    refuse_unknown("channels", dict.fromkeys(shot.channels or ()), bench.channels)
    refuse_unable(shot, bench)
    if shot.echo and held is None:
        raise ArgumentError("Argument `echo` must follow a pass that was held: run one with hold=True first")
    waiting = held if shot.echo and held is not None else 1
    runs = max(shot.runs, waiting)
    if runs % waiting:
        raise ArgumentError(f"Argument `echo` must have a multiple of the {waiting} runs that are held, but has {runs}")
    for name, waves in (("drive", shot.drive), ("nudge", shot.nudge)):
        for key, wave in waves.items():
            if wave.shape[1] not in (1, runs) or wave.shape[2] not in (1, bench.chips):
                chips = "1 chip" if bench.chips == 1 else f"{bench.chips} chips"
                raise ArgumentError(
                    f"Argument `{name}.{key}` must be for {runs} runs and {chips}, but has shape {wave.shape}"
                )
    return runs


def programmable(parameters: Values, limits: Mapping[str, Limits]) -> dict[str, float]:
    """Parameters for a bench of one chip, in SI, or a refusal."""
    refuse_unknown("parameters", parameters, limits)
    values = {}
    for name, given in parameters.items():
        value = np.asarray(given)
        if value.dtype.kind not in "fiu" or value.size != 1:
            raise ArgumentError(f"Argument `parameters` must be numbers in SI, one each, but `{name}` is {given!r}")
        number, low, high = float(value.reshape(())), limits[name].low, limits[name].high
        slack = SLACK * (high - low)
        if not low - slack <= number <= high + slack:
            raise ArgumentError(
                f"Argument `parameters` must keep `{name}` between {low:g} and {high:g} {limits[name].unit}, the range "
                f"of the bench, but it is {number:g}"
            )
        values[name] = number
    return values
