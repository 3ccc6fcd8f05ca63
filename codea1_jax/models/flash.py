"""Causal attention inside segments on CUDA in half precision, by JAX's Pallas kernel.

It stores neither scores nor masks of a whole sequence, forward and backward, and compares segment ids block by block.

Why not cuDNN: JAX hands it a mask as a bias, and asks for the bias's gradient, which is as large as all scores. Its
variable-length form (`q_offsets`, below JAX's public function) does not serve yet: JAX 0.10.2 computes wrong offsets
for the keys of grouped queries (fixed in jax-ml/jax#39521), XLA allocates a float32 workspace of a whole row for every
segment, and GPUs before Hopper do not have it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import cast

import jax.numpy as jnp
from jax.experimental.pallas.ops.gpu.attention import mha
from jaxtyping import Array, Float, Int

from codea1_jax.models.layout import on_each_device

BLOCK = 128  # the Pallas kernel takes lengths in multiples of these


def flash_attention(
    segment_ids: Int[Array, "batch time"],
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
    interpret: bool = False,
) -> Float[Array, "batch time heads head_dim"]:
    """Equals `masked_attention` under `causal_mask`; Pallas' kernel. `interpret` runs it where there is no GPU."""
    return on_each_device(partial(_on_one_device, interpret=interpret), q, k, v, segment_ids)


def _on_one_device(q: Array, k: Array, v: Array, segment_ids: Array, *, interpret: bool) -> Array:
    time, heads, head_dim = q.shape[1:]
    group, padding = heads // k.shape[2], -time % BLOCK
    q, k, v, segment_ids = (
        jnp.pad(x, ((0, 0), (0, padding)) + ((0, 0),) * (x.ndim - 2)) for x in (q, k, v, segment_ids)
    )
    k, v = jnp.repeat(k, group, axis=2), jnp.repeat(v, group, axis=2)
    mixed = mha(q, k, v, segment_ids, sm_scale=1 / math.sqrt(head_dim), causal=True, interpret=interpret)
    return cast(Array, mixed)[:, :time]
