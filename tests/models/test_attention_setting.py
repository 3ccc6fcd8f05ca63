"""The kernel that the configuration names is the one that training and prefill use."""

import jax
import pytest

from codea1_jax.config import Config, PackingConfig, load
from codea1_jax.learn import Example
from codea1_jax.learn.packing import pack
from codea1_jax.learn.phases import target_scores
from codea1_jax.models.sharding import abstract_sharded, one_device_mesh
from codea1_jax.rollout.decode import PackedPrompts, prompt_pages
from codea1_jax.rollout.decode_params import abstract_decode_params
from codea1_jax.training.policies import make_policy


def test_the_attention_that_the_configuration_names_is_used_in_training_and_prefill():
    policy = make_policy(load(Config, "micro/a1", ["model.attention=xla"]).model)
    assert policy.model.attention == "xla"
    model = policy.model.clone(attention="no kernel's name")
    mesh = one_device_mesh()
    sharded, tokens = abstract_sharded(model, mesh), jax.ShapeDtypeStruct((1, 16), jax.numpy.int32)
    prompts = PackedPrompts(tokens, tokens, tokens, jax.ShapeDtypeStruct((1, 2), jax.numpy.int32))
    apart = abstract_decode_params(model, mesh)
    (batch,) = pack([Example((1, 2), (3,), (1.0,))], PackingConfig(row_length=16))
    with pytest.raises(KeyError, match="no kernel's name"):
        jax.eval_shape(target_scores(model, logit_chunk=16), sharded, batch)
    with pytest.raises(KeyError, match="no kernel's name"):
        prompt_pages.eval_shape(model, mesh, apart, prompts)
