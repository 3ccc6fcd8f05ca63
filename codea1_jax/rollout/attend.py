"""Attention of one new token per row over the cache, and the block that is being decoded.

There are two ways to hold a block, one per way to hold the parameters (`models.unrolled`). Both give the same
numbers up to rounding.

    Stacked   layers are scanned; a layer's columns are cut from the cache where they are read.
    Unrolled  layers follow each other; their columns are cut once per block, and the block's own are written
              behind them, so that a step copies nothing and a row's own tokens are one product instead of three.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.attention import MASKED, Attend
from codea1_jax.rollout.cache import Cache, KeyValues, columns_before, laid_out


class Visible(NamedTuple):
    """Which columns each row may look at. Only as many columns as the masks have are ever read."""

    prompts: Bool[Array, "slots prompt_columns"]
    responses: Bool[Array, "slots width response_columns"]
    block: Bool[Array, " block_columns"]


class Part(NamedTuple):
    """Keys and values of every slot [slots, kv_heads, columns, d] or every row [slots, kv_heads, width, columns, d]."""

    store: KeyValues
    mask: Bool[Array, "#slots 1 #width 1 columns"]


class Stacked:
    """The block is one store for all layers, written for all of them at once, after they were run."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def start(self, block: KeyValues) -> KeyValues:
        """What the loop carries, from an empty block [layers, slots, kv_heads, width, block, head_dim]."""
        return block

    def attention(self, block: KeyValues, visible: Visible, _step: Array) -> tuple[Attend, Any]:
        """One layer's attention, and what each layer is given to it: its number."""
        return Partial(_attend_stacked, self._cache, block, visible), jnp.arange(block.keys.shape[0])

    def after(self, block: KeyValues, new: KeyValues, step: Int[Array, ""]) -> KeyValues:
        """The block with one token of every row, [layers, rows, 1, kv_heads, head_dim], in column `step`."""

        def put(store: Array, tokens: Array) -> Array:
            column = jax.vmap(partial(_by_row, slots=store.shape[1]))(tokens)
            return jax.lax.dynamic_update_slice_in_dim(store, column, step, axis=4)

        return laid_out(jax.tree.map(put, block, new))

    def written(self, block: KeyValues) -> KeyValues:
        """The block's columns, of the shape of the empty block."""
        return block


class Unrolled:
    """Every layer has a store of its rows' own columns: those of earlier blocks and, behind them, the block's."""

    def __init__(self, cache: Cache, columns: tuple[int, int]) -> None:
        layers = range(cache.prompts.keys.shape[0])
        self._prompts = tuple(_layer_of(cache.prompts, layer, columns[0]) for layer in layers)
        self._responses = tuple(_layer_of(cache.responses, layer, columns[1]) for layer in layers)

    def start(self, block: KeyValues) -> tuple[KeyValues, ...]:
        """What the loop carries, from an empty block [layers, slots, kv_heads, width, block, head_dim]."""

        def behind(layer: int, earlier: KeyValues) -> KeyValues:
            return jax.tree.map(lambda old, new: jnp.concatenate([old, new[layer]], axis=3), earlier, block)

        return tuple(behind(layer, earlier) for layer, earlier in enumerate(self._responses))

    def attention(self, own: tuple[KeyValues, ...], visible: Visible, step: Array) -> tuple[Attend, Any]:
        """One layer's attention, and what each layer is given to it: its prompts and its own columns."""
        return Partial(_attend_unrolled, visible, step), tuple(zip(self._prompts, own, strict=True))

    def after(self, _own: Any, new: tuple[KeyValues, ...], _step: Array) -> tuple[KeyValues, ...]:
        """The own columns that the layers wrote into."""
        return new

    def written(self, own: tuple[KeyValues, ...]) -> KeyValues:
        """The block's columns, of the shape of the empty block."""
        earlier = self._responses[0].keys.shape[3]
        return jax.tree.map(lambda *layers: jnp.stack([x[:, :, :, earlier:] for x in layers]), *own)


def _layer_of(store: KeyValues, layer: Array | int, columns: int) -> KeyValues:
    """One layer's first columns: one slice, so that nothing larger than them is ever copied."""

    def cut(x: Array) -> Array:
        size = (1, *x.shape[1:-2], columns, x.shape[-1])
        return jax.lax.dynamic_slice(x, (layer, *[0] * (x.ndim - 1)), size)[0]

    return jax.tree.map(cut, store)


