"""Whole training runs: what a step does, and that a stopped run continues as if it had never stopped."""

import contextlib
import json
import re
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tiny_run import (
    ROOT,
    SETTINGS,
    assert_same_end,
    finish,
    saved,
    start_codea1,
    steps_done,
    train_arguments,
    wait_until,
    without_times,
)

from codea1_jax.common.errors import Interrupted
from codea1_jax.common.files import read_lines
from codea1_jax.config import Config, load
from codea1_jax.evals.during_training import EVAL_STREAM
from codea1_jax.models.decoder import init_params
from codea1_jax.models.policy import Policy, save_policy
from codea1_jax.run.rundir import RunDir
from codea1_jax.run.telemetry import rollout_steps, rollouts_path
from codea1_jax.training import policies
from codea1_jax.training.judges import make_judge
from codea1_jax.training.loop import train
from codea1_jax.training.parts import Training, make_training
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import State, pack_state, unpack_state
from codea1_jax.training.step import begin, learn
from sandbox import Judge

# --- stopped runs -------------------------------------------------------------------------------------


# A process a fixture: each has a time of its own, after which the test counts as stuck.


@pytest.fixture(scope="module")
def straight_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody stops, which makes what the other one starts from, and compiles what it needs."""
    directory = tmp_path_factory.mktemp("straight")
    finish(start_codea1(*train_arguments(directory)))
    return directory


@pytest.fixture(scope="module")
def interrupted(straight_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run whose terminal was closed after step 1."""
    directory = tmp_path_factory.mktemp("stopped")
    process = start_codea1(*train_arguments(directory))
    wait_until(lambda: steps_done(directory) >= 1, process)
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate(timeout=300)
    return {"directory": directory, "code": process.returncode, "said": said, "steps": steps_done(directory)}


@pytest.fixture(scope="module")
def killed(interrupted: dict[str, Any]) -> dict[str, Any]:
    """The same run, resumed, which met kill -9 after step 3: before step 4 or, where steps are fast, before its end."""
    directory = interrupted["directory"]
    process = start_codea1(*train_arguments(directory, "--resume"))
    wait_until(lambda: steps_done(directory) >= 3 and (directory / "checkpoints" / "2").exists(), process)
    process.kill()
    process.communicate()
    return {"directory": directory, "code": process.returncode, "steps": steps_done(directory)}


@pytest.fixture(scope="module")
def runs(straight_run: Path, killed: dict[str, Any]) -> dict[str, Path]:
    """The run straight through, and the one that was stopped twice, resumed to its end with its last step profiled."""
    finish(start_codea1(*train_arguments(killed["directory"], "train.profile=4", "--resume")))
    return {"straight": straight_run, "stopped": killed["directory"]}


def test_a_lost_terminal_saves_and_says_how_to_resume(interrupted):
    assert interrupted["code"] == 130
    assert "stopped by SIGHUP" in interrupted["said"] and "--resume" in interrupted["said"]
    assert "Traceback" not in interrupted["said"]
    assert interrupted["steps"] < 4


def test_the_killed_run_was_killed_on_the_way(killed):
    assert killed["code"] == -signal.SIGKILL and killed["steps"] >= 3


def test_a_stopped_run_logs_the_same_figures_to_the_last_bit(runs):
    straight = without_times(runs["straight"])
    assert [(line["kind"], line["step"]) for line in straight] == [
        ("start", 0),
        ("eval", 0),
        ("train", 1),
        ("train", 2),
        ("eval", 2),
        ("train", 3),
        ("train", 4),
        ("eval", 4),
    ]
    assert without_times(runs["stopped"]) == straight


def test_a_stopped_runs_time_before_training_is_that_of_its_first_start(runs):
    lines, summary = (runs["stopped"] / name for name in ("metrics.jsonl", "summary.json"))
    (started,) = (line for line in read_lines(lines) if line["kind"] == "start")
    assert json.loads(summary.read_text())["seconds"]["before_training"] == started["seconds/before_training"]


def test_a_stopped_run_records_the_same_rollouts(runs):
    assert rollout_steps(runs["straight"]) == rollout_steps(runs["stopped"]) == [1, 2, 3, 4]
    for step in range(1, 5):
        straight, stopped = (rollouts_path(runs[name], step).read_text() for name in ("straight", "stopped"))
        assert straight == stopped
        assert len(straight.splitlines()) == 2


