"""Fingerprints of arrays: what a restored array is compared with.

A fingerprint is a sum over an array's elements, which no sharding changes: it is computed on the devices that
hold the array, and a step may be restored onto another mesh.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Shaped, UInt32


def describe(arrays: Any) -> dict[str, list[Any]]:
    """By path: type, shape and fingerprint of every array of a tree."""
    fingerprints = jax.device_get(_fingerprints(arrays))
    return {
        name: [*description, int(value)]
        for (name, description), value in zip(shapes(arrays).items(), jax.tree.leaves(fingerprints), strict=True)
    }


def shapes(tree: Any) -> dict[str, list[Any]]:
    """By path: type and shape of every array, or `jax.ShapeDtypeStruct`, of a tree."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): [str(leaf.dtype), list(leaf.shape)]
        for path, leaf in jax.tree.leaves_with_path(tree)
    }


@jax.jit
def _fingerprints(arrays: Any) -> Any:
    return jax.tree.map(fingerprint, arrays)


def fingerprint(array: Shaped[Array, "*shape"]) -> UInt32[Array, ""]:
    """Σ over elements of (bits * an odd hash of the place) mod 2³².

    The factor is odd, hence invertible: any change of one element changes the sum.
    """
    width = array.dtype.itemsize * 8
    unsigned = jnp.dtype(f"uint{min(width, 32)}")
    bits = array if array.dtype == bool else jax.lax.bitcast_convert_type(array, unsigned)
    places = jax.lax.iota(jnp.uint32, bits.size).reshape(bits.shape)
    factors = (places * jnp.uint32(2654435761)) | jnp.uint32(1)
    return jnp.sum(bits.astype(jnp.uint32) * factors, dtype=jnp.uint32)
