"""Random numbers by counting: distribution, independence, and that nothing but key and place matters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from rhel_hw import noise


@pytest.fixture(scope="module")
def keys():
    return noise.words(jax.vmap(lambda c: jax.random.fold_in(jax.random.key(0), c))(jnp.arange(64)))


def test_numbers_are_normal(keys):
    """Kolmogorov and Smirnov on 256,000 of them, and the shares of the tails to four deviations of counting."""
    drawn = np.asarray(noise.normals(noise.folded(keys, 7), (4000,))).ravel()
    assert stats.kstest(drawn.astype(float), "norm").pvalue > 1e-3
    for limit in (2.0, 3.0, 4.0):
        share = 2 * stats.norm.sf(limit)
        assert np.mean(np.abs(drawn) > limit) == pytest.approx(share, abs=4 * np.sqrt(share / drawn.size))
    assert np.all(np.isfinite(drawn))


def test_numbers_know_nothing_of_each_other(keys):
    """Correlations over time, between keys, streams and neighbouring numbers are what chance allows, 5 deviations."""
    a, b = (np.asarray(noise.normals(noise.folded(keys, n), (4000,)), float) for n in (1, 2))
    for lag in (1, 2, 3, 64):
        assert abs(np.mean(a[lag:] * a[:-lag])) < 5 / np.sqrt(a.size)
        assert abs(np.mean(a[lag:] ** 2 * a[:-lag] ** 2) - 1) < 5 * 3 / np.sqrt(a.size)
    assert abs(np.mean(a * b)) < 5 / np.sqrt(a.size)
    between = np.corrcoef(a.T) - np.eye(64)
    assert np.max(np.abs(between)) < 5 / np.sqrt(len(a))


def test_every_bit_is_even(keys):
    drawn = np.asarray(noise.bits(keys, (4000,))).ravel()
    shares = [np.mean(drawn >> bit & 1) for bit in range(32)]
    np.testing.assert_allclose(shares, 0.5, atol=5 * 0.5 / np.sqrt(drawn.size))
    assert len(np.unique(drawn[::64])) > 3990  # of one key, all different but for chance


def test_a_key_has_its_numbers_whatever_stands_beside_it(keys):
    some = (keys[0][5:9], keys[1][5:9])
    whole, part = (np.asarray(noise.normals(noise.folded(k, 3), (10, 2))) for k in (keys, some))
    np.testing.assert_array_equal(whole[..., 5:9], part)
    longer = np.asarray(noise.bits(keys, (20,)))
    np.testing.assert_array_equal(longer[:10], np.asarray(noise.bits(keys, (10,))))
