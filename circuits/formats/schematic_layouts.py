"""Where the symbols of a schematic go: ladders, bodies with links, and rails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, zip_longest
from typing import TYPE_CHECKING

from circuits.formats.schematic_symbols import BODY, FONT, MUTED, REACH, Canvas, width_of

if TYPE_CHECKING:
    from circuits.formats.schematic import Item, Sheet

_LINE = 14
"""Distance of lines of text."""
_DROP = 118
"""From a wire to the ground below it, and to the next wire."""
_WIDEST = 1500
"""Ladders go on below from here."""


def draw_ladder(canvas: Canvas, sheet: Sheet, order: Sequence[str], top: float) -> float:
    """Draw a chain of nodes from left to right; returns the lowest y."""
    most = max([1, *(len(_between(sheet, a, b)) for a, b in pairwise(order))])
    link = max([90.0, *(max(map(width_of, i.lines)) + 20 for i in sheet.joining)])
    rung = 66.0 + _LINE * max([0, *(len(i.lines) - 2 for i in sheet.joining)])
    tight = all(len(i.lines) <= 3 - (i in sheet.joining) for i in (*sheet.items, *sheet.drives))
    deep = _DROP + 60 + rung * (most - 1)
    x, y = 40.0, top + 36 + rung * (most - 1)
    for index, node in enumerate(order):
        hanging = sheet.hanging(node)
        wide = sum(map(_width, hanging)) if hanging else 40.0
        fresh = not index
        if x > 40 and x + wide + link > _WIDEST:
            canvas.port(x, y)
            canvas.text(x + 8, y + 4, node, bold=True, size=FONT)
            x, y = 40.0, y + deep
            canvas.port(x, y)
        canvas.text(x + 10, y - 10, node, bold=True, size=FONT)
        marks = ", ".join(sheet.marks.get(node, ()))
        named = x + 10 + width_of(node, FONT) + 8
        canvas.text(named, y - 10, marks, colour=MUTED)
        last, free = x + 20, x + 20
        for item in hanging:
            last, free = free, free + _width(item)
            _hang(canvas, item, last, y)
        right = max(last + 20 if tight else free - 20, named + width_of(marks))
        canvas.wire((x + 20 * fresh, y), (right if index + 1 < len(order) else last, y))
        if index + 1 == len(order):
            return _lowest(sheet, y)
        for m, item in enumerate(_between(sheet, node, order[index + 1])):
            at, middle = y - rung * m, right + link / 2
            canvas.wire((right, y), (right, at), (middle - REACH, at))
            canvas.wire((middle + REACH, at), (right + link, at), (right + link, y))
            canvas.symbol(item.kind, middle, at, False, item.learns, turned=item.nodes[0] != node)
            if m:
                canvas.dot(right, y)
                canvas.dot(right + link, y)
            canvas.text(middle, at - 20, item.lines[0], "middle", bold=True)
            for k, line in enumerate(item.lines[1:]):
                canvas.text(middle, at + 28 + _LINE * k, line, "middle")
        x = max(right + link, free - 20)
        canvas.wire((right + link, y), (x, y))
    return _lowest(sheet, y)


def draw_rails(canvas: Canvas, sheet: Sheet, top: float) -> float:
    """Draw a wire across the sheet for every node, and what joins two of them as columns; returns the lowest y."""
    rows = {node: top + 40 + _DROP * k for k, node in enumerate(sheet.nodes)}
    margin = 40 + max(width_of(node, FONT) for node in sheet.nodes) + 16
    margin = max([margin, *(40 + width_of(m) + 16 for ms in sheet.marks.values() for m in ms)])
    ends = dict.fromkeys(sheet.nodes, margin)
    places = [margin + 16]
    for column in zip_longest(*(sheet.hanging(n) for n in sheet.nodes)):
        places.append(places[-1] + max(_width(item) for item in column if item is not None))
    for node, y in rows.items():
        canvas.text(36, y + 4, node, bold=True, size=FONT)
        for k, mark in enumerate(sheet.marks.get(node, ())):
            canvas.text(36, y + 4 + _LINE * (k + 1), mark, colour=MUTED)
        for x, item in zip(places, sheet.hanging(node), strict=False):
            _hang(canvas, item, x, y)
            ends[node] = x
    start, pitch = places[-1], max([70.0, *map(_width, sheet.joining)])
    columns: list[float] = []
    for item in sorted(sheet.joining, key=lambda i: (abs(rows[i.nodes[0]] - rows[i.nodes[1]]), _upper(rows, i))):
        high, low = sorted(rows[n] for n in item.nodes)
        free = [k for k, taken in enumerate(columns) if taken <= high]
        at = free[0] if free else len(columns)
        columns[at : at + 1] = [low]
        x = start + at * pitch
        canvas.wire((x, high), (x, high + _DROP / 2 - REACH))
        canvas.wire((x, high + _DROP / 2 + REACH), (x, low))
        canvas.symbol(item.kind, x, high + _DROP / 2, True, item.learns, turned=rows[item.nodes[0]] != high)
        _beside(canvas, item, x, high + _DROP / 2)
        for node in item.nodes:
            canvas.dot(x, rows[node])
            ends[node] = max(ends[node], x)
    for node, y in rows.items():
        canvas.wire((margin - 8, y), (max(ends[node], margin + 16), y))
    return max(rows.values()) + _DROP


def draw_bodies(canvas: Canvas, sheet: Sheet, order: Sequence[Sequence[str]], top: float) -> float:
    """Draw rows of bodies with links between neighbours; returns the lowest y."""
    inward = {n: [i for i in sheet.drives if i.nodes == (n,)] for n in sheet.nodes}
    left = max([0.0, *(width_of(_drive_text(i)) for items in inward.values() for i in items)])
    right = max([0.0, *(width_of(m) for marks in sheet.marks.values() for m in marks)])
    beneath = max(width_of(line) for i in sheet.items for line in i.lines)
    across = max(170.0, left + right + 80, beneath + 44)
    lines = max(len(i.lines) for i in sheet.items if i.body)
    above = _LINE * max([1, *(len(m) for m in sheet.marks.values()), *(len(v) for v in inward.values())]) + 60
    down = max(150.0, above + 2 * BODY + _LINE * lines + 56)
    place = {
        n: (60 + left + across * c, top + above + down * r) for r, row in enumerate(order) for c, n in enumerate(row)
    }
    bottom = max(y for _, y in place.values()) + BODY + _LINE * lines + 16
    for item in sheet.joining:
        _link(canvas, item, place)
    for node, (x, y) in place.items():
        body = next(i for i in sheet.hanging(node) if i.body)
        canvas.body(body.kind, x, y, body.learns)
        named = body.lines if body.name == node else (f"{node}: {body.lines[0]}", *body.lines[1:])
        for k, line in enumerate(named):
            canvas.text(x + 14, y + BODY + 18 + _LINE * k, line, bold=not k)
        for k, item in enumerate(inward[node]):
            canvas.arrow((x - BODY - 14, y - BODY - 14), (x - BODY * 0.74, y - BODY * 0.74))
            canvas.text(x - BODY - 18, y - BODY - 14 - _LINE * k, _drive_text(item), "end", MUTED)
        for k, mark in enumerate(sheet.marks.get(node, ())):
            canvas.arrow((x + BODY * 0.74, y - BODY * 0.74), (x + BODY + 14, y - BODY - 14))
            canvas.text(x + BODY + 18, y - BODY - 14 - _LINE * k, mark, colour=MUTED)
        at = y + BODY
        for item in sheet.hanging(node):
            if item.body or item in inward[node]:
                continue
            start, at = at, max(at + 58, y + BODY + _LINE * len(named) + 46)
            canvas.wire((x, start), (x, at - REACH))
            canvas.symbol(item.kind, x, at, True, item.learns, ends=1)
            _beside(canvas, item, x, at)
            at += REACH
            bottom = max(bottom, at + 12)
    return bottom


def _link(canvas: Canvas, item: Item, place: dict[str, tuple[float, float]]) -> None:
    (x1, y1), (x2, y2) = sorted((place[n] for n in item.nodes), key=lambda p: (p[1], p[0]))
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    if y1 == y2:
        canvas.wire((x1, y1), (x - REACH, y))
        canvas.wire((x + REACH, y), (x2, y2))
        canvas.symbol(item.kind, x, y, False, item.learns)
        canvas.text(x, y - 20, item.lines[0], "middle", bold=True)
        for k, line in enumerate(item.lines[1:]):
            canvas.text(x, y + 26 + _LINE * k, line, "middle")
    else:
        y += _LINE
        canvas.wire((x1, y1), (x, y - REACH))
        canvas.wire((x, y + REACH), (x2, y2))
        canvas.symbol(item.kind, x, y, True, item.learns)
        _beside(canvas, item, x, y)


def _hang(canvas: Canvas, item: Item, x: float, y: float) -> None:
    """Draw a symbol below a wire, down to ground where it has a second end."""
    middle = y + 50
    canvas.dot(x, y)
    if item.body:
        canvas.wire((x, y), (x, middle - BODY))
        canvas.body(item.kind, x, middle, item.learns)
        _beside(canvas, item, x + 8, middle)
        return
    canvas.wire((x, y), (x, middle - REACH))
    canvas.symbol(item.kind, x, middle, True, item.learns, 1 + item.grounded, item.reversed)
    _beside(canvas, item, x, middle)
    if item.grounded:
        canvas.wire((x, middle + REACH), (x, middle + REACH + 8))
        canvas.ground(x, middle + REACH + 8, item.wall)


def _beside(canvas: Canvas, item: Item, x: float, y: float) -> None:
    first = y + 4 - _LINE * (len(item.lines) - 1) / 2
    for k, line in enumerate(item.lines):
        canvas.text(x + 22, first + _LINE * k, line, bold=not k)


def _width(item: Item) -> float:
    """Of a column that holds an upright symbol and its label."""
    return max([70.0, *(width_of(line) + 52 for line in item.lines)])


def _between(sheet: Sheet, a: str, b: str) -> list[Item]:
    return [i for i in sheet.joining if set(i.nodes) == {a, b}]


def _lowest(sheet: Sheet, y: float) -> float:
    return y + (_DROP if any(sheet.hanging(n) for n in sheet.nodes) else 40)


def _upper(rows: dict[str, float], item: Item) -> float:
    return min(rows[n] for n in item.nodes)


def _drive_text(item: Item) -> str:
    return ", ".join(item.lines)
