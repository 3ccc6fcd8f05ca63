"""FLOPs of an update, and how fast it was: tokens learned from in a second, and the share of the devices' peak it used.

MFU (arXiv 2204.02311, appendix B) counts the FLOPs that a perfect implementation would need too: neither padding nor
what is computed again. The peak is that of dense bfloat16, whatever is computed with.
"""

from __future__ import annotations

from collections.abc import Sequence

from codea1_jax.learn.batch import Example
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.flops import causal, layers_flops, vocabulary_flops


def update_speed(tokens: int, flops: float, seconds: float, peak: float | None) -> dict[str, float]:
    """`tokens_per_second` of an update; and its `mfu`, where the peak FLOP/s of the devices is known."""
    speed = {"tokens_per_second": tokens / seconds}
    return speed if peak is None else speed | {"mfu": flops / (seconds * peak)}


def forward_flops(model: Architecture, group: Sequence[Example]) -> float:
    """FLOPs of one pass over a group, each prompt once. The last token of a response is not an input."""
    prompts: dict[tuple[int, ...], list[Example]] = {}
    for example in group:
        prompts.setdefault(tuple(example.context), []).append(example)
    flops = 0.0
    for context, members in prompts.items():
        prompt = len(context)
        inputs = [len(example.learned) - 1 for example in members]
        seen = causal(prompt) + sum(length * prompt + causal(length) for length in inputs)
        flops += layers_flops(model, prompt + sum(inputs), seen)
        flops += vocabulary_flops(model, sum(inputs) + len(inputs))
    return flops
