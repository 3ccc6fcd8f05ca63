"""Attention of one new token per row over parts of a cache."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from codea1_jax.models.attention import MASKED
from codea1_jax.rollout.cache import KeyValues


class Part(NamedTuple):
    """Keys and values of every slot [slots, kv_heads, columns, d] or every row [slots, kv_heads, width, columns, d].

    Keys may have their last two axes the other way round; all parts of an attention then do.
    """

    store: KeyValues
    mask: Bool[Array, "#slots 1 #width 1 columns"]


def by_row(x: Float[Array, "rows 1 heads head_dim"], slots: int) -> Float[Array, "slots heads width 1 head_dim"]:
    """What a layer computed for its batch, in a cache's order of axes."""
    rows, _, heads, head_dim = x.shape
    return x.reshape(slots, rows // slots, heads, 1, head_dim).swapaxes(1, 2)


def mix(
    q: Float[Array, "rows 1 heads head_dim"], parts: Sequence[Part], *, keys: str = "cd"
) -> Float[Array, "rows 1 heads head_dim"]:
    """Softmax attention over all parts together; scores and softmax are float32 whatever the inputs are.

    The rows of a slot look at its prompt in one matrix product. keys: "dc" if keys have their columns last.
    """
    slots, kv_heads = parts[0].store.keys.shape[:2]
    rows, _, heads, head_dim = q.shape
    queries = q.reshape(slots, rows // slots, kv_heads, heads // kv_heads, head_dim).swapaxes(1, 2)
    scores = []
    for store, mask in parts:
        form = f"skwgd,sk{_each(store)}{keys}->skwgc"
        raw = jnp.einsum(form, queries, store.keys, preferred_element_type=jnp.float32)
        scores.append(jnp.where(mask, raw / math.sqrt(head_dim), MASKED))
    weights = jax.nn.softmax(jnp.concatenate(scores, axis=-1), axis=-1).astype(q.dtype)
    ends = itertools.accumulate(part.mask.shape[-1] for part in parts)
    mixed = jnp.zeros((), q.dtype)
    for (store, _), share in zip(parts, jnp.split(weights, list(ends)[:-1], axis=-1), strict=True):
        mixed = mixed + jnp.einsum(f"skwgc,sk{_each(store)}cd->skwgd", share, store.values)
    return mixed.swapaxes(1, 2).reshape(q.shape)


def _each(store: KeyValues) -> str:
    """The axis of rows, where each has its own columns."""
    return "w" if store.keys.ndim == 5 else ""
