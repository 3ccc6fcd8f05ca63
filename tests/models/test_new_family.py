"""A family that nobody knew becomes one by its entry: loaded, scored, sampled, planned, sharded and exported."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capacities import for_slots
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, abstract_params, init_params, output_table
from codea1_jax.models.families import FAMILIES, Family, read_architecture
from codea1_jax.models.flops import parameters
from codea1_jax.models.sharding import param_shardings
from codea1_jax.models.weights import load_params, read_config, save_params
from codea1_jax.rollout import Request, Sampler, Sampling
from codea1_jax.runtime.layout import MESH_AXES

CONFIG = {
    "model_type": "made_up",
    "vocab_size": 61,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 6,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 128,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "logit_scale": 1.0,
}


@pytest.fixture
def made_up(monkeypatch):
    """Biases and norms of queries and keys together, and every second layer without RoPE."""
    family = Family("MadeUpForCausalLM", {"logit_scale": 1.0}, qkv_bias=True, qk_norm=True, rope_interval=2)
    monkeypatch.setitem(FAMILIES, "made_up", family)
    model = Transformer(read_architecture(CONFIG))
    params = init_params(model, jax.random.key(0))
    return model, jax.tree.map(lambda x: 6 * x if x.ndim > 1 else x, params)


def test_it_is_exported_and_read_again_bit_for_bit(made_up, tmp_path):
    model, params = made_up
    save_params(tmp_path, params, model.architecture)
    assert read_config(tmp_path) == model.architecture
    jax.tree.map(np.testing.assert_array_equal, load_params(tmp_path, model), params)


def test_its_sampler_draws_what_its_learner_scores_highest(made_up):
    model, params = made_up
    capacity = for_slots(2, 1, (16,), (16,), block=4, prefill_tokens=32)
    sampler = Sampler(model, eos_ids=(), pad_id=0, seed=0, capacity=capacity)
    prompt = (5, 9, 2, 40)
    [(_, [completion])] = sampler.generate(params, [Request(prompt, (0,), 1)], Sampling(12, temperature=0.0))
    tokens = jnp.asarray(prompt + tuple(completion.tokens))[None]
    attend = training_attention(Sight.within(jnp.ones_like(tokens)))
    hidden, _ = jax.jit(model.apply)({"params": params}, tokens, jnp.arange(tokens.size)[None], attend)
    logits = hidden[0] @ output_table(params, model.architecture).T
    assert list(completion.tokens) == list(jnp.argmax(logits, axis=-1)[len(prompt) - 1 : -1])


def test_its_parameters_are_counted_and_sharded(made_up):
    shapes = abstract_params(made_up[0])
    assert parameters(made_up[0].architecture) == sum(leaf.size for leaf in jax.tree.leaves(shapes))
    mesh = AbstractMesh((1, 2, 2), MESH_AXES, axis_types=(AxisType.Auto,) * 3)
    layers = param_shardings(made_up[0], mesh)["layers"]["self_attn"]
    assert layers["q_norm"]["weight"].spec == layers["k_norm"]["weight"].spec == P(None, None)
    assert layers["q_proj"]["kernel"].spec == P(None, ("fsdp",), ("tensor",))
