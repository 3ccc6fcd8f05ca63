"""The flash kernels for CUDA: Pallas for Triton.

A program has a block of queries, or of keys, for itself, and works through the list of blocks that this one needs.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu
from jax.typing import DTypeLike
from jaxtyping import Array, Bool, Float, Int

from codea1_jax.models.attention.sight import Sight, visible
from codea1_jax.models.attention.tile import Running, keys_and_values_gradient, queries_gradient

BLOCK = 64  # places of a block in the list
WIDE = 2  # blocks that a program has for itself
OWN = WIDE * BLOCK
QUERIES = 32  # places that a program for keys works on at once: its sums fill most of the registers
NARROWEST = 16  # columns of the smallest matrix product
KEYS_AXIS = 1  # of scores, except where keys' and values' gradients are summed
WIDEST = 128  # heads, in half precision, whose blocks fit into every GPU's shared memory
# Not tuned on a device.
PARAMETERS = plgpu.CompilerParams(num_warps=8, num_stages=2)
KEYS_PARAMETERS = plgpu.CompilerParams(num_warps=8, num_stages=3)  # with two, sm_80 spills 6.5 KB of registers


def cut(time: int) -> tuple[int, int]:
    """Places of a block, and of a whole row with its padding."""
    return BLOCK, time + -time % OWN


def width(head_dim: int) -> int:
    """How wide queries, keys and values must be for heads of this size: Triton's arrays have powers of two."""
    return max(NARROWEST, pl.next_power_of_2(head_dim))


def fits(dtype: DTypeLike, head_dim: int) -> bool:
    """Whether the kernels can be compiled for heads of this size and type."""
    return jnp.dtype(dtype).itemsize == 2 and width(head_dim) <= WIDEST


def computed(tiles: np.ndarray) -> int:
    """Pairs of blocks that a forward pass computes: more, for it works on several blocks of queries at once."""
    return WIDE * int(_needed_by_own(tiles).sum())


