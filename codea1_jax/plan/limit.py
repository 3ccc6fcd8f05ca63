"""The physical limit of a step: what its work takes if every byte that must move moves once, at the published figures.

Nothing of the project's own layout or programs is in it, so that it says how much could be gained at most. Keys, values
and weights are spread over all devices at no cost; prompts are computed once for all of their responses; as many
samples are decoded at once as memory holds next to what is trained; nothing waits for a host, a link or a sibling.
"""

from __future__ import annotations

from collections.abc import Sequence

from codea1_jax.config import METHODS
from codea1_jax.devices.chips import Hardware
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import Number, cache_bytes, causal, layers_flops, vocabulary_flops
from codea1_jax.plan.arithmetic.lengths import Group
from codea1_jax.plan.arithmetic.memory import resident
from codea1_jax.plan.arithmetic.workload import PlannedRun
from codea1_jax.plan.forecast import Learned, StepCalls

UPDATE_BYTES = 28  # AdamW reads gradient, parameters and two moments in float32, and writes the last three


def limit_seconds(run: PlannedRun, hardware: Hardware, step: StepCalls) -> dict[str, float]:
    """Seconds of a step at least, by "sample ROLE" and "learn POLICY"; judging is left out."""
    sampling = {f"sample {role}": _sampling(run, hardware, groups) for role, groups in step.groups.items()}
    learning = {f"learn {policy}": _learning(run, hardware, policy, what) for policy, what in step.learned.items()}
    return sampling | learning


def _sampling(run: PlannedRun, hardware: Hardware, groups: Sequence[Group]) -> float:
    chip, model, devices = hardware.chip, run.model, hardware.devices
    flops, bandwidth = chip.flops * devices, chip.bandwidth * devices
    token = cache_bytes(model, run.cache_itemsize)
    drawn = [length for group in groups for length in group.responses]
    prompts = layers_flops(model, sum(g.prompt for g in groups), sum(causal(g.prompt) for g in groups))
    seen = sum(group.prompt * sum(group.responses) for group in groups) + sum(map(causal, drawn))
    computing = layers_flops(model, sum(drawn), seen) + vocabulary_flops(model, sum(drawn))
    weights = run.decode_params_bytes * run.tensor
    # A prompt is read once for all of its samples; a token looks at the half of its sample that is there on average.
    read = token * sum(group.prompt * max(group.responses) + sum(map(causal, group.responses)) for group in groups)
    free = devices * (chip.memory - resident(run)) - weights
    row = token * sum(group.prompt + sum(group.responses) / 2 for group in groups) / len(drawn)
    steps = max(*drawn, sum(drawn) / max(1, free // row))  # no chip shortens the longest
    return prompts / flops + max(computing / flops, (read + steps * weights) / bandwidth)


def _learning(run: PlannedRun, hardware: Hardware, policy: str, learned: Learned) -> float:
    grpo, supervised = run.config.learners[policy].grpo, METHODS[run.config.method.name].supervised
    forward = sum(forward_flops(run.model, group) for group in learned.groups if group.responses)
    scored = 0 if supervised else (1 - 1 / learned.updates) + (grpo.kl_coef > 0)
    passes = scored + (3 if run.config.lora is None else 2)  # a backward pass is two, or one for frozen matrices
    moved = learned.updates * UPDATE_BYTES * run.trained
    return (passes * forward / hardware.chip.flops + moved / hardware.chip.bandwidth) / hardware.devices


def forward_flops(model: Architecture, group: Group) -> Number:
    """FLOPs of a forward pass over a prompt, once, and its responses."""
    tokens = sum(group.responses)
    seen = causal(group.prompt) + group.prompt * tokens + sum(map(causal, group.responses))
    return layers_flops(model, group.prompt + tokens, seen) + vocabulary_flops(model, tokens)
