"""Attention that stores neither scores nor masks of a whole sequence, by our own Pallas kernels.

A row is cut into blocks. Only those pairs of blocks are computed in which something is seen, forward and backward: not
what lies ahead, nor another question's sequences, nor the other responses to the same prompt.

Why not the kernels that JAX has: none sees a parent's keys as well as its own segment's, and all compute what other
segments hide. On CUDA, cuDNN takes a mask as a bias and computes that bias's gradient, as large as all scores.
"""

import math
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float

from codea1_jax.models.attention import flash_gpu, flash_tpu
from codea1_jax.models.attention.sight import MIXED, Sight
from codea1_jax.runtime.layout import on_each_device, platform

Interpret = bool | pltpu.InterpretParams  # how a kernel is interpreted, if it is


Kernels = ModuleType
"""The kernels for a kind of device, `flash_tpu` or `flash_gpu`; they take rows with their padding, and scaled queries.

    cut        places of a block, and of a whole row with its padding
    width      how wide queries, keys and values must be for heads of a size, with zeros in the rest
    computed   pairs of blocks that a forward pass computes, given those in which something is seen
    forward    the mixed values, and the log-sum-exp of each query's scores
    backward   the gradients of queries, keys and values
"""


class Tiled(NamedTuple):
    """A sight in the form that the kernels take, the same for all layers."""

    sight: Sight
    tiles: Bool[Any, "batch blocks blocks"]


def tiled(sight: Sight, kernels: Kernels | None = None) -> Tiled:
    """By default for the kernels of the devices in use."""
    block, length = (kernels or kernels_for(platform())).cut(sight.segments.shape[1])
    padded = sight.padded(length)
    return Tiled(padded, padded.tiles(block))


def kernels_for(platform: str) -> Kernels:
    return flash_tpu if platform == "tpu" else flash_gpu


def flash_attention(
    over: Tiled,
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
    *,
    kernels: Kernels | None = None,
    interpret: Interpret = False,
) -> Float[Array, "batch time heads head_dim"]:
    """Equals `masked_attention` at all places but padding, on each device's part of the batch and the heads.

    `interpret` runs the kernels where they cannot be compiled.
    """
    kernels = kernels or kernels_for(platform())
    time, length, head_dim = q.shape[1], over.sight.segments.shape[1], q.shape[3]
    padding = (0, 0), (0, length - time), (0, 0), (0, kernels.width(head_dim) - head_dim)
    scaled = q * (1 / math.sqrt(head_dim))
    q, k, v = (jnp.pad(x, padding) for x in (scaled, k, v))
    mix = partial(_on_one_device, kernels, interpret)
    return on_each_device(mix, q, k, v, *over.sight, over.tiles)[:, :time, :, :head_dim]


def _on_one_device(
    kernels: Kernels, interpret: Interpret, q: Array, k: Array, v: Array, segments: Array, parents: Array, tiles: Array
) -> Array:
    return _mix(kernels, interpret, Tiled(Sight(segments, parents), tiles), q, k, v)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _mix(kernels: Kernels, interpret: Interpret, over: Tiled, q: Array, k: Array, v: Array) -> Array:
    return kernels.forward(over.sight, over.tiles, q, k, v, interpret=interpret)[0]


def _forward(
    kernels: Kernels, interpret: Interpret, over: Tiled, q: Array, k: Array, v: Array
) -> tuple[Array, tuple[Any, ...]]:
    found = kernels.forward(over.sight, over.tiles, q, k, v, interpret=interpret)
    mixed, logsumexp = (checkpoint_name(x, MIXED) for x in found)
    return mixed, (over, q, k, v, mixed, logsumexp)


def _backward(
    kernels: Kernels, interpret: Interpret, kept: tuple[Any, ...], d_out: Array
) -> tuple[None, Array, Array, Array]:
    over, q, k, v, mixed, logsumexp = kept
    # The softmax's own gradient needs Σ weights · d weights, which is this (arXiv 2205.14135, appendix B.4).
    delta = jnp.einsum("bthd,bthd->bht", d_out, mixed, preferred_element_type=jnp.float32)
    return None, *kernels.backward(over.sight, over.tiles, q, k, v, d_out, logsumexp, delta, interpret=interpret)


_mix.defvjp(_forward, _backward)
