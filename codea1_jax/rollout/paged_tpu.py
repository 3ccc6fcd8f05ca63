"""Attention of decoding queries over a cache in pages on TPU, a Pallas kernel.

A tile is a set of queries that look at the same tokens. The kernel works through a list of items: the chunks that each
tile really has, so its time depends on the tokens and not on the longest tile. A step of its grid starts the copies of
one item's pages into VMEM and attends to an item whose copies were started `AHEAD` steps before, so memory is read
without a pause, across tiles as well. Pallas' own pipeline brings in queries and page numbers and takes out results.
The list is split into two parts that share no tile, so that a device with two cores, as v5p's, gives one to each; a
single core takes them in turn, and idles where the shorter one has ended.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Int

from codea1_jax.models.attention.sight import MASKED

LANES = 128  # pages must be as wide as a multiple of these; TPUs pad narrower ones, and XLA would copy the store
# A row's queries of a key/value head should be as many as a multiple of these: else XLA takes tiles apart to stack the
# rows of a prompt, and again to part them (a sixth of decoding 1.5B on v5e, by libtpu's estimate, the cache left out).
SUBLANES = 8
CHUNK = 512  # tokens of an item: reading them takes longer than a step's fixed cost
AHEAD = 2  # items whose pages are on their way while another is attended to
MOST_QUERIES = 1024  # of all key/value heads: their scores, and sums, fit into VMEM
WINDOW = 64  # items whose page numbers come into SMEM together


class Work(NamedTuple):
    """What the kernel works through: items, those of a tile one after another, and padding.

    bounds: the first item of each part, and the end of the last. first: each part's first tile. tile, start: each
    item's tile, and its first token in it. pages: the numbers of the items' pages, WINDOW items to a window. lengths:
    each tile's tokens.
    """

    bounds: Int[Array, " parts+1"]
    first: Int[Array, " parts"]
    tile: Int[Array, " items"]
    start: Int[Array, " items"]
    pages: Int[Array, "windows 1 numbers"]
    lengths: Int[Array, " tiles"]


def width(head_dim: int) -> int:
    return head_dim + -head_dim % LANES


def work_of(tables: Int[Array, "tiles columns"], lengths: Int[Array, " tiles"], page_size: int) -> Work:
    """The work of tiles that look at the first `lengths` tokens of the pages `tables`.

    Entries of a table beyond its length may hold anything.
    """
    tiles, columns = tables.shape
    item_pages = max(1, min(CHUNK // page_size, columns))
    most = max(1, -(-columns // item_pages))
    chunks = -(-lengths // (item_pages * page_size))
    ends = jnp.cumsum(chunks)
    items = jnp.arange(tiles * most + -(tiles * most) % WINDOW)
    tile = jnp.minimum(jnp.searchsorted(ends, items, side="right"), tiles - 1)
    chunk = jnp.clip(items - (ends - chunks)[tile], 0, most - 1)
    by_chunk = jnp.pad(tables, ((0, 0), (0, most * item_pages - columns))).reshape(tiles, most, item_pages)
    bounds, first = _halves(ends)
    return Work(
        bounds=bounds,
        first=first,
        tile=tile,
        start=chunk * (item_pages * page_size),
        pages=by_chunk[tile, chunk].reshape(-1, 1, WINDOW * item_pages),
        lengths=lengths,
    )


def _halves(ends: Int[Array, " tiles"]) -> tuple[Array, Array]:
    """`bounds` and `first` of the two parts, the first of which ends where a tile does, as close to half as possible.

    ends: the end of each tile's items. A single tile is one part.
    """
    zero, count = jnp.zeros_like(ends[-1]), ends[-1]
    if len(ends) == 1:
        return jnp.stack([zero, count]), jnp.stack([zero])
    last = jnp.argmin(jnp.abs(2 * ends[:-1] - count)).astype(ends.dtype)
    return jnp.stack([zero, ends[last], count]), jnp.stack([zero, last + 1])


def paged_attention(
    q: Float[Array, "tiles kv_heads queries head_dim"],
    keys: Float[Array, "pages kv_heads page width"],
    values: Float[Array, "pages kv_heads page width"],
    work: Work,
    *,
    interpret: bool | pltpu.InterpretParams = False,
) -> tuple[Float[Array, "tiles kv_heads queries head_dim"], Float[Array, "tiles kv_heads queries"]]:
    """Mixed values, and the log-sum-exp of each query's scores; float32. A tile without tokens gets 0 and MASKED.

    width: head_dim, or more, with zeros in the rest. TPUs pad it to 128 in any case, and XLA would keep a narrower
    store in another order and copy it for every program. `interpret` runs the kernel where there is no TPU.
    """
    kv_heads, queries, head_dim = q.shape[1:]
    most = max(SUBLANES, MOST_QUERIES // kv_heads // SUBLANES * SUBLANES)
    if queries > most:
        parts = [
            paged_attention(q[:, :, start : start + most], keys, values, work, interpret=interpret)
            for start in range(0, queries, most)
        ]
        mixed, normalizers = (jnp.concatenate(blocks, axis=2) for blocks in zip(*parts, strict=True))
        return mixed, normalizers
    if not interpret:  # else XLA may copy a store that fits into VMEM
        keys, values = (pltpu.with_memory_space_constraint(x, pltpu.HBM) for x in (keys, values))
    scalars = work.bounds, work.first, work.tile, work.start, work.lengths
    wide = jnp.pad(q, ((0, 0),) * 3 + ((0, keys.shape[3] - head_dim),))
    mixed, normalizers = pl.pallas_call(
        partial(_kernel, 1 / math.sqrt(head_dim)),
        grid_spec=_grid_spec(wide, keys, work),
        out_shape=[jax.ShapeDtypeStruct((*q.shape[:3], last), jnp.float32) for last in (keys.shape[3], 1)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary"), disable_bounds_checks=True),
        cost_estimate=_cost(queries, keys),
        interpret=interpret,
        name="paged_attention",
    )(*scalars, work.pages, wide, keys, values)
    empty = (work.lengths == 0)[:, None, None]  # tiles without items, of which nothing is written
    mixed = jnp.where(empty[..., None], 0.0, mixed[..., :head_dim])
    return mixed, jnp.where(empty, MASKED, normalizers[..., 0])


def _grid_spec(
    q: Float[Array, "tiles kv_heads queries width"], keys: Float[Array, "pages kv_heads page width"], work: Work
) -> pltpu.PrefetchScalarGridSpec:
    _, kv_heads, queries, width = q.shape
    windows, _, numbers = work.pages.shape

    def of_tile(part: Array, step: Array, bounds: Any, first: Any, tile: Any, *_: Any) -> tuple[Array, int, int, int]:
        item = jnp.minimum(bounds[part] + jnp.maximum(step - AHEAD, 0), bounds[part + 1] - 1)
        # The tiles of a part without items are empty; it must not write to one of another part.
        used = bounds[part] < bounds[part + 1]
        return jnp.where(used, tile[jnp.maximum(item, 0)], first[part]), 0, 0, 0

    def of_window(part: Array, step: Array, bounds: Any, *_: Any) -> tuple[Array, int, int]:
        return jnp.minimum(jax.lax.div(bounds[part] + step, WINDOW), windows - 1), 0, 0

    rows = pl.BlockSpec((None, kv_heads, queries, width), of_tile)
    store = pl.BlockSpec(memory_space=pltpu.HBM)
    buffer = pltpu.VMEM((AHEAD + 1, numbers // WINDOW, kv_heads, keys.shape[2], width), keys.dtype)
    per_query = pltpu.VMEM((kv_heads, queries, 1), jnp.float32)
    sums = pltpu.VMEM((kv_heads, queries, width), jnp.float32)
    return pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=5,
        grid=(len(work.first), jnp.max(jnp.diff(work.bounds)) + AHEAD),
        in_specs=[pl.BlockSpec((None, 1, numbers), of_window, memory_space=pltpu.SMEM), rows, store, store],
        out_specs=[rows, pl.BlockSpec((None, kv_heads, queries, 1), of_tile)],
        scratch_shapes=[buffer, buffer, pltpu.SemaphoreType.DMA((AHEAD + 1,)), sums, per_query, per_query],
    )


def _cost(queries: int, keys: Array) -> pl.CostEstimate:
    """As if every page were read once: how many are is not known when XLA schedules the kernel."""
    scores = queries * math.prod(keys.shape[:3])
    read = 2 * keys.size * keys.dtype.itemsize
    return pl.CostEstimate(flops=4 * scores * keys.shape[3], transcendentals=scores, bytes_accessed=read)


@dataclass(frozen=True)
class _Copies:
    """Copies of items' pages from the stores [pages, kv_heads, page, width] into buffers for AHEAD + 1 items.

    A store may be of any size: no offset counts its elements. A copy begins at a page's number times its size, which
    libtpu counts in granules of 32 bytes: 32 unsigned bits (`sshll.u32` in its schedule) reach 128 GiB.
    """

    stores: Sequence[Any]
    buffers: Sequence[Any]
    arrived: Any

    def start(self, item: Array, tokens: Array, numbers: Any) -> None:
        """tokens: of the item's tile, from the item's start."""
        slots, item_pages, _, page_size, _ = self.buffers[0].shape
        slot, first = jax.lax.rem(item, slots), jax.lax.rem(item, WINDOW) * item_pages
        for place in range(item_pages):

            @pl.when(place * page_size < tokens)
            def _(place: int = place) -> None:
                number = numbers[0, first + place]
                for store, buffer in zip(self.stores, self.buffers, strict=True):
                    pltpu.make_async_copy(store.at[number], buffer.at[slot, place], self.arrived.at[slot]).start()

    def wait(self, item: Array, tokens: Array) -> tuple[Array, Array]:
        """Keys and values [kv_heads, tokens of a chunk, width].

        A wait is for a fixed number of bytes; powers of two add up to any number of pages.
        """
        slots, item_pages, kv_heads, page_size, width = self.buffers[0].shape
        slot = jax.lax.rem(item, slots)
        started = jnp.minimum(pl.cdiv(tokens, page_size), item_pages)
        for size in (2**power for power in range(item_pages.bit_length())):

            @pl.when((started & size) > 0)
            def _(size: int = size) -> None:
                for buffer in self.buffers:
                    some = buffer.at[slot, pl.ds(0, size)]
                    pltpu.make_async_copy(some, some, self.arrived.at[slot]).wait()

        def by_head(buffer: Any) -> Array:
            heads = [buffer[slot, :, head].reshape(item_pages * page_size, width) for head in range(kv_heads)]
            return jnp.stack(heads)

        keys, values = map(by_head, self.buffers)
        return keys, values


class _Running(NamedTuple):
    """A softmax so far, refs [kv_heads, queries, ...]: the weighted sum of values, the highest score, all weights."""

    sums: Any
    top: Any
    total: Any


# fmt: off
def _kernel(
    scale: float,
    # known ahead, in SMEM
    bounds_ref: Any, _first_ref: Any, tile_ref: Any, start_ref: Any, lengths_ref: Any,
    # inputs and outputs
    pages_ref: Any, q_ref: Any, k_ref: Any, v_ref: Any, out_ref: Any, normalizer_ref: Any,
    # scratch
    k_buffer: Any, v_buffer: Any, arrived: Any, sums_ref: Any, top_ref: Any, total_ref: Any,
) -> None:
    # fmt: on
    part, step = pl.program_id(0), pl.program_id(1)
    first, end = bounds_ref[part], bounds_ref[part + 1]
    copies, running = _Copies((k_ref, v_ref), (k_buffer, v_buffer), arrived), _Running(sums_ref, top_ref, total_ref)

    def tokens_from(item: Array) -> Array:
        return lengths_ref[tile_ref[item]] - start_ref[item]

    @pl.when(step == 0)
    def _() -> None:
        v_buffer[...] = jnp.zeros_like(v_buffer)  # a weight of zero does not silence a NaN

    @pl.when(first + step < end)
    def _() -> None:
        copies.start(first + step, tokens_from(first + step), pages_ref)

    @pl.when((step >= AHEAD) & (first + step - AHEAD < end))
    def _() -> None:
        item = first + step - AHEAD
        tokens = tokens_from(item)

        @pl.when(start_ref[item] == 0)
        def _() -> None:
            running.sums[...] = jnp.zeros_like(running.sums)
            running.top[...] = jnp.full_like(running.top, MASKED)
            running.total[...] = jnp.zeros_like(running.total)

        k, v = copies.wait(item, tokens)
        _attend(scale, q_ref[...], k, v, tokens, running)

        @pl.when(tokens <= k.shape[1])
        def _() -> None:
            out_ref[...] = running.sums[...] / running.total[...]
            normalizer_ref[...] = running.top[...] + jnp.log(running.total[...])


def _attend(
    scale: float,
    q: Float[Array, "kv_heads queries width"],
    k: Float[Array, "kv_heads chunk width"],
    v: Float[Array, "kv_heads chunk width"],
    tokens: Int[Array, ""],
    running: _Running,
) -> None:
    """Adds a chunk's first `tokens` to the running sums of a softmax, relative to the highest score so far."""
    scores = scale * jnp.einsum("kqd,ktd->kqt", q, k, preferred_element_type=jnp.float32)
    scores = jnp.where(jax.lax.broadcasted_iota(jnp.int32, scores.shape, 2) < tokens, scores, MASKED)
    top = running.top[...]
    highest = jnp.maximum(top, jnp.max(scores, axis=-1, keepdims=True))
    weights, fade = jnp.exp(scores - highest), jnp.exp(top - highest)
    mixed = jnp.einsum("kqt,ktd->kqd", weights.astype(v.dtype), v, preferred_element_type=jnp.float32)
    running.sums[...] = fade * running.sums[...] + mixed
    running.total[...] = fade * running.total[...] + jnp.sum(weights, axis=-1, keepdims=True)
    running.top[...] = highest
