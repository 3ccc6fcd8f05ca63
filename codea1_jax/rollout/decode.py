"""The programs of a rollout: prefill prompts, insert their pages into the cache, decode a block of tokens."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.tree_util import Partial
from jaxtyping import Array, Bool, Float, Int, UInt32

from codea1_jax.models.attention import choose_kernel, prefill_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Params, Transformer, output_table
from codea1_jax.models.sharding import batch_shards
from codea1_jax.rollout.attend import Mixed, merge, mix
from codea1_jax.rollout.cache import AXES, Cache, KeyValues, as_pages, write_pages
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.readers import Reader, reader_for
from codea1_jax.rollout.sampling import Controls, SamplingKind, draw_tokens, row_uniforms
from codea1_jax.runtime.layout import everywhere, fitting_spec, on_shards, using


class PackedPrompts(NamedTuple):
    """Prompts to prefill together, one after another in each shard's row; each begins at a page of its own.

    segments: 0 for padding. positions: of every token in its prompt. pages: where each page of tokens goes; numbers
    that do not exist drop theirs.
    """

    tokens: Int[Array, "shards time"]
    segments: Int[Array, "shards time"]
    positions: Int[Array, "shards time"]
    pages: Int[Array, "shards pages"]


class ResidentPrompts(NamedTuple):
    """The resident prompts. lengths: in tokens, without the last one, which is the first input of every row."""

    lengths: Int[Array, " slots"]
    pages: Int[Array, "slots pages"]


class Rows(NamedTuple):
    """Where every row of a block stands at its start. The host owns this; it is a few kilobytes.

    place: the row's own among its shard's places, of which each slot has `width`; one too many if it has none.
    prompt: tokens of its prompt in the cache.
    token: its next input.
    num_generated: tokens it has drawn so far, a multiple of the block length.
    active: whether it has a sample to continue with.
    key: its random key.
    pages: where its blocks lie, and where the next one goes; numbers that do not exist drop theirs.
    """

    place: Int[Array, " rows"]
    prompt: Int[Array, " rows"]
    token: Int[Array, " rows"]
    num_generated: Int[Array, " rows"]
    active: Bool[Array, " rows"]
    key: UInt32[Array, "rows 2"]
    pages: Int[Array, "rows pages"]


class DecodedBlock(NamedTuple):
    """What a block drew. A row's tokens are its first `count` columns; `active` rows have more to come.

    steps: how many steps the device ran.
    """

    tokens: Int[Array, "block rows"]
    logprobs: Float[Array, "block rows"]
    count: Int[Array, " rows"]
    active: Bool[Array, " rows"]
    steps: Int[Array, ""]


class _Shared(NamedTuple):
    """What every layer's attention is given: what the reader prepared of prompts and of responses, and who sits where.

    holders: the row in each place, as a shard counts them; any row in an empty one.
    """

    prompts: Any
    responses: Any
    place: Int[Array, " rows"]
    holders: Int[Array, " places"]


class _Progress(NamedTuple):
    """The carry of a block's loop: next inputs, every layer's keys and values so far, what was drawn so far."""

    token: Int[Array, " rows"]
    block: Cache
    drawn: DecodedBlock


def check_shards(capacity: Capacity, mesh: Mesh) -> None:
    if capacity.batch_shards != batch_shards(mesh):
        raise ValueError(f"a capacity of {capacity.batch_shards} shards for a mesh of {batch_shards(mesh)}")


def abstract_cache(model: Transformer, capacity: Capacity, mesh: Mesh) -> Cache:
    shape = model.architecture
    platform = mesh.devices.flat[0].platform
    pages = (capacity.pages, shape.num_kv_heads, capacity.block, reader_for(platform).width(shape.head_dim))
    sharding = NamedSharding(mesh, fitting_spec((*AXES, None, None), pages, mesh))
    # XLA for CPU would widen a store of bfloat16 to scatter into it: there it is kept as integers.
    bits = jnp.uint16 if platform == "cpu" and model.dtype == jnp.bfloat16 else model.dtype
    store = jax.ShapeDtypeStruct(pages, bits, sharding=sharding)
    return (KeyValues(store, store),) * shape.num_layers  # pyright: ignore[reportArgumentType]  for arrays


def new_cache(model: Transformer, capacity: Capacity, mesh: Mesh) -> Cache:
    """A cache of zeros, made where the programs keep it: no device ever holds the whole."""
    return _cache_maker(abstract_cache(model, capacity, mesh))()


@cache
def _cache_maker(shapes: Cache) -> Callable[[], Cache]:
    zeros = partial(jax.tree.map, lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return jax.jit(zeros, out_shardings=jax.tree.map(lambda x: x.sharding, shapes))


@partial(jax.jit, static_argnames=("model", "mesh"))
def prompt_pages(model: Transformer, mesh: Mesh, params: Params, packed: PackedPrompts) -> Cache:
    """The pages of packed prompts, in the order of `packed.pages`: of every layer [new, kv_heads, block, head_dim]."""
    block, shape = packed.tokens.shape[1] // packed.pages.shape[1], model.architecture
    with using(mesh):
        kernel = choose_kernel(model.attention, model.dtype, shape.head_dim)
        attend = prefill_attention(Sight.within(packed.segments), kernel)
        inputs = packed.tokens, packed.positions, attend, (None,) * shape.num_layers
        _, key_values = cast("tuple[Array, Any]", model.apply({"params": params}, *inputs))
        return tuple(as_pages(KeyValues(*layer), block) for layer in key_values)


@partial(jax.jit, static_argnames=("model", "mesh"), donate_argnames="cache")
def prefill(model: Transformer, mesh: Mesh, params: Params, cache: Cache, packed: PackedPrompts) -> Cache:
    """The cache with the pages of packed prompts in it."""
    return insert(mesh, cache, prompt_pages(model, mesh, params, packed), packed.pages.reshape(-1))


@partial(jax.jit, static_argnames="mesh", donate_argnames="cache")
def insert(mesh: Mesh, cache: Cache, contents: Cache, numbers: Int[Array, " new"]) -> Cache:
    with using(mesh):
        return write_pages(cache, numbers, contents)


@dataclass(frozen=True)
class Decoder:
    """The decoding program of one shape on one mesh.

    columns: pages of prompts and of responses that its rows look at.
    """

    model: Transformer
    mesh: Mesh
    capacity: Capacity
    eos_ids: tuple[int, ...]
    kind: SamplingKind
    reader: Reader
    columns: tuple[int, int]

    @partial(jax.jit, static_argnames="self", donate_argnames="cache")
    def __call__(
        self, params: Params, cache: Cache, prompts: ResidentPrompts, rows: Rows, controls: Controls
    ) -> tuple[Cache, DecodedBlock]:
        """Samples up to `block` tokens per row and stops early once no row is active.

        Every row draws its token in the same step, so rows that ended keep computing, unseen, until all have.
        """

        def go_on(progress: _Progress) -> Array:
            return (progress.drawn.steps < self.capacity.block) & jnp.any(progress.drawn.active)

        with using(self.mesh):
            read = self._reading(cache, prompts, rows)
            step = partial(self._step, params, rows, controls, read)
            end = jax.lax.while_loop(go_on, step, self._start(cache, rows))
            drawn = jax.tree.map(everywhere, end.drawn)  # for every host to read
            return self._appended(cache, rows, end.block), drawn

    def _reading(self, cache: Cache, prompts: ResidentPrompts, rows: Rows) -> tuple[_Shared, tuple[Any, ...]]:
        of_prompts, of_responses = self.columns
        shared, layers = self.reader.prepare(cache, prompts.pages[:, :of_prompts], prompts.lengths)
        own, own_layers = None, (None,) * len(layers)
        if of_responses > 0:
            drawn = jnp.where(rows.active, rows.num_generated, 0)  # the pages of other rows may not even exist
            own, own_layers = self.reader.prepare(cache, rows.pages[:, :of_responses], drawn)
        places = jnp.zeros(len(prompts.lengths) * self.capacity.width, jnp.int32)
        (holders,) = on_shards(_holders, (places, rows.place), (("batch",), ("batch",)), (("batch",),))
        read = jax.tree.map(lambda x: x.view(self.model.dtype), tuple(zip(layers, own_layers, strict=True)))
        return _Shared(shared, own, rows.place, holders), read

    def _appended(self, cache: Cache, rows: Rows, block: Cache) -> Cache:
        if rows.pages.shape[1] == 0:
            return cache
        page = (rows.num_generated // self.capacity.block)[:, None]
        numbers = jnp.take_along_axis(rows.pages, page, axis=1, mode="fill", fill_value=self.capacity.pages)
        return write_pages(cache, numbers[:, 0], block)

    def _start(self, cache: Cache, rows: Rows) -> _Progress:
        shape = (self.capacity.block, *rows.token.shape)
        drawn = DecodedBlock(
            tokens=jnp.zeros(shape, jnp.int32),
            logprobs=jnp.zeros(shape, jnp.float32),
            count=jnp.zeros(rows.token.shape, jnp.int32),
            active=rows.active,
            steps=jnp.zeros((), jnp.int32),
        )
        one = (self.model.architecture.num_kv_heads, self.capacity.block, self.model.architecture.head_dim)
        block = jax.tree.map(lambda _: jnp.zeros((len(rows.token), *one), self.model.dtype), cache)
        return _Progress(rows.token, block, drawn)

    def _step(
        self, params: Params, rows: Rows, controls: Controls, read: tuple[_Shared, tuple[Any, ...]], progress: _Progress
    ) -> _Progress:
        drawn, step = progress.drawn, progress.drawn.steps
        num_generated = rows.num_generated + step
        shared, layers = read
        attend = Partial(partial(_attend, self.reader, self.capacity.width), shared, step)
        by_layer = tuple(zip(layers, progress.block, strict=True))
        tokens, positions = progress.token[:, None], (rows.prompt + num_generated)[:, None]
        inputs = tokens, positions, attend, by_layer
        hidden, block = cast("tuple[Array, Cache]", self.model.apply({"params": params}, *inputs))
        table = output_table(params, self.model.architecture)
        logits = jnp.einsum("rd,vd->rv", hidden[:, 0], table, preferred_element_type=jnp.float32)
        token, logprobs = draw_tokens(logits, row_uniforms(rows.key, num_generated), self.kind, controls)
        ended = jnp.isin(token, jnp.array(self.eos_ids, jnp.int32)) | (num_generated + 1 >= controls.max_new_tokens)
        drawn = DecodedBlock(
            tokens=drawn.tokens.at[step].set(token),
            logprobs=drawn.logprobs.at[step].set(logprobs),
            count=drawn.count + drawn.active.astype(jnp.int32),
            active=drawn.active & ~ended,
            steps=step + 1,
        )
        return _Progress(token, block, drawn)


def make_decoder(
    model: Transformer,
    mesh: Mesh,
    capacity: Capacity,
    eos_ids: tuple[int, ...],
    kind: SamplingKind,
    needed: tuple[int, int],
) -> Decoder:
    reader = reader_for(mesh.devices.flat[0].platform)
    return Decoder(model, mesh, capacity, eos_ids, kind, reader, reader.columns(needed, capacity))


def _holders(places: Int[Array, " places"], place: Int[Array, " rows"]) -> tuple[Int[Array, " places"]]:
    return (places.at[place].set(jnp.arange(len(place)), mode="drop"),)


def _attend(
    reader: Reader,
    width: int,
    shared: _Shared,
    step: Int[Array, ""],
    q: Float[Array, "rows 1 heads head_dim"],
    k: Float[Array, "rows 1 kv_heads head_dim"],
    v: Float[Array, "rows 1 kv_heads head_dim"],
    by_layer: tuple[tuple[Any, Any], KeyValues],
) -> tuple[Float[Array, "rows 1 heads head_dim"], KeyValues]:
    """One layer's attention of every row's new token; keeps the layer's block, with the token in it."""
    layers, block = by_layer
    grouped = q.reshape(len(q), k.shape[2], -1, q.shape[-1])
    new = KeyValues(k.swapaxes(1, 2), v.swapaxes(1, 2))
    arguments = (step, grouped, new, shared, layers, block)
    axes = ((), AXES, AXES, ("batch",), AXES, AXES)
    mixed, block = on_shards(partial(_attend_on_shard, reader, width), arguments, axes, (AXES, AXES))
    return mixed.reshape(q.shape), block


