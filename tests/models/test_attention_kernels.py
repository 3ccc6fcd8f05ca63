"""Every kernel equals the plain XLA attention; the one that is named, or else the one for the hardware, is used."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.pallas.mosaic.interpret import interpret_pallas_call  # the only place that tells of races
from jax._src.pallas.mosaic.interpret.race_detection_state import RaceDetectionState
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh

from codea1_jax.config import Config, PackingConfig, load
from codea1_jax.learn import Example
from codea1_jax.learn.packing import pack
from codea1_jax.learn.phases import TargetScores
from codea1_jax.models.attention import (
    choose_kernel,
    flash_gpu,
    flash_tpu,
    masked_attention,
    prefill_attention,
    training_attention,
)
from codea1_jax.models.attention.flash import flash_attention, tiled
from codea1_jax.models.attention.sight import Sight
from codea1_jax.models.sharding import abstract_sharded, one_device_mesh
from codea1_jax.rollout.decode import PackedPrompts, prompt_pages
from codea1_jax.rollout.decode_params import abstract_decode_params
from codea1_jax.runtime.layout import MESH_AXES
from codea1_jax.training.policies import make_policy


def example(time, dtype=jnp.float32, heads=4, kv_heads=2, head_dim=32):
    keys = jax.random.split(jax.random.key(0), 3)
    shapes = [(2, time, heads, head_dim), (2, time, kv_heads, head_dim), (2, time, kv_heads, head_dim)]
    q, k, v = (jax.random.normal(key, shape, dtype) for key, shape in zip(keys, shapes, strict=True))
    segments = jnp.stack([jnp.where(jnp.arange(time) > time // 3, 2, 1), jnp.where(jnp.arange(time) < time - 7, 1, 0)])
    return Sight.within(segments), q, k, v


def packed_sight(seed, time):
    """Two rows of prompts, each with the responses that share it, as the packer lays them out."""
    random = np.random.default_rng(seed)
    prompts = [range(number, number + int(random.integers(1, time // 3))) for number in range(8)]
    lengths = [random.integers(1, time // 3, random.integers(1, 5)) for _ in prompts]
    examples = [
        Example(prompt, [0] * length, [1.0] * length)
        for prompt, those in zip(prompts, lengths, strict=True)
        for length in those.tolist()
    ]
    batches = pack(examples, PackingConfig(row_length=time, micro_batch_tokens=2 * time))
    return Sight(jnp.asarray(batches[0].segment_ids), jnp.asarray(batches[0].parents))


def whole_mask(sight):
    return sight.mask(0, sight.segments.shape[1])


def squares(mix):
    """Of the real places: a padded place may hold anything."""

    def loss(q, k, v, real):
        return jnp.sum(jnp.where(real, jnp.square(mix(q, k, v).astype(jnp.float32)), 0.0))

    return jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))


def mixed_by(attend):
    """What it mixes, without what it keeps."""
    return lambda q, k, v: attend(q, k, v, None)[0]


def check_equal(mix, sight, q, k, v, tolerance):
    real = (sight.segments > 0)[..., None, None]
    mask = whole_mask(sight)
    found = squares(mix)(q, k, v, real)
    expected = squares(lambda q, k, v: masked_attention(q, k, v, mask))(q, k, v, real)
    for ours, reference in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        found_there, expected_there = (np.asarray(x, np.float32) for x in (ours, reference))
        scale = np.abs(expected_there).max()
        np.testing.assert_allclose(found_there / scale, expected_there / scale, atol=tolerance)


def test_masked_attention_is_softmax_over_what_may_be_seen():
    """In sight: earlier places of the same segment, and of its parent."""
    _, q, k, v = example(9, heads=2, kv_heads=1, head_dim=4)
    segments, parents = np.array([[1, 1, 2, 2, 3, 4, 4, 5, 0]] * 2), np.array([[1, 1, 1, 1, 1, 4, 4, 4, 0]] * 2)
    found = masked_attention(q, k, v, whole_mask(Sight(jnp.array(segments), jnp.array(parents))))
    for row in range(2):
        for place in range(9):
            looked_at = {segments[row, place], parents[row, place]}
            seen = [t for t in range(place + 1) if segments[row, t] in looked_at]
            for head in range(2):
                scores = np.array([q[row, place, head] @ k[row, t, 0] for t in seen]) / 2
                weights = np.exp(scores) / np.exp(scores).sum()
                expected = sum(w * v[row, t, 0] for w, t in zip(weights, seen, strict=True))
                np.testing.assert_allclose(found[row, place, head], expected, atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_tiles_are_those_in_which_something_is_seen_and_the_diagonal(seed):
    block, time = 16, 320
    sight = packed_sight(seed, time)
    real = (sight.segments > 0)[:, :, None]
    cut = np.asarray(whole_mask(sight) & real).reshape(2, time // block, block, time // block, block)
    np.testing.assert_array_equal(sight.tiles(block), cut.any((2, 4)) | np.eye(time // block, dtype=bool))


def test_tiles_without_a_mask_are_seen_whole_and_are_most_of_those():
    block, time, found, seen = 8, 960, 0, 0
    for seed in range(8):
        sight = packed_sight(seed, time)
        cut = np.asarray(whole_mask(sight)).reshape(2, time // block, block, time // block, block).all((2, 4))
        whole = np.asarray(flash_tpu.whole_tiles(sight, block))
        real = np.asarray(sight.segments).reshape(2, -1, block).all(2)
        assert not (whole & ~cut).any()
        found, seen = found + (whole & real[:, :, None]).sum(), seen + (cut & real[:, :, None]).sum()
    assert found > 0.9 * seen  # the others have two segments' keys, which all queries see


@pytest.mark.parametrize("kernels", [flash_tpu, flash_gpu])
@pytest.mark.parametrize(
    ("seed", "time", "head_dim"),
    [(0, 420, 6), *(pytest.param(*sizes, marks=pytest.mark.long) for sizes in ((3, 256, 24), (0, 1200, 16)))],
)
def test_flash_equals_the_reference_with_its_gradients(kernels, seed, time, head_dim, monkeypatch):
    monkeypatch.setattr(flash_tpu, "BLOCK", 128)
    _, q, k, v = example(time, head_dim=head_dim)
    mix = partial(flash_attention, tiled(packed_sight(seed, time), kernels), kernels=kernels, interpret=True)
    check_equal(mix, packed_sight(seed, time), q, k, v, tolerance=1e-5)


@pytest.mark.parametrize("kernels", [flash_tpu, flash_gpu])
def test_two_models_that_differ_in_their_query_heads_alone_are_each_computed_with_their_own(kernels):
    """JAX 0.11 traces a kernel once for both: what it asks of the grid are the first one's sizes (jax issue 40847)."""
    for heads in (4, 8):
        _, q, k, v = example(64, heads=heads, head_dim=16)
        sight = packed_sight(0, 64)
        over = tiled(sight, kernels)
        mix = partial(flash_attention, over, kernels=kernels, interpret=True)
        check_equal(mix, sight, q, k, v, tolerance=1e-5)


