import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parity import load_parity

from codea1_jax.config import GRPOConfig
from codea1_jax.learn.losses import (
    TokenSums,
    cispo_loss,
    clipped_policy_loss,
    grpo_objective,
    importance_ratio,
    k3_kl,
    masked_sum,
    sampler_correction,
    token_means,
)

CLIPS = {"clip_low": 0.2, "clip_high": 0.28}


def objective_of(logprobs, **given):
    """The objective where nothing is known of the sampler and all tokens are of one response."""
    unknown = {
        "entropy": jnp.zeros_like(logprobs),
        "old_logprobs": jnp.full_like(logprobs, jnp.nan),
        "reference_logprobs": None,
        "rollout_logprobs": jnp.full_like(logprobs, jnp.nan),
        "mask": jnp.ones_like(logprobs),
        "sequences": jnp.ones(logprobs.shape, jnp.int32),
    }
    return grpo_objective(logprobs, **unknown | given)


def of(case, *names):
    return [jnp.asarray(case[name], jnp.float32) for name in names]


@pytest.mark.parametrize("case", load_parity()["grpo"])
def test_the_objective_and_its_gradient_equal_the_original(case):
    old, new, reference, advantages, mask = of(
        case, "old_logprobs", "new_logprobs", "ref_logprobs", "advantages", "mask"
    )

    def objective(logprobs):
        sums = objective_of(
            logprobs,
            old_logprobs=old,
            reference_logprobs=reference,
            advantages=advantages,
            mask=mask,
            config=GRPOConfig(),
        )
        return sums.loss / mask.sum(), sums

    (loss, sums), gradient = jax.value_and_grad(objective, has_aux=True)(new)
    tokens = mask.sum()
    assert loss == pytest.approx(case["total_loss"], abs=1e-6)
    assert sums.kl / tokens == pytest.approx(case["kl_k3_token_mean"], abs=1e-6)
    clipped = sums.clipped_low + sums.clipped_high
    assert clipped / tokens == pytest.approx(case["clip_fraction"], abs=1e-6)
    assert sums.clipped_dual / tokens == pytest.approx(case["clip_fraction_lower"], abs=1e-6)
    np.testing.assert_allclose(gradient, case["grad_new_logprobs"], atol=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "bound"),
    [
        (1.0, 2.0, -2.0, None),
        (1.5, 2.0, -2.56, "clipped_high"),
        (0.5, 2.0, -1.0, None),
        (0.5, -2.0, 1.6, "clipped_low"),
        (1.5, -2.0, 3.0, None),
        (12.0, -2.0, 20.0, "clipped_dual"),
    ],
)
def test_each_bound_acts_on_its_own_side(ratio, advantage, loss, bound):
    policy = clipped_policy_loss(jnp.float32(ratio), jnp.float32(advantage), **CLIPS)
    assert policy.loss == pytest.approx(loss, abs=1e-6)
    active = {name for name in ("clipped_low", "clipped_high", "clipped_dual") if getattr(policy, name)}
    assert active == ({bound} if bound else set())


def test_an_unchanged_policy_has_ratio_one_and_a_policy_gradient():
    def objective(logprobs):
        sums = objective_of(logprobs, advantages=jnp.array([1.0, -3.0]), config=GRPOConfig(kl_coef=0))
        return sums.loss, sums

    gradient, sums = jax.grad(objective, has_aux=True)(jnp.array([-1.0, -2.0]))
    np.testing.assert_array_equal(gradient, [-1.0, 3.0])
    assert sums.ratio == 2 and sums.kl is None


def test_ratio_and_kl_stay_finite_however_far_the_policies_are_apart():
    far = jnp.array([-1e4, 0.0]), jnp.array([0.0, -1e4])
    assert np.isfinite(importance_ratio(*far)).all()
    np.testing.assert_allclose(k3_kl(*far), [10.0, 10.0])
    assert np.isfinite(jax.grad(lambda x: k3_kl(x, far[1]).sum())(far[0])).all()