def _by_row(x: Float[Array, "rows 1 heads head_dim"], slots: int) -> Float[Array, "slots heads width 1 head_dim"]:
    rows, _, heads, head_dim = x.shape
    return x.reshape(slots, rows // slots, heads, 1, head_dim).swapaxes(1, 2)


def _attend_stacked(
    cache: Cache,
    block: KeyValues,
    visible: Visible,
    q: Float[Array, "rows 1 heads head_dim"],
    k: Float[Array, "rows 1 kv_heads head_dim"],
    v: Float[Array, "rows 1 kv_heads head_dim"],
    layer: Int[Array, ""],
) -> tuple[Float[Array, "rows 1 heads head_dim"], KeyValues]:
    """Keeps the new token's keys and values only; the caller writes them, for all layers at once."""
    slots = visible.prompts.shape[0]
    prompts = _layer_of(cache.prompts, layer, visible.prompts.shape[-1])
    responses = _layer_of(cache.responses, layer, visible.responses.shape[-1])
    current = _layer_of(block, layer, visible.block.shape[-1])
    parts = [
        Part(prompts, visible.prompts[:, None, None, None]),
        Part(responses, visible.responses[:, None, :, None]),
        Part(current, visible.block[None, None, None, None]),
        Part(KeyValues(_by_row(k, slots), _by_row(v, slots)), jnp.ones((1,) * 5, bool)),
    ]
    return _mix(q, parts), KeyValues(k, v)


def _attend_unrolled(
    visible: Visible,
    step: Int[Array, ""],
    q: Float[Array, "rows 1 heads head_dim"],
    k: Float[Array, "rows 1 kv_heads head_dim"],
    v: Float[Array, "rows 1 kv_heads head_dim"],
    kept: tuple[KeyValues, KeyValues],
) -> tuple[Float[Array, "rows 1 heads head_dim"], KeyValues]:
    """Keeps the rows' own columns, with the new token among them."""
    prompts, own = kept
    slots, width, earlier = visible.responses.shape

    def put(store: Array, new: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(store, _by_row(new, slots), earlier + step, axis=3)

    own = jax.tree.map(put, own, KeyValues(k, v))
    current = jnp.broadcast_to(columns_before(step + 1, visible.block.shape[0]), (slots, width, visible.block.shape[0]))
    mine = jnp.concatenate([visible.responses, current], axis=-1)
    parts = [Part(prompts, visible.prompts[:, None, None, None]), Part(own, mine[:, None, :, None])]
    return _mix(q, parts), own


def _mix(q: Float[Array, "rows 1 heads head_dim"], parts: Sequence[Part]) -> Float[Array, "rows 1 heads head_dim"]:
    """Softmax attention over all parts together; scores and softmax are float32 whatever the inputs are.

    The rows of a slot look at its prompt in one matrix product.
    """
    slots, kv_heads = parts[0].store.keys.shape[:2]
    rows, _, heads, head_dim = q.shape
    queries = q.reshape(slots, rows // slots, kv_heads, heads // kv_heads, head_dim).swapaxes(1, 2)
    scores = []
    for store, mask in parts:
        form = "skwgd,skcd->skwgc" if store.keys.ndim == 4 else "skwgd,skwcd->skwgc"
        raw = jnp.einsum(form, queries, store.keys, preferred_element_type=jnp.float32)
        scores.append(jnp.where(mask, raw / math.sqrt(head_dim), MASKED))
    weights = jax.nn.softmax(jnp.concatenate(scores, axis=-1), axis=-1).astype(q.dtype)
    ends = itertools.accumulate(part.mask.shape[-1] for part in parts)
    mixed = jnp.zeros((), q.dtype)
    for (store, _), share in zip(parts, jnp.split(weights, list(ends)[:-1], axis=-1), strict=True):
        form = "skwgc,skcd->skwgd" if store.values.ndim == 4 else "skwgc,skwcd->skwgd"
        mixed = mixed + jnp.einsum(form, share, store.values)
    return mixed.swapaxes(1, 2).reshape(q.shape)
