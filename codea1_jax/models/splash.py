"""Causal attention inside segments by splash attention, JAX's Pallas kernel for TPU.

It never holds the scores of a whole sequence, and skips the blocks that the causal mask hides.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernel
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks
from jaxtyping import Array, Float, Int

from codea1_jax.models.layout import on_each_device

LANES = 128  # the kernel takes lengths in multiples of these
BLOCK = 512  # tokens of queries, and of keys, that it works on at once


def splash_attention(
    segment_ids: Int[Array, "batch time"],
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
    interpret: bool = False,
) -> Float[Array, "batch time heads head_dim"]:
    """Equals `masked_attention` under `causal_mask`, on each device's part of the batch and the heads.

    `interpret` runs the kernel where there is no TPU.
    """
    return on_each_device(partial(_on_one_device, interpret=interpret), q, k, v, segment_ids)


def _on_one_device(q: Array, k: Array, v: Array, segment_ids: Array, *, interpret: bool) -> Array:
    time, heads, head_dim = q.shape[1:]
    kv_heads = k.shape[2]
    block = min(BLOCK, time + -time % LANES)
    padding = -time % block
    length = time + padding
    segment_ids, q, k, v = (
        jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2)) for x in (segment_ids, q, k, v)
    )
    group = heads // kv_heads
    grouped = (q / math.sqrt(head_dim)).reshape(-1, length, kv_heads, group, head_dim)
    attend = kernel.make_splash_mqa_single_device(
        masks.MultiHeadMask([masks.CausalMask((length, length))] * group),
        block_sizes=_block_sizes(block),
        interpret=interpret,
    )
    over_heads = jax.vmap(attend, in_axes=(0, 0, 0, None))
    mixed = jax.vmap(over_heads)(
        jnp.einsum("btkgd->bkgtd", grouped),
        jnp.einsum("btkd->bktd", k),
        jnp.einsum("btkd->bktd", v),
        kernel.SegmentIds(segment_ids, segment_ids),
    )
    return jnp.einsum("bkgtd->btkgd", mixed).reshape(-1, length, heads, head_dim)[:, :time]


def _block_sizes(block: int) -> kernel.BlockSizes:
    return kernel.BlockSizes(
        block_q=block,
        block_kv=block,
        block_kv_compute=block,
        block_q_dkv=block,
        block_kv_dkv=block,
        block_kv_dkv_compute=block,
        block_q_dq=block,
        block_kv_dq=block,
    )
