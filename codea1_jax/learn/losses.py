"""The GRPO objective, token by token: clipped policy loss, KL penalty, reductions.

Every function is pure and takes arrays of one shape, in which each element is a response token.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.config import GRPOConfig

# Log-ratios are cut here before they are exponentiated, so that no token overflows float32.
MAX_LOG_RATIO = 20.0
MAX_KL = 10.0

# A token on whose log-probability the sampler and the training graph differ by more counts as mismatched.
MISMATCH = 0.1


class PolicyLoss(NamedTuple):
    """Per-token policy loss, and where which bound was active."""

    loss: Float[Array, "*tokens"]
    clipped_low: Bool[Array, "*tokens"]
    clipped_high: Bool[Array, "*tokens"]
    clipped_dual: Bool[Array, "*tokens"]


def importance_ratio(
    logprobs: Float[Array, "*tokens"], old_logprobs: Float[Array, "*tokens"]
) -> Float[Array, "*tokens"]:
    """π(token) / π_old(token)."""
    return jnp.exp(jnp.clip(logprobs - old_logprobs, -MAX_LOG_RATIO, MAX_LOG_RATIO))


def sequence_ratio(
    logprobs: Float[Array, "rows targets"],
    old_logprobs: Float[Array, "rows targets"],
    sequences: Int[Array, "rows targets"],
) -> Float[Array, "rows targets"]:
    """At each token the geometric mean of its response's ratios (GSPO, arXiv 2507.18071, equation 7).

    Here a response weighs in the loss by its number of tokens, as everywhere in the token mean; in GSPO's own
    objective all weigh the same.
    """

    def one_row(log_ratio: Array, sequence: Array) -> Array:
        total = partial(jax.ops.segment_sum, segment_ids=sequence, num_segments=sequence.size + 1)
        return (total(log_ratio) / jnp.maximum(total(jnp.ones_like(log_ratio)), 1))[sequence]

    log_ratio = jnp.clip(logprobs - old_logprobs, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return jnp.exp(jax.vmap(one_row)(log_ratio, sequences))


def truncated_importance(
    old_logprobs: Float[Array, "*tokens"], rollout_logprobs: Float[Array, "*tokens"], cap: float
) -> Float[Array, "*tokens"]:
    """min(π_old / π_rollout, cap): corrects for a sampler whose numbers are not the training graph's
    (https://fengyao.notion.site/off-policy-rl). 1 where the sampler's logprob is NaN, unknown; a constant.
    """
    weight = jnp.minimum(importance_ratio(old_logprobs, rollout_logprobs), cap)
    return jax.lax.stop_gradient(jnp.where(jnp.isnan(rollout_logprobs), 1.0, weight))


def clipped_policy_loss(
    ratio: Float[Array, "*tokens"],
    advantages: Float[Array, "*tokens"],
    *,
    clip_low: float,
    clip_high: float,
    dual_clip: float,
) -> PolicyLoss:
    """PPO's clipped loss (arXiv 1707.06347) with separate bounds (DAPO, arXiv 2503.14476) and, where the
    advantage is negative, the dual clip (arXiv 1912.09729): the loss never exceeds -advantage * dual_clip.
    """
    plain = -advantages * ratio
    clipped = -advantages * jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
    pessimistic = jnp.maximum(plain, clipped)
    bound = -advantages * dual_clip
    negative = advantages < 0
    return PolicyLoss(
        loss=jnp.where(negative, jnp.minimum(pessimistic, bound), pessimistic),
        clipped_low=(clipped > plain) & negative,
        clipped_high=(clipped > plain) & ~negative,
        clipped_dual=(pessimistic > bound) & negative,
    )


def k3_kl(logprobs: Float[Array, "*tokens"], reference_logprobs: Float[Array, "*tokens"]) -> Float[Array, "*tokens"]:
    """The k3 estimate of KL(π || π_ref) from a token sampled from π (http://joschu.net/blog/kl-approx.html)."""
    difference = jnp.clip(reference_logprobs - logprobs, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    return jnp.clip(jnp.exp(difference) - difference - 1, -MAX_KL, MAX_KL)


def masked_sum(
    values: Float[Array, "*tokens"] | Bool[Array, "*tokens"], mask: Float[Array, "*tokens"]
) -> Float[Array, ""]:
    """Sum over the tokens whose mask is 1; what stands elsewhere, a NaN included, has no influence."""
    return jnp.sum(jnp.where(mask > 0, values.astype(mask.dtype), 0.0) * mask)


class Mismatch(NamedTuple):
    """|log π_old - log π_rollout| over the tokens whose sampler gave its logprob: their number, sum, the number
    over `MISMATCH`, and the largest.
    """

    tokens: Float[Array, ""]
    difference: Float[Array, ""]
    large: Float[Array, ""]
    largest: Float[Array, ""]


def rollout_mismatch(
    old_logprobs: Float[Array, "*tokens"], rollout_logprobs: Float[Array, "*tokens"], mask: Float[Array, "*tokens"]
) -> Mismatch:
    """How far the training graph is from the sampler."""
    known = jnp.where(jnp.isnan(rollout_logprobs), 0.0, mask)
    difference = jnp.where(known > 0, jnp.abs(old_logprobs - rollout_logprobs), 0.0)
    return Mismatch(jnp.sum(known), jnp.sum(difference), masked_sum(difference > MISMATCH, known), jnp.max(difference))


class TokenSums(NamedTuple):
    """Sums over the tokens of one or more batches; divided by a number of tokens they are the step's metrics.

    `kl` is None where there is no reference.
    """

    tokens: Float[Array, ""]
    loss: Float[Array, ""]
    kl: Float[Array, ""] | None
    entropy: Float[Array, ""]
    ratio: Float[Array, ""]
    clipped_low: Float[Array, ""]
    clipped_high: Float[Array, ""]
    clipped_dual: Float[Array, ""]
    mismatch: Mismatch

    @classmethod
    def zero(cls, *, with_kl: bool) -> TokenSums:
        """The sums over no tokens."""
        zero = jnp.zeros(())
        return cls(
            zero, zero, zero if with_kl else None, zero, zero, zero, zero, zero, Mismatch(zero, zero, zero, zero)
        )

    def merged(self, other: TokenSums) -> TokenSums:
        """Over the tokens of both."""
        sums = jax.tree.map(jnp.add, self, other)
        largest = jnp.maximum(self.mismatch.largest, other.mismatch.largest)
        return sums._replace(mismatch=sums.mismatch._replace(largest=largest))


def grpo_objective(
    logprobs: Float[Array, "*tokens"],
    entropy: Float[Array, "*tokens"],
    *,
    old_logprobs: Float[Array, "*tokens"] | None,
    reference_logprobs: Float[Array, "*tokens"] | None,
    rollout_logprobs: Float[Array, "*tokens"],
    advantages: Float[Array, "*tokens"],
    mask: Float[Array, "*tokens"],
    sequences: Int[Array, "*tokens"],
    config: GRPOConfig,
) -> TokenSums:
    """The sums of one batch; `loss` is the total: policy loss + kl_coef * KL - entropy_coef * entropy.

    `old_logprobs` None: the policy is still the one that is learned from, so every ratio is 1 (its gradient
    is not 0). `reference_logprobs` None: no KL term. `rollout_logprobs` are NaN where unknown; `sequences`
    numbers the responses of each row.
    """
    old = jax.lax.stop_gradient(logprobs) if old_logprobs is None else old_logprobs
    per_token = config.ratio == "token"
    ratio = importance_ratio(logprobs, old) if per_token else sequence_ratio(logprobs, old, sequences)
    policy = clipped_policy_loss(
        ratio,
        advantages,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        dual_clip=config.dual_clip,
    )
    loss = policy.loss
    if config.importance_cap is not None:
        loss = loss * truncated_importance(old, rollout_logprobs, config.importance_cap)
    loss = loss - config.entropy_coef * entropy
    kl = None
    if reference_logprobs is not None:
        kl = k3_kl(logprobs, reference_logprobs)
        loss = loss + config.kl_coef * kl
    return TokenSums(
        tokens=jnp.sum(mask),
        loss=masked_sum(loss, mask),
        kl=None if kl is None else masked_sum(kl, mask),
        entropy=masked_sum(entropy, mask),
        ratio=masked_sum(ratio, mask),
        clipped_low=masked_sum(policy.clipped_low, mask),
        clipped_high=masked_sum(policy.clipped_high, mask),
        clipped_dual=masked_sum(policy.clipped_dual, mask),
        mismatch=rollout_mismatch(jax.lax.stop_gradient(old), rollout_logprobs, mask),
    )


def token_means(sums: TokenSums) -> dict[str, float]:
    """The sums as metrics: means over their tokens; none over no tokens."""
    if not sums.tokens:
        return {}
    means = {
        "loss": sums.loss,
        "kl": sums.kl,
        "entropy": sums.entropy,
        "ratio_mean": sums.ratio,
        "clip_fraction_low": sums.clipped_low,
        "clip_fraction_high": sums.clipped_high,
        "clip_fraction_dual": sums.clipped_dual,
    }
    metrics = {name: float(value / sums.tokens) for name, value in means.items() if value is not None}
    tokens, difference, large, largest = sums.mismatch
    if tokens:
        metrics["rollout_difference_mean"] = float(difference / tokens)
        metrics["rollout_difference_large"] = float(large / tokens)
        metrics["rollout_difference_max"] = float(largest)
    return metrics
