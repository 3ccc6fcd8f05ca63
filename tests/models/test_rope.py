"""The rotary embedding: two ways to compute it, for the hardware."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.models.rope import rope_tables, rotate, rotate_by_product


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_both_ways_rotate_alike_and_have_the_same_gradient(dtype):
    keys = jax.random.split(jax.random.key(0), 2)
    x, direction = (jax.random.normal(key, (2, 40, 3, 32), jnp.dtype(dtype)) for key in keys)
    tables = rope_tables(jnp.arange(80).reshape(2, 40) * 7, 32, 1e4)

    def turned(way):
        value, back = jax.vjp(lambda x: way(x, *tables), x)
        return np.asarray(value, np.float32), np.asarray(back(direction)[0], np.float32)

    for ours, reference in zip(turned(rotate_by_product), turned(rotate), strict=True):
        np.testing.assert_allclose(ours, reference, atol=1e-6 if dtype == "float32" else 2**-6)


def test_pairs_turn_by_the_place_times_their_frequency():
    """By complex numbers: dimension i and i + half are one, which turns by an angle."""
    x = np.random.default_rng(0).normal(size=(1, 9, 1, 8)).astype(np.float32)
    angles = np.arange(9)[:, None] * 100.0 ** (-np.arange(4) / 4)
    turned = (x[0, :, 0, :4] + 1j * x[0, :, 0, 4:]) * np.exp(1j * angles)
    tables = rope_tables(jnp.arange(9)[None], 8, 100.0)
    for way in (rotate, rotate_by_product):
        found = np.asarray(way(jnp.asarray(x), *tables))[0, :, 0]
        np.testing.assert_allclose(found, np.concatenate([turned.real, turned.imag], axis=-1), atol=1e-5)
