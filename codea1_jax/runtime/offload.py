"""What waits in host memory while the devices need their own for something else."""

from typing import Any

import jax

DEVICE = "device"
HOST = "pinned_host"  # which devices read and write by themselves


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
