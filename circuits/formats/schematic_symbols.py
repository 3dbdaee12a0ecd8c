"""Symbols of schematic drawings, and the canvas that they are drawn on.

A symbol lies along the x axis around the origin, with its two ends at ±`REACH`; bodies are what sits at a node.
"""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

REACH = 24
"""Half the length of a symbol."""
BODY = 26
"""Radius of a body."""
FONT, SMALL = 13, 11
"""Sizes of text."""
_ADVANCE = 0.64
"""Width of a letter over the size of the text, on the wide side."""

_CROSS = "M-8 -8L8 8M-8 8L8 -8"
_COIL = "M-24 0H-22" + "a5.5 5.5 0 0 1 11 0" * 4 + "H24"
_ZIGZAG = "M-24 0H-18L-15 -8L-9 8L-3 -8L3 8L9 -8L15 8L18 0H24"
SYMBOLS: Mapping[str, str] = {
    "capacitor": "M-24 0H-4M4 0H24M-4 -12V12M4 -12V12",
    "inductor": _COIL,
    "resistor": "M-24 0H-16M16 0H24M-16 -7H16V7H-16Z",
    "josephson": "M-24 0H24" + _CROSS,
    "squid": "M-24 0H-17M17 0H24M-17 -9H17V9H-17ZM-5 -14L5 -4M-5 -4L5 -14M-5 4L5 14M-5 14L5 4",
    "saturable": _COIL + "M-22 -10H14L22 -15",
    "varactor": "M-24 0H-3M3 0H24M-6 -12Q0 0 -6 12M6 -12Q0 0 6 12",
    "tank": "M-24 0H-17M17 0H24M-17 -9V9M17 -9V9M-17 9H-3M3 9H17M-3 3V15M3 3V15M-17 -9H-14"
    + "a4.7 4.7 0 0 1 9.4 0" * 3
    + "H17",
    "spring": _ZIGZAG,
    "duffing": _ZIGZAG + "M-18 -13H12L20 -18",
    "damper": "M-24 0H-4M-4 -7V7M10 -10H-10M10 10H-10M10 -10V10M10 0H24",
    "mass": "M-24 0H-13M-13 -13H13V13H-13Z",
    "current": "M-24 0H-13M13 0H24M-13 0a13 13 0 1 0 26 0a13 13 0 1 0 -26 0M8 0H-8M-3 -4L-8 0L-3 4",
    "voltage": "M-24 0H-13M13 0H24M-13 0a13 13 0 1 0 26 0a13 13 0 1 0 -26 0M-8 -3V3M-11 0H-5M8 -3V3",
    "evanescent": "M-24 0H-18M18 0H24M-18 -9Q0 6 18 -9M-18 9Q0 -6 18 9",
}
"""Paths by element or drive type; other types are boxes with a letter."""
LETTERS: Mapping[str, str] = {
    "bilinear": "g", "exchange": "J", "dipole": "D", "pillar": "W", "beam-splitter": "BS", "mach-zehnder": "MZ",
    "kerr": "χ³", "kerr-rotation": "χ³", "kerr-field": "χ³", "phase-shifter": "Δφ", "field-line": "B",
    "offset-charge": "q", "diode": "D",
}  # fmt: skip
_DISC = "M-26 0a26 26 0 1 0 52 0a26 26 0 1 0 -52 0"
BODIES: Mapping[str, str] = {
    "ring": _DISC + "M-20 0a20 20 0 1 0 40 0a20 20 0 1 0 -40 0",
    "cavity": _DISC + "M-14 -12Q-21 0 -14 12M14 -12Q21 0 14 12M-12 0Q-9 -9 -6 0T0 0T6 0T12 0",
    "macrospin": _DISC + "M0 17V-17M-5 -10L0 -17L5 -10",
    "magnon": _DISC + "M-18 0Q-13.5 -14 -9 0T0 0T9 0T18 0",
    "vortex": _DISC + "M-16 0a16 16 0 1 1 16 16M0 16L6 11M0 16L6 21M-2 0a2 2 0 1 0 4 0a2 2 0 1 0 -4 0",
    "skyrmion": _DISC + "M-16 0a16 16 0 1 0 32 0a16 16 0 1 0 -32 0M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0",
}
"""Paths of bodies by element type."""
INK, LEARNS, MUTED = "#1a1a1a", "#c04000", "#5a5a5a"


def width_of(text: str, size: float = SMALL) -> float:
    """Width of a line of text, or a little more."""
    return _ADVANCE * size * len(text)