def forward(
    sight: Sight,
    tiles: Bool[Array, "batch blocks blocks"],
    q: Float[Array, "batch time heads head_dim"],
    k: Float[Array, "batch time kv_heads head_dim"],
    v: Float[Array, "batch time kv_heads head_dim"],
    *,
    interpret: Any,
) -> tuple[Float[Array, "batch time heads head_dim"], Float[Array, "batch heads time"]]:
    """The mixed values, and the log-sum-exp of each query's scores."""
    batch, time, heads, _ = q.shape
    return pl.pallas_call(
        partial(_forward_kernel, heads // k.shape[2]),
        grid=(time // OWN, heads, batch),
        in_specs=[*[pl.no_block_spec] * 6, _own_places(q)],
        out_specs=[_own_places(q), _own_numbers()],
        out_shape=[jax.ShapeDtypeStruct(q.shape, q.dtype), jax.ShapeDtypeStruct((batch, heads, time), jnp.float32)],
        compiler_params=PARAMETERS,
        interpret=interpret,
        name="flash_forward",
    )(*_listed(_needed_by_own(tiles)), *sight, k, v, q)


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
    interpret: Any,
) -> tuple[Array, Array, Array]:
    """The gradients of queries, keys and values. d_out: the mixed values' gradient; delta: its product with them."""
    batch, time, heads, _ = q.shape
    group = heads // k.shape[2]
    own, of_group, numbers = _own_places(q), _own_places(q, group), _own_numbers()
    dq = pl.pallas_call(
        partial(_queries_kernel, group),
        grid=(time // OWN, heads, batch),
        in_specs=[*[pl.no_block_spec] * 6, own, own, numbers, numbers],
        out_specs=own,
        out_shape=jax.ShapeDtypeStruct(q.shape, q.dtype),
        compiler_params=PARAMETERS,
        interpret=interpret,
        name="flash_backward_q",
    )(*_listed(_needed_by_own(tiles)), *sight, k, v, q, d_out, logsumexp, delta)
    # Each head's own part first: programs would be too few and too long if one summed over its group.
    parts = pl.pallas_call(
        _keys_kernel,
        grid=(time // OWN, heads, batch),
        in_specs=[*[pl.no_block_spec] * 8, of_group, of_group],
        out_specs=[own, own],
        out_shape=[jax.ShapeDtypeStruct(q.shape, jnp.float32)] * 2,
        compiler_params=KEYS_PARAMETERS,
        interpret=interpret,
        name="flash_backward_kv",
    )(*_listed(_needed_by_own(jnp.swapaxes(tiles, 1, 2))), *sight, q, d_out, logsumexp, delta, k, v)
    dk, dv = (jnp.sum(x.reshape(batch, time, -1, group, x.shape[3]), axis=3).astype(k.dtype) for x in parts)
    return dq, dk, dv


def _own_places(x: Array, group: int = 1) -> pl.BlockSpec:
    return pl.BlockSpec((None, OWN, None, x.shape[3]), lambda block, head, row: (row, block, head // group, 0))


def _own_numbers() -> pl.BlockSpec:
    return pl.BlockSpec((None, None, OWN), lambda block, head, row: (row, head, block))


def _needed_by_own(tiles: Bool[Any, "batch blocks blocks"]) -> Bool[Any, "batch own blocks"]:
    batch, blocks, _ = tiles.shape
    return tiles.reshape(batch, blocks // WIDE, WIDE, blocks).any(axis=2)


def _listed(needed: Bool[Array, "batch own blocks"]) -> tuple[Int[Array, "batch own blocks"], Int[Array, "batch own"]]:
    """The numbers of the needed blocks, first of all, and how many they are."""
    order = jnp.argsort(~needed, axis=-1, stable=True).astype(jnp.int32)
    return order, jnp.sum(needed, axis=-1, dtype=jnp.int32)


def _for_each_needed(needed: tuple[Any, ...], add: Callable[[Array, Any], Any], before: Any, step: int = BLOCK) -> Any:
    """`add(first place, what was before)` of every `step` places of the needed blocks, one after another."""
    order_ref, counts_ref = needed
    block, row, steps = pl.program_id(0), pl.program_id(2), BLOCK // step

    def one(index: Array, so_far: Any) -> Any:
        number, part = jax.lax.div(index, jnp.int32(steps)), jax.lax.rem(index, jnp.int32(steps))
        return add(order_ref[row, block, number] * BLOCK + part * step, so_far)

    return jax.lax.fori_loop(0, counts_ref[row, block] * steps, one, before)


def _ids(refs: tuple[Any, ...], row: Array, start: Array, count: int) -> tuple[Array, ...]:
    return *(ref[row, pl.ds(start, count)] for ref in refs), start + jnp.arange(count)


def _mask(queries: tuple[Array, ...], keys: tuple[Array, ...], keys_axis: int) -> Array:
    """Which queries (segments, parents, places) see which keys (segments, places)."""
    own, parents, places = (jnp.expand_dims(x, keys_axis) for x in queries)
    return visible(own, parents, places, *(jnp.expand_dims(x, 1 - keys_axis) for x in keys))


# Refs of whole arrays are [batch, time, heads, head_dim], or [batch, heads, time] of numbers; a program's own are
# [own, head_dim], or [own]. No kernel asks for a size of its grid: from 0.11 on JAX traces a kernel once for all grids
# with the same blocks, and would give it the first one's (jax issue 40847).


def _forward_kernel(group: int, *refs: Any) -> None:
    needed, sight, (k_ref, v_ref, q_ref, out_ref, logsumexp_ref) = refs[:2], refs[2:4], refs[4:]
    head, row = pl.program_id(1), pl.program_id(2)
    kv_head = head // group
    own, q = _ids(sight, row, pl.program_id(0) * OWN, OWN), q_ref[...]

    def add(start: Array, running: Running) -> Running:
        here = pl.ds(start, BLOCK)
        mask = _mask(own, _ids(sight[:1], row, start, BLOCK), KEYS_AXIS)
        return running.over(q, k_ref[row, here, kv_head], v_ref[row, here, kv_head], mask, keys_axis=KEYS_AXIS)

    running = _for_each_needed(needed, add, Running.over_nothing(*q.shape, keys_axis=KEYS_AXIS))
    out_ref[...] = running.mixed().astype(out_ref.dtype)
    logsumexp_ref[...] = running.logsumexp()[:, 0]


def _queries_kernel(group: int, *refs: Any) -> None:
    needed, sight, (k_ref, v_ref, q_ref, d_out_ref, logsumexp_ref, delta_ref, dq_ref) = refs[:2], refs[2:4], refs[4:]
    head, row = pl.program_id(1), pl.program_id(2)
    kv_head = head // group
    own, q, d_out = _ids(sight, row, pl.program_id(0) * OWN, OWN), q_ref[...], d_out_ref[...]
    numbers = logsumexp_ref[...][:, None], delta_ref[...][:, None]

    def add(start: Array, so_far: Array) -> Array:
        here = pl.ds(start, BLOCK)
        mask = _mask(own, _ids(sight[:1], row, start, BLOCK), KEYS_AXIS)
        k, v = k_ref[row, here, kv_head], v_ref[row, here, kv_head]
        return so_far + queries_gradient(q, k, v, d_out, *numbers, mask, keys_axis=KEYS_AXIS)

    nothing = jnp.zeros(q.shape, jnp.float32)
    dq_ref[...] = _for_each_needed(needed, add, nothing).astype(dq_ref.dtype)


def _keys_kernel(*refs: Any) -> None:
    needed, sight, (q_ref, d_out_ref, logsumexp_ref, delta_ref, k_ref, v_ref, *sum_refs) = refs[:2], refs[2:4], refs[4:]
    head, row = pl.program_id(1), pl.program_id(2)
    own, k, v = _ids(sight[:1], row, pl.program_id(0) * OWN, OWN), k_ref[...], v_ref[...]

    def add(start: Array, so_far: tuple[Array, Array]) -> tuple[Array, Array]:
        here = pl.ds(start, QUERIES)
        mask = _mask(_ids(sight, row, start, QUERIES), own, 0)
        numbers = logsumexp_ref[row, head, here][None], delta_ref[row, head, here][None]
        parts = keys_and_values_gradient(q_ref[row, here, head], k, v, d_out_ref[row, here, head], *numbers, mask)
        return so_far[0] + parts[0], so_far[1] + parts[1]

    nothing = jnp.zeros(k.shape, jnp.float32)
    sums = _for_each_needed(needed, add, (nothing, nothing), step=QUERIES)
    for ref, value in zip(sum_refs, sums, strict=True):
        ref[...] = value
