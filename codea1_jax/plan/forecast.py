"""What a step is expected to take: the calls that the project's own schedule makes, times what each of them takes.

Prefills, blocks of decoding and micro-batches have several sizes. Those that make at least `WORTH_COMPILING` of the
calls are compiled; the rest count as the smallest compiled one that is large enough. What attention reads of the cache
follows from the pages in use, and what it computes of packed rows from how they are packed.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codea1_jax.common.chips import Hardware
from codea1_jax.config import METHODS, Config
from codea1_jax.models.attention.flash_tpu import BLOCK
from codea1_jax.models.flops import Number
from codea1_jax.plan import assumptions
from codea1_jax.plan.compiler import Compiled, Outcome, ProgramName, Shape
from codea1_jax.plan.planned_run import PlannedRun
from codea1_jax.plan.simulation import simulate_packing, simulate_sampling
from codea1_jax.plan.workload import (
    Group,
    Load,
    Phase,
    draw_groups,
    is_anchored,
    sampling_loads,
    training_loads,
    updates_of,
)
from codea1_jax.rollout.readers import reader_for

WORTH_COMPILING = 0.05
# Matrix products over all pairs of places that a flash kernel computes: forward, for the queries' gradient, and for
# that of keys and values. Both backward kernels compute scores and weights again.
FORWARD, BACKWARD = 2, 3 + 4


@dataclass(frozen=True)
class Calls:
    """The calls of a phase in a step, by the shape of the program; a block of decoding that ends early counts in part.

    read: tokens whose keys and values are read from the cache. pairs: of places that flash kernels compute in a forward
    pass for one head, in the shard that has most. host: seconds of the host while devices wait, besides dispatching.
    """

    shapes: Mapping[Shape, Number]
    read: int = 0
    pairs: Number = 0
    host: float = 0.0

    @property
    def count(self) -> Number:
        return sum(self.shapes.values())

    @property
    def host_seconds(self) -> float:
        return self.count * assumptions.HOST_SECONDS + self.host


@dataclass(frozen=True)
class StepCalls:
    calls: Mapping[Phase, Calls]
    drawn: Number

    def smaller_programs(self, run: PlannedRun) -> list[ProgramName]:
        """The prefills, blocks of decoding and micro-batches besides the largest that are worth compiling."""
        return [
            ProgramName(phase, shape)
            for phase, calls in self.calls.items()
            for shape, count in calls.shapes.items()
            if shape != largest_shape(run, phase) and count >= WORTH_COMPILING * calls.count
        ]


def largest_shape(run: PlannedRun, phase: Phase) -> Shape:
    match phase.kind:
        case "prefill":
            return (run.step_capacity(phase.owner).prefill_buckets[-1],)
        case "decode" | "evaluate":
            capacity = run.step_capacity(phase.owner)
            return capacity.rows // capacity.batch_shards, capacity.prompt_pages, capacity.response_pages
        case "score-old" | "score-ref" | "gradient":
            return run.micro_batch(phase.owner)
        case _:
            return ()


def step_calls(run: PlannedRun, fill: float) -> StepCalls:
    loads = {load: tuple(draw_groups(load, fill)) for load in sampling_loads(run.config)}
    sampled = {load.role: groups for load, groups in loads.items()}
    calls = sampling_calls(run, loads)
    for policy, trained in training_loads(run.config).items():
        parts = [(sampled.get(load.role) or draw_groups(load, fill))[: load.prompts] for load in trained]
        # Roles take part in every mini-batch alike: it is the questions that are split.
        in_order = itertools.chain(*_interleaved(parts, updates_of(run.config, policy)))
        calls |= learning_calls(run, policy, tuple(in_order))
    return StepCalls(calls, sum(group.drawn for groups in sampled.values() for group in groups))


def _interleaved(parts: Sequence[Sequence[Group]], chunks: int) -> Iterator[Sequence[Group]]:
    for chunk in range(chunks):
        for part in parts:
            each = -(-len(part) // chunks)
            yield part[chunk * each : (chunk + 1) * each]


def sampling_calls(run: PlannedRun, loads: Mapping[Load, tuple[Group, ...]]) -> dict[Phase, Calls]:
    """The calls that draw these groups, a step's or an evaluation's, with the rows and pages of a step."""
    calls: dict[Phase, Calls] = {}
    reader = reader_for(run.platform)
    for load, groups in loads.items():
        role, capacity = load.role, run.step_capacity(load.role)
        sampled = simulate_sampling(groups, capacity, run.for_policy(load.policy).kernels)
        calls[Phase("weights", role)] = Calls({(): 1})
        prefills = {(bucket,): count for bucket, count in sampled.prefills.items()}
        calls[Phase("prefill", role)] = Calls(prefills, pairs=sampled.pairs)
        blocks: dict[Shape, Number] = {}
        for (rows, *needed), steps in sampled.steps.items():
            shape = rows, *reader.columns((needed[0], needed[1]), capacity)
            blocks[shape] = blocks.get(shape, 0) + steps / capacity.block
        rows = sum(rows * steps for (rows, *_), steps in sampled.steps.items()) / capacity.block * capacity.batch_shards
        calls[Phase("decode", role)] = Calls(blocks, read=sampled.read, host=rows * assumptions.ROW_SECONDS)
    return calls


def learning_calls(run: PlannedRun, policy: str, groups: tuple[Group, ...]) -> dict[Phase, Calls]:
    packing: Any = run.config.learners[policy].packing  # hashable, being frozen, which pyright does not see
    updates = updates_of(run.config, policy)
    every = simulate_packing(groups, updates, packing, run.batch_shards, run.for_policy(policy).kernels)
    taken = {Phase("gradient", policy): every}
    if is_anchored(run.config, policy):
        taken = {Phase("score-ref", policy): every, **taken}
    if updates > 1:  # the first mini-batch is learned from by the old policy itself
        taken = {Phase("score-old", policy): every[1:], **taken}
    calls: dict[Phase, Calls] = {}
    for phase, mini_batches in taken.items():
        shapes = sum((shapes for shapes, _ in mini_batches), Counter[Shape]())
        calls[phase] = Calls(shapes, pairs=sum(pairs for _, pairs in mini_batches))
    calls[Phase("clear", policy)] = Calls({(): updates})
    packed = assumptions.PACKED_SECONDS * sum(group.drawn for group in groups)
    calls[Phase("update", policy)] = Calls({(): updates}, host=packed)
    return calls


def cache_seconds(run: PlannedRun, hardware: Hardware, read: int) -> float:
    return read * run.token_bytes / (hardware.chip.bandwidth * assumptions.EFFICIENCY[hardware.platform].cache)


def attention_seconds(run: PlannedRun, hardware: Hardware, phase: Phase, pairs: Number) -> float:
    """Seconds in which a device computes what flash kernels do for that many pairs of places in a forward pass."""
    cycles = assumptions.TILE_CYCLES.get(hardware.kind)
    if cycles is None or run.model.head_dim != assumptions.TILE_HEAD_DIM:
        reached = assumptions.EFFICIENCY[hardware.platform].attention
        return attention_flops(run, phase, pairs) / (hardware.chip.flops * reached)
    each = sum(cycles) if phase.kind == "gradient" else cycles[0]
    return pairs / BLOCK**2 * run.heads * run.model.num_layers * each / hardware.chip.clock


def attention_flops(run: PlannedRun, phase: Phase, pairs: Number) -> Number:
    """FLOPs of one device in the flash kernels of all layers; `pairs` are those of a forward pass, for one head."""
    model = run.model
    products = FORWARD + BACKWARD if phase.kind == "gradient" else FORWARD
    return 2 * products * pairs * model.head_dim * run.heads * model.num_layers


def expected_seconds(
    run: PlannedRun, hardware: Hardware, phase: Phase, calls: Calls, compiled: Mapping[ProgramName, Outcome]
) -> float:
    """Seconds of a phase in a step; 0 if its largest program was refused."""
    run = run.for_phase(phase)
    seconds = calls.host_seconds + cache_seconds(run, hardware, calls.read)
    seconds += attention_seconds(run, hardware, phase, calls.pairs)
    made = {name.shape: each for name, each in compiled.items() if name.phase == phase and isinstance(each, Compiled)}
    for shape, count in calls.shapes.items():
        # The fastest program that is large enough; the largest has no shape.
        fitting = [made[other] for other in made if not other or all(a >= b for a, b in zip(other, shape, strict=True))]
        if not fitting:
            return 0.0
        seconds += count * min(program.seconds for program in fitting)
    return seconds


def waiting_seconds(config: Config, hardware: Hardware, step: StepCalls) -> float:
    """Seconds in which a step's devices wait for verdicts, as if sampling hid none of them, and for scores.

    Judged are programs on golden tests, and suites on their program and the reference.
    """
    rollout, method = config.rollout, METHODS[config.method.name]
    programs = 0 if method.supervised else config.train.questions * rollout.samples
    suites = programs * rollout.suites if "test" in method.roles else 0
    judging = (programs + 2 * suites) / (assumptions.JUDGED_PER_CORE * hardware.chip.host_cores * hardware.devices)
    return judging + assumptions.SCORED_SECONDS * step.drawn
