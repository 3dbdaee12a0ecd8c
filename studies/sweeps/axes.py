"""What a sweep asks for: axes over any field, how their values are combined, and what is found out at every point.

Axes are named as a design file names its fields, `profile.readout.bits`, `learning.gamma`, `elements.L*.tolerance`;
beside those there are `seed` (of everything that is drawn), `chip` (its number) and `design` (built-in designs or
files). Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np

from devices import ArgumentError, nearest
from rhel_hw.profile import SECTIONS

MODES = ("grid", "zip", "latin-hypercube", "sobol")
SPACINGS = ("log", "linear", "whole")
REFERENCES = ("ideal", "chip")
DESIGN = ("elements", "drives", "time", "initial", "probes", "targets", "detectors")
"""Sections of a design file that an axis may change, beside settings."""
SETTINGS = ("profile", "learning", "task", "training")
ALONE = ("seed", "chip", "design")
MOST_POINTS = 10_000_000


@dataclass(frozen=True)
class Axis:
    """One axis: values, or the ends of a range to sample from."""

    path: str
    values: tuple[Any, ...]
    spacing: str = ""
    """"log", "linear" or "whole" if `values` are the two ends of a range."""

    @property
    def sampled(self) -> bool:
        """Whether values are drawn from a range."""
        return bool(self.spacing)

    @classmethod
    def of(cls, path: str, given: Any) -> Axis:
        """Axis of what a file says: a list of values, or a range as ``{ log = [1, 1e6, 13] }``."""
        path = _full(path, given)
        if isinstance(given, Axis):
            return given
        if isinstance(given, Mapping):
            return cls._range(path, given)
        if isinstance(given, (str, bytes)) or not isinstance(given, (Sequence, np.ndarray, range)):
            raise ArgumentError(
                f"Argument `{path}` must be a list of values or a range such as {{ log = [1, 1e6, 13] }}, but is "
                f"{given!r}"
            )
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in given)
        if not values:
            raise ArgumentError(f"Argument `{path}` must have at least one value, but is empty")
        for value in values:
            _refuse_kind(path, value)
        return cls(path, values)

    @classmethod
    def _range(cls, path: str, given: Mapping[str, Any]) -> Axis:
        if len(given) != 1 or next(iter(given)) not in SPACINGS:
            raise ArgumentError(
                f"Argument `{path}` must be a range by one of {', '.join(SPACINGS)}, but is {dict(given)}"
            )
        ((spacing, ends),) = given.items()
        if (
            not isinstance(ends, (list, tuple))
            or len(ends) not in (2, 3)
            or any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in ends)
            or not np.all(np.isfinite(ends))
            or ends[0] >= ends[1]
        ):
            raise ArgumentError(
                f"Argument `{path}.{spacing}` must be [first, last, count], or [first, last] to be sampled from, with "
                f"first below last, but is {ends!r}"
            )
        if spacing == "log" and ends[0] <= 0:
            raise ArgumentError(f"Argument `{path}.log` must start above 0, but starts at {ends[0]}")
        if len(ends) == 2:
            return cls(path, tuple(ends), spacing)
        count = ends[2]
        if not isinstance(count, int) or not 2 <= count <= MOST_POINTS:
            raise ArgumentError(f"Argument `{path}.{spacing}` must have a count of at least 2, but has {count!r}")
        first, last = float(ends[0]), float(ends[1])
        found = np.geomspace(first, last, count) if spacing == "log" else np.linspace(first, last, count)
        if spacing == "whole":
            return cls(path, tuple(dict.fromkeys(int(x) for x in np.round(found))))
        return cls(path, tuple(float(x) for x in found))

    def drawn(self, uniform: Any) -> list[Any]:
        """Values for numbers in [0, 1)."""
        if not self.sampled:
            return [self.values[min(int(x * len(self.values)), len(self.values) - 1)] for x in uniform]
        low, high = self.values
        if self.spacing == "log":
            return [float(low * (high / low) ** x) for x in uniform]
        if self.spacing == "whole":
            return [int(min(low + np.floor(x * (high - low + 1)), high)) for x in uniform]
        return [float(low + x * (high - low)) for x in uniform]


def _full(path: str, given: Any) -> str:
    """The path as a design file has it; sections of a profile may be named alone, as `--set` takes them."""
    head = path.split(".")[0]
    if isinstance(given, Mapping) and "." not in path and path not in ALONE:
        field_ = f'"{path}.{next(iter(given), "…")}…" = …'
        raise ArgumentError(f"Argument `axes` must name a field in quotes, {field_}, but has a table {path!r}")
    if head in SECTIONS and "." in path:
        return f"profile.{path}"
    known = (*DESIGN, *SETTINGS)
    if path not in ALONE and (head not in known or "." not in path):
        words = [*ALONE, *(f"{k}.…" for k in known)]
        close = nearest(head, (*ALONE, *known, *SECTIONS))
        hint = close if "did you mean" in close else f"; sections of the profile are {', '.join(SECTIONS)}"
        raise ArgumentError(f"Argument `axes` must be {', '.join(words)}, but has {path!r}{hint}")
    return path


def _refuse_kind(path: str, value: Any) -> None:
    if path == "design":
        fits, wanted = isinstance(value, str), "names of designs, or files"
    elif path in ("seed", "chip"):
        fits, wanted = isinstance(value, int) and not isinstance(value, bool) and value >= 0, "whole numbers from 0 on"
    else:
        fits, wanted = isinstance(value, (int, float, str)) and value == value, "numbers, texts or switches"
    if not fits:
        raise ArgumentError(f"Argument `{path}` must be {wanted}, but has {value!r}")


@dataclass(frozen=True)
class Table:
    """All points of a sweep: values by path, in the order of the points, and the grid that they form."""

    columns: Mapping[str, tuple[Any, ...]]
    dims: tuple[str, ...]
    """Axes of the grid, or just "point"."""
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return prod(self.shape)

    def point(self, number: int) -> dict[str, Any]:
        """Values of one point by path."""
        return {path: values[number] for path, values in self.columns.items()}


@dataclass(frozen=True)
class Sweep:
    """Which points, and what is found out at each."""

    axes: Mapping[str, Any] = field(default_factory=dict)
    """By path: lists of values, or ranges such as ``{"log": [1, 1e6, 13]}``."""
    mode: str = "grid"
    """"grid": all combinations; "zip": one after another; "latin-hypercube" or "sobol": samples of all ranges."""
    points: int | None = None
    """Number of samples."""
    sampling: int = 0
    """Seed of the samples."""
    repeats: int = 1
    """Gradients per point; from two on they tell the ratio of signal to noise."""
    moves: int = 0
    """Training: moves of the parameters, after which the loss is told; 0: gradients only."""
    reference: str = "ideal"
    """What gradients are compared with: backpropagation through the "ideal" circuit, or through the "chip" as made."""

    calibrated: bool = False
    """Whether the learner knows the parameters of every chip as they are."""
    calibration: str | None = None
    """A calibration file by which benches are put right; kept as its text."""

    def __post_init__(self) -> None:
        if not isinstance(self.axes, Mapping) or not self.axes:
            raise ArgumentError(
                "Argument `axes` must name at least one field to sweep over, such as profile.readout.bits = [4, 8, 12]"
            )
        for name, allowed in (("mode", MODES), ("reference", REFERENCES)):
            value = getattr(self, name)
            if value not in allowed:
                raise ArgumentError(
                    f"Argument `{name}` must be one of {', '.join(allowed)}, but is {value!r}"
                    f"{nearest(str(value), allowed, listed=True)}"
                )
        for name, least in (("repeats", 1), ("moves", 0), ("sampling", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArgumentError(f"Argument `{name}` must be a whole number of at least {least}, but is {value!r}")
        if not isinstance(self.calibrated, bool):
            raise ArgumentError(f"Argument `calibrated` must be true or false, but is {self.calibrated!r}")
        if self.calibration is not None and not str(self.calibration).startswith("{"):
            from calibration.file import Calibration

            object.__setattr__(self, "calibration", Calibration.load(self.calibration).brief())
        if self.calibrated and self.moves:
            raise ArgumentError("Argument `calibrated` must be false with `moves`: what is known holds at the start")
        axes = {}
        for path, given in self.axes.items():
            axis = Axis.of(path, given)
            self._refuse_unused(axis.path)
            if axis.path in axes:
                raise ArgumentError(f"Argument `axes` must name every field once, but has {axis.path} twice")
            if self.mode != "zip" and len({repr(v) for v in axis.values}) < len(axis.values):
                values = list(axis.values)
                raise ArgumentError(f"Argument `{axis.path}` must have every value once, but has some twice: {values}")
            axes[axis.path] = axis
        object.__setattr__(self, "axes", axes)
        sampled = self.mode in ("latin-hypercube", "sobol")
        if sampled != (self.points is not None):
            raise ArgumentError(
                f"Argument `points` must be {'given' if sampled else 'left out'} for the mode {self.mode}, but is "
                f"{self.points!r}"
            )
        if sampled and (isinstance(self.points, bool) or not isinstance(self.points, int) or self.points < 1):
            raise ArgumentError(f"Argument `points` must be a whole number of at least 1, but is {self.points!r}")
        for axis in axes.values():
            if axis.sampled and not sampled:
                raise ArgumentError(f"Argument `{axis.path}` must have a count as its third number in a {self.mode}")
        lengths = {len(a.values) for a in axes.values()}
        if self.mode == "zip" and len(lengths) > 1:
            raise ArgumentError(f"Argument `axes` must be equally long to be zipped, but have {sorted(lengths)} values")
        if self.count > MOST_POINTS:
            raise ArgumentError(f"Argument `axes` must make at most {MOST_POINTS:,} points, but make {self.count:,}")

    def _refuse_unused(self, path: str) -> None:
        """Refuse an axis that nothing would depend on."""
        if path.startswith("training.") and not self.moves:
            raise ArgumentError(
                f"Argument `moves` must be at least 1 to sweep over {path}: without it nothing is trained"
            )
        if path == "training.steps":
            raise ArgumentError(f"Argument `axes` must not have {path}, as `moves` says how many steps are trained")

    @staticmethod
    def of(table: Mapping[str, Any]) -> Sweep:
        """Sweep of section `[sweep]` of a design file."""
        known = list(Sweep.__dataclass_fields__)
        for key in table:
            if key not in known:
                raise ArgumentError(f"Argument `sweep.{key}` is no key of [sweep]{nearest(key, known)}")
        return Sweep(**table)

    @property
    def count(self) -> int:
        """Number of points."""
        if self.points is not None:
            return self.points
        sizes = [len(a.values) for a in self.axes.values()]
        return prod(sizes) if self.mode == "grid" else sizes[0]

    def table(self) -> Table:
        """All points."""
        axes: list[Axis] = list(self.axes.values())
        if self.mode == "grid":
            combined = list(product(*(a.values for a in axes)))
            columns = {a.path: tuple(row[i] for row in combined) for i, a in enumerate(axes)}
            return Table(columns, tuple(a.path for a in axes), tuple(len(a.values) for a in axes))
        if self.mode == "zip":
            return Table({a.path: a.values for a in axes}, ("point",), (self.count,))
        from scipy.stats import qmc

        assert self.points is not None  # checked when it was made
        kind = qmc.Sobol if self.mode == "sobol" else qmc.LatinHypercube
        sampler = kind(len(axes), rng=np.random.default_rng(self.sampling))
        if self.mode == "sobol":  # balanced in powers of two: the first of those
            uniform = sampler.random_base2(int(np.ceil(np.log2(self.points))))[: self.points]
        else:
            uniform = sampler.random(self.points)
        columns = {a.path: tuple(a.drawn(uniform[:, i])) for i, a in enumerate(axes)}
        return Table(columns, ("point",), (self.points,))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data, for files and other machines; `of` reads it."""
        table = {k: v for k, v in asdict(self).items() if k != "axes" and v is not None}
        axes = {p: {a.spacing: list(a.values)} if a.sampled else list(a.values) for p, a in self.axes.items()}
        return {"axes": axes, **table}
