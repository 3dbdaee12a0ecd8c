"""Lanes on several cores give what they give on one."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits.generators import ladder
from devices import ArgumentError
from rhel_hw import BPTT, RHEL, FinalMSE, Keep, Problem, Teacher, TrajectoryMSE, simulate, targets_of
from rhel_hw import cores as module
from rhel_hw.cores import CORES, cores, shares, side_by_side


@pytest.fixture
def two_cores(monkeypatch):
    """Even small runs are shared by two."""
    monkeypatch.setenv(CORES, "2")
    monkeypatch.setattr(module, "LEAST_LANES", 1)
    monkeypatch.setattr(module, "LEAST_WORK", 1)


def test_shares_are_equal_and_neither_small_nor_large(monkeypatch):
    monkeypatch.setenv(CORES, "4")
    assert shares(100, 256, 1000) == [slice(0, 64), slice(64, 128), slice(128, 192), slice(192, 256)]
    assert len(shares(100, 150, 1000)) == 2
    assert shares(100, 127, 1000) == [slice(0, 127)]  # too few lanes for two
    assert shares(1, 256, 10) == [slice(0, 256)]  # over at once
    monkeypatch.setenv(CORES, "1")
    assert shares(10, 256, 1000) == [slice(0, 256)]
    assert len(shares(100, 256, 1000)) == 4  # more than a cache holds
    monkeypatch.setenv(CORES, "all of them")
    assert cores() >= 1


def test_calls_come_back_in_their_order():
    assert [float(x) for x in side_by_side([lambda i=i: jnp.asarray(float(i)) for i in range(3)])] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("keep", [Keep.FINAL, Keep.POSITIONS, Keep.ENDS])
@pytest.mark.parametrize("chips", [False, True])
def test_a_run_is_the_same(keep, chips, two_cores, monkeypatch):
    design, rng = ladder(3).compile(), np.random.default_rng(0)
    energy, theta = design.hamiltonian, design.theta()
    if chips:
        theta = {k: v[:, None] * jnp.asarray(rng.uniform(0.9, 1.1, (len(v), 6))) for k, v in theta.items()}
    inputs, state = rng.normal(size=(20, energy.inputs, 6)), tuple(rng.normal(size=(2, 3, 6)))
    found = simulate(energy, theta, inputs, 20, design.step, state=state, keep=keep)
    monkeypatch.setenv(CORES, "1")
    alone = simulate(energy, theta, inputs, 20, design.step, state=state, keep=keep)
    pairs = zip(
        jax.tree.leaves((found.final, found.positions)), jax.tree.leaves((alone.final, alone.positions)), strict=True
    )
    for ours, expected in pairs:
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-13 * float(jnp.max(jnp.abs(expected))))
    assert (found.positions is None, found.momenta is None) == (keep is Keep.FINAL, keep is not Keep.ENDS)


@pytest.mark.parametrize("method", [RHEL(epsilon=1e-3), BPTT()], ids=["rhel", "bptt"])
@pytest.mark.parametrize("kind", ["teacher", "common", "final", "chips"])
def test_a_gradient_is_the_same(method, kind, two_cores, monkeypatch):
    design = ladder(3).compile(steps=20)
    problem = Teacher(batch=6).problem(design)
    reader, rng = targets_of(design), np.random.default_rng(1)
    given = {"hamiltonian": problem.hamiltonian, "inputs": problem.inputs, "step": problem.step, "state": problem.state}
    theta = problem.theta
    if kind == "chips":
        theta = {k: v[:, None] * jnp.asarray(rng.uniform(0.9, 1.1, (len(v), 6))) for k, v in theta.items()}
    loss = {
        "common": TrajectoryMSE(reader, rng.normal(size=(20, reader.rows))),
        "final": FinalMSE(reader, rng.normal(size=(reader.rows, 6))),
    }.get(kind, problem.loss)
    problem = Problem(theta=theta, loss=loss, **given)
    assert len(problem.shares()) == 2
    found = method.gradient(problem)
    monkeypatch.setenv(CORES, "1")
    alone = method.gradient(problem)
    assert float(found.loss) == pytest.approx(float(alone.loss), rel=1e-12)
    for ours, expected in zip(jax.tree.leaves(found.parts), jax.tree.leaves(alone.parts), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-8 * float(jnp.max(jnp.abs(expected)) + 1e-12))


def test_other_parameters_share_what_was_cut_before(two_cores):
    problem = Teacher(batch=6).problem(ladder(3).compile(steps=20))
    before = problem.shares()
    theta = {k: 1.1 * v for k, v in problem.theta.items()}
    moved = problem.at(theta)
    assert [new.inputs is old.inputs for new, old in zip(moved.shares(), before, strict=True)] == [True, True]
    found, expected = (BPTT().gradient(p) for p in (moved, replace(problem, theta=theta)))
    jax.tree.map(np.testing.assert_array_equal, found.parts, expected.parts)
    assert float(found.loss) != float(BPTT().gradient(problem).loss)
    single = problem.at({k: jnp.asarray(v, np.float32) for k, v in theta.items()})
    assert {part.inputs.dtype for part in (single, *single.shares())} == {np.dtype(np.float32)}
    with pytest.raises(ArgumentError, match="must be finite"):
        problem.at({k: np.nan * v for k, v in theta.items()})
    with pytest.raises(ArgumentError, match="must have the keys"):
        problem.at({})
