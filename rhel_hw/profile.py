"""Profiles: everything that is not ideal about a device and its bench, as data, and what its use costs.

Every field states its unit, how it is distributed and its *scope*, that is when it is drawn; all are off by default. A
profile is read from TOML or JSON, from a design file's `[profile]`, or taken from a preset and changed.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from math import inf, isinf
from pathlib import Path
from typing import Any

from devices import ArgumentError, UnitError, nearest
from rhel_hw.knobs import (
    Scope,
    bits,
    by_name,
    full_scale,
    knob,
    list_of_names,
    matrix_or_number,
    number,
    one_of,
    switch,
    whole,
)
from rhel_hw.knobs import precision as number_format

LARGEST_FILE = 1024 * 1024
"""Bytes of a profile."""


class ProfileError(ArgumentError):
    """A profile that is refused; `key` is the path of the setting that is at fault."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"Argument `profile.{key}` {reason}")
        self.key, self.reason = key, reason


# Sections ---------------------------------------------------------------------------------------------------------

_RELATIVE = number(most=10)
_OF_SCALE = number(most=1)
_ANY_OF_SCALE = number(least=-1, most=1)


@dataclass(frozen=True)
class Fabrication:
    """What the chip is, other than what was drawn."""

    mismatch: Any = knob(
        0.0, by_name(_RELATIVE, "tolerance"), "relative", Scope.CHIP,
        "normal spread of parameters about their nominal or programmed value: for all that have a usual knob or are "
        'trained, by "element", "element.parameter", "type" or "type.parameter", or "tolerance": as the elements say',
    )  # fmt: skip
    bits: int | None = knob(None, bits(), "bits", Scope.FIXED, "resolution with which a parameter can be programmed")
    range: float = knob(
        2.0, number(above=1.0, most=1e6), "ratio", Scope.FIXED,
        "a parameter without bounds can be programmed between its nominal value over and times this",
    )  # fmt: skip
    rounding: str = knob(
        "nearest", one_of("nearest", "stochastic"), "", Scope.GRADIENT, "how programmed values meet their resolution"
    )
    dead: tuple[str, ...] = knob((), list_of_names, "elements", Scope.FIXED, "elements that are not there")
    stuck: tuple[str, ...] = knob(
        (), list_of_names, "elements", Scope.FIXED, "elements, or parameters, that stay at their nominal value"
    )
    parasitic: float = knob(
        0.0, number(most=1), "relative", Scope.CHIP,
        "normal spread of stray couplings between nodes up to two elements apart, over the root of their stiffnesses",
    )  # fmt: skip


@dataclass(frozen=True)
class Dynamics:
    """How the device moves, other than as its energy says."""

    substeps: int = knob(
        1, whole(least=1, most=99, odd=True), "per sample", Scope.FIXED,
        "integration steps per sample, odd: a real device is continuous, and the learner gets one sample a step",
    )  # fmt: skip
    quality: Any = knob(
        inf, by_name(number(above=0.0)), "Q", Scope.FIXED,
        "quality factor: of all oscillations alike, or of some elements by name or type",
    )  # fmt: skip
    damping: Any = knob(0.0, by_name(number()), "α", Scope.FIXED, "damping of magnets, for all or by name or type")
    linewidth: Any = knob(
        0.0,
        by_name(number(unit="Hz")),
        "Hz",
        Scope.FIXED,
        "linewidth of optical resonators, for all or by name or type",
    )
    temperature: float = knob(
        0.0, number(unit="K"), "K", Scope.STEP, "temperature of all losses, which then shake as much as they damp"
    )
    thermal: str = knob(
        "independent", one_of("independent", "common", "replayed"), "", Scope.PASS,
        "whether every pass has thermal noise of its own, the echoes of a gradient share theirs, or echoes meet that "
        "of their free pass again, backwards",
    )  # fmt: skip
    flicker: float = knob(
        0.0, _RELATIVE, "relative", Scope.PASS, "root mean square of 1/f noise of every parameter, from pass to pass"
    )
    drift: float = knob(
        0.0, _RELATIVE, "relative", Scope.PASS, "change of parameters per pass, with a normal direction for each"
    )
    gradient_drift: float = knob(
        0.0, _RELATIVE, "relative", Scope.GRADIENT, "change of parameters per programming, likewise"
    )
    saturation: float = knob(
        inf, number(above=0.0), "nominal peaks", Scope.FIXED, "largest position that a node can have"
    )
    precision: str = knob(
        "float64", number_format, "", Scope.STEP, "number format of the state: float64 to float16, bfloat16, or Qm.n"
    )


