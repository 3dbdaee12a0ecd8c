"""The page of a design: what it is, and a player of its pass and echo that a bench fills, here or behind a server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circuits import Design, DesignError, Legality, Netlist
from circuits.findings import Severity
from circuits.formats import schematic
from circuits.formats.wording import quantity_text
from rhel_hw.bench import Kind
from rhel_hw.profile import Profile, shown
from studies import inventory
from studies.provenance import versions
from studies.report import Block, Drawing, Live, Markup, Numbers, Paragraph, Section, Table, page
from studies.show.stage import Compared, Heard, Stage

MOST_SAMPLES = 4000
"""Of a trace that is drawn."""
MOST_BARS = 40
"""Parameters whose gradients are drawn, the largest first."""
MOST_NODES = 12
"""Whose traces a page without a server has."""
NUDGED = ("one", "other")
"""The two echoes that are nudged in opposite directions."""
_FILES = files("studies.show")
_KINDS = (Kind.POSITION, Kind.MOMENTUM)


def render(netlist: Netlist, legality: Legality, stage: Stage | None, heard: Heard | None = None) -> str:
    """The page as HTML.

    Arguments:
        netlist: the design as drawn.
        legality: what was found about it.
        stage: the design on its bench; None if it does not compile.
        heard: what is shown where nobody answers; None if the page is served, and asks.
    """
    design = None if stage is None else stage.design
    sections = [Section("", list(_summary(netlist, legality, design)))]
    if stage is not None:
        sections.append(Section("Pass, echo and gradient", list(_player(stage, served=heard is None))))
        sections.append(Section("The bench", list(_bench(stage.profile))))
    sections += [
        Section("Findings", list(_findings(legality))),
        Section("Schematic", [_schematic(netlist)]),
        Section("Elements", list(inventory.elements(netlist))),
    ]
    if design is not None:
        sections.append(Section("Modes", list(inventory.modes(design))))
    domains = ", ".join(sorted({d.name for d in netlist.domains.values()}))
    lead = f"{domains} circuit of {len(netlist.elements)} elements"
    if design is not None:
        lead += f"; {design.steps} steps of {quantity_text(design.step_s, 's')}"
    told = ", ".join(f"{name} {version}" for name, version in versions().items())
    live = None if stage is None else _live(stage, heard)
    return page(netlist.name, lead.lstrip(), sections, told, live)


# What it is ---------------------------------------------------------------------------------------------------------


def _summary(netlist: Netlist, legality: Legality, design: Design | None) -> Iterator[Block]:
    if design is None:
        count = len(legality.errors)
        yield Markup(f'<p class="verdict bad">Not legal: {count} error{"s" * (count > 1)}, see the findings.</p>')
        return
    yield Markup('<p class="verdict">Legal: it can be run backwards, and so be trained by echo.</p>')
    found = design.frequencies_hz
    yield Numbers(
        [
            (str(design.hamiltonian.size), "coordinates"),
            (str(len(design.parameters.trainable_names)), "values that learn"),
            (f"{quantity_text(found[0], 'Hz')} … {quantity_text(found[-1], 'Hz')}", _of_modes(found)),
            (quantity_text(design.steps * design.step_s, "s"), "a pass"),
        ]
    )


def _of_modes(frequencies: NDArray[np.float64]) -> str:
    return "modes" if frequencies[0] >= 0 else "detunings of modes"


def _findings(legality: Legality) -> Iterator[Block]:
    if not legality.findings:
        yield Paragraph("None.")
        return
    order = list(Severity)
    rows = sorted(legality.findings, key=lambda f: order.index(f.severity))
    yield from inventory.fitted(
        ("", "where", "what", "remedy"), [(str(f.severity), f.element, f.reason, f.remedy) for f in rows]
    )


def _schematic(netlist: Netlist) -> Block:
    try:
        return Drawing(schematic.write(netlist), "All elements with their values.")
    except DesignError as problem:
        return Paragraph(f"There is no drawing: {problem}")


def _bench(profile: Profile) -> Iterator[Block]:
    found = [s for s in profile.describe() if s.path not in ("readout.bits", "readout.noise")]
    if not found:
        yield Paragraph("Beside what the sliders say, nothing differs from ideal.")
        return
    yield Paragraph("What differs from ideal beside what the sliders say:")
    yield Table(
        ("setting", "value", "drawn", "what it is"),
        [(s.path, f"{shown(s.value)} {s.unit}".strip(), str(s.scope), s.doc) for s in found],
    )


# What it does -------------------------------------------------------------------------------------------------------


def _player(stage: Stage, *, served: bool) -> Iterator[Block]:
    yield Markup((_FILES / "player.html").read_text("utf-8"))
    if not served:
        yield Paragraph("Sliders rest here: the command rhel-hw show serves this page with the emulator behind it.")
    if stage.why_not:
        yield Paragraph(f"There is no gradient: {stage.why_not}")


def _live(stage: Stage, heard: Heard | None) -> Live:
    netlist, first = stage.design.netlist, stage.first
    domains = {n: netlist.domains[n] for n in stage.nodes}
    data = {
        "nodes": list(stage.nodes),
        "start": netlist.targets[0].node if netlist.targets and netlist.targets[0].node in domains else None,
        "units": {n: [d.position_unit, d.momentum_unit] for n, d in domains.items()},
        "duration": stage.design.steps * stage.design.step_s,
        "dials": {"bits": first.bits, "noise": first.noise},
        "learns": not stage.why_not,
        "heard": None if heard is None else document(stage, heard, stage.nodes[:MOST_NODES]),
    }
    scripts = [path.read_text("utf-8") for path in (files("studies") / "words.js", _FILES / "player.js")]
    return Live(data, scripts, (_FILES / "player.css").read_text("utf-8"), served=heard is None)


def document(stage: Stage, heard: Heard, nodes: Iterable[str]) -> dict[str, Any]:
    """What was read, for scripts: traces of some nodes, in the order of the forward pass."""
    dials, own = heard.dials, heard.gradient
    return {
        "bits": dials.bits,
        "noise": dials.noise,
        "gamma": None if dials.gamma is None else _short(dials.gamma),
        "epsilon": stage.epsilon,
        "seconds": _short(heard.seconds),
        "missed": _short(stage.missed(heard)),
        "gradient": None if own is None else _gradient(stage, own),
        "traces": {n: {str(kind): _traces(stage, heard, f"{kind}.{n}") for kind in _KINDS} for n in nodes},
        "every": _every(stage),
    }


def _gradient(stage: Stage, own: Compared) -> dict[str, Any]:
    names = np.array(stage.design.parameters.trainable_names)
    measured, true = own.measured * own.sizes, own.true * own.sizes
    shown = np.argsort(-np.abs(true))[:MOST_BARS]
    return {
        "cosine": _short(own.cosine, 12),
        "relative": _short(own.relative, 12),
        "ratio": _short(own.ratio),
        "loss": _short(own.loss),
        "saturated": own.saturated,
        "passes": own.passes,
        "names": names[shown].tolist(),
        "measured": _list(measured[shown]),
        "true": _list(true[shown]),
        "more": len(names) - len(shown),
    }


def _traces(stage: Stage, heard: Heard, channel: str) -> dict[str, Any] | None:
    """Forward pass, echo, and nudged echoes of a channel; None where it is not read."""
    if channel not in heard.forward.samples:
        return None
    every = _every(stage)
    forward, flags = heard.forward, heard.forward.saturated.get(channel)
    found = {"forward": _trace(forward.times_s[channel], forward[channel][:, 0, 0], every)}
    found["echo"] = _trace(*stage.laid_over(heard.echo, channel), every)
    own = heard.gradient
    if own is not None and channel in own.nudged.samples:
        for name, run in zip(NUDGED, own.runs, strict=True):
            found[name] = _trace(*stage.laid_over(own.nudged, channel, run), every)
    clipped = 0 if flags is None else int(np.count_nonzero(flags))
    return {**found, "step": _step(stage, heard, channel), "clipped": clipped}


def _step(stage: Stage, heard: Heard, channel: str) -> float | None:
    """Least significant bit of a channel."""
    if heard.dials.bits is None:
        return None
    return _short(2 * stage.channels[channel].full_scale / 2**heard.dials.bits)


def _trace(times: NDArray[np.float64], values: NDArray[np.float64], every: int) -> dict[str, Any]:
    """Samples by a regular clock."""
    kept = values[::every]
    period = float(times[1] - times[0]) * every if len(times) > 1 else 0.0
    return {"first": float(times[0]), "period": period, "values": _list(kept)}


def _every(stage: Stage) -> int:
    return ceil(stage.design.steps / MOST_SAMPLES)


def _list(values: NDArray[np.float64]) -> list[float | None]:
    """Six digits of numbers; what is none is null in JSON."""
    return [_short(v) for v in values.tolist()]


def _short(value: float | None, digits: int = 6) -> float | None:
    return None if value is None or not np.isfinite(value) else float(f"{value:.{digits}g}")
