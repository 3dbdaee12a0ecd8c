"""From points of a sweep to what is computed: designs, tasks, learners and profiles, and which points go together.

Points that differ only in numbers of the profile, in nudging strength or in the chip are lanes of one batch. Everything
else makes a setup of its own, and is made once.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.corrections import Corrections
from calibration.file import Calibration
from circuits import Design, DesignError, Netlist
from circuits.findings import error
from circuits.formats.toml import of_tables, read
from devices import ArgumentError, nearest
from rhel_hw import settings
from rhel_hw.baselines import BPTT
from rhel_hw.compare import trained
from rhel_hw.emulated import likeness
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.profile import Profile, ProfileError
from rhel_hw.ranges import Peaks, nominal_peaks
from rhel_hw.tasks import Teacher
from rhel_hw.training import Training
from studies.sweeps.axes import DESIGN, Sweep, Table

Changes = tuple[tuple[str, Any], ...]

LANES = ("learning.epsilon", "learning.gamma", "learning.decay", "chip")
"""Axes, beside those of the profile, by which the lanes of a batch differ."""


@dataclass(frozen=True, eq=False)
class Setup:
    """What all points of a batch have in common."""

    design: Design
    task: Teacher
    training: Training
    seed: int
    """Of what the bench draws."""

    @cached_property
    def lesson(self) -> Lesson:
        """What the bench is taught."""
        return self.task.lesson(self.design)

    @cached_property
    def peaks(self) -> Peaks:
        """What the ranges of converters are multiples of."""
        return nominal_peaks(self.design, self.lesson.drive or None)

    def corrections(self, calibration: str | None, chips: Sequence[int]) -> Corrections | None:
        """What puts some chips right, by the text of a calibration; None without one."""
        if calibration is None:
            return None
        task = {"type": "teacher", **asdict(self.task)}
        return Calibration.parsed(calibration).chosen(self.design.netlist, seed=self.seed, numbers=chips, task=task)

    @cached_property
    def exact(self) -> NDArray[np.float64]:
        """Gradient of the ideal circuit by backpropagation, over the trainable parameters."""
        return trained(self.design, BPTT().gradient(self.task.problem(self.design)).theta)


@dataclass(frozen=True, eq=False)
class Lane:
    """One point."""

    point: int
    profile: Profile
    chip: int
    epsilon: float
    gamma: float | str
    decay: float | None
    """Rate of loss that its learner makes up for, in 1/s; None: what calibration says."""


@dataclass(frozen=True, eq=False)
class Group:
    """Points that one batch can take."""

    setup: Setup
    learner: EchoLearner
    """With ε = 1, and γ = 1 or automatic: each lane has its own."""
    lanes: tuple[Lane, ...]


@dataclass(eq=False)
class Plan:
    """All points of a sweep on a design, in groups."""

    netlist: Netlist
    sweep: Sweep
    table: Table = field(init=False)
    groups: tuple[Group, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.table = self.sweep.table()
        self._netlists: dict[Any, Netlist] = {}
        self._designs: dict[str, Design] = {}
        self._setups: dict[Any, Setup] = {}
        self._profiles: dict[Any, Profile] = {}
        self._learners: dict[Any, EchoLearner] = {}
        alike: dict[int, Any] = {}
        shared: dict[int, EchoLearner] = {}
        found: dict[Any, tuple[Setup, EchoLearner, list[Lane]]] = {}
        for number in range(len(self.table)):
            setup, learner, lane = self._resolved(number)
            # Profiles and learners are few: what they have in common is found once for each.
            own = _cached(alike, id(lane.profile), lambda lane=lane: likeness(lane.profile))
            static = _cached(shared, id(learner), lambda learner=learner: _common(learner))
            gains = lane.profile.echo.pump and lane.decay != 0  # of all chips of a bench or of none
            found.setdefault((id(setup), static, own, gains), (setup, static, []))[2].append(lane)
        self.groups = tuple(Group(setup, learner, tuple(lanes)) for setup, learner, lanes in found.values())
        for group in self.groups:  # refuses what the calibration is not for
            group.setup.corrections(self.sweep.calibration, [lane.chip for lane in group.lanes])

    def _resolved(self, number: int) -> tuple[Setup, EchoLearner, Lane]:
        columns = self.table.columns
        common, base, own, learning = (tuple((p, columns[p][number]) for p in paths) for paths in self._sorted)
        netlist = _cached(self._netlists, base, lambda: changed(self.netlist, dict(base)))
        profile = _cached(self._profiles, (base, own), lambda: _profile(netlist, own))
        learner = _cached(
            self._learners,
            (base, profile.learning, learning),
            lambda: _learner(netlist, self._knowing(profile), learning),
        )
        setup = _cached(self._setups, common, lambda: self._setup(netlist, common))
        chip = columns["chip"][number] if "chip" in columns else 0
        return setup, learner, Lane(number, profile, chip, learner.epsilon, learner.gamma, learner.decay)

    def _knowing(self, profile: Profile) -> Profile:
        """A profile that recommends the nudging strengths of a calibration, if there is one."""
        known = self.sweep.calibration
        if known is None or not Calibration.parsed(known).corrections.strengths:
            return profile
        return profile.changed({"learning": {"gamma": "auto"}})

    @cached_property
    def _sorted(self) -> tuple[tuple[str, ...], ...]:
        """Axes of what batches have in common, of the netlist alone, of the profile and of learning."""
        paths = tuple(self.table.columns)
        base = tuple(p for p in paths if p.split(".")[0] in DESIGN or p == "design")
        own = tuple(p for p in paths if p.startswith("profile."))
        common = tuple(p for p in paths if p not in own and p not in LANES)
        return common, base, own, tuple(p for p in paths if p.startswith("learning."))

    def _setup(self, netlist: Netlist, common: Changes) -> Setup:
        given = dict(common)
        task = {p.removeprefix("task."): v for p, v in common if p.startswith("task.")}
        if "seed" in given:
            task.setdefault("seed", given["seed"])
        moves = {p.removeprefix("training."): v for p, v in common if p.startswith("training.")}
        if self.sweep.moves:
            moves["steps"] = self.sweep.moves
        teacher = settings.task(netlist, task)
        text = _text(netlist)
        design = _cached(self._designs, text, lambda: _compiled(text))
        return _made(design, teacher, settings.training(netlist, moves), given.get("seed", teacher.seed))

    @property
    def designs(self) -> tuple[Design, ...]:
        """All designs that there are."""
        return tuple(self._designs.values())


@lru_cache(maxsize=64)
def _made(design: Design, task: Teacher, training: Training, seed: int) -> Setup:
    """A setup; those of earlier plans are found again, with their lessons and exact gradients."""
    return Setup(design, task, training, seed)


@lru_cache(maxsize=8)
def _compiled(text: str) -> Design:
    """Found again likewise, and with it the programs that were compiled for it."""
    return read(text).compile()


def _common(learner: EchoLearner) -> EchoLearner:
    """A learner without what lanes have of their own."""
    return replace(learner, epsilon=1.0, gamma="auto" if learner.gamma == "auto" else 1.0, decay=0.0)


def _cached(known: dict[Any, Any], key: Any, make: Any) -> Any:
    if key not in known:
        known[key] = make()
    return known[key]


def _text(netlist: Netlist) -> str:
    """A netlist without the sections that do not change what it compiles to."""
    return netlist.replace(settings={}).to_toml()


def changed(netlist: Netlist, changes: Mapping[str, Any]) -> Netlist:
    """A netlist with fields of its design file changed by path; names of elements may be patterns."""
    if "design" in changes:
        loaded = Netlist.load(changes["design"])
        netlist = loaded.replace(settings={**netlist.settings, **loaded.settings})
    rest = {p: v for p, v in changes.items() if p != "design"}
    if not rest:
        return netlist
    document = deepcopy(tomllib.loads(netlist.to_toml()))
    for path, value in rest.items():
        _set(document, path, value)
    return of_tables(document, netlist.name)


def _set(document: dict[str, Any], path: str, value: Any) -> None:
    section, *keys = path.split(".")
    tables = [document.setdefault(section, {})]
    if section in ("elements", "drives", "targets", "detectors"):
        name, *keys = keys
        known = tables[0]
        tables = [table for own, table in known.items() if fnmatchcase(own, name)]
        if not tables or not keys:
            reason = "names no field" if tables else f"{name!r} is none of {section}{nearest(name, known)}"
            raise DesignError([error(path, reason, f"name a field, such as {section}.{next(iter(known), 'L1')}.…")])
    for table in tables:
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = value


def _profile(netlist: Netlist, changes: Changes) -> Profile:
    profile = settings.profile(netlist)
    try:
        for path, value in changes:
            _, section, *rest = path.split(".")
            if len(rest) == 2:  # one entry of a table by name
                known = getattr(getattr(profile, section, None), rest[0], ())
                value = {**dict(known if isinstance(known, tuple) else ()), rest[1]: value}
            if not 1 <= len(rest) <= 2:
                raise ArgumentError(f"Argument `{path}` must be a section and a setting, such as profile.readout.bits")
            profile = profile.changed({section: {rest[0]: value}})
    except ProfileError as problem:
        reason = [error(f"profile.{problem.key}", problem.reason, "see `rhel-hw profiles --settings`")]
        raise DesignError(reason) from None
    return profile


def _learner(netlist: Netlist, profile: Profile, changes: Changes) -> EchoLearner:
    return settings.bench_learning(netlist, profile, {p.removeprefix("learning."): v for p, v in changes})
