"""The scheduler alone: no model, blocks are made up."""

import dataclasses

import numpy as np
import pytest
from capacities import for_slots

from codea1_jax.rollout import Capacity, Request
from codea1_jax.rollout.capacity import pages_of
from codea1_jax.rollout.decode import DecodedBlock
from codea1_jax.rollout.schedule import PREFILL_AT, Schedule, sample_key

CAPACITY = for_slots(2, 2, (4, 8), (4, 12), block=4, prefill_tokens=8)
EOS, LONGEST = 1, 12


def schedule_of(requests, capacity=CAPACITY):
    return Schedule(requests, capacity, longest=LONGEST, eos_ids=(EOS,), pad_id=0, seed=0)


def block_of(counts, active, token=7):
    """A block in which every row draws `token`, `counts` times."""
    shape = (CAPACITY.block, len(counts))
    active = np.array(active, bool)
    return DecodedBlock(np.full(shape, token), np.zeros(shape), np.array(counts), active, np.int32(4))


def test_longest_prompts_enter_first_and_requests_of_a_bucket_in_their_order():
    one = dataclasses.replace(CAPACITY, rows=1, slots=1, width=1)
    lengths = [3, 8, 2, 5]
    schedule = schedule_of([Request((9,) * length, (i,), 1) for i, length in enumerate(lengths)], one)
    (pack,) = schedule.admit()
    assert (pack.tokens == 9).sum() == np.count_nonzero(pack.segments) == 7
    entered = []
    while schedule.busy:
        entered += [request for request, _ in schedule.record(block_of([2], [False]))]
        schedule.admit()
    assert entered == [1, 3, 0, 2]


