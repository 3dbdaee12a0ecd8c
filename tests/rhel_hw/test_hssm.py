"""State-space models: gradients of whole models by echoes against backpropagation, on stacks, graphs and benches."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits.generators import ladder
from circuits.netlist import Probes
from devices import ArgumentError
from rhel_hw import EchoLearner, EmulatedBench, Profile, Reprepare, Richardson, noise
from rhel_hw.baselines import ThroughTime
from rhel_hw.bench_recurrence import BenchCircuit
from rhel_hw.hssm import HSSM
from rhel_hw.layers import Echoes
from rhel_hw.objectives import Batch, gradient, objective, recurrent_cosines, watching
from rhel_hw.recurrences import Circuit, LinearRow, NonlinearRow
from rhel_hw.strengths import tuned
from tests.systems import quick_or_slow

KEY = jax.random.key(0)
STEPS, BATCH = 40, 3


@pytest.fixture(scope="module")
def design():
    return ladder(3).replace(targets=["n0", "n2"]).compile(steps=STEPS)


def batch_of(width, classes=3, dtype=np.float64, **options):
    rng = np.random.default_rng(1)
    y = rng.integers(0, classes, BATCH) if classes else rng.normal(size=(BATCH, *options.get("shape", (1,))))
    mask = options.get("mask")
    return Batch(jnp.asarray(rng.normal(size=(STEPS, BATCH, width)), dtype), jnp.asarray(y), mask)


def both(model, batch, how=Echoes(Richardson()), strength=0.3):  # noqa: B008 (frozen)
    given = (batch, model.strengths(strength, np.float64), model.memory(np.float64), KEY)
    start = model.start(0, np.float64)
    return (gradient(start, model, method, *given) for method in (how, ThroughTime()))


def assert_alike(ours, theirs, tolerance):
    (value, ours), (expected, theirs) = ours, theirs
    assert float(value) == pytest.approx(float(expected), rel=1e-12)
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours), jax.tree.leaves(theirs), strict=True):
        assert float(jnp.linalg.norm(a - b)) <= tolerance * float(jnp.linalg.norm(b)) + 1e-15, path


STACKS = {
    "linear": HSSM(2, 3, 6, (LinearRow(5),) * 3),
    "nonlinear": HSSM(2, 3, 6, (NonlinearRow(5),) * 2),
    "graph": HSSM(
        2, 3, 6, (LinearRow(4), NonlinearRow(5), LinearRow(3), LinearRow(4)), wiring=((0,), (0,), (1, 2), (0, 1))
    ),
    "sequence": HSSM(2, 2, 6, (LinearRow(5), NonlinearRow(4)), every=10),
    "frugal": HSSM(2, 3, 6, (LinearRow(5), NonlinearRow(4)), frugal=True),
}


@pytest.mark.parametrize("name", quick_or_slow(STACKS, ("nonlinear", "graph")))
def test_echoes_through_a_whole_model_give_what_backpropagation_gives(name):
    """By every parameter: of encoder, recurrences, maps between and decoder; with dropout and batch statistics."""
    model = STACKS[name]
    batch = batch_of(2) if not model.every else batch_of(2, 0, shape=(STEPS // 10, 2))
    assert_alike(*both(model, batch), 1e-9)


def test_what_is_beyond_the_end_of_a_series_does_not_count():
    """Neither in the mean over time nor in the statistics of batches: padding of any kind gives the same outputs."""
    model, rng = HSSM(2, 3, 6, (LinearRow(5),), dropout=0.0), np.random.default_rng(0)
    lengths = np.array([40, 25, 31])
    mask = jnp.asarray(np.arange(STEPS)[:, None] < lengths, float)
    first = batch_of(2, mask=mask)
    other = first._replace(x=jnp.where(mask[..., None] > 0, first.x, rng.normal(size=first.x.shape)))
    given = (model.strengths(), model.memory(np.float64), KEY)
    start = model.start(0, np.float64)
    values = [float(objective(start, model, Echoes(), b, *given)[0]) for b in (first, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    whole = float(objective(start, model, Echoes(), first._replace(mask=None), *given)[0])
    assert abs(whole - values[0]) > 1e-6


def test_evaluation_uses_what_training_remembered():
    model = HSSM(2, 3, 6, (LinearRow(5), NonlinearRow(4)), dropout=0.0)
    batch, start = batch_of(2), model.start(0, np.float64)
    call = (start, batch.x, ThroughTime(), model.strengths(dtype=np.float64))
    trained, memory = model(*call, memory=model.memory(np.float64), key=KEY)
    assert float(memory["seen"]) == 1
    evaluated, same = model(*call, memory=memory)
    np.testing.assert_allclose(evaluated, trained, rtol=1e-9)  # after one batch its statistics are all that is known
    assert all(np.array_equal(same[k], memory[k]) for k in memory)


def test_dropout_drops_its_share_and_depends_on_the_key_alone():
    keys = jax.random.split(KEY, 4)
    drawn = np.stack([np.asarray(noise.bits(noise.words(k), (200, 10, 50))) for k in keys]) / 2**32
    assert np.mean(drawn < 0.05) == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / drawn.size))
    dropped = (drawn < 0.05).reshape(4, -1).astype(float)
    assert np.max(np.abs(np.corrcoef(dropped) - np.eye(4))) < 4 / np.sqrt(dropped.shape[1])
    neighbours = [np.corrcoef(dropped[0][:-lag], dropped[0][lag:])[0, 1] for lag in (1, 50, 500)]
    assert np.max(np.abs(neighbours)) < 4 / np.sqrt(dropped.shape[1])
    again = [noise.bits(noise.words(KEY), (5, 6)) for _ in range(2)]
    assert np.array_equal(*again)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LinearRow, NonlinearRow])
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_automatic_strengths_suit_single_precision(kind, scale):
    """Whatever the size of the gradient that comes in, as from larger batches and longer series."""
    model, batch = HSSM(2, 3, 16, (kind(16),) * 3, dropout=0.0), batch_of(2, dtype=np.float32)
    start, memory = model.start(0), model.memory()
    start["decoder"]["weight"] = start["decoder"]["weight"] * scale
    watched = replace(Echoes(), watched=True)
    found = tuned(lambda s: watching(start, model, watched, batch, jnp.asarray(s, np.float32), memory, KEY), np.ones(3))
    given = (batch, jnp.asarray(found.strengths, np.float32), memory, KEY)
    _, ours = gradient(start, model, Echoes(), *given)
    exact = jax.tree.map(lambda x: jnp.asarray(x, np.float64), (start, batch._replace(y=jnp.zeros(0)), memory))
    _, theirs = gradient(exact[0], model, ThroughTime(), exact[1]._replace(y=batch.y), given[1], exact[2], KEY)
    assert np.all(1 - recurrent_cosines(ours, theirs) < 1e-5)
    if kind is LinearRow:
        np.testing.assert_allclose(found.strayed, 1, rtol=0.5)  # nothing bends: as far as the state itself goes
    else:
        assert np.all((found.strayed > 1e-4) & (found.strayed < 0.1))


def test_the_search_climbs_from_where_nothing_strays():
    """As where nudges are below what the precision resolves."""

    def watch(strengths):
        strayed = np.where(strengths < 1e3, 0.0, 1e-5 * strengths)
        return np.stack([strayed, 0 * strayed, np.full_like(strayed, 1e-7)], axis=1)

    found = tuned(watch, np.array([0.1, 1e5]))
    np.testing.assert_allclose(found.strayed, 1, rtol=0.5)
    dead = tuned(lambda s: np.zeros((len(s), 3)), np.ones(2))
    assert np.all(np.isfinite(dead.strengths))


def test_the_best_strength_is_found_for_every_order():
    """Of ρ/r + β^k with r = a·s and β = b·s, by its closed form."""
    a, b, noise = 1e-3, 2e-3, 1e-6
    for order in (1, 2, 4):
        found = tuned(lambda s: np.stack([a * s, b * s, noise + 0 * s], axis=1), np.ones(1), order)
        best = (noise / (order * a * b**order)) ** (1 / (order + 1))
        assert 1 / 1.5 < found.strengths[0] / min(best, 1 / a) < 1.5


def test_strengths_that_differ_by_powers_of_ten_need_one_program():
    model, batch = HSSM(2, 3, 4, (LinearRow(3),)), batch_of(2, dtype=np.float32)
    compiled = []

    def listen(name, *_args, **_kwargs):
        if "backend_compile" in name:
            compiled.append(name)

    start, memory = model.start(0), model.memory()
    gradient(start, model, Echoes(), batch, model.strengths(1.0), memory, KEY)
    later = [model.strengths(10.0**i) for i in range(1, 5)]
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for strengths in later:
            jax.block_until_ready(gradient(start, model, Echoes(), batch, strengths, memory, KEY))
    finally:
        jax.monitoring.clear_event_listeners()
    assert compiled == []


# Circuits and benches -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_any_circuit_is_a_recurrence(design):
    model = HSSM(2, 3, 4, (Circuit(design), NonlinearRow(4), Circuit(design, amplitude=0.5)))
    assert_alike(*both(model, batch_of(2)), 1e-9)


def test_circuits_that_differ_are_different_programs(design):
    """Compiled programs are found again by equality of models."""
    one, other = (HSSM(2, 3, 4, (Circuit(design, amplitude),), dropout=0.0) for amplitude in (1.0, 0.05))
    assert one != other
    batch, given = batch_of(2), (one.strengths(), one.memory(np.float64), KEY)
    start = one.start(0, np.float64)
    values = [float(gradient(start, m, Echoes(), batch, *given)[0]) for m in (one, other)]
    assert values[0] == pytest.approx(values[1], rel=1e-9)  # a linear circuit: in and out cancel
    elsewhere = ladder(3).replace(targets=["n0", "n1"]).compile(steps=STEPS)
    third = replace(one, recurrences=(Circuit(elsewhere),))
    assert abs(float(gradient(start, third, Echoes(), batch, *given)[0]) - values[0]) > 1e-6


@pytest.mark.slow  # that with converters is not
@pytest.mark.parametrize("protocol", ["hold", "re-prepare"])
def test_an_ideal_bench_is_to_a_model_what_its_circuit_is(design, protocol):
    """Also between other recurrences, and by the inputs, which nudge what lies below."""
    learner = EchoLearner(**({} if protocol == "hold" else {"protocol": Reprepare()}))
    bench = BenchCircuit(design, EmulatedBench(design), learner=learner)
    model = HSSM(2, 3, 4, (LinearRow(4), bench, NonlinearRow(4)))
    twin = replace(model, recurrences=(LinearRow(4), Circuit(design), NonlinearRow(4)))
    ours = next(both(model, batch_of(2)))
    _, theirs = both(twin, batch_of(2))
    assert_alike(ours, theirs, 1e-8)


@pytest.mark.slow
def test_a_bench_with_converters_comes_near(design):
    profile = Profile().set("readout.bits", 12).set("drive.bits", 12).set("readout.full_scale", 4.0)
    bench = BenchCircuit(design, EmulatedBench(design, profile, seed=1), amplitude=0.05)
    model = HSSM(2, 3, 4, (bench, LinearRow(4)), dropout=0.0)
    twin = replace(model, recurrences=(Circuit(design, amplitude=0.05), LinearRow(4)))
    batch, start, memory = batch_of(2), model.start(0, np.float64), model.memory(np.float64)
    watched = replace(Echoes(), watched=True)
    found = tuned(lambda s: watching(start, model, watched, batch, jnp.asarray(s), memory, KEY), np.ones(2))
    _, ours = gradient(start, model, Echoes(), batch, jnp.asarray(found.strengths), memory, KEY)
    _, theirs = gradient(start, twin, ThroughTime(), batch, jnp.asarray(found.strengths), memory, KEY)
    cosines = recurrent_cosines(ours, theirs)
    assert cosines[0] > 0.98
    assert cosines[1] > 0.999
    assert "block 1: drive.u0" not in model.saturated
    loud = replace(model, recurrences=(BenchCircuit(design, bench.bench, amplitude=10.0), LinearRow(4)))
    gradient(start, loud, Echoes(), batch, model.strengths(), memory, KEY)
    assert loud.saturated["block 1: drive.u0"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("guess", [1e-4, pytest.param(1e4, marks=pytest.mark.slow)])
def test_strengths_on_a_coarse_bench_are_found_from_any_guess(design, guess):
    """Without noise two echoes are read alike: what limits is the step of the converters."""
    profile = Profile().set("readout.bits", 12).set("readout.full_scale", 4.0)
    bench = BenchCircuit(design, EmulatedBench(design, profile), amplitude=0.3)
    model, batch = HSSM(2, 3, 4, (bench,), dropout=0.0), batch_of(2)
    start, memory, watched = model.start(0, np.float64), model.memory(np.float64), replace(Echoes(), watched=True)
    found = tuned(lambda s: watching(start, model, watched, batch, jnp.asarray(s), memory, KEY), np.array([guess]))
    assert 0.1 < found.strayed[0] < 10
    twin = replace(model, recurrences=(Circuit(design, amplitude=0.3),))
    ours, theirs = (
        gradient(start, m, how, batch, jnp.asarray(found.strengths), memory, KEY)[1]
        for m, how in ((model, Echoes()), (twin, ThroughTime()))
    )
    assert recurrent_cosines(ours, theirs)[0] > 0.98


@pytest.mark.slow
def test_parameters_stay_within_the_limits_of_a_bench(design):
    model = HSSM(2, 3, 4, (BenchCircuit(design, EmulatedBench(design)),))
    start = model.start(0, np.float64)
    raw = start["blocks"][0]["recurrence"]
    raw["inductor.inductance"] = raw["inductor.inductance"] + 100.0
    gradient(start, model, Echoes(), batch_of(2), model.strengths(), model.memory(np.float64), KEY)
    assert any(name.startswith("block 1: parameter.") for name in model.saturated)


def test_a_bench_of_its_own_and_channels_that_show_enough(design):
    recurrence = BenchCircuit(design, EmulatedBench(design))
    with pytest.raises(ArgumentError, match="a bench each"):
        HSSM(2, 3, 4, (recurrence, recurrence))
    blind = design.netlist.replace(targets=["n2"], probes=Probes(positions=("n1", "n2"))).compile(steps=STEPS)
    with pytest.raises(ArgumentError, match="could not learn"):
        BenchCircuit(blind, EmulatedBench(blind))


def test_nothing_differentiates_through_a_bench(design):
    model = HSSM(2, 3, 4, (BenchCircuit(design, EmulatedBench(design)),))
    with pytest.raises(ArgumentError, match="nothing differentiates through one"):
        next(both(model, batch_of(2), how=ThroughTime()))
    batch, memory, strengths = batch_of(2), model.memory(np.float64), model.strengths()
    program = jax.jit(lambda start: objective(start, model, Echoes(), batch, strengths, memory, KEY)[0])
    with pytest.raises(ArgumentError, match="must not be compiled"):
        program(model.start(0, np.float64))


def test_bad_models_are_refused(design):
    row = (LinearRow(3),)
    for changes, words in (
        ({"channels": 0}, "`channels` must be"),
        ({"recurrences": ()}, "at least one"),
        ({"dropout": 1.0}, "`dropout` must be"),
        ({"wiring": ((1,),)}, "block 1 sources from 0"),
        ({"wiring": ((0,), (0,))}, "for 1 blocks"),
    ):
        with pytest.raises(ArgumentError, match=words):
            HSSM(**{"channels": 2, "outputs": 3, "hidden": 4, "recurrences": row, **changes})
    with pytest.raises(ArgumentError, match="`size` must be"):
        LinearRow(0)
    with pytest.raises(ArgumentError, match=r"add \[targets"):
        Circuit(ladder(3).replace(targets=[]).compile(steps=5))
    with pytest.raises(ArgumentError, match="one chip"):
        BenchCircuit(design, EmulatedBench(design, chips=[0, 1]))