@dataclass(frozen=True)
class Drive:
    """The converters that play drive waveforms."""

    bits: int | None = knob(None, bits(), "bits", Scope.STEP, "resolution")
    full_scale: Any = knob(
        2.0, full_scale(), "peaks", Scope.FIXED, "largest magnitude, over that of the reference waveforms, or in SI"
    )
    gain: float = knob(1.0, number(above=0.0), "", Scope.FIXED, "gain")
    offset: float = knob(0.0, _ANY_OF_SCALE, "full scales", Scope.FIXED, "offset")
    inl: float = knob(0.0, _ANY_OF_SCALE, "full scales", Scope.FIXED, "integral nonlinearity, a cubic bow")
    noise: float = knob(0.0, _OF_SCALE, "full scales", Scope.STEP, "normal noise")
    shared_noise: bool = knob(False, switch, "", Scope.PASS, "whether the echoes of a gradient have the same noise")
    bandwidth: float = knob(inf, number(above=0.0, unit="Hz"), "Hz", Scope.FIXED, "corner of a first-order low pass")
    jitter: float = knob(0.0, number(unit="s"), "s", Scope.STEP, "normal spread of the instants of conversion")
    crosstalk: Any = knob(
        0.0,
        matrix_or_number,
        "relative",
        Scope.FIXED,
        "what leaks from a drive to its neighbours in the list, or a matrix",
    )


@dataclass(frozen=True)
class Nudge:
    """The converters that nudge targets."""

    bits: int | None = knob(None, bits(), "bits", Scope.STEP, "resolution")
    full_scale: Any = knob(
        "auto",
        full_scale("auto"),
        "SI",
        Scope.FIXED,
        'largest magnitude; "auto": that of the shot, as amplifiers adapt',
    )
    gain: float = knob(1.0, number(above=0.0), "", Scope.FIXED, "gain")
    offset: float = knob(0.0, _ANY_OF_SCALE, "full scales", Scope.FIXED, "offset")
    inl: float = knob(0.0, _ANY_OF_SCALE, "full scales", Scope.FIXED, "integral nonlinearity, a cubic bow")
    noise: float = knob(0.0, _OF_SCALE, "full scales", Scope.STEP, "normal noise")


@dataclass(frozen=True)
class Readout:
    """The converters that read positions and momenta."""

    bits: int | None = knob(None, bits(), "bits", Scope.STEP, "resolution")
    full_scale: Any = knob(
        2.0, full_scale(), "peaks", Scope.FIXED, "largest magnitude, over that of the nominal response, or in SI"
    )
    gain: float = knob(1.0, number(above=0.0), "", Scope.FIXED, "gain")
    gain_spread: float = knob(0.0, _RELATIVE, "relative", Scope.CHIP, "normal spread of gains from channel to channel")
    offset: float = knob(0.0, _ANY_OF_SCALE, "full scales", Scope.FIXED, "offset")
    inl: float = knob(0.0, _ANY_OF_SCALE, "full scales", Scope.FIXED, "integral nonlinearity, a cubic bow")
    noise: float = knob(0.0, _OF_SCALE, "full scales", Scope.STEP, "normal noise")
    jitter: float = knob(0.0, number(unit="s"), "s", Scope.STEP, "normal spread of the instants of sampling")
    bandwidth: float = knob(inf, number(above=0.0, unit="Hz"), "Hz", Scope.FIXED, "corner of a first-order low pass")
    decimation: int = knob(1, whole(least=1, most=1000), "steps", Scope.FIXED, "only every so many steps are read")
    memory: int = knob(2**28, whole(least=1, most=2**40), "samples", Scope.FIXED, "samples per channel that fit")
    unwired: tuple[str, ...] = knob((), list_of_names, "channels", Scope.FIXED, "channels that are not connected")
    digitise: str = knob(
        "separate", one_of("separate", "sum-difference"), "", Scope.FIXED,
        "whether paired echoes are read one by one, or their sum and difference, with a range of its own",
    )  # fmt: skip
    zoom: float = knob(
        1.0, number(least=1.0, most=1e6), "ratio", Scope.FIXED,
        "how many times smaller the range of a channel can be made for a pass, as amplifiers before the converter do "
        "it; noise, offset, bow and resolution are in full scales of the range that is set",
    )  # fmt: skip


