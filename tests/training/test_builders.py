"""The judge and the samplers that a configuration asks for, and the lengths that prompts share."""

import json
import logging
import re
from dataclasses import replace

import pytest
from tiny_run import ROOT

from codea1_jax.cli.plan import with_own_questions
from codea1_jax.common.errors import UserError
from codea1_jax.config import Config, load, preset_names
from codea1_jax.game.prompts import chat_prompts
from codea1_jax.models.sharding import one_device_mesh
from codea1_jax.models.tokenizer import micro_tokenizer
from codea1_jax.rollout.capacity import buckets, capacity_of
from codea1_jax.rollout.jetstream.engine import JetStreamSampler
from codea1_jax.training import parts
from codea1_jax.training.checks import check_run
from codea1_jax.training.parts import make_judge
from codea1_jax.training.policies import by_role, make_policies, make_policy, make_prompts
from codea1_jax.training.questions import NONE_GIVEN, GivenQuestions, Questions, load_questions
from codea1_jax.training.samplers import make_sampler
from codea1_jax.training.sources import count_questions
from data_pipeline import Problem
from sandbox import Job, SandboxPool, SandboxUnavailable


@pytest.fixture
def no_jail(monkeypatch):
    """A host on which no jail can be made."""

    def pool(workers, backend, limits, preload):
        if backend != "process":
            raise SandboxUnavailable("user namespaces are forbidden")
        return SandboxPool(1, backend, limits, preload)

    monkeypatch.setattr(parts, "SandboxPool", pool)


def test_without_a_jail_the_micro_preset_warns_and_judges_in_plain_processes(no_jail, caplog):
    with caplog.at_level(logging.WARNING), make_judge(load(Config, "micro/a1").sandbox) as pool:
        assert pool.execute([Job("def f(x):\n    return x + 1", ("f(1)",))])[0].outcomes[0].value == "2"
    assert "WITHOUT a jail" in caplog.text
    assert "user namespaces are forbidden" in caplog.text


def test_without_a_jail_and_without_the_fallback_nothing_is_judged(no_jail):
    config = load(Config, "micro/a1", ["sandbox.fallback=none"])
    with pytest.raises(SandboxUnavailable, match="user namespaces"):
        make_judge(config.sandbox)


KILLS_EVERYTHING = "import os\nos.register_at_fork(after_in_child=lambda: os._exit(0))\n"


def test_a_judge_that_fails_a_right_program_ends_the_run_in_one_line(tmp_path, monkeypatch):
    (tmp_path / "kills.py").write_text(KILLS_EVERYTHING)
    monkeypatch.syspath_prepend(tmp_path)
    settings = ["sandbox.backend=process", "sandbox.preload=[kills]", "sandbox.workers=1"]
    with pytest.raises(SandboxUnavailable, match=r"fails a right program \(crashed: .*\), so every") as caught:
        make_judge(load(Config, "micro/a1", settings).sandbox)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("longest", [1, 16, 29, 128, 129, 1000, 4096, 8192])
def test_the_last_bucket_is_the_longest_prompt_rounded_up_and_all_are_ascending(longest):
    lengths = buckets(longest)
    assert longest <= lengths[-1] < longest + 16
    assert list(lengths) == sorted(set(lengths))
    assert len(lengths) <= 7


def questions_of(*overrides: str, given: GivenQuestions = NONE_GIVEN) -> Questions:
    """Those of the pages' own file, as a run with these settings gets them."""
    config = load(Config, "micro/a1", [f"data.source={ROOT}/docs/problems.jsonl", "train.questions=1", *overrides])
    prompts = make_prompts(config, by_role(config, make_policies(config)))
    with SandboxPool(1, "process") as pool:
        return load_questions(config, prompts, pool, given)


def test_a_benchmark_that_is_not_there_is_told_before_any_question_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(SandboxPool, "submit", lambda *_: pytest.fail("judged"))
    with pytest.raises(UserError, match=r"^eval\.datasets: .*/none\.parquet: no such file$"):
        questions_of(f"eval.datasets=[{tmp_path}/none.parquet]")


@pytest.mark.parametrize(("share", "at_most", "held_out"), [(0.1, 256, 1), (0.9, 2, 2), (0.9, 0, 0), (0.0, 256, 0)])
def test_of_a_file_every_question_is_trained_on_or_held_out(share, at_most, held_out):
    questions = questions_of(f"data.heldout_share={share}", f"data.heldout_problems={at_most}")
    assert (len(questions.train), len(questions.heldout)) == (8 - held_out, held_out)


def test_a_file_names_the_held_out_questions_and_none_with_their_solution_is_trained_on(tmp_path):
    lines = (ROOT / "docs" / "problems.jsonl").read_text().splitlines()
    reworded = [json.loads(line) | {"id": f"again {i}"} for i, line in enumerate(lines[:2])]
    other = {"id": "new", "question": "Negate x.", "solution": "def neg(x):\n    return -x", "entry_point": "neg"}
    named = tmp_path / "heldout.jsonl"
    dropped = {"tests": ["assert neg(1) == -1", "print(neg(1))"]}
    named.write_text("\n".join(json.dumps(row) for row in (*reworded, other | dropped)))
    questions = questions_of(f"data.heldout={named}")
    assert [problem.id for problem in questions.heldout] == ["again 0", "again 1", "new"]
    assert [problem.id for problem in questions.train] == [json.loads(line)["id"] for line in lines[2:]]
    assert [test.id for test in questions.dropped] == ["new"]
    micro_too = questions_of(f"data.heldout={named}", "data.source=micro", "data.problems=3")
    assert (len(micro_too.train), len(micro_too.heldout)) == (3, 3)


