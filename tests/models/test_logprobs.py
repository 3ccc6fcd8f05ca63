"""Chunked log-probabilities and entropies, and their gradients, against the plain formula as JAX differentiates it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.models.logprobs import token_logprobs

BATCH, TIME, WIDTH, VOCAB = 3, 7, 8, 29


def arrays(seed: int = 0) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Hidden states, a table and targets."""
    random = np.random.default_rng(seed)
    hidden = jnp.asarray(random.normal(size=(BATCH, TIME, WIDTH)), jnp.float32)
    table = jnp.asarray(random.normal(size=(VOCAB, WIDTH)), jnp.float32)
    return hidden, table, jnp.asarray(random.integers(VOCAB, size=(BATCH, TIME)))


def plain(hidden, table, targets, *, temperature):
    logprobs = jax.nn.log_softmax(jnp.einsum("btw,vw->btv", hidden, table) / temperature)
    chosen = jnp.take_along_axis(logprobs, targets[..., None], axis=-1)[..., 0]
    return chosen, -jnp.sum(jnp.exp(logprobs) * logprobs, axis=-1)


def loss(scores, targets, hidden, table):
    """Weighs every token's log-probability and entropy differently."""
    logprobs, entropy = scores(hidden, table, targets)
    weights = jnp.asarray(np.random.default_rng(1).normal(size=(2, BATCH, TIME)), jnp.float32)
    return jnp.sum(weights[0] * logprobs + weights[1] * entropy)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("chunk", [1, 3 * BATCH, 1000])  # 7 steps are padded to 9 by the second
def test_values_and_gradients_are_those_of_the_plain_formula(chunk, temperature):
    hidden, table, targets = arrays()
    chunked = partial(token_logprobs, chunk=chunk, temperature=temperature)
    expected = partial(plain, temperature=temperature)
    for found, wanted in zip(chunked(hidden, table, targets), expected(hidden, table, targets), strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)
    gradients = [
        jax.grad(partial(loss, scores, targets), argnums=(0, 1))(hidden, table) for scores in (chunked, expected)
    ]
    for found, wanted in zip(*gradients, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_large_logits_lose_nothing():
    """Entropy is a difference of sums that are as large as the logits, unless these are shifted first."""
    hidden, table, targets = arrays()
    table = table.at[:, 0].set(1.0)
    shifted = hidden.at[..., 0].add(4096.0)  # the same to every logit
    logprobs, entropy = token_logprobs(shifted, table, targets)
    logits = np.einsum("btw,vw->btv", np.asarray(shifted, np.float64), np.asarray(table, np.float64))
    exact = logits - logits.max(-1, keepdims=True)
    exact -= np.log(np.exp(exact).sum(-1, keepdims=True))
    np.testing.assert_allclose(entropy, -(np.exp(exact) * exact).sum(-1), atol=2e-3)  # logits are to 2**-12 of 4096
    np.testing.assert_allclose(logprobs, np.take_along_axis(exact, targets[..., None], -1)[..., 0], atol=2e-3)


def test_the_gradient_of_a_float32_table_is_summed_in_float32():
    """Of bfloat16 states: their products are rounded once, their sum over chunks never."""
    hidden, table, targets = arrays()
    low = hidden.astype(jnp.bfloat16)
    found, whole = (
        jax.grad(lambda table, chunk=chunk: jnp.sum(token_logprobs(low, table, targets, chunk=chunk)[0]))(table)
        for chunk in (1, 1000)
    )
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, whole, rtol=1e-5, atol=1e-5)
