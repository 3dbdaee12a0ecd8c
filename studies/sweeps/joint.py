"""Limits that hold together: all axes are tightened alike until the requirement holds, then relaxed one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from studies.sweeps.limits import NEAR, Along, Point, Range, Trial, Trials, in_step, limit

OCTAVES = 15
"""By how many factors of two, or bits, limits are tightened at most."""
FACTORS = (1.02, 1.05, NEAR, 1.2, 1.5, 2.0)
"""Beyond a joint limit that are tried first, to tell its margin."""


@dataclass(frozen=True)
class Joint:
    """Limits of all axes that hold at the same time."""

    scale: float
    """By which all single limits were tightened at first."""
    at_once: Trial
    """With every axis at its own single limit."""
    tightened: Trial
    """With all of them tightened alike."""
    contract: Trial
    """With some relaxed again: the joint limits."""
    relaxed: tuple[str, ...]
    """Axes in the order in which they were relaxed, as far as they could be."""
    margins: Mapping[str, Along]
    """How far each can go beyond its joint limit, the others held."""


def together(tried: Trials, singles: Sequence[Along], at: Point, width: int) -> Joint | None:
    """Joint limits of axes that have single ones; what they do not move is as `at` has it. None if there are none."""
    limits = {s.range.path: s.value(s.good) for s in singles}
    axes = {s.range.path: s.range for s in singles}

    def point(scale: float) -> Point:
        return {**at, **{path: axes[path].backed_off(value, scale) for path, value in limits.items()}}

    def along_the_ray(points: Sequence[Point]) -> list[Trial]:
        found = tried([point(p["scale"]) for p in points])
        return [replace(t, point=p) for t, p in zip(found, points, strict=True)]

    scales = [2.0**-k for k in range(OCTAVES)]
    ray = Range("scale", scales[-1], 1.0, "log")
    for some in (scales[:width], scales):
        found = in_step(along_the_ray, {"scale": limit(ray, width, some)}, {})["scale"]
        if found.good is not None:
            break
    else:
        return None
    scale = found.value(found.good)
    (at_once,), (tightened,) = tried([point(1.0)]), tried([point(scale)])
    contract, order = _relaxed(tried, axes, limits, tightened, width)
    return Joint(scale, at_once, tightened, contract, order, _margins(tried, axes, limits, contract, width))


def _relaxed(
    tried: Trials, axes: Mapping[str, Range], limits: Mapping[str, Any], start: Trial, width: int
) -> tuple[Trial, tuple[str, ...]]:
    """Every axis goes as far as the others let it: numbers of bits first, for a bit is the dearest."""
    order = sorted((p for p in axes if start.point[p] != limits[p]), key=lambda p: axes[p].spacing != "whole")
    notches = tried([{**start.point, p: axes[p].part(start.point[p], limits[p]).worse(start.point[p])} for p in order])
    best = start
    # What fails by one notch alone would fail the more with others relaxed.
    order = [path for path, trial in zip(order, notches, strict=True) if trial.met]
    for path in order:
        part = axes[path].part(best.point[path], limits[path])
        found = in_step(tried, {path: limit(part, width)}, best.point)[path]
        best = found.good or best
    return best, tuple(order)


def _margins(
    tried: Trials, axes: Mapping[str, Range], limits: Mapping[str, Any], contract: Trial, width: int
) -> dict[str, Along]:
    searches = {}
    for path, axis in axes.items():
        value = contract.point[path]
        part = axis.part(value, limits[path])
        first = part.spread(width)
        if not part.listed and part.spacing != "whole" and value != limits[path]:
            reach = [part.at(u) for f in FACTORS if (u := part.place(value * f if part.grows else value / f)) < 1]
            first = list(dict.fromkeys([value, *reach, limits[path]]))
        searches[path] = limit(part, width, first)
    return in_step(tried, searches, contract.point)
