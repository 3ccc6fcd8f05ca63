"""What a step is expected to take: the calls that the project's own schedule makes, times what each of them takes.

Prefills have several sizes. Those that make at least `WORTH_COMPILING` of the calls are compiled; the rest count as the
smallest compiled one that is large enough. What attention reads of the cache follows from the pages in use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codea1_jax.config import METHODS, Config
from codea1_jax.models.chips import Hardware
from codea1_jax.models.flops import Number
from codea1_jax.plan.compiler import Compiled, Outcome, ProgramName
from codea1_jax.plan.duration import efficiency_of
from codea1_jax.plan.lengths import Group, Lengths, choose_groups, draw_groups
from codea1_jax.plan.simulation import Sampled, count_micro_batches, simulate_sampling
from codea1_jax.plan.workload import PlannedRun, SamplingLoad, learner_config, load_capacity, sampling_loads
from codea1_jax.rollout import Capacity

WORTH_COMPILING = 0.05
# The host's part of a call: it dispatches and reads back, which is assumed; and after a block it decides who is next,
# which took 19 ms with 3,072 rows on one core of a laptop.
HOST_SECONDS = 1e-3
ROW_SECONDS = 6e-6
# `make bench-sandbox` on two cores of a laptop: 660 programs per second.
JUDGED_PER_CORE = 330

Calls = Mapping[str, Mapping[tuple[int, ...], Number]]
"""Calls of a step, by phase and by the shape of the program."""


@dataclass(frozen=True)
class StepCalls:
    """What a step calls. sampled: by role."""

    calls: Calls
    sampled: Mapping[str, Sampled]

    def smaller_programs(self, run: PlannedRun) -> list[ProgramName]:
        """The programs besides the largest of each phase that are worth compiling."""
        return [
            ProgramName(phase, shape)
            for phase, calls in self.calls.items()
            for shape, count in calls.items()
            if shape and shape != largest_shape(run, phase) and count >= WORTH_COMPILING * sum(calls.values())
        ]


def largest_shape(run: PlannedRun, phase: str) -> tuple[int, ...]:
    """The shape of a prefill's largest program."""
    return (_capacity(run, phase.split()[1]).prefill_buckets[-1],)


def _capacity(run: PlannedRun, role: str) -> Capacity:
    return next(load_capacity(run, load) for load in sampling_loads(run.config) if load.role == role)


def step_calls(run: PlannedRun, fill: float, lengths: Lengths | None = None) -> StepCalls:
    """The calls of a step over lengths that are drawn with this mean (`lengths.draw_groups`), or chosen from `lengths`.

    Raises UserError if `lengths` lacks a role.
    """

    def groups_of(load: SamplingLoad) -> list[Group]:
        return draw_groups(load, fill) if lengths is None else choose_groups(load, lengths)

    calls: dict[str, Mapping[tuple[int, ...], Number]] = {}
    sampled: dict[str, Sampled] = {}
    learned: dict[str, list[Sequence[Group]]] = {}
    for load in sampling_loads(run.config):
        groups = tuple(groups_of(load))
        found = sampled[load.role] = simulate_sampling(groups, load_capacity(run, load))
        calls[f"prefill {load.role}"] = {(bucket,): count for bucket, count in found.prefills.items()}
        if run.config.rollout.engine == "jetstream":
            calls[f"insert {load.role}"] = {(): sum(found.prefills.values())}
        calls[f"decode {load.role}"] = {(): found.blocks}
        taken = run.config.train.questions * run.config.train.update_n if load.role == "test" else len(groups)
        learned.setdefault(load.policy, []).append(groups[:taken])
    if METHODS[run.config.method.name].supervised:
        rollout, questions = run.config.rollout, run.config.train.questions
        load = SamplingLoad("test", "test", questions, 1, rollout.test_prompt_tokens, rollout.test_tokens)
        learned["test"] = [groups_of(load)]
    for policy, parts in learned.items():
        calls |= _learning_calls(run, policy, parts)
    return StepCalls(calls, sampled)


def _learning_calls(run: PlannedRun, policy: str, parts: Sequence[Sequence[Group]]) -> Calls:
    config, section = run.config, learner_config(run.config, policy)
    supervised = METHODS[config.method.name].supervised
    updates = 1 if supervised else -(-config.train.questions // section.grpo.mini_batch_questions)
    # Roles take part in every mini-batch alike: it is the questions that are split.
    ordered = tuple(group for chunk in range(updates) for part in parts for group in _chunk(part, chunk, updates))
    packing: Any = section.packing  # hashable, being frozen, which pyright does not see
    batches = count_micro_batches(ordered, updates, packing, run.batch_shards)
    calls: dict[str, Number] = {}
    if updates > 1:
        calls["score-old"] = sum(batches[1:])  # the first mini-batch is learned from by the old policy itself
    if section.grpo.kl_coef > 0 and not supervised:
        calls["score-ref"] = sum(batches)
    calls |= {"gradient": sum(batches), "update": updates}
    return {f"{name} {policy}": {(): count} for name, count in calls.items()}


def _chunk(groups: Sequence[Group], index: int, chunks: int) -> Sequence[Group]:
    each = -(-len(groups) // chunks)
    return groups[index * each : (index + 1) * each]


def cache_seconds(run: PlannedRun, hardware: Hardware, sampled: Sampled) -> float:
    """Seconds in which all of a step's blocks read a role's cache: what the device that reads most reads."""
    read = sampled.read * run.token_bytes
    return read / (hardware.chip.bandwidth * efficiency_of(hardware).cache)


def expected_seconds(
    phase: str, step: StepCalls, compiled: Mapping[ProgramName, Outcome], run: PlannedRun, hardware: Hardware
) -> Mapping[str, float] | None:
    """Seconds of a phase in a step, by what they are spent on; None if its largest program was refused."""
    spent: dict[str, float] = {"host": 0.0}
    kind, role = phase.split()
    if kind == "decode":
        spent["cache"] = cache_seconds(run, hardware, step.sampled[role])
        spent["host"] += step.sampled[role].blocks * ROW_SECONDS * _capacity(run, role).rows
    for shape, count in step.calls[phase].items():
        program = _smallest_that_holds(phase, shape, compiled)
        if program is None:
            return None
        spent["host"] += count * HOST_SECONDS
        for resource, seconds in program.expected.items():
            spent[resource] = spent.get(resource, 0.0) + count * seconds
    return spent


def _smallest_that_holds(
    phase: str, shape: tuple[int, ...], compiled: Mapping[ProgramName, Outcome]
) -> Compiled | None:
    largest = compiled[ProgramName(phase)]
    holding = [
        program
        for name, program in compiled.items()
        if name.phase == phase and name.shape and all(a >= b for a, b in zip(name.shape, shape, strict=True))
    ]
    fitting = [program for program in (largest, *holding) if isinstance(program, Compiled)]
    return min(fitting, key=lambda program: program.seconds, default=None)


def judging_seconds(config: Config, hardware: Hardware) -> float:
    """Seconds in which the hosts judge a step: programs on golden tests, suites on their program and the reference."""
    rollout, method = config.rollout, METHODS[config.method.name]
    programs = 0 if method.supervised else config.train.questions * rollout.samples
    suites = programs * rollout.suites if "test" in method.roles else 0
    return (programs + 2 * suites) / (JUDGED_PER_CORE * hardware.chip.host_cores * hardware.devices)
