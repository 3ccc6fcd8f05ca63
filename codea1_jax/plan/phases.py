"""The phases of a training step in one table, with one clock: what each computes and moves, and the seconds of that.

The table of a layout gives the *floor*, what this layout cannot undercut. The ideal table gives the *limit*: every byte
that must move moves once, keys, values and weights are spread over all devices at no cost, prompts are computed once
for all of their responses, as many samples are decoded at once as memory holds next to what is trained, and nothing
waits for a host, a link or a sibling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from codea1_jax.common.chips import Hardware
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import (
    Number,
    cache_bytes,
    causal,
    layer_matrices,
    layers_flops,
    parameters,
    vocabulary_flops,
)
from codea1_jax.plan.assumptions import PEAK, Efficiency
from codea1_jax.plan.memory import resident
from codea1_jax.plan.planned_run import PlannedRun
from codea1_jax.plan.workload import (
    Group,
    Load,
    Phase,
    evaluation_kind,
    evaluation_loads,
    is_anchored,
    sampling_kind,
    sampling_loads,
    training_loads,
    updates_of,
)

# Forward passes, except for attention, that the backward pass repeats, by remat policy.
RECOMPUTED = {"none": 0, "dots": 0, "full": 1}


@dataclass(frozen=True)
class Work:
    """What a phase does in a step.

    calls: in a step. flops: executed by one call, on all devices together, padding and recomputation included.
    traffic: bytes that one call must at least move between a device and its memory. received: bytes of one call that a
    device gets from others. useful: FLOPs of a whole step of learning that a perfect implementation would need too.
    """

    calls: Number
    flops: Number = 0
    traffic: Number = 0
    received: Number = 0
    useful: Number = 0

    def seconds(self, hardware: Hardware, reached: Efficiency = PEAK) -> float:
        """Of one call, by the resource that it waits for, at this share of the published figures; resources overlap."""
        chip = hardware.chip
        return max(
            self.flops / (chip.flops * hardware.devices * reached.matrix),
            self.traffic / (chip.bandwidth * reached.memory),
            self.received / (chip.interconnect * reached.interconnect),
        )


def step_seconds(table: Mapping[Phase, Work], hardware: Hardware) -> float:
    """The least that a step of this table takes; judging is left out."""
    return sum(work.calls * work.seconds(hardware) for work in table.values())


def forward_flops(model: Architecture, groups: Sequence[Group]) -> Number:
    """FLOPs of a forward pass over prompts, each once, and their responses."""
    layers = layers_flops(model, sum(group.tokens for group in groups), sum(group.seen for group in groups))
    return layers + vocabulary_flops(model, sum(group.drawn for group in groups))


def layout_table(run: PlannedRun, fill: float = 1.0) -> dict[Phase, Work]:
    """Every phase of a step, in the order of the step, and the decoding of evaluations, which no step calls.

    Shapes are those of the longest prompts and responses allowed; how often a phase runs follows from their mean
    length, as a share `fill` of the longest.
    """
    table: dict[Phase, Work] = {}
    for load in sampling_loads(run.config):
        table |= sampling_table(run.for_policy(load.policy), load, fill)
    for policy, loads in training_loads(run.config).items():
        table |= _learning(run.for_policy(policy), policy, loads, fill)
    return table


def sampling_table(run: PlannedRun, load: Load, fill: float) -> dict[Phase, Work]:
    model, lora, role, capacity = run.model, run.config.lora_of(load.policy), load.role, run.capacity(load)
    packed, shards = capacity.prefill_buckets[-1], capacity.batch_shards
    prompt, response, samples = load.prompt * fill, load.response * fill, load.prompts * load.samples
    block = capacity.rows * capacity.block  # tokens
    seen = prompt + response / 2  # of a token, on average
    read = (capacity.rows / capacity.width * prompt + capacity.rows * response / 2) / shards
    prefills = load.prompts * prompt / (packed * shards)
    stored = run.itemsize if lora is not None else 4  # a frozen base is in the precision that it is used in

    table = {
        Phase("weights", role): Work(
            calls=1,
            flops=0 if lora is None else 2 * lora.rank * model.num_layers * layer_matrices(model),
            traffic=stored * parameters(model) / run.shards + run.compute_param_bytes,
        ),
        Phase("prefill", role): Work(
            calls=prefills,
            flops=layers_flops(model, shards * packed, shards * packed / prompt * causal(prompt)),
            traffic=run.compute_param_bytes,
        ),
        Phase("insert", role): Work(prefills, traffic=2 * packed * run.token_bytes),
        Phase("decode", role): Work(
            calls=samples * response / block,
            flops=layers_flops(model, block, block * seen) + vocabulary_flops(model, block),
            traffic=capacity.block * (run.compute_param_bytes + min(read * run.token_bytes, run.cache(capacity))),
        ),
    }
    evaluated = [each.role for each in evaluation_loads(run.config)]
    if role in evaluated and evaluation_kind(run.config) is not sampling_kind(run.config, load.policy):
        table[Phase("evaluate", role)] = Work(calls=0)
    return table


def _learning(run: PlannedRun, policy: str, loads: Sequence[Load], fill: float) -> dict[Phase, Work]:
    config, model = run.config, run.model
    batch, updates = run.fullest_batch(policy), updates_of(run.config, policy)
    places = batch.tokens.size
    means = [load.mean_group(fill) for load in loads]
    tokens, seen = (
        sum(load.prompts * size for load, size in zip(loads, sizes, strict=True))
        for sizes in ([group.tokens for group in means], [group.seen for group in means])
    )
    useful = sum(load.prompts * forward_flops(model, [mean]) for load, mean in zip(loads, means, strict=True))
    forward = layers_flops(model, places, places * seen / tokens)
    scored = vocabulary_flops(model, batch.targets.size)
    calls = tokens / places
    # Until the first update of a step the policy is the old one, so the first mini-batch is not scored again.
    scorings = {Phase("score-old", policy): 1 - 1 / updates, Phase("score-ref", policy): is_anchored(config, policy)}
    # A backward pass is two forward ones: for the gradients of activations, and of the matrices, which LoRA spares but
    # for the adapters. Logits are computed again in it, whatever the policy.
    again, backward = RECOMPUTED[run.settings.remat], 2 if config.lora is None else 1
    adapters = 0 if config.lora is None else 2 * places * run.trained
    repeated, passes = again * layers_flops(model, places, 0), 1 + backward
    table = {
        phase: Work(calls * share, forward + scored, run.compute_param_bytes, useful=useful * share)
        for phase, share in scorings.items()
        if share
    }
    return table | {
        Phase("gradient", policy): Work(
            calls=calls,
            flops=passes * forward + repeated + (2 + backward) * scored + (3 + again) * adapters,
            traffic=(passes + again) * run.compute_param_bytes + 2 * run.master_bytes,
            useful=passes * useful,
        ),
        # The zeros that a mini-batch's gradient is added to.
        Phase("clear", policy): Work(updates, traffic=run.master_bytes),
        # AdamW reads gradient, parameters and two moments, and writes the last three.
        Phase("update", policy): Work(updates, traffic=7 * run.master_bytes),
    }


def ideal_table(
    run: PlannedRun,
    hardware: Hardware,
    sampled: Mapping[str, Sequence[Group]],
    learned: Mapping[str, Sequence[Group]],
) -> dict[Phase, Work]:
    """What no layout and no program can do without to sample these groups, by role, and learn from these, by policy."""
    table: dict[Phase, Work] = {}
    for role, groups in sampled.items():
        prompts, decode = [Group(group.prompt, ()) for group in groups], Phase("decode", role)
        own = run.for_phase(decode)
        table[Phase("prefill", role)] = Work(1, forward_flops(own.model, prompts))
        flops = forward_flops(own.model, groups) - forward_flops(own.model, prompts)
        table[decode] = Work(1, flops, _ideal_traffic(own, hardware, groups))
    for policy, groups in learned.items():
        trained, updates = run.for_policy(policy), updates_of(run.config, policy)
        scorings = (1 - 1 / updates) + is_anchored(run.config, policy)
        passes = scorings + (3 if run.config.lora is None else 2)  # backward is two, or one for frozen matrices
        flops = passes * forward_flops(trained.model, [group for group in groups if group.responses])
        table[Phase("gradient", policy)] = Work(1, flops)
        table[Phase("update", policy)] = Work(updates, traffic=7 * 4 * trained.trained / hardware.devices)
    return table


def _ideal_traffic(run: PlannedRun, hardware: Hardware, groups: Sequence[Group]) -> Number:
    devices, token = hardware.devices, cache_bytes(run.model, run.itemsize)
    weights = run.compute_param_bytes * run.tensor
    longest = max(max(group.responses) for group in groups)
    samples, drawn = sum(len(group.responses) for group in groups), sum(group.drawn for group in groups)
    # A prompt is read once for all of its samples; a token looks at the half of its sample that is there on average.
    read = token * sum(group.prompt * max(group.responses) + sum(map(causal, group.responses)) for group in groups)
    free = devices * (hardware.chip.memory - resident(run)) - weights
    row = token * sum(group.prompt + group.drawn / 2 for group in groups) / samples
    steps = max(longest, drawn / max(1, free // row))  # no chip shortens the longest
    return (read + steps * weights) / devices
