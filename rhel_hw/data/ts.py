"""Files of the UEA and UCR archives that end in .ts.

A header of lines such as `@problemName GunPoint`, then after `@data` one series a line: dimensions separated by colons,
their values by commas, and the label or value last.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devices import ArgumentError, nearest
from rhel_hw.data.rows import Missing, Place, Row, assembled, channels_of, complete, lines
from rhel_hw.data.series import Series

KEYWORDS = (
    "problemname",
    "timestamps",
    "missing",
    "univariate",
    "dimension",
    "dimensions",
    "equallength",
    "serieslength",
    "classlabel",
    "targetlabel",
)
"""Of the header, whatever their capitals."""
STAMPED = "has time stamps (t, v), which are not read: write the values alone, at equal steps"


def read_ts(path: Path, missing: Missing = "refuse") -> Series:
    """The set in one .ts file. Series of unequal lengths are followed by zeros."""
    text = lines(path)
    header = _header(path, text)
    rows: list[Row] = []
    steps = header.steps
    for place, line in text:
        if line.startswith("#"):
            continue
        row = _row(place, line)
        if header.equal:
            steps = steps or len(row.values)
            if len(row.values) != steps:
                raise place.refusal(f"has {len(row.values)} steps where {steps} are expected")
        rows.append(complete(row, missing))
    return assembled(header.name, path, rows, header.classes, header.width)


@dataclass(frozen=True)
class _Header:
    name: str
    width: int | None
    steps: int | None
    equal: bool
    classes: tuple[str, ...]
    """Empty: regression."""


def _header(path: Path, text: Iterator[tuple[Place, str]]) -> _Header:
    """What stands before @data, which is taken off `text`."""
    found: dict[str, _Entry] = {}
    for place, line in text:
        if line.startswith("#"):
            continue
        if not line.startswith("@"):
            raise place.refusal("is neither a comment nor a keyword such as @problemName, and comes before @data")
        keyword, *words = line[1:].split() or [""]
        keyword = keyword.lower()
        if keyword == "data":
            return _understood(path, found)
        if keyword not in KEYWORDS:
            raise place.refusal(f"has the unknown keyword @{keyword[:20]}{nearest(keyword, KEYWORDS)}")
        if keyword in found:
            raise place.refusal(f"says @{keyword} a second time")
        if not words:
            raise place.refusal(f"has nothing after @{keyword}")
        found[keyword] = _Entry(place, keyword, tuple(words))
    raise ArgumentError(f"Argument `path` must be a correct .ts file, but {path.name} has no line @data")


@dataclass(frozen=True)
class _Entry:
    """One line of the header."""

    place: Place
    keyword: str
    words: tuple[str, ...]

    def true(self) -> bool:
        """What a keyword of true or false says."""
        if self.words[0].lower() not in ("true", "false"):
            raise self.place.refusal(f"must say true or false after @{self.keyword}, but says {self.words[0][:20]!r}")
        return self.words[0].lower() == "true"

    def number(self) -> int:
        """What a keyword of a number says."""
        if not self.words[0].isdecimal() or int(self.words[0]) < 1:
            raise self.place.refusal(
                f"must give a whole number after @{self.keyword}, but gives {self.words[0][:20]!r}"
            )
        return int(self.words[0])


def _understood(path: Path, found: dict[str, _Entry]) -> _Header:
    if "timestamps" in found and found["timestamps"].true():
        raise found["timestamps"].place.refusal(STAMPED)
    if "missing" in found:
        found["missing"].true()  # which values are missing shows in the rows
    width = next((found[k].number() for k in ("dimensions", "dimension") if k in found), None)
    if "univariate" in found and found["univariate"].true():
        if width not in (None, 1):
            raise found["univariate"].place.refusal(f"says @univariate true, but the file has {width} dimensions")
        width = 1
    steps = found["serieslength"].number() if "serieslength" in found else None
    equal = found["equallength"].true() if "equallength" in found else steps is not None
    name = " ".join(found["problemname"].words) if "problemname" in found else path.stem
    return _Header(name, width, steps, equal, _classes(path, found))


def _classes(path: Path, found: dict[str, _Entry]) -> tuple[str, ...]:
    """Names of the classes, or none for a file of values to be learnt."""
    if "classlabel" in found and found["classlabel"].true():
        entry = found["classlabel"]
        classes = entry.words[1:]
        if not classes or len(set(classes)) != len(classes):
            raise entry.place.refusal("must give different names of classes after @classLabel true")
        return classes
    if "targetlabel" in found and found["targetlabel"].true():
        return ()
    raise ArgumentError(
        f"Argument `path` must have something to be learnt, but {path.name} says neither @classLabel true with the "
        "classes nor @targetLabel true"
    )


def _row(place: Place, line: str) -> Row:
    """One series."""
    if "(" in line:
        raise place.refusal(STAMPED)
    *parts, label = line.split(":")
    if not parts:
        raise place.refusal("has no label: it stands last, after a colon")
    return Row(place, channels_of(parts, place), label.strip())