@pytest.fixture
def race_detectors(monkeypatch):
    """Those of all kernels that a test has simulated: each kernel begins with a new one."""
    made = []

    def make(**sizes):
        made.append(RaceDetectionState(**sizes))
        return made[-1]

    monkeypatch.setattr(interpret_pallas_call, "RaceDetectionState", make)
    return made


LATE = pltpu.InterpretParams(dma_execution_mode="on_wait", detect_races=True)
TWO_CORES = pltpu.InterpretParams(dma_execution_mode="eager", detect_races=True, num_cores_or_threads=2)


@pytest.mark.parametrize(
    ("simulated", "seed", "time", "kv_heads"),
    [
        (LATE, 5, 200, 1),
        (TWO_CORES, 3, 200, 2),
        pytest.param(LATE, 0, 300, 1, marks=pytest.mark.long),  # of three blocks, not of two
    ],
)
def test_flash_on_a_simulated_tpu_reads_only_what_was_written_and_no_cores_race(
    simulated, seed, time, kv_heads, race_detectors, monkeypatch
):
    """Copies are made as late as possible, or at once; what is not written yet is NaN."""
    monkeypatch.setattr(flash_tpu, "BLOCK", 128)
    _, q, k, v = example(time, heads=2, kv_heads=kv_heads, head_dim=8)
    over = tiled(packed_sight(seed, time), flash_tpu)
    mix = partial(flash_attention, over, kernels=flash_tpu, interpret=simulated)
    check_equal(mix, packed_sight(seed, time), q, k, v, tolerance=1e-5)
    assert [detector.races_found for detector in race_detectors] == [False] * 3  # forward, and backward twice


