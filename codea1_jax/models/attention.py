"""Attention over grouped key/value heads.

The model calls an `Attend`: it hands over this block's queries, keys and values and gets back the mixed
values and whatever the caller wants kept for the layer. Training keeps nothing; a prefill keeps the keys and
values; decoding writes them into its cache. So the model knows no cache layout, and rollouts choose their
own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.blockwise import MASKED, Sight, blockwise_attention
from codea1_jax.models.layout import platform
from codea1_jax.models.splash import splash_attention

# xla: plain XLA, everywhere. splash: Pallas, on TPU. cudnn: flash attention, on CUDA in half precision.
KERNELS = ("auto", "xla", "splash", "cudnn")

Mixer = Callable[[Array, Array, Array], Array]


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


def cudnn_attention(
    mask: Bool[Array, "batch time time"],
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
) -> Float[Array, "batch time heads head_dim"]:
    """cuDNN's flash attention, for CUDA and half precision only."""
    return jax.nn.dot_product_attention(q, k, v, mask=mask[:, None], implementation="cudnn")


def training_attention(segment_ids: Int[Array, "batch time"], kernel: str = "auto") -> Attend:
    """Causal attention inside each segment by one of `KERNELS`; keeps nothing."""
    return Partial(_attend, causal_mixer(segment_ids, kernel))


def prefill_attention(segment_ids: Int[Array, "batch time"], kernel: str = "auto") -> Attend:
    """Causal attention inside each segment by one of `KERNELS`; keeps every layer's (keys, values)."""
    return Partial(_attend_keeping, causal_mixer(segment_ids, kernel))


def causal_mixer(segment_ids: Int[Array, "batch time"], kernel: str) -> Mixer:
    """(q, k, v) -> mixed values, by the named kernel; `auto` takes what suits the devices in use."""
    if kernel == "auto":
        kernel = {"tpu": "splash", "gpu": "auto_cuda", "cuda": "auto_cuda"}.get(platform(), "xla")
    if kernel == "splash":
        return Partial(splash_attention, segment_ids)
    if kernel == "xla":
        return Partial(blockwise_attention, Sight.within(segment_ids))
    mix = {"cudnn": cudnn_attention, "auto_cuda": _auto_cuda}[kernel]
    return Partial(mix, causal_mask(segment_ids))


def _attend(mix: Mixer, q: Array, k: Array, v: Array, kept: Any) -> tuple[Array, Any]:
    return mix(q, k, v), kept


def _attend_keeping(mix: Mixer, q: Array, k: Array, v: Array, _kept: Any) -> tuple[Array, Any]:
    return mix(q, k, v), (k, v)


def _auto_cuda(mask: Array, q: Array, k: Array, v: Array) -> Array:
    half = q.dtype in (jnp.bfloat16, jnp.float16)
    return cudnn_attention(mask, q, k, v) if half else masked_attention(q, k, v, mask)
