"""Layers: units against the recurrences they stand for, and stacks that learn by echoes against backpropagation."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits.generators import ladder
from rhel_hw import Leapfrog, MomentumFlip, Richardson, SignFlip
from rhel_hw.hru import LinearUnits, NonlinearUnits
from rhel_hw.layers import WATCHED, Echoes, echoed, positions

ONE = jnp.ones(())
UNWATCHED = jnp.zeros(WATCHED)
STEPS, BATCH = 50, 3


def drawn(energy, rng):
    return {key: jnp.asarray(rng.uniform(0.3, 0.9, energy.size)) for key in energy.keys}


@pytest.mark.parametrize("kind", [LinearUnits, NonlinearUnits])
def test_units_follow_the_recurrences_of_the_paper(kind):
    rng = np.random.default_rng(0)
    units = kind(4)
    theta, u = drawn(units, rng), rng.normal(size=(STEPS, 4, BATCH))
    delta, stiffness, gain = (np.asarray(theta.get(k, jnp.ones(4)))[:, None] for k in ("delta", "stiffness", "gain"))
    q = p = np.zeros((4, BATCH))
    for i in range(STEPS):
        half = q + delta / 2 * p
        pull = stiffness * half - u[i] if kind is LinearUnits else np.tanh(gain * half + u[i]) + stiffness * half
        p = p - delta * pull
        q = half + delta / 2 * p
    found, final = positions(units, Leapfrog(), theta, jnp.asarray(u), ONE)
    np.testing.assert_allclose(found[-1], q, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(final[1], p, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", [LinearUnits, NonlinearUnits])
def test_forces_are_slopes_of_energies(kind):
    rng, units = np.random.default_rng(1), kind(5)
    prepared = units.prepare(drawn(units, rng))
    q, p, u = (jnp.asarray(rng.normal(size=(5, BATCH))) for _ in range(3))
    force = jax.grad(lambda q: -jnp.sum(units.potential(q, prepared, u)))(q)
    np.testing.assert_allclose(units.force(q, prepared, u), force, rtol=1e-12)
    velocity = jax.grad(lambda p: jnp.sum(units.kinetic(p, prepared)))(p)
    np.testing.assert_allclose(units.velocity(p, prepared), velocity, rtol=1e-12)


def stack(kinds, rng):
    """Energies with parameters, and maps (n, n of the layer below) between them."""
    energies = [kind(5 - i) if isinstance(kind, type) else kind for i, kind in enumerate(kinds)]
    thetas = [drawn(e, rng) if hasattr(e, "keys") else e.theta() for e in energies]
    sizes = [2, *(e.size for e in energies)]
    maps = [jnp.asarray(0.5 * rng.normal(size=(e.inputs, m))) for e, m in zip(energies, sizes[:-1], strict=True)]
    return energies, thetas, maps


def loss(energies, layer, thetas, maps, u, strengths):
    """Of the last layer's positions; every map is followed by a nonlinearity, and skips go around every layer."""
    x = u
    for energy, theta, between, strength in zip(energies, thetas, maps, strengths, strict=True):
        q = layer(energy, theta, jax.nn.gelu(jnp.einsum("ij,kjb->kib", between, x)), strength)
        x = q + jnp.sum(x, axis=1, keepdims=True) / 10
    return jnp.mean(jnp.sin(x) * x)


CIRCUIT = ladder(3).compile().hamiltonian


@pytest.mark.slow
@pytest.mark.parametrize(
    "kinds",
    [(LinearUnits, LinearUnits, LinearUnits), (NonlinearUnits, LinearUnits), (NonlinearUnits, CIRCUIT)],
    ids=["linear", "mixed", "circuit"],
)
@pytest.mark.parametrize("operation", [MomentumFlip(), pytest.param(SignFlip(), marks=pytest.mark.slow)])
def test_stacks_learn_by_echoes_what_backpropagation_says(kinds, operation):
    rng = np.random.default_rng(2)
    energies, thetas, maps = stack(kinds, rng)
    u = jnp.asarray(rng.normal(size=(STEPS, 2, BATCH)))
    how = Echoes(Richardson(), operation)

    def by_echoes(energy, theta, inputs, strength):
        return echoed(energy, how, theta, inputs, 0.3 * ONE, strength, UNWATCHED)

    def exactly(energy, theta, inputs, _):
        return positions(energy, Leapfrog(), theta, inputs, 0.3 * ONE)[0]

    ours, theirs = (
        jax.jit(
            jax.grad(
                lambda t, m, u, f=f: loss(energies, f, t, m, u, [jnp.asarray(0.02)] * len(energies)), argnums=(0, 1, 2)
            )
        )(thetas, maps, u)
        for f in (by_echoes, exactly)
    )
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert float(jnp.linalg.norm(a - b)) <= 1e-9 * float(jnp.linalg.norm(b))


def test_a_watched_layer_tells_how_far_its_echoes_stray():
    """In proportion to the strength, and each for itself."""
    rng = np.random.default_rng(3)
    energies, thetas, maps = stack((NonlinearUnits, LinearUnits), rng)
    u = jnp.asarray(rng.normal(size=(STEPS, 2, BATCH)))

    def reports(strengths, how):
        def by_watch(watch):
            places = iter(watch)

            def layer(energy, theta, inputs, strength):
                return echoed(energy, how, theta, inputs, ONE, strength, next(places))

            return loss(energies, layer, thetas, maps, u, strengths)

        return jax.grad(by_watch)([UNWATCHED, UNWATCHED])

    reports = jax.jit(reports, static_argnums=1)
    watched = replace(Echoes(), watched=True)
    first, second = (reports([jnp.asarray(s), jnp.asarray(0.1)], watched) for s in (0.01, 0.03))
    strayed, bent, missed = (second[0] / first[0]).tolist()
    assert strayed == pytest.approx(3, rel=1e-3)
    assert bent == pytest.approx(3, rel=1e-2)  # even over odd in the strength
    assert missed == 1  # whatever the strength
    assert np.array_equal(second[1], first[1])
    assert float(first[0][1]) > 1e-6  # these bend,
    assert float(first[1][1]) < 1e-12  # and linear ones do not
    assert float(first[0][2]) < 1e-13
    assert all(np.all(x == 0) for x in reports([ONE, ONE], Echoes()))
