"""Parameters and FLOPs counted by hand agree with what flax makes and what XLA counts."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import pytest

from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, abstract_params, output_table
from codea1_jax.models.flops import layers_flops, parameters, vocabulary_flops
from codea1_jax.models.published import HUB_SHAPES

# Published counts: the totals of the Hub's safetensors metadata; a tied table counts once.
PARAMETERS = {
    "Qwen/Qwen2.5-Coder-0.5B": 494_032_768,
    "Qwen/Qwen2.5-Coder-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-3B": 3_085_938_688,
    "Qwen/Qwen2.5-7B": 7_615_616_512,
    "Qwen/Qwen2.5-14B": 14_770_033_664,
    "Qwen/Qwen2.5-32B": 32_763_876_352,
    "Qwen/Qwen3-0.6B": 751_632_384 - 151_936 * 1024,
    "Qwen/Qwen3-1.7B": 2_031_739_904 - 151_936 * 2048,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-14B": 14_768_307_200,
    "Qwen/Qwen3-32B": 32_762_123_264,
    "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824,
    "meta-llama/Llama-3.1-8B": 8_030_261_248,
    "HuggingFaceTB/SmolLM2-135M": 134_515_008,
    "HuggingFaceTB/SmolLM2-360M": 361_821_120,
    "HuggingFaceTB/SmolLM2-1.7B": 1_711_376_384,
    "HuggingFaceTB/SmolLM3-3B": 3_075_098_624,
    "deepseek-ai/deepseek-coder-1.3b-base": 1_346_471_936,
    "deepseek-ai/deepseek-coder-6.7b-base": 6_740_512_768,
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_are_the_published_ones_and_those_of_the_model(name):
    leaves = jax.tree.leaves(abstract_params(Transformer(HUB_SHAPES[name])))
    assert parameters(HUB_SHAPES[name]) == sum(math.prod(leaf.shape) for leaf in leaves) == PARAMETERS[name]


def test_every_published_architecture_is_one_of_these():
    assert set(HUB_SHAPES.values()) == {HUB_SHAPES[name] for name in PARAMETERS}


def flops_counted_by_xla(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


def test_flops_are_those_that_xla_counts_forwards_and_backwards():
    config = Architecture(
        vocab_size=2048, hidden_size=256, intermediate_size=512, num_layers=1, num_heads=4, num_kv_heads=2, head_dim=64
    )  # XLA counts the body of a loop once: one layer, so that this is right
    model, rows, time = Transformer(config), 2, 128
    ids = jax.ShapeDtypeStruct((rows, time), jnp.int32)

    def loss(params, tokens):
        segments = jnp.ones_like(tokens)
        hidden, _ = model.apply({"params": params}, tokens, tokens, training_attention(Sight.within(segments)))
        return jnp.sum(jax.nn.logsumexp(hidden @ output_table(params, config).T, axis=-1))

    expected = layers_flops(config, rows * time, rows * time * time) + vocabulary_flops(config, rows * time)
    params = abstract_params(model)
    assert flops_counted_by_xla(loss, params, ids) == pytest.approx(expected, rel=0.04)
    assert flops_counted_by_xla(jax.grad(loss), params, ids) == pytest.approx(3 * expected, rel=0.04)
    wider = dataclasses.replace(config, num_kv_heads=4)
    assert layers_flops(wider, 1, 0) - layers_flops(config, 1, 0) == 2 * 256 * 2 * (2 * 64)
