"""A step's calls, found by running the project's own `Schedule` and packer over lengths alone, without a model."""

import functools
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import Example
from codea1_jax.learn.packing import Shape, pack
from codea1_jax.models.attention.flash import Kernels, tiled
from codea1_jax.models.attention.sight import Sight
from codea1_jax.plan.workload import Group
from codea1_jax.rollout.capacity import Capacity
from codea1_jax.rollout.decode import DecodedBlock
from codea1_jax.rollout.requests import Request
from codea1_jax.rollout.schedule import Schedule

BlockShape = tuple[int, int, int]
"""Rows of a shard, and the pages of prompts and of responses, that a block of decoding looks at."""


@dataclass(frozen=True)
class Sampled:
    """What it takes to sample some groups.

    prefills: calls by tokens of a shard's row. steps: of blocks of decoding, by what they need to look at. read: tokens
    whose keys and values are read, by the shard that reads most, over all steps. pairs: of places that the flash
    kernels compute in all prefills for one head, in each prefill by the shard that has most; 0 without such kernels.
    """

    prefills: Mapping[int, int]
    steps: Mapping[BlockShape, int]
    read: int
    pairs: int


@functools.lru_cache  # presets of several methods sample alike
def simulate_sampling(groups: tuple[Group, ...], capacity: Capacity, kernels: Kernels | None = None) -> Sampled:
    """Each sample ends at its limit, which is the length that it is to have. kernels: those of prefills, if any."""
    requests = [
        Request((0,) * int(group.prompt), (index,), len(group.responses), tuple(map(int, group.responses)))
        for index, group in enumerate(groups)
    ]
    longest = capacity.response_buckets[-1]
    schedule = Schedule(requests, capacity, longest=longest, eos_ids=(1,), pad_id=0, seed=0)
    prefills, steps, read, pairs = Counter[int](), Counter[BlockShape](), 0, 0
    while True:
        for admitted in schedule.admit():
            prefills[admitted.tokens.shape[1]] += 1
            pairs += computed_pairs(Sight.within(np.asarray(admitted.segments)), kernels, capacity.batch_shards)
        if not schedule.busy:
            return Sampled(prefills, steps, read, pairs)
        rows = schedule.rows()
        left = np.where(rows.active, schedule.limits() - rows.num_generated, 0)
        ran = min(int(left.max()), capacity.block)
        steps[len(left) // capacity.batch_shards, *schedule.columns()] += ran
        read += ran * _read_by_fullest_shard(schedule, capacity)
        tokens = np.zeros((capacity.block, len(left)), np.int32)
        drawn: Any = (tokens, tokens * 0.0, np.minimum(left, capacity.block), left > capacity.block, ran)
        schedule.record(DecodedBlock(*drawn))


def _read_by_fullest_shard(schedule: Schedule, capacity: Capacity) -> int:
    rows, shards = schedule.rows(), capacity.batch_shards
    own = np.where(rows.active, rows.num_generated, 0).reshape(shards, -1).sum(axis=1)
    slot = np.where(rows.active, rows.place, -1).reshape(shards, -1) // capacity.width  # -1 stays -1
    lengths = np.asarray(schedule.prompts().lengths).reshape(shards, -1)
    prompts = [lengths[shard, np.unique(there[there >= 0])].sum() for shard, there in enumerate(slot)]
    return int(max(own + np.array(prompts)))


@functools.lru_cache  # as above
def simulate_packing(
    groups: tuple[Group, ...], mini_batches: int, packing: PackingConfig, shards: int, kernels: Kernels | None
) -> tuple[tuple[Counter[Shape], int], ...]:
    """Of each optimizer update its micro-batches by shape, and the pairs of places that flash kernels compute in a
    forward pass for one head, in each micro-batch by the shard that has most; 0 without such kernels.
    """
    each = max(1, -(-len(groups) // mini_batches))
    parts = (groups[start : start + each] for start in range(0, len(groups), each))
    return tuple(
        (
            Counter(batch.tokens.shape for batch in batches),
            sum(computed_pairs(Sight(batch.segment_ids, batch.parents), kernels, shards) for batch in batches),
        )
        for batches in (pack(_examples(part), packing, shards) for part in parts)
    )


def _examples(groups: Sequence[Group]) -> list[Example]:
    # A prompt of its own for each group: the packer shares equal ones.
    prompts = [range(number, number + int(group.prompt)) for number, group in enumerate(groups)]
    # Arrays: thousands of examples become batches, and NumPy takes a tuple or a range number by number.
    return [
        Example(prompt, array("i", bytes(4 * int(response))), array("f", [1.0]) * int(response))
        for prompt, group in zip(prompts, groups, strict=True)
        for response in group.responses
    ]


def computed_pairs(sight: Sight, kernels: Kernels | None, batch_shards: int) -> int:
    """Pairs of places that a forward pass computes for one head, in the shard of the batch that has most of them.

    0 without flash kernels: plain XLA's programs say what they compute.
    """
    if kernels is None:
        return 0
    shards = [Sight(*one) for one in zip(*(np.split(np.asarray(ids), batch_shards) for ids in sight), strict=True)]
    block, _ = kernels.cut(sight.segments.shape[1])
    in_use = [shard for shard in shards if shard.segments.any()] or shards[:1]  # the others have fewest
    return max(kernels.computed(tiled(shard, kernels).tiles) for shard in in_use) * block**2
