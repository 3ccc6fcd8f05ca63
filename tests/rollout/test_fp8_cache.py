"""A cache of eight-bit floats: what is drawn from it, and what is made of the parameters for it."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_softmax

from codea1_jax.models.attention import masked_attention, training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import output_table
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.rollout import Capacity, Sampler, Sampling, decode
from codea1_jax.rollout.decode_params import to_decode_params
from codea1_jax.rollout.equalize import SIZE, equalize
from codea1_jax.rollout.readers import Gathered, reader_for

NO_EOS = (-1,)
BLOCK = 4
ROUNDED = Capacity(
    rows=6,
    slots=4,
    width=3,
    pages=40,
    prompt_buckets=(20,),
    response_buckets=(12,),
    block=BLOCK,
    prefill_tokens=40,
    fp8=True,
)
SAMPLING = Sampling(11)


@pytest.fixture(scope="module")
def uneven(params):
    """Parameters whose channels of keys and values differ by orders of magnitude, with biases as large as Qwen2's."""
    random = np.random.default_rng(0)
    attention = dict(params["layers"]["self_attn"])
    for name, inverse in (("k_proj", "q_proj"), ("v_proj", None)):
        shape = attention[name]["bias"].shape
        sizes = 10.0 ** random.uniform(-3, 2, shape)
        if inverse is not None:  # alike in the pairs that rotate, and as sharp as before
            sizes = np.tile(sizes.reshape(2, 2, 6)[..., :3], (1, 1, 2)).reshape(shape)
            queries = np.repeat(1 / sizes.reshape(2, 2, 6), 2, axis=1).reshape(2, -1)
            attention[inverse] = {
                "kernel": attention[inverse]["kernel"] * queries[:, None],
                "bias": attention[inverse]["bias"] * queries,
            }
        bias = np.where(random.random(shape) < 0.2, 3.0, 0.0) * sizes
        attention[name] = {"kernel": attention[name]["kernel"] * sizes[:, None], "bias": jnp.asarray(bias, "float32")}
    return params | {"layers": params["layers"] | {"self_attn": attention}}


@pytest.fixture(scope="module")
def logits_of(model):
    """Logits of one whole sequence by the training graph, with an attention of choice."""

    @jax.jit
    def logits(params, tokens, attend):
        positions = jnp.arange(len(tokens))[None]
        hidden = model.apply({"params": params}, tokens[None], positions, attend)[0][0]
        return hidden @ output_table(params, model.architecture).T

    return lambda params, tokens, attend: np.asarray(logits(params, jnp.array(tokens), attend))


def sampler_of(model, capacity=ROUNDED, seed=0):
    return Sampler(model, eos_ids=NO_EOS, pad_id=0, seed=seed, capacity=capacity)


def completions_of(sampler, params, requests, sampling=SAMPLING):
    """Completions in the order of the requests."""
    return [completions for _, completions in sorted(sampler.generate(params, requests, sampling), key=lambda x: x[0])]


def tokens_of(*arguments):
    return [[sample.tokens for sample in samples] for samples in completions_of(*arguments)]


