"""A step's calls, found by running the project's own `Schedule` and packer over lengths alone, without a model."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import Example
from codea1_jax.learn.packing import pack
from codea1_jax.plan.lengths import Group
from codea1_jax.rollout.decode import DecodedBlock
from codea1_jax.rollout.requests import Capacity, Request
from codea1_jax.rollout.schedule import Schedule


@dataclass(frozen=True)
class Sampled:
    """What it takes to sample some groups.

    prefills: calls by prompt bucket. decodes: blocks by the prompt and response columns that they look at.
    occupancy: share of the rows, over all blocks, in which a sample was decoded. drawn: tokens.
    prefilled: prompt tokens that were computed, padding included, of which `prompts` had to be.
    """

    prefills: Mapping[int, int]
    decodes: Mapping[tuple[int, int], int]
    occupancy: float
    drawn: int
    prefilled: int
    prompts: int

    @property
    def blocks(self) -> int:
        """Of all column counts."""
        return sum(self.decodes.values())


@functools.lru_cache  # presets of several methods sample alike
def simulate_sampling(groups: tuple[Group, ...], capacity: Capacity) -> Sampled:
    """Each sample ends at its limit, which is the length that it is to have."""
    prompts = [(0,) * group.prompt for group in groups]
    requests = [
        Request(prompt, (index,), len(group.responses), group.responses)
        for index, (prompt, group) in enumerate(zip(prompts, groups, strict=True))
    ]
    schedule = Schedule(requests, capacity, eos_ids=(1,), pad_id=0, seed=0)
    prefills, decodes, busy, prefilled = Counter[int](), Counter[tuple[int, int]](), 0, 0
    shape = (capacity.block, capacity.slots, capacity.width)
    tokens, logprobs = np.zeros(shape, np.int32), np.zeros(shape, np.float32)
    while True:
        for admission in schedule.admit():
            prefills[admission.tokens.shape[1]] += 1
            prefilled += admission.tokens.size
        if not schedule.busy:
            break
        decodes[schedule.columns()] += 1
        rows = schedule.rows()
        left = np.where(rows.active, schedule.limits() - rows.num_generated, 0)
        busy += int((left > 0).sum())
        drawn: Any = (tokens, logprobs, np.minimum(left, capacity.block), left > capacity.block, capacity.block)
        schedule.record(DecodedBlock(*drawn))
    return Sampled(
        prefills=prefills,
        decodes=decodes,
        occupancy=busy / max(1, sum(decodes.values()) * capacity.slots * capacity.width),
        drawn=sum(sum(group.responses) for group in groups),
        prefilled=prefilled,
        prompts=sum(group.prompt - 1 for group in groups),
    )


@functools.lru_cache  # as above
def count_micro_batches(
    groups: tuple[Group, ...], mini_batches: int, packing: PackingConfig, shards: int
) -> tuple[int, ...]:
    """Micro-batches of each of a step's mini-batches, by the packer."""
    each = -(-len(groups) // mini_batches)
    parts = [groups[start : start + each] for start in range(0, len(groups), each)]
    return tuple(len(pack(_examples(part), packing, shards)) for part in parts)


def _examples(groups: Sequence[Group]) -> list[Example]:
    # A prompt of its own for each group: the packer shares equal ones.
    prompts = [range(number, number + group.prompt) for number, group in enumerate(groups)]
    return [
        Example(prompt, range(response), (1.0,) * response)
        for prompt, group in zip(prompts, groups, strict=True)
        for response in group.responses
    ]
