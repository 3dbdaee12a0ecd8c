"""Sets by name: those that ship, one that a package brings, and files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from devices import ArgumentError, nearest
from rhel_hw.data.formats import READERS, read
from rhel_hw.data.series import Series
from rhel_hw.data.synthetic import adding_problem, delayed_recall, pulse_detection
from rhel_hw.data.watch import watch_gestures

MAKERS: dict[str, Callable[..., Series]] = {
    "adding": adding_problem,
    "delayed-recall": delayed_recall,
    "pulse-detection": pulse_detection,
    "watch-gestures": watch_gestures,
}
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "adding": "sum of two marked values in a long series of random ones (synthetic, regression)",
        "delayed-recall": "which symbol was shown so many steps before the last (synthetic, classification)",
        "pulse-detection": "whether, and which, pulse is hidden in noise (synthetic, classification)",
        "watch-gestures": "seven shoulder exercises of ten subjects, from a watch (needs rhel-hw[data])",
    }
)
"""What each set is."""


def load(name: str | Path, **options: Any) -> Series:
    """The set of this name, one of `BUILT_IN`, or in this file; options are those of its function, or of `read`."""
    words = str(name)
    if words in MAKERS:
        maker = MAKERS[words]
    elif isinstance(name, Path) or Path(words).suffix.lower() in READERS or Path(words).is_file():
        maker = partial(read, name)
    else:
        raise ArgumentError(
            f"Argument `name` must be a set that ships or a file ({', '.join(READERS)}), but is {words!r}"
            f"{nearest(words, BUILT_IN)}"
        )
    known = signature(maker).parameters
    for option in options:
        if option not in known:
            what = nearest(option, known) if known else ""
            raise ArgumentError(f"Argument `{option}` must be an option of {words}, but is not{what}")
    return maker(**options)
