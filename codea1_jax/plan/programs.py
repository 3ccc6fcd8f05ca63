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
from jax.sharding import Mesh
from jax.stages import Lowered

from codea1_jax.builders.policies import Learning
from codea1_jax.checkpoint.offload import HOST, in_device_memory, in_host_memory
from codea1_jax.config import METHODS
from codea1_jax.learn import Learner, PolicyState
from codea1_jax.learn.batch import PackedBatch
from codea1_jax.models.lora import with_adapters
from codea1_jax.models.qwen2 import Params, Qwen2
from codea1_jax.models.sharding import abstract_sharded, batch_sharding, serving_shardings, with_shardings
from codea1_jax.models.stored import flatten
from codea1_jax.plan.workload import PlannedRun, SamplingLoad, fullest_batch, load_capacity, phases, sampling_loads
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
from codea1_jax.rollout.decode_params import apart_shapes
from codea1_jax.rollout.requests import Capacity
from codea1_jax.rollout.sampling import Controls, SamplingKind

EOS = (0,)  # any token ends a completion as well as another


Shape = tuple[int, ...]
"""Of a smaller program of a phase: the tokens of a prefill."""


@dataclass(frozen=True)
class Program:
    """One phase, at its largest, or at a smaller shape.

    resident: bytes that lie on every device meanwhile and are none of its arguments.
    """

    name: str
    lower: Callable[[], Lowered]
    resident: int
    shape: Shape = ()


def device_bytes(tree: Any) -> int:
    """Bytes that a tree of placed shapes takes on one device; what waits in host memory takes none."""
    there = (x for x in jax.tree.leaves(tree) if x.sharding.memory_kind != HOST)
    return sum(x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in there)


def outputs(function: Any, *arguments: Any) -> Any:
    """The placed shapes that a jitted function gives; compiled, because the compiler decides where its results lie."""
    compiled = function.lower(*arguments).compile()
    return with_shardings(compiled.out_info, compiled.output_shardings)


def make_programs(run: PlannedRun, mesh: Mesh, smaller: Mapping[str, Sequence[Shape]] | None = None) -> list[Program]:
    """Every phase of a step, in its order, at its largest; and each with the smaller shapes that are given for it."""
    config = run.config
    dtype = jnp.dtype(config.model.compute_dtype)
    model = Qwen2(run.model, dtype, jnp.dtype("float32"), config.model.remat, config.model.attention)
    params = abstract_sharded(model, mesh)
    learning = Learning.of(config, METHODS[config.method.name])
    learners = learning.learners(model, 1, mesh)
    shared = abstract_sharded(model.clone(param_dtype=dtype), mesh) if learning.keeps_initial_weights else None
    shared = in_host_memory(shared) if config.offload.reference else shared
    states = {name: learner.abstract(params) for name, learner in learners.items()}
    always = device_bytes((shared, states))
    programs = [
        program
        for load in sampling_loads(config)
        for program in _sampling(run, load, model, params, mesh, always, smaller or {})
    ]
    for name, learner in learners.items():
        programs += _learning(run, name, learner, states[name], shared, mesh, always)
    return programs


def _sampling(
    run: PlannedRun,
    load: SamplingLoad,
    model: Qwen2,
    params: Params,
    mesh: Mesh,
    always: int,
    smaller: Mapping[str, Sequence[Shape]],
) -> Iterator[Program]:
    rollout, capacity = run.config.rollout, load_capacity(run, load)
    copied = _decode_params(model, params, mesh)
    cache = abstract_cache(model, capacity, mesh)
    full = capacity.prefill_buckets[-1]
    apart = rollout.engine == "jetstream"  # prompts are prefilled apart from the cache

    def lower_prefill(tokens: int) -> Lowered:
        packed = _pack(capacity, tokens)
        if apart:
            return prompt_pages.lower(model, mesh, copied, packed)
        return prefill.lower(model, mesh, copied, cache, packed)

    def lower_insert() -> Lowered:
        packed = _pack(capacity, full)
        contents = outputs(prompt_pages, model, mesh, copied, packed)
        return insert.lower(mesh, cache, contents, _shape((math.prod(packed.pages.shape),), jnp.int32))

    def lower_decode() -> Lowered:
        kind = SamplingKind.FILTERED if rollout.top_p < 1 else SamplingKind.PLAIN
        columns = (capacity.prompt_pages, capacity.response_pages)
        decoder = make_decoder(model, mesh, capacity, EOS, kind, columns)
        return Decoder.__call__.lower(decoder, copied, cache, *_rows(capacity))

    name = f"prefill {load.role}"
    resident = always + device_bytes(cache) if apart else always
    yield Program(name, partial(lower_prefill, full), resident)
    for shape in smaller.get(name, ()):
        yield Program(name, partial(lower_prefill, *shape), resident, shape)
    if apart:
        yield Program(f"insert {load.role}", lower_insert, always + device_bytes(copied))
    yield Program(f"decode {load.role}", lower_decode, always)


