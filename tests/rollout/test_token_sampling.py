import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capacities import for_slots
from scipy import stats

from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.rollout import sampling as drawing
from codea1_jax.rollout.sampling import Controls, SamplingKind
from codea1_jax.rollout.schedule import sample_key

draw_tokens = jax.jit(drawing.draw_tokens, static_argnums=2)
invert_cumulative, keep_top_k, keep_top_p, row_uniforms = map(
    jax.jit, (drawing.invert_cumulative, drawing.keep_top_k, drawing.keep_top_p, drawing.row_uniforms)
)


def softmax(logits):
    exponentials = np.exp(logits - logits.max(-1, keepdims=True), dtype=np.float64)
    return exponentials / exponentials.sum(-1, keepdims=True)


def filtered(probabilities, top_k, top_p):
    """One row's distribution after top-k and then top-p, by sorting."""
    order = np.argsort(-probabilities, kind="stable")
    kept = order[: top_k or len(order)]
    running = np.cumsum(probabilities[kept]) / probabilities[kept].sum()
    kept = kept[: int(np.searchsorted(running, top_p)) + 1] if top_p < 1 else kept
    result = np.zeros_like(probabilities)
    result[kept] = probabilities[kept]
    return result / result.sum()


def agrees_with(tokens, probabilities):
    """Whether draws pass a chi-square test, rare tokens pooled; a draw of zero probability fails at once."""
    counts = np.bincount(tokens, minlength=len(probabilities))
    assert counts[probabilities == 0].sum() == 0
    expected = probabilities * len(tokens)
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(expected[common], expected[~common].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    return stats.chisquare(observed, expected).pvalue > 1e-3


@functools.cache
def uniforms_of(count):
    keys = np.stack([sample_key(0, (1, 2), sample) for sample in range(count)])
    return row_uniforms(jnp.array(keys), jnp.zeros(count, jnp.int32))


def draws_of(logits, sampling, count=10_000):
    uniforms = uniforms_of(count)
    rows = jnp.broadcast_to(jnp.asarray(logits), (count, len(logits)))
    tokens, _ = draw_tokens(rows, uniforms, SamplingKind.of(sampling), Controls.of(sampling))
    return np.asarray(tokens)


@pytest.mark.parametrize("vocab", [7, 300])
@pytest.mark.parametrize(
    "sampling",
    [Sampling(1), Sampling(1, 0.5), Sampling(1, top_k=5), Sampling(1, top_p=0.8), Sampling(1, 1.7, top_p=0.6, top_k=4)],
)
def test_draws_follow_the_filtered_softmax(vocab, sampling):
    logits = np.random.default_rng(vocab).normal(0, 2, vocab).astype(np.float32)
    truth = filtered(softmax(logits / sampling.temperature), sampling.top_k, sampling.top_p)
    assert agrees_with(draws_of(logits, sampling), truth)


def test_first_tokens_of_a_sampler_follow_the_policy(model, params):
    capacity = for_slots(1, 500, (4,), (1,), block=1, prefill_tokens=4)
    sampler = Sampler(model, eos_ids=(-1,), pad_id=0, seed=0, capacity=capacity)
    ((_, samples),) = sampler.generate(params, [Request((5, 6, 7), (0,), 5000)], Sampling(1))
    truth = np.zeros(model.architecture.vocab_size)
    for sample in samples:
        truth[sample.tokens[0]] = np.exp(sample.logprobs[0])
    assert truth.sum() == pytest.approx(1, abs=0.02)  # tokens never drawn have little probability
    assert agrees_with(np.array([sample.tokens[0] for sample in samples]), truth / truth.sum())


@pytest.mark.parametrize("vocab", [300, 20_000])
@pytest.mark.parametrize("top_k", [0, 1, 3, 50, 400])
def test_top_k_keeps_the_k_largest(top_k, vocab):
    weights = np.random.default_rng(top_k).uniform(0, 1, (6, vocab)).astype(np.float32)
    kept = np.asarray(keep_top_k(jnp.array(weights), jnp.int32(top_k)))
    smallest = np.sort(weights)[:, -min(top_k or vocab, vocab)][:, None]
    np.testing.assert_array_equal(kept, np.where(weights >= smallest, weights, 0))


@pytest.mark.parametrize("vocab", [300, 20_000])
@pytest.mark.parametrize("top_p", [1e-6, 0.1, 0.5, 0.95, 0.999, 1.0])
def test_top_p_keeps_the_fewest_that_reach_p(top_p, vocab):
    logits = np.random.default_rng(int(1e6 * top_p)).normal(0, 3, (20, vocab))
    weights = np.exp(logits - logits.max(-1, keepdims=True)).astype(np.float32)
    kept = np.asarray(keep_top_p(jnp.array(weights), jnp.float32(top_p)))
    for row, row_kept in zip(weights, kept, strict=True):
        count, descending = np.count_nonzero(row_kept), -np.sort(-row.astype(np.float64))
        running = np.cumsum([0, *descending]) / descending.sum()
        np.testing.assert_array_equal(row_kept, np.where(row >= descending[count - 1], row, 0))
        assert running[count - 1] - 1e-6 < top_p <= running[count] + 1e-6  # float32's sums are this exact
        assert top_p < 1 or count == vocab


def test_ties_with_the_last_one_kept_are_kept():
    weights = jnp.array([[1.0, 0.5, 0.5, 0.25]])
    np.testing.assert_array_equal(keep_top_k(weights, jnp.int32(2)), [[1, 0.5, 0.5, 0]])
    np.testing.assert_array_equal(keep_top_p(weights, jnp.float32(0.5)), [[1, 0.5, 0.5, 0]])


@pytest.mark.parametrize("uniform", [0.0, 0.3, 0.999999, float(np.nextafter(np.float32(1), np.float32(0)))])
def test_a_token_of_zero_weight_is_never_drawn(uniform):
    random = np.random.default_rng(1)
    weights = random.uniform(0, 1, (200, 1000)).astype(np.float32) * (random.uniform(0, 1, (200, 1000)) < 0.02)
    tokens = np.asarray(invert_cumulative(jnp.array(weights), jnp.full(200, uniform)))
    assert (np.take_along_axis(weights, tokens[:, None], axis=1) > 0).all()
    if uniform == 0:
        np.testing.assert_array_equal(tokens, np.argmax(weights > 0, axis=1))


def test_logprobs_are_those_of_the_tempered_softmax_before_filters():
    logits = np.random.default_rng(2).normal(0, 2, (9, 50)).astype(np.float32)
    sampling = Sampling(1, temperature=0.7, top_p=0.5, top_k=10)
    given = jnp.array(logits), jnp.linspace(0, 0.99, 9)
    tokens, logprobs = draw_tokens(*given, SamplingKind.of(sampling), Controls.of(sampling))
    truth = np.log(softmax(logits / 0.7))[np.arange(9), np.asarray(tokens)]
    np.testing.assert_allclose(logprobs, truth, atol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-45, 1e-38, 1e-9, 9e-6])
