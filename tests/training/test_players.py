"""What a user names as a model writes programs and tests."""

import json
import os
import shutil

import jax
import jax.numpy as jnp
import pytest
from scripted import asked

from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, dump, load
from codea1_jax.evals.requests import program_requests, suite_request
from codea1_jax.models.architecture import Architecture
from codea1_jax.models.decoder import Transformer, init_params
from codea1_jax.models.policy import Policy, pretrained_policy, save_policy
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.tokenizer import load_tokenizer, micro_tokenizer
from codea1_jax.rollout import Request, Sampling
from codea1_jax.rollout.decode import abstract_cache
from codea1_jax.runtime.checkpoints import Checkpoints
from codea1_jax.training import answers
from codea1_jax.training.answers import _prompts, make_player, model_identity
from codea1_jax.training.fitting import fitting_capacity, free_on_host
from data_pipeline import Problem

ONE = Problem("one", "Add one.", "def f(x):\n    return x + 1", "f", ())
TWO = Problem("two", "Add two.", "def f(x):\n    return x + 2", "f", ())
SAMPLING = Sampling(8, 1.0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    tokenizer = micro_tokenizer(["def ", "return "])
    shape = Architecture(tokenizer.vocab_size, 16, 32, 1, 2, 1, 8)
    policy = Policy(Transformer(shape, jnp.dtype("float32"), jnp.dtype("float32"), "none"), tokenizer)
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
    ((written,),) = dict(player.suites([suite_request(ONE, ONE.solution)])).values()
    assert written.suite.tests == ()  # random weights write no test
    assert programs(player, []) == []


def test_a_model_computes_in_the_type_that_is_asked_for(directory):
    player = make_player(str(directory), "code", None, "", SAMPLING, seed=3, dtype="float16")
    policy, params, *_ = player.sample.args
    assert {leaf.dtype for leaf in jax.tree.leaves(params)} == {jnp.dtype("float16")} == {policy.model.dtype}
    with pytest.raises(UserError, match=r"http://127.0.0.1:1 computes in a dtype of its own"):
        make_player("http://127.0.0.1:1", "code", "m", "", SAMPLING, seed=3, dtype="float16")


def tokens_of(written):
    return [each.response.completion.tokens for each in written]


def in_context(directory, tmp_path, tokens):
    """The same model with a context of so many tokens."""
    place = tmp_path / str(tokens)
    shutil.copytree(directory, place)
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps(config | {"max_position_embeddings": tokens}))
    return make_player(str(place), "code", None, "", SAMPLING, seed=3)


def test_responses_end_where_the_context_does_and_a_prompt_that_fills_it_is_refused_by_name(directory, tmp_path):
    requests = program_requests([ONE, TWO], 2)
    whole = dict(make_player(str(directory), "code", None, "", SAMPLING, seed=3).programs(requests))
    drawn = [tokens_of(whole[i]) for i in range(2)]
    prompt = len(whole[0][0].response.prompt)
    assert max(map(len, drawn[0])) > 3
    short = dict(in_context(directory, tmp_path, prompt + 3).programs(requests))
    for i in range(2):
        assert tokens_of(short[i]) == [tokens[:3] for tokens in drawn[i]]
    with pytest.raises(UserError, match=f"^one: its prompt of {prompt} tokens is longer than .* {prompt - 1};"):
        dict(in_context(directory, tmp_path, prompt).programs(requests))


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize("samples", [1, 32, 200])
@pytest.mark.parametrize("megabytes", [2, 20, 200])
def test_an_evaluations_cache_fits_into_the_memory_that_is_free(directory, copied, samples, megabytes):
    model, mesh = pretrained_policy(directory).model, one_device_mesh()
    requests = [Request((5,) * (100 + i), (i,), samples) for i in range(50)]
    capacity = fitting_capacity(model, mesh, requests, 512, megabytes << 20, copied=copied)
    held = sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(abstract_cache(model, capacity, mesh)))
    copies = capacity.slots * capacity.prompt_pages + capacity.rows * (capacity.response_pages + 1) if copied else 0
    assert held + held // capacity.pages * copies <= megabytes << 20
    assert capacity.rows == min(32 if copied else 256, 50 * samples) or (copied and megabytes < 200)
    assert capacity.block == (8 if copied else 32)


def test_on_a_cpu_more_samples_are_drawn_at_once_where_they_share_a_prompt(directory):
    given = pretrained_policy(directory).model, one_device_mesh()
    prompts = ((5,) * 100_000, 1), ((5,) * 100_000, 8), ((5,) * 1_000_000, 1)
    asked = [[Request(prompt, (i,), samples) for i in range(50)] for prompt, samples in prompts]
    made = [fitting_capacity(*given, requests, 8, 16 << 30, copied=True) for requests in asked]
    assert [each.rows for each in made] == [16, 32, 16]  # of 256 MiB, the short ones take 12.8 MB each, with copies
    assert made[2].pages > 16 * 1_000_000 // 8  # 16 take more where it is there
    assert 500_000 in made[2].prompt_buckets


def test_an_evaluation_with_little_memory_draws_the_same_and_with_none_says_what_it_needs(directory, monkeypatch):
    player = make_player(str(directory), "code", None, "", SAMPLING, seed=3)
    expected = programs(player, [ONE, TWO])
    monkeypatch.setattr(answers, "free_memory", lambda _: 40_000)
    assert programs(player, [ONE, TWO]) == expected
    monkeypatch.setattr(answers, "free_memory", lambda _: 1000)
    with pytest.raises(UserError, match=r"a response of 8 need .* make --max-tokens smaller"):
        programs(player, [ONE, TWO])


def test_memory_that_is_free_is_what_the_container_has_left(tmp_path):
    meminfo, cgroup = tmp_path / "meminfo", tmp_path / "cgroup"
    meminfo.write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert free_on_host(meminfo, cgroup) == 5000 * 1024
    cgroup.mkdir()
    (cgroup / "memory.stat").write_text("anon 1000000\nfile 7\nkernel 24\n")
    (cgroup / "memory.max").write_text("max\n")
    assert free_on_host(meminfo, cgroup) == 5000 * 1024
    (cgroup / "memory.max").write_text("3000000\n")
    assert free_on_host(meminfo, cgroup) == 1999976


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
    by_chat = _prompts(tokenizer, None, None).code(asked("Twice x."))
    tokenizer.hf.chat_template = None
    assert _prompts(tokenizer, None, None).code(asked("Twice x.")) == tokenizer.encode("Twice x.\n") != by_chat
