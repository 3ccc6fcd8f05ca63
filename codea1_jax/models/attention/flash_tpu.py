"""The flash kernels for TPU: Pallas for Mosaic.

The grid works through a list of tiles, the pairs of blocks in which something is seen, of all rows: those of a block of
queries (or, for the gradients of keys and values, of keys) one after another, so that its sums stay in VMEM. Pallas'
own pipeline brings in the next tile's blocks meanwhile.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.attention.sight import Sight, related, visible
from codea1_jax.models.attention.tile import Running, keys_and_values_gradient, queries_gradient

BLOCK = 512  # places of a block; fewer where a row is shorter
LANES = 128  # that a block is a multiple of
KEYS_AXIS = 0  # of scores


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
    return head_dim


def computed(tiles: np.ndarray) -> int:
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
    mixed, logsumexp = _call(
        "flash_forward",
        _forward_kernel,
        work,
        (heads, work.count),
        in_specs=[*ids, queries, keys, keys],
        out_specs=[queries, numbers],
        scratch=[(1, block), (1, block), (head_dim, block)],
        out_shape=[
            jax.ShapeDtypeStruct((batch, heads, time, head_dim), q.dtype),
            jax.ShapeDtypeStruct((batch, heads, 1, time), jnp.float32),
        ],
        interpret=interpret,
    )(*map(_line, sight), _column(sight.segments), *map(_heads_first, (q, k, v)))
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
    dq = _call(
        "flash_backward_q",
        _queries_kernel,
        work,
        (heads, work.count),
        in_specs=[*ids, queries, keys, keys, queries, numbers, numbers],
        out_specs=queries,
        scratch=[(head_dim, block)],
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        interpret=interpret,
    )(*arguments)
    # The grid's last axis is over the heads that share a key/value head: their parts are summed in VMEM.
    work = work_of(*(jnp.swapaxes(x, 1, 2) for x in (tiles, whole)))
    queries, keys, numbers, ids = _blocks_by_keys(block, head_dim, heads // kv_heads)
    dk, dv = _call(
        "flash_backward_kv",
        partial(_keys_kernel, heads // kv_heads),
        work,
        (kv_heads, work.count, heads // kv_heads),
        in_specs=[*ids, queries, keys, keys, queries, numbers, numbers],
        out_specs=[keys, keys],
        scratch=[(block, head_dim)] * 2,
        out_shape=[jax.ShapeDtypeStruct(k.shape, k.dtype)] * 2,
        interpret=interpret,
    )(*arguments)
    return _heads_first(dq), _heads_first(dk), _heads_first(dv)


def _call(
    name: str,
    kernel: Callable[..., None],
    work: Work,
    grid: tuple[Any, ...],
    *,
    in_specs: list[pl.BlockSpec],
    out_specs: Any,
    scratch: list[tuple[int, int]],
    out_shape: Any,
    interpret: bool | pltpu.InterpretParams,
) -> Callable[..., Any]:
    """The kernel over all tiles, the work's arrays before its other arguments. scratch: float32 shapes in VMEM."""
    call = pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=grid,
            in_specs=in_specs,
            out_specs=out_specs,
            scratch_shapes=[pltpu.VMEM(shape, jnp.float32) for shape in scratch],
        ),
        out_shape=out_shape,
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary", "arbitrary")[: len(grid)]),
        interpret=interpret,
        name=name,
    )
    return partial(call, *work[1:])


Place = tuple[Any, Any, Any]
"""Of a block: its row, its head, and its number in the row."""

Blocks = tuple[pl.BlockSpec, pl.BlockSpec, pl.BlockSpec, list[pl.BlockSpec]]
"""Of queries, of keys and values, of numbers that belong to queries, and of ids: of the queries' segments, of their
parents, and of the keys' segments. What belongs to queries stands in lines, what belongs to keys in a column."""


def _blocks_by_queries(block: int, head_dim: int, group: int) -> Blocks:

    def query(head: Array, tile: Array, row: Any, outer: Any, _inner: Any, _whole: Any) -> Place:
        return row[tile], head, outer[tile]

    def key(head: Array, tile: Array, row: Any, _outer: Any, inner: Any, _whole: Any) -> Place:
        return row[tile], jax.lax.div(head, jnp.int32(group)), inner[tile]

    return _blocks(block, head_dim, query, key)


def _blocks_by_keys(block: int, head_dim: int, group: int) -> Blocks:

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


def _heads_first(x: Array) -> Array:
    """[batch, time, heads, head_dim] <-> [batch, heads, time, head_dim]"""
    return jnp.swapaxes(x, 1, 2)


def _column(ids: Int[Array, "batch time"]) -> Int[Array, "batch time 1"]:
    return ids[:, :, None]


def _line(ids: Int[Array, "batch time"]) -> Int[Array, "batch 1 time"]:
    return ids[:, None]


