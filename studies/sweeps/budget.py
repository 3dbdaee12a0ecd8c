"""Budgets: which bits, noise, quality and drift a design needs to meet a requirement, one by one and all together.

A requirement is met at a point if it holds at every seed. The result is a contract for those who build the device:
limits of all axes that hold at the same time, with margins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from math import inf
from threading import Lock
from typing import Any

import numpy as np

from circuits import DesignError, Netlist
from devices import ArgumentError, UnitError
from rhel_hw import settings
from rhel_hw.bench import Shot
from rhel_hw.emulated import EmulatedBench
from rhel_hw.profile import SECTIONS, ProfileError
from studies.sweeps import engine
from studies.sweeps.axes import ALONE, Axis, Sweep
from studies.sweeps.contract import Budget
from studies.sweeps.joint import together
from studies.sweeps.limits import (
    AT_LEAST,
    AT_MOST,
    Evaluate,
    Floats,
    Point,
    Range,
    Requirement,
    Trial,
    Trials,
    around,
    in_step,
    limit,
    rounded,
)
from studies.sweeps.setups import Plan

DEFAULTS = (
    Range("profile.readout.bits", 16, 2, "whole"),
    Range("profile.drive.bits", 16, 2, "whole"),  # one bit has no level but zero: nothing would move
    Range("profile.nudge.bits", 16, 1, "whole"),
    Range("profile.readout.noise", 1e-6, 0.1, "log"),
    Range("profile.dynamics.quality", 1e6, 10.0, "log"),
    Range("profile.dynamics.drift", 1e-9, 1e-3, "log"),
    Range("profile.fabrication.mismatch", 1e-5, 0.2, "log"),
)
"""Axes that are looked at if nobody says; of light the linewidth instead of the quality of its carrier."""
WIDTH, MOST_WHOLE, JOINT = 12, 16, 8
"""Values of an axis that are tried at once: continuous, whole, and all axes together."""
STRUCTURAL = ("profile.dynamics.quality", "profile.dynamics.damping", "profile.dynamics.linewidth")
"""Settings that are elements of the circuit: programs are compiled for the values of the first lane."""
GAMMA = "learning.gamma"
KEPT = (*AT_LEAST, *AT_MOST, "gamma")
"""Outcomes that matter here."""


def find_budget(
    netlist: Netlist,
    requirement: str | Requirement | Sequence[str | Requirement],
    *,
    axes: Mapping[str, Any] | Sequence[Range] | None = None,
    seeds: Sequence[int] = tuple(range(10)),
    sweep: Mapping[str, Any] | None = None,
    workers: int = 2,
    memory: int = engine.MEMORY,
    report: engine.Report | None = None,
    evaluate: Evaluate | None = None,
) -> Budget:
    """Limits of every axis that meet a requirement, alone and together.

    Arguments:
        netlist: the design, with what it says of profile, learning and task.
        requirement: such as "cosine=0.99"; of several, all must hold.
        axes: by path, the two ends of a range such as ``{"log": [1e-6, 0.1]}``, or lists of values to choose from; or
            ranges; `usual_axes` by default.
        seeds: at each of which the requirement must hold.
        sweep: other settings of the sweep: `repeats`, `moves`, `reference`, `calibrated`.
        workers: threads.
        memory: bytes that may be taken.
        report: is told the numbers of gradients that are done and, roughly, of all.
        evaluate: outcomes of points, instead of those of the emulated bench.
    """
    given = [requirement] if isinstance(requirement, (str, Requirement)) else requirement
    requirements = tuple(Requirement.of(r) for r in given)
    options = dict(sweep or {})
    _check(requirements, options, seeds)
    ranges = [*(_ranges(axes) if axes else usual_axes(netlist))]
    netlist, gamma = _with_gamma(netlist, any(r.path == GAMMA for r in ranges))
    refused: dict[str, str] = {}
    if evaluate is None:
        refused = {
            r.path: reason for r in ranges if (reason := _refusal(netlist, r, seeds[0], options.get("moves", 0)))
        }
        ranges = [r for r in ranges if r.path not in refused]
        evaluate = Emulated(netlist, tuple(seeds), options, workers, memory, report, _expected(ranges))
        if not settings.profile(netlist).ideal:
            ideal = Emulated(_idealised(netlist), tuple(seeds), options, workers, memory)
            _refuse_unreachable(Trials(ideal, requirements)([{}])[0], requirements, gamma)
    tried = Trials(evaluate, requirements)
    (own,) = tried([{}])
    if settings.profile(netlist).ideal:
        _refuse_unreachable(own, requirements, gamma)
    searches = {r.path: _search(r) for r in ranges}
    singles = in_step(tried, searches, {})
    limited = [s for s in singles.values() if s.range.ordered and s.good is not None]
    chosen = {s.range.path: s.value(s.good) for s in singles.values() if not s.range.ordered and s.good is not None}
    joint = None
    if limited and all(s.good is not None for s in singles.values()):
        joint = together(tried, limited, chosen, JOINT)
    return Budget(
        netlist.name,
        requirements,
        tuple(seeds),
        gamma,
        own,
        tuple(singles.values()),
        refused,
        joint,
        len(tried.known),
        {reason: len(points) for reason, points in sorted(getattr(evaluate, "lost", {}).items())},
    )


def usual_axes(netlist: Netlist) -> tuple[Range, ...]:
    """Axes that are looked at if nobody says."""
    if not any("intrinsic_q" in e.parameters for e in netlist.elements):
        return DEFAULTS
    rate = 1 / _pass_s(netlist)
    width = Range("profile.dynamics.linewidth", rounded(1e-6 * rate), rounded(10 * rate), "log")
    return tuple(width if axis.path == "profile.dynamics.quality" else axis for axis in DEFAULTS)


def echo_axes(netlist: Netlist) -> tuple[Range, ...]:
    """How well the state must be turned round: gain and angle of the turn, its noise, and how late it may come."""
    length = _pass_s(netlist)
    return (
        Range("profile.echo.gain", 0.5, 1.5, "linear", ordered=False),
        Range("profile.echo.angle", -0.5, 0.5, "linear", ordered=False),
        Range("profile.echo.noise", 1e-6, 1.0, "log"),
        Range("profile.echo.latency", rounded(1e-6 * length), rounded(0.1 * length), "log"),
    )


def _pass_s(netlist: Netlist) -> float:
    design = netlist.compile()
    return design.steps * design.step_s


def _search(axis: Range) -> Any:
    width = MOST_WHOLE if axis.spacing == "whole" else WIDTH
    return limit(axis, width) if axis.ordered else around(axis, width)


def _check(requirements: Sequence[Requirement], options: Mapping[str, Any], seeds: Sequence[int]) -> None:
    if not requirements:
        raise ArgumentError("Argument `require` must be given, such as cosine=0.99")
    names = [r.outcome for r in requirements]
    for name in names:
        if names.count(name) > 1:
            raise ArgumentError(f"Argument `require` must name every outcome once, but has {name} twice")
        if name == "snr" and options.get("repeats", 1) < 2:
            raise ArgumentError("Argument `repeats` must be at least 2 to require an snr: try 4")
        if name in ("final_loss", "improvement") and not options.get("moves", 0):
            raise ArgumentError(f"Argument `moves` must be at least 1 to require {name}, which is told after training")
    for name in ("mode", "points"):
        if options.get(name) is not None:
            raise ArgumentError(f"Argument `{name}` must be left out of a budget, which chooses its points itself")
    if not seeds or any(isinstance(s, bool) or not isinstance(s, int) or s < 0 for s in seeds):
        raise ArgumentError(f"Argument `seeds` must be whole numbers from 0 on, but is {seeds!r}")


def _refuse_unreachable(ideal: Trial, requirements: Sequence[Requirement], gamma: str) -> None:
    """Say so if not even the ideal design does what is required."""
    for r in requirements:
        if r.slack(ideal.worst[r.outcome]) >= 0:
            continue
        tries = ['learning.stencil = "richardson"', "fewer steps"]
        tries[:0] = ["a smaller learning.displacement"] if "pilot" in gamma else [
            'learning.gamma = "auto"', "a smaller learning.epsilon"
        ]  # fmt: skip
        if r.outcome in ("loss", "final_loss", "improvement"):
            tries = ["more --moves", "another training.rate"] if r.outcome != "loss" else ["a smaller task.spread"]
        raise ArgumentError(
            f"Argument `require` must be something that the ideal design can do, but without any imperfection its "
            f"{r.outcome} is {ideal.worst[r.outcome]:.6g} at the worst seed and {ideal.median[r.outcome]:.6g} at the "
            f"median one, not {str(r).partition(' ')[2]}: try {', '.join(tries)}, or require less"
        )


# Axes ---------------------------------------------------------------------------------------------------------------


def _ranges(axes: Mapping[str, Any] | Sequence[Range]) -> Sequence[Range]:
    return [_range(path, values) for path, values in axes.items()] if isinstance(axes, Mapping) else axes


def _range(path: str, given: Any) -> Range:
    axis = Axis.of(path, given)
    if axis.path in ALONE:
        raise ArgumentError(f"Argument `axes` must be settings of which there can be more or less, but has {path}")
    for value in axis.values:
        if isinstance(value, (bool, str)):
            raise ArgumentError(f"Argument `{path}` must be numbers to have a budget, but has {value!r}")
    direction, whole = _direction(axis.path)
    low, high = min(axis.values), max(axis.values)
    if low == high:
        raise ArgumentError(f"Argument `{path}` must have two values for a limit to lie between, but has {low!r} alone")
    ends = (high, low) if direction < 0 else (low, high)
    if axis.sampled:
        return Range(axis.path, *ends, "whole" if whole else axis.spacing, ordered=direction != 0)
    listed = tuple(sorted(axis.values, reverse=direction < 0))
    spacing = "whole" if whole else "log" if low > 0 and high >= 8 * low else "linear"
    return Range(axis.path, *ends, spacing, direction != 0, listed)


def _direction(path: str) -> tuple[int, bool]:
    """1 if more is worse, −1 if less is, 0 if neither is known; and whether values are whole numbers.

    A setting whose default is none or infinite is worse the less it is, one that starts at zero and cannot be negative
    the more it is.
    """
    if path == "learning.shots":
        return -1, True
    section, *keys = path.split(".")
    if section == "elements" and keys[-1] == "tolerance":
        return 1, False
    known = {f.name: f for f in fields(SECTIONS[keys[0]])} if section == "profile" and keys[0] in SECTIONS else {}
    if len(keys) < 2 or keys[1] not in known:
        return 0, False
    default, read = known[keys[1]].default, known[keys[1]].metadata["read"]
    whole = default is None or (isinstance(default, int) and not isinstance(default, bool))
    if default is None or default == inf:
        return -1, whole
    if default != 0 or isinstance(default, (bool, str)):
        return 0, whole
    try:
        read(-1e-9)
    except UnitError:
        return 1, whole
    return 0, whole


def _refusal(netlist: Netlist, axis: Range, seed: int, moves: int) -> str:
    """Why an axis means nothing to this design; nothing if it does."""
    if axis.path.startswith("profile.drive.") and not netlist.drives:
        return "the design has no drives"
    # Which refuses what is wrong.
    plan = Plan(netlist, Sweep({axis.path: [axis.best, axis.worst], "seed": [seed]}, moves=moves))
    for group in plan.groups:
        profiles = [lane.profile for lane in group.lanes]
        try:
            bench = EmulatedBench(group.setup.design, profiles, seed=seed, chips=[0] * len(profiles))
            bench.arguments(Shot(1))
        except ProfileError as problem:
            return problem.reason.removeprefix("must be left out: ")
    return ""


def _with_gamma(netlist: Netlist, is_axis: bool) -> tuple[Netlist, str]:
    """The design with an automatic γ unless it says otherwise, and what γ then is."""
    own = dict(netlist.settings.get("learning", {}))
    told = own.get("gamma", dict(settings.profile(netlist).learning).get("gamma", "auto"))
    found = netlist.replace(settings={**netlist.settings, "learning": {**own, "gamma": told}})
    words = "chosen by pilot echoes at every point" if told == "auto" else f"{told:g}, as the design says"
    return found, f"an axis; elsewhere it is {words}" if is_axis else words


def _idealised(netlist: Netlist) -> Netlist:
    """The same on an ideal bench; what its profile says of learning stays."""
    learning = dict(settings.profile(netlist).learning)
    return netlist.replace(settings={**netlist.settings, "profile": {"learning": learning} if learning else {}})


def _expected(ranges: Sequence[Range]) -> int:
    """About how many points a search takes."""
    alone = sum(abs(r.worst - r.best) + 1 if r.spacing == "whole" else 2 * WIDTH for r in ranges)
    return int(1 + alone + 3 * JOINT + 9 * len(ranges))


# Points -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Emulated:
    """Outcomes of points on the emulated bench, (points, seeds) by name.

    Points that change the same settings are lanes of batches of one width, so that programs are compiled once.
    """

    netlist: Netlist
    seeds: tuple[int, ...]
    options: Mapping[str, Any]
    workers: int
    memory: int
    report: engine.Report | None = None
    expected: int = 0
    """Points in all, for the report."""
    lost: dict[str, list[Point]] = field(default_factory=dict)
    """Points at which learning was refused, by the reason; they count as failed."""
    _widths: dict[tuple[str, ...], tuple[int, Point]] = field(default_factory=dict)
    _done: list[int] = field(default_factory=lambda: [0])
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, points: Sequence[Point]) -> dict[str, Floats]:
        """Outcomes by name, (points, seeds)."""
        alike: dict[tuple[str, ...], list[int]] = {}
        for i, point in enumerate(points):
            alike.setdefault(tuple(sorted(point)), []).append(i)
        batches = []
        for paths, places in alike.items():
            width, first = self._widths.setdefault(paths, (len(places), points[places[0]]))
            # The same lane comes first in all batches, where programs are compiled for it.
            lead = [first] * any(p.startswith(STRUCTURAL) for p in paths)
            batches += [(places[i : i + width], width, lead) for i in range(0, len(places), width)]
        threads = min(self.workers, len(batches))

        def run(batch: tuple[list[int], int, list[Point]]) -> dict[str, Any]:
            places, width, lead = batch
            some = [points[i] for i in places]
            filled = [*lead, *some, *[some[-1]] * (width - len(some))]
            try:
                found = self._outcomes(filled, threads, len(some) / len(filled))
            except ArgumentError as problem:
                if isinstance(problem, (DesignError, ProfileError)) or not some[0]:
                    raise
                if len(some) > 1:  # one lane spoils all: find it with programs that are there already
                    half = len(places) // 2
                    parts = [run((part, width, lead)) for part in (places[:half], places[half:])]
                    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0] if all(k in p for p in parts)}
                with self._lock:
                    self.lost.setdefault(str(problem), []).append(some[0])
                return {k: np.full((1, len(self.seeds)), np.nan) for k in KEPT}
            return {k: v[len(lead) : len(lead) + len(some)] for k, v in found.items() if k in KEPT}

        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(run, batches))
        order = np.argsort([i for places, _, _ in batches for i in places])
        names = [n for n in found[0] if all(n in f for f in found)]
        return {name: np.concatenate([f[name] for f in found])[order] for name in names}

    def _outcomes(self, points: Sequence[Point], threads: int, share: float) -> dict[str, Any]:
        count = len(self.seeds)
        axes = {path: [p[path] for p in points for _ in range(count)] for path in points[0]}
        sweep = Sweep({**axes, "seed": list(self.seeds) * len(points)}, mode="zip", **self.options)
        told = 0

        def report(done: int, _: int) -> None:
            nonlocal told
            with self._lock:
                self._done[0] += round(share * (done - told))
                told = done
                if self.report:
                    self.report(self._done[0], max(self._done[0], self.expected * count))

        found = engine.outcomes(
            self.netlist, sweep, memory=self.memory // threads, workers=max(1, self.workers // threads), report=report
        )
        return {k: v.reshape(len(points), count) for k, v in found.items() if v.ndim == 1}
