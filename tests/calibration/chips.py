"""Benches with errors that are known, and unknowns of the model that describe them."""

from typing import Any

import numpy as np

from calibration.model import Model
from circuits import Design
from rhel_hw import EmulatedBench, Profile

ERRORS: dict[str, Any] = {
    "fabrication": {"mismatch": 0.05},
    "dynamics": {"quality": 1000.0},
    "readout": {"bits": 8, "gain_spread": 0.02, "offset": 0.01},
    "drive": {"bits": 8, "gain": 1.02, "offset": 0.01},
}


def bench_of(design: Design, chips: int = 2, seed: int = 1, **changes: Any) -> EmulatedBench:
    return EmulatedBench(design, Profile.of({**ERRORS, **changes}), seed=seed, chips=chips)


def true_values(bench: EmulatedBench, model: Model):
    """Over the size of what is drawn, (values, chips)."""
    true, drawn = bench.true_theta(), model.design.assembly
    by_name = {e.name: e for e in drawn.entries}
    entries = [by_name[v.name] for v in model.values]
    return np.array([true[e.key][e.index] / abs(drawn.theta[e.key][e.index]) for e in entries])
