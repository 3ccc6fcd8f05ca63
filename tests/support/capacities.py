"""Capacities by the prompts that are resident at once."""

from codea1_jax.rollout.capacity import Capacity, pages_of


def for_slots(
    slots: int,
    width: int,
    prompt_buckets: tuple[int, ...],
    response_buckets: tuple[int, ...],
    *,
    block: int,
    prefill_tokens: int,
    batch_shards: int = 1,
) -> Capacity:
    """Rows for `width` samples of every slot, and pages for all of them at their longest; one size of prefills."""
    each = pages_of(prompt_buckets[-1], block) + width * (response_buckets[-1] // block - 1)
    rows, pages = slots * width, slots * each
    prefill = (pages_of(prefill_tokens, block) * block,)
    return Capacity(rows, slots, width, pages, prompt_buckets, response_buckets, block, prefill, batch_shards)
