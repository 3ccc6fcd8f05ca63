"""Greedy completions equal those of transformers' `generate` (see scripts/make_qwen2_fixtures.py)."""

import json
from pathlib import Path

import numpy as np
import pytest

from codea1_jax.models.qwen2 import Qwen2
from codea1_jax.models.weights import load_params, read_config
from codea1_jax.rollout import Capacity, Request, Sampler, Sampling

FIXTURES = Path(__file__).parents[1] / "fixtures" / "qwen2"


@pytest.mark.parametrize("block", [6, 24])
def test_greedy_completions_equal_those_of_transformers(block):
    truth = json.loads((FIXTURES / "greedy.json").read_text())
    folder = FIXTURES / truth["model"]
    model = Qwen2(read_config(folder))
    capacity = Capacity(7, 2, prompt_buckets=(32,), response_buckets=(24,), block=block, prefill_tokens=96)
    sampler = Sampler(model, eos_ids=(truth["eos"],), pad_id=0, seed=0, capacity=capacity)
    requests = [Request(tuple(sample["prompt"]), (place,), 2) for place, sample in enumerate(truth["samples"])]
    sampling = Sampling(truth["max_new_tokens"], temperature=0.0)
    for place, completions in sampler.generate(load_params(folder, model), requests, sampling):
        expected = truth["samples"][place]
        for completion in completions:
            assert list(completion.tokens) == expected["completion"]
            assert completion.finished == (expected["completion"][-1] == truth["eos"])
            np.testing.assert_allclose(completion.logprobs, expected["logprobs"], atol=1e-4)
