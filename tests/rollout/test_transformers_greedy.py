"""Greedy completions equal those of transformers' `generate` (see tests/support/make_family_fixtures.py)."""

import json
from pathlib import Path

import numpy as np
import pytest
from capacities import for_slots

from codea1_jax.models.decoder import Transformer
from codea1_jax.models.weights import load_params, read_config
from codea1_jax.rollout import Request, Sampler, Sampling

FIXTURES = Path(__file__).parents[1] / "fixtures" / "families"
TRUTHS = json.loads((FIXTURES / "greedy.json").read_text())


@pytest.mark.parametrize(
    "truth",
    [
        pytest.param(
            each, marks=pytest.mark.long if each["model"] in ("mha_tied", "llama_linear") else (), id=each["model"]
        )
        for each in TRUTHS
    ],
)
def test_greedy_completions_equal_those_of_transformers(truth):
    folder = FIXTURES / truth["model"]
    model = Transformer(read_config(folder))
    capacity = for_slots(7, 2, (32,), (24,), block=6, prefill_tokens=96)
    sampler = Sampler(model, eos_ids=(truth["eos"],), pad_id=0, seed=0, capacity=capacity)
    requests = [Request(tuple(sample["prompt"]), (place,), 2) for place, sample in enumerate(truth["samples"])]
    sampling = Sampling(truth["max_new_tokens"], temperature=0.0)
    results = dict(sampler.generate(load_params(folder, model), requests, sampling))
    assert len(results) == len(requests)
    for place, expected in enumerate(truth["samples"]):
        for completion in results[place]:
            assert list(completion.tokens) == expected["completion"]
            assert completion.finished == (expected["completion"][-1] == truth["eos"])
            np.testing.assert_allclose(completion.logprobs, expected["logprobs"], atol=1e-4)
