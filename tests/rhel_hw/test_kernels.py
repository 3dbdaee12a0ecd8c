"""Loops in C do what loops of XLA do, to round-off; what cannot be said in C is left to XLA."""

import logging
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits import Netlist
from circuits.gallery import GALLERY
from circuits.generators import ladder
from rhel_hw import BPTT, RHEL, Keep, Leapfrog, Richardson, Teacher
from rhel_hw import propagation as runs
from rhel_hw.cores import CORES
from rhel_hw.hru import INJECTION, LinearUnits, NonlinearUnits
from rhel_hw.kernels import compiler as compilers
from rhel_hw.kernels import loops
from rhel_hw.layers import Echoes
from tests.systems import quick_or_slow

STEPS = 7


@pytest.fixture(autouse=True)
def compiler():
    """A C compiler, or a visible skip."""
    if compilers.compiler() is None:
        pytest.skip("no C compiler: apt-get install gcc, or set CC")


@pytest.fixture
def everywhere(monkeypatch):
    """Loops in C however short they are, and programs that were traced without them forgotten before and after."""
    jax.clear_caches()
    monkeypatch.setattr(loops, "LEAST_WORK", 0)
    monkeypatch.setattr(runs, "MOST_NUMBERS", 0)
    yield
    jax.clear_caches()


def is_in_c(function, *given):
    """Whether a traced function has a loop in C."""
    return " loop[" in str(jax.make_jaxpr(lambda *given: function(*given))(*given))  # a new one is traced anew


def both(body, start, xs=None, length=None, *, back=False):
    """What a loop comes to in C and by XLA; the former was not left to the latter."""
    if back:
        ways = [partial(loops.scan_back, body, start, length, in_c=in_c) for in_c in (True, False)]
    else:
        ways = [partial(loops.scan, body, start, xs, length, in_c=in_c) for in_c in (True, False)]
    assert is_in_c(ways[0])
    assert not is_in_c(ways[1])
    found = [jax.jit(way)() for way in ways]
    if back:  # the last row is for whoever calls
        found = [(end, jax.tree.map(lambda x: x[:-1], kept)) for end, kept in found]
    return found


def assert_same(found, ulps=32):
    """Equal to a few units in the last place of the largest number of an array."""
    for ours, expected in zip(*map(jax.tree.leaves, found), strict=True):
        assert ours.dtype == expected.dtype
        ours, expected = np.asarray(ours), np.asarray(expected)
        size = np.max(np.abs(expected), initial=0.0)
        assert np.all(np.isfinite(expected))
        assert size > 0
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(ours, expected, rtol=0, atol=ulps * np.finfo(expected.dtype).eps * size)
        else:
            np.testing.assert_array_equal(ours, expected)


def numbers(*shape, dtype=np.float64, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


# One operation at a time ----------------------------------------------------------------------------------------------

FUNCTIONS = {
    "exp": lambda x: jnp.exp(-x * x), "expm1": lambda x: jnp.expm1(-x * x), "log": lambda x: jnp.log(1 + x * x),
    "log1p": lambda x: jnp.log1p(x * x), "sin": jnp.sin, "cos": jnp.cos, "tan": lambda x: jnp.tan(0.3 * jnp.sin(x)),
    "tanh": jnp.tanh, "sqrt": lambda x: jnp.sqrt(x * x + 1), "rsqrt": lambda x: jax.lax.rsqrt(x * x + 1),
    "pow": lambda x: (x * x + 1) ** 0.3, "logistic": jax.nn.sigmoid, "abs": jnp.abs, "sign": jnp.sign,
    "round": lambda x: jnp.round(3 * x), "floor": lambda x: jnp.floor(3 * x), "cube": lambda x: 0.1 * x**3,
    "inverse": lambda x: (x * x + 1) ** -2, "max": lambda x: jnp.maximum(x, 0.3), "min": lambda x: jnp.minimum(-x, x),
    "where": lambda x: jnp.where((x > 0.2) & (x < 1) | (x <= -1), x, -2.0), "clip": lambda x: jnp.clip(x, -0.5, 0.5),
    "not": lambda x: jnp.where(~(x >= 0) ^ (x == 1), 1.0, 0.5 * x), "softplus": jax.nn.softplus,
    "counted": lambda x: jnp.sum((x > 0).astype(x.dtype), axis=0, keepdims=True) / 3 + 0 * x,
}  # fmt: skip
"""Smooth ones stay where they do not magnify round-off."""


@pytest.mark.parametrize("lanes", [4, 19])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype, lanes):
    """Of every number by itself, in both precisions; 19 lanes are no whole number of vectors."""

    def body(x, _):
        y = FUNCTIONS[name](x).astype(dtype)
        return (0.9 * x + 0.05 * y).astype(dtype), y

    assert_same(both(body, numbers(3, lanes, dtype=dtype), length=STEPS), ulps=64)


