"""Spintronic designs for mumax3: a script, the state it starts from (OVF 2.0), and a table of geometry and material.

A macrospin is one cell. Its energy VK_eff·m_z² − M_sV·B·m − VK_∥·m_x² is written term by term: `Ku1` = −K_eff along z,
the field per region, and K_∥ as the magneto-elastic energy B1·exx·m_x² at the strain exx = −1, for mumax3 has one
uniaxial axis per region. All cells are cubes of the volume V of the first magnet; others keep their moment and
energies, with M_s and K scaled by V_i/V. Stray fields are off: shape is in K_eff. Exchange J between neighbours in
cells of edge d is `ext_InterExchange` = J/2d, for the field there is 2A/(M_s·d²)·(m_j − m_i).

A vortex is a disc, and its confinement, stiffening and couplings are what its stray field makes of it: mumax3 computes
them from M_s, radius, thickness, distance, and an exchange stiffness that is assumed. What the model expects stands in
the table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits.findings import DesignError, error
from circuits.formats import ovf
from circuits.formats.magnets import Field, Material, bodies, fields, grid_of_spins, refuse, rows_of_discs, start
from circuits.netlist import Netlist
from devices import Element, Exchange, FieldLine, Macrospin, MagnonMode, PillarCoupler, Vortex
from devices.spintronic import MU_0

SCRIPT, STATE, TABLE = "design.mx3", "initial.ovf", "materials.toml"
LARGEST = 2_000_000
"""Cells of a mesh at most."""

Sizes = tuple[float, float, float]
Table = dict[str, dict[str, Any]]


def write(netlist: Netlist, material: Material | None = None) -> dict[str, str]:
    """Files by name: the script, its initial state and the table; `DesignError` names what mumax3 cannot express."""
    refuse(netlist)
    magnets = bodies(netlist)
    if not magnets:
        raise DesignError([error("design", "has no magnet", "add a `macrospin` or a `vortex`")])
    parts = _discs(netlist, material or Material()) if isinstance(magnets[0], Vortex) else _spins(netlist)
    lines, m, cell, table = parts
    return {
        SCRIPT: "\n".join([f"// {_plain(netlist.name)}", *lines]) + "\n",
        STATE: ovf.write(m, cell, _plain(netlist.name)),
        TABLE: "\n".join(_toml(table)),
    }


Parts = tuple[list[str], NDArray[np.float64], Sizes, Table]


# Macrospins -------------------------------------------------------------------------------------------------------


def _spins(netlist: Netlist) -> Parts:
    magnets = bodies(netlist)
    places = grid_of_spins(netlist)
    region = {e.nodes[0]: i for i, e in enumerate(magnets, 1)}
    volume = magnets[0].values["volume"]
    edge = volume ** (1 / 3)
    counts = [max(p[i] for p in places.values()) + 1 for i in (0, 1)]
    positions, momenta, duration = start(netlist)
    felt = fields(netlist, {})
    m = np.zeros((1, counts[1], counts[0], 3))
    table: Table = {}
    lines = [*_mesh((counts[0], counts[1], 1), (edge, edge, edge)), "EnableDemag = false", "Aex = 0"]
    cells = [f"Cell({x}, {y}, 0)" for x, y in places.values()]
    lines.append(f"SetGeom({cells[0]}{''.join(f'.Add({c})' for c in cells[1:])})")
    lines += [*_ratio(magnets), "anisU = vector(0, 0, 1)", "exx = -1"]
    for magnet in magnets:
        (node,), values = magnet.nodes, magnet.values
        (x, y), i, scale = places[node], region[node], magnet.values["volume"] / volume
        own = {
            "Msat": values["magnetisation"] * scale,
            "Ku1": -_easy_plane(magnet) * scale,
            "B1": values.get("anisotropy", 0.0) * scale,
            "alpha": values["damping"],
        }
        lines += [
            f"// {magnet.name}",
            f"DefRegionCell({i}, {x}, {y}, 0)",
            *_of_region(i, own),
            *_field(i, felt.get(node)),
        ]
        tilt = -momenta.get(node, 0.0) / (values["magnetisation"] * values["volume"] / values["gyromagnetic_ratio"])
        if abs(tilt) > 1:
            raise DesignError([error(f"initial.momenta.{node}", "is larger than the spin", "make |p| at most M_s·V/γ")])
        flat, azimuth = math.sqrt(1 - tilt**2), positions[node]
        m[0, y, x] = flat * math.cos(azimuth), flat * math.sin(azimuth), tilt
        table[magnet.name] = {
            **_entry(magnet),
            "region": i,
            "x": (x + 0.5) * edge,
            "y": (y + 0.5) * edge,
            "mumax3": own,
        }
    for part in netlist.elements:
        if isinstance(part, Exchange):
            stiffness = part.energy / (2 * edge)
            lines += [f"// {part.name}", f"ext_InterExchange({region[part.a]}, {region[part.b]}, {stiffness!r})"]
            table[part.name] = {**_entry(part), "mumax3": {"Aex": stiffness}}
        elif isinstance(part, FieldLine):
            table[part.name] = _entry(part)
    return [*lines, *_run(len(magnets), duration)], m, (edge, edge, edge), table


def _easy_plane(magnet: Element) -> float:
    """Energy density K_eff of the out-of-plane component."""
    if isinstance(magnet, Macrospin):
        return float(Macrospin.easy_plane(magnet.numbers))
    assert isinstance(magnet, MagnonMode)
    return float(MU_0 * magnet.magnetisation**2 * magnet.demagnetisation / 2)


# Vortices ---------------------------------------------------------------------------------------------------------


def _discs(netlist: Netlist, material: Material) -> Parts:
    magnets = bodies(netlist)
    places, turns = rows_of_discs(netlist, material)
    region = {e.nodes[0]: i for i, e in enumerate(magnets, 1)}
    radii = np.array([e.values["radius"] for e in magnets])
    centres = np.array([places[e.nodes[0]] for e in magnets])
    low, high = (centres - radii[:, None]).min(axis=0), (centres + radii[:, None]).max(axis=0)
    cell = (material.cell, material.cell, magnets[0].values["thickness"])
    counts = [_smooth(math.ceil((b - a) / material.cell) + 4) for a, b in zip(low, high, strict=True)]
    if math.prod(counts) > LARGEST:
        raise DesignError([error("design", f"needs a mesh of more than {LARGEST} cells", "enlarge `Material.cell`")])
    centres = centres - (low + high) / 2  # mumax3 counts from the middle of the mesh
    positions, momenta, duration = start(netlist)
    felt = fields(netlist, turns)
    axes = [(np.arange(n) - (n - 1) / 2) * material.cell for n in counts]
    m = np.zeros((1, counts[1], counts[0], 3))
    table: Table = {}
    lines = [*_mesh((counts[0], counts[1], 1), cell), *_ratio(magnets)]
    for i, (magnet, centre) in enumerate(zip(magnets, centres.tolist(), strict=True), 1):
        lines.append(f"disc{i} := Circle({2 * magnet.values['radius']!r}).Transl({centre[0]!r}, {centre[1]!r}, 0)")
    others = "".join(f".Add(disc{i})" for i in range(2, len(magnets) + 1))
    lines.append(f"SetGeom(disc1{others})")
    for magnet, centre in zip(magnets, centres.tolist(), strict=True):
        assert isinstance(magnet, Vortex)
        i, node = region[magnet.node], magnet.node
        own = {"Msat": magnet.magnetisation, "Aex": material.exchange, "alpha": material.gilbert(magnet)}
        lines += [f"// {magnet.name}", f"DefRegion({i}, disc{i})", *_of_region(i, own), *_field(i, felt.get(node))]
        core = (positions[node], momenta.get(node, 0.0) / float(Vortex.gyrovector(magnet.numbers)))
        _swirl(m[0], axes, centre, core, magnet, turns[node], material)
        expected = {
            "frequency": float(Vortex.confinement(magnet.numbers) / Vortex.aspect(magnet.numbers)) / (2 * math.pi)
        }
        place = {"x": centre[0], "y": centre[1], "circulation": turns[node]}
        table[magnet.name] = {**_entry(magnet), "region": i, **place, "mumax3": own, "expected": expected}
    for part in netlist.elements:
        if isinstance(part, PillarCoupler):
            table[part.name] = {
                **_entry(part),
                "expected": {"strength": float(PillarCoupler.strength(netlist.numbers_of(part)))},
            }
    return [*lines, *_run(len(magnets), duration)], m, cell, table


def _swirl(
    m: NDArray[np.float64],
    axes: list[NDArray[Any]],
    centre: list[float],
    core: tuple[float, float],
    disc: Vortex,
    turn: int,
    material: Material,
) -> None:
    """Put a vortex with its core at that displacement into m (ny, nx, 3), over the disc and a cell beyond its rim."""
    x, y = np.meshgrid(axes[0] - centre[0], axes[1] - centre[1])
    inside = np.hypot(x, y) <= disc.radius + material.cell
    dx, dy = x - core[0], y - core[1]
    away = np.hypot(dx, dy)
    up = np.exp(-((away / material.core) ** 2))
    flat = turn * np.sqrt(1 - up**2) / np.where(away > 0, away, 1.0)
    state = np.stack([-flat * dy, flat * dx, disc.polarity * up], axis=-1)
    empty = ~m.any(axis=-1)
    m[inside & empty] = state[inside & empty]


def _smooth(count: int) -> int:
    """The next number without prime factors above 7, for which Fourier transforms are fast."""
    while True:
        rest = count
        for prime in (2, 3, 5, 7):
            while rest % prime == 0:
                rest //= prime
        if rest == 1:
            return count
        count += 1


# Text -------------------------------------------------------------------------------------------------------------


def _mesh(counts: tuple[int, int, int], cell: Sizes) -> list[str]:
    return [f"SetGridSize{counts}", f"SetCellSize({', '.join(map(repr, cell))})"]


def _ratio(magnets: list[Element]) -> list[str]:
    return [f"GammaLL = {magnets[0].values['gyromagnetic_ratio']!r}"]


def _of_region(i: int, own: dict[str, float]) -> list[str]:
    return [f"{key}.SetRegion({i}, {value!r})" for key, value in own.items()]


def _field(i: int, felt: Field | None) -> list[str]:
    return [] if felt is None else [f"B_ext.SetRegion({i}, vector({felt.x}, {felt.y}, 0))"]


def _run(count: int, duration: float) -> Iterator[str]:
    yield f'm.LoadFile("{STATE}")'
    yield from (f"TableAdd(m.Region({i}))" for i in range(1, count + 1))
    yield f"TableAutosave({duration / 1000!r})"
    yield f"Run({duration!r})"


def _entry(part: Element) -> dict[str, Any]:
    return {"type": part.type, "nodes": list(part.nodes), **part.values}


def _toml(table: Table) -> Iterator[str]:
    yield "# Geometry and material of every element, in SI: what the script sets (mumax3), what the model expects."
    for name, entry in table.items():
        nested = {k: v for k, v in entry.items() if isinstance(v, dict)}
        yield f"\n[{json.dumps(name)}]"
        yield from (f"{k} = {json.dumps(v)}" for k, v in entry.items() if k not in nested)
        for section, values in nested.items():
            yield f"\n[{json.dumps(name)}.{section}]"
            yield from (f"{k} = {json.dumps(v)}" for k, v in values.items())
    yield ""


def _plain(name: str) -> str:
    return name.encode("ascii", "replace").decode()
