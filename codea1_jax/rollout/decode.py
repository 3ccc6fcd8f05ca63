"""The two programs of a rollout: prefill prompts into slots, and decode a block of tokens on the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jaxtyping import Array, Bool, Float, Int, PyTree, UInt32

from codea1_jax.models.attention import Attend, prefill_attention
from codea1_jax.models.layout import everywhere, fitting_spec, using
from codea1_jax.models.qwen2 import Params, Qwen2, output_table
from codea1_jax.models.unrolled import apply_unrolled
from codea1_jax.rollout import decode_params, stacked, unrolled
from codea1_jax.rollout.cache import Cache, KeyValues, Visible, columns_before
from codea1_jax.rollout.requests import Capacity
from codea1_jax.rollout.sampling import Controls, SamplingKind, draw_tokens, row_uniforms
from codea1_jax.rollout.stacked import Stacked
from codea1_jax.rollout.unrolled import Unrolled


class Rows(NamedTuple):
    """Where every row stands at the start of a block. The host owns this; it is a few kilobytes.

    prefix: prompt tokens in the slot's cache: all but the last one, which is the first input of every row.
    token: the row's next input.
    num_generated: tokens the row has drawn so far, a multiple of the block length.
    active: whether the row has a sample to continue with.
    key: the row's random key.
    """

    prefix: Int[Array, " slots"]
    token: Int[Array, "slots width"]
    num_generated: Int[Array, "slots width"]
    active: Bool[Array, "slots width"]
    key: UInt32[Array, "slots width 2"]


class DecodedBlock(NamedTuple):
    """What a block drew. A row's tokens are its first `count` columns; `active` rows have more to come.

    steps: how many steps the device ran.
    """

    tokens: Int[Array, "block slots width"]
    logprobs: Float[Array, "block slots width"]
    count: Int[Array, "slots width"]
    active: Bool[Array, "slots width"]
    steps: Int[Array, ""]


class _Given(NamedTuple):
    """What stays the same throughout a block."""

    params: Params
    held: Stacked | Unrolled
    rows: Rows
    controls: Controls


class _Progress(NamedTuple):
    """The carry of a block's loop: next inputs, the block as `held`, what was drawn so far."""

    token: Int[Array, "slots width"]
    block: Any
    drawn: DecodedBlock


def _is_unrolled(params: Params) -> bool:
    """Whether every layer has its own parameters."""
    return isinstance(params["layers"], tuple)


def _forward(
    model: Qwen2,
    params: Params,
    tokens: Int[Array, "batch time"],
    positions: Int[Array, "batch time"],
    attend: Attend,
    kept: Any,
) -> tuple[Float[Array, "batch time width"], Any]:
    if _is_unrolled(params):
        return apply_unrolled(model, params, tokens, positions, attend, kept)
    result: Any = model.apply({"params": params}, tokens, positions, attend, kept)
    return result


