import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parity import load_parity

from codea1_jax.learn.config import GRPOConfig
from codea1_jax.learn.losses import clipped_policy_loss, grpo_objective, importance_ratio, k3_kl, masked_sum

CLIPS = {"clip_low": 0.2, "clip_high": 0.28, "dual_clip": 10.0}


def of(case, *names):
    return [jnp.asarray(case[name], jnp.float32) for name in names]


@pytest.mark.parametrize("case", load_parity()["grpo"])
def test_the_objective_and_its_gradient_equal_the_original(case):
    old, new, reference, advantages, mask = of(
        case, "old_logprobs", "new_logprobs", "ref_logprobs", "advantages", "mask"
    )

    def objective(logprobs):
        sums = grpo_objective(
            logprobs,
            jnp.zeros_like(logprobs),
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


@pytest.mark.parametrize("case", load_parity()["grpo"])
def test_the_policy_loss_equals_the_original(case):
    old, new, advantages, mask = of(case, "old_logprobs", "new_logprobs", "advantages", "mask")
    policy = clipped_policy_loss(importance_ratio(new, old), advantages, **CLIPS)
    assert masked_sum(policy.loss, mask) / mask.sum() == pytest.approx(case["policy_loss"], abs=1e-6)


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
        sums = grpo_objective(
            logprobs,
            jnp.zeros(2),
            old_logprobs=None,
            reference_logprobs=None,
            advantages=jnp.array([1.0, -3.0]),
            mask=jnp.ones(2),
            config=GRPOConfig(kl_coef=0),
        )
        return sums.loss, sums

    gradient, sums = jax.grad(objective, has_aux=True)(jnp.array([-1.0, -2.0]))
    np.testing.assert_array_equal(gradient, [-1.0, 3.0])
    assert sums.ratio == 2 and sums.kl is None


def test_ratio_and_kl_stay_finite_however_far_the_policies_are_apart():
    far = jnp.array([-1e4, 0.0]), jnp.array([0.0, -1e4])
    assert np.isfinite(importance_ratio(*far)).all()
    np.testing.assert_allclose(k3_kl(*far), [10.0, 10.0])
    assert np.isfinite(jax.grad(lambda x: k3_kl(x, far[1]).sum())(far[0])).all()


def test_k3_is_zero_for_equal_policies_and_positive_otherwise():
    logprobs = jnp.array([-1.0, -1.0, -1.0])
    kl = k3_kl(logprobs, jnp.array([-1.0, -1.5, -0.5]))
    assert kl[0] == 0 and (kl[1:] > 0).all()


def test_the_entropy_bonus_lowers_the_loss_by_its_weight():
    def loss(config):
        sums = grpo_objective(
            jnp.zeros(3),
            jnp.array([1.0, 2.0, 100.0]),
            old_logprobs=None,
            reference_logprobs=None,
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
