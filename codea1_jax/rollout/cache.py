"""The key/value cache of a rollout: pages that prompts and samples own.

Every layer has one store of pages, each of which holds the keys (already rotated) and values of as many tokens as a
block decodes. A prompt's pages are stored once, whatever the number of its samples; a sample's pages hold what it has
drawn. Which pages are whose is decided on the host (`schedule`).

While a block is decoded the pages are only read: every row writes the same column of a small store of the block's own,
so no step scatters or copies a cache, and after the block each row's block becomes a page. Stale pages are masked; they
are finite, so a weight of zero silences them.

Where the mesh splits a batch, each shard has pages of its own, numbered from 0: no attention ever needs another's.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from codea1_jax.runtime.layout import on_shards

AXES = ("batch", "kv_heads")  # the first axes of a layer's pages, by name


class KeyValues(NamedTuple):
    keys: Array
    values: Array


Cache = tuple[KeyValues, ...]
"""Every layer's pages, [pages, kv_heads, block, width]: head_dim, and zeros where a kernel wants them wider."""


def write_pages(cache: Cache, numbers: Int[Array, " new"], contents: Cache) -> Cache:
    """The cache with these contents, of every layer [new, kv_heads, block, head_dim], under these page numbers.

    A number that does not exist marks padding and is dropped.
    """

    def write(numbers: Array, stores: Cache, contents: Cache) -> tuple[Cache]:
        def put(pages: Array, new: Array) -> Array:
            wide = jnp.pad(new, ((0, 0),) * 3 + ((0, pages.shape[3] - new.shape[3]),))
            return pages.at[numbers].set(wide.view(pages.dtype), mode="drop")

        return (jax.tree.map(put, stores, contents),)

    return on_shards(write, (numbers, cache, contents), (("batch",), AXES, AXES), (AXES,))[0]


def as_pages(key_values: KeyValues, block: int) -> KeyValues:
    """Keys and values of whole pages of tokens, [shards, tokens, kv_heads, head_dim], as a layer's pages."""

    def cut(x: Array) -> Array:
        shards, tokens, kv_heads, head_dim = x.shape
        pages = x.reshape(shards * (tokens // block), block, kv_heads, head_dim)
        return pages.swapaxes(1, 2)

    return KeyValues(*map(cut, key_values))