OPERATIONS = ("momentum-flip", "sign-flip", "polarity-switch", "parametric")


@dataclass(frozen=True)
class Echo:
    """How the state is turned round."""

    operation: str = knob(
        "momentum-flip", one_of(*OPERATIONS), "", Scope.FIXED,
        "momenta are flipped, all signs of the energy are, the polarity of vortices is, or an idler is taken",
    )  # fmt: skip
    gain: float = knob(
        1.0, number(above=0.0), "", Scope.FIXED, "of the flipped momentum; parametric: of both quadratures"
    )
    gain_spread: float = knob(0.0, _RELATIVE, "relative", Scope.CHIP, "normal spread from coordinate to coordinate")
    gain_noise: float = knob(0.0, _RELATIVE, "relative", Scope.PASS, "normal spread from echo to echo")
    angle: float = knob(
        0.0, number(least=-inf, unit="rad"), "rad", Scope.FIXED, "rotation of (q, p) that comes with it"
    )
    angle_spread: float = knob(0.0, number(unit="rad"), "rad", Scope.CHIP, "normal spread over coordinates")
    angle_noise: float = knob(0.0, number(unit="rad"), "rad", Scope.PASS, "normal spread from echo to echo")
    noise: float = knob(0.0, _OF_SCALE, "nominal peaks", Scope.PASS, "normal noise that it adds to both quadratures")
    latency: float = knob(
        0.0, number(unit="s"), "s", Scope.FIXED, "time before it, during which the undriven system goes on"
    )
    skew: float = knob(
        0.0, number(least=-inf, unit="s"), "s", Scope.FIXED, "by which reversed drives and nudges come too late"
    )
    missed: float = knob(0.0, number(most=1), "probability", Scope.PASS, "that a coordinate is not turned")
    sign_error: float = knob(
        0.0, _RELATIVE, "relative", Scope.CHIP, "normal spread with which inverted parameters miss their negatives"
    )
    pump: bool = knob(
        False, switch, "", Scope.FIXED,
        "whether losses can be turned into equal gains during an echo, as spin torque or a parametric pump does",
    )  # fmt: skip
    pump_error: float = knob(
        0.0, number(least=-1, most=10), "relative", Scope.FIXED, "by how much those gains miss the losses"
    )


_JOULES = number(most=1, unit="J")
_SECONDS = number(most=1e6, unit="s")


@dataclass(frozen=True)
class Cost:
    """What a gradient costs, on the bench and on a digital machine: docs/physics.md, section 13.

    None of it is an imperfection: a bench reads the same whatever it costs. Defaults are assumptions.
    """

    adc: float = knob(
        1e-13, _JOULES, "J per step", Scope.FIXED,
        "energy of reading a sample, over 2^bits (Walden's figure of merit; order of magnitude: 2 fJ was the best of "
        "2013, instruments need far more)",
    )  # fmt: skip
    dac: float = knob(
        1e-13, _JOULES, "J per step", Scope.FIXED,
        "energy of playing a value, over 2^bits (order of magnitude: that of reading)",
    )  # fmt: skip
    prepare: float = knob(
        0.0, _SECONDS, "s", Scope.FIXED, "time before every pass to bring the device to its start (0: not counted)"
    )
    program: float = knob(
        0.0, _SECONDS, "s", Scope.FIXED, "time before a gradient to program the parameters (0: not counted)"
    )
    operation: float = knob(
        1e-12, _JOULES, "J", Scope.FIXED,
        "energy of a floating-point operation of a digital machine (order of magnitude, arithmetic alone: 32 bits in "
        "45 nm take 0.9 pJ to add, 3.7 pJ to multiply)",
    )  # fmt: skip
    memory: float = knob(
        1e-10, _JOULES, "J per byte", Scope.FIXED,
        "energy of moving a byte between it and its memory (order of magnitude: 32 bits of DRAM take 640 pJ)",
    )  # fmt: skip


