"""The same decoder with its layers one after the other, each with its own parameters.

A scan over stacked layers compiles fast, which learning wants. But a step of decoding reads every parameter once, and
XLA's backends copy a layer, or what belongs to it, out of the stack every time: a fifth of a step's time on a CPU, more
on GPUs. So a sampler unstacks the layers once and runs them by this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from codea1_jax.models.attention import Attend
from codea1_jax.models.gathers import embed
from codea1_jax.models.qwen2 import Block, Params, Qwen2, RMSNorm, rope_tables

KERNEL, TRANSPOSED = "kernel", "transposed_kernel"


def unstack_layers(stack: Params) -> tuple[Params, ...]:
    """Each layer's parameters, from those of all layers stacked."""
    count = jax.tree.leaves(stack)[0].shape[0]
    return tuple(jax.tree.map(lambda x, i=i: x[i], stack) for i in range(count))


def transpose_kernels(layer: Params, transpose: Callable[[Any], Any] = jnp.transpose) -> Params:
    """A layer's parameters, or what stands for them, with every kernel transposed, under a name that says so."""
    return replace_entries(layer, KERNEL, lambda kernel: {TRANSPOSED: transpose(kernel)})


def replace_entries(tree: Params, name: str, change: Callable[[Any], Params]) -> Params:
    """A copy of a nested dict in which the entries that `change` returns replace each one called `name`."""
    if not isinstance(tree, dict):
        return tree
    found = {}
    for key, part in tree.items():
        found |= change(part) if key == name else {key: replace_entries(part, name, change)}
    return found


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
    x = embed(params["embed_tokens"], tokens, model.dtype)
    rope = rope_tables(positions, c.head_dim, c.rope_theta)
    block = Block(c, model.dtype, model.param_dtype)
    now = []
    for layer, before in zip(params["layers"], kept, strict=True):
        x, keeps = _apply_layer(block, layer, x, before, rope, attend)
        now.append(keeps)
    norm = RMSNorm(c.rms_norm_eps, model.param_dtype)
    return jnp.asarray(norm.apply({"params": params["norm"]}, x)), tuple(now)


@partial(jax.jit, static_argnames="block")
def _apply_layer(
    block: Block, layer: Params, x: Array, before: Any, rope: tuple[Array, Array], attend: Attend
) -> tuple[Array, Any]:
    """One layer. Jitted, so that Python traces it once for all layers, which are alike; XLA compiles it in place."""
    own = replace_entries(layer, TRANSPOSED, lambda kernel: {KERNEL: jnp.transpose(kernel)})
    return block.apply({"params": own}, x, before, rope, attend)  # pyright: ignore[reportReturnType]  as called
