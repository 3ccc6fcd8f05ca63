"""Low-rank adapters (LoRA, arXiv 2106.09685): a matrix W becomes W + alpha / rank · A B; A and B are trained, W is not.

Adapters are a nested dict like the parameters', with `lora_a` (layers, inputs, rank) and `lora_b` (layers, rank,
outputs) where these have a kernel. *Adapted* parameters are those of the base with both next to their kernel: the model
computes x W + (x A) B from them, so that neither a matrix like W nor a gradient like it is created.

Whoever may train everything or adapters passes a configuration that is None for everything: then what is trained are
the parameters themselves, and there is no base.
"""

import math
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax import traverse_util
from jax.sharding import AbstractMesh, Mesh
from jaxtyping import Array, Float

from codea1_jax.config import LoRAConfig
from codea1_jax.models.decoder import LORA_A, LORA_B, Params, Transformer, abstract_params, flatten, logical_params
from codea1_jax.models.sharding import logical_shardings, param_shardings, with_shardings


def logical_adapters(model: Transformer, lora: LoRAConfig) -> Params:
    """The adapters' shapes and dtypes in boxes that name their axes, as `decoder.logical_params`."""
    boxes = {}
    for path, box in flatten(logical_params(model)).items():
        if path[-1] == "kernel":
            (layers, rows, columns), (stack, inner, outer) = box.value.shape, box.names
            a = jax.ShapeDtypeStruct((layers, rows, lora.rank), model.param_dtype)
            b = jax.ShapeDtypeStruct((layers, lora.rank, columns), model.param_dtype)
            boxes[*path[:-1], LORA_A] = nn.LogicallyPartitioned(a, (stack, inner, "rank"))
            boxes[*path[:-1], LORA_B] = nn.LogicallyPartitioned(b, (stack, "rank", outer))
    return traverse_util.unflatten_dict(boxes)


def trained_shapes(model: Transformer, lora: LoRAConfig | None) -> Params:
    return abstract_params(model) if lora is None else nn.unbox(logical_adapters(model, lora))


def trained_shardings(model: Transformer, lora: LoRAConfig | None, mesh: Mesh | AbstractMesh) -> Params:
    """A tree like it, of NamedShardings. Raises UserError as `param_shardings` does."""
    if lora is None:
        return param_shardings(model, mesh)
    return logical_shardings(logical_adapters(model, lora), model.architecture, mesh)


def abstract_trained(model: Transformer, lora: LoRAConfig | None, mesh: Mesh) -> Params:
    return with_shardings(trained_shapes(model, lora), trained_shardings(model, lora, mesh))


def init_adapters(model: Transformer, lora: LoRAConfig, key: jax.Array) -> Params:
    """Adapters that change nothing yet: A normal with variance 1 / inputs, B zero (section 4.1)."""
    flat = flatten(trained_shapes(model, lora))
    keys = jax.random.split(key, len(flat))

    def first(path: tuple[str, ...], shape: jax.ShapeDtypeStruct, own: jax.Array) -> Array:
        if path[-1] == LORA_B:
            return jnp.zeros(shape.shape, shape.dtype)
        return jax.random.normal(own, shape.shape, shape.dtype) / math.sqrt(shape.shape[1])

    values = {path: first(path, shape, own) for (path, shape), own in zip(flat.items(), keys, strict=True)}
    return traverse_util.unflatten_dict(values)


def attach(lora: LoRAConfig | None, base: Params | None, trained: Params) -> Params:
    """What the model is applied to: the base with these adapters, scaled; or, without LoRA, what is trained."""
    if lora is None:
        return trained
    scale = lora.alpha / lora.rank
    return with_adapters(base, {path: scale * x if path[-1] == LORA_A else x for path, x in flatten(trained).items()})


def with_adapters(base: Params, adapters: Mapping[tuple[str, ...], Any]) -> Params:
    return traverse_util.unflatten_dict({**flatten(base), **adapters})


def merge(params: Params) -> Params:
    if not isinstance(params, dict):
        return params
    if LORA_A not in params:
        return {name: merge(part) for name, part in params.items()}
    others = {name: part for name, part in params.items() if name not in (LORA_A, LORA_B)}
    return {**others, "kernel": _sum(params["kernel"], params[LORA_A], params[LORA_B])}


def _sum(
    kernel: Float[Array, "*layers inputs outputs"],
    a: Float[Array, "*layers inputs rank"],
    b: Float[Array, "*layers rank outputs"],
) -> Float[Array, "*layers inputs outputs"]:
    """W + A B in float32; of a stack layer by layer, so that only one of them is there in that type."""

    def one_layer(layer: tuple[Array, Array, Array]) -> Array:
        w, a, b = (x.astype(jnp.float32) for x in layer)
        return (w + jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)).astype(kernel.dtype)

    return jax.lax.map(one_layer, (kernel, a, b)) if kernel.ndim == 3 else one_layer((kernel, a, b))
