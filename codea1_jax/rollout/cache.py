"""The key/value cache of a rollout: what both of its forms share.

A prompt's keys and values are stored once per slot, whatever the number of its rows; a row's own tokens are stored for
that row. While a block is decoded the cache is only read: every row writes the same column of a small store of the
block's own, so no step scatters or copies a cache, and after the block each row's new columns are written at the row's
num_generated. Stale columns of earlier slot_states are masked; they are finite, so a weight of zero silences them.

There is a form for each way to hold the parameters (`models.unrolled`); both give the same numbers up to rounding.

    stacked   all layers in one array, as accelerators read them
    unrolled  an array for each layer, its keys' columns last, as a CPU's matrix products read them
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from codea1_jax.models.layout import constrain


class KeyValues(NamedTuple):
    """Keys (already rotated) and values of the same places."""

    keys: Array
    values: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Cache:
    """What stays on the device between blocks, `KeyValues` of all layers or of each."""

    prompts: Any
    responses: Any


class Visible(NamedTuple):
    """Which columns each row may look at. Only as many columns as the masks have are ever read."""

    prompts: Bool[Array, "slots prompt_columns"]
    responses: Bool[Array, "slots width response_columns"]


def laid_out(store: KeyValues, axes: Sequence[str]) -> KeyValues:
    """Split over the mesh in use by slots and, where it divides them, key/value heads; `axes` names the first axes."""
    return jax.tree.map(lambda x: constrain(x, *axes, *[None] * (x.ndim - len(axes))), store)


def columns_before(ends: Int[Array, "*batch"], columns: int) -> Bool[Array, "*batch columns"]:
    """Which of that many columns come before each end."""
    places = jax.lax.broadcasted_iota(jnp.int32, (*ends.shape, columns), ends.ndim)
    return places < ends[..., None]