def _attend_on_shard(
    reader: Reader,
    width: int,
    step: Int[Array, ""],
    q: Float[Array, "rows kv_heads group head_dim"],
    new: KeyValues,
    shared: _Shared,
    layers: tuple[Any, Any],
    block: KeyValues,
) -> tuple[Float[Array, "rows kv_heads group head_dim"], KeyValues]:
    block = jax.tree.map(lambda store, x: jax.lax.dynamic_update_slice_in_dim(store, x, step, axis=2), block, new)
    group = q.shape[2]
    q = jnp.pad(q, ((0, 0), (0, 0), (0, -group % reader.sublanes), (0, 0)))
    parts = [mix(q, block, step[None] + 1), _mix_prompts(reader, width, q, shared, layers[0])]
    if shared.responses is not None:
        parts.append(reader.mix(q, shared.responses, layers[1]))
    return merge(parts).astype(q.dtype)[:, :, :group], block


def _mix_prompts(reader: Reader, width: int, q: Array, shared: _Shared, layer: Any) -> Mixed:
    """Rows look at their prompts; those that share one do so in one matrix product, as one tile."""
    _, kv_heads, group, head_dim = q.shape
    slots = len(shared.holders) // width
    tiles = q[shared.holders].reshape(slots, width, kv_heads, group, head_dim).swapaxes(1, 2)
    mixed = reader.mix(tiles.reshape(slots, kv_heads, width * group, head_dim), shared.prompts, layer)

    def by_row(x: Array) -> Array:
        places = x.reshape(slots, kv_heads, width, group, *x.shape[3:]).swapaxes(1, 2)
        return places.reshape(slots * width, kv_heads, group, *x.shape[3:]).at[shared.place].get(mode="clip")

    return Mixed(*map(by_row, mixed))
