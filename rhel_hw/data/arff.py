r"""Files of the UEA and UCR archives that end in .arff.

Univariate: one attribute a step, the class last. Multivariate: one relational attribute, whose dimensions stand between
quotes and are separated by the two characters `\n`, the class last. Where the class is a number, it is to be learnt as
one. Missing values at the end of all dimensions are the end of a series, as the archive writes shorter ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from devices import ArgumentError
from rhel_hw.data.rows import Missing, Place, Row, assembled, channels_of, complete, lines
from rhel_hw.data.series import Series

QUOTED = r"""'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*\""""
KEYWORD = re.compile(r"@(\w+)\s*(.*)", re.DOTALL)
ATTRIBUTE = re.compile(rf"({QUOTED}|[^\s{{]+)\s*(.*)", re.DOTALL)
FIELD = re.compile(rf"\s*({QUOTED}|[^,]*?)\s*(?:,|$)")
QUOTED_LABEL = re.compile(rf",\s*({QUOTED})$")
NUMERIC = ("numeric", "real", "integer")


def read_arff(path: Path, missing: Missing = "refuse") -> Series:
    """The set in one .arff file."""
    text = lines(path)
    header = _header(path, text)
    rows = []
    for place, line in text:
        if line.startswith("%"):
            continue
        row = _ended(_row(place, line, header))
        rows.append(complete(row, missing))
    return assembled(header.name, path, rows, header.classes)


@dataclass(frozen=True)
class _Header:
    name: str
    relational: bool
    steps: int
    """Number of attributes that are steps."""
    classes: tuple[str, ...]
    """Empty: regression."""


def _header(path: Path, text: Iterator[tuple[Place, str]]) -> _Header:
    """What stands before @data, which is taken off `text`."""
    name, relation = path.stem, ""
    outer: list[tuple[Place, str]] = []
    inner = 0
    for place, line in text:
        if line.startswith("%"):
            continue
        match = KEYWORD.match(line)
        keyword, rest = (match[1].lower(), match[2].strip()) if match else ("", "")
        if keyword == "data":
            if relation:
                raise place.refusal(f"comes before @end {relation}")
            return _understood(path, name, outer, inner)
        if keyword == "relation" and rest:
            name = _bare(rest)
        elif keyword == "end" and relation and _bare(rest) == relation:
            relation = ""
        elif keyword == "attribute" and (found := ATTRIBUTE.match(rest)) and found[2]:
            kind = found[2].strip()
            if relation:
                inner += 1
                _refuse_unless_numeric(place, kind)
            else:
                outer.append((place, kind))
                relation = _bare(found[1]) if kind.lower() == "relational" else ""
        else:
            raise place.refusal("is none of @relation, @attribute with a name and a type, @end and @data")
    raise ArgumentError(f"Argument `path` must be a correct .arff file, but {path.name} has no line @data")


def _understood(path: Path, name: str, outer: list[tuple[Place, str]], inner: int) -> _Header:
    if len(outer) < 2:
        raise ArgumentError(
            f"Argument `path` must be an .arff file of series, but {path.name} has {len(outer)} attributes: the steps "
            "or one relational attribute come first, the class last"
        )
    *steps, (place, kind) = outer
    relational = steps[0][1].lower() == "relational"
    if relational and len(steps) > 1:
        raise steps[1][0].refusal("has an attribute between the relational one and the class")
    if not relational:
        for at, step in steps:
            _refuse_unless_numeric(at, step)
    return _Header(name, relational, inner if relational else len(steps), _classes(place, kind))


def _classes(place: Place, kind: str) -> tuple[str, ...]:
    """Names of the classes, or none where the last attribute is a number."""
    if kind.lower() in NUMERIC:
        return ()
    if not (kind.startswith("{") and kind.endswith("}")):
        raise place.refusal(f"must give classes {{a, b}} or a number as the last attribute, but gives {kind[:20]!r}")
    classes = tuple(_bare(m[1]) for m in FIELD.finditer(kind[1:-1]) if m[1])
    if not classes or len(set(classes)) != len(classes):
        raise place.refusal("must give different names of classes")
    return classes


def _refuse_unless_numeric(place: Place, kind: str) -> None:
    if kind.lower() not in NUMERIC:
        raise place.refusal(f"must have a numeric attribute for a step, but has {kind[:20]!r}")


def _row(place: Place, line: str, header: _Header) -> Row:
    """One series."""
    if line.startswith("{"):
        raise place.refusal("is sparse {…}, which is not read: write all values")
    quoted = QUOTED_LABEL.search(line)
    body, comma, label = (line[: quoted.start()], ",", quoted[1]) if quoted else line.rpartition(",")
    if not comma:
        raise place.refusal("has no label: it stands last, after a comma")
    if header.relational:
        body = body.strip()
        if len(body) < 2 or body[0] not in "'\"" or body[-1] != body[0]:
            raise place.refusal("must have its dimensions between quotes, then a comma and the label")
        values = channels_of(body[1:-1].split("\\n"), place)
    else:
        values = channels_of([body], place)
    if len(values) != header.steps:
        raise place.refusal(f"has {len(values)} steps where {header.steps} attributes are declared")
    return Row(place, values, _bare(label.strip()))


def _ended(row: Row) -> Row:
    """The row without missing values at its end."""
    there = np.flatnonzero(~np.isnan(row.values).all(axis=1))
    if not there.size:
        raise row.place.refusal("has no value at all")
    return replace(row, values=row.values[: there[-1] + 1])


def _bare(text: str) -> str:
    """A name without its quotes."""
    return text[1:-1] if re.fullmatch(QUOTED, text) else text