def test_the_entropy_bonus_lowers_the_loss_by_its_weight():
    def loss(config):
        sums = objective_of(
            jnp.zeros(3),
            entropy=jnp.array([1.0, 2.0, 100.0]),
            advantages=jnp.ones(3),
            mask=jnp.array([1.0, 1.0, 0.0]),
            config=config,
        )
        return float(sums.loss)

    plain, bonus = GRPOConfig(kl_coef=0), GRPOConfig(kl_coef=0, entropy_coef=0.1)
    assert loss(plain) - loss(bonus) == pytest.approx(0.3, abs=1e-6)


def test_what_stands_outside_the_mask_has_no_influence_even_a_nan():
    values, mask = jnp.array([1.0, jnp.nan]), jnp.array([1.0, 0.0])
    assert masked_sum(values, mask) == 1
    np.testing.assert_array_equal(jax.grad(masked_sum)(values, mask), [1.0, 0.0])


# Two rows: responses of 3 and 2 tokens, and one of 4; then padding.
SEQUENCES = np.array([[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]])
MASK = (SEQUENCES > 0).astype(np.float32)


def rows_of(seed, scale):
    return np.random.default_rng(seed).normal(scale=scale, size=SEQUENCES.shape)


def test_the_sequence_ratio_is_the_geometric_mean_of_the_tokens_ratios_clipped_as_one():
    """GSPO's objective (arXiv 2507.18071, equations 5 and 7) response by response, and its gradient by differences."""
    old, advantages = rows_of(0, 1.0), np.array([[1.0] * 3 + [-2.0] * 2 + [0.0], [-0.5] * 6])
    new = old + rows_of(1, 0.3)
    config = GRPOConfig(kl_coef=0, ratio="sequence", clip_low=0.1, clip_high=0.05)

    def numpy_loss(new):
        loss = 0.0
        for row, response in ((0, 1), (0, 2), (1, 1)):
            tokens = SEQUENCES[row] == response
            advantage = advantages[row][tokens][0]
            ratio = np.exp((new - old)[row][tokens].mean())
            loss -= tokens.sum() * min(ratio * advantage, np.clip(ratio, 0.9, 1.05) * advantage)
        return loss

    def objective(new):
        sums = objective_of(
            new,
            old_logprobs=jnp.asarray(old, jnp.float32),
            advantages=jnp.asarray(advantages, jnp.float32),
            mask=jnp.asarray(MASK),
            sequences=jnp.asarray(SEQUENCES),
            config=config,
        )
        return sums.loss, sums

    (loss, sums), gradient = jax.value_and_grad(objective, has_aux=True)(jnp.asarray(new, jnp.float32))
    assert loss == pytest.approx(numpy_loss(new), abs=1e-5)
    assert sums.clipped_low + sums.clipped_high > 0
    for place in np.argwhere(MASK):
        step = np.zeros_like(new)
        step[tuple(place)] = 1e-6
        slope = (numpy_loss(new + step) - numpy_loss(new - step)) / 2e-6
        assert gradient[tuple(place)] == pytest.approx(slope, abs=1e-4)


def test_cispo_by_hand():
    """-A · clip(ratio) · log π: the ratios 1/2, 1 and 8 weigh 0.8, 1 and 5, and so do the gradients."""
    ratio, advantages = jnp.array([0.5, 1.0, 8.0]), jnp.array([1.0, -2.0, 3.0])

    def loss(logprobs):
        policy = cispo_loss(logprobs, ratio, advantages, clip_low=0.2, clip_high=4.0)
        return policy.loss.sum(), policy

    gradient, policy = jax.grad(loss, has_aux=True)(jnp.array([-1.0, -0.5, -2.0]))
    np.testing.assert_allclose(policy.loss, [0.8, -1.0, 30.0], rtol=1e-6)
    np.testing.assert_allclose(gradient, [-0.8, 2.0, -15.0], rtol=1e-6)
    assert policy.clipped_low.tolist() == [True, False, False]
    assert policy.clipped_high.tolist() == [False, False, True]
    assert not policy.clipped_dual.any()


