"""The chain: every stage of a calibration in its order, each through what the ones before have put right."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration import converters, drift, drives, echo, loss, nudges, results, timing, turn
from calibration.calibrated import CalibratedBench
from calibration.corrections import Clock, Corrections
from calibration.file import Calibration, digest
from calibration.findings import Finding, refuse
from calibration.identify import Identified, identify
from calibration.model import Model
from calibration.probe import Probe
from calibration.ranging import Ranging, ranged
from calibration.timing import snapped
from calibration.transfer import MOST, Impulses, Transfer
from circuits import Design
from rhel_hw.bench import Bench, Shot
from rhel_hw.learner import EchoLearner
from rhel_hw.lessons import Lesson
from rhel_hw.session import Session, refuse_another

Floats = NDArray[np.float64]
Report = Callable[[int, str], None]
"""Told how many stages are done, and which is next."""

TOLERANCE = 1e-3
"""Relative move of a value after which drift asks for another calibration."""
STAGES = (
    "ranges", "converters", "element values", "drives", "clock", "turn", "nudges", "echoes", "loss", "nudging strength",
    "drift",
)  # fmt: skip


def calibrate(
    bench: Bench,
    design: Design,
    lesson: Lesson,
    learner: EchoLearner | None = None,
    *,
    task: Mapping[str, Any] | None = None,
    held: Collection[str] = (),
    anchors: int = drift.REPEATS,
    numbers: Sequence[int] | None = None,
    seed: int | None = None,
    profile: Mapping[str, Any] | None = None,
    report: Report | None = None,
) -> Calibration:
    """Find out what a bench really is, and what to do about it; refused, with what to change, if that cannot be told.

    Arguments:
        bench: any; its parameters are programmed as drawn.
        design: that is on it.
        lesson: whose passes are the pilots for ranges, loss and nudging strength.
        learner: whose nudging strength is chosen.
        task: what the lesson was made from, for the file.
        held: values that are taken as drawn, by name.
        anchors: repetitions of the passes that show drift; 0 leaves it out.
        numbers: of the chips; from 0 on by default.
        seed: from which an emulated bench has drawn them, for the file.
        profile: of an emulated bench, for the file.
        report: told how far it has come.
    """
    before = bench.describe()
    refuse_another(before, design)
    drawn = _drawn(design, before.parameters)
    bench.program(drawn)
    tell = report or (lambda done, what: None)
    asked = list(STAGES if anchors else STAGES[:-1])

    def begin(stage: str) -> None:
        tell(asked.index(stage), stage)

    begin("ranges")
    ranging = ranged(bench, _pilots(lesson))
    refuse(ranging.findings)
    base = CalibratedBench(bench, Corrections(before.chips, ranges=ranging.ranges))
    model = Model.of(design, base.describe())
    probe = Probe(base, model)
    begin("converters")
    readout = converters.measure(probe)
    refuse(readout.findings(model))
    begin("element values")
    found = identify(probe, readout, held)
    begin("drives")
    driven = drives.measure(probe, found.fit.x, readout.noise) if model.drives else None
    begin("clock")
    clock = timing.measure(probe, found)
    begin("turn")
    turned = turn.measure(probe, found, clock)
    begin("nudges")
    nudged = nudges.measure(probe, found)
    corrections = _corrections(ranging, found, turned, nudged, trims=before.trims)
    findings: list[Finding] = [*turned.timing.findings, *turned.findings()]
    begin("echoes")
    quality = echo.measure(probe, found, turned)
    if not before.trims:
        findings += quality.findings()
    begin("loss")
    lossy = loss.measure(CalibratedBench(bench, corrections), found, lesson)
    findings += lossy.findings()
    corrections = replace(corrections, decays=lossy.decays)
    begin("nudging strength")
    own = replace(learner or EchoLearner(), gamma="auto")
    strength = Session.begin(own, CalibratedBench(bench, corrections), design, lesson, None).pilots()
    strengths = own.epsilon * strength.gammas
    if np.all(np.isfinite(strengths)):
        corrections = replace(corrections, strengths=tuple(map(float, strengths)))
    else:
        findings.append(
            Finding(
                "nudging strength",
                f"pilots found none for {np.count_nonzero(~np.isfinite(strengths))} of {before.chips} chips",
                "drive the device more, read it better, or give learning.gamma",
                fatal=False,
            )
        )
    drifted = None
    if anchors:
        begin("drift")
        bench.program(drawn)  # pilots had it put right, and anchors look for what was identified
        drifted = drift.measure(probe, found, repeats=anchors)
        findings += drifted.findings()
    after = bench.describe()
    return Calibration(
        design=design.netlist.name,
        digest=digest(design.netlist),
        numbers=tuple(range(before.chips)) if numbers is None else tuple(numbers),
        seed=seed,
        profile=profile,
        task=dict(task or {}),
        passes=after.passes - before.passes,
        seconds=after.seconds - before.seconds,
        shots=tuple(a._asdict() for a in probe.log),
        results={
            "ranges": results.of_ranges(ranging),
            "converters": results.of_readout(readout, found),
            "drives": results.of_drives(driven, found),
            "values": results.of_values(found),
            "turn": results.of_turn(turned),
            "nudges": results.of_nudges(nudged),
            "echoes": results.of_echoes(quality),
            "loss": results.of_loss(lossy),
            "strength": results.of_strengths(strength, own.epsilon),
            "drift": None if drifted is None else results.of_drift(drifted, TOLERANCE),
        },
        findings=tuple(findings),
        corrections=corrections,
        versions={"rhel-hw": version("rhel-hw")},
    )


def _drawn(design: Design, known: Mapping[str, Any]) -> dict[str, float]:
    """What can be programmed, as it is drawn."""
    entries = [e for e in design.assembly.entries if e.name in known]
    return {e.name: float(design.assembly.theta[e.key][e.index]) * e.scale for e in entries}


def _pilots(lesson: Lesson) -> list[Shot]:
    """A pass of the lesson, and its echo."""
    there = Shot(lesson.steps, lesson.drive, start=lesson.start, hold=True)
    return [there, Shot(lesson.steps, lesson.drive, echo=True)]


# Corrections --------------------------------------------------------------------------------------------------------


def _curves(found: Identified, part: str) -> dict[str, Transfer]:
    """Converters of one sort that are off."""
    model, own = found.model, found.model.parts[part]
    names = model.drives if part == "drives" else tuple(c.name for c in model.channels)
    scales = model.drive_scales if part == "drives" else model.full_scales
    told, ideal = found.told[own], model.ideal[own][:, None]
    values = snapped(np.where(told, found.fit.x[own], ideal), found.fit.deviations[own], ideal)
    gains, offsets, bows = values.reshape(3, len(names), -1)
    curves = {
        name: Transfer(float(scale), gain, offset, np.clip(bow, -MOST, MOST))
        for name, scale, gain, offset, bow in zip(names, scales, gains, offsets, bows, strict=True)
    }
    return {name: curve for name, curve in curves.items() if not curve.ideal}


def _impulses(found: Identified, nudged: nudges.Nudges | None) -> dict[str, Impulses]:
    """Nudges that are off."""
    if nudged is None:
        return {}
    ranges = found.model.bench.ranges
    curves = {
        name: Impulses(gain, offset, ranges.get(f"nudge.{name}"))
        for name, gain, offset in zip(nudged.targets, nudged.gain, nudged.offset, strict=True)
    }
    return {name: curve for name, curve in curves.items() if not curve.ideal}


def _corrections(
    ranging: Ranging, found: Identified, turned: turn.Turn, nudged: nudges.Nudges | None, *, trims: bool
) -> Corrections:
    """What is put right of what was found: only what is off for sure."""
    model = found.model
    values = np.where(found.told[model.parts["values"]], found.values, found.drawn)
    values = snapped(values, found.deviations, found.drawn) / found.drawn
    own = {e.name: v for e, v in zip(model.values, values, strict=True) if np.any(v != 1) and np.all(v > 0)}
    when = turned.timing
    angles = {n: (a, g) for n, a, g in zip(turned.nodes, turned.angle, turned.gain, strict=True)}
    return Corrections(
        model.bench.chips,
        ranges=ranging.ranges,
        readout=_curves(found, "readout"),
        drives=_curves(found, "drives"),
        parities={d.name: d.parity for d in model.design.netlist.drives if d.parity < 0},
        nudges=_impulses(found, nudged),
        clock=Clock(when.latency, when.skew, model.bench.decimation),
        turn={n: pair for n, pair in angles.items() if trims and (np.any(pair[0]) or np.any(pair[1] != 1))},
        values=own,
    )
