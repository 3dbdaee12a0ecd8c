"""Stiffness matrices against dense products, in whatever form they are kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from circuits.generators import grid, ladder
from circuits.hamiltonian import CURVATURE, ORIGIN
from circuits.stiffness import Stiffness
from tests.systems import hosted


def branches(pairs, n):
    """Rows that read differences of two coordinates, and one of a single coordinate."""
    rows = np.zeros((len(pairs) + 1, n))
    for row, (a, b) in enumerate(pairs):
        rows[row, a], rows[row, b] = 1.0, -0.5
    rows[-1, 0] = 2.0
    return sp.csr_array(rows)


def scattered(n, count, seed=0):
    rng = np.random.default_rng(seed)
    return [tuple(rng.choice(n, 2, replace=False)) for _ in range(count)]


KINDS = {
    "diagonals": branches([(i, i + 1) for i in range(29)], 30),
    "neighbours": branches(scattered(400, 500), 400),
    "columns": branches([(i, j) for i in range(9) for j in range(i)], 9),
    "full": branches([(i, j) for i in range(20) for j in range(i)], 20),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("lanes", "chips"), [((), False), ((4,), False), ((2, 4), False), ((4,), True), ((2, 4), True)]
)
def test_it_is_the_product_of_its_rows(kind, lanes, chips):
    rows, rng = KINDS[kind], np.random.default_rng(1)
    stiffness = Stiffness.of(rows)
    forms = {"diagonals": stiffness.diagonals, "neighbours": stiffness.neighbours}
    assert [name for name, form in forms.items() if form is not None] == [kind] * (kind in forms)
    k, x = rng.normal(size=(rows.shape[0], 4) if chips else rows.shape[0]), rng.normal(size=(rows.shape[1], *lanes))
    found = stiffness.apply(stiffness.prepare(jnp.asarray(k)), jnp.asarray(x))
    dense = rows.toarray()
    wide = np.broadcast_to(k if chips else k[:, None], (len(k), 4))
    each = np.stack([dense.T @ np.diag(c) @ dense for c in wide.T])
    expected = np.einsum("bij,j...b->i...b", each, x) if lanes else each[0] @ x
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12 * np.max(np.abs(expected)))


def test_a_hub_is_left_to_its_branches():
    assert Stiffness.of(branches([(0, i) for i in range(1, 400)], 400)) is None


@pytest.mark.parametrize("net", [ladder(5), grid(3, 3)], ids=["ladder", "grid"])
def test_forces_are_slopes_of_the_potential_and_so_are_their_derivatives(net):
    energy = net.compile().hamiltonian
    theta, rng = energy.theta(), np.random.default_rng(0)
    q, u = (jnp.asarray(rng.normal(size=(n, 3))) for n in (energy.size, energy.inputs))

    def by_potential(theta):
        prepared = energy.prepare(theta)
        return -jax.grad(lambda q: jnp.sum(energy.potential(q, prepared, u)))(q)

    def by_force(theta):
        return energy.force(q, energy.prepare(theta), u)

    moved = {k: jnp.asarray(rng.normal(size=v.shape)) for k, v in theta.items()}
    for found, expected in zip(
        jax.jvp(by_force, (theta,), (moved,)), jax.jvp(by_potential, (theta,), (moved,)), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-12 * float(jnp.max(jnp.abs(expected))))
    along = jnp.asarray(rng.normal(size=q.shape))
    (by_one,) = jax.vjp(by_force, theta)[1](along)
    (by_other,) = jax.vjp(by_potential, theta)[1](along)
    for key, expected in by_other.items():
        np.testing.assert_allclose(by_one[key], expected, atol=1e-12 * float(jnp.max(jnp.abs(expected)) + 1e-9))


def test_what_learns_counts_by_curvature_and_origin():
    """An inductance bends, a flux moves; capacitances are no matter of the potential."""
    energy = ladder(3).compile().hamiltonian
    assert energy.moved_by(["inductor.inductance"]) == (CURVATURE,)
    assert energy.moved_by(["inductor.flux"]) == (ORIGIN,)
    assert not {CURVATURE, ORIGIN} & set(energy.moved_by(["capacitor.capacitance"]))


def test_curvatures_that_are_small_numbers_count_as_well():
    """ħ is one in units that make a Kerr shift a small number."""
    energy = hosted("kerr-rotation").hamiltonian
    assert CURVATURE in energy.moved_by(["ring.detuning"])
    assert CURVATURE in energy.moved_by(["evanescent.rate"])
    assert ORIGIN not in energy.moved_by(energy.theta())
