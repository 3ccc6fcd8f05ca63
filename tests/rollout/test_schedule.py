"""The scheduler alone: no model, blocks are made up."""

import dataclasses

import jax
import numpy as np
import pytest

from codea1_jax.models.config import Qwen2Config
from codea1_jax.rollout import Capacity, Request, stacked, unrolled
from codea1_jax.rollout.decode import DecodedBlock
from codea1_jax.rollout.schedule import Schedule, sample_key

CAPACITY = Capacity(2, 2, prompt_buckets=(4, 8), response_buckets=(4, 12), block=4, prefill_tokens=8)
EOS = 1


def schedule_of(requests, capacity=CAPACITY):
    return Schedule(requests, capacity, eos_ids=(EOS,), pad_id=0, seed=0)


def block_of(schedule, counts, active):
    """A block in which every row draws the token 7, `counts` times."""
    shape = (CAPACITY.block, *schedule.rows().token.shape)
    return DecodedBlock(np.full(shape, 7), np.zeros(shape), np.array(counts), np.array(active, bool), np.int32(4))


def test_longest_prompts_enter_first_and_requests_of_a_bucket_in_their_order():
    lengths = [3, 8, 2, 5]
    schedule = schedule_of([Request((9,) * length, (i,), 1) for i, length in enumerate(lengths)])
    (admission,) = [schedule.admit()[0]]
    np.testing.assert_array_equal(admission.slots, [0])
    assert (admission.tokens == 9).sum() == admission.prefilled == 7
    left = schedule.record(block_of(schedule, [[2, 0], [4, 0]], [[False, False], [True, False]]))
    assert [request for request, _ in left] == [1]
    (admission,) = schedule.admit()
    assert admission.prefilled == 2  # request 0, of three tokens, and not the shorter one behind it


def test_a_prefill_is_padded_to_its_size_with_slots_that_do_not_exist():
    schedule = schedule_of([Request((9, 9, 9), (0,), 1)])
    (admission,) = schedule.admit()
    np.testing.assert_array_equal(admission.tokens, [[9, 9, 0, 0], [0, 0, 0, 0]])
    np.testing.assert_array_equal(admission.slots, [0, CAPACITY.slots])


def test_columns_are_the_smallest_buckets_that_hold_the_resident_rows():
    schedule = schedule_of([Request((9,) * 8, (0,), 1), Request((9,) * 3, (1,), 1)])
    schedule.admit()
    assert schedule.columns() == (8, 0)
    schedule.record(block_of(schedule, [[4, 0], [4, 0]], [[True, False], [True, False]]))
    assert schedule.columns() == (8, 8)
    schedule.record(block_of(schedule, [[1, 0], [4, 0]], [[False, False], [True, False]]))
    assert schedule.columns() == (4, 8)
    schedule.record(block_of(schedule, [[0, 0], [2, 0]], [[False, False], [False, False]]))
    assert not schedule.busy


def test_samples_beyond_the_width_stream_through_the_rows_of_their_group():
    schedule = schedule_of([Request((9, 8), (0,), 3)])
    assert len(schedule.admit()) == 1
    first = schedule.rows()
    schedule.record(block_of(schedule, [[4, 3], [0, 0]], [[True, False], [False, False]]))
    assert schedule.admit() == []
    rows = schedule.rows()
    np.testing.assert_array_equal(rows.token[0], [7, 8])  # the second row starts again at the prompt's last token
    np.testing.assert_array_equal(rows.num_generated[0], [4, 0])
    np.testing.assert_array_equal(rows.key[0], [first.key[0, 0], sample_key(0, (0,), 2)])
    ((request, completions),) = schedule.record(block_of(schedule, [[1, 2], [0, 0]], np.zeros((2, 2))))
    assert request == 0
    assert [len(completion.tokens) for completion in completions] == [5, 3, 2]


@pytest.mark.parametrize("other", [(0, (1, 2), 4), (1, (1, 2), 3), (0, (1, 2, 3), 3), (0, (12,), 3), (0, (2, 1), 3)])
def test_a_key_is_the_samples_own(other):
    assert sample_key(0, (1, 2), 3).tolist() == sample_key(0, (1, 2), 3).tolist()
    assert sample_key(0, (1, 2), 3).tolist() != sample_key(*other).tolist()


@pytest.mark.parametrize("form", [stacked, unrolled])
def test_prompts_are_stored_once_whatever_the_number_of_rows(form):
    config = Qwen2Config(11, 8, 8, num_layers=3, num_heads=2, num_kv_heads=1, head_dim=4)

    def sizes(width):
        cache = form.empty_cache(config, dataclasses.replace(CAPACITY, width=width), np.float32)
        return [sum(x.size for x in jax.tree.leaves(store)) for store in (cache.prompts, cache.responses)]

    (prompts, narrow), (same, wide) = sizes(1), sizes(8)
    assert prompts == same == 2 * 3 * 2 * 8 * 1 * 4  # keys and values; layers, slots, tokens, heads, dim
    assert 8 * narrow == wide
