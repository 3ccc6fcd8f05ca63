"""Adapters over a frozen base: what the model says and learns equals what the merged matrices say and learn."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from codea1_jax.config import GRPOConfig, LoRAConfig, OptimizerConfig, PackingConfig
from codea1_jax.learn import GRPO, Learner, Trajectory
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import Transformer, flatten, init_params
from codea1_jax.models.lora import attach, init_adapters, merge
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.rollout.decode_params import to_decode_params

SHAPE = {"vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_heads": 4, "num_kv_heads": 2, "head_dim": 8}
MODEL = Transformer(Architecture(**SHAPE, num_layers=2, rope_theta=1e4))
LORA = LoRAConfig(rank=3, alpha=5.0)
SCALE = 5.0 / 3
EOS = 1


@jax.jit
def perturbed(tree, key, scale):
    keys = iter(jax.random.split(key, len(jax.tree.leaves(tree))))
    return jax.tree.map(lambda x: x + scale * jax.random.normal(next(keys), x.shape), tree)


fresh_adapters = jax.jit(partial(init_adapters, MODEL, LORA))


@pytest.fixture(scope="module")
def base():
    return perturbed(init_params(MODEL, jax.random.key(0)), jax.random.key(1), 0.2)


@pytest.fixture(scope="module")
def adapters():
    """As after some training: B is no longer zero."""
    return perturbed(fresh_adapters(jax.random.key(2)), jax.random.key(3), 0.1)


@jax.jit
def hidden(params):
    tokens = jnp.arange(2, 14)[None]
    attend = training_attention(Sight.within(jnp.zeros_like(tokens)))
    return MODEL.apply({"params": params}, tokens, jnp.arange(12)[None], attend)[0]


def merged_by_hand(base, adapters):
    """W + alpha / rank · A B, kernel by kernel and layer by layer, in float64."""
    flat, small = flatten(base), flatten(adapters)
    whole = {path: np.asarray(leaf, np.float64) for path, leaf in flat.items()}
    for path in flat:
        a, b = (small.get((*path[:-1], name)) for name in ("lora_a", "lora_b"))
        if path[-1] == "kernel" and a is not None:
            for layer in range(2):
                whole[path][layer] += SCALE * np.asarray(a[layer], np.float64) @ np.asarray(b[layer], np.float64)
    return whole


def test_fresh_adapters_change_nothing(base):
    fresh = fresh_adapters(jax.random.key(5))
    assert len(flatten(fresh)) == 2 * 7  # every matrix of a layer has two
    np.testing.assert_array_equal(hidden(attach(LORA, base, fresh)), hidden(base))
    assert all(np.std(leaf) > 0.1 for path, leaf in flatten(fresh).items() if path[-1] == "lora_a")


def test_adapted_and_merged_parameters_say_the_same(base, adapters):
    adapted = attach(LORA, base, adapters)
    merged = merge(adapted)
    assert jax.tree.structure(merged) == jax.tree.structure(base)
    by_hand = merged_by_hand(base, adapters)
    for path, leaf in flatten(merged).items():
        np.testing.assert_allclose(leaf, by_hand[path], atol=1e-6)
    assert np.abs(hidden(merged) - hidden(base)).max() > 0.1
    np.testing.assert_allclose(hidden(adapted), hidden(merged), atol=1e-5)


def test_a_sampler_holds_merged_parameters(base, adapters):
    """Each layer apart and kernels transposed, as on a CPU."""
    resident = to_decode_params(MODEL, one_device_mesh())(attach(LORA, base, adapters))
    by_hand = merged_by_hand(base, adapters)
    for number, layer in enumerate(resident["layers"]):
        for (*path, name), leaf in flatten(layer).items():
            turned = name == "transposed_kernel"
            expected = by_hand["layers", *path, "kernel" if turned else name][number]
            np.testing.assert_allclose(leaf.T if turned else leaf, expected, atol=1e-6)


def learner(lora=LORA, **grpo):
    optimizer = OptimizerConfig(learning_rate=0.01, warmup_steps=0, schedule="constant", weight_decay=0.0)
    packing = PackingConfig(row_length=32, micro_batch_tokens=64)
    return Learner(MODEL, GRPO(GRPOConfig(**grpo)), optimizer, packing, total_steps=10, lora=lora, seed=7)


GROUPS = [
    [Trajectory((3, 4, 5), (6, 7, 8, EOS), 1.0), Trajectory((3, 4, 5), (9, EOS), -0.5)],
    [Trajectory((10, 11), (12, 13, 14, 15, EOS), -1.0), Trajectory((10, 11), (16, EOS), 2.0)],
]


def gradient_of(learner, params, base=None):
    """Over the rows of all replicas, of which there is one."""
    gradient = learner._gradient(params, learner._pack(GROUPS), 13.0, base).gradient
    return flatten(jax.tree.map(lambda x: x.sum(axis=0), gradient))


def test_gradients_follow_from_those_of_the_merged_matrices(base, adapters):
    """With W' = W + s A B: dA = s dW' Bᵀ and dB = s Aᵀ dW'."""
    ours, full = learner(kl_coef=0), learner(lora=None, kl_coef=0)
    found = gradient_of(ours, adapters, base)
    merged = merge(attach(LORA, base, adapters))
    whole = gradient_of(full, merged)
    small = flatten(adapters)
    assert max(np.abs(leaf).max() for leaf in found.values()) > 0.01
    for path in found:
        if path[-1] == "lora_a":
            kernel, b = whole[*path[:-1], "kernel"], (*path[:-1], "lora_b")
            np.testing.assert_allclose(found[path], SCALE * kernel @ small[b].swapaxes(1, 2), atol=1e-5)
            np.testing.assert_allclose(found[b], SCALE * small[path].swapaxes(1, 2) @ kernel, atol=1e-5)


def test_a_step_trains_the_adapters_away_from_the_base_which_is_the_reference(base):
    ours = learner(kl_coef=0.5, mini_batch_questions=1)
    before = {path: np.array(leaf) for path, leaf in flatten(base).items()}
    state, kl = ours.init(base), []
    assert jax.tree.structure(state.params) == jax.tree.structure(init_adapters(MODEL, LORA, jax.random.key(0)))
    for _ in range(2):
        state, metrics = ours.update(state, None, GROUPS, base=base)
        kl.append(metrics["kl"])
    assert 0 < kl[0] < kl[1]  # the second mini-batch of a step is already away from the base
    assert metrics["ratio_mean"] != 1
    assert all((before[path] == leaf).all() for path, leaf in flatten(base).items())
    with pytest.raises(ValueError, match="base parameters are needed"):
        ours.update(state, None, GROUPS)
