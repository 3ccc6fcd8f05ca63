"""The phases of a training step in one table: what each computes and moves, and so the time that it cannot undercut."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from codea1_jax.common.chips import Hardware
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import Number, causal, layer_matrices, layers_flops, parameters, vocabulary_flops
from codea1_jax.plan.assumptions import PEAK, Efficiency
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


def forward_flops(model: Architecture, group: Group) -> Number:
    return layers_flops(model, group.tokens, group.seen) + vocabulary_flops(model, group.drawn)


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
    model, lora, role, capacity = run.model, run.config.lora, load.role, run.capacity(load)
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
            traffic=run.compute_param_bytes + 2 * packed * run.token_bytes,  # its pages are written and put in place
        ),
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
    places, updates = math.prod(run.micro_batch(policy)), updates_of(run.config, policy)
    means = [load.mean_group(fill) for load in loads]
    tokens, seen = (
        sum(load.prompts * size for load, size in zip(loads, sizes, strict=True))
        for sizes in ([group.tokens for group in means], [group.seen for group in means])
    )
    useful = sum(load.prompts * forward_flops(model, mean) for load, mean in zip(loads, means, strict=True))
    forward = layers_flops(model, places, places * seen / tokens)
    scored = vocabulary_flops(model, places)
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
