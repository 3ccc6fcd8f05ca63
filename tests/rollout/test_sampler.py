import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capacities import for_slots
from scipy.special import log_softmax

from codea1_jax.common.activity import shown_by
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import flatten, output_table
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.rollout import Capacity, Request, Sampler, Sampling, decode, decode_params, paged_gpu, paged_tpu
from codea1_jax.rollout.decode_params import unstack_layers
from codea1_jax.rollout.programs import sampling_programs
from codea1_jax.rollout.readers import Paged
from codea1_jax.rollout.sampling import SamplingKind

NO_EOS, ENDING = (-1,), (7, 8, 9, 10, 11, 12)
READERS = [Paged(paged_tpu, paged_tpu.SUBLANES, interpret=True), Paged(paged_gpu, interpret=True)]
SMALL = Capacity(
    rows=6, slots=4, width=3, pages=40, prompt_buckets=(20,), response_buckets=(12,), block=4, prefill_buckets=(40,)
)
BUCKETS = dataclasses.replace(SMALL, prompt_buckets=(8, 20), response_buckets=(4, 12), prefill_buckets=(8, 20, 40))


def sampler_of(model, capacity=SMALL, eos_ids=NO_EOS, seed=0, ahead=True) -> Sampler:
    return Sampler(model, eos_ids=eos_ids, pad_id=0, seed=seed, capacity=capacity, ahead=ahead)


def completions_of(results: Iterator) -> list:
    return [completions for _, completions in sorted(results, key=lambda result: result[0])]


def tokens_of(results: Iterator) -> list:
    return [[sample.tokens for sample in samples] for samples in completions_of(results)]


@pytest.fixture(scope="module")
def training_logits(model, params):
    """Logits of one whole sequence by the training graph, without cache or batch."""
    table = output_table(params, model.architecture)

    @jax.jit
    def forward(sequence):
        positions = jnp.arange(sequence.shape[0])[None]
        attend = training_attention(Sight.within(jnp.ones_like(positions)))
        return model.apply({"params": params}, sequence[None], positions, attend)[0][0] @ table.T

    def logits(tokens):
        padded = np.zeros(32, np.int32)
        padded[: len(tokens)] = tokens
        return np.asarray(forward(padded))[: len(tokens)]

    return logits


def test_greedy_tokens_equal_a_naive_loop_of_full_forward_passes(model, params, requests, training_logits):
    results = tokens_of(sampler_of(model, BUCKETS).generate(params, requests, Sampling(10, temperature=0.0)))
    for request, samples in zip(requests, results, strict=True):
        tokens = list(request.prompt)
        for _ in range(10):
            tokens.append(int(training_logits(tokens)[-1].argmax()))
        assert samples == [tuple(tokens[len(request.prompt) :])] * request.samples


@pytest.mark.parametrize(
    ("sampling", "dtype", "atol"),
    [
        (Sampling(11), "float32", 1e-4),
        (Sampling(11, temperature=0.6), "float32", 1e-4),
        (Sampling(11, top_p=0.7, top_k=9), "float32", 1e-4),
        (Sampling(11, temperature=0.0), "float32", 1e-4),
        (Sampling(11), "bfloat16", 0.3),  # in it, the training graph is 0.12 off itself
    ],
)
def test_logprobs_equal_those_of_the_training_graph(model, params, requests, training_logits, sampling, dtype, atol):
    model, params = model.clone(dtype=jnp.dtype(dtype)), jax.tree.map(lambda x: x.astype(dtype), params)
    results = completions_of(sampler_of(model).generate(params, requests, sampling))
    for request, samples in zip(requests, results, strict=True):
        for sample in samples:
            logits = training_logits(request.prompt + sample.tokens)[len(request.prompt) - 1 : -1]
            logprobs = log_softmax(logits / (sampling.temperature or 1.0), axis=-1)
            expected = logprobs[np.arange(len(sample.tokens)), sample.tokens]
            np.testing.assert_allclose(sample.logprobs, expected, atol=atol)


