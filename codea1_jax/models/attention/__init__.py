"""Attention over grouped key/value heads.

The model calls an `Attend` with a layer's queries, keys and values, and gets back the mixed values and what the caller
keeps of the layer: training nothing, a prefill keys and values, decoding its cache. So the model knows no cache layout.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float

from codea1_jax.models.attention import flash_gpu
from codea1_jax.models.attention.blockwise import blockwise_attention
from codea1_jax.models.attention.flash import Tiled, flash_attention, tiled
from codea1_jax.models.attention.sight import MASKED, Sight
from codea1_jax.runtime.layout import platform

# auto: flash kernels, on TPU, and on CUDA in half precision for heads of at most 128; elsewhere plain XLA.
KERNELS = ("auto", "xla")


Attend = Callable[[Array, Array, Array, Any], tuple[Array, Any]]
"""One layer's attention: (q, k, v, what the layer kept before) -> (mixed values, what it keeps now).

q and the mixed values are Float[Array, "batch time heads head_dim"], k and v have kv_heads instead.
"""


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


def training_attention(sight: Sight, kernel: str = "xla") -> Attend:
    return Partial(partial(_attend, keep=False), sight if kernel == "xla" else tiled(sight))


def prefill_attention(sight: Sight, kernel: str = "xla") -> Attend:
    return Partial(partial(_attend, keep=True), sight if kernel == "xla" else tiled(sight))


def choose_kernel(kernel: str, dtype: Any, head_dim: int, on: str | None = None) -> str:
    """The kernel to use, "xla" or "flash", on a platform, by default that of the devices in use.

    It is "xla" where the flash kernels do not run. Raises KeyError if `kernel` is none of `KERNELS`.
    """
    if kernel not in KERNELS:
        raise KeyError(kernel)
    there = on or platform()
    runs = there == "tpu" or (there in ("gpu", "cuda") and flash_gpu.fits(dtype, head_dim))
    return "flash" if runs and kernel != "xla" else "xla"


def _attend(over: Sight | Tiled, q: Array, k: Array, v: Array, kept: Any, *, keep: bool) -> tuple[Array, Any]:
    mixed = blockwise_attention(over, q, k, v) if isinstance(over, Sight) else flash_attention(over, q, k, v)
    return mixed, (k, v) if keep else kept


__all__ = ["choose_kernel", "masked_attention", "prefill_attention", "training_attention"]
