"""Ratios of a token's probabilities: under the policy and the old policy, and under the old policy and the sampler.

Every function is pure and takes arrays of one shape, in which each element is a response token.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.config import Importance

# Log-ratios are cut here before they are exponentiated, so that no token overflows float32.
MAX_LOG_RATIO = 20.0


def importance_ratio(
    logprobs: Float[Array, "*tokens"], old_logprobs: Float[Array, "*tokens"]
) -> Float[Array, "*tokens"]:
    """π(token) / π_old(token)."""
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
    return jnp.exp(_of_responses(_cut(logprobs - old_logprobs), sequences, mean=True))


class Correction(NamedTuple):
    """What each token's policy loss is multiplied with, a constant, and where the bounds were active."""

    weight: Float[Array, "*tokens"]
    outside: Bool[Array, "*tokens"]


def sampler_correction(
    old_logprobs: Float[Array, "*tokens"],
    rollout_logprobs: Float[Array, "*tokens"],
    sequences: Int[Array, "*tokens"],
    *,
    kind: Importance,
    low: float,
    high: float,
) -> Correction:
    """Corrects for a sampler whose probabilities are not the training graph's. With w = π_old / π_rollout of a token:

    token      w, cut to [low, high] (truncated importance sampling, https://fengyao.notion.site/off-policy-rl)
    sequence   the product of w over the response, cut (verl, docs/algo/rollout_corr_math.md, 3.3.2)
    icepop     w, and 0 outside of [low, high] (IcePop, arXiv 2510.18855, its masking function M)
    geometric  1, and 0 for a response whose geometric mean of w is outside (the same page of verl, 3.3.3)

    Where the sampler's logprob is NaN, unknown, w counts as 1, which lies within the bounds.
    """
    log_ratio = jnp.where(jnp.isnan(rollout_logprobs), 0.0, _cut(old_logprobs - rollout_logprobs))
    if kind in ("sequence", "geometric"):
        log_ratio = _cut(_of_responses(log_ratio, sequences, mean=kind == "geometric"))
    ratio = jnp.exp(log_ratio)
    outside = (ratio < low) | (ratio > high)
    if kind in ("icepop", "geometric"):
        weight = jnp.where(outside, 0.0, ratio if kind == "icepop" else 1.0)
    else:
        weight = jnp.clip(ratio, low, high)
    return Correction(jax.lax.stop_gradient(weight), outside)


def _cut(log_ratio: Array) -> Array:
    return jnp.clip(log_ratio, -MAX_LOG_RATIO, MAX_LOG_RATIO)


def _of_responses(values: Array, sequences: Array, *, mean: bool) -> Array:
    """At each token the sum over its response, or the mean."""

    def one_row(row: Array, sequence: Array) -> Array:
        total = partial(jax.ops.segment_sum, segment_ids=sequence, num_segments=sequence.size + 1)
        of_each = total(row) / jnp.maximum(total(jnp.ones_like(row)), 1) if mean else total(row)
        return of_each[sequence]

    return jax.vmap(one_row)(values, sequences)
