"""FLOPs of an update, and how fast it was: tokens learned from in a second, and the share of the devices' peak it used.

MFU (arXiv 2204.02311, appendix B) counts the FLOPs that a perfect implementation would need too: neither padding nor
what is computed again. The peak is that of dense bfloat16, whatever is computed with.
"""

from __future__ import annotations

from collections.abc import Sequence

from codea1_jax.learn.batch import Example
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.flops import causal, layers_flops, vocabulary_flops


def update_speed(tokens: int, flops: float, seconds: float, peak: float | None) -> dict[str, float]:
    """`tokens_per_second` of an update; and its `mfu`, where the peak FLOP/s of the devices is known."""
    speed = {"tokens_per_second": tokens / seconds}
    return speed if peak is None else speed | {"mfu": flops / (seconds * peak)}


def forward_flops(model: Qwen2Config, group: Sequence[Example], *, shared: bool) -> float:
    """FLOPs of one pass over a group; `shared`: each prompt once. The last token of a response is not an input."""
    prompts: dict[object, list[int]] = {}
    for number, example in enumerate(group):
        prompts.setdefault(tuple(example.context) if shared else number, []).append(number)
    flops = 0.0
    for members in prompts.values():
        prompt = len(group[members[0]].context)
        inputs = [len(group[number].learned) - 1 for number in members]
        seen = causal(prompt) + sum(length * prompt + causal(length) for length in inputs)
        flops += layers_flops(model, prompt + sum(inputs), seen)
        flops += vocabulary_flops(model, sum(inputs) + len(inputs))
    return flops
