"""What a user names as a model writes programs and tests."""

import os
import shutil

import jax
import jax.numpy as jnp
import pytest

from codea1_jax.builders.answers import _prompts, make_player, model_identity
from codea1_jax.checkpoint.checkpoints import Checkpoints
from codea1_jax.config import Config, dump, load
from codea1_jax.errors import UserError
from codea1_jax.evals.answers.requests import next_test_request, program_requests
from codea1_jax.models.config import Qwen2Config
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.models.qwen2 import Qwen2, init_params
from codea1_jax.models.tokenizer import load_tokenizer, micro_tokenizer
from codea1_jax.rollout import Sampling
from data_pipeline import Problem

ONE = Problem("one", "Add one.", "def f(x):\n    return x + 1", "f", ())
TWO = Problem("two", "Add two.", "def f(x):\n    return x + 2", "f", ())
SAMPLING = Sampling(8, 1.0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    tokenizer = micro_tokenizer(["def ", "return "])
    shape = Qwen2Config(
        vocab_size=tokenizer.vocab_size,
        hidden_size=16,
        intermediate_size=32,
        num_layers=1,
        num_heads=2,
        num_kv_heads=1,
        head_dim=8,
    )
    policy = Policy(Qwen2(shape, jnp.dtype("float32"), jnp.dtype("float32"), "none"), tokenizer)
    path = tmp_path_factory.mktemp("model")
    save_policy(path, policy, init_params(policy.model, jax.random.key(0)))
    return path


def programs(player, problems):
    """By problem, the texts of two responses."""
    written = dict(player.programs(program_requests(problems, 2)))
    return [[each.response.text for each in written[i]] for i in range(len(problems))]


def test_a_models_directory_writes_the_same_for_a_problem_whatever_else_is_asked(directory):
    player = make_player(str(directory), "code", None, "", SAMPLING, seed=3)
    one, two = programs(player, [ONE, TWO])
    assert [len(one), len(two)] == [2, 2]
    assert programs(player, [TWO]) == [two]
    assert len({*one, *two}) == 4
    other = make_player(str(directory), "code", None, "", SAMPLING, seed=4)
    assert programs(other, [TWO]) != [two]
    ((written,),) = dict(player.suites([next_test_request(ONE, (), 0)])).values()
    assert written.suite.tests == ()  # random weights write no test
    assert programs(player, []) == []


def test_a_models_identity_is_that_of_its_files_and_not_of_its_name(directory, tmp_path):
    place = tmp_path / "model"
    shutil.copytree(directory, place)
    before = model_identity(str(place))
    assert before is not None and model_identity(str(place)) == before
    weights = place / "model.safetensors"
    os.utime(weights, ns=(0, 0))  # as on a machine that has downloaded it later
    assert model_identity(str(place)) == before == model_identity(str(directory))
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert model_identity(str(place)) != before
    assert model_identity("http://localhost:8000") is None


def test_a_runs_identity_is_that_of_the_checkpoint_that_is_meant(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text(dump(load(Config, "micro/a1")))
    with Checkpoints(run / "checkpoints") as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, {"x": jnp.zeros(2)}, {"metrics": [{"step": step}]})
            checkpoints.wait()
    assert model_identity(str(run)) == model_identity(f"{run}@2") != model_identity(f"{run}@1")
    with pytest.raises(UserError, match="no checkpoint of that step"):
        model_identity(f"{run}@3")


def test_a_model_without_a_chat_template_is_asked_plainly(directory):
    tokenizer = load_tokenizer(directory)
    assert tokenizer.hf.chat_template is not None
    asked = _prompts(tokenizer, None).code("Twice x.", "f")
    tokenizer.hf.chat_template = None
    assert _prompts(tokenizer, None).code("Twice x.", "f") == tokenizer.encode("Twice x.\n") != asked


def test_what_is_no_model_is_bad_input(tmp_path):
    with pytest.raises((UserError, OSError)):
        make_player(str(tmp_path / "none"), "code", None, "", SAMPLING, seed=0)
