"""A policy written to disk is the policy read from it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.models.weights import load_params

TOKENIZER = micro_tokenizer(["return", " + "])
CONFIG = Qwen2Config(TOKENIZER.vocab_size, 16, 24, 2, 4, 2, 4, rope_theta=1e4, max_position_embeddings=64)


def test_a_saved_policy_reads_back_whole(tmp_path):
    policy = Policy(Qwen2(CONFIG), TOKENIZER)
    params = init_params(policy.model, jax.random.key(0))
    save_policy(tmp_path / "new", policy, params)
    loaded = pretrained_policy(tmp_path / "new", dtype=jnp.bfloat16, remat="full")
    assert loaded.model == Qwen2(CONFIG, dtype=jnp.dtype("bfloat16"), param_dtype=jnp.dtype("float32"), remat="full")
    assert loaded.tokenizer.encode("return 1 + é") == TOKENIZER.encode("return 1 + é")
    read = load_params(tmp_path / "new", loaded.model)
    jax.tree.map(np.testing.assert_array_equal, read, params)


def test_a_tokenizer_with_more_ids_than_the_model_is_refused():
    small = Qwen2Config(TOKENIZER.vocab_size - 1, 16, 24, 2, 4, 2, 4)
    with pytest.raises(ValueError, match=r"uses 260 ids, but the model's vocab_size is 259"):
        Policy(Qwen2(small), TOKENIZER)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "llama"}, "only 'qwen2' is supported"),
        ({"use_sliding_window": True}, "use_sliding_window"),
        ({"rope_scaling": {"type": "yarn", "factor": 4.0}}, "RoPE scaling"),
        ({"rope_parameters": {"rope_type": "yarn", "factor": 4.0}}, "RoPE scaling"),
        ({"num_key_value_heads": 3}, "must be a multiple of num_kv_heads=3"),
        ({"head_dim": 5}, "must be even"),
    ],
)
def test_an_architecture_that_is_not_this_one_is_refused(change, complaint):
    with pytest.raises(ValueError, match=complaint):
        Qwen2Config.from_hf(CONFIG.to_hf("float32") | change)


def test_both_spellings_of_rope_are_read():
    stated = CONFIG.to_hf("float32")
    theta = stated.pop("rope_theta")
    newer = stated | {"rope_parameters": {"rope_type": "default", "rope_theta": theta}}
    assert Qwen2Config.from_hf(newer) == Qwen2Config.from_hf(CONFIG.to_hf("float32")) == CONFIG
