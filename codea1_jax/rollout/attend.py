"""Attention of new tokens over parts of a cache, each by itself, and how the parts' results are put together.

A part's result is its own softmax's and that softmax's normalizer, from which follows what share of the whole each part
has (FlashDecoding; the same identity as in arXiv 2205.14135, section 3.1). So a part may lie anywhere and be read by
any kernel.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.attention.sight import MASKED
from codea1_jax.rollout.cache import KeyValues


class Mixed(NamedTuple):
    """A part's values mixed by a softmax over it alone, and the log of the softmax's sum; both float32.

    Of a part in which nothing may be looked at, the log is about `MASKED`, and the values are finite.
    """

    values: Float[Array, "tiles kv_heads queries head_dim"]
    log_sum: Float[Array, "tiles kv_heads queries"]


def columns_before(ends: Int[Array, "*batch"], columns: int) -> Bool[Array, "*batch columns"]:
    """Which of that many columns come before each end."""
    places = jax.lax.broadcasted_iota(jnp.int32, (*ends.shape, columns), ends.ndim)
    return places < ends[..., None]


def mix(q: Float[Array, "tiles kv_heads queries head_dim"], part: KeyValues, lengths: Int[Array, "#tiles"]) -> Mixed:
    """Every query looks at its tile's first `lengths` columns of a part [tiles, kv_heads, columns, head_dim].

    Scores and softmax are float32 whatever the inputs are.
    """
    raw = jnp.einsum("tkqd,tkcd->tkqc", q, part.keys, preferred_element_type=jnp.float32)
    seen = columns_before(lengths, raw.shape[-1])[:, None, None]
    scores = jnp.where(seen, raw / math.sqrt(q.shape[-1]), MASKED)
    top = jnp.max(scores, axis=-1, keepdims=True)
    weights = jnp.exp(scores - top)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    sums = jnp.einsum("tkqc,tkcd->tkqd", weights.astype(q.dtype), part.values, preferred_element_type=jnp.float32)
    return Mixed(sums / total, (top + jnp.log(total))[..., 0])


def merge(parts: Sequence[Mixed]) -> Float[Array, "tiles kv_heads queries head_dim"]:
    logs = jnp.stack([part.log_sum for part in parts])
    shares = jnp.exp(logs - jnp.max(logs, axis=0, keepdims=True))
    shares = (shares / jnp.sum(shares, axis=0, keepdims=True))[..., None]
    mixed = shares[0] * parts[0].values
    for share, part in zip(shares[1:], parts[1:], strict=True):
        mixed = mixed + share * part.values
    return mixed
