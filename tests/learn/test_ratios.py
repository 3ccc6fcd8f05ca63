"""What corrects for the sampler, against each definition written out response by response."""

import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.config import GRPOConfig
from codea1_jax.learn.ratios import MAX_LOG_RATIO, sampler_correction

KINDS = "token", "sequence", "icepop", "geometric"
LOW, HIGH = 0.6, 1.5
# Two rows: responses of 3 and 2 tokens, and one of 4; then padding.
SEQUENCES = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]])
PADDING = SEQUENCES == 0


def rows_of(seed, scale):
    return np.random.default_rng(seed).normal(scale=scale, size=SEQUENCES.shape)


def correction(old, rollout, kind, sequences=SEQUENCES, low=LOW, high=HIGH):
    """Weights and what is outside. At the padding both are NaN; in a packed batch only the sampler's are."""
    padding = sequences == 0
    old, rollout = (jnp.asarray(np.where(padding, np.nan, x), jnp.float32) for x in (old, rollout))
    found = sampler_correction(old, rollout, jnp.asarray(sequences), kind=kind, low=low, high=high)
    return np.asarray(found.weight), np.asarray(found.outside)


def by_definition(log_ratio, kind):
    """One response's weights."""
    ratios = [np.exp(x) for x in log_ratio]
    product = np.prod(ratios)
    if kind == "token":
        return [min(max(w, LOW), HIGH) for w in ratios]
    if kind == "sequence":
        return [min(max(product, LOW), HIGH)] * len(ratios)
    if kind == "icepop":
        return [w if LOW <= w <= HIGH else 0.0 for w in ratios]
    return [float(LOW <= product ** (1 / len(ratios)) <= HIGH)] * len(ratios)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_its_definition_on_random_responses(kind):
    active = []
    for seed in range(20):
        old, rollout = rows_of(seed, 1.0), rows_of(seed, 1.0) + rows_of(100 + seed, 0.9)
        rollout[0, :3] = np.nan if seed % 2 else rollout[0, :3]  # a sampler that says nothing of the first response
        weight, outside = correction(old, rollout, kind)
        for row, response in ((0, 1), (0, 2), (1, 1)):
            here = SEQUENCES[row] == response
            expected = by_definition(np.nan_to_num((old - rollout)[row][here]), kind)
            np.testing.assert_allclose(weight[row][here], expected, rtol=1e-5)
        active.append(outside[~PADDING].mean())
    assert 0.1 < np.mean(active) < 0.9


@pytest.mark.parametrize(
    ("kind", "weights", "outside"),
    [
        # w is 2 and 1/4 in the first response, whose product is 1/2 and whose geometric mean 0.71; 3/4 in the second
        ("token", [1.5, 0.6, 0.75], [True, True, False]),
        ("sequence", [0.6, 0.6, 0.75], [True, True, False]),
        ("icepop", [0.0, 0.0, 0.75], [True, True, False]),
        ("geometric", [1.0, 1.0, 1.0], [False, False, False]),
    ],
)
def test_every_kind_on_ratios_of_two_a_quarter_and_three_quarters(kind, weights, outside):
    log_ratio = np.log([[2.0, 0.25, 0.75]])
    found, beyond = correction(log_ratio, np.zeros((1, 3)), kind, np.array([[1, 1, 2]]))
    np.testing.assert_allclose(found[0], weights, rtol=1e-6)
    assert beyond[0].tolist() == outside


def test_geometric_rejection_drops_whole_responses():
    log_ratio = np.log([[2.0, 2.0, 4.0, 0.25]])
    weight, outside = correction(log_ratio, np.zeros((1, 4)), "geometric", np.array([[1, 1, 2, 2]]))
    assert (weight[0].tolist(), outside[0].tolist()) == ([0, 0, 1, 1], [True, True, False, False])


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_hold_and_a_response_stays_one_in_any_place(kind):
    for seed in range(10):
        old, rollout = rows_of(seed, 1.0), rows_of(50 + seed, 1.0)
        weight, outside = correction(old, rollout, kind)
        inside = weight[~PADDING & ~outside]
        assert ((inside >= LOW - 1e-6) & (inside <= HIGH + 1e-6)).all()
        if kind in ("icepop", "geometric"):
            assert not weight[~PADDING & outside].any()
        if kind in ("sequence", "geometric"):
            assert len(set(weight[1][SEQUENCES[1] == 1].tolist())) == 1
        turned = [np.roll(x, 2, axis=1)[::-1] for x in (old, rollout, SEQUENCES)]
        elsewhere, _ = correction(*turned[:2], kind, turned[2])
        np.testing.assert_array_equal(np.roll(elsewhere[::-1], -2, axis=1)[~PADDING], weight[~PADDING])


@pytest.mark.parametrize("kind", KINDS)
def test_a_sampler_like_the_training_graph_and_one_that_says_nothing_change_nothing(kind):
    old = rows_of(0, 1.0)
    for rollout in (old, np.full_like(old, np.nan)):
        weight, outside = correction(old, rollout, kind, low=1.0, high=1.0)
        assert (weight[~PADDING] == 1).all() and not outside[~PADDING].any()


@pytest.mark.parametrize("kind", KINDS)
def test_ratios_stay_finite_however_long_a_response_and_far_its_sampler(kind):
    old, rollout = np.zeros((1, 400)), np.full((1, 400), -1e4)
    weight, _ = correction(old, rollout, kind, np.ones((1, 400), int), low=0.0, high=np.exp(2 * MAX_LOG_RATIO))
    assert np.isfinite(weight).all()


def test_bounds_without_an_upper_one_are_refused():
    for settings in ({"importance": "icepop"}, {"importance_floor": 0.5}):
        with pytest.raises(ValueError, match="without importance_cap nothing is weighed"):
            GRPOConfig(**settings)
