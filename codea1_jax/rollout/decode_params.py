"""Parameters as the sampler holds them while it generates.

In the model's precision, with adapters merged, every layer apart, and split over `tensor` alone: decoding reads every
parameter at every step and must not fetch it from other devices each time. Parameters are brought there on the devices,
once for all prompts of a call; those outside the layers that are so already are used where they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.typing import DTypeLike

from codea1_jax.models.lora import merge
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.sharding import serving_shardings
from codea1_jax.models.unrolled import unstack_layers


def to_decode_params(model: Qwen2, mesh: Mesh) -> Callable[[Params], Params]:
    """What brings parameters, adapted ones too, to where and how this model decodes on this mesh."""
    others = {name: sharding for name, sharding in serving_shardings(model, mesh).items() if name != "layers"}

    def convert(params: Params) -> Params:
        whole = place(model.dtype, others, {name: params[name] for name in others})
        return {**whole, "layers": _unstacker(model, mesh)(params["layers"])}  # pyright: ignore[reportArgumentType]  flax modules are hashable

    return convert


@cache
def _unstacker(model: Qwen2, mesh: Mesh) -> Callable[[Params], tuple[Params, ...]]:
    """Layers with their adapters merged, each apart. Compiled once."""
    one = jax.tree.map(_of_one_layer, serving_shardings(model, mesh)["layers"])
    apart = (one,) * model.config.num_layers
    return jax.jit(lambda layers: unstack_layers(_cast(model.dtype, merge(layers))), out_shardings=apart)


def place(dtype: DTypeLike, shardings: Any, params: Params) -> Params:
    """The parameters in this precision and these shardings; the same arrays where they have them already."""

    def one(x: jax.Array, sharding: NamedSharding) -> jax.Array:
        there = x.dtype == dtype and x.sharding.is_equivalent_to(sharding, x.ndim)
        return x if there else _caster(dtype, sharding)(x)

    return jax.tree.map(one, params, shardings)


@cache
def _caster(dtype: DTypeLike, sharding: NamedSharding) -> Callable[[jax.Array], jax.Array]:
    """Compiled once per shape."""
    return jax.jit(partial(_cast, dtype), out_shardings=sharding)


def _cast(dtype: DTypeLike, params: Params) -> Params:
    return jax.tree.map(lambda x: x.astype(dtype), params)


def _of_one_layer(stacked: NamedSharding) -> NamedSharding:
    """The stack's first axis, which is not split, counts the layers."""
    return NamedSharding(stacked.mesh, PartitionSpec(*stacked.spec[1:]))


def apart_shapes(stack: Params, layers: int) -> tuple[Params, ...]:
    """The placed shapes of every layer, from those of their stack."""

    def one(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(x.shape[1:], x.dtype, sharding=_of_one_layer(x.sharding))

    return (jax.tree.map(one, stack),) * layers
