"""The table from the meaning of an axis to the mesh axes that split it, and its use on activations.

The mesh has three axes. `tensor` splits heads, the feed-forward and the vocabulary; `fsdp` splits every
matrix's other side, and the batch; `replica` splits the batch alone (across the slices of a multi-slice TPU).
"""

import math
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, Mesh, PartitionSpec

MESH_AXES = ("replica", "fsdp", "tensor")
REPLICA = MESH_AXES[0]
DEVICE = "device"
HOST = "pinned_host"  # which devices read and write by themselves

TABLE: dict[str, tuple[str, ...]] = {
    "batch": ("replica", "fsdp"),
    "time": (),
    "vocab": ("tensor",),
    "embed": ("fsdp",),  # of a parameter
    "width": (),  # of an activation
    "heads": ("tensor",),
    "kv_heads": ("tensor",),
    "head_dim": (),
    "mlp": ("tensor",),
    "layers": (),
    "norm": (),
    "rank": (),  # of adapters
}


def spec(*axes: str | None, within: Collection[str] = MESH_AXES) -> PartitionSpec:
    """The partition of an array with these axes (None: not split), by the mesh axes in `within`.

    Raises ValueError if two axes would be split by the same mesh axis.
    """
    used: set[str] = set()
    parts = [tuple(part for part in TABLE[axis] if part in within) if axis is not None else () for axis in axes]
    for part in parts:
        if used & set(part):
            raise ValueError(f"axes {axes}: {', '.join(used & set(part))} of the mesh would split two of them")
        used |= set(part)
    return PartitionSpec(*(part or None for part in parts))


def fitting_spec(axes: tuple[str | None, ...], shape: tuple[int, ...], mesh: Mesh | AbstractMesh) -> PartitionSpec:
    """As `spec`, with axes left whole whose size the mesh does not divide (a batch of 1, 2 heads over 4)."""
    fits = [axis is not None and size % _parts(axis, mesh) == 0 for axis, size in zip(axes, shape, strict=True)]
    return spec(*(axis if fit else None for axis, fit in zip(axes, fits, strict=True)), within=mesh.auto_axes)


def _parts(axis: str, mesh: Mesh | AbstractMesh) -> int:
    """The number of parts into which a mesh splits an axis; inside `by_replica`, replicas do not count."""
    return math.prod(mesh.shape[part] for part in TABLE[axis] if part in mesh.auto_axes)


def using(mesh: Mesh) -> AbstractContextManager[Any]:
    """Inside it, in a function that is being traced, this is the mesh in use: `constrain` and the kernels see it."""
    return jax.sharding.use_abstract_mesh(mesh.abstract_mesh)


def constrain(x: jax.Array, *axes: str | None) -> jax.Array:
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        return x
    return jax.lax.with_sharding_constraint(x, fitting_spec(axes, x.shape, mesh))


def everywhere(x: jax.Array) -> jax.Array:
    """Tells the compiler to leave all of `x` on every device of the mesh in use, if any."""
    return constrain(x, *[None] * x.ndim)


def on_each_device(
    mix: Callable[..., jax.Array], q: jax.Array, k: jax.Array, v: jax.Array, *rows: jax.Array
) -> jax.Array:
    """`mix(q, k, v, *rows)` on each device's part of the batch and the heads, for kernels that XLA cannot partition.

    q, k, v: [batch, time, heads, head_dim]; k and v may have fewer heads. rows: [batch, time].
    """
    mesh, heads, kv_heads = jax.sharding.get_abstract_mesh(), q.shape[2], k.shape[2]
    tensor = 1 if mesh.empty else mesh.shape["tensor"]
    # Every device needs the keys of its own queries: where there are fewer key heads than devices, repeat them.
    copies = math.lcm(kv_heads, tensor) // kv_heads if heads % tensor == 0 else 1
    k, v = (jnp.repeat(x, copies, axis=2) for x in (k, v))
    axes = [("batch", "time", "heads", "head_dim")] * 3 + [("batch", "time")] * len(rows)
    (mixed,) = on_shards(lambda *parts: (mix(*parts),), (q, k, v, *rows), axes, axes[:1])
    return mixed


def on_shards(
    function: Callable[..., tuple[Any, ...]],
    arguments: Sequence[Any],
    axes: Sequence[tuple[str | None, ...]],
    result_axes: Sequence[tuple[str | None, ...]],
) -> tuple[Any, ...]:
    """`function(*arguments)` on each device's part of every array, where nothing of another device's part is needed.

    axes, result_axes: names of the first axes of all arrays in an argument, or a result; the others, and those called
    None, are not split, nor are those whose size the mesh does not divide.
    """
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty or mesh.size == 1:
        return function(*arguments)
    whole = {
        name
        for names, arrays in zip(axes, arguments, strict=True)
        for x in jax.tree.leaves(arrays)
        for name, size in zip(names, x.shape, strict=False)
        if name is not None and size % _parts(name, mesh)
    }
    within = mesh.auto_axes

    def specs(axes: Sequence[tuple[str | None, ...]]) -> tuple[PartitionSpec, ...]:
        return tuple(spec(*(None if name in whole else name for name in names), within=within) for names in axes)

    return jax.shard_map(
        function, mesh=mesh, in_specs=specs(axes), out_specs=specs(result_axes), axis_names=set(within), check_vma=False
    )(*arguments)


def by_replica(function: Callable[..., Any], batch: Any, *shared: Any) -> Any:
    """`function(part, *shared)` of each replica's part of a batch, stacked along a new first axis.

    Replicas compute independently, so nothing crosses the network between slices or nodes until the results are summed.
    """

    def one(part: Any, *shared: Any) -> Any:
        return jax.tree.map(lambda x: x[None], function(part, *shared))

    if replicas() == 1:
        return one(batch, *shared)
    split, same = PartitionSpec(REPLICA), PartitionSpec()
    return jax.shard_map(
        one,
        mesh=jax.sharding.get_abstract_mesh(),
        in_specs=(split, *[same] * len(shared)),
        out_specs=split,
        axis_names={REPLICA},
        check_vma=False,
    )(batch, *shared)


def replicas() -> int:
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty else mesh.shape[REPLICA]


def batch_shards() -> int:
    mesh = jax.sharding.get_abstract_mesh()
    return 1 if mesh.empty else _parts("batch", mesh)


def platform() -> str:
    """What the computation is compiled for: the mesh in use, else JAX's default ("cpu", "gpu", "tpu")."""
    device = jax.sharding.get_abstract_mesh().abstract_device
    return jax.default_backend() if device is None else device.platform


# --- what waits in host memory while the devices need their own for something else -------------------------


def in_host_memory(tree: Any) -> Any:
    return jax.tree.map(lambda x: _moved(x, HOST), tree)


def in_device_memory(tree: Any) -> Any:
    return jax.tree.map(lambda x: _moved(x, DEVICE), tree)


def _moved(x: Any, kind: str) -> Any:
    if x.sharding.memory_kind == kind:
        return x
    sharding = x.sharding.with_memory_kind(kind)
    if isinstance(x, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)
    return jax.device_put(x, sharding)
