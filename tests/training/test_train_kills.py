"""Runs that are killed again and again, in every stage of training, end like one that never was."""

import random
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import killed_run
import pytest
from tiny_run import assert_same_end, finish, start_codea1, start_script, train_arguments, without_times

from codea1_jax.common.files import read_lines
from codea1_jax.run.telemetry import rollouts_path
from data_pipeline import micro, problem_files
from sandbox import Task

DAPO = (
    "train.refill=2",
    "rewards={advantages: rloo, test_value: mutation, only_right: true}",
    "code.grpo.mask_truncated=true",
    "code.grpo.importance_cap=2",
    "test.grpo.mask_truncated=true",
)
STAGES = {"generation": 0.6, "judging": 0.05, "update": 0.6, "checkpoint": 0.3}  # seconds a stage takes, about
KILLS_OF_A_RUN = 5


def run_and_kill(
    directory: Path, settings: Sequence[str], number: signal.Signals, stage: str, draw: random.Random
) -> bool:
    """Goes on with a run until it is killed in the stage; or to its end, if it gets there first."""
    instant = (stage, str(draw.randint(1, 2)), f"{draw.uniform(0, STAGES[stage]):.4f}", number.name)
    process = start_script(killed_run.__file__, *instant, *train_arguments(directory, *settings, "--resume"))
    _, said = process.communicate()
    stopped = -signal.SIGKILL if number == signal.SIGKILL else 130
    assert process.returncode in (0, stopped, -number), said  # the last: when all had been done
    return process.returncode == stopped


def mixed_questions(directory: Path) -> tuple[str, ...]:
    """The settings of a run on functions and streams."""
    source = directory / "mixed.jsonl"
    problem_files.write(source, [*micro.problems("train", 3, 0), *micro.problems("train", 3, 1, micro.STREAM)])
    return f"data.source={source}", "eval.every=0", "model.architecture.words=stream"


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "number", "seed"),
    [((), signal.SIGKILL, 1), (DAPO, signal.SIGKILL, 7), ((), signal.SIGTERM, 2), (None, signal.SIGKILL, 4)],
    ids=["a1", "DAPO", "terminated", "functions and streams"],
)
def test_a_run_killed_at_random_instants_ends_like_one_that_was_not(settings, number, seed, tmp_path):
    mixed = settings is None
    settings = mixed_questions(tmp_path) if mixed else settings
    straight = tmp_path / "straight"
    finish(start_codea1(*train_arguments(straight, *settings)))
    draw = random.Random(seed)
    stages = [*STAGES, *STAGES]
    draw.shuffle(stages)
    struck: Counter[str] = Counter()
    run, kills_of_run = 0, 0
    for attempt in range(3 * len(stages)):
        stage = stages[attempt % len(stages)]
        killed = run_and_kill(tmp_path / "killed" / str(run), settings, number, stage, draw)
        struck[stage] += killed
        kills_of_run += killed
        if struck.total() == len(stages):
            break
        if not killed or kills_of_run == KILLS_OF_A_RUN:  # it has got to its end, or has suffered enough
            run, kills_of_run = run + 1, 0
    assert struck.total() == len(stages)
    assert struck.keys() == STAGES.keys() and min(struck.values()) >= 1, struck
    for directory in (tmp_path / "killed").iterdir():
        finish(start_codea1(*train_arguments(directory, *settings, "--resume")))
        assert without_times(directory) == without_times(straight)
        assert_same_end(directory / "checkpoints", straight / "checkpoints", 4)
    if mixed:
        records = (record for step in range(1, 5) for record in read_lines(rollouts_path(straight, step)))
        assert {record["task"] for record in records} == {Task.FUNCTION, Task.STREAM}