class _Work(NamedTuple):
    """Refs of `Work` but for its count, [tiles] each."""

    row: Any
    outer: Any
    inner: Any
    whole: Any

    def is_first(self) -> Array:
        tile = pl.program_id(1)
        before = jnp.maximum(tile - 1, 0)
        return (tile == 0) | self._differ(before, tile)

    def is_last(self) -> Array:
        tile, count = pl.program_id(1), pl.num_programs(1)
        after = jnp.minimum(tile + 1, count - 1)
        return (tile == count - 1) | self._differ(after, tile)

    def _differ(self, tile: Array, other: Array) -> Array:
        return (self.row[tile] != self.row[other]) | (self.outer[tile] != self.outer[other])


class _Ids(NamedTuple):
    """Refs of a tile's segments: those of queries and their parents [1, queries], and those of keys [keys, 1]."""

    queries: Any
    parents: Any
    keys: Any


def _by_mask(query_block: Array, key_block: Array, whole: Array, ids: _Ids, add: Callable[..., None]) -> None:
    """Calls `add` with the mask of a tile, of which as little is computed as must be."""

    def places(ids: Array, block: Array) -> Array:
        return block * max(ids.shape) + jax.lax.broadcasted_iota(jnp.int32, ids.shape, ids.shape.index(max(ids.shape)))

    @pl.when(whole == 1)
    def _() -> None:
        add(None)

    @pl.when((whole == 0) & (query_block != key_block))
    def _() -> None:
        add(related(ids.queries[...], ids.parents[...], ids.keys[...]))

    @pl.when(query_block == key_block)
    def _() -> None:
        of_queries, of_keys = ids.queries[...], ids.keys[...]
        later, earlier = places(of_queries, query_block), places(of_keys, key_block)
        add(visible(of_queries, ids.parents[...], later, of_keys, earlier))


# What belongs to queries or keys is [block, head_dim] in these kernels' refs, numbers of queries are [1, block].


def _forward_kernel(*refs: Any) -> None:
    tile, work, ids = pl.program_id(1), _Work(*refs[:4]), _Ids(*refs[4:7])
    q_ref, k_ref, v_ref, out_ref, logsumexp_ref, *running_refs = refs[7:]

    def keep(running: Running) -> None:
        for ref, value in zip(running_refs, running, strict=True):
            ref[...] = value

    @pl.when(work.is_first())
    def _() -> None:
        keep(Running.over_nothing(*q_ref.shape, keys_axis=KEYS_AXIS))

    def add(mask: Array | None) -> None:
        so_far = Running(*(ref[...] for ref in running_refs))
        keep(so_far.over(q_ref[...], k_ref[...], v_ref[...], mask, keys_axis=KEYS_AXIS))

    _by_mask(work.outer[tile], work.inner[tile], work.whole[tile], ids, add)

    @pl.when(work.is_last())
    def _() -> None:
        running = Running(*(ref[...] for ref in running_refs))
        out_ref[...] = running.mixed().T.astype(out_ref.dtype)
        logsumexp_ref[...] = running.logsumexp()


def _queries_kernel(*refs: Any) -> None:
    tile, work, ids = pl.program_id(1), _Work(*refs[:4]), _Ids(*refs[4:7])
    q_ref, k_ref, v_ref, d_out_ref, logsumexp_ref, delta_ref, dq_ref, sum_ref = refs[7:]

    @pl.when(work.is_first())
    def _() -> None:
        sum_ref[...] = jnp.zeros_like(sum_ref)

    def add(mask: Array | None) -> None:
        inputs = q_ref[...], k_ref[...], v_ref[...], d_out_ref[...], logsumexp_ref[...], delta_ref[...]
        sum_ref[...] += queries_gradient(*inputs, mask, keys_axis=KEYS_AXIS)

    _by_mask(work.outer[tile], work.inner[tile], work.whole[tile], ids, add)

    @pl.when(work.is_last())
    def _() -> None:
        dq_ref[...] = sum_ref[...].T.astype(dq_ref.dtype)


def _keys_kernel(group: int, *refs: Any) -> None:
    tile, member, work, ids = pl.program_id(1), pl.program_id(2), _Work(*refs[:4]), _Ids(*refs[4:7])
    q_ref, k_ref, v_ref, d_out_ref, logsumexp_ref, delta_ref, dk_ref, dv_ref, k_sum_ref, v_sum_ref = refs[7:]

    @pl.when(work.is_first() & (member == 0))
    def _() -> None:
        k_sum_ref[...], v_sum_ref[...] = jnp.zeros_like(k_sum_ref), jnp.zeros_like(v_sum_ref)

    def add(mask: Array | None) -> None:
        inputs = q_ref[...], k_ref[...], v_ref[...], d_out_ref[...], logsumexp_ref[...], delta_ref[...]
        of_keys, of_values = keys_and_values_gradient(*inputs, mask)
        k_sum_ref[...] += of_keys
        v_sum_ref[...] += of_values

    _by_mask(work.inner[tile], work.outer[tile], work.whole[tile], ids, add)

    @pl.when(work.is_last() & (member == group - 1))
    def _() -> None:
        dk_ref[...], dv_ref[...] = k_sum_ref[...].astype(dk_ref.dtype), v_sum_ref[...].astype(dv_ref.dtype)
