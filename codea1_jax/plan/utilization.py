"""How fast an update was: tokens learned from in a second, and the share of the devices' peak that it used.

MFU (arXiv 2204.02311, appendix B) counts the FLOPs that a perfect implementation would need too: neither padding nor
what is computed again. The peak is that of dense bfloat16, whatever is computed with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from codea1_jax.config import LearnerConfig
from codea1_jax.learn import Groups, Trajectory
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.lora import LoRAConfig
from codea1_jax.plan.arithmetic import Number, causal, layers_flops, vocabulary_flops
from codea1_jax.plan.hardware import CHIPS, KINDS


def peak_flops(devices: Iterable[Any]) -> float | None:
    """Dense bfloat16 FLOP/s of all devices together; None if one is of a kind whose peak is not known (a CPU)."""
    chips = [CHIPS.get(KINDS.get(device.device_kind, "")) for device in devices]
    return None if None in chips else sum(chip.flops for chip in chips if chip is not None)


def update_speed(
    model: Qwen2Config,
    settings: LearnerConfig,
    lora: LoRAConfig | None,
    groups: Groups,
    *,
    supervised: bool,
    seconds: float,
    peak: float | None,
) -> dict[str, float]:
    """`tokens_per_second` of the responses in `groups`, the trajectories that an update computed; and its `mfu`."""
    speed = {"tokens_per_second": sum(len(t.completion) for group in groups for t in group) / seconds}
    if peak is not None:
        speed["mfu"] = update_flops(model, settings, lora, groups, supervised=supervised) / (seconds * peak)
    return speed


def update_flops(
    model: Qwen2Config, settings: LearnerConfig, lora: LoRAConfig | None, groups: Groups, *, supervised: bool
) -> Number:
    """FLOPs of log-probabilities and gradients over groups; those of the adapters themselves are left out."""
    forward = [_forward_flops(model, group, shared=settings.packing.share_prompts) for group in groups]
    # Backwards a matrix costs two products more, or one if it is frozen.
    passes = (3 if lora is None else 2) * sum(forward)
    if supervised:
        return passes
    old = sum(forward[settings.grpo.mini_batch_questions :])  # until its first update the policy is the old one
    return passes + old + (sum(forward) if settings.grpo.kl_coef > 0 else 0)


def _forward_flops(model: Qwen2Config, group: Sequence[Trajectory], *, shared: bool) -> Number:
    """Of one pass over a group; `shared`: each prompt once. The last token of a response is not an input."""
    prompts: dict[Any, list[int]] = {}
    for number, trajectory in enumerate(group):
        prompts.setdefault(trajectory.prompt if shared else number, []).append(number)
    flops: Number = 0
    for members in prompts.values():
        prompt = len(group[members[0]].prompt)
        inputs = [len(group[number].completion) - 1 for number in members]
        seen = causal(prompt) + sum(length * prompt + causal(length) for length in inputs)
        flops += layers_flops(model, prompt + sum(inputs), seen)
        flops += vocabulary_flops(model, sum(inputs) + len(inputs))
    return flops
