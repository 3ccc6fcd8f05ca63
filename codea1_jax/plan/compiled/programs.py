"""The jitted phases of a run, lowered from shapes alone: the very functions that training calls.

Nothing here needs an accelerator, weights or data: a mesh over devices that are not there will do.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.stages import Lowered

from codea1_jax.config import OffloadConfig
from codea1_jax.learn import Learner, PolicyState
from codea1_jax.learn.batch import BatchWriter, PackedBatch
from codea1_jax.learn.learning import Learning
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Params, Transformer
from codea1_jax.models.lora import with_adapters
from codea1_jax.models.sharding import abstract_sharded, batch_sharding, with_shardings
from codea1_jax.models.stored import flatten
from codea1_jax.plan.arithmetic.phases import layout_table
from codea1_jax.plan.arithmetic.planned_run import PlannedRun
from codea1_jax.plan.arithmetic.simulation import batch_sight, computed_pairs
from codea1_jax.plan.arithmetic.workload import (
    Kind,
    Load,
    Phase,
    evaluation_kind,
    sampling_kind,
    sampling_loads,
)
from codea1_jax.plan.compiled.compiler import ProgramName
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import (
    Decoder,
    PackedPrompts,
    ResidentPrompts,
    Rows,
    abstract_cache,
    insert,
    make_decoder,
    prompt_pages,
)
from codea1_jax.rollout.decode_params import abstract_decode_params, mover, parts_to_move
from codea1_jax.rollout.sampling import Controls
from codea1_jax.runtime.offload import in_device_memory, in_host_memory

EOS = (-1,)  # no token: a block that is measured ends with its last step
SCORERS: dict[str, Kind] = {"old": "score-old", "ref": "score-ref"}


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
    """One phase, at its largest or at a smaller shape.

    lower_with: lowers it for such arguments. arguments: placed shapes; but numpy arrays and `Value`s where the numbers
    decide how much is computed, those of a rollout half done. resident: bytes that lie on every device meanwhile and
    are none of its arguments. read: tokens whose keys and values each device then reads from the cache. pairs: of
    places that flash kernels then compute in a forward pass for one head.
    """

    name: ProgramName
    lower_with: Callable[..., Lowered]
    arguments: tuple[Any, ...]
    resident: int
    read: int = 0
    pairs: int = 0

    def lower(self) -> Lowered:
        """For arguments of these shapes."""
        return self.lower_with(*jax.tree.map(_shape_of, self.arguments))


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


def make_programs(run: PlannedRun, mesh: Mesh, names: Sequence[ProgramName] | None = None) -> Iterator[Program]:
    """These programs of a step, phase by phase; without `names` every phase at its largest."""
    config, by_phase = run.config, defaultdict[Phase, list[ProgramName]](list)
    for name in names or map(ProgramName, layout_table(run)):
        by_phase[name.phase].append(name)
    learning = Learning(config)
    models = {name: _transformer(run.of(name)) for name in learning.sections}
    learners = learning.learners(models, 1, mesh)
    states = {name: learner.abstract(abstract_sharded(models[name], mesh)) for name, learner in learners.items()}
    shared: dict[str, Params | None] = {}
    always = sum(bytes_at_rest(state, config.offload) for state in states.values())
    for name, model in models.items():
        same = next((other for other in shared if config.models[other] == config.models[name]), None)
        shared[name] = None if same is None else shared[same]
        if same is None and learning.keeps_initial_weights(name):
            initial = abstract_sharded(model.clone(param_dtype=model.dtype), mesh)
            shared[name] = in_host_memory(initial) if config.offload.reference else initial
            always += 0 if config.offload.reference else device_bytes(initial)
    held = {
        name: state.params if config.lora is None else with_adapters(shared[name], flatten(state.params))
        for name, state in states.items()
    }
    for load in sampling_loads(config):
        yield from _sampling(run.of(load.policy), load, models[load.policy], held[load.policy], mesh, always, by_phase)
    for name, learner in learners.items():
        yield from _learning(run.of(name), learner, states[name], shared[name], mesh, always, by_phase)


def _transformer(run: PlannedRun) -> Transformer:
    model = run.settings
    return Transformer(run.model, jnp.dtype(model.compute_dtype), jnp.dtype("float32"), model.remat, model.attention)


def _sampling(
    run: PlannedRun,
    load: Load,
    model: Transformer,
    params: Params,
    mesh: Mesh,
    always: int,
    names: Mapping[Phase, Sequence[ProgramName]],
) -> Iterator[Program]:
    """`params`: of the policy that speaks, adapted ones too."""
    config, role, capacity = run.config, load.role, run.capacity(load)
    copied, cache = abstract_decode_params(model, mesh), abstract_cache(model, capacity, mesh)
    moved = parts_to_move(model, mesh, params)
    parts = tuple(moved)
    bring = mover(model, mesh, parts)  # pyright: ignore[reportArgumentType]  flax modules hash
    for name in names[Phase("weights", role)]:
        yield Program(name, bring.lower, (moved,), always - device_bytes(moved))
    for name in names[Phase("prefill", role)]:
        packed = _full_prefill(capacity, *(name.shape or capacity.prefill_buckets[-1:]))
        pairs = computed_pairs(Sight.within(np.asarray(packed.segments)), run.kernels, capacity.batch_shards)
        lower, resident = partial(prompt_pages.lower, model, mesh), always + device_bytes(cache)
        yield Program(name, lower, (copied, packed), resident, pairs=pairs)
    for name in names[Phase("insert", role)]:
        packed = _full_prefill(capacity, capacity.prefill_buckets[-1])
        shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), packed)
        arguments = cache, outputs(prompt_pages, model, mesh, copied, shapes), packed.pages.reshape(-1)
        yield Program(name, partial(insert.lower, mesh), arguments, always + device_bytes(copied))
    largest = capacity.rows // capacity.batch_shards, capacity.prompt_pages, capacity.response_pages
    drawn, evaluated = sampling_kind(config, load.policy), evaluation_kind(config)
    for phase, kind in ((Phase("decode", role), drawn), (Phase("evaluate", role), evaluated)):
        for name in names[phase]:
            rows, *columns = name.shape or largest
            decoder = make_decoder(model, mesh, capacity, EOS, kind, (columns[0], columns[1]))
            lower, state = partial(Decoder.__call__.lower, decoder), _half_full(capacity, rows, columns)
            read = capacity.block * _tokens_read(capacity, *state[:2])
            yield Program(name, lower, (copied, cache, *state), always, read)


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
    capacity: Capacity, rows_per_shard: int, columns: Sequence[int]
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
    learner: Learner,
    state: PolicyState,
    shared: Params | None,
    mesh: Mesh,
    always: int,
    names: Mapping[Phase, Sequence[ProgramName]],
) -> Iterator[Program]:
    jitted, lora, offload, table = learner.phases, run.config.lora_of(run.policy), run.config.offload, layout_table(run)
    scored = {which: Phase(kind, run.policy) in table for which, kind in SCORERS.items()}
    # A step's batches are all on the devices before the first is learned from.
    fullest = run.fullest_batch(run.policy)
    count = math.ceil(table[Phase("gradient", run.policy)].calls)
    waiting = count * device_bytes(jax.tree.map(_shape_of, _placed(fullest, mesh, **scored)))
    own, state = state.reference, replace(state, reference=None)

    def adapted(trained: Params | None) -> Params:
        return trained if lora is None else with_adapters(shared, flatten(trained))

    def of(kind: Kind) -> Iterator[tuple[ProgramName, Any, int]]:
        """The programs of a phase, each with a micro-batch and the pairs of places that it computes."""
        for name in names[Phase(kind, run.policy)]:
            batch = BatchWriter(*name.shape).batch if name.shape else fullest
            yield (
                name,
                _placed(batch, mesh, **scored),
                computed_pairs(batch_sight(batch), run.kernels, run.batch_shards),
            )

    scorers = {"old": adapted(state.params), "ref": shared if own is None else adapted(own)}
    for which in (which for which, is_scored in scored.items() if is_scored):
        waits = which == "ref" and offload.reference
        resident = always - (0 if waits else device_bytes(scorers[which])) + waiting
        for name, batch, pairs in of(SCORERS[which]):
            arguments = in_device_memory(scorers[which]), batch
            yield Program(name, jitted.logprobs.lower, arguments, resident, pairs=pairs)
    base = None if lora is None else shared
    total = outputs(jitted.empty, state.params)
    resident = always - device_bytes((state.params, base)) + waiting
    for name, batch, pairs in of("gradient"):
        arguments = total, state.params, batch, np.float32(1), base
        yield Program(name, jitted.accumulate.lower, arguments, resident, pairs=pairs)
    for name in names[Phase("clear", run.policy)]:
        yield Program(name, jitted.empty.lower, (state.params,), always + waiting)
    for name in names[Phase("update", run.policy)]:
        arguments = in_device_memory(state), total.gradient
        yield Program(name, jitted.apply.lower, arguments, always - bytes_at_rest(state, offload))


def _placed(batch: PackedBatch, mesh: Mesh, *, old: bool, ref: bool) -> Any:
    """A batch on the devices, scored by the old policy and the reference if there are such phases."""
    scored = batch.mask
    full = replace(batch, old_logprobs=scored if old else None, reference_logprobs=scored if ref else None)
    here = batch_sharding(mesh)
    return jax.tree.map(lambda x: Value(np.asarray(x), here), full)