def _decode_params(model: Qwen2, params: Params, mesh: Mesh) -> Params:
    """The shapes of what `to_decode_params` makes of parameters."""
    shapes = jax.tree.map(lambda x: _shape(x.shape, model.dtype), params)
    copied = with_shardings(shapes, serving_shardings(model, mesh))
    return {**copied, "layers": apart_shapes(copied["layers"], model.config.num_layers)}


def _shape(shape: tuple[int, ...], dtype: Any) -> Any:
    """The shape of an array that comes from the host."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _pack(capacity: Capacity, tokens: int) -> PackedPrompts:
    given = _shape((capacity.batch_shards, tokens), jnp.int32)
    return PackedPrompts(given, given, given, _shape((capacity.batch_shards, tokens // capacity.block), jnp.int32))


def _rows(capacity: Capacity) -> tuple[ResidentPrompts, Rows, Controls]:
    """What a block starts from."""
    rows, number = _shape((capacity.rows,), jnp.int32), _shape((), jnp.float32)
    prompts = _shape((capacity.slots,), jnp.int32), _shape((capacity.slots, capacity.prompt_pages), jnp.int32)
    return (
        ResidentPrompts(*prompts),
        Rows(
            place=rows,
            prompt=rows,
            token=rows,
            num_generated=rows,
            active=_shape((capacity.rows,), jnp.bool_),
            key=_shape((capacity.rows, 2), jnp.uint32),
            pages=_shape((capacity.rows, capacity.response_pages), jnp.int32),
        ),
        Controls(temperature=number, top_p=number, top_k=_shape((), jnp.int32), max_new_tokens=rows),
    )


def _learning(
    run: PlannedRun,
    name: str,
    learner: Learner,
    state: PolicyState,
    shared: Params | None,
    mesh: Mesh,
    always: int,
) -> Iterator[Program]:
    jitted, lora = learner.phases, run.config.lora
    planned = {phase.name: phase for phase in phases(run)}
    batch = _placed(
        fullest_batch(run, name), mesh, old=f"score-old {name}" in planned, ref=f"score-ref {name}" in planned
    )
    # A step's batches are all on the devices before the first is learned from.
    batches = math.ceil(planned[f"gradient {name}"].calls) * device_bytes(batch)
    own, state = state.reference, replace(state, reference=None)

    def adapted(trained: Params | None) -> Params:
        return trained if lora is None else with_adapters(shared, flatten(trained))

    scored = {"old": adapted(state.params), "ref": shared if own is None else adapted(own)}
    for scoring, params in scored.items():
        if f"score-{scoring} {name}" in planned:
            lower = partial(jitted.logprobs.lower, in_device_memory(params), batch)
            yield Program(f"score-{scoring} {name}", lower, always - device_bytes(params) + batches)
    base = None if lora is None else shared
    total, tokens = outputs(jitted.empty, state.params), jax.ShapeDtypeStruct((), jnp.float32)
    lower = partial(jitted.accumulate.lower, total, state.params, batch, tokens, base)
    yield Program(f"gradient {name}", lower, always - device_bytes((state.params, base)) + batches)
    lower = partial(jitted.apply.lower, in_device_memory(state), total.gradient)
    yield Program(f"update {name}", lower, always - device_bytes(state))


def _placed(batch: PackedBatch, mesh: Mesh, *, old: bool, ref: bool) -> PackedBatch:
    """The shapes of a batch on the devices, scored by the old policy and the reference if there are such phases."""
    scored = batch.mask
    full = replace(batch, old_logprobs=scored if old else None, reference_logprobs=scored if ref else None)
    here = batch_sharding(mesh)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), full)