def abstract_cache(model: Qwen2, capacity: Capacity, mesh: Mesh, *, apart: bool) -> Cache:
    """The shapes of a cache, and where the programs keep it; `apart`: for layers that are held apart."""
    form = unrolled if apart else stacked
    shapes = jax.eval_shape(lambda: form.empty_cache(model.config, capacity, model.dtype))

    def place(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
        names = (*form.AXES, *[None] * (len(x.shape) - len(form.AXES)))
        sharding = NamedSharding(mesh, fitting_spec(names, x.shape, mesh))
        return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    return jax.tree.map(place, shapes)


def new_cache(model: Qwen2, capacity: Capacity, mesh: Mesh) -> Cache:
    """A cache of zeros, for parameters as `decode_params` leaves them, made where the programs keep it.

    No device ever holds the whole.
    """
    apart = decode_params.unrolls(mesh)
    return _cache_maker(model, capacity, mesh, apart)()  # pyright: ignore[reportArgumentType]  flax modules are hashable


@cache
def _cache_maker(model: Qwen2, capacity: Capacity, mesh: Mesh, apart: bool) -> Callable[[], Cache]:
    """Compiled once."""
    form = unrolled if apart else stacked
    shardings = jax.tree.map(lambda x: x.sharding, abstract_cache(model, capacity, mesh, apart=apart))
    return jax.jit(lambda: form.empty_cache(model.config, capacity, model.dtype), out_shardings=shardings)


@partial(jax.jit, static_argnames=("model", "mesh"))
def prompt_key_values(model: Qwen2, mesh: Mesh, params: Params, tokens: Int[Array, "prompts time"]) -> Any:
    """`KeyValues` [layers, prompts, time, kv_heads, head_dim] of right-padded prompts, or of every layer that is apart.

    Padding needs no separate mask: nothing before it sees it, and decoding masks its columns.
    """
    positions = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
    with using(mesh):
        attend = prefill_attention(model.attention)
        nothing = (None,) * model.config.num_layers if _is_unrolled(params) else None
        _, kept = _forward(model, params, tokens, positions, attend, nothing)
    return tuple(KeyValues(*layer) for layer in kept) if _is_unrolled(params) else KeyValues(*kept)


def _insert_prompts(cache: Cache, key_values: Any, slots: Int[Array, " prompts"]) -> Cache:
    if isinstance(key_values, KeyValues):
        return stacked.insert_prompts(cache, key_values, slots)
    return unrolled.insert_prompts(cache, key_values, slots)


@partial(jax.jit, static_argnames=("model", "mesh"), donate_argnames="cache")
def prefill(
    model: Qwen2,
    mesh: Mesh,
    params: Params,
    cache: Cache,
    tokens: Int[Array, "prompts time"],
    slots: Int[Array, " prompts"],
) -> Cache:
    """Runs right-padded prompts once and stores their keys and values in `slots` (out of range: dropped)."""
    with using(mesh):
        return _insert_prompts(cache, prompt_key_values(model, mesh, params, tokens), slots)


@partial(jax.jit, static_argnames="mesh", donate_argnames="cache")
def insert(
    mesh: Mesh,
    cache: Cache,
    slot_inputs: PyTree[Array],
    key_values: Any,
    slots: Int[Array, " prompts"],
    inserted: PyTree[Array],
) -> tuple[Cache, PyTree[Array]]:
    """Prompts into the cache, and what their rows start from into the slot_inputs (leaves [slots, ...])."""
    seated = jax.tree.map(lambda store, new: store.at[slots].set(new, mode="drop"), slot_inputs, inserted)
    with using(mesh):
        return _insert_prompts(cache, key_values, slots), seated


@dataclass(frozen=True)
class Decoder:
    """The decoding program of one shape on one mesh, whose rows look at that many columns of the cache."""

    model: Qwen2
    mesh: Mesh
    capacity: Capacity
    eos_ids: tuple[int, ...]
    kind: SamplingKind
    prompt_columns: int
    response_columns: int

    @partial(jax.jit, static_argnames="self", donate_argnames="cache")
    def __call__(self, params: Params, cache: Cache, rows: Rows, controls: Controls) -> tuple[Cache, DecodedBlock]:
        """SampleKeys up to `block` tokens per row and stops early once no row is active.

        Every row draws its token in the same step, so rows that ended keep computing, unseen, until all have.
        """

        def go_on(progress: _Progress) -> Array:
            return (progress.drawn.steps < self.capacity.block) & jnp.any(progress.drawn.active)

        with using(self.mesh):
            columns, length = (self.prompt_columns, self.response_columns), self.capacity.block
            held = Unrolled(cache, length, columns) if _is_unrolled(params) else Stacked(cache, length)
            step = partial(self._step, _Given(params, held, rows, controls))
            end = jax.lax.while_loop(go_on, step, self._start(rows, held))
            drawn = jax.tree.map(everywhere, end.drawn)  # for every host to read
            return held.appended(end.block, rows.num_generated), drawn

    def _start(self, rows: Rows, held: Stacked | Unrolled) -> _Progress:
        shape = (self.capacity.block, *rows.token.shape)
        drawn = DecodedBlock(
            tokens=jnp.zeros(shape, jnp.int32),
            logprobs=jnp.zeros(shape, jnp.float32),
            count=jnp.zeros(rows.token.shape, jnp.int32),
            active=rows.active,
            steps=jnp.zeros((), jnp.int32),
        )
        return _Progress(rows.token, held.start(), drawn)

    def _step(self, given: _Given, progress: _Progress) -> _Progress:
        rows, drawn, step = given.rows, progress.drawn, progress.drawn.steps
        num_generated = rows.num_generated + step
        visible = Visible(
            prompts=columns_before(rows.prefix, self.prompt_columns),
            responses=columns_before(rows.num_generated, self.response_columns),
        )
        attend, kept = given.held.attention(progress.block, visible, step)
        tokens, positions = progress.token.reshape(-1, 1), (rows.prefix[:, None] + num_generated).reshape(-1, 1)
        hidden, new = _forward(self.model, given.params, tokens, positions, attend, kept)
        table = output_table(given.params, self.model.config)
        logits = jnp.einsum("rtd,vd->rtv", hidden, table, preferred_element_type=jnp.float32)
        logits = logits.reshape(*num_generated.shape, -1)
        token, logprobs = draw_tokens(logits, row_uniforms(rows.key, num_generated), self.kind, given.controls)
        ended = jnp.isin(token, jnp.array(self.eos_ids, jnp.int32)) | (
            num_generated + 1 >= given.controls.max_new_tokens
        )
        drawn = DecodedBlock(
            tokens=drawn.tokens.at[step].set(token),
            logprobs=drawn.logprobs.at[step].set(logprobs),
            count=drawn.count + drawn.active.astype(jnp.int32),
            active=drawn.active & ~ended,
            steps=step + 1,
        )
        return _Progress(token, given.held.after(progress.block, new, step), drawn)
