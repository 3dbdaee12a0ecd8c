"""Drawings in SVG: they parse, nothing lies on anything, and every part is there."""

import re
from itertools import combinations, pairwise
from xml.etree import ElementTree

SVG = "{http://www.w3.org/2000/svg}"
SHARE = {"start": 0.0, "middle": 0.5, "end": 1.0}
EM = 0.6
"""Width of a letter over the size; DejaVu Sans has 0.55 on average in such labels."""


def boxes(root):
    """Left, top, right, bottom and content of every line of text but those on symbols."""
    for item in root.iter(SVG + "text"):
        if item.get("paint-order"):
            continue
        size, x, y = (float(item.get(k)) for k in ("font-size", "x", "y"))
        width = EM * size * len(item.text or "")
        left = x - SHARE[item.get("text-anchor")] * width
        if item.text:
            yield left, y - 0.75 * size, left + width, y + 0.2 * size, item.text


def wires(root):
    """Ends of every straight wire."""
    for path in root.findall(SVG + "path"):
        if re.fullmatch(r"M[-\d. ]+(L[-\d. ]+)+", path.get("d")):
            points = [tuple(map(float, p.split())) for p in path.get("d")[1:].split("L")]
            yield from pairwise(points)


def check(svg):
    root = ElementTree.fromstring(svg)
    found = list(boxes(root))
    wide, high = float(root.get("width")), float(root.get("height"))
    for left, top, right, bottom, text in found:
        assert left >= 0, text
        assert top >= 0, text
        assert right <= wide, text
        assert bottom <= high, text
    for a, b in combinations(found, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, f"{a[4]!r} lies on {b[4]!r}"
    for (x1, y1), (x2, y2) in wires(root):
        for left, top, right, bottom, text in found:
            crossed = min(x1, x2) < right and max(x1, x2) > left and min(y1, y2) < bottom and max(y1, y2) > top
            assert not crossed, f"a wire crosses {text!r}"
    return {box[4] for box in found}


def names(net):
    return {e.name for e in net.elements if e.terminals} | {d.name for d in net.drives if d.terminals}


def shows(texts, name):
    return any(re.search(rf"(^|: ){re.escape(name)}($|,)", text) for text in texts)


def check_schematic(net, files, folder):
    """It is XML whose texts are apart, with the names of all parts, nodes and targets."""
    texts = check(files["schematic.svg"].decode())
    assert net.name in texts
    for part in (*names(net), *net.nodes):
        assert shows(texts, part) or any(t.startswith(f"{part}:") for t in texts), part
    assert all(any(f"target {target.name}" in t for t in texts) for target in net.targets)
