"""What calibration is worth: gradients against those of the true chip, before and after, error by error.

The reference is backpropagation through every chip as it was made, losses included, at the parameters that it has:
those that come out of what is drawn before, and what is drawn itself after, as a calibrated bench programs them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from numpy.typing import NDArray

from calibration.chain import calibrate
from calibration.corrections import Corrections
from circuits import Design, Netlist
from rhel_hw.bench import Bench
from rhel_hw.emulated import EmulatedBench
from rhel_hw.files import folder, write_atomically, write_text
from rhel_hw.learner import EchoLearner
from rhel_hw.lossy import typical_rate
from rhel_hw.profile import Profile
from rhel_hw.tasks import Teacher
from rhel_hw.truth import gradients_as_made
from studies.plots import COLOURS
from studies.provenance import code

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]
Report = Callable[[int, int], None]

EPSILON = 0.01
CONVERTERS: Mapping[str, Any] = {"readout": {"bits": 8}, "drive": {"bits": 8}}
"""Of every case."""


@dataclass(frozen=True)
class Size:
    """How much of it."""

    designs: tuple[str, ...]
    cases: tuple[str, ...]
    chips: int
    steps: int


ALL = "all at once"
LOSSES = ("Q = 100", "Q = 1,000", "Q = 10,000", "Q = 100,000")
CASES = ("gains and offsets", "mismatch", "skew", "latency", "flip gain and angle", *LOSSES, ALL)
QUICK = Size(("lc-toy",), ("gains and offsets", ALL), 2, 300)
FULL = Size(("lc-toy", "josephson-ladder"), CASES, 4, 300)


@dataclass(frozen=True, eq=False)
class Row:
    """One case, (chips,) each."""

    design: str
    case: str
    before: Floats
    """Cosine to the gradient of the chip."""
    after: Floats
    ratio_before: Floats
    """Of the sizes."""
    ratio_after: Floats
    findings: tuple[str, ...]
    """What the report says cannot be helped."""
    passes: int


def profile_of(design: Design, case: str) -> Profile:
    """The bench of a case."""
    step = design.step_s
    gains = {
        "readout": {"gain_spread": 0.02, "offset": 0.01},
        "drive": {"gain": 1.02, "offset": 0.01},
        "nudge": {"gain": 0.98, "offset": 0.01},
    }
    tables: dict[str, Any] = {
        "gains and offsets": gains,
        "mismatch": {"fabrication": {"mismatch": 0.05}},
        "skew": {"echo": {"skew": 2.4 * step}},
        "latency": {"echo": {"latency": 3.7 * step}},
        "flip gain and angle": {"echo": {"gain": 1.05, "gain_spread": 0.02, "angle": 0.1, "angle_spread": 0.02}},
        **{name: _lossy(design, float(name.removeprefix("Q = ").replace(",", ""))) for name in LOSSES},
    }
    tables[ALL] = _joined(*(tables[name] for name in CASES if name not in (ALL, *LOSSES)), tables["Q = 1,000"])
    return Profile.of(_joined(CONVERTERS, tables[case]))


def _lossy(design: Design, quality: float) -> dict[str, Any]:
    """Loss of a quality, of light by the rates of the circuit; echoes of nonlinear designs can gain."""
    light = any("intrinsic_q" in e.parameters for e in design.netlist.elements)
    own = {"linewidth": typical_rate(design) / (2 * np.pi * quality)} if light else {"quality": quality}
    return {"dynamics": own, "echo": {"pump": not _linear(design)}}


def _linear(design: Design) -> bool:
    return not any(e.type in ("josephson", "squid", "kerr", "saturable_inductor") for e in design.netlist.elements)


def _joined(*tables: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for table in tables:
        for section, own in table.items():
            found[section] = {**found.get(section, {}), **own}
    return found


def run(size: Size, out: Path, report: Report | None = None) -> list[Row]:
    """All cases on all designs; those that are in the folder, made by the same code, are not made again."""
    rows: list[Row] = []
    wanted = [(name, case) for name in size.designs for case in size.cases]
    for name, case in wanted:
        if report:
            report(len(rows), len(wanted))
        what = json.dumps([name, case, size.chips, size.steps, code()])
        kept = out / "cases" / f"{sha256(what.encode()).hexdigest()[:16]}.json"
        if kept.exists():
            (row,) = read(json.loads(kept.read_text()))
        else:
            row = measured(Netlist.load(name).compile(steps=size.steps), case, size.chips, name)
            jax.clear_caches()  # type: ignore[no-untyped-call]  # programs are of one case, and their memory maps run out
            folder(kept.parent)
            write_text(kept, json.dumps(document([row])) + "\n")
        rows.append(row)
    return rows


def measured(design: Design, case: str, chips: int, name: str = "") -> Row:
    """One case on some chips."""
    teacher, profile = Teacher(), profile_of(design, case)
    lesson = teacher.lesson(design)
    learner = EchoLearner(epsilon=EPSILON, gamma="auto")

    def bench() -> EmulatedBench:
        return EmulatedBench(design, profile, chips=chips, reference=lesson.drive or None)

    found = calibrate(bench(), design, lesson, learner, task={"type": "teacher", **asdict(teacher)}, anchors=0, seed=0)

    def compared(on: Bench, corrections: Corrections) -> tuple[Floats, Floats]:
        exact = _exact(design, profile, lesson, chips, corrections)
        ours = _vectors(design, learner.gradient(on, design, lesson).theta, chips)
        sizes = np.linalg.norm(ours, axis=0), np.linalg.norm(exact, axis=0)
        return np.sum(ours * exact, axis=0) / (sizes[0] * sizes[1]), sizes[0] / sizes[1]

    before, ratio_before = compared(bench(), Corrections(chips))
    after, ratio_after = compared(found.around(bench(), design.netlist, seed=0), found.corrections)
    said = tuple(str(f) for f in found.findings)
    return Row(name or design.netlist.name, case, before, after, ratio_before, ratio_after, said, found.passes)


def _vectors(design: Design, by_theta: Mapping[str, Any], chips: int) -> Floats:
    entries = [e for e in design.assembly.entries if e.trainable]
    return np.array([np.broadcast_to(np.asarray(by_theta[e.key], float)[e.index], (chips,)) for e in entries])


def _exact(design: Design, profile: Profile, lesson: Any, chips: int, known: Corrections) -> Floats:
    """Gradients by the chips' own parameters, at those that are drawn as far as they are known."""
    entries = [e for e in design.assembly.entries if e.trainable]
    theta = {k: np.repeat(np.asarray(v, float)[:, None], chips, axis=1) for k, v in design.theta().items()}
    factors = np.array([np.broadcast_to(known.values.get(e.name, 1.0), (chips,)) for e in entries])
    for e, own in zip(entries, factors, strict=True):
        theta[e.key][e.index] /= own
    _, found = gradients_as_made(design, profile, lesson, chips=range(chips), theta=theta)
    return np.asarray(_vectors(design, found, chips) / factors)


