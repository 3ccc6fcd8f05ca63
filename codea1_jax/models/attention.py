"""Attention over grouped key/value heads.

The model calls an `Attend`: it hands over this block's queries, keys and values and gets back the mixed
values and whatever the caller wants kept for the layer. Training keeps nothing; a prefill keeps the keys and
values; decoding writes them into its cache. So the model knows no cache layout, and rollouts choose their
own.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

# Finite, so that a row in which everything is masked gives zeros times finite numbers and never a NaN.
MASKED = -1e30


@runtime_checkable
class Attend(Protocol):
    """One layer's attention: (q, k, v, what the layer kept before) -> (mixed values, what it keeps now)."""

    def __call__(
        self,
        q: Float[Array, "batch time heads head_dim"],
        k: Float[Array, "batch time kv_heads head_dim"],
        v: Float[Array, "batch time kv_heads head_dim"],
        kept: Any,
        /,
    ) -> tuple[Float[Array, "batch time heads head_dim"], Any]: ...


def causal_mask(segment_ids: Int[Array, "batch time"]) -> Bool[Array, "batch time time"]:
    """True where a query may look: up to its own place, in its own segment (padding is one too)."""
    time = segment_ids.shape[1]
    same = segment_ids[:, :, None] == segment_ids[:, None, :]
    return same & jnp.tril(jnp.ones((1, time, time), bool))


def masked_attention(
    q: Float[Array, "batch query heads head_dim"],
    k: Float[Array, "batch key kv_heads head_dim"],
    v: Float[Array, "batch key kv_heads head_dim"],
    mask: Bool[Array, "#batch query key"],
) -> Float[Array, "batch query heads head_dim"]:
    """Softmax attention in plain XLA, the reference that every other kernel must equal.

    Scores and softmax are float32 whatever the inputs are.
    """
    batch, query, heads, head_dim = q.shape
    kv_heads = k.shape[2]
    grouped = q.reshape(batch, query, kv_heads, heads // kv_heads, head_dim)
    scores = jnp.einsum("bqkgd,bskd->bkgqs", grouped, k, preferred_element_type=jnp.float32)
    scores = jnp.where(mask[:, None, None], scores / math.sqrt(head_dim), MASKED)
    weights = jax.nn.softmax(scores, axis=-1).astype(v.dtype)
    mixed = jnp.einsum("bkgqs,bskd->bqkgd", weights, v)
    return mixed.reshape(batch, query, heads, head_dim)


def _attend_causal(mask, q, k, v, kept):
    return masked_attention(q, k, v, mask), kept


def _attend_causal_keeping(mask, q, k, v, _kept):
    return masked_attention(q, k, v, mask), (k, v)


def training_attention(segment_ids: Int[Array, "batch time"]) -> Attend:
    """Causal attention inside each segment; keeps nothing."""
    return Partial(_attend_causal, causal_mask(segment_ids))


def prefill_attention(segment_ids: Int[Array, "batch time"]) -> Attend:
    """Causal attention inside each segment; keeps every layer's (keys, values)."""
    return Partial(_attend_causal_keeping, causal_mask(segment_ids))
