"""Layers whose matrices are of eight bits: how they are rounded, and what is drawn from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from capacities import for_slots
from scipy.special import log_softmax

from codea1_jax.config import LoRAConfig
from codea1_jax.models.attention import training_attention
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.decoder import KERNEL_SCALE, output_table
from codea1_jax.models.lora import attach, init_adapters
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.stored import flatten
from codea1_jax.rollout import Sampler, Sampling
from codea1_jax.rollout.decode_params import to_decode_params, unstack_layers
from codea1_jax.rollout.quantize import quantize

CAPACITY = for_slots(4, 2, (20,), (12,), block=4, prefill_tokens=40)


def meant(rounded):
    """The numbers that a rounded matrix stands for."""
    return np.asarray(rounded["kernel"], np.float64) * np.asarray(rounded[KERNEL_SCALE], np.float64)


def half_a_step(kernel):
    """How far they may be off, by column."""
    return np.abs(np.asarray(kernel, np.float64)).max(axis=0) / 127 / 2


def plain(rounded):
    """A layer of the plain shape that holds what a rounded one stands for."""
    if not isinstance(rounded, dict):
        return np.asarray(rounded)
    if KERNEL_SCALE in rounded:
        return {"kernel": meant(rounded).astype("float32")}
    return {name: plain(part) for name, part in rounded.items()}


def rounded_in_place(params):
    """Parameters of the plain shape that hold what rounded ones stand for."""
    layers = [plain(quantize(layer)) for layer in unstack_layers(params["layers"])]
    return params | {"layers": jax.tree.map(lambda *each: np.stack(each), *layers)}


def logits_of(model, params, tokens):
    attend = training_attention(Sight.within(jnp.ones((1, len(tokens)), jnp.int32)))
    hidden = model.apply({"params": params}, jnp.array(tokens)[None], jnp.arange(len(tokens))[None], attend)[0][0]
    return np.asarray(hidden @ output_table(params, model.architecture).T)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_number_is_off_by_more_than_half_of_its_column_s_scale(dtype):
    random = np.random.default_rng(0)
    kernel = random.standard_normal((300, 50)) * 10.0 ** random.uniform(-30, 3, 50)
    kernel[:, 7] = 0
    kernel[3, 8] = 100 * np.abs(kernel[:, 8]).max()  # one that leaves little to the others of its column
    kernel = jnp.asarray(kernel, dtype)
    linear = {"kernel": kernel, "bias": kernel[0]}
    layer = {
        "self_attn": {"q_proj": linear, "o_proj": linear},
        "mlp": {"up_proj": linear},
        "norm": {"weight": kernel[1]},
    }
    found = quantize(layer)
    rounded = found["mlp"]["up_proj"]
    jax.tree.map(np.testing.assert_array_equal, rounded, found["self_attn"]["o_proj"])
    assert rounded["kernel"].dtype == jnp.int8 and rounded[KERNEL_SCALE].dtype == dtype
    slack = 1.01 if dtype == "bfloat16" else 1.0001  # the scale itself is rounded
    off = np.abs(meant(rounded) - np.asarray(kernel, np.float64))
    assert np.all(off <= slack * half_a_step(kernel))
    assert not np.any(meant(rounded)[:, 7])
    left = rounded["bias"], found["norm"], found["self_attn"]["q_proj"]
    jax.tree.map(np.testing.assert_array_equal, left, (kernel[0], layer["norm"], linear))


def test_logprobs_are_those_of_rounded_matrices(model, params, requests):
    sampler = Sampler(model, eos_ids=(-1,), pad_id=0, seed=0, capacity=CAPACITY, int8_weights=True)
    some = requests[1:4]
    differences = []
    for index, samples in sampler.generate(params, some, Sampling(11)):
        prompt, drawn = some[index].prompt, samples[0].tokens
        rounded, exact = (
            log_softmax(logits_of(model, each, prompt + drawn)[len(prompt) - 1 : -1], axis=-1)[np.arange(11), drawn]
            for each in (rounded_in_place(params), params)
        )
        np.testing.assert_allclose(samples[0].logprobs, rounded, atol=2e-4)
        differences.append(np.abs(rounded - exact))
    assert len(differences) == 3 and np.mean(differences) > 1e-3


def test_adapters_are_merged_before_matrices_are_rounded(model, params):
    lora = LoRAConfig(rank=2, alpha=4, targets=("q_proj", "down_proj"))
    adapters = jax.tree.map(lambda x: x + 0.3, init_adapters(model, lora, jax.random.key(0)))
    adapted = attach(lora, params, adapters)
    exact, small = (to_decode_params(model, one_device_mesh(), int8=int8)(adapted) for int8 in (False, True))
    for before, after in zip(map(flatten, exact["layers"]), map(flatten, small["layers"]), strict=True):
        assert len(after) == len(before) + 4  # a scale for attention's output, and for three of the feed-forward
        for path, x in before.items():
            if (*path[:-1], KERNEL_SCALE) not in after:
                np.testing.assert_array_equal(after[path], x)
                continue
            rounded = {"kernel": after[path].T, KERNEL_SCALE: after[*path[:-1], KERNEL_SCALE]}
            assert rounded["kernel"].dtype == jnp.int8
            assert np.all(np.abs(meant(rounded) - np.asarray(x.T, np.float64)) <= 1.0001 * half_a_step(x.T))
    others = ({name: part for name, part in each.items() if name != "layers"} for each in (exact, small))
    jax.tree.map(np.testing.assert_array_equal, *others)