def test_cispos_gradient_is_that_of_a_weighted_log_likelihood_and_no_token_loses_it():
    old, new, advantages = rows_of(0, 1.0), rows_of(0, 1.0) + rows_of(2, 0.5), rows_of(1, 1.0)
    given = {"old_logprobs": jnp.asarray(old, jnp.float32), "advantages": jnp.asarray(advantages, jnp.float32)}

    def loss(logprobs):
        config = GRPOConfig(loss="cispo", kl_coef=0)
        return objective_of(logprobs, **given, mask=jnp.asarray(MASK), config=config).loss

    found = jax.grad(loss)(jnp.asarray(new, jnp.float32))
    expected = -np.clip(np.exp(new - old), 0.8, 1.28) * advantages * MASK
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    assert (found[MASK > 0] != 0).all()


@pytest.mark.parametrize("kind", ["token", "icepop"])
def test_a_correction_weighs_each_tokens_loss_and_what_stands_at_the_padding_has_no_influence(kind):
    """Over the old log-probabilities a NaN stands there too, and huge numbers elsewhere."""
    old, rollout = rows_of(0, 1.0), rows_of(0, 1.0) + rows_of(2, 0.8)
    rollout[0, :3] -= 0.5  # of the whole first response
    rollout[1] = np.nan  # a sampler that says nothing
    rollout[MASK == 0] = np.nan
    advantages = np.where(MASK > 0, rows_of(3, 1.0), 1e30)
    known = jnp.asarray(np.where(MASK > 0, old, np.nan), jnp.float32)
    bounds = {"low": 0.7, "high": 1.5}
    unknown = jnp.asarray(rollout, jnp.float32)
    weight, outside = map(np.asarray, sampler_correction(known, unknown, kind=kind, **bounds))

    def objective(new):
        sums = objective_of(
            new,
            old_logprobs=known,
            rollout_logprobs=unknown,
            advantages=jnp.asarray(advantages, jnp.float32),
            mask=jnp.asarray(MASK),
            sequences=jnp.asarray(SEQUENCES),
            config=GRPOConfig(kl_coef=0, importance=kind, importance_cap=1.5, importance_floor=0.7),
        )
        return sums.loss, sums

    there = MASK > 0
    assert outside[there].any() and (weight[1][there[1]] == 1).all()
    (loss, sums), gradient = jax.value_and_grad(objective, has_aux=True)(jnp.asarray(old, jnp.float32))
    assert loss == pytest.approx(-(weight * advantages)[there].sum(), rel=1e-5)
    np.testing.assert_allclose(gradient[there], -(weight * advantages)[there], rtol=1e-4)
    figures = token_means(sums)
    assert figures["clip_fraction_importance"] == pytest.approx(outside[there].mean())
    assert np.isfinite(list(figures.values())).all()


def test_the_mismatch_with_the_sampler_is_measured_where_it_is_known_over_micro_batches():
    old, rollout = jnp.array([-1.0, -2.0, -3.0, -4.0]), jnp.array([-1.05, -2.5, jnp.nan, 7.0])
    mask, config = jnp.array([1.0, 1.0, 1.0, 0.0]), GRPOConfig(kl_coef=0)
    sums = TokenSums.zero(config)
    for here in (slice(1), slice(1, 4)):
        given = {"rollout_logprobs": rollout[here], "mask": mask[here], "advantages": jnp.ones(4)[here]}
        sums = sums.merged(objective_of(old[here], **given, config=config))
    metrics = token_means(sums)
    assert metrics["rollout_difference_mean"] == pytest.approx(0.275, abs=1e-6)
    assert metrics["rollout_difference_max"] == pytest.approx(0.5, abs=1e-6)
    assert metrics["rollout_difference_large"] == 0.5
    # ratios of e^0.05 = 1.051271 and e^0.5 = 1.648721: squares of 1.105171 and 2.718282
    assert metrics["rollout_ratio_mean"] == pytest.approx(1.349996, abs=1e-5)
    assert metrics["rollout_ratio_max"] == pytest.approx(1.648721, abs=1e-5)
    assert metrics["effective_sample_size"] == pytest.approx(2.699992**2 / (2 * 3.823453), abs=1e-5)
    assert "clip_fraction_importance" not in metrics
    assert sums.loss == -3


def test_nothing_is_said_of_a_sampler_that_says_nothing():
    sums = objective_of(jnp.zeros(2), advantages=jnp.ones(2), config=GRPOConfig(kl_coef=0))
    assert not any(name.startswith(("rollout", "effective")) for name in token_means(sums))
