"""Attention of decoding queries over a cache in pages on CUDA, a Pallas kernel for Triton.

A tile is a set of queries that look at the same tokens. Its tokens are split into shares, so that a few long tiles keep
every multiprocessor busy; a program mixes one share for one key/value head and as many of the tile's queries as
fit (`MOST_QUERIES`, `MOST_BYTES`), up to the real length, and the shares are merged by their log-sum-exps.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jaxtyping import Array, Float, Int

from codea1_jax.models.attention import flash_gpu
from codea1_jax.models.attention.sight import MASKED

BLOCK = 64  # tokens that a program works on at once
PROGRAMS = 512  # that keep a GPU busy: about four to a multiprocessor
FEWEST_QUERIES = 16  # rows of the smallest matrix product
MOST_QUERIES = 64  # of a program: more of them do not fit into its registers
MOST_BYTES = 2**14  # of a program's queries: with more of them, tiles do not fit into the 99 KB of a small GPU


class Work(NamedTuple):
    """What the kernel works through: every tile's pages, and how many of their tokens it looks at."""

    tables: Int[Array, "tiles columns"]
    lengths: Int[Array, " tiles"]


def width(head_dim: int) -> int:
    return flash_gpu.width(head_dim)


def work_of(tables: Int[Array, "tiles columns"], lengths: Int[Array, " tiles"], page_size: int) -> Work:
    """The work of tiles that look at the first `lengths` tokens of the pages `tables`.

    Entries of a table beyond its length may hold anything.
    """
    del page_size  # the TPU kernel's work depends on it
    return Work(tables if tables.shape[1] else jnp.zeros((len(lengths), 1), tables.dtype), lengths)


def paged_attention(
    q: Float[Array, "tiles kv_heads queries head_dim"],
    keys: Float[Array, "pages kv_heads page width"],
    values: Float[Array, "pages kv_heads page width"],
    work: Work,
    *,
    interpret: bool = False,
) -> tuple[Float[Array, "tiles kv_heads queries head_dim"], Float[Array, "tiles kv_heads queries"]]:
    """Mixed values, and the log-sum-exp of each query's scores; float32. A tile without tokens gets 0 and MASKED.

    width: a power of two; head_dim, or more, with zeros in the rest. `interpret` runs the kernel where there is no GPU.
    """
    (tiles, kv_heads, queries, head_dim), width = q.shape, keys.shape[3]
    most = work.tables.shape[1] * keys.shape[2]
    rows = min(MOST_QUERIES, MOST_BYTES // (width * q.dtype.itemsize), pl.next_power_of_2(queries))
    rows = max(FEWEST_QUERIES, rows)
    blocks = pl.cdiv(queries, rows)
    shares = max(1, min(PROGRAMS // (tiles * blocks * kv_heads), most // BLOCK))
    q = jnp.pad(q, ((0, 0), (0, 0), (0, blocks * rows - queries), (0, width - head_dim)))
    mixed, normalizers = pl.pallas_call(
        partial(_kernel, 1 / math.sqrt(head_dim), shares),
        grid=(blocks, tiles, kv_heads, shares),  # a tile's blocks next to each other, for they read the same pages
        in_specs=[
            *[pl.no_block_spec] * 4,
            pl.BlockSpec((None, None, rows, width), lambda block, tile, head, share: (tile, head, block, 0)),
        ],
        out_specs=[
            pl.BlockSpec(
                (None, None, None, rows, width), lambda block, tile, head, share: (share, tile, head, block, 0)
            ),
            pl.BlockSpec((None, None, None, rows), lambda block, tile, head, share: (share, tile, head, block)),
        ],
        out_shape=[
            jax.ShapeDtypeStruct((shares, tiles, kv_heads, blocks * rows, width), jnp.float32),
            jax.ShapeDtypeStruct((shares, tiles, kv_heads, blocks * rows), jnp.float32),
        ],
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=3),
        interpret=interpret,
        name="paged_attention",
    )(work.tables, work.lengths, keys, values, q)
    return _merged(mixed[:, :, :, :queries, :head_dim], normalizers[:, :, :, :queries])


def _kernel(
    scale: float,
    shares: int,
    tables_ref: Any,
    lengths_ref: Any,
    k_ref: Any,
    v_ref: Any,
    q_ref: Any,
    out_ref: Any,
    normalizer_ref: Any,
) -> None:
    tile, head, share = pl.program_id(1), pl.program_id(2), pl.program_id(3)
    page_size = k_ref.shape[2]
    length = lengths_ref[tile]
    size = pl.cdiv(pl.cdiv(length, shares), BLOCK) * BLOCK
    start, end = share * size, jnp.minimum((share + 1) * size, length)

    def add(index: Array, running: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        top, total, sums = running
        position = start + index * BLOCK + jnp.arange(BLOCK)
        seen, position = position < end, jnp.minimum(position, end - 1)
        page = tables_ref[tile, position // page_size]

        def look_up(store_ref: Any) -> Array:
            return store_ref[page, head, position % page_size]

        scores = plgpu.dot(q_ref[...], look_up(k_ref), trans_b=True).astype(jnp.float32) * scale
        scores = jnp.where(seen[None], scores, MASKED)
        highest = jnp.maximum(top, jnp.max(scores, axis=1))
        weights, fade = jnp.exp(scores - highest[:, None]), jnp.exp(top - highest)
        added = plgpu.dot(weights.astype(q_ref.dtype), look_up(v_ref)).astype(jnp.float32)
        return highest, fade * total + jnp.sum(weights, axis=1), fade[:, None] * sums + added

    rows, width = q_ref.shape
    nothing = (jnp.full((rows,), MASKED), jnp.zeros((rows,)), jnp.zeros((rows, width)))
    top, total, sums = jax.lax.fori_loop(0, pl.cdiv(end - start, BLOCK), add, nothing)
    total = jnp.where(end > start, total, 1.0)
    out_ref[...] = sums / total[:, None]
    normalizer_ref[...] = top + jnp.log(total)


def _merged(
    mixed: Float[Array, "shares tiles kv_heads queries head_dim"],
    normalizers: Float[Array, "shares tiles kv_heads queries"],
) -> tuple[Float[Array, "tiles kv_heads queries head_dim"], Float[Array, "tiles kv_heads queries"]]:
    normalizer = jax.nn.logsumexp(normalizers, axis=0)
    weights = jnp.exp(normalizers - normalizer[None])
    return jnp.sum(weights[..., None] * mixed, axis=0), normalizer
