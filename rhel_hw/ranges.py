"""Ranges of converters: how far a design moves nominally, and full scales as multiples of that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from circuits import Design
from circuits.state import encode
from rhel_hw.excitation import stimulus
from rhel_hw.simulation import simulate


class Peaks(NamedTuple):
    """Largest magnitudes in SI: positions and momenta by node, waveforms by drive."""

    positions: dict[str, float]
    momenta: dict[str, float]
    drives: dict[str, float]


def nominal_peaks(design: Design, reference: Mapping[str, Any] | None) -> Peaks:
    """Peaks of the ideal response to reference waveforms in SI, or to the stimulus that the design has by default."""
    moved = stimulus(design)
    waves = moved.waveforms if reference is None else reference
    arrays = {k: jnp.reshape(jnp.asarray(v, float), (len(v), -1)) for k, v in waves.items()}
    inputs = encode(design, arrays) if arrays else None
    steps = design.steps if inputs is None else int(inputs.shape[0])
    run = simulate(design.hamiltonian, design.theta(), inputs, steps, design.step, state=moved.state)
    units, domains = design.assembly.units, design.netlist.domains
    # What nobody moves is given the design's own unit for a range.
    positions = {n: _peak(v) or units.position(domains[n]) for n, v in run.positions_si().items()}
    momenta = {n: _peak(v) or units.momentum(domains[n]) for n, v in run.momenta_si().items()}
    driven = {d.name: _peak(arrays[d.name]) if d.name in arrays else 0.0 for d in design.netlist.drives}
    loudest = max(driven.values(), default=0.0) or 1.0
    return Peaks(positions, momenta, {n: v or loudest for n, v in driven.items()})


def full_scale(setting: Any, names: Sequence[str], peak: float) -> float:
    """Full scale in SI from a setting: a multiple of the peak, or a table of SI values; unnamed ones take two peaks."""
    if isinstance(setting, tuple):
        table = dict(setting)
        return float(next((table[n] for n in names if n in table), 2.0 * peak))
    return float(setting) * peak


def _peak(values: Any) -> float:
    return float(np.max(np.abs(np.asarray(values)), initial=0.0))
