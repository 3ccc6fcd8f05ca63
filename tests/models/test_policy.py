"""A policy written to disk is the policy read from it."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from transformers import AutoConfig, GenerationConfig

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import load_params

TOKENIZER = micro_tokenizer(["return", " + "])
CONFIG = Architecture(TOKENIZER.vocab_size, 16, 24, 2, 4, 2, 4, rope_theta=1e4, max_position_embeddings=64)


def test_a_saved_policy_reads_back_whole(tmp_path):
    policy = Policy(Transformer(CONFIG), TOKENIZER)
    params = init_params(policy.model, jax.random.key(0))
    save_policy(tmp_path / "new", policy, params)
    loaded = pretrained_policy(tmp_path / "new", dtype=jnp.bfloat16, remat="full")
    assert loaded.model == Transformer(
        CONFIG, dtype=jnp.dtype("bfloat16"), param_dtype=jnp.dtype("float32"), remat="full"
    )
    assert loaded.tokenizer.encode("return 1 + é") == TOKENIZER.encode("return 1 + é")
    read = load_params(tmp_path / "new", loaded.model)
    jax.tree.map(np.testing.assert_array_equal, read, params)


def test_config_and_generation_config_name_what_ends_a_response_and_what_pads(tmp_path):
    policy = Policy(Transformer(CONFIG), TOKENIZER)
    params = init_params(policy.model, jax.random.key(0))
    save_policy(tmp_path / "new", policy, params)
    ids = {"eos_token_id": 256, "pad_token_id": 256}
    config = AutoConfig.from_pretrained(tmp_path / "new")
    generation = GenerationConfig.from_pretrained(tmp_path / "new")
    assert {name: getattr(config, name) for name in ids} == {name: getattr(generation, name) for name in ids} == ids


@pytest.mark.parametrize(
    ("declared", "exported"),
    [
        (None, {"eos_token_id": 256, "pad_token_id": 256}),
        (
            {"temperature": 0.7, "eos_token_id": [256, 257]},
            {"temperature": 0.7, "eos_token_id": [256, 257], "pad_token_id": 256},
        ),
    ],
)
def test_an_export_names_the_ids_that_its_source_left_out_and_keeps_those_it_had(tmp_path, declared, exported):
    params = init_params(Transformer(CONFIG), jax.random.key(0))
    save_policy(tmp_path / "source", Policy(Transformer(CONFIG), TOKENIZER), params)
    generation = tmp_path / "source" / "generation_config.json"
    generation.unlink()
    if declared is not None:
        generation.write_text(json.dumps(declared))
    save_policy(tmp_path / "new", pretrained_policy(tmp_path / "source"), params)
    assert json.loads((tmp_path / "new" / "generation_config.json").read_text()) == exported
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    assert [config[name] for name in ("eos_token_id", "pad_token_id")] == [exported["eos_token_id"], 256]
