"""Layout of a photonic design as GDSII: rings and buses with their labels, by gdstk.

Places, radii and gaps are those of `photonic_layout`. Every ring and every bus is a cell of its own, referred to once
by the top cell, so that a reader can count them; labels carry the names of elements and ports. Two things are finer
than a layout and left to heaters: radii of rings whose detunings differ by a gigahertz differ by less than the grid,
and the phases between couplers, whole or half wavelengths in the netlist, follow from where the rings touch.
"""

from __future__ import annotations

import re
import tempfile
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from circuits.formats.photonic_layout import bus_path, lay_out
from circuits.formats.waveguide import Waveguide
from circuits.netlist import Netlist
from devices import ArgumentError

GUIDES, LABELS = (1, 0), (10, 0)
"""Layer and datatype (or texttype) of the waveguides and of the labels."""
GRID = 1e-9
"""Database unit in m."""
SAG = 1e-3
"""Largest distance in µm between a circle and the polygon that stands for it."""
WHEN = datetime(2000, 1, 1)
"""Written into the file as its time, so that the same design gives the same bytes."""


def write(netlist: Netlist, guide: Waveguide | None = None) -> bytes:
    """GDSII file of a photonic design, or `DesignError` that names what it cannot draw."""
    layout = lay_out(netlist, guide or Waveguide())
    gdstk = _gdstk()
    library = gdstk.Library("rhel_hw", unit=1e-6, precision=GRID)
    top = library.new_cell(_cell_name("top", netlist.name, set()))
    taken = {top.name}
    half = layout.guide.width / 2
    for ring in layout.rings.values():
        cell = library.new_cell(_cell_name("ring", ring.name, taken))
        radii = (_micro(ring.radius + half), _micro(ring.radius - half))
        cell.add(gdstk.ellipse((0, 0), radii[0], radii[1], tolerance=SAG, layer=GUIDES[0], datatype=GUIDES[1]))
        place = (_micro(ring.x), _micro(ring.y))
        top.add(gdstk.Reference(cell, place), _label(gdstk, ring.name, place))
    for bus in layout.buses:
        cell = library.new_cell(_cell_name("bus", bus.node, taken))
        points = bus_path(layout.rings[bus.node], bus, layout.guide, 257) * 1e6
        line = gdstk.FlexPath(points, layout.guide.width * 1e6, tolerance=SAG, layer=GUIDES[0], datatype=GUIDES[1])
        cell.add(*line.to_polygons())
        ends = zip(("in", "out"), (points[0], points[-1]), strict=True)
        top.add(gdstk.Reference(cell), *(_label(gdstk, f"{bus.node}_{way}", end) for way, end in ends))
    for c in layout.couplers:
        a, b = layout.rings[c.a], layout.rings[c.b]
        share = a.radius / (a.radius + b.radius)
        place = (_micro(a.x + share * (b.x - a.x)), _micro(a.y + share * (b.y - a.y)))
        top.add(_label(gdstk, c.name, place))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "layout.gds"
        library.write_gds(path, max_points=8190, timestamp=WHEN)
        return path.read_bytes()


def _gdstk() -> Any:
    try:
        return import_module("gdstk")
    except ImportError:
        raise ArgumentError(
            "Argument `format` must be one whose library is installed, but GDS needs gdstk: "
            "pip install 'rhel-hw[hardware]'"
        ) from None


def _label(gdstk: Any, text: str, place: Any) -> Any:
    return gdstk.Label(text, (float(place[0]), float(place[1])), layer=LABELS[0], texttype=LABELS[1])


def _micro(metres: float) -> float:
    return metres * 1e6


def _cell_name(kind: str, name: str, taken: set[str]) -> str:
    """A name that old readers accept: letters, digits and underscores, 32 at most, none twice."""
    plain = f"{kind}_{re.sub(r'[^A-Za-z0-9_]', '_', name)}"[:32]
    new, count = plain, 1
    while new in taken:
        count += 1
        new = f"{plain[: 31 - len(str(count))]}_{count}"
    taken.add(new)
    return new