# Telling ------------------------------------------------------------------------------------------------------------


def document(rows: list[Row]) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [{k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in asdict(row).items()} for row in rows]


def read(data: list[dict[str, Any]]) -> list[Row]:
    """Rows of plain data."""
    arrays = ("before", "after", "ratio_before", "ratio_after")
    return [Row(**{**d, **{k: np.array(d[k]) for k in arrays}, "findings": tuple(d["findings"])}) for d in data]


def table(rows: list[Row]) -> list[tuple[str, ...]]:
    """Design, case, least cosine before and after, size before and after, and what is said of it."""
    return [
        (
            row.design, row.case, f"{row.before.min():.4f}", f"{row.after.min():.5f}",
            f"{row.ratio_before.min():.2f}–{row.ratio_before.max():.2f}",
            f"{row.ratio_after.min():.3f}–{row.ratio_after.max():.3f}",
            "; ".join(row.findings) or "–",
        )
        for row in rows
    ]  # fmt: skip


def figure(rows: list[Row]) -> Figure:
    """How far gradients are off, before and after, on a logarithmic axis."""
    from matplotlib.figure import Figure

    designs = list(dict.fromkeys(row.design for row in rows))
    height = 0.9 + 0.34 * len(rows) + 0.3 * len(designs)
    found = Figure(figsize=(8.0, height), dpi=130, layout="constrained")
    axis = found.subplots()
    labels = []
    for place, row in enumerate(rows):
        before, after = (1 - np.minimum(x, 1 - 1e-9) for x in (row.before, row.after))
        axis.plot([before.max(), after.max()], [place, place], color="#b5bcc4", lw=1.2, zorder=1)
        axis.plot(before, np.full(len(before), place), "o", color=COLOURS[1], ms=5, label="before" * (place == 0))
        axis.plot(after, np.full(len(after), place), "o", color=COLOURS[2], ms=5, label="after" * (place == 0))
        labels.append(row.case if len(designs) == 1 else f"{row.design}: {row.case}")
    axis.axvline(0.01, color="#5b6570", lw=0.8, ls=":")
    axis.set_xscale("log")
    axis.set_yticks(range(len(rows)), labels, fontsize=8)
    axis.invert_yaxis()
    axis.set_xlabel("1 − cosine to the gradient of the true chip (dots: chips; dotted: cosine 0.99)")
    axis.grid(axis="x", alpha=0.25, lw=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, loc="upper right")
    return found


def save(rows: list[Row], out: Path) -> list[Path]:
    """Figure and data."""
    drawn = figure(rows)
    return [
        write_atomically(out / "calibration.png", lambda stream: drawn.savefig(stream, format="png")),
        write_text(out / "calibration.json", json.dumps(document(rows), indent=1) + "\n"),
    ]
