"""Hand-over of a design: every format that can express it, the nudged echoes of its task, and what was done to it.

Elements that a format cannot express are refused by name. Where all formats are asked for, those that refuse are left
out, and the manifest says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from circuits import DesignError, Netlist
from circuits.eseries import SERIES
from circuits.formats import bom, gds, josim, kicad, mumax, sax_yaml, schematic, touchstone, verilog_a
from circuits.formats.spice_decks import echo_deck, forward_deck, refuse_undeckable
from circuits.handover import Bundle
from devices import ArgumentError, nearest
from rhel_hw.vectors import vectors
from studies import datasheet
from studies.handed import Handed, Report
from studies.provenance import code, versions
from studies.sweeps.limits import Requirement

Files = Mapping[str, str | bytes]


# Formats ------------------------------------------------------------------------------------------------------------


def _spice(handed: Handed) -> Files:
    refuse_undeckable(handed.netlist)
    design, state = handed.design, handed.final
    plain = {"netlist.cir": handed.netlist.to_spice(), "forward.cir": forward_deck(design, handed.waves)}
    plain["echo.cir"] = echo_deck(design, handed.waves, state=state)
    if handed.netlist.targets and design.parameters.trainable_names:
        for name, nudges in zip(("plus", "minus"), handed.nudges, strict=True):
            plain[f"echo-{name}.cir"] = echo_deck(design, handed.waves, nudges, state=state)
    return plain


def _bom(handed: Handed) -> Files:
    return {"bom.csv": bom.write(handed.netlist, handed.series or "E24", handed.stress)}


def _superconducting(handed: Handed, dialect: josim.Dialect) -> str:
    josim.refuse_foreign(handed.netlist, dialect, waveforms=False)
    return josim.write(_playing(handed), dialect)


def _touchstone(handed: Handed) -> Files:
    return {f"response{touchstone.suffix(handed.netlist)}": touchstone.write(handed.netlist)}


FORMATS: Mapping[str, Callable[[Handed], Files]] = {
    "spice": _spice,
    "kicad": lambda handed: {"design.net": kicad.write(handed.netlist)},
    "bom": _bom,
    "schematic": lambda handed: {"schematic.svg": schematic.write(handed.netlist)},
    "verilog-a": lambda handed: {"elements.va": verilog_a.write(handed.netlist)},
    "vectors": lambda handed: vectors(handed.design, handed.waves or None).files,
    "josim": lambda handed: {"josim.cir": _superconducting(handed, josim.JOSIM)},
    "wrspice": lambda handed: {"wrspice.cir": _superconducting(handed, josim.WRSPICE)},
    "sax": lambda handed: {"netlist.yml": sax_yaml.write(handed.netlist)},
    "touchstone": _touchstone,
    "gds": lambda handed: {"layout.gds": gds.write(handed.netlist)},
    "mumax3": lambda handed: mumax.write(_playing(handed)),
    "datasheet": lambda handed: {"datasheet.html": datasheet.write(handed)},
}
"""What each makes of a design: files by name."""


def _playing(handed: Handed) -> Netlist:
    """The netlist whose drives play the stimulus."""
    from devices import Points

    times = (0.0, *map(float, handed.design.step_s * (np.arange(handed.design.steps) + 0.5)))
    drives = [
        replace(d, waveform=Points(times, (0.0, *map(float, handed.waves[d.name])))) if d.name in handed.waves else d
        for d in handed.netlist.drives
    ]
    return handed.design.netlist.replace(drives=tuple(drives))


# The bundle ---------------------------------------------------------------------------------------------------------


def bundle(
    netlist: Netlist,
    formats: Sequence[str],
    *,
    values: Mapping[str, float] | None = None,
    series: str | None = None,
    seed: int = 0,
    requirement: str | Requirement | None = None,
    seeds: int = 3,
    report: Report | None = None,
) -> Bundle:
    """Everything that is handed over of a design.

    Arguments:
        netlist: as drawn.
        formats: names of `FORMATS`, or "all": those that can express it.
        values: trained, in SI, by name such as `L12.inductance`.
        series: of preferred values to which board parts are moved, such as "E24"; None leaves them.
        seed: of the stimulus.
        requirement: what the bits, noise and losses in the data sheet must allow; usually cosine=0.99.
        seeds: at how many seeds.
        report: is told how many gradients are done, and roughly of how many; the data sheet takes hundreds.
    """
    for name in formats:
        if name not in (*FORMATS, "all"):
            raise ArgumentError(
                f"Argument `--to` must name formats: all, {', '.join(FORMATS)}, but has {name!r}"
                f"{nearest(name.lower(), FORMATS, listed=True)}"
            )
    if series is not None and series not in SERIES:
        raise ArgumentError(f"Argument `--series` must be one of {', '.join(SERIES)}, but is {series!r}")
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise ArgumentError(f"Argument `--seeds` must be a whole number of at least 1, but is {seeds!r}")
    wanted = None if requirement is None else Requirement.of(requirement)
    handed = Handed(netlist, dict(values or {}), series, seed, wanted, seeds, report)
    final = handed.netlist
    found: dict[str, bytes] = {"design.toml": final.to_toml().encode()}
    left_out: dict[str, str] = {}
    for name in dict.fromkeys(FORMATS if "all" in formats else formats):
        try:
            made = FORMATS[name](handed)
        except (DesignError, ArgumentError) as problem:
            if name in formats:
                raise
            left_out[name] = str(problem)
            continue
        found |= {f"{name}/{file}": data.encode() if isinstance(data, str) else data for file, data in made.items()}
    about: dict[str, Any] = {
        "design": final.name, "versions": versions(), "code": code(), "seed": seed, "left_out": left_out,
        "trained": dict(handed.values),
    }  # fmt: skip
    if series:
        about["series"] = {"name": series, "moves": [str(s) for s in handed.moved],
                           "gradient_cosine": handed.agreement}  # fmt: skip
    if (handed.values or series) and handed.losses:
        about["losses"] = handed.losses
    if any(file.startswith("spice/echo-") for file in found):
        about["nudging"] = {"epsilon": handed.learner.epsilon, "gamma": handed.learner.gamma}
    return Bundle(found, about)
