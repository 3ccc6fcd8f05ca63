"""Whole training runs: what a step does, and that a stopped run continues as if it had never stopped."""

import contextlib
import json
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from full_disk import file_size_limit
from interrupted_run import train_from
from tiny_run import ROOT, SETTINGS, assert_same_end, first_run, saved, train_arguments, without_times

from codea1_jax import cli
from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.game.selection import can_teach
from codea1_jax.models.decoder import init_params
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.run.rundir import RunDir
from codea1_jax.run.telemetry import rollout_steps, rollouts_path
from codea1_jax.training import policies
from codea1_jax.training.draw import play_step
from codea1_jax.training.parts import Training, make_judge, make_training
from codea1_jax.training.start import start
from codea1_jax.training.state import State, pack_state
from codea1_jax.training.step import learn, play
from sandbox import Judge

# --- stopped runs -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as kill -9 leaves it in the save of its last step, resumed with that step profiled."""
    directory = shutil.copytree(first_run(), tmp_path_factory.mktemp("killed") / "run")
    (directory / "summary.json").unlink()
    (directory / "checkpoints" / "4").rename(directory / "checkpoints" / "4.orbax-checkpoint-tmp")
    assert cli.main(train_arguments(directory, "train.profile=4", "--resume")) == 0
    return directory


def test_a_killed_ends_in_the_same_figures_rollouts_and_state_bit_for_bit(killed):
    whole = first_run()
    lines = without_times(whole)
    events = [(line["kind"], line["step"]) for line in lines]
    trained, evaluated = [("train", step) for step in range(1, 5)], [("eval", step) for step in (0, 2, 4)]
    assert events == [("start", 0), evaluated[0], *trained[:2], evaluated[1], *trained[2:], evaluated[2]]
    assert without_times(killed) == lines
    assert rollout_steps(whole) == rollout_steps(killed) == [1, 2, 3, 4]
    for step in range(1, 5):
        assert rollouts_path(whole, step).read_bytes() == rollouts_path(killed, step).read_bytes()
    assert_same_end(whole / "checkpoints", killed / "checkpoints", 4)
    started = next(line for line in read_lines(killed / "metrics.jsonl") if line["kind"] == "start")
    summary = json.loads((killed / "summary.json").read_text())
    assert summary["seconds"]["before_training"] == started["seconds/before_training"]  # of its first start


def test_what_is_compared_is_all_there_is_and_has_moved():
    lines = [line for line in without_times(first_run()) if line["kind"] == "train"]
    assert min(max(line[name] for line in lines) for name in ("code/reward", "code/grad_norm", "test/grad_norm")) > 0.01
    assert any(record["book_before"] for record in read_lines(rollouts_path(first_run(), 4)))  # questions met again
    arrays, document = saved(first_run() / "checkpoints", 4)
    assert {name.split("'")[1] for name in arrays} == {"code", "test", "reference"}
    assert any("opt_state" in name for name in arrays)
    assert sum(len(page) for page in document["book"].values()) > 0


def test_a_step_is_profiled_and_the_trace_names_its_functions(killed):
    assert not (first_run() / "profile").exists()
    (trace,) = (killed / "profile").rglob("*.xplane.pb")
    assert b"decode" in trace.read_bytes() and b"gradient" in trace.read_bytes()


def test_every_figure_of_a_run_is_explained():
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    logged = {name for line in read_lines(first_run() / "metrics.jsonl") for name in line}
    figures = {re.sub("^(eval/.*)_(low|high)$", r"\1", name) for name in logged} - {"kind", "step", "time"}

    def pattern(name: str) -> re.Pattern[str]:
        for part, meaning in ("ROLE", "(code|test)"), ("STAGE", "(generate|update)_(code|tests?)"), ("_K", r"_\d+"):
            name = name.replace(part, meaning)
        return re.compile(name)

    explained = [pattern(name) for name in re.findall(r"`([\w/]+)`", "".join(rows))]
    assert [name for name in figures if not any(each.fullmatch(name) for each in explained)] == []


# --- a step -------------------------------------------------------------------------------------------


CONFIG = load(
    Config, "micro/a1_paper", [*SETTINGS, "run.directory=unused", "eval.every=0", "train.steps=3", "train.refill=1"]
)


@pytest.fixture(scope="module")
def training() -> Iterator[Training]:
    with make_judge(CONFIG.sandbox) as judge:
        yield make_training(CONFIG, judge)


def changed(before: Any, after: Any) -> bool:
    return any((a != b).any() for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True))


