"""Devices that exchange arrays, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from codea1_jax.doctor.selftest.checks import Check, Row

_DEVICES = "devices"  # the mesh's only axis


def collective_checks() -> Iterator[Check]:
    if jax.device_count() > 1:
        yield from (Check(f"{name}, {jax.device_count()} devices", partial(_collective, name)) for name in COLLECTIVES)


def _shift(x: Any) -> Any:
    count = jax.device_count()
    return jax.lax.ppermute(x, _DEVICES, [(device, (device + 1) % count) for device in range(count)])


# What each device gets from the parts of all, [devices, length]: by JAX, and by NumPy.
COLLECTIVES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray, int], np.ndarray]]] = {
    "all-reduce": (partial(jax.lax.psum, axis_name=_DEVICES), lambda parts, device: parts.sum(axis=0)),
    "all-gather": (
        partial(jax.lax.all_gather, axis_name=_DEVICES, tiled=True),
        lambda parts, device: parts.reshape(-1),
    ),
    "reduce-scatter": (
        partial(jax.lax.psum_scatter, axis_name=_DEVICES, tiled=True),
        lambda parts, device: np.split(parts.sum(axis=0), len(parts))[device],
    ),
    "all-to-all": (
        partial(jax.lax.all_to_all, axis_name=_DEVICES, split_axis=0, concat_axis=0, tiled=True),
        lambda parts, device: parts.reshape(len(parts), len(parts), -1)[:, device].reshape(-1),
    ),
    "permute": (_shift, lambda parts, device: parts[device - 1]),
}


def _collective(name: str) -> Iterator[Row]:
    """Whole numbers, which every order of summing sums alike."""
    function, expected = COLLECTIVES[name]
    count = jax.device_count()
    mesh = jax.make_mesh((count,), (_DEVICES,))
    parts = np.random.default_rng(0).integers(-1000, 1000, (count, 1024 * count)).astype(np.float32)
    split = NamedSharding(mesh, P(_DEVICES))
    placed = jax.make_array_from_callback((parts.size,), split, lambda index: parts.reshape(-1)[index])
    run = jax.jit(jax.shard_map(function, mesh=mesh, in_specs=P(_DEVICES), out_specs=P(_DEVICES), check_vma=False))
    order = {device: index for index, device in enumerate(mesh.devices.flat)}
    wrong = [
        str(shard.device)
        for shard in run(placed).addressable_shards
        if not np.array_equal(np.asarray(shard.data), expected(parts, order[shard.device]))
    ]
    title = f"{name}, {count} devices"
    yield Row(title, not wrong, "NumPy's numbers", f"wrong on {', '.join(wrong)}" if wrong else "equal everywhere")
