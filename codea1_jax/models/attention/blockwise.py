"""Causal attention in plain XLA, one block of queries at a time.

A block of queries meets only the keys up to its own end, so that about half of the scores are never computed,
and the backward pass computes its scores again (FlashAttention, arXiv 2205.14135): what is kept of a layer grows
with the sequence, not with its square.
"""

import math

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from codea1_jax.models.attention.sight import MASKED, MIXED, Sight

BLOCK = 128  # queries, or more where that would be over
MOST_BLOCKS = 16  # blocks: every one is compiled


def blocks_of(time: int) -> list[tuple[int, int]]:
    size = max(BLOCK, -(-time // MOST_BLOCKS))
    return [(start, min(start + size, time)) for start in range(0, time, size)]


def blockwise_attention(
    sight: Sight,
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
) -> Float[Array, "batch time heads head_dim"]:
    """Equals `masked_attention`; scores and softmax are float32 whatever the inputs are."""
    batch, time, heads, head_dim = q.shape
    kv_heads = k.shape[2]
    scaled = q * (1 / math.sqrt(head_dim))
    grouped = jnp.einsum("bqkgd->bkgqd", scaled.reshape(batch, time, kv_heads, heads // kv_heads, head_dim))
    mixed = _mix(sight, grouped, jnp.einsum("bskd->bksd", k), jnp.einsum("bskd->bksd", v))
    return jnp.einsum("bkgqd->bqkgd", mixed).reshape(batch, time, heads, head_dim)


def _scores(sight: Sight, q: Array, k: Array, start: int, end: int) -> Array:
    scores = jnp.einsum("bkgqd,bksd->bkgqs", q[:, :, :, start:end], k[:, :, :end], preferred_element_type=jnp.float32)
    return jnp.where(sight.mask(start, end)[:, None, None], scores, MASKED)


@jax.custom_vjp
def _mix(sight: Sight, q: Array, k: Array, v: Array) -> Array:
    return _forward(sight, q, k, v)[0]


def _forward(sight: Sight, q: Array, k: Array, v: Array) -> tuple[Array, tuple[Array, ...]]:
    mixed, all_logsumexp = [], []
    for start, end in blocks_of(q.shape[3]):
        scores = _scores(sight, q, k, start, end)
        highest = jnp.max(scores, axis=-1, keepdims=True)
        weights = jnp.exp(scores - highest)
        denominator = jnp.sum(weights, axis=-1, keepdims=True)
        accumulator = jnp.einsum("bkgqs,bksd->bkgqd", weights.astype(v.dtype), v[:, :, :end])
        mixed.append(accumulator / denominator.astype(v.dtype))
        all_logsumexp.append(highest + jnp.log(denominator))
    out, logsumexp = (checkpoint_name(jnp.concatenate(x, axis=3), MIXED) for x in (mixed, all_logsumexp))
    return out, (*sight, q, k, v, out, logsumexp)


def _backward(kept: tuple[Array, ...], d_out: Array) -> tuple[None, Array, Array, Array]:
    segments, parents, q, k, v, out, logsumexp = kept
    sight = Sight(segments, parents)
    # The softmax's own gradient needs Σ weights · d weights, which is this (arXiv 2205.14135, appendix B.4).
    delta = jnp.sum((d_out * out).astype(jnp.float32), axis=-1, keepdims=True)
    dq, dk, dv = [], jnp.zeros_like(k), jnp.zeros_like(v)
    for start, end in blocks_of(q.shape[3]):
        queries, d_out_block = q[:, :, :, start:end], d_out[:, :, :, start:end]
        keys, values = k[:, :, :end], v[:, :, :end]
        weights = jnp.exp(_scores(sight, q, k, start, end) - logsumexp[:, :, :, start:end])
        d_scores = jnp.einsum("bkgqd,bksd->bkgqs", d_out_block, values, preferred_element_type=jnp.float32)
        d_scores = (weights * (d_scores - delta[:, :, :, start:end])).astype(q.dtype)
        dq.append(jnp.einsum("bkgqs,bksd->bkgqd", d_scores, keys))
        dk = dk.at[:, :, :end].add(jnp.einsum("bkgqs,bkgqd->bksd", d_scores, queries))
        dv = dv.at[:, :, :end].add(jnp.einsum("bkgqs,bkgqd->bksd", weights.astype(v.dtype), d_out_block))
    return None, jnp.concatenate(dq, axis=3), dk, dv


_mix.defvjp(_forward, _backward)
