"""The same decoder with its layers one after the other, each with its own parameters.

A scan over stacked layers compiles fast, which learning wants. But a step of decoding reads every parameter once, and
XLA's backends copy a layer, or what belongs to it, out of the stack every time: a fifth of a step's time on a CPU, more
on GPUs. So a sampler unstacks the layers once and runs them by this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from codea1_jax.models.attention import Attend
from codea1_jax.models.layout import constrain
from codea1_jax.models.qwen2 import Block, Params, Qwen2, RMSNorm, rope_tables

KERNEL, TRANSPOSED = "kernel", "transposed_kernel"


def unstack_layers(stack: Params) -> tuple[Params, ...]:
    """Each layer's parameters, from those of all layers stacked."""
    count = jax.tree.leaves(stack)[0].shape[0]
    return tuple(jax.tree.map(lambda x, i=i: x[i], stack) for i in range(count))


def transpose_kernels(layer: Params, transpose: Callable[[Any], Any] = jnp.transpose) -> Params:
    """A layer's parameters, or what stands for them, with every kernel transposed, under a name that says so."""
    return _renamed(layer, KERNEL, TRANSPOSED, transpose)


def _renamed(tree: Params, old: str, new: str, change: Callable[[Any], Any]) -> Params:
    """A nested dict with `change` made to all entries of one name, which get another name."""
    if not isinstance(tree, dict):
        return tree
    return {
        new if name == old else name: change(part) if name == old else _renamed(part, old, new, change)
        for name, part in tree.items()
    }


def apply_unrolled(
    model: Qwen2,
    params: Params,
    tokens: Int[Array, "batch time"],
    positions: Int[Array, "batch time"],
    attend: Attend,
    kept: Sequence[Any],
) -> tuple[Float[Array, "batch time width"], tuple[Any, ...]]:
    """As the model's own call, with a tuple for `params["layers"]`; `kept` and what is kept have an entry per layer.

    Kernels of layers may be transposed (`transpose_kernels`): the compiler makes that part of the product.
    """
    c = model.config
    x = constrain(params["embed_tokens"].astype(model.dtype), "vocab", "width")[tokens]
    x = constrain(x, "batch", "time", "width")
    rope = rope_tables(positions, c.head_dim, c.rope_theta)
    block = Block(c, model.dtype, model.param_dtype)
    now = []
    for layer, before in zip(params["layers"], kept, strict=True):
        own = _renamed(layer, TRANSPOSED, KERNEL, jnp.transpose)
        x, keeps = block.apply({"params": own}, x, before, rope, attend)
        now.append(keeps)
    norm = RMSNorm(c.rms_norm_eps, model.param_dtype)
    return jnp.asarray(norm.apply({"params": params["norm"]}, x)), tuple(now)
