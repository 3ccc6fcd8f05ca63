"""Layers of which most numbers are held in eight bits, so that decoding reads half of their bytes.

The matrices of the feed-forward and of attention's output are rounded: each number is an int8 times a scale of its
column (W8A16: symmetric, to the nearest, a scale for each output; Jacob et al., arXiv 1712.05877, section 2.1, without
a zero point). Products are computed in the model's precision and multiplied by the scales afterwards. Scales follow
from the parameters alone: no data decides them, and a sample's tokens depend on no other sample's.

The projections to queries, keys and values, about a fifteenth of a layer, stay as they are: libtpu does not convert
them while it multiplies but before, which by its own estimate takes almost as long as reading all the other matrices
of the layer in eight bits (1.5B on v5e).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import KERNEL, KERNEL_SCALE, Params

INT8_MAX = 127


def quantize(layer: Params) -> Params:
    """One layer's parameters with those kernels rounded, and their scales next to them.

    No number changes by more than half of its column's scale, which is 1/127 of the largest one in it.
    """
    return replace_rounded(layer, _rounded)


def replace_rounded(layer: Params, change: Callable[[Any], Params]) -> Params:
    """One layer's tree in which the entries that `change` returns replace each kernel that `quantize` rounds."""
    attention = layer["self_attn"]
    output, mlp = (replace_entries(part, KERNEL, change) for part in (attention["o_proj"], layer["mlp"]))
    return layer | {"self_attn": attention | {"o_proj": output}, "mlp": mlp}


def replace_entries(tree: Params, name: str, change: Callable[[Any], Params]) -> Params:
    """A copy of a nested dict in which the entries that `change` returns replace each one called `name`."""
    if not isinstance(tree, dict):
        return tree
    changed = {}
    for key, part in tree.items():
        changed |= change(part) if key == name else {key: replace_entries(part, name, change)}
    return changed


def rounded_numbers(shape: Architecture) -> int:
    """How many numbers of a layer `quantize` rounds."""
    return shape.hidden_size * (shape.num_heads * shape.head_dim + 3 * shape.intermediate_size)


def _rounded(kernel: Float[Array, "inputs outputs"]) -> Params:
    wide = kernel.astype(jnp.float32)
    # In the kernel's own type, so that what is rounded is divided by the very number that products are multiplied with.
    scale = (jnp.max(jnp.abs(wide), axis=0) / INT8_MAX).astype(kernel.dtype)
    divisor = jnp.where(scale == 0, 1, scale).astype(jnp.float32)
    return {KERNEL: jnp.rint(wide / divisor[None]).astype(jnp.int8), KERNEL_SCALE: scale}