def test_questions_given_in_python_stand_in_for_those_of_the_configuration():
    right = Problem("right", "Negate x.", "def neg(x):\n    return -x", "neg", ("assert neg(1) == -1",))
    wrong = replace(right, id="wrong", solution="def neg(x):\n    return x")
    questions = questions_of(given=GivenQuestions([right, wrong], [wrong]))
    assert (questions.train, questions.heldout) == ((right,), ())
    assert [refusal.id for refusal in questions.refused] == ["wrong", "wrong"]
    questions = questions_of(given=GivenQuestions(heldout=[right]))
    assert (len(questions.train), questions.heldout) == (8, (right,))


def test_questions_without_a_solution_are_refused():
    unsolved = Problem("unsolved", "Negate x.", "", "neg", ("assert neg(1) == -1",))
    with pytest.raises(UserError, match="leaves 0 questions, holds 0 out and refuses"):
        questions_of(given=GivenQuestions([unsolved]))


def test_a_limit_trains_on_that_many_questions_which_the_seed_chooses():
    every, again, other, third, more = (
        questions_of("data.heldout_share=0", *settings).train
        for settings in ((), *(("data.limit=3", f"run.seed={seed}") for seed in range(3)), ("data.limit=100",))
    )
    assert again == questions_of("data.heldout_share=0", "data.limit=3").train
    assert len({again, other, third}) > 1 and more == every
    for questions in (again, other, third):
        assert len(questions) == 3
        assert [question for question in every if question in questions] == list(questions)


def sampler_of(preset, *overrides):
    config = load(Config, preset, overrides)
    policy = make_policy(load(Config, "micro/a1").model)
    capacity = capacity_of(config.rollout, shards=1, prompts=1, samples=1, prompt=16, response=8)
    return make_sampler(config.rollout, policy, 0, capacity, one_device_mesh())


@pytest.mark.parametrize("preset", [name for name in preset_names() if name.endswith("/a1")])
def test_the_presets_of_accelerators_sample_through_jetstream_and_those_of_two_cores_do_not(preset):
    assert isinstance(sampler_of(preset), JetStreamSampler) == (not preset.startswith(("micro", "smollm2")))


def test_an_extra_that_is_not_installed_is_refused_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = load(Config, "micro/a1", ["rollout.engine=jetstream", f"run.directory={tmp_path / 'run'}"])
    with pytest.raises(UserError, match=r"pip install 'codea1-jax\[jetstream\]', or set rollout\.engine=core$"):
        check_run(config, resume=False)


def test_a_question_without_a_prompt_of_its_own_is_named_before_anything_is_trained():
    settings = [f"data.source={ROOT}/docs/problems.jsonl", "eval.datasets=[]", "prompts.source=dataset"]
    config = load(Config, "1.5b/a1", [*settings, "train.questions=1"])
    with SandboxPool(1) as pool, pytest.raises(UserError) as caught:
        load_questions(config, dict.fromkeys(("code", "test"), chat_prompts(micro_tokenizer(()), 8, own=True)), pool)
    assert re.match(
        r"prompts.source=dataset: 8 of 8 questions of .*problems.jsonl, such as \S+, have no", str(caught.value)
    )


def test_questions_are_counted_as_they_are_parted():
    for overrides in (["data.heldout_share=0.5"], ["data.heldout_share=0.5", "data.limit=2"], ["data.heldout_share=0"]):
        config = load(Config, "micro/a1", [f"data.source={ROOT}/docs/problems.jsonl", *overrides])
        questions, counts = questions_of(*overrides), count_questions(config)
        assert (len(questions.train), len(questions.heldout)) == counts


def test_a_plan_is_of_the_questions_that_are_here_and_says_whose_it_counts():
    config = load(Config, "1.5b/a1_h100x1", [f"data.source={ROOT}/docs/problems.jsonl", "data.heldout_share=0.5"])
    own, words = with_own_questions(config)
    counts = count_questions(config)
    assert (own.data.limit, own.data.heldout_problems) == counts
    assert words.startswith(f"steps of a run on {counts[0]} questions of ")
    paper = load(Config, "1.5b/a1_h100x1", ["data.source=absent"])
    assert with_own_questions(paper) == (paper, "steps of a run on 9,688 of the paper's questions; absent is not here")


@pytest.mark.parametrize("role", ["code", "test"])
def test_lengths_beyond_a_models_context_are_refused_before_anything_is_sampled(role):
    lengths = f"rollout.{role}_prompt_tokens=32000", f"rollout.{role}_tokens=800"
    message = re.escape(f"rollout.{role}_prompt_tokens + rollout.{role}_tokens = 32800 is more than the context")
    with pytest.raises(UserError, match=message):
        make_policies(load(Config, "micro/a1", lengths))
    if role == "test":  # which nobody plays
        make_policies(load(Config, "micro/golden", lengths))
