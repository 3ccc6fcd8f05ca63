"""The cache of parameters whose layers are stacked: layers are scanned, and each one's columns are cut where it reads.

prompts    [layers, slots, kv_heads, columns, head_dim]         one prompt per slot, shared by its rows
responses  [layers, slots, kv_heads, width, columns, head_dim]  every row's own tokens of earlier blocks
block      the same, with one block's columns                   the block being decoded
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jax.typing import DTypeLike
from jaxtyping import Array, Float, Int

from codea1_jax.models.attention import Attend
from codea1_jax.models.config import Qwen2Config
from codea1_jax.rollout.attend import Part, by_row, mix
from codea1_jax.rollout.cache import Cache, KeyValues, Visible, columns_before, laid_out
from codea1_jax.rollout.requests import Capacity

AXES = ("layers", "batch", "kv_heads")  # the first axes of every array, by name


def empty_cache(config: Qwen2Config, capacity: Capacity, dtype: DTypeLike) -> Cache:
    """A cache of zeros for `capacity`."""
    heads = (config.num_layers, capacity.slots, config.num_kv_heads)
    return Cache(
        _zeros((*heads, capacity.prompt_buckets[-1], config.head_dim), dtype),
        _zeros((*heads, capacity.width, capacity.kept_responses, config.head_dim), dtype),
    )


def _zeros(shape: tuple[int, ...], dtype: DTypeLike) -> KeyValues:
    return laid_out(KeyValues(jnp.zeros(shape, dtype), jnp.zeros(shape, dtype)), AXES)


def insert_prompts(cache: Cache, prefilled: KeyValues, slots: Int[Array, " prompts"]) -> Cache:
    """Writes prefilled prompts [layers, prompts, time, kv_heads, head_dim] into their slots.

    A slot number outside the cache marks padding and is dropped.
    """

    def put(store: Array, new: Array) -> Array:
        new = new.swapaxes(2, 3).astype(store.dtype)
        return store.at[:, slots, :, : new.shape[3]].set(new, mode="drop")

    return Cache(laid_out(jax.tree.map(put, cache.prompts, prefilled), AXES), cache.responses)


class Stacked:
    """A block's attention. The block is one store for all layers, written for all of them at once, after they were run.

    What the loop carries is the block.
    """

    def __init__(self, cache: Cache, block: int) -> None:
        self._cache = cache
        self._block = block

    def start(self) -> KeyValues:
        """An empty block."""
        *rows, _, head_dim = self._cache.responses.keys.shape
        return _zeros((*rows, self._block, head_dim), self._cache.responses.keys.dtype)

    def attention(self, block: KeyValues, visible: Visible, step: Array) -> tuple[Attend, Any]:
        """One layer's attention, and what each layer is given to it: its number."""
        return Partial(_attend, self._cache, block, visible, step), jnp.arange(block.keys.shape[0])

    def after(self, block: KeyValues, new: KeyValues, step: Int[Array, ""]) -> KeyValues:
        """The block with one token of every row, [layers, rows, 1, kv_heads, head_dim], in column `step`."""

        def put(store: Array, tokens: Array) -> Array:
            column = jax.vmap(partial(by_row, slots=store.shape[1]))(tokens)
            return jax.lax.dynamic_update_slice_in_dim(store, column, step, axis=4)

        return laid_out(jax.tree.map(put, block, new), AXES)

    def appended(self, block: KeyValues, num_generated: Int[Array, "slots width"]) -> Cache:
        """The cache with each row's block after the tokens it has generated.

        A row without room for it clamps over its own last columns: its response is full, so nobody reads them
        again.
        """
        responses = self._cache.responses

        def put_row(store: Array, new: Array, num_generated: Array) -> Array:
            return jax.lax.dynamic_update_slice_in_dim(store, new, num_generated, axis=2)

        # [layers, slots, kv_heads, width, columns, head_dim], mapped over slots and width
        put = jax.vmap(jax.vmap(put_row, in_axes=(2, 2, 0), out_axes=2), in_axes=(1, 1, 0), out_axes=1)
        if responses.keys.shape[4] > 0:
            responses = laid_out(
                jax.tree.map(lambda store, new: put(store, new, num_generated), responses, block), AXES
            )
        return Cache(self._cache.prompts, responses)


def _attend(
    cache: Cache,
    block: KeyValues,
    visible: Visible,
    step: Int[Array, ""],
    q: Float[Array, "rows 1 heads head_dim"],
    k: Float[Array, "rows 1 kv_heads head_dim"],
    v: Float[Array, "rows 1 kv_heads head_dim"],
    layer: Int[Array, ""],
) -> tuple[Float[Array, "rows 1 heads head_dim"], KeyValues]:
    """Keeps the new token's keys and values only; the caller writes them, for all layers at once."""
    slots = visible.prompts.shape[0]
    prompts = _layer_of(cache.prompts, layer, visible.prompts.shape[-1])
    responses = _layer_of(cache.responses, layer, visible.responses.shape[-1])
    columns = block.keys.shape[-2]
    parts = [
        Part(prompts, visible.prompts[:, None, None, None]),
        Part(responses, visible.responses[:, None, :, None]),
        Part(_layer_of(block, layer, columns), columns_before(step, columns)[None, None, None, None]),
        Part(KeyValues(by_row(k, slots), by_row(v, slots)), jnp.ones((1,) * 5, bool)),
    ]
    return mix(q, parts), KeyValues(k, v)


def _layer_of(store: KeyValues, layer: Array, columns: int) -> KeyValues:
    """One layer's first columns: one slice, so that nothing larger than them is ever copied."""

    def cut(x: Array) -> Array:
        size = (1, *x.shape[1:-2], columns, x.shape[-1])
        return jax.lax.dynamic_slice(x, (layer, *[0] * (x.ndim - 1)), size)[0]

    return jax.tree.map(cut, store)
