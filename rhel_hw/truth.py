"""Gradients of chips as they were made, by backpropagation: what learning on them could find at best.

A baseline, not a method: it knows everything about a chip. Converters and noise play no part in it; mismatch, coarse
programming, dead and stray elements and losses do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from circuits import Design
from rhel_hw.bench import Kind, Shot
from rhel_hw.device import Plan, run_pass
from rhel_hw.emulated import EmulatedBench
from rhel_hw.lessons import Lesson
from rhel_hw.profile import Dynamics, Profile

Array = Any
Floats = NDArray[np.float64]

MOST = 1 << 23
"""Numbers of states that are remembered at once; more chips are taken one after another."""


def gradients_as_made(
    design: Design,
    profile: Profile | Sequence[Profile],
    lesson: Lesson,
    *,
    seed: int = 0,
    chips: Sequence[int] = (0,),
    theta: Mapping[str, Array] | None = None,
) -> tuple[Floats, dict[str, Floats]]:
    """Loss of every chip, and its derivatives by what is programmed: (count, chips) by parameter, dimensionless."""
    profiles = list(profile) if isinstance(profile, Sequence) else [profile] * len(chips)
    size = max(1, MOST // (2 * design.hamiltonian.size * lesson.steps * lesson.stimuli))
    given = design.theta() if theta is None else theta
    found = []
    for begin in range(0, len(chips), size):
        some = slice(begin, begin + size)
        own = {k: np.asarray(v)[..., some] if np.ndim(v) == 2 else v for k, v in given.items()}
        found.append(_some(design, [as_made(p) for p in profiles[some]], lesson, seed, chips[some], own))
    losses = np.concatenate([loss for loss, _ in found])
    return losses, {k: np.concatenate([by[k] for _, by in found], axis=1) for k in found[0][1]}


def as_made(profile: Profile) -> Profile:
    """What of a profile is in the chip itself, and stays."""
    own = profile.dynamics
    kept = replace(Dynamics(), substeps=own.substeps, quality=own.quality, damping=own.damping, linewidth=own.linewidth)
    return Profile(fabrication=profile.fabrication, dynamics=kept)


def _some(
    design: Design, profiles: list[Profile], lesson: Lesson, seed: int, chips: Sequence[int], theta: Mapping[str, Array]
) -> tuple[Floats, dict[str, Floats]]:
    bench = EmulatedBench(design, profiles, seed=seed, chips=chips, reference=lesson.drive or None)
    entries = [e for e in design.assembly.entries if e.trainable]
    told = {e.name: np.asarray(theta[e.key], float)[e.index] * e.scale for e in entries}
    bench.program(told)
    channels = [f"target.{t.name}" for t in design.netlist.targets]
    shot = Shot(lesson.steps, lesson.drive, {} if lesson.drive else _silent(lesson), lesson.start, channels=channels)
    made, plan, targets, values, *rest = bench.arguments(shot, max(shot.runs, 1))
    count = len(chips)
    values = {k: jnp.repeat(v[:, None], count, axis=1) if v.ndim == 1 else v for k, v in values.items()}
    units, domains = design.assembly.units, design.netlist.domains
    sizes = np.array([units.position(domains[t.node]) for t in design.netlist.targets])
    wanted = np.stack([lesson.targets[t.name] for t in design.netlist.targets], axis=1)
    losses, slopes = _through(made, plan, targets, values, tuple(rest), jnp.asarray(wanted), jnp.asarray(sizes))
    own = {e.name: e for e in made.assembly.entries}
    by: dict[str, Floats] = {k: np.zeros((len(v), count)) for k, v in design.assembly.theta.items()}
    factors = bench.factors()
    for e in entries:
        here = own[e.name]
        by[e.key][e.index] = np.asarray(slopes[here.key][here.index]) * factors[e.name] * e.scale / here.scale
    return np.asarray(losses), by


def _silent(lesson: Lesson) -> dict[str, Floats]:
    """A shot learns the number of its runs from its waveforms."""
    return {name: np.zeros((lesson.steps, lesson.stimuli)) for name in lesson.targets}


@partial(jax.jit, static_argnums=(0, 1, 2))
def _through(
    made: Design, plan: Plan, targets: Any, theta: Mapping[str, Array], rest: Any, wanted: Array, sizes: Array
) -> tuple[Array, Mapping[str, Array]]:
    def total(theta: Mapping[str, Array]) -> tuple[Array, Array]:
        read = run_pass(made, plan, targets, theta, *rest).samples[str(Kind.TARGET)]
        read = read[-1:] if wanted.shape[0] == 1 else read
        distance = (read - wanted[..., None]) / sizes[:, None, None]
        losses = jnp.mean(distance**2, axis=(0, 1, 2)) / 2
        return jnp.sum(losses), losses

    slopes, losses = jax.grad(total, has_aux=True)(theta)
    return losses, slopes
