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

from codea1_jax.models.attention.sight import Sight, related, visible
from codea1_jax.models.attention.tile import RunningByKeys, keys_and_values_gradient, queries_gradient_by_keys

BLOCK = 512  # places of a block; fewer where a row is shorter
LANES = 128  # that a block is a multiple of


class Work(NamedTuple):
    """The tiles, in the order in which they are computed; `count` of them, the rest is padding.

    outer: the block whose sums are gathered; inner: the other one. whole: 1 where every query sees every key.
    """

    count: Int[Array, ""]
    row: Int[Array, " tiles"]
    outer: Int[Array, " tiles"]
    inner: Int[Array, " tiles"]
    whole: Int[Array, " tiles"]


def work_of(tiles: Bool[Array, "batch outer inner"], whole: Bool[Array, "batch outer inner"]) -> Work:
    """The tiles that are True."""
    batch, blocks, _ = tiles.shape
    most = batch * blocks * (blocks + 1) // 2  # under a causal mask
    found = row, outer, inner = jnp.nonzero(tiles, size=most, fill_value=0)
    return Work(jnp.sum(tiles, dtype=jnp.int32), *(x.astype(jnp.int32) for x in (*found, whole[row, outer, inner])))


def whole_tiles(sight: Sight, block: int) -> Bool[Array, "batch blocks blocks"]:
    """True where every query of one block sees every key of another, earlier one; not of all such, but of most."""
    own, parent = (ids.reshape(ids.shape[0], -1, block) for ids in sight)
    of_one, of_one_parent = (jnp.all(ids == ids[:, :, :1], axis=2) for ids in (own, parent))
    key = jnp.where(of_one, own[:, :, 0], -1)[:, None]
    seen = (of_one[:, :, None] & (own[:, :, :1] == key)) | (of_one_parent[:, :, None] & (parent[:, :, :1] == key))
    return seen & np.tril(np.ones((1, *seen.shape[1:]), bool), -1)


def cut(time: int) -> tuple[int, int]:
    """Places of a block, and of a whole row with its padding."""
    block = min(BLOCK, time + -time % LANES)
    return block, time + -time % block


