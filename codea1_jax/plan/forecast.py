"""What a step is expected to take: the calls that the project's own schedule makes, times what each of them takes.

Prefills and blocks of decoding have several sizes. Those that make at least `WORTH_COMPILING` of the calls are
compiled; the rest count as the smallest compiled one that is large enough. What attention reads of the cache follows
from the pages in use, and what it computes of packed rows from how they are packed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from codea1_jax.config import METHODS, Config
from codea1_jax.devices.chips import Hardware
from codea1_jax.models.attention.flash_tpu import BLOCK
from codea1_jax.models.flops import Number
from codea1_jax.plan.arithmetic.attention import attention_flops, heads_of_device, kernels_of
from codea1_jax.plan.arithmetic.lengths import Group, Lengths, choose_groups, draw_groups
from codea1_jax.plan.arithmetic.simulation import MiniBatch, Sampled, batch_shape, simulate_packing, simulate_sampling
from codea1_jax.plan.arithmetic.workload import (
    PlannedRun,
    SamplingLoad,
    fullest_batch,
    load_capacity,
    sampling_loads,
)
from codea1_jax.plan.compiled.compiler import Compiled, Outcome, ProgramName
from codea1_jax.plan.compiled.duration import TILE_CYCLES, TILE_HEAD_DIM, efficiency_of
from codea1_jax.rollout import Capacity
from codea1_jax.rollout.readers import reader_for

WORTH_COMPILING = 0.05
# The host's part of a call: it dispatches and reads back, which is assumed; and after a block it decides who is next.
# That, for each row, scoring and recording, for each token drawn, and packing, for each token learned, take what
# one core of a laptop took (BENCHMARKS.md).
HOST_SECONDS = 1e-3
ROW_SECONDS = 2e-6
SCORED_SECONDS = 7e-8
PACKED_SECONDS = 1.7e-7
# `make bench-sandbox` on two cores of a laptop: 660 programs per second.
JUDGED_PER_CORE = 330

Calls = Mapping[str, Mapping[tuple[int, ...], Number]]
"""Calls of a step, by phase and by the shape of the program."""


@dataclass(frozen=True)
class Learned:
    """The groups that a policy learns from in a step, in order, and in how many mini-batches."""

    groups: tuple[Group, ...]
    updates: int


@dataclass(frozen=True)
class StepCalls:
    """What a step calls; a block of decoding that ends early counts in part.

    sampled: by role. groups: that are sampled, by role. learned: by policy. pairs: of places that flash kernels compute
    in a forward pass for one head, in the shard that has most, by phase.
    """

    calls: Calls
    sampled: Mapping[str, Sampled]
    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    learned: Mapping[str, Learned] = field(default_factory=dict)
    pairs: Mapping[str, Number] = field(default_factory=dict)

    def smaller_programs(self, run: PlannedRun) -> list[ProgramName]:
        """The prefills, blocks of decoding and micro-batches besides the largest that are worth compiling."""
        return [
            ProgramName(phase, shape)
            for phase, calls in self.calls.items()
            for shape, count in calls.items()
            if shape != largest_shape(run, phase) and count >= WORTH_COMPILING * sum(calls.values())
        ]


def largest_shape(run: PlannedRun, phase: str) -> tuple[int, ...]:
    """The shape of a phase's largest program."""
    kind, owner = phase.split()
    if kind == "prefill":
        return (_capacity(run, owner).prefill_buckets[-1],)
    if kind == "decode":
        capacity = _capacity(run, owner)
        return capacity.rows // capacity.batch_shards, capacity.prompt_pages, capacity.response_pages
    return batch_shape(fullest_batch(run, owner)) if kind in ("score-old", "score-ref", "gradient") else ()


def _capacity(run: PlannedRun, role: str) -> Capacity:
    return next(load_capacity(run, load) for load in sampling_loads(run.config) if load.role == role)


