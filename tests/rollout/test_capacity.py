"""What a rollout makes room for, by its rows, its cache and its mesh; figures are worked out by hand."""

import pytest

from codea1_jax.config import RolloutConfig
from codea1_jax.rollout.capacity import buckets, capacity_of

ROLLOUT = RolloutConfig(rows=64, block=32)


def test_prompts_with_samples_for_three_times_the_rows_are_resident():
    capacity = capacity_of(ROLLOUT, 1, prompts=100, samples=8, prompt=200, response=96)
    assert (capacity.rows, capacity.width, capacity.slots) == (64, 8, 24)
    # 200 tokens take seven pages of 32; of a response's three blocks of 32, the last is in no page.
    assert capacity.pages == 24 * 7 + 64 * 2


def test_few_prompts_have_no_more_rows_than_samples_in_whole_shards():
    capacity = capacity_of(ROLLOUT, 4, prompts=3, samples=2, prompt=64, response=32)
    assert (capacity.rows, capacity.slots, capacity.width) == (8, 4, 2)
    limited = capacity_of(ROLLOUT, 16, prompts=4, samples=8, prompt=16, response=16)
    assert (limited.rows, limited.width) == (64, 4)  # a prompt's samples share the shard that holds it


@pytest.mark.parametrize(
    ("tokens", "shards", "replicas", "pages"), [(3_200, 1, 1, 100), (3_200, 8, 1, 104), (3_200, 2, 2, 200)]
)
def test_a_cache_of_stated_size_has_that_many_tokens_in_each_replica_in_whole_shards(tokens, shards, replicas, pages):
    rollout = ROLLOUT.model_copy(update={"cache_tokens": tokens})
    assert capacity_of(rollout, shards, 100, 8, 200, 96, replicas=replicas).pages == pages


def test_each_replica_has_the_stated_rows():
    assert capacity_of(ROLLOUT, 2, 100, 8, 200, 96, replicas=3).rows == 3 * 64


def test_a_cache_holds_at_least_one_row_in_each_shard():
    rollout = ROLLOUT.model_copy(update={"cache_tokens": 32})
    assert capacity_of(rollout, 2, 100, 8, 200, 96).pages == 2 * (7 + 2)


def test_a_prefill_is_no_longer_than_the_prompts_that_can_be_resident():
    full = ROLLOUT.model_copy(update={"prefill_tokens": 1024})
    assert capacity_of(full, 1, prompts=100, samples=8, prompt=200, response=96).prefill_buckets == (1024,)
    assert capacity_of(full, 1, prompts=3, samples=8, prompt=200, response=96).prefill_buckets == (3 * 7 * 32,)
    assert capacity_of(full, 1, prompts=3, samples=8, prompt=2000, response=96).prefill_buckets == (2016,)


def test_lengths_share_a_bucket_of_a_quarter_of_the_next():
    assert buckets(700) == (176, 704)
    assert buckets(8192) == (128, 512, 2048, 8192)
    assert buckets(128) == (128,)
    assert buckets(90, multiple=32) == (96,)
