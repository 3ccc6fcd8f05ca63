"""What corrects for the sampler, against each definition written out token by token."""

import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.config import GRPOConfig
from codea1_jax.learn.losses import MAX_LOG_RATIO, sampler_correction

KINDS = "token", "icepop"
LOW, HIGH = 0.6, 1.5
PADDING = np.array([[0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1]], bool)


def rows_of(seed, scale):
    return np.random.default_rng(seed).normal(scale=scale, size=PADDING.shape)


def correction(old, rollout, kind, low=LOW, high=HIGH):
    """Weights and what is outside."""
    known = (jnp.asarray(x, jnp.float32) for x in (old, rollout))
    return tuple(map(np.asarray, sampler_correction(*known, kind=kind, low=low, high=high)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_its_definition_on_random_tokens(kind):
    """At the padding both log-probabilities are NaN; in a packed batch only the sampler's are."""
    active = []
    for seed in range(20):
        old, rollout = rows_of(seed, 1.0), rows_of(seed, 1.0) + rows_of(100 + seed, 0.9)
        rollout[0, :3] = np.nan if seed % 2 else rollout[0, :3]  # a sampler that says nothing of some tokens
        padded = (np.where(PADDING, np.nan, x) for x in (old, rollout))
        weight, outside = (found[~PADDING] for found in correction(*padded, kind))
        ratios = np.exp(np.nan_to_num((old - rollout)[~PADDING]))
        beyond = (ratios < LOW) | (ratios > HIGH)
        expected = np.clip(ratios, LOW, HIGH) if kind == "token" else np.where(beyond, 0, ratios)
        np.testing.assert_allclose(weight, expected, rtol=1e-5)
        np.testing.assert_array_equal(outside, beyond)
        active.append(outside.mean())
    assert 0.1 < np.mean(active) < 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_like_the_training_graph_and_one_that_says_nothing_change_nothing(kind):
    old = rows_of(0, 1.0)
    for rollout in (old, np.full_like(old, np.nan)):
        weight, outside = correction(old, rollout, kind, low=1.0, high=1.0)
        assert (weight == 1).all() and not outside.any()


@pytest.mark.parametrize("kind", KINDS)
def test_ratios_stay_finite_however_far_the_sampler_is(kind):
    weight, _ = correction(np.zeros((1, 4)), np.full((1, 4), -1e4), kind, low=0.0, high=np.exp(2 * MAX_LOG_RATIO))
    assert np.isfinite(weight).all()


def test_bounds_without_an_upper_one_are_refused():
    for settings in ({"importance": "icepop"}, {"importance_floor": 0.5}):
        with pytest.raises(ValueError, match="it has no effect without importance_cap"):
            GRPOConfig(**settings)