def width(head_dim: int) -> int:
    """How wide queries, keys and values must be for heads of this size: as they are."""
    return head_dim


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
    interpret: bool | pltpu.InterpretParams,
) -> tuple[Float[Array, "batch time heads head_dim"], Float[Array, "batch heads time"]]:
    """The mixed values, and the log-sum-exp of each query's scores."""
    batch, time, heads, head_dim = q.shape
    block = time // tiles.shape[1]
    work = work_of(tiles, whole_tiles(sight, block))
    queries, keys, numbers, ids = _blocks_by_queries(block, head_dim, heads // k.shape[2])
    mixed, logsumexp = pl.pallas_call(
        _forward_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(heads, work.count),
            in_specs=[*ids, queries, keys, keys],
            out_specs=[queries, numbers],
            scratch_shapes=[_memory(1, block), _memory(1, block), _memory(head_dim, block)],
        ),
        out_shape=[
            jax.ShapeDtypeStruct((batch, heads, time, head_dim), q.dtype),
            jax.ShapeDtypeStruct((batch, heads, 1, time), jnp.float32),
        ],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        interpret=interpret,
        name="flash_forward",
    )(*work[1:], *map(_line, sight), _column(sight.segments), *map(_heads_first, (q, k, v)))
    return _heads_first(mixed), logsumexp[:, :, 0]


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
    interpret: bool | pltpu.InterpretParams,
) -> tuple[Array, Array, Array]:
    """The gradients of queries, keys and values. d_out: the mixed values' gradient; delta: its product with them."""
    heads, kv_heads, head_dim, block = q.shape[2], k.shape[2], q.shape[3], q.shape[1] // tiles.shape[1]
    q, k, v, d_out = map(_heads_first, (q, k, v, d_out))
    whole = whole_tiles(sight, block)
    work = work_of(tiles, whole)
    arguments = *map(_line, sight), _column(sight.segments), q, k, v, d_out, logsumexp[:, :, None], delta[:, :, None]
    queries, keys, numbers, ids = _blocks_by_queries(block, head_dim, heads // kv_heads)
    dq = pl.pallas_call(
        _queries_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(heads, work.count),
            in_specs=[*ids, queries, keys, keys, queries, numbers, numbers],
            out_specs=queries,
            scratch_shapes=[_memory(head_dim, block)],
        ),
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
        interpret=interpret,
        name="flash_backward_q",
    )(*work[1:], *arguments)
    # The grid's last axis is over the heads that share a key/value head: their parts are summed in VMEM.
    work = work_of(*(jnp.swapaxes(x, 1, 2) for x in (tiles, whole)))
    queries, keys, numbers, ids = _blocks_by_keys(block, head_dim, heads // kv_heads)
    dk, dv = pl.pallas_call(
        _keys_kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(kv_heads, work.count, heads // kv_heads),
            in_specs=[*ids, queries, keys, keys, queries, numbers, numbers],
            out_specs=[keys, keys],
            scratch_shapes=[_memory(block, head_dim)] * 2,
        ),
        out_shape=[jax.ShapeDtypeStruct(k.shape, k.dtype)] * 2,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")),
        interpret=interpret,
        name="flash_backward_kv",
    )(*work[1:], *arguments)
    return _heads_first(dq), _heads_first(dk), _heads_first(dv)


Place = tuple[Any, Any, Any]
"""Of a block: its row, its head, and its number in the row."""

Blocks = tuple[pl.BlockSpec, pl.BlockSpec, pl.BlockSpec, list[pl.BlockSpec]]
"""Of queries, of keys and values, of numbers that belong to queries, and of ids: of the queries' segments, of their
parents, and of the keys' segments. What belongs to queries stands in lines, what belongs to keys in a column."""


def _blocks_by_queries(block: int, head_dim: int, group: int) -> Blocks:
    """Outer blocks are of queries."""

    def query(head: Array, tile: Array, row: Any, outer: Any, _inner: Any, _whole: Any) -> Place:
        return row[tile], head, outer[tile]

    def key(head: Array, tile: Array, row: Any, _outer: Any, inner: Any, _whole: Any) -> Place:
        return row[tile], jax.lax.div(head, jnp.int32(group)), inner[tile]

    return _blocks(block, head_dim, query, key)


def _blocks_by_keys(block: int, head_dim: int, group: int) -> Blocks:
    """Outer blocks are of keys."""

    def query(head: Array, tile: Array, member: Array, row: Any, _outer: Any, inner: Any, _whole: Any) -> Place:
        return row[tile], head * group + member, inner[tile]

    def key(head: Array, tile: Array, _member: Array, row: Any, outer: Any, _inner: Any, _whole: Any) -> Place:
        return row[tile], head, outer[tile]

    return _blocks(block, head_dim, query, key)


def _blocks(block: int, head_dim: int, query: Callable[..., Place], key: Callable[..., Place]) -> Blocks:
    """query, key: where a tile's blocks are, by the indices of the grid and the work."""

    def spec(shape: tuple[int | None, ...], of: Callable[..., Place], at: Callable[..., Any]) -> pl.BlockSpec:
        return pl.BlockSpec(shape, lambda *indices: at(*of(*indices)))

    queries, keys = (
        spec((None, None, block, head_dim), of, lambda row, head, place: (row, head, place, 0)) for of in (query, key)
    )
    numbers = spec((None, None, 1, block), query, lambda row, head, place: (row, head, 0, place))
    own = spec((None, 1, block), query, lambda row, head, place: (row, 0, place))
    return queries, keys, numbers, [own, own, spec((None, block, 1), key, lambda row, head, place: (row, place, 0))]


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


def _by_mask(
    query_block: Array, key_block: Array, whole: Array, own: Any, parents: Any, keys: Any, add: Callable[..., None]
) -> None:
    """Calls `add` with the mask of a tile, of which as little is computed as must be."""

    def places(ids: Array, block: Array) -> Array:
        return block * max(ids.shape) + jax.lax.broadcasted_iota(jnp.int32, ids.shape, ids.shape.index(max(ids.shape)))

    @pl.when(whole == 1)
    def _() -> None:
        add(None)

    @pl.when((whole == 0) & (query_block != key_block))
    def _() -> None:
        add(related(own[...], parents[...], keys[...]))

    @pl.when(query_block == key_block)
    def _() -> None:
        of_queries, of_keys = own[...], keys[...]
        later, earlier = places(of_queries, query_block), places(of_keys, key_block)
        add(visible(of_queries, parents[...], later, of_keys, earlier))


def _forward_kernel(
    row: Any,
    outer: Any,
    inner: Any,
    whole: Any,
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
        running_max[...], denominator[...], accumulator[...] = RunningByKeys.over_nothing(*q.shape)

    def add(mask: Array | None) -> None:
        so_far = RunningByKeys(running_max[...], denominator[...], accumulator[...])
        running_max[...], denominator[...], accumulator[...] = so_far.over(q[...], k[...], v[...], mask)

    _by_mask(outer[tile], inner[tile], whole[tile], own, parents, others, add)

    @pl.when(_is_last(row, outer))
    def _() -> None:
        found = RunningByKeys(running_max[...], denominator[...], accumulator[...])
        mixed[...] = found.mixed().astype(mixed.dtype)
        logsumexp[...] = found.logsumexp()


def _queries_kernel(
    row: Any,
    outer: Any,
    inner: Any,
    whole: Any,
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

    def add(mask: Array | None) -> None:
        arguments = q[...], k[...], v[...], d_out[...], logsumexp[...], delta[...]
        accumulator[...] += queries_gradient_by_keys(*arguments, mask)

    _by_mask(outer[tile], inner[tile], whole[tile], own, parents, others, add)

    @pl.when(_is_last(row, outer))
    def _() -> None:
        dq[...] = accumulator[...].T.astype(dq.dtype)


def _keys_kernel(
    row: Any,
    outer: Any,
    inner: Any,
    whole: Any,
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

    def add(mask: Array | None) -> None:
        arguments = q[...], k[...], v[...], d_out[...], logsumexp[...], delta[...]
        of_keys, of_values = keys_and_values_gradient(*arguments, mask)
        k_accumulator[...] += of_keys
        v_accumulator[...] += of_values

    _by_mask(inner[tile], outer[tile], whole[tile], others, parents, own, add)

    @pl.when(_is_last(row, outer) & (member == pl.num_programs(2) - 1))
    def _() -> None:
        dk[...], dv[...] = k_accumulator[...].astype(dk.dtype), v_accumulator[...].astype(dv.dtype)