class Canvas:
    """What is drawn, and how far it reaches."""

    def __init__(self) -> None:
        self._drawn: list[str] = []
        self._right, self._bottom = 0.0, 0.0

    def wire(self, *points: tuple[float, float]) -> None:
        """Draw straight lines through points."""
        self._reach(*points)
        self._path("M" + "L".join(f"{x:g} {y:g}" for x, y in points), INK)

    def dot(self, x: float, y: float) -> None:
        """Draw a joint of wires."""
        self._drawn.append(f'<circle cx="{x:g}" cy="{y:g}" r="3.2" fill="{INK}"/>')

    def port(self, x: float, y: float) -> None:
        """Draw the end of a wire that goes on elsewhere under the same name."""
        self._drawn.append(f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="white" stroke="{INK}" stroke-width="1.5"/>')

    def ground(self, x: float, y: float, wall: bool = False) -> None:
        """Draw the ground symbol below a point, or a wall for springs."""
        self._path(
            f"M{x - 13:g} {y:g}h26m-22 0l-5 6m11 -6l-5 6m11 -6l-5 6m11 -6l-5 6"
            if wall
            else f"M{x - 11:g} {y:g}h22m-18 4.5h14m-10 4.5h6",
            INK,
        )
        self._reach((x + 14, y + 12))

    def arrow(self, tail: tuple[float, float], head: tuple[float, float]) -> None:
        """Draw a line with a head."""
        self._drawn.append(
            f'<path d="M{tail[0]:g} {tail[1]:g}L{head[0]:g} {head[1]:g}" fill="none" stroke="{MUTED}" '
            'stroke-width="1.5" marker-end="url(#head)"/>'
        )

    def symbol(
        self, kind: str, x: float, y: float, upright: bool, learns: bool, ends: int = 2, turned: bool = False
    ) -> None:
        """Draw a symbol around a point, along x or, if upright, along y; with one end, it is the upper one.

        Its first terminal is left or above, unless it is turned: only sources show it.
        """
        angle = 90 * upright + 180 * (turned and kind == "current")
        turn = f" rotate({angle})" if angle else ""
        self._drawn.append(f'<g transform="translate({x:g} {y:g}){turn}">')
        if kind in SYMBOLS:
            self._path(SYMBOLS[kind], INK)
        else:
            self._path("M-24 0H-14M-14 -12H14V12H-14Z" + ("M14 0H24" if ends == 2 else ""), INK)
        if learns:
            self._adjustable()
        self._drawn.append("</g>")
        if kind not in SYMBOLS:
            self.text(x, y + 4, LETTERS.get(kind, kind[:2]), "middle", halo=True)
        self._reach((x + REACH, y + REACH))

    def body(self, kind: str, x: float, y: float, learns: bool) -> None:
        """Draw what sits at a node."""
        self._drawn.append(f'<g transform="translate({x:g} {y:g})">')
        self._drawn.append(f'<circle r="{BODY}" fill="white"/>')
        self._path(BODIES.get(kind, _DISC), INK)
        if learns:
            self._adjustable()
        self._drawn.append("</g>")
        self._reach((x + BODY, y + BODY))

    def text(
        self,
        x: float,
        y: float,
        line: str,
        anchor: str = "start",
        colour: str = INK,
        size: float = SMALL,
        bold: bool = False,
        halo: bool = False,
    ) -> None:
        """Write a line whose base line starts, is centred or ends at a point; a halo keeps what is below away."""
        weight = ' font-weight="bold"' if bold else ""
        weight += ' stroke="white" stroke-width="4" paint-order="stroke"' if halo else ""
        self._drawn.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}" text-anchor="{anchor}" fill="{colour}"{weight}>'
            f"{escape(line)}</text>"
        )
        share = {"start": 1.0, "middle": 0.5, "end": 0.0}[anchor]
        self._reach((x + share * width_of(line, size), y + 4))

    def svg(self, title: str) -> str:
        """Everything drawn, as a file."""
        width, height = round(self._right + 24), round(self._bottom + 24)
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            'font-family="DejaVu Sans, Verdana, sans-serif">'
        )
        marker = "<defs>" + "".join(
            f'<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="{size}" markerHeight="{size}" '
            f'orient="auto"><path d="M0 0L8 4L0 8Z" fill="{colour}"/></marker>'
            for name, size, colour in (("head", 7, MUTED), ("learns", 6, LEARNS))
        )
        marker += "</defs>"
        paper = f'<rect width="{width}" height="{height}" fill="white"/>'
        return "\n".join([head, f"<title>{escape(title)}</title>", marker, paper, *self._drawn, "</svg>", ""])

    def _adjustable(self) -> None:
        self._drawn.append(
            f'<path d="M-15 15L15 -15" fill="none" stroke="{LEARNS}" stroke-width="1.3" marker-end="url(#learns)"/>'
        )

    def _path(self, d: str, colour: str) -> None:
        self._drawn.append(
            f'<path d="{d}" fill="none" stroke="{colour}" stroke-width="1.5" stroke-linejoin="round" '
            'stroke-linecap="round"/>'
        )

    def _reach(self, *points: tuple[float, float]) -> None:
        self._right = max(self._right, *(x for x, _ in points))
        self._bottom = max(self._bottom, *(y for _, y in points))
