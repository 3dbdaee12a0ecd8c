"""Many points at once: lanes of one bench, each with numbers, nudging strength and chip of its own.

It is the bench and the learner that everybody uses. Every lane comes out as it would alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from calibration.calibrated import CalibratedBench
from circuits import Design
from circuits.assemble import Entry
from devices import DivergedError
from rhel_hw.bench import Bench
from rhel_hw.emulated import EmulatedBench
from rhel_hw.learner import Measured
from rhel_hw.session import Session
from rhel_hw.training import Moves
from rhel_hw.truth import gradients_as_made
from studies.cost import gradient_cost
from studies.sweeps.axes import Sweep
from studies.sweeps.setups import Group, Lane

Floats = NDArray[np.float64]

COSTS = ("passes", "device_seconds", "adc_energy", "dac_energy", "dissipated_energy", "energy", "bptt_energy")


def run_batch(group: Group, lanes: Sequence[Lane], sweep: Sweep) -> dict[str, Floats]:
    """Outcomes of some lanes of a group by name, (lanes,) or (lanes, parameters or kinds); NaN where none is."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # lanes that diverge come out as NaN
        return _run(group, lanes, sweep)


def _run(group: Group, lanes: Sequence[Lane], sweep: Sweep) -> dict[str, Floats]:
    setup = group.setup
    try:
        measured, gammas = _gradients(group, lanes, sweep)
    except DivergedError:
        return {name: np.full((len(lanes), *shape), np.nan) for name, shape in shapes(group, sweep).items()}
    found = _compared(setup.design, _exact(group, lanes, sweep), measured)
    found["loss"] = np.mean([m.losses for m in measured], axis=0)
    found["gamma"] = gammas
    found["saturated"] = np.sum([m.saturated_by_chip for m in measured], axis=0).astype(float)
    if sweep.moves:
        found |= _trained(group, lanes, sweep, gammas)
    blind = np.isnan(gammas)  # without a strength there is no gradient
    found = {k: np.where(blind.reshape(-1, *(1,) * (v.ndim - 1)), np.nan, v) for k, v in found.items()}
    found |= _costs(group, lanes)
    return {name: found[name] for name in shapes(group, sweep)}


def shapes(group: Group, sweep: Sweep) -> dict[str, tuple[int, ...]]:
    """Names of the outcomes, and their shapes beside the lanes."""
    entries = _entries(group.setup.design)
    kinds = tuple(dict.fromkeys(e.key for e in entries))
    found: dict[str, tuple[int, ...]] = dict.fromkeys(
        ("cosine", "norm_ratio", "error", "loss", "gamma", "saturated"), ()
    )
    found |= {"snr": ()} if sweep.repeats > 1 else {}
    found |= {"final_loss": (), "improvement": ()} if sweep.moves else {}
    found |= dict.fromkeys(COSTS, ())
    return found | {"gradient": (len(entries),), "exact": (len(entries),), "cosine_by_kind": (len(kinds),)}


def _entries(design: Design) -> list[Entry]:
    return [e for e in design.assembly.entries if e.trainable]


# Gradients ----------------------------------------------------------------------------------------------------------


def _bench(group: Group, lanes: Sequence[Lane], sweep: Sweep) -> EmulatedBench | CalibratedBench:
    setup = group.setup
    profiles, chips = [lane.profile for lane in lanes], [lane.chip for lane in lanes]
    bench = EmulatedBench(setup.design, profiles, seed=setup.seed, chips=chips, reference=setup.peaks)
    known = setup.corrections(sweep.calibration, chips)
    return bench if known is None else CalibratedBench(bench, known)


def _decays(lanes: Sequence[Lane], bench: Bench) -> Floats:
    """Rates that are made up for, (lanes,): those of the points, or what calibration says."""
    known = bench.describe().decays or np.zeros(len(lanes))
    return np.array([own if lane.decay is None else lane.decay for lane, own in zip(lanes, known, strict=True)])


def _gradients(group: Group, lanes: Sequence[Lane], sweep: Sweep) -> tuple[list[Measured], Floats]:
    """Gradients of all repeats, and γ of every lane; NaN where pilots found none."""
    setup, learner = group.setup, group.learner
    bench = _bench(group, lanes, sweep)
    epsilons, decays = np.array([lane.epsilon for lane in lanes]), _decays(lanes, bench)
    if learner.gamma == "auto" and (chosen := bench.describe().strengths):
        gammas = np.asarray(chosen) / epsilons
    elif learner.gamma == "auto":
        session = Session.begin(learner, bench, setup.design, setup.lesson, None)
        gammas = replace(session, decays=decays).pilots(epsilons).gammas
        bench = _bench(group, lanes, sweep)  # how many pilots the slowest lane took is no matter of the others
    else:
        gammas = np.array([float(lane.gamma) for lane in lanes])
    strengths = epsilons * np.where(np.isfinite(gammas), gammas, 1.0)
    known = bench.true_theta() if sweep.calibrated and isinstance(bench, EmulatedBench) else None
    own: dict[str, Any] = {"gammas": strengths, "decays": decays, "known": known}  # the learner's ε is 1
    measured = [learner.gradient(bench, setup.design, setup.lesson, **own) for _ in range(sweep.repeats)]
    return measured, gammas


