import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import Example, Trajectory, trajectory_example
from codea1_jax.learn.packing import pack, padding

EXAMPLES = st.lists(
    st.builds(
        lambda context, learned: Example(context, [token for token, _ in learned], [weight for _, weight in learned]),
        st.lists(st.integers(1, 99), min_size=1, max_size=12),
        st.lists(st.tuples(st.integers(1, 99), st.sampled_from([-1.5, 0.0, 2.0])), max_size=12),
    ),
    max_size=12,
)
CONFIGS = st.builds(PackingConfig, row_length=st.integers(2, 40), micro_batch_tokens=st.integers(2, 120))


def unpack(batches):
    """What can be learned, read back: (inputs, [(position predicted from, target)...], weights) by response."""
    found = []
    for batch in batches:
        for row in range(len(batch.tokens)):
            tokens, segments, positions = batch.tokens[row], batch.segment_ids[row], batch.positions[row]
            used = segments == 0
            for response in range(1, batch.sequences[row].max() + 1):
                slots = batch.sequences[row] == response
                assert batch.mask[row][slots].all()
                places = batch.target_index[row][slots]
                prompt = segments[places[0]]
                inputs = np.concatenate([np.flatnonzero(segments == prompt), places[1:]])
                np.testing.assert_array_equal(positions[inputs], np.arange(inputs.size))
                assert (batch.parents[row][inputs] == prompt).all()
                assert len(set(segments[places[1:]])) <= 1  # seen by no other response
                used[inputs] = True
                targets = zip(positions[places].tolist(), batch.targets[row][slots].tolist(), strict=True)
                found.append((tuple(tokens[inputs].tolist()), tuple(targets), tuple(batch.weights[row][slots])))
            assert used.all()
    return sorted(found)


# beartype checks a random element of a list, here while hypothesis builds one.
builds_checked_lists = pytest.mark.filterwarnings("ignore:Do not use the `random` module inside strategies")


@builds_checked_lists
@given(EXAMPLES, CONFIGS)
@settings(max_examples=150, deadline=None)
def test_every_learned_token_has_one_slot_that_predicts_it(examples, config):
    batches = pack(examples, config)
    expected = sorted(
        (
            (*example.context, *example.learned[:-1]),
            tuple(enumerate(example.learned, start=len(example.context) - 1)),
            tuple(example.weights),
        )
        for example in examples
        if example.learned
    )
    assert unpack(batches) == expected
    assert sum(batch.mask.sum() for batch in batches) == sum(len(example.learned) for example in examples)


@builds_checked_lists
@given(EXAMPLES, CONFIGS, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_micro_batches_are_full_ones_and_at_most_a_half_one_at_the_end(examples, config, shards):
    batches = pack(examples, config, shards)
    if not batches:
        return
    longest = max(example.length for example in examples if example.learned)
    length = next(n for n in (config.row_length << power for power in itertools.count()) if n >= longest)
    rows = max(1, config.micro_batch_tokens // length)
    full = (rows * shards, length)
    half = (-(-rows // 2) * shards, length) if rows > 1 else (shards, -(-length // 2))
    assert {batch.tokens.shape for batch in batches[:-1]} <= {full}
    assert batches[-1].tokens.shape in (full, half)
    assert all(batch.targets.shape == batch.tokens.shape for batch in batches)


def test_padding_is_under_a_tenth_on_ragged_batches():
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.uniform(np.log(32), np.log(320), 256)).astype(int)
    examples = [Example([1] * 64, [2] * length, [1.0] * length) for length in lengths]
    batches = pack(examples, PackingConfig(row_length=1024, micro_batch_tokens=1024))
    assert 0 < padding(batches) < 0.1


def test_a_shared_prompt_is_computed_once_in_a_row_and_again_only_where_it_is_full():
    groups = [[Example([number] * 40, [2] * 25, [1.0] * 25) for _ in range(4)] for number in range(3)]
    examples = [example for group in groups for example in group]
    (batch,) = pack(examples, PackingConfig(row_length=256, micro_batch_tokens=512))
    # One question's prompt is in both rows: three of its responses behind it in one, the fourth in the other.
    segments = [(np.unique(row[row > 0]).size, (row > 0).sum()) for row in batch.segment_ids]
    assert segments == [(2 + 7, 2 * 40 + 7 * 24), (2 + 5, 2 * 40 + 5 * 24)]
    # Where there are rows enough, none is divided.
    (batch,) = pack(examples, PackingConfig(row_length=256, micro_batch_tokens=4096))
    segments = [(np.unique(row[row > 0]).size, (row > 0).sum()) for row in batch.segment_ids if row.any()]
    assert segments == [(1 + 4, 40 + 4 * 24)] * 3


def test_long_sequences_find_their_rows_before_short_ones():
    examples = [Example([length] * length, [2], [1.0]) for length in (2, 4, 6, 8)]
    (batch,) = pack(examples, PackingConfig(row_length=10, micro_batch_tokens=20))
    assert batch.segment_ids.all()  # both rows are full


def test_the_parts_of_a_micro_batch_have_alike_much_to_attend_to():
    rng = np.random.default_rng(0)
    examples = [Example([number] * 64, [2] * n, [1.0] * n) for number, n in enumerate(rng.integers(20, 960, 256))]
    batches = pack(examples, PackingConfig(row_length=1024, micro_batch_tokens=1024), batch_shards=8)
    assert sum(batch.mask.sum() for batch in batches) == sum(len(example.learned) for example in examples)
    pairs = [
        [sum(n * (n + 1) // 2 for n in np.bincount(row[row > 0])) for row in batch.parents] for batch in batches[:-1]
    ]
    # Of a micro-batch the part with the most decides: were rows dealt out at random, it would have 1.3 times the mean.
    assert sum(map(max, pairs)) < 1.05 * sum(map(np.mean, pairs))


def test_a_row_of_many_short_responses_to_one_prompt_has_room_for_their_targets():
    batches = pack([Example([5], [2], [1.0])] * 30, PackingConfig(row_length=8, micro_batch_tokens=8))
    assert sum(batch.mask.sum() for batch in batches) == 30
    assert all(batch.targets.shape[1] <= 8 for batch in batches)


def test_a_trajectory_learns_its_whole_completion_and_nothing_of_its_prompt():
    example = trajectory_example(Trajectory((5, 6, 7), (8, 9, 1), -0.5))
    (batch,) = batches = pack([example], PackingConfig(row_length=8, micro_batch_tokens=8))
    assert padding(batches) == pytest.approx(3 / 8)
    assert batch.tokens[0].tolist() == [5, 6, 7, 8, 9, 0, 0, 0]
    assert batch.targets[0][batch.mask[0] == 1].tolist() == [8, 9, 1]
    assert batch.target_index[0][batch.mask[0] == 1].tolist() == [2, 3, 4]
    assert batch.weights[0][batch.mask[0] == 1].tolist() == [-0.5] * 3


@pytest.mark.parametrize(("context", "learned", "weights"), [((), (1,), (1.0,)), ((1,), (2, 3), (1.0,))])
def test_an_example_that_cannot_be_learned_is_refused(context, learned, weights):
    with pytest.raises(ValueError, match=r"context|weights"):
        Example(context, learned, weights)
