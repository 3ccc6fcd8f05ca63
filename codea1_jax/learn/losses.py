"""The GRPO objective, token by token: ratios of probabilities, clipped policy loss, KL penalty, reductions.

Every function is pure and takes arrays of one shape, in which each element is a response token.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.config import GRPOConfig, Importance

# Log-ratios are cut here before they are exponentiated, so that no token overflows float32.
MAX_LOG_RATIO = 20.0
MAX_KL = 10.0

# A token on whose log-probability the sampler and the training graph differ by more counts as mismatched.
MISMATCH = 0.1
DUAL_CLIP = 10.0  # as in the original


def importance_ratio(
    logprobs: Float[Array, "*tokens"], old_logprobs: Float[Array, "*tokens"]
) -> Float[Array, "*tokens"]:
    return jnp.exp(_cut(logprobs - old_logprobs))


def sequence_ratio(
    logprobs: Float[Array, "rows targets"],
    old_logprobs: Float[Array, "rows targets"],
    sequences: Int[Array, "rows targets"],
) -> Float[Array, "rows targets"]:
    """At each token the geometric mean of its response's ratios (GSPO, arXiv 2507.18071, equation 7).

    Here a response weighs in the loss by its number of tokens, as everywhere in the token mean; in GSPO's own
    objective all weigh the same.
    """

    def one_row(row: Array, sequence: Array) -> Array:
        total = partial(jax.ops.segment_sum, segment_ids=sequence, num_segments=sequence.size + 1)
        return (total(row) / jnp.maximum(total(jnp.ones_like(row)), 1))[sequence]

    return jnp.exp(jax.vmap(one_row)(_cut(logprobs - old_logprobs), sequences))


def sampler_correction(
    old_logprobs: Float[Array, "*tokens"],
    rollout_logprobs: Float[Array, "*tokens"],
    *,
    kind: Importance,
    low: float,
    high: float,
) -> tuple[Float[Array, "*tokens"], Bool[Array, "*tokens"]]:
    """What each token's policy loss is multiplied with, a constant, and where the bounds were active.

    It corrects for a sampler whose probabilities are not the training graph's. With w = π_old / π_rollout of a token:

    token   w, cut to [low, high] (truncated importance sampling, https://fengyao.notion.site/off-policy-rl)
    icepop  w, and 0 outside of [low, high] (IcePop, arXiv 2510.18855, its masking function M)

    Where the sampler's logprob is NaN, unknown, w counts as 1, which lies within the bounds.
    """
    ratio = jnp.exp(jnp.where(jnp.isnan(rollout_logprobs), 0.0, _cut(old_logprobs - rollout_logprobs)))
    outside = (ratio < low) | (ratio > high)
    weight = jnp.where(outside, 0.0, ratio) if kind == "icepop" else jnp.clip(ratio, low, high)
    return jax.lax.stop_gradient(weight), outside


def _cut(log_ratio: Array) -> Array:
    return jnp.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)


class PolicyLoss(NamedTuple):
    loss: Float[Array, "*tokens"]
    clipped_low: Bool[Array, "*tokens"]
    clipped_high: Bool[Array, "*tokens"]
    clipped_dual: Bool[Array, "*tokens"]


def clipped_policy_loss(
    ratio: Float[Array, "*tokens"], advantages: Float[Array, "*tokens"], *, clip_low: float, clip_high: float
) -> PolicyLoss:
    """PPO's clipped loss (arXiv 1707.06347) with separate bounds (DAPO, arXiv 2503.14476) and, where the
    advantage is negative, the dual clip (arXiv 1912.09729): the loss never exceeds -advantage * DUAL_CLIP.
    """
    plain = -advantages * ratio
    clipped = -advantages * jnp.clip(ratio, 1 - clip_low, 1 + clip_high)
    pessimistic = jnp.maximum(plain, clipped)
    bound = -advantages * DUAL_CLIP
    negative = advantages < 0
    return PolicyLoss(
        loss=jnp.where(negative, jnp.minimum(pessimistic, bound), pessimistic),
        clipped_low=(clipped > plain) & negative,
        clipped_high=(clipped > plain) & ~negative,
        clipped_dual=(pessimistic > bound) & negative,
    )


def cispo_loss(
    logprobs: Float[Array, "*tokens"],
    ratio: Float[Array, "*tokens"],
    advantages: Float[Array, "*tokens"],
    *,
    clip_low: float,
    clip_high: float,
) -> PolicyLoss:
    """-advantage · log π, weighed by the clipped ratio as a constant (CISPO, arXiv 2506.13585, equations 4 and 5).

    Beyond the bounds the weight stops growing, but no token loses its gradient.
    """
    low, high = 1 - clip_low, 1 + clip_high
    weight = jax.lax.stop_gradient(jnp.clip(ratio, low, high))
    return PolicyLoss(-weight * advantages * logprobs, ratio < low, ratio > high, jnp.zeros_like(ratio, bool))


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
    """The old policy against the sampler, over the tokens whose sampler gave its logprob: their number; of
    |log π_old - log π_rollout| the sum, the number over `MISMATCH`, and the largest; of the raw ratio
    w = π_old / π_rollout the sum, the sum of squares, and the largest.
    """

    tokens: Float[Array, ""]
    difference: Float[Array, ""]
    large: Float[Array, ""]
    largest: Float[Array, ""]
    ratio: Float[Array, ""]
    square: Float[Array, ""]
    largest_ratio: Float[Array, ""]

    def merged(self, other: Mismatch) -> Mismatch:
        sums = jax.tree.map(jnp.add, self, other)
        largest = jnp.maximum(self.largest, other.largest)
        return sums._replace(largest=largest, largest_ratio=jnp.maximum(self.largest_ratio, other.largest_ratio))

    def metrics(self) -> dict[str, float]:
        """Means and largest; the effective sample size (Σw)² / Σw² is a share of the tokens. None over no tokens."""
        if not self.tokens:
            return {}
        return {
            "rollout_difference_mean": float(self.difference / self.tokens),
            "rollout_difference_large": float(self.large / self.tokens),
            "rollout_difference_max": float(self.largest),
            "rollout_ratio_mean": float(self.ratio / self.tokens),
            "rollout_ratio_max": float(self.largest_ratio),
            "effective_sample_size": float(self.ratio / self.square * (self.ratio / self.tokens)),
        }


def rollout_mismatch(
    old_logprobs: Float[Array, "*tokens"], rollout_logprobs: Float[Array, "*tokens"], mask: Float[Array, "*tokens"]
) -> Mismatch:
    known = jnp.where(jnp.isnan(rollout_logprobs), 0.0, mask)
    difference = jnp.where(known > 0, jnp.abs(old_logprobs - rollout_logprobs), 0.0)
    ratio = importance_ratio(old_logprobs, rollout_logprobs)
    return Mismatch(
        tokens=jnp.sum(known),
        difference=jnp.sum(difference),
        large=masked_sum(difference > MISMATCH, known),
        largest=jnp.max(difference),
        ratio=masked_sum(ratio, known),
        square=masked_sum(jnp.square(ratio), known),
        largest_ratio=jnp.max(jnp.where(known > 0, ratio, 0.0)),
    )


class TokenSums(NamedTuple):
    """Sums over the tokens of one or more batches; divided by a number of tokens they are the step's metrics.

    `kl` is None without a reference, `outside` without a correction for the sampler.
    """

    tokens: Float[Array, ""]
    loss: Float[Array, ""]
    kl: Float[Array, ""] | None
    entropy: Float[Array, ""]
    ratio: Float[Array, ""]
    clipped_low: Float[Array, ""]
    clipped_high: Float[Array, ""]
    clipped_dual: Float[Array, ""]
    outside: Float[Array, ""] | None
    mismatch: Mismatch

    @classmethod
    def zero(cls, config: GRPOConfig) -> TokenSums:
        zero = jnp.zeros(())
        sums = cls(*(zero for _ in cls._fields[:-1]), mismatch=Mismatch(*(zero for _ in Mismatch._fields)))
        sums = sums if config.kl_coef else sums._replace(kl=None)
        return sums._replace(outside=None) if config.importance_cap is None else sums

    def merged(self, other: TokenSums) -> TokenSums:
        sums = jax.tree.map(jnp.add, self, other)
        return sums._replace(mismatch=self.mismatch.merged(other.mismatch))


def grpo_objective(
    logprobs: Float[Array, "*tokens"],
    entropy: Float[Array, "*tokens"],
    *,
    old_logprobs: Float[Array, "*tokens"],
    reference_logprobs: Float[Array, "*tokens"] | None,
    rollout_logprobs: Float[Array, "*tokens"],
    advantages: Float[Array, "*tokens"],
    mask: Float[Array, "*tokens"],
    sequences: Int[Array, "*tokens"],
    config: GRPOConfig,
) -> TokenSums:
    """The sums of one batch; `loss` is the total: policy loss + kl_coef * KL - entropy_coef * entropy.

    `old_logprobs` NaN: the policy is still the one that is learned from, so the ratio is 1 (its gradient is not 0).
    `reference_logprobs` None: no KL term. `rollout_logprobs` are NaN where unknown; `sequences` numbers the responses
    of each row.
    """
    old = jnp.where(jnp.isnan(old_logprobs), jax.lax.stop_gradient(logprobs), old_logprobs)
    per_token = config.ratio == "token"
    ratio = importance_ratio(logprobs, old) if per_token else sequence_ratio(logprobs, old, sequences)
    policy = _policy_loss(logprobs, ratio, advantages, config)
    loss, outside = policy.loss, None
    if config.importance_cap is not None:
        bounds = {"low": config.importance_floor, "high": config.importance_cap}
        weight, beyond = sampler_correction(old, rollout_logprobs, kind=config.importance, **bounds)
        loss, outside = loss * weight, masked_sum(beyond, mask)
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
        outside=outside,
        mismatch=rollout_mismatch(jax.lax.stop_gradient(old), rollout_logprobs, mask),
    )


def _policy_loss(logprobs: Array, ratio: Array, advantages: Array, config: GRPOConfig) -> PolicyLoss:
    clips = {"clip_low": config.clip_low, "clip_high": config.clip_high}
    if config.loss == "cispo":
        return cispo_loss(logprobs, ratio, advantages, **clips)
    return clipped_policy_loss(ratio, advantages, **clips)


def token_means(sums: TokenSums) -> dict[str, float]:
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
        "clip_fraction_importance": sums.outside,
    }
    metrics = {name: float(value / sums.tokens) for name, value in means.items() if value is not None}
    return metrics | sums.mismatch.metrics()
