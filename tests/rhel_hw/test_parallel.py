"""Echoes of linear units by blocks of steps against the loop over every step, and what each costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rhel_hw import parallel
from rhel_hw.hru import LinearUnits, NonlinearUnits
from rhel_hw.integrators import Leapfrog, Yoshida4
from rhel_hw.kernels.compiler import KERNELS, compiler
from rhel_hw.layers import WATCHED, Echoes, echoed
from rhel_hw.operations import Richardson, SignFlip

UNITS, BATCH = 6, 2


def problem(steps, dtype, seed=0):
    rng = np.random.default_rng(seed)
    theta = {k: jnp.asarray(rng.uniform(0.3, 0.9, UNITS), dtype) for k in LinearUnits.keys}
    return theta, *(jnp.asarray(rng.normal(size=(steps, UNITS, BATCH)), dtype) for _ in range(2))


def results(monkeypatch, how, steps, dtype, *, blocks):
    """Gradients by echoes, either way."""
    monkeypatch.setattr(parallel, "pays", lambda *_: blocks)
    theta, u, slopes = problem(steps, dtype)
    one, watch = jnp.ones((), dtype), jnp.zeros(WATCHED, dtype)

    def loss(theta, u, step):
        return jnp.sum(slopes * echoed(LinearUnits(UNITS), how, theta, u, step, one, watch))

    return jax.jit(jax.grad(loss, argnums=(0, 1, 2)))(theta, u, 0.9 * one)


@pytest.mark.slow
@pytest.mark.parametrize("how", [Echoes(), Echoes(Richardson(), SignFlip())], ids=["centred", "others"])
@pytest.mark.parametrize("steps", [1, 2, 17, 400])
def test_blocks_of_steps_equal_the_loop(monkeypatch, how, steps):
    """By parameters, inputs and the step, to round-off."""
    ours, theirs = (results(monkeypatch, how, steps, np.float64, blocks=b) for b in (True, False))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert float(jnp.linalg.norm(a - b)) <= 1e-11 * float(jnp.linalg.norm(b)) + 1e-14


@pytest.mark.parametrize("steps", [1000, pytest.param(18_000, marks=pytest.mark.slow)])
def test_single_precision_is_as_good(monkeypatch, steps):
    """Also after 18,000 steps, because powers of a step are computed in double precision."""
    ours, theirs = (results(monkeypatch, Echoes(), steps, np.float32, blocks=b) for b in (True, False))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert float(jnp.linalg.norm(a - b)) <= 1e-3 * float(jnp.linalg.norm(b))  # differences of large squares


def test_only_linear_units_by_leapfrog_are_cut_into_blocks(monkeypatch):
    monkeypatch.setenv(KERNELS, "0")
    long, few = 10**6, 4
    assert parallel.pays(LinearUnits(8), Leapfrog(), long, few)
    assert not parallel.pays(LinearUnits(8), Yoshida4(), long, few)
    assert not parallel.pays(NonlinearUnits(8), Leapfrog(), long, few)
    assert not parallel.pays(LinearUnits(64), Leapfrog(), long, 64)
    assert not parallel.pays(LinearUnits(8), Leapfrog(), 200, few)


@pytest.mark.skipif(compiler() is None, reason="no C compiler: apt-get install gcc, or set CC")
def test_none_are_where_loops_are_in_c():
    assert not parallel.pays(LinearUnits(8), Leapfrog(), 10**6, 4)
    assert parallel.pays(LinearUnits(16), Leapfrog(), 10**6, 2)  # too few lanes for a vector


@pytest.mark.slow
@pytest.mark.speed
def test_blocks_are_used_only_where_they_are_faster(monkeypatch):
    """Without a compiler."""
    from studies.benchmarks import scan

    monkeypatch.setenv(KERNELS, "0")
    jax.clear_caches()
    rows = scan.run(sizes=((4096, 8), (4096, 32), (16_384, 8), (16_384, 32)), rounds=9)
    assert all(r.by_blocks for r in rows)
    assert max(r.ratio for r in rows) < 1.25  # noise of the machine
    assert sorted(r.ratio for r in rows)[2] < 1
