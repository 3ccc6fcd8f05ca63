"""The flash kernels for TPU: Pallas for Mosaic.

The grid works through a list of tiles, the pairs of blocks in which something is seen, of all rows: those of a block of
queries (or, for the gradients of keys and values, of keys) one after another, so that its sums stay in VMEM. Pallas'
own pipeline brings in the next tile's blocks meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.attention.sight import Sight, visible
from codea1_jax.models.attention.tile import Running, keys_and_values_gradient, queries_gradient

BLOCK = 512  # places of a block; fewer where a row is shorter
LANES = 128  # that a block is a multiple of


class Work(NamedTuple):
    """The tiles, in the order in which they are computed; `count` of them, the rest is padding.

    outer: the block whose sums are gathered; inner: the other one.
    """

    count: Int[Array, ""]
    row: Int[Array, " tiles"]
    outer: Int[Array, " tiles"]
    inner: Int[Array, " tiles"]


def work_of(tiles: Bool[Array, "batch outer inner"]) -> Work:
    """The tiles that are True."""
    batch, blocks, _ = tiles.shape
    most = batch * blocks * (blocks + 1) // 2  # under a causal mask
    row, outer, inner = jnp.nonzero(tiles, size=most, fill_value=0)
    return Work(jnp.sum(tiles, dtype=jnp.int32), *(x.astype(jnp.int32) for x in (row, outer, inner)))


def cut(time: int) -> tuple[int, int]:
    """Places of a block, and of a whole row with its padding."""
    block = min(BLOCK, time + -time % LANES)
    return block, time + -time % block


def computed(tiles: np.ndarray) -> int:
    """Pairs of blocks that a forward pass computes, given those in which something is seen: the same."""
    return int(tiles.sum())


def forward(
    sight: Sight,
    tiles: Bool[Array, "batch blocks blocks"],
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
    *,
    interpret: bool,
) -> tuple[Float[Array, "batch time heads head_dim"], Float[Array, "batch heads time"]]:
    """The mixed values, and the log-sum-exp of each query's scores."""
    batch, time, heads, head_dim = q.shape
    work, block = work_of(tiles), time // tiles.shape[1]
    queries, keys, numbers, ids = _blocks_by_queries(block, head_dim, heads // k.shape[2])
    mixed, logsumexp = pl.pallas_call(
        _forward_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(heads, work.count),
            in_specs=[*ids, queries, keys, keys],
            out_specs=[queries, numbers],
            scratch_shapes=[_memory(block, 1), _memory(block, 1), _memory(block, head_dim)],
        ),
        out_shape=[
            jax.ShapeDtypeStruct((batch, heads, time, head_dim), q.dtype),
            jax.ShapeDtypeStruct((batch, heads, time, 1), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        interpret=interpret,
        name="flash_forward",
    )(*work[1:], *map(_column, sight), _line(sight.segments), *map(_heads_first, (q, k, v)))
    return _heads_first(mixed), logsumexp[..., 0]


def backward(
    sight: Sight,
    tiles: Bool[Array, "batch blocks blocks"],
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
    d_out: Float[Array, "batch time heads head_dim"],
    logsumexp: Float[Array, "batch heads time"],
    delta: Float[Array, "batch heads time"],
    *,
    interpret: bool,
) -> tuple[Array, Array, Array]:
    """The gradients of queries, keys and values. d_out: the mixed values' gradient; delta: its product with them."""
    heads, kv_heads, head_dim, block = q.shape[2], k.shape[2], q.shape[3], q.shape[1] // tiles.shape[1]
    q, k, v, d_out = map(_heads_first, (q, k, v, d_out))
    work = work_of(tiles)
    queries, keys, numbers, ids = _blocks_by_queries(block, head_dim, heads // kv_heads)
    dq = pl.pallas_call(
        _queries_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(heads, work.count),
            in_specs=[*ids, queries, keys, keys, queries, numbers, numbers],
            out_specs=queries,
            scratch_shapes=[_memory(block, head_dim)],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        interpret=interpret,
        name="flash_backward_q",
    )(
        *(*work[1:], *map(_column, sight), _line(sight.segments)),
        *(q, k, v, d_out, logsumexp[..., None], delta[..., None]),
    )
    # The grid's last axis is over the heads that share a key/value head: their parts are summed in VMEM.
    work = work_of(jnp.swapaxes(tiles, 1, 2))
    queries, keys, numbers, ids = _blocks_by_keys(block, head_dim, heads // kv_heads)
    dk, dv = pl.pallas_call(
        _keys_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(kv_heads, work.count, heads // kv_heads),
            in_specs=[*ids, queries, keys, keys, queries, numbers, numbers],
            out_specs=[keys, keys],
            scratch_shapes=[_memory(block, head_dim)] * 2,
        ),
        out_shape=[jax.ShapeDtypeStruct(k.shape, k.dtype)] * 2,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")),
        interpret=interpret,
        name="flash_backward_kv",
    )(
        *(*work[1:], *map(_line, sight), _column(sight.segments)),
        *(q, k, v, d_out, logsumexp[:, :, None], delta[:, :, None]),
    )
    return _heads_first(dq), _heads_first(dk), _heads_first(dv)


Blocks = tuple[pl.BlockSpec, pl.BlockSpec, pl.BlockSpec, list[pl.BlockSpec]]
"""Of queries, of keys and values, of numbers that belong to queries, and of ids: of the queries' segments, of their
parents, and of the keys' segments."""


def _blocks_by_queries(block: int, head_dim: int, group: int) -> Blocks:
    """Outer blocks are of queries; what belongs to queries stands in columns."""
    queries = _spec((None, None, block, head_dim), lambda row, head, outer, inner: (row, head, outer, 0))
    keys = _spec((None, None, block, head_dim), lambda row, head, outer, inner: (row, _div(head, group), inner, 0))
    numbers = _spec((None, None, block, 1), lambda row, head, outer, inner: (row, head, outer, 0))
    own = _spec((None, block, 1), lambda row, head, outer, inner: (row, outer, 0))
    return queries, keys, numbers, [own, own, _spec((None, 1, block), lambda row, head, outer, inner: (row, 0, inner))]


def _blocks_by_keys(block: int, head_dim: int, group: int) -> Blocks:
    """Outer blocks are of keys; what belongs to queries stands in lines."""

    def queries_of(shape: tuple[int | None, ...], where: Callable[..., tuple[Any, ...]]) -> pl.BlockSpec:
        def index(head: Array, tile: Array, member: Array, row: Any, outer: Any, inner: Any) -> tuple[Any, ...]:
            del outer
            return where(row[tile], head * group + member, inner[tile])

        return pl.BlockSpec(shape, index)

    def keys_of(shape: tuple[int | None, ...], where: Callable[..., tuple[Any, ...]]) -> pl.BlockSpec:
        def index(head: Array, tile: Array, member: Array, row: Any, outer: Any, inner: Any) -> tuple[Any, ...]:
            del member, inner
            return where(row[tile], head, outer[tile])

        return pl.BlockSpec(shape, index)

    queries = queries_of((None, None, block, head_dim), lambda row, head, place: (row, head, place, 0))
    keys = keys_of((None, None, block, head_dim), lambda row, head, place: (row, head, place, 0))
    numbers = queries_of((None, None, 1, block), lambda row, head, place: (row, head, 0, place))
    others = queries_of((None, 1, block), lambda row, head, place: (row, 0, place))
    return queries, keys, numbers, [others, others, keys_of((None, block, 1), lambda row, head, place: (row, place, 0))]


def _spec(shape: tuple[int | None, ...], where: Callable[..., tuple[Any, ...]]) -> pl.BlockSpec:
    """A block of an array at where(row, head, outer block, inner block)."""

    def index(head: Array, tile: Array, row: Any, outer: Any, inner: Any) -> tuple[Any, ...]:
        return where(row[tile], head, outer[tile], inner[tile])

    return pl.BlockSpec(shape, index)


def _div(a: Array, b: int) -> Array:
    return jax.lax.div(a, jnp.int32(b))


def _memory(*shape: int) -> Any:
    return pltpu.VMEM(shape, jnp.float32)


def _heads_first(x: Array) -> Array:
    """[batch, time, heads, head_dim] <-> [batch, heads, time, head_dim]"""
    return jnp.swapaxes(x, 1, 2)


def _column(ids: Int[Array, "batch time"]) -> Int[Array, "batch time 1"]:
    return ids[:, :, None]


def _line(ids: Int[Array, "batch time"]) -> Int[Array, "batch 1 time"]:
    return ids[:, None]


def _is_first(row: Any, outer: Any) -> Array:
    """Whether this tile is the first of its outer block."""
    tile = pl.program_id(1)
    before = jnp.maximum(tile - 1, 0)
    return (tile == 0) | (row[before] != row[tile]) | (outer[before] != outer[tile])


def _is_last(row: Any, outer: Any) -> Array:
    tile, count = pl.program_id(1), pl.num_programs(1)
    after = jnp.minimum(tile + 1, count - 1)
    return (tile == count - 1) | (row[after] != row[tile]) | (outer[after] != outer[tile])


def _mask(queries: Any, parents: Any, keys: Any, query_block: Array, key_block: Array) -> Array:
    """Which places see which, of ids that stand in columns or lines."""

    def places(ids: Any, block: Array) -> Array:
        return block * max(ids.shape) + jax.lax.broadcasted_iota(jnp.int32, ids.shape, ids.shape.index(max(ids.shape)))

    return visible(queries[...], parents[...], places(queries, query_block), keys[...], places(keys, key_block))


def _forward_kernel(
    row: Any,
    outer: Any,
    inner: Any,
    own: Any,
    parents: Any,
    others: Any,
    q: Any,
    k: Any,
    v: Any,
    mixed: Any,
    logsumexp: Any,
    running_max: Any,
    denominator: Any,
    accumulator: Any,
) -> None:
    tile = pl.program_id(1)

    @pl.when(_is_first(row, outer))
    def _() -> None:
        running_max[...], denominator[...], accumulator[...] = Running.over_nothing(*q.shape)

    mask = _mask(own, parents, others, outer[tile], inner[tile])
    found = Running(running_max[...], denominator[...], accumulator[...]).over(q[...], k[...], v[...], mask)
    running_max[...], denominator[...], accumulator[...] = found

    @pl.when(_is_last(row, outer))
    def _() -> None:
        mixed[...] = found.mixed().astype(mixed.dtype)
        logsumexp[...] = found.logsumexp()


def _queries_kernel(
    row: Any,
    outer: Any,
    inner: Any,
    own: Any,
    parents: Any,
    others: Any,
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    logsumexp: Any,
    delta: Any,
    dq: Any,
    accumulator: Any,
) -> None:
    tile = pl.program_id(1)

    @pl.when(_is_first(row, outer))
    def _() -> None:
        accumulator[...] = jnp.zeros_like(accumulator)

    mask = _mask(own, parents, others, outer[tile], inner[tile])
    accumulator[...] += queries_gradient(q[...], k[...], v[...], d_out[...], logsumexp[...], delta[...], mask)

    @pl.when(_is_last(row, outer))
    def _() -> None:
        dq[...] = accumulator[...].astype(dq.dtype)


def _keys_kernel(
    row: Any,
    outer: Any,
    inner: Any,
    others: Any,
    parents: Any,
    own: Any,
    q: Any,
    k: Any,
    v: Any,
    d_out: Any,
    logsumexp: Any,
    delta: Any,
    dk: Any,
    dv: Any,
    k_accumulator: Any,
    v_accumulator: Any,
) -> None:
    tile, member = pl.program_id(1), pl.program_id(2)

    @pl.when(_is_first(row, outer) & (member == 0))
    def _() -> None:
        k_accumulator[...], v_accumulator[...] = jnp.zeros_like(k_accumulator), jnp.zeros_like(v_accumulator)

    mask = _mask(others, parents, own, inner[tile], outer[tile])
    found = keys_and_values_gradient(q[...], k[...], v[...], d_out[...], logsumexp[...], delta[...], mask)
    k_accumulator[...] += found[0]
    v_accumulator[...] += found[1]

    @pl.when(_is_last(row, outer) & (member == pl.num_programs(2) - 1))
    def _() -> None:
        dk[...], dv[...] = k_accumulator[...].astype(dk.dtype), v_accumulator[...].astype(dv.dtype)
