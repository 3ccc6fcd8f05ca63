"""Attention over grouped key/value heads.

The model calls an `Attend`: it hands over this block's queries, keys and values and gets back the mixed
values and whatever the caller wants kept for the layer. Training keeps nothing; a prefill keeps the keys and
values; decoding writes them into its cache. So the model knows no cache layout, and rollouts choose their
own.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.blockwise import MASKED, Sight, blockwise_attention
from codea1_jax.models.flash import flash_attention
from codea1_jax.models.layout import platform
from codea1_jax.models.splash import splash_attention

# xla: plain XLA, everywhere. splash: Pallas, on TPU. flash: Pallas, on CUDA in half precision.
KERNELS = ("auto", "xla", "splash", "flash")


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


def training_attention(segment_ids: Int[Array, "batch time"], kernel: str = "auto") -> Attend:
    """Causal attention inside each segment by one of `KERNELS`; keeps nothing."""
    return Partial(partial(_attend, kernel), segment_ids)


def prefill_attention(segment_ids: Int[Array, "batch time"], kernel: str = "auto") -> Attend:
    """Causal attention inside each segment by one of `KERNELS`; keeps every layer's (keys, values)."""
    return Partial(partial(_attend_keeping, kernel), segment_ids)


def choose_kernel(kernel: str, dtype: Any) -> str:
    """The kernel that is meant, for `auto` by the devices in use. Raises KeyError if `kernel` is none of `KERNELS`."""
    if kernel not in KERNELS:
        raise KeyError(kernel)
    if kernel != "auto":
        return kernel
    on_cuda = "flash" if dtype in (jnp.bfloat16, jnp.float16) else "xla"
    return {"tpu": "splash", "gpu": on_cuda, "cuda": on_cuda}.get(platform(), "xla")


def _attend(kernel: str, segment_ids: Array, q: Array, k: Array, v: Array, kept: Any) -> tuple[Array, Any]:
    return _mix(choose_kernel(kernel, q.dtype), segment_ids, q, k, v), kept


def _attend_keeping(kernel: str, segment_ids: Array, q: Array, k: Array, v: Array, _kept: Any) -> tuple[Array, Any]:
    return _mix(choose_kernel(kernel, q.dtype), segment_ids, q, k, v), (k, v)


def _mix(kernel: str, segment_ids: Array, q: Array, k: Array, v: Array) -> Array:
    if kernel == "splash":
        return splash_attention(segment_ids, q, k, v)
    if kernel == "flash":
        return flash_attention(segment_ids, q, k, v)
    return blockwise_attention(Sight.within(segment_ids), q, k, v)