def test_a_step_by_the_papers_settings_changes_both_policies_apart_and_the_reference_never(training):
    state = start(training)
    grpo = CONFIG.code.grpo
    assert (grpo.kl_coef, grpo.mini_batch_questions, CONFIG.train.update_n) == (0.001, 1, 1)
    before = jax.device_get(state.reference)
    questions = training.loader()
    for step in (1, 2):
        played = play(training, state, next(questions))
        responses = {name: sum(map(len, groups)) for name, groups in played.groups.items()}
        state, metrics = learn(training, state, played)
        assert (state.step, state.policies["code"].step, state.policies["test"].step) == (step, step, step)
    assert not changed(before, jax.device_get(state.reference))
    assert changed(before, state.policies["code"].params)
    assert changed(before, state.policies["test"].params)
    assert changed(state.policies["code"].params, state.policies["test"].params)
    assert metrics["code/kl"] > 0
    assert metrics["test/kl"] > 0
    figures = {"ratio_mean", "clip_fraction_low", "clip_fraction_high", "clip_fraction_dual", "kl", "entropy", "loss"}
    figures |= {"grad_norm", "padding", "response_tokens", "truncated", "zero_variance"}
    for policy in ("code", "test"):
        assert {f"{policy}/{figure}" for figure in figures} < metrics.keys()
        tokens = metrics[f"tokens_per_second/update_{policy}"] * metrics[f"seconds/update_{policy}"]
        assert tokens == pytest.approx(metrics[f"{policy}/response_tokens"] * responses[policy])
    programs = [program for question in played.questions for program in question.programs]
    drawn = metrics["tokens_per_second/generate_code"] * metrics["seconds/generate_code"]
    assert drawn == pytest.approx(sum(len(program.response.completion.tokens) for program in programs))
    assert 0 < metrics["decode_goodput/generate_tests"] <= 1
    assert not any(name.startswith("mfu/") for name in metrics)  # a CPU's peak is not known


def test_nothing_is_trained_on_held_out_problems(training):
    trained, held_out = training.questions.train, training.questions.heldout
    assert len(trained) == 6
    assert len(held_out) == 2
    for of in (lambda p: p.id, lambda p: p.solution):
        assert not {of(p) for p in trained} & {of(p) for p in held_out}
    questions = training.loader()
    seen = {problem.id for _ in range(2 * training.total_steps) for problem in next(questions)}
    assert seen == {problem.id for problem in trained}


def test_policies_that_both_start_elsewhere_need_no_warm_start(training, monkeypatch):
    starts = [f"{name}.start={first_run()}" for name in ("code", "test")]
    config = load(Config, "micro/a1_paper", [*SETTINGS, *starts])
    further = make_training(config, training.games.judge)
    monkeypatch.setattr(policies.InitialWeights, "params", lambda *_: pytest.fail("weights for nobody"))
    state = start(further)
    arrays, _ = saved(first_run() / "checkpoints", 4)
    ended = [array for name, array in arrays.items() if re.findall(r"\w+", name)[:2] == ["code", "params"]]
    begun = map(np.asarray, jax.tree.leaves(state.policies["code"].params))
    assert sorted(np.sum(array, dtype="d") for array in begun) == sorted(np.sum(array, dtype="d") for array in ended)


def test_two_runs_may_make_the_same_warm_start_at_once(training, tmp_path, monkeypatch):
    def save_as_another_run_finishes(directory: Path, policy: Policy, params: Any) -> None:
        save_policy(directory, policy, params)
        shutil.copytree(directory, directory.with_name(directory.name.partition(".")[0]))

    ours = training.policies
    policy, weights = ours.named["code"], ours.weights["code"]
    weights = replace(weights, config=weights.config.model_copy(update={"warm_start_cache": str(tmp_path)}))
    made = init_params(policy.model, jax.random.key(1))
    monkeypatch.setattr(policies, "warm_start", lambda *_: made)
    monkeypatch.setattr(policies, "save_policy", save_as_another_run_finishes)
    assert not changed(made, weights.params(policy, ours.mesh))
    assert not changed(made, weights.params(policy, ours.mesh))  # the second time it is found
    assert len(list(tmp_path.iterdir())) == 1


def training_on(rows: Any, judge: Judge) -> Training:
    chosen = [f"data.source={rows.kodcode}", "data.heldout_problems=1000", "eval.every=0", "run.directory=unused"]
    return make_training(load(Config, "micro/a1_paper", [*SETTINGS, *chosen]), judge)


def test_questions_of_a_dataset_are_all_used_or_refused_by_name(rows):
    asked = {row["question_id"] for row in json.loads(rows.kodcode.read_text())}
    with make_judge(CONFIG.sandbox) as judge:
        questions = training_on(rows, judge).questions
    used = [problem.id for problem in (*questions.train, *questions.heldout)]
    refused = [refusal.id for refusal in questions.refused]
    assert sorted(used + refused) == sorted(asked)
    assert len(used) > 4 * len(refused)
    assert all(refusal.reason for refusal in questions.refused)


