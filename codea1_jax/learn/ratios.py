"""Ratios of a token's probabilities: under the policy and the old policy, and under the old policy and the sampler.

Every function is pure and takes arrays of one shape, in which each element is a response token.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.config import Importance

# Log-ratios are cut here before they are exponentiated, so that no token overflows float32.
MAX_LOG_RATIO = 20.0


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
