import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.config import OptimizerConfig, PackingConfig
from codea1_jax.learn import CrossEntropy, Learner, weighted_example
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, init_params, output_table

MODEL = Transformer(Architecture(17, 16, 32, 1, 2, 1, 8, rope_theta=1e4))
OPTIMIZER = OptimizerConfig(learning_rate=3e-2, warmup_steps=0, weight_decay=0.0)
SEQUENCES = [([3, 4, 5, 6, 1], [0.0, 0.0, 1.0, 2.0, 0.5]), ([7, 8, 1], [0.0, 1.0, 1.0])]


@pytest.fixture(scope="module")
def params():
    return init_params(MODEL, jax.random.key(0))


@functools.cache
def learner_of(packing):
    return Learner(MODEL, CrossEntropy(), OPTIMIZER, packing, total_steps=5)


@jax.jit
def padded_logprobs(params, rows):
    """One sequence per row, padded on the right, with the softmax written out."""
    positions = jnp.broadcast_to(jnp.arange(rows.shape[1]), rows.shape)
    hidden, _ = MODEL.apply({"params": params}, rows, positions, training_attention(Sight.within(rows * 0)))
    logprobs = jax.nn.log_softmax(hidden @ output_table(params, MODEL.architecture).T)
    return jnp.take_along_axis(logprobs[:, :-1], rows[:, 1:, None], axis=-1)[..., 0]


def test_the_loss_is_the_weighted_mean_cross_entropy(params):
    rows = np.array([tokens + [0] * (5 - len(tokens)) for tokens, _ in SEQUENCES])
    weights = np.array([weights + [0.0] * (5 - len(weights)) for _, weights in SEQUENCES])
    logprobs = padded_logprobs(params, rows)
    expected = -(weights[:, 1:] * logprobs).sum() / weights.sum()
    for packing in (PackingConfig(row_length=16), PackingConfig(row_length=4, micro_batch_tokens=4)):
        learner = learner_of(packing)
        examples = [weighted_example(*sequence) for sequence in SEQUENCES]
        state = learner.init(params)
        assert state.reference is None  # nothing is compared with it
        assert learner.update(state, None, [examples])[1]["loss"] == pytest.approx(float(expected), abs=1e-5)


def test_the_mean_logprob_is_over_the_learned_tokens_however_they_are_packed(params):
    rows = np.array([tokens + [0] * (5 - len(tokens)) for tokens, _ in SEQUENCES])
    learned = np.array([[w > 0 for w in weights] + [False] * (5 - len(weights)) for _, weights in SEQUENCES])
    expected = padded_logprobs(params, rows)[learned[:, 1:]].mean()
    examples = [weighted_example(*sequence) for sequence in SEQUENCES]
    for packing in (PackingConfig(row_length=16), PackingConfig(row_length=4, micro_batch_tokens=4)):
        learner = learner_of(packing)
        assert learner.mean_logprob(params, [examples]) == pytest.approx(float(expected), abs=1e-5)


def test_training_learns_the_weighted_tokens_and_counts_its_steps(params):
    learner = Learner(MODEL, CrossEntropy(), OPTIMIZER, PackingConfig(row_length=8), total_steps=30)
    examples = [weighted_example(*sequence) for sequence in SEQUENCES]
    state, losses = learner.init(params), []
    for _ in range(30):
        state, metrics = learner.update(state, None, [examples])
        losses.append(metrics["loss"])
    assert losses[-1] < 0.1 < losses[0]
    assert state.step == 30


def test_tokens_before_the_first_weight_are_context():
    example = weighted_example([3, 4, 5, 6], [0.0, 0.0, 1.0, 0.0])
    assert (list(example.context), list(example.learned)) == ([3, 4], [5, 6])
    assert np.array_equal(example.weights, [1.0, 0])


def test_a_weight_on_the_first_token_is_refused():
    with pytest.raises(ValueError, match="context"):
        weighted_example([3, 4], [1.0, 1.0])


def test_nothing_to_learn_is_refused(params):
    learner = Learner(MODEL, CrossEntropy(), OPTIMIZER, PackingConfig(row_length=8), total_steps=1)
    with pytest.raises(ValueError, match="weight"):
        learner.update(learner.init(params), None, [[weighted_example([3, 4], [0.0, 0.0])]])
