"""Every kernel equals the plain XLA attention; the one for the hardware is chosen by itself."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, AbstractMesh

from codea1_jax.models.attention import (
    KERNELS,
    causal_mask,
    choose_kernel,
    masked_attention,
    prefill_attention,
    training_attention,
)
from codea1_jax.models.blockwise import Sight, blockwise_attention
from codea1_jax.models.flash import flash_attention
from codea1_jax.models.layout import MESH_AXES
from codea1_jax.models.splash import splash_attention


def example(time, dtype=jnp.float32, heads=4, kv_heads=2, head_dim=32):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [(2, time, heads, head_dim), (2, time, kv_heads, head_dim), (2, time, kv_heads, head_dim)]
    q, k, v = (jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True))
    segments = jnp.stack([jnp.where(jnp.arange(time) > time // 3, 2, 1), jnp.where(jnp.arange(time) < time - 7, 1, 0)])
    return segments, q, k, v


def squares(mix):
    """Of the real places: a padded place may hold anything."""

    def loss(q, k, v, real):
        return jnp.sum(jnp.where(real, jnp.square(mix(q, k, v)), 0.0))

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))


def mixed_by(attend):
    """What it mixes, without what it keeps."""
    return lambda q, k, v: attend(q, k, v, None)[0]


def check_equal(mix, segments, q, k, v, tolerance):
    real = (segments > 0)[..., None, None]
    mask = causal_mask(segments)
    found = squares(mix)(q, k, v, real)
    expected = squares(lambda q, k, v: masked_attention(q, k, v, mask))(q, k, v, real)
    for ours, reference in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        scale = np.abs(reference).max()
        np.testing.assert_allclose(ours / scale, reference / scale, atol=tolerance)


def test_masked_attention_is_softmax_over_what_may_be_seen():
    segments, q, k, v = example(9, heads=2, kv_heads=1, head_dim=4)
    found = masked_attention(q, k, v, causal_mask(segments))
    for row in range(2):
        for place in range(9):
            seen = [t for t in range(place + 1) if segments[row, t] == segments[row, place]]
            for head in range(2):
                scores = np.array([q[row, place, head] @ k[row, t, 0] for t in seen]) / 2
                weights = np.exp(scores) / np.exp(scores).sum()
                expected = sum(w * v[row, t, 0] for w, t in zip(weights, seen, strict=True))
                np.testing.assert_allclose(found[row, place, head], expected, atol=1e-5)


@pytest.mark.parametrize("time", [128, 150])
def test_splash_equals_the_reference_with_its_gradients(time):
    segments, q, k, v = example(time)

    def mix(q, k, v):
        return splash_attention(segments, q, k, v, interpret=True)

    check_equal(mix, segments, q, k, v, tolerance=1e-5)


@pytest.mark.parametrize("time", [150, 256])
def test_flash_equals_the_reference_with_its_gradients(time):
    segments, q, k, v = example(time)

    def mix(q, k, v):
        return flash_attention(segments, q, k, v, interpret=True)

    check_equal(mix, segments, q, k, v, tolerance=1e-5)


@pytest.mark.parametrize("time", [20, 128, 300])
def test_blockwise_equals_the_reference_with_its_gradients(time):
    segments, q, k, v = example(time)
    check_equal(mixed_by(training_attention(segments, "xla")), segments, q, k, v, tolerance=1e-5)


def test_a_segment_sees_its_parent_before_it():
    """A prompt (1) and two responses (2, 3) in a row, against each response behind its prompt alone."""
    _, q, k, v = example(200)
    sizes = {1: 60, 2: 90, 3: 50}
    segments = jnp.repeat(jnp.array([[1, 2, 3]] * 2), jnp.array(list(sizes.values())), axis=1)
    together = blockwise_attention(Sight(segments, jnp.ones_like(segments)), q, k, v)
    for response in (2, 3):
        places = np.flatnonzero((segments[0] == 1) | (segments[0] == response))
        alone = [x[:, places] for x in (q, k, v)]
        expected = masked_attention(*alone, causal_mask(jnp.ones((2, places.size), jnp.int32)))
        np.testing.assert_allclose(together[:, places], expected, atol=1e-5)


def on(platform):
    device = AbstractDevice(platform, num_cores=None, platform=platform)
    return jax.sharding.use_abstract_mesh(AbstractMesh((1, 1, 1), MESH_AXES, abstract_device=device))


@pytest.mark.parametrize(
    ("platform", "half", "full"),
    [("cpu", "xla", "xla"), ("tpu", "splash", "splash"), ("gpu", "flash", "xla"), ("cuda", "flash", "xla")],
)
def test_the_kernel_is_chosen_by_the_devices_in_use_and_the_precision(platform, half, full):
    with on(platform):
        assert choose_kernel("auto", jnp.bfloat16) == choose_kernel("auto", jnp.float16) == half
        assert choose_kernel("auto", jnp.float32) == full
        for kernel in KERNELS[1:]:
            assert choose_kernel(kernel, jnp.bfloat16) == choose_kernel(kernel, jnp.float32) == kernel


def test_an_unknown_kernel_is_refused():
    with pytest.raises(KeyError, match="dense"):
        choose_kernel("dense", jnp.float32)


def test_prefill_keeps_keys_and_values_and_training_keeps_nothing_new():
    _, q, k, v = example(12)
    mixed, kept = training_attention(jnp.ones((2, 12), jnp.int32))(q, k, v, None)
    again, (keys, values) = prefill_attention(jnp.ones((2, 12), jnp.int32))(q, k, v, None)
    assert kept is None
    np.testing.assert_array_equal(mixed, again)
    np.testing.assert_array_equal(keys, k)
    np.testing.assert_array_equal(values, v)


def test_packed_prompts_are_prefilled_as_each_by_itself():
    _, q, k, v = example(40)
    segments = jnp.array([[1] * 25 + [0] * 7 + [2] * 8] * 2)
    packed = mixed_by(prefill_attention(segments))(q, k, v)
    for prompt in (slice(0, 25), slice(32, 40)):
        mask = causal_mask(segments[:, prompt])
        alone = masked_attention(q[:, prompt], k[:, prompt], v[:, prompt], mask)
        np.testing.assert_allclose(packed[:, prompt], alone, atol=1e-5)


@pytest.mark.gpu
def test_flash_equals_the_reference_with_its_gradients_on_a_gpu():
    segments, q, k, v = example(384, jnp.bfloat16, head_dim=128)
    check_equal(mixed_by(training_attention(segments, "flash")), segments, q, k, v, tolerance=0.03)