def test_prompts_share_a_prefill_each_from_a_page_on():
    roomy = dataclasses.replace(CAPACITY, slots=4, pages=40, prefill_buckets=(8, 16, 20))
    schedule = schedule_of([Request(tuple(range(2, 2 + n)), (n,), 1) for n in (6, 3)], roomy)
    (packed,) = schedule.admit()
    np.testing.assert_array_equal(packed.tokens, [[2, 3, 4, 5, 6, 0, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(packed.segments, [[1, 1, 1, 1, 1, 0, 0, 0, 2, 2, 0, 0, 0, 0, 0, 0]])
    np.testing.assert_array_equal(packed.positions[0, [0, 4, 8, 9]], [0, 4, 0, 1])
    np.testing.assert_array_equal(packed.pages, [[0, 1, 2, roomy.pages]])
    prompts = schedule.prompts()
    np.testing.assert_array_equal(prompts.lengths, [5, 2, 0, 0])
    np.testing.assert_array_equal(prompts.pages[:2], [[0, 1], [2, roomy.pages]])


def test_a_prefill_has_the_smallest_length_that_holds_its_prompts():
    several = dataclasses.replace(CAPACITY, prefill_buckets=(4, 8))
    (pack,) = schedule_of([Request((9, 9, 9), (0,), 1)], several).admit()
    np.testing.assert_array_equal(pack.tokens, [[9, 9, 0, 0]])


def test_columns_are_of_the_longest_prompt_at_work_and_of_responses_as_far_as_they_have_come():
    roomy = dataclasses.replace(CAPACITY, prompt_buckets=(16, 40), pages=40, prefill_buckets=(80,))
    schedule = schedule_of([Request((9,) * 18, (0,), 1), Request((9,) * 17, (1,), 1)], roomy)
    schedule.admit()
    assert schedule.columns() == (10, 0)
    schedule.record(block_of([4, 4, 0, 0], [True, True, False, False]))
    schedule.admit()
    assert schedule.columns() == (10, 2)
    schedule.record(block_of([1, 4, 0, 0], [False, True, False, False]))
    schedule.admit()
    assert schedule.columns() == (4, 2)
    schedule.record(block_of([0, 2, 0, 0], [False] * 4))
    assert not schedule.busy


def test_a_free_row_takes_the_next_sample_of_any_resident_prompt():
    schedule = schedule_of([Request((9, 8), (0,), 2), Request((6, 5), (1,), 3)])
    schedule.admit()
    first = schedule.rows()
    np.testing.assert_array_equal(first.token, [8, 8, 5, 5])
    assert schedule.record(block_of([4, 3, 4, 4], [True, False, True, True], token=7)) == []
    assert schedule.admit() == []
    rows = schedule.rows()
    np.testing.assert_array_equal(rows.token, [7, 8, 7, 7])
    np.testing.assert_array_equal(rows.active, [True, False, True, True])  # all places of the second prompt are taken
    np.testing.assert_array_equal(rows.num_generated[[0, 2, 3]], [4, 4, 4])
    schedule.record(block_of([1, 0, 1, 1], [False, False, False, True]))
    schedule.admit()
    rows = schedule.rows()
    np.testing.assert_array_equal(rows.key[0], sample_key(0, (1,), 2))
    np.testing.assert_array_equal(rows.token[0], 5)
    assert rows.place[0] == first.place[2]  # of the sample that ended


def test_a_completion_has_the_tokens_of_all_its_blocks():
    schedule = schedule_of([Request((9, 8), (0,), 2)])
    schedule.admit()
    schedule.record(block_of([4, 4, 0, 0], [True, True, False, False], token=7))
    schedule.admit()
    ((request, completions),) = schedule.record(block_of([3, 1, 0, 0], [False] * 4, token=EOS))
    assert request == 0
    drawn = [sample.completion() for sample in completions]
    assert [completion.tokens for completion in drawn] == [(7,) * 4 + (EOS,) * 3, (7,) * 4 + (EOS,)]
    assert all(completion.finished for completion in drawn)


@pytest.mark.parametrize("other", [(0, (1, 2), 4), (1, (1, 2), 3), (0, (1, 2, 3), 3), (0, (12,), 3), (0, (2, 1), 3)])
def test_a_key_is_the_samples_own(other):
    assert sample_key(0, (1, 2), 3).tolist() == sample_key(0, (1, 2), 3).tolist()
    assert sample_key(0, (1, 2), 3).tolist() != sample_key(*other).tolist()


def check_pages(schedule, capacity, requests):
    """No page has two owners, everyone who will be read has the pages for it, and every place one row."""
    rows, prompts = schedule.rows(), schedule.prompts()
    shards, each = capacity.batch_shards, len(rows.place) // capacity.batch_shards
    assert each * shards in capacity.row_buckets
    for shard in range(shards):
        mine = slice(shard * each, (shard + 1) * each)
        slots = slice(shard * capacity.slots // shards, (shard + 1) * capacity.slots // shards)
        owned = np.concatenate([rows.pages[mine].ravel(), prompts.pages[slots].ravel()])
        owned = owned[owned != capacity.pages]
        assert len(set(owned.tolist())) == len(owned) and owned.max(initial=0) < capacity.pages // shards
        places = rows.place[mine][rows.active[mine]]
        assert len(set(places.tolist())) == len(places)
        lengths = prompts.lengths[slots][places // capacity.width]
        np.testing.assert_array_equal(lengths, rows.prompt[mine][rows.active[mine]])
    held = (rows.pages != capacity.pages).sum(axis=1)
    limits = schedule.limits()
    wanted = [
        pages_of(min(done + capacity.block, limit - 1) // capacity.block * capacity.block, capacity.block)
        for done, limit in zip(rows.num_generated.tolist(), limits.tolist(), strict=True)
    ]
    assert (held[rows.active] == np.array(wanted)[rows.active]).all()
    assert (rows.num_generated[~rows.active] == 0).all()  # whose pages may be anyone's by now
    places = capacity.slots // shards * capacity.width
    looked_at = set((rows.place + np.arange(len(rows.place)) // each * schedule._places)[rows.active])
    assert set(np.flatnonzero(prompts.lengths)) <= {place // capacity.width for place in looked_at}


def test_every_sample_is_completed_at_its_length_whatever_the_capacity():
    preempted = [count_preemptions(np.random.default_rng(seed)) for seed in range(40)]
    assert preempted.count(0) > 5 and sum(preempted) > 100  # some ran out of pages, and some did not


def count_preemptions(random):
    """Plays a workload that is drawn, of a capacity that is drawn, and checks all of it."""
    shards, width, block = int(random.integers(1, 4)), int(random.integers(1, 4)), 4
    longest, prompt = 4 * int(random.integers(1, 16)), int(random.integers(1, 14))
    rows, slots = shards * int(random.choice([1, 3, 8, 61, 70, 300])), shards * int(random.integers(1, 30))
    least = shards * (pages_of(prompt, block) + longest // block - 1)
    capacity = Capacity(
        rows,
        slots,
        width,
        pages=max(shards, least + shards * int(random.integers(0, 30))),
        prompt_buckets=(prompt,),
        response_buckets=(longest,),
        block=block,
        prefill_buckets=(int(random.integers(8, 12)) * 4,),
        batch_shards=shards,
    )
    requests = []
    for index in range(20):
        limits = tuple(random.integers(1, longest + 1, int(random.integers(1, 6))).tolist())
        requests.append(Request((5,) * int(random.integers(1, prompt + 1)), (index,), len(limits), limits))
    schedule = Schedule(requests, capacity, longest=longest, eos_ids=(EOS,), pad_id=0, seed=0)
    done, blocks = {}, 0
    while schedule.admit() or schedule.busy:
        check_pages(schedule, capacity, requests)
        state = schedule.rows()
        left = np.where(state.active, schedule.limits() - state.num_generated, 0)
        drawn = state.num_generated + np.arange(block)[:, None]
        finished = schedule.record(
            DecodedBlock(drawn, -drawn.astype(np.float32), np.minimum(left, block), left > block, np.int32(block))
        )
        done |= dict(finished)
        blocks += 1
        assert blocks < 5000
    assert sorted(done) == list(range(20))
    for index, completions in done.items():
        for sample, limit in zip(completions, requests[index].limits, strict=True):
            completion = sample.completion()
            assert completion.tokens == tuple(range(limit))
            assert completion.logprobs == tuple(-float(place) for place in range(limit))
    return schedule.preempted


def test_a_block_decodes_no_more_rows_than_the_bucket_that_holds_those_in_use():
    capacity = for_slots(2, 64, (8,), (12,), block=4, prefill_tokens=8, batch_shards=2)
    assert capacity.row_buckets == (32, 128)  # of 64 rows a shard a quarter, but not a sixteenth
    limits = [tuple(12 if index in long else 4 for index in range(64)) for long in ({40, 63}, range(16, 33))]
    requests = [Request((9, 8), (number,), 64, limits[number]) for number in (0, 1)]

    def play(schedule):
        """The blocks' rows, and the schedule before each."""
        while schedule.admit() or schedule.busy:
            state = schedule.rows()
            yield state, schedule.limits()
            left = np.where(state.active, schedule.limits() - state.num_generated, 0)
            schedule.record(block_of(np.minimum(left, 4), left > 4))

    crowded = [len(state.token) for state, _ in play(schedule_of(requests, capacity))]
    assert crowded == [128, 128, 128]  # seventeen in a shard are one too many
    sparse = [dataclasses.replace(requests[0], stream=(number,)) for number in (0, 1)]
    blocks = list(play(schedule_of(sparse, capacity)))
    assert [len(state.token) for state, _ in blocks] == [128, 32, 32]
    state, limit = blocks[1]
    np.testing.assert_array_equal(np.flatnonzero(state.active), [14, 15, 30, 31])  # in the order that they had
    assert (limit[state.active] == 12).all() and (state.num_generated[state.active] == 4).all()
    keys = [sample_key(0, (number,), index) for number in (0, 1) for index in (40, 63)]
    np.testing.assert_array_equal(state.key[state.active], keys)


def test_a_prefill_waits_until_enough_rows_lack_a_sample():
    rows = 64
    capacity = for_slots(rows, 1, (8,), (12,), block=4, prefill_tokens=8 * rows)
    schedule = schedule_of([Request((9,) * 8, (i,), 1) for i in range(2 * rows)], capacity)
    assert len(schedule.admit()) == 1
    ended = int(PREFILL_AT * rows) - 1
    active = np.arange(rows) >= ended
    schedule.record(block_of(np.full(rows, 4), active))
    assert schedule.admit() == []
    active = np.arange(rows) > ended
    schedule.record(block_of(np.where(np.arange(rows) < ended, 0, 4), active))
    (pack,) = schedule.admit()
    assert pack.segments.max() == ended + 1


def test_requests_go_to_the_shard_that_lacks_work_most():
    capacity = for_slots(4, 2, (8,), (12,), block=4, prefill_tokens=16, batch_shards=2)
    schedule = schedule_of([Request((9,) * 8, (i,), 2) for i in range(3)], capacity)
    (pack,) = schedule.admit()
    assert pack.segments.max(axis=1).tolist() == [2, 1]
    rows = schedule.rows()
    assert rows.active.reshape(2, -1).sum(axis=1).tolist() == [4, 2]