@pytest.mark.parametrize("kernels", [flash_tpu, flash_gpu])
def test_flash_in_bfloat16_equals_the_reference_to_its_rounding(kernels):
    sight, q, k, v = example(150, jnp.bfloat16)
    mix = partial(flash_attention, tiled(sight, kernels), kernels=kernels, interpret=True)
    check_equal(mix, sight, q, k, v, tolerance=0.03)


@pytest.mark.parametrize("time", [20, 128, 300])
def test_blockwise_equals_the_reference_with_its_gradients(time):
    sight, q, k, v = example(time)
    check_equal(mixed_by(training_attention(sight)), sight, q, k, v, tolerance=1e-5)


def test_blockwise_sees_prompts_that_are_shared():
    sight = packed_sight(1, 300)
    check_equal(mixed_by(training_attention(sight)), sight, *example(300)[1:], tolerance=1e-5)


def on(platform):
    device = AbstractDevice(platform, num_cores=None, platform=platform)
    return jax.sharding.use_abstract_mesh(AbstractMesh((1, 1, 1), MESH_AXES, abstract_device=device))


@pytest.mark.parametrize(
    ("platform", "half", "full"),
    [("cpu", "xla", "xla"), ("tpu", "flash", "flash"), ("gpu", "flash", "xla"), ("cuda", "flash", "xla")],
)
def test_flash_is_chosen_where_its_kernels_run(platform, half, full):
    with on(platform):
        assert choose_kernel("auto", jnp.bfloat16, 128) == choose_kernel("auto", jnp.float16, 24) == half
        assert choose_kernel("auto", jnp.float32, 64) == full
        assert choose_kernel("auto", jnp.bfloat16, 129) == full  # a GPU's shared memory holds no wider ones
        assert choose_kernel("xla", jnp.bfloat16, 128) == choose_kernel("xla", jnp.float32, 64) == "xla"


def test_an_unknown_kernel_is_refused():
    with pytest.raises(KeyError, match="dense"):
        choose_kernel("dense", jnp.float32, 64)


def test_prefill_keeps_keys_and_values_and_training_keeps_nothing_new():
    _, q, k, v = example(12)
    sight = Sight.within(jnp.ones((2, 12), jnp.int32))
    mixed, kept = training_attention(sight)(q, k, v, None)
    again, (keys, values) = prefill_attention(sight)(q, k, v, None)
    assert kept is None
    np.testing.assert_array_equal(mixed, again)
    np.testing.assert_array_equal(keys, k)
    np.testing.assert_array_equal(values, v)


def test_packed_prompts_are_prefilled_as_each_by_itself():
    _, q, k, v = example(40)
    segments = jnp.array([[1] * 25 + [0] * 7 + [2] * 8] * 2)
    packed = mixed_by(prefill_attention(Sight.within(segments)))(q, k, v)
    for prompt in (slice(0, 25), slice(32, 40)):
        mask = whole_mask(Sight.within(segments[:, prompt]))
        alone = masked_attention(q[:, prompt], k[:, prompt], v[:, prompt], mask)
        np.testing.assert_allclose(packed[:, prompt], alone, atol=1e-5)


@pytest.mark.gpu
def test_flash_equals_the_reference_with_its_gradients_on_a_gpu():
    sight, (_, q, k, v) = packed_sight(0, 1536), example(1536, jnp.bfloat16, head_dim=128)
    check_equal(mixed_by(training_attention(sight, "flash")), sight, q, k, v, tolerance=0.03)


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
        jax.eval_shape(TargetScores(model, 16, 1.0), sharded, batch)
    with pytest.raises(KeyError, match="no kernel's name"):
        prompt_pages.eval_shape(model, mesh, apart, prompts)
