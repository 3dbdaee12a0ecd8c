"""Layers: units against the recurrences they stand for, and stacks that learn by echoes against backpropagation."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from circuits.generators import ladder
from rhel_hw import Centred, Leapfrog, MomentumFlip, OneSided, Richardson, SignFlip
from rhel_hw.hru import GAIN, INJECTION, LinearUnits, NonlinearUnits
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


@pytest.mark.parametrize("kind", [LinearUnits, NonlinearUnits])
def test_units_may_share_features(kind):
    """B·u inside the loop is B·u before it; echoes give the derivatives by B, by the features and by the rest."""
    rng, units = np.random.default_rng(2), kind(4, 3)
    B, x = jnp.asarray(rng.normal(size=(4, 3))), jnp.asarray(rng.normal(size=(STEPS, 3, BATCH)))
    theta = drawn(units, rng) | {INJECTION: B.ravel()}

    def loss(theta, x, through):
        return jnp.mean(jnp.sin(through(units, theta, x)) * 2)

    def apart(units, theta, x):
        own = {k: theta[k] for k in units.keys}
        u = jnp.einsum("nf,kfb->knb", theta[INJECTION].reshape(4, 3), x)
        return positions(kind(4), Leapfrog(), own, u, ONE)[0]

    def by_echo(units, theta, x):
        return echoed(units, Echoes(stencil=Richardson()), theta, x, ONE, 1e-3 * ONE, UNWATCHED)

    found, expected = (jax.value_and_grad(loss, (0, 1))(theta, x, f) for f in (by_echo, apart))
    assert float(found[0]) == pytest.approx(float(expected[0]), rel=1e-12)
    for ours, theirs in zip(jax.tree.leaves(found[1]), jax.tree.leaves(expected[1]), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8 * float(jnp.max(jnp.abs(theirs))))


@pytest.mark.parametrize(("stencil", "order"), [(OneSided(), 1), (Centred(), 2), (Richardson(), 4)])
def test_differences_of_log_cosh_are_as_exact_as_the_stencil(stencil, order):
    """Nonlinear units take them from tanh; the error falls with the strength as that of any energy does."""
    rng, units = np.random.default_rng(3), NonlinearUnits(4)
    theta, u = drawn(units, rng), jnp.asarray(rng.normal(size=(STEPS, 4, BATCH)))

    def loss(theta, through):
        return jnp.sum(jnp.sin(through(theta)))

    def by_echo(strength):
        return lambda theta: echoed(units, Echoes(stencil=stencil), theta, u, ONE, strength * ONE, UNWATCHED)

    exact = jax.grad(loss)(theta, lambda theta: positions(units, Leapfrog(), theta, u, ONE)[0])[GAIN]
    sizes = (0.005, 0.01)
    errors = [float(jnp.linalg.norm(jax.grad(loss)(theta, by_echo(s))[GAIN] - exact)) for s in sizes]
    assert np.log2(errors[1] / errors[0]) == pytest.approx(order, abs=0.2)


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
