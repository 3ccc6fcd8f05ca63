"""How a block's rows read the pages of the cache: by a kernel that follows page tables, or from copies.

    Paged      a Pallas kernel reads each row's own pages, as far as the row has come (TPU, GPU)
    Gathered   once a block, pages are copied side by side, then read by plain XLA up to the longest row's (CPU)

Both give the same numbers up to rounding, and have

    sublanes   what a row's queries of a key/value head must be a multiple of
    width      how wide pages must be for heads of a size
    columns    the prompt and response pages that a program looks at for a block whose tiles need this many
    prepare    what is the same for all steps of a block: for all layers, and for each, with axes split as `AXES`
    mix        every query looks at its tile's pages; runs on a device's own part of everything

A *tile* is a row, or the rows that share a prompt.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from codea1_jax.rollout import paged_gpu, paged_tpu
from codea1_jax.rollout.attend import Mixed, mix
from codea1_jax.rollout.cache import AXES, Cache, KeyValues
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.runtime.layout import on_shards


@dataclass(frozen=True)
class Gathered:
    """Reads copies of the pages."""

    sublanes: int = 1

    def width(self, head_dim: int) -> int:
        return head_dim

    def columns(self, needed: tuple[int, int], capacity: Capacity) -> tuple[int, int]:
        return needed

    def prepare(
        self, cache: Cache, tables: Int[Array, "tiles pages"], lengths: Int[Array, " tiles"]
    ) -> tuple[Array, Cache]:
        """Lengths, and every layer's copies."""

        def gather(cache: Cache, tables: Array) -> tuple[Cache]:
            return (tuple(_side_by_side(store, tables) for store in cache),)

        return lengths, *on_shards(gather, (cache, tables), (AXES, ("batch",)), (AXES,))

    def mix(
        self, q: Float[Array, "tiles kv_heads queries head_dim"], shared: Int[Array, " tiles"], layer: KeyValues
    ) -> Mixed:
        return mix(q, layer, shared)


def _side_by_side(store: KeyValues, tables: Int[Array, "tiles pages"]) -> KeyValues:
    """Copies [tiles, kv_heads, columns, head_dim]. Taken as rows of a matrix: nothing is transposed."""
    _, kv_heads, block, head_dim = store.keys.shape
    numbers = tables[:, None] * kv_heads + jnp.arange(kv_heads)[None, :, None]

    def copied(pages: Array) -> Array:
        rows = pages.reshape(-1, block * head_dim).at[numbers].get(mode="clip")
        return rows.reshape(len(tables), kv_heads, -1, head_dim)

    return KeyValues(*map(copied, store))


@dataclass(frozen=True)
class Paged:
    """Reads the pages where they lie, by the kernel in a module: its `width`, `work_of` and `paged_attention`."""

    kernel: ModuleType
    sublanes: int = 1
    interpret: bool = False

    def width(self, head_dim: int) -> int:
        return self.kernel.width(head_dim)

    def columns(self, needed: tuple[int, int], capacity: Capacity) -> tuple[int, int]:
        """All there can be: the kernel stops where a tile ends."""
        return capacity.prompt_pages, capacity.response_pages

    def prepare(
        self, cache: Cache, tables: Int[Array, "tiles pages"], lengths: Int[Array, " tiles"]
    ) -> tuple[Any, Cache]:
        """The kernel's work, with an axis for the shards, and the cache itself."""
        block = cache[0].keys.shape[2]

        def work(tables: Array, lengths: Array) -> tuple[Any]:
            return (jax.tree.map(lambda x: x[None], self.kernel.work_of(tables, lengths, block)),)

        return *on_shards(work, (tables, lengths), (("batch",), ("batch",)), (("batch",),)), cache

    def mix(self, q: Float[Array, "tiles kv_heads queries head_dim"], shared: Any, layer: KeyValues) -> Mixed:
        work = jax.tree.map(lambda x: x[0], shared)
        return Mixed(*self.kernel.paged_attention(q, *layer, work, interpret=self.interpret))


Reader = Gathered | Paged


def reader_for(platform: str) -> Reader:
    if platform == "tpu":
        return Paged(paged_tpu, paged_tpu.SUBLANES)
    return Paged(paged_gpu) if platform in ("gpu", "cuda") else Gathered()