def step_calls(run: PlannedRun, fill: float, lengths: Lengths | None = None) -> StepCalls:
    """The calls of a step over lengths that are drawn with this mean (`lengths.draw_groups`), or chosen from `lengths`.

    Raises UserError if `lengths` lacks a role.
    """

    def groups_of(load: SamplingLoad, given: Lengths | None) -> list[Group]:
        return draw_groups(load, fill) if given is None else choose_groups(load, given)

    loads = {load: tuple(groups_of(load, lengths)) for load in sampling_loads(run.config)}
    found = sampling_calls(run, loads)
    calls, pairs = dict(found.calls), dict(found.pairs)
    learned: dict[str, list[Sequence[Group]]] = {}
    for load, groups in loads.items():
        taken = run.config.train.questions * run.config.train.update_n if load.role == "test" else len(groups)
        trained_on = [group for group in groups if group.learned][:taken]
        learned.setdefault(load.policy, []).append([_computed(run, load.policy, group) for group in trained_on])
    if METHODS[run.config.method.name].supervised:
        rollout, questions = run.config.rollout, run.config.train.questions
        load = SamplingLoad("test", "test", questions, 1, rollout.test_prompt_tokens, rollout.test_tokens)
        # Each question has its example, whatever share of the groups was sampled.
        known = () if lengths is None else lengths.get("test", ())
        sampled: Lengths | None = None if lengths is None else {"test": [group for group in known if group.responses]}
        learned["test"] = [groups_of(load, sampled)]
    by_policy = {policy: _learned(run, policy, parts) for policy, parts in learned.items()}
    for policy, what in by_policy.items():
        mini_batches = _mini_batches(run, policy, what)
        calls |= {phase: _calls(minis) for phase, minis in mini_batches.items()}
        calls |= {f"{kind} {policy}": {(): what.updates} for kind in ("clear", "update")}
        pairs |= {phase: sum(mini.pairs for mini in minis) for phase, minis in mini_batches.items()}
    return replace(found, calls=calls, pairs=pairs, learned=by_policy)


def sampling_calls(run: PlannedRun, loads: Mapping[SamplingLoad, tuple[Group, ...]]) -> StepCalls:
    """The calls that draw these groups with the rows and pages of the loads."""
    calls: dict[str, Mapping[tuple[int, ...], Number]] = {}
    sampled: dict[str, Sampled] = {}
    pairs: dict[str, Number] = {}
    for load, groups in loads.items():
        found = sampled[load.role] = simulate_sampling(groups, load_capacity(run, load), kernels_of(run))
        calls[f"weights {load.role}"] = {(): 1}
        calls[f"prefill {load.role}"] = {(bucket,): count for bucket, count in found.prefills.items()}
        pairs[f"prefill {load.role}"] = found.pairs
        if run.config.rollout.engine == "jetstream":
            calls[f"insert {load.role}"] = {(): sum(found.prefills.values())}
        calls[f"decode {load.role}"] = _decode_calls(run, load, found)
    return StepCalls(calls, sampled, {load.role: groups for load, groups in loads.items()}, pairs=pairs)


def _computed(run: PlannedRun, policy: str, group: Group) -> Group:
    """Those of a group's responses that an update computes, as far as it is known."""
    skips = run.config.learners[policy].grpo.skip_zero_advantage
    if not skips or group.weighted is None:
        return group
    return replace(group, responses=tuple(itertools.compress(group.responses, group.weighted)))


def _decode_calls(run: PlannedRun, load: SamplingLoad, sampled: Sampled) -> Mapping[tuple[int, ...], Number]:
    capacity, reader = load_capacity(run, load), reader_for(run.platform)
    calls: dict[tuple[int, ...], Number] = {}
    for (rows, *needed), steps in sampled.steps.items():
        shape = rows, *reader.columns((needed[0], needed[1]), capacity)
        calls[shape] = calls.get(shape, 0) + steps / capacity.block
    return calls


