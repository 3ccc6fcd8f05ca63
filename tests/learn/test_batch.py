import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codea1_jax.config import PackingConfig
from codea1_jax.learn.batch import Example, Trajectory, trajectory_example
from codea1_jax.learn.packing import pack

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
    """What can be learned, read back: (inputs, [(position predicted from, target, weight)...]) by segment."""
    found = []
    for batch in batches:
        for row in range(len(batch.tokens)):
            for segment in range(1, batch.segment_ids[row].max() + 1):
                inside = batch.segment_ids[row] == segment
                slots = (batch.mask[row] == 1) & inside[batch.target_index[row]]
                np.testing.assert_array_equal(batch.positions[row][inside], np.arange(inside.sum()))
                at = batch.positions[row][batch.target_index[row][slots]]
                found.append(
                    (
                        tuple(batch.tokens[row][inside].tolist()),
                        tuple(zip(at.tolist(), batch.targets[row][slots].tolist(), strict=True)),
                        tuple(batch.weights[row][slots].tolist()),
                    )
                )
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
@given(EXAMPLES, CONFIGS)
@settings(max_examples=50, deadline=None)
def test_all_micro_batches_of_a_mini_batch_have_one_shape(examples, config):
    shapes = {(batch.tokens.shape, batch.targets.shape) for batch in pack(examples, config)}
    assert len(shapes) <= 1
    for (rows, length), _ in shapes:
        assert length % config.row_length == 0
        assert rows == 1 or rows * length <= config.micro_batch_tokens


def test_padding_is_under_a_tenth_on_ragged_batches():
    rng = np.random.default_rng(0)
    lengths = np.exp(rng.uniform(np.log(32), np.log(320), 256)).astype(int)
    examples = [Example([1] * 64, [2] * length, [1.0] * length) for length in lengths]
    batches = pack(examples, PackingConfig(row_length=1024, micro_batch_tokens=1024))
    used = sum((batch.segment_ids > 0).sum() for batch in batches)
    assert used / sum(batch.tokens.size for batch in batches) > 0.9


def test_a_step_needs_few_shapes():
    rng = np.random.default_rng(0)
    shapes = set()
    for _ in range(50):
        lengths = rng.integers(10, 35, 100)
        examples = [Example([1] * 28, [2] * length, [1.0] * length) for length in lengths]
        (shape,) = {batch.targets.shape for batch in pack(examples, PackingConfig(row_length=128))}
        shapes.add(shape)
    assert len(shapes) <= 2


def test_a_trajectory_learns_its_whole_completion_and_nothing_of_its_prompt():
    example = trajectory_example(Trajectory((5, 6, 7), (8, 9, 1), -0.5))
    (batch,) = pack([example], PackingConfig(row_length=8, micro_batch_tokens=8))
    assert batch.tokens[0].tolist() == [5, 6, 7, 8, 9, 0, 0, 0]
    assert batch.targets[0][batch.mask[0] == 1].tolist() == [8, 9, 1]
    assert batch.target_index[0][batch.mask[0] == 1].tolist() == [2, 3, 4]
    assert batch.weights[0][batch.mask[0] == 1].tolist() == [-0.5] * 3


def test_an_empty_completion_is_left_out():
    assert pack([trajectory_example(Trajectory((5,), (), 1.0))], PackingConfig()) == []


@pytest.mark.parametrize(("context", "learned", "weights"), [((), (1,), (1.0,)), ((1,), (2, 3), (1.0,))])
def test_an_example_that_cannot_be_learned_is_refused(context, learned, weights):
    with pytest.raises(ValueError, match=r"context|weights"):
        Example(context, learned, weights)
