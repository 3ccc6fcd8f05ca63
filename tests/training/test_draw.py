"""Groups that teach nothing make way for others (train.refill)."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from interrupted_run import interrupted_after, train_from
from tiny_run import SETTINGS, without_times

from codea1_jax.common.errors import Interrupted, UserError
from codea1_jax.config import Config, load
from codea1_jax.game.outcomes import can_teach
from codea1_jax.run.rundir import RunDir
from codea1_jax.training.draw import play
from codea1_jax.training.judges import make_judge
from codea1_jax.training.loop import train
from codea1_jax.training.parts import Training, make_training
from codea1_jax.training.start import resume, start
from codea1_jax.training.state import pack_state
from codea1_jax.training.step import begin

PRESET = "micro/a1_paper"
CONFIG = load(Config, PRESET, [*SETTINGS, "train.refill=2", "run.directory=unused", "eval.every=0"])


@pytest.fixture(scope="module")
def training() -> Iterator[Training]:
    with make_judge(CONFIG.sandbox) as judge:
        yield make_training(CONFIG, judge)


def open_run(directory: Path, *, again: bool = False) -> RunDir:
    return RunDir(directory, CONFIG, CONFIG.checkpoint, resume=again)


def test_a_step_plays_on_until_its_groups_teach_and_learns_from_those_first(training):
    state = start(training)
    played = play(training, state, training.loader())
    rounds = int(played.figures["refill/rounds"])
    assert len(played.questions) == 2 * (1 + rounds)
    alone = begin(training, state, [question.problem for question in played.questions[:2]]).result()
    assert played.questions[:2] == alone.questions  # what refilling adds comes after what is played without it
    for name in ("code", "test"):
        teaching = [can_teach(question, name) for question in played.questions]
        if rounds < 2:
            assert sum(teaching) >= 2
        assert len(played.groups[name]) == 2
        dropped = played.figures[f"{name}/dropped_tokens"]
        assert (dropped == 0) == (rounds == 0)
    shortfall = any(sum(can_teach(q, name) for q in played.questions[:2]) < 2 for name in ("code", "test"))
    assert (rounds > 0) == shortfall


def test_with_every_group_equal_the_bound_ends_a_step(training, monkeypatch):
    monkeypatch.setattr("codea1_jax.training.draw.can_teach", lambda *_: False)
    played = play(training, start(training), training.loader())
    assert played.figures["refill/rounds"] == 2 and len(played.questions) == 6
    assert [len(groups) for groups in played.groups.values()] == [2, 2]


def test_a_run_that_is_stopped_ends_the_same(training, tmp_path):
    with open_run(tmp_path / "straight") as run:
        end = train_from(run, training)
    with (
        interrupted_after(2),
        pytest.raises(Interrupted, match="SIGINT"),
        open_run(tmp_path / "stopped") as run,
    ):
        train_from(run, training)
    with open_run(tmp_path / "stopped", again=True) as run:
        resumed = train(training, resume(training, run), run)
    assert pack_state(replace(resumed, policies={}))[1] == pack_state(replace(end, policies={}))[1]
    assert without_times(tmp_path / "stopped") == without_times(tmp_path / "straight")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["train.refill=1", "train.async_steps=1"], "train.refill: a step that is drawn ahead cannot wait"),
        (["train.refill=1", "method.name=sft"], "train.refill: method.name=sft plays no question"),
    ],
)
def test_what_cannot_choose_by_verdicts_is_refused(overrides, says):
    caps = ["code.grpo.importance_cap=2", "test.grpo.importance_cap=2"]
    with pytest.raises(UserError, match=says):
        load(Config, PRESET, [*SETTINGS, *caps, *overrides, "run.directory=unused"])