@pytest.mark.parametrize("reader", READERS, ids=["tpu", "gpu"])
def test_the_kernel_that_reads_pages_gives_what_copies_of_them_give(model, params, requests, reader, monkeypatch):
    expected = completions_of(sampler_of(model).generate(params, requests[1:3], Sampling(6)))
    monkeypatch.setattr(decode, "reader_for", lambda platform: reader)
    found = completions_of(sampler_of(model).generate(params, requests[1:3], Sampling(6)))
    for samples, expected_samples in zip(found, expected, strict=True):
        for sample, expected_sample in zip(samples, expected_samples, strict=True):
            assert sample.tokens == expected_sample.tokens
            np.testing.assert_allclose(sample.logprobs, expected_sample.logprobs, atol=1e-4)


def test_samples_that_lose_their_pages_are_drawn_again_with_the_same_tokens(model, params, requests):
    needed = 8 * 16 + 20 * 10  # pages of one token, for 8 prompts and 20 samples
    roomy = dataclasses.replace(SMALL, rows=20, slots=8, width=5, block=1, response_buckets=(11,), pages=needed)
    sampler, plenty = sampler_of(model, dataclasses.replace(roomy, pages=needed // 4)), sampler_of(model, roomy)
    expected = tokens_of(plenty.generate(params, requests, Sampling(11)))
    assert tokens_of(sampler.generate(params, requests, Sampling(11))) == expected
    assert plenty.counters.preempted == 0 < sampler.counters.preempted


@pytest.mark.parametrize(
    "capacity",
    [
        dataclasses.replace(SMALL, rows=1, slots=1, width=1),
        dataclasses.replace(SMALL, rows=40, slots=16, width=5, pages=200, prefill_buckets=(1000,)),
        dataclasses.replace(SMALL, block=12, response_buckets=(12,), prefill_buckets=(48,)),
        dataclasses.replace(SMALL, block=1, response_buckets=(11,), pages=140),
        BUCKETS,
    ],
    ids=["one row", "all at once", "one block", "blocks of one token", "more buckets"],
)
def test_the_same_tokens_come_out_of_other_slots_blocks_and_buckets(model, params, requests, capacity):
    expected = tokens_of(sampler_of(model).generate(params, requests, Sampling(11)))
    assert tokens_of(sampler_of(model, capacity).generate(params, requests, Sampling(11))) == expected


def test_the_same_tokens_come_out_whatever_else_is_in_the_batch(model, params, requests):
    sampler, sampling = sampler_of(model), Sampling(11)
    expected = tokens_of(sampler.generate(params, requests, sampling))
    assert tokens_of(sampler.generate(params, requests[::-1], sampling)) == expected[::-1]
    for request, samples in zip(requests, expected, strict=True):
        assert tokens_of(sampler.generate(params, [request], sampling)) == [samples]
        fewer = dataclasses.replace(request, samples=1)
        assert tokens_of(sampler.generate(params, [fewer], sampling)) == [samples[:1]]


def test_samples_streams_and_seeds_draw_different_tokens(model, params):
    requests = [Request((5, 6, 7), (step, question), 4) for step in range(3) for question in range(3)]
    drawn = tokens_of(sampler_of(model).generate(params, requests, Sampling(12)))
    assert len({tokens for samples in drawn for tokens in samples}) == 36
    other_seed = tokens_of(sampler_of(model, seed=1).generate(params, requests, Sampling(12)))
    assert all(mine != other for mine, other in zip(drawn, other_seed, strict=True))


def test_a_completion_ends_with_its_first_eos_token_and_keeps_it(model, params, requests):
    eos_ids = (7, 8, 9, 23, 30)
    endless = completions_of(sampler_of(model).generate(params, requests, Sampling(11)))
    ended = completions_of(sampler_of(model, eos_ids=eos_ids).generate(params, requests, Sampling(11)))
    finished = 0
    for samples, endless_samples in zip(ended, endless, strict=True):
        for sample, longer in zip(samples, endless_samples, strict=True):
            ends = [place for place, token in enumerate(longer.tokens) if token in eos_ids]
            length = ends[0] + 1 if ends else 11
            assert sample.tokens == longer.tokens[:length]
            assert sample.finished == bool(ends)
            assert len(sample.logprobs) == length
            np.testing.assert_allclose(sample.logprobs, longer.logprobs[:length], atol=1e-5)
            finished += sample.finished
    assert 5 < finished < sum(request.samples for request in requests)  # both kinds were seen


@pytest.mark.parametrize("count", [1, 3, 4, 5, 12])
def test_a_completion_without_eos_has_exactly_max_new_tokens(model, params, requests, count):
    for samples in completions_of(sampler_of(model).generate(params, requests, Sampling(count))):
        assert {(len(sample.tokens), sample.finished) for sample in samples} == {(count, False)}


def test_samples_end_at_limits_of_their_own_and_no_row_computes_for_one_that_ended(model, params):
    limits = (1, 12, 3, 5, 4, 9, 2, 8)
    sampler = sampler_of(model, for_slots(1, 2, (8,), (12,), block=2, prefill_tokens=64))
    free = tokens_of(sampler.generate(params, [Request((5, 6), (0,), 8)], Sampling(12)))
    steps = sampler.counters.steps
    cut = tokens_of(sampler.generate(params, [Request((5, 6), (0,), 8, limits)], Sampling(11)))
    assert cut == [[tokens[: min(limit, 11)] for tokens, limit in zip(free[0], limits, strict=True)]]
    assert sampler.counters.blocks - steps // 2 == blocks_of_a_queue([min(limit, 11) for limit in limits], 2, 2)


def test_goodput_is_the_share_of_computed_tokens_that_were_of_use(model, params):
    sampler = sampler_of(model, for_slots(1, 2, (8,), (12,), block=2, prefill_tokens=8))
    requests = [Request((5, 6, 7), (0,), 2, (1, 12)), Request((5,) * 7, (1,), 2, (4, 3))]
    before = dataclasses.replace(sampler.counters)
    list(sampler.generate(params, requests, Sampling(12)))
    # Two rows: 12 steps for the first prompt, then 4 for the second. Prompts fill 2 and 6 of a bucket's 8 places.
    assert sampler.counters.since(before).goodput(2.0) == {
        "tokens_per_second": 20 / 2,
        "decode_goodput": 20 / (2 * (12 + 4)),
        "prefill_goodput": 8 / 16,
        "preempted": 0,
    }
    assert sampler.counters.since(sampler.counters).goodput(1.0) == {}


def blocks_of_a_queue(lengths, rows, block):
    """Blocks that rows need in turn when each takes the next sample as soon as its last one ended."""
    blocks, running, waiting = 0, [], list(lengths)
    while running or waiting:
        while waiting and len(running) < rows:
            running.append(waiting.pop(0))
        running = [left - block for left in running if left > block]
        blocks += 1
    return blocks


@pytest.mark.parametrize("rows", [1, 2, 4])
@pytest.mark.parametrize("grouped", [False, True], ids=["many prompts", "many samples"])
def test_a_place_that_falls_free_is_taken_at_the_next_block(model, params, rows, grouped):
    slots, width = (1, rows) if grouped else (rows, 1)
    sampler = sampler_of(model, for_slots(slots, width, (8,), (12,), block=2, prefill_tokens=64), ENDING)
    requests = [Request((5, 6), (0,), 24)] if grouped else [Request((5, 6), (i,), 1) for i in range(24)]
    results = completions_of(sampler.generate(params, requests, Sampling(12)))
    lengths = [len(sample.tokens) for samples in results for sample in samples]
    assert len(set(lengths)) > 4
    assert sampler.counters.blocks == blocks_of_a_queue(lengths, rows, 2)
    assert sampler.counters.drawn == sum(lengths)


def test_prompts_are_counted_while_they_are_read(model, params):
    sampler, seen = sampler_of(model, for_slots(3, 1, (8,), (12,), block=2, prefill_tokens=8)), []
    with shown_by(lambda *reported: seen.append(reported[:3])):
        list(sampler.generate(params, [Request((5,) * 7, (i,), 1) for i in range(3)], Sampling(2)))
    assert [each for each in seen if each[0] == "reading"] == [("reading", 6, 18), ("reading", 12, 18)]


def test_a_block_stops_when_every_row_has_ended(model, params):
    sampler = sampler_of(model, for_slots(4, 1, (8,), (64,), block=64, prefill_tokens=64), ENDING)
    results = completions_of(sampler.generate(params, [Request((5, 6), (i,), 1) for i in range(4)], Sampling(60)))
    assert sampler.counters.blocks == 1
    assert sampler.counters.steps == max(len(sample.tokens) for (sample,) in results) < 60


def test_a_request_is_handed_out_before_the_others_are_done(model, params):
    sampler = sampler_of(model, dataclasses.replace(SMALL, slots=1))
    results = sampler.generate(params, [Request((5, 6), (i,), 2) for i in range(4)], Sampling(4))
    assert (next(results)[0], sampler.counters.blocks) == (0, 1)
    assert [index for index, _ in results] == [1, 2, 3]


@pytest.mark.parametrize(("ahead", "of_its_own"), [(True, {"attention": "xla"}), (False, {"remat": "full"})])
def test_programs_are_compiled_once_in_threads_and_are_those_listed(ahead, of_its_own, model, params, requests, caplog):
    model = model.clone(**of_its_own)  # a model that no other test compiles
    sampler = sampler_of(model, BUCKETS, ahead=ahead)
    jax.config.update("jax_log_compiles", True)
    try:
        list(sampler.generate(params, [Request((5,), (0,), 1)], Sampling(4)))  # with one program for decoding, of four
        first = [record for record in caplog.records if "compilation of jit(__call__)" in record.getMessage()]
        for temperature in (0.5, 1.0, 2.0):
            list(sampler.generate(params, requests, Sampling(12, temperature)))
        list(sampler.generate(params, requests[2:], Sampling(9, 0.7)))
    finally:
        jax.config.update("jax_log_compiles", False)
    assert ahead or len(first) == 1
    finished = [record for record in caplog.records if record.getMessage().startswith("Finished XLA compilation")]
    names = {"weights": "jit(_moved)", "prefill": "jit(prefill)", "decode": "jit(__call__)"}
    compiled = {name: [record for record in finished if name in record.getMessage()] for name in names.values()}
    listed = list(sampling_programs(model, one_device_mesh(), BUCKETS, NO_EOS, SamplingKind.PLAIN, params))
    assert {program.kind for program in listed} == set(names)
    for kind, name in names.items():
        number = sum(program.kind == kind for program in listed)
        assert len(compiled[name]) == number, kind
        assert all(record.threadName.startswith("compile") for record in compiled[name])


def test_layers_are_traced_once_whatever_their_number(model, params):
    @jax.jit
    def forward(params, tokens):
        attend = training_attention(Sight.within(jnp.ones_like(tokens)))
        return model.apply({"params": params}, tokens, jnp.arange(5)[None], attend, (None, None))[0]

    apart = {**params, "layers": unstack_layers(params["layers"])}
    tokens = jnp.array([[4, 9, 1, 17, 6]])
    traced = [
        eqn.params["jaxpr"] for eqn in forward.trace(apart, tokens).jaxpr.eqns if "layer" in str(eqn.params.get("name"))
    ]
    assert len(traced) == model.architecture.num_layers and len(set(map(id, traced))) == 1


def test_the_last_samples_are_decoded_in_a_quarter_of_the_rows_with_the_same_tokens(model, params, requests):
    roomy = dataclasses.replace(SMALL, rows=64, slots=16, width=5, pages=400, response_buckets=(12,))
    limits = [tuple(12 if index == 1 else 2 + index for index in range(request.samples)) for request in requests]
    mixed = [dataclasses.replace(request, limits=limit) for request, limit in zip(requests, limits, strict=True)]
    expected = tokens_of(sampler_of(model).generate(params, mixed, Sampling(12)))
    sampler = sampler_of(model, roomy)
    assert tokens_of(sampler.generate(params, mixed, Sampling(12))) == expected
    counters = sampler.counters
    assert 16 * counters.steps < counters.decoded < 64 * counters.steps


def test_a_bfloat16_policy_draws_with_logprobs_near_those_of_float32(model, params, requests):
    rounded, sampling = dataclasses.replace(model, dtype=jnp.bfloat16), Sampling(11)
    cool = jax.tree.map(lambda x: x / 3, params)
    results = completions_of(sampler_of(rounded).generate(cool, requests, sampling))
    exact = completions_of(sampler_of(model).generate(cool, requests, sampling))
    for samples, exact_samples in zip(results, exact, strict=True):
        for sample, exact_sample in zip(samples, exact_samples, strict=True):
            same = np.cumprod(np.array(sample.tokens) == np.array(exact_sample.tokens)).astype(bool)
            difference = np.array(sample.logprobs)[same] - np.array(exact_sample.logprobs)[same]
            assert np.abs(difference).max(initial=0) < 0.1
    assert results != exact


def test_a_policy_that_gives_nan_raises(model, params):
    broken = jax.tree.map(lambda x: jnp.full_like(x, jnp.nan), params)
    with pytest.raises(FloatingPointError, match="parameters are broken"):
        list(sampler_of(model).generate(broken, [Request((5,), (0,), 1)], Sampling(4)))


def test_parameters_are_used_where_they_lie_if_precision_and_sharding_agree(model, params):
    mesh = one_device_mesh()
    apart = decode_params.to_decode_params(model, mesh)(params)
    assert all(apart[name] is params[name] for name in params if name != "layers")
    stacked = flatten(params["layers"])
    for number, layer in enumerate(apart["layers"]):
        for (*path, name), value in flatten(layer).items():
            turned = name == "transposed_kernel"  # as on every CPU
            expected = stacked[(*path, "kernel" if turned else name)][number]
            np.testing.assert_array_equal(value.T if turned else value, expected)
        assert len(flatten(layer)) == len(stacked)
    rounded = decode_params.to_decode_params(dataclasses.replace(model, dtype=jnp.bfloat16), mesh)(params)
    assert {x.dtype for x in jax.tree.leaves(rounded)} == {jnp.dtype(jnp.bfloat16)}
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x, y.astype(jnp.bfloat16)), rounded["norm"], params["norm"])


def test_no_requests_give_no_completions(model, params):
    assert list(sampler_of(model).generate(params, [], Sampling(4))) == []


def test_what_does_not_fit_is_refused_before_anything_runs(model, params):
    sampler = sampler_of(model)
    with pytest.raises(ValueError, match=r"request \(9, 1\): a prompt of 21 tokens exceeds .* 20"):
        sampler.generate(params, [Request((1,) * 21, (9, 1), 1)], Sampling(4))
    with pytest.raises(ValueError, match="max_new_tokens=13 exceeds the largest response bucket 12"):
        sampler.generate(params, [], Sampling(13))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Sampling(0),
        lambda: Sampling(1, temperature=-1.0),
        lambda: Sampling(1, top_p=0.0),
        lambda: Sampling(1, top_p=1.1),
        lambda: Sampling(1, top_k=-1),
        lambda: Request((), (0,), 1),
        lambda: Request((1,), (0,), 0),
        lambda: Request((1,), (0,), 2, (3,)),
        lambda: Request((1,), (0,), 1, (0,)),
        lambda: dataclasses.replace(SMALL, pages=6),
    ],
)
def test_impossible_settings_raise(wrong):
    with pytest.raises(ValueError, match=r"must|empty"):
        wrong()
