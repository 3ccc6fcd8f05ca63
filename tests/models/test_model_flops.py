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
from codea1_jax.models.published import HUB_SHAPES, QWEN25


@pytest.mark.parametrize("size", QWEN25)
def test_parameters_are_those_of_the_model(size):
    leaves = jax.tree.leaves(abstract_params(Transformer(QWEN25[size])))
    assert parameters(QWEN25[size]) == sum(math.prod(leaf.shape) for leaf in leaves)


def test_the_published_names_stand_for_the_published_sizes():
    assert parameters(HUB_SHAPES["Qwen/Qwen2.5-Coder-1.5B-Instruct"]) == 1_543_714_304
    assert parameters(HUB_SHAPES["Qwen/Qwen2.5-7B"]) == 7_615_616_512


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
