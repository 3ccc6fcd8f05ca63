"""The jitted phases of a run, lowered from shapes alone: the very functions that training calls.

Nothing here needs an accelerator, weights or data: a mesh over devices that are not there will do.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jax.stages import Lowered

from codea1_jax.config import OffloadConfig
from codea1_jax.learn import Learner, PolicyState
from codea1_jax.learn.batch import BatchWriter, PackedBatch
from codea1_jax.learn.learning import Learning
from codea1_jax.models.decoder import Params, Transformer, flatten
from codea1_jax.models.lora import with_adapters
from codea1_jax.models.sharding import abstract_sharded, batch_sharding, with_shardings
from codea1_jax.plan.compiler import ProgramName
from codea1_jax.plan.phases import layout_table
from codea1_jax.plan.planned_run import PlannedRun
from codea1_jax.plan.workload import (
    Kind,
    Load,
    Phase,
    evaluation_kind,
    sampling_kind,
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
    prompt_pages,
)
from codea1_jax.rollout.decode_params import abstract_decode_params, mover, parts_to_move
from codea1_jax.rollout.sampling import Controls
from codea1_jax.runtime.offload import in_device_memory

EOS = (-1,)  # which token ends a response changes nothing that is compiled but a number
SCORERS: dict[str, Kind] = {"old": "score-old", "ref": "score-ref"}


@dataclass(frozen=True)
class Program:
    """One phase, at its largest or at a smaller shape.

    lower_with: lowers it for `arguments`, which are shapes, placed where the run places them. resident: bytes that lie
    on every device meanwhile and are none of its arguments.
    """

    name: ProgramName
    lower_with: Callable[..., Lowered]
    arguments: tuple[Any, ...]
    resident: int

    def lower(self) -> Lowered:
        return self.lower_with(*self.arguments)


def device_bytes(tree: Any) -> int:
    return sum(x.dtype.itemsize * math.prod(x.sharding.shard_shape(x.shape)) for x in jax.tree.leaves(tree))


def bytes_at_rest(state: PolicyState, offload: OffloadConfig) -> int:
    """Bytes of a policy that stay on one device between its phases; what waits in host memory does not.

    The shapes do not tell: GPUs that are not there know no memory but their own.
    """
    return device_bytes(replace(state, opt_state=None) if offload.optimizer else state)


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
    models = {name: _transformer(run.for_policy(name)) for name in learning.sections}
    learners = learning.learners(models, 1, mesh)
    states = {name: learner.abstract(abstract_sharded(models[name], mesh)) for name, learner in learners.items()}
    shared: dict[str, Params | None] = {}
    always = sum(bytes_at_rest(state, config.offload) for state in states.values())
    for name, model in models.items():
        same = next((other for other in shared if config.models[other] == config.models[name]), None)
        shared[name] = None if same is None else shared[same]
        if same is None and learning.keeps_initial_weights(name):
            shared[name] = abstract_sharded(model.clone(param_dtype=model.dtype), mesh)
            always += device_bytes(shared[name])
    held = {
        name: state.params if config.lora is None else with_adapters(shared[name], flatten(state.params))
        for name, state in states.items()
    }
    for load in sampling_loads(config):
        yield from _sampling(
            run.for_policy(load.policy), load, models[load.policy], held[load.policy], mesh, always, by_phase
        )
    for name, learner in learners.items():
        yield from _learning(run.for_policy(name), learner, states[name], shared[name], mesh, always, by_phase)


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
    """`params`: of the policy that is sampled, adapted ones too."""
    config, role, capacity = run.config, load.role, run.capacity(load)
    copied, cache = abstract_decode_params(model, mesh), abstract_cache(model, capacity, mesh)
    moved = parts_to_move(model, mesh, params)
    parts = tuple(moved)
    bring = mover(model, mesh, parts)  # pyright: ignore[reportArgumentType]  flax modules hash
    for name in names[Phase("weights", role)]:
        yield Program(name, bring.lower, (moved,), always - device_bytes(moved))
    for name in names[Phase("prefill", role)]:
        packed = _packed_prompts(capacity, *(name.shape or capacity.prefill_buckets[-1:]))
        lower, resident = partial(prompt_pages.lower, model, mesh), always + device_bytes(cache)
        yield Program(name, lower, (copied, packed), resident)
    for name in names[Phase("insert", role)]:
        packed = _packed_prompts(capacity, capacity.prefill_buckets[-1])
        arguments = cache, outputs(prompt_pages, model, mesh, copied, packed), _numbers(math.prod(packed.pages.shape))
        yield Program(name, partial(insert.lower, mesh), arguments, always + device_bytes(copied))
    largest = capacity.rows // capacity.batch_shards, capacity.prompt_pages, capacity.response_pages
    drawn, evaluated = sampling_kind(config, load.policy), evaluation_kind(config)
    for phase, kind in ((Phase("decode", role), drawn), (Phase("evaluate", role), evaluated)):
        for name in names[phase]:
            rows, *columns = name.shape or largest
            decoder = make_decoder(model, mesh, capacity, EOS, kind, (columns[0], columns[1]))
            lower, state = partial(Decoder.__call__.lower, decoder), _decoding_state(capacity, rows)
            yield Program(name, lower, (copied, cache, *state), always)


def _numbers(*shape: int, dtype: Any = np.int32) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)


def _packed_prompts(capacity: Capacity, tokens: int) -> PackedPrompts:
    shape, pages = (capacity.batch_shards, tokens), (capacity.batch_shards, tokens // capacity.block)
    return PackedPrompts(_numbers(*shape), _numbers(*shape), _numbers(*shape), _numbers(*pages))


def _decoding_state(capacity: Capacity, rows_per_shard: int) -> tuple[ResidentPrompts, Rows, Controls]:
    rows, slots = rows_per_shard * capacity.batch_shards, capacity.slots
    each, one = _numbers(rows), _numbers(dtype=np.float32)
    return (
        ResidentPrompts(_numbers(slots), _numbers(slots, capacity.prompt_pages)),
        Rows(
            place=each,
            prompt=each,
            token=each,
            num_generated=each,
            active=_numbers(rows, dtype=np.bool_),
            key=_numbers(rows, 2, dtype=np.uint32),
            pages=_numbers(rows, capacity.response_pages),
        ),
        Controls(one, one, _numbers(), each),
    )


def _learning(
    run: PlannedRun,
    learner: Learner,
    state: PolicyState,
    shared: Params | None,
    mesh: Mesh,
    always: int,
    names: Mapping[Phase, Sequence[ProgramName]],
) -> Iterator[Program]:
    jitted, lora, offload, table = learner.phases, run.config.lora, run.config.offload, layout_table(run)
    scored = {which: Phase(kind, run.policy) in table for which, kind in SCORERS.items()}
    # A step's batches are all on the devices before the first is learned from.
    fullest = run.micro_batch(run.policy)
    count = math.ceil(table[Phase("gradient", run.policy)].calls)
    waiting = count * device_bytes(_placed(BatchWriter(*fullest).batch, mesh, **scored))
    own, state = state.reference, replace(state, reference=None)

    def adapted(trained: Params | None) -> Params:
        return trained if lora is None else with_adapters(shared, flatten(trained))

    def programs_of(kind: Kind) -> Iterator[tuple[ProgramName, Any]]:
        for name in names[Phase(kind, run.policy)]:
            yield name, _placed(BatchWriter(*(name.shape or fullest)).batch, mesh, **scored)

    scorers = {"old": adapted(state.params), "ref": shared if own is None else adapted(own)}
    for which in (which for which, is_scored in scored.items() if is_scored):
        resident = always - device_bytes(scorers[which]) + waiting
        for name, batch in programs_of(SCORERS[which]):
            yield Program(name, jitted.logprobs.lower, (scorers[which], batch), resident)
    base = None if lora is None else shared
    total = outputs(jitted.empty, state.params)
    resident = always - device_bytes((state.params, base)) + waiting
    for name, batch in programs_of("gradient"):
        arguments = total, state.params, batch, _numbers(dtype=np.float32), base
        yield Program(name, jitted.accumulate.lower, arguments, resident)
    for name in names[Phase("clear", run.policy)]:
        yield Program(name, jitted.empty.lower, (state.params,), always + waiting)
    for name in names[Phase("update", run.policy)]:
        arguments = in_device_memory(state), total.gradient
        yield Program(name, jitted.apply.lower, arguments, always - bytes_at_rest(state, offload))


def _placed(batch: PackedBatch, mesh: Mesh, *, old: bool, ref: bool) -> Any:
    scored = batch.mask
    full = replace(batch, old_logprobs=scored if old else None, reference_logprobs=scored if ref else None)
    here = batch_sharding(mesh)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=here), full)
