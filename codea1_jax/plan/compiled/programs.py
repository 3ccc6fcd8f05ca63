"""The jitted phases of a run, lowered from shapes alone: the very functions that training calls.

Nothing here needs an accelerator, weights or data: a mesh over devices that are not there will do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.stages import Lowered

from codea1_jax.config import METHODS, OffloadConfig
from codea1_jax.devices.offload import in_device_memory, in_host_memory
from codea1_jax.learn import Learner, PolicyState
from codea1_jax.learn.batch import PackedBatch
from codea1_jax.learn.learning import Learning
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.lora import with_adapters
from codea1_jax.models.sharding import abstract_sharded, batch_sharding, with_shardings
from codea1_jax.models.stored import flatten
from codea1_jax.plan.arithmetic.attention import computed_pairs, kernels_of
from codea1_jax.plan.arithmetic.simulation import batch_shape, batch_sight
from codea1_jax.plan.arithmetic.workload import (
    PlannedRun,
    SamplingLoad,
    fullest_batch,
    kind_in_evaluations,
    kind_in_steps,
    load_capacity,
    phases,
    sampling_loads,
)
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import (
    Decoder,
    PackedPrompts,
    ResidentPrompts,
    Rows,
    abstract_cache,
    insert,
    make_decoder,
    prefill,
    prompt_pages,
)
from codea1_jax.rollout.decode_params import abstract_decode_params, mover, parts_to_move
from codea1_jax.rollout.sampling import Controls, SamplingKind

EOS = (-1,)  # no token: a block that is measured ends with its last step


Shape = tuple[int, ...]
"""Of a smaller program of a phase: the tokens of a prefill; the rows of a shard, and the pages of prompts and of
responses, that a block of decoding looks at; or the rows, places and targets of a micro-batch."""


@dataclass(frozen=True)
class Value:
    """An array whose numbers decide how much is computed, and where it lies."""

    array: np.ndarray
    sharding: NamedSharding

    @property
    def shape(self) -> tuple[int, ...]:
        """As an array's."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        """As an array's."""
        return self.array.dtype


@dataclass(frozen=True)
class Program:
    """One phase, at its largest, or at a smaller shape.

    lower_with: lowers it for such arguments. arguments: placed shapes; but numpy arrays and `Value`s where the numbers
    decide how much is computed, those of a rollout half done. resident: bytes that lie on every device meanwhile and
    are none of its arguments. read: tokens whose keys and values each device then reads from the cache. pairs: of
    places that flash kernels then compute in a forward pass for one head.
    """

    name: str
    lower_with: Callable[..., Lowered]
    arguments: Callable[[], tuple[Any, ...]]
    resident: int
    shape: Shape = ()
    read: int = 0
    pairs: int = 0

    def lower(self) -> Lowered:
        """For arguments of these shapes."""
        return self.lower_with(*jax.tree.map(_shape_of, self.arguments()))


def _shape_of(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding) if isinstance(x, Value) else x


def device_bytes(tree: Any) -> int:
    """Bytes that a tree of placed shapes takes on one device."""
    return sum(x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(tree))


def bytes_at_rest(state: PolicyState, offload: OffloadConfig) -> int:
    """Bytes of a policy that stay on one device between its phases; what waits in host memory does not.

    The shapes do not tell: GPUs that are not there know no memory but their own.
    """
    moments = None if offload.optimizer else state.opt_state
    return device_bytes(replace(state, opt_state=moments, reference=None if offload.reference else state.reference))


def outputs(function: Any, *arguments: Any) -> Any:
    """The placed shapes that a jitted function gives; compiled, because the compiler decides where its results lie."""
    compiled = function.lower(*arguments).compile()
    return with_shardings(compiled.out_info, compiled.output_shardings)


def make_programs(
    run: PlannedRun,
    mesh: Mesh,
    smaller: Mapping[str, Sequence[Shape]] | None = None,
    batches: Mapping[str, Sequence[PackedBatch]] | None = None,
) -> list[Program]:
    """Every phase of a step, in its order, at its largest.

    And sampling with the smaller shapes that are given, by phase, and learning with smaller batches, by policy.
    """
    config = run.config
    dtype = jnp.dtype(config.model.compute_dtype)
    model = Transformer(run.model, dtype, jnp.dtype("float32"), config.model.remat, config.model.attention)
    params = abstract_sharded(model, mesh)
    learning = Learning.of(config, METHODS[config.method.name])
    learners = learning.learners(model, 1, mesh)
    shared = abstract_sharded(model.clone(param_dtype=dtype), mesh) if learning.keeps_initial_weights else None
    shared = in_host_memory(shared) if config.offload.reference else shared
    states = {name: learner.abstract(params) for name, learner in learners.items()}
    always = sum(bytes_at_rest(state, config.offload) for state in states.values())
    always += 0 if config.offload.reference else device_bytes(shared)
    held = {
        name: state.params if config.lora is None else with_adapters(shared, flatten(state.params))
        for name, state in states.items()
    }
    programs = [
        program
        for load in sampling_loads(config)
        for program in _sampling(run, load, model, held[load.policy], mesh, always, smaller or {})
    ]
    for name, learner in learners.items():
        given = [fullest_batch(run, name), *(batches or {}).get(name, ())]
        programs += _learning(run, name, learner, states[name], shared, mesh, always, given)
    return programs


def _sampling(
    run: PlannedRun,
    load: SamplingLoad,
    model: Transformer,
    params: Params,
    mesh: Mesh,
    always: int,
    smaller: Mapping[str, Sequence[Shape]],
) -> Iterator[Program]:
    """`params`: of the policy that speaks, adapted ones too."""
    rollout, capacity = run.config.rollout, load_capacity(run, load)
    int8 = rollout.weight_dtype == "int8"
    copied = abstract_decode_params(model, mesh, int8=int8)
    cache = abstract_cache(model, capacity, mesh)
    apart, kernels = rollout.engine == "jetstream", kernels_of(run)  # prompts are prefilled apart from the cache

    def prefilling(tokens: int, shape: Shape) -> Program:
        packed, name = _full_prefill(capacity, tokens), f"prefill {load.role}"
        sight = Sight.within(np.asarray(packed.segments))
        pairs = 0 if kernels is None else computed_pairs(sight, kernels, capacity.batch_shards)
        if apart:
            resident, lower = always + device_bytes(cache), partial(prompt_pages.lower, model, mesh)
            return Program(name, lower, lambda: (copied, packed), resident, shape, pairs=pairs)
        lower = partial(prefill.lower, model, mesh)
        return Program(name, lower, lambda: (copied, cache, packed), always, shape, pairs=pairs)

    def inserted() -> tuple[Any, ...]:
        packed = _full_prefill(capacity, capacity.prefill_buckets[-1])
        shapes = jax.tree.map(lambda x: _shape(x.shape, x.dtype), packed)
        return cache, outputs(prompt_pages, model, mesh, copied, shapes), packed.pages.reshape(-1)

    def decoding(name: str, kind: SamplingKind, rows: int, columns: tuple[int, int], shape: Shape = ()) -> Program:
        decoder = make_decoder(model, mesh, capacity, EOS, kind, columns)
        lower, state = partial(Decoder.__call__.lower, decoder), _half_full(capacity, rows, columns)
        read = capacity.block * _tokens_read(capacity, *state[:2])
        return Program(f"{name} {load.role}", lower, lambda: (copied, cache, *state), always, shape, read)

    moved = parts_to_move(model, mesh, params)
    bring = mover(model, mesh, tuple(moved), fp8=capacity.fp8, int8=int8)
    yield Program(f"weights {load.role}", bring.lower, lambda: (moved,), always - device_bytes(moved))
    yield prefilling(capacity.prefill_buckets[-1], ())
    for shape in smaller.get(f"prefill {load.role}", ()):
        yield prefilling(shape[0], shape)
    if apart:
        yield Program(f"insert {load.role}", partial(insert.lower, mesh), inserted, always + device_bytes(copied))
    largest = capacity.rows // capacity.batch_shards, (capacity.prompt_pages, capacity.response_pages)
    in_steps = kind_in_steps(run.config)
    yield decoding("decode", in_steps, *largest)
    for shape in smaller.get(f"decode {load.role}", ()):
        yield decoding("decode", in_steps, shape[0], (shape[1], shape[2]), shape)
    yield decoding("evaluate", kind_in_evaluations(run.config), *largest)


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    """The shape of an array that comes from the host."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _full_prefill(capacity: Capacity, tokens: int) -> PackedPrompts:
    """One prompt in each shard that leaves no padding."""
    shape, pages = (capacity.batch_shards, tokens), (capacity.batch_shards, tokens // capacity.block)
    return PackedPrompts(
        tokens=_given(np.zeros(shape)),
        segments=_given(np.ones(shape)),
        positions=_given(np.broadcast_to(np.arange(tokens), shape)),
        pages=_given(np.broadcast_to(np.arange(pages[1]), pages) % (capacity.pages // capacity.batch_shards)),
    )


def _half_full(
    capacity: Capacity, rows_per_shard: int, columns: tuple[int, int]
) -> tuple[ResidentPrompts, Rows, Controls]:
    """The state before a block of that many rows, with half of these pages full.

    Prompts have `width` rows each; the other slots are empty.
    """
    block, shards = capacity.block, capacity.batch_shards
    prompt, drawn = (pages * block // 2 // block * block for pages in columns)
    rows, slots = np.arange(rows_per_shard * shards), np.arange(capacity.slots)
    in_use = slots % (capacity.slots // shards) * capacity.width < rows_per_shard

    def pages(owners: np.ndarray, each: int) -> Any:
        numbers = owners[:, None] % (len(owners) // shards) * each + np.arange(each)
        return _given(numbers % (capacity.pages // shards))

    every, one = np.ones_like(rows), np.float32(1)
    controls: Any = (one, one, np.int32(0), _given(every * (drawn + block + 1)))
    return (
        ResidentPrompts(_given(np.where(in_use, prompt, 0)), pages(slots, capacity.prompt_pages)),
        Rows(
            place=_given(rows % rows_per_shard),
            prompt=_given(every * prompt),
            token=_given(0 * every),
            num_generated=_given(every * drawn),
            active=_given(every, np.bool_),
            key=_given(np.stack([rows, rows], axis=1), np.uint32),
            pages=pages(rows, capacity.response_pages),
        ),
        Controls(*controls),
    )


def _tokens_read(capacity: Capacity, prompts: ResidentPrompts, rows: Rows) -> int:
    """Tokens that each shard's rows look at in a step: a prompt once, for all of its rows."""
    return (int(prompts.lengths.sum()) + int(rows.num_generated.sum())) // capacity.batch_shards


def _given(array: np.ndarray, dtype: Any = np.int32) -> Any:
    """An array that comes from the host."""
    return np.ascontiguousarray(array, dtype)


def _learning(
    run: PlannedRun,
    name: str,
    learner: Learner,
    state: PolicyState,
    shared: Params | None,
    mesh: Mesh,
    always: int,
    given: Sequence[PackedBatch],
) -> Iterator[Program]:
    """`given`: the fullest batch, then smaller ones."""
    jitted, lora, offload = learner.phases, run.config.lora, run.config.offload
    planned = {phase.name: phase for phase in phases(run)}
    scored = {which: f"score-{which} {name}" in planned for which in ("old", "ref")}
    placed = [_placed(batch, mesh, **scored) for batch in given]
    # A step's batches are all on the devices before the first is learned from.
    batches = math.ceil(planned[f"gradient {name}"].calls) * device_bytes(jax.tree.map(_shape_of, placed[0]))
    own, state = state.reference, replace(state, reference=None)
    shapes, kernels = [(), *map(batch_shape, given[1:])], kernels_of(run)
    pairs = [0 if kernels is None else computed_pairs(batch_sight(batch), kernels, run.batch_shards) for batch in given]

    def adapted(trained: Params | None) -> Params:
        return trained if lora is None else with_adapters(shared, flatten(trained))

    scorers = {"old": adapted(state.params), "ref": shared if own is None else adapted(own)}
    for which in (which for which, wanted in scored.items() if wanted):
        waits = which == "ref" and offload.reference
        resident = always - (0 if waits else device_bytes(scorers[which])) + batches
        for batch, shape, computed in zip(placed, shapes, pairs, strict=True):
            arguments = partial(_tuple, in_device_memory(scorers[which]), batch)
            yield Program(f"score-{which} {name}", jitted.logprobs.lower, arguments, resident, shape, pairs=computed)
    base = None if lora is None else shared
    total = outputs(jitted.empty, state.params)
    resident = always - device_bytes((state.params, base)) + batches
    for batch, shape, computed in zip(placed, shapes, pairs, strict=True):
        arguments = partial(_tuple, total, state.params, batch, np.float32(1), base)
        yield Program(f"gradient {name}", jitted.accumulate.lower, arguments, resident, shape, pairs=computed)
    yield Program(f"clear {name}", jitted.empty.lower, partial(_tuple, state.params), always + batches)
    arguments = partial(_tuple, in_device_memory(state), total.gradient)
    yield Program(f"update {name}", jitted.apply.lower, arguments, always - bytes_at_rest(state, offload))


def _tuple(*arguments: Any) -> tuple[Any, ...]:
    return arguments


def _placed(batch: PackedBatch, mesh: Mesh, *, old: bool, ref: bool) -> Any:
    """A batch on the devices, scored by the old policy and the reference if there are such phases."""
    scored = batch.mask
    full = replace(batch, old_logprobs=scored if old else None, reference_logprobs=scored if ref else None)
    here = batch_sharding(mesh)
    return jax.tree.map(lambda x: Value(np.asarray(x), here), full)
