"""Linear maps of the hot loop against the matrices they stand for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

from circuits.operators import DENSE_LIMIT, WIDEST, Inverse, Reader


def sparse(rows, columns, density, seed=0):
    return sp.random_array((rows, columns), density=density, rng=np.random.default_rng(seed), format="csr")


def star(points):
    """Every point joined to one centre: short rows, one column as long as there are points."""
    rows = np.repeat(np.arange(points), 2)
    columns = np.stack([np.zeros(points, int), np.arange(1, points + 1)], axis=1).ravel()
    return sp.csr_array((np.tile([1.0, -1.0], points), (rows, columns)), shape=(points, points + 1))


MATRICES = {
    "dense": sparse(12, 9, 0.7),
    "gathered": sparse(200, 150, 0.02),
    "large": sparse(400, 300, 0.01),
    "diagonal": sp.diags_array(np.arange(1.0, 40.0)).tocsr(),
    "star, scattered back": star(600),
    "star, scattered forth": star(600).T.tocsr(),
    "empty": sp.csr_array((4, 3)),
}


@pytest.fixture(params=MATRICES)
def pair(request):
    return Reader.of(MATRICES[request.param].copy()), MATRICES[request.param].toarray()


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_readers_are_matrices(pair, batch):
    reader, matrix = pair
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(n, *batch)) for n in (reader.columns, reader.rows))
    np.testing.assert_allclose(reader(x), np.tensordot(matrix, x, axes=1), atol=1e-12)
    np.testing.assert_allclose(reader.transpose(y), np.tensordot(matrix.T, y, axes=1), atol=1e-12)


@pytest.mark.slow
def test_readers_differentiate_both_ways_and_batch(pair):
    reader, matrix = pair
    x = np.random.default_rng(2).normal(size=(reader.columns, 2))

    def energy(x):
        return jnp.sum(jnp.sin(reader(x)))

    slope = matrix.T @ np.cos(matrix @ x)
    np.testing.assert_allclose(jax.grad(energy)(x), slope, atol=1e-12)
    np.testing.assert_allclose(jax.jvp(energy, (x,), (x,))[1], np.sum(slope * x), rtol=1e-11, atol=1e-12)
    curved = matrix.T @ (-np.sin(matrix @ x) * (matrix @ x))
    np.testing.assert_allclose(jax.jvp(jax.grad(energy), (x,), (x,))[1], curved, atol=1e-12)
    np.testing.assert_allclose(jax.grad(lambda v: jnp.sum(jax.grad(energy)(v) * x))(x), curved, atol=1e-12)
    stacked = jax.vmap(reader, in_axes=1, out_axes=1)(jnp.asarray(x))
    np.testing.assert_allclose(stacked, matrix @ x, atol=1e-12)


def test_the_kinds_of_reader_are_all_tried():
    kinds = {name: Reader.of(m.copy()) for name, m in MATRICES.items()}
    assert kinds["dense"].forward is None
    assert kinds["gathered"].forward is not None
    assert kinds["large"].dense is None
    assert MATRICES["large"].shape[0] * MATRICES["large"].shape[1] > DENSE_LIMIT
    assert kinds["star, scattered back"].backward is None
    assert kinds["star, scattered back"].dense is None
    assert kinds["star, scattered forth"].forward is None
    assert WIDEST < 600


def test_no_scatter_is_compiled_where_rows_are_short():
    reader = Reader.of(MATRICES["gathered"].copy())
    program = jax.jit(jax.grad(lambda x: jnp.sum(reader(x) ** 2))).lower(jnp.ones((150, 4))).as_text()
    assert "gather" in program
    assert "scatter" not in program


def test_readers_of_equal_matrices_are_equal():
    one, same, other = (Reader.of(m) for m in (sparse(9, 9, 0.3), sparse(9, 9, 0.3), sparse(9, 9, 0.3, seed=1)))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert repr(one) == "Reader(9x9)"


@pytest.mark.slow
@pytest.mark.parametrize("matrix", [sp.eye_array(5).tocsr() * 0.7, sparse(30, 6, 0.6)], ids=["diagonal", "dense"])
def test_energy_by_an_inverse_knows_its_derivatives(matrix):
    rng = np.random.default_rng(3)
    weights, x = jnp.asarray(rng.uniform(0.5, 2, matrix.shape[0])), jnp.asarray(rng.normal(size=(matrix.shape[1], 2)))
    inverse, A = Inverse.of(matrix, np.asarray(weights)), jnp.asarray(matrix.toarray())

    def plain(w, x):
        return jnp.sum(x * jnp.linalg.solve(A.T @ (w[:, None] * A), x)) / 2

    def ours(w, x):
        return jnp.sum(inverse.energy(inverse.prepare(w), x))

    for order in (lambda f: f, lambda f: jax.grad(lambda w, x: jnp.sum(jax.grad(f, argnums=1)(w, x) ** 2))):
        assert float(order(ours)(weights, x).sum()) == pytest.approx(float(order(plain)(weights, x).sum()), rel=1e-10)
    for k in (0, 1):
        np.testing.assert_allclose(jax.grad(ours, k)(weights, x), jax.grad(plain, k)(weights, x), rtol=1e-9, atol=1e-12)
