"""When two shots are the same: in all that they are told, and in numbers as far as computers agree on them.

Nudges are computed from what was measured. On another computer their last digits differ, and a file may have rounded
them; a shot that means something else differs by far more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rhel_hw.bench import Shot

ALIKE = 1e-9
"""How far numbers may be apart, relative to the largest of their waveform."""


def difference(
    shot: Shot, parameters: Mapping[str, Any], other: Shot, other_parameters: Mapping[str, Any]
) -> str | None:
    """The first thing in which two shots and the parameters that they meet differ; None if they are the same."""
    for name in ("steps", "echo", "hold", "paired", "amplify", "channels", "runs"):
        if getattr(shot, name) != getattr(other, name):
            return f"`{name}`"
    if not _start_alike(shot.start, other.start):
        return "`start`"
    return (
        _apart("parameters", parameters, other_parameters)
        or _apart("drive", *_told(shot.drive, other.drive))
        or _apart("nudge", *_told(shot.nudge, other.nudge))
        or _apart("ranges", shot.ranges, other.ranges)
        or _apart("trim", *({k: np.stack(np.broadcast_arrays(*p)) for k, p in s.trim.items()} for s in (shot, other)))
    )


def _told(waves: Mapping[str, Any], others: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Waveforms of both; one that is not named is silent."""
    silent = dict.fromkeys({*waves, *others}, np.zeros((1, 1, 1)))
    return silent | dict(waves), silent | dict(others)


def _apart(what: str, values: Mapping[str, Any], others: Mapping[str, Any]) -> str | None:
    for name in sorted({*values, *others}):
        if name not in values or name not in others or not close(values[name], others[name]):
            return f"`{what}.{name}`"
    return None


def close(value: Any, other: Any) -> bool:
    """Whether two arrays have the same numbers, where one may stand for several that are alike."""
    try:
        a, b = np.broadcast_arrays(np.asarray(value, float), np.asarray(other, float))
    except ValueError:  # of other shapes
        return False
    largest = max(np.max(np.abs(a), initial=0.0), np.max(np.abs(b), initial=0.0))
    return bool(np.all(np.abs(a - b) <= ALIKE * largest))


def _start_alike(start: Any, other: Any) -> bool:
    if start is None or other is None:
        return start is other
    for half, theirs in zip(start, other, strict=True):
        if set(half) != set(theirs):
            return False
        for node, value in half.items():
            numbers = isinstance(value, (int, float)) and isinstance(theirs[node], (int, float))
            if not (close(value, theirs[node]) if numbers else str(value) == str(theirs[node])):
                return False
    return True
