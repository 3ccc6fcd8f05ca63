"""The GRPO objective, token by token: clipped policy loss, KL penalty, reductions.

Every function is pure and takes arrays of one shape, in which each element is a response token.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from codea1_jax.learn.config import GRPOConfig

# Log-ratios are cut here before they are exponentiated, so that no token overflows float32.
MAX_LOG_RATIO = 20.0
MAX_KL = 10.0


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
    return jnp.sum(jnp.where(mask > 0, values, 0.0) * mask)


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

    @classmethod
    def zero(cls, *, with_kl: bool) -> TokenSums:
        """The sums over no tokens."""
        zero = jnp.zeros(())
        return cls(zero, zero, zero if with_kl else None, zero, zero, zero, zero, zero)


def grpo_objective(
    logprobs: Float[Array, "*tokens"],
    entropy: Float[Array, "*tokens"],
    *,
    old_logprobs: Float[Array, "*tokens"] | None,
    reference_logprobs: Float[Array, "*tokens"] | None,
    advantages: Float[Array, "*tokens"],
    mask: Float[Array, "*tokens"],
    config: GRPOConfig,
) -> TokenSums:
    """The sums of one batch; `loss` is the total: policy loss + kl_coef * KL - entropy_coef * entropy.

    `old_logprobs` None: the policy is still the one that is learned from, so every ratio is 1 (its gradient
    is not 0). `reference_logprobs` None: no KL term.
    """
    old = jax.lax.stop_gradient(logprobs) if old_logprobs is None else old_logprobs
    ratio = importance_ratio(logprobs, old)
    policy = clipped_policy_loss(
        ratio,
        advantages,
        clip_low=config.clip_low,
        clip_high=config.clip_high,
        dual_clip=config.dual_clip,
    )
    loss = policy.loss - config.entropy_coef * entropy
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
    return {name: float(value / sums.tokens) for name, value in means.items() if value is not None}
