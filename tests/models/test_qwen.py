"""Qwen2.5-Coder as transformers computes it: two layers of its shape with its whole vocabulary.

`make test-model MODEL=DIRECTORY TRUTH=FILE` compares a whole model instead (see tests/support/make_qwen_truth.py).
"""

import json
import os
import unicodedata
from dataclasses import replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capacities import for_slots
from qwen_vocabulary import FIXTURES, LETTERS, make_tokenizer, write_cut
from tiny_model import SHAPE

from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, output_table
from codea1_jax.models.logprobs import token_logprobs
from codea1_jax.models.policy import write_random_model
from codea1_jax.models.tokenizer import load_tokenizer
from codea1_jax.models.weights import load_params, read_config
from codea1_jax.rollout import Request, Sampler, Sampling

WHOLE = os.environ.get("QWEN_MODEL")
TRUTH = json.loads(Path(os.environ["QWEN_TRUTH"] if WHOLE else FIXTURES / "transformers.json").read_text())


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    if WHOLE:
        return Path(WHOLE)
    cut = tmp_path_factory.mktemp("qwen")
    write_cut(cut)
    return cut


@pytest.fixture(scope="module")
def model_and_params(directory):
    model = Transformer(read_config(directory))
    return model, load_params(directory, model)


def test_texts_and_conversations_are_the_tokens_that_transformers_makes(directory):
    tokenizer = load_tokenizer(directory)
    for text, tokens in TRUTH["texts"]:
        assert tokenizer.encode(text) == tuple(tokens), repr(text)
        assert tokenizer.decode(tokens) == unicodedata.normalize("NFC", text)
    for messages, tokens in TRUTH["conversations"]:
        assert tokenizer.encode_chat(messages) == tuple(tokens), messages


def test_greedy_completions_and_their_log_probabilities_equal_those_of_transformers(directory, model_and_params):
    model, params = model_and_params
    truths = TRUTH["completions"]
    assert len(truths) > 5
    longest = max(len(truth["completion"]) for truth in truths)
    capacity = for_slots(len(truths), 1, (64,), (16,), block=8, prefill_tokens=128)
    sampler = Sampler(model, eos_ids=load_tokenizer(directory).eos_ids, pad_id=0, seed=0, capacity=capacity)
    requests = [Request(tuple(truth["prompt"]), (place,), 1) for place, truth in enumerate(truths)]
    results = dict(sampler.generate(params, requests, Sampling(longest, temperature=0.0)))
    for place, truth in enumerate(truths):
        (completion,) = results[place]
        assert list(completion.tokens) == truth["completion"]
        np.testing.assert_allclose(completion.logprobs, truth["logprobs"][-len(truth["completion"]) :], atol=1e-4)


def test_the_learner_finds_the_log_probabilities_that_transformers_finds(model_and_params):
    model, params = model_and_params

    @partial(jax.jit, static_argnums=0)
    def logprobs(model, params, tokens, segments):
        places = jnp.broadcast_to(jnp.arange(tokens.shape[1]), tokens.shape)
        hidden, _ = model.apply({"params": params}, tokens, places, training_attention(Sight.within(segments)))
        table = output_table(params, model.architecture)
        return token_logprobs(hidden[:, :-1], table, tokens[:, 1:], chunk=32)[0]

    rows = [truth["prompt"] + truth["completion"] for truth in TRUTH["completions"]]
    tokens, segments = np.zeros((2, len(rows), max(map(len, rows))), np.int32)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)], segments[row, : len(ids)] = ids, 1
    found = logprobs(model, params, tokens, segments)
    for row, truth in enumerate(TRUTH["completions"]):
        np.testing.assert_allclose(found[row, : len(rows[row]) - 1], truth["logprobs"], atol=1e-4)


def test_a_random_model_reads_conversations_as_qwen_does(tmp_path):
    merges = [("d", "e"), ("de", "f"), ("Ġ", "x")]
    write_random_model(tmp_path / "model", replace(SHAPE, vocab_size=300), make_tokenizer(merges))
    tokenizer = load_tokenizer(tmp_path / "model")
    assert tokenizer.encode("def x1") == (257, 258, LETTERS.index("1"))
    text = tokenizer.hf.decode(tokenizer.encode_chat([{"role": "user", "content": "hi"}]))
    system = "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n"
    assert text == f"{system}<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer.eos_ids == (261, 259) and tokenizer.pad_id == 259  # <|im_end|> and <|endoftext|>
