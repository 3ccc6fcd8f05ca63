"""The key/value cache of a rollout and attention over it.

    prompts    [layers, slots, kv_heads, columns, head_dim]         one prompt per slot, shared by its rows
    responses  [layers, slots, kv_heads, width, columns, head_dim]  every row's own tokens of earlier blocks
    block      the same, with one block's columns                   the block being decoded

A row's new token looks at four things: its group's prompt (one matrix product for all rows of the group), its
own earlier blocks, the current block and itself, under one softmax. `prompts` and `responses` are only read
while a block is decoded, and every row writes the same column of `block` at a step, so no step scatters or
copies a cache. Stale columns of earlier tenants are masked; they are finite, so a weight of zero silences
them.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.attention import MASKED, Attend
from codea1_jax.models.config import Qwen2Config
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
    return KeyValues(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype))


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

    return Cache(jax.tree.map(put, cache.prompts, prefilled), cache.responses)


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
    return jax.tree.map(lambda store, new: put(store, new, ages), responses, block)


def write_column(block: KeyValues, new: KeyValues, column: Int[Array, ""]) -> KeyValues:
    """Puts one token of every row, [layers, rows, 1, kv_heads, head_dim], into a column of the block."""
    layers, slots, kv_heads, width, _, head_dim = block.keys.shape

    def put(store: Array, token: Array) -> Array:
        token = token.reshape(layers, slots, width, kv_heads, head_dim).swapaxes(2, 3)
        return jax.lax.dynamic_update_slice_in_dim(store, token[:, :, :, :, None], column, axis=4)

    return jax.tree.map(put, block, new)


def columns_before(ends: Int[Array, "*batch"], columns: int) -> Bool[Array, "*batch columns"]:
    """Which of so many columns come before each end."""
    places = jax.lax.broadcasted_iota(jnp.int32, (*ends.shape, columns), ends.ndim)
    return places < ends[..., None]


class Visible(NamedTuple):
    """Which columns each row may look at. Only as many columns as the masks have are ever read."""

    prompts: Bool[Array, "slots prompt_columns"]
    responses: Bool[Array, "slots width response_columns"]
    block: Bool[Array, " block_columns"]


def decode_attention(cache: Cache, block: KeyValues, visible: Visible) -> Attend:
    """Attention of one new token per row; what a layer kept before is the layer's number.

    Keeps the new token's own keys and values only; the caller writes them, for all layers at once, into the
    block.
    """
    return Partial(_attend_shared, cache, block, visible)


def _layer_of(store: KeyValues, layer: Array, columns: int) -> KeyValues:
    """One layer's first columns: one slice, so that nothing larger than them is ever copied."""

    def cut(x: Array) -> Array:
        size = (1, *x.shape[1:-2], columns, x.shape[-1])
        return jax.lax.dynamic_slice(x, (layer, *[0] * (x.ndim - 1)), size)[0]

    return jax.tree.map(cut, store)


def _attend_shared(
    cache: Cache,
    block: KeyValues,
    visible: Visible,
    q: Float[Array, "rows 1 heads head_dim"],
    k: Float[Array, "rows 1 kv_heads head_dim"],
    v: Float[Array, "rows 1 kv_heads head_dim"],
    layer: Int[Array, ""],
) -> tuple[Float[Array, "rows 1 heads head_dim"], KeyValues]:
    slots, width = visible.responses.shape[:2]
    kv_heads, head_dim = k.shape[2:]
    ends = [visible.prompts.shape[-1], visible.responses.shape[-1], visible.block.shape[-1]]
    prompts = _layer_of(cache.prompts, layer, ends[0])
    responses = _layer_of(cache.responses, layer, ends[1])
    current = _layer_of(block, layer, ends[2])

    def by_slot(x: Array) -> Array:  # [rows, 1, heads, d] -> [slots, kv_heads, width, heads per kv head, d]
        return x.reshape(slots, width, kv_heads, -1, head_dim).swapaxes(1, 2)

    queries, own_key, own_value = by_slot(q), by_slot(k), by_slot(v)

    def masked_scores(form: str, keys: Array, mask: Array) -> Array:
        scores = jnp.einsum(form, queries, keys, preferred_element_type=jnp.float32)
        return jnp.where(mask, scores / math.sqrt(head_dim), MASKED)

    scores = [
        masked_scores("skwgd,skcd->skwgc", prompts.keys, visible.prompts[:, None, None, None]),
        masked_scores("skwgd,skwcd->skwgc", responses.keys, visible.responses[:, None, :, None]),
        masked_scores("skwgd,skwcd->skwgc", current.keys, visible.block[None, None, None, None]),
        masked_scores("skwgd,skwcd->skwgc", own_key, jnp.ones((1,) * 5, bool)),
    ]
    weights = jax.nn.softmax(jnp.concatenate(scores, axis=-1), axis=-1).astype(v.dtype)
    on_prompt, on_response, on_block, on_self = jnp.split(weights, list(itertools.accumulate(ends)), axis=-1)
    mixed = (
        jnp.einsum("skwgc,skcd->skwgd", on_prompt, prompts.values)
        + jnp.einsum("skwgc,skwcd->skwgd", on_response, responses.values)
        + jnp.einsum("skwgc,skwcd->skwgd", on_block, current.values)
        + on_self * own_value
    )
    return mixed.swapaxes(1, 2).reshape(q.shape), KeyValues(k, v)
