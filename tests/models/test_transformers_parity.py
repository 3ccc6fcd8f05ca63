"""The Flax model computes what transformers' models of every family do (see tests/support/make_family_fixtures.py)."""

from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import REMAT_POLICIES, Transformer, output_table
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.weights import load_params, placement, read_config

FIXTURES = Path(__file__).parents[1] / "fixtures" / "families"
MODELS = sorted(path.parent.name for path in FIXTURES.glob("*/config.json"))
LIKE_ANOTHER = ("gqa7_untied", "mha_tied", "llama_linear")  # whose layers compute as another's here
FEW = [pytest.param(name, marks=pytest.mark.long) if name in LIKE_ANOTHER else name for name in MODELS]
KINDS = ("plain", "left", "right", "packed")
EPS = np.finfo(np.float32).eps


@cache
def load(name):
    model = Transformer(read_config(FIXTURES / name))
    return model, load_params(FIXTURES / name, model)


@cache
def load_case(name, kind):
    with np.load(FIXTURES / name / "cases.npz") as arrays:
        return {key.split("/", 1)[1]: arrays[key] for key in arrays if key.startswith(f"{kind}/")}


def inputs(case):
    return {key: jnp.asarray(case[key]) for key in ("tokens", "positions", "segment_ids")}


def predicts(case):
    """True where a token and its successor are of the same segment, and no padding."""
    segments = case["segment_ids"]
    return (segments[:, 1:] == segments[:, :-1]) & (segments[:, :-1] > 0)


@partial(jax.jit, static_argnums=0)
def run(model, params, case):
    """Hidden states, logits, and the logprob of each next token with the entropy there."""
    attend = training_attention(Sight.within(case["segment_ids"]))
    hidden, _ = model.apply({"params": params}, case["tokens"], case["positions"], attend)
    table = output_table(params, model.architecture)
    scores = token_logprobs(hidden[:, :-1], table, case["tokens"][:, 1:], chunk=8)
    return hidden, hidden @ table.T.astype(hidden.dtype), *scores


@partial(jax.jit, static_argnums=0)
def gradient(model, params, case):
    """Of the mean negative log-probability of the predicted tokens."""
    mask = predicts(case)

    def loss(params):
        return -jnp.mean(run(model, params, case)[2], where=mask)

    return jax.grad(loss)(params)


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_chunked_logprobs_equal_transformers(name):
    model, params = load(name)
    scaled = model.architecture.rope_scaling is not None
    for kind in (*KINDS, "far") if scaled else KINDS:  # far: beyond the context that was scaled
        case = load_case(name, kind)
        _, logits, logprobs, _ = run(model, params, inputs(case))
        real = case["segment_ids"] > 0
        # Processors and compilers add up float32 in different orders: a few dozen roundings of the largest logit.
        close = partial(np.testing.assert_allclose, atol=32 * EPS * np.abs(case["logits"]).max(), rtol=0, err_msg=kind)
        close(logits[real], case["logits"][real])
        close(np.where(predicts(case), logprobs, 0), case["next_logprobs"])


@pytest.mark.parametrize("name", FEW)
def test_gradients_equal_transformers(name):
    model, params = load(name)
    case = load_case(name, "packed")
    for path, ours in traverse_util.flatten_dict(gradient(model, params, inputs(case))).items():
        place = placement(path, model.architecture.num_layers)
        for layer, tensor in enumerate(place.names):
            one = ours[layer] if place.stacked else ours
            found = one.T if place.transposed else one
            np.testing.assert_allclose(found, case[f"grad/{tensor}"], atol=1e-5, err_msg=tensor)


@pytest.mark.parametrize("name", ["qwen3", "smollm3"])
def test_responses_that_share_a_prompt_in_a_row_score_as_alone(name):
    model, params = load(name)
    prompt, *responses = np.split(np.random.default_rng(0).integers(1, 97, 15), [6, 11])
    starts = (0, 6, 6)
    lengths = [len(part) for part in (prompt, *responses)]
    row = {
        "tokens": np.concatenate([prompt, *responses]),
        "positions": np.concatenate([start + np.arange(n) for start, n in zip(starts, lengths, strict=True)]),
        "segment_ids": np.repeat([1, 2, 3], lengths),
    }
    parents = jnp.asarray(np.repeat([1, 1, 1], lengths))[None]
    row = {key: jnp.asarray(value)[None] for key, value in row.items()}
    attend = training_attention(Sight(row["segment_ids"], parents))
    shared, _ = jax.jit(model.apply)({"params": params}, row["tokens"], row["positions"], attend)
    for number, response in enumerate(responses, start=2):
        tokens = jnp.asarray(np.concatenate([prompt, response]))[None]
        alone = {"tokens": tokens, "positions": jnp.arange(tokens.size)[None], "segment_ids": jnp.ones_like(tokens)}
        expected = run(model, params, alone)[0][0, 6:]
        np.testing.assert_allclose(shared[0, np.asarray(row["segment_ids"][0]) == number], expected, atol=1e-5)


@pytest.mark.parametrize("remat", sorted(set(REMAT_POLICIES) - {"none"}))
def test_rematerialization_changes_no_gradient(remat):
    case = load_case("gqa7_tied", "packed")
    model, params = load("gqa7_tied")
    found = gradient(model.clone(remat=remat), params, inputs(case))
    expected = gradient(model, params, inputs(case))
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-6), found, expected)


def test_bfloat16_compute_stays_near_float32_and_its_logprobs_are_float32():
    case = load_case("gqa2_untied", "packed")
    model, params = load("gqa2_untied")
    hidden, _, logprobs, entropy = run(model.clone(dtype=jnp.bfloat16), params, inputs(case))
    assert hidden.dtype == jnp.bfloat16
    assert logprobs.dtype == entropy.dtype == jnp.float32
    error = np.abs(logprobs - case["next_logprobs"])[predicts(case)]
    assert 0 < error.max() < 0.25
    assert error.mean() < 0.05