IMPERFECTIONS: dict[str, type[Any]] = {
    "fabrication": Fabrication,
    "dynamics": Dynamics,
    "drive": Drive,
    "nudge": Nudge,
    "readout": Readout,
    "echo": Echo,
}
"""Sections that say how a bench differs from an ideal one."""
SECTIONS: dict[str, type[Any]] = {**IMPERFECTIONS, "cost": Cost}


@dataclass(frozen=True)
class Profile:
    """All imperfections of a bench, and what it costs. The default is ideal."""

    fabrication: Fabrication = field(default_factory=Fabrication)
    dynamics: Dynamics = field(default_factory=Dynamics)
    drive: Drive = field(default_factory=Drive)
    nudge: Nudge = field(default_factory=Nudge)
    readout: Readout = field(default_factory=Readout)
    echo: Echo = field(default_factory=Echo)
    cost: Cost = field(default_factory=Cost)
    learning: tuple[tuple[str, Any], ...] = ()
    """Settings of the learner that go well with it, unless a design or the user says otherwise."""

    def __post_init__(self) -> None:
        for section, kind in SECTIONS.items():
            if not isinstance(getattr(self, section), kind):
                raise ProfileError(section, f"must be a {kind.__name__}, but is {getattr(self, section)!r}")
            given = getattr(self, section)
            checked = {f.name: _read(section, f, getattr(given, f.name)) for f in fields(kind)}
            object.__setattr__(self, section, kind(**checked))

    # Reading ---------------------------------------------------------------------------------------------------------

    @staticmethod
    def preset(name: str) -> Profile:
        """One of the profiles that ship with the package."""
        from rhel_hw.profiles import PROFILES

        if name not in PROFILES:
            raise ProfileError("preset", f"must be a preset, but is {name!r}{nearest(name, PROFILES)}")
        return PROFILES[name].profile

    @staticmethod
    def load(source: str | Path) -> Profile:
        """Profile of a .toml or .json file, or a preset by name."""
        from rhel_hw.profiles import PROFILES

        if str(source) in PROFILES:
            return Profile.preset(str(source))
        path = Path(source)
        readers: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".json": json.loads}
        if path.suffix not in readers:
            raise ArgumentError(
                f"Argument `profile` must be a .toml or .json file or a preset, but is {str(source)!r}"
                f"{nearest(str(source), PROFILES)}"
            )
        try:
            if path.stat().st_size > LARGEST_FILE:
                raise ArgumentError(f"Argument `profile` must be a small file, but {path} is over a mebibyte")
            data = readers[path.suffix](path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise ArgumentError(f"Argument `profile` cannot be read: {path}: {problem.strerror}") from None
        except (ValueError, RecursionError) as problem:
            if isinstance(problem, ArgumentError):
                raise
            raise ArgumentError(f"Argument `profile` must be {path.suffix[1:]}, but {path} is not: {problem}") from None
        return Profile.of(data)

    @staticmethod
    def of(data: Mapping[str, Any]) -> Profile:
        """Profile of tables as files have them; `preset` names one to begin with."""
        if not isinstance(data, Mapping):
            raise ArgumentError(f"Argument `profile` must be a table, but is {type(data).__name__}")
        start = Profile.preset(str(data["preset"])) if "preset" in data else Profile()
        return start.changed({k: v for k, v in data.items() if k != "preset"})

    def changed(self, tables: Mapping[str, Any]) -> Profile:
        """The same with some settings changed, as tables by section."""
        changes: dict[str, Any] = {}
        for section, table in tables.items():
            known = (*SECTIONS, "learning")
            if section not in known:
                raise ProfileError(section, f"is no section of a profile{nearest(section, known)}")
            if not isinstance(table, Mapping):
                raise ProfileError(section, f"must be a table, but is {table!r}")
            if section == "learning":
                changes[section] = tuple(sorted({**dict(self.learning), **table}.items()))
                continue
            own = {f.name: f for f in fields(SECTIONS[section])}
            for key in table:
                if key not in own:
                    raise ProfileError(f"{section}.{key}", f"is no setting of [{section}]{nearest(key, own)}")
            read = {k: _read(section, own[k], v) for k, v in table.items()}
            changes[section] = replace(getattr(self, section), **read)
        return replace(self, **changes)

    def set(self, path: str, value: Any) -> Profile:
        """The same with one setting changed, such as ``set("readout.bits", 6)``; texts are read as in a file."""
        section, dot, key = path.partition(".")
        if not dot:
            raise ProfileError(path, "must be a section and a setting, such as readout.bits")
        return self.changed({section: {key: literal(value) if isinstance(value, str) else value}})

    # Telling ---------------------------------------------------------------------------------------------------------

    @property
    def ideal(self) -> bool:
        """Whether nothing differs from an ideal bench."""
        return not self.differences()

    def differences(self) -> dict[str, Any]:
        """What differs from ideal, by setting. Costs do not count."""
        return {f"{section}.{f.name}": value for section, f, value in self._changed(IMPERFECTIONS)}

    def describe(self) -> list[Setting]:
        """What differs from ideal, with unit, scope and meaning."""
        return [_setting(section, f, value) for section, f, value in self._changed(IMPERFECTIONS)]

    def costs(self) -> list[Setting]:
        """Costs that are not the default, told likewise."""
        return [_setting(section, f, value) for section, f, value in self._changed({"cost": Cost})]

    def to_dict(self) -> dict[str, Any]:
        """What differs from the default, as tables that `of` reads."""
        tables: dict[str, Any] = {}
        for section, f, value in self._changed(SECTIONS):
            tables.setdefault(section, {})[f.name] = _plain(value)
        if self.learning:
            tables["learning"] = dict(self.learning)
        return tables

    def __str__(self) -> str:
        lines = [f"{s.path} = {shown(s.value)} ({s.unit or 'choice'}; {s.scope})" for s in self.describe()]
        return "\n".join(lines) or "ideal"

    def _changed(self, sections: Mapping[str, type[Any]]) -> Iterator[tuple[str, Field[Any], Any]]:
        """Settings of some sections that are not the default."""
        for section, kind in sections.items():
            for f in fields(kind):
                value = getattr(getattr(self, section), f.name)
                if value != f.default:
                    yield section, f, value


@dataclass(frozen=True)
class Setting:
    """One setting, told."""

    path: str
    value: Any
    unit: str
    scope: Scope
    doc: str


def settings() -> list[Setting]:
    """Every setting there is, with its default."""
    return [_setting(section, f, f.default) for section, kind in SECTIONS.items() for f in fields(kind)]


def _setting(section: str, f: Field[Any], value: Any) -> Setting:
    return Setting(f"{section}.{f.name}", value, f.metadata["unit"], f.metadata["scope"], f.metadata["doc"])


def literal(text: str) -> Any:
    """A value as TOML has it; what is none is a text."""
    try:
        return tomllib.loads(f"x = {text}")["x"]
    except tomllib.TOMLDecodeError:
        return text


def _read(section: str, f: Field[Any], value: Any) -> Any:
    assert f.default is not MISSING  # all knobs have one
    if value is f.default or (type(value) is type(f.default) and value == f.default):
        return f.default
    try:
        return f.metadata["read"](value)
    except UnitError as problem:
        text = str(problem)
        raise ProfileError(
            f"{section}.{f.name}", text if text.startswith("must") else f"cannot be read: {text}"
        ) from None


def _plain(value: Any) -> Any:
    """Tables and infinities as files have them."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple) and isinstance(value[0][0], str):
        return {k: _plain(v) for k, v in value}
    if isinstance(value, tuple):
        return [_plain(v) for v in value]
    return "inf" if isinstance(value, float) and isinf(value) else value


def shown(value: Any) -> str:
    """A value for people."""
    plain = _plain(value)
    return f"{plain:g}" if isinstance(plain, float) else str(plain)
