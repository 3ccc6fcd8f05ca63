"""`codea1 convert`: what it writes is the same to the last bit."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from one_line import refused
from safetensors.numpy import load_file
from tiny_run import SETTINGS

from codea1_jax.cli import main
from codea1_jax.config import Config, load
from codea1_jax.learn import PolicyState
from codea1_jax.models.decoder import init_params
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.weights import load_params
from codea1_jax.run.rundir import RunDir
from codea1_jax.training.policies import make_policy


def tensors_of(directory: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    found = {}
    for path in sorted(directory.glob("*.safetensors")):
        found |= {name: (x.dtype.name, x.shape, x.tobytes()) for name, x in load_file(path).items()}
    return found


@pytest.fixture(scope="module")
def policy() -> Policy:
    config = load(Config, "micro/a1_paper", [*SETTINGS, "run.directory=unused"])
    return make_policy(config.model)


@pytest.fixture(scope="module")
def params(policy) -> dict[str, Any]:
    """Of two policies."""
    draw = jax.jit(partial(init_params, policy.model))
    return {role: draw(jax.random.key(seed)) for seed, role in enumerate(("code", "test"))}


@pytest.fixture(scope="module")
def model(policy, params, tmp_path_factory) -> Path:
    """A Hugging Face directory in several files."""
    directory = tmp_path_factory.mktemp("hub") / "model"
    save_policy(directory, policy, params["code"], file_bytes=20_000)
    return directory


def test_a_model_directory_is_written_again_bit_for_bit_with_config_and_tokenizer(model, tmp_path, capsys):
    again = tmp_path / "again"
    assert main(["convert", str(model), str(again)]) == 0
    assert capsys.readouterr().out.split() == [str(again)]
    assert tensors_of(again) == tensors_of(model)
    for name in ("config.json", "tokenizer.json", "generation_config.json"):
        assert (again / name).read_text() == (model / name).read_text()


def test_bfloat16_is_rounded_once_and_kept(model, tmp_path):
    half, again = tmp_path / "half", tmp_path / "again"
    assert main(["convert", str(model), str(half), "--dtype", "bfloat16"]) == 0
    assert json.loads((half / "config.json").read_text())["torch_dtype"] == "bfloat16"
    assert main(["convert", str(half), str(again)]) == 0
    assert tensors_of(again) == tensors_of(half)
    assert {dtype for dtype, *_ in tensors_of(half).values()} == {"bfloat16"}
    whole = load_file(next(iter(sorted(model.glob("*.safetensors")))))
    for name, x in whole.items():
        assert tensors_of(half)[name][2] == np.asarray(jax.numpy.asarray(x).astype("bfloat16")).tobytes()


@pytest.fixture(scope="module")
def run(params, tmp_path_factory) -> Path:
    """A run with a checkpoint of two policies."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    config = load(Config, "micro/a1_paper", [*SETTINGS, f"run.directory={directory}"])
    state = {role: PolicyState(p, {"moments": p}, jax.numpy.zeros((), int)) for role, p in params.items()}
    with RunDir(directory, config, resume=False) as opened:
        opened.save(3, {**state, "reference": params["code"]}, {})
    return directory


def test_a_policy_of_a_run_becomes_a_hugging_face_directory(run, params, tmp_path):
    assert main(["convert", str(run), str(tmp_path / "tests"), "--role", "test"]) == 0
    out = pretrained_policy(tmp_path / "tests")
    jax.tree.map(np.testing.assert_array_equal, load_params(tmp_path / "tests", out.model), params["test"])


@pytest.mark.parametrize("more", [(), ("--role", "reference"), ("--role", "nobody")])
def test_a_run_is_asked_for_one_of_its_policies(more, run, tmp_path, capsys):
    assert main(["convert", str(run), str(tmp_path / "out"), *more]) == 2
    assert "choose one of its policies with --role=code|test" in capsys.readouterr().err


def test_wrong_sources_and_destinations_are_refused_in_a_line(model, tmp_path, capsys):
    out = str(tmp_path / "out")
    assert "no such directory" in refused(capsys, "convert", str(tmp_path / "nowhere"), out)
    assert "no config.json" in refused(capsys, "convert", str(model.parent), out)
    assert "is not a run" in refused(capsys, "convert", str(model), out, "--role", "code")
    assert "already exists" in refused(capsys, "convert", str(model), str(model))


def test_missing_arrays_are_named(model, tmp_path, capsys):
    torn = tmp_path / "torn"
    shutil.copytree(model, torn)
    index = json.loads((torn / "model.safetensors.index.json").read_text())
    lost = index["weight_map"]["model.norm.weight"]
    index["weight_map"] = {name: file for name, file in index["weight_map"].items() if file != lost}
    (torn / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "missing model.norm.weight" in refused(capsys, "convert", str(torn), str(tmp_path / "out"))