def _learned(run: PlannedRun, policy: str, parts: Sequence[Sequence[Group]]) -> Learned:
    questions, grpo = run.config.train.questions, run.config.learners[policy].grpo
    supervised = METHODS[run.config.method.name].supervised
    updates = 1 if supervised else -(-questions // grpo.mini_batch_questions)
    # Roles take part in every mini-batch alike: it is the questions that are split.
    ordered = (group for chunk in range(updates) for part in parts for group in _chunk(part, chunk, updates))
    return Learned(tuple(ordered), updates)


def _mini_batches(run: PlannedRun, policy: str, learned: Learned) -> dict[str, Sequence[MiniBatch]]:
    """What each phase that takes micro-batches computes of a step."""
    section = run.config.learners[policy]
    packing: Any = section.packing  # hashable, being frozen, which pyright does not see
    every = simulate_packing(learned.groups, learned.updates, packing, run.batch_shards, kernels_of(run))
    taken: dict[str, Sequence[MiniBatch]] = {}
    if learned.updates > 1:  # the first mini-batch is learned from by the old policy itself
        taken[f"score-old {policy}"] = every[1:]
    if section.grpo.kl_coef > 0 and not METHODS[run.config.method.name].supervised:
        taken[f"score-ref {policy}"] = every
    return taken | {f"gradient {policy}": every}


def _calls(mini_batches: Sequence[MiniBatch]) -> Mapping[tuple[int, ...], Number]:
    return sum((Counter(mini.shapes) for mini in mini_batches), Counter[tuple[int, ...]]())


def _chunk(groups: Sequence[Group], index: int, chunks: int) -> Sequence[Group]:
    each = -(-len(groups) // chunks)
    return groups[index * each : (index + 1) * each]


def cache_seconds(run: PlannedRun, hardware: Hardware, read: int) -> float:
    """Seconds in which a device reads the keys and values of that many tokens."""
    return read * run.token_bytes / (hardware.chip.bandwidth * efficiency_of(hardware).cache)


def attention_seconds(run: PlannedRun, hardware: Hardware, phase: str, pairs: Number) -> float:
    """Seconds in which a device computes what flash kernels do for that many pairs of places in a forward pass."""
    cycles = TILE_CYCLES.get(hardware.name.partition(":")[0])
    if cycles is None or run.model.head_dim != TILE_HEAD_DIM:
        return attention_flops(run, phase, pairs) / (hardware.chip.flops * efficiency_of(hardware).attention)
    each = sum(cycles) if phase.startswith("gradient") else cycles[0]
    return pairs / BLOCK**2 * heads_of_device(run) * run.model.num_layers * each / hardware.chip.clock


def host_seconds(run: PlannedRun, step: StepCalls, phase: str) -> float:
    """Seconds of a step that the host takes for a phase while the devices wait."""
    kind, name = phase.split()
    seconds = sum(step.calls.get(phase, {}).values()) * HOST_SECONDS
    if kind == "decode":
        capacity = _capacity(run, name)
        steps = sum(rows * count for (rows, *_), count in step.sampled[name].steps.items())
        seconds += ROW_SECONDS * steps / capacity.block * capacity.batch_shards
    if kind == "update":
        seconds += PACKED_SECONDS * sum(sum(group.responses) for group in step.learned[name].groups)
    return seconds


def expected_seconds(
    phase: str,
    step: StepCalls,
    compiled: Mapping[ProgramName, Outcome],
    run: PlannedRun,
    hardware: Hardware,
    ratio: float = 1.0,
) -> Mapping[str, float] | None:
    """Seconds of a phase in a step, by what they are spent on; None if its largest program was refused.

    ratio: measured to expected, of what the devices do.
    """
    spent: dict[str, float] = {}
    kind, role = phase.split()
    if kind == "decode":
        spent["cache"] = cache_seconds(run, hardware, step.sampled[role].read)
    if phase in step.pairs:
        spent["attention"] = attention_seconds(run, hardware, phase, step.pairs[phase])
    for shape, count in step.calls.get(phase, {}).items():
        program = _smallest_that_holds(phase, shape, compiled)
        if program is None:
            return None
        for resource, seconds in program.expected.items():
            spent[resource] = spent.get(resource, 0.0) + count * seconds
    measured = {resource: ratio * seconds for resource, seconds in spent.items()}
    return {"host": host_seconds(run, step, phase)} | measured


def _smallest_that_holds(
    phase: str, shape: tuple[int, ...], compiled: Mapping[ProgramName, Outcome]
) -> Compiled | None:
    fitting = [
        program
        for name, program in compiled.items()
        if name.phase == phase and holds(name.shape, shape) and isinstance(program, Compiled)
    ]
    return min(fitting, key=lambda program: program.seconds, default=None)


def holds(program: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Whether a program of some shape can do what one of another shape does; the largest has no shape."""
    return not program or all(a >= b for a, b in zip(program, shape, strict=True))


def judging_seconds(config: Config, hardware: Hardware, learning: float) -> float:
    """Seconds in which the hosts judge a step and devices wait, as if sampling hid none of them.

    Judged are programs on golden tests, and suites on their program and the reference. learning: seconds of a step's
    updates, which hide as many where steps are drawn ahead.
    """
    rollout, method = config.rollout, METHODS[config.method.name]
    programs = 0 if method.supervised else config.train.questions * rollout.samples
    suites = programs * rollout.suites if "test" in method.roles else 0
    seconds = (programs + 2 * suites) / (JUDGED_PER_CORE * hardware.chip.host_cores * hardware.devices)
    return max(0.0, seconds - learning) if config.train.async_steps else seconds


def scoring_seconds(step: StepCalls) -> float:
    """Seconds in which every host scores and records what was judged, and devices wait."""
    return SCORED_SECONDS * sum(sampled.drawn for sampled in step.sampled.values())
