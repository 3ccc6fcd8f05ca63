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
from codea1_jax.models.published import LLAMA3, QWEN3, QWEN25, SMOLLM2_135M

# Published counts: the totals of the Hub's safetensors metadata; a tied table counts once.
PARAMETERS = [
    (QWEN25["0.5b"], 494_032_768),
    (QWEN25["1.5b"], 1_543_714_304),
    (QWEN25["3b"], 3_085_938_688),
    (QWEN25["7b"], 7_615_616_512),
    (QWEN25["14b"], 14_770_033_664),
    (QWEN25["32b"], 32_763_876_352),
    (QWEN3["0.6b"], 596_049_920),
    (QWEN3["1.7b"], 1_720_574_976),
    (QWEN3["4b"], 4_022_468_096),
    (QWEN3["8b"], 8_190_735_360),
    (LLAMA3["3.2-1B"], 1_235_814_400),
    (LLAMA3["3.2-3B"], 3_212_749_824),
    (LLAMA3["3.1-8B"], 8_030_261_248),
    (SMOLLM2_135M, 134_515_008),
    # deepseek-coder-1.3b-base
    (Architecture(32_256, 2048, 5504, 24, 16, 16, 128, qkv_bias=False, tie_embeddings=False), 1_346_471_936),
]


@pytest.mark.parametrize(("architecture", "published"), PARAMETERS)
def test_parameters_are_the_published_ones_and_those_of_the_model(architecture, published):
    leaves = jax.tree.leaves(abstract_params(Transformer(architecture)))
    assert parameters(architecture) == sum(math.prod(leaf.shape) for leaf in leaves) == published


def flops_counted_by_xla(function, *arguments):
    return jax.jit(function).lower(*arguments).compile().cost_analysis()["flops"]


def test_flops_are_those_that_xla_counts_forwards_and_backwards():
    config = Architecture(
        2048, 256, 512, 1, 4, 2, 64
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
