"""The cache of parameters whose layers follow each other: every layer has its own arrays.

    prompts    keys [slots, kv_heads, head_dim, columns]         values [slots, kv_heads, columns, head_dim]
    responses  keys [slots, kv_heads, width, head_dim, columns]  values [slots, kv_heads, width, columns, head_dim]
    block      the same, with one block's columns

At every step XLA's CPU backend copies a layer that it cuts from a stack, and transposes keys that have their columns
before `head_dim`. Here a step copies no more than a block's columns; a block that looks at fewer columns than there are
copies those, once.
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

AXES = ("batch", "kv_heads")  # the first axes of every array, by name
COLUMNS: Any = KeyValues(-1, -2)  # the axis of the columns  # pyright: ignore[reportArgumentType]

Layers = tuple[KeyValues, ...]


def empty_cache(config: Qwen2Config, capacity: Capacity, dtype: DTypeLike) -> Cache:
    """A cache of zeros for `capacity`."""
    heads, depth = (capacity.slots, config.num_kv_heads), config.head_dim
    layers = range(config.num_layers)
    return Cache(
        tuple(_zeros(heads, capacity.prompt_buckets[-1], depth, dtype) for _ in layers),
        tuple(_zeros((*heads, capacity.width), capacity.kept_responses, depth, dtype) for _ in layers),
    )


def _zeros(rows: tuple[int, ...], columns: int, head_dim: int, dtype: DTypeLike) -> KeyValues:
    keys, values = jnp.zeros((*rows, head_dim, columns), dtype), jnp.zeros((*rows, columns, head_dim), dtype)
    return laid_out(KeyValues(keys, values), AXES)


def _turned(new: KeyValues) -> KeyValues:
    """Keys and values, both [..., columns, head_dim], as they are stored."""
    return KeyValues(new.keys.swapaxes(-1, -2), new.values)


def _cut(store: KeyValues, columns: int) -> KeyValues:
    """The first columns."""
    return jax.tree.map(lambda x, axis: jax.lax.slice_in_dim(x, 0, columns, axis=x.ndim + axis), store, COLUMNS)


def insert_prompts(cache: Cache, prefilled: Layers, slots: Int[Array, " prompts"]) -> Cache:
    """Writes prefilled prompts, of each layer [prompts, time, kv_heads, head_dim], into their slots.

    A slot number outside the cache marks padding and is dropped.
    """

    def put(store: KeyValues, new: KeyValues) -> KeyValues:
        keys, values = _turned(jax.tree.map(lambda x: x.swapaxes(1, 2).astype(store.keys.dtype), new))
        time = values.shape[2]
        keys = store.keys.at[slots, :, :, :time].set(keys, mode="drop")
        return laid_out(KeyValues(keys, store.values.at[slots, :, :time].set(values, mode="drop")), AXES)

    return Cache(tuple(map(put, cache.prompts, prefilled)), cache.responses)


class Unrolled:
    """A block's attention over that many columns of prompts and of responses.

    What the loop carries is every layer's block.
    """

    def __init__(self, cache: Cache, block: int, columns: tuple[int, int]) -> None:
        self._cache = cache
        self._block = block
        self._prompts = tuple(_cut(store, columns[0]) for store in cache.prompts)
        self._responses = tuple(_cut(store, columns[1]) for store in cache.responses)

    def start(self) -> Layers:
        """Empty blocks."""

        def empty(store: KeyValues) -> KeyValues:
            *rows, _, head_dim = store.values.shape
            return _zeros(tuple(rows), self._block, head_dim, store.values.dtype)

        return tuple(map(empty, self._cache.responses))

    def attention(self, blocks: Layers, visible: Visible, step: Array) -> tuple[Attend, Any]:
        """One layer's attention, and what each layer is given to it: its prompts, responses and block."""
        return Partial(_attend, visible, step), tuple(zip(self._prompts, self._responses, blocks, strict=True))

    def after(self, _blocks: Layers, new: Layers, _step: Array) -> Layers:
        """The blocks that the layers wrote into."""
        return new

    def appended(self, blocks: Layers, num_generated: Int[Array, "slots width"]) -> Cache:
        """The cache with each row's block after the tokens it has generated.

        A row without room for it clamps over its own last columns: its response is full, so nobody reads them
        again.
        """

        def put(store: Array, new: Array, axis: int) -> Array:
            each = jax.vmap(jax.vmap(jax.vmap(partial(_write, axis=axis)), in_axes=(0, 0, None)))
            return each(store, new, num_generated)  # mapped over slots, kv_heads and width

        responses = self._cache.responses
        if responses[0].values.shape[-2] > 0:
            responses = tuple(
                laid_out(jax.tree.map(put, store, new, COLUMNS), AXES)
                for store, new in zip(responses, blocks, strict=True)
            )
        return Cache(self._cache.prompts, responses)


def _write(store: Array, columns: Array, place: Array, *, axis: int) -> Array:
    """`columns` from `place` on; the axis is counted from the end."""
    return jax.lax.dynamic_update_slice_in_dim(store, columns, place, axis=store.ndim + axis)


def _attend(
    visible: Visible,
    step: Int[Array, ""],
    q: Float[Array, "rows 1 heads head_dim"],
    k: Float[Array, "rows 1 kv_heads head_dim"],
    v: Float[Array, "rows 1 kv_heads head_dim"],
    kept: tuple[KeyValues, KeyValues, KeyValues],
) -> tuple[Float[Array, "rows 1 heads head_dim"], KeyValues]:
    """Keeps the layer's block, with the new token in it."""
    prompts, responses, block = kept
    slots, columns = visible.prompts.shape[0], block.values.shape[-2]
    new = _turned(KeyValues(by_row(k, slots), by_row(v, slots)))
    block = jax.tree.map(lambda store, x, axis: _write(store, x, step, axis=axis), block, new, COLUMNS)
    parts = [
        Part(prompts, visible.prompts[:, None, None, None]),
        Part(responses, visible.responses[:, None, :, None]),
        Part(block, columns_before(step + 1, columns)[None, None, None, None]),
    ]
    return mix(q, parts, keys="dc"), block
