"""Parameters as the sampler holds them while it generates.

In the model's precision, with adapters merged, every layer apart, and split over `tensor` alone: decoding reads every
parameter at every step and must not fetch it from other devices each time. On a CPU the layers' kernels are transposed:
XLA multiplies a few rows by a kernel that is not in the processor's caches twice as fast so.
Parameters are brought there on the devices, once for all prompts of a call; those outside the layers that are so
already are used where they lie.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from codea1_jax.models.decoder import KERNEL, TRANSPOSED_KERNEL, Params, Transformer, abstract_params
from codea1_jax.models.lora import merge
from codea1_jax.models.sharding import serving_shardings, with_shardings


def to_decode_params(model: Transformer, mesh: Mesh) -> Callable[[Params], Params]:
    """What brings parameters, adapted ones too, to where and how this model decodes on this mesh."""

    def convert(params: Params) -> Params:
        moved = parts_to_move(model, mesh, params)
        move = mover(model, mesh, tuple(moved))  # pyright: ignore[reportArgumentType]  flax modules hash
        return {**params, **move(moved)} if moved else params

    return convert


def parts_to_move(model: Transformer, mesh: Mesh, params: Params) -> Params:
    """The layers, and what else of the parameters, or of their placed shapes, is not yet as the sampler holds it.

    Nothing of those whose layers are apart: they were read so.
    """
    if isinstance(params["layers"], tuple):
        return {}

    def is_there(x: Any, sharding: NamedSharding) -> bool:
        return x.dtype == model.dtype and x.sharding.is_equivalent_to(sharding, x.ndim)

    shardings: Params = serving_shardings(model, mesh)  # pyright: ignore[reportArgumentType]  flax modules are hashable
    return {
        name: part
        for name, part in params.items()
        if name == "layers" or not all(jax.tree.leaves(jax.tree.map(is_there, part, shardings[name])))
    }


@cache
def mover(model: Transformer, mesh: Mesh, parts: tuple[str, ...]) -> Any:
    shardings = _decode_shardings(model, mesh)
    move = partial(_moved, model, mesh)
    return jax.jit(move, out_shardings={name: shardings[name] for name in parts})


def _moved(model: Transformer, mesh: Mesh, params: Params) -> Params:
    layers = tuple(map(merge, unstack_layers(params["layers"])))  # apart first: merged, the stack would be there twice
    moved = jax.tree.map(lambda x: x.astype(model.dtype), {**params, "layers": layers})
    return {**moved, "layers": tuple(map(_transpose_kernels, moved["layers"]))} if _transposes(mesh) else moved


def unstack_layers(stack: Params) -> tuple[Params, ...]:
    count = jax.tree.leaves(stack)[0].shape[0]
    return tuple(jax.tree.map(lambda x, i=i: x[i], stack) for i in range(count))


def _transpose_kernels(layer: Params, transpose: Callable[[Any], Any] = jnp.transpose) -> Params:
    """A layer's parameters, or what stands for them, with every kernel transposed, under a name that says so."""
    if not isinstance(layer, dict):
        return layer
    return {
        **{name: _transpose_kernels(part, transpose) for name, part in layer.items() if name != KERNEL},
        **({TRANSPOSED_KERNEL: transpose(layer[KERNEL])} if KERNEL in layer else {}),
    }


def _transposes(mesh: Mesh) -> bool:
    return mesh.devices.flat[0].platform == "cpu"


def _decode_shardings(model: Transformer, mesh: Mesh) -> Params:
    stacked: Params = serving_shardings(model, mesh)  # pyright: ignore[reportArgumentType]  as above
    # A stack's first axis, which is not split, counts the layers.
    layer = jax.tree.map(lambda x: NamedSharding(x.mesh, PartitionSpec(*x.spec[1:])), stacked["layers"])
    if _transposes(mesh):
        layer = _transpose_kernels(layer, lambda x: NamedSharding(x.mesh, PartitionSpec(*reversed(x.spec))))
    return {**stacked, "layers": (layer,) * model.architecture.num_layers}


def abstract_decode_params(model: Transformer, mesh: Mesh) -> Params:
    shapes = jax.eval_shape(partial(_moved, model, mesh), abstract_params(model))
    return with_shardings(shapes, _decode_shardings(model, mesh))