def _vectors(design: Design, by_theta: Mapping[str, Any], lanes: int) -> Floats:
    """Derivatives by the trainable parameters, (lanes, parameters)."""
    host = {k: np.asarray(v, float) for k, v in by_theta.items()}
    rows = [np.broadcast_to(host[e.key][e.index], (lanes,)) for e in _entries(design)]
    return np.stack(rows, axis=1)


def _exact(group: Group, lanes: Sequence[Lane], sweep: Sweep) -> Floats:
    """What gradients are compared with, (lanes, parameters)."""
    setup = group.setup
    if sweep.reference == "ideal":
        return np.broadcast_to(setup.exact, (len(lanes), len(setup.exact)))
    chips, profiles = [lane.chip for lane in lanes], [lane.profile for lane in lanes]
    theta = {k: np.repeat(np.asarray(v, float)[:, None], len(lanes), axis=1) for k, v in setup.design.theta().items()}
    known = setup.corrections(sweep.calibration, chips)
    values = {} if known is None else known.values
    factors = np.array([np.broadcast_to(values.get(e.name, 1.0), (len(lanes),)) for e in _entries(setup.design)]).T
    for e, own in zip(_entries(setup.design), factors.T, strict=True):
        theta[e.key][e.index] /= own  # what a calibrated bench programs, that it come out as drawn
    _, by_theta = gradients_as_made(setup.design, profiles, setup.lesson, seed=setup.seed, chips=chips, theta=theta)
    return np.asarray(_vectors(setup.design, by_theta, len(lanes)) / factors)


def _compared(design: Design, exact: Floats, measured: Sequence[Measured]) -> dict[str, Floats]:
    """How gradients of all repeats compare with the exact ones; of several, means, and their noise."""
    lanes = len(exact)
    vectors = np.stack([_vectors(design, m.theta, lanes) for m in measured])
    mean = vectors.mean(axis=0)
    kinds = np.array([e.key for e in _entries(design)])
    found = {
        "gradient": mean,
        "exact": np.array(exact),
        "cosine": np.mean([_cosine(v, exact) for v in vectors], axis=0),
        "norm_ratio": _over(np.mean(np.linalg.norm(vectors, axis=2), axis=0), np.linalg.norm(exact, axis=1)),
        "error": _over(np.sqrt(np.mean(np.sum((vectors - exact) ** 2, axis=2), axis=0)), np.linalg.norm(exact, axis=1)),
        "cosine_by_kind": np.stack(
            [_cosine(mean[:, kinds == k], exact[:, kinds == k]) for k in dict.fromkeys(kinds)], axis=1
        ),
    }
    if len(vectors) > 1:
        noise = np.sqrt(np.sum(vectors.var(axis=0, ddof=1), axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):  # without noise it is infinite
            found["snr"] = np.linalg.norm(mean, axis=1) / noise
    return found


def _cosine(a: Floats, b: Floats) -> Floats:
    """Of every lane: 0 where a gradient vanished that should not have."""
    ours, exact = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=1)
    found = _over(np.sum(a * b, axis=1), ours * exact)
    return np.where((ours == 0) & (exact > 0), 0.0, found)


def _over(part: Floats, whole: Floats) -> Floats:
    """part/whole, NaN where there is no whole."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def _costs(group: Group, lanes: Sequence[Lane]) -> dict[str, Floats]:
    """What a gradient takes, without pilots."""
    setup, found = group.setup, {}
    for lane in lanes:  # profiles are few
        if id(lane.profile) not in found:
            found[id(lane.profile)] = gradient_cost(setup.design, lane.profile, group.learner, lesson=setup.lesson)
    rows = [found[id(lane.profile)] for lane in lanes]
    return {name: np.array([float(getattr(row, name)) for row in rows]) for name in COSTS}


# Training -----------------------------------------------------------------------------------------------------------


def _trained(group: Group, lanes: Sequence[Lane], sweep: Sweep, gammas: Floats) -> dict[str, Floats]:
    """Losses after training every lane by itself, as its bench measures them."""
    setup, learner, count = group.setup, group.learner, len(lanes)
    bench = _bench(group, lanes, sweep)
    strengths = np.array([lane.epsilon for lane in lanes]) * np.where(np.isfinite(gammas), gammas, 1.0)
    decays = _decays(lanes, bench)
    start = {k: jnp.asarray(v) for k, v in setup.design.theta().items()}
    moves = Moves.of(setup.training, setup.design, start, bench.describe().parameters)
    begun = moves.begin()
    free, state, theta = (
        jax.tree.map(lambda x: jnp.repeat(jnp.asarray(x)[..., None], count, axis=-1), x)
        for x in (begun.free, begun.optimiser, dict(begun.theta))
    )
    move = jax.jit(jax.vmap(moves.move, in_axes=-1, out_axes=-1))
    losses = []
    for made in range(setup.training.steps + 1):
        found = learner.gradient(bench, setup.design, setup.lesson, theta, gammas=strengths, decays=decays)
        losses.append(found.losses)
        if made < setup.training.steps:
            by_theta = {k: np.where(np.isfinite(v), v, 0.0) for k, v in found.theta.items()}
            free, state, theta = move(free, state, {k: jnp.asarray(v) for k, v in by_theta.items()})
    best = np.min(losses, axis=0)
    return {"final_loss": best, "improvement": _over(np.asarray(losses[0]), best)}
