"""Fingerprints of arrays: what a restored array is compared with.

A fingerprint is a sum over an array's elements, which no sharding changes: it is computed on the devices that
hold the array, and a step may be restored onto another mesh.
"""

import hashlib
import json
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped, UInt32

from codea1_jax.runtime.layout import HOST, in_device_memory


def describe(arrays: Any) -> dict[str, list[Any]]:
    """Type, shape and fingerprint of every array of a tree, by path."""
    values = [value for group in groups(arrays) for value in jax.device_get(fingerprints(in_device_memory(group)))]
    return {
        name: [*description, int(value)]
        for (name, description), value in zip(shapes(arrays).items(), values, strict=True)
    }


def groups(arrays: Any) -> list[list[Any]]:
    """The arrays of a tree, in its order, by call of `fingerprints`: together, unless some wait in host memory."""
    leaves = jax.tree.leaves(arrays)
    return [[x] for x in leaves] if any(x.sharding.memory_kind == HOST for x in leaves) else [leaves]


def digest(arrays: Any) -> str:
    return hashlib.sha256(json.dumps(describe(arrays), sort_keys=True).encode()).hexdigest()[:16]


def shapes(tree: Any) -> dict[str, list[Any]]:
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): [str(leaf.dtype), list(leaf.shape)]
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


def fingerprint(array: Shaped[Array, "*shape"]) -> UInt32[Array, ""]:
    """Σ over elements of (bits * an odd hash of the place) mod 2³².

    The factor is odd, hence invertible: any change of one element changes the sum.
    """
    if array.ndim < 3:
        return _sum_from(jnp.uint32(0), array)
    # Layer by layer, an axis that no mesh splits: not every compiler fuses the products into the sum.
    size = array.size // array.shape[0]
    firsts = jax.lax.iota(jnp.uint32, array.shape[0]) * jnp.uint32(size % 2**32)
    return jnp.sum(jax.lax.map(lambda layer: _sum_from(*layer), (firsts, array)), dtype=jnp.uint32)


@jax.jit
def fingerprints(arrays: list[Array]) -> list[UInt32[Array, ""]]:
    """One after the other: together they would need as much memory again as the arrays."""
    found, before = [], jnp.uint32(0)
    for array in arrays:
        waiting, _ = jax.lax.optimization_barrier((array, before))
        found.append(before := fingerprint(waiting))
    return found


def _sum_from(first: UInt32[Array, ""], array: Shaped[Array, "*shape"]) -> UInt32[Array, ""]:
    """The share of these elements, the first of which is the whole array's number `first`."""
    width = array.dtype.itemsize * 8
    unsigned = jnp.dtype(f"uint{min(width, 32)}")
    bits = array if array.dtype == bool else jax.lax.bitcast_convert_type(array, unsigned)
    places = first + jax.lax.iota(jnp.uint32, bits.size).reshape(bits.shape)
    factors = (places * jnp.uint32(2654435761)) | jnp.uint32(1)
    return jnp.sum(bits.astype(jnp.uint32) * factors, dtype=jnp.uint32)