def test_a_step_on_a_datasets_questions_is_whole(real_rows):
    """Of real rows alone: their prompts are long, and programs for those take half a minute to compile."""
    with make_judge(CONFIG.sandbox) as judge:
        training = training_on(real_rows, judge)
        state = start(training)
        state, metrics = learn(training, state, play(training, state, next(training.loader())))
    assert (state.step, state.policies["code"].step, state.policies["test"].step) == (1, 1, 1)
    assert metrics["code/reward"] < 0.5  # of a model this small
    assert all(np.isfinite(value) for value in metrics.values())


# --- refilling ----------------------------------------------------------------------------------------


def test_a_step_plays_on_until_its_groups_teach_and_learns_from_those_first(training):
    state = start(training)
    played = play_step(training, state, training.loader())
    rounds = int(played.figures["refill/rounds"])
    assert len(played.questions) == 2 * (1 + rounds)
    alone = play(training, state, [question.problem for question in played.questions[:2]])
    assert played.questions[:2] == alone.questions  # what refilling adds comes after what is played without it
    for name in ("code", "test"):
        if not rounds:
            assert sum(can_teach(question, name) for question in played.questions) >= 2
        assert len(played.groups[name]) == 2
        assert (played.figures[f"{name}/dropped_tokens"] == 0) == (rounds == 0)
    shortfall = any(sum(can_teach(q, name) for q in played.questions[:2]) < 2 for name in ("code", "test"))
    assert (rounds > 0) == shortfall


def test_with_every_group_equal_the_bound_ends_a_step(training, monkeypatch):
    monkeypatch.setattr("codea1_jax.training.draw.can_teach", lambda *_: False)
    played = play_step(training, start(training), training.loader())
    assert played.figures["refill/rounds"] == 1 and len(played.questions) == 4
    assert [len(groups) for groups in played.groups.values()] == [2, 2]


def test_refilling_where_no_question_is_played_is_refused():
    with pytest.raises(UserError, match=r"train\.refill: method\.name=sft plays no question"):
        load(Config, "micro/a1_paper", [*SETTINGS, "run.directory=unused", "train.refill=1", "method.name=sft"])


# --- saving -------------------------------------------------------------------------------------------


def open_run(directory: Path, *, again: bool = False) -> RunDir:
    return RunDir(directory, CONFIG, CONFIG.checkpoint, resume=again)


def same_state(one: State, other: State) -> bool:
    (arrays, document), (others, document_of_other) = pack_state(one), pack_state(other)
    return not changed(arrays, others) and document == document_of_other


@pytest.fixture(scope="module")
def straight(training: Training, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """A run that nothing disturbed, and its last state."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with open_run(directory) as run:
        return directory, train_from(run, training)


def test_a_full_disk_is_a_clear_error_and_the_run_resumes_once_there_is_room(training, straight, tmp_path, monkeypatch):
    """The weights of the last step cannot be saved."""
    save = RunDir.save

    with contextlib.ExitStack() as disk, monkeypatch.context() as patch:

        def fails_late(run: RunDir, step: int, *state: Any) -> None:
            if step == 3:
                disk.enter_context(file_size_limit(20_000))
            save(run, step, *state)

        patch.setattr(RunDir, "save", fails_late)
        with pytest.raises(OSError, match=r"cannot save to .*\[2\]"), open_run(tmp_path) as run:
            train_from(run, training)
    with open_run(tmp_path, again=True) as run:
        assert run.resume_step == 2
        assert same_state(train_from(run, training), straight[1])
    assert without_times(tmp_path) == without_times(straight[0])


@pytest.mark.parametrize(
    ("method", "late", "step"), [("write_rollouts", True, 1), ("save", False, 2), ("save", True, 2)]
)
def test_ctrl_c_while_a_step_is_recorded_or_saved_neither_loses_nor_repeats_it(
    method, late, step, training, straight, tmp_path, monkeypatch
):
    works, steps = getattr(RunDir, method), []

    def interrupted(run: RunDir, step: int, *what: Any) -> None:
        steps.append(step)
        if not late:
            signal.raise_signal(signal.SIGINT)
        works(run, step, *what)
        if late:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunDir, method, interrupted)
        with pytest.raises(Interrupted, match="SIGINT"), open_run(tmp_path) as run:
            train_from(run, training)
    assert steps == [step]
    with open_run(tmp_path, again=True) as run:
        assert run.resume_step == step
        assert same_state(train_from(run, training), straight[1])