def attention_to_rounded(prompt_length):
    """Plain attention to exact keys and values from a query's own block, or its own prefill, and to rounded others."""

    def attend(q, k, v, kept):
        place = np.arange(q.shape[1])
        block = np.where(place < prompt_length - 1, -1, (place - prompt_length + 1) // BLOCK)
        earlier = (block[:, None] > block[None])[None]
        causal = (place[:, None] >= place[None])[None]
        small = [x.astype(jnp.float8_e4m3fn).astype(x.dtype) for x in (k, v)]
        both = [jnp.concatenate(pair, axis=1) for pair in zip((k, v), small, strict=True)]
        mask = jnp.concatenate([causal & ~earlier, causal & earlier], axis=2)
        return masked_attention(q, *both, mask), kept

    return jax.tree_util.Partial(attend)


def test_equalized_parameters_compute_the_same_to_the_last_bit(model, uneven, logits_of):
    equalized = uneven | {"layers": equalize(uneven["layers"], model.architecture)}
    tokens = tuple(range(3, 30))
    attend = training_attention(Sight.within(jnp.ones((1, len(tokens)), jnp.int32)))
    np.testing.assert_array_equal(logits_of(equalized, tokens, attend), logits_of(uneven, tokens, attend))


def test_equalized_channels_are_of_one_size_and_bounded_whatever_comes_in(model, uneven):
    layers = jax.tree.map(np.asarray, equalize(uneven["layers"], model.architecture))
    norm = layers["input_layernorm"]["weight"]
    inputs = np.random.default_rng(1).standard_normal((100_000, 24))
    inputs /= np.sqrt(np.mean(inputs**2, axis=-1, keepdims=True))
    for layer in range(2):
        for name in ("k_proj", "v_proj"):
            kernel = norm[layer][:, None] * layers["self_attn"][name]["kernel"][layer]
            bias = layers["self_attn"][name]["bias"][layer]
            squares = np.mean((inputs @ kernel + bias) ** 2, axis=0)
            if name == "k_proj":
                squares = np.tile(squares.reshape(2, 2, 3).sum(axis=1, keepdims=True), (1, 2, 1)).ravel()
            assert np.all(squares > 0.98 / 64) and np.all(squares < 1.02 / 16)
            worst = np.linalg.norm(kernel, axis=0) * np.sqrt(24) + np.abs(bias)  # of inputs along a channel's weights
            assert np.all(worst < np.sqrt(24 + 1) / 4)


def test_keys_that_are_normalized_are_equalized_by_the_norms_weights(model, uneven):
    normed = model.clone(architecture=dataclasses.replace(model.architecture, qk_norm=True, qkv_bias=False))
    random = np.random.default_rng(2)
    sizes = np.tile(10.0 ** random.uniform(-3, 2, (2, 3)), (1, 2))
    norms = {
        "q_norm": {"weight": jnp.asarray(1 / sizes, "float32")},
        "k_norm": {"weight": jnp.asarray(sizes, "float32")},
    }
    projections = {name: {"kernel": part["kernel"]} for name, part in uneven["layers"]["self_attn"].items()}
    layers = uneven["layers"] | {"self_attn": projections | norms}
    equalized = equalize(layers, normed.architecture)
    tokens = jnp.arange(3, 30)[None]
    attend = training_attention(Sight.within(jnp.ones_like(tokens)))
    before, after = (
        normed.apply({"params": uneven | {"layers": each}}, tokens, jnp.arange(27)[None], attend)[0]
        for each in (layers, equalized)
    )
    np.testing.assert_array_equal(before, after)
    pairs = np.asarray(equalized["self_attn"]["k_norm"]["weight"]).reshape(2, 2, 3)
    lengths = np.sqrt(np.sum(pairs**2, axis=1))
    assert np.all(lengths >= SIZE / 2) and np.all(lengths <= SIZE)


def test_no_real_size_can_overflow():
    for hidden_size in (1536, 2048, 3584, 5120, 8192):  # Qwen2.5's
        assert SIZE * np.sqrt(hidden_size + 1) < min(float(jnp.finfo(reader_for(x).fp8).max) for x in ("tpu", "gpu"))


def test_logprobs_are_those_of_rounded_keys_and_values(model, uneven, requests, logits_of):
    equalized = uneven | {"layers": equalize(uneven["layers"], model.architecture)}
    differences = []
    some = requests[1:4]
    for request, samples in zip(some, completions_of(sampler_of(model), uneven, some), strict=True):
        tokens = request.prompt + samples[0].tokens
        plain = training_attention(Sight.within(jnp.ones((1, len(tokens)), jnp.int32)))
        rounded, exact = (
            log_softmax(logits_of(equalized, tokens, attend)[len(request.prompt) - 1 : -1], axis=-1)[
                np.arange(11), samples[0].tokens
            ]
            for attend in (attention_to_rounded(len(request.prompt)), plain)
        )
        np.testing.assert_allclose(samples[0].logprobs, rounded, atol=2e-4)
        differences.append(np.abs(rounded - exact))
    assert np.mean(differences) > 1e-3  # so that the cache was rounded indeed


@pytest.mark.parametrize(
    "capacity",
    [
        dataclasses.replace(ROUNDED, rows=1, slots=1, width=1),
        dataclasses.replace(ROUNDED, rows=40, slots=16, width=5, pages=200, prefill_tokens=1000),
        dataclasses.replace(ROUNDED, prompt_buckets=(8, 20), response_buckets=(4, 12)),
    ],
    ids=["one row", "all at once", "more buckets"],
)
def test_the_same_tokens_come_out_of_other_rows_and_buckets(model, params, requests, capacity):
    expected = tokens_of(sampler_of(model), params, requests)
    assert tokens_of(sampler_of(model, capacity), params, requests) == expected


def test_samples_that_lose_their_pages_are_drawn_again_with_the_same_tokens(model, params, requests):
    needed = 8 * 16 + 20 * 10  # pages of one token, for 8 prompts and 20 samples
    roomy = dataclasses.replace(ROUNDED, rows=20, slots=8, width=5, block=1, response_buckets=(11,), pages=needed)
    tight = sampler_of(model, dataclasses.replace(roomy, pages=needed // 4))
    assert tokens_of(tight, params, requests) == tokens_of(sampler_of(model, roomy), params, requests)
    assert tight.counters.preempted > 0


def test_the_kernel_that_reads_pages_gives_what_copies_of_them_give(model, params, requests, monkeypatch):
    reader = dataclasses.replace(reader_for("tpu"), interpret=True)
    monkeypatch.setattr(decode, "reader_for", lambda platform: Gathered(fp8=reader.fp8))
    expected = completions_of(sampler_of(model), params, requests[1:3])
    monkeypatch.setattr(decode, "reader_for", lambda platform: reader)
    found = completions_of(sampler_of(model), params, requests[1:3])
    for samples, expected_samples in zip(found, expected, strict=True):
        for sample, expected_sample in zip(samples, expected_samples, strict=True):
            assert sample.tokens == expected_sample.tokens
            np.testing.assert_allclose(sample.logprobs, expected_sample.logprobs, atol=1e-4)


def test_only_a_cache_of_eight_bits_changes_the_parameters(model, params):
    mesh = one_device_mesh()
    plain, small = (to_decode_params(model, mesh, fp8=fp8)(params) for fp8 in (False, True))
    for before, after in zip(plain["layers"], small["layers"], strict=True):
        assert jax.tree.structure(before) == jax.tree.structure(after)
        unlike = jax.tree.map(lambda x, y: not np.array_equal(x, y), before, after)
        kernels = {name: part["transposed_kernel"] for name, part in unlike["self_attn"].items()}
        assert all(kernels.values()) and not any(jax.tree.leaves(unlike["mlp"]))
