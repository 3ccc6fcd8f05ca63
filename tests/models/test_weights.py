"""Weights come from and go to Hugging Face directories bit for bit, and a wrong checkpoint is named."""

import json
import shutil
import tracemalloc
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from safetensors.numpy import load_file, save_file

from codea1_jax.common.errors import UserError
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, abstract_params, init_params
from codea1_jax.models.published import QWEN25
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.weights import (
    INDEX,
    SINGLE,
    WeightsError,
    load_params,
    placements,
    read_config,
    resolve,
    save_params,
    stored_dtype,
)
from codea1_jax.rollout.decode_params import abstract_decode_params, to_decode_params

FIXTURES = Path(__file__).parents[1] / "fixtures" / "families"

MODELS = sorted(path.parent.name for path in FIXTURES.glob("*/config.json"))


def tensors_of(directory):
    tensors = {}
    for path in sorted(directory.glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors


def as_bits(tensors):
    return {name: (value.dtype.name, value.shape, value.tobytes()) for name, value in tensors.items()}


@pytest.mark.parametrize("size", QWEN25)
def test_tensor_names_and_shapes_are_those_of_the_published_checkpoints(size):
    published = json.loads((FIXTURES / "tensors.json").read_text())[size]
    expected = {}
    for name, shape in published["shapes"].items():
        layers = range(published["layers"]) if ".layers.0." in name else range(1)
        expected |= {name.replace(".layers.0.", f".layers.{layer}."): tuple(shape) for layer in layers}
    ours = {
        name: place.tensor_shape(leaf.shape)
        for place, leaf in placements(Transformer(QWEN25[size])).items()
        for name in place.names
    }
    assert ours == expected
    assert len(ours) == published["tensors"]


@pytest.mark.parametrize("name", MODELS)
def test_round_trip_is_bit_exact(name, tmp_path):
    config = read_config(FIXTURES / name)
    params = load_params(FIXTURES / name, Transformer(config))
    save_params(tmp_path, params, config, 20_000)
    assert as_bits(tensors_of(tmp_path)) == as_bits(tensors_of(FIXTURES / name))
    assert read_config(tmp_path) == config
    again = load_params(tmp_path, Transformer(config))
    jax.tree.map(np.testing.assert_array_equal, again, params)


@pytest.mark.parametrize("name", MODELS)
def test_weights_read_as_a_sampler_holds_them_are_those_that_are_brought_there(name):
    model, mesh = Transformer(read_config(FIXTURES / name)), one_device_mesh()
    read = load_params(FIXTURES / name, model, abstract_decode_params(model, mesh))
    jax.tree.map(
        np.testing.assert_array_equal, read, to_decode_params(model, mesh)(load_params(FIXTURES / name, model))
    )


def test_bfloat16_round_trip_is_bit_exact(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    shutil.copy(FIXTURES / "mha_tied" / "config.json", source)
    random, finite = np.random.default_rng(0), 0xBFFF  # no compiler has to keep what a NaN holds
    tensors = {
        name: (random.integers(0, 2**16, value.shape, np.uint16) & finite).view(ml_dtypes.bfloat16)
        for name, value in tensors_of(FIXTURES / "mha_tied").items()
    }
    save_file(tensors, source / SINGLE)
    config = read_config(source)
    params = load_params(source, Transformer(config, param_dtype=jnp.bfloat16))
    save_params(target, params, config)
    assert as_bits(tensors_of(target)) == as_bits(tensors)
    assert json.loads((target / "config.json").read_text())["torch_dtype"] == "bfloat16"


def test_files_and_index_agree_and_keep_to_the_size(tmp_path):
    config = read_config(FIXTURES / "gqa7_tied")
    save_params(tmp_path, load_params(FIXTURES / "gqa7_tied", Transformer(config)), config, 20_000)
    index = json.loads((tmp_path / INDEX).read_text())
    files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
    assert files == [f"model-{i + 1:05}-of-{len(files):05}.safetensors" for i in range(len(files))]
    held = {name: file for file in files for name in load_file(tmp_path / file)}
    assert index["weight_map"] == held
    assert index["metadata"]["total_size"] == sum(x.nbytes for x in tensors_of(tmp_path).values())
    for file in files:
        tensors = load_file(tmp_path / file)
        assert len(tensors) == 1 or sum(x.nbytes for x in tensors.values()) <= 20_000


def test_whoever_may_read_the_directory_may_read_its_files(tmp_path):
    config = read_config(FIXTURES / "mha_tied")
    tmp_path.chmod(0o755)
    save_params(tmp_path, load_params(FIXTURES / "mha_tied", Transformer(config)), config)
    assert (tmp_path / "model.safetensors").stat().st_mode & 0o777 == 0o644


def test_missing_unexpected_and_misshapen_tensors_are_all_named(tmp_path):
    shutil.copy(FIXTURES / "mha_tied" / "config.json", tmp_path)
    tensors = tensors_of(FIXTURES / "mha_tied")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    tensors["model.layers.2.mlp.up_proj.weight"] = np.zeros((2, 2), np.float32)
    tensors["model.norm.weight"] = np.ones(7, np.float32)
    save_file(tensors, tmp_path / SINGLE)
    with pytest.raises(WeightsError) as error:
        load_params(tmp_path, Transformer(read_config(tmp_path)))
    assert "missing model.layers.1.mlp.up_proj.weight" in str(error.value)
    assert "unexpected model.layers.2.mlp.up_proj.weight" in str(error.value)
    assert "model.norm.weight has shape (7,), not (32,)" in str(error.value)


def test_an_absent_file_is_named(tmp_path):
    shutil.copytree(FIXTURES / "gqa2_untied", tmp_path, dirs_exist_ok=True)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(WeightsError, match="model-00002-of-00002"):
        load_params(tmp_path, Transformer(read_config(tmp_path)))


def test_a_tied_checkpoint_that_repeats_its_table_is_accepted(tmp_path):
    shutil.copy(FIXTURES / "mha_tied" / "config.json", tmp_path)
    tensors = tensors_of(FIXTURES / "mha_tied")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    save_file(tensors, tmp_path / SINGLE)
    load_params(tmp_path, Transformer(read_config(tmp_path)))


def test_reading_never_holds_the_model_twice_on_the_host(tmp_path):
    config = Architecture(512, 256, 512, 8, 4, 2, 64, tie_embeddings=False)
    model = Transformer(config)
    save_params(tmp_path, init_params(model, jax.random.key(0)), config, 10**6)
    size = sum(leaf.size * 4 for leaf in jax.tree.leaves(abstract_params(model)))
    tracemalloc.start()
    load_params(tmp_path, model)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.25 * size


def test_a_local_directory_is_itself_and_a_wrong_path_is_refused(tmp_path):
    assert resolve(str(tmp_path)) == tmp_path
    with pytest.raises(UserError, match="no such directory"):
        resolve(str(tmp_path / "nowhere"))
    with pytest.raises(UserError, match="not a Hub id"):
        resolve("nowhere")


def test_a_hub_id_is_downloaded_with_weights_config_and_tokenizer(monkeypatch, tmp_path):
    asked = {}

    def download(name, allow_patterns):
        asked[name] = allow_patterns
        return str(tmp_path)

    monkeypatch.setattr("codea1_jax.models.weights.snapshot_download", download)
    assert resolve("Qwen/Qwen2.5-Coder-1.5B-Instruct") == tmp_path
    assert set(asked) == {"Qwen/Qwen2.5-Coder-1.5B-Instruct"}
    assert {"*.safetensors", "*.json"} <= set(asked["Qwen/Qwen2.5-Coder-1.5B-Instruct"])


def test_a_download_that_fails_is_one_line(monkeypatch):
    def download(name, allow_patterns):
        raise LocalEntryNotFoundError("no connection\nand a long story")

    monkeypatch.setattr("codea1_jax.models.weights.snapshot_download", download)
    with pytest.raises(UserError, match=r"^a/b: .* nor available from the Hub: no connection; .* `hf download a/b "):
        resolve("a/b")


def test_the_type_of_the_tensors_is_told_or_asked_for(tmp_path):
    assert stored_dtype(FIXTURES / "gqa2_untied") == "float32"
    tensors = tensors_of(FIXTURES / "mha_tied")
    tensors["model.norm.weight"] = tensors["model.norm.weight"].astype(np.float16)
    save_file(tensors, tmp_path / SINGLE)
    with pytest.raises(WeightsError, match="F16, F32; choose the type to convert to"):
        stored_dtype(tmp_path)