def test_a_stopped_run_ends_in_the_same_state_bit_for_bit(runs):
    assert_same_end(runs["straight"] / "checkpoints", runs["stopped"] / "checkpoints", 4)
    arrays, document = saved(runs["straight"] / "checkpoints", 4)
    # What is compared is all there is: two policies, their optimizers, the reference, and a book with tests in it.
    assert {name.split("'")[1] for name in arrays} == {"code", "test", "reference"}
    assert any("opt_state" in name for name in arrays)
    assert sum(len(page) for page in document["book"].values()) > 0


def test_a_step_is_profiled_which_changes_nothing_of_it(runs):
    """What it computes is compared above; the trace names the functions of the step's programs."""
    assert not (runs["straight"] / "profile").exists()
    (trace,) = (runs["stopped"] / "profile").rglob("*.xplane.pb")
    assert b"decode" in trace.read_bytes() and b"gradient" in trace.read_bytes()


def test_every_figure_of_a_run_is_explained_and_no_other(runs):
    """But for those that need a supervised run, a benchmark, a correction, refilling, or devices of a known peak."""
    rows = re.findall(r"^\| (`.*?) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    logged = {name for line in read_lines(runs["straight"] / "metrics.jsonl") for name in line}
    figures = {re.sub("^(eval/.*)_(low|high)$", r"\1", name) for name in logged} - {"kind", "step", "time"}

    def pattern(name):
        for part, meaning in ("ROLE", "(code|test)"), ("STAGE", "(generate|update)_(code|tests?)"), ("_K", r"_\d+"):
            name = name.replace(part, meaning)
        return re.compile(name)

    explained = [pattern(name) for name in re.findall(r"`([\w/]+)`", "".join(rows))]
    assert [name for name in figures if not any(each.fullmatch(name) for each in explained)] == []
    unused = {each.pattern for each in explained if not any(each.fullmatch(name) for name in figures)}
    refilling = "refill/rounds", "code/dropped_tokens", "test/dropped_tokens"
    right_tests = ("eval/trivial_tests",)  # which such a small model may not write
    needing = "eval/heldout_logprob", "mfu/STAGE", "ROLE/clip_fraction_importance", *refilling, *right_tests
    assert unused <= {pattern(name).pattern for name in needing}


def test_the_runs_were_no_empty_exercise(runs):
    lines = [line for line in without_times(runs["straight"]) if line["kind"] == "train"]
    assert max(line["code/reward"] for line in lines) > 0
    assert max(line["code/grad_norm"] for line in lines) > 0.01
    assert max(line["test/grad_norm"] for line in lines) > 0.01
    records = [json.loads(line) for line in rollouts_path(runs["straight"], 4).read_text().splitlines()]
    assert any(record["book_before"] for record in records)  # step 4 meets questions again


# --- a step -------------------------------------------------------------------------------------------


CONFIG = load(Config, "micro/a1_paper", [*SETTINGS, "run.directory=unused", "eval.every=0"])


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
        played = begin(training, state, next(questions)).result()
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


def test_the_state_survives_its_own_packing(training):
    state = start(training)
    questions = training.loader()
    state, _ = learn(training, state, begin(training, state, next(questions)).result())
    state = replace(state, data=questions.get_state())
    assert state.book
    arrays, document = pack_state(state)
    again = unpack_state(arrays, json.loads(json.dumps(document)))
    assert (again.step, again.data) == (state.step, state.data)
    assert {name: list(page.items()) for name, page in again.book.items()} == {
        name: list(page.items()) for name, page in state.book.items()
    }


def test_nothing_is_trained_on_held_out_problems(training):
    trained, held_out = training.questions.train, training.questions.heldout
    assert len(trained) == 6
    assert len(held_out) == 2
    for of in (lambda p: p.id, lambda p: p.solution):
        assert not {of(p) for p in trained} & {of(p) for p in held_out}
    questions = training.loader()
    seen = {problem.id for _ in range(2 * training.total_steps) for problem in next(questions)}
    assert seen == {problem.id for problem in trained}


def test_policies_that_both_start_elsewhere_need_no_warm_start(training, straight_run, monkeypatch):
    starts = [f"{name}.start={straight_run}" for name in ("code", "test")]
    config = load(Config, "micro/a1_paper", [*SETTINGS, *starts])
    further = make_training(config, training.games.judge)
    monkeypatch.setattr(policies.InitialWeights, "params", lambda *_: pytest.fail("weights for nobody"))
    state = start(further)
    arrays, _ = saved(straight_run / "checkpoints", steps_done(straight_run))
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


def test_no_step_samples_from_the_streams_of_an_evaluation(training):
    assert training.total_steps < EVAL_STREAM


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
        state, metrics = learn(training, state, begin(training, state, next(training.loader())).result())
    assert (state.step, state.policies["code"].step, state.policies["test"].step) == (1, 1, 1)
    assert metrics["code/reward"] < 0.5  # of a model this small
    assert all(np.isfinite(value) for value in metrics.values())


# --- saving -------------------------------------------------------------------------------------------


def open_run(directory: Path, *, again: bool = False) -> RunDir:
    return RunDir(directory, CONFIG, CONFIG.checkpoint, resume=again)


def train_from(run: RunDir, training: Training) -> State:
    return train(training, start(training) if run.resume_step is None else resume(training, run), run)


@contextlib.contextmanager
def disk_that_fills_up() -> Iterator[Callable[[int], None]]:
    """Gives a function after which no file grows past that many bytes, as on a full disk, for any user."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def same_state(one: State, other: State) -> bool:
    (arrays, document), (others, document_of_other) = pack_state(one), pack_state(other)
    return not changed(arrays, others) and document == document_of_other


@pytest.fixture(scope="module")
def straight(training: Training, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """A run that nothing disturbed, and its last state."""
    directory = tmp_path_factory.mktemp("undisturbed")
    with open_run(directory) as run:
        return directory, train_from(run, training)


@pytest.mark.parametrize(("method", "room"), [("save", 20_000), ("log", 6_000)])
def test_a_full_disk_is_a_clear_error_and_the_run_goes_on_once_there_is_room(
    method, room, training, straight, tmp_path, monkeypatch
):
    """At step 4 the weights cannot be saved; or, already in step 3 or 4, a line of figures cannot be written."""
    works = getattr(RunDir, method)

    with disk_that_fills_up() as leave_room, monkeypatch.context() as patch:

        def fails_late(run: RunDir, *arguments: Any) -> None:
            step = next(argument for argument in arguments if isinstance(argument, int))
            if step == 4:
                leave_room(room)
            works(run, *arguments)

        patch.setattr(RunDir, method, fails_late)
        error = pytest.raises(OSError, match=r"cannot save to .*\[2\]|too large")
        with error, open_run(tmp_path) as run:
            train_from(run, training)
    with open_run(tmp_path, again=True) as run:
        assert run.resume_step == 2
        assert same_state(train_from(run, training), straight[1])
    assert without_times(tmp_path) == without_times(straight[0])


def test_ctrl_c_while_a_step_is_recorded_saves_that_step(training, straight, tmp_path, monkeypatch):
    write_rollouts = RunDir.write_rollouts

    def interrupted(run: RunDir, *what: Any) -> None:
        write_rollouts(run, *what)
        signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "write_rollouts", interrupted)
        with pytest.raises(Interrupted, match="SIGINT"), open_run(tmp_path) as run:
            train_from(run, training)
    with open_run(tmp_path, again=True) as run:
        assert run.resume_step == 1
        assert same_state(train_from(run, training), straight[1])


@pytest.mark.parametrize("late", [False, True])
def test_ctrl_c_during_a_save_neither_loses_nor_repeats_it(late, training, straight, tmp_path, monkeypatch):
    save, saves = RunDir.save, []

    def interrupted_save(run: RunDir, step: int, *state: Any) -> None:
        saves.append(step)
        if not late:
            signal.raise_signal(signal.SIGINT)
        save(run, step, *state)
        if late:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(RunDir, "save", interrupted_save)
        with pytest.raises(Interrupted, match="SIGINT"), open_run(tmp_path) as run:
            train_from(run, training)
    assert saves == [2]
    with open_run(tmp_path, again=True) as run:
        assert run.resume_step == 2
        assert same_state(train_from(run, training), straight[1])