TABLE = np.array([4, 0, 3, 3, 1, 2])
MATRIX = np.random.default_rng(5).normal(size=(6, 6)) / 3
WEIGHTS = numbers(6, seed=6)

PLACES = {
    "neighbours": lambda x: jnp.pad(x[:-1], ((1, 0), (0, 0))) - jnp.pad(x[1:], ((0, 1), (0, 0)), constant_values=0.5),
    "rolled": lambda x: jnp.roll(x, 2, axis=0),
    "joined": lambda x: jnp.concatenate([x[3:], x[:1], x[1:3]]),
    "every other": lambda x: jnp.repeat(x[::2], len(x) // 2, axis=0)[: len(x)] + x[len(x) - 1 - len(x) % 1],
    "backwards": lambda x: x[::-1],
    "gathered": lambda x: jnp.tile(x[TABLE], (len(x) // 6, 1)),
    "written": lambda x: x.at[np.arange(1, 4)].set(2 * x[:3]),
    "summed": lambda x: jnp.mean(x, axis=0) * jnp.ones((len(x), 1)),
    "by a matrix": lambda x: jnp.tile(jnp.tensordot(jnp.asarray(MATRIX), x[:6], 1), (len(x) // 6, 1)),
    "scaled": lambda x: jnp.tile(WEIGHTS, len(x) // 6)[:, None] * x,
    "paired": lambda x: jnp.stack([x, 2 * x], axis=1).transpose(1, 0, 2)[1],
    "folded": lambda x: x.reshape(2, len(x) // 2, -1).sum(axis=0).repeat(2, axis=0),
    "refolded": lambda x: (x.reshape(3, -1, x.shape[-1]) ** 2).transpose(1, 0, 2).reshape(len(x), -1),
    "one": lambda x: x[2] + 0 * x,
}


@pytest.mark.parametrize("rows", [6, 96])
@pytest.mark.parametrize("name", PLACES)
def test_places(name, rows):
    """Numbers from other rows; 96 rows are looped over, six are written out."""

    def body(x, _):
        y = PLACES[name](x)
        return 0.5 * x + 0.3 * y, jnp.cos(y)

    assert_same(both(body, numbers(rows, 10), length=STEPS))


@pytest.mark.parametrize("rows", [20, 30, 40, 64])
def test_long_sums_read_what_is_stored(rows):
    """Of numbers that are computed once for all of them, where rows are written out and where they are looped over."""
    matrix, order = numbers(rows, rows) / rows, np.random.default_rng(1).permutation(rows)

    def body(x, _):
        y = jnp.tensordot(matrix, jnp.sin(2 * x)[order], 1)
        return 0.5 * x + y, (y, jnp.sum(jnp.cos(y), axis=0) - jnp.tensordot(matrix, y + x, 1))

    assert_same(both(body, numbers(rows, 6), length=STEPS))


def test_what_is_carried_may_go_anywhere():
    """Old numbers are read to the end of a step: exchanged, shifted, and where new ones are already known."""

    def body(carry, _):
        i, x, y, z, still = carry
        new = jnp.sin(x) + jnp.pad(y[1:], ((0, 1), (0, 0)))
        z = z + jnp.pad(new[:-1], ((1, 0), (0, 0))) * jnp.pad(x[1:], ((0, 1), (0, 0)))
        return (i + 3, y, 0.5 * new, 0.5 * z, still), (z, new - x, x)

    start = (jnp.asarray(-2), numbers(80, 5), numbers(80, 5, seed=1), numbers(80, 5, seed=2), numbers(4, 5, seed=3))
    assert_same(both(body, start, length=STEPS))


def test_series_are_read_step_by_step():
    """With lanes and without, as rows or by index from either end, even beyond them, where the last one counts."""
    common, own = numbers(STEPS, 3), numbers(STEPS, 3, 6, seed=1)

    def body(carry, row):
        i, x = carry
        wide, narrow, number = row
        there = own[STEPS - 1 - i] + common[i - 1][:, None] + jax.lax.dynamic_index_in_dim(own, 2 * i, keepdims=False)
        x = 0.5 * x + wide + narrow[:, None] * there + number
        return (i + 1, x), x

    xs = (numbers(STEPS, 3, 6, seed=2), numbers(STEPS, 3, seed=3), numbers(STEPS, seed=4))
    assert_same(both(body, (jnp.asarray(0), numbers(3, 6)), xs))


def test_a_loop_backwards_keeps_its_rows_the_other_way_round():
    def body(carry, _):
        i, x = carry
        return (i - 1, 0.9 * x + 1), (x, i * x[0])

    (_, (x, _)), _ = found = both(body, (jnp.asarray(2 * STEPS), numbers(3, 5)), length=STEPS, back=True)
    assert_same(found)
    np.testing.assert_array_equal(x[-1], numbers(3, 5))
    whole = loops.scan_back(body, (jnp.asarray(STEPS), numbers(3, 5)), STEPS, in_c=True)[1][0]
    assert whole.shape == (STEPS + 1, 3, 5)


def test_a_loop_of_no_steps_returns_what_it_starts_with():
    end, kept = loops.scan(lambda x, _: (x + 1, x), numbers(2, 4), None, 0, in_c=True)
    np.testing.assert_array_equal(end, numbers(2, 4))
    assert kept.shape == (0, 2, 4)


def test_lanes_as_many_as_rows_are_told_apart():
    """A matrix as wide as there are lanes is no lane; nor is a series of so many steps."""
    matrix, series = numbers(6, 6), numbers(6, 6, seed=1)

    def body(carry, row):
        i, x = carry
        return (i + 1, 0.2 * jnp.tensordot(matrix, x, 1) + row[:, None] * series[i][:, None]), x

    assert_same(both(body, (jnp.asarray(0), numbers(6, 6, seed=2)), series))


@pytest.mark.parametrize(
    "body",
    [
        lambda x, _: (x + jnp.sum(x, axis=1, keepdims=True), None),
        lambda x, _: (jnp.cumsum(x, axis=0), None),
        lambda x, _: (x[:, ::-1], None),
        lambda x, _: (x + jax.random.normal(jax.random.key(0), x.shape), None),
        lambda x, _: (x.astype(jnp.float32).astype(x.dtype), None),
        lambda x, _: (jnp.sort(x, axis=0), None),
        lambda x, _: (jnp.where(jnp.asarray(np.arange(8) % 3 == 2), x, 0.5), None),
        lambda x, _: (x, x > 0),
        lambda x, _: (jax.lax.fori_loop(0, 3, lambda i, y: y + i * x, x), None),
        lambda x, _: (x + jnp.concatenate(jnp.split(x, [1])[::-1]), None),
        lambda x, _: (jax.lax.scan(lambda y, _: (0.5 * y, None), x, None, 3)[0], None),
        lambda x, _: (jnp.where((x > 0) & jnp.asarray([[True], [False], [True]]), x, 1.0), None),
        lambda x, _: (x * jnp.sum(x > 0, axis=0), None),
        lambda x, _: (x + jnp.take(x, jnp.asarray([0, 5, 1]), axis=0, mode="fill", fill_value=3.0), None),
    ],
    ids=[
        "mixed", "cumulated", "turned", "random", "rounded", "sorted", "chosen", "kept", "looped", "split", "scanned",
        "both", "counted", "beyond",
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_left_to_xla(body, caplog):
    start = numbers(3, 8)
    with caplog.at_level(logging.INFO, "rhel_hw.kernels.loops"):
        found = loops.scan(body, start, None, 2, in_c=True)
    assert "a loop of 2 steps is left to XLA" in caplog.text
    assert_same([found, jax.lax.scan(body, start, None, 2)], ulps=0)


def test_what_fails_is_left_to_xla_and_said(monkeypatch, caplog):
    def fault(*_):
        raise KeyError("forgotten")

    monkeypatch.setattr(loops, "graph_of", fault)
    x = numbers(3, 8)
    end, _ = loops.scan(lambda x, _: (x + 1, None), x, None, 2, in_c=True)
    np.testing.assert_array_equal(end, x + 1 + 1)
    assert "please report this" in caplog.text
    assert "KeyError: 'forgotten'" in caplog.text


@pytest.mark.parametrize("shape", [(), (3, 1)], ids=["none", "one"])
def test_few_lanes_are_left_to_xla(shape):
    assert not is_in_c(lambda x: loops.scan(lambda x, _: (jnp.sin(x), None), x, None, 3, in_c=True), jnp.ones(shape))


# Derivatives and batches ----------------------------------------------------------------------------------------------


def test_derivatives_and_batches_are_made_by_xla():
    def loop(x, factor, in_c):
        body = lambda x, row: (jnp.sin(factor * x) + row, x)  # noqa: E731
        (end, kept) = loops.scan(body, x, numbers(STEPS, 3, 4), in_c=in_c)
        return end, kept

    x, factor = numbers(3, 4, seed=1), jnp.asarray(0.8)
    ways = [jax.jit(partial(loop, in_c=in_c)) for in_c in (True, False)]
    assert is_in_c(ways[0], x, factor)
    assert_same([way(x, factor) for way in ways])
    assert_same([jax.jvp(way, (x, factor), (jnp.ones_like(x), factor)) for way in ways])
    assert_same([jax.grad(lambda *a, way=way: jnp.sum(way(*a)[1] ** 2), argnums=(0, 1))(x, factor) for way in ways])
    many = numbers(5, 3, 4, seed=2)
    assert_same([jax.vmap(way, (0, None))(many, factor) for way in ways])


# Learning -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", quick_or_slow(GALLERY, {"toy", "josephson-ladder", "mixed", "kerr-chain"}))
def test_gradients_of_the_gallery(name, everywhere, monkeypatch):
    """By echoes in C: those of XLA but for round-off over the strength, of backpropagation but for its bias."""
    design = Netlist.load(name).compile(steps=60)
    problem = Teacher(batch=5).problem(design)
    estimator = RHEL(gamma=1.0, epsilon=1e-2 / scale(problem), stencil=Richardson())
    assert is_in_c(lambda: estimator.program(problem).run())
    ours, exact = estimator.gradient(problem), BPTT().gradient(problem)
    monkeypatch.setattr(loops, "LEAST_WORK", 1 << 60)
    jax.clear_caches()
    for other, tolerance in ((estimator.gradient(problem), 1e-10), (exact, 1e-5)):
        for a, b in ((ours.theta, other.theta), (ours.state, other.state)):
            whole = max(float(jnp.linalg.norm(x)) for x in jax.tree.leaves(b))
            for x, y in zip(*map(jax.tree.leaves, (a, b)), strict=True):
                assert float(jnp.linalg.norm(x - y)) < tolerance * whole
        assert float(ours.loss) == pytest.approx(float(other.loss), rel=1e-12)


def scale(problem):
    """How far echoes would stray for a strength of one, over how far the state goes, roughly."""
    slope = BPTT().gradient(problem).state
    moved = max(float(jnp.max(jnp.abs(x))) for x in slope) * problem.inputs.shape[-1]
    return moved or 1.0


def test_echoes_that_are_alike_differ_by_nothing():
    """Products that are rounded alike cancel; fused with their difference, they would leave 1e-16 a step."""

    def body(carry, _):
        x, y, total = carry
        total = total + (x * x - y * y) + (x * jnp.sin(x) - y * jnp.sin(y))
        return (jnp.sin(1.3 * x + 0.1), jnp.sin(1.3 * y + 0.1), total), None

    x = numbers(70, 9)
    way = partial(loops.scan, body, (x, x + 0.0, jnp.zeros_like(x)), None, 50, in_c=True)
    assert is_in_c(way)
    assert float(jnp.max(jnp.abs(jax.jit(way)()[0][2]))) == 0


@pytest.mark.parametrize("features", [0, 3])
@pytest.mark.parametrize("kind", [LinearUnits, NonlinearUnits])
def test_layers(kind, features, monkeypatch):
    """Derivatives of positions by parameters, inputs and the step, in C and by XLA."""
    rng, units, lanes, steps = np.random.default_rng(0), 5, 6, 40
    energy = kind(units, features)
    theta = {k: jnp.asarray(rng.uniform(0.3, 0.9, units)) for k in kind.keys}
    theta |= {INJECTION: jnp.asarray(rng.normal(size=units * features) / 3)} if features else {}
    inputs = jnp.asarray(rng.normal(size=(steps, energy.inputs, lanes)))
    found = []
    for least in (0, 1 << 60):
        jax.clear_caches()
        monkeypatch.setattr(loops, "LEAST_WORK", least)

        def loss(theta, inputs, step):
            q = Echoes(stencil=Richardson()).through(energy, theta, inputs, step, jnp.asarray(1e-2), jnp.zeros(3))
            return jnp.sum(q**2) / 2

        given = (theta, inputs, jnp.asarray(0.8))
        way = jax.grad(loss, argnums=(0, 1, 2))
        assert is_in_c(way, *given) == (least == 0)
        found.append(jax.jit(way)(*given))
    jax.clear_caches()
    assert_same(found, ulps=1e5)  # differences of echoes a hundredth apart, or more


# Runs -----------------------------------------------------------------------------------------------------------------


def test_a_run_is_the_same_whatever_is_kept(everywhere, monkeypatch):
    """Bit for bit: final states, trajectories in pieces, some of the lanes, one core."""
    design, rng = ladder(70).compile(), np.random.default_rng(0)
    inputs, state = rng.normal(size=(30, design.hamiltonian.inputs, 21)), tuple(rng.normal(size=(2, 70, 21)))

    def run(keep, first=0, end=30, lanes=slice(None), start=state):
        given = jnp.asarray(inputs[first:end, :, lanes])
        way = partial(runs.run, design.hamiltonian, Leapfrog(), keep, design.theta())
        start, step = tuple(jnp.asarray(x[..., lanes]) for x in start), jnp.asarray(design.step)
        assert is_in_c(way, given, start, step)
        return way(given, start, step)

    end, _ = run(Keep.FINAL)
    whole, (positions, momenta, _) = run(Keep.ENDS)
    for ours in (whole, (positions[-1], momenta[-1]), run(Keep.ALL)[0]):
        jax.tree.map(np.testing.assert_array_equal, ours, end)
    half, _ = run(Keep.FINAL, end=12)
    jax.tree.map(np.testing.assert_array_equal, run(Keep.FINAL, first=12, start=half)[0], end)
    some, _ = run(Keep.FINAL, lanes=slice(3, 12))
    jax.tree.map(np.testing.assert_array_equal, some, tuple(x[:, 3:12] for x in end))
    jax.clear_caches()
    monkeypatch.setenv(CORES, "1")
    jax.tree.map(np.testing.assert_array_equal, run(Keep.FINAL)[0], end)


def test_large_states_go_in_c_and_small_ones_do_not():
    design = ladder(4).compile()
    way = partial(runs.run, design.hamiltonian, Leapfrog(), Keep.FINAL, design.theta())
    for lanes, expected in ((4, False), (4096, True)):
        inputs, rest = jnp.zeros((3, design.hamiltonian.inputs, lanes)), jnp.zeros((4, lanes))
        assert is_in_c(way, inputs, (rest, rest), jnp.asarray(design.step)) == expected


# The compiler ---------------------------------------------------------------------------------------------------------


def loop(x, factor):
    """A program for every factor: what XLA knows, it knows for good."""
    return loops.scan(lambda x, _: (jnp.sin(factor * x), x), x, None, 5, in_c=loops.pays(1 << 40, 5))


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """What is in the folder where programs are kept."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    yield lambda: [*tmp_path.glob("**/loops/*")]
    jax.config.update("jax_compilation_cache_dir", None)


LOOP = """
import jax.numpy as jnp, numpy as np
from tests.rhel_hw.test_kernels import is_in_c, loop
from rhel_hw.runtime import configure
configure()
x = jnp.asarray(np.arange(24.0).reshape(3, 8))
assert is_in_c(lambda x: loop(x, 0.5), x)
print(loop(x, 0.5)[0].tolist())
"""


def test_programs_are_kept_on_disk(kept, tmp_path, monkeypatch):
    """A second process has no need to compile; what is broken is made anew."""
    calls, counting = tmp_path / "calls", tmp_path / "counting-cc"
    counting.write_text(f'#!/bin/sh\necho "$@" >> {calls}\nexec {compilers.compiler()} "$@"\n')
    counting.chmod(0o755)
    environment = os.environ | {"CC": str(counting), "RHEL_HW_CACHE": str(tmp_path), "PYTHONPATH": "."}
    found = []
    for compiled in (1, 1, 2):
        run = subprocess.run([sys.executable, "-c", LOOP], env=environment, capture_output=True, text=True, check=True)
        found.append(run.stdout)
        assert calls.read_text().count(".so") == compiled
        (library,) = kept()
        assert library.stat().st_size > 1000
        if len(found) == 2:
            library.write_bytes(b"half of a program")
    assert found[0] == found[1] == found[2] != ""


def test_threads_make_a_program_once(kept):
    """As shares of a problem do that are traced at the same time."""
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: is_in_c(partial(loop, factor=0.7), numbers(3, 8)), range(4)))
    assert found == [True] * 4
    assert len(kept()) == 1


def test_old_programs_are_let_go(kept, monkeypatch):
    monkeypatch.setattr(compilers, "MOST_KEPT", 2)
    for factor in (1.1, 1.2, 1.3, 1.4):
        jax.jit(partial(loop, factor=factor))(numbers(3, 8))
    assert len(kept()) == 2


def test_without_a_place_programs_are_used_all_the_same(kept, monkeypatch):
    def full(*_):
        raise OSError("no room left")

    monkeypatch.setattr(compilers.shutil, "copyfile", full)
    assert is_in_c(partial(loop, factor=1.5), numbers(3, 8))
    jax.config.update("jax_compilation_cache_dir", None)
    assert is_in_c(partial(loop, factor=1.6), numbers(3, 8))
    assert not kept()


@pytest.mark.parametrize(("name", "value"), [("CC", "no-such-compiler"), (compilers.KERNELS, "0")])
def test_loops_can_be_left_to_xla(name, value, monkeypatch):
    monkeypatch.setenv(name, value)
    assert not is_in_c(partial(loop, factor=1.7), numbers(3, 8))


def test_a_compiler_that_fails_is_named_once(kept, monkeypatch, caplog):
    monkeypatch.setenv("CC", shutil.which("false"))
    for _ in range(2):
        assert not is_in_c(partial(loop, factor=1.8), numbers(3, 8))
    assert [("false" in r.message, "left to XLA" in r.message) for r in caplog.records] == [(True, True)]


def test_functions_of_vectors_may_be_missing(kept, monkeypatch):
    """Where the C library has none, they are computed one by one."""
    monkeypatch.setattr(compilers, "VECTORS", compilers.VECTORS[1:])
    for name in ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "tanh", "pow"):
        body = lambda x, _, name=name: (0.95 * FUNCTIONS[name](x), None)  # noqa: E731
        assert_same(both(body, numbers(3, 9), length=STEPS), ulps=64)