def test_greedy_takes_the_likeliest_token_with_its_logprob_at_temperature_one(temperature):
    logits = np.random.default_rng(2).normal(0, 2, (9, 50)).astype(np.float32)
    sampling = Sampling(1, temperature)
    tokens, logprobs = draw_tokens(jnp.array(logits), jnp.zeros(9), SamplingKind.of(sampling), Controls.of(sampling))
    np.testing.assert_array_equal(tokens, logits.argmax(-1))
    np.testing.assert_allclose(logprobs, np.log(softmax(logits)).max(-1), atol=1e-5)


def test_the_smallest_numbers_of_a_sampling_draw_the_likeliest_token_and_none_draws_an_impossible_one():
    tiny = [Sampling(1, t, p) for t in (1e-5, 1e-4, 1.0, 1e30) for p in (5e-324, 1e-45, 1e-38, 1e-30)]
    others = [Sampling(1, 1e-5), Sampling(1, 1e-5, 0.5, 3), Sampling(1, 1e30), Sampling(1, top_p=1 - 1e-16)]
    others += [Sampling(1, top_k=2**31 - 1)]
    logits = jnp.array(np.random.default_rng(3).normal(0, 40, (len(tiny + others), 300)).astype(np.float32))
    each = Controls(*map(jnp.stack, zip(*map(Controls.of, tiny + others), strict=True)))
    for uniform in jnp.array([0.0, 0.5, np.nextafter(np.float32(1), np.float32(0))]):
        tokens, logprobs = draw_tokens(logits, jnp.full(len(logits), uniform), SamplingKind.FILTERED, each)
        assert tokens[: len(tiny) - 4].tolist() == logits.argmax(-1)[: len(tiny) - 4].tolist()
        assert np.isfinite(logprobs).all() and (tokens < 300).all() and (tokens >= 0).all()


def test_the_uniforms_of_rows_and_places_are_uniform_and_unrelated():
    keys = np.stack([sample_key(0, (1, question), sample) for question in range(50) for sample in range(8)])
    uniforms = np.stack([row_uniforms(jnp.array(keys), jnp.full(400, place)) for place in range(10)])
    assert stats.kstest(uniforms.ravel(), "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(uniforms) - np.eye(10)).max() < 0.2


def test_rows_with_controls_of_their_own_draw_as_if_alone():
    samplings = [Sampling(1, temperature=0.0), Sampling(1), Sampling(1, temperature=0.5, top_k=3)]
    samplings += [Sampling(1, temperature=1.7, top_p=0.6), Sampling(1, top_p=0.9, top_k=20)]
    random = np.random.default_rng(5)
    logits = jnp.array(random.normal(0, 2, (len(samplings), 200)).astype(np.float32)).at[0, 7].set(9).at[0, 150].set(9)
    uniforms = jnp.array(random.uniform(size=len(samplings)).astype(np.float32))
    each = Controls(*map(jnp.stack, zip(*map(Controls.of, samplings), strict=True)))
    tokens, logprobs = draw_tokens(logits, uniforms, SamplingKind.FILTERED, each)
    for row, sampling in enumerate(samplings):
        one = slice(row, row + 1)
        alone = draw_tokens(logits[one], uniforms[one], SamplingKind.of(sampling), Controls.of(sampling))
        assert (tokens[one], logprobs[one]) == alone
    assert tokens[0] == 7
