"""The key/value cache of a rollout; `attend` reads it.

    prompts    [layers, slots, kv_heads, columns, head_dim]         one prompt per slot, shared by its rows
    responses  [layers, slots, kv_heads, width, columns, head_dim]  every row's own tokens of earlier blocks
    block      the same, with one block's columns                   the block being decoded

`prompts` and `responses` are only read while a block is decoded, and every row writes the same column of `block`
at a step, so no step scatters or copies a cache. Stale columns of earlier tenants are masked; they are finite, so a
weight of zero silences them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Int

from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.layout import constrain
from codea1_jax.rollout.requests import Capacity


class KeyValues(NamedTuple):
    """Keys (already rotated) and values of the same places."""

    keys: Array
    values: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """What stays on the device between blocks."""

    prompts: KeyValues
    responses: KeyValues


def _zeros(shape: tuple[int, ...], dtype: DTypeLike) -> KeyValues:
    return laid_out(KeyValues(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)))


def laid_out(store: KeyValues) -> KeyValues:
    """Split over the mesh in use by slots and, where it divides them, by key/value heads."""

    def lay_out(x: Array) -> Array:
        return constrain(x, "layers", "batch", "kv_heads", *[None] * (x.ndim - 3))

    return jax.tree.map(lay_out, store)


def empty_cache(config: Qwen2Config, capacity: Capacity, dtype: DTypeLike) -> Cache:
    """A cache of zeros for `capacity`."""
    heads = (config.num_layers, capacity.slots, config.num_kv_heads)
    return Cache(
        _zeros((*heads, capacity.prompt_buckets[-1], config.head_dim), dtype),
        _zeros((*heads, capacity.width, capacity.kept_responses, config.head_dim), dtype),
    )


def empty_block(config: Qwen2Config, capacity: Capacity, dtype: DTypeLike) -> KeyValues:
    """The columns of one block, zeros."""
    heads = (config.num_layers, capacity.slots, config.num_kv_heads)
    return _zeros((*heads, capacity.width, capacity.block, config.head_dim), dtype)


def insert_prompts(cache: Cache, prefilled: KeyValues, slots: Int[Array, " prompts"]) -> Cache:
    """Writes prefilled prompts [layers, prompts, time, kv_heads, head_dim] into their slots.

    A slot number outside the cache marks padding and is dropped.
    """

    def put(store: Array, new: Array) -> Array:
        new = new.swapaxes(2, 3).astype(store.dtype)
        return store.at[:, slots, :, : new.shape[3]].set(new, mode="drop")

    return Cache(laid_out(jax.tree.map(put, cache.prompts, prefilled)), cache.responses)


def append_block(responses: KeyValues, block: KeyValues, ages: Int[Array, "slots width"]) -> KeyValues:
    """Writes each row's block at the row's age.

    A row without room for it clamps over its own last columns: its response is full, so nobody reads them
    again.
    """

    def put_row(store: Array, new: Array, age: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(store, new, age, axis=2)

    # [layers, slots, kv_heads, width, columns, head_dim], mapped over slots and width
    put = jax.vmap(jax.vmap(put_row, in_axes=(2, 2, 0), out_axes=2), in_axes=(1, 1, 0), out_axes=1)
    if responses.keys.shape[4] == 0:
        return responses
    return laid_out(jax.tree.map(lambda store, new: put(store, new, ages), responses, block))


def columns_before(ends: Int[Array, "*batch"], columns: int) -> Bool[Array, "*batch columns"]:
    """Which of so many columns come before each end."""
    places = jax.lax.broadcasted_iota(jnp.int32, (*ends.shape, columns), ends.ndim)
    return places < ends[..., None]
