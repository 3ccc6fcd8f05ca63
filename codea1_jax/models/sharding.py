"""The mesh, and where a model's parameters lie on it (by the table in `layout`)."""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial, wraps
from typing import Any

import flax.linen as nn
import jax
import numpy as np
from jax.experimental import mesh_utils
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from codea1_jax.common.errors import UserError
from codea1_jax.config import MeshConfig
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Params, Transformer, abstract_params, init_params, logical_params
from codea1_jax.runtime.layout import MESH_AXES, TABLE, spec, using


def make_mesh(config: MeshConfig, devices: Sequence[Any] | None = None) -> Mesh:
    """The mesh over all (or the given) devices; replicas lie on different slices where there are several."""
    devices = jax.devices() if devices is None else devices
    shape = config.shape(len(devices))
    slices = len({getattr(device, "slice_index", 0) for device in devices})
    if slices == 1:
        grid = mesh_utils.create_device_mesh(shape, devices, allow_split_physical_axes=True)
    elif shape[0] % slices:
        raise UserError(f"mesh.replica={shape[0]} must be a multiple of the {slices} slices")
    else:
        inner = (shape[0] // slices, *shape[1:])
        grid = mesh_utils.create_hybrid_device_mesh(inner, (slices, 1, 1), devices, allow_split_physical_axes=True)
    return Mesh(np.asarray(grid), MESH_AXES, axis_types=(AxisType.Auto,) * len(MESH_AXES))


def one_device_mesh() -> Mesh:
    return make_mesh(MeshConfig(), jax.devices()[:1])


def check_divisible(architecture: Architecture, mesh: Mesh | AbstractMesh) -> None:
    """Raises UserError naming the mesh setting that does not divide the model.

    Key/value heads and the vocabulary need not be divisible: where they are not, every device of the tensor axis
    holds them all.
    """
    demands = [
        ("tensor", "num_heads", architecture.num_heads),
        ("tensor", "intermediate_size", architecture.intermediate_size),
        ("fsdp", "hidden_size", architecture.hidden_size),
    ]
    for axis, name, size in demands:
        count = mesh.shape[axis]
        if size % count:
            better = max(n for n in range(1, count) if size % n == 0)
            raise UserError(
                f"mesh.{axis}={count} does not divide {name}={size}: set mesh.{axis} to {better} or another divisor"
            )


def param_shardings(model: Transformer, mesh: Mesh | AbstractMesh) -> Params:
    """A tree like the parameters, of NamedShardings. Raises UserError as `check_divisible` does."""
    return logical_shardings(logical_params(model), model.architecture, mesh)


@cache  # finding them traces the model, which takes 50 ms
def serving_shardings(model: Transformer, mesh: Mesh | AbstractMesh) -> Params:
    """As `param_shardings`, but split over `tensor` alone: decoding reads every parameter at every step, and must not
    fetch it from other devices each time."""
    return logical_shardings(logical_params(model), model.architecture, mesh, whole=frozenset({"embed"}))


def logical_shardings(
    boxes: Params, architecture: Architecture, mesh: Mesh | AbstractMesh, whole: frozenset[str] = frozenset()
) -> Params:
    """Where arrays in boxes that name their axes lie; no device splits the axes in `whole`.

    Raises UserError as `check_divisible` does.
    """
    check_divisible(architecture, mesh)
    sizes = {"kv_heads": architecture.num_kv_heads, "vocab": architecture.vocab_size}
    whole |= {axis for axis, size in sizes.items() if size % mesh.shape["tensor"]}

    def sharding(box: nn.LogicallyPartitioned) -> NamedSharding:
        return NamedSharding(mesh, spec(*(None if axis in whole else axis for axis in box.names)))

    return jax.tree.map(sharding, boxes, is_leaf=lambda node: isinstance(node, nn.LogicallyPartitioned))


def abstract_sharded(model: Transformer, mesh: Mesh) -> Params:
    return with_shardings(abstract_params(model), param_shardings(model, mesh))


def with_shardings(shapes: Any, shardings: Any) -> Any:
    return jax.tree.map(lambda x, s: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=s), shapes, shardings)


def init_sharded(model: Transformer, key: jax.Array, mesh: Mesh) -> Params:
    """Random parameters, made where they lie: no device ever holds the whole model."""
    return jax.jit(partial(init_params, model), out_shardings=param_shardings(model, mesh))(key)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, spec("batch"))


def replicated(mesh: Mesh) -> NamedSharding:
    return NamedSharding(mesh, P())


def batch_shards(mesh: Mesh) -> int:
    return math.prod(mesh.shape[axis] for axis in TABLE["batch"])


def put(tree: Any, sharding: NamedSharding) -> Any:
    """Host arrays onto the devices; every process holds them whole and hands over its own devices' parts."""

    def one(x: np.ndarray) -> jax.Array:
        return jax.make_array_from_callback(x.shape, sharding, lambda index: x[index])

    return jax.tree.map(one, tree)


def jit_on(
    mesh: Mesh,
    function: Callable[..., Any],
    *,
    out_shardings: Any,
    donate_argnums: tuple[int, ...] = (),
    compiler_options: dict[str, bool] | None = None,
) -> Any:
    """`jax.jit` of a function that is traced with the mesh in use; it compiles for the devices of that mesh."""

    @wraps(function)
    def traced(*arguments: Any) -> Any:
        with using(mesh):
            return function(*arguments)

    return jax.jit(
        traced, out_shardings=out_shardings, donate_argnums=donate_argnums, compiler_options=compiler_options
    )
